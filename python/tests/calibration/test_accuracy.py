# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports on the accuracy cost of static quantization."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from fuse_mlir.calibration.accuracy import (
    BUCKETS,
    VARIANTS,
    accuracy_html,
    accuracy_json,
    accuracy_text,
    compare,
    measure,
)
from fuse_mlir.calibration.scales import Tools
from fuse_mlir.cli import main as cli
from fuse_mlir.errors import CalibrationError
from tests.calibration.test_calibration import MLP
from tests.support import tool


class CompareTest(unittest.TestCase):
    def test_equal(self) -> None:
        x = np.array([[1.0, -2.0], [np.nan, np.inf]])
        row = compare("a", x, "b", x.copy())
        self.assertEqual((row.max_abs, row.mse, row.nonfinite), (0.0, 0.0, 0))
        self.assertAlmostEqual(row.cosine, 1.0)
        self.assertEqual(row.histogram[0], 2)

    def test_numbers(self) -> None:
        reference = np.full((1, 100), 2.0)
        result = reference.copy()
        result[0, :2] += [1.0, -3.0]
        row = compare("a", result, "b", reference)
        self.assertEqual(row.max_abs, 3.0)
        self.assertAlmostEqual(row.mse, 0.1)
        self.assertAlmostEqual(row.relative_l2, 10**0.5 / 20)
        self.assertAlmostEqual(
            row.p99_abs, np.quantile(np.abs(result - reference), 0.99)
        )
        self.assertAlmostEqual(
            row.cosine, float(result.sum() / np.linalg.norm(result) / 10)
        )
        # 1 / 2 is in the bucket up to 1, 3 / 2 beyond it.
        self.assertEqual(len(row.histogram), len(BUCKETS) + 1)
        self.assertEqual(row.histogram[-2:], [1, 1])
        self.assertEqual(sum(row.histogram), 100)

    def test_what_is_finite_on_one_side(self) -> None:
        row = compare(
            "a",
            np.array([1.0, np.nan, np.inf]),
            "b",
            np.array([1.0, 2.0, -np.inf]),
        )
        self.assertEqual(row.nonfinite, 2)

    def test_shapes(self) -> None:
        with self.assertRaisesRegex(
            CalibrationError,
            r"'a' has shape \(2,\), "
            r"'b' has \(3,\)",
        ):
            compare("a", np.zeros(2), "b", np.zeros(3))


