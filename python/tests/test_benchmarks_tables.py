# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the rows of the whole table are shared out among GPUs."""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
import unittest
from pathlib import Path

from .support import ROOT

sys.path.insert(0, str(ROOT))

# pylint: disable=wrong-import-position
from benchmarks import kernels, tables  # noqa: E402
from benchmarks.cases import (DTYPES, LONE_SHAPES, TIMED_SHAPES,  # noqa: E402
                              all_cases)
from benchmarks.mlp_h200 import served_tokens  # noqa: E402
from benchmarks.results import Results  # noqa: E402


class Parts(unittest.TestCase):

    def setUp(self):
        self.parts = tables.make_parts()

    def test_every_row_is_in_one_part(self):
        rows = [(part.shape, part.dtype, tokens) for part in self.parts
                for tokens in part.tokens]
        self.assertEqual(len(rows), len(set(rows)))
        self.assertEqual(set(rows), {
            (shape, dtype, tokens) for shape in (*TIMED_SHAPES, *LONE_SHAPES)
            for dtype in DTYPES for tokens in served_tokens(shape)})

    def test_a_part_has_the_smallest_kernels_that_serve_it(self):
        first = self.parts[0]
        self.assertEqual([case.name() for case in first.cases()], [
            "gated_mlp-2048x16384-fp8-gelu_tanh-rms0-t16",
            "gated_mlp-2048x16384-fp8-gelu_tanh-rms0-t4096",
            "gated_mlp-2048x16384-fp8-gelu_tanh-rms0-relaxed-t16"])
        served = {case.name() for part in self.parts for case in part.cases()}
        self.assertEqual(served, {case.name() for case in all_cases(
            ["timed", "prefill", "relaxed"], kernels.SETS)})

    def test_kernels_are_compiled_in_the_order_of_the_rows(self):
        for lanes in (1, 2):
            order = [case.name() for case in
                     tables.order_cases(self.parts, lanes)]
            self.assertEqual(len(order), len(set(order)))
            taken = [tables.choose(self.parts, lane)[0]
                     for lane in range(lanes)]
            asked = [case.name() for part in taken for case in part.cases()]
            self.assertEqual(order[:len(asked)], asked)
            self.assertEqual(len(order), len(all_cases(
                ["timed", "prefill", "relaxed"], kernels.SETS)))

    def test_a_part_is_taken_once(self):
        with tempfile.TemporaryDirectory() as folder:
            lanes = [tables.claim(self.parts, lane, Path(folder))
                     for lane in (0, 1)]
            taken = [[next(lanes[0])], [next(lanes[1])]]
            self.assertEqual([part.lane for part, in taken], [0, 1])
            # One is done with what is its own, and takes what is left.
            taken[1] += lanes[1]
            self.assertEqual({part.lane for part in taken[1]}, {0, 1})
            taken[0] += lanes[0]
            self.assertEqual(len(taken[0]), 1)
            names = [part.name for part in taken[0] + taken[1]]
            self.assertEqual(len(names), len(self.parts))
            self.assertEqual(set(names), {part.name for part in self.parts})

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


class Commands(unittest.TestCase):

    def test_commands_are_those_of_gpus(self):
        options = tables.parse(["--gpus", "1", "0", "--first", "0=a --b=c",
                                "--first", "1=true"])
        self.assertEqual(options.first, [("0", "a --b=c"), ("1", "true")])
        self.assertEqual(tables.parse([]).first, [])
        for first, error in (
                ("true", "'true' is no command of a GPU: expected "
                 "GPU=COMMAND"),
                ("2=true", "--first: GPU 2 is none of --gpus 1 0")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), \
                    self.assertRaises(SystemExit):
                tables.parse(["--gpus", "1", "0", "--first", first])
            self.assertIn(error, said.getvalue())


class Merging(unittest.TestCase):

    def test_results_of_all_gpus_are_one_file(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            options = argparse.Namespace(folder=folder,
                                         output=folder / "all.json")
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                self.assertEqual(tables.merge_all(options), 1)
            self.assertEqual(said.getvalue(), "no results\n")
            for gpu, tokens in (("0", 1), ("1", 8)):
                results = Results(folder / f"gpu-{gpu}.json")
                results.gpu(gpu)["clocks"]["sm_mhz_min"] = 1000.0 + tokens
                results.add_row({"K": 64, "H": 128, "M": tokens, "gpu": gpu,
                                 "dtype": "bf16", "system": "fuse"})
                results.save()
            with contextlib.redirect_stdout(said):
                self.assertEqual(tables.merge_all(options), 0)
            data = json.loads(options.output.read_text())
            self.assertEqual([row["M"] for row in data["rows"]], [1, 8])
            self.assertEqual(sorted(data["gpus"]), ["0", "1"])
            self.assertEqual(data["clocks"]["sm_mhz_min"], 1001.0)


if __name__ == "__main__":
    unittest.main()
