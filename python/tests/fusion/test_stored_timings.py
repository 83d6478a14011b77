# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Verdicts that other processes reached are found, unless they are damaged or
about something else."""

import json
import os
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

import torch

import fuse_mlir
from fuse_mlir.fusion import stored_timings, timing
from fuse_mlir.fusion.timing import RowRanges, Table, Times, Verdict
from tests.models import needs_library, net

CPU = torch.device("cpu")


def verdict(kernel=1e-3):
    table = Table(
        (Times(1, 2e-3, kernel), Times(33, 4e-3, kernel)),
        1e-6,
        RowRanges(((0, 33),)),
        0.0,
        0.5,
    )
    return Verdict(table, table)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "timings"
        patch = mock.patch.object(
            stored_timings, "folder", return_value=self.folder
        )
        patch.start()
        self.addCleanup(patch.stop)


class Files(Folder):
    def test_a_verdict_comes_back(self):
        for found in (verdict(), Verdict(verdict().eager)):
            stored_timings.store("a", found)
            self.assertEqual(stored_timings.load("a"), found)
        self.assertEqual(os.listdir(self.folder), ["a.json"])

    def test_a_missing_file(self):
        self.assertIsNone(stored_timings.load("a"))

    def test_damaged_files(self):
        stored_timings.store("a", verdict())
        path = self.folder / "a.json"
        text = path.read_text()
        whole = json.loads(text)
        changes = (
            {"format": "other"},
            {"key": "b"},
            {"eager": None},
            {"eager": {**whole["eager"], "times": []}},
            {"eager": {**whole["eager"], "gain": "much"}},
            {"eager": {**whole["eager"], "rows": {"ranges": [[1]]}}},
            {"eager": {**whole["eager"], "times": [{"rows": 1}]}},
            {"tries": None},
            {
                "eager": {
                    **whole["eager"],
                    "times": [{"rows": 1, "members": -1, "kernel": 1}],
                }
            },
        )
        for damaged in (
            "",
            text[:-1],
            "[]",
            "\xff",
            *(json.dumps({**whole, **change}) for change in changes),
        ):
            path.write_text(damaged)
            self.assertIsNone(stored_timings.load("a"), damaged)

    def test_all_are_forgotten(self):
        stored_timings.store("a", verdict())
        timing.remember("b", verdict())
        stored_timings.forget()
        self.assertIsNone(stored_timings.load("a"))
        self.assertIsNone(timing.known("b"))

    def test_a_folder_that_cannot_be_written(self):
        self.folder.parent.joinpath("timings").write_text("a file")
        stored_timings.store("a", verdict())
        self.assertIsNone(stored_timings.load("a"))

    def test_keys(self):
        keys = {
            stored_timings.key_of(CPU, parts)
            for parts in (("a",), ("b",), ("a", 1), ("a", 2))
        }
        self.assertEqual(len(keys), 4)
        self.assertEqual(
            stored_timings.key_of(CPU, ("a",)),
            stored_timings.key_of(CPU, ("a",)),
        )


@needs_library
class Fusing(Folder):
    def test_another_process_does_not_measure(self):
        first, x = net(1)
        second = net(1)[0]
        timing.forget()
        self.addCleanup(timing.forget)
        with mock.patch.object(
            timing, "measured", return_value=verdict()
        ) as measured:
            fuse_mlir.fuse_modules(first, inputs=x)
            # A process starts without verdicts in memory.
            timing.forget()
            result = fuse_mlir.fuse_modules(second, inputs=x)
        self.assertEqual(measured.call_count, 1)
        self.assertEqual(len(result.fused), 1)
        self.assertIn("1 to 33 rows", result.fused[0].note)

    def test_a_doubtful_verdict_is_measured_again(self):
        model, x = net(1)
        doubtful = Verdict(replace(verdict(1.9e-3).eager, noise=0.2))
        found = []

        def measured(*args):
            found.append(args[-1])
            tries = args[-1].tries + 1 if args[-1] else 1
            return replace(doubtful, tries=tries)

        self.addCleanup(timing.forget)
        with mock.patch.object(timing, "measured", measured):
            for _ in range(timing.TRIES + 2):
                timing.forget()
                fuse_mlir.explain(model, inputs=x)
                # A process keeps its verdict.
                fuse_mlir.explain(model, inputs=x)
        self.assertEqual(
            [v and v.tries for v in found], [None, *range(1, timing.TRIES)]
        )


if __name__ == "__main__":
    unittest.main()
