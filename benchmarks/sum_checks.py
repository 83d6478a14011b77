# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums up checks, a row for each kernel.

    python3 -m benchmarks.sum_checks RUN.json... -o benchmarks/results/product-h200.json

Runs are files of `benchmarks.mlp_h200 --stages check`. A row has the numbers of
tokens that the kernel was checked with, the least share of equal hidden units
and the largest errors of them all. Of a kernel in several runs the last one
counts, with the numbers of tokens of all runs of the same digest.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .environment import existing, write_json

#: How the worst of several checks is found, by the name of a column.
WORST = {"repeats": min, "input_equal": min, "hidden_equal": min,
         "out_equal": min, "differing_repeats": max, "poisoned": max,
         "input_outside": max, "hidden_outside": max, "out_outside": max,
         "stream_outside": max, "chain_rel_err": max, "rel_err": max}


def sum_up(checks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each kernel, in the order of their names."""
    kernels: dict[tuple[str, int], dict[int, dict[str, Any]]] = {}
    for check in checks:
        known = kernels.setdefault((check["case"], check["tile"]), {})
        if known and next(iter(known.values())).get("digest") != \
                check.get("digest"):
            known.clear()
        known[check["M"]] = check
    rows = []
    for (case, tile), found in sorted(kernels.items()):
        last = list(found.values())[-1]
        row: dict[str, Any] = {
            "case": case, "tile": tile, "tokens": sorted(found),
            "ok": all(check["ok"] for check in found.values())}
        for name, worst in WORST.items():
            values = [check[name] for check in found.values() if name in check]
            if values:
                row[name] = worst(values)
        rows.append({**row, "commit": last.get("commit", ""),
                     "digest": last.get("digest", "")})
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.sum_checks",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=existing, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    data = [json.loads(path.read_text()) for path in options.runs]
    rows = sum_up(check for run in data for check in run["checks"])
    head = {name: data[-1].get(name) for name in ("gpu", "driver", "versions")}
    write_json(options.output, {**head, "kernels": rows})
    bad = [row for row in rows if not row["ok"]]
    for row in bad:
        print(f"{row['case']} tile {row['tile']} failed")
    print(f"{options.output}: {len(rows)} kernels, "
          f"{sum(len(row['tokens']) for row in rows)} checks, "
          f"{len(bad)} kernels failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
