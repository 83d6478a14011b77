# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Commands on published directories and configs."""

import json
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import fuse_mlir
from fuse_mlir import errors
from fuse_mlir.checkpoint import formats, loader, model_source
from fuse_mlir.checkpoint.check import compare_with_files
from tests.cli.test_models import run
from tests.models import needs_library
from tests.support import tool

#: Published configs with fewer entries; each has keys that transformers
#: ignores.
CONFIGS = {
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_ctx": 16,
        "n_embd": 32,
        "n_layer": 1,
        "n_head": 2,
        "n_positions": 16,
        "vocab_size": 64,
        "bos_token_id": 1,
        "eos_token_id": 1,
        "task_specific_params": {"text-generation": {"max_length": 50}},
    },
    "bert": {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "gradient_checkpointing": False,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 64,
        "position_embedding_type": "absolute",
        "torch_dtype": "float32",
    },
    "gemma2": {
        "architectures": ["Gemma2ForCausalLM"],
        "model_type": "gemma2",
        "cache_implementation": "hybrid",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "vocab_size": 64,
        "torch_dtype": "float32",
    },
    "phi3": {
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "vocab_size": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    },
}
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "vocab_size": 64,
    "dtype": "bfloat16",
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
LINEARS = [
    f"model.layers.0.{name}_proj"
    for name in (
        "self_attn.q",
        "self_attn.k",
        "self_attn.v",
        "self_attn.o",
        "mlp.gate",
        "mlp.up",
        "mlp.down",
    )
]
HF_QUANT = {
    "producer": {"name": "modelopt", "version": "0.33.0"},
    "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]},
}


def qwen3_weights():
    config = transformers.Qwen3Config(
        **{k: v for k, v in QWEN3.items() if k != "model_type"}
    )
    torch.manual_seed(0)
    model = transformers.Qwen3ForCausalLM(config).bfloat16()
    return {k: v.contiguous() for k, v in model.state_dict().items()}


def modelopt_weights():
    weights = qwen3_weights()
    for linear in LINEARS:
        weight = weights[f"{linear}.weight"].float()
        scale = weight.abs().amax() / 448
        weights[f"{linear}.weight"] = (weight / scale).to(torch.float8_e4m3fn)
        weights[f"{linear}.weight_scale"] = scale
        weights[f"{linear}.input_scale"] = torch.tensor(6.0 / 448)
    return weights


class Directories(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)

    def write(self, name, config, weights=None, **files):
        path = self.path / name
        path.mkdir()
        for file, content in {"config": config, **files}.items():
            path.joinpath(f"{file}.json").write_text(json.dumps(content))
        if weights is not None:
            save_file(
                weights, path / "model.safetensors", metadata={"format": "pt"}
            )
        return path


@needs_library
class Published(Directories):
    def test_finding_01_keys_that_transformers_ignores(self):
        for name, config in CONFIGS.items():
            path = self.write(name, config)
            for place in (path, path / "config.json"):
                with self.subTest(place=place):
                    status, out, error = run("explain", place, "--quiet")
                    self.assertEqual((status, error), (0, ""))
                    self.assertIn("could fuse", out)

    def test_settings_are_checked_for_typing_errors_still(self):
        path = self.write("gpt2", CONFIGS["gpt2"])
        status, _, error = run("explain", path, "--set=n_lyer=1")
        self.assertEqual(status, 1)
        self.assertIn(
            "GPT2Config has no setting 'n_lyer'; similar: n_layer", error
        )

    def test_finding_12_architectures_and_dtype_are_those_of_the_file(self):
        path = self.write("bert", CONFIGS["bert"])
        source = model_source.open_source(str(path), {}, None)
        self.assertIs(source.dtype, torch.float32)
        self.assertIs(type(source.skeleton()), transformers.BertModel)
        status, out, _ = run("explain", path, "--quiet")
        self.assertEqual(status, 0)
        self.assertIn("could fuse  encoder.layer.0", out)
        self.assertNotIn("cls.", out)
        chosen = model_source.open_source(str(path), {}, "float16")
        self.assertIs(chosen.dtype, torch.float16)

    def test_dtype_of_files_where_the_config_has_none(self):
        config = {k: v for k, v in QWEN3.items() if k != "dtype"}
        weights = {k: v.float() for k, v in qwen3_weights().items()}
        path = self.write("f32", config, weights)
        source = model_source.open_source(str(path), {}, None)
        self.assertIs(source.dtype, torch.float32)

    def test_unknown_architecture_of_a_file(self):
        path = self.write(
            "other", {**QWEN3, "architectures": ["Qwen3ForCausalLN"]}
        )
        status, _, error = run("explain", path)
        self.assertEqual(status, 1)
        self.assertIn(
            "has no class 'Qwen3ForCausalLN', which the config's "
            "architectures name; similar: Qwen3ForCausalLM",
            error,
        )


