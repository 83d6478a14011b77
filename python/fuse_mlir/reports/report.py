# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports on sites, verification of kernels, and timing of models."""

from __future__ import annotations

import copy
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any

import torch
from torch import nn

from fuse_mlir import native
from fuse_mlir.compiler.chains import Text
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.errors import FuseError
from fuse_mlir.fusion import modules
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.hub_mlp import EndpointMlp
from fuse_mlir.fusion.places import fused_sites
from fuse_mlir.fusion.results import (
    STATUSES,
    FusionResult,
    SiteResult,
    _line,
    counted,
)
from fuse_mlir.fusion.tensor_parallel import Distributed
from fuse_mlir.matching import static_mlp
from fuse_mlir.matching.activations import ROUNDINGS
from fuse_mlir.matching.candidates import missed_chains
from fuse_mlir.matching.dataflow import call_arguments
from fuse_mlir.matching.patterns import Patterns
from fuse_mlir.matching.sites import join
from fuse_mlir.quantized.flips import match_flips
from fuse_mlir.quantized.fp8_reference import emulated
from fuse_mlir.reports.rank_checks import all_passed, check_sum
from fuse_mlir.support.about import About
from fuse_mlir.support.arguments import require
from fuse_mlir.support.html import page, table
from fuse_mlir.support.progress import paced, progress_of
from fuse_mlir.support.types import FusionConfig, Inputs, ProgressOption

UNFUSE = "builtin.module(func.func(fuse-unfuse))"
#: Maximum ratio of a kernel's relative error to that of PyTorch, which depends
#: on the number of rows.
YARDSTICK = 1.5
#: Additional error of a kernel, in units of eps of f32 and of its own dtype.
FLOOR_F32, FLOOR = 2.0, 0.25
#: Additional error of sums in units of eps of f32, times the root of the number
#: of terms. The order of sums is unspecified (docs/reference/numerics.md), and
#: PyTorch adds partial sums.
FLOOR_ORDER = 0.25


def fused_results(model: nn.Module) -> FusionResult:
    """The sites of a model that are fused."""
    return FusionResult(
        SiteResult(
            m.site,
            parent,
            [join(parent, n) for n in m.names],
            "fused",
            m.families,
            note=m.note,
        )
        for parent, m in modules.all_sites(model)
    )


def explain(
    model: nn.Module,
    patterns: Patterns = None,
    inputs: Inputs = None,
    progress: ProgressOption = None,
    *,
    fusion_config: FusionConfig | None = None,
    rounding: str = "exact",
    only_faster: bool | None = None,
) -> FusionResult:
    """Reports what `fuse_modules` would do with each site; changes nothing.

    Args:
        model: also on the meta device, without weights.
        patterns: as for `fuse_modules`. With None, modules that look like an
            MLP but form no chain are also listed, with the reason.
        inputs: as for `fuse_modules`.
        progress: as for `fuse_modules`.
        fusion_config: as for `fuse_modules`.
        rounding: as for `fuse_modules`.
        only_faster: as for `fuse_modules`.

    Returns:
        Sites that are fused, could be fused, or are refused.

    Raises:
        PatternError: as `fuse_modules`.
        FlowError: as `fuse_modules`.

    Examples:
        >>> sites = fuse_mlir.explain(model, inputs=x, only_faster=False)
        >>> [site.status for site in sites]
        ['could fuse']
    """
    report = progress_of(progress)
    results = fused_results(model)
    done = {path for site in results for path in site.members}
    modules.check_option("rounding", rounding, ROUNDINGS)
    if fusion_config is None:
        fusion_config = static_mlp.config_of(model)
    static = static_mlp.parse(fusion_config)
    static_mlp.check_paths(static, model)
    if static is not None and static.endpoints:
        results += modules.plan_hub(model, static, patterns, inputs)[0]
        return results
    rows = modules.rows_to_measure(
        modules.prefers_faster(model, patterns, static, only_faster), inputs
    )
    selected, flow = modules.select(
        model, patterns, inputs, linears=modules.linears_of(static)
    )
    sites = [s for s in selected if not done.intersection(s.paths)]
    for number, site in enumerate(sites, 1):
        results.append(
            modules.plan_site(
                site,
                static=static,
                rounding=rounding,
                rows=rows(site),
                slow=modules.report_slow(report, number, sites),
            )[0]
        )
        if report is not None:
            report(number, len(sites), join(site.parent, site.id))
    if any(
        rows(site)
        for site in sites
        if site.refusal is None
        and site.plan is not None
        and site.plan.examples[0].is_meta
    ):
        results.note = modules.NOT_MEASURED
    if patterns is None:
        for site in missed_chains(model, flow, selected):
            results.append(
                SiteResult(
                    site.id,
                    site.parent,
                    site.paths,
                    "refused",
                    refusal=site.refusal,
                )
            )
    return results


