# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the checks of row kernels, with PyTorch in place of a kernel."""

import unittest

import torch

from fuse_bench.common.problem import BF16, FP8
from fuse_bench.common.row_cases import Case, cases
from fuse_bench.reference.row_checks import Operands, count_outside
from tests.support import fuse_opt

TOKENS, WIDTH = 5, 64


def quantized(value: torch.Tensor, factor: float) -> torch.Tensor:
    return (value.float() * factor).clamp(-448, 448).to(torch.float8_e4m3fn)


def normed(tensors: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The stream and its RMS norm, in bf16."""
    stream = tensors["x"]
    if "residual" in tensors:
        stream = stream + tensors["residual"]
    wide = stream.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return stream, wide.bfloat16() * tensors["norm_weight"]


class Rows(unittest.TestCase):
    def judge(self, case: Case, results, stored=None) -> None:
        """The results are right, and each stops being so with one change."""
        operands = self.operands

        def outside() -> int:
            return count_outside(case, operands, lambda _: stored)

        for result, value in zip(operands.results, results, strict=True):
            result.copy_(value)
        self.assertEqual(outside(), 0)
        for result in operands.results:
            kept = result.clone()
            result[2, 3] = 2 + 3 * kept[2, 3].float().abs()
            self.assertEqual(outside(), 1)
            result.copy_(kept)

    def take(self, case: Case) -> dict[str, torch.Tensor]:
        self.operands = Operands(case, TOKENS, 1, "cpu")
        return self.operands.tensors

    def test_act_quantize(self):
        case = Case(
            "", "act_quantize", WIDTH, ("x", "factor"), extras=("product",)
        )
        tensors = self.take(case)
        value = (
            torch.nn.functional.silu(tensors["x"].float()).bfloat16()
            * tensors["factor"]
        )
        self.judge(
            case, [quantized(value, self.operands.scalars["hidden"]), value]
        )

    def test_norm_quantize(self):
        case = Case(
            "",
            "norm_quantize",
            WIDTH,
            ("x", "residual", "norm_weight"),
            extras=("stream",),
        )
        stream, value = normed(self.take(case))
        self.judge(
            case, [quantized(value, self.operands.scalars["input"]), stream]
        )

    def test_norm_linear(self):
        for dtype, extras in ((FP8, ()), (BF16, ("normed",))):
            case = Case(
                "",
                "norm_linear",
                WIDTH,
                ("x", "norm_weight", "weight0", "weight1"),
                rows=(32, 16),
                dtype=dtype,
                extras=extras,
            )
            with self.subTest(dtype=dtype):
                tensors = self.take(case)
                scalars = self.operands.scalars
                _, value = normed(tensors)
                stored = (
                    quantized(value, scalars["input"])
                    if dtype == FP8
                    else value
                )
                linears = [
                    (
                        stored.float()
                        @ tensors[name].float().t()
                        * scalars.get(name, 1.0)
                    ).bfloat16()
                    for name in ("weight0", "weight1")
                ]
                self.judge(case, linears + [value] * len(extras), stored)
                stored[1] = -stored[1].float()
                self.assertGreater(
                    count_outside(case, self.operands, lambda _: stored), 0
                )

    def test_text_is_valid(self):
        fuse_opt(
            "\n// -----\n".join(case.to_mlir() for case in cases()),
            "--split-input-file",
        )
