# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets PyTorch compile and tune the peers ahead, several at a time.

    TORCHINDUCTOR_CACHE_DIR=DIR python3 -m fuse_bench.peers.tune --jobs 12

`max-autotune` compiles about a hundred kernels for a product before it times
them, which is mostly work of the CPU. `fuse_bench.suites.mlp` finds the chosen
kernels in DIR, and skips products without a choice. Only one process times at a
time, because launches of others would disturb it. All processes share a file of
times, because products with static and with dynamic scales are the same. The
choices are in DIR/choices.jsonl, which becomes part of the results.

`--untimed` only compiles the candidates while the GPU times something else. It
needs another DIR, because it chooses nothing. A later call with the same
TRITON_CACHE_DIR finds the kernels.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from unittest.mock import patch

from ..common.cases import DTYPES, TIMED_SHAPES, TIMED_TOKENS, timed_problem
from ..common.environment import (
    add_budget_option,
    add_only_option,
    existing,
    require_gpu,
)
from ..common.prefill_cases import PREFILL_SHAPES, PREFILL_TOKENS
from ..common.problem import Problem
from .systems import AUTOTUNED_TOKENS, MODES, peer_modes

if TYPE_CHECKING:
    from torch._inductor.ir import ChoiceCaller

P = ParamSpec("P")
T = TypeVar("T")

CACHE, CHOICES = "TORCHINDUCTOR_CACHE_DIR", "choices.jsonl"
#: Number of candidates of a product that are kept for later runs.
_FASTEST = 4
#: The function by which PyTorch times candidates.
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

    def wrap(self, function: Callable[P, T]) -> Callable[P, T]:
        def timed(*arguments: P.args, **options: P.kwargs) -> T:
            with self.take():
                return function(*arguments, **options)

        return timed


def make_timer() -> Callable[..., float]:
    """Times a launch in milliseconds as the tables do.

    PyTorch itself times single launches. On a busy processor, it would measure
    the launches.
    """
    from ..common.timing import Timer

    timer = functools.cache(Timer)

    def milliseconds(
        function: Callable[[], object], *_: object, **__: object
    ) -> float:
        return timer().behind_delay(function) / 1e3

    return milliseconds


def time_in_turn(turn: Turn) -> None:
    """Has this process's PyTorch time kernels in its turn alone."""
    from torch._inductor.runtime.benchmarking import benchmarker

    timer = turn.wrap(make_timer())
    for name in _TIMERS:
        setattr(benchmarker, name, timer)


