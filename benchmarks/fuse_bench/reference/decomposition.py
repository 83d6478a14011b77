# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The expected result of a fused op, in float64.

`Chain` follows the decomposition of a fused op member by member. Sums are in
float64; a value is rounded where the chain rounds it. Next to each value it
keeps an interval: the values that are possible when the sums of a linear or a
norm are computed in another order and with the accumulators of the hardware.
A kernel keeps the exact contract when nothing it computes lies outside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..common.data import E4M3_MAX, activate, kernel_scalars
from ..common.problem import Problem

#: Error of a sum of bf16 products, which are summed in f32, over the sum of
#: their absolute values.
SUM_ERROR = 2.0**-18
#: What `aligned_sum_error` is made of, see docs/reference/numerics.md: products
#: of a step, the digits that its addends keep, and the least exponent of a
#: factor.
STEP_PRODUCTS = 32
STEP_DIGITS = 13
LEAST_NORMAL = 2.0**-6
#: Standard deviations that an interval is wide, to either side.
DEVIATIONS = 6.0
#: Relative error of an elementwise f32 computation with approximate exp2 and
#: reciprocal, and of a norm's statistics.
ACT_ERROR = 2.0**-18
NORM_ERROR = 2.0**-20
#: Error of x/2 (1 + erf(x / sqrt(2))) over x, from roundings next to one.
GELU_ERROR = 2.0**-23


def quantize(x: Tensor, factor: float, divide: bool = False) -> Tensor:
    """To e4m3: times the reciprocal (or over the scale), saturating."""
    wide = x.float()
    wide = wide / factor if divide else wide * factor
    return wide.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)


@dataclass
class Range:
    """A nominal value between two bounds, all float64."""

    mid: Tensor
    low: Tensor
    high: Tensor

    @staticmethod
    def exact(value: Tensor) -> Range:
        wide = value.double()
        return Range(wide, wide, wide)

    @staticmethod
    def around(mid: Tensor, error: Tensor) -> Range:
        return Range(mid, mid - error, mid + error)

    def widen(self, relative: float) -> Range:
        return Range(
            self.mid,
            self.low - relative * self.low.abs(),
            self.high + relative * self.high.abs(),
        )

    def bf16(self, rounds: bool = True) -> Range:
        """Rounded to bf16, or kept in f32."""
        if not rounds:
            return self.widen(2.0**-23)

        def to(x: Tensor) -> Tensor:
            return x.float().bfloat16().double()

        return Range(to(self.mid), to(self.low), to(self.high))

    def times(self, other: Range) -> Range:
        corners = torch.stack(
            [
                a * b
                for a in (self.low, self.high)
                for b in (other.low, other.high)
            ]
        )
        return Range(self.mid * other.mid, corners.amin(0), corners.amax(0))

    def plus(self, other: Range) -> Range:
        return Range(
            self.mid + other.mid, self.low + other.low, self.high + other.high
        )

    def scaled(self, factor: float) -> Range:
        return self.times(
            Range.exact(torch.tensor(factor, device=self.mid.device))
        )

    def activated(self, kind: str) -> Range:
        ends = torch.stack(
            [activate(kind, x) for x in (self.low, self.mid, self.high)]
        )
        result = Range(
            activate(kind, self.mid), ends.amin(0), ends.amax(0)
        ).widen(ACT_ERROR)
        if kind == "gelu":
            # The formula of the dialect, in f32: 1 + erf cancels.
            lost = GELU_ERROR * torch.maximum(self.low.abs(), self.high.abs())
            result = Range(result.mid, result.low - lost, result.high + lost)
        return result

    def quantized(self, factor: float, divide: bool) -> Range:
        """The stored values, as float64."""
        return Range(
            *(
                quantize(x, factor, divide).double()
                for x in (self.mid, self.low, self.high)
            )
        )

    def outside(self, value: Tensor) -> int:
        """How many elements are not between the bounds; NaN never is."""
        wide = value.double()
        return int((~((wide >= self.low) & (wide <= self.high))).sum())

    def count_equal(self, value: Tensor) -> int:
        """How many elements have the nominal value."""
        return int((value.double() == self.mid).sum())


