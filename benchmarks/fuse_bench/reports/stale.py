# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which results are of kernels that the compiler makes no longer.

    python3 -m fuse_bench.reports.stale out/results/mlp-h200.json

compiles the kernels that a results file names, to PTX, and compares their
digests with those of the rows and checks, or of what `fuse_bench.reference.sum_checks`
made of them. It needs no GPU. With `--drop`, the file keeps only what still
holds.
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
    if "case" in row:
        return case_name(row["case"], row["tile"])
    if not row["system"].startswith("fuse"):
        return None
    problem = timed_problem(row["K"], row["H"], row["act"],
                            FP8 if row["dtype"] == "fp8" else BF16,
                            row["system"].startswith("fuse-relaxed"))
    return case_name(problem.label(), row.get("tile", 0))


def make_digests(names: set[str], options: argparse.Namespace, folder: Path
                 ) -> dict[str, str]:
    """The digests of kernels that are cases of some set, by their names."""
    cases: dict[str, Case] = {case.name(): case for case in
                              all_cases(list(SETS), SETS)}
    run_all({name: partial(build, cases[name], folder, options.bin,
                           options.pipeline, None, read_commit())
             for name in sorted(names & cases.keys())
             if not (folder / f"{name}.json").exists()},
            folder, options.jobs)
    return {path.stem: json.loads(path.read_text()).get("digest", "")
            for path in folder.glob("*.json")
            if not path.name.startswith("_")}


def describe(row: dict[str, Any]) -> str:
    """One line for what is stale."""
    if "case" in row:
        return f"check {kernel_of(row)} M={row.get('M', row.get('tokens'))}"
    return (f"row {row['K']}/{row['H']} {row['dtype']} M={row['M']} "
            f"{row['system']} {row['protocol']}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuse_bench.reports.stale",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("results", type=existing)
    parser.add_argument("--kernels", type=Path,
                        help="where compiled kernels are, and go to")
    add_only_option(parser, "what is looked at")
    parser.add_argument("--drop", action="store_true",
                        help="remove what is stale from the file")
    add_compiler_options(parser)
    options = parser.parse_args(arguments)
    require_tools(options.bin, "fuse-opt", "fuse-translate")
    results = Results(options.results)
    summed = results.data.get("kernels", [])
    if summed and options.drop:
        parser.error(f"{options.results} has sums of checks, which stay until "
                     "there are later ones: --drop is for rows")
    named = [(row, kernel_of(row)) for row in
             [*results.rows, *results.checks, *summed]
             if re.search(options.only, describe(row))]
    names = {name for row, name in named if name and row.get("digest")}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.kernels or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        digests = make_digests(names, options, folder)
    stale = [row for row, name in named if name and (
        not row.get("digest") or row["digest"] != digests.get(name))]
    for row in stale:
        print(describe(row) + ("" if row.get("digest") else ": no digest"))
    for kind in ("row", "check"):
        mine = [row for row, name in named
                if name and ("case" in row) == (kind == "check")]
        bad = [row for row in stale if ("case" in row) == (kind == "check")]
        print(f"{len(mine) - len(bad)} of {len(mine)} {kind}s are of kernels "
              "that the compiler makes")
    if options.drop and stale:
        results.remove(stale)
        results.save()
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
