# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels that the benchmarks run.

    python3 -m fuse_bench.common.kernels --set timed --set checked

writes one JSON file and one binary per kernel to out/kernels. It needs the
built compiler and, for cubins, ptxas; not a GPU. A kernel that does not
compile is named with the reason in out/kernels/_failures.json, and so is one
that spills registers or whose wgmma ptxas serializes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache, partial
from pathlib import Path
from typing import Any

from .cases import SETS as DECODE_SETS
from .cases import Case, all_cases
from .data import kernel_scalars
from .environment import ROOT, add_only_option, read_commit, require_tools
from .plan import digest, read_launches
from .prefill_cases import PREFILL_SETS

SETS = {**DECODE_SETS, **PREFILL_SETS}
#: Scales in the text of a problem; a plan must have the values that follow.
NOMINAL = {
    "input": 0.021,
    "gate": 0.0013,
    "up": 0.0011,
    "hidden": 0.04,
    "down": 0.0009,
}


class CompileError(RuntimeError):
    """A kernel that does not compile, or not well enough."""


def _run(command: Sequence[str], text: str = "") -> str:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        first = next(
            (line for line in done.stderr.splitlines() if "error" in line),
            done.stderr.strip()[-300:],
        )
        raise CompileError(f"{Path(command[0]).name}: {first}")
    return done.stdout


def _assemble(ptx: Path, ptxas: str) -> Path:
    """The cubin of a PTX file; spills and serialized wgmma are errors."""
    cubin = ptx.with_suffix(".cubin")
    done = subprocess.run(
        [ptxas, "-arch=sm_90a", "-v", str(ptx), "-o", str(cubin)],
        capture_output=True,
        text=True,
        check=False,
    )
    log = done.stdout + done.stderr
    if done.returncode:
        raise CompileError(f"ptxas: {log.strip()[:300]}")
    serialized = re.search(r".*\(C75\d\d\).*", log)
    if serialized:
        raise CompileError(f"ptxas: {serialized.group().strip()}")
    spills = re.findall(r"(\d+) bytes spill stores", log)
    if any(int(count) for count in spills):
        raise CompileError(f"ptxas: {max(map(int, spills))} bytes of spills")
    return cubin


def _check_scalars(case: Case, launches: list[dict[str, Any]]) -> None:
    expected = kernel_scalars(case.problem, NOMINAL)
    for launch in launches:
        for argument in launch["plan"]["arguments"]:
            if argument["kind"] != "scalar":
                continue
            name = argument["name"]
            if abs(argument["value"] - expected[name]) > 1e-6 * expected[name]:
                raise CompileError(
                    f"scalar {name} is {argument['value']}, "
                    f"expected {expected[name]}"
                )


def build(
    case: Case,
    folder: Path,
    binaries: Path,
    pipeline: Sequence[str],
    ptxas: str | None,
    commit: str,
) -> None:
    """Compiles one case into `folder`, under its own name."""
    name = case.name()
    source = case.to_mlir(NOMINAL)
    lowered = _run([str(binaries / "fuse-opt"), *pipeline], source)
    text = _run(
        [str(binaries / "fuse-translate"), "--mlir-to-launch-plan"], lowered
    )
    compiled = json.loads(text)
    if not read_launches(compiled):
        raise CompileError("no launch: the scheduled path has no kernel")
    _check_scalars(case, compiled["launches"])
    (module,) = compiled["modules"].values()
    binary = folder / f"{name}.ptx"
    binary.write_text(module["ptx"])
    if ptxas:
        assembled = _assemble(binary, ptxas)
        binary.unlink()
        binary = assembled
    data = {
        "problem": case.problem.to_json(),
        "tokens": case.tokens,
        "commit": commit,
        "binary": binary.name,
        "digest": digest(module["ptx"], compiled["launches"]),
        "version": compiled["version"],
        "launches": compiled["launches"],
    }
    # Whole or not at all: others may be waiting for it.
    partial_plan = folder / f"{name}.partial"
    partial_plan.write_text(json.dumps(data, indent=1) + "\n")
    os.replace(partial_plan, folder / f"{name}.json")


def assemble(plan: Path, ptxas: str) -> None:
    """Assembles kernels in place that were compiled without ptxas."""
    data = json.loads(plan.read_text())
    binary = plan.parent / data["binary"]
    if binary.suffix == ".ptx":
        data["binary"] = _assemble(binary, ptxas).name
        binary.unlink()
        plan.write_text(json.dumps(data, indent=1) + "\n")


