# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests that checks are started, skipped, repeated and kept correctly."""

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
import unittest
import unittest.mock
from pathlib import Path

import torch

from fuse_bench.common.cases import Case, blocks, timed_problem
from fuse_bench.common.driver import Layers
from fuse_bench.common.kernels import CompileError
from fuse_bench.common.memcheck_cases import memcheck_cases
from fuse_bench.common.plan import Plan
from fuse_bench.common.prefill_cases import PREFILL_CHECKED_TOKENS
from fuse_bench.common.problem import BF16
from fuse_bench.suites import check_all, soak
from fuse_bench.suites.check_worker import Board, Task

#: Prints what compute-sanitizer prints at the end of a program.
SANITIZER = """import os, subprocess, sys
code = subprocess.call(sys.argv[2:])
with open(sys.argv[1].replace('%p', str(os.getpid())), 'w') as log:
    log.write(f'========= ERROR SUMMARY: {ERRORS}\\n')
sys.exit(code)
"""
#: Stand-in that checks nothing and writes the given rows.
OTHERS = """import json, sys
rows, step, *arguments = sys.argv[1:]
if step == 'measure':
    try:
        rows = json.loads(rows)
    except ValueError:
        sys.exit(rows)
    with open(arguments[arguments.index('--output') + 1], 'w') as output:
        json.dump({'rows': rows}, output)
"""
STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in_worker.py")))
LAUNCH = {
    "blocks": 1,
    "threads": 32,
    "shared_bytes": 0,
    "dependent": False,
    "workspace_bytes": 256,
    "zeroed_bytes": 0,
    "arguments": [],
}


def task(order: int, memory: int, alone: bool = False) -> Task:
    problem = next(blocks())
    plan = Plan(problem, Path("k.cubin"), [])
    return Task(order, Path("k.json"), plan, (1,), memory, alone)


class Boards(unittest.TestCase):
    def test_what_has_room_is_taken_in_order(self):
        board = Board(10, 4)
        for order, memory in ((2, 5), (0, 6), (1, 8), (3, 4)):
            board.put(task(order, memory))
        first, second = board.take(), board.take()
        # The second task does not fit in memory together with the first.
        self.assertEqual((first.order, second.order), (0, 3))
        board.done(second)
        board.done(first)
        self.assertEqual(board.take().order, 1)

    def test_what_is_larger_than_all_runs_alone(self):
        board = Board(10, 2)
        board.put(task(0, 99))
        board.put(task(1, 1))
        self.assertEqual(board.take().order, 0)
        found = []
        waiting = threading.Thread(target=lambda: found.append(board.take()))
        waiting.start()
        waiting.join(0.1)
        self.assertTrue(waiting.is_alive())
        board.done(task(0, 99))
        waiting.join(5)
        self.assertEqual([one.order for one in found], [1])

    def test_what_needs_all_memory_comes_last(self):
        board = Board(10, 2)
        board.put(task(0, 1, alone=True))
        board.put(task(1, 9))
        found = board.take()
        self.assertEqual(found.order, 1)
        board.done(found)
        self.assertTrue(board.take().alone)

    def test_the_end(self):
        board = Board(10, 2)
        board.put(None)
        board.put(task(0, 1))
        last = board.take()
        ended = []
        waiting = threading.Thread(target=lambda: ended.append(board.take()))
        waiting.start()
        waiting.join(0.1)
        # The running task may have to be repeated.
        self.assertTrue(waiting.is_alive())
        board.done(last)
        waiting.join(5)
        self.assertEqual(ended, [None])
        board = Board(10, 1)
        board.close()
        self.assertIsNone(board.take())