def merge(found: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """`found` with what `more` adds to it, at any depth."""
    return {
        key: merge(found[key], more[key])
        if isinstance(found.get(key), dict) and isinstance(more.get(key), dict)
        else more.get(key, found.get(key))
        for key in {**found, **more}
    }


def share_times(turn: Turn) -> None:
    """Merges times with those of other processes.

    PyTorch would overwrite its file with the contents before the measurement
    and lose the times of others.
    """
    from torch._inductor.codecache import CacheBase

    write = CacheBase.update_local_cache

    def join(self: CacheBase, times: dict[str, Any]) -> None:
        with turn.take():
            write(self, merge(self.get_local_cache(), times))

    setattr(CacheBase, "update_local_cache", join)


def product(inputs: Sequence[Any]) -> dict[str, Any]:
    """Which product PyTorch has these nodes multiplied for."""
    (m, k), (_, n) = (
        [int(size) for size in node.get_size()] for node in inputs[:2]
    )
    return {
        "M": m,
        "K": k,
        "N": n,
        "dtype": "fp8" if inputs[0].get_dtype().itemsize == 1 else "bf16",
    }


def keep_choices(turn: Turn, path: Path) -> None:
    """Adds a line for each product: the choice, the library's time, and the
    fastest kernels."""
    from torch._inductor.select_algorithm import add_feedback_saver

    def save(
        times: dict[Any, float], name: str, inputs: Sequence[Any], *_: object
    ) -> None:
        if not times:
            return
        order = sorted(times, key=lambda choice: times[choice])
        library = [times[choice] for choice in order if not is_written(choice)]
        row = {
            **product(inputs),
            "choices": len(times),
            "chosen": order[0].name,
            "chosen_us": round(1e3 * times[order[0]], 1),
            "library_us": round(1e3 * library[0], 1) if library else None,
            "fastest": [
                choice.description for choice in order if is_written(choice)
            ][:_FASTEST],
        }
        with turn.take(), path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    add_feedback_saver(save)


def is_written(choice: ChoiceCaller) -> bool:
    """Whether PyTorch writes this kernel, not a library."""
    return bool(choice.name.startswith("triton"))


def keep_fastest(known: Sequence[dict[str, Any]]) -> None:
    """Limits the candidates of this process to those of the library and the
    kernels that were fastest earlier."""
    from torch._inductor.select_algorithm import add_preprocessing_fn

    def keep(choices: list[Any]) -> list[Any]:
        # Without max-autotune, the library's kernel is all there is.
        if not any(map(is_written, choices)):
            return choices
        asked = product(choices[0].input_nodes)
        fastest = next(
            (
                row["fastest"]
                for row in known
                if row.get("fastest") and asked.items() <= row.items()
            ),
            None,
        )
        if fastest is None:
            return choices
        kept = [
            choice
            for choice in choices
            if not is_written(choice) or choice.description in fastest
        ]
        if not any(map(is_written, kept)):
            print(
                f"all {len(choices)} candidates of {asked} are tried: none "
                f"is what was fastest: {', '.join(fastest[:1])}",
                flush=True,
            )
            return choices
        return kept

    add_preprocessing_fn(keep)


class UntunedError(Exception):
    """Products that are not tuned yet."""


@contextmanager
def only_tuned() -> Iterator[list[str]]:
    """Lets PyTorch use tuned products and refuse others in this process.

    Tuning takes minutes. Generated kernels around the products are timed as in
    the tables. Returns the refused products.
    """
    from torch._inductor.runtime.benchmarking import benchmarker
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    refused: list[str] = []
    # It compiles all that it chooses among before it times the first.
    compile_all = AlgorithmSelectorCache.make_precompile_fn

    def compile_known(
        self: AlgorithmSelectorCache,
        choices: list[Any],
        name: str,
        inputs: str,
        *more: Any,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> object:
        if len(self.lookup(choices, name, inputs, None)) < len(choices):
            refused.append(f"{name} of {inputs}")
            raise UntunedError(f"{refused[-1]} is not tuned")
        return compile_all(self, choices, name, inputs, *more, **options)

    with ExitStack() as stack:
        stack.enter_context(
            patch.object(
                AlgorithmSelectorCache, "make_precompile_fn", compile_known
            )
        )
        timer = make_timer()
        for name in _TIMERS:
            stack.enter_context(
                patch.object(benchmarker, name, timer, create=True)
            )
        yield refused


def read_choices(path: Path) -> list[dict[str, Any]]:
    """The products whose kernels were chosen, each once."""
    rows = (
        [json.loads(line) for line in path.read_text().splitlines()]
        if path.exists()
        else []
    )
    found = {
        tuple(row[key] for key in ("dtype", "K", "N", "M")): row for row in rows
    }
    return [row for _, row in sorted(found.items())]


def time_nothing() -> None:
    """Lets this process compile the candidates and choose any of them."""
    from torch._inductor.runtime.benchmarking import benchmarker

    for name in ("benchmark", *_TIMERS):
        setattr(benchmarker, name, lambda *_, **__: 1.0)


def start(lock: Path, timed: bool, fastest: Path | None = None) -> None:
    """Prepares a process that tunes."""
    import torch

    # Every problem is another specialization of the same functions.
    torch._dynamo.config.cache_size_limit = 256
    if timed:
        turn = Turn(lock)
        time_in_turn(turn)
        share_times(turn)
        keep_choices(turn, lock.with_name(CHOICES))
    else:
        time_nothing()
    if fastest:
        keep_fastest(read_choices(fastest))


def tune(
    problem: Problem,
    tokens: int,
    modes: Sequence[str],
    scales: str,
    device: str = "cuda",
) -> float:
    """Compiles the peers of a problem that have such scales, as the tables
    will. Seconds it took."""
    from ..common import data
    from .systems import make_peers, parameters

    begin = time.monotonic()
    tensors, values = data.make_weights(problem, 0, device, one_scale=True)
    x = data.make_activations(problem, tokens, 0, device)["x"]
    if problem.fp8:
        values |= {"input": 1.0, "hidden": 1.0}
    operands = parameters(problem, tensors, values)
    for peer in make_peers(problem, modes):
        if peer.scales == scales:
            peer.bind(operands)(x)
    return time.monotonic() - begin


def tune_apart(
    problem: Problem,
    tokens: int,
    modes: Sequence[str],
    scales: str,
    device: str = "cuda",
) -> float:
    """`tune` in another process.

    Errors become texts: PyTorch's hold objects that cannot be pickled.
    """
    try:
        return tune(problem, tokens, modes, scales, device)
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from None


def tasks(
    wanted: Sequence[str],
) -> Iterator[tuple[Problem, int, list[str], str]]:
    """The order of compilation.

    Tuned modes come first, and dynamic scales last, because each row with them
    takes longer. For equal numbers of tokens, FP8 comes first, because it has
    five times as many candidates.
    """
    problems = [
        (shape, timed_problem(*shape, dtype))
        for shape in TIMED_SHAPES
        for dtype in reversed(DTYPES)
    ]
    every = [
        (problem, m)
        for shape, problem in problems
        for m in TIMED_TOKENS
        + (PREFILL_TOKENS if shape in PREFILL_SHAPES else ())
    ]
    found = []
    for problem, m in every:
        for scales in ("static", "dynamic") if problem.fp8 else ("none",):
            other = "autotune" if scales == "dynamic" else "autotune-dynamic"
            modes = [
                mode for mode in peer_modes(problem, m, wanted) if mode != other
            ]
            if modes:
                found.append((problem, m, modes, scales))
    yield from sorted(
        found,
        key=lambda task: (
            not task[2][-1].startswith("autotune"),
            task[3] == "dynamic",
            AUTOTUNED_TOKENS.index(task[1])
            if task[1] in AUTOTUNED_TOKENS
            else task[1],
            not task[0].fp8,
        ),
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.peers.tune", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    add_only_option(parser, "'NAME M=TOKENS' of a problem")
    parser.add_argument(
        "--peers", nargs="*", choices=MODES[1:], default=list(MODES[1:])
    )
    add_budget_option(parser)
    parser.add_argument(
        "--fastest",
        type=existing,
        metavar="CHOICES",
        help=f"a {CHOICES} of an earlier run: only what was "
        "fastest there, and the library's, is tried",
    )
    parser.add_argument(
        "--untimed",
        action="store_true",
        help="compile what would be tried, choose nothing",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    folder = os.environ.get(CACHE)
    if not folder:
        print(
            f"{CACHE} is not set: it names the folder that what is compiled "
            "goes to, for fuse_bench.suites.mlp to find",
            file=sys.stderr,
        )
        return 1
    require_gpu()
    Path(folder).mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
    begin = time.monotonic()
    wanted = [
        task
        for task in tasks(options.peers)
        if re.search(options.only, f"{task[0].label()} M={task[1]}")
    ]
    failed = 0
    with ProcessPoolExecutor(
        options.jobs,
        get_context("spawn"),
        start,
        (Path(folder) / "turn.lock", not options.untimed, options.fastest),
    ) as pool:
        futures = {pool.submit(tune_apart, *task): task for task in wanted}
        for done, future in enumerate(as_completed(futures), 1):
            problem, m, modes, scales = futures[future]
            try:
                state = f"{future.result():.1f} s"
            except Exception as error:
                state = " ".join(str(error).split())[:200]
                failed += 1
            now = time.monotonic() - begin
            print(
                f"[{now:5.0f} s] {done} of {len(wanted)}: "
                f"{problem.label()} M={m} {', '.join(modes)} {scales}: "
                f"{state}",
                flush=True,
            )
            if now > options.budget:
                pool.shutdown(wait=False, cancel_futures=True)
                print("budget reached", flush=True)
                break
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