def aligned_sum_error(x: Tensor, weight: Tensor, total: Tensor) -> Tensor:
    """How far sums of 8-bit products may be off on tensor cores.

    x is [rows, k], weight [outputs, k], total their exact products, float64.

    The contract (docs/reference/numerics.md) cuts off 32 products and the sum
    before them, and then their sum, after the 13th bit below 2^e, where e is
    the largest exponent among them. These 34 losses of a step lie between 0 and
    2^(e-13), on the side of zero, and products have either sign alike, so that
    a loss has the variance 4^(e-13) / 3 at most. 2^e is at most the sum before
    or the largest product; over k / 32 steps, from 0 to the total S, the mean
    square of a walk is at most (S^2 + Q) / 2, where Q is the sum of the squared
    products, and those of the largest products add up to Q at most. Sums of
    ranges are nearer: a walk that begins anew stays smaller. So

        variance <= 34/3 4^-13 (k/32 (S^2 + Q) / 2 + Q)

    Six deviations are exceeded by less than one of 10^7 sums, if losses were
    as large as this allows; by simulation they are a third of it at most.
    """
    squares = (
        x.abs().clamp_min(LEAST_NORMAL).square()
        @ weight.abs().clamp_min(LEAST_NORMAL).square().t()
    )
    steps = math.ceil(x.shape[-1] / STEP_PRODUCTS)
    walk = steps * (total.square() + squares) / 2 + squares
    losses = (STEP_PRODUCTS + 2) / 3 * 4.0**-STEP_DIGITS
    return DEVIATIONS * (losses * walk).sqrt()


def aligned_sum(x: Tensor, weight: Tensor, digits: int = STEP_DIGITS) -> Tensor:
    """x times a transposed weight by the accumulators of the contract.

    x is [rows, k], weight [outputs, k], float64 values of f8E4M3FN; products
    are taken 32 at a time in their order. For tests: it is slow.
    """

    def cut(value: Tensor, exponent: Tensor) -> Tensor:
        return torch.ldexp(
            torch.ldexp(value, digits - exponent).trunc(), exponent - digits
        )

    def exponents(value: Tensor) -> Tensor:
        return torch.frexp(value.abs().clamp_min(LEAST_NORMAL))[1] - 1

    total = x.new_zeros(len(x), len(weight))
    of_x, of_weight = exponents(x), exponents(weight)
    for step in range(0, x.shape[1], STEP_PRODUCTS):
        part = slice(step, step + STEP_PRODUCTS)
        largest = (of_x[:, None, part] + of_weight[None, :, part]).amax(-1)
        largest = torch.where(
            total == 0,
            largest,
            torch.maximum(largest, torch.frexp(total)[1] - 1),
        )
        sums = cut(
            x[:, None, part] * weight[None, :, part], largest[..., None]
        ).sum(-1) + cut(total, largest)
        total = cut(sums, torch.frexp(sums)[1] - 1)
    return total


def library_sum_error(width: int = 4096) -> float:
    """The part of `aligned_sum_error` that the library's worst sum uses."""
    x, w = (
        torch.randn(rows, width, device="cuda")
        .mul(64)
        .clamp(-E4M3_MAX, E4M3_MAX)
        .to(torch.float8_e4m3fn)
        for rows in (128, 8192)
    )
    one = torch.tensor(1.0, device="cuda")
    result = torch._scaled_mm(
        x, w.t(), one, one, out_dtype=torch.float32, use_fast_accum=True
    )
    exact = x.double() @ w.double().t()
    error = aligned_sum_error(x.double(), w.double(), exact)
    return ((result.double() - exact).abs() / error).max().item()


def relative_error(value: Tensor, reference: Tensor) -> float:
    """||value - reference|| / ||reference||; infinite if not finite."""
    wide = value.double()
    if not torch.isfinite(wide).all():
        return math.inf
    norm = reference.double().norm()
    error = (wide - reference.double()).norm()
    return (error / norm).item() if norm > 0 else error.item()