@needs_library
class Weights(Directories):
    def test_finding_05_settings_keep_the_weights_or_are_refused(self):
        path = self.write("qwen3", QWEN3, qwen3_weights())
        source = model_source.open_source(str(path), {"use_cache": False}, None)
        model = source.build()
        self.assertFalse(model.config.use_cache)
        self.assertTrue(compare_with_files(model, path))
        status, _, error = run("verify", path, "--set=intermediate_size=96")
        self.assertEqual(status, 1)
        self.assertIn(
            "--set changes which weights the model has: "
            "'model.layers.0.mlp.gate_proj.weight' is [96, 32], in "
            f"'{path}' it is [64, 32]",
            error,
        )
        status, _, error = run(
            "verify",
            path / "config.json",
            "--quiet",
            "--set=intermediate_size=96",
        )
        self.assertEqual((status, error), (0, ""))

    def test_finding_02_missing_weights_are_an_error(self):
        weights = {
            name: tensor
            for name, tensor in qwen3_weights().items()
            if ".mlp." not in name
        }
        path = self.write("missing", QWEN3, weights)
        for command in ("verify", "bench"):
            status, _, error = run(command, path, "--quiet")
            self.assertEqual(status, 1)
            self.assertIn(
                f"'{path}' does not have 3 weights of "
                "Qwen3ForCausalLM, which transformers would draw: "
                "model.layers.0.mlp.down_proj.weight",
                error,
            )

    def test_inputs_of_a_config_file(self):
        path = self.write("config", QWEN3) / "config.json"
        lines = self.path / "lines.txt"
        lines.write_text("a line\n")
        status, _, error = run(
            "inputs",
            path,
            "--text",
            lines,
            "--module",
            "model.layers.0",
            "-o",
            self.path / "out",
        )
        self.assertEqual(status, 1)
        self.assertIn(
            "inputs needs a directory with weights and a "
            f"tokenizer; '{path}' is not a directory",
            error,
        )

    def test_no_weights_at_all(self):
        path = self.write("empty", QWEN3)
        status, _, error = run("verify", path)
        self.assertEqual(status, 1)
        self.assertIn(f"no weights in '{path}'", error)

    def test_verify_compares_with_the_files(self):
        path = self.write("qwen3", QWEN3, qwen3_weights())
        status, out, error = run("verify", path, "--quiet")
        self.assertEqual(status, 0, error + out)
        self.assertIn(
            "files  model  14 of 14 parameters have the values of", out
        )
        loaded = loader.load_model(path, torch.bfloat16)
        with torch.no_grad():
            loaded.model.layers[0].mlp.up_proj.weight[3, 4] += 1.0
        found = compare_with_files(loaded, path)
        self.assertFalse(found)
        self.assertEqual(
            found.differ,
            ["'model.layers.0.mlp.up_proj.weight' has other values"],
        )

    def test_sizes_come_before_the_weights(self):
        path = self.write("qwen3", QWEN3, qwen3_weights())
        _, _, error = run("bench", path, "--repeats=1")
        self.assertIn(
            "Qwen3ForCausalLM: 13,440 parameters, 26,880 bytes in bfloat16",
            error,
        )
        with mock.patch.object(model_source, "free_memory", return_value=1000):
            status, _, error = run("verify", path)
        self.assertEqual(status, 1)
        self.assertIn(
            "the model does not fit on 'cpu': Qwen3ForCausalLM", error
        )

    def test_finding_16_missing_packages_are_one_line(self):
        path = self.write("qwen3", QWEN3, qwen3_weights())
        for raised, text in (
            (
                ImportError("Loading needs `some_package`\nhint"),
                "needs a package that is not installed: Loading needs "
                "`some_package`",
            ),
            (AssertionError(), "AssertionError without a message"),
        ):
            with (
                self.subTest(text),
                mock.patch.object(
                    transformers.Qwen3ForCausalLM,
                    "from_pretrained",
                    side_effect=raised,
                ),
            ):
                status, _, error = run("verify", path, "--quiet")
                self.assertEqual(status, 1)
                self.assertEqual(error.count("\n"), 1)
                self.assertIn(text, error)


