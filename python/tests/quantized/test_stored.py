# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears whose weights checkpoints store in 8 bits."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from fuse_mlir import errors
from fuse_mlir.checkpoint.loader import Checkpoint, load_chain, policy_of
from fuse_mlir.cli import main as cli
from fuse_mlir.errors import Refused
from fuse_mlir.frontend import extract
from fuse_mlir.frontend.importer import import_program
from fuse_mlir.matching.members import take_chain
from fuse_mlir.quantized import stored
from fuse_mlir.quantized.stored import Policy, read_linear, replace_linears
from fuse_mlir.quantized.value_range import Range, quantize
from tests.support import ROOT, fuse_opt, tool

HIDDEN, MIDDLE = 64, 96
GATE, UP, DOWN = "gate_proj", "up_proj", "down_proj"


def weight(out: int = 8, features: int = 16, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(out, features, generator=generator) * features**-0.5


def entries(
    scale: float | torch.Tensor = 2.0**-8, **others: torch.Tensor
) -> dict[str, torch.Tensor]:
    """A linear as transformers' static fp8 layout has it."""
    factor = torch.as_tensor(scale)
    column = factor.reshape(-1, 1) if factor.dim() else factor
    return {
        "weight": quantize(weight(), column, "f8E4M3FN"),
        "weight_scale_inv": factor,
        "activation_scale": torch.tensor(0.02),
    } | others


def run_text(
    text: str, weights: dict[str, torch.Tensor], x: torch.Tensor
) -> np.ndarray:
    """The result of fuse-run for one input."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "f.mlir").write_text(text)
        save_file(weights, root / "f.safetensors")
        np.save(root / "x.npy", x.float().numpy())
        subprocess.run(
            [
                tool("fuse-run"),
                root / "f.mlir",
                f"--weights={root / 'f.safetensors'}",
                f"--input={root / 'x.npy'}",
                f"--output={root / 'y.npy'}",
            ],
            check=True,
        )
        return np.load(root / "y.npy")


class RefusalIdsTest(unittest.TestCase):
    def test_ids_are_those_of_the_compiler(self) -> None:
        text = (ROOT / "include/fuse/Analysis/Refusals.def").read_text()
        listed = dict(
            re.findall(r'"(FUSE-N(?:3\d\d|17[1-9]))",\s*"([\w-]+)"', text)
        )
        self.assertEqual(listed, {i: n for n, i in errors.REFUSALS.items()})


class ReadLinearTest(unittest.TestCase):
    """Each predicate, with a failing and a passing case."""

    def refuses(
        self,
        name: str,
        text: str,
        parts: dict,
        policy: Policy = Policy(),
        **others,
    ) -> None:
        with self.assertRaisesRegex(Refused, text) as caught:
            read_linear("up", parts, policy, **others)
        self.assertEqual(caught.exception.name, name)
        self.assertIn(errors.REFUSALS[name], str(caught.exception))

    def test_static_scales(self) -> None:
        parts = read_linear("up", entries(), Policy())
        self.assertEqual(parts.weight_scale, 2.0**-8)
        self.assertEqual(np.float32(parts.input_scale), np.float32(0.02))
        self.assertIsNone(parts.bias)

    def test_every_name_of_a_scale(self) -> None:
        for name in stored.WEIGHT_SCALES:
            for other in stored.INPUT_SCALES:
                parts = entries()
                parts[name] = parts.pop("weight_scale_inv")
                parts[other] = parts.pop("activation_scale")
                self.assertEqual(
                    read_linear("up", parts, Policy()).weight_scale, 2.0**-8
                )

    def test_one_number_of_any_shape(self) -> None:
        for shape in ((), (1,), (1, 1)):
            scale = torch.full(shape, 2.0**-8)
            parts = entries() | {"weight_scale_inv": scale}
            self.assertEqual(
                read_linear("up", parts, Policy()).weight_scale, 2.0**-8
            )

    def test_one_scale_per_output_channel(self) -> None:
        for shape in ((8,), (8, 1)):
            vector = torch.full((8,), 2.0**-8)
            parts = entries(vector)
            parts["weight_scale_inv"] = vector.reshape(shape)
            found = read_linear("up", parts, Policy()).weight_scale
            assert isinstance(found, torch.Tensor)
            self.assertEqual(found.shape, (8,))

    def test_block_scale(self) -> None:
        self.refuses(
            "block-scale",
            r"shape \[2, 4\], one entry per block of 4x4 of the weight; .*"
            r"FineGrainedFP8Config\(dequantize=True\) or "
            r"CompressedTensorsConfig\(run_compressed=False\)",
            entries() | {"weight_scale_inv": torch.full((2, 4), 2.0**-8)},
        )

    def test_scale_per_input_channel(self) -> None:
        self.refuses(
            "scale-shape",
            r"shape \[1, 16\]; expected one number, "
            r"\[8\], \[8, 1\] or "
            r"\[1, 8\]",
            entries() | {"weight_scale_inv": torch.full((1, 16), 2.0**-8)},
        )
        self.refuses(
            "scale-shape",
            "an input has one number",
            entries() | {"activation_scale": torch.full((16,), 0.02)},
        )

    def test_scale_type(self) -> None:
        parts = entries() | {
            "weight_scale_inv": torch.tensor(2.0**-8, dtype=torch.bfloat16)
        }
        self.assertEqual(
            read_linear("up", parts, Policy()).weight_scale, 2.0**-8
        )
        self.refuses(
            "scale-type",
            "is torch.uint8",
            entries()
            | {"weight_scale_inv": torch.tensor(119, dtype=torch.uint8)},
        )

    def test_missing_scales(self) -> None:
        parts = entries()
        del parts["activation_scale"]
        self.refuses(
            "input-scale-missing",
            "expected one of input_scale.* keeps them dynamic with "
            "--activations per_token or per_tensor",
            parts,
        )
        for activations in ("per_token", "per_tensor", "none"):
            found = read_linear("up", parts, Policy(activations=activations))
            self.assertIsNone(found.input_scale)
        del parts["weight_scale_inv"]
        self.refuses(
            "weight-scale-missing", "expected one of weight_scale", parts
        )

    def test_weight_type(self) -> None:
        for dtype in (torch.uint8, torch.float8_e4m3fnuz):
            self.refuses(
                "weight-type",
                f"the weight is {dtype}",
                entries() | {"weight": torch.zeros(8, 16).to(dtype)},
            )
        parts = entries() | {"weight": quantize(weight(), 2.0**-8, "i8")}
        self.assertEqual(
            read_linear("up", parts, Policy()).weight.dtype, torch.int8
        )

    def test_unusable_scales(self) -> None:
        for value, text in (
            (0.0, "is zero in f32"),
            (-1.0, "is negative"),
            (float("nan"), "is not a number"),
            (float("inf"), "is not finite"),
            (1e-40, "is not a normal number in f32"),
            (1e38, "has no normal reciprocal in f32"),
        ):
            for name in ("weight_scale_inv", "activation_scale"):
                self.refuses(
                    "unusable-scale",
                    f"'{name}' {text}, got",
                    entries() | {name: torch.tensor(value)},
                )
        vector = torch.full((8,), 2.0**-8)
        vector[3] = 0.0
        self.refuses(
            "unusable-scale",
            "is zero in f32",
            entries() | {"weight_scale_inv": vector},
        )

    def test_zero_point(self) -> None:
        parts = entries() | {"weight_zero_point": torch.zeros(8, 1)}
        read_linear("up", parts, Policy())
        self.refuses(
            "zero-point-in-checkpoint",
            "'input_zero_point' is not zero",
            entries() | {"input_zero_point": torch.tensor(3)},
        )

    def test_conflict(self) -> None:
        same = entries() | {"weight_scale": torch.tensor([2.0**-8])}
        read_linear("up", same, Policy())
        self.refuses(
            "scale-conflict",
            "'weight_scale' and 'weight_scale_inv' are different",
            entries() | {"weight_scale": torch.tensor(0.5)},
        )

    def test_unknown_entry(self) -> None:
        self.refuses(
            "unknown-scale-name",
            "'weight_scale_2'; known are weight",
            entries() | {"weight_scale_2": torch.tensor(0.5)},
        )

    def test_sharded(self) -> None:
        class Shard(torch.Tensor):
            device_mesh = "a mesh of 2"

        parts = entries()
        parts["weight"] = parts["weight"].as_subclass(Shard)
        self.refuses(
            "sharded-weight", "'weight' is spread over a mesh of 2", parts
        )

    def test_unknown_options(self) -> None:
        for options, text in (
            ({"activations": "all"}, "unknown activations"),
            ({"order": "floor"}, "unknown order"),
            ({"bias_place": "x"}, "unknown place of the"),
            ({"unsupported": "x"}, "unknown unsupported"),
            ({"inverse": ("x",)}, "'x' is not the name of a"),
        ):
            with self.assertRaisesRegex(errors.BlockError, text):
                Policy(**options)


class DirectionTest(unittest.TestCase):
    """A scale that is stored the other way round is found and named."""

    def test_by_plausible_weights(self) -> None:
        parts = entries()
        parts["weight_scale_inv"] = 1.0 / parts["weight_scale_inv"]
        with self.assertRaisesRegex(
            Refused,
            "FUSE-N306 .*the scale of the weight is 256, and the "
            "data fits its inverse 0.00390625",
        ):
            read_linear("up", parts, Policy())
        inverse = Policy(inverse=("weight_scale_inv",))
        self.assertEqual(
            read_linear("up", parts, inverse).weight_scale, 2.0**-8
        )

    def test_a_scale_of_one_says_nothing(self) -> None:
        parts = entries() | {"weight_scale_inv": torch.tensor(1.0)}
        read_linear("up", parts, Policy())

    def test_by_the_original(self) -> None:
        original = weight()
        read_linear("up", entries(), Policy(), original)
        # Near one, only the original can tell.
        stored_weight = quantize(original, 0.5, "f8E4M3FN")
        parts = entries() | {
            "weight": stored_weight,
            "weight_scale_inv": torch.tensor(2.0),
        }
        read_linear("up", parts, Policy())
        with self.assertRaisesRegex(Refused, "FUSE-N306"):
            read_linear("up", parts, Policy(), original)
        with self.assertRaisesRegex(Refused, "FUSE-N310 .*neither"):
            read_linear("up", parts, Policy(), weight(seed=1))

    def test_by_inputs(self) -> None:
        seen = Range()
        seen.add(np.linspace(-9.0, 9.0, 100))
        stored.check_input_scales({"up": 9.0 / 448}, {"up": seen}, "f8E4M3FN")
        with self.assertRaisesRegex(
            Refused,
            "FUSE-N306 .*reaches to 22300.4, the largest input "
            "is 9; the inverse reaches to 9",
        ):
            stored.check_input_scales(
                {"up": 448 / 9.0}, {"up": seen}, "f8E4M3FN"
            )


class UnsupportedTest(unittest.TestCase):
    """Floating point only with the user's permission."""

    def test_dequantize(self) -> None:
        scales = torch.tensor([[1.0, 2.0], [4.0, 8.0]]) / 256
        full = scales.repeat_interleave(4, 0).repeat_interleave(8, 1)
        parts = entries() | {
            "weight": quantize(weight(), full, "f8E4M3FN"),
            "weight_scale_inv": scales,
        }
        with self.assertRaisesRegex(Refused, "FUSE-N301"):
            stored.make_linear("up", parts, Policy(), torch.bfloat16)
        policy = Policy(unsupported="dequantize")
        linear, kept = stored.make_linear("up", parts, policy, torch.float32)
        assert kept is not None and isinstance(linear, nn.Linear)
        self.assertEqual(kept.refusal.name, "block-scale")
        error = (linear.weight - weight()).norm() / weight().norm()
        self.assertLess(float(error), 0.05)

    def test_what_is_unknown_stays_an_error(self) -> None:
        policy = Policy(unsupported="dequantize")
        parts = entries() | {"weight_scale_2": torch.tensor(0.5)}
        with self.assertRaisesRegex(Refused, "FUSE-N311"):
            stored.make_linear("up", parts, policy, torch.bfloat16)


class ModuleTest(unittest.TestCase):
    """The module computes what the fuse ops define."""

    def test_import_of_each_kind(self) -> None:
        x = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
        bias = torch.randn(8).to(torch.bfloat16)
        cases = {
            "static": ("fuse.quantize %x scale 0.02", "scales(0.02, "),
            "per_token": ("fuse.dynamic_quantize per_token", "scales(dynamic"),
            "per_tensor": ("fuse.dynamic_quantize per_tensor", "tensor<1xf32>"),
            "none": ("fuse.dequantize %weight scale", "fuse.linear %x"),
        }
        for activations, texts in cases.items():
            for place in stored.BIAS_PLACES:
                with self.subTest(activations=activations, place=place):
                    policy = Policy(activations=activations, bias_place=place)
                    linear, _ = stored.make_linear(
                        "up", entries(bias=bias), policy, torch.bfloat16
                    )
                    self.check(
                        linear,
                        x.to(torch.bfloat16),
                        texts,
                        place == "after_rounding",
                    )

    def check(
        self,
        linear: nn.Module,
        x: torch.Tensor,
        texts: tuple[str, ...],
        after: bool,
    ) -> None:
        program = extract.export_module(linear, ["tokens", 16], torch.bfloat16)
        function = import_program(program)
        for text in texts:
            self.assertIn(text, function.text)
        self.assertEqual("added after_rounding" in function.text, after)
        result = run_text(function.text, function.weights, x)
        expected = linear(x).float().numpy()
        # Sums of 16 products in f32 and in f64 round to neighbors at most.
        np.testing.assert_allclose(result, expected, rtol=2.0**-7)
        self.assertGreater(np.mean(result == expected), 0.9)


class QuantizedDecomposedTest(unittest.TestCase):
    """Q and DQ ops around linears, as PyTorch's own exporter writes them."""

    def setUp(self) -> None:
        from torch.ao.quantization.fx import _decomposed  # registers the ops

        del _decomposed
        self.scales = {"x": 0.017, "h": 0.023, "w": 2.0**-8}
        self.limits = (-128, 127)
        self.zero = 0

    def module(self) -> nn.Module:
        test = self

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                for name, seed in (("up", 0), ("down", 1)):
                    stored_weight = quantize(
                        weight(16, 16, seed), test.scales["w"], "i8"
                    )
                    self.register_buffer(name, stored_weight)
                self.register_buffer(
                    "scales", torch.full((16,), test.scales["w"])
                )
                self.register_buffer(
                    "zeros", torch.zeros(16, dtype=torch.int64)
                )

            def around(self, x: torch.Tensor, name: str) -> torch.Tensor:
                ops = torch.ops.quantized_decomposed
                tail = (test.zero, *test.limits, torch.int8)
                q = ops.quantize_per_tensor(x, test.scales[name], *tail)
                return ops.dequantize_per_tensor(
                    q, test.scales[name], *tail, out_dtype=x.dtype
                )

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                ops = torch.ops.quantized_decomposed
                up = ops.dequantize_per_channel(
                    self.up,
                    self.scales,
                    self.zeros,
                    0,
                    *test.limits,
                    torch.int8,
                    out_dtype=x.dtype,
                )
                down = ops.dequantize_per_tensor(
                    self.down,
                    test.scales["w"],
                    0,
                    *test.limits,
                    torch.int8,
                    out_dtype=x.dtype,
                )
                h = torch.relu(nn.functional.linear(self.around(x, "x"), up))
                return nn.functional.linear(self.around(h, "h"), down)

        return Block()

    def imported(self):
        return import_program(
            extract.export_module(self.module(), ["tokens", 16], torch.float32)
        )

    def test_collapse(self) -> None:
        function = self.imported()
        text = fuse_opt(function.text, "--fuse-form-kernels")
        self.assertIn("fuse.mlp", text)
        self.assertIn(
            "scales(i8, input = 0.017, up = per_channel, "
            "hidden = 0.023, down = 0.00390625, form = qdq)",
            text,
        )
        x = torch.randn(5, 16, generator=torch.Generator().manual_seed(2))
        result = run_text(text, function.weights, x)
        np.testing.assert_allclose(
            result, self.module()(x).numpy(), rtol=1e-5, atol=1e-6
        )

    def test_what_no_op_has(self) -> None:
        from fuse_mlir.errors import ImportFailure

        for name, value, text in (
            ("limits", (-127, 127), "the range -127 to"),
            ("zero", 3, "a zero point"),
        ):
            with self.subTest(name):
                self.setUp()
                setattr(self, name, value)
                with self.assertRaisesRegex(ImportFailure, text):
                    self.imported()


class TransformersTest(unittest.TestCase):
    """The fine-grained fp8 layout of transformers with static scales."""

    def model(
        self, block: list[int] | None = None, activations: str = "static"
    ):
        import transformers
        from transformers.integrations.finegrained_fp8 import (
            replace_with_fp8_linear,
        )

        config = transformers.AutoConfig.for_model(
            "qwen3",
            hidden_size=HIDDEN,
            intermediate_size=MIDDLE,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            vocab_size=32,
        )
        quantization = transformers.FineGrainedFP8Config(
            activation_scheme=activations,
            weight_block_size=block,
        )
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(
                config, dtype=torch.bfloat16
            )
        replace_with_fp8_linear(model, ["lm_head"], quantization)
        config.quantization_config = quantization
        return model, config

    def fill(self, model: nn.Module, scales: dict[str, float]) -> None:
        """Gives the parameters storage and values."""
        generator = torch.Generator().manual_seed(0)
        for path, module in model.named_modules():
            for name, old in list(module.named_parameters(recurse=False)):
                if name == "activation_scale":
                    value = torch.tensor(scales[path.rpartition(".")[2]])
                elif name == "weight_scale_inv":
                    value = torch.full(old.shape, 2.0**-11)
                elif old.dim() == 2:
                    value = torch.randn(old.shape, generator=generator)
                    value *= old.shape[1] ** -0.5
                    if old.element_size() == 1:
                        value = quantize(value, 2.0**-11, "f8E4M3FN")
                    else:
                        value = value.to(old.dtype)
                else:
                    value = torch.ones(old.shape, dtype=old.dtype)
                setattr(module, name, nn.Parameter(value, requires_grad=False))

    def scales(self, **others: float) -> dict[str, float]:
        names = ("q_proj", "k_proj", "v_proj", "o_proj", GATE, UP)
        return dict.fromkeys(names, 0.0125) | {DOWN: 0.03} | others

    def save(self, model: nn.Module, config, directory: Path) -> None:
        names = {
            n: p.contiguous()
            for n, p in model.state_dict().items()
            if n != "lm_head.weight"
        }
        save_file(names, directory / "model.safetensors")
        fields = config.to_dict()
        fields["quantization_config"] = json.loads(
            config.quantization_config.to_json_string(use_diff=False)
        )
        (directory / "config.json").write_text(json.dumps(fields))

    def formed(self, chain: nn.Module, *options: str) -> str:
        program = extract.export_module(
            chain, ["tokens", HIDDEN], torch.bfloat16
        )
        return fuse_opt(
            import_program(program).text,
            "--fuse-raise-layers",
            *options,
            "--fuse-form-kernels",
        )

    def test_loaded_modules(self) -> None:
        model, _ = self.model()
        self.fill(model, self.scales())
        layer = model.model.layers[0]
        self.assertEqual(replace_linears(layer, Policy()), [])
        text = self.formed(
            take_chain(
                model,
                "model.layers.0",
                ["post_attention_layernorm", "mlp"],
                True,
            )
        )
        self.assertIn("fuse.gated_mlp", text)
        self.assertIn(
            "scales(f8E4M3FN, input = 0.0125, gate = 0.00048828125, "
            "up = 0.00048828125, hidden = 0.03, "
            "down = 0.00048828125)",
            text,
        )
        self.assertNotIn("fuse.linear", text)

    def test_checkpoint_directory(self) -> None:
        model, config = self.model()
        self.fill(model, self.scales())
        with tempfile.TemporaryDirectory() as name:
            self.save(model, config, Path(name))
            policy = policy_of(name, Policy(), None)
            self.assertEqual(policy.bias_place, "after_rounding")
            chain, kept = load_chain(
                name,
                "model.layers.0",
                ["post_attention_layernorm", "mlp"],
                True,
                torch.bfloat16,
                policy,
            )
        self.assertEqual(kept, [])
        text = self.formed(chain)
        self.assertIn("fuse.gated_mlp", text)
        self.assertIn("input = 0.0125", text)
        # Only the wanted modules were read, in their own types.
        self.assertEqual(
            chain.get_submodule("model.layers.0.mlp.up_proj").weight.dtype,
            torch.float8_e4m3fn,
        )

    def test_unequal_input_scales_are_named_and_repaired(self) -> None:
        model, _ = self.model()
        self.fill(model, self.scales(up_proj=0.025))
        replace_linears(model, Policy())
        chain = take_chain(model, "model.layers.0", ["mlp"])
        self.assertNotIn("fuse.gated_mlp", self.formed(chain))
        repaired = self.formed(chain, "--fuse-repair-scales=inputs=largest")
        self.assertIn("fuse.gated_mlp", repaired)
        self.assertIn("input = 0.025,", repaired)

    def test_blocks(self) -> None:
        model, config = self.model([32, 32], "dynamic")
        self.fill(model, self.scales())
        members = ["post_attention_layernorm", "mlp"]
        clause = (
            "quant(f8E4M3FN, weights = block<32x32>, "
            "activations = per_group<32>, floor = amax<1.0e-04>, "
            "scale_op = reciprocal, sums = block<32>)"
        )
        with tempfile.TemporaryDirectory() as name:
            self.save(model, config, Path(name))
            chain, kept = load_chain(
                name,
                "model.layers.0",
                members,
                True,
                torch.bfloat16,
                Policy(),
            )
        self.assertEqual(kept, [])
        self.assertIn(clause, self.formed(chain))
        # The modules of transformers state the same.
        replace_linears(model, Policy())
        chain = take_chain(model, "model.layers.0", members, True)
        self.assertIn(clause, self.formed(chain))

    def test_static_input_of_blocks(self) -> None:
        model, config = self.model([32, 32])
        self.fill(model, self.scales())
        with tempfile.TemporaryDirectory() as name:
            self.save(model, config, Path(name))

            def load(policy: Policy):
                return load_chain(
                    name,
                    "model.layers.0",
                    ["mlp"],
                    False,
                    torch.bfloat16,
                    policy,
                )

            with self.assertRaisesRegex(
                Refused,
                r"linear 'model.layers.0.mlp.gate_proj': "
                r"FUSE-N171 static-input-of-blocks: fine-grained FP8 "
                r"\(blocks of 32x32, static activations\)",
            ):
                load(Policy())
            chain, kept = load(Policy(unsupported="dequantize"))
        self.assertEqual(
            [k.linear for k in kept],
            [f"model.layers.0.mlp.{n}" for n in (GATE, UP, DOWN)],
        )
        self.assertIn("rounding(exact)", self.formed(chain))

    def run_import(
        self, directory: Path, *options: str
    ) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(
                [
                    "import",
                    "--pretrained",
                    str(directory),
                    "--parent",
                    "model.layers.0",
                    "--members",
                    "post_attention_layernorm,mlp",
                    "--shape",
                    f"tokens,{HIDDEN}",
                    "-o",
                    str(directory / "block.mlir"),
                    *options,
                ]
            )
        return status, out.getvalue(), err.getvalue()

    def test_command(self) -> None:
        model, config = self.model()
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            data = root / "x.npy"
            np.save(
                data,
                np.random.default_rng(0)
                .normal(size=(8, HIDDEN))
                .astype(np.float32)
                .round(1),
            )
            np.save(data, torch.from_numpy(np.load(data)).bfloat16().float())
            check = (
                "--check-data",
                str(data),
                "--tools",
                str(Path(tool("fuse-run")).parent),
            )
            self.fill(model, self.scales())
            self.save(model, config, root)
            status, out, _ = self.run_import(root, *check)
            self.assertEqual(status, 0)
            self.assertIn("3 input scales agree with 1 files", out)
            self.assertIn("scales(0.0125, ", (root / "block.mlir").read_text())
            status, out, _ = self.run_import(root, "--activations", "none")
            self.assertEqual(status, 0)
            self.assertIn("fuse.dequantize", (root / "block.mlir").read_text())
            # The inverse of a plausible scale, which only data can tell.
            self.fill(model, self.scales(down_proj=1 / 0.03))
            self.save(model, config, root)
            self.assertEqual(self.run_import(root)[0], 0)
            status, _, err = self.run_import(root, *check)
            self.assertEqual(status, 1)
            self.assertIn(
                "linear 'model.layers.0.mlp.down_proj': FUSE-N306", err
            )
            status, out, _ = self.run_import(
                root, "--inverse-scales", "activation_scale"
            )
            self.assertEqual(status, 0)

    def test_command_says_what_it_keeps(self) -> None:
        model, config = self.model([32, 32])
        self.fill(model, self.scales())
        with tempfile.TemporaryDirectory() as name:
            self.save(model, config, Path(name))
            status, _, err = self.run_import(Path(name))
            self.assertEqual(status, 1)
            self.assertIn(
                "error: linear 'model.layers.0.mlp.gate_proj': "
                "FUSE-N171 static-input-of-blocks",
                err,
            )
            status, _, err = self.run_import(
                Path(name), "--unsupported", "dequantize"
            )
            self.assertEqual(status, 0)
            self.assertEqual(err.count("kept in floating point: linear"), 3)

    def test_accuracy_needs_weights_in_floating_point(self) -> None:
        model, config = self.model()
        self.fill(model, self.scales())
        with tempfile.TemporaryDirectory() as name:
            self.save(model, config, Path(name))
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                status = cli.main(
                    [
                        "accuracy",
                        f"--pretrained={name}",
                        "--parent=model.layers.0",
                        "--members=mlp",
                        f"--shape=tokens,{HIDDEN}",
                        f"--tools={Path(tool('fuse-run')).parent}",
                        "x.npy",
                    ]
                )
            self.assertEqual(status, 1)
            self.assertIn(
                f"error: '{name}' is quantized already, and accuracy quantizes "
                "weights in floating point; expected a directory",
                err.getvalue(),
            )

    def test_missing_parameters_are_named(self) -> None:
        model, config = self.model()
        self.fill(model, self.scales())
        with tempfile.TemporaryDirectory() as name:
            self.save(model, config, Path(name))
            checkpoint = Checkpoint(name)
            self.assertIsNone(checkpoint.find("mlp.weight"))
            with self.assertRaisesRegex(
                errors.BlockError, "has no 'lm_head.weight'"
            ):
                load_chain(
                    name, "", ["lm_head"], False, torch.bfloat16, Policy()
                )


if __name__ == "__main__":
    unittest.main()
