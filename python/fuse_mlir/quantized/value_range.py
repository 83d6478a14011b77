# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranges of observed values, and static scales that are chosen from them.

A scale maps stored values to real ones: `real = scale * stored`. Statistics are
gathered batch by batch, so that the data need not fit into memory.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fuse_mlir.errors import RangeError

METHODS = ("amax", "percentile", "mse")

_LARGEST = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0, "i8": 127.0}
_TORCH_TYPES = {
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
}


@contextlib.contextmanager
def about(name: str) -> Iterator[None]:
    """Adds the name of a tensor to errors of its range in a `with`."""
    try:
        yield
    except RangeError as error:
        raise RangeError(f"{name}: {error}") from error


def largest_value(storage: str) -> float:
    """The stored value to which the largest real value is mapped.

    It is 127 for i8, whose range is used symmetrically, and the largest finite
    code of an 8-bit float.

    Raises:
        RangeError: `storage` is not f8E4M3FN, f8E5M2 or i8.
    """
    if not isinstance(storage, str) or storage not in _LARGEST:
        raise RangeError(
            f"unknown storage type '{storage}'; expected one of "
            f"{', '.join(_LARGEST)}"
        )
    return _LARGEST[storage]


def as_scale(scale: float | torch.Tensor) -> torch.Tensor:
    """A scale as an f32 tensor.

    A number becomes a tensor on the CPU, which works with tensors of any
    device, whatever PyTorch's default device is.
    """
    if isinstance(scale, torch.Tensor):
        return scale.to(torch.float32)
    return torch.tensor(scale, dtype=torch.float32, device="cpu")


def quantize(
    values: torch.Tensor,
    scale: float | torch.Tensor,
    storage: str,
    order: str = "reciprocal",
) -> torch.Tensor:
    """Stored values of `values`: saturate(round(values * (1 / scale))).

    The arithmetic of `fuse.quantize`: f32, round to nearest even, saturation
    to the largest finite code; NaN stays NaN in 8-bit floats and becomes 0 in
    i8.

    Args:
        values: floating-point tensor of any shape.
        scale: positive number, or an f32 tensor that broadcasts.
        storage: f8E4M3FN, f8E5M2 or i8.
        order: reciprocal, or divide for values / scale.

    Returns:
        Tensor of the same shape with the storage type.
    """
    largest = largest_value(storage)
    scales = as_scale(scale)
    wide = values.to(torch.float32)
    scaled = wide / scales if order == "divide" else wide * (1.0 / scales)
    if storage == "i8":
        rounded = torch.nan_to_num(torch.round(scaled), nan=0.0)
        return rounded.clamp(-128, 127).to(torch.int8)
    return scaled.clamp(-largest, largest).to(_TORCH_TYPES[storage])


def dequantize(
    stored: torch.Tensor, scale: float | torch.Tensor
) -> torch.Tensor:
    """Real values in f32: scale * stored."""
    scales = as_scale(scale)
    return stored.to(torch.float32) * scales


