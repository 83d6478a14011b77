# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times the kernels for many tokens beside what a user runs.

    python3 -m benchmarks.prefill_h200 --output \
        benchmarks/results/prefill-h200.json

runs on the machine with the GPU, from the kernels that `benchmarks.kernels`
compiled with `--set prefill --set prefill-checked`. See benchmarks/README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .mlp_h200 import ROOT, Bench, run_workers
from .plan import Plan
from .prefill_cases import (PREFILL_CHECKED_TOKENS, PREFILL_SHAPES,
                            PREFILL_TOKENS, SWEPT_TOKENS)
from .problem import BF16, FP8, Problem
from .cases import timed_problem
from .timing import read_device

#: How many numbers of tokens a kernel is checked with, taken in turn.
_CHECKS = 3
#: Tokens for which peers are tuned too: that takes long.
_TUNED_TOKENS = (512, 4096)
_LIBRARY = "cublas-products"


def flop(problem: Problem, tokens: int) -> float:
    """Operations of the products."""
    matrices = 3 if problem.gated else 2
    return 2.0 * matrices * problem.width * problem.hidden * tokens


def library_products(problem: Problem, tokens: int) -> Callable[[], Tensor]:
    """The two products alone: no norm, activation or quantization."""
    rows = problem.hidden * (2 if problem.gated else 1)
    shapes = ((tokens, problem.width), (rows, problem.width),
              (tokens, problem.hidden), (problem.width, problem.hidden))
    x, first, hidden, last = (torch.randn(*shape, device="cuda").bfloat16()
                              for shape in shapes)
    if not problem.fp8:
        def multiply() -> Tensor:
            torch.mm(x, first.t())
            return torch.mm(hidden, last.t())
        return multiply
    x8, first8, hidden8, last8 = (value.to(torch.float8_e4m3fn)
                                  for value in (x, first, hidden, last))
    one = torch.tensor(1.0, device="cuda")

    def multiply8() -> Tensor:
        for left, right in ((x8, first8), (hidden8, last8)):
            result = torch._scaled_mm(left, right.t(), one, one,
                                      out_dtype=torch.bfloat16,
                                      use_fast_accum=True)
        return result
    return multiply8


class PrefillBench(Bench):
    """The same protocol for many tokens, with rates beside times."""

    def check_all(self) -> None:
        self._turn = 0
        super().check_all()

    def tokens_to_check(self, plan: Plan) -> list[int]:
        served = [m for m in PREFILL_CHECKED_TOKENS if m <= plan.max_tokens]
        served = served or [plan.max_tokens]
        chosen = {served[(self._turn + i) % len(served)]
                  for i in range(_CHECKS)}
        # The last is the number that the schedule was made for.
        chosen.add(min(plan.max_tokens, max(served)))
        self._turn += _CHECKS
        return sorted(chosen)

    def timed_shapes(self) -> Sequence[tuple[int, int, str]]:
        return PREFILL_SHAPES

    def modes(self, problem: Problem, m: int) -> list[str]:
        return [mode for mode in self.options.peers
                if mode != "autotune" or m in _TUNED_TOKENS]

    def measure(self, base: dict[str, Any],
                calls: dict[tuple[str, str, str], Callable[[], Any]],
                errors: dict[tuple[str, str], float], raw: Tensor,
                problem: Problem) -> None:
        if calls:
            calls[_LIBRARY, "none", "single"] = library_products(
                problem, base["M"])
            errors[_LIBRARY, "none"] = float("inf")
        super().measure(base, calls, errors, raw, problem)
        device = read_device()
        rows = [row for row in self.results.rows if all(
            row.get(name) == base[name] for name in ("K", "H", "M", "dtype"))
            and row.get("median_us")]
        library = next((row["median_us"] for row in rows
                        if row["system"] == _LIBRARY), None)
        for row in rows:
            row["tflop_per_s"] = round(
                flop(problem, base["M"]) / row["median_us"] * 1e-6, 1)
            if library:
                row["of_library_products"] = round(
                    library / row["median_us"], 3)
            row["power_w"] = device.get("power.draw", "")


def main(arguments: Sequence[str] | None = None) -> int:
    return run_workers(
        PrefillBench, "benchmarks.prefill_h200", arguments,
        {"output": ROOT / "benchmarks/results/prefill-h200.json",
         "tokens": list(PREFILL_TOKENS), "repeats": 10,
         "stages": ["ceilings", "check", "single"],
         "peers": ["eager", "compile"]})


if __name__ == "__main__":
    sys.exit(main())
