# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sites in models of transformers, and their results."""

import unittest

import torch

import fuse_mlir
from fuse_mlir.fusion.modules import fused_sites
from tests.models import LLAMA, NORM_MLP, SIZES, needs_library, transformer

torch.set_num_threads(1)

VISION = {**SIZES, "image_size": 16, "patch_size": 8}
VISION.pop("vocab_size")

# Model type: settings, parents of the sites, their members, the kernel.
DECODER = "model.layers.{}"
ARCHITECTURES = {
    "qwen3": (LLAMA, DECODER, "post_attention_layernorm+mlp", "gated_mlp"),
    "llama": (LLAMA, DECODER, "post_attention_layernorm+mlp", "gated_mlp"),
    "gemma3_text": (
        LLAMA,
        DECODER,
        "pre_feedforward_layernorm+mlp+post_feedforward_layernorm",
        "gated_mlp",
    ),
    "gpt_neox": (
        SIZES,
        "gpt_neox.layers.{}",
        "post_attention_layernorm+mlp",
        "mlp",
    ),
    "bert": (SIZES, "encoder.layer.{}", "intermediate+output", "mlp"),
    # A merged projection of gate and up.
    "phi3": (
        {**SIZES, "num_key_value_heads": 1, "pad_token_id": 0},
        DECODER,
        "post_attention_layernorm+mlp",
        "gated_mlp",
    ),
    # Attention reads the norm too, so that the MLP is fused alone.
    "cohere": (LLAMA, DECODER, "mlp", "gated_mlp"),
    "siglip_vision_model": (
        VISION,
        "encoder.layers.{}",
        "layer_norm2+mlp",
        "mlp",
    ),
}
#: Members of the sites of attention; others have none.
ATTENTION = {
    **dict.fromkeys(
        ("qwen3", "llama", "gemma3_text"),
        "input_layernorm+q_proj+k_proj+v_proj",
    ),
    "gpt_neox": "input_layernorm+query_key_value",
    "phi3": "input_layernorm+qkv_proj",
    "siglip_vision_model": "layer_norm1+q_proj+k_proj+v_proj",
    "cohere": "input_layernorm+q_proj+k_proj+v_proj",
}
#: Last norms and heads, with a selection of rows in between.
HEADS = ["norm+lm_head#0", "final_layer_norm+lm_head#0"]
# The pooling head also has an MLP.
MORE = {"siglip_vision_model": ["head.layernorm+mlp#0"]}


def logits(model):
    from fuse_mlir.matching.dataflow import default_inputs

    with torch.no_grad():
        result = model(**default_inputs(model))
    return result[0] if "logits" not in result else result.logits


@needs_library
class Architectures(unittest.TestCase):
    def test_each(self):
        for kind, (settings, parent, members, family) in ARCHITECTURES.items():
            with self.subTest(kind):
                self.check(kind, settings, parent, members, family)

    def check(self, kind, settings, parent, members, family):
        model = transformer(kind, **settings)
        before = [(p, id(m)) for p, m in model.named_modules()]
        keys = list(model.state_dict())
        expected = logits(model)
        result = fuse_mlir.fuse_modules(model, only_faster=False)
        self.assertEqual(
            [
                f"{s.parent}.{s.id}"
                for s in result.fused
                if s.families == (family,)
            ],
            [f"{parent.format(i)}.{members}#{i}" for i in range(4)]
            + MORE.get(kind, []),
        )
        self.assertEqual(
            [
                f"{s.parent}.{s.id}"
                for s in result.fused
                if s.families == ("norm_linear",) and "head" not in s.id
            ],
            [
                f"{parent.format(i)}.{ATTENTION[kind]}#{i}"
                for i in range(4)
                if kind in ATTENTION
            ],
        )
        self.assertEqual(
            [s.id for s in result.fused if s.id in HEADS],
            HEADS[-1:]
            if kind == "gpt_neox"
            else HEADS[:1]
            if kind not in ("bert", "siglip_vision_model")
            else [],
        )
        self.assertEqual(len(result.refused), 4 if kind == "cohere" else 0)
        self.assertEqual(list(model.state_dict()), keys)
        checks = fuse_mlir.verify(model)
        self.assertTrue(checks, str(checks))
        self.assertEqual(len(checks.checks), 3 * len(result.fused) + 1)
        ours = logits(model)
        # Sums of a few dozen products differ by their order alone.
        torch.testing.assert_close(ours, expected, atol=2e-2, rtol=2e-2)
        fuse_mlir.unfuse_modules(model)
        self.assertEqual([(p, id(m)) for p, m in model.named_modules()], before)
        self.assertTrue(torch.equal(logits(model), expected))

    def test_images_beside_a_text(self):
        one = {
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
        }
        for kind, family, more in (
            ("clip", "norm_linear", []),
            ("siglip", "mlp", ["head.layernorm"]),
        ):
            with self.subTest(kind):
                model = transformer(
                    kind,
                    text_config={**one, "vocab_size": 64},
                    vision_config={**one, "image_size": 16, "patch_size": 8},
                )
                expected = logits(model)
                result = fuse_mlir.fuse_modules(model, only_faster=False)
                mlps = [s for s in result.fused if "mlp" in s.id]
                attention = [s for s in result.fused if "q_proj" in s.id]
                self.assertEqual(len(attention), 2)
                # Both are read, or one would have no sites.
                self.assertEqual(
                    [
                        path.removesuffix(".encoder.layers.0.layer_norm2")
                        for path in (s.members[0] for s in mlps)
                    ],
                    ["text_model", "vision_model"]
                    + [f"vision_model.{path}" for path in more],
                )
                self.assertEqual({s.families for s in mlps}, {(family,)})
                self.assertTrue(fuse_mlir.verify(model))
                fuse_mlir.unfuse_modules(model)
                self.assertTrue(torch.equal(logits(model), expected))

    def test_full_width(self):
        model = transformer(
            "qwen3",
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            vocab_size=64,
            head_dim=16,
        )
        checks = fuse_mlir.verify(model)
        self.assertTrue(checks, str(checks))

    def test_generation(self):
        model = transformer("llama", **LLAMA)
        ids = torch.tensor([[5, 9, 33]])

        def tokens():
            return model.generate(
                ids, max_new_tokens=8, do_sample=False, pad_token_id=0
            ).tolist()

        expected = tokens()
        with fuse_mlir.fused(model, NORM_MLP) as result:
            self.assertEqual(len(result.fused), 4)
            self.assertEqual(tokens(), expected)
        self.assertEqual(tokens(), expected)

    def test_save_pretrained(self):
        import tempfile

        from transformers import AutoModelForCausalLM

        model = transformer("llama", **LLAMA)
        expected = {k: v.clone() for k, v in model.state_dict().items()}
        fuse_mlir.fuse_modules(model, only_faster=False)
        with tempfile.TemporaryDirectory() as directory:
            model.save_pretrained(directory)
            loaded = AutoModelForCausalLM.from_pretrained(
                directory, dtype=torch.bfloat16
            ).eval()
        self.assertFalse(fused_sites(loaded))
        self.assertEqual(list(loaded.state_dict()), list(expected))
        for name, tensor in loaded.state_dict().items():
            self.assertTrue(torch.equal(tensor, expected[name]), name)


