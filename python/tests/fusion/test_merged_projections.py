# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fusing linears whose results are cut into parts."""

import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn

import fuse_mlir
from fuse_mlir.fusion.modules import fused_sites
from tests.models import needs_library

torch.set_num_threads(1)


class Merged(nn.Module):
    """Gate and up in one linear with biases."""

    def __init__(self):
        super().__init__()
        self.gate_up = nn.Linear(8, 32)
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(up * nn.functional.silu(gate))


@needs_library
class MergedProjections(unittest.TestCase):
    """One linear that is cut is several on rows of its weight."""

    def setUp(self):
        torch.manual_seed(0)
        self.block = nn.Sequential(nn.LayerNorm(8), Merged()).eval()
        self.x = torch.randn(3, 8)

    def test_rows_stay_where_they_are(self):
        expected = self.block(self.x)
        result = fuse_mlir.fuse_modules(
            self.block, inputs=self.x, only_faster=False
        )
        self.assertEqual(result[0].families, ("gated_mlp",))
        kernel = fused_sites(self.block)[0][1]._kernel
        weight = self.block[1].gate_up.weight
        self.assertIn("1.gate_up.weight[0:16]", kernel._names)
        views = dict(zip(kernel._names, kernel.weights()))
        self.assertEqual(
            views["1.gate_up.weight[16:32]"].data_ptr(), weight[16:].data_ptr()
        )
        torch.testing.assert_close(self.block(self.x), expected)
        self.assertTrue(fuse_mlir.verify(self.block, self.x))
        with torch.no_grad():
            weight.mul_(2)
        changed = self.block(self.x)
        fuse_mlir.unfuse_modules(self.block)
        torch.testing.assert_close(changed, self.block(self.x))

    def test_gradients_are_those_of_the_whole_weight(self):
        self.block(self.x).square().sum().backward()
        weight = self.block[1].gate_up.weight
        expected = weight.grad.clone()
        self.block.zero_grad()
        fuse_mlir.fuse_modules(self.block, inputs=self.x, only_faster=False)
        self.block(self.x).square().sum().backward()
        torch.testing.assert_close(weight.grad, expected, atol=1e-4, rtol=1e-4)

    def test_files(self):
        fuse_mlir.fuse_modules(self.block, inputs=self.x, only_faster=False)
        with tempfile.TemporaryDirectory() as directory:
            path = fuse_mlir.export(self.block, Path(directory) / "m.fuse")
            kernel = fuse_mlir.load(path).bind(self.block.state_dict())
            torch.testing.assert_close(kernel(self.x), self.block(self.x))


if __name__ == "__main__":
    unittest.main()
