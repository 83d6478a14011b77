# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the time of one call of a model goes, without and with its kernels.

torch.profiler records one call of each. On a GPU the launches are those of its
timeline, and on a CPU the outermost ops. Calls are timed apart, without the
profiler.
"""

from __future__ import annotations

import contextlib
import json
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

import torch
from torch import nn
from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent

from fuse_mlir.fusion import modules
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.results import FusionResult
from fuse_mlir.matching.dataflow import call_arguments
from fuse_mlir.matching.patterns import Patterns
from fuse_mlir.matching.sites import join
from fuse_mlir.quantized.fp8_reference import emulated
from fuse_mlir.reports.report import fused_results
from fuse_mlir.reports.timeline import Bar, timeline
from fuse_mlir.support.about import About
from fuse_mlir.support.html import page, table
from fuse_mlir.support.progress import progress_of
from fuse_mlir.support.types import Inputs, ProgressOption

#: Bytes of the copy that measures the bandwidth of memory; larger than caches.
COPIED = {"cuda": 1 << 28, "cpu": 1 << 26}
#: Name of the scopes around members, before their site.
SCOPE = "fuse_mlir site "
#: Kinds of launches, and names of ops and kernels that are of each.
KINDS: Mapping[str, str] = {
    "product": r"linear|addmm|\bmm\b|bmm|matmul|gemm|gemv|cublas|cutlass|nvjet"
    r"|xmma|scaled_mm|wgmma|splitk",
    "attention": r"attention|flash|fmha|softmax",
    "norm": r"norm",
    "copy": r"copy|clone|contiguous|\bto\b|cat|memcpy|memset|index",
}


@dataclass(frozen=True)
class Launch:
    """A kernel on a GPU, or an op on a CPU.

    Attributes:
        name: of the kernel or the op.
        kind: `fused`, one of `KINDS`, or `other`.
        start: in microseconds, from the first one of the call.
        us: duration in microseconds.
    """

    name: str
    kind: str
    start: float
    us: float


@dataclass
class Call:
    """One call of a model.

    Attributes:
        ms: median time in milliseconds, without the profiler.
        launches: in the order of their starts.
    """

    ms: float
    launches: list[Launch] = field(default_factory=list)

    @property
    def us(self) -> float:
        """Time of all launches in microseconds."""
        return sum(launch.us for launch in self.launches)

    def by_name(self) -> list[tuple[str, str, int, float]]:
        """Name, kind, number and microseconds of equal launches, the longest
        first."""
        found: dict[tuple[str, str], list[float]] = {}
        for launch in self.launches:
            found.setdefault((launch.name, launch.kind), []).append(launch.us)
        rows = [(n, k, len(us), sum(us)) for (n, k), us in found.items()]
        return sorted(rows, key=lambda row: -row[3])

    def by_kind(self) -> dict[str, float]:
        """Microseconds of each kind, the longest first."""
        found: dict[str, float] = {}
        for launch in self.launches:
            found[launch.kind] = found.get(launch.kind, 0.0) + launch.us
        return dict(sorted(found.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class SiteTime:
    """A fused site in one call.

    Attributes:
        site: path and id.
        families: of its kernels.
        members_us: microseconds of the members; None if they do not run here.
        kernel_us: microseconds of the kernel; None if this call runs the
            members.
        bytes: that the kernel reads and writes at least: weights, inputs and
            results.
        limit_us: microseconds that these bytes take at the bandwidth of a copy.
    """

    site: str
    families: tuple[str, ...]
    members_us: float | None
    kernel_us: float | None
    bytes: int
    limit_us: float

    @property
    def of_limit(self) -> float | None:
        """Part of the bandwidth that the kernel uses."""
        return self.limit_us / self.kernel_us if self.kernel_us else None


@dataclass
class Profile:
    """One call of a model without and with its kernels.

    Attributes:
        rows: number of tokens of the call.
        unfused: with the members of all sites.
        fused: with the kernels.
        times: of the fused sites.
        sites: all sites, with the reasons of those that are not fused.
        bandwidth: of a copy, in gigabytes per second.
        about: model, command, date and versions, for the page and JSON.
    """

    rows: int
    unfused: Call
    fused: Call
    times: list[SiteTime]
    sites: FusionResult
    bandwidth: float
    about: About | None = None

    @property
    def summary(self) -> str:
        """The times of both calls in a line."""
        return (
            f"a call with {self.rows} tokens takes {self.fused.ms:.3f} ms, and "
            f"{self.unfused.ms:.3f} ms unfused: "
            f"{self.unfused.ms / self.fused.ms:.2f} times as fast"
        )

    def _site_rows(self) -> list[tuple[str, ...]]:
        def number(value: float | None) -> str:
            return "-" if value is None else f"{value:.1f}"

        return [
            (
                t.site,
                ", ".join(t.families),
                number(t.members_us),
                number(t.kernel_us),
                f"{t.bytes / 1e6:.2f}",
                number(t.limit_us),
                "-" if t.of_limit is None else f"{t.of_limit:.0%}",
            )
            for t in self.times
        ]

    def _refused_rows(self) -> list[tuple[str, str]]:
        return [(join(s.parent, s.id), s.reason) for s in self.sites.refused]

    def __str__(self) -> str:
        lines = [self.summary]
        for name, call in (("unfused", self.unfused), ("fused", self.fused)):
            parts = ", ".join(
                f"{k} {us:.0f}" for k, us in call.by_kind().items()
            )
            lines.append(
                f"{name}: {len(call.launches)} launches, {call.us:.0f} us: {parts}"
            )
            lines += [
                f"  {us:9.1f} us  {count:4}x  {kind:9}  {label}"
                for label, kind, count, us in call.by_name()[:12]
            ]
        lines.append(
            f"sites (microseconds; {self.bandwidth:.0f} GB/s is the limit):"
        )
        lines += [
            f"  members {row[2]:>8}  kernel {row[3]:>8}  limit {row[5]:>8} "
            f"({row[6]:>4})  {row[1]:12}  {row[0]}"
            for row in self._site_rows()
        ]
        lines += [
            f"refused: {name}: {why}" for name, why in self._refused_rows()
        ]
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """Both calls, the sites and the reasons as JSON."""

        def call(of: Call) -> dict[str, Any]:
            return {
                "ms": of.ms,
                "us_by_kind": of.by_kind(),
                "launches": [asdict(launch) for launch in of.launches],
            }

        head = {} if self.about is None else {"about": dict(self.about.rows())}
        return (
            json.dumps(
                {
                    **head,
                    "rows": self.rows,
                    "bandwidth_gb_per_s": self.bandwidth,
                    "unfused": call(self.unfused),
                    "fused": call(self.fused),
                    "sites": [
                        {**asdict(t), "of_limit": t.of_limit}
                        for t in self.times
                    ],
                    "refused": [
                        {"site": site, "reason": reason}
                        for site, reason in self._refused_rows()
                    ],
                },
                indent=2,
            )
            + "\n"
        )

    def html(self) -> str:
        """One page with a timeline of both calls."""
        calls = {"unfused": self.unfused, "fused": self.fused}
        parts = [
            "<h2>Timeline</h2>",
            timeline(
                {
                    f"{name}: {call.us:.0f} us in {len(call.launches)} launches": [
                        Bar(x.name, x.kind, x.start, x.us)
                        for x in call.launches
                    ]
                    for name, call in calls.items()
                }
            ),
            f"<h2>Sites</h2><p>The limit is a copy with {self.bandwidth:.0f} "
            "gigabytes per second.",
            table(
                (
                    "site",
                    "kernel",
                    "members, us",
                    "kernel, us",
                    "megabytes",
                    "limit, us",
                    "of the limit",
                ),
                self._site_rows(),
            ),
        ]
        if self._refused_rows():
            parts += [
                "<h2>Refused</h2>",
                table(("site", "reason"), self._refused_rows()),
            ]
        for name, call in calls.items():
            parts += [
                f"<h2>Launches, {escape(name)}</h2>",
                table(
                    ("kind", "launches", "us", "name"),
                    [
                        (kind, str(count), f"{us:.1f}", label)
                        for label, kind, count, us in call.by_name()
                    ],
                ),
            ]
        return page(
            "Time of a call",
            parts,
            about=self.about,
            summary=self.summary,
            legend={
                "unfused": "the model with its own modules",
                "fused": "the same model with its kernels",
                "members": "time of the modules that a kernel replaces; an op "
                "between or after them does not count",
                "limit": "time to read the weights and inputs of a site once, "
                "and to write its results",
            },
        )


def profile(
    model: nn.Module,
    inputs: Inputs = None,
    patterns: Patterns = None,
    repeats: int = 10,
    *,
    rounding: str = "exact",
    only_faster: bool | None = None,
    progress: ProgressOption = None,
) -> Profile:
    """Times one call of the model by kernel, without and with fusion.

    A model that is fused stays so. Any other is fused for the measurement.

    Args:
        model: on the CPU or a GPU.
        inputs: as for `fuse_modules`.
        patterns: as for `fuse_modules`.
        repeats: calls whose median is the time.
        rounding: as for `fuse_modules`.
        only_faster: as for `fuse_modules`.
        progress: as for `fuse_modules`.

    Raises:
        ValueError: `repeats` is less than 1.
        FuseError: as `fuse_modules`.

    Examples:
        >>> found = fuse_mlir.profile(model, x, repeats=1, only_faster=False)
        >>> [row.families for row in found.times]
        [('gated_mlp',)]
    """
    if repeats < 1:
        raise ValueError(f"expected 1 repeat or more, got {repeats}")
    report = progress_of(progress)
    if not modules.all_sites(model):
        with modules.fused(
            model,
            patterns,
            inputs=inputs,
            rounding=rounding,
            only_faster=only_faster,
            strict=False,
            progress=report,
        ) as sites:
            return _profile(model, inputs, repeats, sites)
    return _profile(model, inputs, repeats, fused_results(model))


def _profile(
    model: nn.Module, inputs: Inputs, repeats: int, sites: FusionResult
) -> Profile:
    args, kwargs = call_arguments(model, inputs)
    device = next(model.parameters()).device
    places = {
        join(parent, module.site): module
        for parent, module in modules.fused_sites(model)
    }

    def call() -> None:
        with torch.no_grad():
            model(*args, **kwargs)

    with modules.members_back(model), emulated(model):
        unfused = Call(_median(call, repeats, device))
        with _scopes(places):
            events = _events(call, device)
    unfused.launches = _launches(events, device)
    members = _by_scope(events)
    fused = Call(_median(call, repeats, device))
    events = _events(call, device)
    fused.launches = _launches(events, device)
    kernels = _by_kernel(events)
    bandwidth = _bandwidth(device)
    rows = _rows(args, kwargs)
    times = []
    for site, module in places.items():
        kernel = module._kernel
        moved = 0 if kernel is None else _bytes(module, rows)
        times.append(
            SiteTime(
                site,
                module.families,
                members.get(site),
                None if kernel is None else kernels.get(kernel.id),
                moved,
                moved / bandwidth / 1e3,
            )
        )
    return Profile(rows, unfused, fused, times, sites, bandwidth)


def _rows(args: tuple, kwargs: Mapping[str, Any]) -> int:
    """Number of tokens of a call: the elements of ids, or the rows of others."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            if not value.is_floating_point():
                return value.numel()
            return value.shape[:-1].numel()
    return 1


