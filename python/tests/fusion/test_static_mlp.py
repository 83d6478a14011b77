# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Static scales in loaded models: FP8 checkpoints, and calibration."""

import copy
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import native
from fuse_mlir.calibration.scales import scales_json
from fuse_mlir.checkpoint import loader
from fuse_mlir.compiler import copies
from fuse_mlir.errors import CalibrationError, RangeError
from fuse_mlir.fusion import modules
from fuse_mlir.fusion.modules import fused_sites
from fuse_mlir.matching import static_mlp
from fuse_mlir.quantized.fp8_reference import emulate, emulated
from fuse_mlir.quantized.stored import StoredLinear
from tests.models import (
    CHAIN,
    LLAMA,
    MLP,
    NORM_MLP,
    SIZES,
    fp8_transformer,
    needs_library,
    net,
    transformer,
)

torch.set_num_threads(1)

STATIC = {
    "static_quantized_mlp": {
        "input_quant": "fuse",
        "gated_mlp": "fuse",
        "dense_gelu_mlp": "fuse",
    }
}
ANY = {"static_quantized_mlp": {"input_quant": "fuse", "any_mlp": "fuse"}}
SMALL = {**LLAMA, "num_hidden_layers": 2}
IDS = torch.tensor([[3, 14, 15, 9]])


def kernel(model, number=0):
    return fused_sites(model)[number][1]._kernel


class FusionConfig(unittest.TestCase):
    """Mistakes in configs, and their messages."""

    def refuses(self, text, options):
        with self.assertRaisesRegex(fuse_mlir.PatternError, text):
            static_mlp.parse({"static_quantized_mlp": options})

    def test_what_it_takes(self):
        self.assertEqual(
            static_mlp.parse(STATIC).families, ("gated_mlp", "mlp")
        )
        self.assertIsNone(static_mlp.parse(None))
        self.assertIsNone(static_mlp.parse({"static_quantized_mlp": False}))

    def test_unknown_fusion(self):
        with self.assertRaisesRegex(
            fuse_mlir.PatternError,
            "unknown fusion 'patch_embeddings'.*'static_quantized",
        ):
            static_mlp.parse({"patch_embeddings": True})

    def test_kernels_have_names(self):
        self.refuses("needs its kernels by name, got True", True)
        self.refuses("no kernel for 'input_quant'", {"gated_mlp": "fuse"})
        self.refuses(
            "no kernel for 'gated_mlp' or 'dense_gelu_mlp' or 'any",
            {"input_quant": "fuse", "gated_mlp": False},
        )
        self.refuses(
            "kernels of the Hub for gated_mlp and 'fuse' for "
            "input_quant; name the one or the other for all",
            {"input_quant": "fuse", "gated_mlp": "org/repo"},
        )
        self.refuses(
            "'any_mlp' is 'org/repo'; expected 'fuse'$",
            {"input_quant": "org/repo", "any_mlp": "org/repo"},
        )
        for value, text in (
            (True, "is True; expected 'fuse', a repository of the Hub"),
            (
                {"repo_id": "repo"},
                "'repo_id' of 'gated_mlp' is 'repo'; "
                "expected 'org/repo', or the path",
            ),
            (
                {"repo_id": "org/repo", "gelu_func": "f"},
                "has no option "
                "'gelu_func'; expected repo_id, version, revision, "
                "trust_remote_code, swiglu_func, geglu_func",
            ),
            (
                {"repo_id": "org/repo", "swiglu_func": "a.b"},
                "'swiglu_func' of 'gated_mlp' is 'a.b'; expected the name",
            ),
            (
                {"repo_id": "org/repo", "trust_remote_code": "yes"},
                "is 'yes'; expected True or False",
            ),
            (
                {"repo_id": "org/repo", "version": 1, "revision": "main"},
                "the version 1 and the revision 'main'; expected one",
            ),
        ):
            self.refuses(text, {"input_quant": "org/repo", "gated_mlp": value})
        self.refuses(
            "no option 'gate'; expected input_quant, gated_mlp",
            {"input_quant": "fuse", "gate": "fuse"},
        )


