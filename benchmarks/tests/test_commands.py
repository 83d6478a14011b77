# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of commands: its cells, and rows that still hold."""

import tempfile
import unittest
from pathlib import Path

import torch

from fuse_bench.reports import tables
from fuse_bench.reports.summary import read
from fuse_bench.suites import command_models, commands
from tests.models import needs_library

torch.set_num_threads(1)
LINK = "remarks/{id}.md"


class Table(unittest.TestCase):
    def setUp(self):
        self.rows = tables.command_rows(read("cpu")["commands"])

    def test_every_model_and_command(self):
        self.assertEqual(
            [(row["model"], row["command"]) for row in self.rows],
            [
                (name, command)
                for name in commands.names()
                for command in commands.COMMANDS
            ],
        )

    def test_no_command_prints_what_it_may_not(self):
        for row in self.rows:
            with self.subTest(row["model"], command=row["command"]):
                self.assertNotRegex(row["says"], commands.FORBIDDEN)
                self.assertIn(row["status"], (0, 1, None))

    def test_text_that_no_command_may_print(self):
        for text in (
            "Traceback (most recent call last):",
            "-:3:5: error",
            "At=linalg.generic",
            "(FUSE_ERROR_PASS)",
        ):
            self.assertRegex(text, commands.FORBIDDEN)
        self.assertNotRegex(
            "could fuse  model.layers.0.mlp#0  gated_mlp", commands.FORBIDDEN
        )

    def test_cells(self):
        notes = {}
        row = {
            "command": "verify",
            "status": 0,
            "refusals": ["FUSE-N002"],
            "says": "7 of 7 checks passed",
        }
        self.assertEqual(
            commands.cell(row, notes, LINK), "7 of 7 checks passed"
        )
        explained = {**row, "says": "2 could fuse, 1 refused"}
        self.assertEqual(
            commands.cell(explained, notes, LINK),
            "2 could fuse, 1 refused [FUSE-N002](remarks/FUSE-N002.md)",
        )
        failed = {**row, "status": 1, "says": "FUSE-N313 unsupported-format"}
        self.assertEqual(
            commands.cell(failed, notes, LINK),
            "[FUSE-N313](remarks/FUSE-N313.md)",
        )
        self.assertEqual(notes, {})
        for said, text in (
            ("no such file", "error 1"),
            ("no model", "error 2"),
            ("no such file", "error 1"),
        ):
            failed["says"] = said
            self.assertEqual(commands.cell(failed, notes, LINK), text)
        self.assertEqual(
            commands.cell({**row, "status": None}, notes, LINK), "-"
        )
        self.assertEqual(
            commands.cell(
                {**row, "says": "1 refused"}, notes, "refusals.md#{anchor}"
            ),
            "1 refused [FUSE-N002](refusals.md#fuse-n002)",
        )


@needs_library
class Rows(unittest.TestCase):
    """Two rows, of the commands that take least time."""

    def test_rows_still_say_it(self):
        rows = tables.command_rows(read("cpu")["commands"])
        for name in ("AWQ", "ModelOpt FP8, hf_quant_config.json alone"):
            expected = [row for row in rows if row["model"] == name]
            with tempfile.TemporaryDirectory() as directory:
                folder = Path(directory)
                model, kind = commands.make(name, folder)
                (folder / "out").mkdir()
                commands.prepare(folder / "out", command_models.WIDTH)
                for command in ("verify", "import"):
                    with self.subTest(name, command=command):
                        found = commands.run_command(
                            command,
                            model,
                            commands.chain_of(kind),
                            command_models.WIDTH,
                            (),
                            folder / "out",
                        )
                        row = next(
                            r for r in expected if r["command"] == command
                        )
                        for key in ("status", "says"):
                            self.assertEqual(found[key], row[key], found)
                        self.assertEqual(found["raw"], [])


if __name__ == "__main__":
    unittest.main()
