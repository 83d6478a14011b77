# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For which numbers of rows a kernel is faster than the modules it replaces.

The faster one depends on the processor, on the libraries of PyTorch and on
sizes, so a fixed table would be wrong somewhere. Both are timed here, on the
weights of the model, through the calls that the model makes. The time of the
fused site includes its checks.

Other work of the machine makes calls vary. If they vary by more than the two
systems differ, the calls are repeated, and later processes measure again.

The decision does not depend on the clock, so tests can use their own.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
#: Maximum factor on SECONDS and MOST for calls that vary by more than they
#: differ from each other.
PATIENCE = 4
#: Number of processes that measure a site whose calls vary that much.
TRIES = 3
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

#: Constants and names in the IR of a kernel, on which its time does not depend.
_UNTIMED = re.compile(
    r"(?<![\w.%])-?\d+\.\d+(?:e[-+]?\d+)?"
    r'|fuse\.parameter = "[^"]*"|site\("[^"]*"\)|origins\(\[[^\]]*\]\)',
    re.IGNORECASE,
)

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
    #: Fraction by which the times varied.
    spread: float = 0.0

    def merge(self, other: Times) -> Times:
        """The shortest times of two measurements."""
        return Times(
            self.rows,
            min(self.members, other.members),
            min(self.kernel, other.kernel),
            min(self.spread, other.spread),
        )

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
    #: Fraction by which times varied that differ by less; 0 if none do.
    noise: float = 0.0

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

    def noise() -> float:
        """The largest spread that could change an answer."""
        return max(
            (
                t.spread
                for t in times.values()
                if t.spread > max(TOLERANCE, abs(kernel(t) / t.members - 1.0))
            ),
            default=0.0,
        )

    gain = max(1.0 - kernel(t) / t.members for t in times.values())
    if gain < TOLERANCE and not wanted:
        return Table(
            tuple(times.values()), 0.0, RowRanges(), 0.0, gain, noise()
        )
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
        noise(),
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
    #: Number of processes that measured.
    tries: int = 1

    @property
    def noise(self) -> float:
        """Fraction by which times varied that differ by less, or 0."""
        return max(table.noise for table in self.tables)

    @property
    def final(self) -> bool:
        """Whether later processes need not measure again."""
        return self.tries >= TRIES or self.noise == 0.0

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
        if self.noise:
            texts.append(
                f"equal calls varied by {100 * self.noise:.0f}%, because the "
                "machine was busy"
                + ("" if self.final else "; the next process measures again")
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


class Compared(NamedTuple):
    """Seconds of two ways to call a site."""

    members: float
    other: float
    #: Fraction by which the times varied.
    spread: float


@dataclass
class _Samples:
    """Seconds of all measured calls of two ways to call a site."""

    members: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)
    #: Calls of the members directly after the other.
    after: list[float] = field(default_factory=list)

    def result(self) -> Compared:
        """The shortest times."""
        alone, other = min(self.members), min(self.other)
        late = min(self.after) - alone if self.after else 0.0
        return Compared(
            alone,
            other + max(late, 0.0),
            max(_spread(self.members), _spread(self.other)),
        )

    def clear(self) -> bool:
        """Whether the calls vary by less than they differ."""
        found = self.result()
        gap = abs(found.other / found.members - 1.0) if found.members else 0.0
        return found.spread <= max(TOLERANCE, gap)


