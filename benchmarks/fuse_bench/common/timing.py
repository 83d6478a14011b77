# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Timing of CUDA graphs with a cold L2, alternating between systems."""

from __future__ import annotations

import ctypes
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from .device import DeviceReader
from .driver import Module, launch
from .environment import PTX_FOLDER

FLUSH_BYTES = 256 << 20
#: About 5 ms.
_DELAY_CYCLES = 10_000_000
_LONG_US = 500.0
_READ_BLOCKS, _READ_THREADS = 264, 512


@dataclass
class Sample:
    """Microseconds of many replays, grouped by rounds."""

    times: list[float]
    #: Clock in MHz and power in W during the replays.
    clocks: list[float] = field(default_factory=list)
    powers: list[float] = field(default_factory=list)
    #: How many there are of each round.
    rounds: list[int] = field(default_factory=list)

    def of_rounds(self) -> list[float]:
        """The median of each round."""
        if not self.rounds:
            return self.times
        ends = list(itertools.accumulate(self.rounds))
        return [
            statistics.median(self.times[end - count : end])
            for end, count in zip(ends, self.rounds)
        ]

    def state(self) -> dict[str, float]:
        """Median clock and power, if they are known."""
        return {
            name: round(statistics.median(values), 1)
            for name, values in (
                ("sm_mhz", self.clocks),
                ("power_w", self.powers),
            )
            if values
        }

    def over(self, other: Sample) -> tuple[float, float, float]:
        """Median of the ratios of rounds, with its 95 % interval.

        The systems of a round run at the same clocks.
        """
        ratios = sorted(
            own / its for own, its in zip(self.of_rounds(), other.of_rounds())
        )
        # Of n samples, n / 2 +- sqrt(n) / 2 are below their median.
        below = max(0, int((len(ratios) - 1.96 * len(ratios) ** 0.5) / 2))
        return statistics.median(ratios), ratios[below], ratios[-1 - below]

    def add(self, more: Sample) -> None:
        """Adds later rounds."""
        for name in ("times", "clocks", "powers", "rounds"):
            getattr(self, name).extend(getattr(more, name))

    def per(self, layers: int) -> dict[str, float]:
        scaled = [time / layers for time in self.times]
        return {
            "median_us": round(statistics.median(scaled), 3),
            "min_us": round(min(scaled), 3),
            "max_us": round(max(scaled), 3),
        }


