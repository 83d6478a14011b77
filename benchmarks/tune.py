# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds schedules by measuring, with compiler and GPU on two machines.

    python3 -m benchmarks.tune compile --only 4096x12288   # compiler's machine
    python3 -m benchmarks.tune measure                     # GPU's machine

`compile` writes one kernel per schedule to out/tune, `measure` times them all
in turn and writes the table benchmarks/results/schedules.json, which the
compiler takes as `--fuse-hopper-pipeline=table=FILE`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cases import SETS, Case, all_cases
from .kernels import (ROOT, CompileError, add_compiler_options, build,
                      read_commit)
from .plan import Plan, PlanError, load_plans
from .problem import Problem

#: What a block can use next to static shared memory, in bytes.
SHARED_BYTES = 226 * 1024
STAGE_BYTES = 32 * 1024
SLOTS = 132
LAYERS = 8
#: How much more than the least the busiest block of a candidate may read.
SLACK = 1.1
TABLE = ROOT / "benchmarks/results/schedules.json"


@dataclass(frozen=True)
class Schedule:
    """The numbers of a `#tile.schedule`."""

    tokens: int
    blocks: int
    split: int
    weight_stages: int
    token_stages: int
    in_flight: int
    partials: str = "f32"
    hint: str = "evict_first"
    dependent: bool = True

    def body(self) -> str:
        dependent = "true" if self.dependent else "false"
        return (f"tokens = {self.tokens}, blocks = {self.blocks}, "
                f"split = {self.split}, weight_stages = {self.weight_stages}, "
                f"token_stages = {self.token_stages}, "
                f"in_flight = {self.in_flight}, partials = {self.partials}, "
                f"hint = {self.hint}, dependent = {dependent}")

    def label(self) -> str:
        return (f"b{self.blocks}s{self.split}w{self.weight_stages}"
                f"t{self.token_stages}f{self.in_flight}{self.partials}")


