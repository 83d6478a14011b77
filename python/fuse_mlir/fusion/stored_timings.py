# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Verdicts of `timing` that other processes reached, on disk.

A verdict takes seconds of measuring, and stays the same until the kernel, the
members, the machine or PyTorch change. Each one is a file that is named by the
hash of all of them. A file that cannot be read is measured anew. A verdict within
the noise of its measurement is kept with it, and is not final: the next processes
measure again, and the shortest times of all count.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from fuse_mlir import native
from fuse_mlir.fusion import timing
from fuse_mlir.fusion.timing import RowRanges, Table, Times, Verdict
from fuse_mlir.native.threads import OWN_THREADS
from fuse_mlir.support.cache_folder import cache_folder, write_file

# Part of every key: what a file holds and how calls are measured.
FORMAT = "fuse-timings-2"
#: Maximum number of files, of about one KiB each. The oldest ones go first.
MOST = 4096


def folder() -> Path:
    """The folder of the files, whether it exists or not."""
    return cache_folder("timings")


@functools.cache
def _machine(device: str) -> tuple[str, ...]:
    """What calls on a device take their time by."""
    common = (
        FORMAT,
        torch.__version__,
        native.build_id(),
        str(native.extension() is not None),
        os.environ.get(OWN_THREADS, ""),
        platform.node(),
        _processor(),
    )
    if not device.startswith("cuda"):
        return common
    properties = torch.cuda.get_device_properties(device)
    return (
        *common,
        properties.name,
        str(properties.multi_processor_count),
        str(torch.version.cuda),
    )


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def key_of(device: torch.device, parts: Sequence[object]) -> str:
    """Name of the file of a site.

    Args:
        device: where it runs.
        parts: texts of what the site consists of.
    """
    text = "\n".join([*_machine(str(device)), *map(str, parts)])
    return hashlib.sha256(text.encode()).hexdigest()


def load(key: str) -> Verdict | None:
    """The verdict of a site; None if there is none that can be read."""
    try:
        found = json.loads((folder() / f"{key}.json").read_text())
        if found["format"] != FORMAT or found["key"] != key:
            return None
        traced = found["traced"]
        return Verdict(
            _table(found["eager"]),
            None if traced is None else _table(traced),
            int(found["tries"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _table(found: dict[str, object]) -> Table:
    times = tuple(
        Times(
            int(t["rows"]),
            float(t["members"]),
            float(t["kernel"]),
            float(t["spread"]),
        )
        for t in found["times"]  # type: ignore[attr-defined]
    )
    ranges = tuple(
        (int(first), None if last is None else int(last))
        for first, last in found["rows"]["ranges"]  # type: ignore[index]
    )
    overhead, loss, gain, noise = (
        float(found[name])  # type: ignore[arg-type]
        for name in ("overhead", "loss", "gain", "noise")
    )
    if not times or any(t.members <= 0 or t.kernel <= 0 for t in times):
        raise ValueError("a time is not positive")
    return Table(times, overhead, RowRanges(ranges), loss, gain, noise)


def forget() -> None:
    """Drops all verdicts, also those of other processes, so that the next call
    measures anew."""
    timing.forget()
    for path in folder().glob("*.json"):
        with contextlib.suppress(OSError):
            path.unlink()


def store(key: str, verdict: Verdict) -> None:
    """Writes a file at once; a folder that cannot be written is no error."""
    text = json.dumps({"format": FORMAT, "key": key, **asdict(verdict)})
    with contextlib.suppress(OSError):
        write_file(folder() / f"{key}.json", text, MOST)
