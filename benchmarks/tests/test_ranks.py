# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The suite of tensor parallelism, on the CPU."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

from fuse_bench.suites import ranks
from tests.models import needs_library


@needs_library
class Dry(unittest.TestCase):
    def test_two_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ranks.json"
            with contextlib.redirect_stdout(io.StringIO()):
                code = ranks.main(
                    [
                        str(path),
                        "--dry",
                        "--parts",
                        "checks",
                        "block",
                        "collectives",
                        "model",
                    ]
                )
            self.assertEqual(code, 0)
            data = json.loads(path.read_text())
        self.assertEqual((data["ranks"], data["gpu"]), (2, "cpu"))
        rows = data["rows"]
        self.assertEqual([r for r in rows if "error" in r], [])
        self.assertEqual(
            [r["passed"] for r in rows if "passed" in r], [True] * 5
        )
        systems = {
            r["system"] for r in rows if r["part"] == "block" and "system" in r
        }
        self.assertEqual(
            systems,
            {
                "members",
                "fused, sum in model",
                "kernel alone, model",
                "fused, sum in float32",
                "kernel alone, float32",
            },
        )
        self.assertTrue(all(r["us"] > 0 for r in rows if "us" in r))

    def test_a_short_budget_starts_no_part(self):
        options = ranks.parse(["x.json", "--budget", "20"])
        self.assertLess(options.budget, min(ranks.NEEDS["checks"], 25))
        self.assertEqual(set(ranks.NEEDS), set(ranks.PARTS))


if __name__ == "__main__":
    unittest.main()
