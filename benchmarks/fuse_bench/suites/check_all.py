# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks sets of kernels by many processes, while others still compile.

    python3 -m fuse_bench.suites.check_all --set product --jobs 16 \\
        --processes 12 --resume out/results/mlp-h200.json \\
        --output out/checks.json

runs on a machine with both the compiler and a GPU. A kernel is checked as soon
as it is compiled, unless a file of `--resume` has good checks of the same
digest. Kernels are started in the order of the sets. The GPU memory of checks
is bounded. A check without enough memory is repeated alone at the end.
Processes that die or hang are replaced, and their check is bad. The output is a
results file like that of `fuse_bench.suites.mlp`, for
`fuse_bench.reports.merge` and `fuse_bench.reference.sum_checks`. In the stage
`memcheck`, small kernels of all forms (`memcheck_cases.py`) and of the other
fused ops run under compute-sanitizer. The last lines have the numbers of
checked, bad and remaining kernels.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..common.cases import CHECKED_TOKENS, Case, all_cases
from ..common.device import describe_device
from ..common.environment import (
    ROOT,
    add_only_option,
    add_run_options,
    choose_seed,
    end_when_told,
    existing,
    pattern,
    read_commit,
    require_gpu,
    require_tools,
)
from ..common.kernels import (
    SETS,
    add_compiler_options,
    add_set_option,
    assemble,
    build,
    choose_cases,
)
from ..common.memcheck_cases import memcheck_cases
from ..common.plan import Plan
from ..common.prefill_cases import choose_tokens
from ..common.results import Known, Results, read_known
from ..reference.checks import (
    bad_row,
    lacks_memory,
    loses_device,
    memory_bytes,
)
from .check_worker import COMMAND, GIGABYTE, Board, Task, Worker, WorkerError

#: Sets whose kernels are checked with every number of tokens.
_EVERY = ("prefill-product",)
#: Numbers of tokens of a kernel under compute-sanitizer: more kinds of kernels
#: show more than more numbers of one.
_FEW = 3
#: Kernels per process under compute-sanitizer, which never releases freed GPU
#: memory: about one gigabyte per check.
_RENEWED = 4
#: Writes errors to a file for each process. Calls that fail are not errors of
#: kernels: checks look at them, and other processes may leave no memory.
MEMCHECK = (
    "compute-sanitizer",
    "--tool",
    "memcheck",
    "--report-api-errors",
    "no",
    "--log-file",
)


