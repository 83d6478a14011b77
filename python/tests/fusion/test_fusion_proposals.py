# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code in the style of the proposals for transformers works here.

The proposals are n-to-1 kernel fusion through KernelConfig
(huggingface/transformers#45363) and the module fusion API (#44979). With `fuse`
as the kernel, the fused and the unfused model are compared with the original.
"""

import copy
import tempfile
import unittest

import torch
import transformers

from fuse_mlir import (
    FuseError,
    KernelConfig,
    ModuleSpec,
    PatternError,
    fuse_modules,
    fusion_at_load,
    register_fusion_patterns,
    unfuse_modules,
)
from fuse_mlir.fusion.modules import fused_sites
from tests.models import LLAMA, needs_library, transformer

torch.set_num_threads(1)

PATHS = ["model.layers.*.post_attention_layernorm", "model.layers.*.mlp"]
IDS = torch.tensor([[3, 14, 15, 9, 26, 5]])


def qwen3(dtype):
    return transformer("qwen3", dtype, **{**LLAMA, "num_key_value_heads": 2})


@needs_library
class Proposals(unittest.TestCase):
    def check(self, fuse, kind=None):
        """A fused model, unfused, is the original; fused it is near.

        In bf16 kernels round where PyTorch does. Sums of products are in
        another order, which changes last bits of some results; all of these
        models' results are within two roundings.
        """
        for dtype, off in ((torch.float32, 2e-6), (torch.bfloat16, 2**-7)):
            with self.subTest(dtype), torch.no_grad():
                model = qwen3(dtype)
                if kind is not None:
                    model.__class__ = kind(type(model))
                original = copy.deepcopy(model)
                expected = original(IDS).logits
                fuse(model)
                self.assertEqual(len(fused_sites(model)), 4)
                self.assertFalse(fused_sites(original))
                fused = model(IDS).logits
                self.assertLessEqual(
                    float((fused - expected).abs().max()),
                    off * float(expected.abs().max()),
                )
                # Copies of a fused model are undone by themselves.
                other = copy.deepcopy(model)
                unfuse_modules(other)
                self.assertEqual(
                    float((other(IDS).logits - expected).abs().max()), 0.0
                )
                self.assertTrue(torch.equal(model(IDS).logits, fused))
                unfuse_modules(model)
                self.assertEqual(
                    float((model(IDS).logits - expected).abs().max()), 0.0
                )

    def test_kernel_config_with_paths(self):
        config = KernelConfig(
            {(("RMSNorm", PATHS[0]), ("MLP", PATHS[1])): "fuse"}
        )
        self.check(lambda model: fuse_modules(model, config))

    def test_kernel_config_with_a_declaring_class(self):
        def declares(kind):
            return type(
                "Declares",
                (kind,),
                {"_kernel_fusion_patterns": {"RMSNormMLP": PATHS}},
            )

        for kernel in ("fuse:RMSNormMLP", "fuse:gated_mlp", "fuse"):
            with self.subTest(kernel):
                config = KernelConfig({("RMSNorm", "MLP"): kernel})
                self.check(lambda model: fuse_modules(model, config), declares)

    def test_registered_patterns(self):
        def fuse(model):
            register_fusion_patterns(model, {"RMSNormMLP": PATHS})
            fuse_modules(model, "RMSNormMLP")

        self.check(fuse)

    def test_modules_with_specs(self):
        specs = [
            ModuleSpec(inputs=["hidden_states"], outputs=["hidden_states"]),
            ModuleSpec(inputs=["hidden_states"], outputs=["hidden_states"]),
        ]
        self.check(lambda model: fuse_modules(model, PATHS, specs))

    def test_what_is_not_declared(self):
        model = qwen3(torch.float32)
        config = KernelConfig({("RMSNorm", "MLP"): "fuse:RMSNormMLP"})
        with self.assertRaisesRegex(
            PatternError,
            r"declares no pattern "
            r"\('RMSNorm', 'MLP'\); it declares none",
        ):
            fuse_modules(model, config)
        register_fusion_patterns(model, {"A": PATHS, "B": PATHS[::-1]})
        with self.assertRaisesRegex(
            PatternError, r"it declares 'A', 'B'; write"
        ):
            fuse_modules(model, config)
        with self.assertRaisesRegex(
            PatternError, "no pattern 'C'; it declares"
        ):
            fuse_modules(model, "C")
        register_fusion_patterns(model, {"D": ["model.norm"]})
        with self.assertRaisesRegex(
            PatternError, "has 2 names, and 'D' is declared with 1 paths"
        ):
            fuse_modules(model, {("RMSNorm", "MLP"): "fuse:D"})
        with self.assertRaisesRegex(PatternError, "unknown kernel 'fuse:E'"):
            fuse_modules(model, {("RMSNorm",): "fuse:E"})
        with self.assertRaisesRegex(PatternError, "expected a list of globs"):
            register_fusion_patterns(model, {"F": "model.layers.*"})

    def test_finding_10_lines_of_the_proposals_load_a_model(self):
        class MyModel(transformers.Qwen3ForCausalLM):
            _kernel_fusion_patterns = {
                "RMSNormMLP": [
                    "model.layers.*.post_attention_layernorm",
                    "model.layers.*.mlp",
                ],
            }

        inline = KernelConfig(
            {
                (
                    ("RMSNorm", "model.layers.*.post_attention_layernorm"),
                    ("MLP", "model.layers.*.mlp"),
                ): "fuse:gated_mlp",
            }
        )
        declared = KernelConfig({("RMSNorm", "MLP"): "fuse:RMSNormMLP"})
        with tempfile.TemporaryDirectory() as model_id, fusion_at_load():
            model = qwen3(torch.float32)
            model.save_pretrained(model_id)
            with torch.no_grad():
                expected = model(IDS).logits
            for kind, kernel_config in (
                (transformers.AutoModelForCausalLM, inline),
                (MyModel, declared),
            ):
                model = kind.from_pretrained(
                    model_id, use_kernels=True, kernel_config=kernel_config
                )
                original = copy.deepcopy(model)
                unfuse_modules(original)
                with torch.no_grad():
                    self.assertEqual(len(fused_sites(model)), 4)
                    torch.testing.assert_close(model(IDS).logits, expected)
                    self.assertEqual(
                        float((original(IDS).logits - expected).abs().max()),
                        0.0,
                    )

    def test_finding_14_another_family_than_asked_for(self):
        config = KernelConfig(
            {(("RMSNorm", PATHS[0]), ("MLP", PATHS[1])): "fuse:mlp"}
        )
        with self.assertRaisesRegex(
            FuseError,
            "FUSE-N218 other-family: the members form "
            "gated_mlp, and the pattern asks for mlp",
        ):
            fuse_modules(qwen3(torch.float32), config)


if __name__ == "__main__":
    unittest.main()
