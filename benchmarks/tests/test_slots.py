# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Registered kernels compute what their eager bodies and PyTorch compute.

Each case binds a slot to the kernel and to the eager body, runs both on the
CPU, and compares them with the model's code. The tolerance is one that the
nearest wrong variant fails.
"""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from fuse_bench.suites.slot_cases import all_cases, error
from fuse_bench.suites.slots import bind, run_on_cpu
from tests.support import tool

TOKENS = (0, 1, 19)


def registered():
    """Names of kernels by op and variant, as the compiler lists them."""
    done = subprocess.run(
        [tool("fuse-opt"), "--list-kernels=json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {
        (entry["op"], entry["variant"]): [
            kernel["name"] for kernel in entry["kernels"]
        ]
        for entry in json.loads(done.stdout)
    }


def run(case, kernel, inputs):
    """Results of a case bound to a kernel, for each list of inputs."""
    bin_dir = Path(tool("fuse-run")).parent
    with tempfile.TemporaryDirectory() as name:
        program = bind(case, kernel, Path(name), bin_dir)
        return [
            run_on_cpu(program, case, tensors, bin_dir) for tensors in inputs
        ]


class Kernels(unittest.TestCase):
    def test_tolerances_separate_the_wrong_variant(self):
        for case in all_cases():
            with self.subTest(case.name()):
                inputs = case.inputs(TOKENS[-1])
                off = error(case.mistaken(inputs), case.expected(inputs))
                self.assertFalse(off.within(case.tolerance), off)

    def check(self, kernel, cases):
        for case in cases:
            inputs = [case.inputs(tokens) for tokens in TOKENS]
            for tensors, results in zip(inputs, run(case, kernel, inputs)):
                with self.subTest(case.name(), tokens=tensors[0].shape):
                    off = error(results, case.expected(tensors))
                    self.assertTrue(off.within(case.tolerance), off)

    def test_eager_bodies(self):
        self.check("eager", all_cases())

    def test_kernels(self):
        self.check("fuse", [case for case in all_cases() if case.has_kernel])


class Cases(unittest.TestCase):
    def test_every_registered_kernel_has_a_case(self):
        # The list of the compiler, not one of this file.
        listed = registered()
        self.assertEqual(
            {
                (case.op, case.variant)
                for case in all_cases()
                if case.has_kernel
            },
            {key for key, kernels in listed.items() if kernels},
        )
        self.assertEqual(
            {
                (case.op, case.variant)
                for case in all_cases()
                if not case.has_kernel
            },
            {key for key, kernels in listed.items() if not kernels},
        )


if __name__ == "__main__":
    unittest.main()
