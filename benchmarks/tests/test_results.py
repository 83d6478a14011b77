# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests result files, and the tables made from them."""

import contextlib
import io
import json
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from fuse_bench.common.cases import SETS, all_cases
from fuse_bench.common.environment import write_json
from fuse_bench.common.problem import NORMS, Problem
from fuse_bench.common.results import Results, best_peer, side_by_side, summary
from fuse_bench.reference import sum_checks
from fuse_bench.reports import condense, gpu_tables, merge, stale
from fuse_bench.suites import sweep
from tests.support import ROOT, fuse_opt


class ResultFiles(unittest.TestCase):
    def row(self, system: str, time: float) -> dict:
        return {
            "K": 64,
            "H": 128,
            "M": 1,
            "act": "silu",
            "dtype": "bf16",
            "scales": "none",
            "system": system,
            "protocol": "single",
            "median_us": time,
            "min_us": time,
            "max_us": time,
            "floor_us": 10.0,
            "rel_err": 0.0,
            "weight_bytes": 10**6,
        }

    def test_a_row_is_a_line(self):
        data = {"gpu": "H200", "rows": [{"M": 1}, {"M": 8}], "checks": []}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "new" / "r.json"
            write_json(path, data)
            self.assertEqual(
                path.read_text().splitlines(),
                [
                    "{",
                    ' "gpu": "H200",',
                    ' "rows": [',
                    '  {"M": 1},',
                    '  {"M": 8}',
                    " ],",
                    ' "checks": []',
                    "}",
                ],
            )
            # A failed write leaves the file unchanged.
            with self.assertRaises(TypeError):
                write_json(path, {"rows": [{1, 2}]})
            self.assertEqual(json.loads(path.read_text()), data)

    def test_later_rows_replace_earlier_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "r.json"
            first = Results(path)
            first.add_row(self.row("fuse", 20.0))
            first.add_row(self.row("torch-compile", 30.0))
            first.save()
            second = Results(path)
            second.add_row(self.row("fuse", 15.0))
            second.save()
            rows = Results(path).rows
            self.assertEqual(
                [(row["system"], row["median_us"]) for row in rows],
                [("fuse", 15.0), ("torch-compile", 30.0)],
            )
            table = summary(rows)
            self.assertIn("| 2.000 | - | 3.000 | 10.0 | 1.50 |", table)

    def test_checks_are_summed_up_for_each_kernel(self):
        check = {
            "case": "mlp",
            "tile": 8,
            "M": 1,
            "digest": "a",
            "commit": "c",
            "repeats": 200,
            "differing_repeats": 0,
            "poisoned": 0,
            "hidden_equal": 0.9,
            "hidden_outside": 0,
            "rel_err": 0.004,
            "ok": True,
        }
        runs = [
            {
                "gpu": "H200",
                "checks": [
                    check,
                    {**check, "M": 8, "hidden_equal": 0.8},
                    {**check, "case": "other", "digest": "old", "M": 7},
                ],
            },
            {
                "gpu": "H200",
                "checks": [
                    {**check, "M": 7, "rel_err": 0.005},
                    {
                        **check,
                        "case": "other",
                        "ok": False,
                        "hidden_outside": 3,
                    },
                ],
            },
        ]
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{i}.json" for i in range(3)]
            for path, run in zip(paths, runs):
                path.write_text(json.dumps(run))
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                self.assertEqual(
                    sum_checks.main(
                        [*map(str, paths[:2]), "-o", str(paths[2])]
                    ),
                    1,
                )
            stored = json.loads(paths[2].read_text())
        self.assertIn(
            "2 kernels, 4 checks, 1 kernels failed", printed.getvalue()
        )
        good, bad = stored["kernels"]
        self.assertEqual(
            (good["tokens"], good["ok"], good["hidden_equal"], good["rel_err"]),
            ([1, 7, 8], True, 0.8, 0.005),
        )
        # Results of an older kernel do not apply to this one.
        self.assertEqual(
            (bad["tokens"], bad["ok"], bad["hidden_outside"]), ([1], False, 3)
        )

        # An existing summary can be continued.
        def again(*checks: dict) -> dict:
            found = sum_checks.sum_up([stored, {"checks": list(checks)}])
            self.assertEqual(found[1], bad)
            return found[0]

        self.assertEqual(again(), good)
        more = again({**check, "M": 16, "rel_err": 0.1})
        self.assertEqual(
            (more["tokens"], more["rel_err"], more["ok"]),
            ([1, 7, 8, 16], 0.1, True),
        )
        self.assertFalse(again({**check, "M": 16, "ok": False})["ok"])
        other = again({**check, "digest": "b"})
        self.assertEqual((other["tokens"], other["digest"]), ([1], "b"))

    def test_checks_that_are_made_again_count_once(self):
        check = {"case": "mlp", "tile": 8, "digest": "a", "ok": True}
        bad = {**check, "ok": False, "note": "out of memory"}
        for first, ok in (
            ({"M": 1}, True),
            ({"M": 2}, False),
            ({"tokens": [1]}, True),
            ({"tokens": [1, 2]}, False),
        ):
            name = "kernels" if "tokens" in first else "checks"
            (row,) = sum_checks.sum_up(
                [{name: [{**bad, **first}]}, {"checks": [{**check, "M": 1}]}]
            )
            self.assertEqual(row["ok"], ok, first)

    def test_sets_choose_among_checks(self):
        names = [
            all_cases([name])[0].name()
            for name in ("product", "checked", "timed")
        ]
        checks = []
        for name in names:
            case, _, tile = name.rpartition("-t")
            checks.append(
                {
                    "case": case,
                    "tile": int(tile) + 8 * (name == names[2]),
                    "M": 1,
                    "digest": "a",
                    "ok": True,
                }
            )
        with tempfile.TemporaryDirectory() as folder:
            run, first, second = (Path(folder) / f"{i}.json" for i in range(3))
            run.write_text(json.dumps({"rows": [], "checks": checks}))
            with contextlib.redirect_stdout(io.StringIO()):
                merge.main([str(first), str(run), "--set", "timed"])
                sum_checks.main(
                    [str(run), "--set", "product", "-o", str(second)]
                )
            merged = json.loads(first.read_text())["checks"]
            summed = json.loads(second.read_text())["kernels"]
        for found, expected in ((merged, checks[2]), (summed, checks[0])):
            self.assertEqual(
                [(row["case"], row["tile"]) for row in found],
                [(expected["case"], expected["tile"])],
            )

    def test_merged_runs_keep_what_they_do_not_have(self):
        row = {
            "K": 16,
            "H": 32,
            "M": 1,
            "act": "silu",
            "dtype": "bf16",
            "scales": "none",
            "system": "fuse",
            "protocol": "single",
            "gpu": "a",
        }
        with tempfile.TemporaryDirectory() as folder:
            first, second = (Path(folder) / f"{i}.json" for i in range(2))
            results = Results(first)
            results.add_row({**row, "median_us": 2.0})
            results.add_row({**row, "M": 8, "median_us": 3.0})
            results.gpu("a")["ceilings"] = {"copy_tb_per_s": 4.2}
            results.gpu("a")["clocks"] = {
                "sm_mhz_min": 1500.0,
                "sm_mhz_max": 1965.0,
            }
            results.save()
            later = Results(second)
            later.add_row({**row, "median_us": 1.0})
            later.gpu("a")["ceilings"] = {"empty_graph_us": 3.7}
            later.gpu("a")["clocks"] = {
                "sm_mhz_min": 1650.0,
                "sm_mhz_max": 1980.0,
            }
            later.save()
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(merge.main([str(first), str(second)]), 0)
            merged = Results(first)
        self.assertEqual(
            {row["M"]: row["median_us"] for row in merged.rows},
            {1: 1.0, 8: 3.0},
        )
        self.assertEqual(
            merged.data["ceilings"],
            {"copy_tb_per_s": 4.2, "empty_graph_us": 3.7},
        )
        self.assertEqual(
            merged.data["clocks"], {"sm_mhz_min": 1500.0, "sm_mhz_max": 1980.0}
        )

    def test_what_stood_beside_an_earlier_time_goes(self):
        rows = {
            "old": [self.row(name, 20.0) for name in ("fuse", "torch-eager")]
            + [{**self.row("torch-eager", 21.0), "M": 8}],
            "new": [self.row(name, 10.0) for name in ("fuse", "torch-compile")],
            # One kernel is missing, and one peer has no counterpart.
            "none": [
                {**self.row("fuse", 0.0), "M": 8, "median_us": None},
                self.row("torch-eager", 30.0),
            ],
        }
        for runs, expected in (
            (
                ["old", "new"],
                {
                    ("fuse", 10.0),
                    ("torch-compile", 10.0),
                    ("torch-eager", 21.0),
                },
            ),
            (
                ["old", "none"],
                {
                    ("fuse", 20.0),
                    ("fuse", None),
                    ("torch-eager", 30.0),
                    ("torch-eager", 21.0),
                },
            ),
        ):
            with tempfile.TemporaryDirectory() as folder:
                paths = [Path(folder) / run for run in runs]
                for path, run in zip(paths, runs):
                    results = Results(path)
                    for row in rows[run]:
                        results.add_row(row)
                    results.save()
                with contextlib.redirect_stdout(io.StringIO()):
                    merge.main([*map(str, paths)])
                self.assertEqual(
                    {
                        (row["system"], row["median_us"])
                        for row in Results(paths[0]).rows
                    },
                    expected,
                )

    def test_runs_on_two_gpus_are_one_file(self):
        with tempfile.TemporaryDirectory() as folder:
            earlier, first, second = (
                Path(folder) / f"{i}.json" for i in range(3)
            )
            for path, gpu, tokens, least, rate in (
                (earlier, "old", 1, 900.0, 4.0),
                (first, "a", 1, 1500.0, 4.2),
                (second, "b", 8, 1400.0, 4.1),
            ):
                results = Results(path)
                results.add_row(
                    {
                        **self.row("fuse", 20.0),
                        "M": tokens,
                        "run": "1",
                        "gpu": gpu,
                    }
                )
                results.gpu(gpu).update(
                    clocks={"sm_mhz_min": least, "sm_mhz_max": 1980.0},
                    ceilings={"copy_tb_per_s": rate},
                )
                results.save()
            with contextlib.redirect_stdout(io.StringIO()):
                merge.main([*map(str, (earlier, first, second))])
            merged = Results(earlier)
        self.assertEqual(
            [(row["M"], row["gpu"]) for row in merged.rows],
            [(1, "a"), (8, "b")],
        )
        # Entries of GPUs that no row names are removed.
        self.assertEqual(
            {
                name: (
                    gpu["clocks"]["sm_mhz_min"],
                    gpu["ceilings"]["copy_tb_per_s"],
                )
                for name, gpu in merged.data["gpus"].items()
            },
            {"a": (1500.0, 4.2), "b": (1400.0, 4.1)},
        )
        self.assertEqual(merged.data["clocks"]["sm_mhz_min"], 1400.0)
        self.assertEqual(merged.data["ceilings"], {"copy_tb_per_s": 4.2})

    def test_peers_are_those_of_the_same_gpu(self):
        ours, here, there = (
            {**self.row(system, us), "run": "1", "gpu": gpu}
            for system, us, gpu in (
                ("fuse", 20.0, "a"),
                ("torch-compile", 30.0, "a"),
                ("torch-eager", 25.0, "b"),
            )
        )
        self.assertEqual(best_peer([ours, here, there], ours), here)

    def test_kernels_of_rows_and_checks_are_cases(self):
        names = {case.name() for case in all_cases(["timed"], SETS)}
        row = {
            "K": 2048,
            "H": 16384,
            "M": 50,
            "act": "gelu_tanh",
            "tile": 56,
            "dtype": "fp8",
            "system": "fuse",
        }
        check = {
            "case": "gated_mlp-4096x12288-bf16-silu-rms0",
            "tile": 8,
            "M": 7,
        }
        self.assertIn(stale.kernel_of(row), names)
        self.assertIn(stale.kernel_of(check), names)
        # A kernel may serve more tokens than it was compiled for.
        for tile, known in ((104, 104), (112, 104), (120, 120), (88, 88)):
            self.assertEqual(
                stale.kernel_of({**check, "tile": tile}),
                f"gated_mlp-4096x12288-bf16-silu-rms0-t{known}",
            )
        self.assertIsNone(stale.kernel_of({**row, "system": "torch-eager"}))
        relaxed = stale.kernel_of({**row, "system": "fuse-relaxed"})
        self.assertIn("relaxed", relaxed)
        self.assertEqual(
            relaxed,
            stale.kernel_of({**row, "system": "fuse-relaxed-exclusive"}),
        )

    def test_what_is_of_other_kernels_is_named(self):
        case = {"case": "mlp", "tile": 8, "digest": "a"}
        kept = {**case, "M": 1}
        old = {**case, "M": 8, "digest": "b"}
        sums = [{**case, "tokens": [1, 7], "digest": digest} for digest in "ab"]
        with (
            tempfile.TemporaryDirectory() as folder,
            unittest.mock.patch.object(
                stale, "make_digests", lambda *_: {"mlp-t8": "a"}
            ),
            unittest.mock.patch.object(stale, "require_tools"),
        ):

            def run(data: dict, *options: str) -> tuple[int, str]:
                path.write_text(json.dumps(data))
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    code = stale.main([str(path), *options])
                return code, printed.getvalue()

            path = Path(folder) / "r.json"
            self.assertEqual(run({"checks": [kept]})[0], 0)
            code, text = run({"checks": [kept, old]}, "--drop")
            self.assertEqual(code, 1)
            self.assertIn("check mlp-t8 M=8\n", text)
            self.assertIn("1 of 2 checks are of", text)
            self.assertEqual(Results(path).checks, [kept])
            code, text = run({"kernels": sums})
            self.assertIn("check mlp-t8 M=[1, 7]\n", text)
            self.assertIn("1 of 2 checks are of", text)
            with (
                contextlib.redirect_stderr(io.StringIO()) as errors,
                self.assertRaises(SystemExit),
            ):
                run({"kernels": sums}, "--drop")
            self.assertIn("has sums of checks", errors.getvalue())

    def test_tables_have_all_systems_side_by_side(self):
        row = {
            "K": 2048,
            "H": 16384,
            "M": 16,
            "act": "silu",
            "dtype": "bf16",
            "scales": "none",
            "protocol": "single",
            "floor_us": 40.0,
            "rel_err": 4e-3,
            "weight_bytes": 1 << 27,
            "sm_mhz": 1980.0,
            "run": "1",
        }
        text = side_by_side(
            [
                {
                    **row,
                    "system": "fuse",
                    "median_us": 42.0,
                    "min_us": 41.0,
                    "max_us": 44.0,
                },
                {
                    **row,
                    "system": "torch-compile",
                    "median_us": 60.0,
                    "min_us": 58.0,
                    "max_us": 61.0,
                },
            ]
        )
        self.assertEqual(
            text.splitlines()[-1],
            "| single | 2048/16384 | bf16 "
            "| 16 | 40.0 | 42.0 (41.0-44.0) 105 % "
            "| 60.0 (58.0-61.0) 150 % | 1980 |",
        )

    def test_sustained_rows_have_clock_and_power(self):
        row = {
            **self.row("torch-compile", 1300.0),
            "M": 4096,
            "protocol": "sustained",
            "floor_us": None,
            "sm_mhz": 1410.0,
            "power_w": 698.0,
            "over_fuse": 1.31,
            "over_fuse_95": [1.298, 1.314],
        }
        table = side_by_side(
            [
                row,
                {**row, "system": "fuse", "median_us": 1000.0, "power_w": None},
            ]
        )
        self.assertIn("| 1000.0, 1410 MHz | 1300.0, 1410 MHz, 698 W |", table)
        # The bound is the tensor-core peak at the clock of fuse's row.
        self.assertIn(
            "| 1.300 | 1.310 (1.298-1.314) | 1.444 | - | - |",
            summary(
                [
                    row,
                    self.row("fuse", 1000.0)
                    | {
                        "M": 4096,
                        "protocol": "sustained",
                        "floor_us": None,
                        "tensor_us": 900.0,
                    },
                ]
            ),
        )

    def test_a_missing_kernel_has_a_row(self):
        missing = self.row("fuse", 0.0) | {"note": "no kernel"}
        del missing["median_us"]
        table = summary([missing, self.row("torch-compile", 30.0)])
        self.assertIn("no kernel", table)
        self.assertIn("torch-compile 30.0", table)


