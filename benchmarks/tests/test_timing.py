# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests how the benchmarks time graphs."""

import argparse
import contextlib
import unittest
import unittest.mock
from dataclasses import replace

import torch

from fuse_bench.common import timing
from fuse_bench.common.problem import BF16, FP8, NORMS, Problem
from fuse_bench.suites import mlp as mlp_h200


class Clock:
    """The time of a GPU that does nothing but replay graphs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []
        self.graphs = {
            name: unittest.mock.Mock(
                replay=lambda name=name, ms=ms: self.replay(name, ms)
            )
            for name, ms in (("ours", 1.0), ("theirs", 3.0))
        }

    def replay(self, name: str, ms: float) -> None:
        # Everything takes longer later, as where power limits the clock.
        self.now += ms * (1 + self.now / 1e4)
        self.order.append(name)

    def event(self, **_) -> unittest.mock.Mock:
        event = unittest.mock.Mock()

        def record() -> None:
            event.at = self.now

        event.record = record
        event.elapsed_time = lambda end: end.at - event.at
        return event

    @contextlib.contextmanager
    def timer(self, floor=None):
        with (
            unittest.mock.patch.multiple(
                timing.torch.cuda,
                Event=self.event,
                synchronize=lambda: None,
                _sleep=lambda cycles: self.order.append("delay"),
            ),
            unittest.mock.patch.object(timing.torch, "empty"),
            unittest.mock.patch.object(timing.time, "sleep"),
        ):
            yield timing.Timer(floor)


class Timing(unittest.TestCase):
    def test_rounds_have_every_graph_once_in_changing_order(self):
        clock = Clock()
        with clock.timer() as timer:
            samples = timer.interleave(clock.graphs, 20, warmup=1)
        rounds = [tuple(clock.order[i : i + 2]) for i in range(0, 42, 2)]
        self.assertEqual(set(rounds), {("ours", "theirs"), ("theirs", "ours")})
        self.assertEqual(len(samples["ours"].times), 20)
        ratio, low, high = samples["theirs"].over(samples["ours"])
        self.assertAlmostEqual(ratio, 3, places=2)
        self.assertLess(low, ratio)
        self.assertLess(high - low, 0.01)

    def test_more_rounds_are_more_certain(self):
        ours = timing.Sample([1.0] * 10)
        theirs = timing.Sample([2.0 + 0.1 * (i % 10) for i in range(10)])
        # Of ten, the second and the ninth.
        self.assertEqual(theirs.over(ours), (2.45, 2.1, 2.8))
        for sample in (ours, theirs):
            for _ in range(3):
                sample.add(timing.Sample(sample.times[:10]))
        ratio, low, high = theirs.over(ours)
        self.assertEqual((ratio, len(theirs.times)), (2.45, 40))
        self.assertLess(high - low, 0.5)
        # With few samples, the interval covers all ratios.
        self.assertEqual(
            timing.Sample([3.0, 1.0]).over(timing.Sample([1.0, 1.0])),
            (2.0, 1.0, 3.0),
        )

    def test_clocks_are_those_of_one_multiprocessor(self):
        stamps = [
            (7, 1000, 500),
            (7, 16000, 10500),
            (7, 0, 0),
            (8, 90, 10),
            (3, 5, 64),
            (3, 5, 64),
            (3, 10, 100),
            (3, 1990, 1100),
        ]
        self.assertEqual(timing.mean_clocks(stamps), [1500.0, 1980.0])
        clock = Clock()
        floor = unittest.mock.Mock()
        stamps = torch.tensor([[[1, 0, 0], [1, 1500, 1000]]] * 22)
        with (
            clock.timer(floor) as timer,
            unittest.mock.patch.object(
                timing.torch, "zeros", return_value=stamps
            ),
        ):
            samples = timer.interleave(clock.graphs, 20, warmup=2, clocks=True)
        self.assertEqual(samples["ours"].clocks, [1500.0] * 20)
        self.assertEqual(samples["ours"].state(), {"sm_mhz": 1500.0})
        self.assertEqual(floor.stamp.call_count, 2 * 2 * 22)

    def test_tensor_cores_bound_what_multiplies(self):
        problem = Problem(
            "gated_mlp", 2048, 16384, FP8, "gelu_tanh", NORMS["rms0"]
        )
        # A k-step of 128 tokens, 256 rows and 128 bytes takes 1024 cycles.
        steps = 4096 / 128 * (32768 / 256 * 2048 + 2048 / 256 * 16384) / 128
        self.assertAlmostEqual(
            mlp_h200.tensor_us(problem, 4096, 1500.0), steps * 1024 / 132 / 1500
        )
        self.assertAlmostEqual(
            mlp_h200.tensor_us(replace(problem, dtype=BF16), 4096, 1500.0),
            2 * steps * 1024 / 132 / 1500,
        )

    def test_rounds_go_on_until_ratios_are_certain(self):
        bench = mlp_h200.Bench.__new__(mlp_h200.Bench)
        for spread, seconds, repeats in (
            (0.0, 60, 1),
            (0.5, 0, 1),
            (0.5, 60, mlp_h200._MOST_REPEATS),
        ):
            bench.options = argparse.Namespace(rounds=10, seconds=seconds)

            def rounds(graphs: dict, count: int, clocks: bool) -> dict:
                self.assertFalse(clocks)
                return {
                    "fuse/none": timing.Sample([1.0] * count),
                    "torch-compile/none": timing.Sample(
                        [2 + spread * (i % 2) for i in range(count)]
                    ),
                }

            bench.timer = unittest.mock.Mock(interleave=rounds)
            found = bench.interleave({}, 16)
            self.assertEqual(len(found["fuse/none"].times), 10 * repeats)

    def test_sustained_rows_need_no_single_ones(self):
        bench = mlp_h200.Bench.__new__(mlp_h200.Bench)
        bench.options = argparse.Namespace(
            stages=["sustained"], sustained_rounds=12
        )
        bench.watch = bench.timer = bench.reader = unittest.mock.Mock()
        rows = []
        bench.add_rows = lambda base, samples, *_: rows.append(
            (base["protocol"], samples)
        )
        calls = {
            ("fuse", "none", "single"): "one launch",
            ("torch-compile", "dynamic", "single"): "another",
            ("fuse", "none", "chain"): "eight",
        }
        with unittest.mock.patch.object(mlp_h200, "capture", str.upper):
            for tokens in (50, 4096):
                bench.measure(
                    {"M": tokens},
                    calls,
                    {},
                    torch.empty(0),
                    unittest.mock.Mock(),
                )
        bench.timer.sustain.assert_called_once_with(
            {"fuse/none": "ONE LAUNCH"}, 12, bench.reader
        )
        self.assertEqual(
            rows, [("sustained", bench.timer.sustain.return_value)]
        )

    def test_calls_wait_for_the_host(self):
        clock = Clock()
        with clock.timer() as timer:
            ours = timer.behind_delay(clock.graphs["ours"].replay)
        self.assertAlmostEqual(ours, 1000, delta=10)
        self.assertEqual(clock.order, ["ours", "delay", *["ours"] * 5])

    def test_sustained_graphs_run_for_a_time_each(self):
        clock = Clock()
        reader = unittest.mock.Mock(**{"power.return_value": 650.0})
        with clock.timer() as timer:
            samples = timer.sustain(clock.graphs, 5, reader, seconds=0.3)
        ours, theirs = samples["ours"], samples["theirs"]
        # The first half of each time is left out.
        self.assertEqual((ours.rounds, theirs.rounds), ([150] * 5, [50] * 5))
        self.assertEqual(len(theirs.times), 250)
        self.assertEqual(ours.state(), {"power_w": 650.0})
        self.assertGreater(ours.of_rounds()[-1], 1.05 * ours.of_rounds()[0])
        self.assertAlmostEqual(theirs.over(ours)[0], 3, delta=0.2)


if __name__ == "__main__":
    unittest.main()
