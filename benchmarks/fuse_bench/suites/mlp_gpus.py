# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the whole table in one call, on one or several GPUs of a host.

    python3 -m fuse_bench.suites.mlp_gpus --gpus 0 1 --budget 480

compiles the kernels in the order of their timing. A process for each GPU times
rows as soon as their kernels exist. Rows are divided into parts, the most
important ones first, because the budget may cut off the last ones. Each row is
measured on one GPU, alternating between its systems. A GPU without remaining
parts times those of others. With `--first`, commands such as checks run before
the rows of a GPU, while kernels are compiled.

The results of each GPU are in a separate file until they are merged.

With `--again`, the second GPU also times some single launches of the first one,
to show how much rows differ between GPUs. They are written to another file, so
that each row of the table is from one GPU.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path

from ..common import kernels
from ..common.cases import (
    DTYPES,
    LONE_SHAPES,
    LONE_TOKENS,
    TIMED_SHAPES,
    Case,
    all_cases,
    timed_problem,
)
from ..common.environment import (
    RAW,
    ROOT,
    add_budget_option,
    end_when_told,
    pattern,
    read_commit,
    require_gpu,
    require_tools,
)
from ..common.problem import Problem

#: Number of restarts of a process that ends before its parts are done.
_STARTS = 4
#: Most rows take fewer seconds; of one that is ended nothing is lost but it.
_RESERVE = 10
#: Rows that have numbers to reach, in rounds that make them certain.
_CERTAIN = ("--rounds", "100", "--seconds", "2.5", "--sustained-rounds", "12")
_SHORT = ("--rounds", "80", "--seconds", "0.2", "--sustained-rounds", "8")


@dataclass(frozen=True)
class Part:
    """Rows of one block, measured one after the other."""

    shape: tuple[int, int, str]
    dtype: str
    tokens: tuple[int, ...]
    #: The preferred GPU of a part; there may be fewer GPUs.
    lane: int
    options: tuple[str, ...]

    @property
    def problem(self) -> Problem:
        return timed_problem(*self.shape, self.dtype)

    @property
    def name(self) -> str:
        return f"{self.problem.label()}-m{'-'.join(map(str, self.tokens))}"

    def cases(self) -> list[Case]:
        """The kernels of its rows: for each number of tokens, the one with the
        smallest tile."""
        relaxed = timed_problem(*self.shape, self.dtype, relaxed=True)
        made = all_cases(["timed", "prefill", "relaxed"], kernels.SETS)
        found = {}
        for problem in (self.problem, relaxed):
            for tokens in self.tokens:
                fits = [
                    case
                    for case in made
                    if case.problem == problem and case.tokens >= tokens
                ]
                if fits:
                    case = min(fits, key=lambda case: case.tokens)
                    found[case.name()] = case
        return list(found.values())


def make_parts() -> list[Part]:
    """All rows of the table, the most important ones first."""
    first, others = TIMED_SHAPES[:2], TIMED_SHAPES[2:]
    few = (8, 32, 64, 96)
    plan: list[
        tuple[
            Sequence[tuple[int, int, str]],
            tuple[int, ...],
            int,
            tuple[str, ...],
        ]
    ] = [
        (first, (16, 4096), 0, _CERTAIN),
        (others, (50, 128, 1, 16), 1, _SHORT),
        (first, (50, 512), 0, _CERTAIN),
        (LONE_SHAPES, (1, 50, 128, *LONE_TOKENS), 1, _SHORT),
        (first, (1, 128, 256), 0, _CERTAIN),
        (first, (1024, 2048, 8192), 1, _SHORT),
        (first, (*few, *LONE_TOKENS), 1, _SHORT),
        (others, (*few, *LONE_TOKENS), 1, _SHORT),
    ]
    return [
        Part(shape, dtype, tokens, lane, options)
        for shapes, tokens, lane, options in plan
        for shape in shapes
        for dtype in reversed(DTYPES)
    ]


def choose(parts: Iterable[Part], lane: int) -> list[Part]:
    """Parts in the order in which a GPU times them."""
    return sorted(parts, key=lambda part: part.lane != lane)


def claim(parts: Sequence[Part], lane: int, folder: Path) -> Iterator[Part]:
    """Claims and yields the parts that no other process has claimed."""
    for part in choose(parts, lane):
        try:
            (folder / f"{part.name}.taken").touch(exist_ok=False)
        except FileExistsError:
            continue
        yield part