@needs_library
class Quantized(Directories):
    def test_finding_02_modelopt_scales_from_either_file(self):
        exact = qwen3_weights()["model.layers.0.mlp.gate_proj.weight"]
        in_config = {
            **QWEN3,
            "quantization_config": {
                "quant_method": "modelopt",
                "quant_algo": "FP8",
            },
        }
        for name, config, files in (
            ("config", in_config, {}),
            ("beside", QWEN3, {"hf_quant_config": HF_QUANT}),
            ("nowhere", QWEN3, {}),
        ):
            with self.subTest(name):
                path = self.write(name, config, modelopt_weights(), **files)
                status, out, error = run("verify", path, "--quiet")
                self.assertEqual(status, 0, error + out)
                self.assertIn("28 of 28 parameters", out)
                output = self.path / f"{name}.mlir"
                status, _, error = run(
                    "import",
                    "--pretrained",
                    path,
                    "--parent",
                    "model.layers.0",
                    "--members",
                    "post_attention_layernorm,mlp",
                    "--shape",
                    "tokens,32",
                    "-o",
                    output,
                )
                self.assertEqual(status, 0, error)
                stored = load_file(output.with_suffix(".safetensors"))
                weight = next(t for n, t in stored.items() if "gate" in n)
                self.assertIs(weight.dtype, torch.float8_e4m3fn)
                model = loader.load_model(path, torch.bfloat16)
                linear = model.model.layers[0].mlp.gate_proj
                real = linear.weight.float() * linear.weight_scale
                error = (real - exact.float()).norm() / exact.float().norm()
                self.assertLess(float(error), 0.05)

    def test_what_is_quantized_is_not_calibrated_again(self):
        path = self.write(
            "modelopt", QWEN3, modelopt_weights(), hf_quant_config=HF_QUANT
        )
        block = self.path / "block.mlir"
        status, _, error = run(
            "import",
            "--pretrained",
            path,
            "--parent",
            "model.layers.0",
            "--members",
            "mlp",
            "--shape",
            "tokens,32",
            "-o",
            block,
        )
        self.assertEqual(status, 0, error)
        data = self.path / "x.npy"
        np.save(data, np.zeros((3, 32), np.float32))
        status, _, error = run(
            "calibrate",
            block,
            data,
            "--weights",
            block.with_suffix(".safetensors"),
            "--no-cache",
            "--tools",
            Path(tool("fuse-opt")).parent,
            "-o",
            self.path / "scales.json",
        )
        self.assertEqual(status, 1)
        self.assertIn(
            "has no linear to observe: its weights are quantized "
            "already, with their scales",
            error,
        )

    def test_codes_that_were_read_as_numbers_are_found(self):
        path = self.write(
            "beside", QWEN3, modelopt_weights(), hf_quant_config=HF_QUANT
        )
        with mock.patch.object(
            loader, "is_stored_checkpoint", return_value=False
        ):
            model = loader.load_model(path, torch.bfloat16)
        found = compare_with_files(model, path)
        self.assertFalse(found)
        self.assertIn(
            "holds the codes of torch.float8_e4m3fn as if they were numbers",
            str(found),
        )

    def test_stored_weights_without_scales(self):
        weights = {
            name: tensor
            for name, tensor in modelopt_weights().items()
            if not name.endswith("_scale")
        }
        path = self.write("bare", QWEN3, weights)
        status, _, error = run("verify", path)
        self.assertEqual(status, 1)
        self.assertIn("FUSE-N312 weight-scale-missing", error)

    def test_finding_16_formats_by_their_names(self):
        packed = {
            "config_groups": {"g": {"weights": {"num_bits": 4}}},
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
        }
        for quantization, name in (
            ({"quant_method": "awq", "bits": 8}, "8-bit AWQ"),
            ({"quant_method": "gptq", "bits": 3}, "3-bit GPTQ"),
            (
                {"quant_method": "bitsandbytes", "load_in_4bit": True},
                "4-bit bitsandbytes",
            ),
            (
                {"quant_method": "bitsandbytes", "load_in_8bit": True},
                "8-bit bitsandbytes",
            ),
            ({"quant_method": "mxfp4"}, "4-bit MXFP4"),
            (
                {"quant_method": "modelopt", "quant_algo": "MXFP8"},
                "ModelOpt MXFP8",
            ),
            ({"quant_method": "hqq", "nbits": 4}, "4-bit HQQ"),
            ({"quant_method": "new_method"}, "new_method"),
            (packed, "4-bit compressed-tensors (pack-quantized)"),
        ):
            with self.subTest(name):
                self.assertTrue(
                    formats.refusal(quantization).startswith(
                        f"FUSE-N313 unsupported-format: {name} weights, which no "
                        "kernel reads"
                    )
                )
        path = self.write(
            "awq",
            {
                **QWEN3,
                "quantization_config": {"quant_method": "awq", "bits": 8},
            },
            qwen3_weights(),
        )
        for command in (
            ("explain", path),
            ("verify", path),
            (
                "import",
                "--pretrained",
                path,
                "--parent",
                "",
                "--members",
                "lm_head",
                "--shape",
                "tokens,32",
                "-o",
                self.path / "x.mlir",
            ),
        ):
            status, _, error = run(*command)
            self.assertEqual(status, 1)
            self.assertIn("8-bit AWQ weights", error)

    def test_finding_04_models_that_compressed_tensors_loaded(self):
        weights = modelopt_weights()
        group = {"targets": ["Linear"], "weights": {"num_bits": 8}}
        path = self.write(
            "ct",
            {
                **QWEN3,
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "format": "float-quantized",
                    "config_groups": {"group_0": group},
                },
            },
            weights,
        )
        model = fuse_mlir.load_model(path)
        ids = torch.tensor([[3, 14, 15, 9]])
        with torch.no_grad():
            before = model(ids).logits
            sites = fuse_mlir.fuse_modules(model, only_faster=False)
            self.assertEqual(
                [s.families for s in sites][:2],
                [("gated_mlp",), ("norm_linear",)],
            )
            self.assertTrue(fuse_mlir.verify(model))
            fuse_mlir.unfuse_modules(model)
            self.assertTrue(torch.equal(model(ids).logits, before))
        # The package puts such a forward on each linear.
        code = compile(
            "def forward(self, x):\n    return x\n",
            "site-packages/compressed_tensors/forward.py",
            "exec",
        )
        made = {}
        exec(code, made)
        linear = model.model.layers[0].mlp.gate_proj
        linear.forward = types.MethodType(made["forward"], linear)
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "FUSE-N208 has-hooks: "
            "'model.layers.0.mlp.gate_proj' has a forward of "
            "compressed-tensors, .* fuse_mlir.load_model",
        ):
            fuse_mlir.fuse_modules(model)

    def test_finding_16_modules_of_packages_by_their_format(self):
        kind = type(
            "WQLinear_GEMM",
            (torch.nn.Module,),
            {
                "__module__": "awq.modules.linear.gemm",
                "forward": lambda self, x: x,
            },
        )
        model = torch.nn.Sequential(kind())
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "FUSE-N313 unsupported-format: '0' has "
            "4-bit AWQ .WQLinear_GEMM. weights",
        ):
            fuse_mlir.fuse_modules(model, inputs=torch.randn(2, 8))

    def test_finding_15_inverted_input_scales(self):
        ids = torch.tensor([[3, 14, 15, 9], [2, 6, 5, 35]])
        right = self.write("right", QWEN3, modelopt_weights())
        weights = modelopt_weights()
        name = "model.layers.0.mlp.down_proj.input_scale"
        weights[name] = 1.0 / weights[name]
        wrong = self.write("wrong", QWEN3, weights)
        # Without data the risk is named, with data the scale is found.
        sites = fuse_mlir.explain(fuse_mlir.load_model(wrong))
        self.assertEqual(sites.refused, [])
        self.assertIn(
            "gated_mlp with the input scales of the checkpoint, which were not "
            "compared with data",
            str(sites),
        )
        for path, count in ((right, 0), (wrong, 1)):
            model = fuse_mlir.load_model(path)
            sites = fuse_mlir.explain(model, inputs=ids)
            self.assertNotIn("not compared", str(sites))
            self.assertEqual(len(sites.refused), count, str(sites))
        self.assertIn(
            "FUSE-N306 inverted-scale-in-checkpoint: linear "
            "'model.layers.0.mlp.down_proj': the input scale 74.6",
            str(sites),
        )

    def test_load_model_errors(self):
        for arguments, text in (
            (("/nowhere",), "no directory '/nowhere'"),
            (
                (self.path, torch.float64),
                "dtype is torch.float64; expected one of torch.bfloat16",
            ),
        ):
            with self.assertRaisesRegex(errors.BlockError, text):
                fuse_mlir.load_model(*arguments)

    def test_supported_formats(self):
        eight = {
            "config_groups": {"g": {"weights": {"num_bits": 8}}},
            "quant_method": "compressed-tensors",
        }
        for quantization, name in (
            (
                {"quant_method": "fp8", "activation_scheme": "static"},
                "fine-grained FP8 (static activations)",
            ),
            (
                {"quant_method": "fp8", "weight_block_size": [128, 128]},
                "fine-grained FP8 (blocks of 128x128, dynamic activations)",
            ),
            ({"quant_method": "modelopt", "quant_algo": "FP8"}, "ModelOpt FP8"),
            (
                {**eight, "format": "float-quantized"},
                "8-bit compressed-tensors (float-quantized)",
            ),
            (
                {**eight, "format": "int-quantized"},
                "8-bit compressed-tensors (int-quantized)",
            ),
        ):
            with self.subTest(name):
                self.assertEqual(formats.describe(quantization), name)
                self.assertIsNone(formats.refusal(quantization))

    def test_finding_09_what_can_be_done_with_dynamic_and_block_scales(self):
        dynamic = {
            n: t
            for n, t in modelopt_weights().items()
            if not n.endswith("input_scale")
        }
        path = self.write("dynamic", QWEN3, dynamic)
        status, out, _ = run("explain", path, "--quiet")
        self.assertEqual(status, 0)
        self.assertIn("FUSE-N302", out)
        self.assertIn(
            "fuse_mlir.calibrate(model, inputs) measures static scales", out
        )
        block = {
            n: t.expand(2, 1).clone()
            if n.endswith("weight_scale") and "gate" in n
            else t
            for n, t in modelopt_weights().items()
        }
        path = self.write("block", QWEN3, block)
        status, out, _ = run("explain", path, "--quiet")
        self.assertIn("FUSE-N301", out)
        self.assertIn("load the model dequantized", out)


if __name__ == "__main__":
    unittest.main()
