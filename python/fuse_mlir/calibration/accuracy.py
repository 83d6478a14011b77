# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the accuracy that static quantization costs.

A function runs on data in its own precision, with static scales as one kernel,
with scales that are measured at run time, and with only its weights quantized.
The report shows the differences, and how much of each tensor saturates.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from safetensors.torch import load_file, save_file

from fuse_mlir.calibration.compare import finite_pairs
from fuse_mlir.calibration.input_files import input_type, rounded_files
from fuse_mlir.calibration.scales import (
    Calibration,
    Tools,
    calibrate,
    observe,
    report_text,
    scales_json,
    stored_weights,
)
from fuse_mlir.errors import CalibrationError
from fuse_mlir.quantized.value_range import Range
from fuse_mlir.support.about import About
from fuse_mlir.support.html import histogram, page, preformatted
from fuse_mlir.support.progress import Paced
from fuse_mlir.support.types import Progress

#: How fuse-quantize-linears quantizes inputs, by variant.
VARIANTS = {
    "static": "static",
    "dynamic per token": "per_token",
    "dynamic per tensor": "per_tensor",
    "weights only": "none",
}
#: Buckets of the histogram: relative errors as powers of two.
BUCKETS = tuple(range(-12, 1))


@dataclass(frozen=True)
class Row:
    """Distance of the results of one variant from a reference."""

    variant: str
    reference: str
    elements: int
    cosine: float
    max_abs: float
    p99_abs: float
    mse: float
    #: Norm of the difference over the norm of the reference.
    relative_l2: float
    #: Number of elements that are NaN or infinite on one side only.
    nonfinite: int
    #: Number of elements by |difference| / rms(reference): below 2^-12, ...,
    #: above 1.
    histogram: list[int]


@dataclass(frozen=True)
class Saturation:
    """Range of one input in the data, and what its static scale can store."""

    linear: str
    scale: float
    largest: float
    #: Largest value that does not saturate, divided by `largest`.
    headroom: float
    saturated: float


@dataclass(frozen=True)
class Accuracy:
    """The report."""

    source: str
    storage: str
    method: str
    order: str
    per_channel: bool
    calibration_files: list[str]
    files: list[str]
    rows: list[Row]
    saturation: list[Saturation]
    calibration: Calibration
    #: The kernels of the static chain; one if it was fused whole.
    kernels: list[str]


def compare(
    variant: str, result: np.ndarray, name: str, reference: np.ndarray
) -> Row:
    """Differences of a result from a reference of the same shape, in f64."""
    if result.shape != reference.shape:
        raise CalibrationError(
            f"'{variant}' has shape {result.shape}, "
            f"'{name}' has {reference.shape}"
        )
    lhs, rhs, nonfinite = finite_pairs(result, reference)
    error = np.abs(lhs - rhs)
    norms = float(np.linalg.norm(lhs)) * float(np.linalg.norm(rhs))
    rms = float(np.sqrt(np.mean(np.square(rhs)))) if rhs.size else 0.0
    edges = [0.0, *(2.0**b for b in BUCKETS), np.inf]
    counts, _ = np.histogram(error / rms if rms else error, bins=edges)
    norm = float(np.linalg.norm(rhs))
    return Row(
        variant=variant,
        reference=name,
        elements=result.size,
        cosine=float(lhs @ rhs) / norms if norms else float(norms == 0.0),
        max_abs=float(error.max(initial=0.0)),
        p99_abs=float(np.quantile(error, 0.99)) if error.size else 0.0,
        mse=float(np.mean(np.square(error))) if error.size else 0.0,
        relative_l2=float(np.linalg.norm(error)) / norm if norm else 0.0,
        nonfinite=nonfinite,
        histogram=[int(c) for c in counts],
    )


def _kernels(text: str) -> list[str]:
    families = (
        "gated_mlp",
        "mlp",
        "norm_linear",
        "norm_quantize",
        "act_quantize",
    )
    return [
        word
        for line in text.splitlines()
        for word in families
        if f"fuse.{word} " in line
    ]


