# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For which numbers of rows a kernel is faster than the modules it replaces.

Which of the two wins depends on the processor, on the libraries of PyTorch and
on sizes, so that a table would be wrong somewhere. Both are run here, on the
weights of the model, through the calls that the model makes: a fused place
with all that it checks, against the members as they are.

The decision is apart from the clock, so that tests bring their own.
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

#: Numbers of rows that are measured: a token, some, and a prompt.
ROWS = (1, 33, 257)
#: The part of its time that a call may lose, and that a site has to gain for
#: one number of rows at least.
TOLERANCE = 0.03
#: Seconds that one number of rows is measured for, unless two rounds of calls
#: take longer.
SECONDS = 0.12
#: Rounds at least and at most, and those that are enough where the two
#: differ by more than the factor CLEAR.
LEAST, MOST, FEW, CLEAR = 3, 60, 2, 1.5
#: Calls that take fewer seconds are measured with the call after them, because
#: threads that wait for work in a loop slow down whatever comes next.
SHORT = 2e-3
#: How often a limit between two numbers of rows is looked for.
REFINEMENTS = 2
#: Calls of a captured graph.
CALLS = 8
#: What an eager call of a GPU has to gain, as a part of its time. The host is
#: what takes long there, and it takes longer in a model than in a loop of one
#: site: on an H100, sites that gained 3 to 11 % after other work made models
#: lose up to 20 %, and those that gained more made them gain.
EAGER_GAIN = 0.15
#: The part of an eager call of a model that a site takes at most: what a model
#: loses where its members run in their places is so much of what a site loses.
SHARE = 1 / 3
#: Ops on the host between two measured calls of a GPU, which leave caches as
#: the rest of a layer does.
OTHER_OPS = 40
#: Verdicts that a process keeps.
KEPT = 256
#: Seconds, of which differences count.
CLOCK = time.perf_counter

Run = Callable[[], object]


@dataclass(frozen=True)
class RowRanges:
    """Numbers of rows for which a kernel runs, by first and last of each
    range; None is no last one."""

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
    """Times of one way to call a site, and what follows from them."""

    times: tuple[Times, ...]
    #: Seconds that a call adds that runs the members instead.
    overhead: float
    rows: RowRanges
    #: The part of its time that the worst call loses, as far as it counts.
    loss: float
    #: The part of its time that the best call gains, as far as it counts.
    gain: float

    @property
    def gains(self) -> bool:
        """Whether the site is faster somewhere and nowhere slower."""
        return self.gain >= TOLERANCE and self.loss <= TOLERANCE

    def figures(self) -> str:
        """All times as a text."""
        return "; ".join(map(str, self.times))

    def slowest(self) -> Times:
        """Where the kernel loses most."""
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
        overhead: seconds that a call with a number of rows adds that runs the
            members instead of the kernel.
        counts: numbers of rows to measure. Between two that differ a limit is
            looked for; beyond the largest one its answer holds.
        wanted: whether another table gains, so that the site is of use even
            where this one does not.
        least: the part of its time that a call has to gain by the kernel,
            beyond which gains and losses count.
        share: the part of a site's loss that counts.
    """
    times = {rows: measure(rows) for rows in sorted(set(counts))}

    def kernel(time_: Times) -> float:
        """Seconds that the kernel counts for."""
        return time_.kernel / (1.0 - least)

    gain = max(1.0 - kernel(t) / t.members for t in times.values())
    if gain < TOLERANCE and not wanted:
        return Table(tuple(times.values()), 0.0, RowRanges(), 0.0, gain)
    cost = 0.0
    if any(kernel(t) > t.members for t in times.values()):
        cost = overhead(min(times))

    def loss_of(time_: Times) -> float:
        """What the better of the two ways loses."""
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
    """What was measured of a site."""

    eager: Table
    #: Calls that torch.compile or a captured graph makes, where those cost
    #: something else.
    traced: Table | None = None

    @property
    def tables(self) -> list[Table]:
        return (
            [self.eager] if self.traced is None else [self.eager, self.traced]
        )

    @property
    def slower(self) -> bool:
        """Whether the site had better stay as it is."""
        return any(t.loss > TOLERANCE for t in self.tables) or not any(
            t.gains for t in self.tables
        )

    def reason(self) -> str:
        """Why the site stays as it is."""
        texts = [self.eager.figures()]
        if self.traced is not None:
            texts.append(f"in a CUDA graph {self.traced.figures()}")
        for table in self.tables:
            if table.loss > TOLERANCE:
                texts.append(
                    f"to run the members for other rows would take "
                    f"{milliseconds(table.overhead)} more, "
                    f"{100 * table.loss:.0f}% of a call"
                )
        return "; ".join(texts)

    def note(self) -> str:
        """Which rows run the members, and by how much that is faster."""
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
    """Takes no time: its result is its first tensor."""

    def forward(self, *args: object, **kwargs: object) -> object:
        return next(
            value
            for value in (*args, *kwargs.values())
            if isinstance(value, torch.Tensor)
        )


class Stopwatch:
    """Times calls, the best of several that take turns.

    Args:
        device: where they run; calls of a GPU are waited for.
        clock: seconds, of which differences count.
    """

    def __init__(
        self, device: torch.device, clock: Callable[[], float] | None = None
    ) -> None:
        self.device = device
        self.clock = clock or CLOCK

    def once(self, *runs: Run) -> float:
        """Seconds of calls after each other."""
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
        """Seconds of two ways to call a site, which is called again and again
        until there is no more time for it."""
        with _as_in_calls(self.device):
            first = [self.once(run) for run in (members, other)]
            if self.device.type == "cuda":
                return self._after_work(members, other)
            if min(first) > SHORT:
                return self._turns([members], [other], 1)
            return self._neighbors(members, other)

    def _neighbors(self, members: Run, other: Run) -> tuple[float, float]:
        """The same for short calls, as a model makes them between others:
        after the members, and with what is lost by the members after it."""
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
        """The same for calls of a GPU, each after work of another kind."""
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
    """Drops all verdicts, so that the next call measures anew."""
    with _LOCK:
        _VERDICTS.clear()


class GraphStopwatch(Stopwatch):
    """Times calls in captured CUDA graphs, which the host does not slow
    down."""

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
        examples: [..., feature] each, of which shapes and types count. Leading
            dimensions like those of the first one become [1, ..., `rows`].
        rows: number of rows of the result.
        device: of the result.
        largest: how many numbers integers are drawn from, which are then all
            different in a row, as choices of experts are.
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
