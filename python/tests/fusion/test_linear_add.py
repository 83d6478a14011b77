# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An output projection and the residual add that a decoder layer writes."""

import copy
import pickle
import unittest

import torch
from torch import nn

import fuse_mlir
from fuse_mlir.fusion.deferred import Deferred
from fuse_mlir.fusion.linear_add import FusedLinearAdd
from fuse_mlir.fusion.places import fused_sites
from fuse_mlir.native import extension
from tests.models import LLAMA, SIZES, needs_library, snapshot, transformer

torch.set_num_threads(1)

IDS = torch.arange(1, 17).view(2, 8)
#: Settings and members of models whose layers add the output projection.
MODELS = {
    "llama": ({**LLAMA, "num_hidden_layers": 2}, "o_proj+add"),
    # More features in the heads than in the model.
    "qwen3": (
        {**LLAMA, "num_hidden_layers": 2, "head_dim": 32},
        "o_proj+add",
    ),
    "gpt2": (
        {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 64},
        "c_proj+add",
    ),
    # After a dropout.
    "gpt_neox": ({**SIZES, "num_hidden_layers": 2}, "dense+add"),
    # Attention and an MLP are added to the residual one after the other.
    "cohere": ({**LLAMA, "num_hidden_layers": 2}, "o_proj+add"),
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.o_proj = nn.Linear(16, 32)

    def forward(self, x):
        return self.o_proj(torch.tanh(x)), None


class Layer(nn.Module):
    """A residual stream, with what a test writes around the sum."""

    def __init__(self, add):
        super().__init__()
        self.attn, self.add = Attention(), add

    def forward(self, x, residual):
        return self.add(self.attn(x)[0], residual)


class Net(nn.Module):
    def __init__(self, add=lambda hidden, residual: residual + hidden):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([Layer(add), Layer(add)])

    def forward(self, x, residual):
        for layer in self.layers:
            residual = layer(x, residual)
        return residual


def inputs(rows=3):
    torch.manual_seed(1)
    return torch.randn(2, rows, 16), torch.randn(2, rows, 32)


def found(model):
    sites = fuse_mlir.explain(model, inputs=inputs(), only_faster=False)
    return [s.id for s in sites if s.status == "could fuse"]


def fused(**options):
    model = Net().eval().requires_grad_(False)
    fuse_mlir.fuse_modules(model, inputs=inputs(), only_faster=False, **options)
    return model


@needs_library
class Sites(unittest.TestCase):
    def test_sums(self):
        for add in (
            lambda hidden, residual: residual + hidden,
            lambda hidden, residual: hidden + residual,
            lambda hidden, residual: torch.add(residual, hidden),
            lambda hidden, residual: hidden.add(residual),
            lambda hidden, residual: (
                residual + nn.functional.dropout(hidden, 0.5, False)
            ),
        ):
            self.assertEqual(
                found(Net(add).eval()), ["o_proj+add#0", "o_proj+add#1"]
            )

    def test_other_data_flow(self):
        for add in (
            lambda hidden, residual: residual + 2 * hidden,
            lambda hidden, residual: torch.add(residual, hidden, alpha=2),
            lambda hidden, residual: residual + hidden + hidden.mean(),
            lambda hidden, residual: hidden + hidden,
            lambda hidden, residual: hidden + residual[:, :1],
            lambda hidden, residual: hidden + 1,
            lambda hidden, residual: hidden.add_(residual),
        ):
            with self.assertRaisesRegex(
                fuse_mlir.FuseError, "has no chain to fuse"
            ):
                fuse_mlir.fuse_modules(Net(add).eval(), inputs=inputs())

    @torch.no_grad()
    def test_models(self):
        for kind, (settings, name) in MODELS.items():
            with self.subTest(kind):
                model = transformer(kind, torch.float32, **settings)
                before, expected = snapshot(model), model(IDS).logits
                sites = fuse_mlir.fuse_modules(
                    model, only_faster=False, strict=False
                )
                self.assertEqual(
                    [s.families for s in sites if s.id.startswith(name)],
                    [("fused_linear",)] * 2,
                    str(sites),
                )
                for _ in range(2):
                    torch.testing.assert_close(
                        model(IDS).logits, expected, atol=1e-5, rtol=1e-4
                    )
                if extension():
                    counts = [
                        place._fast.count
                        for _, place in fused_sites(model)
                        if place.plan.adds
                    ]
                    self.assertEqual(counts, [1, 1])
                checks = fuse_mlir.verify(model)
                self.assertTrue(checks, str(checks))
                fuse_mlir.unfuse_modules(model)
                self.assertEqual(snapshot(model), before)
                self.assertTrue(torch.equal(model(IDS).logits, expected))

    @torch.no_grad()
    def test_bits_of_bf16(self):
        model = Net().eval().bfloat16()
        x, r = (t.bfloat16() for t in inputs())
        expected = model(x, r)
        fuse_mlir.fuse_modules(model, inputs=(x, r), only_faster=False)
        # The sum of the rounded product, as PyTorch computes it.
        self.assertTrue(torch.equal(model(x, r), expected))


@needs_library
class Calls(unittest.TestCase):
    def setUp(self):
        self.plain, self.model = Net().eval().requires_grad_(False), fused()
        self.x, self.r = inputs()

    def same(self, model=None):
        torch.testing.assert_close(
            (model or self.model)(self.x, self.r), self.plain(self.x, self.r)
        )

    @unittest.skipUnless(extension(), "no extension")
    @torch.no_grad()
    def test_usual_calls_run_in_the_extension(self):
        for _ in range(3):
            self.same()
        (_, place), _ = fused_sites(self.model)
        self.assertIsInstance(place, FusedLinearAdd)
        self.assertEqual(place._fast.count, 2)

    @torch.no_grad()
    def test_result_that_is_read_otherwise(self):
        for read in (
            lambda t: t.sum(),
            lambda t: t + 1,
            lambda t: t + self.r[:, :1],
            lambda t: t + self.r.double(),
            lambda t: t - self.r,
            lambda t: t.clone().add_(self.r),
            lambda t: torch.add(self.r, t, alpha=2),
            lambda t: torch.cat([t, self.r]),
            lambda t: copy.deepcopy(t),
            lambda t: t + t,
        ):
            ours = self.model.layers[0].attn(self.x)[0]
            self.assertIs(type(ours), Deferred)
            theirs = self.plain.layers[0].attn(self.x)[0]
            self.assertEqual(ours.shape, theirs.shape)
            torch.testing.assert_close(read(ours), read(theirs))

    @torch.no_grad()
    def test_result_that_is_read_twice(self):
        ours = self.model.layers[0].attn(self.x)[0]
        total = self.r + ours
        torch.testing.assert_close(total - self.r, ours + 0)
        torch.testing.assert_close(self.r + ours, total)

    @torch.no_grad()
    def test_input_that_changes_before_the_sum(self):
        x = torch.randn(1, 2, 16)
        ours = self.model.layers[0].attn.o_proj(x)
        x.mul_(2)
        with self.assertRaisesRegex(fuse_mlir.FuseError, "FUSE-N206"):
            ours + torch.randn(1, 2, 32)

    @torch.no_grad()
    def test_two_projections(self):
        """The sum of two stand-ins has one of them as its residual."""
        ours = [m.attn(self.x)[0] for m in self.model.layers]
        theirs = [m.attn(self.x)[0] for m in self.plain.layers]
        torch.testing.assert_close(ours[0] + ours[1], theirs[0] + theirs[1])

    def test_gradients(self):
        for model in (self.plain, self.model):
            model.requires_grad_(True).train()
            x, r = (t.clone().requires_grad_() for t in (self.x, self.r))
            model(x, r).square().sum().backward()
            model.given = x.grad, r.grad
        for a, b in zip(self.plain.given, self.model.given):
            torch.testing.assert_close(a, b)
        for (name, a), (_, b) in zip(
            self.plain.named_parameters(), self.model.named_parameters()
        ):
            torch.testing.assert_close(a.grad, b.grad, msg=name)

    @torch.no_grad()
    def test_weights_that_change(self):
        for model in (self.plain, self.model):
            model(self.x, self.r)
            model.layers[1].attn.o_proj.weight.mul_(2)
            model.layers[0].attn.o_proj.bias = None
        self.same()

    @torch.no_grad()
    def test_another_type(self):
        self.plain.double(), self.model.double()
        self.x, self.r = self.x.double(), self.r.double()
        self.same()

    @torch.no_grad()
    def test_programs_have_the_members(self):
        for program in (
            torch.compile(self.model, backend="aot_eager", fullgraph=True),
            torch.export.export(self.model, (self.x, self.r)).module(),
        ):
            torch.testing.assert_close(
                program(self.x, self.r), self.plain(self.x, self.r)
            )

    @torch.no_grad()
    def test_transforms(self):
        ours = torch.func.vmap(self.model)(self.x, self.r)
        torch.testing.assert_close(ours, self.plain(self.x, self.r))

    @torch.no_grad()
    def test_copies(self):
        model = transformer("llama", torch.float32, **MODELS["llama"][0])
        expected = model(IDS).logits
        fuse_mlir.fuse_modules(model, only_faster=False)
        for copied in (
            copy.deepcopy(model),
            pickle.loads(pickle.dumps(model)),
        ):
            torch.testing.assert_close(
                copied(IDS).logits, expected, atol=1e-5, rtol=1e-4
            )
            fuse_mlir.unfuse_modules(copied)
            self.assertTrue(torch.equal(copied(IDS).logits, expected))

    def test_state(self):
        self.assertEqual(
            list(self.model.state_dict()), list(self.plain.state_dict())
        )
        self.model.load_state_dict(self.plain.state_dict())

    def test_hooks(self):
        self.model.layers[0].attn.o_proj.register_forward_hook(lambda *_: None)
        with (
            torch.no_grad(),
            self.assertRaisesRegex(fuse_mlir.FuseError, "FUSE-N208 has-hooks"),
        ):
            self.model(self.x, self.r)

    def test_hook_on_attention(self):
        seen = []
        for model in (self.plain, self.model):
            model.layers[0].attn.register_forward_hook(
                lambda _m, _a, out: seen.append(out[0].clone())
            )
            model(self.x, self.r)
        torch.testing.assert_close(*seen)

    def test_autocast(self):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            with self.assertRaisesRegex(fuse_mlir.FuseError, "autocast"):
                self.model(self.x, self.r)


if __name__ == "__main__":
    unittest.main()
