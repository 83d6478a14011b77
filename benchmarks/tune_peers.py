# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Has PyTorch compile and tune the peers ahead, several at a time.

    TORCHINDUCTOR_CACHE_DIR=DIR python3 -m benchmarks.tune_peers --jobs 12

`max-autotune` compiles about a hundred kernels for a product before it times
them: most of it is work of the CPU. `benchmarks.mlp_h200` finds in DIR what was
chosen and begins with its rows. Processes time in turn: a choice that is made
beside another one's launches is none.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .cases import DTYPES, TIMED_SHAPES, TIMED_TOKENS, timed_problem
from .environment import pattern, require_gpu
from .peers import AUTOTUNED_TOKENS, peer_modes
from .prefill_cases import PREFILL_SHAPES, PREFILL_TOKENS
from .problem import Problem

CACHE = "TORCHINDUCTOR_CACHE_DIR"
#: How PyTorch times what it chooses among.
_TIMERS = ("benchmark_gpu", "benchmark_gpu_with_cuda_graph")


class Turn:
    """One process at a time, as often nested as it likes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        self._depth = 0

    @contextmanager
    def take(self) -> Iterator[None]:
        if not self._depth:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        self._file.close()

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            with self.take():
                return function(*arguments, **options)
        return timed


def time_in_turn(turn: Turn) -> None:
    """Has this process's PyTorch time kernels only in its turn."""
    from torch._inductor.runtime.benchmarking import benchmarker

    for name in _TIMERS:
        if hasattr(benchmarker, name):
            setattr(benchmarker, name, turn.wrap(getattr(benchmarker, name)))


def start(lock: Path) -> None:
    """Prepares a process that tunes."""
    import torch

    # Every problem is another specialization of the same functions.
    torch._dynamo.config.cache_size_limit = 256
    time_in_turn(Turn(lock))


def tune(problem: Problem, tokens: int, modes: Sequence[str],
         device: str = "cuda") -> float:
    """Compiles the peers of a problem as the tables will. Seconds it took."""
    from . import data
    from .peers import make_peers, parameters

    begin = time.monotonic()
    tensors, scales = data.make_weights(problem, 0, device, one_scale=True)
    x = data.make_activations(problem, tokens, 0, device)["x"]
    if problem.fp8:
        scales |= {"input": 1.0, "hidden": 1.0}
    operands = parameters(problem, tensors, scales)
    for peer in make_peers(problem, modes):
        peer.bind(operands)(x)
    return time.monotonic() - begin


def tasks(wanted: Sequence[str]) -> Iterator[tuple[Problem, int, list[str]]]:
    """What to compile, what takes longest first: FP8 has five times as many
    kernels to choose from."""
    problems = [(shape, timed_problem(*shape, dtype))
                for shape in TIMED_SHAPES for dtype in reversed(DTYPES)]
    every = [(problem, m) for shape, problem in problems
             for m in TIMED_TOKENS + (PREFILL_TOKENS if shape in
                                      PREFILL_SHAPES else ())]
    for problem, m in sorted(every, key=lambda task: (
            "autotune" not in peer_modes(task[0], task[1], wanted),
            not task[0].fp8, AUTOTUNED_TOKENS.index(task[1])
            if task[1] in AUTOTUNED_TOKENS else task[1])):
        modes = peer_modes(problem, m, wanted)
        if modes:
            yield problem, m, modes


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.tune_peers",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", type=pattern,
                        help="regular expression that 'NAME M=TOKENS' of a "
                        "problem must contain")
    parser.add_argument("--peers", nargs="*", choices=("compile", "autotune"),
                        default=["compile", "autotune"])
    parser.add_argument("--budget", type=float, default=540,
                        help="seconds after which nothing new is begun")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    folder = os.environ.get(CACHE)
    if not folder:
        print(f"{CACHE} is not set: it names the folder that what is compiled "
              "goes to, for benchmarks.mlp_h200 to find", file=sys.stderr)
        return 1
    require_gpu()
    Path(folder).mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
    begin = time.monotonic()
    wanted = [task for task in tasks(options.peers) if re.search(
        options.only, f"{task[0].label()} M={task[1]}")]
    failed = 0
    with ProcessPoolExecutor(
            options.jobs, get_context("spawn"), start,
            (Path(folder) / "turn.lock",)) as pool:
        futures = {pool.submit(tune, *task): task for task in wanted}
        for done, future in enumerate(as_completed(futures), 1):
            problem, m, modes = futures[future]
            try:
                state = f"{future.result():.1f} s"
            except Exception as error:
                state = " ".join(str(error).split())[:200]
                failed += 1
            now = time.monotonic() - begin
            print(f"[{now:5.0f} s] {done} of {len(wanted)}: "
                  f"{problem.label()} M={m} {', '.join(modes)}: {state}",
                  flush=True)
            if now > options.budget:
                pool.shutdown(wait=False, cancel_futures=True)
                print("budget reached", flush=True)
                break
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
