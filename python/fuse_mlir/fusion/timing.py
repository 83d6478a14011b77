# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For which numbers of rows a kernel is faster than the modules it replaces.

The faster one depends on the processor, on the libraries of PyTorch and on
sizes, so a fixed table would be wrong somewhere. Both are timed here, on the
weights of the model, through the calls that the model makes. The time of the
fused site includes its checks.

The decision does not depend on the clock, so tests can use their own.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

#: Numbers of rows that are measured: one token, a small batch, and a prompt.
ROWS = (1, 33, 257)
#: Fraction of its time that a call may lose, and that a site must gain for at
#: least one number of rows.
TOLERANCE = 0.03
#: Seconds to measure one number of rows, unless two rounds take longer.
SECONDS = 0.12
#: Minimum and maximum number of rounds, and the minimum if the two times
#: differ by more than the factor CLEAR.
LEAST, MOST, FEW, CLEAR = 3, 60, 2, 1.5
#: Calls of fewer seconds are measured together with the next call, because
#: threads that poll for work slow it down.
SHORT = 2e-3
#: Bisection steps between two numbers of rows with different answers.
REFINEMENTS = 2
#: Calls in one captured graph.
CALLS = 8
#: Fraction of its time that an eager call on a GPU must gain. The host limits
#: such calls, and it is slower in a model than in a loop over one site. On an
#: H100, sites that gained 3 to 11 % after other work slowed models down by up
#: to 20 %; sites that gained more made models faster.
EAGER_GAIN = 0.15
#: Maximum fraction of the time of an eager model that one site has. If a site
#: that runs its members loses time, the model loses this fraction of the loss.
SHARE = 1 / 3
#: Ops between two measured calls on a GPU. They fill the caches of the host as
#: the rest of a layer does.
OTHER_OPS = 40
#: Maximum number of verdicts that a process keeps.
KEPT = 256
#: Returns seconds; only differences matter.
CLOCK = time.perf_counter

Run = Callable[[], object]


@dataclass(frozen=True)
class RowRanges:
    """Numbers of rows for which a kernel runs: pairs of the first and the last
    number of each range. None means no upper limit."""

    ranges: tuple[tuple[int, int | None], ...] = ()

    def has(self, rows: int) -> bool:
        """Whether the kernel runs for `rows`."""
        for first, last in self.ranges:
            if rows >= first and (last is None or rows <= last):
                return True
        return False

    @classmethod
    def up_to(cls, rows: int) -> RowRanges:
        """All numbers of rows up to `rows`."""
        return cls(((0, rows),))

    @property
    def all(self) -> bool:
        """Whether the kernel runs for any number of rows."""
        return self.ranges == ((0, None),)

    def __str__(self) -> str:
        parts = []
        for first, last in self.ranges:
            first = max(first, 1)
            parts.append(
                f"{first} or more"
                if last is None
                else str(first)
                if first == last
                else f"{first} to {last}"
            )
        return " and ".join(parts) or "no"


@dataclass(frozen=True)
class Times:
    """Seconds of one call with `rows` rows."""

    rows: int
    members: float
    kernel: float

    def __str__(self) -> str:
        return (
            f"{milliseconds(self.members)} unfused, "
            f"{milliseconds(self.kernel)} fused at {self.rows} "
            + ("row" if self.rows == 1 else "rows")
        )


def milliseconds(seconds: float) -> str:
    """A time with three digits."""
    value = 1e3 * seconds
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{min(digits, 4)}f} ms"


@dataclass(frozen=True)
class Table:
    """Times of one kind of call of a site, and the conclusions."""

    times: tuple[Times, ...]
    #: Seconds that a call adds if it runs the members instead.
    overhead: float
    rows: RowRanges
    #: Fraction of its time that the slowest call loses, after `share`.
    loss: float
    #: Fraction of its time that the fastest call gains, after `least`.
    gain: float

    @property
    def gains(self) -> bool:
        """Whether the site is faster for some calls and slower for none."""
        return self.gain >= TOLERANCE and self.loss <= TOLERANCE

    def figures(self) -> str:
        """All times as a text."""
        return "; ".join(map(str, self.times))

    def slowest(self) -> Times:
        """The times with the slowest kernel, relative to the members."""
        return max(self.times, key=lambda t: t.kernel / t.members)


