# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packing recipes of weights, and their inverses.

A tile is 256 rows, a step 128 bytes of a row. Edges are padded with zeros. A
packed weight is `[step][tile][256 rows][128 bytes]`, in which the 16-byte
chunk c of row r lies at chunk `c ^ (r % 8)`: the 128-byte swizzle of shared
memory, so that a plain copy of 32 KB is a valid operand of wgmma.

Row p of a tile is `wl(1) m(1) warp(2) half(1) lr(3)`, high bit first: the
warpgroup, its instruction, its warp, and the two 8-row halves of the warp's
rows. A thread holds rows `lr` of both halves and both instructions:

- `gate_up_256`: two neighboring hidden units, gate in half 0, up in half 1;
- `rows_256`: four neighboring rows of the matrix. Several matrices with the
  same columns lie one after the other, each from the start of a tile.

The order is written down once in Python, in the file that kernel directories
get a copy of, which needs nothing but PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from . import hub_files

TILE_ROWS = 256
STEP_BYTES = 128
RECIPES = ("gate_up_256", "rows_256", "identity")
_ORDER = hub_files.load("_packing")


def _load(packed: Tensor, tiles: int, steps: int) -> Tensor:
    """[tile, 256, columns] of packed bytes, in packed order of rows."""
    blocks = packed.view(steps, tiles, TILE_ROWS, 8, 16)
    return (
        _ORDER.swizzle(blocks)
        .permute(1, 2, 0, 3, 4)
        .reshape(tiles, TILE_ROWS, steps * STEP_BYTES)
    )


def unpack_tokens(packed: Tensor, rows: int) -> Tensor:
    """Tokens as kernels pack them: `[step][rows][128 bytes]`, swizzled.

    Returns the bytes of `rows` tokens, [rows, steps * 128].
    """
    blocks = packed.view(-1, 1, rows, 8, 16)
    return _ORDER.swizzle(blocks).permute(1, 2, 0, 3, 4).reshape(rows, -1)


def _check(recipe: str, weights: Sequence[Tensor]) -> None:
    if recipe not in RECIPES:
        raise ValueError(
            f"unknown packing recipe '{recipe}': expected one "
            f"of {', '.join(RECIPES)}"
        )
    count = {"gate_up_256": 2, "identity": 1}.get(recipe)
    if count is not None and len(weights) != count:
        raise ValueError(
            f"recipe '{recipe}' packs {count} matrices, got {len(weights)}"
        )
    if not weights:
        raise ValueError(f"recipe '{recipe}' packs matrices, got none")
    if recipe == "rows_256":
        if any(
            weight.shape[1:] != weights[0].shape[1:]
            or weight.dtype != weights[0].dtype
            for weight in weights
        ):
            raise ValueError(
                f"recipe '{recipe}' packs matrices of one width and type"
            )
        return
    if any(
        weight.shape != weights[0].shape or weight.dtype != weights[0].dtype
        for weight in weights
    ):
        raise ValueError(
            f"recipe '{recipe}' packs matrices of one shape and type"
        )


def pack(recipe: str, weights: Sequence[Tensor]) -> Tensor:
    """Packs matrices [out, in] of one type into flat bytes."""
    _check(recipe, weights)
    return _ORDER.pack(recipe, weights)


def unpack(
    recipe: str, packed: Tensor, shape: tuple[int, int], dtype: torch.dtype
) -> list[Tensor]:
    """The matrices of `shape` and `dtype` that were packed."""
    rows, columns = shape
    width = columns * dtype.itemsize
    if recipe == "identity":
        return [packed.view(dtype).view(shape)]
    if recipe not in RECIPES:
        raise ValueError(
            f"unknown packing recipe '{recipe}': expected one "
            f"of {', '.join(RECIPES)}"
        )
    tile_rows = 128 if recipe == "gate_up_256" else TILE_ROWS
    tiles = math.ceil(rows / tile_rows)
    steps = math.ceil(width / STEP_BYTES)
    inverse = torch.argsort(_ORDER.order(recipe, packed.device))
    stored = _load(packed, tiles, steps)[:, inverse]
    matrices = []
    for first in range(0, TILE_ROWS, tile_rows):
        raw = stored[:, first : first + tile_rows].reshape(
            tiles * tile_rows, steps * STEP_BYTES
        )[:rows, :width]
        matrices.append(raw.contiguous().view(dtype))
    return matrices


def packed_bytes(recipe: str, shape: tuple[int, int], itemsize: int) -> int:
    """How many bytes `pack` makes of matrices of `shape`."""
    rows, width = shape[0], shape[1] * itemsize
    if recipe == "identity":
        return rows * width
    tile_rows = 128 if recipe == "gate_up_256" else TILE_ROWS
    return (
        math.ceil(rows / tile_rows)
        * math.ceil(width / STEP_BYTES)
        * TILE_ROWS
        * STEP_BYTES
    )
