# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the reports of benchmarks on machines that lack something."""

import argparse
import contextlib
import io
import os
import subprocess
import sys
import unittest
import unittest.mock
from pathlib import Path

import torch

from fuse_bench.common import device, environment
from tests.support import ROOT


class Device(unittest.TestCase):
    def setUp(self) -> None:
        self.libraries = unittest.mock.Mock(
            nvmlInit_v2=lambda: 0,
            nvmlDeviceGetClockInfo=self.clock,
            nvmlDeviceGetHandleByUUID=self.handle,
        )
        properties = unittest.mock.Mock(uuid="1a2b3c4d-0000")
        for name, found in (
            (
                "torch.cuda",
                unittest.mock.Mock(
                    **{
                        "is_available.return_value": True,
                        "get_device_properties.return_value": properties,
                    }
                ),
            ),
            ("ctypes.CDLL", lambda name: self.libraries),
        ):
            patch = unittest.mock.patch(
                f"fuse_bench.common.device.{name}", found
            )
            patch.start()
            self.addCleanup(patch.stop)

    def handle(self, name: bytes, target) -> int:
        """Makes the second GPU of this host the one in use."""
        if name != b"GPU-1a2b3c4d-0000":
            return 6
        target._obj.value = 2
        return 0

    def clock(self, handle, _, target) -> int:
        target._obj.value = {1: 345, 2: 1980}[handle.value]
        return 0

    def test_the_gpu_that_is_in_use_is_read(self):
        self.assertEqual(device.short_uuid(), "1a2b3c4d")
        self.assertEqual(device.DeviceReader().clock(), 1980.0)
        with unittest.mock.patch(
            "fuse_bench.common.device.subprocess.run"
        ) as run:
            run.return_value.stdout = "NVIDIA H200, GPU-1a2b3c4d-0000\n"
            self.assertEqual(device.read_device()["uuid"], "GPU-1a2b3c4d-0000")
        self.assertIn("--id=GPU-1a2b3c4d-0000", run.call_args.args[0])

    def test_a_gpu_that_is_not_found_has_no_clock(self):
        with unittest.mock.patch(
            "fuse_bench.common.device.gpu_uuid", lambda: "GPU-0"
        ):
            self.assertIsNone(device.DeviceReader().clock())


class Environment(unittest.TestCase):
    def gpu(self, **values) -> str:
        """The description of a GPU like this one."""
        device = {
            "init.return_value": None,
            "get_device_name.return_value": "NVIDIA H200",
            "get_device_capability.return_value": (9, 0),
            **values,
        }
        with (
            unittest.mock.patch.object(
                torch, "cuda", unittest.mock.Mock(**device)
            ),
            unittest.mock.patch.object(torch.version, "cuda", "13.0"),
        ):
            return environment.gpu_problem()

    def test_what_a_gpu_lacks(self):
        self.assertEqual(self.gpu(), "")
        self.assertEqual(
            self.gpu(
                **{
                    "get_device_capability.return_value": (8, 0),
                    "get_device_name.return_value": "NVIDIA A100",
                }
            ),
            "NVIDIA A100 has compute capability 8.0: expected 9.0, which "
            "Hopper GPUs have",
        )
        self.assertEqual(
            self.gpu(
                **{
                    "init.side_effect": RuntimeError(
                        "The NVIDIA driver on your system is too old (found version "
                        "12040).\nUpdate it."
                    )
                }
            ),
            "no GPU: The NVIDIA driver on your system is too old (found "
            "version 12040)",
        )

    @unittest.skipIf(torch.version.cuda, "for a PyTorch without CUDA")
    def test_programs_end_without_a_gpu(self):
        with self.assertRaisesRegex(
            SystemExit,
            "error: torch .* is built without CUDA: expected a build for",
        ):
            environment.require_gpu()

    def test_nothing_to_time_is_an_error(self):
        from fuse_bench.suites.mlp import kernel_problem

        def problem(kernels, only=""):
            return kernel_problem(
                unittest.mock.Mock(kernels=Path(kernels), only=only)
            )

        self.assertEqual(problem("none"), "")
        self.assertIn(
            "no kernels in /nowhere: expected those of python3 -m "
            "fuse_bench.common.kernels, or --kernels none",
            problem("/nowhere"),
        )
        self.assertIn(
            "no problem is called '7x7': expected part of a name "
            "such as gated_mlp-2048x16384-fp8-gelu_tanh-rms0",
            problem("none", "7x7"),
        )

    def run_program(
        self, name: str, *arguments: str, isolated: bool = False
    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            [
                sys.executable,
                *(["-S"] if isolated else []),
                "-m",
                f"fuse_bench.{name}",
                *arguments,
            ],
            cwd=ROOT / "benchmarks",
            check=False,
            capture_output=True,
            text=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        )

    def test_a_missing_package_is_named(self):
        # Without the packages of the environment.
        done = self.run_program("suites.mlp", "--help", isolated=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(
            done.stderr,
            r"^error: there is no package "
            r"'(torch|numpy)' for .*: scripts/setup.sh",
        )

    def test_missing_files_and_programs_are_named(self):
        for name, *arguments, error in (
            ("common.kernels", "--bin", "/none", "fuse-opt is not in /none"),
            ("suites.rows", "compile", "--bin", "/none", "is not in /none"),
            ("suites.sweep", "compile", "--bin", "/none", "is not in /none"),
            ("reports.stale", "/none.json", "there is no /none.json"),
            ("reports.merge", "a.json", "/none.json", "there is no /none.json"),
            ("reports.show", "/none.json", "there is no /none.json"),
            ("reports.summary", "--raw", "/none", "there is no /none"),
        ):
            with self.subTest(name):
                done = self.run_program(name, *arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(error, done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_commits_are_those_of_the_sources_where_none_is_named(self):
        with unittest.mock.patch.dict("os.environ"):
            os.environ.pop("FUSE_COMMIT", None)
            self.assertRegex(environment.read_commit(), "^[0-9a-f]{7,}|^$")
            with unittest.mock.patch(
                "fuse_bench.common.environment.subprocess.run",
                side_effect=FileNotFoundError,
            ):
                self.assertEqual(environment.read_commit(), "")
            os.environ["FUSE_COMMIT"] = "abc1234"
            self.assertEqual(environment.read_commit(), "abc1234")

    def test_a_seed_is_drawn_and_said_where_none_is_given(self):
        parser = argparse.ArgumentParser()
        environment.add_run_options(parser, "row")
        self.assertIn(
            "seconds after which a row counts as hanging",
            " ".join(parser.format_help().split()),
        )
        for given in (["--seed", "7"], []):
            options = parser.parse_args(given)
            self.assertEqual((options.budget, options.hang), (540, 30))
            said = io.StringIO()
            with (
                contextlib.redirect_stdout(said),
                unittest.mock.patch(
                    "fuse_bench.common.environment.time.time", lambda: 1234567.8
                ),
            ):
                environment.choose_seed(options)
            self.assertEqual(
                (options.seed, said.getvalue()),
                (7, "") if given else (34567, "seed 34567\n"),
            )

    def test_options_are_regular_expressions(self):
        self.assertEqual(environment.pattern("2048x"), "2048x")
        with self.assertRaisesRegex(
            argparse.ArgumentTypeError, r"'\(' is not a regular expression"
        ):
            environment.pattern("(")


if __name__ == "__main__":
    unittest.main()