def _bytes(module: FusedModule, rows: int) -> int:
    kernel = module._kernel
    assert kernel is not None
    moved = sum(weight.nbytes for weight in kernel.weights())
    for tensor in kernel.compiled.inputs:
        moved += rows * tensor.features * tensor.dtype.itemsize
    for result in kernel.compiled.results:
        size = result.dims[-1]
        moved += (
            rows
            * (size if isinstance(size, int) else 0)
            * result.dtype.itemsize
        )
    return moved


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _median(
    call: Callable[[], None], repeats: int, device: torch.device
) -> float:
    found = []
    for number in range(repeats + 2):
        _synchronize(device)
        start = time.perf_counter()
        call()
        _synchronize(device)
        # The first calls compile and pack.
        if number > 1:
            found.append(1e3 * (time.perf_counter() - start))
    return statistics.median(found)


def _events(
    call: Callable[[], None], device: torch.device
) -> Sequence[FunctionEvent]:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    # The first call with the profiler sets it up.
    call()
    with torch.profiler.profile(
        activities=activities, record_shapes=True
    ) as found:
        call()
        _synchronize(device)
    return found.events() or []


@contextlib.contextmanager
def _scopes(places: Mapping[str, FusedModule]) -> Iterator[None]:
    """Names the calls of all members by their sites during a `with`."""
    handles = []

    def add(member: nn.Module, site: str) -> None:
        open_scopes: list[Any] = []

        def before(_module: nn.Module, _args: object) -> None:
            scope = torch.profiler.record_function(SCOPE + site)
            scope.__enter__()
            open_scopes.append(scope)

        def after(_module: nn.Module, _args: object, _result: object) -> None:
            open_scopes.pop().__exit__(None, None, None)

        handles.append(member.register_forward_pre_hook(before))
        handles.append(member.register_forward_hook(after))

    try:
        for site, module in places.items():
            for member in module.members:
                add(member, site)
        yield
    finally:
        for handle in handles:
            handle.remove()


