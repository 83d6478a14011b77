# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests how benchmarks judge the correctness of models."""

import unittest

import torch

from fuse_bench.suites import architectures
from tests.models import LLAMA as TINY
from tests.models import needs_library

torch.set_num_threads(1)


class Routing(unittest.TestCase):
    def flips(self, ours, theirs):
        return architectures.flips(
            [[torch.tensor(ours)]], [[torch.tensor(theirs)]], 2
        )

    def test_same_experts(self):
        self.assertEqual(self.flips([0.0, 4.0, 3.0], [0.0, 3.0, 4.0]), [])

    def test_another_expert(self):
        # The second of the first is 0.25 ahead of what the other takes.
        self.assertEqual(
            self.flips([4.0, 2.0, 3.0], [4.0, 3.0, 2.75]),
            [{"step": 0, "layer": 0, "ahead": 0.25, "apart": 1.0}],
        )

    def judge(self, tokens, found):
        return architectures.routed({"tokens": tokens}, [1] * 32, found)

    def test_tokens_may_part_where_a_router_was_near(self):
        near = {"step": 3, "layer": 0, "ahead": 0.01, "apart": 0.02}
        tokens = [1] * 3 + [2] * 29
        self.assertTrue(self.judge([1] * 32, []))
        self.assertTrue(self.judge(tokens, [near]))
        self.assertFalse(self.judge(tokens, []))
        self.assertFalse(self.judge(tokens, [{**near, "step": 4}]))
        self.assertFalse(self.judge(tokens, [{**near, "ahead": 1.0}]))


@needs_library
class Rows(unittest.TestCase):
    @torch.no_grad()
    def row(self, kind, **settings):
        return architectures.fused(
            kind, {**TINY, "num_hidden_layers": 1, **settings}, 1
        )

    @unittest.skipIf(torch.cuda.is_available(), "replays are calls")
    def test_a_right_model(self):
        row = self.row("llama")
        self.assertTrue(row["passed"], row)
        # Three of each site, the MLP, the projections, the output projection and
        # the head, and one of the model.
        self.assertEqual((row["checks"], len(row["tokens"])), (13, 32))

    def test_steps_have_names_of_their_own(self):
        names = [name for name, _ in architectures.steps()]
        self.assertEqual(len(set(names)), len(names))


if __name__ == "__main__":
    unittest.main()
