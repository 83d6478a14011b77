# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A cache of observed ranges on disk.

Calibration spends most of its time running the function on data. The ranges are
the same until function, weights or data change. An entry is one file, named by
the hash of all three.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fuse_mlir.quantized.value_range import Range
from fuse_mlir.support.cache_folder import cache_folder

# Part of every key. Change it with the contents of entries or the counting of
# ranges.
FORMAT = "fuse-ranges-1"


def default_directory() -> Path:
    """`$XDG_CACHE_HOME/fuse-mlir/ranges`, below `~/.cache` by default."""
    return cache_folder("ranges")


def hash_file(path: Path) -> str:
    """SHA-256 of the contents of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def key_of(
    tools: Sequence[Path],
    source: Path,
    weights: Path | None,
    data: Sequence[Path],
) -> str:
    """Name of the entry for a function, its weights, ordered data and tools."""
    parts = [
        FORMAT,
        *map(hash_file, tools),
        hash_file(source),
        hash_file(weights) if weights is not None else "no weights",
        *map(hash_file, data),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def load(directory: Path, key: str) -> dict[str, Range] | None:
    """The ranges of an entry; None if it is missing or unreadable."""
    path = directory / f"{key}.npz"
    try:
        with (
            open(path, "rb") as stream,
            np.load(stream, allow_pickle=False) as file,
        ):
            header = json.loads(str(file["header"]))
            if header["key"] != key:
                return None
            ranges = {}
            for index, fields in enumerate(header["ranges"]):
                name = fields.pop("name")
                ranges[name] = Range.restore(
                    file[f"histogram{index}"], file[f"sample{index}"], **fields
                )
            return ranges
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        zipfile.BadZipFile,
    ):
        return None


def store(directory: Path, key: str, ranges: Mapping[str, Range]) -> None:
    """Writes an entry atomically; a read-only cache is not an error."""
    header = {
        "key": key,
        "ranges": [
            {
                "name": name,
                "count": seen.count,
                "largest": seen.largest,
                "limit": seen.limit,
                "seed": seen.seed,
                "sample_size": seen.sample_size,
            }
            for name, seen in ranges.items()
        ],
    }
    arrays: dict[str, Any] = {"header": np.array(json.dumps(header))}
    for index, seen in enumerate(ranges.values()):
        arrays[f"histogram{index}"] = seen.histogram
        arrays[f"sample{index}"] = seen.sample
    with contextlib.suppress(OSError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=directory, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)
            os.replace(name, directory / f"{key}.npz")
        except BaseException:
            os.unlink(name)
            raise
