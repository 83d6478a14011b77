# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of the Hub for static MLPs, which a `fusion_config` names.

The kernel is a directory with functions in plain PyTorch, whose names and
arguments are those of transformers#46997.
"""

import copy
import importlib.util
import io
import json
import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import FuseError, FusionWarning, PatternError
from fuse_mlir.fusion.at_load import fuse_loaded
from fuse_mlir.fusion.modules import all_sites
from fuse_mlir.quantized.fp8_reference import emulated
from tests.models import (
    LLAMA,
    SIZES,
    fp8_transformer,
    needs_library,
    snapshot,
    transformer,
)

torch.set_num_threads(1)

IDS = torch.tensor([[3, 14, 15, 9]])
HAS_KERNELS = importlib.util.find_spec("kernels") is not None
SMALL = {**LLAMA, "num_hidden_layers": 2}
KERNEL = """
import torch
from torch.nn.functional import gelu, silu

calls = []


def _product(x, sx, w, sw):
    return ((x.float() * sx) @ (w.float() * sw).T).bfloat16()


def _quantize(x, scale):
    return (x.float() * (1 / scale)).clamp(-448, 448).to(torch.float8_e4m3fn)


def channel_scale_quantize_fp8_static_bf16(x, channel_scale, scale):
    calls.append("quantize")
    assert x.dtype == channel_scale.dtype == torch.bfloat16
    return _quantize(x * channel_scale, scale)


def _gated(act, x, gate_up, down, sx, sw, sh, sd):
    gate, up = _product(x, sx, gate_up, sw).chunk(2, -1)
    return _product(_quantize(act(gate.float()) * up.float(), sh), sh, down,
                    sd)


def fp8_swiglu_mlp_bf16(*args):
    calls.append("swiglu")
    return _gated(silu, *args)


def fp8_geglu_mlp_bf16(*args):
    calls.append("geglu")
    return _gated(lambda x: gelu(x, approximate="tanh"), *args)


def fp8_gelu_mlp_bf16(x, up, up_bias, down, down_bias, sx, sw, sh, sd):
    calls.append("gelu")
    hidden = gelu((_product(x, sx, up, sw) + up_bias).float(),
                  approximate="tanh")
    return _product(_quantize(hidden, sh), sh, down, sd) + down_bias


mine = fp8_swiglu_mlp_bf16


def negated(*args):
    return -fp8_swiglu_mlp_bf16(*args)


def short(*args):
    return fp8_swiglu_mlp_bf16(*args)[:, 1:]
