# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Differences of two results, in units that show rounding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# Bits of the mantissa without the implicit one, and the smallest exponent.
FORMATS: Mapping[str, tuple[int, int]] = {
    "bf16": (7, -126),
    "f16": (10, -14),
    "f32": (23, -126),
}
BUCKETS = ("0", "1", "2", "3-4", "5-8", ">8")


@dataclass(frozen=True)
class Difference:
    """Differences of a result from a reference of the same shape."""

    elements: int
    max_abs: float
    mean_abs: float
    relative_l2: float
    max_ulp: float
    histogram: dict[str, int]
    nonfinite_mismatches: int

    @property
    def identical(self) -> bool:
        return self.max_abs == 0 and self.nonfinite_mismatches == 0


def ulp(values: np.ndarray, element: str) -> np.ndarray:
    """Distance between neighbors of type `element` at each value."""
    mantissa, least = FORMATS[element]
    _, exponent = np.frexp(np.abs(values))
    exponent = np.where(values == 0, least, exponent - 1)
    return np.ldexp(1.0, np.maximum(exponent, least) - mantissa)


def finite_pairs(
    result: np.ndarray, reference: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Elements that are finite in both, flat and in f64, and the number of
    other elements that differ."""
    lhs = result.astype(np.float64).ravel()
    rhs = reference.astype(np.float64).ravel()
    finite = np.isfinite(lhs) & np.isfinite(rhs)
    same = (lhs == rhs) | (np.isnan(lhs) & np.isnan(rhs))
    return lhs[finite], rhs[finite], int((~finite & ~same).sum())


def difference(
    result: np.ndarray, reference: np.ndarray, element: str
) -> Difference:
    """Compares in f64; units in the last place are those of `element`."""
    if result.shape != reference.shape:
        raise ValueError(
            f"result has shape {result.shape}, reference {reference.shape}"
        )
    if element not in FORMATS:
        raise ValueError(
            f"unknown element type '{element}'; expected one of "
            + ", ".join(FORMATS)
        )
    lhs, rhs, mismatches = finite_pairs(result, reference)
    error = np.abs(lhs - rhs)
    ulps = np.rint(error / ulp(rhs, element))
    edges = [-0.5, 0.5, 1.5, 2.5, 4.5, 8.5, np.inf]
    counts, _ = np.histogram(ulps, bins=edges)
    norm = float(np.linalg.norm(rhs))
    return Difference(
        elements=result.size,
        max_abs=float(error.max(initial=0.0)),
        mean_abs=float(error.mean()) if error.size else 0.0,
        relative_l2=float(np.linalg.norm(error)) / norm if norm else 0.0,
        max_ulp=float(ulps.max(initial=0.0)),
        histogram=dict(zip(BUCKETS, (int(c) for c in counts))),
        nonfinite_mismatches=mismatches,
    )


def table(rows: Mapping[str, Difference], element: str) -> str:
    """A line for each comparison, aligned."""
    width = max(len(name) for name in rows)
    head = f"{'':{width}}  {'max abs':>9}  {'rel. L2':>9}  " + "  ".join(
        f"{b + ' ulp':>9}" for b in BUCKETS
    )
    lines = [head + f"   (ulp of {element}, % of elements)"]
    for name, row in rows.items():
        shares = "  ".join(
            f"{100 * row.histogram[b] / max(1, row.elements):>9.3f}"
            for b in BUCKETS
        )
        lines.append(
            f"{name:{width}}  {row.max_abs:>9.2e}  "
            f"{row.relative_l2:>9.2e}  {shares}"
        )
    return "\n".join(lines)
