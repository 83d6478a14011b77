# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Uses of proxies by hosts, and in several threads."""

import copy
import gc
import inspect
import operator
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import fuse_mlir
from fuse_mlir import FuseError, errors
from fuse_mlir.checkpoint.models import seed_weights
from fuse_mlir.compiler import chains
from fuse_mlir.fusion.fused_module import FusedModule
from tests.models import (
    LLAMA,
    MLP,
    Block,
    Norm,
    fp8_transformer,
    fuse,
    needs_library,
    net,
    snapshot,
    transformer,
)
from tests.support import ROOT

torch.set_num_threads(1)


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


class SavingNorm(Norm):
    """Has more in a checkpoint than parameters."""

    _version = 7
    kept = None

    def get_extra_state(self):
        return {"note": 3}

    def set_extra_state(self, state):
        self.kept = state

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "more"] = torch.tensor(1.0)

    def _load_from_state_dict(self, state, prefix, metadata, *rest):
        assert metadata["version"] == 7, metadata
        state.pop(prefix + "more")
        super()._load_from_state_dict(state, prefix, metadata, *rest)


class FrozenNorm(Norm):
    """Never trains."""

    def train(self, mode=True):
        return super().train(False)


class Saving(Block):
    def __init__(self, size=8, hidden=16):
        super().__init__(size, hidden)
        self.norm = SavingNorm(size)


class Frozen(Block):
    def __init__(self, size=8, hidden=16):
        super().__init__(size, hidden)
        self.norm = FrozenNorm(size)


class Scaled(MLP):
    """With more arguments than the result before it."""

    def forward(self, x, scale=1.0, other=None):
        result = super().forward(x) * scale
        return result if other is None else result + other


class Double(nn.Module):
    def forward(self, weight):
        return 2 * weight


NORM_MLP = {(("*", "layers.*.norm"), ("*", "layers.*.mlp")): "fuse"}


class Sized(Norm):
    """With another signature."""

    def forward(self, hidden, *, size: int = 8):
        assert size == 8
        return super().forward(hidden)


class WithSize(Block):
    def __init__(self, size=8, hidden=16):
        super().__init__(size, hidden)
        self.norm = Sized(size)


@needs_library
class Signatures(unittest.TestCase):
    """Signatures, which hosts read to choose arguments."""

    def check(self, *models):
        for model in models:
            layer = model.layers[0]
            for place, member in (
                (layer.norm, layer.norm._member),
                (layer.mlp, layer.mlp._member),
            ):
                for ours, theirs in (
                    (place, member),
                    (place.forward, member.forward),
                    (type(place).forward, type(member).forward),
                ):
                    self.assertEqual(
                        inspect.signature(ours), inspect.signature(theirs)
                    )

    def test_each_place_has_that_of_its_member(self):
        model, x = net(1)
        other, _ = net(1, WithSize)
        expected = other(x)
        for each in (model, other):
            fuse(each, x, NORM_MLP)
        self.assertEqual(
            str(inspect.signature(other.layers[0].norm.forward)),
            "(hidden, *, size: int = 8)",
        )
        self.check(model, other)
        close(other(x), expected)
        other.layers[0].mlp(other.layers[0].norm(hidden=x, size=8))

    def test_another_class(self):
        model, x = net(1)
        fuse(model, x)
        place = model.layers[0].norm
        place.__class__ = Sized
        self.check(model)
        self.assertIs(type(place._member), Sized)
        model(x)

    def test_copies(self):
        model, x = net(1, WithSize)
        fuse(model, x, NORM_MLP)
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            self.check(copied)
            self.assertIs(
                type(copied.layers[0].norm), type(model.layers[0].norm)
            )
            close(copied(x), model(x))

    def test_torch_compile_and_export(self):
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        model, x = net(1, WithSize)
        expected = model(x)
        fuse(model, x, NORM_MLP)
        with torch.no_grad():
            close(
                torch.compile(model, backend="aot_eager", fullgraph=True)(x),
                expected,
            )
        self.check(model)
        program = torch.export.export(model.layers[0].norm, (x,))
        self.assertEqual(program.graph_signature.user_inputs, ("hidden",))

    def test_classes_of_members_are_let_go(self):
        class Own(Norm):
            def forward(self, x):
                return super().forward(x)

        model, x = net(1)
        model.layers[0].norm = Own(8)
        fuse(model, x, NORM_MLP)
        made = weakref.ref(type(model.layers[0].norm))
        del model, Own
        chains._CACHE.clear()
        # Caches of PyTorch for exports fill in more than one round.
        for _ in range(3):
            gc.collect()
        self.assertIsNone(made())


