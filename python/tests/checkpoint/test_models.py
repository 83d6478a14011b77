# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chains out of real architectures, built from small configs."""

import tempfile
import unittest

import torch
from torch import nn

from fuse_mlir import errors
from fuse_mlir.checkpoint import loader, models
from fuse_mlir.frontend import extract
from fuse_mlir.frontend.importer import import_program
from fuse_mlir.matching.members import take_chain
from tests.support import fuse_opt

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 32,
}


def import_chain(
    architecture,
    parent,
    members,
    settings=SMALL,
    dtype=torch.bfloat16,
    shape="tokens,64",
    residual=False,
):
    model = models.build_model(architecture, settings, dtype)
    chain = take_chain(model, parent, members, residual)
    models.seed_weights(chain, seed=1)
    program = extract.export_module(chain, extract.parse_shape(shape), dtype)
    return import_program(program, architecture)


class Architectures(unittest.TestCase):
    def check(self, expected, *arguments, **options):
        text = import_chain(*arguments, **options).text
        fuse_opt(text, "--verify-roundtrip")
        for piece in expected:
            self.assertIn(piece, text)

    def test_qwen3(self):
        self.check(
            [
                "fuse.activation silu",
                "tensor<?x64xbf16>",
                'fuse.parameter = "model.layers.1.mlp.up_proj.weight"',
            ],
            "qwen3",
            "model.layers.1",
            ["post_attention_layernorm", "mlp"],
        )

    def test_llama_with_batch(self):
        self.check(
            ["tensor<?x?x64xbf16>"],
            "llama",
            "model.layers.0",
            ["post_attention_layernorm", "mlp"],
            shape="batch,tokens,64",
        )

    def test_gemma3(self):
        self.check(
            ["fuse.activation gelu_tanh", "arith.constant 1.0 : f32"],
            "gemma3_text",
            "model.layers.0",
            ["pre_feedforward_layernorm", "mlp", "post_feedforward_layernorm"],
        )

    def test_gpt_neox(self):
        self.check(
            ["fuse.layer_norm", "fuse.activation gelu %", "bias("],
            "gpt_neox",
            "gpt_neox.layers.0",
            ["post_attention_layernorm", "mlp"],
        )

    def test_gpt2_has_transposed_weights(self):
        self.check(
            ["fuse.layer_norm", "linalg.transpose", "math.tanh"],
            "gpt2",
            "transformer.h.0",
            ["ln_2", "mlp"],
            {"n_embd": 64, "n_layer": 1, "n_head": 2, "vocab_size": 32},
        )

    def test_phi3_has_gate_and_up_in_one(self):
        self.check(
            ['gate_up_proj.weight[0:96]"', 'gate_up_proj.weight[96:192]"'],
            "phi3",
            "model.layers.0",
            ["post_attention_layernorm", "mlp"],
            {**SMALL, "pad_token_id": 0},
        )

    def test_falcon_multiplies_with_the_transpose(self):
        self.check(
            ["fuse.linear %"],
            "falcon",
            "transformer.h.0",
            ["ln_attn", "mlp"],
            {
                "hidden_size": 64,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "vocab_size": 32,
                "new_decoder_architecture": True,
            },
        )

    def test_residual_adds_the_input_first(self):
        text = import_chain(
            "qwen3",
            "model.layers.0",
            ["post_attention_layernorm", "mlp"],
            residual=True,
        ).text
        self.assertRegex(text, r"ins\(%hidden_states, %linear_2 ")


BERT = {**SMALL, "num_hidden_layers": 1}
BLOOM = {"hidden_size": 64, "n_layer": 1, "n_head": 2, "vocab_size": 32}


