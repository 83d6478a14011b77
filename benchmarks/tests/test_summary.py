# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the summary of results, and its pages and plots."""

import contextlib
import doctest
import io
import json
import tempfile
import unittest
import unittest.mock
from pathlib import Path
from xml.etree import ElementTree

from fuse_bench.common.environment import ROOT, SUMMARY
from fuse_bench.reports import (
    condense,
    markdown,
    mlp_tables,
    plot,
    stale,
    summary,
    svg,
    tables,
)


def row(system: str, time: float, **others) -> dict:
    """Returns a row of a raw file, as `fuse_bench.suites.mlp` writes it."""
    return {
        "K": 2048,
        "H": 16384,
        "M": 16,
        "act": "silu",
        "dtype": "fp8",
        "scales": "static",
        "system": system,
        "protocol": "single",
        "median_us": time,
        "floor_us": 20.0,
        "weight_bytes": 1,
        "run": "1",
        "gpu": "a",
        **others,
    }


def raw(*rows: dict) -> dict:
    return {
        "gpu": "NVIDIA H200",
        "driver": "580.1",
        "commit": "d59ab6202400",
        "versions": {"torch": "2.11"},
        "gpus": {},
        "rows": list(rows),
        "clocks": {"sm_mhz_min": 1200.0, "sm_mhz_max": 1980.0},
        "checks": [],
    }


class CommittedFiles(unittest.TestCase):
    def test_pages_and_plots_are_up_to_date(self):
        for path, text in tables.generated():
            with self.subTest(path.relative_to(ROOT)):
                self.assertTrue(
                    path.exists() and path.read_text() == text,
                    "run python3 -m fuse_bench.reports.tables",
                )

    def test_nothing_else_is_in_their_folder(self):
        folder = ROOT / tables.PERFORMANCE
        known = {path for path, _ in tables.generated()}
        # The page about the method is written by hand.
        known.add(folder / "index.md")
        self.assertLessEqual(
            {path for path in folder.rglob("*") if path.is_file()}, known
        )

    def test_the_summary_is_small(self):
        size = sum(path.stat().st_size for path in SUMMARY.iterdir())
        self.assertLessEqual(size, 300_000)

    def test_every_section_names_its_source_and_command(self):
        for page in summary.PAGES:
            found = summary.read(page)
            self.assertEqual(
                list(found),
                [
                    section.name
                    for section in summary.SECTIONS
                    if section.page == page
                ],
            )
            for name, section in found.items():
                with self.subTest(page, section=name):
                    self.assertTrue(section["source"].endswith(".json"))
                    self.assertTrue(section["command"])

    def test_files_are_laid_out_as_they_are_written(self):
        for name in (*summary.PAGES, "kernels"):
            text = (SUMMARY / f"{name}.json").read_text()
            self.assertEqual(summary.layout(json.loads(text)) + "\n", text)


