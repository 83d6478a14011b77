# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches chains of decode kernels often; their bits must stay the same.

    python3 -m fuse_bench.suites.soak --launches 4000 out/soak.json

A chain has eight layers with different weights. The result of a layer is the
input of the next. First, each layer starts after the previous one has finished.
Then graphs run the chain in all ways in which `fuse_bench.suites.mlp` times
chains. All results are NaN before each round of a graph. After the round they
are compared with the first results. A row describes the launches of one kernel
with one number of tokens in one way. It counts the rounds that differed.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..common import data
from ..common.cases import LONE_SHAPES, TIMED_SHAPES, tile, timed_tokens
from ..common.data import kernel_scalars
from ..common.device import describe_device
from ..common.driver import Layers, Module, Weights
from ..common.environment import (
    add_only_option,
    add_run_options,
    choose_seed,
    require_gpu,
    write_json,
)
from ..common.kernels import case_name
from ..common.plan import Plan, load_plans
from ..common.problem import Problem
from .mlp import LAYERS, ROOT, Watch

#: Number of rounds in one graph.
_ROUNDS = 10


def chosen_tokens(plan: Plan) -> list[int]:
    """Returns the numbers of tokens with which a kernel is timed."""
    shapes = {shape[:2]: shape for shape in (*TIMED_SHAPES, *LONE_SHAPES)}
    shape = shapes.get((plan.problem.width, plan.problem.hidden))
    if shape is None:
        return []
    label = plan.problem.label()
    name = case_name(label, plan.max_tokens)
    return sorted(
        m for m in timed_tokens(shape) if name == f"{label}-t{tile(m)}"
    )


def count_changes(
    layers: Layers,
    call: Callable[[], None],
    rounds: int,
    replay: Callable[[Callable[[], None]], Callable[[], None]],
) -> tuple[int, int]:
    """Counts the rounds that differ in any bit, and all rounds.

    The reference is a chain in which each layer waits for the previous one.
    `replay` turns a function into one that repeats it.
    """
    results = [runner.results[0] for runner in layers.runners]
    layers()
    first = [result.view(torch.int16).clone() for result in results]
    changes = torch.zeros((), dtype=torch.int64, device=results[0].device)

    def some() -> None:
        for _ in range(_ROUNDS):
            for result in results:
                result.fill_(torch.nan)
            call()
            changes.add_(
                torch.stack(
                    [
                        (result.view(torch.int16) != bits).any()
                        for result, bits in zip(results, first)
                    ]
                ).any()
            )

    again = replay(some)
    changes.zero_()
    times = -(-rounds // _ROUNDS)
    for _ in range(times):
        again()
    return int(changes), times * _ROUNDS


def capture_once(function: Callable[[], None]) -> Callable[[], None]:
    """Captures a function as a graph, which repeats it."""
    from ..common.timing import capture

    return capture(function).replay


class Soak:
    """One run over kernels."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.begin = time.time()
        self.rows: list[dict[str, Any]] = []
        self.watch = Watch(options.hang)
        self.head = {
            **describe_device(),
            "layers": LAYERS,
            "seed": options.seed,
        }

    def save(self) -> None:
        write_json(
            self.options.output,
            {
                **self.head,
                "launches": sum(row["launches"] for row in self.rows),
                "rows": self.rows,
            },
        )

    def operands(
        self, problem: Problem
    ) -> tuple[list[Weights], list[dict[str, float]]]:
        """Returns the weights of the layers, and their scales."""
        made = [
            data.make_weights(problem, self.options.seed + layer)
            for layer in range(LAYERS)
        ]
        calibration = data.make_activations(problem, 128, self.options.seed)
        scales = data.calibrate(
            problem, {**made[0][0], **calibration}, made[0][1]
        )
        return (
            [Weights(tensors) for tensors, _ in made],
            [{**scales, **own} for _, own in made],
        )

    def soak(
        self,
        plan: Plan,
        tokens: int,
        weights: Sequence[Weights],
        scales: Sequence[dict[str, float]],
    ) -> None:
        problem = plan.problem
        x: Tensor = data.make_activations(
            problem, tokens, self.options.seed + tokens
        )["x"]
        layers = Layers(
            plan,
            Module(plan.binary),
            weights,
            x,
            [
                kernel_scalars(problem, {**own, **plan.fixed_scales})
                for own in scales
            ],
        )
        for way, call in layers.ways().items():
            base = {
                "case": problem.label(),
                "tile": plan.max_tokens,
                "M": tokens,
                "way": way[1:] or "overlapping",
                "commit": plan.commit,
                "digest": plan.digest,
            }
            name = f"{problem.label()} M={tokens} {base['way']}"

            def give_up(step: str, base: dict[str, Any] = base) -> None:
                self.rows.append({**base, "launches": 0, "note": "hang"})
                self.save()

            self.watch.on_hang(give_up)
            self.watch.start(name)
            changed, rounds = count_changes(
                layers, call, self.options.launches // LAYERS, capture_once
            )
            self.watch.stop()
            finite = all(
                bool(runner.results[0].isfinite().all())
                for runner in layers.runners
            )
            self.rows.append(
                {
                    **base,
                    "launches": rounds * LAYERS,
                    "changed_rounds": changed,
                    "ok": changed == 0 and finite,
                }
            )
            print(
                f"[{time.time() - self.begin:5.0f} s] {name}: {self.rows[-1]}",
                flush=True,
            )
        self.save()

    def run(self, problems: Iterator[tuple[Problem, list[Plan]]]) -> int:
        for problem, plans in problems:
            weights, scales = self.operands(problem)
            for plan in plans:
                for tokens in chosen_tokens(plan):
                    if time.time() - self.begin > self.options.budget:
                        print("budget reached", flush=True)
                        return self.end()
                    self.soak(plan, tokens, weights, scales)
            del weights
            torch.cuda.empty_cache()
        return self.end()

    def end(self) -> int:
        self.save()
        bad = [row for row in self.rows if not row.get("ok")]
        print(
            f"{sum(row['launches'] for row in self.rows)} launches of "
            f"{len({row['digest'] for row in self.rows})} kernels in "
            f"{len(self.rows)} rows, {len(bad)} bad"
        )
        return 1 if bad or not self.rows else 0


def by_problem(
    plans: Sequence[Plan], only: str
) -> Iterator[tuple[Problem, list[Plan]]]:
    """Groups the kernels that are timed with few tokens by problem."""
    found: dict[Problem, list[Plan]] = {}
    for plan in plans:
        name = f"{plan.problem.label()}-t{plan.max_tokens}"
        if chosen_tokens(plan) and re.search(only, name):
            found.setdefault(plan.problem, []).append(plan)
    yield from found.items()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.suites.soak", description=__doc__.split("\n")[0]
    )
    parser.add_argument("output", type=Path)
    parser.add_argument(
        "--kernels",
        type=Path,
        default=ROOT / "out/kernels",
        help="folder that fuse_bench.common.kernels filled",
    )
    add_only_option(parser, "the name of a kernel")
    parser.add_argument(
        "--launches",
        type=int,
        default=4000,
        help="of a kernel with one number of tokens in one "
        "way (default: %(default)s)",
    )
    add_run_options(parser, "row")
    options = parser.parse_args(arguments)
    plans = load_plans(options.kernels) if options.kernels.exists() else []
    if not any(by_problem(plans, options.only)):
        parser.error(
            f"no kernel in {options.kernels} is called "
            f"'{options.only}' and timed with few tokens"
        )
    require_gpu()
    choose_seed(options)
    return Soak(options).run(by_problem(plans, options.only))


if __name__ == "__main__":
    sys.exit(main())