@needs_library
class Explanations(unittest.TestCase):
    def explain(self, kind, **settings):
        return fuse_mlir.explain(
            transformer(kind, **settings), only_faster=False
        )

    def test_op_without_a_translation_is_named_with_its_line(self):
        model = transformer(
            "mixtral", **SIZES, num_key_value_heads=1, num_local_experts=4
        )
        found = fuse_mlir.explain(
            model,
            {
                (
                    ("RMSNorm", "model.layers.*.post_attention_layernorm"),
                    ("MixtralSparseMoeBlock", "model.layers.*.mlp"),
                ): "fuse"
            },
        )
        self.assertEqual([s.status for s in found], ["refused"] * 4)
        self.assertRegex(
            found[0].reason,
            r"modeling_mixtral.py:\d+ \(module "
            r"'mlp.gate'\): no translation for 'aten",
        )

    def test_norm_that_attention_reads_too(self):
        found = self.explain("phi", **SIZES)
        self.assertEqual(
            [s.id for s in found[:2]], ["input_layernorm+mlp#0", "mlp#0"]
        )
        # Attention's own sites follow.
        self.assertEqual(len(found), 17)
        self.assertIn(
            "FUSE-N002 intermediate-has-other-users: the result of "
            "'model.layers.0.input_layernorm' is also read by "
            "'linear'",
            found[0].reason,
        )

    def test_models_without_weights(self):
        from fuse_mlir.checkpoint.models import build_model

        model = build_model(
            "qwen3",
            {**LLAMA, "hidden_size": 4096, "intermediate_size": 12288},
            torch.bfloat16,
        )
        found = fuse_mlir.explain(model)
        self.assertEqual(
            [(s.status, s.families) for s in found],
            [
                ("could fuse", (family,))
                for family, count in (
                    ("gated_mlp", 4),
                    # One more is the head.
                    ("norm_linear", 5),
                    ("fused_linear", 4),
                )
                for _ in range(count)
            ],
        )

    def test_fused_sites_and_forms(self):
        import json

        from fuse_mlir.reports import report

        model = transformer("llama", **LLAMA)
        fuse_mlir.fuse_modules(
            model,
            {
                tuple(
                    (c, g.replace("*", "2")) for c, g in next(iter(NORM_MLP))
                ): "fuse"
            },
        )
        found = fuse_mlir.explain(model, only_faster=False)
        self.assertEqual(
            sorted(s.status for s in found), ["could fuse"] * 12 + ["fused"]
        )
        self.assertTrue(str(found).endswith("1 fused, 12 could fuse\n"))
        self.assertEqual(len(json.loads(report.sites_json(found))), 13)
        page = report.sites_html(found, "<Llama>")
        self.assertIn("<h1>&lt;Llama&gt;</h1>", page)
        self.assertEqual(page.count("<tr class="), 13)


@needs_library
class Verification(unittest.TestCase):
    def test_a_wrong_kernel_is_found(self):
        model = transformer("llama", **LLAMA)
        fuse_mlir.fuse_modules(model, NORM_MLP)
        first = fused_sites(model)[0][1]._kernel
        # The kernel reads other weights than the members have.
        wrong = first.chain.mlp.up_proj.weight.clone().neg_()
        index = first._names.index("mlp.up_proj.weight")
        first._sources[index] = wrong
        checks = fuse_mlir.verify(model)
        self.assertFalse(checks)
        failed = [c.rung for c in checks.checks if not c.passed]
        self.assertIn("V2", failed)

    def test_bench(self):
        model = transformer("llama", **{**LLAMA, "num_hidden_layers": 1})
        timing = fuse_mlir.bench(model, repeats=3)
        self.assertGreater(timing.fused, 0)
        self.assertIn("times as fast", str(timing))


if __name__ == "__main__":
    unittest.main()