def _is_gpu(event: FunctionEvent) -> bool:
    return event.device_type == DeviceType.CUDA


def _is_scope(event: FunctionEvent) -> bool:
    return event.name.startswith((SCOPE, "ProfilerStep"))


def _is_fused(event: FunctionEvent) -> bool:
    return event.name.startswith("fuse_mlir::")


def _outermost(events: Sequence[FunctionEvent]) -> Iterator[FunctionEvent]:
    """Ops of the CPU that no other op called."""
    for event in events:
        if _is_gpu(event) or _is_scope(event):
            continue
        parent = event.cpu_parent
        if parent is None or _is_scope(parent):
            yield event


def _launches(
    events: Sequence[FunctionEvent], device: torch.device
) -> list[Launch]:
    ours = {
        kernel.name
        for event in events
        if _is_fused(event)
        for kernel in event.kernels
    }
    chosen = (
        [e for e in events if _is_gpu(e) and not _is_scope(e)]
        if device.type == "cuda"
        else list(_outermost(events))
    )
    chosen.sort(key=lambda event: event.time_range.start)
    first = chosen[0].time_range.start if chosen else 0.0
    return [
        Launch(
            event.name,
            "fused"
            if _is_fused(event) or event.name in ours
            else kind_of(event.name),
            event.time_range.start - first,
            event.time_range.elapsed_us(),
        )
        for event in chosen
    ]


