# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the modules that form the chain of a pattern, and refuses others.

The predicates and their order are those of fuse-match-modules; ids are those
of docs/reference/refusals.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fuse_mlir.errors import PatternError, Refusal
from fuse_mlir.matching.dataflow import Call, Flow
from fuse_mlir.matching.moe import looks_like_experts
from fuse_mlir.matching.path_glob import PathGlob
from fuse_mlir.matching.patterns import ANY_FAMILY, Member, Pattern, class_name
from fuse_mlir.matching.plans import Plan, Slot, Source, Step
from fuse_mlir.matching.proxy import Proxy
from fuse_mlir.native.refusals import IDS
from fuse_mlir.support.module_snapshot import GLOBAL_HOOKS, has_own_forward


@dataclass
class Site:
    """Modules that a pattern selects below one parent."""

    id: str
    parent: str
    names: tuple[str, ...]
    pattern: Pattern
    members: list[nn.Module] = field(default_factory=list)
    plan: Plan | None = None
    refusal: Refusal | None = None
    #: Assumptions that were not checked, for the note of the result.
    risk: str = ""

    @property
    def paths(self) -> list[str]:
        return [join(self.parent, name) for name in self.names]

    def refuse(self, id_: str, name: str, text: str) -> Site:
        self.refusal = Refusal(id_, name, text)
        return self


def join(parent: str, name: str) -> str:
    """Path of a child."""
    return f"{parent}.{name}" if parent else name


def find_sites(
    model: nn.Module, patterns: Sequence[Pattern], flow: Flow
) -> list[Site]:
    """All sites that the paths of `patterns` select, in order.

    Raises:
        PatternError: a path selects nothing, or no parent has all members.
    """
    sites: list[Site] = []
    taken: dict[str, str] = {}
    for pattern in patterns:
        for number, (parent, children) in enumerate(_parents(model, pattern)):
            site = _select(model, pattern, parent, children, number)
            if site.refusal is None:
                _check(model, site, flow, taken)
            if site.refusal is None:
                taken.update((path, site.id) for path in site.paths)
            sites.append(site)
    return sites


def _parents(
    model: nn.Module, pattern: Pattern
) -> list[tuple[str, list[list[str]]]]:
    """Parents of selected modules, with the children that each path selects."""
    paths = [path for path, _ in model.named_modules() if path]
    found: dict[str, list[list[str]]] = {}
    for i, member in enumerate(pattern.members):
        selected = [path for path in paths if member.path.match(path)]
        if not selected:
            raise PatternError(
                f"FUSE-N201 no-module-matches: no module matches path "
                f"'{member.path.text}'{_alike(model, member)}"
            )
        for path in selected:
            parent, _, name = path.rpartition(".")
            found.setdefault(parent, [[] for _ in pattern.members])
            found[parent][i].append(name)
    if not any(all(children) for children in found.values()):
        raise PatternError(
            "FUSE-N202 different-parents: no module is the parent of all "
            "members of " + str(pattern)
        )
    return list(found.items())


def _alike(model: nn.Module, member: Member) -> str:
    paths = [
        path
        for path, module in model.named_modules()
        if path and member.has_class(module)
    ]
    if not paths:
        classes = sorted({class_name(m) for m in model.modules()})
        return f"; no module has class '{member.name}'; there are " + ", ".join(
            classes
        )
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"; modules of class '{member.name}': " + ", ".join(paths[:3]) + more


