# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plot of an artifact that serves every number of tokens.

One panel for each block and type: the kernel that the launch picks, and the
library's products alone. Vertical lines are borders of the ranges of tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import svg
from .condense import records
from .plot import note

_COLUMNS = {"fuse": "us", "cublas-products": "products_us"}


def lines_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, float]]:
    """Microseconds by number of tokens for each line of a panel."""
    lines: dict[str, dict[int, float]] = {name: {} for name in _COLUMNS}
    for row in rows:
        for name, column in _COLUMNS.items():
            if row.get(column):
                lines[name][row["M"]] = row[column]
    return lines


def draw(section: Mapping[str, Any]) -> str:
    """The SVG of the section `sweep`."""
    panels = []
    groups: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    for row in records(section):
        groups.setdefault((row["K"], row["H"], row["dtype"]), []).append(row)
    for (k, h, dtype), rows in sorted(groups.items()):
        panel = svg.Panel(
            f"{k}/{h}, {'bf16' if dtype == 'bf16' else 'FP8'}", "tokens", "us"
        )
        most = max(row["M"] for row in rows)
        svg.linear_lines(
            panel,
            lines_of(rows),
            128,
            sorted({row["range"] for row in rows if row["range"] < most}),
        )
        panels.append(panel)
    return svg.sheet(
        panels, tuple(_COLUMNS), f"{note(section)}; {section['protocol']}"
    )
