# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The arithmetic of linears with measured scales, bit by bit."""

from __future__ import annotations

import unittest

import torch
from torch import nn

from fuse_mlir.errors import Refused
from fuse_mlir.frontend import extract
from fuse_mlir.frontend.importer import import_program
from fuse_mlir.quantized.contract import Quant, parse_quant
from fuse_mlir.quantized.fp8_reference import emulate, policy_for
from fuse_mlir.quantized.schemes import fbgemm, fine_grained, per_row
from fuse_mlir.quantized.stored import (
    Policy,
    dequantized_weight,
    make_linear,
    read_linear,
)
from tests.quantized.test_stored import run_text

OUT, FEATURES, BLOCK = 24, 32, 8
QUANTS = {
    "DeepGEMM": Quant(
        "f8E4M3FN",
        "block",
        (BLOCK, BLOCK),
        "per_group",
        BLOCK,
        ("amax", 1e-4),
        scale_op="reciprocal",
        sums=BLOCK,
    ),
    "vLLM": Quant(
        "f8E4M3FN",
        "block",
        (16, BLOCK),
        "per_group",
        BLOCK,
        ("amax", 1e-10),
        order="divide",
        sums=BLOCK,
    ),
    "groups in blocks": Quant(
        "f8E4M3FN", "block", (5, 16), "per_group", BLOCK, sums=BLOCK
    ),
    "channels": Quant("f8E4M3FN", "channel", order="divide"),
    "FBGEMM": Quant(
        "f8E4M3FN",
        "channel",
        floor=("scale", 1 / 229376),
        upper=0.75,
        order="divide",
    ),
    "tensor": Quant("f8E4M3FN", "tensor"),
}


def exact_input(tokens: int) -> torch.Tensor:
    """Values whose codes have few bits, so that sums of products are exact in
    any order. Their scales are not."""
    generator = torch.Generator().manual_seed(0)
    magnitude = torch.rand(tokens, FEATURES, generator=generator) / 2 + 0.5
    sign = torch.randint(0, 2, magnitude.shape, generator=generator) * 2 - 1
    token = torch.rand(tokens, 1, generator=generator) * 3 + 0.1
    return magnitude * sign * token


def exact_weight(quant: Quant) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    codes = torch.randint(-2, 3, (OUT, FEATURES), generator=generator)
    shape = quant.scale_shape(OUT, FEATURES)
    scale = torch.rand(shape, generator=generator) * 0.1 + 0.05
    return codes.float().to(torch.float8_e4m3fn), scale


class Contract(nn.Module):
    """A linear with any contract."""

    def __init__(self, quant: Quant) -> None:
        super().__init__()
        weight, scale = exact_weight(quant)
        self.register_buffer("weight", weight)
        self.register_buffer("weight_scale", scale)
        self.quant = quant.text()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.fuse_mlir.stored_linear(
            x,
            self.weight,
            None,
            self.weight_scale,
            None,
            None,
            "static",
            "reciprocal",
            "before_rounding",
            self.quant,
        )


