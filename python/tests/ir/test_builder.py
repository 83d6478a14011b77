# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Literals, names and maps of the text."""

import math
import unittest

import sympy

from fuse_mlir.ir.builder import (
    Emitter,
    float_literal,
    quote,
    symbol,
    tensor_type,
)


class Literals(unittest.TestCase):
    def test_floats_have_a_point(self):
        self.assertEqual(float_literal(1, "f32"), "1.0")
        self.assertEqual(float_literal(1e-6, "f32"), "1.0e-06")
        self.assertEqual(float_literal(-2.5e30, "f64"), "-2.5e+30")

    def test_special_floats_are_bit_patterns(self):
        self.assertEqual(float_literal(math.inf, "f32"), "0x7F800000")
        self.assertEqual(float_literal(-math.inf, "f32"), "0xFF800000")
        self.assertEqual(float_literal(math.nan, "f64"), "0x7FF8000000000000")

    def test_strings_escape_what_mlir_does_not_take(self):
        self.assertEqual(quote('a"b\\c\n'), '"a\\22b\\5Cc\\0A"')
        self.assertEqual(quote("é"), '"\\C3\\A9"')

    def test_symbols_are_quoted_where_needed(self):
        self.assertEqual(symbol("layers.0_mlp"), "layers.0_mlp")
        self.assertEqual(symbol("0.mlp"), '"0.mlp"')
        self.assertEqual(symbol("a-b"), '"a-b"')


class Shapes(unittest.TestCase):
    def test_symbolic_dimensions_are_dynamic(self):
        self.assertEqual(
            tensor_type((sympy.Symbol("s"), 4), "bf16"), "tensor<?x4xbf16>"
        )
        self.assertEqual(tensor_type((), "f32"), "tensor<f32>")

    def test_unit_dimensions_broadcast(self):
        emitter = Emitter("f")
        emitter.broadcast_map((3, 1), (2, 3, 4))
        emitter.broadcast_map((1, 4), (1, 4))
        self.assertEqual(
            list(emitter._maps),
            [
                "affine_map<(d0, d1, d2) -> (d1, 0)>",
                "affine_map<(d0, d1) -> (d0, d1)>",
            ],
        )

    def test_a_dimension_is_read_once(self):
        emitter = Emitter("f")
        size = sympy.Symbol("s")
        emitter.argument("x", (size, 4), "f32")
        self.assertEqual(emitter.dim(size), emitter.dim(size))
        with self.assertRaisesRegex(ValueError, "dimension t"):
            emitter.dim(sympy.Symbol("t"))


class Names(unittest.TestCase):
    def test_no_name_is_given_twice(self):
        emitter = Emitter("f")
        names = [emitter.fresh("a") for _ in range(3)]
        names += [emitter.fresh("a_1"), emitter.fresh(), emitter.fresh()]
        self.assertEqual(len(set(names)), len(names))


if __name__ == "__main__":
    unittest.main()