@needs_library
class Checkpoints(unittest.TestCase):
    """The fine-grained fp8 layout of transformers."""

    def test_weights_and_scales_are_those_of_the_checkpoint(self):
        for kind, settings, family in (
            ("qwen3", SMALL, "gated_mlp"),
            ("gpt_neox", SIZES, "mlp"),
            ("bert", SIZES, "mlp"),
        ):
            with self.subTest(kind):
                model = fp8_transformer(kind, **settings)
                before = [(p, id(m)) for p, m in model.named_modules()]
                state = {
                    k: (v.data_ptr(), v.dtype)
                    for k, v in model.state_dict().items()
                }
                result = fuse_mlir.fuse_modules(model, fusion_config=ANY)
                self.assertEqual(
                    {f for s in result for f in s.families}, {family}
                )
                checks = fuse_mlir.verify(model)
                self.assertTrue(checks, str(checks))
                found = kernel(model)
                own = {p.data_ptr() for p in model.parameters()}
                self.assertTrue(
                    own.issuperset(w.data_ptr() for w in found.weights())
                )
                self.assertIn("input = 0.02", found.compiled.formed)
                fuse_mlir.unfuse_modules(model)
                self.assertEqual(
                    [(p, id(m)) for p, m in model.named_modules()], before
                )
                self.assertEqual(
                    {
                        k: (v.data_ptr(), v.dtype)
                        for k, v in model.state_dict().items()
                    },
                    state,
                )

    def test_patterns_take_stored_linears_too(self):
        model = fp8_transformer("llama", **SMALL)
        expected = self.logits(model)
        result = fuse_mlir.fuse_modules(model, NORM_MLP)
        self.assertIn("scales(f8E4M3FN", kernel(model).compiled.formed)
        self.assertEqual(len(result.fused), 2)
        self.assertTrue(torch.equal(self.logits(model), expected))

    @staticmethod
    def logits(model):
        with torch.no_grad(), emulated(model):
            return model(IDS).logits

    def test_scales_that_change_make_a_new_kernel(self):
        model = fp8_transformer("llama", **SMALL)
        fuse_mlir.fuse_modules(model, NORM_MLP)
        before = self.logits(model)
        first = kernel(model)
        self.logits(model)
        self.assertIs(kernel(model), first)
        down = model.model.layers[0].mlp.down_proj
        with torch.no_grad():
            down.activation_scale.mul_(0.7)
        changed = self.logits(model)
        self.assertIsNot(kernel(model), first)
        self.assertFalse(torch.equal(changed, before))
        fuse_mlir.unfuse_modules(model)
        self.assertTrue(torch.equal(self.logits(model), changed))

    def test_scale_problems_have_their_ids(self):
        def fails(reason, change):
            model = fp8_transformer("llama", **SMALL)
            change(model.model.layers[1].mlp)
            found = fuse_mlir.explain(model, fusion_config=STATIC)
            self.assertEqual(
                [s.status for s in found], ["could fuse", "refused"]
            )
            self.assertRegex(found[1].reason, reason)

        def put(linear, name, value):
            def change(mlp):
                module = getattr(mlp, linear)
                setattr(
                    module,
                    name,
                    None
                    if value is None
                    else nn.Parameter(value, requires_grad=False),
                )

            return change

        fails(
            "FUSE-N302 input-scale-missing: linear 'mlp.up_proj'",
            put("up_proj", "activation_scale", None),
        )
        fails(
            "FUSE-N307 unusable-scale: .*'activation_scale' is zero",
            put("up_proj", "activation_scale", torch.tensor(0.0)),
        )
        fails(
            "FUSE-N301 block-scale: linear 'mlp.down_proj'",
            put("down_proj", "weight_scale_inv", torch.full((2, 4), 0.01)),
        )
        fails(
            "FUSE-N306 inverted-scale-in-checkpoint",
            put("down_proj", "weight_scale_inv", torch.tensor(500.0)),
        )
        fails(
            "FUSE-N303 weight-type: linear 'mlp.gate_proj': .*bfloat16",
            put("gate_proj", "weight", torch.ones(64, 32).bfloat16()),
        )
        # Two input scales: the linears read two values then.
        inputs = (
            "; only norm_linear, fused_linear and act_quantize form, and the "
            "fusion_config asks for gated_mlp or mlp; "
        )
        fails(
            "FUSE-N019 input-scales-differ: .*" + inputs,
            put("gate_proj", "activation_scale", torch.tensor(0.03)),
        )
        weight = torch.zeros(64, 32)
        fails(
            "FUSE-N020 storage-types-differ: .*" + inputs,
            put("gate_proj", "weight", weight.to(torch.float8_e5m2)),
        )
        fails(
            "FUSE-N303 weight-type: .* the weight is torch.float8_e4m3fnuz",
            put("gate_proj", "weight", weight.to(torch.float8_e4m3fnuz)),
        )

    def test_kernels_that_are_not_named_are_not_taken(self):
        model = fp8_transformer("gpt_neox", **SIZES)
        only = {
            "static_quantized_mlp": {"input_quant": "fuse", "gated_mlp": "fuse"}
        }
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "FUSE-N218 other-family: "
            "the members form mlp, and the "
            "fusion_config asks for gated_mlp",
        ):
            fuse_mlir.fuse_modules(model, fusion_config=only)

    def test_finding_16_kernels_take_what_their_names_say(self):
        star = {**SIZES, "num_hidden_layers": 1, "num_key_value_heads": 1}
        for kind, settings, act in (
            ("qwen3", SMALL, "silu"),
            ("qwen3", SMALL, "gelu_tanh"),
            ("qwen3", SMALL, "gelu"),
            ("qwen3", SMALL, "relu"),
            ("starcoder2", star, "gelu_tanh"),
            ("starcoder2", star, "gelu"),
            ("starcoder2", star, "relu"),
        ):
            with self.subTest(kind=kind, act=act):
                name = "gelu_pytorch_tanh" if act == "gelu_tanh" else act
                model = fp8_transformer(
                    kind, **{**settings, "hidden_act": name}
                )
                site = fuse_mlir.explain(model, fusion_config=STATIC)[0]
                if act in ("silu", "gelu_tanh"):
                    self.assertEqual(site.status, "could fuse")
                    continue
                self.assertRegex(
                    site.reason,
                    "FUSE-N230 activation-not-asked-for: the "
                    f"members are a .* MLP with the activation {act}, and the "
                    "fusion_config asks for .*gelu_tanh; 'any_mlp' instead "
                    "of '(gated|dense_gelu)_mlp' allows all activations",
                )
                fuse_mlir.fuse_modules(model, fusion_config=ANY)
                self.assertTrue(fuse_mlir.verify(model))

    def test_floating_point_is_refused(self):
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "FUSE-N303 weight-type: linear "
            "'mlp.gate_proj': the weight is torch.bfloat16",
        ):
            fuse_mlir.fuse_modules(
                transformer("llama", **SMALL), fusion_config=STATIC
            )

    def test_models_without_weights(self):
        model = fp8_transformer("llama", everywhere=True, **SMALL).to("meta")
        found = fuse_mlir.explain(model, fusion_config=STATIC)
        self.assertEqual([s.status for s in found], ["could fuse"] * 2)

    def test_loading_on_the_cpu_keeps_scales(self):
        for kind, settings in (
            ("qwen3", {**SMALL, "tie_word_embeddings": True}),
            ("gpt_neox", SIZES),
        ):
            with self.subTest(kind), tempfile.TemporaryDirectory() as path:
                model = fp8_transformer(kind, everywhere=True, **settings)
                model.save_pretrained(path)
                loaded = loader.load_model(path, torch.bfloat16)
                ours = loaded.state_dict()
                theirs = model.state_dict()
                self.assertEqual(list(ours), list(theirs))
                for name, tensor in ours.items():
                    self.assertTrue(
                        torch.equal(
                            tensor.view(torch.uint8).flatten(),
                            theirs[name].view(torch.uint8).flatten(),
                        )
                        if tensor.dim()
                        else tensor == theirs[name],
                        name,
                    )
                # Rotary frequencies of `model` were rounded to bf16.
                torch.testing.assert_close(
                    self.logits(loaded),
                    self.logits(model),
                    atol=2e-2,
                    rtol=2e-2,
                )

    def test_gradients_are_refused_by_name(self):
        model = fp8_transformer("llama", **SMALL)
        model.model.layers[0].post_attention_layernorm.requires_grad_()
        fuse_mlir.fuse_modules(model, only_faster=False)
        with self.assertRaisesRegex(
            fuse_mlir.KernelError,
            "site 'post_.*' has weights that are stored in 8 bits",
        ):
            model(IDS).logits.sum().backward()


