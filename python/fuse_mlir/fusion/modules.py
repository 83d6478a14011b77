# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuses modules of a model in place, and unfuses them.

A `FusedModule` replaces the first member of a chain, and identities replace
the others (`fuse_mlir.fusion.proxies`).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from torch import nn

from fuse_mlir import errors, native
from fuse_mlir.checkpoint.formats import compressed_forward, packed_format
from fuse_mlir.errors import (
    FlowError,
    FuseError,
    FusionWarning,
    KernelError,
    PatternError,
    Refusal,
    Refused,
    UnknownExperts,
)
from fuse_mlir.fusion import timing
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.hub_mlp import FAMILIES, EndpointMlp, candidate_sites
from fuse_mlir.fusion.linear_add import FusedLinearAdd
from fuse_mlir.fusion.places import (
    Place,
    all_sites,
    members_back,
    put_all,
    unfuse_modules,
)
from fuse_mlir.fusion.places import fused_sites as fused_sites
from fuse_mlir.fusion.places import one_kernel as one_kernel
from fuse_mlir.fusion.projections import FusedProjections
from fuse_mlir.fusion.ranks import Ranks, ranks_of
from fuse_mlir.fusion.results import FusionResult, SiteResult
from fuse_mlir.fusion.scale_check import check_scales
from fuse_mlir.fusion.selected_rows import FusedSelection
from fuse_mlir.fusion.tensor_parallel import (
    Distributed,
    DistributedChain,
    DistributedProjections,
)
from fuse_mlir.matching import static_mlp
from fuse_mlir.matching.activations import ROUNDINGS, formulas_in
from fuse_mlir.matching.candidates import (
    candidates,
    looks_like_mlp,
    shorter_sites,
)
from fuse_mlir.matching.dataflow import Flow, observe
from fuse_mlir.matching.linears import in_layer, linear_sites
from fuse_mlir.matching.moe import activation_of, looks_like_experts
from fuse_mlir.matching.patterns import (
    KernelMapping,
    ModuleSpec,
    Pattern,
    Patterns,
    check_specs,
    declared_patterns,
    resolve,
)
from fuse_mlir.matching.plans import Plan
from fuse_mlir.matching.projections import projection_sites
from fuse_mlir.matching.sites import Places, Site, find_sites, join
from fuse_mlir.matching.static_mlp import StaticMlp
from fuse_mlir.matching.tensor_parallel import (
    keeps_shapes,
    part_of,
    plain_modules,
)
from fuse_mlir.native.refusals import IDS, refusal
from fuse_mlir.support.arguments import require, require_module
from fuse_mlir.support.progress import progress_of
from fuse_mlir.support.types import (
    FusionConfig,
    Inputs,
    Progress,
    ProgressOption,
)

#: Elements that one vector load of the kernel for experts reads.
_VECTOR = 8
GRADIENTS = ("recompute", "error")
PARTIALS = ("float32", "model")
#: Id of the refusal of sites whose members are faster.
SLOWER = "FUSE-N024"


