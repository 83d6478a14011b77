# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a model calls the members of a chain, and calls like these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fuse_mlir.matching.tensor_parallel import has_hooks_of_host

# The position or keyword of an argument.
Slot = int | str


@dataclass(frozen=True)
class Source:
    """Where an argument of a member comes from."""

    #: "input" of the chain, result of a "step", a "constant", or "outside".
    kind: str
    index: int = 0
    value: Any = None


@dataclass
class Step:
    """How a member is called."""

    args: list[Source]
    kwargs: dict[str, Source]

    def flow_slot(self) -> Slot | None:
        """The argument that is the result of the previous member."""
        return next(
            (slot for slot, source in self.slots() if source.kind == "step"),
            None,
        )

    def slots(self) -> Iterator[tuple[Slot, Source]]:
        yield from enumerate(self.args)
        yield from self.kwargs.items()


@dataclass
class Plan:
    """Calls of a chain, as the model makes them."""

    #: Tensor arguments of the first call; `examples` has one of each.
    inputs: list[Slot]
    examples: list[torch.Tensor]
    steps: list[Step]
    #: Whether a dropout between members does nothing only in eval mode.
    eval_only: bool = False
    #: Steps whose results the model reads; None for the last one alone.
    outputs: tuple[int, ...] | None = None
    #: Whether the model selects rows of the first result before the other
    #: member reads it. The kernel then computes these rows alone.
    selects: bool = False
    #: Whether the model adds a tensor to the result, which `examples` has too.
    adds: bool = False

    def structure(self) -> tuple:
        """A key that calls with the same structure share."""
        return (
            tuple(self.inputs),
            tuple(
                tuple(
                    (slot, s.kind, s.index, repr(s.value))
                    for slot, s in step.slots()
                )
                for step in self.steps
            ),
            self.outputs,
            self.selects,
            self.adds,
        )


def holder_of(parent: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module that has a member as its child, and the child's name.

    Args:
        parent: common parent of the members of a site.
        name: path of the member below it, such as `self_attn.q_proj`.

    Raises:
        AttributeError: there is no such module.
    """
    path, _, child = name.rpartition(".")
    return parent.get_submodule(path), child


def child_at(parent: nn.Module, name: str) -> nn.Module | None:
    """The module in the place of a member; None if there is none."""
    try:
        holder, child = holder_of(parent, name)
    except AttributeError:
        return None
    return holder._modules.get(child)


def replace_members(
    parent: nn.Module, names: Sequence[str], modules: Sequence[nn.Module]
) -> None:
    """Puts modules in the places of members.

    Assigning to existing keys keeps the order of children. One call of `update`
    is atomic.

    Args:
        parent: common parent of the members.
        names: paths of the members below it.
        modules: one for each name.
    """
    held: dict[int, tuple[nn.Module, dict[str, nn.Module]]] = {}
    for name, module in zip(names, modules):
        holder, child = holder_of(parent, name)
        held.setdefault(id(holder), (holder, {}))[1][child] = module
    for holder, children in held.values():
        holder._modules.update(children)


def run_chain(
    members: Sequence[nn.Module],
    steps: Sequence[Step],
    inputs: Sequence[torch.Tensor],
    skip_pre_hooks: bool = True,
) -> torch.Tensor:
    """Calls members as the model calls them, and returns the last result.

    Args:
        members: the modules, in the order of their calls.
        steps: the sources of their arguments.
        inputs: of the chain.
        skip_pre_hooks: leaves out the pre-hooks of members, for a fused module
            before which they ran.
    """
    return run_steps(members, steps, inputs, skip_pre_hooks)[-1]


def run_plan(
    members: Sequence[nn.Module],
    plan: Plan,
    inputs: Sequence[torch.Tensor],
    skip_pre_hooks: bool = True,
) -> list[torch.Tensor]:
    """`run_chain`, with all results that the model reads."""
    results = run_steps(members, plan.steps, inputs, skip_pre_hooks)
    if plan.outputs is None:
        return results[-1:]
    return [results[i] for i in plan.outputs]


def run_steps(
    members: Sequence[nn.Module],
    steps: Sequence[Step],
    inputs: Sequence[torch.Tensor],
    skip_pre_hooks: bool = True,
) -> list[torch.Tensor]:
    """`run_chain`, with the results of all members."""
    results: list[torch.Tensor] = []

    def value(source: Source) -> object:
        if source.kind == "input":
            return inputs[source.index]
        if source.kind == "step":
            return results[source.index]
        return source.value

    for member, step in zip(members, steps):
        skips = (
            skip_pre_hooks
            and member._forward_pre_hooks
            and not has_hooks_of_host(member)
        )
        call = member.forward if skips else member
        results.append(
            call(
                *map(value, step.args),
                **{k: value(s) for k, s in step.kwargs.items()},
            )
        )
    return results
