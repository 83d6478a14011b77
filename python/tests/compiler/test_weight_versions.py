# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that change in ways that PyTorch does not count."""

import unittest
from unittest import mock

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import KernelError
from fuse_mlir.compiler.kernels import Packed, wait_for_writes
from fuse_mlir.fusion.modules import fused_sites, members_back
from tests.models import Block, fuse, needs_library, net

torch.set_num_threads(1)


@needs_library
class Weights(unittest.TestCase):
    def setUp(self):
        self.model, self.x = net()
        self.down = self.model.layers[0].mlp.down.weight
        fuse(self.model, self.x)
        self.before = self.model(self.x).detach()

    def same(self):
        """Checks that kernels use the current weights of members."""
        ours = self.model(self.x)
        with members_back(self.model):
            return torch.allclose(ours, self.model(self.x), atol=1e-5)

    def test_what_is_not_counted_is_told(self):
        ways = {
            "data": lambda: self.down.data.mul_(3),
            "numpy": lambda: self.down.detach().numpy().fill(0.5),
            "storage": lambda: self.down.untyped_storage().copy_(
                torch.randn_like(self.down).untyped_storage()
            ),
        }
        for name, change in ways.items():
            with self.subTest(name):
                version = self.down._version
                change()
                # Otherwise there would be no need to.
                self.assertEqual(self.down._version, version)
                self.assertFalse(self.same())
                self.assertEqual(fuse_mlir.refresh(self.model), 2)
                self.assertTrue(self.same())

    def test_by_the_version(self):
        self.down.data.mul_(3)
        torch.autograd.graph.increment_version(self.down)
        self.assertTrue(self.same())

    def test_another_tensor_is_seen(self):
        self.down.data = torch.randn_like(self.down)
        self.assertTrue(self.same())

    def test_weights_of_inference_mode(self):
        with torch.inference_mode():
            model, x = net()
            fuse(model, x)
            model(x)
            model.layers[0].mlp.down.weight.zero_()
            fuse_mlir.refresh(model)
            ours = model(x)
            fuse_mlir.unfuse_modules(model)
            torch.testing.assert_close(ours, model(x), atol=1e-6, rtol=1e-5)

    def test_other_models_are_left_alone(self):
        other, x = net(1)
        fuse(other, x)
        self.assertEqual(fuse_mlir.refresh(other), 1)
        self.assertEqual(fuse_mlir.refresh(net(1)[0]), 0)
        block = fuse_mlir.compile_module(Block().eval())
        block(self.x)
        self.assertEqual(fuse_mlir.refresh(block), 1)

    def test_models_only(self):
        with self.assertRaisesRegex(TypeError, "the model is of type str"):
            fuse_mlir.refresh("model")

    def test_verify_says_so(self):
        self.assertTrue(fuse_mlir.verify(self.model, self.x))
        self.down.data.mul_(3)
        result = fuse_mlir.verify(self.model, self.x)
        failed = [c for c in result.checks if not c.passed]
        self.assertEqual([c.rung for c in failed if c.site != "model"], ["V2"])
        self.assertRegex(failed[0].detail, r"call fuse_mlir.refresh\(model\)")
        fuse_mlir.refresh(self.model)
        self.assertTrue(fuse_mlir.verify(self.model, self.x))


@needs_library
class Optimizers(unittest.TestCase):
    """The fused ones write without counting."""

    def setUp(self):
        self.model, self.x = net()
        self.model.requires_grad_(True)
        fuse(self.model, self.x)

    def step(self, kind, parameters=None, compiled=False, **options):
        optimizer = kind(
            parameters or self.model.parameters(), lr=0.1, **options
        )
        self.model(self.x).square().sum().backward()
        torch.compile(
            optimizer.step, backend="eager"
        )() if compiled else optimizer.step()
        self.model.zero_grad()
        ours = self.model(self.x)
        with members_back(self.model):
            torch.testing.assert_close(
                ours, self.model(self.x), atol=1e-4, rtol=1e-4
            )

    def test_all_kinds(self):
        for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad):
            for options in ({}, {"foreach": True}, {"fused": True}):
                with self.subTest(kind=kind.__name__, **options):
                    self.step(kind, **options)

    def test_under_torch_compile(self):
        self.addCleanup(torch._dynamo.reset)
        self.step(torch.optim.AdamW, fused=True, compiled=True)

    def test_weights_without_gradients_are_not_packed_again(self):
        frozen = self.model.layers[0].requires_grad_(False)
        version = frozen.mlp.up.weight._version
        self.step(torch.optim.AdamW, fused=True)
        self.assertEqual(frozen.mlp.up.weight._version, version)

    def test_weights_of_others_are_not_counted(self):
        other = nn.Linear(4, 4)
        other(torch.ones(4)).sum().backward()
        version = other.weight._version
        torch.optim.AdamW(other.parameters(), fused=True).step()
        self.assertEqual(other.weight._version, version)


