# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Norms and MLPs of models that other matchers get wrong.

Each fused form computes the same bits in bf16 as the original. Similar forms
differ from it by more.
"""

import unittest

import torch
from torch import nn
from torch.nn import functional as F

import fuse_mlir
from tests.models import MLP, needs_library

torch.set_num_threads(1)

SIZE, HIDDEN = 24, 40


def rms(h, eps=1e-2):
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)


def norm_after(x, w):
    return w * rms(x.float()).to(x.dtype)


def norm_before(x, w):
    return (rms(x.float()) * w.float()).to(x.dtype)


def one_plus(x, w):
    return (rms(x.float()) * (1 + w.float())).to(x.dtype)


def eps_outside(x, w):
    h = x.float()
    return w * (h / (h.pow(2).mean(-1, keepdim=True).sqrt() + 1e-2)).to(x.dtype)


def two_norms(x, w):
    return norm_after(F.rms_norm(x, x.shape[-1:], w, 0.5), w)


def sum_of_squares(x, w):
    h = x.float()
    return w * (h * torch.rsqrt(h.pow(2).sum(-1, keepdim=True) + 1e-2)).to(
        x.dtype
    )


def added(x, w):
    return norm_after((x.float() + 2.0).to(x.dtype), w)


def reshaped(x, w):
    return norm_after(x.reshape(-1, x.shape[-1]), w).view(x.shape)


NORMS = (
    norm_after,
    norm_before,
    one_plus,
    eps_outside,
    two_norms,
    sum_of_squares,
    added,
)


class Form(nn.Module):
    """A function of a weight as a module."""

    def __init__(self, function, dtype=torch.bfloat16):
        super().__init__()
        self.weight = nn.Parameter((1 + torch.randn(SIZE) / 3).to(dtype))
        self.function = function

    def forward(self, x):
        return self.function(x, self.weight)


def gated(gate, up):
    return F.silu(gate) * up


def swapped(gate, up):
    return F.silu(up) * gate


def in_f32(gate, up):
    return (F.silu(gate.float()) * up.float()).to(gate.dtype)


def tanh(gate, up):
    return F.gelu(gate, approximate="tanh") * up


def erf(gate, up):
    return F.gelu(gate) * up


def limited(gate, up):
    return F.silu(gate).clamp(max=0.5) * up


MLPS = (gated, swapped, in_f32, tanh, erf)


class FormMLP(MLP):
    def __init__(self, function):
        super().__init__(SIZE, HIDDEN)
        self.function = function

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        return self.down(self.function(self.gate(rows), self.up(rows))).view(
            x.shape
        )


class Block(nn.Module):
    def __init__(self, norm, mlp):
        super().__init__()
        self.norm, self.mlp = norm, mlp

    def forward(self, x):
        return x + self.mlp(self.norm(x))


@needs_library
class Forms(unittest.TestCase):
    def results(self, norms, mlps, dtype=torch.bfloat16):
        found = []
        for norm in norms:
            for mlp in mlps:
                with self.subTest(norm=norm.__name__, mlp=mlp.__name__):
                    torch.manual_seed(0)
                    norm_module = Form(norm, dtype)
                    model = Block(norm_module, FormMLP(mlp).bfloat16()).eval()
                    model.requires_grad_(False)
                    x = torch.randn(2, 9, SIZE).bfloat16()
                    expected = model(x)
                    result = fuse_mlir.fuse_modules(
                        model, inputs=x, only_faster=False
                    )
                    self.assertEqual(len(result.fused), 1)
                    self.assertTrue(torch.equal(model(x), expected))
                    self.assertTrue(fuse_mlir.verify(model, x))
                    found.append(expected)
        for i, ours in enumerate(found):
            for theirs in found[:i]:
                self.assertFalse(torch.equal(ours, theirs))
        self.assertEqual(len(found), len(norms) * len(mlps))

    def test_norms(self):
        self.results(NORMS, [gated])

    def test_mlps(self):
        self.results([norm_after], MLPS)

    def test_what_is_near_a_form_is_none(self):
        model = Block(Form(norm_after), FormMLP(limited).bfloat16()).eval()
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "FUSE-N005 "
            "no-down-projection: .*the step between the "
            "activation and the down projection",
        ):
            fuse_mlir.fuse_modules(
                model, inputs=torch.randn(2, 9, SIZE).bfloat16()
            )

    def test_reshapes(self):
        self.results([reshaped], [gated])

    def test_weights_of_norms_in_another_type(self):
        def wide(x, w):
            return (w * rms(x.float())).to(x.dtype)

        self.results([wide], [gated], torch.float32)

    def test_nothing_is_read_before_it_is_written(self):
        model = Block(Form(norm_after), FormMLP(gated).bfloat16()).eval()
        x = torch.randn(2, 9, SIZE).bfloat16()
        expected = model(x)
        fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        # New memory is full of NaN then.
        torch.use_deterministic_algorithms(True)
        try:
            self.assertTrue(torch.empty(3).isnan().all())
            self.assertTrue(torch.equal(model(x), expected))
        finally:
            torch.use_deterministic_algorithms(False)


if __name__ == "__main__":
    unittest.main()