def sites_json(
    results: Sequence[SiteResult], about: About | None = None
) -> str:
    """The sites as a JSON list of objects.

    Args:
        results: the sites.
        about: model, command, date and versions. With it, the result is an
            object with the entries `about`, `sites` (the list) and `note`
            (the sites that were not measured).
    """
    note = results.note if isinstance(results, FusionResult) else ""
    return _json(
        "sites", [asdict(site) for site in results], about, {"note": note}
    )


def _json(
    name: str,
    rows: list[dict[str, Any]],
    about: About | None,
    more: Mapping[str, Any],
) -> str:
    data = (
        rows
        if about is None
        else {"about": dict(about.rows()), name: rows, **more}
    )
    return json.dumps(data, indent=2) + "\n"


LEVELS = {
    "V0": "undoing the kernel in the IR gives the layers, letter by letter",
    "V1": "the fused op and the layers, compiled alike for the CPU, have the "
    "same bits",
    "V2": "the kernel is about as near to double precision as the members",
    "VR": "all ranks have the same bits as a sum of their terms",
    "VG": "the sum over ranks is about as near to double precision as the "
    "members",
    "V3": "how far results of the fused model are from those of the unfused",
    "files": "parameters are those of the directory's safetensors files",
}


def sites_html(
    results: Sequence[SiteResult],
    title: str = "Sites",
    about: About | None = None,
) -> str:
    """The sites as one self-contained page.

    Args:
        results: of `explain` or `fuse_modules`.
        title: of the page.
        about: model, command, date and versions.
    """
    present = {site.status for site in results}
    legend = {k: v for k, v in STATUSES.items() if k in present}
    legend |= {
        site.refusal.id: site.refusal.name.replace("-", " ")
        for site in results
        if site.refusal is not None
    }
    rows = [
        (
            site.status,
            join(site.parent, site.id),
            " → ".join(site.members),
            ", ".join(site.families),
            site.reason or site.note,
        )
        for site in results
    ]
    return page(
        title,
        [
            table(
                ("status", "site", "members", "kernel", "reason or note"), rows
            )
        ],
        title,
        about=about,
        summary=counted(results),
        legend=legend,
    )


@dataclass
class Check:
    """One claim about one site, or about the whole model."""

    site: str
    #: The check level: V0 to V2, or V3 for the whole model.
    rung: str
    passed: bool
    detail: str


