# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calibration of the MLPs of a model, and their fusion with static scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from fuse_mlir.calibration.scales import calibrate as choose_scales
from fuse_mlir.errors import CalibrationError
from fuse_mlir.fusion.results import FusionResult
from fuse_mlir.matching.patterns import ANY_FAMILY, Patterns
from fuse_mlir.matching.sites import Site
from fuse_mlir.quantized.fp8_reference import (
    emulated,
    entries_of,
    is_fp8_linear,
)
from fuse_mlir.quantized.stored import Policy
from fuse_mlir.quantized.value_range import Range, about
from fuse_mlir.support.arguments import require_module
from fuse_mlir.support.fusion_registry import FUSION
from fuse_mlir.support.types import Inputs, Progress


def calibrate(
    model: nn.Module,
    data: Iterable[Inputs],
    patterns: Patterns = None,
    *,
    storage: str = "f8E4M3FN",
    method: str = "amax",
    percentile: float = 99.99,
    per_channel: bool = False,
    strict: bool | None = None,
    rounding: str = "exact",
    progress: Progress | None = None,
) -> FusionResult:
    """Fuses the MLPs of `model` with static scales that are chosen from `data`.

    The model runs unfused on all of `data`, and the inputs of all linears of
    sites are measured. Then the sites are fused with quantized copies of their
    weights. The modules themselves do not change; `unfuse_modules` puts them
    back.

    Args:
        model: in eval mode, on the CPU or CUDA. Sites that are fused already
            stay fused.
        data: inputs of one call each: a tensor, a tuple or a dict.
        patterns: as for `fuse_modules`.
        storage: f8E4M3FN, f8E5M2 or i8.
        method: amax, percentile or mse; see docs/how-to/quantize.md.
        percentile: percentage of values that must not saturate, for the method
            `percentile`.
        per_channel: one scale per output channel of a weight, by amax.
        strict: as for `fuse_modules`.
        rounding: as for `fuse_modules`.
        progress: called after each of `data` and each site.

    Returns:
        The sites, as `fuse_modules` returns them. Their `calibration` has the
        scales and the measured ranges. It can be the `scales` of a
        `fusion_config`.

    Raises:
        CalibrationError: no data, training mode, or a linear without a site.
        RangeError: a value is not finite, or all values are zero.
        FuseError: as `fuse_modules`.
        PatternError: as `fuse_modules`.

    Examples:
        >>> sites = fuse_mlir.calibrate(model, [x])
        >>> sorted(sites.calibration.scales)[0]
        'layers.0.mlp.down'
    """
    from fuse_mlir.fusion import modules

    require_module(model)
    if not isinstance(data, Iterable) or isinstance(
        data, (torch.Tensor, Mapping, str, bytes)
    ):
        raise CalibrationError(
            f"data is a {type(data).__name__}; expected a list with the "
            "inputs of one call each"
        )
    batches = list(data)
    if not batches:
        raise CalibrationError("calibration needs at least one input")
    if model.training:
        raise CalibrationError(
            f"{type(model).__name__} is in training mode; "
            "call eval(), because scales are those of "
            "inference"
        )
    sites, _ = modules.select(model, patterns, batches[0])
    with modules.members_back(model), emulated(model):
        linears = {
            path: module
            for site in sites
            if site.refusal is None
            for path, module in _linears(site)
        }
        if not linears:
            reason = next((f": {s.refusal}" for s in sites if s.refusal), "")
            raise CalibrationError(
                f"{type(model).__name__} has no site with linears{reason}"
            )
        ranges = _observe(model, linears, batches, progress)
        parameters = {
            f"{path}.weight": _real_weight(module)
            for path, module in linears.items()
        }
    scales = choose_scales(
        ranges, parameters, storage, method, percentile, per_channel
    )
    result = modules.fuse_modules(
        model,
        patterns,
        inputs=batches[0],
        strict=strict,
        rounding=rounding,
        progress=progress,
        fusion_config={
            FUSION: {
                "input_quant": ANY_FAMILY,
                "any_mlp": ANY_FAMILY,
                "scales": scales,
            }
        },
    )
    result.calibration = scales
    return result


def _linears(site: Site) -> Iterable[tuple[str, nn.Linear]]:
    for path, member in zip(site.paths, site.members):
        for below, module in member.named_modules():
            if isinstance(module, nn.Linear):
                yield (f"{path}.{below}" if below else path), module


def _real_weight(module: nn.Linear) -> torch.Tensor:
    from fuse_mlir.quantized.stored import dequantized_weight

    if is_fp8_linear(module):
        return dequantized_weight(entries_of(module), Policy(), torch.float32)
    return module.weight.detach()


def _observe(
    model: nn.Module,
    linears: Mapping[str, nn.Linear],
    batches: list[Any],
    progress: Callable[[int, int, str], None] | None,
) -> dict[str, Range]:
    from fuse_mlir.matching.dataflow import call_arguments

    ranges = {path: Range(seed=i) for i, path in enumerate(linears)}

    def count(path: str) -> Callable:
        def hook(_module: nn.Module, args: tuple) -> None:
            with about(f"input of '{path}'"):
                ranges[path].add(args[0])

        return hook

    handles = [
        module.register_forward_pre_hook(count(path))
        for path, module in linears.items()
    ]
    try:
        with torch.no_grad():
            for done, batch in enumerate(batches, 1):
                args, kwargs = call_arguments(model, batch)
                model(*args, **kwargs)
                if progress is not None:
                    progress(done, len(batches), "calibration")
    finally:
        for handle in handles:
            handle.remove()
    return ranges
