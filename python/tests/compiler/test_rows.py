# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of code for every number of rows."""

import itertools
import json
import unittest
import unittest.mock
from collections.abc import Sequence

import torch
from torch import nn

from fuse_mlir import errors, native
from fuse_mlir.compiler.chains import Chain, compile_chain, input_types
from fuse_mlir.compiler.kernels import FEW_ROWS, Kernel
from fuse_mlir.matching.plans import Plan, Source, Step


class _Recorder:
    """Replaces an instance on a GPU; doubles its input."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.rows: list[int] = []
        self.limits: list[int] = []

    def bind(self, name: str, weight: torch.Tensor) -> None:
        pass

    def prepare(self, shared: native.SharedWeights) -> None:
        pass

    def limit_tokens(self, tokens: int) -> None:
        self.limits.append(tokens)

    def launch(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        self.rows.append(len(inputs[0]))
        self.behind = inputs[0].data_ptr() % native.VECTOR_BYTES
        outputs[0].copy_(2 * inputs[0])


def make_kernel() -> Kernel:
    members = [
        nn.Sequential(
            nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16)
        ).bfloat16()
    ]
    plan = Plan([0], [], [Step([Source("input", 0)], {})])
    inputs = [torch.zeros(2, 3, 16, dtype=torch.bfloat16)]
    compiled = compile_chain(["mlp"], members, plan, input_types(inputs))
    return Kernel(
        "mlp#0", Chain(["mlp"], members, plan), compiled, torch.device("cpu")
    )


class RowsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.kernel = make_kernel()
        # As on a GPU, where scheduled kernels expect rows.
        self.kernel._flat = True

    def run_rows(self, rows: int) -> None:
        x = torch.arange(rows * 16).view(1, rows, 16).bfloat16()
        out = self.kernel.run([x], self.kernel.weights())
        self.assertTrue(torch.equal(out, 2 * x))

    def rows_of_launches(self, most: int, rows: int) -> list[int]:
        self.kernel._instance = instance = _Recorder(most)
        self.run_rows(rows)
        return instance.rows

    def made_for(self, most: int) -> _Recorder:
        """The instance that the kernel makes when its weights change."""
        instance = _Recorder(most)
        self.kernel._instance = None
        self.kernel._code = unittest.mock.Mock()
        self.kernel._code.instance.return_value = instance
        self.kernel._bound = []
        self.kernel._check(self.kernel.weights())
        return instance

    def test_kernels_for_many_rows_are_loaded_with_the_first_such_call(self):
        instance = self.made_for(16384)
        for rows in (1, FEW_ROWS):
            self.run_rows(rows)
        self.assertEqual(instance.limits, [FEW_ROWS])
        for rows in (FEW_ROWS + 1, 1, 1000, 1024):
            self.run_rows(rows)
        self.assertEqual(instance.limits, [FEW_ROWS, 2 * FEW_ROWS, 1024])

    def test_other_code_has_nothing_to_load(self):
        # Kernels for few rows, and portable ones.
        for most in (FEW_ROWS, 0):
            instance = self.made_for(most)
            self.run_rows(300)
            self.assertEqual(instance.limits, [])

    def test_rows_go_through_in_one_launch(self):
        for rows in (1, 128, 129, 1000):
            self.assertEqual(self.rows_of_launches(1000, rows), [rows])

    def test_more_rows_than_the_code_takes_go_in_parts(self):
        self.assertEqual(self.rows_of_launches(1000, 1001), [1000, 1])
        self.assertEqual(self.rows_of_launches(8, 24), [8, 8, 8])

    def test_inputs_are_copied_to_where_vectors_begin(self) -> None:
        self.kernel._instance = instance = _Recorder(0)
        room = torch.arange(2 * 16 + 1).bfloat16()
        for first in (0, 1):
            x = room[first : first + 2 * 16].view(1, 2, 16)
            self.assertEqual(x.data_ptr() % native.VECTOR_BYTES, 2 * first)
            out = self.kernel.run([x], self.kernel.weights())
            self.assertTrue(torch.equal(out, 2 * x))
            self.assertEqual(instance.behind, 0)
        # Code for CPUs reads weights in place.
        self.kernel._flat = False
        self.kernel.run([x], self.kernel.weights())
        self.assertEqual(instance.behind, 2)

    def test_portable_code_takes_any_number(self):
        self.assertEqual(self.rows_of_launches(0, 5000), [5000])

    def test_one_artifact_has_kernels_for_all_rows(self):
        kernel = self.kernel
        code = kernel.compiled.for_rows(kernel.chain)
        artifact = native.Module(code.formed).compile(chip="sm_90a", cpu="")
        manifest = json.loads(artifact.sections(native.SECTION_MANIFEST)[0])
        cuda = manifest["functions"][0]["cuda"]
        bounds = [plan["upto"] for plan in cuda["alternatives"]]
        self.assertEqual(bounds[:5], [8, 16, 32, 64, 128])
        self.assertEqual(bounds[-1], 16384)
        self.assertEqual(bounds, sorted(bounds))
        # Ranges share no module, so that one is loaded without the others.
        modules = [
            {launch["module"] for launch in plan["launches"]}
            for plan in cuda["alternatives"]
        ]
        self.assertEqual(sum(map(len, modules)), len(set.union(*modules)))
        # One copy of each weight for all.
        self.assertEqual(len(cuda["packed"]), 2)


class WorkspacesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.made: list[int] = []
        numbers = itertools.count(1)
        self.pool = native.Workspaces()
        # Handles of the library without a device.
        self.pool._create = lambda instance, size: (
            self.made.append(size) or next(numbers)
        )

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
            with self.assertRaisesRegex(
                errors.NativeError, "call the model once before"
            ):
                self.take(most + 1, capturing=True)


if __name__ == "__main__":
    unittest.main()
