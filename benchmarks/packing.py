# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packing recipes of weights, and their inverses.

A tile is 256 rows, a step 128 bytes of a row. Edges are padded with zeros. A
packed weight is `[step][tile][256 rows][128 bytes]`, in which the 16-byte
chunk c of row r lies at chunk `c ^ (r % 8)`: the 128-byte swizzle of shared
memory, so that a plain copy of 32 KB is a valid operand of wgmma.

Row p of a tile is `wl(1) m(1) warp(2) half(1) lr(3)`, high bit first: the
warpgroup, its instruction, its warp, and the two 8-row halves of the warp's
rows. A thread holds rows `lr` of both halves and both instructions:

- `gate_up_256`: two neighbouring hidden units, gate in half 0, up in half 1;
- `rows_256`: four neighbouring rows of the matrix. Several matrices with the
  same columns lie one behind the other, each from a tile of its own on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

TILE_ROWS = 256
STEP_BYTES = 128
RECIPES = ("gate_up_256", "rows_256", "identity")


def _fields(device: torch.device) -> tuple[Tensor, ...]:
    """wl, m, warp, half and lr of each row of a tile."""
    p = torch.arange(TILE_ROWS, device=device)
    return p // 128, p // 64 % 2, p // 16 % 4, p // 8 % 2, p % 8


def _rows_order(device: torch.device) -> Tensor:
    """Matrix row, within a tile, of each packed row."""
    wl, m, warp, half, lr = _fields(device)
    return wl * 128 + warp * 32 + lr * 4 + m * 2 + half


def _gate_up_order(device: torch.device) -> Tensor:
    """Row of `[gate tile; up tile]` (128 rows each) of each packed row."""
    wl, m, warp, half, lr = _fields(device)
    unit = wl * 64 + lr // 2 * 16 + warp * 4 + lr % 2 * 2 + m
    return half * 128 + unit


def _swizzle(blocks: Tensor) -> Tensor:
    """Applies the swizzle to [..., 256, 8, 16]; it is its own inverse."""
    row = torch.arange(TILE_ROWS, device=blocks.device)[:, None]
    chunk = torch.arange(8, device=blocks.device)[None, :]
    return blocks[..., row, chunk ^ (row % 8), :]


def _as_bytes(weight: Tensor, tile_rows: int) -> Tensor:
    """[tiles, tile_rows, steps * 128] bytes of a matrix, padded."""
    raw = weight.contiguous().view(torch.uint8)
    rows, columns = raw.shape
    tiles = math.ceil(rows / tile_rows)
    steps = math.ceil(columns / STEP_BYTES)
    padded = raw.new_zeros(tiles * tile_rows, steps * STEP_BYTES)
    padded[:rows, :columns] = raw
    return padded.view(tiles, tile_rows, steps * STEP_BYTES)


def _store(tiles: Tensor) -> Tensor:
    """[tile, 256, columns] -> swizzled [step, tile, 256, 128], flat."""
    count, _, columns = tiles.shape
    blocks = tiles.view(count, TILE_ROWS, columns // STEP_BYTES, 8, 16)
    return _swizzle(blocks.permute(2, 0, 1, 3, 4)).reshape(-1)


def _load(packed: Tensor, tiles: int, steps: int) -> Tensor:
    """The inverse of `_store`."""
    blocks = packed.view(steps, tiles, TILE_ROWS, 8, 16)
    return _swizzle(blocks).permute(1, 2, 0, 3, 4).reshape(
        tiles, TILE_ROWS, steps * STEP_BYTES)


def _check(recipe: str, weights: Sequence[Tensor]) -> None:
    if recipe not in RECIPES:
        raise ValueError(f"unknown packing recipe '{recipe}': expected one "
                         f"of {', '.join(RECIPES)}")
    count = {"gate_up_256": 2, "identity": 1}.get(recipe)
    if count is not None and len(weights) != count:
        raise ValueError(f"recipe '{recipe}' packs {count} matrices, got "
                         f"{len(weights)}")
    if not weights:
        raise ValueError(f"recipe '{recipe}' packs matrices, got none")
    if recipe == "rows_256":
        if any(weight.shape[1:] != weights[0].shape[1:] or
               weight.dtype != weights[0].dtype for weight in weights):
            raise ValueError(f"recipe '{recipe}' packs matrices of one width "
                             "and type")
        return
    if any(weight.shape != weights[0].shape or
           weight.dtype != weights[0].dtype for weight in weights):
        raise ValueError(f"recipe '{recipe}' packs matrices of one shape and "
                         f"type")


def pack(recipe: str, weights: Sequence[Tensor]) -> Tensor:
    """Packs matrices [out, in] of one type into flat bytes."""
    _check(recipe, weights)
    device = weights[0].device
    if recipe == "identity":
        return weights[0].contiguous().view(torch.uint8).reshape(-1)
    if recipe == "gate_up_256":
        pair = torch.cat([_as_bytes(weight, 128) for weight in weights], 1)
        return _store(pair[:, _gate_up_order(device)])
    tiles = torch.cat([_as_bytes(weight, TILE_ROWS) for weight in weights])
    return _store(tiles[:, _rows_order(device)])


def unpack(recipe: str, packed: Tensor, shape: tuple[int, int],
           dtype: torch.dtype) -> list[Tensor]:
    """The matrices of `shape` and `dtype` that were packed."""
    rows, columns = shape
    width = columns * dtype.itemsize
    if recipe == "identity":
        return [packed.view(dtype).view(shape)]
    order: Callable[[torch.device], Tensor]
    if recipe == "gate_up_256":
        tile_rows, order = 128, _gate_up_order
    elif recipe == "rows_256":
        tile_rows, order = TILE_ROWS, _rows_order
    else:
        raise ValueError(f"unknown packing recipe '{recipe}': expected one "
                         f"of {', '.join(RECIPES)}")
    tiles = math.ceil(rows / tile_rows)
    steps = math.ceil(width / STEP_BYTES)
    inverse = torch.argsort(order(packed.device))
    stored = _load(packed, tiles, steps)[:, inverse]
    matrices = []
    for first in range(0, TILE_ROWS, tile_rows):
        raw = stored[:, first:first + tile_rows].reshape(
            tiles * tile_rows, steps * STEP_BYTES)[:rows, :width]
        matrices.append(raw.contiguous().view(dtype))
    return matrices


def packed_bytes(recipe: str, shape: tuple[int, int], itemsize: int) -> int:
    """How many bytes `pack` makes of matrices of `shape`."""
    rows, width = shape[0], shape[1] * itemsize
    if recipe == "identity":
        return rows * width
    tile_rows = 128 if recipe == "gate_up_256" else TILE_ROWS
    return (math.ceil(rows / tile_rows) * math.ceil(width / STEP_BYTES) *
            TILE_ROWS * STEP_BYTES)
