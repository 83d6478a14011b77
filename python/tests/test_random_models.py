# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random models, fused and undone. More of them run in scripts/soak.sh."""

import unittest
from unittest import mock

import torch

import fuse_mlir
from tests import random_models
from tests.models import needs_library

torch.set_num_threads(1)
# Of these, some are fused whole, in part, and not at all.
SEEDS = range(3, 9)


@needs_library
class RandomModels(unittest.TestCase):
    def test_models(self):
        outcomes = [random_models.run(seed) for seed in SEEDS]
        self.assertTrue(any(o[0] in "123456789" for o in outcomes), outcomes)
        self.assertTrue(
            any(o.startswith("refused") for o in outcomes), outcomes
        )

    def test_a_wrong_kernel_is_noticed(self):
        def fuse_wrongly(model, *args, **options):
            result = fuse_mlir.fusion.modules.fuse_modules(
                model, *args, **options
            )
            next(model.parameters()).mul_(1.25)
            return result

        with (
            mock.patch.object(fuse_mlir, "fuse_modules", fuse_wrongly),
            self.assertRaisesRegex(AssertionError, "from double precision"),
        ):
            random_models.run(7)

    def test_what_undoing_leaves_is_noticed(self):
        def undo_half(model, *args):
            del model.layers[0].mlp
            return []

        with (
            mock.patch.object(fuse_mlir, "unfuse_modules", undo_half),
            self.assertRaisesRegex(AssertionError, "not as it was"),
        ):
            random_models.run(7)


if __name__ == "__main__":
    unittest.main()