class Condense(unittest.TestCase):
    def test_examples_of_docstrings(self):
        for module in (condense, markdown):
            found = doctest.testmod(module)
            self.assertGreater(found.attempted, 0)
            self.assertEqual(found.failed, 0)

    def test_the_peer_is_of_the_same_run_and_scales(self):
        section = condense.mlp(
            raw(
                row("fuse", 30.0),
                row(
                    "torch-compile",
                    45.0,
                    over_fuse=1.5,
                    over_fuse_95=[1.4, 1.6],
                ),
                row("torch-eager", 35.0, run="2"),
                row("torch-compile", 33.0, scales="dynamic"),
            )
        )
        (found,) = condense.records(section["single"])
        self.assertEqual(
            (found["peer"], found["over"]), ("torch-compile", [1.5, 1.4, 1.6])
        )
        self.assertEqual(
            found["us"],
            {
                "fuse": 30.0,
                "torch-compile": 45.0,
                "torch-eager": 35.0,
                "torch-compile dynamic": 33.0,
            },
        )
        self.assertEqual(section["chain"]["rows"], [])

    def test_provenance_is_found_wherever_a_file_has_it(self):
        self.assertEqual(
            condense.provenance(
                raw(row("fuse", 1.0, run="2026-11-23T02:19:34Z"))
            ),
            {
                "device": "NVIDIA H200",
                "driver": "580.1",
                "clocks": {"sm_mhz_min": 1200.0, "sm_mhz_max": 1980.0},
                "versions": {"torch": "2.11"},
                "commit": "d59ab6202400",
                "date": "2026-11-23",
            },
        )
        self.assertEqual(
            condense.provenance(
                {
                    "device": "NVIDIA H200",
                    "torch": "2.11",
                    "state": {"driver_version": "1", "clocks.sm": "345"},
                    "environment": {"commit": "abc"},
                }
            ),
            {
                "device": "NVIDIA H200",
                "driver": "1",
                "clocks": {"sm": "345"},
                "versions": {"torch": "2.11"},
                "commit": "abc",
            },
        )

    def test_a_change_of_a_schedule_names_fields(self):
        self.assertEqual(
            condense.schedule_change(
                "#tile.schedule<tokens = 8, l2_prefetch_stages = 4>",
                "#tile.schedule<tokens = 8, split_k = 2>",
            ),
            "no l2_prefetch_stages, split_k = 2",
        )

    def test_commands_share_their_ends(self):
        section = condense.commands(
            {
                "rows": [
                    {
                        "model": model,
                        "command": "fuse",
                        "status": 0,
                        "says": "1 kernel",
                        "refusals": ["FUSE-N005"],
                    }
                    for model in ("a", "b")
                ]
            }
        )
        self.assertEqual(section["ends"], [[0, "1 kernel", []]])
        self.assertEqual(section["rows"], [["a", 0], ["b", 0]])


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.raw, self.output = self.folder / "raw", self.folder / "out"
        self.raw.mkdir()

    def run_main(self) -> str:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(
                summary.main(
                    ["--raw", str(self.raw), "--output", str(self.output)]
                ),
                0,
            )
        return said.getvalue()

    def test_a_raw_file_replaces_its_section_alone(self):
        memory = {"commit": "1", "unit": "MiB", "rows": []}
        (self.raw / "memory-cpu.json").write_text(json.dumps(memory))
        self.run_main()
        (self.raw / "memory-cpu.json").unlink()
        (self.raw / "mlp-h200.json").write_text(
            json.dumps(raw(row("fuse", 30.0)))
        )
        said = self.run_main()
        self.assertIn("kernels.json stays as it was: it needs all of", said)
        self.assertEqual(
            summary.read("cpu", self.output)["memory"]["unit"], "MiB"
        )
        self.assertEqual(list(summary.read("h200", self.output)), ["mlp"])

    def test_a_folder_without_raw_files_is_an_error(self):
        said = io.StringIO()
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(said):
            summary.main(["--raw", str(self.raw)])
        self.assertIn("expected files such as mlp-h200.json", said.getvalue())

    def test_kernels_have_one_digest_and_the_number_of_their_rows(self):
        checks = [
            {"case": "mlp-x", "tile": 8, "M": m, "digest": "ab" * 8}
            for m in (1, 8)
        ]
        found = summary.kernels(
            {
                "a.json": {"checks": checks},
                "b.json": {"kernels": [{**checks[0], "tokens": [1, 2, 3]}]},
            }
        )
        self.assertEqual(found["kernels"], {"mlp-x": {"8": ["ab" * 4, 0, 5]}})
        with self.assertRaisesRegex(
            ValueError,
            "kernel 'mlp-x-t8' has the digests abababab and cdcdcdcd",
        ):
            summary.kernels(
                {
                    "a.json": {
                        "checks": [checks[0], {**checks[1], "digest": "cd" * 8}]
                    }
                }
            )


