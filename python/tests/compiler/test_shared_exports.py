# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers that differ only in static scales are exported once, and each has its
own scales."""

import unittest
from unittest import mock

import torch
from torch import nn

import fuse_mlir
from fuse_mlir.compiler import chains, exports
from fuse_mlir.fusion.fused_module import FusedModule
from tests.models import Block, Net, needs_library


class WideBlock(Block):
    def __init__(self):
        super().__init__(16, 32)


def calibrated(count=3, spread=True):
    """A fused model whose layers have other scales each, and its inputs."""
    torch.manual_seed(0)
    model = Net(count, WideBlock).bfloat16().eval().requires_grad_(False)
    for i, layer in enumerate(model.layers):
        for parameter in layer.parameters():
            parameter.mul_(1 + i if spread else 1)
    data = torch.randn(4, 16).bfloat16()
    fuse_mlir.calibrate(model, [data])
    return model, data


def formed(model):
    return [
        place._kernel.compiled.formed
        for place in model.modules()
        if isinstance(place, FusedModule)
    ]


@needs_library
class SharedExports(unittest.TestCase):
    def setUp(self):
        chains._CACHE.clear()
        self.addCleanup(chains._CACHE.clear)

    def test_one_export_for_all_layers(self):
        with mock.patch.object(
            exports, "_export", wraps=exports._export
        ) as export:
            model, _ = calibrated()
        # Calibration plans with scales of one before, and has one more.
        self.assertLessEqual(export.call_count, 2)
        self.assertEqual(len(set(formed(model))), 3)

    def test_the_code_is_that_of_separate_exports(self):
        shared, data = calibrated()
        chains._CACHE.clear()
        with mock.patch.object(
            exports,
            "_export_shared",
            lambda chain, inputs, _: exports._export_apart(chain, inputs),
        ):
            separate, _ = calibrated()
        self.assertEqual(formed(shared), formed(separate))
        self.assertTrue(torch.equal(shared(data), separate(data)))

    def test_programs_end_with_the_scope(self):
        with exports.shared_exports():
            calibrated()
        self.assertIsNone(exports._EXPORTS.get())

    def test_a_linear_that_is_not_found(self):
        program = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
        node = mock.Mock()
        node.target = torch.ops.fuse_mlir.stored_linear.default
        node.args, node.kwargs = (1, 2, 3, 4, 5, 6), {}
        with mock.patch.object(
            type(program.graph), "nodes", [node], create=True
        ):
            self.assertFalse(exports._set_scales(program, nn.Linear(2, 2)))


if __name__ == "__main__":
    unittest.main()