def choose_again(parts: Iterable[Part], names: str) -> list[Part]:
    """Parts that a second GPU also times: those whose names match a regular
    expression, each with one number of tokens."""
    each = (
        replace(part, tokens=(tokens,))
        for part in parts
        for tokens in part.tokens
    )
    return [part for part in each if re.search(names, part.name)]


def wait_for(paths: Sequence[Path], ended: Path, until: float) -> None:
    """Waits for files, at most until their producer has ended."""
    while (
        not ended.exists()
        and time.time() < until
        and not all(path.exists() for path in paths)
    ):
        time.sleep(0.2)


def time_parts(options: argparse.Namespace, lane: int) -> None:
    """Times parts on one GPU."""
    os.environ["CUDA_VISIBLE_DEVICES"] = options.gpus[lane]
    # PyTorch's drivers, which the process that compiles does not need.
    from ..common.plan import load_plans
    from ..common.results import Results
    from . import mlp as mlp_h200

    folder = options.folder
    until = options.begin + options.budget

    def bench_options(*more: str) -> argparse.Namespace:
        return mlp_h200.parse(
            [
                "--worker",
                "--kernels",
                str(options.kernels),
                "--begin",
                str(options.begin),
                "--budget",
                str(options.budget),
                "--reserve",
                str(_RESERVE),
                "--output",
                str(folder / f"gpu-{options.gpus[lane]}.json"),
                *more,
            ]
        )

    bench = mlp_h200.Bench(bench_options())
    wait_for([folder / f"free-{lane}"], folder / f"free-{lane}", until)
    bench.prepare()
    bench.measure_ceilings()
    described: set[Path] = set()

    def time_part(part: Part, stages: Sequence[str]) -> None:
        wait_for(
            [options.kernels / f"{case.name()}.json" for case in part.cases()],
            folder / "compiled",
            until,
        )
        bench.plans = load_plans(options.kernels)
        if bench.results.path not in described:
            bench.describe()
            described.add(bench.results.path)
        bench.options = bench_options(
            *part.options,
            "--seed",
            str(bench.options.seed),
            "--stages",
            *stages,
            "--peers",
            *options.peers,
        )
        bench.time_problem(part.problem, part.tokens)

    if lane == 1 and options.again:
        table = bench.results
        bench.results = Results(folder / f"again-{options.gpus[lane]}.json")
        bench.results.gpu(bench.gpu).update(table.gpu(bench.gpu))
        for part in choose_again(make_parts(), options.again):
            if bench.left() >= _RESERVE:
                time_part(part, ["single"])
        bench.results.save()
        bench.results = table
    for part in claim(make_parts(), lane, folder):
        if bench.left() < _RESERVE:
            break
        stages = ["single", "sustained"]
        if min(part.tokens) <= mlp_h200.FEW_TOKENS:
            stages.append("chain")
        time_part(part, stages)
    bench.results.save()


def order_cases(parts: Sequence[Part], lanes: int) -> list[Case]:
    """Kernels in the order in which the GPUs ask for them."""
    cases: dict[str, Case] = {}
    for asked in zip(*(choose(parts, lane) for lane in range(lanes))):
        for part in asked:
            for case in part.cases():
                cases.setdefault(case.name(), case)
    return list(cases.values())


def compile_kernels(options: argparse.Namespace) -> None:
    """Compiles kernels in the order of timing; missing ones get rows with a
    note."""
    # What is timed launches in time.
    os.nice(10)
    commit = options.commit or read_commit()
    kernels.run_all(
        {
            case.name(): partial(
                kernels.build,
                case,
                options.kernels,
                options.bin,
                options.pipeline,
                options.ptxas,
                commit,
            )
            for case in order_cases(make_parts(), len(options.gpus))
            if not (options.kernels / f"{case.name()}.json").exists()
        },
        options.kernels,
        options.jobs,
    )
    (options.folder / "compiled").touch()


