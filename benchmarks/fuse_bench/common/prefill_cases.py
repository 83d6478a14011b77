# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which problems with many tokens are timed and which are checked."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .cases import (
    CHECKED_WIDTHS,
    DTYPES,
    MIDDLE_TILES,
    TIMED_SHAPES,
    Case,
    blocks,
    in_all_widths,
    timed_problem,
    variants,
)
from .problem import ACTIVATIONS, NORMS

PREFILL_SHAPES = TIMED_SHAPES[:2]
PREFILL_TOKENS = (256, 512, 1024, 2048, 4096, 8192)
#: Kernels compiled for the last are checked with all, the others with those
#: that they serve.
PREFILL_CHECKED_TOKENS = (
    129,
    200,
    256,
    300,
    384,
    511,
    512,
    513,
    640,
    641,
    1000,
    4096,
)
SWEPT_TOKENS = tuple(range(160, 1025, 32))


def timed_cases() -> Iterator[Case]:
    for width, hidden, act in PREFILL_SHAPES:
        for dtype in DTYPES:
            for tokens in PREFILL_TOKENS:
                yield Case(timed_problem(width, hidden, act, dtype), tokens)


def swept_cases() -> Iterator[Case]:
    """Neighboring numbers of tokens, to see where time jumps."""
    width, hidden, act = PREFILL_SHAPES[0]
    for dtype in DTYPES:
        for tokens in SWEPT_TOKENS:
            yield Case(timed_problem(width, hidden, act, dtype), tokens)


def checked_cases() -> Iterator[Case]:
    """Every family, type, activation, norm and optional part."""
    index = 0
    norms = list(NORMS.values())
    for base in blocks():
        for act in ACTIVATIONS:
            width, hidden = CHECKED_WIDTHS[index % 4]
            yield Case(
                replace(
                    base,
                    width=width,
                    hidden=hidden,
                    act=act,
                    norm=norms[index % len(norms)],
                ),
                512,
            )
            # Activations and norms meet all widths over the families.
            index += 1
        index += 1
        yield from in_all_widths(base, (256, 1000, 4096))
        for variant in variants(base):
            yield Case(variant, 300)


def product_cases() -> Iterator[Case]:
    """The plain block of each family and type at every width."""
    for base in blocks():
        yield from in_all_widths(base, (MIDDLE_TILES[-1], 512, 4096))


def choose_tokens(
    most: int, label: str, few: Sequence[int], every: bool = False
) -> list[int]:
    """Numbers of tokens that a kernel for up to `most` is checked with."""
    tokens = [m for m in few if m <= most]
    # A tile's own kernel is compiled for its largest numbers of tokens; tile
    # 128 is checked with all of them.
    if most <= 128:
        return tokens[-3:] if most < 128 else tokens
    # Kernels for all numbers of tokens are checked with all of them. Others are
    # checked with three alternating ones and with that of their schedule.
    served = [m for m in PREFILL_CHECKED_TOKENS if m <= most]
    if every or len(served) == len(PREFILL_CHECKED_TOKENS):
        return served
    if most <= max(MIDDLE_TILES):
        return sorted({33, 129, most - 55, most})
    turn = zlib.crc32(label.encode())
    return sorted(
        {served[(turn + i) % len(served)] for i in range(3)}
        | {min(most, max(served))}
    )


PREFILL_SETS = {
    "prefill": timed_cases,
    "prefill-sweep": swept_cases,
    "prefill-checked": checked_cases,
    "prefill-product": product_cases,
}
