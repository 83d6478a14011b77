# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums up checks, a row for each kernel.

    python3 -m fuse_bench.reference.sum_checks out/results/product-h200.json \\
        RUN.json... --set product -o out/results/product-h200.json

Runs are files of `fuse_bench.suites.check_all` or `fuse_bench.suites.mlp`, or
earlier outputs of this program. A row has the numbers of tokens that the kernel
was checked with, the least share of equal hidden units and the largest errors
of all checks. Of a kernel in several runs the last one counts, with the numbers
of tokens of all runs of the same digest, and of each number its last check.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..common.environment import existing, write_json
from ..common.kernels import add_set_option, case_name, kernel_names

#: How the worst of several checks is found, by the name of a column.
WORST = {
    "repeats": min,
    "input_equal": min,
    "hidden_equal": min,
    "out_equal": min,
    "differing_repeats": max,
    "poisoned": max,
    "input_outside": max,
    "hidden_outside": max,
    "out_outside": max,
    "stream_outside": max,
    "chain_rel_err": max,
    "rel_err": max,
}


def sum_up(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each kernel, in the order of their names."""
    kernels: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for run in runs:
        for row in [
            *run.get("kernels", []),
            *(
                {**check, "tokens": [check["M"]]}
                for check in run.get("checks", [])
            ),
        ]:
            known = kernels.setdefault((row["case"], row["tile"]), [])
            # Repeated checks replace earlier ones.
            known[:] = [
                one
                for one in known
                if one.get("digest") == row.get("digest")
                and not {*one["tokens"]} <= {*row["tokens"]}
            ]
            known.append(row)
    return [add_up(rows) for _, rows in sorted(kernels.items())]


def add_up(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The worst of several rows of one kernel."""
    last = rows[-1]
    result: dict[str, Any] = {
        "case": last["case"],
        "tile": last["tile"],
        "tokens": sorted({m for row in rows for m in row["tokens"]}),
        "ok": all(row["ok"] for row in rows),
    }
    for name, worst in WORST.items():
        values = [row[name] for row in rows if name in row]
        if values:
            result[name] = worst(values)
    return {
        **result,
        "commit": last.get("commit", ""),
        "digest": last.get("digest", ""),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.reference.sum_checks",
        description=__doc__.split("\n")[0],
    )
    parser.add_argument("runs", type=existing, nargs="+")
    add_set_option(parser)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    data = [json.loads(path.read_text()) for path in options.runs]
    names = kernel_names(options.sets)
    rows = [
        row
        for row in sum_up(data)
        if names is None or case_name(row["case"], row["tile"]) in names
    ]
    head = {name: data[-1].get(name) for name in ("gpu", "driver", "versions")}
    write_json(options.output, {**head, "kernels": rows})
    bad = [row for row in rows if not row["ok"]]
    for row in bad:
        print(f"{row['case']} tile {row['tile']} failed")
    print(
        f"{options.output}: {len(rows)} kernels, "
        f"{sum(len(row['tokens']) for row in rows)} checks, "
        f"{len(bad)} kernels failed"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