def _select(
    model: nn.Module,
    pattern: Pattern,
    parent: str,
    children: list[list[str]],
    number: int,
) -> Site:
    owner = model.get_submodule(parent)
    names = []
    for member, selected in zip(pattern.members, children):
        fitting = [
            n for n in selected if member.has_class(owner.get_submodule(n))
        ]
        names.append((fitting or selected or ["?"])[0])
    site = Site(f"{'+'.join(names)}#{number}", parent, tuple(names), pattern)
    for member, name in zip(pattern.members, names):
        if name == "?":
            return site.refuse(
                "FUSE-N203",
                "child-missing",
                f"'{parent}' has no child for "
                f"path '{member.path.text}'; narrow the paths to parents that "
                "have all members",
            )
    site.members = [owner.get_submodule(name) for name in names]
    for member, module, path in zip(pattern.members, site.members, site.paths):
        if not member.has_class(module):
            return site.refuse(
                "FUSE-N204",
                "class-differs",
                f"'{path}' is a "
                f"{class_name(module)}, the pattern says {member.name}; write "
                "that class, or '*' for any",
            )
    return site


def _check(
    model: nn.Module, site: Site, flow: Flow, taken: dict[str, str]
) -> None:
    _check_scripts(site)
    if site.refusal is None:
        _check_taken(model, site, taken)
    if site.refusal is None:
        _find_plan(site, flow)
    for index, (module, path) in enumerate(zip(site.members, site.paths)):
        if site.refusal is None:
            _check_distributed(site, module, path)
        if site.refusal is None:
            _check_hooks(site, module, path, index == 0)
        if site.refusal is None:
            _check_attributes(site, module, path, flow)
        if site.refusal is None:
            _check_names(site, module, path)
        if site.refusal is None:
            _check_tensors(site, module, path)


def _check_scripts(site: Site) -> None:
    for member, path in zip(site.members, site.paths):
        for below, module in member.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                where = join(path, below) if below else path
                site.refuse(
                    IDS["not-traceable"],
                    "not-traceable",
                    f"'{where}' is a torch.jit.ScriptModule, which "
                    "has no Python forward to trace; put the module "
                    "that it was made of in its place",
                )
                return


def _check_taken(model: nn.Module, site: Site, taken: dict[str, str]) -> None:
    for module, path in zip(site.members, site.paths):
        if isinstance(module, Proxy):
            taken = {**taken, path: module.site}
        if path in taken:
            site.refuse(
                "FUSE-N213",
                "already-fused",
                f"'{path}' is a member of site '{taken[path]}'; unfuse "
                "that site first, or leave one of the patterns out",
            )
            return
        others = [
            p
            for p, m in model.named_modules(remove_duplicate=False)
            if m is module and p != path
        ]
        if others:
            site.refuse(
                "FUSE-N213",
                "already-fused",
                f"'{path}' is the same module as '{others[0]}', "
                "which would not be fused; use separate modules, or leave it "
                "out of the pattern",
            )
            return


# Data flow.


def observed_chain(parent: str, names: Sequence[str], flow: Flow) -> Site:
    """The children `names` of `parent` as the model calls them.

    The site has a plan or a refusal. Values between the members may have other
    readers, because nothing replaces the members.
    """
    site = Site("+".join(names), parent, tuple(names), Pattern(()))
    _find_plan(site, flow, replaced=False)
    return site


def _find_plan(site: Site, flow: Flow, replaced: bool = True) -> None:
    calls = [flow.calls.get(path, []) for path in site.paths]
    if not calls[0]:
        site.refuse(
            "FUSE-N205",
            "member-not-called",
            f"no forward calls '{site.paths[0]}' with these inputs; "
            "pass inputs= for which the model calls it",
        )
        return
    if any(len(c) != len(calls[0]) for c in calls):
        counts = ", ".join(f"'{p}' {len(c)}" for p, c in zip(site.paths, calls))
        site.refuse(
            "FUSE-N206",
            "not-a-chain",
            "the members are not called equally often in one forward: "
            f"{counts}; leave out those that are called by themselves",
        )
        return
    for chain in zip(*calls):
        plan = _plan(site, list(chain), flow)
        if plan is None or (
            replaced and not _single_uses(site, list(chain), flow)
        ):
            return
        if site.plan is None:
            site.plan = plan
        elif site.plan.structure() != plan.structure():
            site.refuse(
                "FUSE-N206",
                "not-a-chain",
                "one forward calls the members in more than one way; "
                "call them alike each time",
            )
            return