@dataclass
class Verification:
    """All checks of a model; true when all passed."""

    checks: list[Check] = field(default_factory=list)
    #: Properties that these checks do not cover.
    unchecked: list[str] = field(default_factory=list)
    #: Model, command, date and versions, for the page and JSON.
    about: About | None = None

    def __bool__(self) -> bool:
        return bool(self.checks) and all(c.passed for c in self.checks)

    @property
    def summary(self) -> str:
        """The number of passed checks."""
        good = sum(c.passed for c in self.checks)
        return f"{good} of {len(self.checks)} checks passed"

    def __str__(self) -> str:
        lines = [
            _line(
                f"{'ok' if c.passed else 'FAILED':6}  {c.rung}  "
                f"{c.site}  {c.detail}"
            )
            for c in self.checks
        ]
        lines += [f"not checked: {text}" for text in self.unchecked]
        return "\n".join([*lines, self.summary]) + "\n"

    def json(self) -> str:
        """The checks as a JSON list of objects.

        With `about`, the result is an object with the entries `about`,
        `checks`, and `not_checked`, the properties that are not covered.
        """
        return _json(
            "checks",
            [asdict(c) for c in self.checks],
            self.about,
            {"not_checked": self.unchecked},
        )

    def html(self) -> str:
        """The checks as one page."""
        rows = [
            ("ok" if c.passed else "FAILED", c.rung, c.site, c.detail)
            for c in self.checks
        ]
        present = {c.rung for c in self.checks}
        legend = {k: v for k, v in LEVELS.items() if k in present}
        parts = [table(("result", "check", "site", "detail"), rows)]
        if self.unchecked:
            parts.append(
                "<h2>Not checked</h2><ul>"
                + "".join(f"<li>{escape(text)}" for text in self.unchecked)
                + "</ul>"
            )
        return page(
            "Verification",
            parts,
            about=self.about,
            summary=self.summary,
            legend=legend,
        )


def verify(
    model: nn.Module,
    inputs: Inputs = None,
    patterns: Patterns = None,
    progress: ProgressOption = None,
    *,
    rounding: str = "exact",
) -> Verification:
    """Compares all fused sites of `model` with the modules that they replace.

    - V0: undoing the kernel in the IR restores the text of the layers.
    - V1: the fused op and the layers, both compiled by the portable path, have
      the same bits; on the CPU only.
    - V2: the error of the kernel is similar to that of the members, in the L2
      norm. The reference is the members in double precision.
    - VR, VG: of sites with a sum over ranks: all ranks have the same bits as
      the sum of their terms, and the error of the sum is similar to that of
      the members. V0 to V2 are then about the part of this rank. All ranks
      have to call this function.
    - V3: the difference between the results of the fused and the unfused
      model, and of each kernel of the Hub, for which V0 to V2 are unknown.

    Args:
        model: fused or not. If not, all sites are fused for the checks only,
            whether they are faster or not.
        inputs: example inputs with data; None makes them from the config.
        patterns: as for `fuse_modules`, if the model is not fused.
        progress: as for `fuse_modules`, called after each checked site; before
            that, after each fused site if the model is not fused.
        rounding: as for `fuse_modules`, if the model is not fused.

    Raises:
        FuseError: the inputs reach no site, or as `fuse_modules`.
        PatternError: as `fuse_modules`.

    Examples:
        >>> bool(fuse_mlir.verify(model, x))
        True
    """
    report = progress_of(progress)
    modules.check_option("rounding", rounding, ROUNDINGS)
    if not modules.all_sites(model):
        with modules.fused(
            model,
            patterns,
            inputs=inputs,
            rounding=rounding,
            only_faster=False,
            progress=report,
        ):
            return verify(model, inputs, progress=report)
    args, kwargs = call_arguments(model, inputs)
    seen: dict[str, list[torch.Tensor]] = {}
    of_hub: dict[str, tuple[Any, Any]] = {}
    hub = [
        (join(parent, module.site), module)
        for parent, module in modules.all_sites(model)
        if isinstance(module, EndpointMlp)
    ]
    result = Verification()
    with torch.no_grad():
        handles = [
            module.on_inputs(_remember(seen, join(parent, module.site)))
            for parent, module in fused_sites(model)
        ]
        handles += [
            module.register_forward_pre_hook(
                _remember_call(of_hub, name), with_kwargs=True
            )
            for name, module in hub
        ]
        try:
            ours = _run(model, args, kwargs)
        finally:
            for handle in handles:
                handle.remove()
        sites = fused_sites(model)
        for done, (parent, module) in enumerate(sites, 1):
            name = join(parent, module.site)
            if name not in seen:
                raise FuseError(f"these inputs do not reach site '{name}'")
            checks = _check_site(name, module, seen[name])
            result.checks += checks
            if report is not None:
                failed = [c.rung for c in checks if not c.passed]
                report(
                    done,
                    len(sites),
                    f"{name}: "
                    + (f"{', '.join(failed)} failed" if failed else "verified"),
                )
        for name, place in hub:
            if name not in of_hub:
                raise FuseError(f"these inputs do not reach site '{name}'")
            given, named = of_hub[name]
            member = place.members[0]
            with emulated(member):
                result.checks.append(
                    replace(
                        _check_model(
                            [place(*given, **named)], [member(*given, **named)]
                        ),
                        site=name,
                    )
                )
        with modules.members_back(model):
            theirs = _run(model, args, kwargs)
    result.checks.append(_check_model(ours, theirs))
    result.checks += _check_ranks(model, bool(result))
    rows = sorted({values[0].shape[:-1].numel() for values in seen.values()})
    result.unchecked = [
        "other numbers of rows than "
        + " and ".join(map(str, rows))
        + ", the rows of these inputs",
        "gradients and training",
        "whether weights and scales are those of a checkpoint, which python "
        "-m fuse_mlir verify DIR compares",
    ]
    return result


