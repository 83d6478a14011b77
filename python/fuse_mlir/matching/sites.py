# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the modules that form the site of a pattern, and refuses others.

A site is a chain, in which each member reads the result of the one before, or a
norm with linears that read its result. Members are below one parent.

The predicates and their order are those of fuse-match-modules; ids are those
of docs/reference/refusals.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fuse_mlir.errors import PatternError, Refusal
from fuse_mlir.matching.dataflow import Call, Flow
from fuse_mlir.matching.patterns import Member, Pattern, class_name
from fuse_mlir.matching.plans import Plan, Slot, Source, Step
from fuse_mlir.matching.proxy import Proxy
from fuse_mlir.matching.tensor_parallel import Part, is_dtensor, part_of
from fuse_mlir.native.refusals import IDS
from fuse_mlir.support.module_snapshot import GLOBAL_HOOKS, has_own_forward


@dataclass
class Site:
    """Modules that a pattern selects below one parent."""

    id: str
    parent: str
    #: Paths of the members below the parent.
    names: tuple[str, ...]
    pattern: Pattern
    members: list[nn.Module] = field(default_factory=list)
    plan: Plan | None = None
    refusal: Refusal | None = None
    #: Assumptions that were not checked, for the note of the result.
    risk: str = ""
    #: Whether all members read the result of the first, if that is known.
    fans_out: bool = False
    #: Modules that are distributed over ranks, by their paths.
    parts: dict[str, Part] = field(default_factory=dict)
    #: Whether ranks add up their results in f32.
    sums_in_f32: bool = True

    @property
    def paths(self) -> list[str]:
        return [join(self.parent, name) for name in self.names]

    def refuse(self, id_: str, name: str, text: str) -> Site:
        self.refusal = Refusal(id_, name, text)
        return self


def join(parent: str, name: str) -> str:
    """Path of a child."""
    return f"{parent}.{name}" if parent else name


class Places:
    """The paths of all modules of a model, for the search of many patterns.

    Args:
        model: whose modules do not change during the search.
    """

    def __init__(self, model: nn.Module) -> None:
        #: Paths of modules below the model, the first of each.
        self.paths: list[str] = []
        self._all: dict[int, list[str]] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            known = self._all.setdefault(id(module), [])
            if path and not known:
                self.paths.append(path)
            known.append(path)

    def of(self, module: nn.Module) -> list[str]:
        """All paths of a module."""
        return self._all.get(id(module), [])


def find_sites(
    model: nn.Module,
    patterns: Sequence[Pattern],
    flow: Flow,
    places: Places | None = None,
) -> list[Site]:
    """All sites that the paths of `patterns` select, in order.

    Args:
        model: to search.
        patterns: of members.
        flow: the calls of one run.
        places: of the model, if the caller has them.

    Raises:
        PatternError: a path selects nothing, or no parent has all members.
    """
    places = places or Places(model)
    sites: list[Site] = []
    taken: dict[str, str] = {}
    for pattern in patterns:
        parents = _parents(model, pattern, places)
        for number, (parent, children) in enumerate(parents):
            site = _select(model, pattern, parent, children, number)
            if site.refusal is None:
                check_site(places, site, flow, taken)
            if site.refusal is None:
                taken.update((path, site.id) for path in site.paths)
            sites.append(site)
    return sites


def _parents(
    model: nn.Module, pattern: Pattern, places: Places
) -> list[tuple[str, list[list[str]]]]:
    """Parents of selected modules, with the members that each path selects."""
    found: dict[str, list[list[str]]] = {}
    everything: list[list[str]] = []
    for i, member in enumerate(pattern.members):
        selected = [path for path in places.paths if member.path.match(path)]
        if not selected:
            raise PatternError(
                f"FUSE-N201 no-module-matches: no module matches path "
                f"'{member.path.text}'{_alike(model, member)}"
            )
        everything.append(selected)
        for path in selected:
            parent, _, name = path.rpartition(".")
            found.setdefault(parent, [[] for _ in pattern.members])
            found[parent][i].append(name)
    if any(all(children) for children in found.values()):
        return list(found.items())
    groups = _nearest(model, everything)
    if not any(all(names) for _, names in groups):
        raise PatternError(
            "FUSE-N202 different-parents: no module, other than a list, has "
            "all members of " + str(pattern)
        )
    return groups


