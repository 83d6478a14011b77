# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chains that no pattern names, as the data flow of a model shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import nn

from fuse_mlir.matching.dataflow import Flow
from fuse_mlir.matching.moe import looks_like_experts
from fuse_mlir.matching.path_glob import PathGlob, escape
from fuse_mlir.matching.patterns import ANY_FAMILY, Member, Pattern, class_name
from fuse_mlir.matching.sites import Places, Site, find_sites, join


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


def shorter_sites(
    model: nn.Module, site: Site, flow: Flow, places: Places
) -> list[Site]:
    """The rest of a refused chain without its first member, if it is a site.

    An example is an MLP whose norm is also read by attention. Chains with a
    sum over ranks end there.
    """
    if site.refusal is None:
        return []
    if site.refusal.name == "reduction-not-last":
        return _until_sum(model, site, flow, places)
    for start in range(1, len(site.members)):
        rest = site.members[start:]
        if sum(map(_matrices, rest)) < 2:
            return []
        found = find_sites(
            model,
            [Pattern(site.pattern.members[start:], site.pattern.kernel)],
            flow,
            places,
        )[0]
        if found.refusal is None:
            return [found]
    return []


def _until_sum(
    model: nn.Module, site: Site, flow: Flow, places: Places
) -> list[Site]:
    """The chain up to its sum over ranks, if it is a site."""
    for end in range(len(site.members) - 1, 0, -1):
        found = find_sites(
            model,
            [Pattern(site.pattern.members[:end], site.pattern.kernel)],
            flow,
            places,
        )[0]
        if found.refusal is None:
            return [found]
    return []


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


def has_one_matrix(module: nn.Module) -> bool:
    """Whether a module is a linear: one weight, and nothing below."""
    return (
        not module._modules
        and not isinstance(module, nn.Embedding)
        and _own_matrices(module) == 1
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
