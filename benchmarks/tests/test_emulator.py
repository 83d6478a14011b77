# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the comparison of emulator and GPU, with the emulator as the GPU."""

import argparse
import json
import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from fuse_bench.suites import emulator
from fuse_bench.suites import emulator_cases as cases
from tests.support import tool

#: Reports no error, and runs the program after its options.
SANITIZER = """\
#!/bin/sh
while [ "$1" != "$PROGRAM" ]; do shift; done
"$@"
echo "========= ERROR SUMMARY: 0 errors"
"""


class Mistakes(unittest.TestCase):
    def test_names_and_numbers_of_tokens(self):
        mistakes = cases.read_mistakes()
        self.assertEqual(len({mistake.name for mistake in mistakes}), 11)
        self.assertEqual(mistakes[0].replacement, "setp.eq.u32 P1, 0, 0;")
        self.assertIsNone(mistakes[0].number)
        self.assertEqual(mistakes[1].number, 1)
        # The last ones are in kernels for more tokens.
        self.assertEqual(
            [mistake.tokens for mistake in mistakes[-3:]], [9, 129, 129]
        )


class Reports(unittest.TestCase):
    def test_messages_are_counted_without_places(self):
        found = emulator.read_report("""\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at gated+0x10 in f.ptx:1
=========     by thread (0,0,0) in block (0,0,0)
========= Error: Race reported at 0x7f10 by thread (1,0,0)
========= Error: Race reported at 0x7f20 by thread (2,0,0)
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
""")
        self.assertEqual(
            found,
            {
                "summary": "RACECHECK SUMMARY: 2 hazards displayed (2 errors, "
                "0 warnings)",
                "messages": {
                    "Error: Race reported at # by thread ()": 2,
                    "Invalid __global__ read of size 4 bytes": 1,
                },
            },
        )

    def test_a_tool_that_was_ended_has_no_summary(self):
        self.assertEqual(emulator.read_report("")["summary"], "")

    def test_rows(self):
        result = {
            "type": "f32",
            "values": 4,
            "different": 1,
            "specials": 0,
            "outside": 0,
            "energy": 0.5,
            "ulps": [3, 1],
        }
        same = {**result, "different": 0, "energy": 0.0, "ulps": [4, 0]}
        case = {"group": "a", "path": "portable", "operands": "bf16"}
        (row,) = emulator.sum_up(
            [{**case, "results": [result, same]}, {**case, "status": "timeout"}]
        )
        self.assertEqual((row["results"], row["equal_results"]), (2, 1))
        self.assertEqual((row["values"], row["different"]), (8, 1))
        self.assertEqual((row["energy"], row["ulps"]), (0.5, [7, 1]))


class Tables(unittest.TestCase):
    def cells(self, row, **tools):
        """A mistake that tools report, without its name."""
        silent = {
            "summary": "ERROR SUMMARY: 0 errors",
            "status": "ok",
            "wrong": 0,
        }
        found = emulator.make_table(
            {
                "broken": [{"mistake": "a", "says": "", **row}],
                "sanitizers": [
                    {
                        "mistake": "a",
                        "tool": name,
                        **silent,
                        **tools.get(name, {}),
                    }
                    for name in emulator.SANITIZERS
                ],
            }
        )
        line = found.split("\n")[-1]
        return [cell.strip() for cell in line.split("|")[2:-1]]

    def test_nothing_is_found(self):
        self.assertEqual(
            self.cells({"alone": "ok", "wrong": 0, "launches": 20}),
            ["–", "0 of 20 wrong", "–", "–", "–", "–"],
        )

    def test_what_is_found(self):
        self.assertEqual(
            self.cells(
                {
                    "alone": "timeout",
                    "says": "reads shared memory at 0, in no order with line 1",
                },
                memcheck={"wrong": 2},
                racecheck={
                    "wrong": 1,
                    "summary": "RACECHECK SUMMARY: 9 hazards displayed "
                    "(1234 errors, 5 warnings)",
                },
                synccheck={"status": "timeout", "summary": ""},
            ),
            [
                '"in no order"',
                "hangs",
                "wrong bits",
                "1,234 errors, wrong bits",
                "hangs",
                "–",
            ],
        )

    def test_a_launch_that_fails(self):
        self.assertEqual(self.cells({"alone": "failed"})[1], "failed")