@needs_library
class OwnMethods(unittest.TestCase):
    """Classes of members that override methods of modules."""

    def test_everything_is_saved_and_loaded(self):
        model, x = net(1, Saving)
        before = model.state_dict()
        fuse(model, x, NORM_MLP)
        state = model.state_dict()
        self.assertEqual(list(state), list(before))
        self.assertIn("layers.0.norm.more", state)
        self.assertEqual(state._metadata, before._metadata)
        model.load_state_dict(copy.deepcopy(state))
        fuse_mlir.unfuse_modules(model)
        self.assertEqual(model.layers[0].norm.kept, {"note": 3})
        model.load_state_dict(copy.deepcopy(state))
        self.assertEqual(list(model.state_dict()), list(before))

    def test_errors_of_loading_are_those_without_fusion(self):
        model, x = net(1)
        plain = copy.deepcopy(model)
        fuse(model, x)
        state = plain.state_dict()
        state["layers.0.mlp.up.weight"] = torch.ones(9)
        state["more"] = state.pop("layers.0.norm.weight")
        errors = []
        for loading in (model, plain):
            with self.assertRaises(RuntimeError) as caught:
                loading.load_state_dict(state)
            errors.append(str(caught.exception))
        self.assertEqual(*errors)

    def test_hooks_of_loading_get_what_outlives_the_place(self):
        model, x = net(1)
        fuse(model, x)
        norm, seen = model.layers[0].norm._member, []
        model.layers[0].norm.register_load_state_dict_pre_hook(
            lambda module, *_: seen.append(module)
        )
        fuse_mlir.unfuse_modules(model)
        model.load_state_dict(model.state_dict())
        self.assertEqual(seen, [norm])

    def test_modes(self):
        model, x = net(1, Frozen)
        fuse(model, x, NORM_MLP)
        model.train()
        layer = model.layers[0]
        self.assertEqual(
            (layer.norm.training, layer.mlp.training), (False, True)
        )
        fuse_mlir.unfuse_modules(model)
        self.assertFalse(layer.norm.training)

    def test_functions_that_initialize_see_members(self):
        def init(module):
            if isinstance(module, Norm):
                nn.init.constant_(module.weight, 3.0)

        model, x = net(1)
        plain = copy.deepcopy(model)
        fuse(model, x)
        model.apply(init)
        self.assertFalse(torch.allclose(model(x), plain(x)))
        close(model(x), plain.apply(init)(x))

    def test_containers_are_indexed(self):
        class Dense(Block):
            def __init__(self):
                super().__init__()
                self.mlp = nn.Sequential(
                    nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)
                )

        model, x = net(1, Dense)
        plain = copy.deepcopy(model)
        members = list(model.layers[0].mlp)
        fuse(model, x, NORM_MLP)
        place = model.layers[0].mlp
        self.assertIs(place[0], members[0])
        self.assertEqual((len(place), list(place)), (3, members))
        self.assertIn(members[2], place)
        place[2] = plain.layers[0].mlp[2] = nn.Linear(16, 8)
        close(model(x), plain(x))
        # A norm is not a container, and is true anyway.
        self.assertTrue(model.layers[0].norm)
        with self.assertRaisesRegex(TypeError, "'Norm' has no len"):
            len(model.layers[0].norm)