def decide(
    measure: Callable[[int], Times],
    overhead: Callable[[int], float],
    counts: Sequence[int] = ROWS,
    wanted: bool = False,
    least: float = 0.0,
    share: float = 1.0,
) -> Table:
    """Ranges of rows in which the kernel is at least as fast.

    Args:
        measure: times for a number of rows.
        overhead: seconds that a call with a number of rows adds if it runs
            the members instead of the kernel.
        counts: numbers of rows to measure. If two neighbors differ, the limit
            between them is bisected. The answer of the largest holds above it.
        wanted: whether another table gains, so that the site is fused even if
            this one does not gain.
        least: fraction of its time that a call must gain; only the rest of a
            gain counts.
        share: fraction of a site's loss that counts.
    """
    times = {rows: measure(rows) for rows in sorted(set(counts))}

    def kernel(time_: Times) -> float:
        """Time of the kernel in seconds, with the required gain added."""
        return time_.kernel / (1.0 - least)

    gain = max(1.0 - kernel(t) / t.members for t in times.values())
    if gain < TOLERANCE and not wanted:
        return Table(tuple(times.values()), 0.0, RowRanges(), 0.0, gain)
    cost = 0.0
    if any(kernel(t) > t.members for t in times.values()):
        cost = overhead(min(times))

    def loss_of(time_: Times) -> float:
        """Loss of the better of kernel and fallback to the members."""
        return (
            share
            * min(max(kernel(time_) - time_.members, 0.0), cost)
            / time_.members
        )

    def by_kernel(time_: Times) -> bool:
        return kernel(time_) <= time_.members + cost

    loss = max(map(loss_of, times.values()))
    if loss <= TOLERANCE:
        for few, many in zip(sorted(times), sorted(times)[1:]):
            for _ in range(REFINEMENTS):
                middle = round(math.sqrt(few * many))
                if (
                    by_kernel(times[few]) == by_kernel(times[many])
                    or not few < middle < many
                ):
                    break
                times[middle] = measure(middle)
                if by_kernel(times[middle]) == by_kernel(times[few]):
                    few = middle
                else:
                    many = middle
    known = [times[rows] for rows in sorted(times)]
    return Table(
        tuple(known),
        cost,
        _ranges([(t.rows, by_kernel(t)) for t in known]),
        loss,
        gain,
    )


def _ranges(known: Sequence[tuple[int, bool]]) -> RowRanges:
    """Ranges whose ends were measured."""
    found: list[tuple[int, int | None]] = []
    for i, (rows, good) in enumerate(known):
        if not good:
            continue
        last = None if i + 1 == len(known) else rows
        if i and known[i - 1][1]:
            found[-1] = found[-1][0], last
        else:
            found.append((0 if i == 0 else rows, last))
    return RowRanges(tuple(found))


@dataclass(frozen=True)
class Verdict:
    """The measurement of a site."""

    eager: Table
    #: Calls by torch.compile or a captured graph, if their costs differ.
    traced: Table | None = None

    @property
    def tables(self) -> list[Table]:
        return (
            [self.eager] if self.traced is None else [self.eager, self.traced]
        )

    @property
    def slower(self) -> bool:
        """Whether the site should stay unfused."""
        return any(t.loss > TOLERANCE for t in self.tables) or not any(
            t.gains for t in self.tables
        )

    def reason(self) -> str:
        """Why the site stays unfused."""
        texts = [self.eager.figures()]
        if self.traced is not None:
            texts.append(f"in a CUDA graph {self.traced.figures()}")
        for table in self.tables:
            if table.loss > TOLERANCE:
                texts.append(
                    "running the members for other rows would add "
                    f"{milliseconds(table.overhead)}, "
                    f"{100 * table.loss:.0f}% of a call"
                )
        return "; ".join(texts)

    def note(self) -> str:
        """Numbers of rows that run the members, and how much faster it is."""
        texts = [_note(self.eager)]
        if self.traced is not None:
            traced = _note(self.traced)
            texts.append(traced and f"compiled or in a CUDA graph {traced}")
        return "; ".join(filter(None, texts))


