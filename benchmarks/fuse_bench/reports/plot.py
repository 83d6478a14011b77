# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plots of norm and MLP from the summary: time against tokens, decode bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import svg
from .condense import records

Section = Mapping[str, Any]
#: Blocks that all peers were measured with.
LARGE = ((2048, 16384), (4096, 12288))
DTYPES = {"fp8": "FP8", "bf16": "bf16"}
#: Systems of the plots, in the order of their legends.
SYSTEMS = (
    "fuse",
    "torch-compile-autotune",
    "torch-compile",
    "torch-eager",
    "cublas-products",
)
_BARS = SYSTEMS[:4]
_BAR_TOKENS = (1, 16, 50, 128)


def note(section: Section) -> str:
    """Device, driver and commit in one line."""
    return (
        f"{section['device']}, driver {section['driver']}, commit "
        f"{section['commit'][:7]}"
    )


def _single(
    section: Section, k: int, h: int, dtype: str
) -> list[dict[str, Any]]:
    return [
        row
        for row in records(section["single"])
        if (row["K"], row["H"], row["dtype"]) == (k, h, dtype)
        and "fuse" in row["us"]
    ]


def times(section: Section) -> str:
    """Time against the number of tokens, one panel for each block and type."""
    panels = []
    for k, h in LARGE:
        for dtype, name in DTYPES.items():
            rows = _single(section, k, h, dtype)
            lines = {
                system: {
                    row["M"]: row["us"][system]
                    for row in rows
                    if system in row["us"]
                }
                for system in SYSTEMS
            }
            lines["read"] = {
                row["M"]: row["floor_us"]
                for row in rows
                if row["floor_us"] and row["M"] <= 128
            }
            panel = svg.Panel(f"{k}/{h}, {name}", "tokens", "us")
            svg.log_lines(
                panel, {system: line for system, line in lines.items() if line}
            )
            panels.append(panel)
    return svg.sheet(panels, (*SYSTEMS, "read"), note(section))


def decode(section: Section) -> str:
    """Single launches with few tokens as bars."""
    panels = []
    for k, h in LARGE:
        for dtype, name in DTYPES.items():
            rows = {row["M"]: row for row in _single(section, k, h, dtype)}
            panel = svg.Panel(f"{k}/{h}, {name}", "tokens", "us")
            numbers = [m for m in _BAR_TOKENS if m in rows]
            svg.bars(
                panel,
                {
                    str(m): {
                        system: rows[m]["us"][system]
                        for system in _BARS
                        if system in rows[m]["us"]
                    }
                    for m in numbers
                },
                _BARS,
                {str(m): rows[m]["floor_us"] for m in numbers},
            )
            panels.append(panel)
    return svg.sheet(panels, (*_BARS, "read"), note(section))
