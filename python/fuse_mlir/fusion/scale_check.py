# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares static input scales of a checkpoint with the inputs of linears.

A weight shows whether its scale is inverted. Only data shows it for an input
scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from fuse_mlir.errors import Refused
from fuse_mlir.matching.dataflow import call_arguments
from fuse_mlir.matching.sites import Site, join
from fuse_mlir.quantized.fp8_reference import (
    emulated,
    entries_of,
    is_fp8_linear,
    policy_for,
)
from fuse_mlir.quantized.stored import (
    INPUT_SCALES,
    STORAGE,
    check_input_scales,
    read_linear,
)
from fuse_mlir.quantized.value_range import Range
from fuse_mlir.support.types import Inputs

#: The note on sites whose scales were not compared with data.
UNCOMPARED = (
    "with the input scales of the checkpoint, which were not compared "
    "with data, which inputs=... does"
)


def check_scales(
    model: nn.Module, sites: Sequence[Site], inputs: Inputs
) -> None:
    """Refuses sites with an input scale that the data contradicts.

    Without data, sites with static scales of a checkpoint get the risk
    `UNCOMPARED`.

    Args:
        model: not fused; it is called once if there is data.
        sites: only those that are not refused yet are checked.
        inputs: as for `fuse_modules`. None and tensors on the meta device
            have no data.
    """
    for site in sites:
        if site.parts and any(
            is_fp8_linear(module)
            and not entries_of(module).keys().isdisjoint(INPUT_SCALES)
            for member in site.members
            for module in member.modules()
        ):
            site.risk = UNCOMPARED
    scaled = {
        join(site.parent, site.id): found
        for site in sites
        if site.refusal is None and (found := _scaled(site))
    }
    if not scaled:
        return
    by_name = {join(site.parent, site.id): site for site in sites}
    if not _has_data(inputs):
        for name in scaled:
            by_name[name].risk = UNCOMPARED
        return
    seen = _observe(model, scaled, inputs)
    for name, linears in scaled.items():
        for path, (module, scale) in linears.items():
            storage = STORAGE[module.weight.dtype]
            try:
                check_input_scales({path: scale}, {path: seen[path]}, storage)
            except Refused as refused:
                by_name[name].refuse(refused.id, refused.name, refused.text)


def _scaled(site: Site) -> dict[str, tuple[nn.Linear, float]]:
    """Linears of a site with a stored weight and a static input scale."""
    found = {}
    for path, member in zip(site.paths, site.members):
        for below, module in member.named_modules():
            # A run on data would make the ranks communicate.
            if site.parts or not is_fp8_linear(module) or module.weight.is_meta:
                continue
            full = f"{path}.{below}" if below else path
            try:
                parts = read_linear(
                    full, entries_of(module), policy_for(module)
                )
            except Refused:
                # The plan of the site reports the reason.
                continue
            if parts.input_scale is not None:
                found[full] = module, parts.input_scale
    return found


def _has_data(inputs: Inputs) -> bool:
    tensors = [t for t in tree_leaves(inputs) if isinstance(t, torch.Tensor)]
    return bool(tensors) and not any(t.is_meta for t in tensors)


def _observe(
    model: nn.Module,
    scaled: Mapping[str, Mapping[str, tuple[nn.Linear, float]]],
    inputs: Inputs,
) -> dict[str, Range]:
    linears = {
        path: module
        for found in scaled.values()
        for path, (module, _) in found.items()
    }
    seen = {path: Range(seed=i) for i, path in enumerate(linears)}

    def watch(path: str) -> torch.utils.hooks.RemovableHandle:
        return linears[path].register_forward_pre_hook(
            lambda _, args: seen[path].add(args[0])
        )

    handles = [watch(path) for path in linears]
    try:
        args, kwargs = call_arguments(model, inputs)
        with torch.no_grad(), emulated(model):
            model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return seen