@needs_library
class Changes(unittest.TestCase):
    def test_fused_before_weights_are_loaded(self):
        model, x = net()
        expected = model(x)
        for assign in (True, False):
            with torch.device("meta"):
                empty = net()[0]
            fuse(empty, x.to("meta"))
            if not assign:
                empty.to_empty(device="cpu")
            empty.load_state_dict(model.state_dict(), assign=assign)
            close(empty(x), expected)
            fuse_mlir.unfuse_modules(empty)
            self.assertTrue(torch.equal(empty(x), expected))

    def test_parametrizations(self):
        model, x = net(1)
        plain = copy.deepcopy(model)
        before = snapshot(model)
        fuse(model, x)
        for register in (
            lambda m: parametrize.register_parametrization(
                m.layers[0].norm, "weight", Double()
            ),
            lambda m: parametrizations.weight_norm(m.layers[0].norm, dim=None),
        ):
            with self.assertRaisesRegex(
                FuseError,
                r"'weight' of FusedModule\[Norm\] cannot be "
                "parametrized while it is part of site 'norm",
            ):
                register(model)
        close(model(x), plain(x))
        # Inside of a member they make another kernel.
        for m in (model, plain):
            parametrize.register_parametrization(
                m.layers[0].mlp.up, "weight", Double()
            )
        close(model(x), plain(x))
        parametrize.remove_parametrizations(
            model.layers[0].mlp.up, "weight", leave_parametrized=False
        )
        fuse_mlir.unfuse_modules(model)
        self.assertEqual(
            [s[:3] for s in snapshot(model)], [s[:3] for s in before]
        )

    def test_data_parallel(self):
        model, x = net(1)
        fuse(model, x)
        with self.assertRaisesRegex(FuseError, "FUSE-N209 .*DataParallel"):
            model.layers[0].norm._replicate_for_data_parallel()
        fuse_mlir.unfuse_modules(model)
        model.layers[0].norm._replicate_for_data_parallel()
        compiled = fuse_mlir.compile_module(model.layers[0].mlp)
        with self.assertRaisesRegex(FuseError, "of the compiled MLP read"):
            compiled._replicate_for_data_parallel()
        fuse_mlir.decompile_module(compiled)._replicate_for_data_parallel()

    def test_a_kernel_that_is_copied_alone(self):
        # As PEFT does with what `modules_to_save` names.
        model, x = net(1)
        expected = model(x)
        fuse(model, x)
        layer = model.layers[0]
        place, copied = layer.norm, copy.deepcopy(layer.norm)
        with self.assertRaisesRegex(
            FuseError,
            r"fused module of site 'norm\+mlp#0' "
            "was copied without its parent",
        ):
            copied(x)
        close(copy.deepcopy(layer)(x), expected)
        del model, layer
        with self.assertRaisesRegex(FuseError, "or its parent is gone"):
            place(x)

    def test_operations_are_counted(self):
        from torch.utils.flop_counter import FlopCounterMode

        model, x = net()
        model.requires_grad_(True)
        counts = []
        for fused in (False, True):
            if fused:
                fuse(model, x)
            with FlopCounterMode(display=False) as counter:
                model(x)
            counts.append(counter.get_total_flops())
        self.assertEqual(counts[0], counts[1])
        self.assertGreater(counts[0], 0)

    def test_what_accelerate_sets(self):
        model, x = net(1)
        fuse(model, x)
        place = model.layers[0].norm
        for name in ("_old_forward", "_hf_hook", "forward", "__class__"):
            value = (
                place.forward
                if name != "__class__"
                else type("FSDPFusedModule", (type(place),), {})
            )
            with self.assertRaisesRegex(FuseError, f"'{name}' of FusedModule"):
                setattr(place, name, value)
        fuse_mlir.unfuse_modules(model)
        # Or removing its hooks would bring back the forward of the place.
        self.assertFalse(hasattr(model.layers[0].norm, "_old_forward"))

    def test_a_kernel_in_another_module(self):
        model, x = net(1)
        before = snapshot(model)
        fuse(model, x)
        layer = model.layers[0]
        place, layer.norm = layer.norm, nn.Sequential(layer.norm)
        with self.assertRaisesRegex(
            FuseError,
            r"the kernel of site 'norm\+mlp"
            "#0' is not in the place of 'norm' any",
        ):
            fuse_mlir.unfuse_modules(model)
        layer.norm = place
        fuse_mlir.unfuse_modules(model)
        self.assertEqual(snapshot(model), before)

    def test_second_derivatives(self):
        model, x = net(2)
        model.requires_grad_(True)
        plain = copy.deepcopy(model)
        fuse(model, x)
        found = []
        for m in (model, plain):
            y = x.clone().requires_grad_()
            (first,) = torch.autograd.grad(
                m(y).square().sum(), y, create_graph=True
            )
            first.square().sum().backward()
            found.append([y.grad, *(p.grad for p in m.parameters())])
        for ours, theirs in zip(*found):
            torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)
        y = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(model(y).sum(), y)
        self.assertFalse(first.requires_grad)

    def test_backward_after_the_kernel_is_gone(self):
        for gone in ("unfused", "converted", "deleted"):
            with self.subTest(gone):
                model, x = net(1)
                model.requires_grad_(True)
                plain = copy.deepcopy(model)
                fuse(model, x)
                y = x.clone().requires_grad_()
                loss = model(y).square().sum()
                if gone == "unfused":
                    fuse_mlir.unfuse_modules(model)
                elif gone == "converted":
                    model.layers[0].mlp.up = nn.Linear(8, 16, bias=False)
                    model(x)
                else:
                    del model
                loss.backward()
                z = x.clone().requires_grad_()
                plain(z).square().sum().backward()
                torch.testing.assert_close(y.grad, z.grad, atol=1e-4, rtol=1e-4)

    def test_traces_check_themselves(self):
        model, x = net(1)
        model.requires_grad_(True)
        fuse(model, x)
        traced = torch.jit.trace(model, x)
        close(traced(x), model(x))
        with self.assertRaisesRegex(
            RuntimeError, "fuse_mlir::exported has no gradient"
        ):
            traced(x).sum().backward()

    def test_what_reads_the_code_of_forwards_is_refused(self):
        model, x = net(1)
        block = copy.deepcopy(model.layers[0])
        fuse(model, x)
        with self.assertRaisesRegex(
            FuseError,
            r"site 'norm\+mlp#0' expects a tensor as argument "
            "0, got Proxy: torch.fx.symbolic_trace sees no kernel; trace "
            "the model before it is fused, or use torch.export",
        ):
            torch.fx.symbolic_trace(model)
        with self.assertRaisesRegex(
            FuseError,
            "torch.jit.script sees no kernel, and Fused.* is "
            r"part of site 'norm\+mlp#0'; unfuse it before, or use "
            "torch.export",
        ):
            torch.jit.script(model)
        fuse_mlir.compile_module(block)
        with self.assertRaisesRegex(
            errors.KernelError,
            "the compiled Block expects tensors, got "
            "Proxy: torch.fx.symbolic_trace sees no kernel",
        ):
            torch.fx.symbolic_trace(block)
        with self.assertRaisesRegex(
            FuseError,
            "torch.jit.script sees no kernel, and Block is "
            "compiled to one; decompile it before, or use torch.export",
        ):
            torch.jit.script(block)
        for each in (fuse_mlir.decompile_module(block), model):
            fuse_mlir.unfuse_modules(each)
            close(torch.fx.symbolic_trace(each)(x), each(x))

    def test_traced_programs_run_in_another_process(self):
        model, x = net(1)
        fuse(model, x)
        script = """
import sys
import torch
import fuse_mlir.compiler.exported
x, expected = torch.load(sys.argv[2])
assert torch.equal(torch.jit.load(sys.argv[1])(x), expected)
"""
        with tempfile.TemporaryDirectory() as directory:
            saved, tensors = (f"{directory}/{n}" for n in ("p.pt", "t.pt"))
            traced = torch.jit.trace(model, x)
            close(traced(x), model(x))
            torch.jit.save(traced, saved)
            torch.save((x, model(x)), tensors)
            done = subprocess.run(
                [sys.executable, "-c", script, saved, tensors],
                text=True,
                capture_output=True,
                check=False,
                env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
            )
        self.assertEqual(done.returncode, 0, done.stderr)


