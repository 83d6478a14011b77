# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Silence for libraries that print while they load or trace."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """For what traces modules: one thread at a time, because PyTorch has one
    state for all of them, and without the log and the printed graph of
    failures that are dealt with."""
    logs = [logging.getLogger(name) for name in _LOGS]
    printed, graph = io.StringIO(), ""
    with _TRACING:
        before = [log.disabled for log in logs]
        try:
            for log in logs:
                log.disabled = True
            with contextlib.redirect_stderr(printed):
                yield
        except Exception as error:
            graph = str(getattr(error, "partial_fx_graph", ""))
            raise
        finally:
            for log, disabled in zip(logs, before):
                log.disabled = disabled
            # What others print meanwhile is not lost.
            sys.stderr.write(
                printed.getvalue().replace(f"{graph}\n", "")
                if graph
                else printed.getvalue()
            )


_TRACING = threading.RLock()


#: Logs of PyTorch that tell of failures before they are raised.
_LOGS = (
    "torch._subclasses.fake_tensor",
    "torch.fx.experimental.symbolic_shapes",
)