def _note(table: Table) -> str:
    if table.rows.all:
        return ""
    what = "calls with others" if table.rows.ranges else "all calls"
    return (
        f"for {table.rows} rows; {what} run the members, which is faster "
        f"({table.slowest()})"
    )


@contextlib.contextmanager
def _as_in_calls(device: torch.device) -> Iterator[None]:
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        yield


class Idle(nn.Module):
    """Returns its first tensor, in almost no time."""

    def forward(self, *args: object, **kwargs: object) -> object:
        return next(
            value
            for value in (*args, *kwargs.values())
            if isinstance(value, torch.Tensor)
        )


class Stopwatch:
    """Times alternating calls and keeps the shortest time of each.

    Args:
        device: where the calls run. A GPU is synchronized after each call.
        clock: returns seconds; only differences matter.
    """

    def __init__(
        self, device: torch.device, clock: Callable[[], float] | None = None
    ) -> None:
        self.device = device
        self.clock = clock or CLOCK

    def once(self, *runs: Run) -> float:
        """Seconds of calls that follow each other."""
        self._wait()
        start = self.clock()
        for run in runs:
            run()
        self._wait()
        return self.clock() - start

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def compare(self, members: Run, other: Run) -> tuple[float, float]:
        """Seconds of two ways to call a site, after rounds of `SECONDS`."""
        with _as_in_calls(self.device):
            first = [self.once(run) for run in (members, other)]
            if self.device.type == "cuda":
                return self._after_work(members, other)
            if min(first) > SHORT:
                return self._turns([members], [other], 1)
            return self._neighbors(members, other)

    def _neighbors(self, members: Run, other: Run) -> tuple[float, float]:
        """`compare` for short calls: the other call follows the members, and
        the time that the members lose after it is added."""
        alone = kernel = after = math.inf
        start = self.clock()
        for rounds in range(1, MOST + 1):
            members()
            alone = min(alone, self.once(members))
            kernel = min(kernel, self.once(other))
            after = min(after, self.once(members))
            if rounds >= LEAST and self.clock() - start > SECONDS:
                break
        return alone, kernel + max(after - alone, 0.0)

    def _after_work(self, members: Run, other: Run) -> tuple[float, float]:
        """`compare` for calls on a GPU, each after work of another kind."""
        some = torch.zeros(8, 8, device=self.device)

        def work() -> None:
            value = some
            for _ in range(OTHER_OPS):
                value = nn.functional.gelu(
                    value.view(4, 16).transpose(0, 1).contiguous()
                ).view(8, 8)

        best = [math.inf, math.inf]
        start = self.clock()
        for rounds in range(1, MOST + 1):
            for i, run in enumerate((members, other)):
                work()
                best[i] = min(best[i], self.once(run))
            if rounds >= LEAST and self.clock() - start > SECONDS:
                break
        return best[0], best[1]

    def _turns(
        self, members: Sequence[Run], other: Sequence[Run], calls: int
    ) -> tuple[float, float]:
        best = [math.inf, math.inf]
        start = self.clock()
        for rounds in range(1, MOST + 1):
            for i, runs in enumerate((members, other)):
                best[i] = min(best[i], self.once(*runs))
            enough = FEW if max(best) > CLEAR * min(best) else LEAST
            if (
                rounds >= enough
                and self.clock() - start > SECONDS / 2
                and max(best) > CLEAR * min(best)
                or rounds >= LEAST
                and self.clock() - start > SECONDS
            ):
                break
        return best[0] / calls, best[1] / calls