class Chain:
    """The decomposition of a fused op on given operands.

    Without `bounds`, intervals of sums are left out: they take most of the
    time, and nominal values are the same. `scalars` are the f32 arguments of
    a kernel of another family, which follow from no scales of an MLP.
    """

    def __init__(
        self,
        problem: Problem,
        tensors: Mapping[str, Tensor],
        scales: Mapping[str, float],
        bounds: bool = True,
        scalars: Mapping[str, float] | None = None,
    ) -> None:
        self.problem = problem
        self.bounds = bounds
        self.tensors = tensors
        self.scales = scales
        self.scalars = (
            kernel_scalars(problem, scales) if scalars is None else scalars
        )
        self.stream = self._stream()
        self.input = self._input()

    @cached_property
    def hidden(self) -> Range:
        return self._hidden(self.input)

    def _add(self, left: Range, right: Range, rounds: bool = True) -> Range:
        return left.plus(right).bf16(rounds)

    def _stream(self) -> Range:
        x = Range.exact(self.tensors["x"])
        if not self.problem.residual:
            return x
        return self._add(
            x,
            Range.exact(self.tensors["residual"]),
            self.problem.rounds("stream"),
        )

    def normed(self) -> Range:
        norm, x = self.problem.norm, self.stream
        if norm is None:
            return x
        weight = self.tensors["norm_weight"].double()
        wide = x.mid
        if norm.kind == "layer":
            mean = wide.mean(-1, keepdim=True)
            # The mean is a sum too: its error is relative to the terms.
            error = NORM_ERROR * wide.abs().mean(-1, keepdim=True)
            wide = wide - mean
        else:
            error = torch.zeros_like(wide[..., :1])
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + norm.eps)
        n = Range.around(
            wide * scale, (wide.abs() * NORM_ERROR + error) * scale
        )
        rounds = self.problem.rounds("normed")
        if norm.kind == "layer":
            bias = self.tensors["norm_bias"].double()
            n = n.times(Range.exact(weight)).plus(Range.exact(bias))
            slack = NORM_ERROR * (n.mid.abs() + bias.abs())
            return Range(n.mid, n.low - slack, n.high + slack).bf16(rounds)
        if norm.cast == "before_weight":
            shifted = (weight + norm.offset).float().bfloat16().double()
            return n.bf16().times(Range.exact(shifted)).bf16(rounds)
        return n.times(Range.exact(weight + norm.offset)).bf16(rounds)

    def _input(self) -> Range:
        """The input of GEMM1: stored values."""
        normed = self.normed()
        if not self.problem.fp8:
            return normed.bf16()
        return normed.quantized(
            self.scalars["input"], self.problem.order == "divide"
        )

    def linear(self, x: Range, role: str, spread: bool = True) -> Range:
        """x times a weight, scaled, with its bias; not rounded yet.

        With `spread`, the bounds of x widen those of the sum.
        """
        weight = self.tensors[role].double()
        mid = x.mid @ weight.t()
        total = Range.exact(mid)
        if self.bounds:
            total = Range.around(mid, self._sum_error(x, weight, mid, spread))
        if self.problem.fp8:
            total = total.scaled(self.scalars[role]).widen(2.0**-23)
        if self.problem.biases:
            total = total.plus(Range.exact(self.tensors[f"{role}_bias"]))
        return total

    def _sum_error(
        self, x: Range, weight: Tensor, total: Tensor, spread: bool
    ) -> Tensor:
        error = (
            aligned_sum_error(x.mid, weight, total)
            if self.problem.fp8
            else SUM_ERROR * (x.mid.abs() @ weight.abs().t())
        )
        if spread:
            radius = torch.maximum(x.high - x.mid, x.mid - x.low)
            if radius.any():
                error = error + radius @ weight.abs().t()
        return error

    def _hidden(self, x: Range) -> Range:
        p = self.problem
        act = (
            self.linear(x, "gate" if p.gated else "up")
            .bf16(p.rounds("gate" if p.gated else "up"))
            .activated(p.act)
            .bf16(p.rounds("act"))
        )
        value = act
        if p.gated:
            up = self.linear(x, "up").bf16(p.rounds("up"))
            value = act.times(up).bf16(p.rounds("product"))
        if not p.fp8:
            return value.bf16()
        return value.quantized(self.scalars["hidden"], p.order == "divide")

    def hidden_from(self, stored: Tensor) -> Range:
        """The hidden layer of a kernel's own quantized input."""
        return self._hidden(Range.exact(stored))

    def output_from(self, stored: Range) -> Range:
        """The result, from the stored hidden layer."""
        p = self.problem
        down = self.linear(stored, "down")
        if not p.add_stream and not p.then_add:
            return down.bf16()
        other = (
            self.stream
            if p.add_stream
            else Range.exact(self.tensors["then_add"])
        )
        return self._add(other, down.bf16(p.rounds("down")))

    def output(self) -> Range:
        return self.output_from(self.hidden)


def real_output(
    problem: Problem, tensors: Mapping[str, Tensor], scales: Mapping[str, float]
) -> Tensor:
    """The block in float64 on the real values of the weights, no rounding.

    All systems in the tables are compared with it.
    """
    x = tensors["x"].double()
    if problem.residual:
        x = x + tensors["residual"].double()
    stream = x
    norm = problem.norm
    if norm is not None:
        if norm.kind == "layer":
            x = x - x.mean(-1, keepdim=True)
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + norm.eps)
        x = x * (tensors["norm_weight"].double() + norm.offset)
        if norm.has_bias:
            x = x + tensors["norm_bias"].double()

    def linear(value: Tensor, role: str) -> Tensor:
        result = value @ tensors[role].double().t() * scales.get(role, 1.0)
        if problem.biases:
            result = result + tensors[f"{role}_bias"].double()
        return result

    value = activate(problem.act, linear(x, "gate" if problem.gated else "up"))
    if problem.gated:
        value = value * linear(x, "up")
    value = linear(value, "down")
    if problem.then_add:
        value = value + tensors["then_add"].double()
    return value + stream if problem.add_stream else value