class Emulation(unittest.TestCase):
    def test_classes_come_back(self):
        model = fp8_transformer("llama", everywhere=True, **SMALL)
        kinds = [type(m) for m in model.modules()]
        with emulated(model):
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            copied = torch.load(file, weights_only=False)
            with torch.no_grad():
                expected = model(IDS).logits
        self.assertEqual([type(m) for m in model.modules()], kinds)
        with torch.no_grad():
            self.assertTrue(torch.equal(copied(IDS).logits, expected))

    def test_other_layouts_are_multiplied_out(self):
        model = fp8_transformer("llama", everywhere=True, **SMALL)
        linear = model.model.layers[0].mlp.up_proj
        linear.weight_scale_inv = nn.Parameter(torch.full((2, 4), 0.5))
        emulate(model)
        x = torch.randn(3, 32).bfloat16()
        with torch.no_grad():
            expected = x @ (linear.weight.float() * 0.5).bfloat16().t()
            torch.testing.assert_close(linear(x), expected)

    def test_storage_survives_a_change_of_type(self):
        layer = fp8_transformer("llama", **SMALL).model.layers[0]
        linear = (
            copies.stored_members(["mlp"], [layer.mlp], None).members[0].up_proj
        )
        self.assertIsInstance(linear, StoredLinear)
        self.assertIs(linear.double(), linear)
        self.assertEqual(linear.weight.dtype, torch.float8_e4m3fn)


