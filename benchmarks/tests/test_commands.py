# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/Commands.md has the table of its results, and rows still say it."""

import json
import tempfile
import unittest
from pathlib import Path

import torch
from fuse_bench.suites import command_models, commands
from tests.models import needs_library

torch.set_num_threads(1)


class Table(unittest.TestCase):

    def setUp(self):
        self.data = json.loads(commands.RESULTS.read_text())

    def test_the_page_is_that_of_the_results(self):
        text = commands.PAGE.read_text()
        self.assertEqual(commands.page(text, self.data), text)

    def test_every_model_and_command(self):
        self.assertEqual([(row["model"], row["command"])
                          for row in self.data["rows"]],
                         [(name, command) for name in commands.names()
                          for command in commands.COMMANDS])

    def test_no_command_prints_what_it_may_not(self):
        for row in self.data["rows"]:
            with self.subTest(row["model"], command=row["command"]):
                self.assertEqual(row["raw"], [])
                self.assertIn(row["status"], (0, 1, None))

    def test_text_that_no_command_may_print(self):
        for text in ("Traceback (most recent call last):", "-:3:5: error",
                     "At=linalg.generic", "(FUSE_ERROR_PASS)"):
            self.assertRegex(text, commands.RAW)
        self.assertNotRegex("could fuse  model.layers.0.mlp#0  gated_mlp",
                            commands.RAW)

    def test_cells(self):
        notes = {}
        row = {"command": "verify", "status": 0, "refusals": ["FUSE-N002"],
               "says": "7 of 7 checks passed"}
        self.assertEqual(commands.cell(row, notes), "7 of 7 checks passed")
        explained = {**row, "says": "2 could fuse, 1 refused"}
        self.assertEqual(commands.cell(explained, notes),
                         "2 could fuse, 1 refused "
                         "[FUSE-N002](remarks/FUSE-N002.md)")
        failed = {**row, "status": 1, "says": "FUSE-N313 unsupported-format"}
        self.assertEqual(commands.cell(failed, notes),
                         "[FUSE-N313](remarks/FUSE-N313.md)")
        self.assertEqual(notes, {})
        for said, text in (("no such file", "error 1"),
                           ("no model", "error 2"),
                           ("no such file", "error 1")):
            failed["says"] = said
            self.assertEqual(commands.cell(failed, notes), text)
        self.assertEqual(commands.cell({**row, "status": None}, notes), "-")
        with self.assertRaisesRegex(ValueError, "the page has no"):
            commands.page("# Commands", self.data)


@needs_library
class Rows(unittest.TestCase):
    """Two rows, of the commands that take least time."""

    def test_rows_still_say_it(self):
        data = json.loads(commands.RESULTS.read_text())
        for name in ("AWQ", "ModelOpt FP8, hf_quant_config.json alone"):
            expected = [row for row in data["rows"] if row["model"] == name]
            with tempfile.TemporaryDirectory() as directory:
                folder = Path(directory)
                model, kind = commands.make(name, folder)
                (folder / "out").mkdir()
                commands.prepare(folder / "out", command_models.WIDTH)
                for command in ("verify", "import"):
                    with self.subTest(name, command=command):
                        found = commands.run_command(
                            command, model, commands.chain_of(kind),
                            command_models.WIDTH, (), folder / "out")
                        row = next(r for r in expected
                                   if r["command"] == command)
                        for key in ("status", "says", "refusals", "raw"):
                            self.assertEqual(found[key], row[key], found)


if __name__ == "__main__":
    unittest.main()