def fuse_modules(
    model: nn.Module,
    patterns: Patterns = None,
    specs: Sequence[ModuleSpec] | None = None,
    *,
    inputs: Inputs = None,
    strict: bool | None = None,
    gradients: str = "recompute",
    fusion_config: FusionConfig | None = None,
    rounding: str = "exact",
    partials: str = "float32",
    only_faster: bool | None = None,
    progress: ProgressOption = None,
) -> FusionResult:
    """Replaces chains of modules of `model` by kernels, in place.

    Only this instance changes; other models of its class, and models loaded
    later, are not affected.

    Args:
        model: on the CPU or CUDA; in eval mode if its members have dropout.
        patterns: a `KernelConfig`, a mapping like its argument, one key or a
            list of keys. None uses the patterns that the model declares, or
            every chain around linears that its data flow shows.
        specs: one per member of the pattern; the names of inputs and outputs
            are compared with the data flow.
        inputs: example inputs, of which shapes and types matter. Models of
            transformers need none.
        strict: refuse the whole call if a selected site cannot be fused; the
            default with given or declared patterns. Otherwise such sites
            keep their members, and the result has the reason.
        gradients: `recompute` or `error`, see `FusedModule`.
        fusion_config: `{"static_quantized_mlp": {"input_quant": "fuse",
            "gated_mlp": "fuse", "dense_gelu_mlp": "fuse"}}` selects sites of
            the named kinds and requires static scales for all their
            linears. "any_mlp" is both kinds with each activation, and
            "any_linear" the linears of attention.
            `scales` has those of linears in floating point. None
            uses `model.config.fusion_config`, and `{}` none.
        rounding: `exact` or `relaxed`, see `FusedModule`.
        partials: the type in which ranks of a distributed model add up their
            results: `float32`, or `model` for that of the members.
        only_faster: measure each kind of site once, on its weights, and fuse
            it if its kernel is faster for some number of rows. Calls with
            other numbers of rows run the members, as do calls that need
            gradients. Sites that are never faster are refused. The default is
            True without given or declared patterns and without a
            `fusion_config`. Models on the meta device are not measured.
        progress: called after each site with the number of finished sites,
            the number of all sites, and a line of text. True shows a bar
            after a second, in terminals and notebooks.

    Returns:
        All selected sites.

    Raises:
        PatternError: a pattern is malformed, unknown or selects nothing.
        FlowError: the model cannot be run on the inputs.
        FuseError: a site was refused and `strict` is set, there is no site to
            fuse, or libfuse is missing. The model did not change.

    Examples:
        >>> result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        >>> print(result[0].status, *result[0].families)
        fused gated_mlp
        >>> y = model(x)
    """
    with ranks_of(model, strict, gradients, rounding, partials) as ranks:
        return _fuse_modules(
            model,
            patterns,
            specs,
            inputs,
            strict,
            gradients,
            fusion_config,
            rounding,
            partials,
            only_faster,
            progress,
            ranks,
        )


def _fuse_modules(
    model: nn.Module,
    patterns: Patterns,
    specs: Sequence[ModuleSpec] | None,
    inputs: Inputs,
    strict: bool | None,
    gradients: str,
    fusion_config: FusionConfig | None,
    rounding: str,
    partials: str,
    only_faster: bool | None,
    progress: ProgressOption,
    ranks: Ranks | None,
) -> FusionResult:
    """`fuse_modules` with the ranks of the model."""
    report = progress_of(progress)
    check_option("gradients", gradients, GRADIENTS)
    check_option("rounding", rounding, ROUNDINGS)
    check_option("partials", partials, PARTIALS)
    if isinstance(patterns, KernelMapping) and patterns.layers:
        _tell_of_hub(model, patterns)
    if fusion_config is None:
        fusion_config = static_mlp.config_of(model)
    static = static_mlp.parse(fusion_config)
    static_mlp.check_paths(static, require_module(model))
    if static is not None and static.endpoints:
        results, planned = plan_hub(model, static, patterns, inputs)
        return _finish(model, results, planned, patterns, strict, ranks)
    sites, _ = select(model, patterns, inputs, linears=linears_of(static))
    if specs is not None:
        _check_specs(sites, specs)
    for site in sites:
        site.sums_in_f32 = partials == "float32"
    rows = rows_to_measure(
        prefers_faster(model, patterns, static, only_faster), inputs
    )
    return fuse_sites(
        model,
        sites,
        patterns,
        strict,
        gradients,
        static,
        rounding,
        rows,
        report,
        ranks,
    )


def fuse_sites(
    model: nn.Module,
    sites: Sequence[Site],
    patterns: Patterns,
    strict: bool | None,
    gradients: str,
    static: StaticMlp | None,
    rounding: str,
    rows: Callable[[Site], tuple[int, ...] | None],
    progress: Progress | None,
    ranks: Ranks | None = None,
) -> FusionResult:
    """Fuses selected sites in place, as `fuse_modules`.

    Args:
        model: that has the sites.
        sites: as `select` returns them.
        patterns: as for `fuse_modules`.
        strict: as for `fuse_modules`.
        gradients: as for `fuse_modules`.
        static: as for `plan_site`.
        rounding: as for `fuse_modules`.
        rows: as `rows_to_measure` returns it.
        progress: as for `fuse_modules`.
        ranks: of a distributed model.

    Raises:
        FuseError: as `fuse_modules`.
    """
    results, planned = _plan_all(
        sites, gradients, static, rounding, rows, progress
    )
    return _finish(model, results, planned, patterns, strict, ranks)


