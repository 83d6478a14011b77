# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that check kernels for `fuse_bench.suites.check_all`.

A process reads requests as lines of JSON. It answers with one line for each
number of tokens, and with null at the end of a kernel.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.plan import Plan

COMMAND = (sys.executable, "-m", "fuse_bench.suites.check_worker")
GIGABYTE = 1 << 30
#: Seconds allowed for a process to start while many others start.
_START = 120.0


@dataclass(frozen=True)
class Task:
    """A compiled kernel and the numbers of tokens to check it with."""

    order: int
    path: Path
    plan: Plan
    tokens: tuple[int, ...]
    #: Upper bound of the GPU memory that the checks use.
    memory: int
    alone: bool = False


class Board:
    """Kernels that wait for a process, and for memory."""

    def __init__(self, memory: int, coming: int) -> None:
        self._memory = memory
        #: Kernels that are still compiled.
        self._coming = coming
        self._waiting: list[Task] = []
        self._changed = threading.Condition()
        self.closed = False
        self._running = self._used = 0

    def put(self, task: Task | None) -> None:
        """A kernel that was compiled; None if there is nothing to check."""
        with self._changed:
            self._coming -= 1
            self._add(task)

    def _add(self, task: Task | None) -> None:
        if task is not None:
            bisect.insort(
                self._waiting, task, key=lambda one: (one.alone, one.order)
            )
        self._changed.notify_all()

    def take(self) -> Task | None:
        """The first task that fits into the free memory; None at the end."""
        with self._changed:
            while not self.closed:
                for task in self._waiting:
                    if (
                        not self._running
                        or self._used + self._need(task) <= self._memory
                    ):
                        self._waiting.remove(task)
                        self._running += 1
                        self._used += self._need(task)
                        return task
                if not self._waiting and not self._coming and not self._running:
                    break
                self._changed.wait()
            return None

    def _need(self, task: Task) -> int:
        return self._memory if task.alone else task.memory

    def done(self, task: Task, rest: Task | None = None) -> None:
        """Marks a process as free; queues the tasks of `rest` again."""
        with self._changed:
            self._running -= 1
            self._used -= self._need(task)
            self._add(rest)

    def __str__(self) -> str:
        return (
            f"{self._coming} to compile, {len(self._waiting)} wait, "
            f"{self._running} run with {self._used / GIGABYTE:.0f} GB"
        )

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()


class WorkerError(RuntimeError):
    """Raised if a process ended or hung."""


class Worker:
    """A process that checks, one kernel after the other."""

    def __init__(
        self,
        command: Sequence[str],
        hang: float,
        environment: Mapping[str, str],
    ) -> None:
        self._hang = hang
        self._hung = False
        self.alive = True
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        self._read(max(hang, _START))

    def _read(self, seconds: float) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        watch = threading.Timer(seconds, self._give_up)
        watch.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watch.cancel()
        if not line.endswith("\n"):
            self.kill()
            raise WorkerError(
                "hang"
                if self._hung
                else f"the process ended with {self._process.wait()}"
            )
        return json.loads(line)

    def _give_up(self) -> None:
        self._hung = True
        self.kill()

    def check(
        self, task: Task, memory: int, seed: int, repeats: int
    ) -> Iterator[dict[str, Any]]:
        """The rows of a kernel, as they come."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(
                json.dumps(
                    {
                        "plan": str(task.path.absolute()),
                        "tokens": task.tokens,
                        "seed": seed,
                        "memory": memory,
                        "repeats": repeats,
                    }
                )
                + "\n"
            )
            self._process.stdin.flush()
        except BrokenPipeError:
            self.kill()
            raise WorkerError("the process ended") from None
        while (row := self._read(self._hang)) is not None:
            yield row

    def close(self) -> None:
        """Lets the process exit, which compute-sanitizer needs."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self._process.stdin.close()
            self._process.wait(self._hang)
        self.kill()

    def kill(self) -> None:
        self.alive = False
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()


def work() -> int:
    """A process that reads tasks line by line and checks them."""
    # Output of libraries must not mix with the rows.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: Mapping[str, object] | None) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    import torch

    from ..common.environment import require_gpu
    from ..reference.checks import check_tokens

    require_gpu()
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.zeros(1, device="cuda")
    answer({})
    for line in sys.stdin:
        asked = json.loads(line)
        # The estimate, and an allowance for fragmentation.
        torch.cuda.set_per_process_memory_fraction(
            min(1.0, (1.5 * asked["memory"] + GIGABYTE) / whole)
        )
        for row in check_tokens(
            Plan.load(Path(asked["plan"])),
            asked["tokens"],
            asked["seed"],
            asked["repeats"],
        ):
            answer(row)
        torch.cuda.empty_cache()
        answer(None)
    return 0


if __name__ == "__main__":
    sys.exit(work())
