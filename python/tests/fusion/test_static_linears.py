# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Static FP8 for all linears of a layer."""

import unittest

import torch
from torch import nn

import fuse_mlir
from fuse_mlir.fusion.places import fused_sites
from tests.models import (
    LLAMA,
    SIZES,
    fp8_transformer,
    needs_library,
    snapshot,
    transformer,
)

torch.set_num_threads(1)

TINY = {**LLAMA, "num_hidden_layers": 2}
DATA = [torch.arange(1 + i, 13 + i).view(2, 6) for i in range(3)]
LAYER = {
    "input_layernorm+q_proj+k_proj+v_proj": ("norm_linear",),
    "o_proj": ("fused_linear",),
    "post_attention_layernorm+mlp": ("gated_mlp",),
}


def families(sites):
    found = {}
    for site in sites:
        found.setdefault(site.id.partition("#")[0], []).append(site.families)
    return found


@needs_library
class Calibrated(unittest.TestCase):
    @torch.no_grad()
    def test_all_linears_of_a_layer(self):
        for options in ({}, {"per_channel": True}, {"storage": "i8"}):
            with self.subTest(options):
                model = transformer("llama", **TINY)
                before, expected = snapshot(model), model(DATA[0]).logits
                sites = fuse_mlir.calibrate(
                    model, DATA, linears="all", **options
                )
                self.assertEqual(
                    families(sites.fused),
                    {name: [kind] * 2 for name, kind in LAYER.items()},
                )
                self.assertEqual(
                    sorted(sites.calibration.scales),
                    sorted(
                        path
                        for path, m in model.named_modules()
                        if path != "lm_head"
                        and "_proj" in path
                        and not list(m.children())
                    ),
                )
                for _, place in fused_sites(model):
                    self.assertIn(" scales(", place._kernel.compiled.formed)
                checks = fuse_mlir.verify(model, DATA[0])
                self.assertTrue(checks, str(checks))
                ours = model(DATA[0]).logits.float()
                self.assertGreater(
                    torch.cosine_similarity(
                        ours.flatten(), expected.float().flatten(), 0
                    ),
                    0.99,
                )
                fuse_mlir.unfuse_modules(model)
                self.assertEqual(snapshot(model), before)
                self.assertTrue(torch.equal(model(DATA[0]).logits, expected))

    @torch.no_grad()
    def test_the_layers_share_code(self):
        model = transformer("llama", **TINY)
        fuse_mlir.calibrate(model, DATA, linears="all")
        shared = {}
        for _, place in fused_sites(model):
            name = place.site.partition("#")[0]
            shared.setdefault(name, set()).add(
                id(place._kernel.compiled.shared)
            )
        self.assertEqual(
            {name: len(found) for name, found in shared.items()},
            dict.fromkeys(LAYER, 1),
        )

    def test_mlps_alone(self):
        model = transformer("llama", **TINY)
        sites = fuse_mlir.calibrate(model, DATA)
        self.assertEqual(
            list(families(sites)), ["post_attention_layernorm+mlp"]
        )

    def test_an_unknown_kind(self):
        with self.assertRaisesRegex(
            fuse_mlir.PatternError,
            "unknown linears 'attention'; expected mlp or",
        ):
            fuse_mlir.calibrate(
                transformer("llama", **TINY), DATA, linears="attention"
            )


@needs_library
class Configured(unittest.TestCase):
    def config(self, **options):
        return {"static_quantized_mlp": {"input_quant": "fuse", **options}}

    @torch.no_grad()
    def test_scales_of_a_calibration(self):
        model = transformer("llama", **TINY)
        found = fuse_mlir.calibrate(model, DATA, linears="all")
        expected = model(DATA[0]).logits
        fuse_mlir.unfuse_modules(model)
        sites = fuse_mlir.fuse_modules(
            model,
            fusion_config=self.config(
                any_mlp="fuse",
                any_linear="fuse",
                scales=found.calibration.scales,
            ),
        )
        self.assertEqual(
            families(sites.fused),
            {name: [kind] * 2 for name, kind in LAYER.items()},
        )
        self.assertTrue(torch.equal(model(DATA[0]).logits, expected))

    def test_linears_without_scales(self):
        model = transformer("llama", **TINY)
        sites = fuse_mlir.explain(
            model, fusion_config=self.config(any_linear="fuse")
        )
        reasons = {s.id.partition("#")[0]: s.reason for s in sites}
        self.assertRegex(
            reasons["o_proj"], "FUSE-N303 weight-type: linear 'o_proj'"
        )
        self.assertNotIn("norm+lm_head", reasons)

    def test_other_kernels(self):
        with self.assertRaisesRegex(
            fuse_mlir.PatternError,
            "'any_linear' is 'org/repo'; expected 'fuse'",
        ):
            fuse_mlir.explain(
                transformer("llama", **TINY),
                fusion_config=self.config(any_linear="org/repo"),
            )

    def test_a_pattern_names_the_family(self):
        model = fp8_transformer("llama", everywhere=True, **TINY)
        sites = fuse_mlir.fuse_modules(
            model,
            {
                (("FP8Linear", "model.layers.*.self_attn.o_proj"),): (
                    "fuse:fused_linear"
                )
            },
        )
        self.assertEqual([s.families for s in sites], [("fused_linear",)] * 2)


@needs_library
class Checkpoints(unittest.TestCase):
    def test_stored_weights_and_scales(self):
        for kind, settings, name in (
            ("llama", TINY, "o_proj"),
            ("gpt_neox", {**SIZES, "num_hidden_layers": 2}, "dense"),
        ):
            with self.subTest(kind):
                model = fp8_transformer(kind, everywhere=True, **settings)
                sites = fuse_mlir.fuse_modules(model, only_faster=False)
                self.assertEqual(
                    families(sites.fused)[name], [("fused_linear",)] * 2
                )
                checks = fuse_mlir.verify(model)
                self.assertTrue(checks, str(checks))

    def test_linear_in_floating_point_stays(self):
        model = transformer("llama", **TINY)
        sites = fuse_mlir.explain(model, only_faster=False)
        self.assertNotIn("o_proj", families(sites))
        self.assertIsInstance(model.lm_head, nn.Linear)


if __name__ == "__main__":
    unittest.main()