def _finish(
    model: nn.Module,
    results: FusionResult,
    planned: Sequence[tuple[Site, Place]],
    patterns: Patterns,
    strict: bool | None,
    ranks: Ranks | None = None,
) -> FusionResult:
    """Puts planned modules in place, unless the call is refused.

    Raises:
        FuseError: as `fuse_modules`.
    """
    if ranks is not None:
        planned = ranks.agree(
            results, planned, _is_strict(model, patterns, strict)
        )
    check_results(model, results, bool(planned), patterns, strict)
    put_all(model, planned)
    for result in results:
        if result.status == "could fuse":
            result.status = "fused"
    return results


def _is_strict(
    model: nn.Module, patterns: Patterns, strict: bool | None
) -> bool:
    """The value of `strict`, with the default for None."""
    if strict is None:
        return patterns is not None or bool(declared_patterns(model))
    return strict


def check_results(
    model: nn.Module,
    results: FusionResult,
    planned: bool,
    patterns: Patterns,
    strict: bool | None,
) -> None:
    """Refuses a whole call of `fuse_modules`.

    Args:
        model: to fuse.
        results: the outcome for each selected site.
        planned: whether any of them can be fused.
        patterns: as for `fuse_modules`.
        strict: as for `fuse_modules`.

    Raises:
        FuseError: a site was refused and `strict` is set, or there is no site
            to fuse.
    """
    if _is_strict(model, patterns, strict) and results.refused:
        first = results.refused[0]
        more = len(results.refused) - 1
        raise FuseError(
            f"site '{join(first.parent, first.id)}' is refused: "
            f"{first.reason}"
            + (f" (and {more} more)" if more else "")
            + ("; pass strict=False to fuse the others" if planned else "")
        )
    if (
        not planned
        and patterns is None
        and not any(r.refusal and r.refusal.id == SLOWER for r in results)
    ):
        why = (
            f": {results.refused[0].reason}"
            if results.refused
            else _packed(model)
        )
        itself = (
            ""
            if results.refused or not looks_like_mlp(model)
            else "; fuse_mlir.compile_module(model) makes one kernel of the "
            "module itself"
        )
        raise FuseError(
            f"{type(model).__name__} has no chain to fuse{why}"
            + (
                "; fuse_mlir.explain lists all reasons"
                if len(results) != 1
                else ""
            )
            + itself
        )


#: The note on results of models on the meta device.
NOT_MEASURED = (
    "nothing was measured, because the model has no weights here: "
    "sites that are slower on its device would be left out"
)


def prefers_faster(
    model: nn.Module,
    patterns: Patterns,
    static: StaticMlp | None,
    only_faster: bool | None,
) -> bool:
    """The value of `only_faster`, with the default for None.

    Raises:
        TypeError: the value is not None, True or False.
    """
    if only_faster is None:
        return (
            patterns is None and static is None and not declared_patterns(model)
        )
    require(only_faster, bool, "argument 'only_faster'", "None, True or False")
    return only_faster


def rows_to_measure(
    only_faster: bool, inputs: Inputs
) -> Callable[[Site], tuple[int, ...] | None]:
    """A function that maps a site to the numbers of rows to measure, or to
    None if the site is not measured."""

    def rows(site: Site) -> tuple[int, ...] | None:
        # Times differ between ranks, and their choice must not.
        if not only_faster or site.plan is None or site.parts:
            return None
        found = set(timing.ROWS)
        if inputs is not None:
            found.add(max(1, site.plan.examples[0].shape[:-1].numel()))
        return tuple(sorted(found))

    return rows


def _packed(model: nn.Module) -> str:
    """The first module with weights that no kernel can read, for a message."""
    for path, module in model.named_modules():
        found = packed_format(module)
        if found is not None:
            return (
                f": FUSE-N313 unsupported-format: '{path}' has {found} "
                "weights, which no kernel reads"
            )
    return ""


