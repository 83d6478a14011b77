# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds results of kernels that the compiler no longer makes.

    python3 -m fuse_bench.reports.stale [FILE]

compiles the kernels that FILE names to PTX, and compares their digests with
those of its rows and checks. A digest is that of the PTX and of the launches.
FILE is benchmarks/results/kernels.json by default, which has the digests of
all measured kernels; a raw results file works too, or what
`fuse_bench.reference.sum_checks` made of one. No GPU is needed. With `--drop`,
a raw file keeps only what still holds.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..common.cases import Case, all_cases, timed_problem
from ..common.environment import (
    SUMMARY,
    add_only_option,
    existing,
    read_commit,
    require_tools,
)
from ..common.kernels import (
    SETS,
    add_compiler_options,
    build,
    case_name,
    run_all,
)
from ..common.problem import BF16, FP8
from ..common.results import Results


def kernel_of(row: dict[str, Any]) -> str | None:
    """The case of the kernel of a row or check; None if it is a peer's."""
    if "kernel" in row:
        return str(row["kernel"])
    if "case" in row:
        return case_name(row["case"], row["tile"])
    if not row["system"].startswith("fuse"):
        return None
    problem = timed_problem(
        row["K"],
        row["H"],
        row["act"],
        FP8 if row["dtype"] == "fp8" else BF16,
        row["system"].startswith("fuse-relaxed"),
    )
    return case_name(problem.label(), row.get("tile", 0))


def make_digests(
    names: set[str], options: argparse.Namespace, folder: Path
) -> dict[str, str]:
    """The digests of kernels that are cases of some set, by their names."""
    cases: dict[str, Case] = {
        case.name(): case for case in all_cases(list(SETS), SETS)
    }
    run_all(
        {
            name: partial(
                build,
                cases[name],
                folder,
                options.bin,
                options.pipeline,
                None,
                read_commit(),
            )
            for name in sorted(names & cases.keys())
            if not (folder / f"{name}.json").exists()
        },
        folder,
        options.jobs,
    )
    return {
        path.stem: json.loads(path.read_text()).get("digest", "")
        for path in folder.glob("*.json")
        if not path.name.startswith("_")
    }


def describe(row: dict[str, Any]) -> str:
    """One line for a row or check."""
    if "kernel" in row:
        return f"{row['kind']}s of {row['kernel']}"
    if "case" in row:
        return f"check {kernel_of(row)} M={row.get('M', row.get('tokens'))}"
    return (
        f"row {row['K']}/{row['H']} {row['dtype']} M={row['M']} "
        f"{row['system']} {row['protocol']}"
    )


def summarized(
    kernels: dict[str, dict[str, list[Any]]],
) -> list[dict[str, Any]]:
    """The rows and checks of each kernel of the summary, as one row each."""
    return [
        {
            "kernel": f"{label}-t{tile}",
            "digest": digest,
            "kind": kind,
            "count": count,
        }
        for label, tiles in kernels.items()
        for tile, (digest, rows, checks) in tiles.items()
        for kind, count in (("row", rows), ("check", checks))
        if count
    ]


def is_stale(row: dict[str, Any], digest: str) -> bool:
    """Whether a row is of another kernel than the one with this digest; the
    summary keeps the first digits of a digest."""
    return not row.get("digest") or not digest.startswith(row["digest"])


def count(rows: list[dict[str, Any]]) -> int:
    """The number of rows and checks; one of the summary may count for many."""
    return sum(row.get("count", 1) for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.reports.stale", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "results",
        type=existing,
        nargs="?",
        default=SUMMARY / "kernels.json",
        help="default: %(default)s",
    )
    parser.add_argument(
        "--kernels", type=Path, help="where compiled kernels are, and go to"
    )
    add_only_option(parser, "what is looked at")
    parser.add_argument(
        "--drop", action="store_true", help="remove what is stale from the file"
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="compile one in N of the kernels",
    )
    add_compiler_options(parser)
    options = parser.parse_args(arguments)
    require_tools(options.bin, "fuse-opt", "fuse-translate")
    data = json.loads(options.results.read_text())
    kernels = data.get("kernels", [])
    if kernels and options.drop:
        parser.error(
            f"{options.results} has sums of checks, which stay until "
            "there are later ones: --drop is for rows"
        )
    results = None if isinstance(kernels, dict) else Results(options.results)
    rows = (
        summarized(kernels)
        if results is None
        else [*results.rows, *results.checks, *kernels]
    )
    named = [
        (row, name)
        for row in rows
        if (name := kernel_of(row)) and re.search(options.only, describe(row))
    ]
    names = {name for row, name in named if row.get("digest")}
    if options.sample > 1:
        names = set(sorted(names)[:: options.sample])
        named = [(row, name) for row, name in named if name in names]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.kernels or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        digests = make_digests(names, options, folder)
    stale = [row for row, name in named if is_stale(row, digests.get(name, ""))]
    for row in stale:
        print(describe(row) + ("" if row.get("digest") else ": no digest"))
    for kind in ("row", "check"):
        mine, bad = (
            [
                row
                for row in found
                if row.get("kind", "check" if "case" in row else "row") == kind
            ]
            for found in ([row for row, _ in named], stale)
        )
        print(
            f"{count(mine) - count(bad)} of {count(mine)} {kind}s are of "
            "kernels that the compiler makes"
        )
    if results is not None and options.drop and stale:
        results.remove(stale)
        results.save()
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
