# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Activations that are written out as formulas, and may round once."""

import copy
import math
import pickle
import unittest
from unittest import mock

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import FuseError, PatternError
from fuse_mlir.fusion.modules import fused_sites
from fuse_mlir.matching.activations import RoundedOnce, rounds_inside
from tests.models import SIZES, Block, Norm, needs_library, net, transformer

torch.set_num_threads(1)


class NewGELU(nn.Module):
    """As GPT-2 has it."""

    def forward(self, x):
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1 + torch.tanh(inner))


class Dense(nn.Module):
    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(size, hidden)
        self.act = NewGELU()
        self.down = nn.Linear(hidden, size)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class DenseBlock(Block):
    def __init__(self, size: int = 8, hidden: int = 16) -> None:
        super().__init__(size, hidden)
        self.mlp = Dense(size, hidden)


class Written(nn.Module):
    """A module of one function."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


class Which(unittest.TestCase):
    def test_formulas(self):
        self.assertTrue(rounds_inside(NewGELU()))
        for function in (
            lambda x: x * torch.sigmoid(1.702 * x),
            lambda x: torch.square(torch.relu(x)) * 0.3,
        ):
            self.assertTrue(rounds_inside(Written(function)))

    def test_what_rounds_once(self):
        for function in (
            torch.relu,
            lambda x: x,
            lambda x: NewGELU()(x.float()).to(x.dtype),
        ):
            self.assertFalse(rounds_inside(Written(function)))
        self.assertFalse(rounds_inside(nn.GELU()))

    def test_what_is_no_activation(self):
        for function in (
            lambda x: 0.3 * x - x.mean(),
            lambda x: torch.softmax(x, -1),
            lambda x: (0.3 * x * x).sum(),
            lambda x: (0.3 * x * x, x),
            lambda x: 0.3 * x.float() ** 2,
            lambda x: torch.rand_like(x) * x,
            lambda x, y: x * x * y,
            lambda x: x.no_such_thing(),
        ):
            self.assertFalse(rounds_inside(Written(function)))
        self.assertFalse(rounds_inside(Norm(1024)))

    def test_rounded_once(self):
        x = torch.randn(64).bfloat16()
        once = RoundedOnce(NewGELU())
        self.assertTrue(torch.equal(once(x), NewGELU()(x.float()).bfloat16()))
        # Other modules do not change.
        for wide in (x.float(), x.double()):
            self.assertTrue(torch.equal(once(wide), NewGELU()(wide)))


@needs_library
class Relaxed(unittest.TestCase):
    def setUp(self):
        self.model, x = net(2, DenseBlock)
        self.model.bfloat16()
        self.x = x.bfloat16()
        self.expected = self.model(self.x)

    def fuse(self, **options):
        return fuse_mlir.fuse_modules(
            self.model, inputs=self.x, only_faster=False, **options
        )

    def test_exact_says_what_would_be_taken(self):
        site, _ = self.fuse()
        self.assertEqual(site.families, ("norm_linear",))
        self.assertEqual(
            site.note, "without 'mlp.act', which rounding='relaxed' allows"
        )
        fuse_mlir.unfuse_modules(self.model)
        with self.assertRaisesRegex(
            FuseError, "FUSE-N101 .*; rounding='relaxed' allows 'mlp.act'"
        ):
            self.fuse(patterns={(("Dense", "**.mlp"),): "fuse"})

    def test_relaxed(self):
        site, _ = self.fuse(rounding="relaxed")
        self.assertEqual(
            (site.families, site.note),
            (("mlp",), "with 'mlp.act' rounded once"),
        )
        torch.testing.assert_close(
            self.model(self.x), self.expected, atol=2e-2, rtol=2e-2
        )
        self.assertTrue(fuse_mlir.verify(self.model, self.x))
        self.assertEqual(
            fuse_mlir.explain(self.model, inputs=self.x, only_faster=False)[
                0
            ].note,
            site.note,
        )
        for copied in (
            copy.deepcopy(self.model),
            pickle.loads(pickle.dumps(self.model)),
        ):
            self.assertTrue(torch.equal(copied(self.x), self.model(self.x)))
        fuse_mlir.unfuse_modules(self.model)
        self.assertIs(type(self.model.layers[0].mlp.act), NewGELU)
        self.assertTrue(torch.equal(self.model(self.x), self.expected))

    def test_f32_is_exact(self):
        self.model.float()
        self.x = self.x.float()
        site, _ = self.fuse(rounding="relaxed")
        self.assertEqual((site.families, site.note), (("mlp",), ""))

    def test_for_a_check_only(self):
        with mock.patch(
            "fuse_mlir.reports.report.modules.fused",
            side_effect=fuse_mlir.fusion.modules.fused,
        ) as fused:
            for rounding in ("exact", "relaxed"):
                self.assertTrue(
                    fuse_mlir.verify(self.model, self.x, rounding=rounding)
                )
                fuse_mlir.bench(
                    self.model, self.x, repeats=1, rounding=rounding
                )
                self.assertEqual(
                    [c.kwargs["rounding"] for c in fused.call_args_list[-2:]],
                    [rounding] * 2,
                )
        self.assertFalse(fused_sites(self.model))

    def test_another_type_later(self):
        self.fuse(rounding="relaxed")
        kernel = fused_sites(self.model)[0][1]
        self.model.float()
        self.model(self.x.float())
        self.assertEqual(kernel._kernel.note, "")

    def test_gradients(self):
        self.model.requires_grad_(True)
        self.fuse(rounding="relaxed")
        self.model(self.x).float().sum().backward()
        ours = self.model.layers[0].mlp.up.weight.grad.clone()
        self.model.zero_grad()
        fuse_mlir.unfuse_modules(self.model)
        self.model(self.x).float().sum().backward()
        torch.testing.assert_close(
            ours, self.model.layers[0].mlp.up.weight.grad, atol=5e-2, rtol=5e-2
        )

    def test_unknown(self):
        for call in (
            fuse_mlir.fuse_modules,
            fuse_mlir.explain,
            fuse_mlir.verify,
            fuse_mlir.bench,
        ):
            with self.assertRaisesRegex(
                PatternError,
                "unknown rounding 'loose'; expected exact or relaxed",
            ):
                call(self.model, inputs=self.x, rounding="loose")

    def test_static_scales(self):
        found = fuse_mlir.calibrate(self.model, [self.x], rounding="relaxed")
        self.assertEqual(found.fused[0].families, ("mlp",))
        self.assertTrue(fuse_mlir.verify(self.model, self.x))

    def test_models_of_transformers(self):
        one = {"num_hidden_layers": 1}
        vision = {k: v for k, v in SIZES.items() if k != "vocab_size"}
        for kind, family, settings in (
            ("gpt2", "mlp", {**SIZES, **one, "n_positions": 32}),
            (
                "clip_vision_model",
                "mlp",
                {**vision, **one, "image_size": 16, "patch_size": 8},
            ),
            # As Flan-T5 is.
            (
                "t5",
                "gated_mlp",
                {
                    "d_model": 32,
                    "d_ff": 64,
                    "d_kv": 16,
                    "num_layers": 1,
                    "num_heads": 2,
                    "vocab_size": 64,
                    "feed_forward_proj": "gated-gelu",
                },
            ),
        ):
            with self.subTest(kind):
                model = transformer(kind, **settings)
                found = fuse_mlir.fuse_modules(
                    model, rounding="relaxed", only_faster=False
                )
                self.assertEqual(
                    {s.families for s in found.fused}
                    - {("norm_linear",), ("fused_linear",)},
                    {(family,)},
                )
                self.assertTrue(fuse_mlir.verify(model))


if __name__ == "__main__":
    unittest.main()
