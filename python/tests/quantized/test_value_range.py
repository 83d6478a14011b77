# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scales from observed values."""

from __future__ import annotations

import unittest

import numpy as np
import torch

from fuse_mlir.errors import RangeError
from fuse_mlir.quantized.value_range import (
    Range,
    choose_scale,
    dequantize,
    quantize,
)


class RangeTest(unittest.TestCase):
    def test_batches_count_as_one(self) -> None:
        values = np.random.default_rng(0).normal(size=10000)
        whole, parts = Range(), Range()
        whole.add(values)
        for part in np.array_split(values, 7):
            parts.add(part)
        self.assertEqual(whole.count, parts.count)
        self.assertEqual(whole.largest, parts.largest)
        self.assertEqual(int(parts.histogram.sum()), values.size)

    def test_limit_grows_and_counts_stay_exact(self) -> None:
        seen = Range(bins=4)
        seen.add(np.array([0.1, 0.3, 0.6, 1.0]))
        self.assertEqual(seen.histogram.tolist(), [1, 1, 1, 1])
        seen.add(np.array([-3.5]))
        self.assertEqual(seen.limit, 4.0)
        self.assertEqual(seen.histogram.tolist(), [4, 0, 0, 1])

    def test_percentile_is_an_upper_edge(self) -> None:
        seen = Range(bins=100)
        seen.add(np.linspace(0.0, 1.0, 101))
        self.assertAlmostEqual(seen.percentile(50.0), 0.51, places=2)
        self.assertEqual(seen.percentile(100.0), 1.0)

    def test_values_that_are_not_finite_are_named(self) -> None:
        with self.assertRaisesRegex(RangeError, "2 of 3 observed values"):
            Range().add(np.array([1.0, np.nan, np.inf]))

    def test_sample_is_bounded_and_from_all_batches(self) -> None:
        seen = Range(sample_size=64)
        for batch in range(100):
            seen.add(np.full(64, float(batch)))
        self.assertEqual(seen.sample.size, 64)
        self.assertGreater(len(set(seen.sample.tolist())), 20)


class ScaleTest(unittest.TestCase):
    def test_amax_maps_the_largest_to_the_largest_code(self) -> None:
        seen = Range()
        seen.add(np.array([0.5, -8.96]))
        choice = choose_scale(seen, "f8E4M3FN")
        self.assertAlmostEqual(choice.scale, 8.96 / 448.0, places=8)
        self.assertEqual(choice.saturated, 0.0)
        self.assertEqual(choice.headroom, 1.0)

    def test_percentile_saturates_outliers(self) -> None:
        values = np.random.default_rng(1).normal(size=100000)
        values[:10] = 1000.0
        seen = Range()
        seen.add(values)
        choice = choose_scale(seen, "i8", "percentile", 99.9)
        self.assertLess(choice.threshold, 10.0)
        self.assertAlmostEqual(choice.saturated, 1e-4, delta=2e-3)

    def test_mse_is_never_worse_than_amax(self) -> None:
        values = np.random.default_rng(2).standard_t(3, size=50000)
        for storage in ("i8", "f8E4M3FN", "f8E5M2"):
            seen = Range(sample_size=4096)
            seen.add(values)
            best = choose_scale(seen, storage, "mse")
            amax = choose_scale(seen, storage, "amax")
            self.assertLessEqual(
                best.relative_mse, amax.relative_mse * (1 + 1e-6)
            )

    def test_errors_name_what_exists(self) -> None:
        seen = Range()
        seen.add(np.zeros(4))
        with self.assertRaisesRegex(RangeError, "all zero"):
            choose_scale(seen, "i8")
        seen.add(np.ones(1))
        with self.assertRaisesRegex(RangeError, "amax, percentile, mse"):
            choose_scale(seen, "i8", "guess")
        with self.assertRaisesRegex(RangeError, "f8E4M3FN, f8E5M2, i8"):
            choose_scale(seen, "f4")
        with self.assertRaisesRegex(RangeError, "percentile must be above 0"):
            choose_scale(seen, "i8", "percentile", 0.0)


class QuantizeTest(unittest.TestCase):
    def test_saturates_and_keeps_nan(self) -> None:
        values = torch.tensor([465.0, -1e9, float("inf"), float("nan"), 0.0])
        stored = quantize(values, 1.0, "f8E4M3FN").float()
        self.assertEqual(stored[:3].tolist(), [448.0, -448.0, 448.0])
        self.assertTrue(torch.isnan(stored[3]))
        integers = quantize(values, 1.0, "i8")
        self.assertEqual(integers.tolist(), [127, -128, 127, 0, 0])

    def test_ties_go_to_even(self) -> None:
        stored = quantize(torch.tensor([0.5, 1.5, 2.5]), 1.0, "i8")
        self.assertEqual(stored.tolist(), [0, 2, 2])
        stored = quantize(torch.tensor([1.0625, 1.1875]), 1.0, "f8E4M3FN")
        self.assertEqual(stored.float().tolist(), [1.0, 1.25])

    def test_one_scale_per_channel(self) -> None:
        scales = torch.tensor([[1.0], [0.5]])
        stored = quantize(torch.tensor([[3.0], [3.0]]), scales, "i8")
        self.assertEqual(stored.tolist(), [[3], [6]])
        self.assertEqual(dequantize(stored, scales).tolist(), [[3.0], [3.0]])


if __name__ == "__main__":
    unittest.main()
