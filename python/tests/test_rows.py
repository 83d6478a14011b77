# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of code for every number of rows."""

import itertools
import json
import unittest
from collections.abc import Sequence

import torch
from torch import nn

from fuse_mlir import native
from fuse_mlir.kernels import Chain, Kernel, compile_chain, input_types
from fuse_mlir.sites import Plan, Source, Step


class _Recorder:
    """Stands for an instance on a GPU; doubles its input."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.rows: list[int] = []

    def launch(self, inputs: Sequence[torch.Tensor],
               outputs: Sequence[torch.Tensor]) -> None:
        self.rows.append(len(inputs[0]))
        outputs[0].copy_(2 * inputs[0])


def make_kernel() -> Kernel:
    members = [nn.Sequential(nn.Linear(16, 32), nn.SiLU(),
                             nn.Linear(32, 16)).bfloat16()]
    plan = Plan([0], [], [Step([Source("input", 0)], {})])
    inputs = [torch.zeros(2, 3, 16, dtype=torch.bfloat16)]
    compiled = compile_chain(["mlp"], members, plan, input_types(inputs))
    return Kernel("mlp#0", Chain(["mlp"], members, plan), compiled,
                  torch.device("cpu"))


class RowsTest(unittest.TestCase):

    def rows_of_launches(self, most: int, rows: int) -> list[int]:
        kernel = make_kernel()
        # As on a GPU, where scheduled kernels take rows.
        kernel._flat = True
        kernel._instance = instance = _Recorder(most)
        x = torch.arange(rows * 16).view(1, rows, 16).bfloat16()
        out = kernel.run([x], kernel.weights())
        self.assertTrue(torch.equal(out, 2 * x))
        return instance.rows

    def test_rows_go_through_in_one_launch(self):
        for rows in (1, 128, 129, 1000):
            self.assertEqual(self.rows_of_launches(1000, rows), [rows])

    def test_more_rows_than_the_code_takes_go_in_parts(self):
        self.assertEqual(self.rows_of_launches(1000, 1001), [1000, 1])
        self.assertEqual(self.rows_of_launches(8, 24), [8, 8, 8])

    def test_portable_code_takes_any_number(self):
        self.assertEqual(self.rows_of_launches(0, 5000), [5000])

    def test_one_artefact_has_kernels_for_all_rows(self):
        kernel = make_kernel()
        code = kernel.compiled.for_rows(kernel.chain)
        artifact = native.Module(code.formed).compile(chip="sm_90a", cpu="")
        manifest = json.loads(
            artifact.sections(native.SECTION_MANIFEST)[0])
        cuda = manifest["functions"][0]["cuda"]
        bounds = [plan["upto"] for plan in cuda["alternatives"]]
        self.assertEqual(bounds[:5], [8, 16, 32, 64, 128])
        self.assertEqual(bounds[-1], 16384)
        self.assertEqual(bounds, sorted(bounds))
        # One copy of each weight for all.
        self.assertEqual(len(cuda["packed"]), 2)


class WorkspacesTest(unittest.TestCase):

    def setUp(self) -> None:
        self.made: list[int] = []
        numbers = itertools.count(1)
        self.pool = native.Workspaces()
        # Handles of the library without a device.
        self.pool._create = lambda instance, size: (
            self.made.append(size) or next(numbers))

    def take(self, size: int, stream: int = 7, capturing: bool = False):
        return self.pool.take(None, size, stream, capturing)

    def test_a_stream_has_one_and_all_graphs_have_one(self):
        first = self.take(100)
        self.assertEqual(self.made, [100, 100])
        # Whatever instance asks for it.
        self.assertEqual(self.take(100), first)
        self.assertEqual(self.take(60), first)
        self.assertEqual(self.made, [100, 100])
        other = self.take(100, stream=8)
        graph = self.take(100, capturing=True)
        self.assertEqual(len({first, other, graph}), 3)

    def test_a_larger_one_takes_its_place(self):
        first = self.take(100)
        second = self.take(200)
        self.assertNotEqual(first, second)
        self.assertEqual(self.take(100), second)

    def test_nothing_is_made_while_a_graph_is_captured(self):
        for most in (0, 100):
            if most:
                self.take(most)
            with self.assertRaisesRegex(native.NativeError,
                                        "call the model once before"):
                self.take(most + 1, capturing=True)


if __name__ == "__main__":
    unittest.main()
