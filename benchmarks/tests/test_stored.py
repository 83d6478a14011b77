# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests those parts of the stored-value benchmarks that need no GPU."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

import numpy as np

from fuse_bench.reports.condense import records
from fuse_bench.reports.summary import read
from fuse_bench.suites import accuracy, float8
from tests.support import fuse_opt, tool


class Float8Test(unittest.TestCase):
    def test_every_function_compiles(self) -> None:
        text = "\n".join(case.text() for case in float8.cases())
        formed = fuse_opt(text)
        self.assertEqual(formed.count("func.func"), len(float8.cases()))

    def test_codes_are_all_numbers_of_a_type(self) -> None:
        values = float8.codes_as_floats("f8E4M3FN").ravel()
        self.assertEqual(values.size, 256)
        self.assertEqual(np.isnan(values).sum(), 2)
        self.assertEqual(np.nanmax(values), 448.0)
        self.assertEqual(float8.codes_as_floats("i8").min(), -128.0)

    def test_expected_bytes_are_those_of_the_cpu(self) -> None:
        case = float8.Case("i8", "f32", 1.0, "reciprocal", 256)
        with tempfile.TemporaryDirectory() as name:
            data = float8.expected_bytes(
                case, Path(tool("fuse-run")).parent, Path(name)
            )
        self.assertEqual(
            np.frombuffer(data, np.float32).tolist(),
            np.arange(256).astype(np.uint8).view(np.int8).tolist(),
        )

    def test_committed_results(self) -> None:
        rows = records(read("h200")["float8"])
        self.assertTrue(all(row["mismatches"] == 0 for row in rows))
        compared = {
            (
                row["source"],
                row["target"],
                row["scale"],
                row["order"],
                row["path"],
            )
            for row in rows
        }
        for case in float8.cases():
            for way in float8.PATHS:
                self.assertIn(
                    (case.source, case.target, case.scale, case.order, way),
                    compared,
                )


class AccuracyTest(unittest.TestCase):
    def test_blocks_form_one_kernel(self) -> None:
        for shape in accuracy.SHAPES:
            self.assertIn(
                "fuse.gated_mlp", fuse_opt(shape.text(), "--fuse-form-kernels")
            )

    def test_results_are_json_with_a_line_for_a_row(self) -> None:
        blocks = [
            {
                "shape": "a",
                "rows": [{"x": 1}, {"x": 2}],
                "saturation": [{"y": 3}],
            }
        ]
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "r.json"
            accuracy.write_results(path, blocks, {"seed": 0})
            data = json.loads(path.read_text())
        self.assertEqual(data, {"environment": {"seed": 0}, "blocks": blocks})


if __name__ == "__main__":
    unittest.main()
