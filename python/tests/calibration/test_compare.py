# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Differences in units in the last place."""

import unittest

import numpy as np

from fuse_mlir.calibration.compare import difference, table, ulp


class Ulp(unittest.TestCase):
    def test_bf16(self):
        np.testing.assert_array_equal(
            ulp(np.array([1.0, 1.5, 2.0, -0.75]), "bf16"),
            [2**-7, 2**-7, 2**-6, 2**-8],
        )

    def test_subnormals_have_one_spacing(self):
        np.testing.assert_array_equal(
            ulp(np.array([0.0, 2.0**-126, 2.0**-130]), "bf16"), [2.0**-133] * 3
        )

    def test_f32_agrees_with_numpy(self):
        values = np.array([1e-3, 1.0, 3e7], np.float32)
        np.testing.assert_array_equal(
            ulp(values, "f32"), np.spacing(values).astype(float)
        )


class Differences(unittest.TestCase):
    def test_identical(self):
        values = np.array([1.0, np.inf, np.nan])
        result = difference(values, values, "bf16")
        self.assertTrue(result.identical)
        self.assertEqual(result.histogram["0"], 1)

    def test_histogram(self):
        reference = np.ones(4)
        result = difference(
            reference + np.array([0, 1, 3, 9]) * 2**-7, reference, "bf16"
        )
        self.assertEqual(
            result.histogram,
            {"0": 1, "1": 1, "2": 0, "3-4": 1, "5-8": 0, ">8": 1},
        )
        self.assertEqual(result.max_ulp, 9)
        self.assertEqual(result.max_abs, 9 * 2**-7)
        self.assertFalse(result.identical)

    def test_infinity_on_one_side(self):
        result = difference(
            np.array([np.inf, 1.0]), np.array([1.0, 1.0]), "bf16"
        )
        self.assertEqual(result.nonfinite_mismatches, 1)
        self.assertFalse(result.identical)

    def test_infinities_of_both_signs_differ(self):
        result = difference(np.array([np.inf]), np.array([-np.inf]), "f32")
        self.assertEqual(result.nonfinite_mismatches, 1)

    def test_empty(self):
        empty = np.zeros((0, 4))
        self.assertTrue(difference(empty, empty, "bf16").identical)

    def test_bad_requests(self):
        with self.assertRaisesRegex(ValueError, r"\(2,\), reference \(3,\)"):
            difference(np.ones(2), np.ones(3), "bf16")
        with self.assertRaisesRegex(ValueError, "type 'f8'; expected one of"):
            difference(np.ones(2), np.ones(2), "f8")

    def test_table(self):
        row = difference(np.ones(4), np.ones(4), "bf16")
        lines = table({"fused": row}, "bf16").splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn("100.000", lines[1])


if __name__ == "__main__":
    unittest.main()
