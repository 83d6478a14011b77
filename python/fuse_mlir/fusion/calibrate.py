# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calibration of the MLPs of a model, and their fusion with static scales."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from fuse_mlir.calibration.scales import calibrate as choose_scales
from fuse_mlir.compiler.chains import structure
from fuse_mlir.compiler.scale_names import stand_in
from fuse_mlir.errors import CalibrationError, FlowError, FuseError
from fuse_mlir.fusion import modules
from fuse_mlir.fusion.results import FusionResult, SiteResult
from fuse_mlir.matching import static_mlp
from fuse_mlir.matching.activations import ROUNDINGS
from fuse_mlir.matching.patterns import ANY_FAMILY, Patterns
from fuse_mlir.matching.sites import Site, join
from fuse_mlir.matching.tensor_parallel import mesh_of
from fuse_mlir.quantized.fp8_reference import (
    emulated,
    entries_of,
    is_fp8_linear,
    policy_for,
)
from fuse_mlir.quantized.value_range import Range, about, choose_scale
from fuse_mlir.support.arguments import require_module
from fuse_mlir.support.fusion_registry import FUSION
from fuse_mlir.support.progress import progress_of
from fuse_mlir.support.types import Inputs, Progress, ProgressOption

#: Refusals of the data flow, which other inputs can take another way.
OF_INPUTS = (
    "changes-itself",
    "intermediate-has-other-users",
    "member-not-called",
    "no-result",
    "not-a-chain",
    "not-traceable",
    "side-input-made-later",
    "unsupported-argument",
)


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
    linears: str = "mlp",
    progress: ProgressOption = None,
) -> FusionResult:
    """Fuses the MLPs of `model` with static scales that are chosen from `data`.

    First the kernels are compiled, so that a model that cannot be fused is
    refused before it runs on any data. Code does not depend on the values of
    scales, and layers of one kind share it. Example inputs are
    the first of a list, or made from the config of a model of transformers;
    other models need the first of `data`.

    Then the model runs unfused on all of `data`, and the inputs of all linears
    of sites are measured. At last the sites are fused with quantized copies of
    their weights. The modules themselves do not change; `unfuse_modules` puts
    them back.

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
        linears: `mlp`, or `all` for the linears of attention, too. A head stays
            in floating point.
        progress: as for `fuse_modules`, called after each planned site, each
            of `data`, and each fused site.

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
    report = progress_of(progress)
    require_module(model)
    if not isinstance(data, Iterable) or isinstance(
        data, (torch.Tensor, Mapping, str, bytes)
    ):
        raise CalibrationError(
            f"data is a {type(data).__name__}; expected a list with the "
            "inputs of one call each"
        )
    if model.training:
        raise CalibrationError(
            f"{type(model).__name__} is in training mode; "
            "call eval(), because scales are those of "
            "inference"
        )
    mesh = mesh_of(model)
    if mesh is not None and mesh.size() > 1:
        raise CalibrationError(
            f"{type(model).__name__} is distributed over {mesh.size()} ranks, "
            "whose ranges differ; calibrate it on one device, and give the "
            "scales to fuse_modules on all ranks as fusion_config"
        )
    modules.check_option("rounding", rounding, ROUNDINGS)
    modules.check_option("linears", linears, LINEARS)
    _check_options(storage, method, percentile)
    plan = _Plan(
        model, patterns, storage, per_channel, strict, rounding, linears, report
    )
    batches = list(plan.check(data))
    if not batches:
        raise CalibrationError(NO_DATA)
    sites = plan.sites
    if sites is None:
        sites = plan.select(batches[0])
    with modules.members_back(model), emulated(model):
        found = _all_linears(model, sites)
        ranges = _observe(model, found, batches, report)
        parameters = {
            f"{path}.weight": _real_weight(module)
            for path, module in found.items()
        }
    scales = choose_scales(
        ranges, parameters, storage, method, percentile, per_channel
    )
    static = static_mlp.parse(_config(scales, linears))
    assert static is not None
    static = replace(static, measured=True)
    result = modules.fuse_sites(
        model,
        sites,
        patterns,
        strict,
        "recompute",
        static,
        rounding,
        modules.rows_to_measure(False, batches[0]),
        report,
    )
    result.calibration = scales
    return result


#: Values of `linears`.
LINEARS = ("mlp", "all")
#: The text of errors on data without inputs.
NO_DATA = "calibration needs at least one input"


def _check_options(storage: str, method: str, percentile: float) -> None:
    """Chooses a scale for a value, because errors after a run are late.

    Raises:
        RangeError: an option is unknown or outside of its range.
    """
    value = Range()
    value.add(torch.ones(1, device="cpu"))
    choose_scale(value, storage, method, percentile)


@dataclass
class _Plan:
    """Finds out before a calibration whether its model can be fused."""

    model: nn.Module
    patterns: Patterns
    storage: str
    per_channel: bool
    strict: bool | None
    rounding: str
    linears: str
    progress: Progress | None
    #: Sites on inputs of the data; None if no input was read yet.
    sites: list[Site] | None = None

    def check(self, data: Iterable[Inputs]) -> Iterable[Inputs]:
        """Refuses what `fuse_modules` will refuse.

        Args:
            data: as for `calibrate`.

        Returns:
            All of the data. An input that had to be read comes first.

        Raises:
            CalibrationError: no data, or no site has a linear.
            FuseError: as `fuse_modules`.
        """
        if isinstance(data, Sized) and not len(data):
            raise CalibrationError(NO_DATA)
        if isinstance(data, Sequence):
            self._refuse_for(data[0])
            return data
        if self._holds_for_examples():
            return data
        iterator = iter(data)
        for first in iterator:
            self._refuse_for(first)
            return itertools.chain([first], iterator)
        raise CalibrationError(NO_DATA)

    def select(self, inputs: Inputs) -> list[Site]:
        """The sites on these inputs."""
        return modules.select(
            self.model,
            self.patterns,
            inputs,
            "static" if self.linears == "all" else "none",
        )[0]

    def _refuse_for(self, inputs: Inputs) -> None:
        self.sites = self.select(inputs)
        self._refuse(self.sites)

    def _holds_for_examples(self) -> bool:
        """Whether sites can be fused on inputs made from the config. False if
        only the data can show it."""
        try:
            sites = self.select(None)
        except FlowError:
            return False
        try:
            self._refuse(sites)
        except (CalibrationError, FuseError):
            # The data may reach modules that examples do not reach.
            if not sites or any(
                site.refusal is not None and site.refusal.name in OF_INPUTS
                for site in sites
            ):
                return False
            raise
        return True

    def _stand_ins(self, linears: Mapping[str, nn.Linear]) -> object:
        """Scales that are equal where those of a calibration will be.

        Linears with inputs of one width mostly read the same value. Other
        kernels are compiled once more.
        """
        widths = {
            width: index
            for index, width in enumerate(
                dict.fromkeys(m.in_features for m in linears.values())
            )
        }
        return {
            path: {
                "input_scale": stand_in(widths[linear.in_features]),
                "weight_scale": "per_channel"
                if self.per_channel
                else stand_in(len(widths) + index),
                "storage": self.storage,
            }
            for index, (path, linear) in enumerate(linears.items())
        }

    def _refuse(self, sites: Sequence[Site]) -> None:
        with modules.members_back(self.model), emulated(self.model):
            linears = _all_linears(self.model, sites)
        static = static_mlp.parse(
            _config(self._stand_ins(linears), self.linears)
        )
        assert static is not None
        static = replace(static, planned=True)
        results = FusionResult()
        known: dict[object, SiteResult] = {}
        # The keys name objects by their ids.
        kept: list[object] = []
        for done, site in enumerate(sites, 1):
            key = _structure(site, kept)
            found = known.get(key)
            if found is None:
                found = modules.plan_site(
                    site, static=static, rounding=self.rounding, bind=False
                )[0]
                known[key] = found
            results.append(
                replace(
                    found, id=site.id, parent=site.parent, members=site.paths
                )
            )
            if self.progress is not None:
                self.progress(
                    done,
                    len(sites),
                    f"{join(site.parent, site.id)}: plan",
                )
        modules.check_results(
            self.model,
            results,
            any(r.refusal is None for r in results),
            self.patterns,
            self.strict,
        )


def _structure(site: Site, kept: list[object]) -> object:
    """The same for sites with the same kernel before scales are known."""
    plan = site.plan
    if site.refusal is not None or plan is None:
        return id(site)
    # Scales of a checkpoint can be refused for their values.
    if any(is_fp8_linear(module) for _, module in _linears(site)):
        return id(site)
    return (
        tuple(site.names),
        str(site.pattern.kernel),
        plan.structure(),
        tuple((t.dtype, t.dim(), t.shape[-1]) for t in plan.examples),
        tuple(structure(member, kept) for member in site.members),
    )


def _config(scales: object, linears: str) -> dict[str, object]:
    """A `fusion_config` for all kinds of MLPs, and of other linears."""
    options = {
        "input_quant": ANY_FAMILY,
        "any_mlp": ANY_FAMILY,
        "scales": scales,
    }
    if linears == "all":
        options["any_linear"] = ANY_FAMILY
    return {FUSION: options}


def _all_linears(
    model: nn.Module, sites: Iterable[Site]
) -> dict[str, nn.Linear]:
    """Linears of sites that are not refused, by their paths.

    Raises:
        CalibrationError: there is none.
    """
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
    return linears


def _linears(site: Site) -> Iterable[tuple[str, nn.Linear]]:
    for path, member in zip(site.paths, site.members):
        for below, module in member.named_modules():
            if isinstance(module, nn.Linear):
                yield (f"{path}.{below}" if below else path), module


def _real_weight(module: nn.Linear) -> torch.Tensor:
    from fuse_mlir.quantized.stored import dequantized_weight

    if is_fp8_linear(module):
        return dequantized_weight(
            entries_of(module), policy_for(module), torch.float32
        )
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
