# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times the kernels of the other fused ops.

    python3 -m fuse_bench.suites.rows compile      # compiler's machine
    python3 -m fuse_bench.suites.rows measure      # GPU's machine

`fuse.norm_quantize` and `fuse.act_quantize` are compared with a copy of as many
bytes, `fuse.norm_linear` with a read of its weights. `measure` writes
out/results/rows-h200.json. `--memcheck` runs small kernels of all forms, for
`fuse_bench.suites.check_all`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..common.environment import (
    RAW,
    ROOT,
    read_commit,
    require_gpu,
    require_tools,
    write_json,
)
from ..common.kernels import (
    CompileError,
    _run,
    add_compiler_options,
    assemble,
)
from ..common.plan import digest, read_launches
from ..common.row_cases import cases, memcheck_cases

RESULTS = RAW / "rows-h200.json"


def compile_all(options: argparse.Namespace) -> int:
    require_tools(options.bin, "fuse-opt", "fuse-translate")
    options.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for case in memcheck_cases() if options.memcheck else cases():
        try:
            lowered = _run(
                [str(options.bin / "fuse-opt"), *options.pipeline],
                case.to_mlir(),
            )
            compiled = json.loads(
                _run(
                    [
                        str(options.bin / "fuse-translate"),
                        "--mlir-to-launch-plan",
                    ],
                    lowered,
                )
            )
            if not read_launches(compiled):
                raise CompileError("no launch")
            (module,) = compiled["modules"].values()
            ptx = options.out / f"{case.name}.ptx"
            ptx.write_text(module["ptx"])
            plan = options.out / f"{case.name}.json"
            plan.write_text(
                json.dumps(
                    {
                        "version": compiled["version"],
                        "binary": ptx.name,
                        "commit": options.commit or read_commit(),
                        "digest": digest(module["ptx"], compiled["launches"]),
                        "launches": compiled["launches"],
                    },
                    indent=1,
                )
            )
            if options.ptxas:
                assemble(plan, options.ptxas)
            print(f"{case.name}: ok", flush=True)
        except CompileError as error:
            failed += 1
            print(f"{case.name}: {error}", flush=True)
    return 1 if failed else 0


def measure_all(options: argparse.Namespace) -> int:
    require_gpu()
    # The compiler's machine needs no torch.
    from ..common.device import describe_device
    from ..reference.row_checks import RowChecks

    checks, device = RowChecks(options), describe_device()
    rows: list[dict[str, Any]] = []
    for case in memcheck_cases() if options.memcheck else cases():
        chosen = case.checked_tokens()
        if options.memcheck:
            chosen = (chosen[0], chosen[1 if case.tokens is None else -1])
        rows += [checks.run(case, tokens) for tokens in chosen]
        write_json(options.output, {**device, "rows": rows})
    return 0 if all(row["ok"] for row in rows) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.suites.rows", description=__doc__.split("\n")[0]
    )
    steps = parser.add_subparsers(required=True)
    first = steps.add_parser("compile", help="compile the kernels")
    add_compiler_options(first)
    first.set_defaults(run=compile_all)
    second = steps.add_parser("measure", help="check and time them")
    second.add_argument("--rounds", type=int, default=30)
    second.add_argument("--repeats", type=int, default=50)
    second.add_argument("--seed", type=int, default=1)
    second.add_argument("--output", type=Path, default=RESULTS)
    second.set_defaults(run=measure_all)
    for step in (first, second):
        step.add_argument("--out", type=Path, default=ROOT / "out/rows")
        step.add_argument(
            "--memcheck",
            action="store_true",
            help="take small kernels of all forms, with few numbers of tokens",
        )
    options = parser.parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