def _check_ranks(model: nn.Module, passed: bool) -> list[Check]:
    """Whether the checks passed on all ranks of a distributed model."""
    for _, module in fused_sites(model):
        if isinstance(module, Distributed) and module._kernel is not None:
            failed = all_passed(passed, module.group, module._kernel.device)
            return [
                Check(
                    "model",
                    "VR",
                    not failed,
                    "all ranks passed"
                    if not failed
                    else "checks failed on rank " + ", ".join(map(str, failed)),
                )
            ]
    return []


def _remember(
    seen: dict[str, list[torch.Tensor]], name: str
) -> Callable[[list[torch.Tensor]], None]:
    def tell(inputs: list[torch.Tensor]) -> None:
        seen[name] = inputs

    return tell


def _remember_call(
    seen: dict[str, tuple[Any, Any]], name: str
) -> Callable[..., None]:
    def hook(_module, args, kwargs):
        seen[name] = args, kwargs

    return hook


def _run(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Results of a model; each call has the same random numbers."""
    devices = {
        parameter.device.index
        for parameter in model.parameters()
        if parameter.device.type == "cuda"
    }
    with torch.random.fork_rng(devices=sorted(devices)), emulated(model):
        return _tensors(model(*args, **kwargs))


def _tensors(output: object) -> list[torch.Tensor]:
    from torch.utils._pytree import tree_leaves

    values: Any = output
    if hasattr(output, "keys"):
        values = dict(values)
    return [t for t in tree_leaves(values) if isinstance(t, torch.Tensor)]


def _check_site(
    name: str, module: FusedModule, inputs: list[torch.Tensor]
) -> list[Check]:
    # The members may have changed since they were fused.
    assert module._kernel is not None
    module.still_has(module._kernel, inputs)
    kernel = module._kernel
    compiled = kernel.compiled
    undone = native.Module(compiled.formed)
    undone.run(UNFUSE)
    same = undone.text() == compiled.layers
    checks = [
        Check(
            name,
            "V0",
            same,
            "the IR is restored"
            if same
            else "undoing the kernel gives other IR",
        )
    ]
    ours = _joined(kernel.run_all(inputs, kernel.weights()))
    if kernel.device.type == "cpu":
        checks.append(_check_exact(name, kernel, inputs))
    members = _Joined(copy.deepcopy(kernel.chain).double())
    exact = members(
        *(t.double() if t.is_floating_point() else t for t in inputs)
    )
    eager = _joined(kernel.recompute_all(inputs, kernel.weights()))
    # Elements that overflow in the members are compared with the members.
    exact = torch.where(eager.isfinite(), exact, eager.double())
    scale = max(float(exact[exact.isfinite()].norm()), 1e-300)
    floor = max(
        FLOOR * torch.finfo(compiled.dtype).eps,
        max(FLOOR_F32, FLOOR_ORDER * _longest_sum(kernel) ** 0.5)
        * torch.finfo(torch.float32).eps,
    )
    # The reference of each side has the 8-bit codes of that side where f32 may
    # round either way. In 16 bits, the members round as much before storing.
    flipped, references = 0, [exact, exact]
    if kernel.stored and compiled.dtype is torch.float32:
        doubles = [t.double() for t in inputs]
        (ours_exact, flipped), (eager_exact, _) = (
            match_flips(members, doubles, exact, result, floor)
            for result in (ours, eager)
        )
        references = [ours_exact, eager_exact]
    own, odd = _distance(ours, references[0])
    theirs, _ = _distance(eager, references[1])
    own, theirs = own / scale, theirs / scale
    passed = own <= YARDSTICK * theirs + floor and not odd
    detail = (
        f"relative error {own:.2e}, PyTorch {theirs:.2e}"
        + _not_finite(odd)
        + _flipped(flipped)
    )
    off, odd = _distance(ours, _with_weights_of_now(module, inputs))
    if off / scale > floor or odd:
        passed = False
        detail += (
            "; weights changed in a way that PyTorch does not count: "
            "call fuse_mlir.refresh(model)"
        )
    checks.append(Check(name, "V2", passed, detail))
    if isinstance(module, Distributed) and module.reduces:
        checks += [
            Check(name, *found)
            for found in check_sum(module, kernel, inputs, floor, YARDSTICK)
        ]
    return checks


def _joined(
    results: torch.Tensor | Sequence[torch.Tensor],
) -> torch.Tensor:
    """One or several results of a kernel side by side, [..., features]."""
    if isinstance(results, torch.Tensor):
        return results
    return results[0] if len(results) == 1 else torch.cat(list(results), -1)


class _Joined(nn.Module):
    """A chain with its results side by side."""

    def __init__(self, chain: nn.Module) -> None:
        super().__init__()
        self.chain = chain

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return _joined(self.chain(*inputs))


def _flipped(count: int) -> str:
    return (
        (
            f"; {count} stored codes at ties of double precision rounded the "
            "other way"
        )
        if count
        else ""
    )


def _longest_sum(kernel: Kernel) -> int:
    """Number of terms of the longest sum of a kernel."""
    return max(
        shape[-1] if shape else 1
        for _, shape in kernel.compiled.parameters.values()
    )


def _distance(a: torch.Tensor, b: torch.Tensor) -> tuple[float, int]:
    """The L2 norm of `a - b`, and the number of other differing elements.

    The norm covers elements that are finite in both. All NaN are equal;
    infinities differ by their sign.
    """
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    odd = ~same & ~(a.isfinite() & b.isfinite())
    return float((a - b)[~same & ~odd].norm()), int(odd.sum())


def _not_finite(count: int) -> str:
    return f"; {count} values are not finite on one side" if count else ""


def _with_weights_of_now(
    module: FusedModule, inputs: list[torch.Tensor]
) -> torch.Tensor:
    """The result of a new kernel, which packs the weights again."""
    assert module._kernel is not None
    copies, compiled = module.compile_for(inputs)
    kernel = Kernel(
        module.site,
        module.chain_of(copies.members),
        compiled,
        module._kernel.device,
        copies,
    )
    return _joined(kernel.run_all(inputs, kernel.weights()))


def _check_exact(
    name: str, kernel: Kernel, inputs: list[torch.Tensor]
) -> Check:
    # Scheduled kernels sum in another order, which V2 covers.
    results = []
    for text in (kernel.compiled.formed, kernel.compiled.layers):
        plain = replace(
            kernel.compiled,
            text=Text("", text),
            portable=True,
            shared=None,
            _artifacts={},
            _programs={},
        )
        portable = Kernel(kernel.site, kernel.chain, plain, kernel.device)
        results.append(_joined(portable.run_all(inputs, kernel.weights())))
    ours, theirs = results
    bits = {2: torch.int16, 4: torch.int32}[ours.element_size()]
    differ = int((ours.view(bits) != theirs.view(bits)).sum())
    return Check(
        name,
        "V1",
        differ == 0,
        f"{differ} of {ours.numel()} values differ in bits",
    )


def _check_model(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> Check:
    shapes, expected = (
        [tuple(t.shape) for t in results] for results in (ours, theirs)
    )
    if shapes != expected:
        return Check(
            "model",
            "V3",
            False,
            f"results of shapes {shapes}, unfused {expected}",
        )
    off, largest, odd = 0.0, 0.0, 0
    dot = squares = other = 0.0
    for a, b in zip(map(_real, ours), map(_real, theirs)):
        odd += _distance(a, b)[1]
        both = a.isfinite() & b.isfinite()
        a, b = a[both], b[both]
        if a.numel():
            off = max(off, float((a - b).abs().max()))
            largest = max(largest, float(b.abs().max()))
            dot += float((a * b).sum())
            squares += float((a * a).sum())
            other += float((b * b).sum())
    cosine = dot / max((squares * other) ** 0.5, 1e-300)
    return Check(
        "model",
        "V3",
        not odd and (off == 0.0 or cosine > 0.99),
        f"largest difference {off:.3e} of {largest:.3e}, cosine "
        f"{cosine:.8f}" + _not_finite(odd),
    )


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in double precision; complex numbers become two."""
    return (
        torch.view_as_real(tensor.resolve_conj())
        if tensor.is_complex()
        else tensor
    ).double()


@dataclass
class Timing:
    """Median time of a call in milliseconds."""

    fused: float
    unfused: float
    #: Model, command, date and versions, for the page and JSON.
    about: About | None = None

    def __str__(self) -> str:
        return (
            f"fused {self.fused:.3f} ms, unfused {self.unfused:.3f} ms, "
            f"{self.unfused / self.fused:.2f} times as fast\n"
        )

    def json(self) -> str:
        """The times in milliseconds as JSON, with `about` if it is known."""
        head = {} if self.about is None else {"about": dict(self.about.rows())}
        return (
            json.dumps(
                {**head, "fused": self.fused, "unfused": self.unfused}, indent=2
            )
            + "\n"
        )

    def html(self) -> str:
        """The times as one page."""
        rows = [
            ("fused", f"{self.fused:.3f}"),
            ("unfused", f"{self.unfused:.3f}"),
        ]
        return page(
            "Time of a call",
            [table(("model", "median in milliseconds"), rows)],
            about=self.about,
            summary=str(self).strip(),
            legend={
                "fused": "the model with its kernels",
                "unfused": "the same model with its own modules, in turns",
            },
        )


def bench(
    model: nn.Module,
    inputs: Inputs = None,
    patterns: Patterns = None,
    repeats: int = 20,
    *,
    rounding: str = "exact",
    progress: ProgressOption = None,
) -> Timing:
    """Times alternating calls of the model, fused and unfused.

    Arguments and errors are those of `verify`. Steps of `progress` are repeats.

    Raises:
        ValueError: `repeats` is less than 1.

    Examples:
        >>> timing = fuse_mlir.bench(model, x, repeats=1)
        >>> timing.fused > 0
        True
    """
    require(repeats, int, "argument 'repeats'", "a number of calls")
    if repeats < 1:
        raise ValueError(f"expected 1 repeat or more, got {repeats}")
    report = progress_of(progress)
    modules.check_option("rounding", rounding, ROUNDINGS)
    if not modules.all_sites(model):
        with modules.fused(
            model,
            patterns,
            inputs=inputs,
            rounding=rounding,
            only_faster=False,
            progress=report,
        ):
            return bench(model, inputs, repeats=repeats, progress=report)
    args, kwargs = call_arguments(model, inputs)

    def once() -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        start = time.perf_counter()
        model(*args, **kwargs)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)

    ours, theirs = [], []
    each = paced(report)
    with torch.no_grad():
        for i in range(repeats + 2):
            fused_time = once()
            with modules.members_back(model), emulated(model):
                unfused_time = once()
            if i >= 2:
                ours.append(fused_time)
                theirs.append(unfused_time)
            if each is not None:
                each(i + 1, repeats + 2, "timed calls")
    return Timing(statistics.median(ours), statistics.median(theirs))
