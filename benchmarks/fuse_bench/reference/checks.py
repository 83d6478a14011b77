# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that a kernel computes its fused op."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..common import data
from ..common.data import kernel_scalars
from ..common.driver import CudaError, Module, Runner, Weights
from ..common.plan import Plan, PlanError
from ..common.problem import ROW_OPERANDS, Problem
from .decomposition import Chain, Range, real_output

#: Largest ||value - reference|| / ||reference|| of one step. It is the only
#: check of a relaxed kernel, whose roundings differ from the chain's. An exact
#: kernel also has bounds for each element; with enough elements, its mean error
#: would show a bias within the bounds.
STEP_ERROR = {"bf16": 8e-3, "f8E4M3FN": 2e-2}
#: With fewer elements, the few that lie on a rounding boundary decide the mean.
MEAN_ELEMENTS = 1 << 14
#: Launches whose results are compared at once: two additional small kernels per
#: launch instead of seven. Large results are compared in smaller groups,
#: because many processes share the memory of a GPU.
KEPT_RESULTS = 25
KEPT_BYTES = 1 << 27
#: Tokens of one batch of references, which needs about twenty matrices in
#: float64.
PART_TOKENS = 1024
#: Static scales are this much too small, so that the largest values saturate.
HEADROOM = 0.8


def _poison(tensors: list[Tensor]) -> None:
    for tensor in tensors:
        tensor.fill_(math.nan)


def _capture(function: Callable[[], None]) -> Callable[[], None]:
    """Repeats a function as a graph.

    torch.cuda.graph would first collect garbage, which takes longer than all
    launches of a small kernel.
    """
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        graph.capture_begin()
        function()
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(side)
    return graph.replay


