# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The time of a call by kernel, without and with fusion."""

import io
import json
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import torch

import fuse_mlir
from fuse_mlir.cli.main import main
from fuse_mlir.fusion.places import all_sites
from fuse_mlir.reports.profile import kind_of
from fuse_mlir.reports.timeline import COLORS, Bar, timeline
from tests.models import CHAIN, needs_library, net

torch.set_num_threads(1)


class Kinds(unittest.TestCase):
    def test_names(self):
        for name, kind in (
            ("aten::linear", "product"),
            ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "product"),
            ("void cutlass::Kernel2<cutlass_80_wmma_tensorop>", "product"),
            ("flash_fwd_kernel", "attention"),
            ("aten::scaled_dot_product_attention", "attention"),
            ("aten::rms_norm", "norm"),
            ("Memcpy DtoD", "copy"),
            ("vectorized_elementwise_kernel", "other"),
        ):
            self.assertEqual(kind_of(name), kind, name)

    def test_picture(self):
        svg = timeline({"a < b": [Bar("x & y", "fused", 0.0, 10.0)], "c": []})
        self.assertIn("a &lt; b", svg)
        self.assertIn("<title>x &amp; y: 10.0 us</title>", svg)
        self.assertIn(COLORS["fused"], svg)
        self.assertNotIn(COLORS["norm"], svg)


@needs_library
class Profiles(unittest.TestCase):
    def setUp(self):
        self.model, self.x = net()

    def profile(self, **options):
        return fuse_mlir.profile(
            self.model, self.x, {CHAIN: "fuse"}, 1, **options
        )

    def test_both_calls(self):
        found = self.profile()
        self.assertEqual(all_sites(self.model), [])
        self.assertEqual(found.rows, 3)
        kinds = {launch.kind for launch in found.fused.launches}
        self.assertIn("fused", kinds)
        self.assertNotIn(
            "fused", {launch.kind for launch in found.unfused.launches}
        )
        names = [launch.name for launch in found.unfused.launches]
        self.assertEqual(names.count("aten::linear"), 6)
        self.assertEqual(
            [launch.name for launch in found.fused.launches],
            ["fuse_mlir::call", "aten::view_as", "aten::add"] * 2,
        )
        self.assertEqual(
            sum(row[2] for row in found.fused.by_name()),
            len(found.fused.launches),
        )

    def test_sites(self):
        first, _ = self.profile().times
        self.assertEqual(
            (first.site, first.families),
            ("layers.0.norm+mlp#0", ("gated_mlp",)),
        )
        # Three weights of 8 by 16, the norm, and rows in and out, in f32.
        self.assertEqual(first.bytes, 4 * (3 * 8 * 16 + 8 + 2 * 3 * 8))
        self.assertGreater(first.members_us, 0)
        self.assertGreater(first.kernel_us, 0)
        self.assertAlmostEqual(first.of_limit, first.limit_us / first.kernel_us)

    def test_a_fused_model_stays_so(self):
        fuse_mlir.fuse_modules(self.model, {CHAIN: "fuse"}, inputs=self.x)
        self.profile()
        self.assertEqual(len(all_sites(self.model)), 2)

    def test_forms(self):
        found = self.profile()
        text = str(found)
        self.assertIn("a call with 3 tokens takes", text)
        self.assertIn("layers.1.norm+mlp#1", text)
        data = json.loads(found.json())
        self.assertEqual(len(data["sites"]), 2)
        self.assertEqual(data["fused"]["launches"][0]["kind"], "fused")
        page = found.html()
        self.assertEqual(page.count("<svg"), 1)
        self.assertNotIn("http", page)
        self.assertIn("layers.0.norm+mlp#0", page)

    def test_refusals(self):
        self.model.layers[1].mlp.gate.register_forward_hook(lambda *_: None)
        found = self.profile()
        self.assertIn("FUSE-N208", str(found))
        self.assertIn("FUSE-N208", found.html())
        self.assertIn("FUSE-N208", found.json())

    def test_repeats(self):
        with self.assertRaisesRegex(ValueError, "expected 1 repeat or more"):
            fuse_mlir.profile(self.model, self.x, repeats=0)

    def test_command(self):
        settings = [
            f"--set={name}={value}"
            for name, value in (
                ("hidden_size", 32),
                ("intermediate_size", 64),
                ("num_hidden_layers", 1),
                ("num_attention_heads", 2),
                ("num_key_value_heads", 1),
                ("head_dim", 16),
                ("vocab_size", 64),
            )
        ]
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "page.html"
            out = io.StringIO()
            with redirect_stdout(out), redirect_stderr(io.StringIO()):
                status = main(
                    [
                        "explain",
                        "qwen3",
                        "--profile",
                        "--quiet",
                        "--pattern=*=**.post_attention_layernorm,*=**.mlp",
                        "--format=html",
                        f"--output={path}",
                        *settings,
                    ]
                )
            self.assertEqual((status, out.getvalue()), (0, f"report: {path}\n"))
            self.assertIn("<svg", path.read_text())


if __name__ == "__main__":
    unittest.main()
