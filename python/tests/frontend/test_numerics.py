# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Imported functions compute what eager PyTorch computes.

Each test exports one module with many results, runs the imported IR with
fuse-run on the same inputs, and compares every result in units in the last
place. Ops that IEEE arithmetic determines must give the same bits.
"""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from fuse_mlir.calibration.compare import difference
from tests.support import ROOT, Function, import_function, tool

BF16 = torch.bfloat16

DETERMINED = {
    "add": lambda x, y: x + y,
    "add number": lambda x, y: x + 1.001,
    "add alpha": lambda x, y: torch.add(x, y, alpha=1.001),
    "sub": lambda x, y: x - y,
    "sub number": lambda x, y: x - 1.001,
    "rsub": lambda x, y: 1.001 - x,
    "mul": lambda x, y: x * y,
    "mul number": lambda x, y: x * 1.001,
    "mul rank zero": lambda x, y: x * y[0, 0],
    "div": lambda x, y: x / y,
    "div number": lambda x, y: x / 1.001,
    "promotion": lambda x, y: x * y.float(),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "pow 2": lambda x, y: x.pow(2),
    "pow 3": lambda x, y: x.pow(3),
    "pow -1": lambda x, y: x.pow(-1),
    "pow -2": lambda x, y: x.pow(-2),
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "clamp": lambda x, y: x.clamp(-0.3, 0.7),
    "relu": lambda x, y: F.relu(x),
    "to f32": lambda x, y: x.float() * 3,
    "to f16": lambda x, y: x.half(),
    "broadcast": lambda x, y: x * y[:1] + y[:, :1],
    "reshape": lambda x, y: x.reshape(-1, 4),
    "transpose": lambda x, y: x.t() * 2,
    "slices": lambda x, y: x.chunk(2, -1)[1] * x[:, 2:10],
}

APPROXIMATED = {
    "sqrt": lambda x, y: x.abs().sqrt(),
    "rsqrt": lambda x, y: x.abs().rsqrt(),
    "exp": lambda x, y: x.exp(),
    "log": lambda x, y: x.abs().log(),
    "tanh": lambda x, y: x.tanh(),
    "erf": lambda x, y: x.erf(),
    "sigmoid": lambda x, y: x.sigmoid(),
    "silu": lambda x, y: F.silu(x),
    "pow 1.7": lambda x, y: x.abs().pow(1.7),
    "mean": lambda x, y: x.abs().mean(-1),
    "sum": lambda x, y: x.abs().sum(0),
    "softmax-like": lambda x, y: x.exp() / x.exp().sum(-1, keepdim=True),
    "rms_norm": lambda x, y: F.rms_norm(x, (16,), y[0], 1e-6),
    "linear": lambda x, y: F.linear(x.abs(), y.abs()),
}


def run(function, inputs, results):
    """Runs an imported function; arrays are passed as f32."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        source = directory / "f.mlir"
        source.write_text(function.text)
        command = [tool("fuse-run"), str(source)]
        for i, tensor in enumerate(inputs):
            np.save(directory / f"x{i}.npy", tensor.float().numpy())
            command.append(f"--input={directory}/x{i}.npy")
        outputs = [directory / f"y{i}.npy" for i in range(len(results))]
        command += [f"--output={path}" for path in outputs]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise AssertionError(f"{done.stderr}\n{function.text}")
        return [np.load(path).astype(np.float32) for path in outputs]