def _plan(site: Site, calls: list[Call], flow: Flow) -> Plan | None:
    first = calls[0]
    plan = Plan([], [], [])
    inputs: dict[int, int] = {}
    for slot, value in _arguments(first):
        if isinstance(value, torch.Tensor):
            inputs.setdefault(id(value), len(plan.inputs))
            plan.inputs.append(slot)
            plan.examples.append(value)
    made: dict[int, int] = {}
    for i, call in enumerate(calls):
        path = site.paths[i]
        step = Step([], {})
        for slot, value in _arguments(call):
            source = _source(site, path, slot, value, inputs, made)
            if source is None:
                return None
            # Arguments that are one tensor here may be two in another call.
            if not i and source.kind == "input":
                source = Source("input", plan.inputs.index(slot))
            if isinstance(slot, int):
                step.args.append(source)
            else:
                step.kwargs[slot] = source
        if i and not any(
            s.kind == "step" and s.index == i - 1 for _, s in step.slots()
        ):
            site.refuse(
                "FUSE-N206",
                "not-a-chain",
                _not_a_chain(site.paths[i - 1], path, call, flow),
            )
            return None
        outside = next(
            (slot for slot, s in step.slots() if s.kind == "outside"), None
        )
        if outside is not None:
            site.refuse(
                "FUSE-N207",
                "side-input-made-later",
                f"argument {_show(outside)} of '{path}' is neither a result "
                f"of the chain nor an argument of '{site.paths[0]}'; compute "
                "it before, and pass it to that module, too",
            )
            return None
        if not isinstance(call.output, torch.Tensor):
            kind = type(call.output).__name__
            site.refuse(
                "FUSE-N214",
                "no-result",
                f"'{path}' returns a {kind}; expected a tensor; leave "
                "this module out of the pattern",
            )
            return None
        made[id(call.output)] = i
        plan.steps.append(step)
    plan.eval_only = any(id(c.output) in flow.dropped for c in calls[:-1])
    return plan


def _arguments(call: Call) -> Iterator[tuple[Slot, Any]]:
    yield from enumerate(call.args)
    yield from call.kwargs.items()


def _source(
    site: Site,
    path: str,
    slot: Slot,
    value: object,
    inputs: dict[int, int],
    made: dict[int, int],
) -> Source | None:
    if isinstance(value, torch.Tensor):
        if id(value) in made:
            return Source("step", made[id(value)])
        if id(value) in inputs:
            return Source("input", inputs[id(value)])
        return Source("outside")
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
        return Source("constant", value=value)
    site.refuse(
        IDS["unsupported-argument"],
        "unsupported-argument",
        f"argument {_show(slot)} of '{path}' is a "
        f"{type(value).__name__}; expected a tensor, a number, a "
        "string or None",
    )
    return None


def _show(slot: Slot) -> str:
    return f"'{slot}'" if isinstance(slot, str) else str(slot)


def _not_a_chain(source: str, target: str, call: Call, flow: Flow) -> str:
    for tensor in call.tensors():
        maker = flow.made.get(id(tensor))
        if maker is not None:
            where = f"module '{maker.module}'" if maker.module else "the model"
            return (
                f"the result of '{source}' does not go to '{target}', "
                f"which reads a result of '{maker.op}' in {where}; move "
                "that step into one of the two modules"
            )
    return (
        f"the result of '{source}' does not go to '{target}'; write the "
        "members in the order of their calls"
    )


def _single_uses(site: Site, calls: list[Call], flow: Flow) -> bool:
    paths = site.paths
    return all(
        _single_use(site, paths[i], calls[i], paths[i + 1], calls[i + 1], flow)
        for i in range(len(calls) - 1)
    )