class Runs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.digests: dict[str, str] = {}
        self.assembled: list[str] = []
        self.built: list[str] = []

    def build(self, case: Case, folder: Path, *_) -> None:
        """Writes the output of a compiler for a case."""
        if self.digests.get(case.name()) == "error":
            raise CompileError("fuse-opt: error: no")
        name = case.name()
        self.built.append(name)
        (folder / f"{name}.json").write_text(
            json.dumps(
                {
                    "problem": case.problem.to_json(),
                    "version": 1,
                    "binary": f"{name}.ptx",
                    "digest": self.digests.get(name, "new"),
                    "launches": [
                        {
                            "kernel": "k",
                            "plan": {**LAUNCH, "max_tokens": case.tokens},
                        }
                    ],
                }
            )
        )

    def run_all(
        self, *arguments: str, fates: dict | None = None, code: int = 0
    ) -> tuple[list[dict], str]:
        """Returns the rows of a run, and its last printed line."""
        journal, output = self.folder / "journal", self.folder / "o.json"
        journal.write_text("")
        for name, patched in (
            ("build", self.build),
            ("require_gpu", lambda: None),
            ("require_tools", lambda *_: None),
            ("describe_device", lambda: {"gpu": "none"}),
            ("assemble", lambda path, _: self.assembled.append(path.stem)),
        ):
            patch = unittest.mock.patch.object(check_all, name, patched)
            patch.start()
            self.addCleanup(patch.stop)
        printed = io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            unittest.mock.patch.object(check_all, "end_when_told"),
            unittest.mock.patch.dict(
                os.environ, FATES=json.dumps(fates or {}), JOURNAL=str(journal)
            ),
        ):
            self.assertEqual(
                check_all.main(
                    [
                        *arguments,
                        "--kernels",
                        str(self.folder / "kernels"),
                        "--output",
                        str(output),
                        "--processes",
                        "2",
                        "--ptxas",
                        "x",
                    ],
                    STAND_IN,
                ),
                code,
                printed.getvalue(),
            )
        self.printed = printed.getvalue()
        self.asked = [
            json.loads(line) for line in journal.read_text().splitlines()
        ]
        rows = (
            json.loads(output.read_text())["checks"] if output.exists() else []
        )
        return rows, self.printed.splitlines()[-1]

    NAME = "gated_mlp-256x768-bf16-silu-rms0"
    ONE = ("--set", "product", "--only", f"^{NAME}-")

    def test_kernels_are_checked_with_their_tokens(self):
        rows, last = self.run_all(
            "--set",
            "product",
            "--set",
            "prefill-product",
            "--only",
            "^gated_mlp-256x768-bf16-silu-rms0",
        )
        self.assertEqual(
            last, "4 kernels checked by 31 checks, 0 known, 0 bad, 0 left"
        )
        tokens = {row["tile"]: [] for row in rows}
        for row in rows:
            tokens[row["tile"]].append(row["M"])
        self.assertEqual(tokens[128], [1, 7, 8, 16, 33, 50, 64, 100, 128])
        # Kernels of the product are checked with all token counts they serve.
        self.assertEqual(tokens[4096], list(PREFILL_CHECKED_TOKENS))
        self.assertEqual(tokens[512], [129, 200, 256, 300, 384, 511, 512])

    def test_good_checks_of_the_same_kernel_are_kept(self):
        known = self.folder / "known.json"
        good = {
            "case": self.NAME,
            "tile": 128,
            "digest": "new",
            "ok": True,
            "repeats": 200,
        }
        known.write_text(
            json.dumps(
                {
                    "checks": [
                        {**good, "M": 1},
                        {**good, "M": 7, "digest": "old"},
                        {**good, "M": 8, "ok": False},
                        {**good, "M": 16, "repeats": 2},
                    ],
                    "kernels": [{**good, "tokens": [100, 128]}],
                }
            )
        )
        rows, last = self.run_all(*self.ONE, "--resume", str(known))
        self.assertEqual([row["M"] for row in rows], [7, 8, 16, 33, 50, 64])
        known.write_text(
            json.dumps(
                {
                    "kernels": [
                        {**good, "tokens": [1, 7, 8, 16, 33, 50, 64, 100, 128]}
                    ]
                }
            )
        )
        self.assembled.clear()
        (self.folder / "o.json").unlink()
        rows, last = self.run_all(*self.ONE, "--resume", str(known))
        self.assertEqual((rows, self.assembled), ([], []))
        self.assertEqual(
            last, "0 kernels checked by 0 checks, 1 known, 0 bad, 0 left"
        )

    def test_kernels_that_are_there_are_compiled_again(self):
        for option, times in (((), 1), ((), 2), (("--keep",), 2)):
            self.run_all(*self.ONE, *option)
            self.assertEqual(self.built, times * [f"{self.NAME}-t128"])

    def test_what_lacked_memory_is_repeated_alone(self):
        rows, last = self.run_all(
            *self.ONE, fates={f"{self.NAME} M=8": "memory"}
        )
        self.assertTrue(all(row["ok"] for row in rows))
        self.assertEqual(len(rows), 9)
        first, second = self.asked
        self.assertEqual(second["tokens"], [8])
        self.assertEqual(first["seed"], second["seed"])
        self.assertGreater(second["memory"], first["memory"])
        # A check is repeated only once.
        rows, last = self.run_all(
            *self.ONE, fates={f"{self.NAME} M=8": "never"}, code=1
        )
        self.assertEqual([row["M"] for row in rows if not row["ok"]], [8])
        self.assertEqual(len(self.asked), 2)

    def test_a_process_that_ends_is_replaced(self):
        for fate, note in (
            ("dies", "the process ended with 9"),
            ("lost", "error 700, an illegal memory"),
            ("hangs", "hang"),
        ):
            with self.subTest(fate):
                rows, last = self.run_all(
                    *self.ONE,
                    "--hang",
                    "1",
                    fates={f"{self.NAME} M=8": fate},
                    code=1,
                )
                self.assertEqual(
                    {
                        row["M"]: row.get("note")
                        for row in rows
                        if not row["ok"]
                    },
                    {8: note},
                )
                self.assertEqual(len(rows), 9)
                self.assertEqual(
                    [len(asked["tokens"]) for asked in self.asked], [9, 6]
                )
                self.assertIn("1 bad, 0 left", last)

    def test_what_fails_is_said(self):
        self.digests[f"{self.NAME}-t128"] = "error"
        rows, last = self.run_all(*self.ONE, code=1)
        self.assertEqual(
            last, "1 kernels checked by 0 checks, 0 known, 1 bad, 0 left"
        )
        self.assertIn("fuse-opt: error: no", self.printed)
        self.digests.clear()
        rows, last = self.run_all(*self.ONE, fates={"M=50": "wrong"}, code=1)
        self.assertIn("1 bad", last)
        rows, last = self.run_all(*self.ONE, fates={"start": "dies"}, code=1)
        self.assertIn(
            "process 0 does not begin: the process ended with 3", self.printed
        )
        self.assertIn("1 left", last)

    def memcheck(
        self,
        errors: str,
        code: int = 0,
        stages: tuple[str, ...] = ("check", "memcheck"),
    ) -> dict:
        script = SANITIZER.replace("{ERRORS}", errors)
        with unittest.mock.patch.object(
            check_all, "MEMCHECK", (sys.executable, "-c", script)
        ):
            self.run_all(
                "--set",
                "product",
                "--only",
                "x.*-silu-rms0",
                "--stages",
                *stages,
                "--memcheck",
                "256x768-bf16",
                "--logs",
                str(self.folder / "logs"),
                "--commit",
                "c",
                code=code,
            )
        return json.loads((self.folder / "o.json").read_text())

    def test_small_kernels_run_under_compute_sanitizer(self):
        (self.folder / "logs").mkdir()
        (self.folder / "logs/other.log").write_text("kept")
        data = self.memcheck("0 errors")
        # Two of the 20 kernels are small and of this type. Both processes end.
        self.assertEqual(len({row["case"] for row in data["checks"]}), 20)
        self.assertTrue(all(row["repeats"] == 200 for row in data["checks"]))
        self.assertEqual(
            data["compute_sanitizer"],
            {
                "tool": "memcheck",
                "commit": "c",
                "kernels": 2,
                "checks": 6,
                "errors": 0,
                "names": [
                    f"{family}-256x768-bf16-silu-rms0-t128"
                    for family in ("gated_mlp", "mlp")
                ],
            },
        )
        self.assertEqual(
            self.memcheck("3 errors", 1)["compute_sanitizer"]["errors"], 6
        )
        (self.folder / "o.json").unlink()
        data = self.memcheck("0 errors", stages=("memcheck",))
        self.assertEqual(data["checks"], [])
        self.assertTrue((self.folder / "logs/other.log").exists())
        self.assertEqual(data["compute_sanitizer"]["checks"], 6)
        self.memcheck("unknown", 1)
        self.assertIn("BAD memcheck: 0 errors; 2 of 2 logs", self.printed)

    def small(self, rows: str, *arguments: str, code: int = 0) -> dict:
        """Runs small kernels of all forms.

        A stand-in program runs the other ops.
        """
        script = SANITIZER.replace("{ERRORS}", "0 errors")

        class Others(check_all.OtherOps):
            def __init__(self, *options) -> None:
                super().__init__(*options)
                self.command = [sys.executable, "-c", OTHERS, rows]
                self.folder.mkdir(parents=True, exist_ok=True)

        with (
            unittest.mock.patch.object(
                check_all, "MEMCHECK", (sys.executable, "-c", script)
            ),
            unittest.mock.patch.object(check_all, "OtherOps", Others),
        ):
            self.run_all(
                "--stages",
                "memcheck",
                "--logs",
                str(self.folder / "logs"),
                "--commit",
                "c",
                *arguments,
                code=code,
            )
        return json.loads((self.folder / "o.json").read_text())[
            "compute_sanitizer"
        ]

    def test_small_kernels_of_all_forms_do(self):
        good = {"case": "norm_linear-7", "ok": True}
        names = {case.name() for case in memcheck_cases()}
        data = self.small(json.dumps([good, good]))
        self.assertEqual(data["names"], sorted({*names, "norm_linear-7"}))
        self.assertIn("mlp-256x768-bf16-gelu-layer-t72", names)
        self.assertEqual(
            data["checks"],
            len(self.asked)
            and sum(len(asked["tokens"]) for asked in self.asked) + 2,
        )
        self.small(json.dumps([good, {**good, "ok": False}]), code=1)
        self.assertIn(
            'BAD rows: [{"case": "norm_linear-7", "ok": false}]', self.printed
        )
        self.small("no JSON", code=1)
        self.assertIn("BAD rows: measure: no JSON", self.printed)
        data = self.small("no JSON", "--only", "^mlp-256x768-.*-t192")
        self.assertEqual(data["kernels"], 2)

    def test_processes_under_compute_sanitizer_are_renewed(self):
        logs = self.folder / "logs"
        data = self.small("[]")
        # Each of the two processes restarts after four kernels.
        self.assertGreaterEqual(
            len(list(logs.glob("memcheck-*.log"))), data["kernels"] / 4
        )

    def test_what_lacks_memory_there_is_left(self):
        script = SANITIZER.replace("{ERRORS}", "0 errors")
        with unittest.mock.patch.object(
            check_all, "MEMCHECK", (sys.executable, "-c", script)
        ):
            rows, last = self.run_all(
                *self.ONE,
                "--stages",
                "memcheck",
                "--memcheck",
                ".",
                "--logs",
                str(self.folder / "logs"),
                "--commit",
                "c",
                fates={f"{self.NAME} M=33": "never"},
                code=1,
            )
        self.assertEqual(
            last, "0 kernels checked by 2 checks, 0 known, 0 bad, 1 left"
        )
        self.assertIn(f"{self.NAME}-t128: no memory, left", self.printed)
        data = json.loads((self.folder / "o.json").read_text())
        self.assertEqual(data["compute_sanitizer"]["errors"], 0)

    def test_few_numbers_are_spread(self):
        numbers = (1, 7, 8, 16, 33, 50, 64, 100, 128)
        self.assertEqual(check_all.spread(numbers, 3), (1, 33, 128))
        self.assertEqual(check_all.spread(numbers[:4], 3), (1, 7, 16))
        for count in (0, 1, 3):
            self.assertEqual(
                check_all.spread(numbers[:count], 3), numbers[:count]
            )

    def test_nothing_is_begun_after_the_budget(self):
        _, last = self.run_all(*self.ONE, "--budget", "0")
        self.assertEqual(
            last, "0 kernels checked by 0 checks, 0 known, 0 bad, 1 left"
        )

    def test_a_name_without_kernels_is_an_error(self):
        with self.assertRaisesRegex(
            SystemExit,
            "no kernel is called '7x7': expected part of a name such as gated_",
        ):
            self.run_all("--set", "product", "--only", "7x7")
        with self.assertRaisesRegex(
            SystemExit,
            "no small kernel is called "
            "'7x7': expected part of a name such as "
            "gated_mlp-256x768-bf16",
        ):
            self.run_all(
                "--stages",
                "memcheck",
                "--only",
                "7x7",
                "--logs",
                str(self.folder / "logs"),
            )