@needs_library
class Stored(unittest.TestCase):
    """Stored copies are made from the current weights."""

    def setUp(self):
        model, self.x = net()
        self.model = model.bfloat16()
        self.x = self.x.bfloat16()
        fuse_mlir.calibrate(self.model, [self.x])
        self.before = self.model(self.x)
        self.down = self.model.layers[0].mlp.down.weight

    def test_refresh(self):
        self.down.data.mul_(-1)
        self.assertTrue(torch.equal(self.model(self.x), self.before))
        result = fuse_mlir.verify(self.model, self.x)
        self.assertIn("fuse_mlir.refresh", str(result))
        self.assertEqual(fuse_mlir.refresh(self.model), 2)
        self.assertFalse(torch.equal(self.model(self.x), self.before))
        self.assertNotIn(
            "fuse_mlir.refresh", str(fuse_mlir.verify(self.model, self.x))
        )

    def test_modes_keep_the_copies(self):
        site = fused_sites(self.model)[0][1]
        kernel = site._kernel
        self.model.train()(self.x)
        self.assertIs(site._kernel, kernel)

    def test_children(self):
        before = fused_sites(self.model)[0][1]._kernel
        self.model.layers[0].mlp.up = (
            nn.Linear(8, 16, bias=False).bfloat16().eval()
        )
        self.assertFalse(torch.equal(self.model(self.x), self.before))
        self.assertIsNot(fused_sites(self.model)[0][1]._kernel, before)

    def test_torch_compile(self):
        self.addCleanup(torch._dynamo.reset)
        compiled = torch.compile(self.model, backend="eager")
        self.assertTrue(torch.equal(compiled(self.x), self.before))
        with torch.no_grad():
            self.down.mul_(-1)
        with self.assertRaisesRegex(
            KernelError,
            "changed after they were stored in 8 bits; call the model once",
        ):
            compiled(self.x)
        now = self.model(self.x)
        self.assertFalse(torch.equal(now, self.before))
        self.assertTrue(torch.equal(compiled(self.x), now))
        # The members are exported again, inside of the op.
        self.model.train()
        self.assertTrue(torch.equal(compiled(self.x), now))


@needs_library
class PackedWeights(unittest.TestCase):
    """Kernels of the same weights share the packed weights."""

    def test_until_they_change(self):
        packed, before = Packed(), [(1, 0), (2, 0)]
        first = packed.weights
        packed.require(before)
        # Another kernel reads them in another order.
        packed.require(before[::-1])
        self.assertIs(packed.weights, first)
        packed.require([(1, 1), (2, 0)])
        second = packed.weights
        self.assertIsNot(second, first)
        packed.require([(2, 0), (1, 1)])
        self.assertIs(packed.weights, second)
        packed.forget()
        self.assertIsNot(packed.weights, second)


class Streams(unittest.TestCase):
    def test_packing_waits_for_what_writes_weights(self):
        device = torch.device("cuda", 1)
        with (
            mock.patch.object(
                torch.cuda, "is_current_stream_capturing", return_value=False
            ),
            mock.patch.object(torch.cuda, "current_stream") as stream,
        ):
            wait_for_writes("mlp#0", device)
            stream.assert_called_once_with(device)
            stream().synchronize.assert_called_once_with()

    def test_a_capture_can_not_wait(self):
        with (
            mock.patch.object(
                torch.cuda, "is_current_stream_capturing", return_value=True
            ),
            self.assertRaisesRegex(
                KernelError,
                "weights of site 'mlp#0' are new or changed, and none can",
            ),
        ):
            wait_for_writes("mlp#0", torch.device("cuda"))

    def test_the_cpu_needs_no_wait(self):
        with mock.patch.object(torch.cuda, "current_stream") as stream:
            wait_for_writes("mlp#0", torch.device("cpu"))
            stream.assert_not_called()

    @needs_library
    def test_kernels_wait(self):
        model, x = net(1)
        fuse(model, x)
        kernel = fused_sites(model)[0][1]._kernel
        with mock.patch("fuse_mlir.compiler.kernels.wait_for_writes") as wait:
            model(x)
            wait.assert_not_called()
            kernel.refresh()
            wait.assert_called_once_with(kernel.site, kernel.device)


if __name__ == "__main__":
    unittest.main()