@needs_library
class Arguments(unittest.TestCase):
    """Members that read more than the result before them."""

    def model(self, call):
        class WithCall(Block):
            def __init__(self):
                super().__init__()
                self.mlp = Scaled(8, 16)
                self.call = call

            def forward(self, x):
                return x + self.call(self, x)

        model, x = net(1, WithCall)
        return model, copy.deepcopy(model), x

    def test_constants(self):
        model, plain, x = self.model(lambda m, x: m.mlp(m.norm(x), 2.0))
        fuse(model, x, NORM_MLP)
        close(model(x), plain(x))
        model.layers[0].call = lambda m, x: m.mlp(m.norm(x), scale=2.0)
        close(model(x), plain(x))
        for call in (
            lambda m, x: m.mlp(m.norm(x), 3.0),
            lambda m, x: m.mlp(m.norm(x)),
            lambda m, x: m.mlp(m.norm(x), 2.0, x),
        ):
            model.layers[0].call = call
            with self.assertRaisesRegex(FuseError, "is fused for .* got "):
                model(x)

    def test_constants_under_torch_compile(self):
        model, plain, x = self.model(lambda m, x: m.mlp(m.norm(x), m.scale))
        model.layers[0].scale = plain.layers[0].scale = 2.0
        fuse(model, x, NORM_MLP)
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        close(compiled(x), plain(x))
        model.layers[0].scale = 3.0
        with self.assertRaises(Exception) as caught:
            compiled(x)
        self.assertIn(
            "is fused for argument 1 = 2.0, got another", str(caught.exception)
        )

    def test_names_instead_of_positions(self):
        model, plain, x = self.model(lambda m, x: m.mlp(m.norm(x)))
        fuse(model, x, NORM_MLP)
        model.layers[0].call = lambda m, x: m.mlp(x=m.norm(x=x))
        close(model(x), plain(x))

    def test_inputs_of_the_first_member(self):
        def twice(m, x):
            n = m.norm(x)
            return m.mlp(n, other=x)

        model, plain, x = self.model(twice)
        fuse(model, x, NORM_MLP)
        close(model(x), plain(x))
        model.layers[0].call = lambda m, x: m.mlp(m.norm(x), other=x + 1)
        with self.assertRaisesRegex(
            FuseError,
            "FUSE-N206 .* argument 'other' "
            "|in this call 'other' of FusedIdentity",
        ):
            model(x)

    def test_one_tensor_may_become_two(self):
        class AddNorm(Norm):
            def forward(self, x, y):
                return super().forward(x * y)

        model, plain, x = self.model(lambda m, x: m.mlp(m.norm(x, m.other(x))))
        for m in (model, plain):
            m.layers[0].norm = AddNorm(8)
            m.layers[0].norm.load_state_dict({"weight": torch.ones(8)})
            m.layers[0].other = lambda x: x
        fuse(model, x, NORM_MLP)
        close(model(x), plain(x))
        for m in (model, plain):
            m.layers[0].other = lambda x: x.flip(-1)
        close(model(x), plain(x))


