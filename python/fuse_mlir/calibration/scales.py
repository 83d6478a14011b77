# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calibration: static scales from a function, its weights and sample inputs.

The function runs in its own precision and also returns the inputs of all
linears (`fuse-observe-activations`). The scales for `fuse-quantize-linears` are
chosen from the ranges of these inputs and of the weights.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from fuse_mlir.calibration import range_cache
from fuse_mlir.calibration.input_files import input_type, rounded_files
from fuse_mlir.errors import CalibrationError
from fuse_mlir.quantized.value_range import (
    Range,
    ScaleChoice,
    about,
    choose_threshold,
    dequantize,
    largest_value,
    quantize,
    scales_of,
)
from fuse_mlir.support.about import About
from fuse_mlir.support.html import histogram, page, preformatted
from fuse_mlir.support.messages import tool_error

# Names may contain brackets, such as the name of rows of a weight.
OBSERVED = re.compile(r'fuse\.observed = \[((?:"[^"]*"(?:, )?)*)\]')


@dataclass(frozen=True)
class Tensor:
    """One calibrated tensor of the report."""

    #: `<linear>.input` or `<linear>.weight`.
    name: str
    choice: ScaleChoice
    #: Number of observed values, and the largest magnitude among them.
    count: int
    largest: float
    histogram: list[int]
    limit: float


@dataclass(frozen=True)
class Calibration:
    """Scales of the linears of a function, and the observed ranges."""

    storage: str
    #: By linear: input_scale, weight_scale as a number or "per_channel", and
    #: storage, the type that both were made for.
    scales: dict[str, dict[str, float | str]]
    #: Scales per output channel in f32, by parameter: `<linear>.weight_scale`.
    channel_scales: dict[str, torch.Tensor]
    tensors: list[Tensor]