class Bits(unittest.TestCase):
    def check(self, cases, dtype, bound):
        generator = torch.Generator().manual_seed(5)
        x = torch.randn(8, 16, generator=generator).to(dtype)
        y = torch.randn(8, 16, generator=generator).to(dtype)
        module = Function(
            lambda x, y: tuple(case(x, y) for case in cases.values())
        )
        with torch.no_grad():
            expected = module(x, y)
        results = run(import_function(module, x, y), (x, y), expected)
        names = {BF16: "bf16", torch.float16: "f16", torch.float32: "f32"}
        for name, result, reference in zip(cases, results, expected):
            with self.subTest(name):
                off = difference(
                    result, reference.float().numpy(), names[reference.dtype]
                )
                self.assertEqual(off.nonfinite_mismatches, 0)
                self.assertLessEqual(off.max_ulp, bound)

    def test_bf16_determined(self):
        self.check(DETERMINED, BF16, 0)

    def test_f32_determined(self):
        self.check(DETERMINED, torch.float32, 0)

    def test_bf16_approximated(self):
        self.check(APPROXIMATED, BF16, 1)

    def test_f32_approximated(self):
        self.check(APPROXIMATED, torch.float32, 8)


class Specials(unittest.TestCase):
    def test_nan_and_infinities(self):
        special = torch.tensor(
            [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e38]
        )
        cases = [
            F.relu,
            lambda x: x.clamp(-1, 1),
            lambda x: x * x,
            lambda x: x - x,
            lambda x: torch.maximum(x, x * 0),
        ]
        module = Function(lambda x: tuple(case(x) for case in cases))
        expected = module(special)
        results = run(import_function(module, special), (special,), expected)
        for result, reference in zip(results, expected):
            np.testing.assert_array_equal(result, reference.numpy())


class Page(unittest.TestCase):
    """Figures of docs/reference/numerics.md that can be computed here."""

    text: str

    @classmethod
    def setUpClass(cls):
        cls.text = " ".join(
            (ROOT / "docs/reference/numerics.md").read_text().split()
        )

    def numbers(self, sentence: str) -> list[float]:
        """A sentence of the page has a # for each number."""
        pattern = re.escape(sentence).replace(r"\#", r"([\d.e-]*\d)")
        found = re.search(pattern, self.text)
        self.assertIsNotNone(found, sentence)
        return [float(group) for group in found.groups()]

    def test_a_rounded_sigmoid(self):
        least, most = 0.001, 20
        every = torch.arange(-(2**15), 2**15).to(torch.int16).view(BF16)
        size = every.float().abs()
        x = every[(size > least) & (size < most)]
        bits, others = (
            y.view(torch.int16).int() for y in (F.silu(x), x * torch.sigmoid(x))
        )
        self.assertEqual(
            self.numbers(
                "Of the # bf16 numbers between # and # in magnitude, "
                "# have another result for `x * sigmoid(x)`"
            ),
            [len(x), least, most, (bits != others).sum()],
        )
        self.assertEqual((bits - others).abs().max(), 1)

    def test_a_norm_rounded_before_its_weight(self):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(512, 1024, generator=generator).to(BF16).float()
        weight = (1 + 0.1 * torch.randn(1024, generator=generator)).to(BF16)
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        differ = normed.to(BF16) * weight != (normed * weight.float()).to(BF16)
        self.assertIn("differs in a quarter of its results", self.text)
        self.assertAlmostEqual(differ.float().mean().item(), 0.25, delta=0.05)

    def test_two_forms_of_gelu(self):
        x = torch.linspace(0, 8, 80001, dtype=torch.float64)
        apart = (F.gelu(x) - F.gelu(x, approximate="tanh")).abs()
        most, place = self.numbers(
            "differ by up to #, most near #, and are never exchanged"
        )
        self.assertAlmostEqual(apart.max().item(), most, delta=5e-6)
        self.assertAlmostEqual(x[apart.argmax()].item(), place, delta=0.05)

    def test_two_orders_of_quantization(self):
        numbers = self.numbers(
            "with scale #, # becomes # in f8E4M3FN by the reciprocal and # by "
            "division"
        )
        scale, x, by_reciprocal, by_division = torch.tensor(numbers)
        for value, code in (
            (x * (1 / scale), by_reciprocal),
            (x / scale, by_division),
        ):
            self.assertEqual(value.to(torch.float8_e4m3fn).float(), code)


if __name__ == "__main__":
    unittest.main()