@needs_library
class Attributes(unittest.TestCase):
    def test_names_that_places_have_themselves(self):
        def status(name, value=3):
            class Named(Block):
                def __init__(self):
                    super().__init__()
                    setattr(self.mlp, name, value)

            model, x = net(1, Named)
            found = fuse(model, x, NORM_MLP, strict=False)[0]
            if found.status == "fused":
                self.assertEqual(getattr(model.layers[0].mlp, name), value)
            return f"{found.status} {found.reason}"

        for name in ("site", "names", "static", "_kernel", "build", "members"):
            self.assertRegex(
                status(name),
                "refused FUSE-N226 .*: 'layers.0."
                f"mlp' has an attribute '{name}', as the module",
            )
        for name in ("size", "_names", "config"):
            self.assertEqual(status(name), "fused ")

    def test_compiling_a_place_is_what_pytorch_does(self):
        model, x = net(1)
        expected = model(x)
        fuse(model, x)
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        model.layers[0].norm.compile(backend="eager")
        close(model(x), expected)
        fuse_mlir.unfuse_modules(model)
        self.assertTrue(torch.equal(model(x), expected))


@needs_library
class Interrupted(unittest.TestCase):
    def test_the_model_is_as_it_was(self):
        model, x = net(3)
        before = snapshot(model)

        def stop(done, _count, _line):
            if done == 2:
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            fuse(model, x, progress=stop)
        self.assertEqual(snapshot(model), before)
        put, calls = FusedModule.put_into, []

        def put_some(module, parent):
            calls.append(parent)
            if len(calls) == 2:
                raise KeyboardInterrupt
            put(module, parent)

        with (
            mock.patch.object(FusedModule, "put_into", put_some),
            self.assertRaises(KeyboardInterrupt),
        ):
            fuse(model, x)
        self.assertEqual(len(calls), 2)
        self.assertEqual(snapshot(model), before)
        self.assertEqual(len(fuse(model, x).fused), 3)


