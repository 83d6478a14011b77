# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Output projections of attention, with the residual add after them.

The add stands in the forward of the decoder layer. The data flow of one run
shows that nothing else reads the result of the linear.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from fuse_mlir.matching.candidates import has_one_matrix
from fuse_mlir.matching.dataflow import Call, Flow
from fuse_mlir.matching.path_glob import PathGlob, escape
from fuse_mlir.matching.patterns import ANY_FAMILY, Member, Pattern, class_name
from fuse_mlir.matching.sites import Places, Site, check_site, owner_of
from fuse_mlir.matching.tensor_parallel import is_distributed
from fuse_mlir.quantized.fp8_reference import is_fp8_linear

#: Names of the ops that add two tensors.
ADDS = frozenset(("add", "__add__", "__radd__"))


def linear_sites(
    model: nn.Module,
    flow: Flow,
    others: Sequence[Site],
    static: bool = False,
) -> list[Site]:
    """Linears of attention that no other site has, in the order of modules.

    Args:
        model: that was run.
        flow: the calls of that run.
        others: sites that are chosen already and keep their members.
        static: whether all linears have static scales. These, and linears with
            stored weights, are sites without a residual add. The add is part of
            other sites.
    """
    taken = {
        path: site.id
        for site in others
        if site.refusal is None
        for path in site.paths
    }
    sites, places = [], Places(model)
    for path, module in model.named_modules():
        if (
            not has_one_matrix(module)
            # The ranks add up its results before anything else is added.
            or is_distributed(module)
            or not flow.calls.get(path)
            or not in_layer(model, path)
            or not _in_attention(model, path)
            or owner_of(path, taken) is not None
        ):
            continue
        call = flow.calls[path][0]
        alone = static or is_fp8_linear(module)
        added = None if alone else _added(call, flow)
        if not alone and added is None:
            continue
        parent, _, name = path.rpartition(".")
        pattern = Pattern(
            (Member(class_name(module), PathGlob(escape(path))),), ANY_FAMILY
        )
        base = name if alone else f"{name}+add"
        site = Site(f"{base}#0", parent, (name,), pattern, [module])
        check_site(places, site, flow, taken)
        if site.plan is not None and added is not None:
            site.plan.adds = True
            site.plan.examples.append(added)
        sites.append(site)
    return sites


def in_layer(model: nn.Module, path: str) -> bool:
    """Whether a module is below an entry of a list, as layers are."""
    return any(isinstance(m, nn.ModuleList) for m in _around(model, path))


def _in_attention(model: nn.Module, path: str) -> bool:
    return any("Attention" in class_name(m) for m in _around(model, path))


def _around(model: nn.Module, path: str) -> list[nn.Module]:
    parts = path.split(".")
    return [
        model.get_submodule(".".join(parts[:i])) for i in range(1, len(parts))
    ]


def _added(call: Call, flow: Flow) -> torch.Tensor | None:
    """The tensor that an op adds to the result of a call, if nothing else reads
    that result and both have one shape and type."""
    output = call.output
    if not isinstance(output, torch.Tensor) or id(output) in flow.results:
        return None
    uses = [use for use in flow.uses_of(output) if use.time > call.end]
    if len(uses) != 1 or uses[0].op not in ADDS:
        return None
    other = uses[0].other_than(output)
    if other is None or (other.shape, other.dtype, other.device) != (
        output.shape,
        output.dtype,
        output.device,
    ):
        return None
    return other
