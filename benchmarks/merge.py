# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds the results of other runs to a file.

    python3 -m benchmarks.merge benchmarks/results/mlp-h200.json RUN.json...

A row or check replaces the one of the same problem; the GPU and its ceilings
are those of the last run that has them, its clocks the least and most of all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .environment import existing
from .results import Results

_LISTS = ("rows", "checks")


def merge(target: Results, source: Path) -> None:
    """Adds what a file has."""
    data = json.loads(source.read_text())
    for row in data["rows"]:
        target.add_row(row)
    for row in data["checks"]:
        target.add_check(row)
    for name, value in data.items():
        if name in _LISTS or not value:
            continue
        known = target.data.get(name)
        if name == "clocks" and known:
            pick = {"sm_mhz_min": min, "sm_mhz_max": max}
            value = {key: pick[key](known.get(key, mhz), mhz)
                     for key, mhz in value.items()}
        # A run without the stage of ceilings has some of them.
        target.data[name] = {**(known or {}), **value} \
            if isinstance(value, dict) else value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.merge",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("sources", type=existing, nargs="+")
    options = parser.parse_args(arguments)
    results = Results(options.target)
    for source in options.sources:
        merge(results, source)
    results.save()
    print(f"{options.target}: {len(results.rows)} rows, "
          f"{len(results.checks)} checks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
