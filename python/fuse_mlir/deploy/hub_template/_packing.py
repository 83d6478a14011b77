# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights in the order that scheduled kernels read them.

The result is `[step][tile][256 rows][128 bytes]` with zeros past the edges of
the matrix, where a tile is 256 rows and a step 128 bytes of each; the 16-byte
chunk c of row r lies at chunk c xor (r mod 8). The bits of row p of a tile are,
from the high bit: the warpgroup (1), its instruction m (1), its warp (2), the
half of the warp's rows (1) and a row (3). `gate_up_256` has the gate in half 0
and the other matrix in half 1, 128 rows of each. `rows_256` has four
neighboring rows in m and half; its matrices follow each other, and each starts
a new tile.
"""

import torch

_TILE_ROWS, _STEP_BYTES = 256, 128


def _tiles(weight, rows):
    """[tile, row, bytes] of a matrix, with zeros past its edges."""
    data = weight.contiguous().view(torch.uint8)
    tiles = -(-data.shape[0] // rows)
    width = -(-data.shape[1] // _STEP_BYTES) * _STEP_BYTES
    padded = data.new_zeros(tiles * rows, width)
    padded[: data.shape[0], : data.shape[1]] = data
    return padded.view(tiles, rows, width)


def order(recipe, device):
    """Row of a tile before packing, for each row after it.

    Raises:
        RuntimeError: the recipe is unknown, or has no tiles.
    """
    row = torch.arange(_TILE_ROWS, device=device)
    group, m, warp, half, low = (
        row // 128,
        row // 64 % 2,
        row // 16 % 4,
        row // 8 % 2,
        row % 8,
    )
    if recipe == "gate_up_256":
        return (
            half * 128 + group * 64 + low // 2 * 16 + warp * 4 + low % 2 * 2 + m
        )
    if recipe == "rows_256":
        return group * 128 + warp * 32 + low * 4 + m * 2 + half
    raise RuntimeError(
        f"recipe '{recipe}' is unknown; there are "
        "gate_up_256, rows_256, identity"
    )


def swizzle(chunks):
    """Moves 16-byte chunks [..., rows, 8, 16] within their rows, and back."""
    row = torch.arange(chunks.shape[-3], device=chunks.device)[:, None]
    chunk = torch.arange(8, device=chunks.device)
    return chunks[..., row, chunk ^ row % 8, :]


def pack(recipe, weights):
    """Packs matrices [out, in] of one type into bytes on their device.

    Raises:
        RuntimeError: the recipe is unknown.
    """
    if recipe == "identity":
        return weights[0].contiguous().view(torch.uint8).view(-1)
    rows = order(recipe, weights[0].device)
    if recipe == "gate_up_256":
        tiles = torch.cat([_tiles(w, _TILE_ROWS // 2) for w in weights], 1)
    else:
        tiles = torch.cat([_tiles(w, _TILE_ROWS) for w in weights])
    count, _, width = tiles.shape
    chunks = tiles[:, rows].view(count, _TILE_ROWS, width // _STEP_BYTES, 8, 16)
    return swizzle(chunks.permute(2, 0, 1, 3, 4)).reshape(-1)
