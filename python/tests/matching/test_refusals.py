# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refused chains of modules, and their messages."""

import functools
import unittest
from collections import OrderedDict

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map_only

import fuse_mlir
from fuse_mlir import FlowError, FuseError, PatternError
from tests.models import (
    CHAIN,
    MLP,
    Block,
    Norm,
    fuse,
    needs_library,
    net,
    snapshot,
)

torch.set_num_threads(1)


class Cast(Block):
    def forward(self, x):
        return x + self.mlp(self.norm(x) * 1.0)


class TwoReaders(Block):
    def forward(self, x):
        n = self.norm(x)
        return n + self.mlp(n)


class Unused(Block):
    def forward(self, x):
        return x


class Tuple(Block):
    class Norm(Norm):
        def forward(self, x):
            return (super().forward(x),)

    def __init__(self):
        super().__init__()
        self.norm = Tuple.Norm(8)

    def forward(self, x):
        return self.mlp(self.norm(x)[0])


class ScaledMLP(MLP):
    def forward(self, x, scale):
        return super().forward(x) * scale


class SideInput(Block):
    def __init__(self):
        super().__init__()
        self.mlp = ScaledMLP(8, 16)

    def forward(self, x):
        return self.mlp(self.norm(x), x)


class LateInput(SideInput):
    def forward(self, x):
        return self.mlp(self.norm(x), torch.ones_like(x))


class OddMLP(MLP):
    def forward(self, x):
        return super().forward(torch.sort(x).values)


class OddBlock(Block):
    def __init__(self):
        super().__init__()
        self.mlp = OddMLP(8, 16)