def _tell_of_hub(model: nn.Module, config: KernelMapping) -> None:
    """Warns that kernels of the Hub are not loaded here, unless transformers
    has loaded them with the model.

    Raises:
        PatternError: the config has no chains to fuse.
    """
    names = ", ".join(map(str, config.layers))
    if not config.fusions:
        raise PatternError(
            f"KernelConfig has kernels of the Hub alone ({names}), which "
            "transformers loads; give it to from_pretrained as kernel_config"
        )
    loaded = getattr(model, "kernel_config", None)
    if getattr(loaded, "layers", None) != config.layers:
        warnings.warn(
            f"the kernels of the Hub for {names} are not loaded, but the "
            "chains of this KernelConfig are fused; give it to from_pretrained "
            "of transformers as kernel_config for both",
            FusionWarning,
            stacklevel=3,
        )


def check_option(what: str, value: object, known: Sequence[str]) -> None:
    """Raises PatternError if `value` is not one of `known`."""
    if value not in known:
        raise PatternError(
            f"unknown {what} '{value}'; expected " + " or ".join(known)
        )


def report_slow(
    progress: Progress | None, number: int, sites: Sequence[Site]
) -> Callable[[str], None]:
    """Reports steps of one site, which count as no finished site.

    Args:
        progress: receives the reports.
        number: of the site, from 1.
        sites: all of them.
    """
    site = sites[number - 1]

    def slow(line: str) -> None:
        if progress is not None:
            progress(
                number - 1,
                len(sites),
                f"{join(site.parent, site.id)}: {line}",
            )

    return slow


def _plan_all(
    sites: Sequence[Site],
    gradients: str,
    static: StaticMlp | None,
    rounding: str,
    rows: Callable[[Site], tuple[int, ...] | None],
    progress: Progress | None,
) -> tuple[FusionResult, list[tuple[Site, Place]]]:
    """The outcome for each site, and the modules of those that can fuse."""
    results = FusionResult()
    planned: list[tuple[Site, Place]] = []
    for done, site in enumerate(sites, 1):
        result, module = plan_site(
            site,
            gradients,
            static,
            rounding,
            rows(site),
            report_slow(progress, done, sites),
        )
        results.append(result)
        if module is not None:
            planned.append((site, module))
        if progress is not None:
            progress(
                done,
                len(sites),
                f"{join(site.parent, site.id)}: "
                + (result.reason or ", ".join(result.families)),
            )
    return results, planned


def plan_hub(
    model: nn.Module, static: StaticMlp, patterns: Patterns, inputs: Inputs
) -> tuple[FusionResult, list[tuple[Site, Place]]]:
    """`_plan_all` for MLPs that kernels of the Hub compute.

    Raises:
        PatternError: patterns are given too, and they name other kernels.
    """
    if patterns is not None:
        raise PatternError(
            "the fusion_config names kernels of the Hub for MLPs ("
            + ", ".join(static.endpoints)
            + "), and the patterns other ones; "
            "fuse in one call without patterns, and with fusion_config={} in "
            "another"
        )
    require_module(model)
    _refuse_kinds(model)
    with members_back(model):
        flow = observe(model, inputs)
        found = candidate_sites(model, static.endpoints, flow)
    taken = {
        join(parent, name)
        for parent, module in all_sites(model)
        for name in module.names
    }
    results = FusionResult()
    planned: list[tuple[Site, Place]] = []
    for site, kind in found:
        if taken.intersection(site.paths):
            continue
        if site.refusal is None and site.parts:
            site.refuse(
                "FUSE-N209",
                "tensor-parallel",
                f"'{next(iter(site.parts))}' is distributed over ranks, and "
                "kernels of the Hub add nothing up; name 'fuse' instead",
            )
        result = SiteResult(
            site.id,
            site.parent,
            site.paths,
            "refused",
            (FAMILIES[kind],),
            site.refusal,
        )
        results.append(result)
        if site.refusal is None:
            module = EndpointMlp(site, kind, static.endpoints)
            planned.append((site, module))
            result.status, result.note = "could fuse", module.note
    return results, planned


