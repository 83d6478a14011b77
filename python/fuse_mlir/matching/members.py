# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes chains of modules from a model by the names of their members.

A chain calls its members as the model does, as far as their arguments depend on
one input.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from fuse_mlir.errors import BlockError, FlowError
from fuse_mlir.matching.candidates import chains_below
from fuse_mlir.matching.dataflow import Flow, observe
from fuse_mlir.matching.plans import Source, Step, run_chain
from fuse_mlir.matching.sites import observed_chain
from fuse_mlir.support.types import Inputs


class Chain(nn.Module):
    """Modules of a model, called as `steps` say.

    The members keep their dotted paths, so that the exported program has the
    parameters and module paths of the model.

    Args:
        members: the modules by their paths, in the order of calls.
        residual: whether the input of the chain is added to its result.
        steps: the sources of their arguments; None passes each result to the
            next member.
    """

    def __init__(
        self,
        members: Mapping[str, nn.Module],
        residual: bool = False,
        steps: Sequence[Step] | None = None,
    ) -> None:
        super().__init__()
        self._paths = list(members)
        self._residual = residual
        self._steps = _one_after_the_other(members) if steps is None else steps
        for path, module in members.items():
            parent: nn.Module = self
            *containers, name = path.split(".")
            for container in containers:
                if container not in parent._modules:
                    parent.add_module(container, nn.Module())
                parent = parent.get_submodule(container)
            parent.add_module(name, module)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        result = run_chain(
            [self.get_submodule(path) for path in self._paths],
            self._steps,
            [hidden_states],
            skip_pre_hooks=False,
        )
        return hidden_states + result if self._residual else result


def _one_after_the_other(members: Mapping[str, nn.Module]) -> list[Step]:
    sources = [Source("input")]
    sources += [Source("step", i) for i in range(len(members) - 1)]
    return [Step([source], {}) for source in sources]


def take_chain(
    model: nn.Module,
    parent: str,
    members: Sequence[str],
    residual: bool = False,
    inputs: Inputs = None,
) -> Chain:
    """The modules `members` below the path `parent` of `model`.

    Each member reads the result of the one before. One run of the model shows
    the order of their calls. If a member accepts more arguments, it also shows
    which values these are: the input of the chain, earlier results, or
    constants.

    Args:
        model: on any device, also meta.
        parent: path of the module that owns the members; empty for the model.
        members: their names below `parent`, in the order of calls.
        residual: whether the input of the chain is added to its result.
        inputs: of the model, for that run. None makes them from the config of
            a model of transformers.

    Raises:
        BlockError: there is no such member, the model calls them in another
            order, or they need values that their one input does not give.
    """
    found = {}
    for member in members:
        path = f"{parent}.{member}" if parent else member
        found[path] = _submodule(model, path)
    steps = None
    if any(_accepts_more(module) for module in found.values()):
        steps = _observed_steps(model, parent, members, found, inputs)
    elif len(found) > 1:
        with contextlib.suppress(FlowError):
            _check_order(model, parent, members, observe(model, inputs))
    return Chain(found, residual, steps).eval()


def _check_order(
    model: nn.Module, parent: str, members: Sequence[str], flow: Flow
) -> None:
    """Refuses members that the model calls in another order.

    Members that are not called equally often have no order.
    """
    paths = [f"{parent}.{m}" if parent else m for m in members]
    calls = [flow.calls.get(path, []) for path in paths]
    if not calls[0] or len({len(c) for c in calls}) > 1:
        return
    called = sorted(range(len(paths)), key=lambda i: calls[i][0].start)
    if called != list(range(len(paths))):
        raise BlockError(
            f"the members are '{','.join(members)}', and {type(model).__name__}"
            f" calls '{','.join(members[i] for i in called)}' in this order; "
            "name them in the order of calls"
        )


def _parameters(module: nn.Module) -> list[inspect.Parameter]:
    """Named parameters of a forward."""
    return [
        p
        for p in inspect.signature(module.forward).parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def _accepts_more(module: nn.Module) -> bool:
    return len(_parameters(module)) > 1


def _required(module: nn.Module) -> list[str]:
    """Parameters of a forward that have no default."""
    return [p.name for p in _parameters(module) if p.default is p.empty]


def _observed_steps(
    model: nn.Module,
    parent: str,
    members: Sequence[str],
    found: Mapping[str, nn.Module],
    inputs: Inputs,
) -> Sequence[Step] | None:
    """The calls of the members in a run of the model.

    None if no run calls them, and each can be called with one argument.

    Raises:
        BlockError: the calls are unknown, or need other values than the input.
    """
    needy = next((p for p, m in found.items() if len(_required(m)) > 1), None)
    try:
        flow = observe(model, inputs)
    except FlowError as error:
        if needy is None:
            return None
        raise BlockError(
            f"{_wants(needy, found[needy])}, and no run of the model shows "
            f"which values it passes: {error}; or leave '{needy}' out of the "
            "members"
        ) from error
    _check_order(model, parent, members, flow)
    site = observed_chain(parent, members, flow)
    if site.plan is None:
        if needy is None and not all(flow.calls.get(path) for path in found):
            return None
        reason = f"the members cannot be called as {type(model).__name__} does"
        raise BlockError(
            f"{reason}: {site.refusal}{_alternatives(model, parent, flow)}"
        )
    if len(site.plan.inputs) != 1:
        first, module = next(iter(found.items()))
        names = [_name_of(module, slot) for slot in site.plan.inputs]
        raise BlockError(
            f"'{first}' reads {len(names)} tensors from outside of the chain"
            + (f" ({', '.join(names)})" if names else "")
            + "; expected 1, the input that the shape describes"
            + _alternatives(model, parent, flow)
        )
    return site.plan.steps


def _wants(path: str, module: nn.Module) -> str:
    names = _required(module)
    return f"'{path}' takes {len(names)} arguments ({', '.join(names)})"


def _name_of(module: nn.Module, slot: int | str) -> str:
    names = [p.name for p in _parameters(module)]
    if isinstance(slot, str):
        return slot
    return names[slot] if slot < len(names) else f"argument {slot}"


def _alternatives(model: nn.Module, parent: str, flow: Flow) -> str:
    """Members below the parent that are a chain with one input."""
    chains = []
    for names in chains_below(parent, model.get_submodule(parent), flow):
        plan = observed_chain(parent, names, flow).plan
        if plan is not None and len(plan.inputs) == 1:
            chains.append(f"'{','.join(names)}'")
    if not chains:
        where = f"'{parent}'" if parent else "the model"
        return f"; no chain around linears in {where} has one input"
    return f"; members of '{parent}' with one input: " + " or ".join(chains)


def _submodule(model: nn.Module, path: str) -> nn.Module:
    module, walked = model, ""
    for name in path.split("."):
        children = dict(module.named_children())
        if name not in children:
            where = f"'{walked}'" if walked else "the model"
            raise BlockError(
                f"no module '{path}': {where} has no child "
                f"'{name}'; it has " + (", ".join(children) or "none")
            )
        module = children[name]
        walked = f"{walked}.{name}" if walked else name
    return module
