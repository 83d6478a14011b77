# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs kernels of `row_cases.py` on a GPU: checks and times them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from ..common.data import E4M3_MAX
from ..common.device import DeviceReader
from ..common.driver import Module, Runner, Weights
from ..common.plan import Plan, read_launches
from ..common.problem import FP8, NORMS, Problem
from ..common.row_cases import Case
from ..common.timing import Floor, Timer, capture
from .checks import count_differences, short
from .decomposition import Chain, Range


class Operands:
    """Random operands of a case, the scalars of its kernel, and room for its
    results."""

    def __init__(
        self, case: Case, tokens: int, seed: int, device: str = "cuda"
    ) -> None:
        generator = torch.Generator(device).manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=generator, device=device)

        self.tensors: dict[str, torch.Tensor] = {
            role: normal(tokens, case.width).bfloat16()
            for role in ("x", "residual", "factor")
            if role in case.roles
        }
        for role in case.roles:
            if role == "norm_weight":
                self.tensors[role] = (1 + 0.1 * normal(case.width)).bfloat16()
            elif role == "norm_bias":
                self.tensors[role] = (0.1 * normal(case.width)).bfloat16()
        scales = {"input": 3.5 / E4M3_MAX, "hidden": 3.0 / E4M3_MAX}
        for index, count in enumerate(case.rows):
            name = f"weight{index}"
            weight = normal(count, case.width) / case.width**0.5
            if case.dtype == FP8:
                scales[name] = weight.abs().max().item() / E4M3_MAX
                self.tensors[name] = (weight / scales[name]).to(
                    torch.float8_e4m3fn
                )
            else:
                self.tensors[name] = weight.bfloat16()
        f32 = {
            name: torch.tensor(value, dtype=torch.float32)
            for name, value in scales.items()
        }
        # Kernels multiply with factors for quantizing and dequantizing.
        self.scalars = {
            name: (1 / f32[name]).item() for name in ("input", "hidden")
        }
        self.scalars |= {
            name: (f32["input"] * f32[name]).item()
            for name in f32
            if name not in self.scalars
        }
        if case.family == "norm_linear":
            outputs = [(count, torch.bfloat16) for count in case.rows]
        else:
            outputs = [(case.width, torch.float8_e4m3fn)]
        outputs += [(case.width, torch.bfloat16)] * len(case.extras)
        self.results = [
            torch.empty(tokens, width, device=device, dtype=dtype)
            for width, dtype in outputs
        ]


def count_outside(
    case: Case,
    operands: Operands,
    intermediate: Callable[[int], torch.Tensor | None],
) -> int:
    """Number of result elements outside of the bounds of the chain.

    Linears are checked with the rows that their kernel has stored,
    `intermediate(0)`.
    """
    tensors, scalars = operands.tensors, operands.scalars
    results = operands.results
    if case.family == "act_quantize":
        act = Range.exact(tensors["x"]).activated(case.act).bf16()
        if "factor" in case.roles:
            act = act.times(Range.exact(tensors["factor"])).bf16()
        outside = act.quantized(scalars["hidden"], False).outside(results[0])
        if case.extras:
            outside += act.outside(results[1])
        return outside
    # The members of an MLP up to its first products are these.
    head = Chain(
        Problem(
            "mlp",
            case.width,
            case.width,
            case.dtype,
            "silu",
            NORMS[case.norm],
            residual="residual" in case.roles,
        ),
        tensors,
        {},
        scalars=scalars,
    )
    if case.family == "norm_quantize":
        outside = head.input.outside(results[0])
    else:
        stored = intermediate(0)
        if stored is None:
            raise ValueError(f"the kernel of '{case.name}' stores no rows")
        outside = head.input.outside(stored)
        for index in range(len(case.rows)):
            outside += (
                head.linear(Range.exact(stored), f"weight{index}")
                .bf16()
                .outside(results[index])
            )
    for name, result in zip(case.extras, results[max(1, len(case.rows)) :]):
        expected = head.stream if name == "stream" else head.normed()
        outside += expected.bf16().outside(result)
    return outside


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


class RowChecks:
    """Runs cases one after the other, with one timer for all."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._timer, self._floor = Timer(), Floor()
        self._reader = DeviceReader()

    def run(self, case: Case, tokens: int) -> dict[str, Any]:
        """The row of results of a case with a number of tokens."""
        options = self._options
        stored = json.loads((options.out / f"{case.name}.json").read_text())
        roles = list(case.roles)
        plan = Plan(
            SimpleNamespace(  # type: ignore[arg-type]
                operands=lambda: roles, width=case.width, returns_stream=False
            ),
            options.out / stored["binary"],
            read_launches(stored),
        )
        operands = Operands(case, tokens, options.seed * 1000 + tokens)
        runner = Runner(
            plan,
            Module(plan.binary),
            Weights(operands.tensors),
            {"x": operands.tensors["x"]},
            operands.scalars,
            Runner.make_workspace(plan),
            operands.results,
        )
        differing = count_differences(runner, options.repeats)
        outside = count_outside(case, operands, runner.intermediate)
        times, other = self._time(case, runner, operands)
        ok = outside == 0 and differing == 0
        mbytes = _bytes([*operands.tensors.values(), *operands.results]) / 1e6
        print(
            f"{case.name} M={tokens}: {'ok' if ok else 'FAILED'}, outside "
            f"{outside}, {times['median_us']:.1f} us, {mbytes:.1f} MB, "
            f"{other / times['median_us']:.2f} of the other's rate",
            flush=True,
        )
        return {
            "case": case.name,
            "M": tokens,
            "ok": ok,
            "outside": outside,
            "differing_repeats": differing,
            "mbytes": short(mbytes),
            **times,
            ("floor_us" if case.family == "norm_linear" else "copy_us"): other,
            "sm_mhz": self._reader.clock(),
            "commit": stored["commit"],
            "digest": stored["digest"],
        }

    def _time(
        self, case: Case, runner: Runner, operands: Operands
    ) -> tuple[dict[str, Any], float]:
        """Times of the kernel, and the median time of moving as many bytes.

        That is a read of the weights for norm_linear, and a copy for others.
        """
        read = _bytes(operands.tensors.values())
        both = read + _bytes(operands.results)
        raw = torch.empty(both, dtype=torch.uint8, device="cuda")
        source, target = raw[: both // 2], raw[both // 2 : both // 2 * 2]
        other: Callable[[], Any] = partial(target.copy_, source)
        if case.family == "norm_linear":
            other = self._floor.read(raw[:read])
        samples = self._timer.interleave(
            {"ours": capture(runner), "other": capture(other)},
            self._options.rounds,
        )
        return samples["ours"].per(1), samples["other"].per(1)["median_us"]
