# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fusing modules in place, and taking it back."""

import copy
import io
import os
import pickle
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import (
    FuseError,
    KernelConfig,
    KernelError,
    ModuleSpec,
    PatternError,
)
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.proxies import FusedIdentity
from tests.models import (
    CHAIN,
    MLP,
    Block,
    Net,
    Norm,
    fuse,
    needs_library,
    net,
    snapshot,
)
from tests.support import ROOT

torch.set_num_threads(1)


@needs_library
class Fusing(unittest.TestCase):
    def test_results_and_places(self):
        model, x = net()
        expected = model(x)
        before = snapshot(model)
        result = fuse(model, x)
        self.assertEqual(
            [(s.parent, s.id, s.status, s.families) for s in result],
            [
                ("layers.0", "norm+mlp#0", "fused", ("gated_mlp",)),
                ("layers.1", "norm+mlp#1", "fused", ("gated_mlp",)),
            ],
        )
        self.assertIsInstance(model.layers[0].norm, FusedModule)
        self.assertIsInstance(model.layers[0].mlp, FusedIdentity)
        torch.testing.assert_close(model(x), expected, atol=1e-6, rtol=1e-5)
        self.assertEqual(
            fuse_mlir.unfuse_modules(model), ["layers.0", "layers.1"]
        )
        self.assertEqual(snapshot(model), before)
        self.assertTrue(torch.equal(model(x), expected))

    def test_any_number_of_rows(self):
        model, x = net(1)
        plain = copy.deepcopy(model)
        fuse(model, torch.randn(2, 5, 8))
        for shape in ((1, 1, 8), (4, 9, 8), (0, 3, 8)):
            x = torch.randn(shape)
            torch.testing.assert_close(model(x), plain(x), atol=1e-6, rtol=1e-5)

    def test_another_rank_or_type_makes_another_kernel(self):
        model, x = net(1)
        plain = copy.deepcopy(model)
        fuse(model, x)
        rows = torch.randn(2, 3, 8)
        torch.testing.assert_close(
            model(rows), plain(rows), atol=1e-6, rtol=1e-5
        )
        model.to(torch.bfloat16)
        plain.to(torch.bfloat16)
        torch.testing.assert_close(model(x.bfloat16()), plain(x.bfloat16()))

    def test_another_type_without_a_kernel(self):
        class Formula(MLP):
            # Rounded between its ops in bf16, which no kernel computes.
            def forward(self, x):
                gate = self.gate(x)
                return self.down(gate * torch.sigmoid(gate) * self.up(x))

        class Formulas(Block):
            def __init__(self):
                super().__init__()
                self.mlp = Formula(8, 16)

        model, x = net(1, Formulas)
        fuse(
            model,
            x,
            {
                (
                    ("Norm", "layers.*.norm"),
                    ("Formula", "layers.*.mlp"),
                ): "gated_mlp"
            },
        )
        model(x)
        model.to(torch.bfloat16)
        with self.assertRaisesRegex(
            KernelError,
            r"site 'norm\+mlp#0' has no kernel for its "
            "members and inputs as they are now: FUSE-N101 extra-rounding: "
            ".*only norm_linear forms, and the pattern asks for gated_mlp;"
            ".*; unfuse the",
        ):
            model(x.bfloat16())
        fuse_mlir.unfuse_modules(model)
        model(x.bfloat16())

    def test_strided_inputs(self):
        model, _ = net(1)
        x = torch.randn(8, 3).t()
        expected = model(x)
        fuse(model, x)
        torch.testing.assert_close(model(x), expected, atol=1e-6, rtol=1e-5)

    def test_one_layer_by_its_number(self):
        model, x = net(3)
        fuse(
            model,
            x,
            {(("Norm", "layers.1.norm"), ("MLP", "layers.1.mlp")): "fuse"},
        )
        kinds = [type(layer.norm).__name__ for layer in model.layers]
        self.assertEqual(kinds, ["Norm", "FusedModule", "Norm"])

    def test_other_instances_are_not_affected(self):
        first, x = net()
        second, _ = net(seed=1)
        fuse(first, x)
        self.assertIs(type(second.layers[0].norm), Norm)
        self.assertIs(type(Net().layers[0].norm), Norm)

    def test_without_patterns_every_chain_is_found(self):
        model, x = net()
        result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        self.assertEqual(
            [s.id for s in result.fused], ["norm+mlp#0", "norm+mlp#1"]
        )

    def test_context_manager_undoes_only_its_own(self):
        model, x = net()
        fuse(
            model,
            x,
            {(("Norm", "layers.0.norm"), ("MLP", "layers.0.mlp")): "fuse"},
        )
        with self.assertRaises(KeyError):
            with fuse_mlir.fused(
                model,
                {(("Norm", "layers.1.norm"), ("MLP", "layers.1.mlp")): "fuse"},
                inputs=x,
            ):
                self.assertIsInstance(model.layers[1].norm, FusedModule)
                raise KeyError
        self.assertIs(type(model.layers[1].norm), Norm)
        self.assertIsInstance(model.layers[0].norm, FusedModule)

    def test_unfusing_some_sites(self):
        model, x = net(3)
        fuse(model, x)
        fuse_mlir.unfuse_modules(model, "norm+mlp#0")
        fuse_mlir.unfuse_modules(model, ["layers.[2-5]"])
        kinds = [type(layer.norm).__name__ for layer in model.layers]
        self.assertEqual(kinds, ["Norm", "FusedModule", "Norm"])
        with self.assertRaisesRegex(
            FuseError,
            r"no fused site 'layers.9'; "
            r"there are layers.1.norm\+mlp#1",
        ):
            fuse_mlir.unfuse_modules(model, "layers.9")

    def test_a_replaced_place_is_not_overwritten(self):
        model, x = net(1)
        fuse(model, x)
        model.layers[0].mlp = nn.Linear(8, 8)
        for call in (
            fuse_mlir.unfuse_modules,
            lambda model: fuse_mlir.explain(model, inputs=x),
        ):
            with self.assertRaisesRegex(
                FuseError, "'layers.0.mlp' is a Linear"
            ):
                call(model)

    def test_members_whose_kernel_was_replaced_are_put_back(self):
        model, x = net(2)
        plain = copy.deepcopy(model)
        fuse(model, x)
        plain.layers[0].norm = model.layers[0].norm = Norm(8)
        with self.assertRaisesRegex(
            FuseError, "FUSE-N206 .*; unfuse this site"
        ):
            model(x)
        self.assertEqual(
            fuse_mlir.unfuse_modules(model), ["layers.1", "layers.0"]
        )
        self.assertTrue(torch.equal(model(x), plain(x)))
        self.assertEqual(fuse_mlir.unfuse_modules(model), [])

    def test_places_that_two_parents_have(self):
        model, x = net(2)
        fuse(model, x)
        first, second = model.layers
        second.norm, second.mlp = first.norm, first.mlp
        expected = model(x)
        self.assertTrue(fuse_mlir.verify(model, x))
        self.assertEqual(
            fuse_mlir.unfuse_modules(model), ["layers.0", "layers.1"]
        )
        self.assertIs(type(second.norm), Norm)
        torch.testing.assert_close(model(x), expected, atol=1e-6, rtol=1e-5)

    def test_a_place_is_no_model(self):
        model, x = net(1)
        fuse(model, x)
        for call in (fuse_mlir.unfuse_modules, fuse_mlir.verify):
            with self.assertRaisesRegex(
                FuseError,
                r"the model is FusedModule"
                r"\[Norm\] of site 'norm\+mlp#0'",
            ):
                call(model.layers[0].norm)

    def test_inputs_that_are_not_dense(self):
        model, x = net(1)
        fuse(model, x)
        for kind, given in (
            ("a nested tensor", torch.nested.nested_tensor([x, x[:1]])),
            (
                "a nested tensor",
                torch.nested.nested_tensor([x, x[:1]], layout=torch.jagged),
            ),
            ("of layout torch.sparse_coo", x.to_sparse()),
        ):
            with self.assertRaisesRegex(
                KernelError,
                f"an input of the chain is {kind}; expected a dense",
            ):
                model(given)

    def test_gradients_are_those_of_the_members(self):
        model, x = net()
        model.requires_grad_(True)
        plain = copy.deepcopy(model)
        fuse(model, x)
        x1, x2 = (x.clone().requires_grad_() for _ in range(2))
        model(x1).square().sum().backward()
        plain(x2).square().sum().backward()
        torch.testing.assert_close(x1.grad, x2.grad, atol=1e-4, rtol=1e-4)
        theirs = dict(plain.named_parameters())
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(
                parameter.grad, theirs[name].grad, atol=1e-4, rtol=1e-4
            )

    def test_gradients_refused_by_choice(self):
        model, x = net(1)
        model.requires_grad_(True)
        fuse(model, x, gradients="error")
        with torch.no_grad():
            model(x)
        with self.assertRaisesRegex(FuseError, "needs gradients"):
            model(x)
        with self.assertRaisesRegex(PatternError, "unknown gradients 'no'"):
            fuse(model, x, gradients="no")


