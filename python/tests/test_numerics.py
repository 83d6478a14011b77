# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Imported functions compute what eager PyTorch computes.

Each test exports one module with many results, runs the imported IR with
fuse-run on the same inputs, and compares every result in units in the last
place. Ops that IEEE arithmetic determines have to give the same bits.
"""

import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from fuse_mlir.compare import difference
from tests.support import Function, import_function, tool

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
    """Runs an imported function; every array is f32 on the way."""
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
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise AssertionError(f"{done.stderr}\n{function.text}")
        return [np.load(path).astype(np.float32) for path in outputs]


class Bits(unittest.TestCase):

    def check(self, cases, dtype, bound):
        generator = torch.Generator().manual_seed(5)
        x = torch.randn(8, 16, generator=generator).to(dtype)
        y = torch.randn(8, 16, generator=generator).to(dtype)
        module = Function(
            lambda x, y: tuple(case(x, y) for case in cases.values()))
        with torch.no_grad():
            expected = module(x, y)
        results = run(import_function(module, x, y), (x, y), expected)
        names = {BF16: "bf16", torch.float16: "f16", torch.float32: "f32"}
        for name, result, reference in zip(cases, results, expected):
            with self.subTest(name):
                off = difference(result, reference.float().numpy(),
                                 names[reference.dtype])
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
        special = torch.tensor([float("nan"), float("inf"), -float("inf"),
                                0.0, -0.0, 1e38])
        cases = [F.relu, lambda x: x.clamp(-1, 1), lambda x: x * x,
                 lambda x: x - x, lambda x: torch.maximum(x, x * 0)]
        module = Function(lambda x: tuple(case(x) for case in cases))
        expected = module(special)
        results = run(import_function(module, special), (special,), expected)
        for result, reference in zip(results, expected):
            np.testing.assert_array_equal(result, reference.numpy())


if __name__ == "__main__":
    unittest.main()
