# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fusion of models that `from_pretrained` of transformers loads.

The package `kernels` needs the Hub and is not installed for the tests. A few
lines replace it: they load a local directory and set the forward of each known
layer. All other code is that of transformers.
"""

import copy
import enum
import importlib.util
import pickle
import sys
import tempfile
import types
import unittest
import warnings
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.integrations import hub_kernels
from transformers.models.qwen3 import modeling_qwen3
from transformers.utils import import_utils, kernel_config

import fuse_mlir
from fuse_mlir import FusionWarning, KernelConfig, PatternError
from fuse_mlir.fusion.modules import fused_sites
from tests.models import LLAMA, NORM_MLP, needs_library, transformer

torch.set_num_threads(1)

IDS = torch.tensor([[3, 14, 15, 9, 26, 5]])
LAYERS = '''
import torch

class ScaledNorm(torch.nn.Module):
    """Twice what a norm is."""

    def forward(self, hidden_states):
        return 2 * self.weight * torch.nn.functional.rms_norm(
            hidden_states, self.weight.shape, None, self.variance_epsilon)
'''


class Mode(enum.Flag):
    INFERENCE = enum.auto()
    TRAINING = enum.auto()
    TORCH_COMPILE = enum.auto()


class LocalLayerRepository:
    """A layer of a local directory."""

    def __init__(self, repo_path, *, layer_name):
        self.path, self.layer = Path(repo_path) / "layers.py", layer_name

    def load(self):
        spec = importlib.util.spec_from_file_location("_layers", self.path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, self.layer)


def kernelize(model, mode=None):
    """Sets the forward of every layer, as `kernels` does."""
    mapping = model.kernel_config.kernel_mapping
    for module in model.modules():
        name = getattr(type(module), "kernel_layer_name", None)
        if name is None:
            continue
        kind = type(module)
        for repository in mapping[name].get("cuda", {}).values():
            kind = repository.load()
        module.forward = types.MethodType(kind.forward, module)
    model._use_kernels = True


def with_kernels(test):
    """A test as if `kernels` were there, and the model on a GPU."""
    package = types.ModuleType("kernels")
    for name, value in (
        ("Mode", Mode),
        ("LocalLayerRepository", LocalLayerRepository),
    ):
        setattr(package, name, value)
    patches = [
        mock.patch.dict(sys.modules, {"kernels": package}),
        mock.patch.object(
            transformers.utils, "is_kernels_available", lambda: True
        ),
        mock.patch.object(
            transformers.modeling_utils, "is_kernels_available", lambda: True
        ),
        mock.patch.object(transformers.modeling_utils, "kernelize", kernelize),
        mock.patch.object(
            hub_kernels, "register_kernel_mapping_transformers", lambda: None
        ),
        mock.patch.object(
            hub_kernels,
            "LocalLayerRepository",
            LocalLayerRepository,
            create=True,
        ),
        mock.patch.object(kernel_config, "infer_device", lambda _: "cuda"),
        *(
            mock.patch.object(kind, "kernel_layer_name", name, create=True)
            for kind, name in (
                (modeling_qwen3.Qwen3RMSNorm, "RMSNorm"),
                (transformers.activations.SiLUActivation, "SiLU"),
            )
        ),
    ]

    def run(self):
        with ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            test(self)

    return run


class Loading(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = directory.name
        self.model = transformer("qwen3", torch.float32, **LLAMA)
        self.model.save_pretrained(self.path)
        self.expected = self.logits(self.model)

    @staticmethod
    def logits(model):
        with torch.no_grad():
            return model(IDS).logits

    def check(self, model):
        self.assertEqual(len(fused_sites(model)), 4)
        torch.testing.assert_close(self.logits(model), self.expected)
        self.assertEqual(len(fuse_mlir.fusion_result(model).fused), 4)
        fuse_mlir.unfuse_modules(model)
        self.assertTrue(torch.equal(self.logits(model), self.expected))


@needs_library
class KernelConfigs(Loading):
    @with_kernels
    def test_finding_10_from_pretrained_takes_a_kernel_config(self):
        config = KernelConfig(NORM_MLP)
        # One object serves many models.
        for _ in range(2):
            model = AutoModelForCausalLM.from_pretrained(
                self.path, use_kernels=True, kernel_config=config
            )
            # Replaces forwards again.
            model.train()
            model.eval()
            self.check(model)
        # Instances may have the forward of their class as an attribute.
        self.assertIn("forward", vars(model.model.layers[0].mlp.act_fn))
        # With the projections of attention.
        self.assertEqual(
            len(fuse_mlir.fuse_modules(model, only_faster=False).fused), 13
        )

    @with_kernels
    def test_finding_10_values_of_the_hub_go_to_transformers(self):
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "layers.py").write_text(LAYERS)
            config = KernelConfig(
                {**NORM_MLP, "RMSNorm": f"{directory}:ScaledNorm"},
                use_local_kernel=True,
            )
            model = AutoModelForCausalLM.from_pretrained(
                self.path, use_kernels=True, kernel_config=config
            )
        self.assertEqual(len(fused_sites(model)), 4)
        layer = model.model.layers[0]
        self.assertEqual(type(layer.input_layernorm).__name__, "Qwen3RMSNorm")
        x = torch.randn(3, 32)
        norm = self.model.model.layers[0].input_layernorm
        torch.testing.assert_close(layer.input_layernorm(x), 2 * norm(x))
        # The fused chain has the forward of its class.
        mine = self.model.model.layers[0]
        with torch.no_grad():
            torch.testing.assert_close(
                layer.mlp(layer.post_attention_layernorm(x)),
                mine.mlp(mine.post_attention_layernorm(x)),
            )
        # It was loaded, so there is nothing to tell.
        fuse_mlir.unfuse_modules(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error", FusionWarning)
            fuse_mlir.fuse_modules(model, config)

    @with_kernels
    def test_sites_that_are_refused_stay_and_say_so(self):
        # The model that is loaded has a member with a hook.
        mlp = modeling_qwen3.Qwen3MLP
        with (
            mock.patch.object(mlp, "__init__", _hooked(mlp.__init__)),
            self.assertWarnsRegex(
                FusionWarning,
                r"site 'model.layers.0.*\+mlp#0' is not "
                r"fused: FUSE-N208 .*\(3 more are refused, see",
            ),
        ):
            model = AutoModelForCausalLM.from_pretrained(
                self.path, kernel_config=KernelConfig(NORM_MLP)
            )
        result = fuse_mlir.fusion_result(model)
        self.assertEqual([s.refusal.id for s in result], ["FUSE-N208"] * 4)
        self.assertTrue(torch.equal(self.logits(model), self.expected))

    @with_kernels
    def test_patterns_that_select_nothing_are_errors(self):
        wrong = {(("RMSNorm", "model.layers.*.norm"),): "fuse"}
        with self.assertRaisesRegex(PatternError, "FUSE-N201 no-module-match"):
            AutoModelForCausalLM.from_pretrained(
                self.path, kernel_config=KernelConfig(wrong)
            )
        names = KernelConfig({("RMSNorm", "MLP"): "org/repo:RMSNormMLP"})
        with self.assertRaisesRegex(
            PatternError, "accepts such chains only with their paths; write"
        ):
            AutoModelForCausalLM.from_pretrained(self.path, kernel_config=names)

    @unittest.skipIf(import_utils.is_kernels_available(), "kernels are there")
    def test_finding_10_without_the_package_there_is_a_way(self):
        config = KernelConfig(NORM_MLP)
        with self.assertRaisesRegex(
            PatternError,
            r"only with the package 'kernels', 0\.\d+.* not "
            r"installed; without it, .*fuse_modules\(model, config\), "
            "or .*fusion_at_load",
        ):
            AutoModelForCausalLM.from_pretrained(
                self.path, use_kernels=True, kernel_config=config
            )
        before = transformers.PreTrainedModel.__dict__["from_pretrained"]
        with fuse_mlir.fusion_at_load():
            model = AutoModelForCausalLM.from_pretrained(
                self.path, use_kernels=True, kernel_config=config
            )
            other = AutoModelForCausalLM.from_pretrained(self.path)
        self.check(model)
        self.assertIsNone(fuse_mlir.fusion_result(other))
        self.assertIs(
            transformers.PreTrainedModel.__dict__["from_pretrained"], before
        )
        with (
            self.assertRaisesRegex(PatternError, "asked for: RMSNorm"),
            fuse_mlir.fusion_at_load(),
        ):
            AutoModelForCausalLM.from_pretrained(
                self.path,
                kernel_config=KernelConfig(
                    {**NORM_MLP, "RMSNorm": "org/repo:Norm"}
                ),
            )

    def test_fuse_modules_says_what_it_leaves(self):
        config = KernelConfig({**NORM_MLP, "RMSNorm": "org/repo:Norm"})
        with self.assertWarnsRegex(
            FusionWarning,
            "kernels of the Hub for RMSNorm are not loaded, "
            "but the chains of this KernelConfig are fused; give it to "
            "from_pretrained",
        ):
            sites = fuse_mlir.fuse_modules(self.model, config)
        self.assertEqual(len(sites.fused), 4)

    def test_copies_and_files(self):
        config = KernelConfig({**NORM_MLP, "RMSNorm": "org/repo:Norm"})
        for other in (
            copy.deepcopy(config),
            pickle.loads(pickle.dumps(config)),
        ):
            self.assertIsInstance(other, KernelConfig)
            self.assertIsInstance(other, transformers.KernelConfig)
            self.assertEqual(
                (other.fusions, other.layers), (config.fusions, config.layers)
            )
        self.assertFalse(config.inherit_mapping)
        self.assertTrue(KernelConfig({"A": "org/repo:B"}).inherit_mapping)


def _hooked(inner):
    def init(self, *args, **options):
        inner(self, *args, **options)
        self.register_forward_hook(lambda *_: None)

    return init


@needs_library
class FusionConfigs(Loading):
    """`fusion_config` of a model, where transformers#46997 has it."""

    def calibrated(self):
        data = [torch.randint(1, 64, (2, 12)) for _ in range(2)]
        sites = fuse_mlir.calibrate(self.model, data)
        expected = self.logits(self.model)
        fuse_mlir.unfuse_modules(self.model)
        return expected, {
            "static_quantized_mlp": {
                "input_quant": "fuse",
                "gated_mlp": "fuse",
                "scales": dict(sites.calibration.scales),
            }
        }

    def test_finding_15_the_config_of_a_model_is_read(self):
        expected, config = self.calibrated()
        self.model.config.fusion_config = config
        self.assertEqual(len(fuse_mlir.explain(self.model)), 4)
        self.assertEqual(len(fuse_mlir.fuse_modules(self.model).fused), 4)
        self.assertTrue(torch.equal(self.logits(self.model), expected))
        fuse_mlir.unfuse_modules(self.model)
        # An argument has precedence.
        fuse_mlir.fuse_modules(self.model, fusion_config={}, only_faster=False)
        torch.testing.assert_close(self.logits(self.model), self.expected)
        fuse_mlir.unfuse_modules(self.model)
        del config["static_quantized_mlp"]["scales"]
        self.assertRegex(
            fuse_mlir.explain(self.model)[0].reason, "FUSE-N303 weight-type"
        )

    def test_finding_15_mistakes_in_the_config_of_a_model(self):
        for wrong, text in (
            ({"static_quantized_mlps": {}}, "unknown fusion 'static_quan"),
            ({"static_quantized_mlp": True}, "by name, got True; expected"),
            (
                {"static_quantized_mlp": {"gate": "fuse"}},
                "no option 'gate'; expected input_quant, gated_mlp, dense",
            ),
            (["static_quantized_mlp"], "fusion_config is a list"),
        ):
            self.model.config.fusion_config = wrong
            for call in (fuse_mlir.fuse_modules, fuse_mlir.explain):
                with (
                    self.subTest(wrong),
                    self.assertRaisesRegex(PatternError, text),
                ):
                    call(self.model)
        # transformers makes these before there are weights.
        self.model.config.fusion_config = {"patch_embeddings": True}
        self.assertEqual(
            fuse_mlir.explain(self.model, only_faster=False)[0].status,
            "could fuse",
        )

    def test_finding_15_models_are_fused_as_they_are_loaded(self):
        expected, config = self.calibrated()
        for options in ({"fusion_config": config}, {}):
            # The second time it is in the file.
            with self.subTest(options), fuse_mlir.fusion_at_load():
                model = AutoModelForCausalLM.from_pretrained(
                    self.path, **options
                )
                self.assertEqual(len(fuse_mlir.fusion_result(model).fused), 4)
                self.assertTrue(torch.equal(self.logits(model), expected))
                model.save_pretrained(self.path)
                fuse_mlir.unfuse_modules(model)
                self.assertTrue(torch.equal(self.logits(model), self.expected))
        with self.assertRaisesRegex(ValueError, "Unknown fusion type"):
            AutoModelForCausalLM.from_pretrained(self.path)

    def test_finding_15_the_command_line_reads_it_too(self):
        self.model.config.fusion_config = {
            "static_quantized_mlp": {
                "input_quant": "fuse",
                "dense_gelu_mlp": "fuse",
            }
        }
        self.model.save_pretrained(self.path)
        model = fuse_mlir.load_model(self.path)
        self.assertRegex(
            fuse_mlir.explain(model)[0].reason,
            "FUSE-N303 weight-type: linear 'mlp.gate_proj'",
        )

    def test_what_can_not_be_fused_runs_and_says_so(self):
        config = {
            "static_quantized_mlp": {"input_quant": "fuse", "gated_mlp": "fuse"}
        }
        with (
            fuse_mlir.fusion_at_load(),
            self.assertWarnsRegex(
                FusionWarning,
                "nothing of Qwen3ForCausalLM is fused: .*"
                "FUSE-N303 weight-type: linear 'mlp.gate_proj'",
            ),
        ):
            model = AutoModelForCausalLM.from_pretrained(
                self.path, fusion_config=config
            )
        self.assertIn("FUSE-N303", fuse_mlir.fusion_result(model).note)
        self.assertTrue(torch.equal(self.logits(model), self.expected))


if __name__ == "__main__":
    unittest.main()