class Runner:
    """Quantizes a function in several ways and runs it."""

    def __init__(
        self,
        tools: Tools,
        source: Path,
        weights: Path,
        directory: Path,
        progress: Progress,
    ) -> None:
        self._tools = tools
        self._source = source
        self._weights = weights
        self._directory = directory
        self._progress = Paced(progress)

    def run(
        self, name: str, source: Path, weights: Path, data: Sequence[Path]
    ) -> np.ndarray:
        """The first result for each file, concatenated.

        Args:
            name: of the variant.
            source: the function.
            weights: its parameters.
            data: its inputs.
        """
        output = self._directory / "result.npy"
        results = []
        files = rounded_files(
            data, input_type(self._source.read_text()), self._directory
        )
        for done, path in enumerate(files, 1):
            self._tools.run(
                "fuse-run",
                source,
                f"--weights={weights}",
                f"--input={path}",
                f"--output={output}",
            )
            values = np.load(output)
            results.append(values.reshape(-1, values.shape[-1]))
            if done < len(files):
                self._progress(done, len(files), f"ran {name}")
        return np.concatenate(results)

    def original(self, data: Sequence[Path]) -> np.ndarray:
        raised = self._directory / "original.mlir"
        self._tools.run(
            "fuse-opt", self._source, "--fuse-raising-pipeline", "-o", raised
        )
        return self.run("the original", raised, self._weights, data)

    def quantized(
        self,
        name: str,
        scales: Path,
        stored: Path,
        activations: str,
        storage: str,
        order: str,
        data: Sequence[Path],
    ) -> tuple[np.ndarray, list[str]]:
        path = self._directory / f"{activations}.mlir"
        self._tools.run(
            "fuse-opt",
            self._source,
            "--fuse-raising-pipeline",
            f"--fuse-quantize-linears=scales={scales} type={storage} "
            f"activations={activations} order={order} weights=stored",
            "--fuse-form-kernels",
            "-o",
            path,
        )
        return self.run(name, path, stored, data), _kernels(path.read_text())


