# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much of its interval a sum of 8-bit products uses.

    python3 -m fuse_bench.reference.sum_error

simulates the accumulators of docs/reference/numerics.md on the CPU, over
lengths and distributions, and writes out/results/sum-error.json: the largest
part of `aligned_sum_error`, and of a fixed 2^-11 of the sum of absolute
products.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..common.data import E4M3_MAX, activate
from ..common.environment import RAW, write_json
from .decomposition import aligned_sum, aligned_sum_error, quantize

RESULTS = RAW / "sum-error.json"
LENGTHS = (256, 768, 2048, 8192, 28672)
RANGES = (1, 4)
_FIXED = 2.0**-11


def make_rows(
    kind: str, rows: int, length: int, generator: torch.Generator
) -> Tensor:
    """Stored values of a distribution, scaled so that the largest saturate."""
    gate, up = torch.randn(2, rows, length, generator=generator)
    value = {
        "normal": lambda: gate,
        "silu(normal) * normal": lambda: activate("silu", gate) * up,
        "gelu(normal)": lambda: activate("gelu", gate),
        "relu2(normal)": lambda: activate("relu2", gate),
    }[kind]()
    return quantize(value, E4M3_MAX / 0.8 / value.abs().max().item()).double()


def simulate(
    kind: str,
    length: int,
    ranges: int,
    rows: int,
    outputs: int,
    generator: torch.Generator,
) -> dict[str, Any]:
    """One row of the results."""
    x = make_rows(kind, rows, length, generator)
    weight = torch.randn(outputs, length, generator=generator)
    w = quantize(weight, E4M3_MAX / weight.abs().max().item()).double()
    size = length // ranges
    total = sum(
        aligned_sum(x[:, k : k + size], w[:, k : k + size])
        for k in range(0, length, size)
    )
    exact = x @ w.t()
    error = (total - exact).abs()
    of_interval = error / aligned_sum_error(x, w, exact)
    of_fixed = error / (_FIXED * (x.abs() @ w.abs().t()))
    return {
        "x": kind,
        "length": length,
        "ranges": ranges,
        "sums": error.numel(),
        "rms_of_interval": round(of_interval.square().mean().sqrt().item(), 4),
        "max_of_interval": round(of_interval.max().item(), 3),
        "max_of_fixed": round(of_fixed.max().item(), 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.reference.sum_error",
        description=__doc__.split("\n")[0],
    )
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--outputs", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    generator = torch.Generator().manual_seed(options.seed)
    rows = []
    for kind in (
        "normal",
        "silu(normal) * normal",
        "gelu(normal)",
        "relu2(normal)",
    ):
        for length in LENGTHS:
            for ranges in RANGES:
                rows.append(
                    simulate(
                        kind,
                        length,
                        ranges,
                        options.rows,
                        options.outputs,
                        generator,
                    )
                )
                print(rows[-1], flush=True)
                write_json(
                    options.output,
                    {
                        "seed": options.seed,
                        "versions": {"torch": torch.__version__},
                        "rows": rows,
                    },
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
