# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments of wrong types, and modules that are not ready."""

import tempfile
import unittest
from pathlib import Path

import torch

import fuse_mlir
from fuse_mlir import (
    FuseError,
    KernelError,
    ModuleSpec,
    NativeError,
    PatternError,
    native,
    slots,
)
from fuse_mlir.errors import CalibrationError, RangeError
from fuse_mlir.fusion import compiled_module
from fuse_mlir.slots import moe
from tests.models import fuse, needs_library, net

OP = slots.OpSlot("scale", eager=lambda x: x)


def arguments():
    """Functions, arguments that they refuse, and their messages."""
    model, x = net(1)
    return [
        (fuse_mlir.load, 3, TypeError, "not int"),
        (
            lambda v: compiled_module.LoadedKernel(v, "cpu"),
            None,
            TypeError,
            "the artifact of a kernel is of type NoneType; expected a native.",
        ),
        (native.Module, None, TypeError, "the IR is of type NoneType"),
        (native.set_num_threads, "x", TypeError, "'count' is of type str"),
        (native.set_exclusive, 0, TypeError, "the device is of type int"),
        (
            lambda v: fuse_mlir.unfuse_modules(model, v),
            3,
            TypeError,
            "argument 'sites' is of type int; expected an id, a path glob",
        ),
        (
            lambda v: fuse_mlir.unfuse_modules(model, [v]),
            None,
            TypeError,
            "the site None is of type NoneType; expected an id or a path glob",
        ),
        (
            lambda v: fuse_mlir.bench(model, x, repeats=v),
            None,
            TypeError,
            "'repeats' is of type NoneType; expected a number",
        ),
        (
            lambda v: fuse_mlir.fuse_modules(model, None, v, inputs=x),
            [None],
            PatternError,
            r"specs are \[None\]; expected one ModuleSpec",
        ),
        (
            lambda v: ModuleSpec(v, ["y"]),
            "hidden",
            PatternError,
            "inputs of a ModuleSpec are 'hidden'; expected a list of names",
        ),
        (
            lambda v: ModuleSpec(["x"], v),
            None,
            PatternError,
            "outputs of a ModuleSpec are None",
        ),
        (
            lambda v: fuse_mlir.register_fusion_patterns(model, {"a": v}),
            [3],
            PatternError,
            r"paths of pattern 'a' are \[3\]; expected a list of",
        ),
        (
            lambda v: fuse_mlir.register_fusion_patterns(model, {v: ["a"]}),
            3,
            PatternError,
            "pattern 3 is a int; expected a name or a tuple",
        ),
        (
            lambda v: fuse_mlir.calibrate(model, v),
            3,
            CalibrationError,
            "data is a int; expected a list",
        ),
        (
            lambda v: fuse_mlir.calibrate(model, [x], storage=v),
            ["i8"],
            RangeError,
            "unknown storage type",
        ),
        (
            lambda v: fuse_mlir.calibrate(
                model, [x], method="percentile", percentile=v
            ),
            None,
            RangeError,
            "percentile must be above 0 and at most 100, got None",
        ),
        (slots.Context().parse, None, TypeError, "the IR is of type NoneType"),
        (
            slots.Context().register_kernels,
            None,
            TypeError,
            "the registry is of type NoneType; expected a text of",
        ),
        (
            lambda v: slots.bind(model, {}, v),
            None,
            TypeError,
            "the context is of type NoneType; expected a fuse_mlir.slots.Conte",
        ),
        (slots.list_kernels, "x", TypeError, "the context is of type str"),
        (slots.unbind, "x", TypeError, "the model is of type str"),
        (moe.add_expert_slots, "x", TypeError, "model is of type"),
        (moe.remove_expert_slots, "x", TypeError, "model is of type"),
        (
            lambda v: slots.OpSlot(v, eager=abs),
            3,
            TypeError,
            "the op of a slot is of type int; expected its name",
        ),
        (
            lambda v: slots.OpSlot("scale", eager=v),
            None,
            TypeError,
            "the eager body of a slot is of type NoneType; expected a function",
        ),
        (
            lambda v: slots.OpSlot("scale", eager=abs, params={"by": v}),
            None,
            TypeError,
            "param 'by' of a slot is of type NoneType",
        ),
        (
            OP.bound_ir,
            [torch.zeros(2)],
            slots.SlotError,
            "slot op=scale, variant=standard has no kernel bound",
        ),
    ]


@needs_library
class Arguments(unittest.TestCase):
    def test_refused_with_what_is_expected(self):
        for number, (function, value, kind, text) in enumerate(arguments()):
            with (
                self.subTest(number=number, text=text),
                self.assertRaisesRegex(kind, text),
            ):
                function(value)

    def test_hub_kernels(self):
        model, x = net(1)
        fuse(model, x)
        with tempfile.TemporaryDirectory() as directory:
            for options, text in (
                ({"name": None}, "the name of a kernel is of type None"),
                ({"chip": None}, "the chip is of type NoneType"),
                ({"scheduled": "sm_90a"}, "'scheduled' is of type str"),
            ):
                with (
                    self.subTest(text=text),
                    self.assertRaisesRegex(TypeError, text),
                ):
                    fuse_mlir.export_hub_kernel(
                        model, directory, **{"name": "my-mlp", **options}
                    )

    def test_kernel_from_a_file(self):
        model, x = net(1)
        fuse(model, x)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "kernel.fuse"
            with self.assertRaisesRegex(TypeError, "the chip is of type int"):
                fuse_mlir.export(model, path, chip=90)
            fuse_mlir.export(model, path)
            with self.assertRaisesRegex(TypeError, "the device is of type"):
                fuse_mlir.load(path, None)
            kernel = fuse_mlir.load(path)
        with self.assertRaisesRegex(KernelError, "bind the parameters first"):
            kernel(x)
        with self.assertRaisesRegex(TypeError, "'weights' is of type None"):
            kernel.bind(None)
        name = kernel.parameters[0]
        with self.assertRaisesRegex(TypeError, f"parameter '{name}' is of "):
            kernel.bind({name: None})
        with self.assertRaisesRegex(NativeError, "no parameter 'none'"):
            kernel.bind({"none": x})
        fuse_mlir.unfuse_modules(model)
        kernel.bind(dict(model.get_submodule("layers.0").named_parameters()))
        with self.assertRaisesRegex(
            TypeError,
            "argument 0 of the kernel is of type NoneType; expected a tensor",
        ):
            kernel(None)
        with self.assertRaisesRegex(FuseError, "nothing is fused"):
            fuse_mlir.export(model, path)


if __name__ == "__main__":
    unittest.main()
