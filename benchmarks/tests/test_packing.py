# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests packed weights of the benchmarks, and their launch plans."""

import json
import tempfile
import unittest
from pathlib import Path

import torch
from small_blocks import small

from fuse_bench.common import packing
from fuse_bench.common.plan import Plan, PlanError
from fuse_bench.common.problem import BF16

E4M3 = torch.float8_e4m3fn


def random_bytes(
    rows: int, columns: int, dtype: torch.dtype, seed: int
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randint(
        0,
        256,
        (rows, columns * dtype.itemsize),
        dtype=torch.uint8,
        generator=generator,
    )
    return raw.view(dtype)


class Packing(unittest.TestCase):
    def test_unpack_inverts_pack(self):
        for rows, columns in (
            (256, 128),
            (16, 16),
            (784, 2000),
            (272, 144),
            (128, 48),
            (400, 4112),
        ):
            for dtype in (E4M3, torch.bfloat16):
                for recipe in packing.RECIPES:
                    count = 2 if recipe == "gate_up_256" else 1
                    given = [
                        random_bytes(rows, columns, dtype, seed)
                        for seed in range(count)
                    ]
                    packed = packing.pack(recipe, given)
                    with self.subTest(
                        recipe, rows=rows, columns=columns, dtype=dtype
                    ):
                        self.assertEqual(
                            packed.numel(),
                            packing.packed_bytes(
                                recipe, (rows, columns), dtype.itemsize
                            ),
                        )
                        back = packing.unpack(
                            recipe, packed, (rows, columns), dtype
                        )
                        for before, after in zip(given, back, strict=True):
                            self.assertTrue(
                                torch.equal(
                                    before.view(torch.uint8),
                                    after.view(torch.uint8),
                                )
                            )

    def test_rows_lie_where_the_formula_says(self):
        # 2 tiles of 2 steps. Each byte pair holds the number of its row.
        rows, columns = 300, 256
        up = torch.arange(rows, dtype=torch.int16)[:, None].repeat(1, 128)
        down = packing.pack("rows_256", [up.view(torch.uint8)])
        pair = packing.pack(
            "gate_up_256", [up.view(torch.uint8), (up + 1000).view(torch.uint8)]
        )
        for p in range(256):
            wl, m, warp = p // 128, p // 64 % 2, p // 16 % 4
            half, lr = p // 8 % 2, p % 8
            row = 256 + wl * 128 + warp * 32 + lr * 4 + m * 2 + half
            stored = down.view(2, 2, 256, columns // 2)[0, 1, p]
            expected = row if row < rows else 0
            self.assertEqual(stored.view(torch.int16)[0].item(), expected)
            unit = 128 + wl * 64 + lr // 2 * 16 + warp * 4 + lr % 2 * 2 + m
            stored = pair.view(2, 3, 256, columns // 2)[1, 1, p]
            self.assertEqual(
                stored.view(torch.int16)[0].item(), unit + 1000 * half
            )

    def test_chunks_are_swizzled(self):
        row = torch.arange(128, dtype=torch.uint8)[None].repeat(256, 1)
        packed = packing.pack("rows_256", [row]).view(256, 8, 16)
        for p in range(16):
            for chunk in range(8):
                self.assertEqual(
                    packed[p, chunk ^ (p % 8), 0].item(), 16 * chunk
                )

    def test_tokens_of_a_step_follow_each_other(self):
        # Kernels store chunk c of token t at chunk c ^ (t % 8) of its step.
        tokens, steps = 16, 3
        chunks = torch.arange(tokens * steps * 8) % 251
        given = chunks.to(torch.uint8).view(tokens, steps, 8)
        packed = torch.empty(steps, tokens, 8, 16, dtype=torch.uint8)
        for t in range(tokens):
            for chunk in range(8):
                packed[:, t, chunk ^ (t % 8)] = given[t, :, chunk, None]
        back = packing.unpack_tokens(packed.view(-1), tokens)
        self.assertEqual(back.shape, (tokens, steps * 128))
        self.assertTrue(
            torch.equal(back, given.view(tokens, -1).repeat_interleave(16, 1))
        )

    def test_unknown_recipe(self):
        with self.assertRaisesRegex(
            ValueError,
            "'rows_128': expected one of gate_up_256, rows_256, identity",
        ):
            packing.pack("rows_128", [torch.zeros(1, 1)])

    def test_wrong_number_of_matrices(self):
        with self.assertRaisesRegex(ValueError, "packs 2 matrices, got 1"):
            packing.pack("gate_up_256", [torch.zeros(1, 1)])


class Plans(unittest.TestCase):
    def stored(self, **changes):
        plan = {
            "arguments": [{"kind": "tokens"}],
            "blocks": 1,
            "threads": 32,
            "shared_bytes": 0,
            "dependent": False,
            "max_tokens": 8,
            "workspace_bytes": 300,
            "zeroed_bytes": 4,
        }
        return {
            "problem": small("mlp", BF16, "none").to_json(),
            "binary": "a.cubin",
            "version": 1,
            "launches": [
                {"kernel": "first", "plan": plan | changes},
                {"kernel": "second", "plan": plan},
            ],
        }

    def load(self, stored) -> Plan:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.json"
            path.write_text(json.dumps(stored))
            return Plan.load(path)

    def test_workspaces_lie_side_by_side(self):
        plan = self.load(self.stored())
        self.assertEqual(plan.bases, [0, 512])
        self.assertEqual(plan.workspace_bytes, 812)

    def test_the_smallest_tile_counts(self):
        self.assertEqual(self.load(self.stored(max_tokens=4)).max_tokens, 4)

    def test_unknown_argument(self):
        with self.assertRaisesRegex(
            PlanError,
            "argument 0 of first has kind 'stream': expected one of operand",
        ):
            self.load(self.stored(arguments=[{"kind": "stream"}]))

    def test_unknown_version(self):
        with self.assertRaisesRegex(PlanError, "version 7, expected 1"):
            self.load(self.stored() | {"version": 7})

    def test_unknown_key(self):
        with self.assertRaisesRegex(PlanError, "plan of first"):
            self.load(self.stored(clusters=2))

    def test_carveouts_are_per_cent(self):
        launches = self.load(self.stored(carveout=100)).launches
        self.assertEqual([item.carveout for item in launches], [100, None])
        with self.assertRaisesRegex(
            PlanError, "first has a carveout of 101: expected 0 to 100 per cent"
        ):
            self.load(self.stored(carveout=101))


if __name__ == "__main__":
    unittest.main()
