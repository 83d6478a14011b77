# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Residual adds that torch.compile hands over to kernels."""

import unittest

import torch
from torch._dynamo.backends.common import aot_autograd

import fuse_mlir
from fuse_mlir.deploy.inductor import ResidualPass
from fuse_mlir.fusion.modules import fused_sites
from tests.models import CHAIN, Block, Net, needs_library, net

torch.set_num_threads(1)
ADD = torch.ops.aten.add.Tensor


class Reader(Block):
    """Another op also reads the sum."""

    def forward(self, x):
        stream = x + x.sin()
        return stream + self.mlp(self.norm(stream)) + stream.cos()


class Sums(Block):
    """A layer that adds before and after."""

    def forward(self, x):
        stream = x + x.sin()
        return stream + self.mlp(self.norm(stream))


@needs_library
class Residuals(unittest.TestCase):
    def compiled(self, model, x):
        """Result of the model with the pass, and the ops of its graph."""
        ops = []

        def compiler(module, _inputs):
            ResidualPass()(module.graph)
            module.graph.lint()
            module.recompile()
            ops.extend(
                n.target for n in module.graph.nodes if n.op == "call_function"
            )
            return module

        torch._dynamo.reset()
        options = fuse_mlir.inductor_options(model)
        self.assertIsInstance(
            options["post_grad_custom_pre_pass"], ResidualPass
        )
        with torch.no_grad():
            run = torch.compile(
                model,
                fullgraph=True,
                dynamic=False,
                backend=aot_autograd(fw_compiler=compiler),
            )
            return run(x), ops

    def model(self, block):
        torch.manual_seed(0)
        model = Net(2, block).eval().requires_grad_(False)
        x = torch.randn(3, 8)
        fuse_mlir.fuse_modules(model, CHAIN, inputs=x)
        return model, x, model(x)

    def test_adds_around_a_kernel_become_part_of_it(self):
        model, x, expected = self.model(Sums)
        ours, ops = self.compiled(model, x)
        self.assertNotIn(ADD, ops)
        self.assertEqual(ops.count(torch.ops.fuse_mlir.call.default), 2)
        torch.testing.assert_close(ours, expected)
        kernel = fused_sites(model)[0][1]._kernel
        self.assertIn("add_stream", kernel.residual.compiled.formed)
        self.assertIs(kernel.residual._packed, kernel._packed)

    def test_weights_are_packed_once(self):
        model, _x, _ = self.model(Sums)
        kernel = fused_sites(model)[0][1]._kernel
        packed = kernel._packed.weights
        fuse_mlir.inductor_options(model)
        self.assertIsNotNone(kernel.residual)
        self.assertIs(kernel._packed.weights, packed)

    def test_a_sum_with_another_reader_stays(self):
        model, x, expected = self.model(Reader)
        ours, ops = self.compiled(model, x)
        self.assertGreater(ops.count(ADD), 0)
        self.assertTrue(torch.equal(ours, expected))

    def test_an_input_that_is_no_sum_stays(self):
        model, x = net(1)
        fuse_mlir.fuse_modules(model, CHAIN, inputs=x)
        expected = model(x)
        ours, ops = self.compiled(model, x)
        self.assertEqual(ops.count(ADD), 1)
        self.assertTrue(torch.equal(ours, expected))


if __name__ == "__main__":
    unittest.main()
