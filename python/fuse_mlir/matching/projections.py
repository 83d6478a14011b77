# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Norms whose result several linears read, in other modules too.

A decoder layer has the norm before attention, and attention has the projections
that read it. The data flow of one run shows which modules read a result,
wherever they are. Other modules may read it too: then the kernel returns it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from fuse_mlir.matching.candidates import has_one_matrix
from fuse_mlir.matching.dataflow import Flow
from fuse_mlir.matching.path_glob import PathGlob, escape
from fuse_mlir.matching.patterns import ANY_FAMILY, Member, Pattern, class_name
from fuse_mlir.matching.sites import (
    Places,
    Site,
    check_site,
    common_parent,
    crosses_layers,
    owner_of,
)


def projection_sites(
    model: nn.Module, flow: Flow, chains: Sequence[Site]
) -> list[Site]:
    """Norms with the linears that read their results, in the order of calls.

    Args:
        model: that was run.
        flow: the calls of that run.
        chains: sites that are chosen already and keep their members.
    """
    taken = {
        path: site.id
        for site in chains
        if site.refusal is None
        for path in site.paths
    }
    sites: list[Site] = []
    places = Places(model)
    for path, module in model.named_modules():
        if not _is_norm(module) or owner_of(path, taken) is not None:
            continue
        readers = [
            reader
            for reader in _readers(model, path, flow)
            if owner_of(reader, taken) is None
            and not crosses_layers(model, [path, reader])
        ]
        if readers:
            sites.append(_site(model, places, path, readers, flow, taken))
    return sites


def _is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm by its name, without weights of linears."""
    return "Norm" in class_name(module) and all(
        p.dim() < 2 for p in module.parameters()
    )


def _readers(model: nn.Module, path: str, flow: Flow) -> list[str]:
    """Paths of the linears that read a result directly, in order of calls.

    Args:
        model: that was run.
        path: of the norm.
        flow: the calls of the run.
    """
    calls = flow.calls.get(path)
    if not calls or not isinstance(calls[0].output, torch.Tensor):
        return []
    output, end = calls[0].output, calls[0].end
    found = _linears(model, output, end, flow)
    selected = flow.selections_of(output)
    if not found and selected:
        # The head of a language model, which reads the last rows.
        found = _linears(model, selected[-1], end, flow)[:1]
    return found


def _linears(
    model: nn.Module, tensor: torch.Tensor, after: int, flow: Flow
) -> list[str]:
    found: dict[str, None] = {}
    for use in flow.uses_of(tensor):
        # The last ops of the norm itself may return their input.
        if (
            use.time > after
            and use.module
            and _reads(flow, use.module, tensor)
            and has_one_matrix(model.get_submodule(use.module))
            # Routers return several tensors.
            and isinstance(flow.calls[use.module][0].output, torch.Tensor)
        ):
            found[use.module] = None
    return list(found)


def _reads(flow: Flow, path: str, tensor: torch.Tensor) -> bool:
    return any(
        t is tensor for call in flow.calls.get(path, []) for t in call.tensors()
    )


def _site(
    model: nn.Module,
    places: Places,
    norm: str,
    readers: Sequence[str],
    flow: Flow,
    taken: dict[str, str],
) -> Site:
    paths = [norm, *readers]
    parent = common_parent(paths)
    names = tuple(p[len(parent) + 1 :] if parent else p for p in paths)
    members = [model.get_submodule(path) for path in paths]
    pattern = Pattern(
        tuple(
            Member(class_name(member), PathGlob(escape(path)))
            for member, path in zip(members, paths)
        ),
        ANY_FAMILY,
    )
    base = "+".join(name.rpartition(".")[2] for name in names)
    site = Site(f"{base}#0", parent, names, pattern, members, fans_out=True)
    check_site(places, site, flow, taken)
    return site
