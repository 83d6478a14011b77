# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Notes on adapters in the members of a site."""

import unittest
import warnings

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import FusionWarning
from fuse_mlir.fusion.modules import fused_sites
from tests.models import LLAMA, NORM_MLP, needs_library, transformer

torch.set_num_threads(1)

IDS = torch.tensor([[3, 14, 15, 9, 26, 5]])


class LoraLinear(nn.Module):
    """As PEFT puts one in the place of a linear."""

    def __init__(self, base_layer, rank=4):
        super().__init__()
        self.base_layer = base_layer
        self.lora_A = nn.Linear(base_layer.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, base_layer.out_features, bias=False)

    def forward(self, x):
        return self.base_layer(x) + self.lora_B(self.lora_A(x)) * 2.0


def adapt(model, *names):
    """Puts an adapter on linears of the first MLP."""
    mlp = model.model.layers[0].mlp
    for name in names or ("gate_proj", "up_proj", "down_proj"):
        setattr(mlp, name, LoraLinear(getattr(mlp, name)))
    return model.eval().requires_grad_(False)


@needs_library
class Adapters(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model = transformer(
            "qwen3", torch.float32, **{**LLAMA, "num_hidden_layers": 2}
        )

    def test_finding_16_a_site_with_adapters_says_what_it_lost(self):
        adapt(self.model)
        reason = (
            "not gated_mlp, because 'mlp.gate_proj', one of 3, is a "
            "LoraLinear of tests, which adds to the result of its "
            "'base_layer'; merge"
        )
        for found in (
            fuse_mlir.explain(self.model, NORM_MLP),
            fuse_mlir.fuse_modules(self.model, NORM_MLP),
            fuse_mlir.explain(self.model, NORM_MLP),
        ):
            self.assertEqual(
                [s.families for s in found],
                # The adapter's sum is a residual add of the base layer.
                [("norm_linear", "fused_linear"), ("gated_mlp",)],
            )
            self.assertIn(reason, found[0].note)
            self.assertEqual(found[1].note, "")
            self.assertIn(reason, str(found))

    def test_finding_16_an_adapter_that_comes_later_is_told(self):
        expected = None
        fuse_mlir.fuse_modules(self.model, only_faster=False)
        with (
            torch.no_grad(),
            self.assertWarnsRegex(
                FusionWarning,
                r"a site 'post_attention_layernorm\+mlp' "
                "changed, and its kernel is norm_linear, which was gated_mlp: "
                "not gated_mlp, because 'mlp.gate_proj' is a LoraLinear",
            ),
        ):
            fused = adapt(self.model, "gate_proj")(IDS).logits
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertTrue(torch.equal(self.model(IDS).logits, fused))
        fuse_mlir.unfuse_modules(self.model)
        with torch.no_grad():
            expected = self.model(IDS).logits
        torch.testing.assert_close(fused, expected)

    def test_chains_that_are_whole_say_nothing(self):
        fuse_mlir.fuse_modules(self.model, only_faster=False)
        # In two layers: projections, MLPs and output projections; and the head.
        self.assertEqual([m.lost for _, m in fused_sites(self.model)], [""] * 7)


if __name__ == "__main__":
    unittest.main()