@dataclass
class Range:
    """Statistics of one tensor over all batches.

    The histogram counts magnitudes in equal bins from 0 to `limit`. When a
    batch exceeds the limit, the limit doubles and neighboring bins merge, so
    that counts stay exact. Quantization errors are measured on a random sample
    of bounded size.
    """

    bins: int = 2048
    sample_size: int = 1 << 16
    seed: int = 0
    count: int = 0
    largest: float = 0.0
    limit: float = 0.0
    histogram: np.ndarray = field(init=False)
    sample: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        if self.bins < 2 or self.bins % 2:
            raise RangeError(
                f"number of bins must be even and positive, got {self.bins}"
            )
        self.histogram = np.zeros(self.bins, dtype=np.int64)
        self.sample = np.zeros(0, dtype=np.float32)
        self._random = np.random.default_rng(self.seed)

    @classmethod
    def restore(
        cls,
        histogram: np.ndarray,
        sample: np.ndarray,
        count: int,
        largest: float,
        limit: float,
        seed: int,
        sample_size: int,
    ) -> Range:
        """A saved range, to which no batch can be added.

        Raises:
            RangeError: the parts contradict each other.
        """
        seen = cls(
            bins=int(histogram.size),
            sample_size=sample_size,
            seed=seed,
            count=count,
            largest=largest,
            limit=limit,
        )
        if (
            int(histogram.sum()) != count
            or sample.size != min(count, sample_size)
            or not 0.0 <= largest <= limit
        ):
            raise RangeError("the parts of a range contradict each other")
        seen.histogram = histogram.astype(np.int64)
        seen.sample = sample.astype(np.float32)
        return seen

    def add(self, values: np.ndarray | torch.Tensor) -> None:
        """Counts one batch, on its device.

        Raises:
            RangeError: a value is NaN or infinite.
        """
        if not isinstance(values, torch.Tensor):
            values = torch.from_numpy(values)
        flat = values.detach().to(torch.float32).abs().flatten()
        if flat.numel() == 0:
            return
        if flat.numel() <= self.sample_size - self.sample.size:
            # All values are kept, so wait for the GPU once.
            flat = flat.cpu()
        largest = float(flat.max())
        if not math.isfinite(largest):
            bad = int((~flat.isfinite()).sum())
            raise RangeError(
                f"{bad} of {flat.numel()} observed values are not finite"
            )
        if largest > 0.0 and self.limit == 0.0:
            self.limit = largest
        while self.limit > 0.0 and largest > self.limit:
            pairs = self.histogram.reshape(-1, 2).sum(axis=1)
            self.histogram[:] = 0
            self.histogram[: self.bins // 2] = pairs
            self.limit *= 2.0
        if self.limit == 0.0:
            self.histogram[0] += flat.numel()
        else:
            bins = (flat * (self.bins / self.limit)).to(torch.int32)
            self.histogram += (
                torch.bincount(
                    bins.clamp_(max=self.bins - 1), minlength=self.bins
                )
                .cpu()
                .numpy()
            )
        self._keep(flat)
        self.count += flat.numel()
        self.largest = max(self.largest, largest)

    def _keep(self, flat: torch.Tensor) -> None:
        """Reservoir sampling: each value is kept with the same probability."""
        if self.count == 0 and flat.numel() > 4 * self.sample_size:
            places = torch.from_numpy(self._distinct(flat.numel()))
            self.sample = flat[places.to(flat.device)].cpu().numpy()
            return
        free = self.sample_size - self.sample.size
        head, rest = flat[:free], flat[free:]
        if free > 0:
            self.sample = np.concatenate([self.sample, head.cpu().numpy()])
        # Few values of a large batch are kept, so random numbers are drawn
        # only for these.
        count, start = rest.numel(), self.count + free
        if count == 0:
            return
        expected = (
            self.sample_size * math.log1p(count / start) if start else 0.0
        )
        slots = np.empty(0, dtype=np.int64)
        if 4 * expected > count:
            seen = start + np.arange(1, count + 1)
            drawn = (self._random.random(count) * seen).astype(np.int64)
            chosen = np.flatnonzero(drawn < self.sample_size)
            slots = drawn[chosen]
        else:
            chosen = self._skips(start, count)
            slots = self._random.integers(0, self.sample_size, chosen.size)
        # Later values overwrite earlier ones, as if added one by one.
        self.sample[slots] = (
            rest[torch.from_numpy(chosen).to(rest.device)].cpu().numpy()
        )

    def _distinct(self, count: int) -> np.ndarray:
        """One random position of each of `sample_size` equal parts of `count`
        values."""
        places, self._random.bit_generator.state = _first_places(
            self.seed, self.sample_size, count
        )
        return places

    def _skips(self, start: int, count: int) -> np.ndarray:
        """Positions of the values that enter the sample.

        `count` values follow `start` earlier ones. The probability of each
        depends on its position.
        """
        chosen, low = [], 0
        while low < count:
            # The probabilities of these positions are within a factor of two.
            high = min(count, low + start + low)
            most = min(1.0, self.sample_size / (start + low + 1))
            drawn = (
                np.flatnonzero(self._random.random(high - low) < most)
                if most > 0.25
                else self._sparse(high - low, most)
            )
            keep = self.sample_size / (start + low + 1 + drawn) / most
            chosen.append(low + drawn[self._random.random(drawn.size) < keep])
            low = high
        return np.concatenate(chosen)

    def _sparse(self, count: int, share: float) -> np.ndarray:
        """Random positions below `count`, each with probability `share`."""
        found, last = [], -1
        step = max(16, int(1.2 * share * count))
        while last < count:
            gaps = self._random.geometric(share, step)
            found.append(last + np.cumsum(gaps))
            last = int(found[-1][-1])
        places = np.concatenate(found)
        return places[places < count]

    def percentile(self, share: float) -> float:
        """Magnitude that `share` percent of the values do not exceed.

        It is the upper edge of a histogram bin, hence never too small. 100
        gives the largest value.
        """
        if not isinstance(share, (int, float)) or not 0.0 < share <= 100.0:
            raise RangeError(
                f"percentile must be above 0 and at most 100, got {share}"
            )
        if share == 100.0 or self.count == 0:
            return self.largest
        wanted = math.ceil(self.count * share / 100.0)
        edge = int(np.searchsorted(np.cumsum(self.histogram), wanted)) + 1
        return min(self.largest, edge * self.limit / self.bins)

    def saturated_share(self, scale: float, storage: str) -> float:
        """Fraction of the values beyond the largest storable one.

        It comes from the histogram, and is exact up to the width of a bin.
        """
        if self.count == 0 or self.limit == 0.0:
            return 0.0
        threshold = scale * largest_value(storage)
        if threshold >= self.largest:
            return 0.0
        first = int(threshold / self.limit * self.bins) + 1
        return float(self.histogram[first:].sum()) / self.count


@functools.lru_cache(maxsize=8)
def _first_places(
    seed: int, size: int, count: int
) -> tuple[np.ndarray, Mapping[str, Any]]:
    """The positions that a new generator draws, and its state after that. The
    weights of a model have few sizes."""
    random = np.random.default_rng(seed)
    parts = np.arange(size) + random.random(size)
    places = (parts * (count / size)).astype(np.int64)
    return np.minimum(places, count - 1), random.bit_generator.state


@dataclass(frozen=True)
class ScaleChoice:
    """A scale and its effect on the observed values."""

    scale: float
    method: str
    #: Magnitude that maps to the largest stored value.
    threshold: float
    #: threshold / largest observed value; below 1, values saturate.
    headroom: float
    #: Fraction of the values that saturate.
    saturated: float
    #: Mean squared error over the mean square of the values, from a sample.
    relative_mse: float


def choose_scale(
    seen: Range, storage: str, method: str = "amax", percentile: float = 99.99
) -> ScaleChoice:
    """Chooses a static scale from the observed values of a tensor.

    `amax` maps the largest magnitude to the largest stored value. `percentile`
    maps the given percentile there, so that outliers saturate. `mse` searches
    thresholds between 1/256 of the largest magnitude and that magnitude for
    the smallest mean squared error on the kept sample.

    Raises:
        RangeError: all values are zero, or the method is unknown.
    """
    threshold = choose_threshold(seen, storage, method, percentile)
    return scales_of([seen], [threshold], storage, method)[0]


def choose_threshold(
    seen: Range, storage: str, method: str = "amax", percentile: float = 99.99
) -> float:
    """The magnitude that `choose_scale` maps to the largest stored value.

    Raises:
        RangeError: all values are zero, or the method is unknown.
    """
    if method not in METHODS:
        raise RangeError(
            f"unknown method '{method}'; expected one of {', '.join(METHODS)}"
        )
    if seen.count == 0 or seen.largest == 0.0:
        raise RangeError(
            f"no scale follows from {seen.count} values that are all zero"
        )
    largest = largest_value(storage)
    if method == "amax":
        return seen.largest
    if method == "percentile":
        return seen.percentile(percentile)
    sample = torch.from_numpy(seen.sample)
    steps = np.exp2(-np.arange(0, 8 * 16 + 1) / 16.0) * seen.largest
    errors = [_error(sample, float(step) / largest, storage) for step in steps]
    return float(steps[int(np.argmin(errors))])


def scales_of(
    ranges: Sequence[Range],
    thresholds: Sequence[float],
    storage: str,
    method: str,
    device: torch.device | str = "cpu",
) -> list[ScaleChoice]:
    """The scales of thresholds, with their effect on the observed values.

    Args:
        ranges: of the tensors.
        thresholds: of `choose_threshold`, one for each range.
        storage: as for `choose_scale`.
        method: that chose the thresholds.
        device: that measures the errors on all samples together.
    """
    largest = largest_value(storage)
    # Kernels and the measurements here use scales in f32.
    scales = [float(np.float32(t / largest)) for t in thresholds]
    errors = _relative_errors(ranges, scales, storage, device)
    return [
        ScaleChoice(
            scale=scale,
            method=method,
            threshold=threshold,
            headroom=threshold / seen.largest,
            saturated=seen.saturated_share(scale, storage),
            relative_mse=error,
        )
        for seen, threshold, scale, error in zip(
            ranges, thresholds, scales, errors
        )
    ]


#: Number of sampled values whose errors are measured at the same time, which
#: take some 30 bytes each.
_AT_ONCE = 1 << 22


def _relative_errors(
    ranges: Sequence[Range],
    scales: Sequence[float],
    storage: str,
    device: torch.device | str,
) -> list[float]:
    """Mean squared errors over mean squares of the samples."""
    found = [0.0] * len(ranges)
    by_size: dict[int, list[int]] = {}
    for index, seen in enumerate(ranges):
        by_size.setdefault(seen.sample.size, []).append(index)
    for size, indices in by_size.items():
        rows = max(1, _AT_ONCE // size)
        for start in range(0, len(indices), rows):
            part = indices[start : start + rows]
            sample = torch.from_numpy(
                np.stack([ranges[i].sample for i in part])
            ).to(device)
            scale = torch.tensor(
                [[scales[i]] for i in part],
                dtype=torch.float32,
                device="cpu",
            ).to(device)
            exact = sample.double()
            restored = dequantize(quantize(sample, scale, storage), scale)
            errors = (restored.double() - exact).square().mean(dim=1)
            squares = exact.square().mean(dim=1).clamp(min=1e-300)
            for i, error in zip(part, (errors / squares).tolist()):
                found[i] = error
    return found


def _error(sample: torch.Tensor, scale: float, storage: str) -> float:
    """Mean squared error of `sample` after quantization by `scale`."""
    restored = dequantize(quantize(sample, scale, storage), scale)
    return float((restored.double() - sample.double()).square().mean())