@needs_library
class Refusals(unittest.TestCase):
    """Each predicate, in its order, with the name and both values."""

    def refused(self, message, block=Block, change=None, pattern=CHAIN):
        model, x = net(1, block)
        if change is not None:
            change(model)
        before = snapshot(model)
        with self.assertRaisesRegex((FuseError, PatternError), message):
            fuse(model, x, {pattern: "fuse"})
        self.assertEqual(snapshot(model), before)
        return model, x

    def test_paths(self):
        self.refused(
            r"FUSE-N201 .*'layers.7.norm'; modules of class 'Norm': "
            "layers.0.norm",
            pattern=(("Norm", "layers.7.norm"),),
        )
        self.refused(
            "FUSE-N202",
            pattern=(("Norm", "layers.0.norm"), ("ModuleList", "layers")),
        )
        self.refused(
            "no module has class 'Nurm'; there are ",
            pattern=(("Nurm", "norm"),),
        )

    def test_children_and_classes(self):
        model, x = net(2)
        del model.layers[1].mlp
        model.layers[1].forward = lambda x: x
        result = fuse(model, x, strict=False)
        self.assertEqual([s.status for s in result], ["fused", "refused"])
        self.assertIn(
            "FUSE-N203 child-missing: 'layers.1' has no child for "
            "path 'layers.*.mlp'",
            result[1].reason,
        )
        self.refused(
            "FUSE-N204 class-differs: 'layers.0.mlp' is a MLP, the "
            "pattern says FFN",
            pattern=(CHAIN[0], ("FFN", "layers.*.mlp")),
        )

    def test_flow(self):
        self.refused(
            "FUSE-N205 member-not-called: no forward calls 'layers.0.norm'",
            Unused,
        )
        self.refused(
            "FUSE-N206 not-a-chain: the result of 'layers.0.norm' "
            "does not go to 'layers.0.mlp', which reads a result of "
            "'mul' in module 'layers.0'",
            Cast,
        )
        self.refused(
            "FUSE-N002 intermediate-has-other-users: the result of "
            "'layers.0.norm' is also read by 'add' in module "
            "'layers.0'",
            TwoReaders,
        )
        self.refused(
            "FUSE-N207 side-input-made-later: argument 1 of 'layers.0.mlp'",
            LateInput,
        )
        self.refused(
            "FUSE-N214 no-result: 'layers.0.norm' returns a tuple", Tuple
        )

    def test_a_side_input_that_the_first_member_reads_too(self):
        model, x = net(1, SideInput)
        expected = model(x)
        fuse(model, x)
        torch.testing.assert_close(model(x), expected, atol=1e-6, rtol=1e-5)

    def test_hooks(self):
        def watch(*_):
            pass

        self.refused(
            "FUSE-N208 has-hooks: 'layers.0.mlp.gate' has a forward "
            "hook, watch",
            change=lambda m: m.layers[0].mlp.gate.register_forward_hook(watch),
        )
        self.refused(
            "'layers.0.mlp' has a forward pre-hook, watch",
            change=lambda m: m.layers[0].mlp.register_forward_pre_hook(watch),
        )
        self.refused(
            "'layers.0.norm' has a forward hook, watch",
            change=lambda m: m.layers[0].norm.register_forward_hook(watch),
        )
        self.refused(
            "'layers.0.mlp' has a backward hook",
            change=lambda m: m.layers[0].mlp.register_full_backward_hook(watch),
        )

        def own_forward(model):
            mlp = model.layers[0].mlp
            mlp.forward = functools.partial(mlp.forward)

        self.refused(
            "'layers.0.mlp' has a forward of its own", change=own_forward
        )
        # The forward of the class may be set as an attribute.
        model, x = net(1)
        model.layers[0].mlp.forward = model.layers[0].mlp.forward
        self.assertEqual(len(fuse(model, x).fused), 1)

        def accelerate(model):
            model.layers[0].mlp._hf_hook = OrderedDict()

        self.refused("a hook of accelerate, OrderedDict", change=accelerate)

    def test_pre_hooks_of_the_first_member_are_kept(self):
        model, x = net(1)
        seen = []
        norm = model.layers[0].norm
        handle = norm.register_forward_pre_hook(
            lambda m, args: seen.append(1) or (2 * args[0],)
        )
        expected = model(x)
        fuse(model, x)
        self.assertEqual(seen, [1])
        torch.testing.assert_close(model(x), expected, atol=1e-6, rtol=1e-5)
        self.assertEqual(seen, [1, 1])
        fuse_mlir.unfuse_modules(model)
        self.assertEqual(list(norm._forward_pre_hooks), [handle.id])
        handle.remove()
        self.assertFalse(norm._forward_pre_hooks)

    def test_hooks_that_come_later_are_not_lost(self):
        model, x = net(1)
        fuse(model, x)
        handle = model.layers[0].mlp.up.register_forward_hook(print)
        with self.assertRaisesRegex(
            FuseError,
            "'mlp.up' of site "
            r"'norm\+mlp#0' got a forward hook, "
            "print after it was fused",
        ):
            model(x)
        handle.remove()
        model(x)

    def test_distribution(self):
        def zero3(model):
            model.layers[0].mlp.up.weight.ds_id = 1

        self.refused(
            "FUSE-N209 tensor-parallel: 'layers.0.mlp.up.weight' is "
            "partitioned by ZeRO-3",
            change=zero3,
        )

    def test_tensors_that_compute_their_values(self):
        class Stored(torch.Tensor):
            """As packages for quantization have them."""

            @staticmethod
            def __new__(cls, values):
                return torch.Tensor._make_wrapper_subclass(
                    cls, values.shape, dtype=torch.float32
                )

            def __init__(self, values):
                self.stored = values

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                if func is torch.ops.aten.detach.default:
                    return args[0]
                return func(
                    *tree_map_only(cls, lambda t: t.stored.float(), args),
                    **(kwargs or {}),
                )

        def store(model):
            up = model.layers[0].mlp.up
            up.weight = nn.Parameter(Stored(up.weight.detach().half()), False)

        model, x = net(1)
        store(model)
        result = fuse(model, x, strict=False)
        self.assertEqual(
            result[0].reason,
            "FUSE-N227 opaque-tensor: "
            "'layers.0.mlp.up.weight' is a Stored, a tensor whose values no "
            "kernel can read; fuse the model before a package replaces its "
            "tensors",
        )

        # One that comes later is computed before the kernel reads it.
        model, x = net(1)
        fuse(model, x)
        store(model)
        ours = model(x)
        fuse_mlir.unfuse_modules(model)
        torch.testing.assert_close(ours, model(x), atol=1e-6, rtol=1e-5)

    def test_offloaded_weights(self):
        model, x = net(1)
        model.layers[0].norm.to("meta")._hf_hook = OrderedDict()
        model.layers[0].norm.forward = lambda x: x.item()
        with self.assertRaisesRegex(
            FlowError,
            "hooks of accelerate move its weights, and do not run here",
        ):
            fuse(model, x)

    def test_kernels(self):
        model, x = net(1)
        with self.assertRaisesRegex(
            PatternError, "unknown kernel 'org/r:K'; expected 'fuse', a family"
        ):
            fuse(model, x, {CHAIN: "org/r:K"})
        with self.assertRaisesRegex(
            FuseError,
            "FUSE-N218 other-family: the "
            "members form gated_mlp, and the pattern "
            "asks for mlp; ask for 'fuse' or "
            "'fuse:gated_mlp'",
        ):
            fuse(model, x, {CHAIN: "fuse:mlp"})

    def test_bodies(self):
        self.refused(
            r"FUSE-N219 .*test_refusals.py:\d+ \(module 'mlp'\): no "
            "translation for 'aten.sort.default'",
            OddBlock,
        )

    def test_arguments_without_a_translation(self):
        for function, why in (
            (lambda x: x * x.shape[0], "'aten.mul.Tensor' with the size"),
            (
                lambda x: x ** x.shape[0],
                "'aten.pow.Tensor_Scalar' with these arguments: TypeError: ",
            ),
            (
                lambda x: (x + 0j).real,
                "'aten.add.Tensor' with these "
                "arguments: KeyError: torch.complex64",
            ),
            (
                lambda x: x * x.sum().item(),
                "'aten.mul.Tensor' with these "
                "arguments: GuardOnDataDependentSymNode: ",
            ),
        ):

            class Odd(MLP):
                def forward(self, x, function=function):
                    return function(super().forward(x))

            model, x = net(2)
            model.layers[0].mlp.__class__ = Odd
            result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
            self.assertIn(
                f"(module 'mlp'): no translation for {why}", result[0].reason
            )
            self.assertEqual([s.parent for s in result.fused], ["layers.1"])

    def test_modules_of_torch_jit(self):
        for path in ("mlp", "mlp.gate"):
            model, x = net(2)
            parent, _, name = f"layers.0.{path}".rpartition(".")
            owner = model.get_submodule(parent)
            setattr(owner, name, torch.jit.script(getattr(owner, name)))
            expected = model(x)
            result = fuse(
                model,
                x,
                {(("*", "layers.*.norm"), ("*", "layers.*.mlp")): "fuse"},
                strict=False,
            )
            self.assertIn(
                f"FUSE-N222 not-traceable: 'layers.0.{path}' is a "
                "torch.jit.ScriptModule",
                result[0].reason,
            )
            # The other layer is as any.
            self.assertEqual([s.parent for s in result.fused], ["layers.1"])
            torch.testing.assert_close(model(x), expected)
        with self.assertRaisesRegex(
            FuseError,
            "FUSE-N222 not-traceable: the model is a torch.jit.ScriptModule",
        ):
            fuse(torch.jit.script(MLP(8, 16)), x)

    def test_modules_of_torch_jit_get_tensors_with_data(self):
        class Looks(Norm):
            def forward(self, x):
                seen.append(isinstance(x, FakeTensor))
                return super().forward(x)

        for scripted in (True, False):
            seen = []
            model, x = net(2)
            model.layers[0].norm = Looks(8)
            if scripted:
                model.layers[0].mlp = torch.jit.script(model.layers[0].mlp)
            fuse_mlir.explain(model, inputs=x)
            self.assertIs(seen[0], not scripted)

    def test_forwards_that_count(self):
        class CountingMLP(MLP):
            calls = 0

            def forward(self, x):
                self.calls += 1
                return super().forward(x)

        class Counting(Block):
            def __init__(self):
                super().__init__()
                self.mlp = CountingMLP(8, 16)

        model, _ = self.refused(
            "FUSE-N223 .*the forward of 'layers.0.mlp' "
            "changes its attribute 'calls'",
            Counting,
        )
        self.assertEqual(model.layers[0].mlp.calls, 0)

    def test_overlaps_and_shared_modules(self):
        model, x = net(1)
        fuse(model, x)
        with self.assertRaisesRegex(
            FuseError,
            "FUSE-N213 already-fused: 'layers.0.norm' is a member of site",
        ):
            fuse(model, x)

        def share(model):
            model.again = model.layers[0].mlp

        self.refused(
            "'layers.0.mlp' is the same module as 'again'", change=share
        )

    def test_dropout_in_training(self):
        class Dropping(Block):
            def __init__(self):
                super().__init__()
                self.mlp = nn.Sequential(
                    nn.Linear(8, 16),
                    nn.ReLU(),
                    nn.Dropout(0.5),
                    nn.Linear(16, 8),
                )

        pattern = (CHAIN[0], ("Sequential", "layers.*.mlp"))
        self.refused("training mode", Dropping, lambda m: m.train(), pattern)
        model, x = net(1, Dropping)
        fuse(model, x, {pattern: "fuse"})
        model(x)
        model.train()
        with self.assertRaisesRegex(
            FuseError, "has dropout or batch statistics and is in training mode"
        ):
            model(x)

    def test_another_flow_in_a_later_call(self):
        class Fickle(Block):
            again = False

            def forward(self, x):
                n = self.norm(x)
                return self.mlp(x if self.again else n)

        model, x = net(1, Fickle)
        fuse(model, x)
        model(x)
        model.layers[0].again = True
        with self.assertRaisesRegex(
            FuseError,
            "FUSE-N206 not-a-chain: in this call the input of FusedIdentity",
        ):
            model(x)

    def test_models_without_known_inputs(self):
        model, _ = net(1)
        with self.assertRaisesRegex(
            FlowError, "cannot infer example inputs for Net; pass inputs="
        ):
            fuse_mlir.fuse_modules(model, {CHAIN: "fuse"})
        with self.assertRaisesRegex(
            FlowError,
            "Net fails on its example inputs, so that its data flow is",
        ):
            fuse(model, torch.randn(3, 5))

    def test_sizes_of_images(self):
        from types import SimpleNamespace

        from fuse_mlir.matching.dataflow import default_inputs

        model = nn.Linear(8, 8)
        model.main_input_name = "pixel_values"
        for size, expected in (
            (16, (16, 16)),
            ((16, 24), (16, 24)),
            (None, (224, 224)),
        ):
            model.config = SimpleNamespace(image_size=size, num_channels=1)
            self.assertEqual(
                default_inputs(model)["pixel_values"].shape, (2, 1, *expected)
            )

    def test_linears_that_are_no_kernel(self):
        model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 8)).eval()
        found = fuse_mlir.explain(model, inputs=torch.randn(3, 8))
        self.assertRegex(
            found[0].reason,
            "FUSE-N221 no-kernel: the members "
            "are linear, linear, and no kernel consists of "
            "these; there are gated_mlp, ",
        )

    def test_mlps_that_are_no_module(self):
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.attention = nn.MultiheadAttention(8, 2)
                self.gate = nn.Linear(8, 16)
                self.up = nn.Linear(8, 16)
                self.down = nn.Linear(16, 8)

            def forward(self, x):
                x = self.attention(x, x, x)[0]
                gate = torch.nn.functional.silu(self.gate(x))
                return self.down(gate * self.up(x))

        found = fuse_mlir.explain(Layer().eval(), inputs=torch.randn(3, 8))
        self.assertEqual(
            [(s.id, s.reason) for s in found],
            [
                (
                    "up+down#0",
                    "FUSE-N206 not-a-chain: between 'up' and 'down' the "
                    "model computes 'mul' by itself; a chain consists of modules, so "
                    "put the MLP into one",
                )
            ],
        )
        layer = nn.TransformerDecoderLayer(8, 2, 16).eval()
        x = torch.randn(3, 8)
        found = fuse_mlir.explain(layer, inputs=(x, x), only_faster=False)
        # The sum reads the norm, too.
        self.assertEqual(
            [s.id for s in found], ["norm2+linear1#0", "linear1+linear2#0"]
        )
        self.assertEqual(found[0].families, ("norm_linear",))
        self.assertIn(
            "between 'linear1' and 'linear2' the model computes "
            "'relu' by itself",
            found[1].reason,
        )

    def test_inputs_that_a_model_fails_on(self):
        with self.assertRaisesRegex(
            FlowError,
            "Linear fails on its example inputs, .*; pass others as inputs=",
        ):
            fuse_mlir.explain(nn.Linear(8, 8), inputs=torch.randn(3, 9))

    def test_models_without_chains(self):
        with self.assertRaisesRegex(FuseError, "Linear has no chain to fuse"):
            fuse_mlir.fuse_modules(nn.Linear(8, 8), inputs=torch.ones(1, 8))


class NoModules(unittest.TestCase):
    def test_names_of_models(self):
        for function in (
            fuse_mlir.fuse_modules,
            fuse_mlir.explain,
            fuse_mlir.verify,
            fuse_mlir.unfuse_modules,
            lambda model: fuse_mlir.calibrate(model, [1]),
        ):
            for model, kind in (
                ("qwen3", "str"),
                (None, "NoneType"),
                (nn.Linear, "type"),
            ):
                with self.assertRaisesRegex(
                    TypeError,
                    f"the model is of type {kind}; expected a torch.nn.Module",
                ):
                    function(model)
        for target in ("qwen3", int):
            with self.assertRaisesRegex(
                TypeError,
                "compile_module expects a torch.nn.Module or a subclass of it",
            ):
                fuse_mlir.compile_module(target)