def read_part(text: str) -> tuple[int, int]:
    """Reads I/N."""
    part, _, parts = text.partition("/")
    if (
        not part.isdigit()
        or not parts.isdigit()
        or not 1 <= int(part) <= int(parts)
    ):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a part: expected I/N with I from 1 to N"
        )
    return int(part), int(parts)


def choose_cases(sets: list[str], only: str) -> list[Case]:
    """The cases of some sets whose names match a regular expression.

    Without any, the program ends.
    """
    cases = all_cases(sets, SETS)
    chosen = [case for case in cases if re.search(only, case.name())]
    if not chosen:
        sys.exit(
            f"error: no kernel is called '{only}': expected part of a "
            f"name such as {cases[0].name()}"
        )
    return chosen


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option that selects sets of kernels."""
    parser.add_argument(
        "--set",
        action="append",
        choices=list(SETS),
        dest="sets",
        help="kernels to take (default: all)",
    )


def kernel_names(sets: list[str] | None) -> set[str] | None:
    """The names of the kernels of some sets; None for all."""
    return {case.name() for case in all_cases(sets, SETS)} if sets else None


@cache
def _all_names() -> frozenset[str]:
    return frozenset(case.name() for case in all_cases(list(SETS), SETS))


def case_name(label: str, tile: int) -> str:
    """The case that a kernel is of: it may serve some tokens more than it was
    compiled for, as its tiles may be multiples of 16."""
    names = [f"{label}-t{tile}", f"{label}-t{tile - 8}"]
    return next((name for name in names if name in _all_names()), names[0])


def add_compiler_options(parser: argparse.ArgumentParser) -> None:
    """Options of everything that compiles kernels."""
    parser.add_argument(
        "--bin",
        type=Path,
        default=ROOT / "build/dev/bin",
        help="directory of fuse-opt and fuse-translate",
    )
    parser.add_argument(
        "--pipeline",
        nargs="+",
        default=["--fuse-hopper-pipeline"],
        help="options of fuse-opt",
    )
    parser.add_argument(
        "--ptxas",
        default=shutil.which("ptxas"),
        help="'' keeps PTX, which the driver assembles",
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--commit", default="", help="of the compiler, where git does not tell"
    )


def run_all(
    work: Mapping[str, Callable[[], None]], folder: Path, jobs: int
) -> int:
    """Runs steps by the name of their kernel; writes failures to a file."""
    report = folder / "_failures.json"
    failures = json.loads(report.read_text()) if report.exists() else {}
    begin = time.monotonic()
    failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(step): name for name, step in work.items()}
        for done, future in enumerate(as_completed(futures), 1):
            name = futures[future]
            try:
                future.result()
                failures.pop(name, None)
                state = "ok"
            except (CompileError, OSError, ValueError, KeyError) as error:
                failures[name] = state = str(error)
                failed += 1
            print(
                f"[{done}/{len(work)} {time.monotonic() - begin:.0f} s] "
                f"{name}: {state}",
                flush=True,
            )
    report.write_text(json.dumps(failures, indent=1) + "\n")
    print(f"{len(work) - failed} of {len(work)} done, {failed} failed")
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.common.kernels", description=__doc__.split("\n")[0]
    )
    add_set_option(parser)
    add_only_option(parser, "the name of a case")
    parser.add_argument(
        "--part",
        type=read_part,
        default=(1, 1),
        metavar="I/N",
        help="compile the I-th of N parts of "
        "the cases, beside processes for the others",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out/kernels")
    parser.add_argument(
        "--force", action="store_true", help="compile what is there already"
    )
    parser.add_argument(
        "--assemble",
        action="store_true",
        help="assemble the PTX in --out instead, on a machine "
        "with ptxas and without the compiler",
    )
    add_compiler_options(parser)
    options = parser.parse_args(arguments)
    if options.assemble:
        if not options.ptxas:
            parser.error("--assemble needs ptxas")
        return run_all(
            {
                path.stem: partial(assemble, path, options.ptxas)
                for path in sorted(options.out.glob("*.json"))
                if not path.name.startswith("_")
            },
            options.out,
            options.jobs,
        )
    require_tools(options.bin, "fuse-opt", "fuse-translate")
    part, parts = options.part
    cases = choose_cases(options.sets or list(SETS), options.only)
    options.out.mkdir(parents=True, exist_ok=True)
    commit = options.commit or read_commit()
    return run_all(
        {
            case.name(): partial(
                build,
                case,
                options.out,
                options.bin,
                options.pipeline,
                options.ptxas,
                commit,
            )
            for case in cases[part - 1 :: parts]
            if options.force
            or not (options.out / f"{case.name()}.json").exists()
        },
        options.out,
        options.jobs,
    )


if __name__ == "__main__":
    sys.exit(main())