class Schedules(unittest.TestCase):
    def test_the_committed_table_is_taken(self):
        path = ROOT / "benchmarks/schedules/h200.json"
        for row in json.loads(path.read_text())["rows"]:
            width, hidden, _ = row["widths"]
            problem = Problem(
                row["family"],
                width,
                hidden,
                row["element"],
                "silu",
                NORMS["rms0"],
            )
            with self.subTest(problem.label(), tokens=row["tokens"]):
                text = fuse_opt(
                    problem.to_mlir(row["tokens"]),
                    f"--fuse-select-schedules=table={path}",
                )
                self.assertIn(f"tile.schedule = {row['schedule']}", text)
                self.assertLessEqual(row["median_us"], row["model_choice_us"])


class Sweep(unittest.TestCase):
    @staticmethod
    def row(system: str, tokens: int, time: float) -> dict:
        return {
            "K": 64,
            "H": 256,
            "dtype": "bf16",
            "M": tokens,
            "system": system,
            "range": 128 if tokens <= 128 else 1024,
            "median_us": time,
        }

    def setUp(self) -> None:
        self.rows = [
            self.row("fuse", 128, 10.0),
            self.row("fuse", 129, 24.0),
            self.row("fuse", 1024, 80.0),
            self.row("alone-512", 129, 20.0),
            self.row("cublas-products", 129, 15.0),
        ]

    def test_table_has_the_largest_step_and_what_a_tile_costs(self):
        table = sweep.jumps(self.rows)
        self.assertIn(
            "| 64/256 | bf16 | 10.0 / 80.0 | 10.0 | 56.0 | 129 1024 |", table
        )
        self.assertIn("most 20 % at 129 |", table)

    def test_kernels_for_another_chip_are_beside_a_read(self):
        section = condense.other_chip(
            {
                "protocol": "one launch",
                "chip": "sm_80",
                "checks": [{"ok": True}, {"ok": False}],
                "rows": [
                    self.row("read", 0, 5.0),
                    self.row("fuse", 128, 10.0),
                    self.row("cublas-products", 128, 20.0),
                ],
            }
        )
        self.assertEqual((section["passed"], section["checks"]), (1, 2))
        self.assertIn(
            "| 64/256 | bf16 | 128 | 10.0 | 2.00 | 20.0 | 0.50 | 1 |",
            gpu_tables.other_chip(section),
        )

    def test_systems_of_ranks_are_columns(self):
        def row(part, **values):
            return {"part": part, "us": 10.04, **values}

        section = condense.ranks(
            {
                "ranks": 2,
                "rows": [
                    {"part": "checks", "passed": True},
                    {"part": "checks", "seconds": 1.0},
                    row("block", M=1, system="members"),
                    row("block", M=1, system="fused", us=5.0),
                    row(
                        "collectives", bytes=8, system="nccl", dtype="bfloat16"
                    ),
                    row("collectives", bytes=16, system="nccl"),
                    row("symmetric", bytes=8, system="one_shot"),
                    row("symmetric", bytes=16, system="two_shot"),
                ],
            }
        )
        self.assertEqual((section["passed"], section["checks"]), (1, 1))
        self.assertIn(
            "| 1 | 10.0 | 5.0 |", gpu_tables.by_system(section["block"])
        )
        self.assertIn(
            "| 16 | 10.0 | - | 10.0 |", gpu_tables.by_system(section["sums"])
        )

    def test_weights_are_parameters_with_fixed_scales(self):
        problem = next(p for p, _ in sweep.problems() if p.fp8)
        text = sweep._text(problem)
        self.assertIn('{fuse.parameter = "gate"}', text)
        self.assertNotIn('fuse.parameter = "x"', text)
        self.assertEqual(list(sweep.fixed_scales(problem)), problem.scales())
        fuse_opt(text)


if __name__ == "__main__":
    unittest.main()