#: Which linears outside of MLPs are sites.
Linears = Literal["none", "floating", "static"]


def linears_of(static: StaticMlp | None) -> Linears:
    """Which linears outside of MLPs a call of `fuse_modules` fuses."""
    if static is None:
        return "floating"
    return "static" if static.has_linears else "none"


def select(
    model: nn.Module,
    patterns: Patterns,
    inputs: Inputs,
    linears: Linears = "none",
) -> tuple[list[Site], Flow]:
    """Sites of `patterns`, or of the data flow without patterns.

    Args:
        model: to fuse.
        patterns: as for `fuse_modules`.
        inputs: as for `fuse_modules`.
        linears: whether the data flow is also searched for norms with linears,
            and for output projections. With static scales, only those in
            layers are sites, and heads are not.
    """
    require_module(model)
    _refuse_kinds(model)
    resolved: list[Pattern] = resolve(model, patterns)
    # Fused sites are analyzed with their members.
    with members_back(model):
        flow = _observe(model, inputs)
    if patterns is None and not resolved:
        resolved = candidates(model, flow)
        places = Places(model)
        sites = [
            found
            for pattern in resolved
            for site in find_sites(model, [pattern], flow, places)
            for found in (site, *shorter_sites(model, site, flow, places))
        ]
        if linears != "none":
            sites += [
                site
                for site in projection_sites(model, flow, sites)
                if linears != "static"
                or all(in_layer(model, path) for path in site.paths)
            ]
            sites += linear_sites(model, flow, sites, linears == "static")
        for site in sites:
            _refuse_convolutions(site)
            _hold_back_experts(site)
        # Ids number sites with equal members. Here, each site has its own
        # pattern.
        count: dict[str, int] = {}
        for site in sites:
            base = site.id.rpartition("#")[0]
            site.id = f"{base}#{count.get(base, 0)}"
            count[base] = count.get(base, 0) + 1
    else:
        sites = find_sites(model, resolved, flow)
    with members_back(model):
        check_scales(model, sites, inputs)
    return sites, flow


def _observe(model: nn.Module, inputs: Inputs) -> Flow:
    """`observe`, without communication between ranks.

    Raises:
        FlowError: as `observe`.
        FuseError: as well, and a module is distributed in a way that makes
            the shapes of one rank unknown.
    """
    try:
        with plain_modules(model):
            return observe(model, inputs)
    except FlowError as error:
        for path, module in model.named_modules():
            part = part_of(module)
            if isinstance(part, Refusal) and not keeps_shapes(module, part):
                raise FuseError(
                    f"{part.id} {part.name}: '{path}' {part.text}"
                ) from error
        raise