class Bundles(unittest.TestCase):
    def test_sections_that_no_case_names_are_left_out(self):
        bundle = cases.Bundle(b"\1\0\0\0")
        for number in range(5):
            bundle.add(cases.POOL, bytes([number]))
        bundle.cases = [
            {
                "name": "a",
                "artifact": 5,
                "arguments": [{"element": "bf16", "pool": 2}],
                "results": [{"expected": 3, "contract": 2}],
            }
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.bundle")
            bundle.save(path)
            read = cases.Bundle.load(path)
        self.assertEqual(
            [data for _, data in read.sections], [b"\4", b"\1", b"\2"]
        )
        (case,) = read.cases
        self.assertEqual(
            (case["artifact"], case["arguments"][0]["pool"]), (1, 2)
        )
        self.assertEqual(case["results"], [{"expected": 3, "contract": 2}])

    def test_narrowest(self):
        elements = [{"element": name} for name in ("i64", "bf16", "f8E5M2")]
        self.assertEqual(cases.narrowest({"arguments": elements}), "f8E5M2")
        self.assertEqual(cases.narrowest({"arguments": elements[:2]}), "bf16")


class Steps(unittest.TestCase):
    def prepare(self, folder: Path) -> argparse.Namespace:
        """A product, a function, and a kernel with a mistake."""
        tools = cases.Tools(Path(tool("fuse-device-run")).parent)
        (mistake,) = (
            item
            for item in cases.read_mistakes()
            if item.name == "half the expected transaction bytes"
        )
        rows = cases.prepare_broken(tools, folder / "broken", [mistake])
        right = folder / "right"
        right.mkdir()
        version = (folder / "broken/right-0.bundle").read_bytes()[8:12]
        tools.record(
            cases.make_products("f8E4M3FN", version),
            right / "product-f8E4M3FN.bundle",
        )
        (folder / "scheduled.mlir").write_text("""\
func.func @linear(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
                  %q: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%q) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>)
       -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
""")
        cases.write_index(folder, (1,), rows)
        sanitizer = folder / "sanitizer"
        sanitizer.write_text(
            SANITIZER.replace("$PROGRAM", str(tools.folder / "fuse-device-run"))
        )
        sanitizer.chmod(0o755)
        return argparse.Namespace(
            bin=tools.folder,
            files=folder,
            output=folder / "out/result.json",
            sanitizer=str(sanitizer),
            stages=emulator.STAGES,
            jobs=2,
            budget=300.0,
        )

    def test_the_emulator_agrees_with_itself(self):
        library = (
            Path(tool("fuse-device-run")).parents[1]
            / "lib/fuse-emulated/libcuda.so.1"
        )
        with (
            tempfile.TemporaryDirectory() as name,
            unittest.mock.patch.dict(
                os.environ, FUSE_CUDA_LIBRARY=str(library)
            ),
            unittest.mock.patch("builtins.print"),
        ):
            options = self.prepare(Path(name))
            status = emulator.Comparison(options, {"gpu": "none"}).run()
            found = json.loads(options.output.read_text())
        self.assertEqual(status, 0)
        (row,) = found["rows"]
        self.assertEqual(
            (row["group"], row["operands"], row["type"]),
            ("product-f8E4M3FN", "f8E4M3FN", "f32"),
        )
        self.assertEqual((row["results"], row["different"]), (15, 0))
        self.assertTrue(found["contract"][0]["ok"])
        (broken,) = found["broken"]
        self.assertIn("bytes more than expected", broken["says"])
        self.assertEqual(
            (broken["alone"], broken["device_after"]), ("failed", True)
        )
        # The tool runs each kernel, the right one first.
        self.assertEqual(
            [
                (item["tool"], item["mistake"], item["status"])
                for item in found["sanitizers"]
            ],
            [
                (name, *kernel)
                for name in emulator.SANITIZERS
                for kernel in (
                    ("none", "ok"),
                    ("half the expected transaction bytes", "failed"),
                )
            ],
        )
        self.assertEqual(
            found["sanitizers"][0]["summary"], "ERROR SUMMARY: 0 errors"
        )


if __name__ == "__main__":
    unittest.main()
