# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where results that take long are kept on disk."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """`$XDG_CACHE_HOME/fuse-mlir/NAME`, below `~/.cache` by default."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fuse-mlir" / name