@needs_library
class State(unittest.TestCase):
    """Whatever hosts do with models."""

    def setUp(self):
        self.model, self.x = net()
        self.expected = self.model(self.x)
        self.keys = list(self.model.state_dict())
        fuse(self.model, self.x)

    def check(self, model):
        torch.testing.assert_close(
            model(self.x), self.expected, atol=1e-6, rtol=1e-5
        )

    def test_state_dict_keeps_keys_order_and_storage(self):
        state = self.model.state_dict()
        self.assertEqual(list(state), self.keys)
        self.assertEqual(
            [n for n, _ in self.model.named_parameters()], self.keys
        )
        weight = self.model.layers[0].mlp.gate.weight
        self.assertEqual(
            state["layers.0.mlp.gate.weight"].data_ptr(), weight.data_ptr()
        )

    def test_load_state_dict_in_place_and_by_assignment(self):
        other, _ = net(seed=7)
        for assign in (False, True):
            with self.subTest(assign=assign):
                self.model.load_state_dict(other.state_dict(), assign=assign)
                torch.testing.assert_close(
                    self.model(self.x), other(self.x), atol=1e-6, rtol=1e-5
                )
        fuse_mlir.unfuse_modules(self.model)
        self.assertTrue(torch.equal(self.model(self.x), other(self.x)))

    def test_changed_weights_are_seen(self):
        with torch.no_grad():
            for layer in self.model.layers:
                layer.mlp.down.weight.zero_()
        self.assertTrue(torch.equal(self.model(self.x), self.x))

    def test_a_parameter_of_another_type_is_refused_by_name(self):
        half = self.model.layers[1].mlp.up.weight.half()
        self.model.layers[1].mlp.up.weight = nn.Parameter(half, False)
        with self.assertRaisesRegex(
            KernelError,
            "'mlp.up.weight' of site "
            r"'norm\+mlp#1' is torch.float16",
        ):
            self.model(self.x)

    def test_deepcopy_is_independent(self):
        copied = copy.deepcopy(self.model)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.zero_()
        self.check(copied)
        fuse_mlir.unfuse_modules(copied)
        self.assertTrue(torch.equal(copied(self.x), self.expected))

    def test_pickle(self):
        copied = pickle.loads(pickle.dumps(self.model))
        self.check(copied)
        buffer = io.BytesIO()
        torch.save(self.model, buffer)
        buffer.seek(0)
        loaded = torch.load(buffer, weights_only=False)
        self.check(loaded)
        fuse_mlir.unfuse_modules(loaded)
        self.assertTrue(torch.equal(loaded(self.x), self.expected))

    def test_training_flag(self):
        self.model.train()
        self.assertTrue(self.model.layers[0].mlp.gate.training)
        self.model.eval()
        self.model.layers[1].train()
        fuse_mlir.unfuse_modules(self.model)
        self.assertEqual(
            [layer.norm.training for layer in self.model.layers], [False, True]
        )

    def test_attributes_of_members(self):
        self.assertEqual(self.model.layers[0].mlp.hidden, 16)
        with self.assertRaises(AttributeError):
            _ = self.model.layers[0].mlp.no_such_thing

    def test_torch_compile_has_no_graph_break(self):
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        with torch.no_grad():
            compiled = torch.compile(
                self.model, backend="aot_eager", fullgraph=True, dynamic=True
            )
            self.check(compiled)
            for rows in (4, 6):
                x = torch.randn(rows, 8)
                torch.testing.assert_close(compiled(x), self.model(x))

    def test_torch_compile_with_gradients(self):
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        self.model.requires_grad_(True)
        compiled = torch.compile(
            self.model, backend="aot_eager", fullgraph=True
        )
        compiled(self.x).square().sum().backward()
        ours = self.model.layers[0].mlp.up.weight.grad.clone()
        self.model.zero_grad()
        fuse_mlir.unfuse_modules(self.model)
        self.model(self.x).square().sum().backward()
        torch.testing.assert_close(
            ours, self.model.layers[0].mlp.up.weight.grad, atol=1e-4, rtol=1e-4
        )

    def test_torch_export(self):
        rows = torch.export.Dim("rows", min=1)
        program = torch.export.export(
            self.model, (self.x,), dynamic_shapes=({0: rows},)
        )
        calls = [
            n
            for n in program.graph.nodes
            if str(n.target) == "fuse_mlir.exported.default"
        ]
        self.assertEqual(len(calls), 2)
        self.check(program.module())

    def test_saved_program_runs_in_another_process(self):
        program = torch.export.export(self.model, (self.x,))
        script = """
import sys
import torch
import fuse_mlir.compiler.exported
program = torch.export.load(sys.argv[1]).module()
x, expected = torch.load(sys.argv[2])
assert torch.equal(program(x), expected)
"""
        with tempfile.TemporaryDirectory() as directory:
            saved, tensors = (f"{directory}/{n}" for n in ("p.pt2", "t.pt"))
            torch.export.save(program, saved)
            torch.save((self.x, self.model(self.x).detach()), tensors)
            done = subprocess.run(
                [sys.executable, "-c", script, saved, tensors],
                text=True,
                capture_output=True,
                check=False,
                env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
            )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_code_of_a_file_is_not_exported(self):
        with tempfile.TemporaryDirectory() as directory:
            path = str(fuse_mlir.export(self.model, f"{directory}/k.fuse"))
            fuse_mlir.unfuse_modules(self.model)
            fuse_mlir.fuse_modules(self.model, {CHAIN: path}, inputs=self.x)
        with self.assertRaisesRegex(
            KernelError,
            "is code from a file, which an exported program cannot contain",
        ):
            torch.export.export(self.model, (self.x,))

    def test_inference_mode(self):
        with torch.inference_mode():
            self.check(self.model)

    def test_kernels_keep_no_weights_of_a_model_alive(self):
        import gc
        import weakref

        weights = [weakref.ref(p) for p in self.model.parameters()]
        self.model = None
        gc.collect()
        self.assertEqual([w for w in weights if w() is not None], [])

    def test_rows_by_themselves(self):
        # Inputs of scheduled kernels of GPUs, here on the CPU.
        model, _ = net(1)
        fuse(model, torch.randn(2, 3, 8))
        kernel = model.layers[0].norm._kernel
        self.assertTrue(kernel.compiled.by_rows)
        rows = kernel.compiled.for_rows(kernel.chain)
        self.assertEqual([t.rank for t in rows.inputs], [2])
        self.assertEqual(rows.parameters, kernel.compiled.parameters)

    def test_threads(self):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(4) as pool:
            for result in pool.map(lambda _: self.model(self.x), range(16)):
                torch.testing.assert_close(
                    result, self.expected, atol=1e-6, rtol=1e-5
                )


