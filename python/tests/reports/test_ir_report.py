# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports on the sites of a model."""

import tempfile
import unittest
from pathlib import Path

from fuse_mlir import explain_ir
from fuse_mlir.errors import ExplainError
from tests.support import ROOT, tool

EXAMPLE = ROOT / "examples" / "decoder-model.mlir"
MLP = ROOT / "test" / "Tools" / "fuse-explain" / "targets.mlir"


class Explain(unittest.TestCase):
    def setUp(self):
        self.tools = Path(tool("fuse-explain")).parent

    def test_fused_sites(self):
        report = explain_ir(
            EXAMPLE, ["@norm_mlp->gated_mlp"], tokens=16, tools=self.tools
        )
        self.assertEqual(
            [site.id for site in report.fused if site.level == "modules"],
            ["layers.0.norm+mlp#0", "layers.1.norm+mlp#0"],
        )
        self.assertEqual(report.refused, ())
        site = report.sites[0]
        self.assertEqual(site.kernel, "gated_mlp")
        self.assertEqual(site.members, ("layers.0.norm", "layers.0.mlp"))
        # Norm, two linears, activation, product and linear in one kernel.
        self.assertEqual(site.chain.layers, 6)
        self.assertEqual(site.chain.flops, 3 * 2 * 16 * 64 * 128)
        # Without a target, nothing is called saved.
        self.assertIsNone(site.saved)
        self.assertEqual(report.functions, ())

    def test_savings_are_those_of_the_target(self):
        saved = {}
        text = MLP.read_text()
        for chip, type_ in (
            ("sm_90a", "bf16"),
            ("sm_80", "bf16"),
            ("sm_80", "f32"),
        ):
            report = explain_ir(
                text.replace("bf16", type_), chip=chip, tools=self.tools
            )
            (site,) = report.fused
            (function,) = report.functions
            self.assertIsNone(report.problem)
            self.assertEqual(
                site.saved.launches,
                function.unfused.launches - function.fused.launches,
            )
            saved[chip, type_] = site.saved
        # GPUs have no kernel of f32: a fused op becomes its layers again.
        wide = saved["sm_80", "f32"]
        self.assertEqual((wide.launches, wide.bytes), (0, 0))
        for chip in ("sm_90a", "sm_80"):
            self.assertGreater(saved[chip, "bf16"].launches, 0)

    def test_problem_of_the_target(self):
        text = "func.func @f(%x: index) -> index { return %x : index }"
        report = explain_ir(text, chip="sm_80", tools=self.tools)
        self.assertIn("index, expected a ranked tensor", report.problem)
        with self.assertRaisesRegex(ExplainError, "unknown chip 'sm_1'"):
            explain_ir(text, chip="sm_1", tools=self.tools)
        with self.assertRaisesRegex(ExplainError, "one target, got"):
            explain_ir(text, chip="sm_80", cpu="native", tools=self.tools)

    def test_refused_sites_have_a_reason_and_a_prediction(self):
        text = EXAMPLE.read_text().replace(
            'nn.module @mlp class "GatedMLP"',
            'nn.module @mlp class "GatedMLP" hooks(["accelerate"])',
            1,
        )
        report = explain_ir(
            text, ["@norm_mlp->gated_mlp"], tokens=16, tools=self.tools
        )
        (site,) = report.refused
        self.assertEqual(site.reason, "FUSE-N208")
        self.assertIn("hooks accelerate", site.detail)
        self.assertEqual(site.suggestion, "remove the hooks before fusing")
        fused = next(s for s in report.fused if s.level == "modules")
        self.assertEqual(site.chain, fused.chain)

    def test_page(self):
        with tempfile.TemporaryDirectory() as directory:
            page = Path(directory) / "report.html"
            explain_ir(
                EXAMPLE, ["@norm_mlp->gated_mlp"], html=page, tools=self.tools
            )
            self.assertIn("layers.1.norm+mlp#0", page.read_text())

    def test_errors(self):
        with self.assertRaisesRegex(ExplainError, "no pattern 'other'"):
            explain_ir(EXAMPLE, ["@other->mlp"], tools=self.tools)
        with self.assertRaisesRegex(ExplainError, "expected"):
            explain_ir("nn.model", tools=self.tools)
        with tempfile.TemporaryDirectory() as directory:
            with self.assertRaisesRegex(ExplainError, "no fuse-explain in"):
                explain_ir(EXAMPLE, tools=directory)