class Chains(unittest.TestCase):
    """Tests chains of layers that add one, without a GPU."""

    def layers(
        self,
        dependent: bool = True,
        launches: int = 1,
        cooperative: bool = True,
    ) -> Layers:
        def make(plan, module, weights, activations, *_):
            runner = unittest.mock.Mock(
                results=[torch.zeros(2, 3, dtype=torch.bfloat16)]
            )

            def launch(overlap: bool = False, exclusive: bool = False) -> None:
                self.calls.append((weights, overlap, exclusive))
                runner.results[0].copy_(activations["x"] + 1)

            runner.side_effect = launch
            return runner

        setattr(make, "make_workspace", lambda plan: None)
        self.calls: list[tuple] = []
        launch = unittest.mock.Mock(cooperative=cooperative)
        plan = unittest.mock.Mock(
            dependent=dependent, launches=[launch] * launches
        )
        with unittest.mock.patch("fuse_bench.common.driver.Runner", make):
            return Layers(
                plan,
                None,
                ["a", "b", "c"],
                torch.zeros(2, 3, dtype=torch.bfloat16),
                [{}] * 3,
            )

    def test_each_layer_reads_the_one_before(self):
        layers = self.layers()
        layers(True, True)
        self.assertEqual(
            [runner.results[0][1, 2].item() for runner in layers.runners],
            [1, 2, 3],
        )
        self.assertEqual(
            self.calls,
            [("a", False, True), ("b", True, True), ("c", True, True)],
        )

    def test_ways_are_those_that_plans_allow(self):
        for arguments, ways in (
            ({}, {"": (True, False), "-exclusive": (True, True)}),
            ({"dependent": False}, {"": (False, False)}),
            ({"launches": 3}, {"": (True, False)}),
            ({"cooperative": False}, {"": (True, False)}),
        ):
            layers = self.layers(**arguments)
            found = {}
            for way, call in layers.ways().items():
                call()
                found[way] = self.calls[-1][1:]
            self.assertEqual(found, ways)

    def test_changed_rounds_are_counted(self):
        layers = self.layers()
        middle = layers.runners[1].results[0]
        for wrong in (set(), {0, 3}, {19}):
            done = []

            def call() -> None:
                layers()
                if len(done) in wrong:
                    middle[0, 0] = 7
                if len(done) == max(wrong, default=99):
                    middle[1, 1] = 7
                done.append(0)

            self.assertEqual(
                soak.count_changes(layers, call, 15, lambda function: function),
                (len(wrong), 20),
            )

    def test_kernels_run_with_the_tokens_that_they_are_timed_with(self):
        for shape, most, tokens in (
            ((2048, 16384), 128, [128]),
            ((2048, 16384), 104, [100]),
            ((2048, 16384), 8, [1, 7, 8]),
            ((3600, 10256), 56, [50]),
            # These tiles are multiples of 16.
            ((3600, 10256), 64, [50]),
            ((3600, 10256), 16, [1, 7]),
            ((2048, 16384), 256, []),
            ((256, 768), 128, []),
        ):
            problem = timed_problem(
                *shape, "gelu_tanh" if shape[0] == 2048 else "silu", BF16
            )
            plan = unittest.mock.Mock(problem=problem, max_tokens=most)
            self.assertEqual(soak.chosen_tokens(plan), tokens)


if __name__ == "__main__":
    unittest.main()