@needs_library
class Declared(unittest.TestCase):
    def test_class_attribute_registration_and_instance(self):
        class Own(Net):
            _kernel_fusion_patterns = {
                ("Norm", "MLP"): ("layers.0.norm", "layers.0.mlp")
            }

        class Registered(Net):
            pass

        fuse_mlir.register_fusion_patterns(
            Registered, {("Norm", "MLP"): ("layers.1.norm", "layers.1.mlp")}
        )
        x = torch.randn(3, 8)
        for kind, expected in ((Own, ["layers.0"]), (Registered, ["layers.1"])):
            model = kind().eval()
            result = fuse(model, x, KernelConfig({("Norm", "MLP"): "fuse"}))
            self.assertEqual([s.parent for s in result], expected)
        model = Own()
        fuse_mlir.register_fusion_patterns(
            model, {("Norm", "MLP"): ("layers.*.norm", "layers.*.mlp")}
        )
        self.assertEqual(len(fuse(model, x, ("Norm", "MLP"))), 2)
        self.assertEqual(len(fuse(Own(), x, ("Norm", "MLP"))), 1)

    def test_errors(self):
        model, x = net(1)
        with self.assertRaisesRegex(
            PatternError,
            r"Net declares no pattern \('Norm', 'MLP'\); "
            "it declares none; write .* register_fusion_patterns, or set "
            "_kernel_fusion_patterns",
        ):
            fuse(model, x, ("Norm", "MLP"))
        with self.assertRaisesRegex(
            PatternError,
            r"pattern \(\) is empty; "
            "expected a tuple of names, or of",
        ):
            fuse(model, x, [()])
        with self.assertRaisesRegex(
            PatternError,
            r"pattern \{'a'\} is a set; "
            "expected a tuple of names, or of",
        ):
            fuse(model, x, [{"a"}])
        with self.assertRaisesRegex(PatternError, "2 names and 1 paths"):
            fuse_mlir.register_fusion_patterns(model, {("A", "B"): ("a",)})
        fuse_mlir.register_fusion_patterns(model, {("A",): ("a",)})
        with self.assertRaisesRegex(PatternError, "declares .* already"):
            fuse_mlir.register_fusion_patterns(model, {("A",): ("b",)})
        with self.assertRaisesRegex(PatternError, "expected a name or a"):
            KernelConfig({3: "fuse"})
        config = KernelConfig({"RMSNorm": "org/repo:Norm"})
        with self.assertRaisesRegex(
            PatternError,
            r"has kernels of the Hub alone \(RMSNorm\), "
            "which transformers loads; give it to from_pretrained",
        ):
            fuse(model, x, config)

    def test_patterns_that_are_none(self):
        model, x = net(1)
        for patterns in ({}, [], KernelConfig({})):
            with self.assertRaisesRegex(
                PatternError,
                "there are no patterns; expected one or more, or None",
            ):
                fuse_mlir.fuse_modules(model, patterns, inputs=x)
        with self.assertRaisesRegex(
            PatternError, "are declared for a 'Net'; expected a class"
        ):
            fuse_mlir.register_fusion_patterns("Net", {})
        with self.assertRaisesRegex(
            PatternError, "declared patterns are a list; expected a mapping"
        ):
            fuse_mlir.register_fusion_patterns(model, [])
        for pair in (("Norm", 3), ("", "layers.*.norm")):
            with self.assertRaisesRegex(
                PatternError, "member " + re.escape(repr(pair)) + " of a"
            ):
                fuse_mlir.fuse_modules(model, {(pair,): "fuse"}, inputs=x)
        with self.assertRaisesRegex(
            PatternError, "kernels are a list; expected a mapping"
        ):
            KernelConfig([])
        with self.assertRaisesRegex(PatternError, "fusion_config is a list"):
            fuse_mlir.explain(model, inputs=x, fusion_config=[])
        with self.assertRaisesRegex(FuseError, "nothing is fused; call fuse"):
            fuse_mlir.export(model, "kernel.fuse")

    def test_kernels_of_the_hub_are_passed_on(self):
        spelled = {
            "RMSNorm": "org/repo:Norm",
            "MLP": "",
            "SiLU": ("org/repo:SiLU", {"version": 1}),
            "GELU": {"cuda": "org/repo:GELU"},
            (
                ("Norm", "layers.*.norm"),
                ("MLP", "layers.*.mlp"),
            ): "org/repo:NormMLP",
        }
        config = KernelConfig({**spelled, ("Norm", "MLP"): "fuse"})
        self.assertEqual(
            (config.layers, config.fusions),
            (spelled, {("Norm", "MLP"): "fuse"}),
        )
        config = KernelConfig(
            spelled | {"RMSNorm": "/path/to:Norm"}, use_local_kernel=True
        )

        with mock.patch("importlib.util.find_spec"):
            made = config.hub_config()
        self.assertEqual(made.kernel_mapping, config.layers)
        self.assertTrue(made.use_local_kernel)
        with (
            mock.patch("importlib.util.find_spec", return_value=None),
            self.assertRaisesRegex(
                PatternError,
                "need the package "
                "'kernels', which is not installed; "
                "asked for: RMSNorm, MLP",
            ),
        ):
            config.hub_config()
        for wrong in ("fuse", "repo:Norm", 3):
            with self.assertRaisesRegex(
                PatternError, "kernel of layer 'RMSNorm' is .*; expected 'org/"
            ):
                KernelConfig({"RMSNorm": wrong})

    def test_specs(self):
        norm = ModuleSpec(["x"], ["normed"])
        model, x = net(1)
        pattern = {CHAIN: "fuse"}
        for specs, message in (
            (
                [norm],
                "number of modules and specs must match: got 2 "
                "modules and 1 specs",
            ),
            (
                [norm, ModuleSpec(["a", "b"], ["y"])],
                "module of type MLP "
                r"expects 1 inputs \(x\) but spec defines 2",
            ),
            (
                [ModuleSpec(["y"], ["n"]), ModuleSpec(["n"], ["y"])],
                "module 0 requires 'y' but it is produced by module 1, "
                "which comes later in the chain",
            ),
            (
                [norm, ModuleSpec(["x"], ["y"])],
                "the spec of "
                "'layers.0.mlp' reads 'x' from outside, but the model reads it "
                "from 'layers.0.norm'",
            ),
        ):
            with (
                self.subTest(message),
                self.assertRaisesRegex((FuseError, PatternError), message),
            ):
                fuse(model, x, pattern, specs=specs)
        fuse(model, x, pattern, specs=[norm, ModuleSpec(["normed"], ["y"])])