def _single_use(
    site: Site,
    path: str,
    call: Call,
    next_path: str,
    next_call: Call,
    flow: Flow,
) -> bool:
    advice = "end the pattern there, begin it after that, or drop this use"
    for use in flow.uses_of(call.output):
        inside = use.module == next_path or use.module.startswith(
            next_path + "."
        )
        if (
            use.time < call.end
            or inside
            and next_call.start <= use.time <= next_call.end
        ):
            continue
        where = f"module '{use.module}'" if use.module else "the model"
        site.refuse(
            "FUSE-N002",
            "intermediate-has-other-users",
            f"the result of '{path}' is also read by '{use.op}' in "
            f"{where}; {advice}",
        )
        return False
    if id(call.output) in flow.results:
        site.refuse(
            "FUSE-N002",
            "intermediate-has-other-users",
            f"the result of '{path}' is a result of the model; {advice}",
        )
        return False
    return True


# Hooks and distribution that the host has added to modules.

_HOOK_KINDS = {
    "_forward_pre_hooks": "a forward pre-hook",
    "_forward_hooks": "a forward hook",
    "_backward_pre_hooks": "a backward pre-hook",
    "_backward_hooks": "a backward hook",
}


def hook_on(module: nn.Module, keep_pre_hooks: bool) -> str | None:
    """Name of a hook on `module` itself that fusing would bypass."""
    for attribute, kind in _HOOK_KINDS.items():
        if keep_pre_hooks and attribute == "_forward_pre_hooks":
            continue
        hooks = getattr(module, attribute)
        if hooks:
            hook = next(iter(hooks.values()))
            return f"{kind}, {getattr(hook, '__name__', type(hook).__name__)}"
    if "_hf_hook" in module.__dict__:
        return f"a hook of accelerate, {type(module._hf_hook).__name__}"
    if has_own_forward(module):
        return "a forward of its own, which replaces that of its class"
    return None


def hook_on_all() -> str | None:
    """Name of a hook on every module of the process that fusing would bypass.

    Hooks of PyTorch itself, such as its counters of operations, only observe.
    """
    for hooks in GLOBAL_HOOKS:
        for hook in hooks.values():
            if not (getattr(hook, "__module__", "") or "").startswith("torch."):
                return getattr(hook, "__name__", type(hook).__name__)
    return None


def _check_hooks(site: Site, member: nn.Module, path: str, first: bool) -> None:
    hook = hook_on_all()
    if hook is not None:
        site.refuse(
            "FUSE-N208",
            "has-hooks",
            f"all modules have a hook, {hook}; remove it before fusing",
        )
        return
    for below, module in member.named_modules():
        # Pre-hooks of the first member run before the fused module.
        hook = hook_on(module, first and not below)
        if hook is not None:
            where = join(path, below) if below else path
            site.refuse(
                "FUSE-N208",
                "has-hooks",
                f"'{where}' has {hook}; "
                "remove it before fusing, or leave this module out of "
                "the pattern",
            )
            return


def _check_attributes(
    site: Site, member: nn.Module, path: str, flow: Flow
) -> None:
    for below, _ in member.named_modules():
        where = join(path, below) if below else path
        if where in flow.changed:
            site.refuse(
                IDS["changes-itself"],
                "changes-itself",
                f"the forward of '{where}' changes its attribute "
                f"'{flow.changed[where]}', which no kernel does; return "
                "the value, or leave this module out of the chain",
            )
            return


def distributed(module: nn.Module) -> tuple[str, str] | None:
    """The parameter of `module` that is distributed over processes, and how.

    The name is empty if the module itself is distributed.
    """
    if getattr(module, "_hf_tp_plan", None):
        return "", f"has the plan '{module._hf_tp_plan}'"
    if (
        getattr(module, "_is_fsdp_managed_module", False)
        and not module._fsdp_use_orig_params
    ):
        return "", "has parameters that FullyShardedDataParallel flattened"
    style = _parallel_style(module)
    for name, parameter in module.named_parameters(recurse=False):
        if "DTensor" in (
            type(parameter).__name__,
            type(parameter.data).__name__,
        ):
            return f".{name}", _sharding(module, parameter, style)
        if hasattr(parameter, "ds_id"):
            return f".{name}", "is partitioned by ZeRO-3"
    if style is not None:
        return (
            "",
            f"runs the forward of {style} of transformers, which communicates",
        )
    return None


