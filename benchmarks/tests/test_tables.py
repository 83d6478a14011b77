# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the division of all table rows among GPUs."""

import argparse
import contextlib
import io
import json
import os
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

from fuse_bench.common import kernels
from fuse_bench.common.cases import (
    DTYPES,
    LONE_SHAPES,
    TIMED_SHAPES,
    all_cases,
)
from fuse_bench.common.problem import FP8
from fuse_bench.common.results import Results
from fuse_bench.suites import mlp as mlp_h200
from fuse_bench.suites import mlp_gpus as tables
from fuse_bench.suites.mlp import served_tokens


class Parts(unittest.TestCase):
    def setUp(self):
        self.parts = tables.make_parts()

    def test_every_row_is_in_one_part(self):
        rows = [
            (part.shape, part.dtype, tokens)
            for part in self.parts
            for tokens in part.tokens
        ]
        self.assertEqual(len(rows), len(set(rows)))
        self.assertEqual(
            set(rows),
            {
                (shape, dtype, tokens)
                for shape in (*TIMED_SHAPES, *LONE_SHAPES)
                for dtype in DTYPES
                for tokens in served_tokens(shape)
            },
        )

    def test_a_part_has_the_smallest_kernels_that_serve_it(self):
        first = self.parts[0]
        self.assertEqual(
            [case.name() for case in first.cases()],
            [
                "gated_mlp-2048x16384-fp8-gelu_tanh-rms0-t16",
                "gated_mlp-2048x16384-fp8-gelu_tanh-rms0-t4096",
                "gated_mlp-2048x16384-fp8-gelu_tanh-rms0-relaxed-t16",
            ],
        )
        served = {case.name() for part in self.parts for case in part.cases()}
        self.assertEqual(
            served,
            {
                case.name()
                for case in all_cases(
                    ["timed", "prefill", "relaxed"], kernels.SETS
                )
            },
        )

    def test_kernels_are_compiled_in_the_order_of_the_rows(self):
        for lanes in (1, 2):
            order = [
                case.name() for case in tables.order_cases(self.parts, lanes)
            ]
            self.assertEqual(len(order), len(set(order)))
            taken = [
                tables.choose(self.parts, lane)[0] for lane in range(lanes)
            ]
            asked = [case.name() for part in taken for case in part.cases()]
            self.assertEqual(order[: len(asked)], asked)
            self.assertEqual(
                len(order),
                len(all_cases(["timed", "prefill", "relaxed"], kernels.SETS)),
            )

    def test_a_part_is_taken_once(self):
        with tempfile.TemporaryDirectory() as folder:
            lanes = [
                tables.claim(self.parts, lane, Path(folder)) for lane in (0, 1)
            ]
            taken = [[next(lanes[0])], [next(lanes[1])]]
            self.assertEqual([part.lane for (part,) in taken], [0, 1])
            # One GPU finishes its parts and claims the remaining ones.
            taken[1] += lanes[1]
            self.assertEqual({part.lane for part in taken[1]}, {0, 1})
            taken[0] += lanes[0]
            self.assertEqual(len(taken[0]), 1)
            names = [part.name for part in taken[0] + taken[1]]
            self.assertEqual(len(names), len(self.parts))
            self.assertEqual(set(names), {part.name for part in self.parts})

    def test_single_launches_are_timed_again(self):
        again = tables.choose_again(self.parts, "2048x16384.*-m16$")
        self.assertEqual(
            [part.name for part in again],
            [
                f"gated_mlp-2048x16384-{dtype}-gelu_tanh-rms0-m16"
                for dtype in ("fp8", "bf16")
            ],
        )
        self.assertEqual([part.tokens for part in again], [(16,)] * 2)
        self.assertEqual([case.tokens for case in again[0].cases()], [16, 16])
        # A name that matches only the start of the expression is omitted.
        self.assertEqual(tables.choose_again(self.parts, "-m1600$"), [])

    def test_what_is_not_made_is_not_waited_for(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            here, ended = folder / "here", folder / "ended"
            here.touch()
            soon = time.time() + 60
            tables.wait_for([here], ended, soon)
            ended.touch()
            tables.wait_for([folder / "missing"], ended, soon)
            self.assertLess(time.time(), soon)
            ended.unlink()
            tables.wait_for([folder / "missing"], ended, time.time())


class FakeBench:
    """Records what would be timed, in the regular output file."""

    def __init__(self, options) -> None:
        self.options = options
        self.gpu = "none"
        self.results = Results(options.output)
        self.plans = []
        self.prepare = self.describe = lambda: None

    def left(self) -> float:
        return 1000.0

    def measure_ceilings(self) -> None:
        self.results.gpu(self.gpu)["ceilings"]["copy"] = 1.0

    def time_problem(self, problem, tokens) -> None:
        for m in tokens:
            self.results.add_row(
                {
                    "K": problem.width,
                    "H": problem.hidden,
                    "M": m,
                    "act": problem.act,
                    "dtype": problem.dtype,
                    "gpu": self.gpu,
                    "protocol": " ".join(self.options.stages),
                    "system": "fuse",
                    "rounds": self.options.rounds,
                }
            )


class Timing(unittest.TestCase):
    def test_the_second_gpu_times_some_rows_again(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for made in ("compiled", "free-0", "free-1"):
                (folder / made).touch()
            options = tables.parse(
                [
                    "--gpus",
                    "3",
                    "5",
                    "--again",
                    "2048x16384.*-m16$",
                    "--folder",
                    name,
                    "--kernels",
                    str(folder / "kernels"),
                ]
            )
            with (
                unittest.mock.patch.object(mlp_h200, "Bench", FakeBench),
                unittest.mock.patch.dict(os.environ),
            ):
                tables.time_parts(options, 0)
                for taken in folder.glob("*16384-fp8*.taken"):
                    taken.unlink()
                tables.time_parts(options, 1)
            first, second, again = (
                json.loads((folder / f"{file}.json").read_text())
                for file in ("gpu-3", "gpu-5", "again-5")
            )
        self.assertEqual(
            [
                (row["K"], row["dtype"], row["M"], row["protocol"])
                for row in again["rows"]
            ],
            [(2048, dtype, 16, "single") for dtype in DTYPES],
        )
        self.assertEqual(
            again["gpus"], {"none": {"clocks": {}, "ceilings": {"copy": 1.0}}}
        )
        # A repeated measurement does not add a row.
        self.assertEqual({row["dtype"] for row in second["rows"]}, {FP8})
        self.assertEqual(
            {row["protocol"] for row in second["rows"]},
            {"single sustained chain"} | {"single sustained"},
        )
        self.assertEqual(
            len(first["rows"]),
            sum(len(part.tokens) for part in tables.make_parts()),
        )


class Commands(unittest.TestCase):
    def test_commands_are_those_of_gpus(self):
        options = tables.parse(
            ["--gpus", "1", "0", "--first", "0=a --b=c", "--first", "1=true"]
        )
        self.assertEqual(options.first, [("0", "a --b=c"), ("1", "true")])
        self.assertEqual(tables.parse([]).first, [])
        for arguments, error in (
            (
                ("1", "0", "--first", "true"),
                "'true' is not a command of a GPU: expected GPU=COMMAND",
            ),
            (
                ("1", "0", "--first", "2=true"),
                "--first: GPU 2 is none of --gpus 1 0",
            ),
            (
                ("3", "--again", "m16$"),
                "--again: there is no second GPU among --gpus 3",
            ),
            (
                ("1", "0", "--again", "m17$"),
                "--again: no row is called 'm17$': expected part of a name "
                "such as gated_mlp-2048x16384-fp8-gelu_tanh-rms0-m16",
            ),
        ):
            said = io.StringIO()
            with (
                contextlib.redirect_stderr(said),
                self.assertRaises(SystemExit),
            ):
                tables.parse(["--gpus", *arguments])
            self.assertIn(error, " ".join(said.getvalue().split()))
        self.assertEqual(
            tables.parse(["--gpus", "0", "1", "--again", "m16$"]).again, "m16$"
        )


class Merging(unittest.TestCase):
    def test_results_of_all_gpus_are_one_file(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            options = argparse.Namespace(
                folder=folder,
                output=folder / "all.json",
                again_output=folder / "two.json",
            )
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                self.assertEqual(tables.merge_all(options), 1)
            self.assertEqual(said.getvalue(), "no results\n")
            for name, gpu, tokens in (
                ("gpu-0", "0", 1),
                ("gpu-1", "1", 8),
                ("again-1", "1", 1),
            ):
                results = Results(folder / f"{name}.json")
                results.gpu(gpu)["clocks"]["sm_mhz_min"] = 1000.0 + tokens
                results.add_row(
                    {
                        "K": 64,
                        "H": 128,
                        "M": tokens,
                        "gpu": gpu,
                        "dtype": "bf16",
                        "system": "fuse",
                    }
                )
                results.save()
            with contextlib.redirect_stdout(said):
                self.assertEqual(tables.merge_all(options), 0)
            data = json.loads(options.output.read_text())
            self.assertEqual([row["M"] for row in data["rows"]], [1, 8])
            self.assertEqual(sorted(data["gpus"]), ["0", "1"])
            self.assertEqual(data["clocks"]["sm_mhz_min"], 1001.0)
            # A table row keeps the time that one GPU measured.
            self.assertEqual(data["rows"][0]["gpu"], "0")
            again = json.loads(options.again_output.read_text())
            self.assertEqual(
                [(row["M"], row["gpu"]) for row in again["rows"]], [(1, "1")]
            )


if __name__ == "__main__":
    unittest.main()