class Stale(unittest.TestCase):
    """Tests the comparison of the summary with the compiler."""

    def run_main(self, digest: str, *options: str) -> tuple[int, str]:
        said = io.StringIO()
        with (
            tempfile.TemporaryDirectory() as name,
            contextlib.redirect_stdout(said),
            unittest.mock.patch.object(
                stale,
                "make_digests",
                lambda names, *_: dict.fromkeys(names, digest),
            ),
            unittest.mock.patch.object(stale, "require_tools"),
        ):
            path = Path(name) / "kernels.json"
            path.write_text(
                json.dumps(
                    {
                        "kernels": {
                            "mlp-x": {
                                "8": ["abababab", 2, 9],
                                "16": ["abababab", 0, 4],
                            }
                        }
                    }
                )
            )
            code = stale.main([str(path), *options])
        return code, said.getvalue()

    def test_rows_and_checks_of_kernels_that_are_the_same(self):
        code, said = self.run_main("ababababcdcd")
        self.assertEqual(code, 0)
        self.assertIn(
            "2 of 2 rows are of kernels that the compiler makes", said
        )
        self.assertIn("13 of 13 checks", said)

    def test_kernels_that_differ_are_named(self):
        code, said = self.run_main("cdcdcdcdcdcd", "--only", "t8$")
        self.assertEqual(code, 1)
        self.assertIn("checks of mlp-x-t8\n", said)
        self.assertIn("0 of 9 checks", said)

    def test_a_sample_has_fewer_kernels(self):
        code, said = self.run_main("ababababcdcd", "--sample", "2")
        self.assertEqual(code, 0)
        self.assertIn("4 of 4 checks", said)


class Pages(unittest.TestCase):
    def test_tables_of_other_pages_are_between_marks(self):
        page = ROOT / "docs/page.md"
        text = (
            "a\n<!-- table of models.json -->\nold\n<!-- end of table -->\nb\n"
        )
        filled = tables.fill(text, page)
        self.assertRegex(
            filled,
            r"^a\n<!-- table of models.json -->\n"
            r"\| sequences \|(.*\n)+<!-- end of table -->\nb\n$",
        )
        self.assertNotIn("old", filled)
        self.assertEqual(tables.fill(filled, page), filled)

    def test_a_table_that_is_unknown_is_an_error(self):
        with self.assertRaisesRegex(
            ValueError, "no table of 'none': expected one of commands"
        ):
            tables.fill(
                "<!-- table of none.json -->\n<!-- end of table -->",
                ROOT / "docs/page.md",
            )

    def test_few_tokens_compare_with_the_fastest_peer(self):
        section = condense.mlp(
            raw(
                row("fuse", 30.0),
                row(
                    "torch-compile",
                    45.0,
                    over_fuse=1.51,
                    over_fuse_95=[1.4, 1.6],
                ),
            )
        )
        self.assertIn(
            "| 2048/16384 | FP8 | 16 | 30.0 | compile | 45.0 | 1.50 "
            "| 1.510 | 1.400 to 1.600 | 1.50 | 2.25 |",
            mlp_tables.few_tokens(section),
        )

    def test_a_setup_has_device_versions_and_command(self):
        self.assertEqual(
            markdown.setup(
                {
                    "device": "GPU",
                    "driver": "1",
                    "clocks": {"sm_mhz_min": 1.0, "sm_mhz_max": 2.0},
                    "versions": {"torch": "2"},
                    "commit": "0123456789ab",
                    "date": "2026-11-23",
                    "command": "a; b",
                }
            ),
            "GPU, driver 1, SM clock 1 to 2 MHz, torch 2, commit 0123456, "
            "2026-11-23. Measured by `a` and `b`.",
        )


class Plots(unittest.TestCase):
    def test_plots_have_a_panel_for_each_block_and_type(self):
        section = summary.read("h200")["mlp"]
        for draw in (plot.times, plot.decode):
            root = ElementTree.fromstring(draw(section))
            groups = root.findall("{http://www.w3.org/2000/svg}g")
            self.assertEqual(len(groups), 4)

    def test_text_is_escaped(self):
        panel = svg.Panel("a < b", "x", "y")
        svg.linear_lines(panel, {"fuse": {1: 2.0, 2: 3.0}}, 1)
        root = ElementTree.fromstring(svg.sheet([panel], ["fuse"], "c & d"))
        texts = [
            element.text
            for element in root.iter()
            if element.tag.endswith("text")
        ]
        self.assertIn("a < b", texts)
        self.assertIn("c & d", texts)

    def test_there_are_seven_rules_at_most(self):
        for top in (3.0, 41.0, 799.0, 4000.0):
            self.assertLess(top / svg.step_for(top), 8)


if __name__ == "__main__":
    unittest.main()
