# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Observed ranges on disk."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import numpy as np

from fuse_mlir.calibration import range_cache
from fuse_mlir.errors import RangeError
from fuse_mlir.quantized.value_range import Range, choose_scale


class RangeCacheTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.files = {}
        for name in ("tool", "source", "weights", "data", "more"):
            self.files[name] = self.root / name
            self.files[name].write_text(name)

    def key(self, **others: Path) -> str:
        files = self.files | others
        return range_cache.key_of(
            [files["tool"]], files["source"], files["weights"], [files["data"]]
        )

    def ranges(self) -> dict[str, Range]:
        random = np.random.default_rng(0)
        result = {}
        for name in ("gate", "down"):
            result[name] = Range(sample_size=64, seed=len(result))
            result[name].add(random.normal(size=500))
        result["zeros"] = Range()
        result["zeros"].add(np.zeros(3))
        return result

    def test_round_trip(self) -> None:
        ranges, cache = self.ranges(), self.root / "cache"
        self.assertIsNone(range_cache.load(cache, self.key()))
        range_cache.store(cache, self.key(), ranges)
        self.assertEqual([p.suffix for p in cache.iterdir()], [".npz"])
        known = range_cache.load(cache, self.key())
        assert known is not None
        self.assertEqual(list(known), list(ranges))
        for name in ("gate", "down"):
            for method in ("amax", "percentile", "mse"):
                self.assertEqual(
                    choose_scale(known[name], "f8E4M3FN", method),
                    choose_scale(ranges[name], "f8E4M3FN", method),
                )

    def test_every_ingredient_is_in_the_key(self) -> None:
        key = self.key()
        self.assertEqual(key, self.key())
        for name in ("tool", "source", "weights", "data"):
            self.assertNotEqual(key, self.key(**{name: self.files["more"]}))
        two = [self.files["data"], self.files["more"]]
        one = range_cache.key_of([], self.files["source"], None, two)
        self.assertNotEqual(
            one, range_cache.key_of([], self.files["source"], None, two[::-1])
        )

    def test_a_damaged_entry_is_none(self) -> None:
        cache = self.root / "cache"
        range_cache.store(cache, self.key(), self.ranges())
        (path,) = cache.iterdir()
        data = path.read_bytes()
        for size in (0, 10, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:size])
            self.assertIsNone(range_cache.load(cache, self.key()))
        # A fault in each kind of byte is either detected or harmless.
        for place in range(0, len(data), 97):
            damaged = bytearray(data)
            damaged[place] ^= 0xFF
            path.write_bytes(bytes(damaged))
            range_cache.load(cache, self.key())

    def test_an_entry_of_another_key_is_none(self) -> None:
        cache = self.root / "cache"
        range_cache.store(cache, self.key(), self.ranges())
        (path,) = cache.iterdir()
        path.rename(cache / f"{'0' * 64}.npz")
        self.assertIsNone(range_cache.load(cache, "0" * 64))

    def test_no_place_to_write_is_no_error(self) -> None:
        range_cache.store(self.files["data"] / "below", "k", self.ranges())

    def test_parts_that_contradict(self) -> None:
        with self.assertRaisesRegex(RangeError, "contradict"):
            Range.restore(
                np.ones(4),
                np.zeros(3),
                count=5,
                largest=1.0,
                limit=1.0,
                seed=0,
                sample_size=8,
            )


if __name__ == "__main__":
    unittest.main()
