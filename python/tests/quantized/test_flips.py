# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Codes that may round either way, and faults that are not ties."""

import unittest
from unittest import mock

import torch
from torch import nn

import fuse_mlir
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.quantized.flips import match_flips
from fuse_mlir.quantized.stored import Policy, StoredLinear, StoredParts
from fuse_mlir.quantized.value_range import quantize
from fuse_mlir.reports import report
from tests.models import needs_library

SCALE = 0.0371
#: Half of the distance between the codes 8 and 9 of f8E4M3FN, which is 1.
MIDDLE = 8.5
ERROR = 2.0 * torch.finfo(torch.float32).eps


def chain():
    """One linear with a static input scale, in double precision."""
    torch.manual_seed(0)
    weight = quantize(torch.randn(16, 8), 0.01, "f8E4M3FN")
    linear = StoredLinear(StoredParts(weight, 0.01, SCALE, None), Policy())
    return nn.Sequential(linear).double()


class Codes(unittest.TestCase):
    def setUp(self):
        self.chain = chain()
        torch.manual_seed(1)
        self.x = torch.randn(5, 8, dtype=torch.float64)
        # Above the middle, by less than f32 tells apart.
        self.x[2, 3] = MIDDLE * SCALE * (1 + 1e-8)
        self.exact = self.chain(self.x)
        low, high = self.x.clone(), self.x.clone()
        low[2, 3], high[2, 3] = 8 * SCALE, 9 * SCALE
        self.either = [self.chain(low), self.chain(high)]
        #: The change by the other code.
        self.step = self.either[1] - self.either[0]

    def match(self, ours):
        return match_flips(self.chain, [self.x], self.exact, ours, ERROR)

    def test_either_code_at_a_tie(self):
        self.assertGreater(float(self.step.norm() / self.exact.norm()), 1e-3)
        counts = []
        for ours in self.either:
            matched, count = self.match(ours)
            self.assertLess(float((matched - ours).norm()), 1e-9)
            counts.append(count)
        # The reference has one of them already.
        self.assertEqual(sorted(counts), [0, 1])

    def test_a_tenth_of_a_code_is_a_fault(self):
        for base in self.either:
            ours = base + 0.1 * self.step
            matched, _ = self.match(ours)
            off = float((matched - ours).norm() / self.step.norm())
            self.assertAlmostEqual(off, 0.1, places=3)

    def test_another_code_away_from_ties_is_a_fault(self):
        wrong = self.x.clone()
        code = quantize(wrong[4:5, 5:6], SCALE, "f8E4M3FN").double()
        wrong[4, 5] = (code + code.abs().clamp(min=1) / 8).item() * SCALE
        ours = self.chain(wrong)
        self.assertGreater(float((ours - self.exact).norm()), 0)
        matched, count = self.match(ours)
        self.assertEqual(count, 0)
        self.assertTrue(torch.equal(matched, self.exact))

    def test_rows_that_are_no_rows_of_the_chain(self):
        matched, count = match_flips(
            self.chain, [self.x[None]], self.exact, self.either[0], ERROR
        )
        self.assertEqual(count, 0)
        self.assertIs(matched, self.exact)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.LayerNorm(32)
        self.up = nn.Linear(32, 128)
        self.act = nn.GELU()
        self.down = nn.Linear(128, 32)

    def forward(self, x):
        return self.down(self.act(self.up(self.norm(x))))


@needs_library
class Verify(unittest.TestCase):
    def setUp(self):
        self.model = Mlp().eval()
        torch.manual_seed(1)
        # About one hidden value in 300,000 is a tie.
        self.x = torch.randn(24576, 32)
        with torch.no_grad():
            fuse_mlir.calibrate(self.model, [self.x[:512]])

    def check(self, x):
        found = fuse_mlir.verify(self.model, x)
        return next(c for c in found.checks if c.rung == "V2")

    def test_finding_08_single_flips_are_no_fault(self):
        check = self.check(self.x)
        self.assertTrue(check.passed, check.detail)
        self.assertIn("stored codes at ties of double precision", check.detail)
        # The rest is rounding of f32.
        self.assertLess(float(check.detail.split()[2].rstrip(",")), 1e-6)
        with mock.patch.object(
            report, "match_flips", lambda c, i, exact, o, e: (exact, 0)
        ):
            blind = self.check(self.x)
        self.assertGreater(float(blind.detail.split()[2].rstrip(",")), 1e-5)

    def test_a_tenth_of_a_step_is_found(self):
        run = Kernel.run_all

        def wrong(kernel, *args):
            (result,) = run(kernel, *args)
            down = kernel.chain.get_submodule("down")
            # Codes from one to two are an eighth apart.
            step = (
                0.125
                * down.scale_of_input
                * down.scale_of_weight
                * down.stored[:, 7].float()
            )
            result[17] += 0.1 * step
            return [result]

        self.assertTrue(self.check(self.x[:64]).passed)
        with mock.patch.object(Kernel, "run_all", wrong):
            check = self.check(self.x[:64])
        self.assertFalse(check.passed, check.detail)


if __name__ == "__main__":
    unittest.main()