class Residual(nn.Module):
    """A model whose second module has an optional argument."""

    class Up(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return torch.relu(self.linear(x))

    class Down(Up):
        def forward(self, x, residual=None, scale=1.0):
            y = self.linear(x) * scale
            return y if residual is None else y + residual

    def __init__(self, other=False):
        super().__init__()
        self.up, self.down, self.other = self.Up(), self.Down(), other

    def forward(self, x):
        residual = x * 2 if self.other else x
        return self.down(self.up(x), residual, scale=0.5)


class EarlierValues(unittest.TestCase):
    """Chains whose later members also read the input of the first."""

    def check_in_the_model(self, architecture, settings, parent, members):
        """Compares a chain with what the whole model computes there."""
        model = models.build_model(architecture, settings, torch.float32, "cpu")
        models.seed_weights(model.eval(), 1)
        chain = take_chain(model, parent, members)
        owner, seen = model.get_submodule(parent), []
        handles = [
            owner.get_submodule(members[0]).register_forward_hook(
                lambda _, args, __: seen.append(args[0])
            ),
            owner.get_submodule(members[-1]).register_forward_hook(
                lambda _, __, result: seen.append(result)
            ),
        ]
        with torch.no_grad():
            model(torch.arange(1, 9).view(2, 4))
            for handle in handles:
                handle.remove()
            self.assertTrue(torch.equal(chain(seen[0]), seen[1]))

    def test_bert(self):
        self.check_in_the_model(
            "bert", BERT, "bert.encoder.layer.0", ["intermediate", "output"]
        )

    def test_roberta(self):
        self.check_in_the_model(
            "roberta",
            BERT,
            "roberta.encoder.layer.0",
            ["intermediate", "output"],
        )

    def test_bloom_adds_the_residual_in_its_mlp(self):
        self.check_in_the_model(
            "bloom",
            BLOOM,
            "transformer.h.0",
            ["post_attention_layernorm", "mlp"],
        )

    def test_the_input_is_one_argument(self):
        text = import_chain(
            "bert", "bert.encoder.layer.0", ["intermediate", "output"], BERT
        ).text
        self.assertEqual(text.count("%hidden_states: tensor"), 1)
        self.assertRegex(text, r"ins\(%linear_1, %hidden_states ")
        formed = fuse_opt(
            text,
            "--pass-pipeline=builtin.module(fuse-raising-pipeline,"
            "canonicalize,func.func(fuse-form-kernels))",
        )
        self.assertRegex(formed, r"fuse.mlp .*then_add\(%arg0\)")

    def test_an_optional_argument_is_not_left_out(self):
        model, x = Residual().eval(), torch.randn(2, 4)
        chain = take_chain(model, "", ["up", "down"], inputs=x)
        self.assertTrue(torch.equal(chain(x), model(x)))

    def test_without_a_run_of_the_model_defaults_stay(self):
        model, x = Residual().eval(), torch.randn(2, 4)
        chain = take_chain(model, "", ["up", "down"])
        self.assertTrue(torch.equal(chain(x), model.down(model.up(x))))

    def test_pre_hooks_of_members_run(self):
        model, x = Residual().eval(), torch.randn(2, 4)
        chain = take_chain(model, "", ["up"])
        model.up.register_forward_pre_hook(lambda _, args: (args[0] + 1,))
        self.assertTrue(torch.equal(chain(x), model.up.forward(x + 1)))


class Weights(unittest.TestCase):
    def chain(self, seed):
        model = models.build_model("qwen3", SMALL, torch.bfloat16)
        chain = take_chain(
            model, "model.layers.0", ["post_attention_layernorm", "mlp"]
        )
        return models.seed_weights(chain, seed).state_dict()

    def test_parameters_that_know_no_default_device(self):
        # Its norms make theirs by torch.Tensor(size).
        model = models.build_model(
            "imagegpt", {"n_embd": 16, "n_layer": 1, "n_head": 2}, torch.float32
        )
        self.assertEqual({p.device.type for p in model.parameters()}, {"meta"})

    def test_names_are_those_of_the_model(self):
        names = set(
            models.build_model("qwen3", SMALL, torch.bfloat16).state_dict()
        )
        self.assertLessEqual(set(self.chain(0)), names)

    def test_a_seed_gives_the_same_weights(self):
        first, again, other = self.chain(3), self.chain(3), self.chain(4)
        for name in first:
            self.assertTrue(torch.equal(first[name], again[name]))
            self.assertFalse(torch.equal(first[name], other[name]))

    def test_norm_weights_vary_around_their_start(self):
        weight = self.chain(0)[
            "model.layers.0.post_attention_layernorm.weight"
        ].float()
        self.assertGreater(weight.std(), 0.05)
        self.assertLess((weight.mean() - 1).abs(), 0.1)

    def test_pretrained_directory(self):
        import transformers

        config = transformers.Qwen3Config(**SMALL)
        model = transformers.Qwen3ForCausalLM(config).to(torch.bfloat16)
        with tempfile.TemporaryDirectory() as directory:
            model.save_pretrained(directory)
            loaded = loader.load_model(directory, torch.bfloat16)
        name = "model.layers.0.mlp.gate_proj.weight"
        self.assertTrue(
            torch.equal(loaded.state_dict()[name], model.state_dict()[name])
        )


class Refusals(unittest.TestCase):
    def check(self, pattern, function, *arguments):
        with self.assertRaisesRegex(errors.BlockError, pattern):
            function(*arguments)

    def test_unknown_architecture(self):
        self.check(
            "unknown architecture 'qwen33'; similar: "
            "(?=.*qwen3(,|$))([^,]+, ){0,5}[^,]+$",
            models.build_model,
            "qwen33",
            {},
            torch.float32,
        )
        self.check(
            "unknown architecture 'zzzz'$",
            models.build_model,
            "zzzz",
            {},
            torch.float32,
        )
        for path in ("some/model", "config.json"):
            self.check(
                f"'{path}' does not exist; expected a directory with a "
                "model, a config.json, or an architecture of "
                "transformers",
                models.build_model,
                path,
                {},
                torch.float32,
            )

    def test_unknown_setting(self):
        self.check(
            "Qwen3Config has no setting 'hidden_sizes'; similar: hidden_size",
            models.build_model,
            "qwen3",
            {"hidden_sizes": 1},
            torch.float32,
        )
        self.check(
            "Qwen3Config has no setting 'zzzz'$",
            models.build_model,
            "qwen3",
            {"zzzz": 1},
            torch.float32,
        )

    def test_wrong_settings(self):
        self.check(
            "transformers cannot build 'qwen3' with these settings: "
            "TypeError: .*'num_hidden_layers' expected int, got str",
            models.build_model,
            "qwen3",
            {"num_hidden_layers": "x"},
            torch.float32,
        )
        self.check(
            "transformers cannot build 'qwen3' with these settings: "
            "ValueError: .*num_hidden_layers",
            models.build_model,
            "qwen3",
            {"num_hidden_layers": -1},
            torch.float32,
        )

    def test_impossible_settings(self):
        self.check(
            "transformers cannot build 'glm' with these settings: "
            "AssertionError: Padding_idx",
            models.build_model,
            "glm",
            SMALL,
            torch.float32,
        )

    def test_unknown_member(self):
        model = nn.Sequential(nn.Linear(2, 2))
        self.check(
            "no module '0.mlp': '0' has no child 'mlp'; it has none",
            take_chain,
            model,
            "0",
            ["mlp"],
        )
        self.check(
            "the model has no child 'x'; it has 0",
            take_chain,
            model,
            "x",
            ["mlp"],
        )

    def test_two_inputs(self):
        layer = "bert.encoder.layer.0"
        self.check(
            f"'{layer}.output' reads 2 tensors from outside of the chain "
            r"\(hidden_states, input_tensor\); expected 1, the input that the "
            f"shape describes; members of '{layer}' with one input: "
            "'intermediate,output'$",
            take_chain,
            models.build_model("bert", BERT, torch.float32),
            layer,
            ["output"],
        )

    def test_a_value_made_between_the_members(self):
        self.check(
            "the members cannot be called as Residual does: FUSE-N207 .*"
            "argument 1 of 'down' is neither a result of the chain nor an "
            "argument of 'up'; .*; no chain around linears in the model has "
            "one input$",
            take_chain,
            Residual(other=True),
            "",
            ["up", "down"],
            False,
            torch.randn(2, 4),
        )

    def test_members_in_another_order(self):
        layer = "bert.encoder.layer.0"
        self.check(
            "the members are 'output,intermediate', and BertLMHeadModel calls "
            "'intermediate,output' in this order; name them in the order of "
            "calls$",
            take_chain,
            models.build_model("bert", BERT, torch.float32),
            layer,
            ["output", "intermediate"],
        )
        # Each of these accepts one argument only.
        self.check(
            "the members are 'mlp,post_attention_layernorm', and "
            "LlamaForCausalLM calls 'post_attention_layernorm,mlp' in this "
            "order",
            take_chain,
            models.build_model("llama", SMALL, torch.float32),
            "model.layers.0",
            ["mlp", "post_attention_layernorm"],
        )

    def test_no_run_shows_the_arguments(self):
        class Sum(nn.Module):
            def forward(self, x, y):
                return x + y

        model = nn.Sequential(nn.Linear(4, 4), Sum())
        self.check(
            r"'1' takes 2 arguments \(x, y\), and no run of the model shows "
            "which values it passes: cannot infer example inputs for "
            "Sequential; pass inputs=.*; or leave '1' out of the members$",
            take_chain,
            model,
            "",
            ["0", "1"],
        )

    def test_missing_directory(self):
        self.check(
            "no directory '/nowhere'",
            loader.load_model,
            "/nowhere",
            torch.float32,
        )

    def test_bad_shape(self):
        self.check(
            "bad dimension '0' in shape 'a,0'", extract.parse_shape, "a,0"
        )
        self.check("bad dimension ''", extract.parse_shape, "a,,4")

    def test_missing_size(self):
        self.check(
            "no size given for dimension 'tokens'",
            extract.example_input,
            ["tokens", 4],
            {},
            torch.float32,
            0,
        )

    def test_buffers_cannot_be_drawn(self):
        with torch.device("meta"):
            module = nn.BatchNorm1d(4)
        self.check(
            "cannot draw values for buffers: running_mean",
            models.seed_weights,
            module,
            0,
        )


if __name__ == "__main__":
    unittest.main()