@needs_library
class Calibration(unittest.TestCase):
    data = [
        torch.randint(1, 64, (2, 7), generator=torch.Generator().manual_seed(i))
        for i in range(3)
    ]

    def test_a_model_in_static_fp8(self):
        model = transformer("llama", **SMALL)
        before = [(p, id(m)) for p, m in model.named_modules()]
        with torch.no_grad():
            expected = model(IDS).logits
        steps = []
        result = fuse_mlir.calibrate(
            model, self.data, progress=lambda *step: steps.append(step)
        )
        self.assertEqual(len(result.fused), 2)
        self.assertEqual(
            [(done, total) for done, total, _ in steps],
            [(1, 2), (2, 2), (1, 3), (2, 3), (3, 3), (1, 2), (2, 2)],
        )
        self.assertRegex(steps[1][2], r"^model.layers.1.post.*: plan$")
        self.assertEqual(steps[4], (3, 3, "calibration"))
        self.assertEqual(len(result.calibration.scales), 6)
        checks = fuse_mlir.verify(model)
        self.assertTrue(checks, str(checks))
        with torch.no_grad():
            ours = model(IDS).logits
        self.assertFalse(torch.equal(ours, expected))
        cosine = torch.nn.functional.cosine_similarity(
            ours.double().flatten(), expected.double().flatten(), 0
        )
        self.assertGreater(cosine, 0.99)
        # The weights are those in bf16, as long as nothing is unfused too.
        self.assertEqual(
            model.model.layers[0].mlp.up_proj.weight.dtype, torch.bfloat16
        )
        fuse_mlir.unfuse_modules(model)
        self.assertEqual([(p, id(m)) for p, m in model.named_modules()], before)
        with torch.no_grad():
            self.assertTrue(torch.equal(model(IDS).logits, expected))

    def test_scales_serve_another_model(self):
        model = transformer("llama", **SMALL)
        result = fuse_mlir.calibrate(model, self.data, per_channel=True)
        with torch.no_grad():
            expected = model(IDS).logits
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "scales.json"
            path.write_text(scales_json(result.calibration))
            self.assertEqual(
                json.loads(path.read_text())["model.layers.1.mlp.up_proj"][
                    "weight_scale"
                ],
                "per_channel",
            )
            other = transformer("llama", **SMALL)
            config = {
                "static_quantized_mlp": {
                    **STATIC["static_quantized_mlp"],
                    "scales": path,
                }
            }
            fuse_mlir.fuse_modules(other, fusion_config=config)
        for made in (other, copy.deepcopy(other)):
            with torch.no_grad():
                self.assertTrue(torch.equal(made(IDS).logits, expected))

    def test_finding_15_scales_are_for_one_storage_type(self):
        model = transformer("llama", **SMALL)
        result = fuse_mlir.calibrate(model, self.data)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "scales.json"

            def fuse(**more):
                other = transformer("llama", **SMALL)
                fuse_mlir.fuse_modules(
                    other,
                    fusion_config={
                        "static_quantized_mlp": {
                            **STATIC["static_quantized_mlp"],
                            "scales": path,
                            **more,
                        }
                    },
                )
                return kernel(other).compiled.formed

            path.write_text(json.dumps(result.calibration.scales))
            self.assertIn("scales(f8E4M3FN", fuse())
            with self.assertRaisesRegex(
                fuse_mlir.PatternError,
                "the scales of linear 'model.lay"
                ".*' were made for f8E4M3FN, and 'static_quantized_mlp' "
                "asks for i8",
            ):
                fuse(storage="i8")
            bare = {
                linear: {
                    name: value
                    for name, value in entry.items()
                    if name != "storage"
                }
                for linear, entry in result.calibration.scales.items()
            }
            path.write_text(json.dumps(bare))
            with self.assertRaisesRegex(
                fuse_mlir.PatternError,
                "does not say which type the "
                "scales of linear .* were made for; name it as "
                "'storage'",
            ):
                fuse()
            self.assertIn("scales(f8E4M3FN", fuse(storage="f8E4M3FN"))

    def test_int8(self):
        model = transformer("llama", **SMALL)
        fuse_mlir.calibrate(model, self.data, storage="i8")
        self.assertIn("scales(i8", kernel(model).compiled.formed)
        self.assertTrue(fuse_mlir.verify(model))

    def test_values_that_get_the_type_of_a_weight(self):
        # T5 converts them to that of its last linear, unless it is INT8.
        model = transformer(
            "t5",
            d_model=32,
            d_ff=64,
            d_kv=16,
            num_layers=1,
            num_heads=2,
            vocab_size=64,
        )
        inputs = {"input_ids": self.data[0], "decoder_input_ids": self.data[0]}
        for storage in ("f8E4M3FN", "i8"):
            found = fuse_mlir.calibrate(model, [inputs], storage=storage)
            self.assertEqual(found.fused[0].families, ("mlp",))
            self.assertIn(f"scales({storage}", kernel(model).compiled.formed)
            self.assertTrue(fuse_mlir.verify(model, inputs))
            fuse_mlir.unfuse_modules(model)

    def test_values_of_a_weight_that_a_forward_reads(self):
        class Reads(MLP):
            def forward(self, x):
                return super().forward(x) * self.down.weight.sum()

        model, x = net(1)
        model.bfloat16().layers[0].mlp.__class__ = Reads
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "'sum' reads a weight that is stored in "
            "8 bits outside of its linear",
        ):
            fuse_mlir.calibrate(model, [x.bfloat16()])

    def test_changed_weights_are_stored_again(self):
        model, x = net()
        x = x.bfloat16()
        model = model.bfloat16()
        fuse_mlir.calibrate(model, [x], CHAIN)
        before = model(x)
        with torch.no_grad():
            model.layers[0].mlp.down.weight.mul_(0.5)
        self.assertFalse(torch.equal(model(x), before))
        self.assertTrue(fuse_mlir.verify(model, x))

    def test_errors(self):
        model = transformer("llama", **SMALL)
        with self.assertRaisesRegex(CalibrationError, "at least one input"):
            fuse_mlir.calibrate(model, [])
        for data, kind in (
            (self.data[0], "Tensor"),
            (None, "NoneType"),
            ({"input_ids": self.data[0]}, "dict"),
        ):
            with self.assertRaisesRegex(
                CalibrationError, f"data is a {kind}; expected a list"
            ):
                fuse_mlir.calibrate(model, data)
        hooks = [len(m._forward_pre_hooks) for m in model.modules()]
        broken = copy.deepcopy(model)
        with torch.no_grad():
            broken.model.layers[0].mlp.up_proj.weight[0, 0] = float("nan")
        path = "model.layers.0.mlp."
        with self.assertRaisesRegex(
            RangeError, f"input of '{path}down_proj': .* values are not finite"
        ):
            fuse_mlir.calibrate(broken, self.data)
        self.assertEqual(
            [len(m._forward_pre_hooks) for m in broken.modules()], hooks
        )
        with torch.no_grad():
            broken.model.layers[0].mlp.up_proj.weight.zero_()
        with self.assertRaisesRegex(
            RangeError, f"weight of '{path}up_proj': no scale follows from"
        ):
            fuse_mlir.calibrate(broken, self.data)
        with self.assertRaisesRegex(
            CalibrationError, "LlamaForCausalLM is in training mode; call eval"
        ):
            fuse_mlir.calibrate(model.train(), self.data)
        scales = {"model.layers.0.mlp.up_proj": {"input_scale": 0.1}}
        with self.assertRaisesRegex(
            fuse_mlir.PatternError,
            "scales of linear 'mlp.up_proj' have no 'weight_scale'",
        ):
            fuse_mlir.fuse_modules(
                model.eval(),
                fusion_config={
                    "static_quantized_mlp": {
                        **STATIC["static_quantized_mlp"],
                        "scales": {
                            **scales,
                            "model.layers.0.mlp.gate_proj": {
                                "input_scale": 0.1,
                                "weight_scale": 0.1,
                            },
                        },
                    }
                },
            )

    def test_an_iterator_is_read_once(self):
        model = transformer("llama", **SMALL)
        other = transformer("llama", **SMALL)
        fuse_mlir.calibrate(model, iter(self.data))
        fuse_mlir.calibrate(other, self.data)
        self.assertEqual(
            kernel(model).compiled.formed, kernel(other).compiled.formed
        )

    def test_scales_that_are_none(self):
        model = transformer("llama", **SMALL)
        path = "model.layers.0.mlp.up_proj"

        def fails(scales, message):
            with self.assertRaisesRegex(fuse_mlir.PatternError, message):
                fuse_mlir.explain(
                    model,
                    fusion_config={
                        "static_quantized_mlp": {
                            **STATIC["static_quantized_mlp"],
                            "scales": scales,
                        }
                    },
                )

        fails([1], "scales are a list; expected a mapping of linears")
        fails({path: [1]}, "linear '.*up_proj' are \\[1\\]; expected a mapping")
        fails(
            {path: {"scale": 1.0}},
            "have the unknown 'scale'; expected "
            "input_scale, weight_scale and storage",
        )
        for value in ("0.1", None, True, "per_channel"):
            fails(
                {path: {"input_scale": value}},
                "'input_scale' of linear "
                f"'{path}' is {value!r}; expected a number",
            )
        fails(
            {path: {"weight_scale": "per_row"}},
            "expected a number or 'per_channel'",
        )
        fails(
            {"layers.0.mlp.up_proj": {}},
            "there are scales for 'layers.0."
            "mlp.up_proj', which is not a module of LlamaForCausalLM; its "
            "linears are model.layers.0.self_attn.q_proj, ",
        )
        fails("no.json", "cannot read the scales 'no.json': No such file")
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "scales.json"
            file.write_text("{")
            fails(file, "the scales '.*scales.json' are not JSON: ")


