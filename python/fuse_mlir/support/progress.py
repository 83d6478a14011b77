# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Progress of what takes longer than a second."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from fuse_mlir.support.types import Progress, ProgressOption

#: Seconds of a clock that never runs back; tests replace it.
CLOCK = time.monotonic
#: Seconds until the first report, and between reports of many short steps. A
#: shorter wait needs no report.
DELAY = 1.0
#: Characters of a bar, and of the line beside it.
_BAR, _LINE = 30, 60


class Display:
    """Shows progress as text.

    A terminal and a notebook get a bar that each report draws anew; files and
    pipes get a line for each report.

    Args:
        stream: where to write; None uses the standard error at each report.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def __call__(self, done: int, total: int, line: str) -> None:
        stream = sys.stderr if self._stream is None else self._stream
        if not _redraws(stream):
            print(f"[{done}/{total}] {line}", file=stream)
            return
        filled = _BAR * done // max(1, total)
        print(
            f"\r{'█' * filled}{'░' * (_BAR - filled)} {done}/{total} "
            f"{line[:_LINE]:{_LINE}}",
            end="\n" if done == total else "",
            file=stream,
            flush=True,
        )


def _redraws(stream: TextIO) -> bool:
    """Whether a line can be drawn over; in notebooks, too."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel")


class Paced:
    """Passes reports of many short steps on, at most one each `DELAY`.

    The first second has no report. The last step has one if others had.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._last = CLOCK()
        self._shown = False

    def __call__(self, done: int, total: int, line: str) -> None:
        now = CLOCK()
        if now - self._last > DELAY or (self._shown and done == total):
            # The next series of steps may be short.
            self._last, self._shown = now, done != total
            self._progress(done, total, line)


def paced(progress: Progress | None) -> Progress | None:
    """`Paced` of a callable, or None."""
    return None if progress is None else Paced(progress)


def progress_of(option: ProgressOption) -> Progress | None:
    """The callable of an argument `progress`.

    Args:
        option: a callable; True for a `Display` that appears after a second;
            None or False for no reports.

    Raises:
        TypeError: it is something else.
    """
    if option is None or option is False:
        return None
    if option is True:
        return Paced(Display())
    if not callable(option):
        raise TypeError(
            f"argument 'progress' is of type {type(option).__name__}; expected "
            "a function of two numbers and a line, True, False or None"
        )
    return option
