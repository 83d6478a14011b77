# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Merges files of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .kernels import case_name
from .results import Results, Row

_LISTS = ("rows", "checks")


def place(row: Row) -> tuple[Any, ...]:
    """The key of a row, which all systems of the row share."""
    return tuple(
        row.get(name) for name in ("K", "H", "M", "act", "dtype", "protocol")
    )


def merge(target: Results, source: Path, names: set[str] | None = None) -> None:
    """Adds the contents of a file, and its checks of the named kernels."""
    data = json.loads(source.read_text())
    timed = {
        place(row)
        for row in data["rows"]
        if row["system"] == "fuse" and row.get("median_us")
    }
    target.remove([row for row in target.rows if place(row) in timed])
    for row in data["rows"]:
        target.add_row(row)
    for row in data["checks"]:
        if names is None or case_name(row["case"], row["tile"]) in names:
            target.add_check(row)
    for name, value in data.items():
        if name in _LISTS or name == "gpus" or not value:
            continue
        known = target.data.get(name)
        target.data[name] = (
            {**(known or {}), **value} if isinstance(value, dict) else value
        )
    for name, gpu in data.get("gpus", {}).items():
        merge_gpu(target.gpu(name), gpu)


def merge_gpu(
    known: dict[str, dict[str, float]], more: dict[str, dict[str, float]]
) -> None:
    """Clocks become the least and most of both; a run without the stage of
    ceilings has some of them."""
    for name, pick in (("sm_mhz_min", min), ("sm_mhz_max", max)):
        if name in more["clocks"]:
            mhz = more["clocks"][name]
            known["clocks"][name] = pick(known["clocks"].get(name, mhz), mhz)
    known["ceilings"].update(more["ceilings"])


def forget_gpus(target: Results) -> None:
    """Drops the GPUs that no row names."""
    named = {row.get("gpu") for row in target.rows}
    target.data["gpus"] = {
        name: gpu for name, gpu in target.data["gpus"].items() if name in named
    }
