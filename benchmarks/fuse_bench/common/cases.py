# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which problems are timed and which are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from .problem import ACTIVATIONS, BF16, FP8, NORMS, Problem

#: Widths and activation. The first two have target times; the others range
#: from small to large and include an odd multiple of 16.
TIMED_SHAPES = (
    (2048, 16384, "gelu_tanh"),
    (4096, 12288, "silu"),
    (1024, 3072, "silu"),
    (2064, 8208, "silu"),
    (8192, 28672, "silu"),
)
TIMED_TOKENS = (1, 8, 16, 32, 50, 64, 96, 128)
#: Cases that are timed with the lower bound but without peers: these shapes
#: with these numbers of tokens, and other widths with few, some and many.
LONE_TOKENS = (7, 33, 100)
LONE_SHAPES = (
    (1536, 8960, "silu"),
    (1552, 8976, "silu"),
    (2048, 5632, "silu"),
    (2048, 10256, "silu"),
    (3072, 8192, "silu"),
    (3584, 18944, "silu"),
    (3600, 10256, "silu"),
    (5120, 13824, "silu"),
)
CHECKED_TOKENS = (1, 7, 8, 16, 33, 50, 64, 100, 128)
#: Tiles of one launch for more tokens than that.
MIDDLE_TILES = (192, 256)
CHECKED_WIDTHS = (
    (256, 768),
    (784, 2000),
    (1024, 3072),
    (2064, 4112),
    (4096, 12288),
)
DTYPES = (BF16, FP8)


@dataclass(frozen=True)
class Case:
    """A problem and the number of tokens that its kernel is compiled for."""

    problem: Problem
    tokens: int

    def name(self) -> str:
        return f"{self.problem.label()}-t{self.tokens}"

    def to_mlir(self, scales: Mapping[str, float]) -> str:
        return self.problem.to_mlir(self.tokens, scales=scales)


def tile(tokens: int) -> int:
    """The token tile that serves a number of tokens."""
    return -(-tokens // 8) * 8


def timed_problem(
    width: int, hidden: int, act: str, dtype: str, relaxed: bool = False
) -> Problem:
    """The block of a Llama-like model."""
    return Problem(
        "gated_mlp",
        width,
        hidden,
        dtype,
        act,
        NORMS["rms0"],
        mode="relaxed" if relaxed else "exact",
        skip=("gate", "up", "act", "product") if relaxed else (),
    )


def is_lone(width: int, hidden: int, tokens: int) -> bool:
    """Whether a block is timed with the lower bound but without peers."""
    return tokens in LONE_TOKENS or (width, hidden) in (
        shape[:2] for shape in LONE_SHAPES
    )


def timed_tokens(shape: tuple[int, int, str]) -> tuple[int, ...]:
    """Up to 128 tokens with which a block is timed."""
    return (
        *((1, 50, 128) if shape in LONE_SHAPES else TIMED_TOKENS),
        *LONE_TOKENS,
    )


def timed_cases() -> Iterator[Case]:
    for shape in (*TIMED_SHAPES, *LONE_SHAPES):
        for dtype in DTYPES:
            for tokens in timed_tokens(shape):
                yield Case(timed_problem(*shape, dtype), tile(tokens))


def relaxed_cases() -> Iterator[Case]:
    for width, hidden, act in TIMED_SHAPES[:2]:
        for dtype in DTYPES:
            for tokens in (1, 16, 50, 128):
                yield Case(
                    timed_problem(width, hidden, act, dtype, True), tile(tokens)
                )


def blocks() -> Iterator[Problem]:
    """The plain block of each family and type."""
    for family, act, norm in (
        ("gated_mlp", "silu", "rms0"),
        ("mlp", "gelu", "layer"),
    ):
        for dtype in DTYPES:
            yield Problem(family, *CHECKED_WIDTHS[0], dtype, act, NORMS[norm])


def in_all_widths(base: Problem, tokens: Iterable[int]) -> Iterator[Case]:
    """A block in the widths that are checked."""
    for width, hidden in CHECKED_WIDTHS:
        for most in tokens:
            yield Case(replace(base, width=width, hidden=hidden), most)


def checked_cases() -> Iterator[Case]:
    """All families, types, activations and norms, with alternating widths and
    tiles."""
    widest = max(CHECKED_TOKENS)
    index = 0
    for base in blocks():
        for act in ACTIVATIONS:
            for norm in NORMS.values():
                width, hidden = CHECKED_WIDTHS[index % 4]
                yield Case(
                    replace(
                        base, width=width, hidden=hidden, act=act, norm=norm
                    ),
                    widest,
                )
                index += 1
            # Activations and norms meet all widths over the families.
            index += 1
        yield from in_all_widths(
            base, [*map(tile, CHECKED_TOKENS), *MIDDLE_TILES]
        )
        for variant in variants(base):
            for tokens in (16, widest):
                yield Case(variant, tokens)
        # Widths whose tiles make two equal parts.
        for variant in variants(base, CHECKED_WIDTHS[2]):
            for tokens in (widest, MIDDLE_TILES[0]):
                yield Case(variant, tokens)


def product_cases() -> Iterator[Case]:
    """Every family, type, activation and norm at every width."""
    for base in blocks():
        for act in ACTIVATIONS:
            for norm in NORMS.values():
                yield from in_all_widths(
                    replace(base, act=act, norm=norm), (max(CHECKED_TOKENS),)
                )


def product_tiles_cases() -> Iterator[Case]:
    """The same cases with alternating smaller tiles.

    Each combination is tested with five of the six tiles, in five widths.
    """
    tiles = sorted({*map(tile, CHECKED_TOKENS)})[:-1]
    for index, case in enumerate(product_cases()):
        yield replace(case, tokens=tiles[index % len(tiles)])


def variants(
    base: Problem, widths: tuple[int, int] = CHECKED_WIDTHS[1]
) -> Iterator[Problem]:
    """Optional parts of a fused op, alone and together."""
    width, hidden = widths
    base = replace(base, width=width, hidden=hidden)
    yield replace(base, biases=True)
    yield replace(base, residual=True)
    yield replace(base, then_add=True)
    yield replace(base, residual=True, add_stream=True)
    yield replace(base, residual=True, returns_stream=True)
    yield replace(
        base, residual=True, add_stream=True, biases=True, returns_stream=True
    )
    yield replace(
        base,
        mode="relaxed",
        skip=("act", "product") if base.gated else ("act",),
    )
    if base.fp8:
        yield replace(base, order="divide")


SETS = {
    "timed": timed_cases,
    "relaxed": relaxed_cases,
    "checked": checked_cases,
    "product": product_cases,
    "product-tiles": product_tiles_cases,
}


def all_cases(
    names: list[str], sets: Mapping[str, Callable[[], Iterator[Case]]] = SETS
) -> list[Case]:
    """The cases of some sets, each once."""
    cases: dict[str, Case] = {}
    for name in names:
        for case in sets[name]():
            cases.setdefault(case.name(), case)
    return list(cases.values())