def _parallel_style(module: nn.Module) -> str | None:
    """The style by which transformers distributes a module.

    From transformers 5.16 on, the forward is that of the style, which reduces
    or gathers results.
    """
    forward = vars(module).get("forward")
    if forward is None or not getattr(forward, "__qualname__", "").startswith(
        "TensorParallelLayer.install_forward."
    ):
        return None
    found = inspect.getclosurevars(forward).nonlocals.get("self")
    return type(found).__name__


def lacks_reduction(module: nn.Module, parameter: nn.Parameter) -> bool:
    """Whether a parameter is a shard without a hook that reduces results."""
    return (
        any(p.is_shard() for p in getattr(parameter, "placements", ()))
        and not has_own_forward(module)
        and not module._forward_hooks
    )


def _sharding(
    module: nn.Module, parameter: nn.Parameter, style: str | None
) -> str:
    placements = getattr(parameter, "placements", ())
    shown = "".join(f", {p}" for p in placements)
    if style is not None:
        return (
            f"is a DTensor{shown}, distributed by {style} of "
            "transformers; load the model in one process to fuse it"
        )
    if lacks_reduction(module, parameter):
        return (
            f"is a DTensor{shown}, and no forward or hook of its module "
            "adds up or gathers the results, so that the model itself may "
            "compute with a part of the weight; distribute it with a plan "
            "that names the module"
        )
    return f"is a DTensor{shown}"


def _check_distributed(site: Site, member: nn.Module, path: str) -> None:
    for below, module in member.named_modules():
        found = distributed(module)
        if found is not None:
            where = join(path, below) if below else path
            site.refuse(
                "FUSE-N209",
                "tensor-parallel",
                f"'{where}{found[0]}' {found[1]}; fuse the model on "
                "one device, before it is distributed",
            )
            return


def _check_names(site: Site, member: nn.Module, path: str) -> None:
    """Refuses members with attributes that a proxy would hide."""
    held = {
        *vars(member),
        *member._parameters,
        *member._buffers,
        *member._modules,
        *dir(type(member)),
    }
    for name in sorted(Proxy.reserved & held):
        site.refuse(
            IDS["attribute-taken"],
            "attribute-taken",
            f"'{path}' has an attribute '{name}', as the module in its "
            "place has; rename it",
        )
        return


def _check_tensors(site: Site, member: nn.Module, path: str) -> None:
    """Refuses tensors whose class computes their values.

    Packages for quantization have such tensors, without memory that a kernel
    could read.
    """
    for name, tensor in (*member.named_parameters(), *member.named_buffers()):
        kind = type(tensor)
        if (
            kind.__torch_dispatch__
            is not torch._C._disabled_torch_dispatch_impl
        ):
            site.refuse(
                IDS["opaque-tensor"],
                "opaque-tensor",
                f"'{join(path, name)}' is a {kind.__name__}, a tensor "
                "whose values no kernel can read; fuse the model "
                "before a package replaces its tensors",
            )
            return


# Chains that no pattern names.


def candidates(model: nn.Module, flow: Flow) -> list[Pattern]:
    """Chains of siblings around linears, one pattern per site.

    A chain goes on while only the next sibling reads each result. Modules that
    attend over tokens or route them are never members. Experts, and MLPs next
    to them, are chains of one member.
    """
    patterns = []
    claimed: set[str] = set()
    for parent, owner in model.named_modules():
        if any(parent == c or parent.startswith(c + ".") for c in claimed):
            continue
        # The entries of a list are whole layers.
        if isinstance(owner, nn.ModuleList):
            continue
        for names in chains_below(parent, owner, flow):
            claimed.update(join(parent, name) for name in names)
            patterns.append(
                Pattern(
                    tuple(
                        Member(
                            class_name(owner.get_submodule(name)),
                            PathGlob(escape(join(parent, name))),
                        )
                        for name in names
                    ),
                    ANY_FAMILY,
                )
            )
    return patterns


