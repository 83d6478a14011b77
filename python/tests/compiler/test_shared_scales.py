# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers that differ only in static scales share an export and its code, and
each has its own scales."""

import unittest
from unittest import mock

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import native
from fuse_mlir.compiler import chains, exports, scale_names
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.quantized.stored import Policy, StoredLinear, StoredParts
from tests.models import (
    LLAMA,
    NORM_MLP,
    Block,
    Net,
    fp8_transformer,
    needs_library,
)


class WideBlock(Block):
    def __init__(self):
        super().__init__(16, 32)


def make_model(count=3):
    """A model whose layers have other ranges of weights each."""
    torch.manual_seed(0)
    model = Net(count, WideBlock).bfloat16().eval().requires_grad_(False)
    for i, layer in enumerate(model.layers):
        for parameter in layer.parameters():
            parameter.mul_(1 + i)
    return model


DATA = torch.randn(4, 16, generator=torch.Generator().manual_seed(1)).bfloat16()


def kernels(model):
    return [
        place._kernel
        for place in model.modules()
        if isinstance(place, FusedModule)
    ]


def stored(scale_of_input, scale_of_weight):
    weight = torch.zeros(4, 4, dtype=torch.float8_e4m3fn)
    parts = StoredParts(weight, scale_of_weight, scale_of_input, None)
    return StoredLinear(parts, Policy())


@needs_library
class SharedScales(unittest.TestCase):
    def setUp(self):
        chains._CACHE.clear()
        self.addCleanup(chains._CACHE.clear)

    def test_one_compilation_per_shape(self):
        for options in ({}, {"per_channel": True}, {"storage": "i8"}):
            chains._CACHE.clear()
            model = make_model()
            with (
                self.subTest(options),
                mock.patch.object(
                    exports, "_export", wraps=exports._export
                ) as export,
                mock.patch.object(
                    native.Module,
                    "compile",
                    autospec=True,
                    side_effect=native.Module.compile,
                ) as compiled,
            ):
                fuse_mlir.calibrate(model, [DATA], **options)
                model(DATA)
                self.assertLessEqual(export.call_count, 1)
                self.assertEqual(compiled.call_count, 1)
                shared = {id(k.compiled.shared) for k in kernels(model)}
                self.assertEqual(len(shared), 1)

    def test_results_are_those_of_separate_code(self):
        shared = make_model()
        fuse_mlir.calibrate(shared, [DATA])
        separate = make_model()
        with mock.patch.object(chains, "without_scales", lambda _: None):
            fuse_mlir.calibrate(separate, [DATA])
            expected = separate(DATA)
        self.assertTrue(torch.equal(shared(DATA), expected))
        self.assertEqual(
            [k.compiled.formed for k in kernels(shared)],
            [k.compiled.formed for k in kernels(separate)],
        )
        self.assertEqual(len({k.compiled.formed for k in kernels(shared)}), 3)
        self.assertTrue(fuse_mlir.verify(shared, inputs=DATA))

    def test_checkpoints_with_static_scales(self):
        model = fp8_transformer("llama", **{**LLAMA, "num_hidden_layers": 3})
        with mock.patch.object(
            native.Module,
            "compile",
            autospec=True,
            side_effect=native.Module.compile,
        ) as compiled:
            found = fuse_mlir.fuse_modules(model, NORM_MLP)
        self.assertEqual(len(found.fused), 3)
        self.assertEqual(compiled.call_count, 1)
        self.assertEqual(len({k.compiled.scales for k in kernels(model)}), 3)

    def test_other_shapes_have_other_code(self):
        model = make_model()
        model.layers[1] = Block(16, 48).bfloat16().eval().requires_grad_(False)
        with mock.patch.object(
            native.Module,
            "compile",
            autospec=True,
            side_effect=native.Module.compile,
        ) as compiled:
            fuse_mlir.calibrate(model, [DATA])
        self.assertEqual(compiled.call_count, 2)

    def test_code_that_has_scales_as_constants(self):
        shared = make_model()
        fuse_mlir.calibrate(shared, [DATA])
        separate = make_model()
        with mock.patch.object(native.Program, "scales", lambda _: []):
            fuse_mlir.calibrate(separate, [DATA])
            self.assertTrue(torch.equal(separate(DATA), shared(DATA)))

    def test_scales_of_an_instance(self):
        model = make_model(1)
        fuse_mlir.calibrate(model, [DATA])
        compiled = kernels(model)[0].compiled
        program = compiled.shared.program(torch.device("cpu"))
        scales = program.scales()
        self.assertEqual(len(scales), len(compiled.scales))
        instance = program.instance()
        for wrong, text in (
            (scales[1:], f"has {len(scales)} static scales, got"),
            ([*scales[1:], 0.0], "expected a number from 2"),
            ([*scales[1:], float("nan")], "expected a number from 2"),
        ):
            with self.assertRaisesRegex(native.NativeError, text):
                instance.set_scales(wrong)


class StandIns(unittest.TestCase):
    def test_equal_scales_of_inputs_have_equal_stand_ins(self):
        pair = nn.Sequential(stored(0.5, 0.25), stored(0.5, 0.25))
        (copy,), scales = scale_names.without_scales([pair])
        # Those of weights may differ in another layer.
        self.assertEqual(scales, (0.25, 0.5, 0.25))
        self.assertEqual(copy[0].scale_of_input, copy[1].scale_of_input)
        self.assertNotEqual(copy[0].scale_of_weight, copy[1].scale_of_weight)
        self.assertIs(copy[0].stored, pair[0].stored)
        self.assertEqual(pair[0].scale_of_weight, 0.25)

    def test_scales_that_stay(self):
        for scale in (1.0, 2.0**-100, 2.0**100):
            with self.subTest(scale):
                self.assertIsNone(
                    scale_names.without_scales([stored(0.5, scale)])
                )
        # One number in f32, and two in the IR.
        self.assertIsNone(
            scale_names.without_scales(
                [stored(0.1, 0.5), stored(0.1 + 1e-12, 0.5)]
            )
        )
        self.assertIsNone(scale_names.without_scales([nn.Linear(2, 2)]))

    def test_text(self):
        one, two = map(scale_names.stand_in, range(2))
        text = f"fuse.quantize %x scale {one!r} %y scales({one!r}, {two!r})"
        self.assertEqual(
            scale_names.with_scales(f"{text} eps {one!r}", (0.5, 0.25)),
            f"fuse.quantize %x scale 0.5 %y scales(0.5, 0.25) eps {one!r}",
        )


if __name__ == "__main__":
    unittest.main()
