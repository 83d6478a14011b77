# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets kernels of the CPU run on the threads of PyTorch.

PyTorch's threads spin after each op, waiting for the next one. Threads of
another library would share the processors with them.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import torch

#: Environment variable; 1 keeps the threads of kernels apart from PyTorch's.
OWN_THREADS = "FUSE_OWN_THREADS"


def openmp_library() -> str | None:
    """Path of the library for OpenMP that PyTorch runs its ops with.

    None if there is none, or several of which none is PyTorch's own.
    """
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    paths = {
        words[-1]
        for words in map(str.split, maps.splitlines())
        if len(words) >= 6
        and Path(words[-1]).name.startswith(("libgomp", "libiomp5", "libomp"))
    }
    own = {p for p in paths if Path(torch.__file__).parent in Path(p).parents}
    found = own or paths
    return found.pop() if len(found) == 1 else None


def share_threads(library: ctypes.CDLL) -> bool:
    """Lets kernels run on the threads of PyTorch's ops.

    Returns:
        Whether they do, as long as both have equally many threads.
    """
    if os.environ.get(OWN_THREADS) == "1":
        return False
    path = openmp_library()
    if path is None or not hasattr(library, "fuse_set_team"):
        return False
    try:
        openmp = ctypes.CDLL(path)
        parallel, most = openmp.GOMP_parallel, openmp.omp_get_max_threads
    except (OSError, AttributeError):
        return False
    library.fuse_set_team.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    status = library.fuse_set_team(
        ctypes.cast(parallel, ctypes.c_void_p),
        ctypes.cast(most, ctypes.c_void_p),
    )
    return bool(status == 0)
