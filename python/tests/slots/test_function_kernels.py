# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python functions as kernels of slots."""

import copy
import importlib
import pickle
import unittest
import warnings

import torch
from torch import nn

from fuse_mlir import errors, native, slots
from fuse_mlir.slots import HardwareRequirement, KernelSpec
from fuse_mlir.slots.models import list_slots

EPS = 1e-6


def rms_norm(x, weight):
    return nn.functional.rms_norm(x, weight.shape, weight, EPS)


def by_hand(x, weight, eps):
    """A kernel: the same function, in another order."""
    return x * (x * x).mean(-1, keepdim=True).add(eps).rsqrt() * weight


class Norm(nn.Module):
    def __init__(self, width=8, eager=rms_norm):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.norm = slots.OpSlot("rms_norm", params={"eps": EPS}, eager=eager)

    def forward(self, x):
        return self.norm(x, self.weight)


@unittest.skipUnless(native.available(), "libfuse is not built")
class FunctionKernels(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.context = slots.Context()
        self.calls = 0
        self.x = torch.randn(3, 8)

    def counted(self, x, weight, eps):
        self.calls += 1
        return by_hand(x, weight, eps)

    def register(self, function=None, name="mine", op="rms_norm", **spec):
        self.context.register(
            KernelSpec(name, op, function=function or self.counted, **spec)
        )

    def bind(self, model, name="mine", **config):
        return slots.bind(
            model,
            {"bind": {"rms_norm": name}, **config},
            self.context,
            rebind=True,
        )

    def fails(self, text, call, *args, **kwargs):
        with self.assertRaises(errors.NativeError) as caught:
            call(*args, **kwargs)
        self.assertIn(text, str(caught.exception))

    # Supported uses.

    def test_function_is_called_where_it_is_bound(self):
        self.register()
        model, other = Norm(), Norm()
        report = self.bind(model)
        self.bind(other, "eager")
        self.assertEqual(report["unchecked"], [])
        self.assertIn("FunctionKernels.counted", report["calls"][0]["source"])
        self.calls = 0
        torch.testing.assert_close(
            model(self.x), rms_norm(self.x, model.weight)
        )
        self.assertEqual(self.calls, 1)
        other(self.x)
        self.assertEqual(self.calls, 1)
        self.assertTrue(model.norm.has_kernel)
        self.assertEqual(list_slots(model)[0].kernel, "mine")

    def test_calls_that_stay_unbound(self):
        self.register()
        model = Norm()
        report = slots.bind(model, {}, self.context)
        self.assertIsNone(report["calls"][0]["kernel"])
        self.assertIsNone(model.norm.kernel)
        self.fails(
            "no call of a slot of op 'rms_norm'",
            self.context.parse("module {}").bind,
            {"bind": {"rms_norm": "mine"}},
        )

    def test_factory_is_called_once_when_it_is_bound(self):
        made = []

        def factory():
            made.append(1)
            return self.counted

        self.context.register(
            KernelSpec("mine", "rms_norm", "standard", factory)
        )
        self.assertEqual(made, [])
        models = Norm(), Norm()
        for model in models:
            self.bind(model)
            torch.testing.assert_close(
                model(self.x), rms_norm(self.x, model.weight)
            )
        self.assertEqual(made, [1])

    def test_gradients_are_those_of_the_eager_function(self):
        self.register()
        model = Norm()
        reference = copy.deepcopy(model)
        self.bind(model, mode="training")
        self.bind(reference, "eager")
        x, y = (self.x.clone().requires_grad_() for _ in range(2))
        model(x).square().sum().backward()
        reference(y).square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        torch.testing.assert_close(model.weight.grad, reference.weight.grad)

    def test_compile_and_export_without_a_break(self):
        self.register()
        model = Norm().eval().requires_grad_(False)
        self.bind(model)
        expected = rms_norm(self.x, model.weight)
        # No call has to come first: there is nothing to compile.
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        self.calls = 0
        torch.testing.assert_close(compiled(self.x), expected)
        self.assertEqual(self.calls, 1)
        program = torch.export.export(model, (self.x,))
        torch.testing.assert_close(program.module()(self.x), expected)
        with torch.inference_mode():
            torch.testing.assert_close(model(self.x), expected)

    def test_copies_stay_bound_and_files_do_not(self):
        self.register()
        model = Norm()
        self.bind(model)
        twin = copy.deepcopy(model)
        slots.unbind(model)
        self.fails("has no kernel bound", model, self.x)
        self.calls = 0
        twin(self.x)
        self.assertEqual(self.calls, 1)
        loaded = pickle.loads(pickle.dumps(twin.norm))
        self.assertIsNone(loaded.kernel)

    def test_ops_of_a_user(self):
        # Views and inputs as results are copied, as PyTorch wants of ops.
        def split(x):
            low, high = x.chunk(2)
            return low, high, x

        model = nn.Module()
        model.slot = slots.OpSlot("split", eager=split)
        self.register(split, op="split")
        report = slots.bind(model, {"bind": {"split": "mine"}}, self.context)
        self.assertIn(
            "is not one of fuse's own", report["unchecked"][0]["reason"]
        )
        x = torch.arange(8.0).view(4, 2)
        for result, expected in zip(model.slot(x), split(x)):
            self.assertTrue(torch.equal(result, expected))

    def test_verify_compares_functions_too(self):
        def wrong(x, eps):
            return x + 1

        model = nn.Module()
        model.slot = slots.OpSlot(
            "shift", eager=lambda x: x + 2, params={"eps": EPS}
        )
        model.forward = lambda x: model.slot(x)
        self.register(wrong, op="shift")
        slots.bind(model, {"bind": {"shift": "mine"}}, self.context)
        self.assertFalse(slots.verify(model, self.x))

    def test_names_that_a_kernel_had_before_warn(self):
        self.register(aliases=("ours", "old"))
        model = Norm()
        with self.assertWarnsRegex(
            FutureWarning,
            "kernel name 'old' for "
            "op=rms_norm, variant=standard is "
            "deprecated; use 'mine'",
        ) as caught:
            self.bind(model, "old")
        self.assertEqual(model.norm.kernel, "mine")
        self.assertEqual(len(caught.warnings), 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.bind(model)

    def test_listing(self):
        self.register(
            hardware=HardwareRequirement("gpu", 80, 90),
            description='by "hand"',
            mode="inference",
        )
        kernels = {
            k["name"]: k
            for entry in self.context.list_kernels()
            for k in entry["kernels"]
            if (entry["op"], entry["variant"]) == ("rms_norm", "standard")
        }
        self.assertEqual(sorted(kernels), ["fuse", "mine"])
        self.assertEqual(kernels["mine"]["description"], 'by "hand"')
        self.assertEqual(
            kernels["mine"]["implementations"],
            [
                {
                    "device_type": "gpu",
                    "min_capability": 80,
                    "max_capability": 90,
                    "mode": "inference",
                    "source": "Python function "
                    f"{__name__}.FunctionKernels.counted",
                }
            ],
        )

    def test_the_last_registration_counts(self):
        self.register()
        self.register(
            lambda x, weight, eps: by_hand(x, weight, eps), name="mine2"
        )
        self.fails(
            "duplicate kernel registration: op=rms_norm, "
            "variant=standard, name=mine",
            self.register,
        )
        # Compiled code in place of a function, and the other way round.
        body = """nn.slot_kernel "mine" op "rms_norm" variant "standard" {
          nn.implementation on <cpu> {
            func.func @body(%x: tensor<3x8xf32>, %w: tensor<8xf32>)
                -> tensor<3x8xf32> { return %x : tensor<3x8xf32> } } }"""
        model = Norm()
        self.context.register_kernels(body, force=True)
        self.bind(model)
        self.assertTrue(torch.equal(model(self.x), self.x))
        self.context.register(
            KernelSpec("mine", "rms_norm", function=self.counted), force=True
        )
        self.bind(model)
        torch.testing.assert_close(
            model(self.x), rms_norm(self.x, model.weight)
        )

    # Errors.

    def test_unknown_name(self):
        self.register()
        self.fails(
            "unknown kernel 'mone' for op=rms_norm, variant=standard; "
            "available: eager, fuse, mine",
            self.bind,
            Norm(),
            "mone",
        )

    def test_other_variant(self):
        self.register(variant="offset1_f32")
        self.fails(
            "kernel 'mine' for op=rms_norm is of variant offset1_f32",
            self.bind,
            Norm(),
        )

    def test_hardware_is_checked_before_anything_runs(self):
        def factory():
            raise AssertionError("called")

        self.context.register(
            KernelSpec(
                "mine",
                "rms_norm",
                "standard",
                factory,
                HardwareRequirement("gpu", min_compute_capability=90),
            )
        )
        text = (
            "kernel 'mine' for op=rms_norm, variant=standard requires "
            "device_type=gpu, compute_capability>=90, but the target is "
        )
        model = Norm()
        self.fails(text + "device_type=cpu", self.bind, model)
        self.fails(text, self.bind, model, target="sm_80")
        self.assertIsNone(model.norm.kernel)

    def test_mode(self):
        self.register(mode="inference")
        self.fails(
            "is for mode inference, not for training",
            self.bind,
            Norm(),
            mode="training",
        )

    def test_function_of_another_meaning_is_refused_at_bind(self):
        for function, text in (
            (
                lambda x, weight, eps: by_hand(x, 1 + weight, eps),
                "kernel 'mine' is off by",
            ),
            (
                lambda x, weight, eps: x.copy_(by_hand(x, weight, eps)),
                "it writes into input 0",
            ),
            (
                lambda x, weight, eps: nn.functional.dropout(x),
                "gives other results for the same inputs",
            ),
            (
                lambda x, weight: rms_norm(x, weight),
                "does not support param 'eps' of the slot; expected a parameter "
                "'eps', whose value is 1e-06",
            ),
            (
                lambda x, eps, weight: x,
                "kernel 'mine' of op=rms_norm has "
                "the arguments (x, eps, weight); expected 2 inputs and then "
                "eps (multiple values for argument 'eps')",
            ),
            (
                lambda x, weight, more, eps: x,
                "expected 2 inputs and then "
                "eps (missing a required argument: 'more')",
            ),
        ):
            with self.subTest(text):
                self.context.register(
                    KernelSpec("mine", "rms_norm", function=function),
                    force=True,
                )
                model = Norm()
                self.fails(text, self.bind, model)
                self.assertIsNone(model.norm.kernel)

    def test_what_a_call_gives_is_checked(self):
        x = torch.ones(4, 2)
        for function, text in (
            (
                lambda x: x.double(),
                "kernel 'mine' of op=shift gives "
                "torch.float64 [4, 2] on cpu; expected what the eager "
                "function gives, torch.float32 [4, 2] on cpu",
            ),
            (lambda x: x[1:], "gives torch.float32 [3, 2] on cpu"),
            (lambda x: (x, x), "gives torch.float32 [4, 2] on cpu, torch"),
            (lambda x: None, "gives a NoneType"),
            (lambda x: x.add_(1), "writes into input 0"),
        ):
            with self.subTest(text):
                self.context.register(
                    KernelSpec("mine", "shift", function=function), force=True
                )
                model = nn.Module()
                model.slot = slots.OpSlot("shift", eager=lambda x: x + 1)
                slots.bind(model, {"bind": {"shift": "mine"}}, self.context)
                self.fails(text, model.slot, x.clone())

    def test_factories_that_fail(self):
        def missing():
            importlib.import_module("a_package_that_is_not_there")

        for factory, text in (
            (
                missing,
                "the factory of kernel 'mine' of op=rms_norm raised "
                "ModuleNotFoundError: No module named 'a_package",
            ),
            (
                lambda: None,
                "gave a value of type NoneType; expected a function",
            ),
        ):
            with self.subTest(text):
                self.context.register(
                    KernelSpec("mine", "rms_norm", "standard", factory),
                    force=True,
                )
                model = Norm()
                self.fails(text, self.bind, model)
                self.assertIsNone(model.norm.kernel)

    def test_compiled_code_cannot_call_a_function(self):
        self.register(lambda x: x, op="scale")
        module = self.context.parse(
            'nn.slot @s op "scale" variant "standard" : (tensor<4xf32>) -> '
            "tensor<4xf32> {}\n"
            "func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {"
            "%0 = nn.call_slot @s(%x) : (tensor<4xf32>) -> tensor<4xf32> "
            "return %0 : tensor<4xf32>}"
        )
        before = str(module)
        self.fails(
            "kernel 'mine' of op=scale is a Python function, which "
            "compiled code cannot call",
            module.bind,
            {"bind": {"scale": "mine"}},
        )
        self.assertEqual(str(module), before)
        model = Norm()
        self.register()
        self.bind(model)
        self.fails(
            "is a Python function, which has no IR",
            model.norm.bound_ir,
            (self.x, model.weight),
        )

    def test_specs_that_are_refused(self):
        for text, make in (
            (
                "kernel 'k' has no function; expected a factory or a function",
                lambda: KernelSpec("k", "f"),
            ),
            (
                "has factory and function",
                lambda: KernelSpec("k", "f", factory=list, function=list),
            ),
            (
                "mode 'fast' of kernel 'k' is not known; expected any, "
                "inference, inference|compile, training, training|compile",
                lambda: KernelSpec("k", "f", function=list, mode="fast"),
            ),
            (
                "device type 'npu' is not known; expected any, cpu, gpu",
                lambda: HardwareRequirement("npu"),
            ),
            (
                "device type 'cpu' has no compute capability",
                lambda: HardwareRequirement("cpu", 90),
            ),
            (
                "range of capabilities from 90 to 80 is empty",
                lambda: HardwareRequirement("gpu", 90, 80),
            ),
            (
                "kernel 'eager' of op=rms_norm cannot be registered: name "
                "'eager' is reserved for the body of a slot",
                lambda: self.register(name="eager"),
            ),
            (
                "cannot be registered: name 'my kernel' must consist of ",
                lambda: self.register(name="my kernel"),
            ),
        ):
            with self.subTest(text):
                self.fails(text, make)
        with self.assertRaisesRegex(
            TypeError,
            "the function of kernel 'k' is of type int; expected a function",
        ):
            KernelSpec("k", "f", function=3)
        with self.assertRaisesRegex(
            TypeError,
            "the kernel is of type str; expected a fuse_mlir.slots.KernelSpec",
        ):
            self.context.register("mine")


if __name__ == "__main__":
    unittest.main()
