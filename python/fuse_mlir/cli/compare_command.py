# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `compare`, which prints how results differ from a reference."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def add_compare(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Adds the command to a parser."""
    command = commands.add_parser(
        "compare",
        help="print how results differ from a reference",
        description="Prints for each result the largest and the relative "
        "difference from REFERENCE and how many elements differ by how many "
        "units in the last place.",
    )
    command.add_argument("reference", type=Path)
    command.add_argument("results", metavar="NAME=FILE", nargs="+")
    command.add_argument(
        "--element", default="bf16", help="type the results are rounded to"
    )
    command.add_argument(
        "--max-relative",
        type=float,
        metavar="BOUND",
        help="fail where the relative difference in the L2 norm is larger",
    )
    command.add_argument(
        "--identical",
        action="store_true",
        help="fail where any element differs",
    )
    command.add_argument(
        "--yardstick",
        metavar="NAME",
        help="fail where a result is farther from REFERENCE in the L2 norm "
        "than FACTOR times the result NAME",
    )
    command.add_argument("--factor", type=float, default=1.5)
    command.set_defaults(run=_run_compare)


def _run_compare(options: argparse.Namespace) -> int:
    import numpy as np

    from fuse_mlir.calibration.compare import difference, table

    def load(path: str) -> np.ndarray:
        with open(path, "rb") as file:
            try:
                return np.lib.format.read_array(file)
            except ValueError as error:
                raise ValueError(
                    f"{path}: not a .npy file that can be read: {error}"
                ) from error

    reference = load(options.reference)
    rows = {}
    for item in options.results:
        name, equals, path = item.partition("=")
        if not equals:
            raise ValueError(f"bad result '{item}'; expected NAME=FILE")
        rows[name] = difference(load(path), reference, options.element)
    print(table(rows, options.element))
    status = 0
    bound = options.max_relative
    if options.yardstick is not None:
        if options.yardstick not in rows:
            raise ValueError(
                f"no result '{options.yardstick}'; expected one "
                "of " + ", ".join(rows)
            )
        yard = options.factor * rows[options.yardstick].relative_l2
        bound = yard if bound is None else min(bound, yard)
    for name, row in rows.items():
        if row.nonfinite_mismatches:
            print(
                f"{name}: {row.nonfinite_mismatches} elements are finite "
                "or NaN on one side only"
            )
            status = 1
        if options.identical and not row.identical:
            print(f"{name}: not identical")
            status = 1
        if bound is not None and not row.relative_l2 <= bound:
            print(
                f"{name}: relative difference {row.relative_l2:.2e} "
                f"exceeds {bound:.2e}"
            )
            status = 1
    return status