class Tools:
    """The command line tools of fuse in one directory.

    Args:
        directory: of `fuse-opt` and `fuse-run`. None uses the search path.

    Raises:
        CalibrationError: a tool is missing.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._paths: dict[str, str] = {}
        for name in ("fuse-opt", "fuse-run"):
            where = None if directory is None else str(directory)
            path = shutil.which(name, path=where)
            if path is None:
                raise CalibrationError(
                    f"no {name} in {where or 'the search path'}; build it, or "
                    "name its directory with --tools"
                )
            self._paths[name] = path

    def paths(self) -> list[Path]:
        """Paths of the tools."""
        return [Path(path) for path in self._paths.values()]

    def run(self, name: str, *arguments: str | Path) -> str:
        """The output of a tool.

        Raises:
            CalibrationError: the tool failed; with its message.
        """
        command = [self._paths[name], *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise CalibrationError(f"{name} failed: {tool_error(done.stderr)}")
        return done.stdout


def observed_names(text: str) -> tuple[int, list[list[str]]]:
    """Counts the results of the function in `text`.

    Returns:
        The number of results of the original function, and for each observed
        value the linears that read it.
    """
    observers = [
        re.findall(r'"([^"]*)"', names) for names in OBSERVED.findall(text)
    ]
    returns = re.findall(r"^\s*(?:func\.)?return (.*?) :", text, re.MULTILINE)
    if len(returns) != 1:
        raise CalibrationError(
            f"expected a module with one return, got {len(returns)}"
        )
    # `%0#1` is one value; `%0:2` does not occur in a return.
    count = len(returns[0].split(","))
    return count - len(observers), observers


def observe(
    tools: Tools,
    source: Path,
    weights: Path | None,
    data: Sequence[Path],
    progress: Callable[[str], None] = lambda line: None,
    cache: Path | None = None,
) -> dict[str, Range]:
    """Runs the function of `source` on each file of `data`.

    With a cache, a function does not run again on the same data.

    Args:
        tools: the command line tools to run.
        source: fuse IR with one function, before quantization.
        weights: safetensors file with its parameters.
        data: .npy files, each the input of one call.
        progress: called with a line per call.
        cache: directory with the ranges of earlier runs.

    Returns:
        The range of the input of each linear.

    Raises:
        CalibrationError: no data, no linear to observe, or a tool failed.
    """
    if not data:
        raise CalibrationError("calibration needs at least one input file")
    key = ""
    if cache is not None:
        key = range_cache.key_of(tools.paths(), source, weights, data)
        known = range_cache.load(cache, key)
        if known is not None:
            progress(f"ranges of {len(data)} files are in the cache")
            return known
    ranges: dict[str, Range] = {}
    with tempfile.TemporaryDirectory() as directory:
        observed = Path(directory) / "observed.mlir"
        tools.run(
            "fuse-opt",
            source,
            "--fuse-raising-pipeline",
            "--fuse-observe-activations",
            "-o",
            observed,
        )
        text = source.read_text(encoding="utf-8")
        own, observers = observed_names(observed.read_text())
        if not observers:
            raise CalibrationError(
                f"'{source}' has no linear to observe"
                + (
                    ": its weights are quantized already, with their scales"
                    if re.search(r"\bfuse\.quantize\b", text)
                    else ""
                )
            )
        results = [
            Path(directory) / f"{i}.npy" for i in range(own + len(observers))
        ]
        files = rounded_files(data, input_type(text), Path(directory), progress)
        for index, path in enumerate(data):
            arguments: list[str | Path] = [observed, f"--input={files[index]}"]
            if weights is not None:
                arguments.append(f"--weights={weights}")
            arguments += [f"--output={result}" for result in results]
            tools.run("fuse-run", *arguments)
            for names, result in zip(observers, results[own:]):
                values = np.load(result)
                for name in names:
                    ranges.setdefault(name, Range(seed=len(ranges)))
                    with about(f"input of '{name}'"):
                        ranges[name].add(values)
            progress(f"observed {index + 1} of {len(data)}: {path}")
    if cache is not None:
        range_cache.store(cache, key, ranges)
    return ranges


def weight_name(linear: str) -> str:
    """The parameter that is the weight of a linear.

    The name of a linear on rows of a weight contains these rows.
    """
    return linear if linear.endswith("]") else f"{linear}.weight"


def calibrate(
    inputs: Mapping[str, Range],
    parameters: Mapping[str, torch.Tensor],
    storage: str,
    method: str = "amax",
    percentile: float = 99.99,
    per_channel: bool = False,
) -> Calibration:
    """Chooses the scales of every linear that was observed.

    Args:
        inputs: range of the input of each linear.
        parameters: weights by `weight_name`, [out, in].
        storage: f8E4M3FN, f8E5M2 or i8.
        method: amax, percentile or mse, for inputs and weights alike.
        percentile: percentage of values that must not saturate, for the
            method `percentile`.
        per_channel: one scale per output channel of a weight, by amax.

    Raises:
        CalibrationError: a linear has no weight among the parameters.
        RangeError: a value is not finite, or all values are zero.
    """
    largest = largest_value(storage)
    scales: dict[str, dict[str, float | str]] = {}
    channel_scales: dict[str, torch.Tensor] = {}
    names: list[str] = []
    ranges: list[Range] = []
    thresholds: list[float] = []
    device: torch.device | str = "cpu"

    def add(what: str, name: str, seen: Range) -> None:
        with about(what):
            thresholds.append(
                choose_threshold(seen, storage, method, percentile)
            )
        names.append(name)
        ranges.append(seen)

    for linear, seen in inputs.items():
        name = weight_name(linear)
        weight = parameters.get(name)
        if weight is None and linear.startswith("linear#"):
            raise CalibrationError(
                f"the weight of '{linear}' is not a parameter but computed "
                "from parameters, as a Conv1D transposes its weight; scales "
                "are for weights that are parameters, [out, in]"
            )
        if weight is None:
            raise CalibrationError(
                f"no parameter '{name}'; there are "
                + ", ".join(sorted(parameters))
            )
        device = weight.device
        add(f"input of '{linear}'", f"{linear}.input", seen)
        weights_seen = Range()
        with about(f"weight of '{linear}'"):
            weights_seen.add(weight)
        add(f"weight of '{linear}'", name, weights_seen)
        if per_channel:
            amax = weight.float().abs().amax(dim=1)
            # Any scale stores a channel of zeros as zeros. A scale that is too
            # small for kernels is replaced, which also stores zeros.
            amax[amax < largest * 2.0**-100] = largest
            channel_scales[f"{linear}.weight_scale"] = amax / largest
    choices = scales_of(ranges, thresholds, storage, method, device)
    tensors = list(map(_tensor, names, choices, ranges))
    for linear, of_input, of_weight in zip(inputs, choices[::2], choices[1::2]):
        scales[linear] = {
            "input_scale": of_input.scale,
            "weight_scale": "per_channel" if per_channel else of_weight.scale,
            "storage": storage,
        }
    _share_inputs(inputs, scales)
    return Calibration(storage, scales, channel_scales, tensors)


def stored_weights(
    calibration: Calibration, parameters: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """`parameters` with quantized weights of the calibrated linears.

    They are for `fuse-quantize-linears=weights=stored`.
    """
    stored = dict(parameters) | calibration.channel_scales
    for linear, scales in calibration.scales.items():
        name = weight_name(linear)
        scale: float | torch.Tensor
        if scales["weight_scale"] == "per_channel":
            scale = calibration.channel_scales[f"{linear}.weight_scale"]
            scale = scale[:, None]
        else:
            scale = float(scales["weight_scale"])
        stored[name] = quantize(parameters[name], scale, calibration.storage)
    return stored


def _share_inputs(
    inputs: Mapping[str, Range], scales: dict[str, dict[str, float | str]]
) -> None:
    """Gives linears that read the same value the same scale for it.

    Their ranges differ only in random samples, from which `mse` may choose
    neighboring thresholds.
    """
    first: dict[tuple[int, float, bytes], str] = {}
    for linear, seen in inputs.items():
        key = (seen.count, seen.largest, seen.histogram.tobytes())
        owner = first.setdefault(key, linear)
        scales[linear]["input_scale"] = scales[owner]["input_scale"]


def _tensor(name: str, choice: ScaleChoice, seen: Range) -> Tensor:
    bins = seen.histogram.reshape(64, -1).sum(axis=1)
    return Tensor(
        name, choice, seen.count, seen.largest, bins.tolist(), seen.limit
    )


def weight_error(
    weight: torch.Tensor, scale: float | torch.Tensor, storage: str
) -> float:
    """Relative L2 error of a weight that is quantized by `scale`."""
    exact = weight.double()
    restored = dequantize(quantize(weight, scale, storage), scale).double()
    return float((restored - exact).norm() / exact.norm())


def scales_json(calibration: Calibration) -> str:
    """The file that `fuse-quantize-linears` reads."""
    return json.dumps(calibration.scales, indent=2) + "\n"


def report_text(calibration: Calibration) -> str:
    """A table with one row per tensor."""
    rows = [
        (
            "tensor",
            "values",
            "largest",
            "scale",
            "headroom",
            "used",
            "saturated",
            "rel. MSE",
        )
    ]
    for tensor in calibration.tensors:
        choice = tensor.choice
        # Fraction of the representable range that the values use.
        used = min(1.0, 1.0 / choice.headroom)
        rows.append(
            (
                tensor.name,
                f"{tensor.count:,}",
                f"{tensor.largest:.4g}",
                f"{choice.scale:.6g}",
                f"{choice.headroom:.3f}",
                f"{used:.3f}",
                f"{choice.saturated:.2e}",
                f"{choice.relative_mse:.2e}",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def report_json(calibration: Calibration, about: About | None = None) -> str:
    """All data of the table and the page, as JSON."""
    return (
        json.dumps(
            {
                **({} if about is None else {"about": dict(about.rows())}),
                "storage": calibration.storage,
                "scales": calibration.scales,
                "tensors": [asdict(tensor) for tensor in calibration.tensors],
            },
            indent=2,
        )
        + "\n"
    )


def report_html(calibration: Calibration, about: About | None = None) -> str:
    """One self-contained page with a histogram per tensor.

    Args:
        calibration: the scales to show.
        about: model, command, date and versions.
    """
    return page(
        "Calibration",
        [
            "<p>Magnitudes on a linear axis, counts on a logarithmic one. The red "
            "line is the magnitude that maps to the largest stored value; what is "
            "right of it saturates. The page holds no weights.</p>",
            preformatted(report_text(calibration)),
            *(
                histogram(
                    tensor.histogram,
                    f"{tensor.name}: scale {tensor.choice.scale:.6g}",
                    384,
                    tensor.choice.threshold / max(tensor.limit, 1e-300),
                )
                for tensor in calibration.tensors
            ),
        ],
        f"Calibration to {calibration.storage}",
        about=about,
        summary=f"{len(calibration.scales)} linears, scales for "
        f"{calibration.storage}",
        legend={
            "largest": "largest magnitude that was seen",
            "headroom": "largest stored value over the largest magnitude, as "
            "the scale maps it",
            "used": "share of the stored range that the values reach",
            "saturated": "share of values beyond the stored range",
            "rel. MSE": "mean square error of storing, over the mean square",
        },
    )
