# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which dimensions of a reshape belong together."""

import unittest

import sympy

from fuse_mlir.ir.reshape import reassociate

B, S = sympy.symbols("b s", positive=True, integer=True)


class Reassociate(unittest.TestCase):
    def check(self, source, target, expected):
        self.assertEqual(reassociate(source, target), expected)

    def test_same_shape(self):
        self.check((B, 4), (B, 4), [([0], [0]), ([1], [1])])

    def test_collapse(self):
        self.check((B, S, 4), (B * S, 4), [([0, 1], [0]), ([2], [1])])

    def test_expand(self):
        self.check((B * S, 8), (B, S, 2, 4), [([0], [0, 1]), ([1], [2, 3])])

    def test_regroup_through_a_product(self):
        self.check((2, 3, 4), (6, 2, 2), [([0, 1], [0]), ([2], [1, 2])])
        self.check((4, 6), (6, 4), [([0, 1], [0, 1])])

    def test_trailing_unit_dimensions_join_the_group_before(self):
        self.check((B, 4), (B, 4, 1), [([0], [0]), ([1], [1, 2])])
        self.check((B, 1), (B,), [([0, 1], [0])])

    def test_leading_unit_dimensions(self):
        self.check((4,), (1, 4), [([0], [0, 1])])
        self.check((1, 1), (), [([0, 1], [])])

    def test_unrelated_sizes_have_no_answer(self):
        self.assertIsNone(reassociate((B, 4), (S, 4)))
        self.assertIsNone(reassociate((4,), (4, 2)))


if __name__ == "__main__":
    unittest.main()
