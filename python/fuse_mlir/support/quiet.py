# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Silences libraries that print while they load or trace."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Allows one thread to trace modules, without logs and printed graphs.

    PyTorch has one tracing state for all threads. The failures that it logs are
    handled by the caller.
    """
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
            # Output of other threads is not lost.
            sys.stderr.write(
                printed.getvalue().replace(f"{graph}\n", "")
                if graph
                else printed.getvalue()
            )


_TRACING = threading.RLock()


#: Loggers of PyTorch that log failures before they are raised.
_LOGS = (
    "torch._subclasses.fake_tensor",
    "torch.fx.experimental.symbolic_shapes",
)
