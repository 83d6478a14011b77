# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds the results of other runs to a file.

    python3 -m fuse_bench.reports.merge out/results/mlp-h200.json RUN.json...

A row or check replaces the one of the same problem, so that runs on the GPUs
of one host, each with other rows, make one file. Where our kernel was timed
again, earlier rows of its peers go: ratios hold within a run. With `--set`,
checks of the kernels of other sets are left out. Clocks and ceilings are kept
for each GPU that a row names.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..common.environment import existing
from ..common.kernels import add_set_option, kernel_names
from ..common.merging import forget_gpus, merge
from ..common.results import Results


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.reports.merge", description=__doc__.split("\n")[0]
    )
    parser.add_argument("target", type=Path)
    parser.add_argument("sources", type=existing, nargs="+")
    add_set_option(parser)
    options = parser.parse_args(arguments)
    results = Results(options.target)
    for source in options.sources:
        merge(results, source, kernel_names(options.sets))
    forget_gpus(results)
    results.save()
    print(
        f"{options.target}: {len(results.rows)} rows, "
        f"{len(results.checks)} checks"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
