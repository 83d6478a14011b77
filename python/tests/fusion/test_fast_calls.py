# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls that the extension runs: when it does, and that it sees all that Python
would see.

Each test calls a fused model until the extension runs it, changes something,
and expects the result of the members, or the refusal of a call in Python.
"""

import copy
import gc
import os
import pickle
import sys
import unittest
import warnings
import weakref
from unittest import mock

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import fuse_mlir
from fuse_mlir import FuseError, native
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.native import call_extension
from tests.models import (
    CHAIN,
    MLP,
    Block,
    Norm,
    call_in_threads,
    fuse,
    needs_library,
    net,
)

torch.set_num_threads(1)

needs_extension = unittest.skipUnless(
    native.available() and native.extension() is not None,
    "no fuse_call beside libfuse",
)


def places(model):
    return [m for m in model.modules() if isinstance(m, FusedModule)]


def fast_count(model):
    """Calls that the extension ran for the present kernels."""
    return sum(place._fast.count for place in places(model) if place._fast)


class Calls(unittest.TestCase):
    """A model, a fused copy, and an input."""

    def setUp(self):
        self.reference, self.x = net(2)
        self.reference.requires_grad_(False)
        self.model = copy.deepcopy(self.reference)
        fuse(self.model, self.x)
        self.warm()

    def warm(self):
        """Calls until the extension runs every site."""
        for _ in range(2):
            self.model(self.x)

    def is_fast(self, x, atol=1e-5):
        """Whether the extension runs all sites of a call, whose result is that
        of the members."""
        before = fast_count(self.model)
        found, expected = self.model(x), self.reference(x)
        torch.testing.assert_close(found, expected, atol=atol, rtol=1e-5)
        return fast_count(self.model) - before == len(places(self.model))

    def assertChanges(self, change):
        """A change of both models sends one call to Python; the next one is
        fast again."""
        change(self.reference)
        change(self.model)
        self.assertFalse(self.is_fast(self.x))
        self.assertTrue(self.is_fast(self.x))


@needs_library
@needs_extension
class Usual(Calls):
    def test_is_fast(self):
        self.assertTrue(self.is_fast(self.x))

    def test_other_numbers_of_rows(self):
        for rows in (1, 2, 7, 65):
            self.assertTrue(self.is_fast(torch.randn(rows, 8)), rows)

    def test_inference_mode(self):
        with torch.inference_mode():
            self.assertTrue(self.is_fast(self.x))
            found = self.model(self.x)
        self.assertTrue(found.is_inference())

    def test_results_are_tensors_of_their_own(self):
        first = self.model(self.x)
        kept = first.clone()
        second = self.model(2 * self.x)
        self.assertIs(type(first), torch.Tensor)
        self.assertTrue(torch.equal(first, kept))
        self.assertNotEqual(first.data_ptr(), second.data_ptr())

    def test_bits_are_those_of_python(self):
        x = torch.randn(5, 8)
        found = self.model(x)
        with mock.patch(
            "fuse_mlir.fusion.fused_module.make_call", return_value=None
        ):
            for place in places(self.model):
                place._forget_fast()
            self.assertTrue(torch.equal(self.model(x), found))

    def test_a_chain_of_two_places_with_names(self):
        class Named(Block):
            def forward(self, x):
                return self.mlp(x=self.norm(x=x))

        model, x = net(1, Named)
        fused = copy.deepcopy(model)
        with torch.no_grad():
            fuse(fused, x)
            fused(x)
            torch.testing.assert_close(fused(x), model(x))
        self.assertEqual(fast_count(fused), 1)

    def test_compiled_modules(self):
        mlp = MLP(8, 16).requires_grad_(False)
        compiled = fuse_mlir.compile_module(copy.deepcopy(mlp))
        for _ in range(3):
            torch.testing.assert_close(compiled(self.x), mlp(self.x))
        self.assertEqual(compiled.__dict__["_fuse_kernels"].fast.count, 2)


@needs_library
@needs_extension
class OtherInputs(Calls):
    def test_strides(self):
        self.assertFalse(self.is_fast(torch.randn(8, 6).t()))

    def test_another_rank(self):
        self.assertFalse(self.is_fast(self.x[None]))

    def test_no_rows(self):
        self.assertFalse(self.is_fast(torch.empty(0, 8)))

    def test_lazy_negation(self):
        self.assertFalse(self.is_fast(torch._neg_view(self.x)))

    def test_parameters_and_subclasses(self):
        class Other(torch.Tensor):
            pass

        place = places(self.model)[0]
        before = place._fast.count
        self.model(nn.Parameter(self.x, requires_grad=False))
        self.assertEqual(place._fast.count, before)
        found = self.model(self.x.as_subclass(Other))
        self.assertIsInstance(found, Other)

    def test_what_is_no_tensor(self):
        with self.assertRaisesRegex(
            FuseError, "expects a tensor as argument 0, got list"
        ):
            self.model.layers[0].norm([1.0])

    def test_too_few_arguments(self):
        with self.assertRaises(TypeError):
            self.model.layers[0].norm()

    def test_gradients_of_inputs(self):
        x = self.x.clone().requires_grad_()
        self.model(x).sum().backward()
        found, x.grad = x.grad, None
        self.reference(x).sum().backward()
        torch.testing.assert_close(found, x.grad, atol=1e-5, rtol=1e-5)
        with torch.no_grad():
            self.assertTrue(self.is_fast(x))

    def test_gradients_of_weights(self):
        self.model.requires_grad_()
        self.assertIsNotNone(self.model(self.x).grad_fn)
        with torch.no_grad():
            self.assertIsNone(self.model(self.x).grad_fn)


@needs_library
@needs_extension
class Modes(Calls):
    """What wants to see a call."""

    def test_autocast(self):
        with (
            torch.autocast("cpu", torch.bfloat16),
            self.assertRaisesRegex(FuseError, "leave autocast"),
        ):
            self.model(self.x)
        self.assertTrue(self.is_fast(self.x))

    def test_vmap(self):
        x = torch.randn(3, 4, 8)
        torch.testing.assert_close(
            torch.vmap(self.model)(x), torch.vmap(self.reference)(x)
        )

    def test_forward_mode_gradients(self):
        with forward_ad.dual_level():
            x = forward_ad.make_dual(self.x, torch.ones_like(self.x))
            found = forward_ad.unpack_dual(self.model(x)).tangent
            expected = forward_ad.unpack_dual(self.reference(x)).tangent
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)

    def test_dispatch_modes(self):
        seen = []

        class Names(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(str(func))
                return func(*args, **(kwargs or {}))

        with torch.no_grad(), Names():
            self.model(self.x)
        self.assertEqual(seen.count("fuse_mlir.call.default"), 2)

    def test_function_modes(self):
        seen = []

        class Names(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(str(func))
                return func(*args, **(kwargs or {}))

        with Names():
            self.model(self.x)
        self.assertIn("fuse_mlir.call", " ".join(seen))

    def test_the_profiler(self):
        with torch.profiler.profile() as profile:
            self.model(self.x)
        names = [event.key for event in profile.key_averages()]
        self.assertIn("fuse_mlir::call", names)

    def test_compilation(self):
        torch._dynamo.reset()
        compiled = torch.compile(self.model, fullgraph=True, backend="eager")
        torch.testing.assert_close(
            compiled(self.x), self.reference(self.x), atol=1e-5, rtol=1e-5
        )

    def test_export(self):
        program = torch.export.export(self.model, (self.x,), strict=False)
        self.assertIn("fuse_mlir.exported", program.graph_module.code)


@needs_library
@needs_extension
class Weights(Calls):
    def test_values(self):
        def change(model):
            model.layers[1].mlp.up.weight.mul_(1.5)

        with torch.no_grad():
            self.assertChanges(change)

    def test_data(self):
        other = torch.randn(8, 16)

        def change(model):
            model.layers[0].mlp.down.weight.data = other.clone()

        self.assertChanges(change)

    def test_parameters(self):
        other = nn.Parameter(torch.randn(8), requires_grad=False)

        def change(model):
            model.layers[0].norm.weight = other

        self.assertChanges(change)

    def test_states(self):
        state = net(2)[0].state_dict()
        state = {name: 2 * value for name, value in state.items()}
        self.assertChanges(lambda model: model.load_state_dict(state))

    def test_types(self):
        self.model.half().float()
        self.assertFalse(self.is_fast(self.x, atol=1e-2))
        self.assertTrue(self.is_fast(self.x, atol=1e-2))

    def test_parametrizations(self):
        """A weight that is a property is not where the extension looks."""
        place = places(self.model)[0]
        kernel = place._kernel
        owner = kernel._sources[0][0]

        class Property:
            weight = torch.ones(8)
            _parameters: dict = {}
            _buffers: dict = {}

        with mock.patch.object(
            kernel, "bound_tensors", return_value=[(Property(), "weight", 0, 0)]
        ):
            place._forget_fast()
            self.model(self.x)
        self.assertIsNone(place._fast)
        self.assertIsInstance(owner, Norm)


@needs_library
@needs_extension
class Members(Calls):
    def test_hooks(self):
        for change in (
            lambda m: m.layers[0].mlp.up.register_forward_hook(print),
            lambda m: m.layers[0].mlp.register_forward_pre_hook(print),
            lambda m: nn.modules.module.register_module_forward_hook(print),
        ):
            handle = change(self.model)
            try:
                with self.assertRaisesRegex(FuseError, "FUSE-N208 has-hooks"):
                    self.model(self.x)
            finally:
                handle.remove()
            self.warm()
            self.assertTrue(self.is_fast(self.x))

    def test_a_hook_of_the_first_member_runs(self):
        seen = []
        handle = self.model.layers[0].norm.register_forward_pre_hook(
            lambda module, args: seen.append(args[0])
        )
        self.model(self.x)
        handle.remove()
        self.assertEqual(len(seen), 1)
        self.assertIs(seen[0], self.x)

    def test_children(self):
        other = nn.Linear(8, 16, bias=False).requires_grad_(False)

        def change(model):
            model.layers[1].mlp.gate = copy.deepcopy(other)

        self.assertChanges(change)

    def test_a_replaced_place(self):
        self.model.layers[0].mlp = nn.Identity()
        with self.assertRaisesRegex(FuseError, "was replaced by a Identity"):
            self.model(self.x)

    def test_attributes(self):
        def change(model):
            model.layers[0].mlp.note = "other"

        self.assertChanges(change)

    def test_lists_that_change_in_place(self):
        for model in (self.reference, self.model):
            model.layers[0].mlp.sizes = [1000, 2000]
        self.warm()
        self.assertTrue(self.is_fast(self.x))
        self.assertChanges(lambda model: model.layers[0].mlp.sizes.append(3000))

    def test_equal_lists_stay_fast(self):
        for model in (self.reference, self.model):
            model.layers[0].mlp.sizes = [1000, 2000]
        self.warm()
        self.assertTrue(self.is_fast(self.x))
        sizes = self.model.layers[0].mlp.sizes
        sizes[0] = int("1000")
        self.assertFalse(self.is_fast(self.x))
        self.assertTrue(self.is_fast(self.x))

    def test_another_forward_of_a_class(self):
        def forward(mlp, x):
            return mlp.down(torch.nn.functional.relu(mlp.gate(x)) * mlp.up(x))

        with mock.patch.object(MLP, "forward", forward):
            self.assertFalse(self.is_fast(self.x))
            self.assertTrue(self.is_fast(self.x))
        self.assertFalse(self.is_fast(self.x))

    def test_modes_of_training(self):
        class Dropping(MLP):
            def forward(self, x):
                return torch.dropout(super().forward(x), 0.5, self.training)

        class Own(Block):
            def __init__(self):
                super().__init__()
                self.mlp = Dropping(8, 16)
                self.mlp.drop = nn.Dropout(0.5)

        model, x = net(1, Own)
        fuse(model, x, {(CHAIN[0], ("*", "layers.*.mlp")): "fuse"})
        for _ in range(2):
            model(x)
        self.assertEqual(fast_count(model), 1)
        model.train()
        with self.assertRaisesRegex(FuseError, "is in training mode"):
            model(x)

    def test_intermediates_are_not_read(self):
        layer = self.model.layers[0]
        normed = layer.norm(self.x)
        with self.assertRaisesRegex(FuseError, "FUSE-N206 not-a-chain"):
            normed + 1
        with self.assertRaisesRegex(FuseError, "is not the result of site"):
            layer.mlp(self.x)
        with self.assertRaisesRegex(FuseError, "is not the result of site"):
            self.model.layers[1].mlp(normed)
        self.assertEqual(normed.shape, self.x.shape)
        self.assertIs(type(layer.mlp(normed)), torch.Tensor)


@needs_library
@needs_extension
class Lives(Calls):
    def test_copies_have_calls_of_their_own(self):
        for other in (
            copy.deepcopy(self.model),
            pickle.loads(pickle.dumps(self.model)),
        ):
            self.assertEqual(fast_count(other), 0)
            other(self.x)
            other.layers[0].mlp.up.weight.mul_(2)
            self.assertTrue(self.is_fast(self.x))

    def test_unfused_sites_are_freed_at_once(self):
        gone = [weakref.ref(place) for place in places(self.model)]
        gc.disable()
        try:
            fuse_mlir.unfuse_modules(self.model)
            self.assertEqual([ref() for ref in gone], [None, None])
        finally:
            gc.enable()

    def test_calls_do_not_grow(self):
        self.model(self.x)

        def blocks():
            for _ in range(1000):
                self.model(self.x)
            gc.collect()
            return sys.getallocatedblocks()

        first = blocks()
        # Caches of Python may take some blocks once.
        self.assertLess(blocks() - first, 100)

    def test_threads_see_one_version_of_weights(self):
        model, x = net(1)
        model.requires_grad_(False)
        fuse(model, x)
        call_in_threads(self, model, x, model.layers[0].mlp.down.weight)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_children_of_a_fork(self):
        expected = self.model(self.x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            same = torch.equal(self.model(self.x), expected)
            os._exit(0 if same and fast_count(self.model) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


@needs_library
class WithoutExtension(unittest.TestCase):
    def test_calls_are_the_same_and_it_is_told_once(self):
        native.tell_missing.cache_clear()
        self.addCleanup(native.tell_missing.cache_clear)
        model, x = net(2)
        expected = model(x)
        with (
            mock.patch.object(
                call_extension, "_load", return_value=(None, "no file")
            ),
            warnings.catch_warnings(record=True) as told,
        ):
            warnings.simplefilter("always")
            native.ambient.cache_clear()
            fuse(model, x)
            with torch.no_grad():
                for _ in range(2):
                    torch.testing.assert_close(
                        model(x), expected, atol=1e-5, rtol=1e-5
                    )
            self.assertEqual(fast_count(model), 0)
        native.ambient.cache_clear()
        texts = [str(w.message) for w in told if "ctypes" in str(w.message)]
        self.assertEqual(len(texts), 1)
        self.assertIn(
            "calls of fused modules go through ctypes, which takes some 50 us "
            "more for each: no file",
            texts[0],
        )

    def test_reasons(self):
        load = call_extension._load.__wrapped__
        with mock.patch.object(
            call_extension, "library", side_effect=native.NativeError("none")
        ):
            self.assertEqual(load(), (None, "none"))
        with mock.patch.object(call_extension, "FILE", "missing.so"):
            self.assertRegex(load()[1], "there is no '.*missing.so'")
        # A file that was built before a class was added.
        with mock.patch.object(call_extension, "CLASSES", ("Call", "Newer")):
            self.assertRegex(load()[1], "another version, without 'Newer'")


@needs_library
@needs_extension
class Refused(unittest.TestCase):
    """What Python must not hand over is an error, and no crash."""

    def test_arguments(self):
        module = native.extension()
        for make, message in (
            (lambda: module.Guard([3], [], [], [], []), "expected a dict"),
            (lambda: module.Guard([]), "index out of range"),
            (lambda: module.Guard([], [], [], [3], []), "no attribute"),
            (lambda: module.Launcher(0, 0, 1, 0, 0, None), "the address of"),
            (lambda: module.Launcher("x", 0, 1, 0, 0, 0), "an integer"),
            (lambda: module.Launcher(1), "takes exactly 6"),
            (lambda: module.Identity(1, None, True), "must be str"),
            (lambda: module.Part("site", None, "x"), "an integer"),
            (lambda: module.Call(*[None] * 20), "integer"),
        ):
            with self.assertRaisesRegex(
                (TypeError, ValueError, IndexError, AttributeError), message
            ):
                make()

    def test_objects_of_other_types(self):
        module = native.extension()
        rest = [1, 0, [], [], [], None, [], [], True, 1, [], None, None]
        with self.assertRaisesRegex(TypeError, "expected a Guard"):
            module.Call(
                1, 2, 3, torch.is_grad_enabled, *rest, False, False, False
            )

    def test_answers(self):
        module = native.extension()
        self.assertTrue(module.Ambient((abs, -3, 3)).holds())
        self.assertFalse(module.Ambient((abs, -3, 4)).holds())
        self.assertTrue(module.Ambient(({"a": None}, "a", None)).holds())
        with self.assertRaises(ZeroDivisionError):
            module.Ambient((lambda: 1 // 0, None, 3)).holds()


if __name__ == "__main__":
    unittest.main()