"""


class Dense(nn.Module):
    """An MLP as vision models have it."""

    def __init__(self, act):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(32, 64), nn.Linear(64, 32)
        self.activation_fn = act

    def forward(self, x):
        return self.fc2(self.activation_fn(self.fc1(x)))


@needs_library
class Endpoints(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = directory.name
        Path(self.path, "__init__.py").write_text(KERNEL)

    def config(self, **kernels):
        return {"static_quantized_mlp": {"input_quant": self.path, **kernels}}

    @staticmethod
    def logits(model):
        with torch.no_grad(), emulated(model):
            return model(IDS).logits

    @staticmethod
    def saved(model):
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        return torch.load(file, weights_only=False)

    def near(self, found, expected):
        """Kernels round at other places, which moves stored codes by one."""
        off = (found - expected).float().norm() / expected.float().norm()
        self.assertLess(float(off), 0.06)

    def model(self, **settings):
        torch.manual_seed(0)
        model = fp8_transformer("qwen3", **{**SMALL, **settings})
        # As the kernels of the proposal want it.
        for layer in model.model.layers:
            scale = layer.mlp.gate_proj.weight_scale_inv
            layer.mlp.up_proj.weight_scale_inv = nn.Parameter(
                scale.detach().clone(), requires_grad=False
            )
        return model

    def test_finding_15_kernels_of_the_hub_are_taken(self):
        from fuse_mlir.matching.endpoints import endpoint

        for act, function in (
            ("silu", "swiglu"),
            ("gelu_pytorch_tanh", "geglu"),
        ):
            with self.subTest(act):
                model = self.model(hidden_act=act)
                before, expected = snapshot(model), self.logits(model)
                names = list(model.state_dict())
                model.config.fusion_config = self.config(
                    gated_mlp={"repo_id": self.path, "version": 1}
                )
                self.assertEqual(
                    [s.status for s in fuse_mlir.explain(model)],
                    ["could fuse"] * 2,
                )
                sites = fuse_mlir.fuse_modules(model)
                self.assertEqual(
                    [s.members for s in sites.fused],
                    [["model.layers.0.mlp"], ["model.layers.1.mlp"]],
                )
                self.assertIn(f"by 'fp8_{function}_mlp_bf16' of", str(sites))
                self.assertEqual(
                    [s.status for s in fuse_mlir.explain(model)], ["fused"] * 2
                )
                calls = endpoint("gated_mlp", self.path).load().calls
                calls.clear()
                found = self.logits(model)
                self.assertEqual(calls, ["quantize", function] * 2)
                self.near(found, expected)
                self.assertEqual(list(model.state_dict()), names)
                # With `kernels`, no model of transformers can be pickled.
                for other in [copy.deepcopy(model)] + (
                    [] if HAS_KERNELS else [self.saved(model)]
                ):
                    self.assertTrue(torch.equal(self.logits(other), found))
                self.assertEqual(
                    fuse_mlir.unfuse_modules(model, "model.layers.1.mlp"),
                    ["model.layers.1"],
                )
                fuse_mlir.unfuse_modules(model)
                self.assertEqual(snapshot(model), before)
                self.assertTrue(torch.equal(self.logits(model), expected))

    def test_names_of_functions(self):
        model = self.model()
        fuse_mlir.fuse_modules(
            model,
            fusion_config=self.config(
                gated_mlp={"repo_id": self.path, "swiglu_func": "mine"}
            ),
        )
        self.assertIn("by 'mine' of", str(fuse_mlir.explain(model)))
        fuse_mlir.unfuse_modules(model)
        wrong = self.config(
            gated_mlp={"repo_id": self.path, "swiglu_func": "missing"}
        )
        with self.assertRaisesRegex(
            FuseError,
            "FUSE-N231 endpoint-not-loaded: the kernel '.*' "
            "has no function 'missing'; it has .*fp8_gelu_mlp_bf16",
        ):
            fuse_mlir.fuse_modules(model, fusion_config=wrong)

    def test_kernels_that_can_not_be_loaded(self):
        model = self.model()
        expected = self.logits(model)
        Path(self.path, "broken").mkdir()
        Path(self.path, "broken", "__init__.py").write_text("1 / 0")
        cases = [(f"{self.path}/broken", "ZeroDivisionError")]
        # It would ask the Hub.
        if not HAS_KERNELS:
            cases.append(("org/repo", "the directory does not exist, and"))
        for path, why in cases:
            config = self.config(gated_mlp=path)
            with (
                self.subTest(path),
                self.assertWarnsRegex(
                    FusionWarning,
                    f"nothing of Qwen3ForCausalLM is fused: .*"
                    f"FUSE-N231 .*the kernel '{path}' cannot be loaded: "
                    f".*({why})",
                ),
            ):
                fuse_loaded(model, None, config)
            self.assertTrue(torch.equal(self.logits(model), expected))

    @unittest.skipUnless(HAS_KERNELS, "no kernels")
    def test_directories_with_variants(self):
        variant = Path(self.path, "many", "build", "torch-cpu")
        variant.mkdir(parents=True)
        (variant / "__init__.py").write_text(KERNEL)
        (variant / "metadata.json").write_text(
            json.dumps(
                {
                    "id": "_mlp_cpu_0",
                    "name": "mlp",
                    "version": 1,
                    "license": "Apache-2.0",
                    "python-depends": [],
                    "backend": {"type": "cpu"},
                }
            )
        )
        sites = fuse_mlir.fuse_modules(
            self.model(),
            fusion_config=self.config(gated_mlp=f"{self.path}/many"),
        )
        self.assertEqual(len(sites.fused), 2)

    def test_what_kernels_do_not_compute(self):
        def refused(reason, change, config=None):
            model = self.model()
            change(model.model.layers[0].mlp)
            sites = fuse_mlir.explain(
                model, fusion_config=config or self.config(gated_mlp=self.path)
            )
            self.assertEqual(
                [s.status for s in sites], ["refused", "could fuse"]
            )
            self.assertRegex(
                sites[0].reason, "FUSE-N232 endpoint-does-not-fit: " + reason
            )

        def scale(mlp):
            mlp.up_proj.weight_scale_inv.data.mul_(2)

        def act(mlp):
            mlp.act_fn = nn.ReLU()

        def bias(mlp):
            mlp.up_proj.bias = nn.Parameter(torch.zeros(64).bfloat16())

        def plain(mlp):
            mlp.up_proj = nn.Linear(32, 64, bias=False).bfloat16()

        refused(
            "'weight_scale_inv' of gate and up of 'model.layers.0.mlp' is "
            "[0-9.e-]+ and [0-9.e-]+, but the kernel has one",
            scale,
        )
        refused(
            "'model.layers.0.mlp' has another activation than silu or "
            "gelu_pytorch_tanh",
            act,
        )
        refused("'model.layers.0.mlp.up_proj' has a bias", bias)
        refused("'model.layers.0.mlp.up_proj' is a Linear; expected", plain)

    def test_verify(self):
        for function, passed in (
            ("fp8_swiglu_mlp_bf16", True),
            ("negated", False),
        ):
            model = self.model()
            model.config.fusion_config = self.config(
                gated_mlp={"repo_id": self.path, "swiglu_func": function}
            )
            with self.subTest(function):
                # Fused for the check alone, and fused already.
                for _ in range(2):
                    checks = fuse_mlir.verify(model)
                    self.assertEqual(
                        [(c.rung, c.site) for c in checks.checks],
                        [
                            ("V3", "model.layers.0.mlp#0"),
                            ("V3", "model.layers.1.mlp#1"),
                            ("V3", "model"),
                        ],
                    )
                    self.assertEqual(
                        [c.passed for c in checks.checks[:2]], [passed] * 2
                    )
                    self.assertEqual(bool(checks), passed)
                    if not all_sites(model):
                        fuse_mlir.fuse_modules(model)

    def test_calls(self):
        model = self.model()
        fuse_mlir.fuse_modules(
            model,
            fusion_config=self.config(
                gated_mlp={"repo_id": self.path, "swiglu_func": "short"}
            ),
        )
        mlp = model.model.layers[0].mlp
        x = torch.randn(2, 3, 32).bfloat16()
        with self.assertRaisesRegex(
            FuseError,
            r"by 'short' of .* has the "
            r"result \(6, 31\); expected \(6, 32\)",
        ):
            mlp(x)
        with self.assertRaisesRegex(FuseError, "has no gradients"):
            mlp(x.requires_grad_())
        model.model.layers[0].mlp.act_fn = nn.ReLU()
        with (
            self.assertRaisesRegex(
                FuseError, "FUSE-N232 .*activation.* changed after"
            ),
            torch.no_grad(),
        ):
            mlp(x)
        with self.assertRaisesRegex(PatternError, "the patterns other ones"):
            fuse_mlir.fuse_modules(
                model,
                {(("MLP", "model.layers.*.mlp"),): "fuse"},
                fusion_config=self.config(gated_mlp=self.path),
            )

    def test_dense_mlps(self):
        from transformers.activations import ACT2FN

        for name, status in (
            ("gelu_pytorch_tanh", "fused"),
            ("gelu", "refused"),
        ):
            with self.subTest(name):
                star = fp8_transformer(
                    "starcoder2",
                    **{
                        **SIZES,
                        "num_hidden_layers": 1,
                        "num_key_value_heads": 1,
                        "hidden_act": name,
                    },
                )
                layer = star.model.layers[0]
                mlp = Dense(ACT2FN[name])
                mlp.fc1, mlp.fc2 = layer.mlp.c_fc, layer.mlp.c_proj
                layer.mlp = mlp.eval()
                expected = self.logits(star)
                config = self.config(dense_gelu_mlp=self.path)
                if status == "refused":
                    with self.assertRaisesRegex(
                        FuseError, "FUSE-N232 .*other activation than gelu_pyto"
                    ):
                        fuse_mlir.fuse_modules(star, fusion_config=config)
                    continue
                sites = fuse_mlir.fuse_modules(star, fusion_config=config)
                self.assertEqual([s.status for s in sites], [status])
                self.near(self.logits(star), expected)

    def test_models_without_such_mlps(self):
        with self.assertRaisesRegex(FuseError, "N232 .*is a Linear; expected"):
            fuse_mlir.fuse_modules(
                transformer("qwen3", **SMALL),
                fusion_config=self.config(gated_mlp=self.path),
            )


if __name__ == "__main__":
    unittest.main()