def capture(function: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """A graph of one call, after three calls on a separate stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph


def replay_us(
    graph: torch.cuda.CUDAGraph, replays: int = 1, batches: int = 20
) -> float:
    """Median time of a replay in microseconds, with a warm L2.

    A batch of replays is timed by two events.
    """
    graph.replay()
    times = []
    for _ in range(batches):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / replays)
    return statistics.median(times)


#: Names of the graphs.
Name = TypeVar("Name", bound=Hashable)
Events = tuple[torch.cuda.Event, torch.cuda.Event]


def _microseconds(pairs: Sequence[Events]) -> list[float]:
    return [begin.elapsed_time(end) * 1e3 for begin, end in pairs]


def mean_clocks(stamps: Sequence[Sequence[int]]) -> list[float]:
    """Cycles over time, in MHz, from each stamp to the next of a pair; those
    of two multiprocessors are left out."""
    return [
        1e3 * (end[1] - begin[1]) / (end[2] - begin[2])
        for begin, end in zip(stamps[::2], stamps[1::2])
        if begin[0] == end[0] and end[2] > begin[2]
    ]


class Timer:
    """Alternates between graphs; before each replay, 256 MB are overwritten.

    With a `floor`, samples can have the clocks of their launches. NVML only
    reports the clock of a moment.
    """

    def __init__(self, floor: Floor | None = None) -> None:
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._floor = floor

    def _run(
        self, function: Callable[[], Any], stamps: Tensor | None = None
    ) -> Events:
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        self._flush.zero_()
        if self._floor and stamps is not None:
            self._floor.stamp(stamps[0])
        begin.record()
        function()
        end.record()
        if self._floor and stamps is not None:
            self._floor.stamp(stamps[1])
        return begin, end

    def _stamps(self, count: int) -> Tensor:
        """Room for stamps before and after some launches."""
        return torch.zeros(count, 2, 3, dtype=torch.int64, device="cuda")

    def interleave(
        self,
        graphs: Mapping[Name, torch.cuda.CUDAGraph],
        rounds: int,
        warmup: int = 3,
        clocks: bool = False,
    ) -> dict[Name, Sample]:
        """Replays each graph once in a round, in changing orders.

        The previous graph determines the clock of the next one.
        """
        events: dict[Name, list[Events]] = {name: [] for name in graphs}
        stamps = (
            {name: self._stamps(rounds + warmup) for name in graphs}
            if clocks
            else {}
        )
        order = list(graphs)
        shuffle = random.Random(0).shuffle
        for turn in range(rounds + warmup):
            shuffle(order)
            for name in order:
                events[name].append(
                    self._run(
                        graphs[name].replay,
                        stamps[name][turn] if clocks else None,
                    )
                )
        torch.cuda.synchronize()
        samples = {
            name: Sample(_microseconds(pairs[warmup:]))
            for name, pairs in events.items()
        }
        for name, found in stamps.items():
            samples[name].clocks = mean_clocks(
                found[warmup:].view(-1, 3).tolist()
            )
        return samples

    def behind_delay(self, function: Callable[[], Any]) -> float:
        """Median of a few calls without a graph, in microseconds. The GPU
        begins when the host, however busy, has launched them all."""
        first = self._run(function)
        torch.cuda.synchronize()
        rounds = 15 if _microseconds([first])[0] < _LONG_US else 5
        torch.cuda._sleep(_DELAY_CYCLES)
        pairs = [self._run(function) for _ in range(rounds)]
        torch.cuda.synchronize()
        return statistics.median(_microseconds(pairs))

    def sustain(
        self,
        graphs: Mapping[str, torch.cuda.CUDAGraph],
        rounds: int,
        reader: DeviceReader,
        seconds: float = 0.2,
    ) -> dict[str, Sample]:
        """Replays each graph for some time in a round, at its steady clock.

        Power is read during the replays, and the clock if there is a lower
        bound. The first half of each time does not count.
        """
        samples = {name: Sample([]) for name in graphs}
        counts = {}
        for name, graph in graphs.items():
            pairs = [self._run(graph.replay) for _ in range(4)]
            torch.cuda.synchronize()
            whole = pairs[1][0].elapsed_time(pairs[3][0]) / 2e3
            counts[name] = max(4, math.ceil(seconds / whole))
        order = list(graphs)
        shuffle = random.Random(0).shuffle
        for _ in range(rounds):
            shuffle(order)
            for name in order:
                sample, half = samples[name], counts[name] // 2
                stamps = self._stamps(counts[name]) if self._floor else None
                events = [
                    self._run(
                        graphs[name].replay,
                        None if stamps is None else stamps[turn],
                    )
                    for turn in range(counts[name])
                ]
                events[half - 1][1].synchronize()
                time.sleep(seconds / 4)
                power = reader.power()
                if power is not None:
                    sample.powers.append(power)
                torch.cuda.synchronize()
                sample.times += _microseconds(events[half:])
                sample.rounds.append(counts[name] - half)
                if stamps is not None:
                    sample.clocks += mean_clocks(
                        stamps[half:].view(-1, 3).tolist()
                    )
        return samples


class Floor:
    """A trivial kernel that reads bytes with 16-byte loads, and an empty one.

    Nothing that has to read its weights once can be faster than the first.
    """

    def __init__(self) -> None:
        self.module = Module(PTX_FOLDER / "floor.ptx")
        self._read = self.module.function("read", 0)
        self._empty = self.module.function("empty", 0)
        self._stamp = self.module.function("stamp", 0)
        self._sink = torch.zeros(4, dtype=torch.int32, device="cuda")

    def read(self, data: Tensor) -> Callable[[], None]:
        """Reads a buffer, without a rest that is shorter than 16 bytes."""
        words = data.numel() * data.element_size() // 16
        arguments = [
            ctypes.c_void_p(data.data_ptr()),
            ctypes.c_uint32(words),
            ctypes.c_void_p(self._sink.data_ptr()),
        ]
        return lambda: launch(
            self._read, _READ_BLOCKS, _READ_THREADS, 0, arguments
        )

    def empty(self) -> Callable[[], None]:
        return lambda: launch(self._empty, 132, 384, 0, [])

    def stamp(self, place: Tensor) -> None:
        """Writes a multiprocessor, its cycles, and the time in ns."""
        launch(self._stamp, 1, 1, 0, [ctypes.c_void_p(place.data_ptr())])


def _product_rate(
    function: Callable[[], Any], work: float, rounds: int = 12
) -> float:
    """The best of a few rounds, in units of `work` per second."""
    times = []
    for _ in range(rounds):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return work / statistics.median(times[2:])


def ceilings() -> dict[str, float]:
    """Rates of a large copy and of large library products."""
    source = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    source.random_(0, 255)
    target = torch.empty_like(source)
    copy = _product_rate(partial(target.copy_, source), 2 * source.numel())
    del source, target
    n = 8192
    a, b = (torch.randn(n, n, device="cuda").bfloat16() for _ in range(2))
    flop = 2.0 * n**3
    bf16 = _product_rate(lambda: a @ b, flop)
    a8 = a.to(torch.float8_e4m3fn)
    b8 = b.to(torch.float8_e4m3fn)
    one = torch.tensor(1.0, device="cuda")
    fp8 = _product_rate(
        lambda: torch._scaled_mm(
            a8, b8.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True
        ),
        flop,
    )
    return {
        "copy_tb_per_s": round(copy / 1e12, 3),
        "bf16_tflop_per_s": round(bf16 / 1e12, 1),
        "fp8_tflop_per_s": round(fp8 / 1e12, 1),
    }
