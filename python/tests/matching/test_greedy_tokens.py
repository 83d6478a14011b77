# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Greedy tokens of models with MLPs and projections fused."""

import unittest

import torch

from tests import greedy
from tests.models import needs_library, transformer

torch.set_num_threads(1)


@needs_library
class GreedyTokens(unittest.TestCase):
    def test_logits_with_a_peak(self):
        for kind, settings in greedy.MODELS.items():
            with self.subTest(kind):
                greedy.check(self, transformer(kind, **settings))


if __name__ == "__main__":
    unittest.main()
