# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints whose weights have 4 bits, from file to kernel and back."""

from __future__ import annotations

import unittest
from collections.abc import Mapping

import torch
from safetensors.torch import load_file

import fuse_mlir
from fuse_mlir.checkpoint.check import compare_with_files
from fuse_mlir.checkpoint.loader import load_chain, policy_of
from fuse_mlir.errors import FuseMlirError
from fuse_mlir.fusion.modules import fused_sites
from fuse_mlir.quantized.packed_linear import PackedLinear
from fuse_mlir.quantized.stored import Policy, StoredLinear
from tests.checkpoint.test_quantized_formats import (
    DOWN,
    Directories,
    Tensors,
    formed,
    real_weights,
    same_bytes,
)
from tests.models import needs_library

#: Values of the codes of f4E2M1FN.
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
GROUP = 32


def nearest_e2m1(values: torch.Tensor) -> torch.Tensor:
    codes = (values.abs()[..., None] - E2M1).abs().argmin(-1)
    return (codes + 8 * (values < 0)).to(torch.uint8)


def in_bytes(codes: torch.Tensor) -> torch.Tensor:
    return codes[:, ::2] | codes[:, 1::2] << 4


def in_words(
    codes: torch.Tensor, order: tuple[int, ...] = tuple(range(8))
) -> torch.Tensor:
    """Words with eight codes of a row, as the writers of formats pack them."""
    words = torch.zeros(codes.shape[0], codes.shape[1] // 8, dtype=torch.int64)
    for place, column in enumerate(order):
        words |= codes[:, column::8].long() << (4 * place)
    return words.to(torch.int32)


def groups_of(weight: torch.Tensor, group: int) -> torch.Tensor:
    return weight.float().unflatten(1, (-1, group))


def mxfp4(weight: torch.Tensor) -> Tensors:
    groups = groups_of(weight, GROUP)
    exponent = groups.abs().amax(-1).log2().floor() - 2
    codes = nearest_e2m1(groups / exponent.exp2()[..., None]).flatten(1)
    return {
        "weight_packed": in_bytes(codes),
        "weight_scale": (exponent + 127).to(torch.uint8),
    }


def nvfp4(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    groups = groups_of(weight, 16)
    whole = float(groups.abs().amax()) / (6 * 448)
    scale = (groups.abs().amax(-1) / 6 / whole).to(torch.float8_e4m3fn)
    codes = nearest_e2m1(groups / (scale.float() * whole)[..., None])
    return in_bytes(codes.flatten(1)), scale, whole


def symmetric(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    groups = groups_of(weight, GROUP)
    scale = groups.abs().amax(-1) / 7.5
    codes = (groups / scale[..., None]).round().clamp(-8, 7) + 8
    return codes.flatten(1).to(torch.uint8), scale


def asymmetric(
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    groups = groups_of(weight, GROUP)
    low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    scale = (high - low) / 15
    zeros = (-low / scale).round()
    codes = (groups / scale[..., None] + zeros[..., None]).round().clamp(0, 15)
    return codes.flatten(1).to(torch.uint8), scale, zeros.to(torch.uint8)


def of_linear(name: str, weight: torch.Tensor) -> Tensors:
    """The entries of a linear in a format."""
    out, features = weight.shape
    shape = {"weight_shape": torch.tensor([out, features])}
    if name == "MXFP4":
        return mxfp4(weight)
    if name == "NVFP4A16":
        codes, scale, whole = nvfp4(weight)
        return {
            "weight_packed": codes,
            "weight_scale": scale,
            "weight_global_scale": torch.tensor([1 / whole]),
        }
    if name == "ModelOpt W4A16_NVFP4":
        codes, scale, whole = nvfp4(weight)
        return {
            "weight": codes,
            "weight_scale": scale,
            "weight_scale_2": torch.tensor(whole),
            "input_scale": torch.tensor(0.01),
        }
    if name == "W4A16":
        codes, scale = symmetric(weight)
        return {
            "weight_packed": in_words(codes),
            "weight_scale": scale.bfloat16(),
            **shape,
        }
    codes, scale, zeros = asymmetric(weight)
    if name == "W4A16 with zero points":
        return {
            "weight_packed": in_words(codes),
            "weight_scale": scale.bfloat16(),
            "weight_zero_point": in_words(zeros.t()).t(),
            **shape,
        }
    if name == "AWQ":
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        return {
            "qweight": in_words(codes.t(), order),
            "scales": scale.t().half(),
            "qzeros": in_words(zeros.t(), order),
        }
    assert name.startswith("GPTQ")
    offset = 1 if name == "GPTQ" else 0
    zeros = (zeros.to(torch.int64) - offset).remainder(16)
    return {
        "qweight": in_words(codes).t(),
        "scales": scale.t().half(),
        "qzeros": in_words(zeros.t()),
        "g_idx": (torch.arange(features) // GROUP).to(torch.int32),
    }


def compressed(
    format_name: str, inputs: object = None, **weights: object
) -> dict[str, object]:
    group = {
        "targets": ["Linear"],
        "weights": {"num_bits": 4, "strategy": "group", **weights},
        "input_activations": inputs,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": format_name,
        "ignore": ["lm_head"],
        "config_groups": {"group_0": group},
    }


#: `quantization_config` and the arithmetic in the IR.
FORMATS: dict[str, tuple[dict[str, object], str]] = {
    "W4A16": (
        compressed(
            "pack-quantized", type="int", group_size=GROUP, symmetric=True
        ),
        "quant(ui4, weights = group<32, bf16>, zero_points = 8, "
        "activations = none)",
    ),
    "W4A16 with zero points": (
        compressed(
            "pack-quantized", type="int", group_size=GROUP, symmetric=False
        ),
        "quant(ui4, weights = group<32, bf16>, zero_points = group, "
        "activations = none)",
    ),
    "MXFP4": (
        compressed("mxfp4-pack-quantized", type="float", group_size=GROUP),
        "quant(f4E2M1FN, weights = group<32, f8E8M0FNU>, activations = none)",
    ),
    "NVFP4A16": (
        compressed(
            "nvfp4-pack-quantized",
            type="float",
            group_size=16,
            strategy="tensor_group",
        ),
        "quant(f4E2M1FN, weights = group<16, f8E4M3FN>, "
        "tensor_scale = divide, activations = none)",
    ),
    "ModelOpt W4A16_NVFP4": (
        {"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"},
        "quant(f4E2M1FN, weights = group<16, f8E4M3FN>, "
        "tensor_scale = multiply, activations = none)",
    ),
    "AWQ": (
        {
            "quant_method": "awq",
            "bits": 4,
            "group_size": GROUP,
            "zero_point": True,
            "version": "gemm",
        },
        "quant(ui4, weights = group<32, f16>, zero_points = group, "
        "activations = none)",
    ),
    "GPTQ": (
        {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": GROUP,
            "desc_act": False,
            "sym": False,
        },
        "quant(ui4, weights = group<32, f16>, zero_points = group, "
        "activations = none)",
    ),
    "GPTQ v2": (
        {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": GROUP,
            "checkpoint_format": "gptq_v2",
        },
        "quant(ui4, weights = group<32, f16>, zero_points = group, "
        "activations = none)",
    ),
}


def make(name: str) -> tuple[dict[str, object], Tensors]:
    tensors = real_weights()
    for entry in list(tensors):
        if entry.endswith("proj.weight"):
            weight = tensors.pop(entry)
            stem = entry.removesuffix("weight")
            for own, tensor in of_linear(name, weight).items():
                tensors[stem + own] = tensor.contiguous()
    return FORMATS[name][0], tensors


@needs_library
class LoadedTest(Directories):
    def test_formats(self) -> None:
        ids = torch.tensor([[3, 14, 15, 9, 26]])
        real = real_weights()[f"{DOWN}.weight"].float()
        for name, (_, clause) in FORMATS.items():
            with self.subTest(name), torch.no_grad():
                path = self.write(*make(name))
                model = fuse_mlir.load_model(path)
                down = model.get_submodule(DOWN)
                self.assertIsInstance(down, PackedLinear)
                # The columns of the weight, through the forward.
                columns = down(torch.eye(96).bfloat16()).t().float()
                self.assertLess(
                    float((columns - real).norm() / real.norm()), 0.2
                )
                before = model(ids).logits
                sites = fuse_mlir.fuse_modules(model, only_faster=False)
                # The MLP and linears of attention; the head has no codes.
                self.assertEqual(
                    sum(clause in text for text in formed(model)),
                    3,
                    str(sites),
                )
                # PyTorch sums in f64, so that some results may round to the
                # neighbor.
                self.assertLess(
                    float((model(ids).logits - before).abs().max()), 0.02
                )
                self.assertTrue(fuse_mlir.verify(model))
                model.save_pretrained(path / "fused")
                fuse_mlir.unfuse_modules(model)
                self.assertTrue(torch.equal(model(ids).logits, before))
                model.save_pretrained(path / "unfused")
                file = load_file(path / "model.safetensors")
                for place in ("fused", "unfused"):
                    saved = load_file(path / place / "model.safetensors")
                    self.assertEqual(set(saved), set(file))
                    for entry, tensor in file.items():
                        self.assertTrue(same_bytes(saved[entry], tensor), entry)
                again = fuse_mlir.load_model(path / "unfused")
                self.assertTrue(torch.equal(again(ids).logits, before))

    def test_kernels_read_the_weights_of_the_model(self) -> None:
        model = fuse_mlir.load_model(self.write(*make("AWQ")))
        fuse_mlir.fuse_modules(model, only_faster=False)
        weight = model.get_submodule(DOWN).weight
        addresses = {
            address
            for _, proxy in fused_sites(model)
            for _, _, address, _ in proxy._kernel.bound_tensors()
        }
        model(torch.tensor([[3, 14]]))
        self.assertEqual(weight.numel(), 64 * 96 // 2)
        self.assertTrue(addresses)

    def test_import_reads_codes(self) -> None:
        for name, (_, clause) in FORMATS.items():
            path = self.write(*make(name))
            policy = policy_of(path, Policy(), None)
            chain, kept = load_chain(
                path, "model.layers.0", ["mlp"], False, torch.bfloat16, policy
            )
            self.assertEqual(kept, [])
            linears = [
                m for m in chain.modules() if isinstance(m, StoredLinear)
            ]
            self.assertEqual(
                {f"quant({m.quant})" for m in linears}, {clause}, name
            )
            self.assertEqual(
                {m.policy.bias_place for m in linears},
                {
                    "after_rounding"
                    if name.startswith(("AWQ", "GPTQ"))
                    else "before_rounding"
                },
            )

    def test_comparison_with_the_file(self) -> None:
        for name in FORMATS:
            path = self.write(*make(name))
            model = fuse_mlir.load_model(path)
            found = compare_with_files(model, path)
            self.assertTrue(found, f"{name}: {found}")
            self.assertEqual(found.unknown, [], name)
            with torch.no_grad():
                model.get_submodule(DOWN).weight[0, 0] += 1
            self.assertFalse(compare_with_files(model, path), name)

    def test_state_dict_is_that_of_the_file(self) -> None:
        model = fuse_mlir.load_model(self.write(*make("GPTQ")))
        state = model.state_dict()
        down = model.get_submodule(DOWN)
        before = down(torch.eye(96).bfloat16())
        with torch.no_grad():
            down.weight.zero_()
        model.load_state_dict(state)
        self.assertTrue(torch.equal(down(torch.eye(96).bfloat16()), before))

    def test_conversion_of_a_model_keeps_codes_and_scales(self) -> None:
        model = fuse_mlir.load_model(self.write(*make("W4A16")))
        scale = model.get_submodule(DOWN).weight_scale.clone()
        model.float()
        self.assertTrue(
            same_bytes(model.get_submodule(DOWN).weight_scale, scale)
        )


class WrongFilesTest(Directories):
    """Each wrong file has its own error."""

    def refuses(
        self,
        name: str,
        text: str,
        change: Mapping[str, torch.Tensor | None] | None = None,
        **config: object,
    ) -> None:
        quantization, tensors = make(name)
        for entry, tensor in (change or {}).items():
            if tensor is None:
                del tensors[f"{DOWN}.{entry}"]
            else:
                tensors[f"{DOWN}.{entry}"] = tensor.contiguous()
        with self.assertRaises(FuseMlirError) as caught:
            fuse_mlir.load_model(
                self.write({**quantization, **config}, tensors)
            )
        self.assertIn(text, str(caught.exception))

    def test_missing_scale(self) -> None:
        self.refuses(
            "W4A16",
            f"linear '{DOWN}': FUSE-N312 weight-scale-missing: "
            "compressed-tensors W4A16 needs 'weight_scale'",
            {"weight_scale": None},
        )

    def test_inverse_scales(self) -> None:
        tensors = make("W4A16")[1]
        scale = tensors[f"{DOWN}.weight_scale"]
        self.refuses(
            "W4A16",
            "FUSE-N306 inverted-scale-in-checkpoint: the data fits the "
            "inverse of 'weight_scale'",
            {"weight_scale": 1.0 / scale},
        )
        whole = make("NVFP4A16")[1][f"{DOWN}.weight_global_scale"]
        self.refuses(
            "NVFP4A16",
            "the data fits the inverse of 'weight_global_scale'",
            {"weight_global_scale": 1.0 / whole},
        )

    def test_group_of_the_config(self) -> None:
        self.refuses("AWQ", "FUSE-N173 group-width", group_size=40)
        self.refuses(
            "AWQ",
            "FUSE-N304 scale-shape: 'scales' has shape",
            group_size=16,
        )

    def test_layout_of_another_format(self) -> None:
        self.refuses(
            "AWQ",
            "FUSE-N174 weight-width: 'qweight' has shape",
            quant_method="gptq",
        )

    def test_order_of_activations(self) -> None:
        index = torch.arange(96, dtype=torch.int32) % 3
        self.refuses("GPTQ", "FUSE-N175 activation-order", {"g_idx": index})

    def test_activations_in_four_bits(self) -> None:
        inputs = {"num_bits": 4, "type": "float", "dynamic": "local"}
        self.refuses(
            "NVFP4A16",
            "FUSE-N177 four-bit-activations: compressed-tensors NVFP4 also "
            "quantizes activations, which no kernel does beside weights of 4 "
            "bits; `input_activations: null` in config.json keeps them in 16 "
            "bits",
            **compressed(
                "nvfp4-pack-quantized", inputs, type="float", group_size=16
            ),
        )
        self.refuses(
            "ModelOpt W4A16_NVFP4",
            "FUSE-N177 four-bit-activations: ModelOpt NVFP4",
            quant_algo="NVFP4",
        )

    def test_unknown_variants(self) -> None:
        for name, config, format_name in (
            ("AWQ", {"bits": 8}, "8-bit AWQ"),
            ("AWQ", {"version": "gemv"}, "4-bit AWQ"),
            ("GPTQ", {"bits": 3}, "3-bit GPTQ"),
            ("GPTQ", {"checkpoint_format": "marlin"}, "4-bit GPTQ"),
        ):
            self.refuses(
                name, f"FUSE-N313 unsupported-format: {format_name}", **config
            )


if __name__ == "__main__":
    unittest.main()