def spread(tokens: Sequence[int], most: int) -> tuple[int, ...]:
    """Evenly spaced numbers, including the first and the last."""
    last = len(tokens) - 1
    return (
        tuple(tokens)
        if last < most
        else tuple(tokens[index * last // (most - 1)] for index in range(most))
    )


class Stage:
    """One run over kernels: compiles what is missing, and checks it."""

    def __init__(
        self,
        options: argparse.Namespace,
        cases: Sequence[Case],
        known: Known,
        command: Sequence[str],
        environment: Mapping[str, str],
        few: bool = False,
    ) -> None:
        self.options = options
        #: Whether each kernel is checked with few numbers of tokens.
        self.few = few
        self.cases = cases
        self.known = known
        self.command = command
        self.environment = environment
        self.every = {case.name() for case in all_cases(list(_EVERY), SETS)}
        self.memory = int(options.memory * GIGABYTE)
        self.board = Board(self.memory, len(cases))
        self.rows: list[dict[str, Any]] = []
        #: Kernels that need no check, that have all, and that are bad.
        self.unchanged: set[str] = set()
        #: Kernels with rows.
        self.begun: set[str] = set()
        self.done: set[str] = set()
        self.failed: set[str] = set()
        self._seconds = 0.0
        self._commit = options.commit or read_commit()
        self._workers: dict[int, Worker] = {}

    def log(self, text: str) -> None:
        print(f"[{time.time() - self.options.begin:5.0f} s] {text}", flush=True)

    def over(self) -> bool:
        return time.time() - self.options.begin > self.options.budget

    # Compiling -------------------------------------------------------------

    def prepare(self, order: int, case: Case) -> None:
        """Compiles a kernel and puts it on the board, if it needs checks."""
        task = None
        try:
            if self.over():
                return
            task = self.compile(order, case)
            if task is None:
                self.unchanged.add(case.name())
        except Exception as error:
            self.done.add(case.name())
            self.fail(case.name(), " ".join(str(error).split())[:300])
        finally:
            self.board.put(task)

    def compile(self, order: int, case: Case) -> Task | None:
        """The remaining checks of a kernel; None if there are none."""
        options = self.options
        path = options.kernels / f"{case.name()}.json"
        if not options.keep or not path.exists():
            build(
                case,
                options.kernels,
                options.bin,
                options.pipeline,
                None,
                self._commit,
            )
        plan = Plan.load(path)
        label, tile = plan.problem.label(), plan.max_tokens
        done = self.known.get((label, tile, plan.digest), set())
        tokens = tuple(
            m
            for m in choose_tokens(
                tile,
                label,
                CHECKED_TOKENS,
                options.all_tokens or case.name() in self.every,
            )
            if m not in done
        )
        if self.few:
            tokens = spread(tokens, _FEW)
        if not tokens:
            return None
        # Skip the assembler if there is nothing to check.
        if options.ptxas:
            assemble(path, options.ptxas)
            plan = Plan.load(path)
        return Task(order, path, plan, tokens, memory_bytes(plan, tokens))

    # Checking --------------------------------------------------------------

    def serve(self, number: int) -> None:
        """Lets one process check the tasks of the board."""
        while not self.board.closed:
            try:
                worker = Worker(
                    self.command, self.options.hang, self.environment
                )
            except WorkerError as error:
                self.log(f"process {number} does not begin: {error}")
                return
            self._workers[number] = worker
            for turn in itertools.count(1):
                if not worker.alive:
                    break
                if self.over():
                    self.board.close()
                task = self.board.take()
                if task is None:
                    worker.close()
                    return
                rest = self.run_task(worker, task)
                # Its memory must be free for the next task.
                if self.few and turn == _RENEWED:
                    worker.close()
                self.board.done(task, rest)

    def run_task(self, worker: Worker, task: Task) -> Task | None:
        """Checks a kernel; returns the tasks to repeat."""
        again: list[int] = []
        starved = False
        left = list(task.tokens)
        seed = self.options.seed + zlib.crc32(task.path.stem.encode()) % 10**6
        begin = time.monotonic()
        try:
            for row in worker.check(
                task,
                self.memory if task.alone else task.memory,
                seed,
                self.options.repeats,
            ):
                left.remove(row["M"])
                if lacks_memory(row) and not task.alone:
                    again.append(row["M"])
                elif lacks_memory(row) and self.few:
                    # Kernels that did not run under compute-sanitizer remain.
                    starved = True
                else:
                    self.keep(task, row)
                if loses_device(row):
                    worker.kill()
                    break
        except WorkerError as error:
            # One that was ended at the end is not reported.
            if left and not self.board.closed:
                self.keep(task, bad_row(task.plan, left.pop(0), str(error)))
        self._seconds += time.monotonic() - begin
        if again:
            self.log(f"{task.path.stem} M={again}: no memory, again at the end")
        elif not left:
            if starved:
                self.log(f"{task.path.stem}: no memory, left")
            else:
                self.done.add(task.path.stem)
            return None
        return replace(
            task, tokens=(*again, *left), alone=task.alone or bool(again)
        )

    def keep(self, task: Task, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self.begun.add(task.path.stem)
        if not row["ok"]:
            self.fail(task.path.stem, json.dumps(row))

    def fail(self, name: str, text: str) -> None:
        self.failed.add(name)
        self.log(f"BAD {name}: {text}")

    # The run ---------------------------------------------------------------

    def left(self) -> int:
        return len(self.cases) - len(self.done | self.unchanged)

    def progress(self) -> str:
        return (
            f"{len(self.unchanged)} kernels known, {len(self.done)} done "
            f"by {len(self.rows)} checks in {self._seconds:.0f} s; "
            f"{self.board}"
        )

    def summary(self) -> str:
        return (
            f"{len(self.done)} kernels checked by {len(self.rows)} "
            f"checks, {len(self.unchanged)} known, {len(self.failed)} "
            f"bad, {self.left()} left"
        )

    def run(self, results: Results | None = None) -> None:
        """Runs everything; writes rows to the results every few seconds."""
        stored = 0

        def save() -> None:
            nonlocal stored
            found = self.rows[stored:]
            stored += len(found)
            if results is not None and found:
                for row in found:
                    results.add_check(row)
                results.save()

        processes = [
            threading.Thread(target=self.serve, args=(number,), daemon=True)
            for number in range(self.options.processes)
        ]
        pool = ThreadPoolExecutor(self.options.jobs)
        shown = time.monotonic()
        try:
            for process in processes:
                process.start()
            for order, case in enumerate(self.cases):
                pool.submit(self.prepare, order, case)
            while any(process.is_alive() for process in processes):
                time.sleep(0.2)
                if self.over():
                    self.board.close()
                if time.monotonic() - shown > 5:
                    shown = time.monotonic()
                    self.log(self.progress())
                    save()
        finally:
            self.board.close()
            for worker in [*self._workers.values()]:
                worker.kill()
            pool.shutdown(cancel_futures=True)
            save()


def small_cases(
    options: argparse.Namespace, cases: Sequence[Case]
) -> list[Case]:
    """Cases for compute-sanitizer; the first ones include all kinds."""
    names = options.memcheck or options.only
    found = [
        case
        for case in (cases if options.memcheck else memcheck_cases())
        if re.search(names, case.name())
    ]
    if not found:
        sys.exit(
            f"error: no small kernel is called '{names}': expected part "
            f"of a name such as {next(memcheck_cases()).name()}"
        )
    return sorted(found, key=lambda case: zlib.crc32(case.name().encode()))


class OtherOps(threading.Thread):
    """Small kernels of the other fused ops under compute-sanitizer, which
    `fuse_bench.suites.rows` checks."""

    def __init__(
        self, options: argparse.Namespace, environment: Mapping[str, str]
    ) -> None:
        super().__init__(daemon=True)
        self.folder = options.kernels / "rows"
        self.budget = options.begin + options.budget
        self.environment = {**os.environ, **environment}
        self.command = [sys.executable, "-m", "fuse_bench.suites.rows"]
        self.compiler = [
            "--bin",
            str(options.bin),
            "--ptxas",
            options.ptxas or "",
            "--commit",
            options.commit,
        ]
        self.sanitizer = [*MEMCHECK, f"{options.logs}/memcheck-%p.log"]
        self.rows: list[dict[str, Any]] = []
        self.failure = ""

    def step(
        self, name: str, before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> None:
        done = subprocess.run(
            [
                *before,
                *self.command,
                name,
                "--memcheck",
                "--out",
                str(self.folder),
                *after,
            ],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=max(1.0, self.budget - time.time()),
        )
        if done.returncode:
            self.failure = f"{name}: {(done.stdout + done.stderr)[-300:]}"

    def run(self) -> None:
        output = self.folder / "_checks.json"
        try:
            self.step("compile", after=self.compiler)
            if not self.failure:
                self.step(
                    "measure",
                    self.sanitizer,
                    (
                        "--repeats",
                        "2",
                        "--rounds",
                        "1",
                        "--output",
                        str(output),
                    ),
                )
                self.rows = json.loads(output.read_text())["rows"]
        except subprocess.TimeoutExpired:
            self.failure = "no time was left"
        except (OSError, ValueError) as error:
            self.failure = str(error)


def run_memcheck(
    options: argparse.Namespace, cases: Sequence[Case], command: Sequence[str]
) -> tuple[Stage, dict[str, Any]]:
    """Small kernels under compute-sanitizer, and its reports."""
    small = small_cases(options, cases)
    options.logs.mkdir(parents=True, exist_ok=True)
    for log in options.logs.glob("memcheck-*.log"):
        log.unlink()
    slow = argparse.Namespace(
        **{
            **vars(options),
            "repeats": 2,
            "hang": 600,
            "keep": options.keep or "check" in options.stages,
        }
    )
    # Each tensor has separate memory, so that its bounds are seen.
    environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    stage = Stage(
        slow,
        small,
        {},
        [*MEMCHECK, f"{options.logs}/memcheck-%p.log", *command],
        environment,
        few=True,
    )
    others = None
    if not options.memcheck and not options.only:
        others = OtherOps(options, environment)
        others.start()
    stage.run()
    rows = []
    if others:
        others.join()
        rows = others.rows
        if others.failure or not all(row["ok"] for row in rows):
            stage.fail(
                "rows",
                others.failure
                or json.dumps([row for row in rows if not row["ok"]]),
            )
    errors = [
        re.findall(r"ERROR SUMMARY: (\d+) error", log.read_text())
        for log in options.logs.glob("memcheck-*.log")
    ]
    count = sum(int(found[-1]) for found in errors if found)
    if count or not all(errors) or not errors:
        stage.fail(
            "memcheck",
            f"{count} errors; {errors.count([])} of "
            f"{len(errors)} logs in {options.logs} have no summary",
        )
    names = stage.begun | {row["case"] for row in rows}
    return stage, {
        "tool": "memcheck",
        "commit": options.commit or read_commit(),
        "kernels": len(names),
        "checks": len(stage.rows) + len(rows),
        "errors": count,
        "names": sorted(names),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.suites.check_all", description=__doc__.split("\n")[0]
    )
    add_set_option(parser)
    add_only_option(parser, "the name of a kernel")
    parser.add_argument(
        "--kernels",
        type=Path,
        default=ROOT / "out/checks",
        help="where compiled kernels are, and go to",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="check kernels that are there as they are",
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument(
        "--resume",
        type=existing,
        nargs="+",
        default=[],
        help="results whose good checks are not made again, "
        "if they are of the same digest",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=8,
        help="that check (default: %(default)s)",
    )
    parser.add_argument(
        "--memory",
        type=float,
        default=100,
        metavar="GB",
        help="of the GPU that checks may take together (default: %(default)s)",
    )
    parser.add_argument(
        "--all-tokens",
        action="store_true",
        help="check all kernels for many tokens with all "
        "numbers, not only those of " + ", ".join(_EVERY),
    )
    parser.add_argument(
        "--stages", nargs="+", choices=("check", "memcheck"), default=["check"]
    )
    parser.add_argument(
        "--memcheck",
        type=pattern,
        default="",
        metavar="REGEX",
        help="kernels of the sets that run "
        "under compute-sanitizer instead of small ones of all "
        "forms",
    )
    parser.add_argument(
        "--logs",
        type=Path,
        default=ROOT / "out/memcheck",
        help="of compute-sanitizer",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=200,
        help="launches that must agree bit by bit",
    )
    add_run_options(parser, "check")
    add_compiler_options(parser)
    options = parser.parse_args(arguments)
    options.begin = time.time()
    return options


def main(
    arguments: Sequence[str] | None = None, command: Sequence[str] = COMMAND
) -> int:
    options = parse(arguments)
    require_tools(options.bin, "fuse-opt", "fuse-translate")
    cases: list[Case] = []
    if options.memcheck or "check" in options.stages:
        cases = choose_cases(options.sets or list(SETS), options.only)
    require_gpu()
    end_when_told()
    choose_seed(options)
    options.kernels.mkdir(parents=True, exist_ok=True)
    results = Results(options.output)
    results.data.update(describe_device())
    results.data["commit"] = options.commit or read_commit()
    stages = []
    if "check" in options.stages:
        stages.append(
            Stage(
                options,
                cases,
                read_known(options.resume, options.repeats),
                command,
                {},
            )
        )
        stages[0].run(results)
    if "memcheck" in options.stages:
        stage, results.data["compute_sanitizer"] = run_memcheck(
            options, cases, command
        )
        stages.append(stage)
    results.save()
    for stage in stages:
        print(stage.summary(), flush=True)
    # A case without remaining time is not a failure.
    return (
        1
        if any(
            stage.failed or stage.left() and not stage.over()
            for stage in stages
        )
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