@needs_library
class DefaultDevice(unittest.TestCase):
    """Models on the CPU in a process whose tensors are elsewhere by default,
    without data even."""

    ONE = {**LLAMA, "num_hidden_layers": 1}

    def test_a_model(self):
        model, x = net(2)
        expected = model(x)
        with torch.device("meta"):
            self.assertEqual(len(fuse(model, x).fused), 2)
            self.assertTrue(fuse_mlir.verify(model, x))
            ours = model(x)
            fuse_mlir.refresh(model)
            fuse_mlir.unfuse_modules(model)
            block = fuse_mlir.compile_module(model.layers[0])
            close(block(x), fuse_mlir.decompile_module(block)(x))
        close(ours, expected)

    def test_scales(self):
        for options in ({}, {"per_channel": True}, {"storage": "i8"}):
            model = transformer("qwen3", **self.ONE)
            data = [torch.tensor([[3, 14, 15, 9]])]
            with torch.device("meta"):
                result = fuse_mlir.calibrate(model, data, **options)
                self.assertEqual(len(result.fused), 1)
                checks = fuse_mlir.verify(model, data)
            self.assertTrue(checks, str(checks))

    def test_experts(self):
        model = transformer("mixtral", **self.ONE, num_local_experts=4)
        ids = torch.tensor([[3, 14, 15, 9]])
        with torch.device("meta"):
            fuse_mlir.fuse_modules(
                model, {(("*Experts", "**.experts"),): "fuse"}, inputs=ids
            )
            self.assertTrue(fuse_mlir.verify(model, ids))

    def test_checkpoints_in_8_bits(self):
        model = fp8_transformer("qwen3", **self.ONE)
        ids = torch.tensor([[3, 14, 15, 9]])
        with torch.device("meta"):
            self.assertEqual(
                len(fuse_mlir.fuse_modules(model, inputs=ids).fused), 1
            )
            self.assertTrue(fuse_mlir.verify(model, ids))

    def test_drawn_weights(self):
        model, _ = net(1)
        first = seed_weights(model, seed=1).layers[0].mlp.up.weight
        with torch.device("meta"):
            again = seed_weights(model, seed=1).layers[0].mlp.up.weight
        self.assertTrue(torch.equal(first, again))