class MeasureTest(unittest.TestCase):
    """Runs the tools on a small MLP."""

    def setUp(self) -> None:
        self.tools = Tools(Path(tool("fuse-run")).parent)
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.root = Path(self.directory.name)
        self.source = self.root / "mlp.mlir"
        self.source.write_text(MLP)
        self.weights = self.root / "w.safetensors"
        generator = torch.Generator().manual_seed(0)
        save_file(
            {
                "up.weight": torch.randn(16, 8, generator=generator),
                "down.weight": torch.randn(8, 16, generator=generator),
            },
            self.weights,
        )
        random = np.random.default_rng(0)
        self.small = self.root / "small.npy"
        self.large = self.root / "large.npy"
        np.save(self.small, random.normal(size=(6, 8)).astype(np.float32))
        np.save(
            self.large, (16 * random.normal(size=(6, 8))).astype(np.float32)
        )

    def test_report(self) -> None:
        report = measure(self.tools, self.source, self.weights, [self.small])
        self.assertEqual(report.kernels, ["mlp"])
        self.assertEqual(
            [row.variant for row in report.rows], [*VARIANTS, "static"]
        )
        rows = {row.variant: row for row in report.rows[:-1]}
        for row in rows.values():
            self.assertGreater(row.cosine, 0.995)
            self.assertGreater(row.max_abs, 0.0)
        # Activations in floating point cost less than stored ones.
        self.assertLess(rows["weights only"].mse, rows["static"].mse)
        # Scales by amax do not saturate on the data they come from.
        for entry in report.saturation:
            self.assertEqual(entry.saturated, 0.0)
            self.assertAlmostEqual(entry.headroom, 1.0, places=5)
        text = accuracy_text(report)
        self.assertIn("dynamic per token", text)
        self.assertIn("kernels: mlp", text)
        page = accuracy_html(report)
        self.assertNotIn("http", page)
        self.assertIn("<svg", page)
        data = json.loads(accuracy_json(report))
        self.assertEqual(
            data["scales"]["up"]["input_scale"], report.saturation[0].scale
        )

    def test_saturation_on_other_data(self) -> None:
        report = measure(
            self.tools, self.source, self.weights, [self.large], [self.small]
        )
        up = report.saturation[0]
        self.assertLess(up.headroom, 0.25)
        self.assertGreater(up.saturated, 0.5)
        rows = {row.variant: row for row in report.rows[:-1]}
        # Dynamic scales follow the data, static ones do not.
        self.assertGreater(
            rows["static"].mse, 100 * rows["dynamic per token"].mse
        )

    def test_integers_per_channel(self) -> None:
        report = measure(
            self.tools,
            self.source,
            self.weights,
            [self.small],
            storage="i8",
            per_channel=True,
            order="divide",
        )
        self.assertEqual(report.kernels, ["mlp"])
        self.assertGreater(report.rows[0].cosine, 0.9995)

    def run_command(self, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(
                [
                    "accuracy",
                    *arguments,
                    "--tools",
                    str(Path(tool("fuse-run")).parent),
                ]
            )
        return status, out.getvalue(), err.getvalue()

    def test_command(self) -> None:
        report = self.root / "report.html"
        cache = self.root / "cache"
        base = (
            str(self.small),
            "--source",
            str(self.source),
            "--weights",
            str(self.weights),
            "--cache",
            str(cache),
        )
        status, out, err = self.run_command(*base, "--report", str(report))
        self.assertEqual(status, 0)
        self.assertIn("cosine", out)
        self.assertIn("observed 1 of 1", err)
        self.assertTrue(report.read_text().startswith("<!doctype html>"))
        # The same again reads ranges from the cache.
        status, out, err = self.run_command(*base, "--min-cosine", "0.9999999")
        self.assertEqual(status, 1)
        self.assertIn("is below 0.9999999", out)
        self.assertIn("ranges of 1 files are in the cache", err)

    def test_reports_have_a_head(self) -> None:
        for command, extra in (
            ("accuracy", ["--source", self.source]),
            ("calibrate", ["-o", self.root / "scales.json"]),
        ):
            files = (
                [self.small]
                if command == "accuracy"
                else [self.source, self.small]
            )
            for suffix in ("txt", "json"):
                with self.subTest(command, suffix=suffix):
                    report = self.root / f"report.{suffix}"
                    line = [
                        command,
                        *files,
                        *extra,
                        "--weights",
                        self.weights,
                        "--no-cache",
                        "--tools",
                        Path(tool("fuse-opt")).parent,
                        "--report",
                        report,
                    ]
                    with (
                        contextlib.redirect_stdout(io.StringIO()),
                        contextlib.redirect_stderr(io.StringIO()),
                    ):
                        status = cli.main([*map(str, line)])
                    self.assertEqual(status, 0)
                    text = report.read_text()
                    head = (
                        json.loads(text)["about"]
                        if suffix == "json"
                        else dict(
                            row.split(": ", 1)
                            for row in text.partition("\n\n")[0].splitlines()
                        )
                    )
                    self.assertIn(self.source.name, head["model"])
                    self.assertIn(f"fuse_mlir {command}", head["command"])
                    self.assertIn("torch", head)

    def test_command_errors(self) -> None:
        x = str(self.small)
        for arguments, text in (
            ((x,), "expected either --source or a model"),
            ((x, "--source", "f.mlir"), "--source needs --weights"),
            ((x, "--architecture", "qwen3"), "needs --members and"),
            (
                (x, "--source", "f.mlir", "--architecture", "qwen3"),
                "expected either",
            ),
        ):
            status, _, err = self.run_command(*arguments)
            self.assertEqual(status, 1)
            self.assertIn(text, err)


if __name__ == "__main__":
    unittest.main()