def _nearest(
    model: nn.Module, selected: Sequence[Sequence[str]]
) -> list[tuple[str, list[list[str]]]]:
    """Members with several parents: for each first member, the others that
    share more of their path with it than with any other first member.

    Args:
        model: that has them.
        selected: paths that the pattern selects for each member.

    Returns:
        Common parents, and the paths below them that are selected.
    """
    groups: dict[str, list[list[str]]] = {
        first: [[first], *([] for _ in selected[1:])] for first in selected[0]
    }
    for i, paths in enumerate(selected[1:], 1):
        for path in paths:
            shared = {f: len(common_parent([f, path])) for f in groups}
            near = [f for f in groups if shared[f] == max(shared.values())]
            if len(near) == 1 and not _around(path, near[0]):
                groups[near[0]][i].append(path)
    found = []
    for group in groups.values():
        everything = [path for paths in group for path in paths]
        if crosses_layers(model, everything):
            continue
        parent = common_parent(everything)
        start = len(parent) + 1 if parent else 0
        found.append((parent, [[p[start:] for p in paths] for paths in group]))
    return found


def _around(path: str, other: str) -> bool:
    """Whether one of two modules is inside of the other, or is the other."""
    return f"{other}.".startswith(f"{path}.") or path.startswith(f"{other}.")


def crosses_layers(model: nn.Module, paths: Sequence[str]) -> bool:
    """Whether modules are in several layers of a list, or outside of one."""
    start = len(common_parent(paths))
    return any(
        isinstance(model.get_submodule(path[:end]), nn.ModuleList)
        for path in paths
        for end, char in enumerate(path)
        if char == "." and end >= start
    )


def owner_of(path: str, taken: Mapping[str, str]) -> str | None:
    """The site that has a module, or the module around it, as a member."""
    return next(
        (
            site
            for member, site in taken.items()
            if path == member or path.startswith(member + ".")
        ),
        None,
    )


def common_parent(paths: Sequence[str]) -> str:
    """The path of the innermost module that has all modules below it."""
    names = [path.split(".")[:-1] for path in paths]
    shared = []
    for parts in zip(*names):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)


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
    base = "+".join(name.rpartition(".")[2] for name in names)
    site = Site(f"{base}#{number}", parent, tuple(names), pattern)
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


def check_site(
    places: Places, site: Site, flow: Flow, taken: Mapping[str, str]
) -> None:
    """Gives a site its plan, or the first reason to refuse it.

    Args:
        places: of the model that has the members.
        site: with members.
        flow: the calls of one run.
        taken: paths of members of other sites, and the ids of these sites.
    """
    _check_scripts(site)
    if site.refusal is None:
        _check_taken(places, site, taken)
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
    if site.refusal is None and site.parts:
        _check_parts(site, flow)


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


def _check_taken(places: Places, site: Site, taken: Mapping[str, str]) -> None:
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
        others = [p for p in places.of(module) if p != path]
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
    fans_out = replaced and (
        site.fans_out or _fans_out([c[0] for c in calls], flow)
    )
    for chain in zip(*calls):
        if fans_out:
            plan = _plan_linears(site, list(chain), flow)
        else:
            plan = _plan(site, list(chain), flow)
            if replaced and not (plan and _single_uses(site, chain, flow)):
                return
        if plan is None:
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


def _fans_out(calls: Sequence[Call], flow: Flow) -> bool:
    """Whether members after the second one, or one below another module, read
    the result of the first, or the only other one reads rows of it."""
    if not isinstance(calls[0].output, torch.Tensor):
        return False
    parents = {call.path.rpartition(".")[0] for call in calls}
    if len(calls) == 2 and _selected(calls, flow) is not None:
        return True
    return any(
        any(t is calls[0].output for t in call.tensors())
        for call in calls[1 if len(parents) > 1 else 2 :]
    )


def _selected(calls: Sequence[Call], flow: Flow) -> torch.Tensor | None:
    """The rows of the first result that the second of two members reads."""
    if len(calls) != 2:
        return None
    read = {id(t) for t in calls[1].tensors()}
    rows = flow.selections_of(calls[0].output)
    return rows[-1] if rows and id(rows[-1]) in read else None


