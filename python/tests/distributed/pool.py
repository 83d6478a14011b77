# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that are the ranks of a group, for tests."""

from __future__ import annotations

import datetime
import importlib
import multiprocessing
import os
import shutil
import tempfile
import time
import traceback
from typing import Any

#: Seconds that a collective waits for other ranks.
PATIENCE = 60
#: Seconds that a process may take to import PyTorch.
START = 180


def _work(rank: int, world: int, store: str, pipe: Any) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK="0")
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(store, world),
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=PATIENCE),
    )
    pipe.send(("ready", None))
    while True:
        try:
            name, args = pipe.recv()
        except EOFError:
            return
        module, _, function = name.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), function)
            pipe.send(("result", found(rank, *args)))
        except Exception as error:
            pipe.send(
                (
                    "error",
                    f"{type(error).__name__}: {error}\n"
                    + traceback.format_exc(),
                )
            )


class Pool:
    """Ranks 0 to `world - 1`, each a process that runs one case at a time."""

    def __init__(self, world: int) -> None:
        self._folder = tempfile.mkdtemp(prefix="fuse-ranks-")
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        self._processes = []
        for rank in range(world):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work,
                args=(rank, world, f"{self._folder}/store", theirs),
                daemon=True,
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self._receive(START)

    def run(self, case: Any, *args: object, limit: float = 120) -> list[Any]:
        """The results of a function on all ranks.

        Args:
            case: a function of a module, with the rank as its first argument.
            args: the others.
            limit: seconds after which all ranks are killed.

        Raises:
            AssertionError: a rank raised an error or took too long.
        """
        for pipe in self._pipes:
            pipe.send((f"{case.__module__}.{case.__qualname__}", args))
        return self._receive(limit)

    def _receive(self, limit: float) -> list[Any]:
        end = time.monotonic() + limit
        results, errors = [], []
        for rank, pipe in enumerate(self._pipes):
            try:
                if not pipe.poll(max(0.0, end - time.monotonic())):
                    self.kill()
                    raise AssertionError(
                        f"rank {rank} took more than {limit} s"
                    )
                kind, value = pipe.recv()
            except (EOFError, ConnectionError):
                kind, value = "gone", None
            results.append(value if kind != "gone" else "gone")
            if kind == "error":
                errors.append(f"rank {rank}: {value}")
        if errors:
            raise AssertionError("\n".join(errors))
        return results

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(2)
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