def count_differences(
    runner: Runner, repeats: int, programmatic: bool = False
) -> int:
    """How many of `repeats` launches differ in any bit from the first."""
    _poison(runner.results)
    runner()
    first = [result.view(torch.int16).clone() for result in runner.results]
    most = min(
        KEPT_RESULTS, max(1, KEPT_BYTES // sum(bits.nbytes for bits in first))
    )
    kept = [bits.new_empty(most, *bits.shape) for bits in first]
    differs = first[0].new_zeros((), dtype=torch.int64)

    def launch_some(count: int) -> None:
        for index in range(count):
            _poison(runner.results)
            runner(programmatic)
            for copies, result in zip(kept, runner.results):
                copies[index].copy_(result.view(torch.int16))

    launch: Callable[[], None] = partial(launch_some, most)
    if first[0].is_cuda and repeats > 2 * most:
        # It keeps the GPU busy while processes alternate on it.
        launch = _capture(launch)
    for done in range(1, repeats, most):
        count = min(most, repeats - done)
        if count == most:
            launch()
        else:
            launch_some(count)
        other = [
            (copies[:count] != bits).flatten(1).any(1)
            for copies, bits in zip(kept, first)
        ]
        differs += torch.stack(other).any(0).sum()
    return int(differs)


def short(value: float) -> float:
    """Four digits: results are read by people too."""
    return float(f"{value:.4g}")


class Tally:
    """Compares values of one step with a reference, some tokens at a time."""

    def __init__(self) -> None:
        self.elements = self.equal = self.outside = 0
        self._error = self._norm = 0.0

    def add(self, value: Tensor, reference: Tensor | Range) -> None:
        if isinstance(reference, Range):
            self.equal += reference.count_equal(value)
            self.outside += reference.outside(value)
            reference = reference.mid
        self.elements += value.numel()
        wide = value.double()
        error = (wide - reference).square().sum().item()
        # NaN is infinitely far away.
        self._error += math.inf if math.isnan(error) else error
        self._norm += reference.square().sum().item()

    def error(self) -> float:
        """||value - reference|| / ||reference||."""
        return short(math.sqrt(self._error / (self._norm or 1.0)))

    def row(self, name: str) -> dict[str, Any]:
        return {
            f"{name}_equal": round(self.equal / self.elements, 6),
            f"{name}_rel_err": self.error(),
            f"{name}_outside": self.outside,
        }


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
        """One row: differences from the chain, and whether it is good."""
        plan, problem = self.plan, self.plan.problem
        activations = data.make_activations(
            problem, tokens, self.seed * 1000 + tokens
        )
        tensors = {**self.weights.tensors, **activations}
        scales = data.calibrate(problem, tensors, self.scales, HEADROOM)
        scales.update(plan.fixed_scales)
        runner = Runner(
            plan,
            self.module,
            self.weights,
            activations,
            kernel_scalars(problem, scales),
            Runner.make_workspace(plan),
        )
        differing = count_differences(runner, repeats)
        torch.cuda.synchronize()
        steps: dict[str, Tally] = {}
        values = {
            "input": runner.intermediate(0),
            "hidden": runner.intermediate(1),
            "out": runner.results[0],
        }
        if problem.returns_stream:
            values["stream"] = runner.results[1]
        for first in range(0, tokens, PART_TOKENS):
            part = slice(first, first + PART_TOKENS)
            compare(
                problem,
                scales,
                steps,
                {
                    role: tensor[part] if role in ROW_OPERANDS else tensor
                    for role, tensor in tensors.items()
                },
                {
                    name: value[part]
                    for name, value in values.items()
                    if value is not None
                },
            )
        row: dict[str, Any] = {
            "case": problem.label(),
            "tile": plan.max_tokens,
            "M": tokens,
            "commit": plan.commit,
            "digest": plan.digest,
            "repeats": repeats,
            "differing_repeats": differing,
            "poisoned": sum(
                int(result.isnan().sum()) for result in runner.results
            ),
        }
        whole = {name: steps.pop(name).error() for name in ("chain", "real")}
        for name, tally in steps.items():
            row |= tally.row(name)
        row |= {"chain_rel_err": whole["chain"], "rel_err": whole["real"]}
        row["ok"] = judge(
            row,
            problem.dtype,
            problem.mode == "exact",
            tokens * min(problem.width, problem.hidden),
        )
        return row


def compare(
    problem: Problem,
    scales: Mapping[str, float],
    steps: dict[str, Tally],
    tensors: Mapping[str, Tensor],
    values: Mapping[str, Tensor],
) -> None:
    """Adds intermediates of some tokens to the tallies of their steps."""

    def add(name: str, value: Tensor, reference: Tensor | Range) -> None:
        steps.setdefault(name, Tally()).add(value, reference)

    chain = Chain(problem, tensors, scales)
    if "input" in values:
        add("input", values["input"], chain.input)
        own = chain.hidden_from(values["input"])
    else:
        own = chain.hidden
    if "hidden" in values:
        # Against the kernel's own input: errors do not add up.
        add("hidden", values["hidden"], own)
        own = Range.exact(values["hidden"])
    add("out", values["out"], chain.output_from(own))
    if "stream" in values:
        add("stream", values["stream"], chain.stream)
    nominal = Chain(problem, tensors, scales, bounds=False)
    add("chain", values["out"], nominal.output().mid)
    add("real", values["out"], real_output(problem, tensors, scales))


def judge(row: dict[str, Any], dtype: str, exact: bool, elements: int) -> bool:
    """The verdict on a row whose steps have at least `elements` elements."""
    good = row["differing_repeats"] == 0 and row["poisoned"] == 0
    if exact:
        good &= all(
            value == 0
            for name, value in row.items()
            if name.endswith("_outside")
        )
    if not exact or elements >= MEAN_ELEMENTS:
        good &= all(
            row.get(name, 0.0) < STEP_ERROR[dtype]
            for name in ("input_rel_err", "hidden_rel_err", "out_rel_err")
        )
    return bool(good)


def check_tokens(
    plan: Plan, tokens: Sequence[int], seed: int, repeats: int
) -> Generator[dict[str, Any], None, None]:
    """A row for each number of tokens; an error is a bad row with a note."""
    checker = None
    try:
        for m in tokens:
            try:
                if checker is None:
                    checker = Checker(plan, seed)
                yield checker.check(m, repeats)
            except (CudaError, PlanError, RuntimeError) as error:
                yield bad_row(plan, m, " ".join(str(error).split())[:200])
    finally:
        if checker is not None:
            checker.close()


def memory_bytes(plan: Plan, tokens: Sequence[int]) -> int:
    """Upper bound of the GPU memory of a kernel's checks in bytes.

    It covers stored and packed weights, some of them in float64, and a batch of
    tokens.
    """
    problem = plan.problem
    most = max(tokens)
    return (
        plan.workspace_bytes
        + 48 * problem.width * problem.hidden
        + (problem.width + problem.hidden)
        * (150 * min(most, PART_TOKENS) + 24 * most)
        + 2 * KEPT_BYTES
    )


def bad_row(plan: Plan, tokens: int, note: str) -> dict[str, Any]:
    """The row of a check that came to no end."""
    return {
        "case": plan.problem.label(),
        "tile": plan.max_tokens,
        "M": tokens,
        "commit": plan.commit,
        "digest": plan.digest,
        "ok": False,
        "note": note,
    }


def lacks_memory(row: Mapping[str, Any]) -> bool:
    """Whether other processes left a check no memory."""
    return re.search("out.of.memory", row.get("note", ""), re.I) is not None


def loses_device(row: Mapping[str, Any]) -> bool:
    """Whether the process of a check can make no other one."""
    return (
        not lacks_memory(row)
        and re.search("illegal|CUDA error", row.get("note", "")) is not None
    )