@needs_library
class Compiled(unittest.TestCase):
    def test_one_module(self):
        torch.manual_seed(0)
        block, x = Block().eval().requires_grad_(False), torch.randn(3, 8)
        expected = block(x)
        keys = list(block.state_dict())
        self.assertIs(fuse_mlir.compile_module(block), block)
        torch.testing.assert_close(block(x), expected, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(
            copy.deepcopy(block)(x), expected, atol=1e-6, rtol=1e-5
        )
        self.assertEqual(list(block.state_dict()), keys)
        self.assertIs(fuse_mlir.compile_module(block), block)
        torch.testing.assert_close(block(x), expected, atol=1e-6, rtol=1e-5)
        self.assertIs(fuse_mlir.decompile_module(block), block)
        self.assertIs(type(block), Block)
        self.assertTrue(torch.equal(block(x), expected))
        with self.assertRaisesRegex(FuseError, "Block is not compiled"):
            fuse_mlir.decompile_module(block)

    def test_a_class(self):
        @fuse_mlir.compile_module
        class Own(Block):
            pass

        torch.manual_seed(0)
        own, x = Own(), torch.randn(2, 3, 8)
        torch.manual_seed(0)
        torch.testing.assert_close(own(x), Block()(x), atol=1e-6, rtol=1e-5)

    def test_a_kernel_in_a_file(self):
        import tempfile

        model, x = net(2)
        expected = model.layers[1].mlp(model.layers[1].norm(x))
        fuse(model, x)
        with tempfile.TemporaryDirectory() as directory:
            path = fuse_mlir.export(model, Path(directory) / "k.fuse")
            kernel = fuse_mlir.load(path)
            self.assertEqual(
                kernel.parameters,
                [
                    "norm.weight",
                    "mlp.gate.weight",
                    "mlp.up.weight",
                    "mlp.down.weight",
                ],
            )
            with self.assertRaisesRegex(KernelError, "bind the parameters"):
                kernel(x)
            state = model.layers[1].state_dict()
            torch.testing.assert_close(
                kernel.bind(state)(x), expected, atol=1e-6, rtol=1e-5
            )
            for given, why in (
                (x.clone().requires_grad_(), "has no backward"),
                (x.to_sparse(), "is of layout torch.sparse"),
            ):
                with self.assertRaisesRegex(KernelError, why):
                    kernel(given)
            with torch.no_grad():
                kernel(x.clone().requires_grad_())
            path.write_bytes(path.read_bytes()[:-1])
            with self.assertRaises(fuse_mlir.NativeError):
                fuse_mlir.load(path)
        with self.assertRaisesRegex(
            FuseError, "no fused site 'x'; name one of layers.0.norm"
        ):
            fuse_mlir.export(model, "x.fuse", "x")

    def test_two_kernels_in_files_at_a_time(self):
        import tempfile
        from pathlib import Path

        torch.manual_seed(0)
        x = torch.randn(3, 8)
        models = [
            nn.Sequential(nn.LayerNorm(8), nn.Linear(8, size)).requires_grad_(
                False
            )
            for size in (16, 24, 16)
        ]
        kernels = []
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "k.fuse"
            for model in models:
                fuse_mlir.fuse_modules(
                    model, (("LayerNorm", "0"), ("Linear", "1")), inputs=x
                )
                fuse_mlir.export(model, path)
                kernels.append(fuse_mlir.load(path).bind(model.state_dict()))
        for kernel, model in zip(kernels, models):
            torch.testing.assert_close(
                kernel(x), model(x), atol=1e-6, rtol=1e-5
            )


@needs_library
class ArtifactsAsKernels(unittest.TestCase):
    def test_a_file_is_the_kernel_of_its_function(self):
        model, x = net(2)
        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory) / "chain.fuse")
            fuse_mlir.fuse_modules(model, CHAIN, inputs=x)
            expected = model(x)
            fuse_mlir.export(model, path)
            fuse_mlir.unfuse_modules(model)
            config = KernelConfig({CHAIN: path})
            result = fuse_mlir.fuse_modules(model, config, inputs=x)
            self.assertEqual(len(result.fused), 2)
            self.assertTrue(torch.equal(model(x), expected))
            wide = Net(1, lambda: Block(8, 24)).eval()
            with self.assertRaisesRegex(
                FuseError, "chain.fuse' is the kernel of another function"
            ):
                fuse_mlir.fuse_modules(wide, config, inputs=x)
        with self.assertRaisesRegex(PatternError, "no artifact '.*fuse'"):
            KernelConfig({CHAIN: path})
        # The code is read once; a pickled model looks for the file again.
        for again in (model, copy.deepcopy(model)):
            self.assertTrue(torch.equal(again(x[None]), expected[None]))
        with self.assertRaisesRegex(
            fuse_mlir.NativeError, "chain.fuse: No such file"
        ):
            pickle.loads(pickle.dumps(model))(x)