def measure(
    tools: Tools,
    source: Path,
    weights: Path,
    data: Sequence[Path],
    calibration_data: Sequence[Path] = (),
    storage: str = "f8E4M3FN",
    method: str = "amax",
    percentile: float = 99.99,
    per_channel: bool = False,
    order: str = "reciprocal",
    cache: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Accuracy:
    """Calibrates a function, runs every variant and compares the results.

    Args:
        tools: the command line tools to run.
        source: fuse IR with one function, before quantization.
        weights: safetensors file with its parameters.
        data: .npy files, each the input of one call; results are compared on
            these.
        calibration_data: files that the scales come from; `data` when empty.
        storage: f8E4M3FN, f8E5M2 or i8.
        method: amax, percentile or mse.
        percentile: percentage of values that must not saturate, for the method
            of that name.
        per_channel: whether weights have one scale per output channel.
        order: how values are divided by a scale, `reciprocal` or `divide`.
        cache: directory with ranges of earlier runs.
        progress: called with a line per step, and at most once in a second
            with a line about files within a step.

    Raises:
        CalibrationError: no data, or a tool failed.
    """
    chosen = list(calibration_data) or list(data)
    ranges = observe(tools, source, weights, chosen, progress, cache)
    # Saturation is measured on the data of the comparison.
    seen = (
        ranges
        if chosen == list(data)
        else observe(tools, source, weights, data, progress, cache)
    )
    parameters = load_file(weights)
    calibration = calibrate(
        ranges, parameters, storage, method, percentile, per_channel
    )
    rows = []
    kernels: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        runner = Runner(
            tools,
            source,
            weights,
            directory,
            lambda done, total, line: progress(f"{line}: {done} of {total}"),
        )
        scales = directory / "scales.json"
        scales.write_text(scales_json(calibration))
        stored = directory / "stored.safetensors"
        save_file(stored_weights(calibration, parameters), stored)
        original = runner.original(data)
        progress("ran the original")
        results = {}
        for variant, activations in VARIANTS.items():
            results[variant], formed = runner.quantized(
                variant, scales, stored, activations, storage, order, data
            )
            rows.append(
                compare(variant, results[variant], "original", original)
            )
            if variant == "static":
                kernels = formed
            progress(f"ran {variant}")
        rows.append(
            compare(
                "static",
                results["static"],
                "dynamic per token",
                results["dynamic per token"],
            )
        )
    return Accuracy(
        source=source.name,
        storage=storage,
        method=method,
        order=order,
        per_channel=per_channel,
        calibration_files=[p.name for p in chosen],
        files=[p.name for p in data],
        rows=rows,
        saturation=_saturation(calibration, seen),
        calibration=calibration,
        kernels=kernels,
    )


def _saturation(
    calibration: Calibration, seen: Mapping[str, Range]
) -> list[Saturation]:
    from fuse_mlir.quantized.value_range import largest_value

    rows = []
    for linear, values in seen.items():
        scale = float(calibration.scales[linear]["input_scale"])
        reach = scale * largest_value(calibration.storage)
        rows.append(
            Saturation(
                linear,
                scale,
                values.largest,
                reach / values.largest if values.largest else float("inf"),
                values.saturated_share(scale, calibration.storage),
            )
        )
    return rows


# Reports.


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [c.rjust(w) for c, w in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def accuracy_text(report: Accuracy) -> str:
    """Two tables: differences, and saturation of inputs."""
    head = (
        f"{report.source}: {report.storage}, scales by {report.method}"
        + (", weights per channel" if report.per_channel else "")
        + f", order {report.order}\n"
        f"calibrated on {len(report.calibration_files)} files, compared "
        f"on {len(report.files)}; kernels: "
        + (", ".join(report.kernels) or "none")
        + "\n\n"
    )
    rows = [
        (
            "variant",
            "against",
            "cosine",
            "max abs",
            "p99 abs",
            "MSE",
            "rel. L2",
            "non-finite",
        )
    ]
    for row in report.rows:
        rows.append(
            (
                row.variant,
                row.reference,
                f"{row.cosine:.7f}",
                f"{row.max_abs:.3e}",
                f"{row.p99_abs:.3e}",
                f"{row.mse:.3e}",
                f"{row.relative_l2:.3e}",
                str(row.nonfinite),
            )
        )
    inputs = [("input of", "scale", "largest", "headroom", "saturated")]
    for entry in report.saturation:
        inputs.append(
            (
                entry.linear,
                f"{entry.scale:.6g}",
                f"{entry.largest:.4g}",
                f"{entry.headroom:.3f}",
                f"{entry.saturated:.2e}",
            )
        )
    return head + _table(rows) + "\n" + _table(inputs)


def accuracy_json(report: Accuracy, about: About | None = None) -> str:
    """The report as JSON, with the calibration but without its vectors."""
    calibration = report.calibration
    fields = {
        name: getattr(report, name)
        for name in (
            "source",
            "storage",
            "method",
            "order",
            "per_channel",
            "calibration_files",
            "files",
            "kernels",
        )
    }
    return (
        json.dumps(
            {
                **({} if about is None else {"about": dict(about.rows())}),
                **fields,
                "rows": [asdict(row) for row in report.rows],
                "saturation": [asdict(entry) for entry in report.saturation],
                "scales": calibration.scales,
                "tensors": [asdict(tensor) for tensor in calibration.tensors],
            },
            indent=2,
        )
        + "\n"
    )


def accuracy_html(report: Accuracy, about: About | None = None) -> str:
    """One self-contained page; it holds no weights.

    Args:
        report: the comparison to show.
        about: model, command, date and versions.
    """
    return page(
        "Accuracy",
        [
            preformatted(accuracy_text(report)),
            "<h2>Errors</h2><p>Elements by |difference| over the root mean square "
            "of the reference, from below 2<sup>-12</sup> to above 1; counts on a "
            "logarithmic axis.</p>",
            *(
                histogram(
                    row.histogram, f"{row.variant} against {row.reference}", 288
                )
                for row in report.rows
            ),
            "<h2>Calibration</h2>",
            preformatted(report_text(report.calibration)),
        ],
        f"Accuracy of {report.source}",
        about=about,
        summary=f"static {report.storage} against the original: cosine "
        f"{report.rows[0].cosine:.7f}",
    )
