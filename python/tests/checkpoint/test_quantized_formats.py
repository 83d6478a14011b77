# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints whose activations have scales that are measured at run time."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

import fuse_mlir
from fuse_mlir.checkpoint import formats
from fuse_mlir.checkpoint.loader import policy_of
from fuse_mlir.cli import main as cli
from fuse_mlir.errors import BlockError, FuseMlirError
from fuse_mlir.fusion.modules import fused_sites
from fuse_mlir.quantized.schemes import scheme_of
from fuse_mlir.quantized.stored import Policy
from tests.models import needs_library

#: Widths are multiples of the block, except for the outputs of k and v.
BLOCK = 32
CONFIG = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "dtype": "bfloat16",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "vocab_size": 64,
    "tie_word_embeddings": True,
}
DOWN = "model.layers.0.mlp.down_proj"
Tensors = dict[str, torch.Tensor]


def real_weights() -> Tensors:
    config = transformers.Qwen3Config(
        **{
            name: value
            for name, value in CONFIG.items()
            if name not in ("model_type", "architectures", "dtype")
        }
    )
    torch.manual_seed(0)
    model = transformers.Qwen3ForCausalLM(config).bfloat16()
    return {
        name: tensor.clone().contiguous()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }


def quantize_blocks(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of blocks, as the quantizers of the formats make
    them."""
    out, features = weight.shape
    padded = nn.functional.pad(
        weight.float(), (0, -features % BLOCK, 0, -out % BLOCK)
    )
    blocks = padded.unflatten(1, (-1, BLOCK)).unflatten(0, (-1, BLOCK))
    scale = blocks.abs().amax((1, 3)) / 448
    codes = (blocks / scale[:, None, :, None]).to(torch.float8_e4m3fn)
    return codes.flatten(2, 3).flatten(0, 1)[:out, :features].contiguous(), (
        scale
    )


def quantize_rows(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = weight.float().abs().amax(1) / 448
    codes = (weight.float() / scale[:, None]).to(torch.float8_e4m3fn)
    return codes, scale


def compressed(
    strategy: str, inputs: Mapping[str, object] | None, **weights: object
) -> dict[str, object]:
    """A `quantization_config` as llm-compressor writes it."""
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {
                    "num_bits": 8,
                    "type": "float",
                    "strategy": strategy,
                    "dynamic": False,
                    **weights,
                },
                "input_activations": inputs,
            }
        },
    }


FLOAT8 = {"num_bits": 8, "type": "float", "dynamic": True}
FINE_GRAINED = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [BLOCK, BLOCK],
    "modules_to_not_convert": ["lm_head"],
}


def make(name: str) -> tuple[dict[str, object], Tensors]:
    """The `quantization_config` and the tensors of a format."""
    config, of_linear = {
        "fp8": (
            FINE_GRAINED,
            lambda codes, scale: {"weight_scale_inv": scale.bfloat16()},
        ),
        "fp8 with scales in e8m0": (
            FINE_GRAINED,
            lambda codes, scale: {"scale": scale.to(torch.float8_e8m0fnu)},
        ),
        "compressed-tensors FP8_BLOCK": (
            compressed(
                "block",
                {**FLOAT8, "strategy": "group", "group_size": BLOCK},
                block_structure=[BLOCK, BLOCK],
            ),
            lambda codes, scale: {"weight_scale": scale.bfloat16()},
        ),
        "compressed-tensors FP8_DYNAMIC": (
            compressed("channel", {**FLOAT8, "strategy": "token"}),
            lambda codes, scale: {"weight_scale": scale[:, None].bfloat16()},
        ),
        "compressed-tensors FP8, weights alone": (
            compressed("channel", None),
            lambda codes, scale: {"weight_scale": scale[:, None].bfloat16()},
        ),
        "ModelOpt": (
            {
                "quant_method": "modelopt",
                "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN",
            },
            lambda codes, scale: {"weight_scale": scale},
        ),
        "FBGEMM": (
            {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0},
            lambda codes, scale: {"weight_scale": scale[:, None]},
        ),
        "FBGEMM with the limit in the file": (
            {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0},
            lambda codes, scale: {
                "weight_scale": scale[:, None],
                "input_scale_ub": torch.tensor([2.0]),
            },
        ),
    }[name]
    blocks = "fp8" in name or "BLOCK" in name
    tensors = real_weights()
    for entry in list(tensors):
        if entry.endswith("proj.weight"):
            quantize = quantize_blocks if blocks else quantize_rows
            codes, scale = quantize(tensors[entry])
            tensors[entry] = codes
            stem = entry.removesuffix("weight")
            for own, tensor in of_linear(codes, scale).items():
                tensors[stem + own] = tensor.contiguous()
    return config, tensors


#: Formats and the arithmetic of their activations in the IR.
FORMATS = {
    "fp8": "weights = block<32x32>, activations = per_group<32>, "
    "floor = amax<1.0e-04>, scale_op = reciprocal, sums = block<32>",
    "fp8 with scales in e8m0": "weights = block<32x32>",
    "compressed-tensors FP8_BLOCK": "weights = block<32x32>, "
    "activations = per_group<32>, floor = amax<1.0e-10>, order = divide, "
    "sums = block<32>",
    "compressed-tensors FP8_DYNAMIC": "weights = channel, "
    "activations = per_token, floor = amax<1.0e-10>, order = divide",
    "compressed-tensors FP8, weights alone": "form = weight_only",
    "ModelOpt": "weights = channel, activations = per_token, "
    "floor = amax<1.0e-10>, order = divide",
    "FBGEMM": "upper = 1200.0, order = divide",
    "FBGEMM with the limit in the file": "upper = 2.0, order = divide",
}


def formed(model: nn.Module) -> list[str]:
    """The IR of each kernel of a model."""
    return [proxy._kernel.compiled.formed for _, proxy in fused_sites(model)]


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and torch.equal(
            left.contiguous().flatten().view(torch.uint8),
            right.contiguous().flatten().view(torch.uint8),
        )
    )


class Directories(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)

    def write(
        self, quantization: Mapping[str, object] | None, tensors: Tensors
    ) -> Path:
        path = Path(tempfile.mkdtemp(dir=self.root))
        config = dict(CONFIG)
        if quantization is not None:
            config["quantization_config"] = dict(quantization)
        (path / "config.json").write_text(json.dumps(config))
        save_file(
            tensors, path / "model.safetensors", metadata={"format": "pt"}
        )
        return path


@needs_library
class LoadedTest(Directories):
    def test_formats(self) -> None:
        ids = torch.tensor([[3, 14, 15, 9, 26]])
        for name, clause in FORMATS.items():
            with self.subTest(name), torch.no_grad():
                path = self.write(*make(name))
                model = fuse_mlir.load_model(path)
                before = model(ids).logits
                sites = fuse_mlir.fuse_modules(model, only_faster=False)
                # The MLP and the projections; heads have no codes.
                self.assertEqual(
                    [s.families for s in sites][:2],
                    [("gated_mlp",), ("norm_linear",)],
                )
                count = sum(clause in text for text in formed(model))
                self.assertGreaterEqual(count, 2)
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

    def test_patterns_of_compressed_groups(self) -> None:
        config, tensors = make("compressed-tensors FP8_DYNAMIC")
        groups = config["config_groups"]
        assert isinstance(groups, dict)
        groups["group_1"] = {
            **groups["group_0"],
            "targets": [r"re:.*down_proj$"],
            "input_activations": None,
        }
        model = fuse_mlir.load_model(self.write(config, tensors))
        found = {
            path: scheme_of(module)
            for path, module in model.named_modules()
            if path.endswith(("up_proj", "down_proj"))
        }
        self.assertEqual(
            {p.rpartition(".")[2]: s.activations for p, s in found.items()},
            {"up_proj": "per_token", "down_proj": "none"},
        )
        # A chain has one contract.
        sites = fuse_mlir.explain(model)
        self.assertIn("FUSE-N", str(sites))

    def test_calibrated_scales_replace_measured_ones(self) -> None:
        model = fuse_mlir.load_model(
            self.write(*make("compressed-tensors FP8_DYNAMIC"))
        )
        ids = torch.tensor([[3, 14, 15, 9]])
        sites = fuse_mlir.calibrate(model, [ids])
        self.assertTrue(sites.fused)
        self.assertIn("scales(f8E4M3FN, input = ", formed(model)[0])
        self.assertTrue(fuse_mlir.verify(model))

    def test_order_of_static_scales(self) -> None:
        for method, order in (
            ("compressed-tensors", "divide"),
            ("modelopt", "reciprocal"),
        ):
            path = self.write({"quant_method": method}, real_weights())
            self.assertEqual(policy_of(path, Policy(), None).order, order)
            self.assertEqual(
                policy_of(path, Policy(), None, "reciprocal").order,
                "reciprocal",
            )


@needs_library
class WrongFilesTest(Directories):
    """Each wrong file has its own error, for the format with blocks."""

    def refuses(
        self, refusal: str, text: str, **changed: torch.Tensor | None
    ) -> None:
        config, tensors = make("fp8")
        for name, tensor in changed.items():
            if tensor is None:
                del tensors[f"{DOWN}.{name}"]
            else:
                tensors[f"{DOWN}.{name}"] = tensor.contiguous()
        path = self.write(config, tensors)
        try:
            model = fuse_mlir.load_model(path)
            found = str(fuse_mlir.explain(model))
        except FuseMlirError as error:
            found = str(error)
        status, error = self.run_import(path)
        self.assertEqual(status, 1)
        for message in (found, error):
            self.assertIn(refusal, message)
            self.assertIn(text, message)

    def run_import(self, path: Path) -> tuple[int, str]:
        error = io.StringIO()
        with (
            contextlib.redirect_stderr(error),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            status = cli.main(
                [
                    "import",
                    "--pretrained",
                    str(path),
                    "--parent",
                    "model.layers.0",
                    "--members",
                    "post_attention_layernorm,mlp",
                    "--shape",
                    "tokens,64",
                    "-o",
                    str(path / "block.mlir"),
                ]
            )
        return status, error.getvalue()

    def scale(self) -> torch.Tensor:
        return make("fp8")[1][f"{DOWN}.weight_scale_inv"]

    def test_missing_scale(self) -> None:
        self.refuses(
            "FUSE-N312 weight-scale-missing",
            "expected one of weight_scale",
            weight_scale_inv=None,
        )

    def test_transposed_scales(self) -> None:
        self.refuses(
            "FUSE-N304 scale-shape",
            "'weight_scale_inv' has shape [3, 2]; a weight of 64x96 in "
            "fine-grained FP8 (blocks of 32x32, dynamic activations) has "
            "[2, 3]; it is transposed",
            weight_scale_inv=self.scale().t(),
        )

    def test_shard_off_the_block(self) -> None:
        self.refuses(
            "FUSE-N304 scale-shape",
            "a shard of a weight begins and ends between blocks of 32x32",
            weight_scale_inv=torch.cat([self.scale()] * 2),
        )

    def test_scales_of_another_kind(self) -> None:
        for other in (torch.ones(()), torch.ones(64)):
            self.refuses(
                "FUSE-N304 scale-shape",
                f"has shape {list(other.shape)}; a weight of 64x96",
                weight_scale_inv=other,
            )

    def test_inverse_scales(self) -> None:
        self.refuses(
            "FUSE-N306 inverted-scale-in-checkpoint",
            "the data fits its inverse",
            weight_scale_inv=1.0 / self.scale().float(),
        )

    def test_scales_that_are_no_factors(self) -> None:
        for value, text in (
            (float("nan"), "is not a number"),
            (float("inf"), "is not finite"),
            (0.0, "is zero in f32"),
            (-1.0, "is negative"),
        ):
            scale = self.scale().clone()
            scale[1, 2] = value
            self.refuses(
                "FUSE-N307 unusable-scale",
                f"'weight_scale_inv' {text}",
                weight_scale_inv=scale,
            )

    def test_nan_in_e8m0(self) -> None:
        scale = torch.full((2, 3), 255, dtype=torch.uint8)
        self.refuses(
            "FUSE-N307 unusable-scale",
            "'scale' is not a number",
            weight_scale_inv=None,
            scale=scale.view(torch.float8_e8m0fnu),
        )

    def test_packed_weight(self) -> None:
        self.refuses(
            "FUSE-N174 weight-width",
            "the weight has shape [64, 48], the model wants [64, 96]",
            weight=torch.zeros(64, 48, dtype=torch.int8),
        )

    def test_transposed_weight(self) -> None:
        self.refuses(
            "FUSE-N174 weight-width",
            "the weight has shape [96, 64]",
            weight=make("fp8")[1][f"{DOWN}.weight"].t(),
        )

    def test_static_scale_in_a_dynamic_format(self) -> None:
        self.refuses(
            "FUSE-N310 scale-conflict",
            "'activation_scale' is a static scale",
            activation_scale=torch.tensor(0.1),
        )

    def test_width_off_the_group(self) -> None:
        config, tensors = make("fp8")
        config = {**config, "weight_block_size": [BLOCK, 40]}
        status, error = self.run_import(self.write(config, tensors))
        self.assertEqual(status, 1)
        self.assertIn("FUSE-N173 group-width: its input has 64 features", error)

    def test_powers_of_two(self) -> None:
        config, tensors = make("fp8")
        config = {**config, "scale_fmt": "ue8m0"}
        status, error = self.run_import(self.write(config, tensors))
        self.assertEqual(status, 1)
        self.assertIn("FUSE-N172 power-of-two-scales", error)


class RefusedFormatsTest(Directories):
    def test_names_and_advice(self) -> None:
        for quantization, name, advice in (
            ({"quant_method": "awq", "bits": 8}, "8-bit AWQ", "in FP8"),
            ({"quant_method": "gptq", "bits": 3}, "3-bit GPTQ", "in FP8"),
            ({"quant_method": "mxfp4"}, "4-bit MXFP4", "Mxfp4Config"),
            (
                {"quant_method": "bitsandbytes", "load_in_4bit": True},
                "4-bit bitsandbytes",
                "model.dequantize()",
            ),
            ({"quant_method": "torchao"}, "torchao", "in FP8"),
            ({"quant_method": "gguf"}, "GGUF", "gguf_file"),
            (
                {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"},
                "ModelOpt W4A16_AWQ",
                "to FP8",
            ),
            (
                {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
                "ModelOpt MIXED_PRECISION",
                "to FP8",
            ),
            *(
                (
                    {"quant_method": "compressed-tensors", "format": name},
                    f"compressed-tensors ({name})",
                    "run_compressed=False",
                )
                for name in (
                    "pack-quantized",
                    "nvfp4-pack-quantized",
                    "mxfp4-pack-quantized",
                    "mxfp8-quantized",
                    "mixed-precision",
                )
            ),
        ):
            with self.subTest(name):
                text = formats.refusal(quantization)
                assert text is not None
                self.assertIn(
                    f"FUSE-N313 unsupported-format: {name} weights", text
                )
                self.assertIn(advice, text)

    def test_packed_entries_without_a_config(self) -> None:
        for suffix, name in (
            ("weight_packed", "packed compressed-tensors"),
            ("qweight", "AWQ or GPTQ"),
            ("weight_qdata", "torchao"),
        ):
            with self.subTest(name):
                tensors = real_weights()
                codes = tensors.pop(f"{DOWN}.weight").to(torch.int32)
                tensors[f"{DOWN}.{suffix}"] = codes
                tensors["model.norm.scale"] = torch.ones(1)
                tensors["model.embed_tokens.weight"] = tensors[
                    "model.embed_tokens.weight"
                ]
                path = self.write(None, tensors)
                error = self.import_error(path)
                self.assertIn(
                    f"has no '{DOWN}.weight': FUSE-N313 unsupported-format: "
                    f"'{DOWN}.{suffix}' holds {name} codes",
                    error,
                )

    def import_error(self, path: Path) -> str:
        from fuse_mlir.checkpoint.loader import load_chain

        with self.assertRaises(BlockError) as caught:
            load_chain(
                path, "model.layers.0", ["mlp"], False, torch.bfloat16, Policy()
            )
        return str(caught.exception)


if __name__ == "__main__":
    unittest.main()