def kind_of(name: str) -> str:
    """The kind of an op or a kernel, by its name."""
    return next(
        (
            kind
            for kind, names in KINDS.items()
            if re.search(names, name, re.IGNORECASE)
        ),
        "other",
    )


def _time(event: FunctionEvent) -> float:
    """Microseconds on the GPU, or else on the CPU."""
    return event.device_time_total or event.cpu_time_total


def _by_scope(events: Sequence[FunctionEvent]) -> dict[str, float]:
    """Microseconds of the ops of each site's members."""
    found: dict[str, float] = {}
    for event in events:
        if not event.name.startswith(SCOPE) or _is_gpu(event):
            continue
        site = event.name.removeprefix(SCOPE)
        own = event.device_time_total or sum(
            child.cpu_time_total for child in event.cpu_children
        )
        found[site] = found.get(site, 0.0) + own
    return found


def _by_kernel(events: Sequence[FunctionEvent]) -> dict[int, float]:
    """Microseconds of calls of each kernel, by its number."""
    found: dict[int, float] = {}
    for event in events:
        given = [v for v in event.concrete_inputs if isinstance(v, int)]
        if _is_fused(event) and given and not _is_gpu(event):
            found[given[-1]] = found.get(given[-1], 0.0) + _time(event)
    return found


def _bandwidth(device: torch.device) -> float:
    """Gigabytes per second that a copy reads and writes."""
    size = COPIED.get(device.type, COPIED["cpu"])
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    ms = _median(lambda: _copy(target, source), 5, device)
    return 2 * size / ms / 1e6


def _copy(target: torch.Tensor, source: torch.Tensor) -> None:
    target.copy_(source)
