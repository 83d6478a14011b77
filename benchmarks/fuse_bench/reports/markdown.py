# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables and setups in Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Section = Mapping[str, Any]


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; cells that are None stay empty.

    >>> print(table(["M", "us"], [[1, "2.0"], [8, None]]))
    | M | us |
    |---|---|
    | 1 | 2.0 |
    | 8 |  |
    """
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += [
        "| "
        + " | ".join("" if cell is None else str(cell) for cell in row)
        + " |"
        for row in rows
    ]
    return "\n".join(lines)


def number(value: float | None, digits: int) -> str | None:
    """`value` with `digits` digits after the point, and commas."""
    return None if value is None else f"{value:,.{digits}f}"


def significant(value: float) -> str:
    """Three significant digits, without an exponent.

    >>> [significant(value) for value in (0.16571, 14.84, 118.13, 1395)]
    ['0.166', '14.8', '118', '1395']
    """
    digits = 2 - math.floor(math.log10(abs(value))) if abs(value) >= 1 else 3
    return f"{value:.{max(0, digits)}f}"


def _clocks(clocks: object) -> str:
    if isinstance(clocks, dict) and "sm_mhz_min" in clocks:
        return (
            f"SM clock {clocks['sm_mhz_min']:.0f} to "
            f"{clocks['sm_mhz_max']:.0f} MHz"
        )
    if isinstance(clocks, dict):
        return f"SM clock {clocks['sm']} MHz when read"
    return f"SM clock {clocks}"


def setup(section: Section) -> str:
    """Device, driver, clocks, versions, commit, date and command."""
    parts = [section["device"]] if "device" in section else []
    if "driver" in section:
        parts.append(f"driver {section['driver']}")
    if "clocks" in section:
        parts.append(_clocks(section["clocks"]))
    parts += [
        f"{name} {version}"
        for name, version in section.get("versions", {}).items()
    ]
    if "commit" in section:
        parts.append(
            "commit "
            + re.sub(r"\b([0-9a-f]{7})[0-9a-f]{5,}\b", r"\1", section["commit"])
        )
    if "date" in section:
        parts.append(section["date"])
    elif "commit_date" in section:
        parts.append(f"committed on {section['commit_date']}")
    command = section["command"]
    ways = " and ".join(f"`{way}`" for way in command.split("; "))
    text = ", ".join(parts) + f". Measured by {ways}."
    return (
        text.lstrip(". ").replace("commit", "Commit", 1)
        if text.startswith("commit")
        else text.lstrip(". ")
    )


def paragraph(text: str) -> str:
    """Text in lines of 80 columns."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > 80:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])
