# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads kernels for many rows before a call needs them.

A GPU's driver compiles code when it is loaded, which takes seconds for all
ranges of rows. A model is used with few rows first, so a thread loads the
ranges one after the other meanwhile. A call that comes earlier waits for its
range alone.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Iterable

from fuse_mlir.compiler.kernels import FEW_ROWS, Kernel
from fuse_mlir.errors import KernelError, NativeError

_STOP = threading.Event()
_THREADS: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def prefetch(kernels: Iterable[Kernel]) -> threading.Thread | None:
    """Starts to load the code of kernels on GPUs in the background.

    Args:
        kernels: of a model. Those with the same code share what is loaded.

    Returns:
        The thread; None if everything is loaded.
    """
    by_code: dict[int, Kernel] = {}
    for kernel in kernels:
        if kernel.most_rows_to_load > kernel.most_loaded:
            by_code.setdefault(kernel.code_id, kernel)
    if not by_code:
        return None
    # The model may be gone before its code is loaded.
    waiting = [weakref.ref(kernel) for kernel in by_code.values()]
    thread = threading.Thread(
        target=_load, args=(waiting,), name="fuse prefetch", daemon=True
    )
    _THREADS.add(thread)
    thread.start()
    return thread


def _load(waiting: list[weakref.ref[Kernel]]) -> None:
    rows = FEW_ROWS
    while waiting and not _STOP.is_set():
        rows *= 2
        left = []
        for ref in waiting:
            kernel = ref()
            if kernel is None or _STOP.is_set():
                continue
            try:
                kernel.load_up_to(min(rows, kernel.most_rows_to_load))
            except (KernelError, NativeError):
                # A call with such rows tries again, and tells the reason.
                continue
            if kernel.most_loaded < kernel.most_rows_to_load:
                left.append(ref)
        waiting = left


@atexit.register
def _stop() -> None:
    """Waits for the range that is being loaded: the driver must not go away
    while it compiles."""
    _STOP.set()
    for thread in list(_THREADS):
        thread.join()