def shorter_sites(model: nn.Module, site: Site, flow: Flow) -> list[Site]:
    """The rest of a refused chain without its first member, if it is a site.

    An example is an MLP whose norm is also read by attention.
    """
    if site.refusal is None:
        return []
    for start in range(1, len(site.members)):
        rest = site.members[start:]
        if sum(map(_matrices, rest)) < 2:
            return []
        found = find_sites(
            model,
            [Pattern(site.pattern.members[start:], site.pattern.kernel)],
            flow,
        )[0]
        if found.refusal is None:
            return [found]
    return []


def escape(path: str) -> str:
    return "".join(f"\\{c}" if c in "*?[]{},\\" else c for c in path)


def chains_below(parent: str, owner: nn.Module, flow: Flow) -> list[list[str]]:
    calls = sorted(
        (flow.calls[join(parent, name)][0].start, name)
        for name, _ in owner.named_children()
        if join(parent, name) in flow.calls
    )
    order = [
        name for _, name in calls if _may_be_member(owner.get_submodule(name))
    ]
    chains: list[list[str]] = []
    for name in order:
        call = flow.calls[join(parent, name)][0]
        read = {id(t) for t in call.tensors()}
        for chain in chains:
            before = flow.calls[join(parent, chain[-1])][0]
            if id(before.output) in read:
                chain.append(name)
                break
        else:
            chains.append([name])
    chains = [
        c
        for c in chains
        if len(c) > 1
        and sum(_matrices(owner.get_submodule(name)) for name in c) > 1
    ]
    alone = {
        name: module
        for name, module in owner.named_children()
        if not any(name in c for c in chains)
    }
    if any(map(looks_like_experts, alone.values())):
        chains += [
            [name]
            for name, module in alone.items()
            if looks_like_experts(module) or looks_like_mlp(module)
        ]
    return chains


def _may_be_member(module: nn.Module) -> bool:
    return not isinstance(module, (nn.Embedding, nn.Dropout)) and not any(
        "Attention" in type(m).__name__ or looks_like_experts(m)
        for m in module.modules()
    )


def _matrices(module: nn.Module) -> int:
    """The number of weights of linears and experts, whatever their classes,
    and of linears with packed weights."""
    return sum(
        _own_matrices(m) or _is_packed(m)
        for m in module.modules()
        if not isinstance(m, nn.Embedding)
    )


def _is_packed(module: nn.Module) -> bool:
    return "Linear" in type(module).__name__ and all(
        p.dim() < 2 for p in module.parameters()
    )


def _own_matrices(module: nn.Module) -> int:
    return sum(
        p.dim() in (2, 3) and p.shape[0] > 1
        for name, p in module.named_parameters(recurse=False)
        if "scale" not in name
    )


def looks_like_mlp(module: nn.Module) -> bool:
    """Whether a module consists of linears and the ops between them."""
    return (
        _may_be_member(module)
        and 1 < _matrices(module) < 5
        and not isinstance(module, (nn.ModuleList, nn.ModuleDict))
    )


def missed_chains(
    model: nn.Module, flow: Flow, covered: Sequence[Site]
) -> list[Site]:
    """Modules like an MLP outside of the sites `covered`.

    Each has the reason that it forms no chain with the module before it.
    """
    inside = {path for site in covered for path in site.paths}
    missed: list[Site] = []
    for path, module in model.named_modules():
        if (
            not path
            or not looks_like_mlp(module)
            or any(
                path == p
                or path.startswith(p + ".")
                or p.startswith(path + ".")
                for p in inside
            )
        ):
            continue
        inside.add(path)
        missed.append(_why_no_chain(model, path, module, flow))
    read: dict[int, list[torch.Tensor]] = {}
    for tensor in {id(t): t for t in flow.kept}.values():
        for use in flow.uses_of(tensor):
            read.setdefault(id(use), []).append(tensor)
    for path, module in model.named_modules():
        # Gates of attention are also between linears.
        if "Attention" not in type(module).__name__ and not any(
            path == p or path.startswith(p + ".") for p in inside
        ):
            missed += _written_between(path, module, flow, read)
    return missed