def _plan_linears(site: Site, calls: list[Call], flow: Flow) -> Plan | None:
    """The plan of a site whose members all read the result of the first."""
    norm = calls[0]
    plan = Plan([], [], [], outputs=tuple(range(1, len(calls))))
    inputs = _inputs(norm, plan)
    rows = _selected(calls, flow)
    read = norm.output if rows is None else rows
    plan.selects = rows is not None
    for i, call in enumerate(calls):
        step = Step([], {})
        for slot, value in _arguments(call):
            source = _source(
                site,
                site.paths[i],
                slot,
                value,
                {} if i else inputs,
                {id(read): 0} if i else {},
            )
            if source is None:
                return None
            if isinstance(slot, int):
                step.args.append(source)
            else:
                step.kwargs[slot] = source
        kinds = [source.kind for _, source in step.slots()]
        if i and (kinds.count("step") != 1 or "outside" in kinds):
            site.refuse(
                "FUSE-N206",
                "not-a-chain",
                _not_a_chain(site.paths[0], site.paths[i], call, flow),
            )
            return None
        if not _returns_tensor(site, site.paths[i], call):
            return None
        plan.steps.append(step)
    plan.eval_only = id(norm.output) in flow.dropped
    others = _others_read(site, calls, flow, rows)
    if rows is not None:
        if others:
            site.refuse(
                "FUSE-N002",
                "intermediate-has-other-users",
                f"the result of '{site.paths[0]}' is read by more than the "
                f"op that selects rows for '{site.paths[1]}'; drop the other "
                "use, or leave the site out",
            )
        if others is not False or not _stands_in(site, plan, norm):
            return None
        # The stand-in computes the norm by itself for other readers.
        plan.examples[0] = plan.examples[0].new_empty(rows.shape)
        plan.outputs = None
    elif others:
        # The kernel returns the result of the norm too.
        plan.outputs = tuple(range(len(calls)))
    elif others is None or not _stands_in(site, plan, norm):
        return None
    return plan


def _stands_in(site: Site, plan: Plan, norm: Call) -> bool:
    """Whether the input of a norm can stand for its result."""
    given = plan.examples[0] if len(plan.examples) == 1 else None
    if given is not None and (given.shape, given.dtype, given.device) == (
        norm.output.shape,
        norm.output.dtype,
        norm.output.device,
    ):
        return True
    what = (
        f"{len(plan.examples)} tensors"
        if given is None
        else f"{given.dtype} {tuple(given.shape)}"
    )
    site.refuse(
        IDS["norm-changes-type"],
        "norm-changes-type",
        f"'{site.paths[0]}' reads {what} and returns {norm.output.dtype} "
        f"{tuple(norm.output.shape)}; expected one tensor of the type and the "
        "shape of the result, which takes its place",
    )
    return False


def _others_read(
    site: Site,
    calls: Sequence[Call],
    flow: Flow,
    rows: torch.Tensor | None,
) -> bool | None:
    """Whether anything but the members after the first one reads its result.

    Args:
        site: is refused if the result changes in place.
        calls: of the members.
        flow: the calls of the run.
        rows: the part of the result that the other member reads; None for all.

    Returns:
        None if the site is refused, because the result changes in place.
    """
    output, norm = calls[0].output, calls[0]
    passed = [] if rows is None else flow.selections_of(output)
    found = any(id(t) in flow.results for t in (output, *passed))
    for use in (u for t in (output, *passed) for u in flow.uses_of(t)):
        if (
            use.time < norm.end
            or any(use.selected is t for t in passed)
            or any(
                use.module == path or use.module.startswith(path + ".")
                for path in site.paths[1:]
            )
        ):
            continue
        found = True
        if use.op.endswith("_") and not use.op.endswith("__"):
            where = f"module '{use.module}'" if use.module else "the model"
            site.refuse(
                "FUSE-N002",
                "intermediate-has-other-users",
                f"'{use.op}' in {where} changes the result of "
                f"'{site.paths[0]}' in place; call the function that returns "
                "another tensor",
            )
            return None
    return found


def _inputs(call: Call, plan: Plan) -> dict[int, int]:
    """Adds the tensors of the first call to a plan; their numbers by id."""
    inputs: dict[int, int] = {}
    for slot, value in _arguments(call):
        if isinstance(value, torch.Tensor):
            inputs.setdefault(id(value), len(plan.inputs))
            plan.inputs.append(slot)
            plan.examples.append(value)
    return inputs