class Dropped(Block):
    """A dropout of the parent's between the members."""

    def forward(self, x):
        normed = nn.functional.dropout(
            self.norm(x), 0.5, training=self.training
        )
        return x + self.mlp(normed)


@needs_library
class Rotaries(unittest.TestCase):
    def test_interleaved_rotary_is_named(self):
        class Turned(MLP):
            def forward(self, x):
                # Neighbors turn against each other, as in GPT-J.
                first, second = x[..., ::2], x[..., 1::2]
                return super().forward(
                    torch.stack((-second, first), dim=-1).flatten(-2)
                )

        class Rotated(Block):
            def __init__(self):
                super().__init__()
                self.mlp = Turned(8, 16)

        model, x = net(1, Rotated)
        with self.assertRaisesRegex(
            FuseError,
            r"test_modules.py:\d+ \(module 'mlp'\): no "
            "translation for 'aten.slice.Tensor' with step other than 1",
        ):
            fuse_mlir.fuse_modules(
                model,
                {
                    (
                        ("Norm", "layers.*.norm"),
                        ("Turned", "layers.*.mlp"),
                    ): "fuse"
                },
                inputs=x,
            )


@needs_library
class Candidates(unittest.TestCase):
    def test_what_mixes_tokens_is_not_exported(self):
        class Mixer(MLP):
            def __init__(self, size, hidden):
                super().__init__(size, hidden)
                self.conv = nn.Conv1d(size, size, 1)

            def forward(self, x):
                return super().forward(self.conv(x.T).T)

        class Mixed(Block):
            def __init__(self):
                super().__init__()
                self.mlp = Mixer(8, 16)

        model, x = net(1, Mixed)
        with mock.patch("torch.export.export") as export:
            found = fuse_mlir.explain(model, inputs=x)
        self.assertEqual(
            [s.reason for s in found],
            [
                "FUSE-N224 convolution: 'layers.0.mlp.conv' is a Conv1d, and no "
                "kernel has convolutions; leave it out of the chain"
            ],
        )
        export.assert_not_called()

    def test_packed_linears_are_named(self):
        class PackedLinear(nn.Module):
            """As linears of GPTQ and AWQ, which hold buffers alone."""

            def __init__(self, linear):
                super().__init__()
                self.register_buffer("packed", linear.weight.mul(9).char())

            def forward(self, x):
                return nn.functional.linear(x, self.packed.to(x.dtype) / 9)

        model, x = net(1)
        mlp = model.layers[0].mlp
        for name in ("gate", "up", "down"):
            setattr(mlp, name, PackedLinear(getattr(mlp, name)))
        found = fuse_mlir.explain(model, inputs=x)
        self.assertEqual([s.id for s in found], ["norm+mlp#0"])
        self.assertRegex(
            found[0].reason,
            r"FUSE-N219 .*module 'mlp.gate'\): "
            "no translation for 'aten.to.dtype' with .*i8",
        )

    def test_models_of_sound_need_no_inputs(self):
        import transformers

        from fuse_mlir.checkpoint.models import seed_weights

        model = seed_weights(
            transformers.Wav2Vec2Model(
                transformers.Wav2Vec2Config(
                    hidden_size=32,
                    num_hidden_layers=1,
                    num_attention_heads=2,
                    intermediate_size=64,
                    conv_dim=(32,) * 7,
                    num_conv_pos_embedding_groups=2,
                    num_conv_pos_embeddings=8,
                )
            ).eval(),
            seed=0,
        )
        found = fuse_mlir.fuse_modules(model, only_faster=False)
        self.assertEqual(
            [s.id for s in found.fused],
            ["feed_forward#0", "layer_norm+projection#0", "out_proj+add#0"],
        )
        self.assertTrue(fuse_mlir.verify(model))