@needs_library
class Threads(unittest.TestCase):
    def test_models_are_fused_side_by_side(self):
        def work(seed):
            model, x = net(1, seed=seed)
            # No other chain has this, so that each exports its own.
            model.layers[0].mlp.seed = seed
            expected, before = model(x), snapshot(model)
            fuse(model, x)
            close(model(x), expected)
            fuse_mlir.unfuse_modules(model)
            self.assertEqual(snapshot(model), before)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))

    def test_an_export_elsewhere_changes_no_calls(self):
        model, x = net(1)
        fuse(model, x)
        expected = model(x)
        seen = []

        class Stops(nn.Module):
            def forward(self, x):
                # Another thread while this one exports.
                with ThreadPoolExecutor(1) as other:
                    seen.append(
                        (
                            torch.compiler.is_exporting(),
                            other.submit(lambda: model(in_other)).result(),
                        )
                    )
                return 2 * x

        in_other = x.clone()
        with mock.patch(
            "fuse_mlir.compiler.exported._kernel",
            side_effect=AssertionError("a program's kernel"),
        ):
            torch.export.export(Stops(), (x,), strict=False)
        self.assertTrue(seen[0][0])
        self.assertTrue(torch.equal(seen[0][1], expected))

    def test_members_keep_their_parameters_meanwhile(self):
        class Looks(Norm):
            def forward(self, x):
                seen.append(all(map(operator.is_, model.parameters(), own)))
                return super().forward(x)

        model, x = net(1)
        model.requires_grad_(True)
        model.layers[0].norm = Looks(8)
        seen, own = [], list(model.parameters())
        fuse(model, x, NORM_MLP)
        # Observed, exported, and run again for gradients.
        model(x).sum().backward()
        self.assertEqual(seen, [True] * 3)
        self.assertIsNotNone(own[0].grad)

    def test_functions_that_read_parameters_of_their_module(self):
        class Closed(Norm):
            def __init__(self, size):
                super().__init__(size)
                self.scaled = lambda x: x * self.weight

            def forward(self, x):
                return self.scaled(torch.nn.functional.rms_norm(x, (8,)))

        model, x = net(1)
        model.requires_grad_(True)
        norm = model.layers[0].norm = Closed(8)
        plain = copy.deepcopy(model)
        plain.layers[0].norm = Closed(8)
        plain.load_state_dict(model.state_dict())
        fuse(model, x, NORM_MLP)
        for each in (model, plain):
            each(x).sum().backward()
        close(norm.weight.grad, plain.layers[0].norm.weight.grad)
        for each in (norm, plain.layers[0].norm):
            each.weight = nn.Parameter(torch.arange(8.0))
        close(model(x), plain(x))

    def test_classes_that_make_modules_in_their_own_way(self):
        model, x = net(1)
        model.requires_grad_(True)
        layer, expected = model.layers[0], model(x)
        layer.mlp = torch.fx.symbolic_trace(layer.mlp)
        fuse(model, x, NORM_MLP)
        close(model(x), expected)
        model(x).sum().backward()
        self.assertIsNotNone(layer.mlp.up.weight.grad)

    def test_calls_of_many_types(self):
        model, x = net(1)
        plain = copy.deepcopy(model)
        fuse(model, x)

        def work(number):
            for i in range(6):
                # Each rank has a separate kernel.
                given = torch.randn(*[2] * ((number + i) % 3), 3, 8)
                close(model(given), plain(given))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))

    def test_calls_of_others_are_not_seen(self):
        model, x = net(1)
        inside, leave = threading.Event(), threading.Event()
        self.addCleanup(leave.set)
        main = threading.get_ident()

        def other():
            inside.wait(60)
            model.layers[0].norm(x)
            leave.set()

        class Waits(nn.Module):
            def forward(self, x):
                if threading.get_ident() == main and not inside.is_set():
                    inside.set()
                    leave.wait(60)
                return x

        model.layers[0].wait = Waits()
        model.layers[0].forward = lambda x: Block.forward(
            model.layers[0], model.layers[0].wait(x)
        )
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(other)
            result = fuse(model, x)
            done.result()
        self.assertTrue(inside.is_set())
        self.assertEqual(len(result.fused), 1)


if __name__ == "__main__":
    unittest.main()
