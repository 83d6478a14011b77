# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether a kernel computes what its fused op means."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from . import data
from .driver import Module, Runner, Weights
from .plan import Plan
from .reference import (Chain, Range, kernel_scalars, real_output,
                        relative_error)

#: Largest ||value - reference|| / ||reference|| of one step. This is all there
#: is for a relaxed kernel, whose roundings differ from the chain's. An exact
#: one has bounds element by element; its mean error would show a bias inside of
#: them, where there are enough elements for a mean.
STEP_ERROR = {"bf16": 8e-3, "f8E4M3FN": 2e-2}
#: With fewer elements, the few that lie on a rounding boundary decide the mean.
MEAN_ELEMENTS = 1 << 14
#: Results of so many launches are compared at once: two small kernels for each
#: launch beside its own, instead of seven. They are fewer where they would take
#: more bytes: many processes share the memory of a GPU.
KEPT_RESULTS = 25
KEPT_BYTES = 1 << 27
#: Static scales are this much too small, so that the largest values saturate.
HEADROOM = 0.8


def _poison(tensors: list[Tensor]) -> None:
    for tensor in tensors:
        tensor.fill_(math.nan)


def count_differences(runner: Runner, repeats: int,
                      programmatic: bool = False) -> int:
    """How many of `repeats` launches differ in any bit from the first."""
    _poison(runner.results)
    runner()
    first = [result.view(torch.int16).clone() for result in runner.results]
    most = min(KEPT_RESULTS, max(1, KEPT_BYTES // sum(
        bits.nbytes for bits in first)))
    kept = [bits.new_empty(most, *bits.shape) for bits in first]
    differs = first[0].new_zeros((), dtype=torch.int64)
    for done in range(1, repeats, most):
        count = min(most, repeats - done)
        for index in range(count):
            _poison(runner.results)
            runner(programmatic)
            for copies, result in zip(kept, runner.results):
                copies[index].copy_(result.view(torch.int16))
        other = [(copies[:count] != bits).flatten(1).any(1)
                 for copies, bits in zip(kept, first)]
        differs += torch.stack(other).any(0).sum()
    return int(differs)


def short(value: float) -> float:
    """Four digits: results are read by people too."""
    return float(f"{value:.4g}")


def _compare(name: str, bounds: Range, value: Tensor) -> dict[str, Any]:
    return {f"{name}_equal": round(bounds.equal(value), 6),
            f"{name}_rel_err": short(relative_error(value, bounds.mid)),
            f"{name}_outside": bounds.outside(value)}


class Checker:
    """Runs one compiled problem on fresh operands and judges the results."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.seed = seed
        self.module = Module(plan.binary)
        tensors, self.scales = data.make_weights(plan.problem, seed)
        self.weights = Weights(tensors)

    def close(self) -> None:
        torch.cuda.synchronize()
        self.module.unload()

    def check(self, tokens: int, repeats: int) -> dict[str, Any]:
        """One row: what differs from the chain, and whether it may."""
        plan, problem = self.plan, self.plan.problem
        activations = data.make_activations(problem, tokens,
                                            self.seed * 1000 + tokens)
        tensors = {**self.weights.tensors, **activations}
        scales = data.calibrate(problem, tensors, self.scales, HEADROOM)
        scales.update(plan.fixed_scales)
        runner = Runner(plan, self.module, self.weights, activations,
                        kernel_scalars(problem, scales),
                        Runner.make_workspace(plan))
        differing = count_differences(runner, repeats)
        torch.cuda.synchronize()
        chain = Chain(problem, tensors, scales)
        exact = problem.mode == "exact"
        row: dict[str, Any] = {
            "case": problem.label(), "tile": plan.max_tokens, "M": tokens,
            "commit": plan.commit, "digest": plan.digest,
            "repeats": repeats, "differing_repeats": differing,
            "poisoned": sum(int(result.isnan().sum())
                            for result in runner.results)}
        own = chain.hidden
        stored = runner.intermediate(0)
        if stored is not None:
            row |= _compare("input", chain.input, stored)
            own = chain.hidden_from(stored)
        hidden = runner.intermediate(1)
        if hidden is not None:
            # Against the kernel's own input: errors do not add up.
            row |= _compare("hidden", own, hidden)
            own = Range.exact(hidden)
        row |= _compare("out", chain.output_from(own), runner.results[0])
        if problem.returns_stream:
            row |= _compare("stream", chain.stream, runner.results[1])
        row["chain_rel_err"] = short(relative_error(runner.results[0],
                                                    chain.output().mid))
        row["rel_err"] = short(relative_error(
            runner.results[0], real_output(problem, tensors, scales)))
        row["ok"] = judge(row, problem.dtype, exact,
                          tokens * min(problem.width, problem.hidden))
        return row


def judge(row: dict[str, Any], dtype: str, exact: bool,
          elements: int) -> bool:
    """The verdict on a row whose steps have at least so many elements."""
    good = row["differing_repeats"] == 0 and row["poisoned"] == 0
    if exact:
        good &= all(value == 0 for name, value in row.items()
                    if name.endswith("_outside"))
    if not exact or elements >= MEAN_ELEMENTS:
        good &= all(row.get(name, 0.0) < STEP_ERROR[dtype] for name in (
            "input_rel_err", "hidden_rel_err", "out_rel_err"))
    return bool(good)