def _refuse_kinds(model: nn.Module) -> None:
    """Refuses kinds of models that the analysis cannot run.

    It runs models without their hooks, with other hooks, and on fake tensors.
    These kinds would fail, or their parameters would lose their data.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise FuseError(
            str(
                refusal(
                    "not-traceable",
                    "the model is a "
                    "torch.jit.ScriptModule, which has no Python forward "
                    "to trace; fuse the model that it was made of",
                )
            )
        )
    for path, module in model.named_modules():
        kind = type(module)
        if compressed_forward(module):
            raise FuseError(
                f"FUSE-N208 has-hooks: '{path}' has a forward of "
                "compressed-tensors, which multiplies its weight out at the "
                "first call; load the directory with "
                "fuse_mlir.load_model(path), which keeps stored weights and "
                "their scales, or dequantized with "
                "CompressedTensorsConfig(run_compressed=False)"
            )
        if hasattr(kind, "_fuse_compiled_from"):
            where = f"'{path}'" if path else "the model"
            raise FuseError(
                f"FUSE-N213 already-fused: {where} is one kernel "
                "of fuse_mlir.compile_module; decompile it before"
            )
        if hasattr(kind, "flatten_sharded_optim_state_dict"):
            what = (
                f"is a {kind.__name__}, which flattens the parameters "
                "below it; fuse a model without it"
            )
        elif hasattr(kind, "set_reshard_after_forward"):
            what = "was given to fully_shard; fuse the model before that"
        else:
            part = part_of(module)
            if (
                isinstance(part, Refusal)
                and part.name == "shard-without-reduction"
            ):
                raise FuseError(f"{part.id} {part.name}: '{path}' {part.text}")
            continue
        raise FuseError(f"FUSE-N209 tensor-parallel: '{path}' {what}")


def _refuse_convolutions(site: Site) -> None:
    """Refuses members that mix tokens, before they are exported.

    Exporting modules such as Mamba's can take minutes.
    """
    if site.refusal is not None:
        return
    for path, member in zip(site.paths, site.members):
        for below, module in member.named_modules():
            if isinstance(module, nn.modules.conv._ConvNd):
                site.refuse(
                    IDS["convolution"],
                    "convolution",
                    f"'{join(path, below) if below else path}' is a "
                    f"{type(module).__name__}, and no kernel has "
                    "convolutions; leave it out of the chain",
                )
                return


def _hold_back_experts(site: Site) -> None:
    """Refuses experts that no pattern names, if PyTorch is faster."""
    if site.refusal is not None or not looks_like_experts(site.members[0]):
        return
    path = site.paths[0]
    try:
        activation_of(site.members[0], path)
    except UnknownExperts as error:
        site.refuse(IDS["unknown-experts"], "unknown-experts", str(error))
        return
    weights = dict(site.members[0].named_parameters())["down_proj"]
    if (
        weights.is_cuda
        and weights.element_size() == 2
        and not any(size % _VECTOR for size in weights.shape[1:])
    ):
        return
    site.refuse(
        "FUSE-N014",
        "family-not-requested",
        "the kernel for experts "
        f"'{path}' is slower than grouped products, except for few tokens in 16 "
        'bits on a GPU; a pattern such as (("*Experts", "**.experts"),) '
        "asks for it",
    )


def _check_specs(sites: Sequence[Site], specs: Sequence[ModuleSpec]) -> None:
    for site in sites:
        if not site.members:
            continue
        check_specs(site.members, specs)
        if site.plan is None:
            continue
        for i, (step, spec) in enumerate(zip(site.plan.steps, specs)):
            for (_, source), name in zip(step.slots(), spec.inputs):
                makers = [
                    j for j, s in enumerate(specs[:i]) if name in s.outputs
                ]
                seen = source.index if source.kind == "step" else None
                if (makers[-1] if makers else None) != seen:
                    site.refuse(
                        "FUSE-N206",
                        "not-a-chain",
                        f"the spec of '{site.paths[i]}' reads '{name}' from "
                        + (
                            f"'{site.paths[makers[-1]]}'"
                            if makers
                            else "outside"
                        )
                        + ", but the model reads it from "
                        + (
                            f"'{site.paths[seen]}'"
                            if seen is not None
                            else "outside"
                        ),
                    )
                    break


def _kind_of(site: Site, plan: Plan) -> type[FusedModule]:
    """The class of the module that replaces the members of a site."""
    if site.parts:
        return (
            DistributedChain if plan.outputs is None else DistributedProjections
        )
    if plan.selects:
        return FusedSelection
    if plan.adds:
        return FusedLinearAdd
    return FusedModule if plan.outputs is None else FusedProjections


def plan_site(
    site: Site,
    gradients: str = "recompute",
    static: StaticMlp | None = None,
    rounding: str = "exact",
    rows: Sequence[int] | None = None,
    slow: Callable[[str], None] | None = None,
    bind: bool = True,
) -> tuple[SiteResult, FusedModule | None]:
    """The fused module of a site, which does not replace the members yet.

    Args:
        site: to fuse.
        gradients: how the backward pass computes, `recompute` or `error`.
        static: storage and scales of quantized weights; None for weights as
            the members have them.
        rounding: `exact` or `relaxed`.
        rows: numbers of rows to measure; the site is refused if the members
            are faster. None measures nothing.
        slow: as for `timing.measured`.
        bind: whether to pack the weights for the kernel, too. Without it, the
            kernel is compiled and not measured.
    """
    result = SiteResult(
        site.id, site.parent, site.paths, "refused", refusal=site.refusal
    )
    plan = site.plan
    # Sites without a plan are refused.
    if site.refusal is not None or plan is None:
        return result, None
    try:
        # A missing library is not a property of a site.
        native.library()
    except errors.NativeError as error:
        raise FuseError(str(error)) from error
    module = _kind_of(site, plan)(
        site.id,
        site.names,
        site.members,
        plan,
        site.pattern.kernel,
        gradients,
        static and static.below(site.parent),
        rounding,
        rows,
    )
    if isinstance(module, Distributed):
        module.distribute(site)
    try:
        copies, compiled = module.compile_for(plan.examples)
        result.families = compiled.families
        device = plan.examples[0].device
        result.note = copies.note
        if device.type != "meta" and not bind:
            # The kernel on a GPU has inputs of rank two.
            if device.type == "cuda" and compiled.by_rows:
                compiled = compiled.for_rows(module.chain_of(copies.members))
            compiled.check_code(device)
        elif device.type != "meta":
            verdict = module.verdict_for(compiled, device)
            # Packing weights costs time and memory.
            if verdict is None or not verdict.slower:
                module.bind(copies, compiled, plan.examples, slow)
                verdict = module.verdict
                result.note = module.note
            if verdict is not None and verdict.slower:
                result.refusal = Refusal(
                    SLOWER,
                    "slower-here",
                    verdict.reason()
                    + "; only_faster=False fuses it all the same",
                )
                result.note = ""
                return result, None
        if rounding == "exact":
            left = _formulas(site, str(compiled.remarks))
            result.note = "; ".join(
                filter(
                    None,
                    (
                        result.note,
                        left
                        and f"without {left}, which rounding='relaxed' allows",
                    ),
                )
            )
        if module.lost and module.lost not in result.note:
            result.note = "; ".join(filter(None, (result.note, module.lost)))
    except Refused as error:
        result.refusal = Refusal(error.id, error.name, error.text)
        return result, None
    except KernelError as error:
        left = _formulas(site, str(error)) if rounding == "exact" else ""
        found = error.refusal or refusal("no-code", str(error))
        result.refusal = Refusal(
            found.id,
            found.name,
            found.text
            + (f"; rounding='relaxed' allows {left}" if left else ""),
        )
        return result, None
    except errors.NativeError as error:
        result.refusal = refusal("no-code", str(error))
        return result, None
    result.note = "; ".join(filter(None, (result.note, site.risk)))
    result.status = "could fuse"
    return result, module


def _formulas(site: Site, reasons: str) -> str:
    """Activations that `rounding="relaxed"` would allow, for a message."""
    if "FUSE-N101" not in reasons:
        return ""
    return ", ".join(
        f"'{path}'" for path in formulas_in(site.names, site.members)
    )


@contextlib.contextmanager
def fused(
    model: nn.Module,
    patterns: Patterns = None,
    specs: Sequence[ModuleSpec] | None = None,
    *,
    inputs: Inputs = None,
    strict: bool | None = None,
    gradients: str = "recompute",
    fusion_config: FusionConfig | None = None,
    rounding: str = "exact",
    partials: str = "float32",
    only_faster: bool | None = None,
    progress: ProgressOption = None,
) -> Iterator[FusionResult]:
    """Fuses for the body of a `with`, and unfuses the same sites after it.

    Arguments and errors are those of `fuse_modules`.

    Examples:
        >>> with fuse_mlir.fused(model, inputs=x, only_faster=False) as result:
        ...     y = model(x)
        >>> len(result.fused)
        1
    """
    before = {id(module) for _, module in all_sites(model)}
    result = fuse_modules(
        model,
        patterns,
        specs,
        inputs=inputs,
        strict=strict,
        gradients=gradients,
        fusion_config=fusion_config,
        rounding=rounding,
        partials=partials,
        only_faster=only_faster,
        progress=progress,
    )
    try:
        yield result
    finally:
        mine = [
            join(path, module.site)
            for path, module in all_sites(model)
            if id(module) not in before
        ]
        if mine:
            unfuse_modules(model, mine)