def busiest(case: Case, blocks: int, split: int) -> tuple[int, int]:
    """Units of the second product, and stages that the busiest block reads.

    The first product hands out whole tiles, the second one range each.
    """
    problem = case.problem
    size = 1 if problem.fp8 else 2
    per_tile = 128 if problem.gated else 256
    tiles1 = -(-problem.hidden // per_tile)
    tiles2 = -(-problem.width // 256)
    steps1 = -(-problem.width * size // 128)
    per_range = -(-tiles1 // split)
    units = tiles2 * -(-tiles1 // per_range)
    stages = -(-tiles1 // blocks) * steps1
    return units, stages + per_range * per_tile * size // 128


def candidates(case: Case) -> Iterator[Schedule]:
    """Splits and grids that share the weights well, few shapes of rings."""
    grids: dict[tuple[int, int], int] = {}
    for split in range(1, SLOTS + 1):
        units, _ = busiest(case, SLOTS, split)
        if units > SLOTS or any(busiest(case, SLOTS, other)[0] == units
                                for other, _ in grids):
            continue
        for blocks in {units, max(units, 128), SLOTS}:
            grids[split, blocks] = busiest(case, blocks, split)[1]
    least = min(grids.values())
    for (split, blocks), stages in sorted(grids.items()):
        # Fewer ranges move fewer partial sums, which may be worth something.
        if stages > SLACK * least:
            continue
        for ring in (6,) if case.tokens <= 64 else (6, 5):
            free = SHARED_BYTES - ring * STAGE_BYTES
            tokens = min(8, free // (case.tokens * 128))
            if tokens < 2:
                continue
            for flight in (0, 2, 3):
                yield Schedule(case.tokens, blocks, split, ring, tokens,
                               flight)


def compile_all(options: argparse.Namespace) -> int:
    commit = read_commit()
    options.out.mkdir(parents=True, exist_ok=True)
    work = [(case, schedule) for case in all_cases(options.sets or ["timed"])
            if re.search(options.only, case.name())
            for schedule in candidates(case)]
    print(f"{len(work)} candidates", flush=True)
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(
            build, case, options.out, options.bin, options.pipeline,
            options.ptxas, commit, schedule.body(),
            f"{case.name()}-{schedule.label()}"): (case, schedule)
            for case, schedule in work}
        for done, future in enumerate(as_completed(futures), 1):
            case, schedule = futures[future]
            state = "ok"
            try:
                future.result()
            except (CompileError, ValueError, KeyError) as error:
                failed += 1
                state = str(error)[:200]
            print(f"[{done}/{len(work)}] {case.name()} {schedule.label()}: "
                  f"{state}", flush=True)
    print(f"{len(work) - failed} compiled, {failed} failed")
    return 0 if failed < len(work) else 1


def table_row(problem: Problem, tokens: int, body: str,
              times: dict[str, float]) -> dict[str, Any]:
    """A row as `fuse-select-schedules` reads it, with the times in it."""
    return {"case": problem.label(), "family": problem.family,
            "widths": [problem.width, problem.hidden, problem.width],
            "element": problem.dtype, "tokens": tokens,
            "schedule": f"#tile.schedule<{body}>", **times}


def measure_group(plans: list[Plan], rounds: int) -> list[dict[str, Any]]:
    """Times all schedules of one problem; microseconds, best first."""
    import torch

    from . import data
    from .driver import CudaError, Module, Runner, Weights
    from .reference import kernel_scalars
    from .timing import Timer, capture

    problem = plans[0].problem
    tokens = plans[0].max_tokens
    layers = []
    for seed in range(LAYERS):
        tensors, scales = data.make_weights(problem, seed)
        layers.append((Weights(tensors), scales))
    x = data.make_activations(problem, tokens, 1)["x"]
    scales = data.calibrate(problem, {**layers[0][0].tensors, "x": x},
                            layers[0][1])
    scalars = [kernel_scalars(problem, {**scales, **own})
               for _, own in layers]
    graphs: dict[str, torch.cuda.CUDAGraph] = {}
    kept = []
    for index, plan in enumerate(plans):
        try:
            module = Module(plan.binary)
            workspace = Runner.make_workspace(plan)
            runners: list[Runner] = []
            y = x
            for (weights, _), values in zip(layers, scalars):
                runners.append(Runner(plan, module, weights, {"x": y}, values,
                                      workspace))
                y = runners[-1].results[0]

            def chain(runners: list[Runner] = runners,
                      overlap: bool = plan.dependent) -> None:
                for position, runner in enumerate(runners):
                    runner(programmatic=overlap and position > 0)

            graphs[f"{index} single"] = capture(runners[0])
            graphs[f"{index} chain"] = capture(chain)
            kept.append(runners)
        except (CudaError, PlanError) as error:
            print(f"{plan.binary.stem}: {error}")
    samples = Timer().interleave(graphs, rounds)
    rows = []
    for index, plan in enumerate(plans):
        if f"{index} single" in samples:
            single = samples[f"{index} single"].per(1)["median_us"]
            chain_us = samples[f"{index} chain"].per(LAYERS)["median_us"]
            rows.append(table_row(problem, tokens, plan.schedule,
                                  {"single_us": single,
                                   "chain_us": chain_us}))
    return sorted(rows, key=lambda row: row["single_us"] + row["chain_us"])


def measure_all(options: argparse.Namespace) -> int:
    groups: dict[tuple[str, int], list[Plan]] = {}
    for plan in load_plans(options.out):
        if re.search(options.only, plan.binary.stem):
            key = (plan.problem.label(), plan.max_tokens)
            groups.setdefault(key, []).append(plan)
    old = json.loads(options.table.read_text()) if options.table.exists() \
        else []
    table = {(row["case"], row["tokens"]): row for row in old}
    log = []
    for (label, tokens), plans in groups.items():
        rows = measure_group(plans, options.rounds)
        log += rows
        print(f"{label} tokens {tokens}")
        for row in rows[:options.show]:
            print(f"  single {row['single_us']:.1f} us, chain "
                  f"{row['chain_us']:.1f} us: {row['schedule']}", flush=True)
        if rows:
            table[label, tokens] = rows[0]
    lines = ",\n".join(json.dumps(table[key]) for key in sorted(table))
    options.table.parent.mkdir(parents=True, exist_ok=True)
    options.table.write_text(f"[\n{lines}\n]\n")
    if options.log:
        options.log.write_text(json.dumps(log, indent=1) + "\n")
    print(f"written to {options.table}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.tune",
                                     description=__doc__.split("\n")[0])
    steps = parser.add_subparsers(required=True)
    first = steps.add_parser("compile", help="compile all candidates")
    add_compiler_options(first)
    first.add_argument("--set", action="append", choices=list(SETS),
                       dest="sets", help="cases to tune (default: timed)")
    first.set_defaults(run=compile_all)
    second = steps.add_parser("measure", help="time them, write the table")
    second.add_argument("--rounds", type=int, default=20)
    second.add_argument("--show", type=int, default=8)
    second.add_argument("--table", type=Path, default=TABLE)
    second.add_argument("--log", type=Path, help="all measurements as JSON")
    second.set_defaults(run=measure_all)
    for step in (first, second):
        step.add_argument("--only", default="", help="regular expression "
                          "that the name of a kernel must contain")
        step.add_argument("--out", type=Path, default=ROOT / "out/tune")
    options = parser.parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