@needs_library
class Dropouts(unittest.TestCase):
    def test_in_eval_mode_it_does_nothing(self):
        model, x = net(2, Dropped)
        expected = model(x)
        with fuse_mlir.fused(model, CHAIN, inputs=x) as result:
            self.assertEqual(len(result.fused), 2)
            torch.testing.assert_close(model(x), expected)
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
            self.assertTrue(torch.equal(compiled(x), model(x)))
        self.assertTrue(torch.equal(model(x), expected))

    def test_in_training_mode_it_is_refused(self):
        model, x = net(1, Dropped)
        fuse_mlir.fuse_modules(model, CHAIN, inputs=x)
        with self.assertRaisesRegex(
            FuseError, "has dropout or batch statistics and is in training mode"
        ):
            model.train()(x)
        unfused, x = net(1, Dropped)
        with self.assertRaisesRegex(
            FuseError, "which reads a result of 'dropout'"
        ):
            fuse_mlir.fuse_modules(unfused.train(), CHAIN, inputs=x)


class Noisy(Block):
    """Draws numbers in eval mode too, as masked autoencoders do."""

    def forward(self, x):
        return super().forward(x) * torch.rand(len(x), 1)


@needs_library
class RandomNumbers(unittest.TestCase):
    def test_verify_draws_them_again(self):
        model, x = net(block=Noisy)
        fuse(model, x)
        before = torch.get_rng_state()
        self.assertTrue(fuse_mlir.verify(model, x))
        self.assertTrue(torch.equal(torch.get_rng_state(), before))


if __name__ == "__main__":
    unittest.main()
