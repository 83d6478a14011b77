# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where results that take long are kept on disk."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def cache_folder(name: str) -> Path:
    """`$XDG_CACHE_HOME/fuse-mlir/NAME`, below `~/.cache` by default."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fuse-mlir" / name


def write_file(path: Path, text: str, most: int) -> None:
    """Writes a file so that other processes see all of it or none.

    Args:
        path: of the file, whose folder is made.
        text: what it holds.
        most: number of files of this kind in the folder; if there are more, the
            older half goes.

    Raises:
        OSError: the folder or the file cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    _remove_old(path.parent, path.suffix, most)


def _remove_old(folder: Path, suffix: str, most: int) -> None:
    files = list(folder.glob(f"*{suffix}"))
    if len(files) <= most:
        return
    times: list[tuple[float, Path]] = []
    # Other processes remove files at the same time.
    for file in files:
        with contextlib.suppress(OSError):
            times.append((file.stat().st_mtime, file))
    times.sort()
    for _, file in times[: len(times) - most // 2]:
        with contextlib.suppress(OSError):
            file.unlink()
