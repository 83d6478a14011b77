# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls that go another way through a model than the one it was fused for."""

import copy
import unittest

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import fuse_mlir
from fuse_mlir import FuseError
from tests.models import Block, fuse, needs_library, net

torch.set_num_threads(1)


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


class Ways(Block):
    """A block that a function runs."""

    way = None

    def forward(self, x):
        if self.way is not None:
            return self.way(self, x)
        return super().forward(x)


class Steps(nn.Module):
    """A chain of four."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.act = nn.GELU()
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


def plus(read):
    """A block that also reads the intermediate, before the MLP or after."""

    def before(block, x):
        n = block.norm(x)
        y = read(n)
        return x + block.mlp(n) + y

    def after(block, x):
        n = block.norm(x)
        y = x + block.mlp(n)
        return y + read(n)

    return before, after


@needs_library
class Intermediates(unittest.TestCase):
    def setUp(self):
        self.model, self.x = net(1, Ways)
        self.plain = copy.deepcopy(self.model)
        fuse(self.model, self.x)

    def run_way(self, way):
        for model in (self.model, self.plain):
            model.layers[0].way = way
        return self.model(self.x), self.plain(self.x)

    def test_other_readers_are_seen(self):
        for name, read in {
            "add": lambda n: n + 1,
            "sum": lambda n: n.sum(),
            "mul_": lambda n: n.mul_(2),
            "detach": lambda n: n.detach(),
            "__getitem__": lambda n: n[0],
            "stack": lambda n: torch.stack([n, n]).sum(0),
            "linear": lambda n: nn.functional.linear(n, torch.ones(8, 8)),
            "item": lambda n: n.item(),
            "numpy": lambda n: n.numpy(),
            "dropout": lambda n: nn.functional.dropout(n, 0.5),
            "is_nonzero": lambda n: n.is_nonzero(),
            "register_hook": lambda n: n.register_hook(print),
            "__get__": lambda n: n.T,
        }.items():
            for way in plus(read):
                with (
                    self.subTest(name=name),
                    self.assertRaisesRegex(
                        FuseError,
                        f"FUSE-N206 .*op '{name}' reads an "
                        r"intermediate of fused site 'norm\+mlp#0'",
                    ),
                ):
                    self.run_way(way)

    def test_shapes_may_be_asked_for(self):
        for read in (
            lambda n: n.shape[0] + n.dim() + n.size(-1),
            lambda n: float(n.dtype is torch.float32),
            lambda n: len(n) + n.numel() + n.is_contiguous(),
            lambda n: isinstance(n, torch.Tensor),
        ):
            for way in plus(read):
                close(*self.run_way(way))

    def test_a_member_whose_result_the_model_returns(self):
        ours, _ = self.run_way(lambda block, x: block.norm(x))
        self.assertIn("pending result of site 'norm+mlp#0'", repr(ours))
        with self.assertRaisesRegex(FuseError, "'add' reads an intermediate"):
            ours + 1
        with self.assertRaisesRegex(FuseError, "'mul' reads an intermediate"):
            torch.mul(torch.ones(3, 8), ours)
        fuse_mlir.unfuse_modules(self.model)
        self.assertTrue(
            torch.equal(*self.run_way(lambda block, x: block.norm(x)))
        )

    def test_results_are_tensors_like_any_other(self):
        self.model.requires_grad_(True)
        self.plain.requires_grad_(True)
        ours, theirs = self.run_way(lambda block, x: block.mlp(block.norm(x)))
        self.assertIs(type(ours), torch.Tensor)
        for y in (ours, theirs):
            y.mul_(2).sum().backward()
        weights = [
            m.layers[0].mlp.up.weight.grad for m in (self.model, self.plain)
        ]
        torch.testing.assert_close(*weights, atol=1e-4, rtol=1e-4)
        with torch.inference_mode():
            self.assertIs(type(self.model(self.x)), torch.Tensor)

    def test_a_part_of_a_sequence(self):
        torch.manual_seed(0)
        model = nn.Sequential(Block(), Block(), Block()).eval()
        plain = copy.deepcopy(model)
        fused = fuse_mlir.fuse_modules(model, inputs=self.x, only_faster=False)
        self.assertEqual(fused[0].id, "0+1+2#0")
        close(model(self.x), plain(self.x))
        with self.assertRaisesRegex(
            FuseError, "'add' reads an intermediate of "
        ):
            model[:2](self.x) + 1

    def test_more_than_two_members(self):
        model, x = net(2, Steps)
        plain = copy.deepcopy(model)
        for m in (model, plain):
            m.requires_grad_(True)
        result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        self.assertEqual(result[0].id, "norm+up+act+down#0")
        for m in (model, plain):
            m(x).square().sum().backward()
        for (name, ours), theirs in zip(
            model.named_parameters(), plain.parameters()
        ):
            torch.testing.assert_close(
                ours.grad, theirs.grad, atol=1e-4, rtol=1e-4, msg=name
            )

    def test_members_under_checkpoints(self):
        def way(block, x):
            n = checkpoint(block.norm, x, use_reentrant=False)
            return x + checkpoint(block.mlp, n, use_reentrant=False)

        for model in (self.model, self.plain):
            model.requires_grad_(True)
        for y in self.run_way(way):
            y.square().sum().backward()
        torch.testing.assert_close(
            *(m.layers[0].norm.weight.grad for m in (self.model, self.plain)),
            atol=1e-4,
            rtol=1e-4,
        )

    def test_under_torch_compile(self):
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)

        def broken(block, x):
            n = torch._dynamo.disable(block.norm)(x)
            return x + block.mlp(n)

        for model in (self.model, self.plain):
            model.layers[0].way = broken
        compiled = torch.compile(self.model, backend="eager")
        for _ in range(2):
            close(compiled(self.x), self.plain(self.x))

    def test_dropout_that_does_nothing(self):
        class Dropped(Block):
            def __init__(self):
                super().__init__()
                self.drop = nn.Dropout(0.5)

            def forward(self, x):
                return x + self.mlp(self.drop(self.norm(x)))

        model, x = net(1, Dropped)
        plain = copy.deepcopy(model)
        fuse(model, x)
        close(model(x), plain(x))


if __name__ == "__main__":
    unittest.main()