_VERDICTS: OrderedDict[object, Verdict] = OrderedDict()
_LOCK = threading.Lock()


def known(key: object) -> Verdict | None:
    """The verdict of a structure, if it was measured in this process."""
    with _LOCK:
        return _VERDICTS.get(key)


def remember(key: object, verdict: Verdict) -> Verdict:
    """Keeps the verdict of a structure; returns it."""
    with _LOCK:
        _VERDICTS[key] = verdict
        while len(_VERDICTS) > KEPT:
            _VERDICTS.popitem(last=False)
    return verdict


def forget() -> None:
    """Drops all verdicts, so that the next call measures again."""
    with _LOCK:
        _VERDICTS.clear()


class GraphStopwatch(Stopwatch):
    """Times calls in captured CUDA graphs, whose time does not depend on the
    host."""

    def compare(self, members: Run, other: Run) -> tuple[float, float]:
        graphs = []
        with _as_in_calls(self.device):
            for run in (members, other):
                # Kernels and workspaces are made before a capture.
                run()
                torch.cuda.synchronize(self.device)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    for _ in range(CALLS):
                        run()
                graphs.append(graph)
                graph.replay()
            return self._turns([graphs[0].replay], [graphs[1].replay], CALLS)


def example_inputs(
    examples: Sequence[torch.Tensor],
    rows: int,
    device: torch.device,
    largest: int = 0,
) -> list[torch.Tensor]:
    """Drawn inputs like `examples`, with another number of rows.

    Args:
        examples: [..., features] each; only shapes and dtypes matter. Leading
            dimensions equal to those of the first become [1, ..., `rows`].
        rows: number of rows of the result.
        device: of the result.
        largest: upper bound of drawn integers, exclusive. The integers of a
            row then differ from each other, as choices of experts do. 0 draws
            zeros.
    """
    source = torch.Generator().manual_seed(0)
    lead = examples[0].shape[:-1]
    made = []
    for example in examples:
        shape = list(example.shape)
        if example.dim() > 1 and example.shape[:-1] == lead:
            shape[:-1] = [*[1] * (len(lead) - 1), rows]
        if example.is_floating_point():
            drawn = torch.randn(shape, generator=source, device="cpu")
            if largest:
                drawn = drawn.abs()
        elif largest:
            drawn = (
                torch.rand(
                    [*shape[:-1], largest], generator=source, device="cpu"
                )
                .topk(shape[-1])
                .indices
            )
        else:
            drawn = torch.zeros(shape, device="cpu")
        made.append(drawn.to(device=device, dtype=example.dtype))
    return made


def measured(
    rows: Sequence[int],
    eager: Callable[[int, Stopwatch], Times],
    overhead: Callable[[int], float],
    device: torch.device,
    slow: Callable[[str], None] | None = None,
) -> Verdict:
    """Times of a site, eager and, on a GPU, in captured graphs.

    Args:
        rows: numbers of rows to measure.
        eager: measures calls with a number of rows by a stopwatch.
        overhead: as for `decide`.
        device: of the site.
        slow: called with a line before each step, after the first second.
    """
    start = CLOCK()

    def by(watch: Stopwatch) -> Callable[[int], Times]:
        def measure(count: int) -> Times:
            if slow is not None and CLOCK() - start > 1.0:
                slow(f"measuring calls with {count} rows")
            return eager(count, watch)

        return measure

    traced = None
    if device.type == "cuda":
        with contextlib.suppress(RuntimeError):
            # Members that wait for the GPU cannot be captured.
            traced = decide(by(GraphStopwatch(device)), lambda _: 0.0, rows)
    gpu = device.type == "cuda"
    table = decide(
        by(Stopwatch(device)),
        overhead,
        rows,
        traced is not None and traced.gains,
        EAGER_GAIN if gpu else 0.0,
        SHARE if gpu else 1.0,
    )
    return Verdict(table, traced)
