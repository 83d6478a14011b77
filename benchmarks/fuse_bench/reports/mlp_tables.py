# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of norm and MLP on one GPU, compared with PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .condense import records
from .markdown import Section, number, table
from .plot import DTYPES, LARGE

Row = dict[str, Any]
_COMPARED = ["fastest peer", "its us", "ratio", "by rounds", "95 %"]
LARGE_NAMES = " and ".join(f"{k}/{h}" for k, h in LARGE)


def weight_bytes(row: Mapping[str, Any]) -> int:
    """Bytes of the three matrices of a gated MLP."""
    return 3 * row["K"] * row["H"] * (1 if row["dtype"] == "fp8" else 2)


def flop(row: Mapping[str, Any]) -> float:
    """Operations of the three products of a gated MLP."""
    return 6.0 * row["K"] * row["H"] * row["M"]


def _place(row: Row) -> list[object]:
    return [f"{row['K']}/{row['H']}", DTYPES[row["dtype"]], row["M"]]


def _large(
    section: Section, protocol: str, least: int = 1, most: int = 8192
) -> list[Row]:
    """Rows of the large blocks, FP8 first."""
    found = [
        row
        for row in records(section[protocol])
        if (row["K"], row["H"]) in LARGE
        and least <= row["M"] <= most
        and "fuse" in row["us"]
    ]
    return sorted(
        found,
        key=lambda row: (row["K"], list(DTYPES).index(row["dtype"]), row["M"]),
    )


def _compared(row: Row) -> list[object]:
    """The cells that compare with the fastest peer."""
    if not row["peer"]:
        return [None] * len(_COMPARED)
    over = row["over"]
    return [
        row["peer"].removeprefix("torch-"),
        number(row["us"][row["peer"]], 1),
        number(row["us"][row["peer"]] / row["us"]["fuse"], 2),
        number(over[0], 3) if over else None,
        f"{over[1]:.3f} to {over[2]:.3f}" if over and len(over) > 2 else None,
    ]


def few_tokens(section: Section) -> str:
    """Single launches with up to 128 tokens that all peers were run with."""
    return table(
        ["K/H", "type", "M", "us", *_COMPARED, "over read", "read"],
        (
            [
                *_place(row),
                number(row["us"]["fuse"], 1),
                *_compared(row),
                number(row["us"]["fuse"] / row["floor_us"], 2),
                number(row["us"][row["peer"]] / row["floor_us"], 2),
            ]
            for row in _large(section, "single", most=128)
            if row["peer"]
        ),
    )


def many_tokens(section: Section) -> str:
    """Single launches with more than 128 tokens."""
    rows = []
    for row in _large(section, "single", least=129):
        time = row["us"]["fuse"]
        products = row["us"].get("cublas-products")
        bound = max(row["floor_us"] or 0, row["tensor_us"] or 0)
        rows.append(
            [
                *_place(row),
                number(time, 1),
                number(flop(row) / time / 1e6, 0),
                *_compared(row),
                number(row["us"][row["peer"]] / bound, 2)
                if row["peer"] and bound
                else None,
                number(products / time, 2) if products else None,
                number(row["sm_mhz"], 0),
            ]
        )
    return table(
        [
            "K/H",
            "type",
            "M",
            "us",
            "TFLOP/s",
            *_COMPARED,
            "limit",
            "over products",
            "MHz",
        ],
        rows,
    )


def sustained(section: Section) -> str:
    """Launches for 200 ms at a time, with clocks and power."""
    return table(
        [
            "K/H",
            "type",
            "M",
            "us",
            "TFLOP/s",
            *_COMPARED,
            "MHz",
            "W",
            "peer's MHz",
            "peer's W",
        ],
        (
            [
                *_place(row),
                number(row["us"]["fuse"], 1),
                number(flop(row) / row["us"]["fuse"] / 1e6, 0),
                *_compared(row),
                number(row["sm_mhz"], 0),
                number(row["power_w"], 0),
                number(row["peer_mhz"], 0),
                number(row["peer_w"], 0),
            ]
            for row in _large(section, "sustained")
        ),
    )


def chains(section: Section) -> str:
    """Eight layers in one graph: time for each layer, and bytes read."""

    def rate(row: Row, system: str) -> str | None:
        time = row["us"].get(system)
        return number(weight_bytes(row) / time / 1e6, 2) if time else None

    return table(
        [
            "K/H",
            "type",
            "M",
            "us",
            "TB/s",
            "us, exclusive",
            "TB/s, exclusive",
            *_COMPARED,
        ],
        (
            [
                *_place(row),
                number(row["us"]["fuse"], 1),
                rate(row, "fuse"),
                number(row["us"].get("fuse-exclusive"), 1),
                rate(row, "fuse-exclusive"),
                *_compared(row),
            ]
            for row in _large(section, "chain", most=128)
            if row["peer"]
        ),
    )


def widths(
    section: Section, tokens: Sequence[int] = (1, 7, 16, 33, 50, 100, 128)
) -> str:
    """Time over that of a read of the weights, for all blocks."""
    places: dict[tuple[Any, ...], dict[int, float]] = {}
    sizes = {}
    for row in records(section["single"]):
        if row["M"] in tokens and "fuse" in row["us"] and row["floor_us"]:
            key = (f"{row['K']}/{row['H']}", DTYPES[row["dtype"]])
            places.setdefault(key, {})[row["M"]] = (
                row["us"]["fuse"] / row["floor_us"]
            )
            sizes[key] = weight_bytes(row) / 1e6
    return table(
        ["K/H", "type", "MB", *(f"M = {m}" for m in tokens)],
        (
            [
                *key,
                number(sizes[key], 0),
                *(number(places[key].get(m), 2) or "-" for m in tokens),
            ]
            for key in sorted(places, key=lambda key: -sizes[key])
        ),
    )


def span(values: Sequence[float], digits: int = 2) -> str:
    """The least and the greatest of some values."""
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def claims(section: Section) -> str:
    """One sentence for each range of tokens, of the large blocks."""

    def gains(dtype: str, least: int, most: int) -> list[float]:
        return [
            row["us"][row["peer"]] / row["us"]["fuse"]
            for row in _large(section, "single", least, most)
            if row["peer"] and row["dtype"] == dtype
        ]

    reads = [
        row["us"]["fuse"] / row["floor_us"]
        for row in _large(section, "single", most=128)
    ]
    return (
        f"For {LARGE_NAMES}, a single launch with 1 to 128 tokens takes "
        f"{span(reads)} times as long as a read of the weights. It is "
        f"{span(gains('fp8', 1, 128))} times as fast as the fastest peer "
        f"in FP8 and {span(gains('bf16', 1, 128))} times in bf16. With "
        f"256 to 8192 tokens it is {span(gains('fp8', 129, 8192))} times "
        f"as fast in FP8 and {span(gains('bf16', 129, 8192))} times in "
        "bf16."
    )


def checks(section: Section) -> str:
    """How many checks pass."""
    found = section["checks"]
    text = (
        f"{found['passed']:,} of {found['checks']:,} checks against the "
        f"float64 reference pass, of {found['kernels']:,} kernels with "
        f"{found['launches']} launches each. {found['outside']} values "
        "are outside of the contract, and "
        f"{found['differing']} launches differ from the first in a bit."
    )
    if "memcheck" in section:
        memory = section["memcheck"]
        text += (
            f" compute-sanitizer memcheck reports {memory['errors']} "
            f"errors in {memory['checks']} checks of "
            f"{memory['kernels']} small kernels."
        )
    return text