class BitsTest(unittest.TestCase):
    def test_text(self) -> None:
        for name, quant in QUANTS.items():
            with self.subTest(name):
                self.assertEqual(parse_quant(quant.text()), quant)

    def test_compiled_code(self) -> None:
        x = exact_input(3)
        for name, quant in QUANTS.items():
            with self.subTest(name):
                module = Contract(quant)
                program = import_program(
                    extract.export_module(
                        module, ["tokens", FEATURES], torch.float32
                    )
                )
                self.assertIn(f"quant({quant.text()})", program.text)
                actual = run_text(program.text, program.weights, x)
                self.assertTrue(
                    torch.equal(torch.from_numpy(actual), module(x))
                )

    def test_definition(self) -> None:
        # Each step by hand, for one group and one output.
        quant = QUANTS["DeepGEMM"]
        x = exact_input(1)
        weight, scale = exact_weight(quant)
        codes, measured = quant.measure(x)
        total = torch.zeros(())
        for k in range(0, FEATURES, BLOCK):
            amax = x[0, k : k + BLOCK].abs().max()
            s = amax * torch.tensor(1 / 448.0)
            self.assertEqual(float(measured[0, k // BLOCK]), float(s))
            q = (x[0, k : k + BLOCK] * (1 / s)).to(torch.float8_e4m3fn)
            self.assertTrue(
                torch.equal(q.float(), codes[0, k : k + BLOCK].float())
            )
            part = (q.float() * weight[9, k : k + BLOCK].float()).sum()
            alpha = s * scale[9 // BLOCK, k // BLOCK]
            total = (alpha.double() * part.double() + total.double()).float()
        actual = quant.multiply(codes, measured, weight, scale)[0, 9]
        self.assertEqual(float(actual), float(total))

    def test_limits(self) -> None:
        zeros = torch.zeros(1, FEATURES)
        for name, expected in (
            ("DeepGEMM", float(torch.tensor(1e-4) * torch.tensor(1 / 448.0))),
            ("vLLM", float(torch.tensor(1e-10) / torch.tensor(448.0))),
            ("FBGEMM", float(torch.tensor(1 / 229376))),
            ("tensor", 2.0**-64),
        ):
            codes, scale = QUANTS[name].measure(zeros)
            self.assertTrue(bool((scale == expected).all()), name)
            self.assertTrue(bool((codes.float() == 0).all()))
        # Larger magnitudes than the limit saturate.
        codes, scale = QUANTS["FBGEMM"].measure(torch.full((1, FEATURES), 2.0))
        self.assertEqual(float(scale), float(torch.tensor(0.75) / 448))
        self.assertTrue(bool((codes.float() == 448).all()))

    def test_values_that_are_not_finite(self) -> None:
        x = torch.ones(2, FEATURES)
        x[0, 3] = float("nan")
        _, scale = QUANTS["DeepGEMM"].measure(x)
        self.assertEqual(scale[0].isnan().tolist(), [True] + [False] * 3)
        self.assertFalse(bool(scale[1].isnan().any()))


def codes_of(out: int = OUT) -> torch.Tensor:
    torch.manual_seed(0)
    return (torch.randn(out, FEATURES) * 64).to(torch.float8_e4m3fn)


class ModulesTest(unittest.TestCase):
    """Linears of transformers that are loaded already."""

    def check(self, module: nn.Linear, text: str) -> None:
        x = torch.randn(3, FEATURES).bfloat16()
        entries = dict(module.named_parameters())
        entries |= dict(module.named_buffers())
        policy = policy_for(module)
        linear, kept = make_linear("up", entries, policy, torch.bfloat16)
        self.assertIsNone(kept)
        self.assertIn(text, linear.quant)
        # Without their kernels, the modules compute the same.
        model = nn.Sequential(module)
        self.assertEqual(emulate(model), 1)
        self.assertTrue(torch.equal(model(x), linear(x)))

    def test_fp8(self) -> None:
        from transformers.integrations.finegrained_fp8 import FP8Linear

        module = FP8Linear(FEATURES, OUT, (BLOCK, BLOCK), has_bias=True)
        module.weight = nn.Parameter(codes_of(), requires_grad=False)
        module.weight_scale_inv.data.uniform_(1e-3, 2e-3)
        module.bias.data = torch.randn(OUT).bfloat16()
        self.assertEqual(policy_for(module).bias_place, "after_rounding")
        self.check(module, "weights = block<8x8>, activations = per_group<8>")

    def test_fbgemm(self) -> None:
        from transformers.integrations.fbgemm_fp8 import FbgemmFp8Linear

        module = FbgemmFp8Linear(FEATURES, OUT, bias=False)
        module.weight = nn.Parameter(codes_of(), requires_grad=False)
        module.weight_scale.data.uniform_(1e-3, 2e-3)
        module.input_scale_ub.fill_(1200.0)
        self.check(module, "upper = 1200.0, order = divide")

    def test_compressed_tensors(self) -> None:
        from transformers.integrations.compressed_tensors import (
            CompressedTensorsFP8Linear,
        )

        module = CompressedTensorsFP8Linear(FEATURES, OUT)
        module.weight = nn.Parameter(codes_of(), requires_grad=False)
        # Its scales are [1, out].
        module.weight_scale.data.uniform_(1e-3, 2e-3)
        self.assertEqual(module.weight_scale.shape, (1, OUT))
        self.check(module, "weights = channel, activations = per_token")


class DefectsTest(unittest.TestCase):
    """Files that were once refused for a wrong reason, or read wrongly."""

    def test_row_of_scales_per_output(self) -> None:
        scale = torch.rand(1, OUT) * 1e-3 + 1e-3
        parts = read_linear(
            "up",
            {
                "weight": codes_of(),
                "weight_scale": scale,
                "input_scale": torch.tensor(0.1),
            },
            Policy(),
        )
        self.assertTrue(torch.equal(parts.weight_scale, scale[0]))

    def test_last_block_of_outputs(self) -> None:
        # 24 outputs in blocks of 16: the second block has 8, not 12.
        scheme = fine_grained((16, BLOCK), "dynamic", False)
        scale = torch.tensor([[1e-3] * 4, [2e-3] * 4])
        entries = {"weight": codes_of(), "weight_scale_inv": scale}
        real = dequantized_weight(entries, Policy(scheme=scheme), torch.float32)
        rows = torch.tensor([1e-3] * 16 + [2e-3] * 8)[:, None]
        self.assertTrue(torch.equal(real, codes_of().float() * rows))

    def test_packed_codes(self) -> None:
        entries = {
            "weight": torch.ones(OUT, FEATURES // 2, dtype=torch.int8),
            "weight_scale": torch.tensor(0.01),
            "input_scale": torch.tensor(0.1),
        }
        with self.assertRaisesRegex(
            Refused, "two codes of 4 bits in a byte have this shape"
        ):
            read_linear("up", entries, Policy(), shape=(OUT, FEATURES))

    def test_order_is_that_of_the_format(self) -> None:
        self.assertEqual(fbgemm(None).order, "divide")
        self.assertEqual(per_row("").order, "divide")
        scheme = fine_grained((BLOCK, BLOCK), "dynamic", False)
        self.assertEqual((scheme.order, scheme.scale_op), ("reciprocal",) * 2)


if __name__ == "__main__":
    unittest.main()