def _spread(times: list[float]) -> float:
    """Fraction by which the fastest quarter of calls, two at least, varies."""
    known = sorted(times)
    if len(known) < 2 or known[0] <= 0:
        return 0.0
    return known[max(1, len(known) // 4)] / known[0] - 1.0


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

    def once(self, run: Run) -> float:
        """Seconds of one call."""
        self._wait()
        start = self.clock()
        run()
        self._wait()
        return self.clock() - start

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def compare(self, members: Run, other: Run) -> Compared:
        """Seconds of two ways to call a site, after rounds of `SECONDS`."""
        with _as_in_calls(self.device):
            first = [self.once(run) for run in (members, other)]
            if self.device.type == "cuda":
                return self._after_work(members, other)
            if min(first) > SHORT:
                return self._turns(members, other)
            return self._neighbors(members, other)

    def _rounds(self, samples: _Samples, quick: bool = False) -> Iterator[None]:
        """Rounds of calls, until `samples` has enough.

        Args:
            samples: to which each round adds one call of each way.
            quick: whether fewer rounds show a difference of more than CLEAR.
        """
        start = self.clock()
        for rounds in range(1, PATIENCE * MOST + 1):
            yield
            taken = self.clock() - start
            clear = samples.clear()
            if rounds >= LEAST and (rounds >= MOST or taken > SECONDS):
                if clear or taken > PATIENCE * SECONDS:
                    return
            elif quick and rounds >= FEW and taken > SECONDS / 2 and clear:
                members, other, _ = samples.result()
                if max(members, other) > CLEAR * min(members, other):
                    return

    def _neighbors(self, members: Run, other: Run) -> Compared:
        """`compare` for short calls: the other call follows the members, and
        the time that the members lose after it is added."""
        samples = _Samples()
        for _ in self._rounds(samples):
            members()
            samples.members.append(self.once(members))
            samples.other.append(self.once(other))
            samples.after.append(self.once(members))
        return samples.result()

    def _after_work(self, members: Run, other: Run) -> Compared:
        """`compare` for calls on a GPU, each after work of another kind."""
        some = torch.zeros(8, 8, device=self.device)

        def work() -> None:
            value = some
            for _ in range(OTHER_OPS):
                value = nn.functional.gelu(
                    value.view(4, 16).transpose(0, 1).contiguous()
                ).view(8, 8)

        samples = _Samples()
        for _ in self._rounds(samples):
            work()
            samples.members.append(self.once(members))
            work()
            samples.other.append(self.once(other))
        return samples.result()

    def _turns(self, members: Run, other: Run, calls: int = 1) -> Compared:
        """`compare` for long runs of `calls` calls each."""
        samples = _Samples()
        for _ in self._rounds(samples, quick=True):
            samples.members.append(self.once(members) / calls)
            samples.other.append(self.once(other) / calls)
        return samples.result()


_VERDICTS: OrderedDict[object, Verdict] = OrderedDict()
_LOCK = threading.Lock()


def timed_ir(ir: str) -> str:
    """The IR of a kernel without what takes no time, such as scales.

    Equal layers of a model have equal texts.
    """
    return _UNTIMED.sub("_", ir)


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

    def compare(self, members: Run, other: Run) -> Compared:
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
            return self._turns(graphs[0].replay, graphs[1].replay, CALLS)


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
    earlier: Verdict | None = None,
) -> Verdict:
    """Times of a site, eager and, on a GPU, in captured graphs.

    Args:
        rows: numbers of rows to measure.
        eager: measures calls with a number of rows by a stopwatch.
        overhead: as for `decide`.
        device: of the site.
        slow: called with a line before each step, after the first second.
        earlier: the measurement of another process, whose times count if they
            are shorter.
    """
    start = CLOCK()

    def by(watch: Stopwatch, before: Table | None) -> Callable[[int], Times]:
        known = {t.rows: t for t in before.times} if before else {}

        def measure(count: int) -> Times:
            if slow is not None and CLOCK() - start > 1.0:
                slow(f"measuring calls with {count} rows")
            found = eager(count, watch)
            return found.merge(known[count]) if count in known else found

        return measure

    traced = None
    if device.type == "cuda":
        with contextlib.suppress(RuntimeError):
            # Members that wait for the GPU cannot be captured.
            traced = decide(
                by(GraphStopwatch(device), earlier.traced if earlier else None),
                lambda _: 0.0,
                rows,
            )
    gpu = device.type == "cuda"
    table = decide(
        by(Stopwatch(device), earlier.eager if earlier else None),
        overhead,
        rows,
        traced is not None and traced.gains,
        EAGER_GAIN if gpu else 0.0,
        SHARE if gpu else 1.0,
    )
    return Verdict(table, traced, earlier.tries + 1 if earlier else 1)
