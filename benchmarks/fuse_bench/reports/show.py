# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the tables of a raw results file of `fuse_bench.suites.mlp`.

    python3 -m fuse_bench.reports.show [RESULTS.json]

All systems side by side for each type, the fastest peer, and the number of
checks that passed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..common.environment import RAW, existing
from ..common.results import Results, tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.reports.show",
        description="Prints the tables of a file of fuse_bench.suites.mlp.",
    )
    parser.add_argument(
        "results",
        type=existing,
        nargs="?",
        default=RAW / "mlp-h200.json",
        help="default: %(default)s",
    )
    print(tables(Results(parser.parse_args(arguments).results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