class Untouched:
    """Data that must not be read."""

    def __iter__(self):
        raise AssertionError("the data was read")


class Counted:
    """Data that counts the inputs that were read."""

    def __init__(self, inputs):
        self.inputs, self.read = inputs, 0

    def __iter__(self):
        for one in self.inputs:
            self.read += 1
            yield one


class Shy(nn.Module):
    """Has example inputs of six tokens, for which it does not run its MLP."""

    main_input_name = "input_ids"

    class Config:
        vocab_size = 8

    config = Config()

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 8)
        self.norm = nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, input_ids):
        x = self.embed(input_ids)
        return x if input_ids.shape[-1] == 6 else self.mlp(self.norm(x))


@needs_library
class PlanBeforeCalibration(unittest.TestCase):
    """Models that cannot be fused are refused before the data is read."""

    def refused(self, model, message, data=None, **options):
        """The inputs that were read before the refusal."""
        steps = []
        runs = []
        model.register_forward_pre_hook(lambda *_: runs.append(1))
        with self.assertRaisesRegex(fuse_mlir.FuseMlirError, message):
            fuse_mlir.calibrate(
                model,
                Untouched() if data is None else data,
                progress=lambda *step: steps.append(step),
                **options,
            )
        self.assertNotIn("calibration", [line for _, _, line in steps])
        self.assertEqual(runs, [])

    def test_refused_by_the_data_flow(self):
        model = transformer("llama", **SMALL)
        for layer in model.model.layers:
            layer.mlp.register_forward_hook(lambda *_: None)
        self.refused(model, "no site with linears: FUSE-N208 has-hooks")

    def test_refused_when_strict(self):
        model = transformer("llama", **SMALL)
        model.model.layers[1].mlp.register_forward_hook(lambda *_: None)
        chain = (
            ("LlamaRMSNorm", "**.post_attention_layernorm"),
            ("LlamaMLP", "**.mlp"),
        )
        self.refused(
            model,
            "is refused: FUSE-N208 has-hooks.*pass strict=False",
            patterns=chain,
        )
        found = fuse_mlir.calibrate(model, [IDS], patterns=chain, strict=False)
        self.assertEqual(len(found.fused), 1)

    def test_refused_by_the_compiler(self):
        def fail(*_, **__):
            raise fuse_mlir.NativeError("no such chip")

        with mock.patch.object(native.Module, "compile", fail):
            self.refused(
                transformer("llama", **SMALL),
                "no chain to fuse: FUSE-N229 no-code: the compiler makes no "
                "code for the CPU: no such chip",
            )

    def test_refused_without_the_library(self):
        error = fuse_mlir.NativeError("no libfuse.so")
        with mock.patch.object(native, "library", side_effect=error):
            self.refused(transformer("llama", **SMALL), "no libfuse.so")

    def test_refused_for_its_options(self):
        model = transformer("llama", **SMALL)
        for options, message in (
            ({"storage": "i4"}, "unknown storage type 'i4'"),
            ({"method": "best"}, "unknown method 'best'"),
            (
                {"method": "percentile", "percentile": 0},
                "percentile must be above 0",
            ),
            ({"rounding": "up"}, "unknown rounding 'up'"),
        ):
            self.refused(model, message, **options)

    def test_refused_for_a_list(self):
        # Only the types of its first input are looked at.
        class Reads(MLP):
            def forward(self, x):
                return super().forward(x) * self.down.weight.sum()

        model, x = net(2)
        for layer in model.bfloat16().layers:
            layer.mlp.__class__ = Reads
        self.refused(
            model, "'sum' reads a weight that is stored", [x.bfloat16()]
        )

    def test_models_without_example_inputs_need_one(self):
        model, x = net(2)
        for layer in model.layers:
            layer.mlp.register_forward_hook(lambda *_: None)
        data = Counted([x, x, x])
        self.refused(model, "no site with linears", data)
        self.assertEqual(data.read, 1)
        self.refused(model, "needs at least one input", Counted([]))
        model, x = net(2)
        data = Counted([x, x, x])
        self.assertEqual(len(fuse_mlir.calibrate(model, data).fused), 2)
        self.assertEqual(data.read, 3)

    def test_data_that_reaches_more_than_examples(self):
        model = Shy().eval().requires_grad_(False)
        self.refused(
            model, "no site with linears|no chain", [torch.ones(2, 6).long()]
        )
        data = Counted([torch.ones(2, 4).long()] * 3)
        self.assertEqual(len(fuse_mlir.calibrate(model, data).fused), 1)
        self.assertEqual(data.read, 3)

    def test_equal_layers_are_planned_once(self):
        model = transformer("llama", **{**SMALL, "num_hidden_layers": 4})
        with mock.patch.object(
            modules, "plan_site", wraps=modules.plan_site
        ) as plan:
            fuse_mlir.calibrate(model, [IDS])
        planned = [call.kwargs.get("bind") for call in plan.mock_calls]
        self.assertEqual(planned.count(False), 1)
        self.assertEqual(len(planned), 5)

    def test_artifacts_with_scales(self):
        model, x = net(1)
        model.bfloat16()
        data = [x.bfloat16()]
        fuse_mlir.calibrate(model, data, CHAIN)
        with tempfile.TemporaryDirectory() as folder:
            path = fuse_mlir.export(model, Path(folder) / "chain.fuse")
            fuse_mlir.unfuse_modules(model)
            found = fuse_mlir.calibrate(model, data, {CHAIN: str(path)})
            self.assertEqual(len(found.fused), 1)
            fuse_mlir.unfuse_modules(model)
            # Other data has other scales, which the artifact does not have.
            with self.assertRaisesRegex(
                fuse_mlir.FuseError, "another function"
            ):
                fuse_mlir.calibrate(model, [data[0] ** 3], {CHAIN: str(path)})

    def test_all_layers_have_the_code_of_the_plan(self):
        folder = native.cache_folder()

        def count():
            return len(list(folder.glob("*.fuse")))

        model = transformer("llama", **{**SMALL, "intermediate_size": 80})
        before = count()
        fuse_mlir.calibrate(model, [IDS])
        self.assertEqual(count() - before, 1)


if __name__ == "__main__":
    unittest.main()