def _returns_tensor(site: Site, path: str, call: Call) -> bool:
    if isinstance(call.output, torch.Tensor):
        return True
    kind = type(call.output).__name__
    site.refuse(
        "FUSE-N214",
        "no-result",
        f"'{path}' returns a {kind}; expected a tensor; leave "
        "this module out of the pattern",
    )
    return False


def _plan(site: Site, calls: list[Call], flow: Flow) -> Plan | None:
    plan = Plan([], [], [])
    inputs = _inputs(calls[0], plan)
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
        if not _returns_tensor(site, path, call):
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


def _single_uses(site: Site, calls: Sequence[Call], flow: Flow) -> bool:
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
        where = join(path, below) if below else path
        # The hooks of a part are those of its host.
        if where in site.parts:
            continue
        # Pre-hooks of the first member run before the fused module.
        hook = hook_on(module, first and not below)
        if hook is not None:
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
    found = _partitioned(module)
    if found is not None:
        return found
    part = part_of(module)
    if isinstance(part, Refusal):
        return "", part.text
    if part is not None:
        return "", f"is distributed {part.style} over {part.size} ranks"
    return None


def _partitioned(module: nn.Module) -> tuple[str, str] | None:
    """`distributed` for parameters that no rank has in a layout of its own."""
    if (
        getattr(module, "_is_fsdp_managed_module", False)
        and not module._fsdp_use_orig_params
    ):
        return "", "has parameters that FullyShardedDataParallel flattened"
    for name, parameter in module.named_parameters(recurse=False):
        if hasattr(parameter, "ds_id"):
            return f".{name}", "is partitioned by ZeRO-3"
    return None


def _check_distributed(site: Site, member: nn.Module, path: str) -> None:
    """Refuses distributed modules that no kernel computes; notes the others."""
    for below, module in member.named_modules():
        where = join(path, below) if below else path
        found = _partitioned(module)
        if found is not None:
            site.refuse(
                "FUSE-N209",
                "tensor-parallel",
                f"'{where}{found[0]}' {found[1]}; fuse the model on "
                "one device, before it is distributed",
            )
            return
        part = part_of(module)
        if isinstance(part, Refusal):
            site.refuse(part.id, part.name, f"'{where}' {part.text}")
            return
        if part is not None:
            site.parts[where] = part


def _check_parts(site: Site, flow: Flow) -> None:
    """Refuses parts whose sum over the ranks is not the result of the site."""
    parts = site.parts
    meshes = {id(part.mesh): path for path, part in parts.items()}
    first = next(iter(parts.values()), None)
    for path, part in parts.items():
        if first is not None and part.mesh != first.mesh:
            site.refuse(
                IDS["meshes-differ"],
                "meshes-differ",
                f"'{path}' is on {part.mesh}, and '{meshes[id(first.mesh)]}' "
                f"on {first.mesh}; distribute all members over one mesh",
            )
            return
    rows = [path for path, part in parts.items() if part.style == "rowwise"]
    columns = [path for path, part in parts.items() if part.style == "colwise"]
    assert site.plan is not None
    if site.plan.outputs is not None:
        if site.plan.selects and columns:
            site.refuse(
                IDS["shards-do-not-match"],
                "shards-do-not-match",
                f"'{columns[0]}' is colwise and reads selected rows of "
                f"'{site.paths[0]}'; kernels for these have whole linears",
            )
        elif rows:
            site.refuse(
                IDS["shards-do-not-match"],
                "shards-do-not-match",
                f"'{rows[0]}' is rowwise and reads the result of "
                f"'{site.paths[0]}', which each rank has whole; distribute it "
                "colwise",
            )
        return
    if not rows and not columns:
        return
    if len(rows) != 1 or not columns:
        site.refuse(
            IDS["shards-do-not-match"],
            "shards-do-not-match",
            f"the site has {len(columns)} colwise and {len(rows)} rowwise "
            "linears; expected one rowwise linear that reads the results of "
            "colwise ones",
        )
        return
    (last,) = rows
    made = [call.output for call in flow.calls.get(last, [])]
    results = [call.output for call in flow.calls[site.paths[-1]]]
    if len(made) != len(results) or any(
        a is not b for a, b in zip(made, results)
    ):
        site.refuse(
            IDS["reduction-not-last"],
            "reduction-not-last",
            f"the result of '{last}' is a sum over ranks, and the site goes "
            "on after it; end the pattern with its module",
        )


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
        # The site has checked them.
        if site.parts and is_dtensor(tensor):
            continue
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