def _written_between(
    parent: str,
    owner: nn.Module,
    flow: Flow,
    read: Mapping[int, Sequence[torch.Tensor]],
) -> Iterator[Site]:
    """Linears whose parent computes the values between them itself.

    The parent is then an MLP whose activation is not a module.

    Args:
        parent: path of the module that owns the linears.
        owner: that module.
        flow: the calls of the observed run.
        read: tensors that ops read, by the ids of their uses.
    """
    calls = {
        name: flow.calls[join(parent, name)][0]
        for name, child in owner.named_children()
        if isinstance(child, nn.Linear) and join(parent, name) in flow.calls
    }
    made = {id(call.output): name for name, call in calls.items()}
    for last, call in calls.items():
        ops: list[str] = []
        tensors = call.tensors()
        # At most an activation, a product with a gate, and a dropout.
        for _ in range(3):
            uses = [
                flow.made[id(t)]
                for t in tensors
                if id(t) in flow.made and flow.made[id(t)].module == parent
            ]
            ops += [use.op for use in uses]
            tensors = [
                t
                for use in uses
                for t in read.get(id(use), ())
                if t.shape == call.tensors()[0].shape
            ]
            first = next((made[id(t)] for t in tensors if id(t) in made), None)
            if first is None:
                continue
            names = (first, last)
            site = Site(
                f"{first}+{last}#0",
                parent,
                names,
                Pattern(
                    tuple(
                        Member("Linear", PathGlob(escape(join(parent, n))))
                        for n in names
                    )
                ),
            )
            where = f"module '{parent}'" if parent else "the model"
            yield site.refuse(
                "FUSE-N206",
                "not-a-chain",
                f"between '{join(parent, first)}' "
                f"and '{join(parent, last)}' {where} computes '{ops[-1]}' by "
                "itself; a chain consists of modules, so put the MLP into one",
            )
            break


def _why_no_chain(
    model: nn.Module, path: str, module: nn.Module, flow: Flow
) -> Site:
    parent, _, name = path.rpartition(".")
    owner = model.get_submodule(parent)
    own = Member(class_name(module), PathGlob(escape(path)))
    site = Site(f"{name}#0", parent, (name,), Pattern((own,)), [module])
    calls = flow.calls.get(path)
    if not calls:
        return site.refuse(
            "FUSE-N205",
            "member-not-called",
            f"no forward calls '{path}' with these inputs; "
            "pass inputs= for which the model calls it",
        )
    read = {id(t) for t in calls[0].tensors()}
    for sibling, before in owner.named_children():
        made = flow.calls.get(join(parent, sibling), [])
        if not any(id(c.output) in read for c in made):
            continue
        if not _may_be_member(before):
            return site.refuse(
                "FUSE-N206",
                "not-a-chain",
                f"'{path}' reads the result of "
                f"'{join(parent, sibling)}', a {type(before).__name__}, which "
                "no kernel contains; a pattern can name the module alone",
            )
        pattern = Pattern(
            (
                Member(
                    class_name(before), PathGlob(escape(join(parent, sibling)))
                ),
                own,
            )
        )
        found = find_sites(model, [pattern], flow)[0]
        if found.refusal is not None:
            return found
    maker = next((flow.made[i] for i in read if i in flow.made), None)
    text = f"'{path}' reads no result of a sibling"
    if maker is not None:
        where = f"module '{maker.module}'" if maker.module else "the model"
        text += f" but one of '{maker.op}' in {where}"
    return site.refuse(
        "FUSE-N206",
        "not-a-chain",
        f"{text}; a pattern can name the module alone",
    )