def run(options: argparse.Namespace) -> int:
    """Compiles, and has all GPUs time; until the budget ends."""
    folder, gpus = options.folder, options.gpus
    for path in (folder, options.kernels):
        path.mkdir(parents=True, exist_ok=True)
    # Files of an earlier call.
    for left in ("*.taken", "free-*", "compiled", "gpu-*.json", "again-*.json"):
        for path in folder.glob(left):
            path.unlink()
    context = get_context("spawn")

    def start(lane: int) -> SpawnProcess:
        process = context.Process(target=time_parts, args=(options, lane))
        process.start()
        return process

    first = {
        gpu: subprocess.Popen(
            command,
            shell=True,
            start_new_session=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu},
        )
        for gpu, command in options.first
    }
    compiler = context.Process(target=compile_kernels, args=(options,))
    compiler.start()
    timers = {lane: start(lane) for lane in range(len(gpus))}
    starts = dict.fromkeys(timers, 1)
    try:
        while timers and time.time() < options.begin + options.budget:
            time.sleep(0.2)
            if not compiler.is_alive():
                (folder / "compiled").touch()
            for lane in timers:
                before = first.get(gpus[lane])
                if before is None or before.poll() is not None:
                    (folder / f"free-{lane}").touch()
            for lane, process in list(timers.items()):
                if process.is_alive():
                    continue
                if process.exitcode == 0 or starts[lane] == _STARTS:
                    del timers[lane]
                    continue
                print(f"GPU {gpus[lane]} goes on in a new process", flush=True)
                starts[lane] += 1
                timers[lane] = start(lane)
    finally:
        for process in (*timers.values(), compiler):
            process.kill()
        for before in first.values():
            if before.poll() is None:
                os.killpg(before.pid, signal.SIGKILL)
    return merge_all(options)


def merge_all(options: argparse.Namespace) -> int:
    """Adds the results of all GPUs to the output, and repeated timings of a
    second GPU to another file."""
    from ..common.merging import forget_gpus, merge
    from ..common.results import Results

    for output, names in (
        (options.output, "gpu-*.json"),
        (options.again_output, "again-*.json"),
    ):
        found = sorted(options.folder.glob(names))
        if not found and output == options.output:
            print("no results", file=sys.stderr)
            return 1
        if not found:
            continue
        results = Results(output)
        for path in found:
            merge(results, path)
        forget_gpus(results)
        results.save()
        print(
            f"{output}: {len(results.rows)} rows, {len(results.checks)} checks"
        )
    return 0


def read_first(text: str) -> tuple[str, str]:
    """Reads GPU=COMMAND."""
    gpu, _, command = text.partition("=")
    if not gpu.isalnum() or not command:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a command of a GPU: expected GPU=COMMAND"
        )
    return gpu, command


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.suites.mlp_gpus", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--gpus",
        nargs="+",
        default=["0"],
        metavar="GPU",
        help="which, those with rows that have numbers to "
        "reach first (default: 0)",
    )
    add_budget_option(parser, "everything ends")
    parser.add_argument(
        "--first",
        action="append",
        default=[],
        type=read_first,
        metavar="GPU=COMMAND",
        help="runs on a GPU before its rows do",
    )
    parser.add_argument("--kernels", type=Path, default=ROOT / "out/kernels")
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "out/tables",
        help="for the results of each GPU",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=RAW / "mlp-h200.json",
        help="rows replace those of the same problem in this "
        "file (default: %(default)s)",
    )
    parser.add_argument(
        "--again",
        type=pattern,
        metavar="REGEX",
        help="single launches that the second GPU times, too, "
        "of rows whose names contain this, such as "
        "'2048x16384-bf16-.*-m16$'",
    )
    parser.add_argument(
        "--again-output",
        type=Path,
        default=RAW / "mlp-again-h200.json",
        help="for those rows (default: %(default)s)",
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        default=["eager", "compile", "autotune", "autotune-dynamic"],
    )
    parser.add_argument(
        "--begin", type=float, default=time.time(), help=argparse.SUPPRESS
    )
    kernels.add_compiler_options(parser)
    options = parser.parse_args(arguments)
    for gpu, _ in options.first:
        if gpu not in options.gpus:
            parser.error(
                f"--first: GPU {gpu} is none of --gpus {' '.join(options.gpus)}"
            )
    if options.again and len(options.gpus) < 2:
        parser.error(
            f"--again: there is no second GPU among --gpus {options.gpus[0]}"
        )
    if options.again and not choose_again(make_parts(), options.again):
        parser.error(
            f"--again: no row is called '{options.again}': expected "
            f"part of a name such as "
            f"{choose_again(make_parts(), '')[0].name}"
        )
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    end_when_told()
    require_tools(options.bin, "fuse-opt", "fuse-translate")
    require_gpu()
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
