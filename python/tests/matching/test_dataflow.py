# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs with data see what runs on fake tensors see, and change nothing."""

import unittest

import torch
from torch import nn

from fuse_mlir.errors import FlowError
from fuse_mlir.matching import dataflow


class Block(nn.Module):
    """A norm and a linear with a residual add; counts its calls."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("kept", torch.ones(2))

    def forward(self, x):
        self.calls += 1
        return x + self.linear(self.norm(x)) * torch.rand(())


def summary(flow):
    """Calls and uses without ids of tensors."""
    return (
        {path: len(calls) for path, calls in flow.calls.items()},
        sorted((u.module, u.op) for uses in flow.uses.values() for u in uses),
    )


def restored(model, x):
    return dataflow._observe_and_restore(model, (x,), {})


class WithData(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model = Block().eval()
        self.x = torch.randn(3, 4)

    def test_the_flow_is_that_of_fake_tensors(self):
        fake = dataflow.observe(self.model, self.x)
        self.assertEqual(summary(restored(self.model, self.x)), summary(fake))

    def test_buffers_and_random_numbers_are_restored(self):
        kept = self.model.kept._version
        state = torch.get_rng_state()
        restored(self.model, self.x)
        self.assertEqual(self.model.calls.item(), 0)
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        # Writing to a buffer would look like a change of weights.
        self.assertEqual(self.model.kept._version, kept)

    def test_buffers_without_versions(self):
        with torch.inference_mode():
            model = Block().eval()
            restored(model, self.x)
            self.assertEqual(model.calls.item(), 0)

    def test_inputs_stay(self):
        class Writes(nn.Module):
            def forward(self, x):
                return x.add_(1)

        before = self.x.clone()
        restored(Writes(), self.x)
        self.assertTrue(torch.equal(self.x, before))


class Quick(unittest.TestCase):
    """Only small runs on one GPU have data at first."""

    def test_not_on_a_cpu(self):
        model, x = Block(), torch.randn(3, 4)
        self.assertFalse(dataflow._is_quick(model, (x,), {}))

    def test_not_with_objects_that_a_run_could_change(self):
        self.assertFalse(dataflow._is_quick(nn.Identity(), (object(),), {}))

    def test_a_model_that_fails_names_the_error(self):
        with self.assertRaisesRegex(FlowError, "Linear fails on its example"):
            dataflow.observe(nn.Linear(4, 4), torch.ones(2, 3))


@unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
class OnGpu(unittest.TestCase):
    def test_small_inputs_are_quick(self):
        model = Block().cuda()
        for rows, quick in ((3, True), (dataflow.QUICK_ELEMENTS, False)):
            x = torch.ones(rows, 4, device="cuda")
            self.assertEqual(dataflow._is_quick(model, (x,), {}), quick)


if __name__ == "__main__":
    unittest.main()
