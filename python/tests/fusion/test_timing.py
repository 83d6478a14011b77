# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decisions by measured times, with clocks that the tests set."""

import copy
import pickle
import unittest
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

import fuse_mlir
from fuse_mlir.compiler import kernels
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.fusion import fused_module, stored_timings, timing
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.modules import fused_sites
from fuse_mlir.fusion.timing import RowRanges, Times, decide
from fuse_mlir.support.module_snapshot import is_tracing
from tests.models import CHAIN, MLP, Block, Norm, needs_library, net

torch.set_num_threads(1)

DAY = 86400.0


class Clock:
    """A clock that only the test advances."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def table(
    members, kernel, overhead=0.0, counts=timing.ROWS, wanted=False, **options
):
    """The decision for times by rows, and the numbers that were measured."""
    seen = []

    def measure(rows):
        seen.append(rows)
        return Times(rows, members(rows), kernel(rows))

    return decide(measure, lambda _: overhead, counts, wanted, **options), seen


class Decisions(unittest.TestCase):
    def test_faster_everywhere(self):
        found, seen = table(lambda n: 1 + n, lambda n: 0.5 + n / 2)
        self.assertEqual(seen, [1, 33, 257])
        self.assertTrue(found.gains)
        self.assertTrue(found.rows.all)
        self.assertEqual(timing.Verdict(found).note(), "")

    def test_slower_everywhere(self):
        found, seen = table(lambda n: 1e-3 * n, lambda n: 2e-3 * n)
        self.assertEqual((found.rows, seen), (RowRanges(), [1, 33, 257]))
        self.assertTrue(timing.Verdict(found).slower)
        self.assertEqual(
            timing.Verdict(found).reason(),
            "1.00 ms unfused, 2.00 ms fused "
            "at 1 row; 33.0 ms unfused, 66.0 ms fused at 33 rows; 257 ms "
            "unfused, 514 ms fused at 257 rows",
        )

    def test_a_gain_has_to_be_seen(self):
        for part, gains in ((0.98, False), (0.96, True)):
            found, _ = table(lambda n: 1.0, lambda n: part)
            self.assertEqual(found.gains, gains)

    def test_limit_between_two_numbers_is_looked_for(self):
        # The kernel reads weights once, and multiplies at half the speed.
        found, seen = table(lambda n: 100 + n, lambda n: 50 + 2 * n)
        # The limit is 50: geometric means of 33, 257, and then of 33, 92.
        self.assertEqual(seen, [1, 33, 257, 92, 55])
        self.assertEqual(found.rows, RowRanges(((0, 33),)))
        self.assertEqual(str(found.rows), "1 to 33")
        note = timing.Verdict(found).note()
        self.assertIn(
            "for 1 to 33 rows; calls with others run the members, "
            "which is faster (357000 ms unfused, 564000 ms fused "
            "at 257 rows)",
            note,
        )

    def test_ranges_may_start_late(self):
        found, _ = table(lambda n: 1.0 if n < 20 else 3.0, lambda n: 2.0)
        self.assertEqual(found.rows, RowRanges(((33, None),)))
        for rows, has in ((1, False), (32, False), (33, True), (9999, True)):
            self.assertEqual(found.rows.has(rows), has)

    def test_two_ranges(self):
        found, seen = table(
            lambda n: 3.0 if n in (1, 257) else 1.0, lambda n: 2.0
        )
        self.assertEqual(found.rows, RowRanges(((0, 1), (257, None))))
        self.assertEqual(str(found.rows), "1 and 257 or more")
        self.assertEqual(len(seen), 7)

    def test_overhead_of_other_calls_counts(self):
        def of(overhead):
            return table(
                lambda n: 1.0, lambda n: 0.5 if n == 1 else 2.0, overhead
            )[0]

        self.assertTrue(of(0.02).gains)
        lost = timing.Verdict(of(0.05))
        self.assertTrue(lost.slower)
        self.assertIn(
            "running the members for other rows would add 50.0 ms, "
            "5% of a call",
            lost.reason(),
        )

    def test_a_kernel_that_loses_less_than_the_check_runs(self):
        found, _ = table(lambda n: 1.0, lambda n: 0.5 if n == 1 else 1.02, 0.1)
        self.assertTrue(found.gains)
        self.assertTrue(found.rows.all)

    def test_eager_calls_of_a_gpu_have_to_gain_more(self):
        gpu = {"least": timing.EAGER_GAIN, "share": timing.SHARE}
        for part, gains in ((0.90, False), (0.80, True)):
            found, _ = table(lambda n: 1.0, lambda n: part, **gpu)
            self.assertEqual(found.gains, gains)
        # One row does not gain enough, and the others do.
        found, _ = table(
            lambda n: 1.0, lambda n: 0.9 if n == 1 else 0.5, 0.02, **gpu
        )
        self.assertFalse(found.rows.has(1))
        self.assertTrue(found.rows.has(33))
        self.assertTrue(found.gains)
        # A model loses a third of what its sites lose.
        for overhead, slower in ((0.08, False), (0.1, True)):
            eager, _ = table(
                lambda n: 1.0, lambda n: 1.5, overhead, wanted=True, **gpu
            )
            traced, _ = table(lambda n: 1.0, lambda n: 0.5)
            self.assertEqual(timing.Verdict(eager, traced).slower, slower)

    def test_numbers_of_the_user(self):
        _, seen = table(lambda n: 2.0, lambda n: 1.0, counts=(1, 12, 12))
        self.assertEqual(seen, [1, 12])

    def test_eager_and_traced_calls(self):
        # The host slows down the kernel of an eager call.
        eager, _ = table(lambda n: 1.0, lambda n: 1.5, 0.01, wanted=True)
        traced, _ = table(lambda n: 1.0, lambda n: 0.5)
        verdict = timing.Verdict(eager, traced)
        self.assertFalse(verdict.slower)
        self.assertEqual(eager.rows, RowRanges())
        self.assertTrue(traced.rows.all)
        self.assertIn("for no rows; all calls run the members", verdict.note())
        dear, _ = table(lambda n: 1.0, lambda n: 1.5, 0.1, wanted=True)
        self.assertTrue(timing.Verdict(dear, traced).slower)
        other = timing.Verdict(traced, table(lambda n: 1.0, lambda n: 2.0)[0])
        self.assertFalse(other.slower)
        self.assertIn("compiled or in a CUDA graph for no rows", other.note())


class Noise(unittest.TestCase):
    """Equal calls that take different times."""

    def of(self, kernel, spread):
        return decide(
            lambda rows: Times(rows, 1.0, kernel, spread), lambda _: 0.0
        )

    def test_only_a_difference_within_the_noise_is_doubtful(self):
        for kernel, spread, noise in (
            (1.2, 0.5, 0.5),
            (0.8, 0.5, 0.5),
            (2.0, 0.5, 0.0),
            (0.4, 0.5, 0.0),
            (1.0, 0.02, 0.0),
        ):
            self.assertEqual(self.of(kernel, spread).noise, noise)

    def test_a_doubtful_verdict_is_not_final(self):
        for tries, last in ((1, False), (timing.TRIES, True)):
            verdict = timing.Verdict(self.of(1.2, 0.5), tries=tries)
            self.assertEqual(verdict.final, last)
            self.assertEqual(
                verdict.reason().endswith(
                    "equal calls varied by 50%, because the machine was busy"
                    + ("" if last else "; the next process measures again")
                ),
                True,
                verdict.reason(),
            )
        self.assertTrue(timing.Verdict(self.of(2.0, 0.5)).final)

    def test_the_shortest_times_of_processes_count(self):
        clock = timing.Verdict(self.of(1.2, 0.5))
        found = timing.measured(
            timing.ROWS,
            lambda rows, _: Times(rows, 2.0, 0.5, 0.9),
            lambda _: 0.0,
            torch.device("cpu"),
            earlier=clock,
        )
        self.assertEqual(found.tries, 2)
        self.assertEqual(found.eager.times[0], Times(1, 1.0, 0.5, 0.5))
        self.assertFalse(found.slower)

    def test_scales_and_names_take_no_time(self):
        layer = (
            'fuse.mlp %arg0 norm(rms %arg1 eps {}) site("main#{}") '
            'origins(["{}"]) scales(f8E4M3FN, input = {}) : tensor<?x8xf32>'
        )
        first = layer.format("1.0e-06", 1, "a", "0.0125")
        self.assertEqual(
            timing.timed_ir(first),
            timing.timed_ir(layer.format("1.0e-05", 2, "b", "3.25e-01")),
        )
        for other in (
            first.replace("8x", "16x"),
            first.replace("f32", "bf16"),
            first.replace("rms", "layer"),
        ):
            self.assertNotEqual(timing.timed_ir(first), timing.timed_ir(other))


class Stopwatches(unittest.TestCase):
    def compare(self, members, kernel, after=0.0):
        """The times that a stopwatch measures for calls of given seconds.

        `after` is the time that the call after a kernel loses.
        """
        clock, late, calls = Clock(), [0.0], [0, 0]

        def run_members():
            clock.now += members + late[0]
            late[0], calls[0] = 0.0, calls[0] + 1

        def run_kernel():
            clock.now += kernel + late[0]
            late[0], calls[1] = after, calls[1] + 1

        watch = timing.Stopwatch(torch.device("cpu"), clock)
        return watch.compare(run_members, run_kernel), calls

    def test_times(self):
        for members, kernel in ((0.5, 0.25), (1e-4, 2e-4), (3e-4, 2.9e-4)):
            found, _ = self.compare(members, kernel)
            self.assertAlmostEqual(found[0], members, places=9)
            self.assertAlmostEqual(found[1], kernel, places=9)

    def test_what_a_short_kernel_leaves_behind_is_its_own(self):
        found, _ = self.compare(1e-4, 1e-4, after=5e-5)
        self.assertAlmostEqual(found[0], 1e-4, places=9)
        self.assertAlmostEqual(found[1], 1.5e-4, places=9)

    def test_long_calls_are_few(self):
        _, calls = self.compare(1.0, 9.0)
        self.assertEqual(calls, [3, 3])
        _, calls = self.compare(1.0, 1.1)
        self.assertEqual(calls, [4, 4])

    def test_calls_that_vary_are_repeated(self):
        def measure(kernel, slowest):
            """The comparison and its seconds, if one of eight calls takes its
            own time and the others `slowest` times as long."""
            clock, count = Clock(), [0, 0]

            def run(i, seconds):
                clock.now += seconds * (1.0 if count[i] % 8 == 1 else slowest)
                count[i] += 1

            watch = timing.Stopwatch(torch.device("cpu"), clock)
            found = watch.compare(lambda: run(0, 0.01), lambda: run(1, kernel))
            return found, clock.now

        steady, quick = measure(0.01, 1.0)
        self.assertAlmostEqual(steady.spread, 0.0)
        self.assertLess(quick, 2 * timing.SECONDS)
        busy, long = measure(0.01, 2.0)
        self.assertAlmostEqual(busy.spread, 1.0)
        self.assertGreater(long, timing.PATIENCE * timing.SECONDS)
        # A kernel of five times the time is slower all the same.
        _, enough = measure(0.05, 2.0)
        self.assertLess(enough, 3 * timing.SECONDS)

    def test_short_calls_end(self):
        _, calls = self.compare(1e-7, 1e-7)
        self.assertLessEqual(sum(calls), 5 * timing.MOST)


class Inputs(unittest.TestCase):
    def test_rows_of_all_that_have_them(self):
        x = torch.empty(2, 6, 8, dtype=torch.bfloat16)
        scale = torch.empty(8)
        made = timing.example_inputs([x, x, scale], 33, torch.device("cpu"))
        self.assertEqual(
            [tuple(t.shape) for t in made], [(1, 33, 8), (1, 33, 8), (8,)]
        )
        self.assertEqual(made[0].dtype, torch.bfloat16)

    def test_choices_of_experts(self):
        index = torch.empty(5, 2, dtype=torch.int64)
        x, chosen, factors = timing.example_inputs(
            [torch.empty(5, 8), index, torch.empty(5, 2)],
            9,
            torch.device("cpu"),
            largest=4,
        )
        self.assertEqual((x.shape, chosen.shape), ((9, 8), (9, 2)))
        self.assertTrue((chosen[:, 0] != chosen[:, 1]).all())
        self.assertTrue(((0 <= chosen) & (chosen < 4)).all())
        self.assertTrue((factors >= 0).all())


class Priced:
    """Sets the times of modules and kernels.

    Args:
        members: seconds of the last member for a number of rows.
        kernel: seconds of the kernel for a number of rows.
    """

    def __init__(self, members, kernel):
        self.members, self.kernel = members, kernel
        self.clock = Clock()

    def __enter__(self):
        timing.forget()
        run, forward, costs = Kernel.run, MLP.forward, self

        def timed_run(kernel, inputs, weights):
            costs.clock.now += costs.kernel(inputs[0].shape[:-1].numel())
            return run(kernel, inputs, weights)

        def timed_forward(mlp, x):
            if not is_tracing() and not x.is_meta:
                costs.clock.now += costs.members(x.shape[:-1].numel())
            return forward(mlp, x)

        self.patches: list[Any] = [
            mock.patch.object(Kernel, "run", timed_run),
            mock.patch.object(timing, "CLOCK", self.clock),
            mock.patch.object(stored_timings, "load", return_value=None),
            mock.patch.object(stored_timings, "store"),
            # The extension would launch without `run`.
            mock.patch.object(fused_module, "make_call", return_value=None),
            mock.patch.object(TimedMLP, "forward", timed_forward),
        ]
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()
        timing.forget()


class TimedMLP(MLP):
    def forward(self, x):
        return super().forward(x)


class TimedBlock(Block):
    def __init__(self):
        super().__init__()
        self.mlp = TimedMLP(8, 16)


class Added(nn.Module):
    """Has a second input, as the output of BERT does."""

    def __init__(self):
        super().__init__()
        self.mlp = TimedMLP(8, 16)
        self.norm = Norm(8)

    def forward(self, x, residual):
        return self.norm(self.mlp(x) + residual)


class SideBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.outer = Added()

    def forward(self, x):
        return self.outer(self.inner(x), x)


def tokens(rows):
    return torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows))


@needs_library
class Fusing(unittest.TestCase):
    def counted(self, model, x):
        """A result, and how many kernels were run for it."""
        sites = [m for m in model.modules() if isinstance(m, FusedModule)]

        def fast():
            return sum(site._fast.count for site in sites if site._fast)

        before = fast()
        with mock.patch.object(
            kernels, "call_all_asked", wraps=kernels.call_all_asked
        ) as call:
            result = model(x)
            return result, call.call_count + fast() - before

    def test_finding_03_what_is_slower_stays_as_it_is(self):
        model, x = net(3, TimedBlock)
        with Priced(lambda n: 3.3e-3, lambda n: 26.3e-3):
            result = fuse_mlir.fuse_modules(model, inputs=x)
        self.assertEqual([s.status for s in result], ["refused"] * 3)
        self.assertIn(
            "FUSE-N024 slower-here: 3.30 ms unfused, 26.3 ms fused "
            "at 1 row; 3.30 ms unfused, 26.3 ms fused at 3 rows; ",
            result[0].reason,
        )
        self.assertIn(
            "at 257 rows; only_faster=False fuses it", result[2].reason
        )
        self.assertFalse(fused_sites(model))
        self.assertIs(type(model.layers[0].norm), Norm)

    def test_finding_03_slower_rows_run_the_members(self):
        model, x = net(2, TimedBlock)
        before = {n: model(tokens(n)) for n in (1, 3, 40, 300)}
        with Priced(lambda n: 1e-3 * (100 + n), lambda n: 1e-3 * (50 + 2 * n)):
            result = fuse_mlir.fuse_modules(model, inputs=x)
            self.assertEqual(len(result.fused), 2)
            for n, expected in before.items():
                found, count = self.counted(model, tokens(n))
                self.assertEqual(count, 2 if n < 33 else 0)
                if n > 33:
                    self.assertTrue(torch.equal(found, expected))
                torch.testing.assert_close(
                    found, expected, atol=1e-5, rtol=1e-5
                )
            self.assertIn(
                "gated_mlp for 1 to 33 rows; calls with others run "
                "the members, which is faster (357 ms unfused, "
                "564 ms fused at 257 rows)",
                str(fuse_mlir.explain(model, inputs=x)),
            )
            self.assertTrue(fuse_mlir.verify(model, x))
        self.assertIn("for 1 to 33 rows", str(result))
        fuse_mlir.unfuse_modules(model)
        self.assertIs(type(model.layers[0].norm), Norm)
        self.assertTrue(torch.equal(model(tokens(3)), before[3]))

    def test_equal_layers_are_measured_once(self):
        model, x = net(4, TimedBlock)
        lines = []
        with (
            Priced(lambda n: 2e-3, lambda n: 1e-3),
            mock.patch.object(
                timing, "decide", wraps=timing.decide
            ) as measured,
        ):
            fuse_mlir.explain(model, inputs=x)
            self.assertEqual(measured.call_count, 1)
            fuse_mlir.fuse_modules(
                model, inputs=x, progress=lambda *line: lines.append(line)
            )
            self.assertEqual(measured.call_count, 1)
        self.assertEqual([done for done, _, _ in lines], [1, 2, 3, 4])

    def test_layers_with_other_constants_are_measured_once(self):
        class Eps(Norm):
            eps = 1e-6

            def forward(self, x):
                return nn.functional.rms_norm(
                    x, self.weight.shape, self.weight, self.eps
                )

        model, x = net(2, TimedBlock)
        for i, layer in enumerate(model.layers):
            layer.norm = Eps(8)
            layer.norm.eps = 10.0 ** (-5 - i)
        with (
            Priced(lambda n: 2e-3, lambda n: 1e-3),
            mock.patch.object(
                timing, "decide", wraps=timing.decide
            ) as measured,
        ):
            result = fuse_mlir.fuse_modules(model, inputs=x)
        self.assertEqual(len(result.fused), 2)
        self.assertEqual(measured.call_count, 1)

    def test_long_measurements_show_progress(self):
        model, x = net(1, TimedBlock)
        lines = []
        with Priced(lambda n: DAY, lambda n: DAY / 2):
            fuse_mlir.fuse_modules(
                model, inputs=x, progress=lambda *line: lines.append(line)
            )
        self.assertIn(
            (0, 1, "layers.0.norm+mlp#0: measuring calls with 33 rows"), lines
        )

    @mock.patch.object(timing, "decide", wraps=timing.decide)
    def test_what_is_asked_for_is_not_measured(self, measured):
        for patterns, options in (
            ({CHAIN: "fuse"}, {}),
            (None, {"only_faster": False}),
        ):
            model, x = net(1, TimedBlock)
            self.assertEqual(
                len(
                    fuse_mlir.fuse_modules(
                        model, patterns, inputs=x, **options
                    ).fused
                ),
                1,
            )
        fuse_mlir.unfuse_modules(model)
        fuse_mlir.register_fusion_patterns(
            model, {"Chain": [path for _, path in CHAIN]}
        )
        with Priced(lambda n: 1e-3, lambda n: 9e-3):
            self.assertEqual(
                len(fuse_mlir.fuse_modules(model, inputs=x).fused), 1
            )
            measured.assert_not_called()
            fuse_mlir.unfuse_modules(model)
            with self.assertRaisesRegex(fuse_mlir.FuseError, "FUSE-N024"):
                fuse_mlir.fuse_modules(model, inputs=x, only_faster=True)

    def test_other_values_are_refused(self):
        model, x = net(1)
        with self.assertRaisesRegex(
            TypeError,
            "argument 'only_faster' is of "
            "type str; expected None, True or False",
        ):
            fuse_mlir.fuse_modules(model, inputs=x, only_faster="yes")

    def test_models_without_weights_are_not_measured(self):
        model, x = net(1)
        found = fuse_mlir.explain(model.to("meta"), inputs=x.to("meta"))
        self.assertEqual([s.status for s in found], ["could fuse"])
        self.assertIn(
            "nothing was measured, because the model has no weights", str(found)
        )

    def test_members_that_do_not_run_are_not_measured(self):
        class Broken(TimedMLP):
            """As an FP8Linear, which has no code for a CPU."""

            def forward(self, x):
                if not is_tracing() and not isinstance(x, FakeTensor):
                    raise RuntimeError("no such code")
                return super().forward(x)

        class BrokenBlock(Block):
            def __init__(self):
                super().__init__()
                self.mlp = Broken(8, 16)

        model, x = net(1, BrokenBlock)
        found = fuse_mlir.fuse_modules(model, inputs=x)
        self.assertEqual([s.status for s in found], ["fused"])
        self.assertIn("its speed was not measured", found[0].note)


@needs_library
class Ranges(unittest.TestCase):
    """A site whose kernel runs for up to 33 rows."""

    def setUp(self):
        self.model, x = net(1, TimedBlock)
        self.expected = {n: self.model(tokens(n)) for n in (2, 50)}
        self.priced = Priced(
            lambda n: 1e-3 * (100 + n), lambda n: 1e-3 * (50 + 2 * n)
        )
        self.priced.__enter__()
        self.addCleanup(self.priced.__exit__)
        self.keys = list(self.model.state_dict())
        fuse_mlir.fuse_modules(self.model, inputs=x)

    def check(self, model):
        for rows, expected in self.expected.items():
            with mock.patch.object(
                kernels, "call_all_asked", wraps=kernels.call_all_asked
            ) as call:
                torch.testing.assert_close(
                    model(tokens(rows)), expected, atol=1e-5, rtol=1e-5
                )
            self.assertEqual(call.call_count, int(rows < 33))

    def test_copies_and_files(self):
        self.check(copy.deepcopy(self.model))
        self.check(pickle.loads(pickle.dumps(self.model)))
        self.assertEqual(list(self.model.state_dict()), self.keys)

    def test_a_loaded_model_measures_anew(self):
        data = pickle.dumps(self.model)
        timing.forget()
        self.priced.kernel = lambda n: 9.0
        loaded = pickle.loads(data)
        loaded(tokens(2))
        _, count = Fusing.counted(self, loaded, tokens(2))
        self.assertEqual(count, 0)

    def test_another_type_measures_anew(self):
        self.priced.kernel = lambda n: 9.0
        wide = self.model.double().float().half()
        before = wide(tokens(2).half())
        with mock.patch.object(kernels, "call_all_asked") as call:
            wide(tokens(2).half())
        call.assert_not_called()
        fuse_mlir.unfuse_modules(wide)
        self.assertTrue(torch.equal(wide(tokens(2).half()), before))

    def test_changed_weights(self):
        with torch.no_grad():
            self.model.layers[0].mlp.down.weight.mul_(2)
        fuse_mlir.refresh(self.model)
        found = {n: self.model(tokens(n)) for n in (2, 50)}
        fuse_mlir.unfuse_modules(self.model)
        for rows, result in found.items():
            torch.testing.assert_close(
                result, self.model(tokens(rows)), atol=1e-5, rtol=1e-5
            )

    def test_gradients_run_the_members(self):
        self.model.requires_grad_(True)
        with mock.patch.object(
            kernels, "call_all_asked", wraps=kernels.call_all_asked
        ) as call:
            self.model(tokens(2)).sum().backward()
            call.assert_not_called()
            with torch.no_grad():
                self.model(tokens(2))
            self.assertEqual(call.call_count, 1)
        found = self.model.layers[0].mlp.down.weight.grad.clone()
        self.model.zero_grad()
        fuse_mlir.unfuse_modules(self.model)
        self.model(tokens(2)).sum().backward()
        self.assertTrue(
            torch.equal(found, self.model.layers[0].mlp.down.weight.grad)
        )

    def test_torch_compile(self):
        torch._dynamo.reset()
        seen = []

        def backend(graph, _inputs):
            seen.append(
                any(
                    node.target is torch.ops.fuse_mlir.call.default
                    or node.target is torch.ops.fuse_mlir.call
                    for node in graph.graph.nodes
                )
            )
            return graph

        compiled = torch.compile(
            self.model, fullgraph=True, dynamic=False, backend=backend
        )
        with torch.no_grad():
            for rows, expected in self.expected.items():
                torch.testing.assert_close(
                    compiled(tokens(rows)), expected, atol=1e-5, rtol=1e-5
                )
        self.assertEqual(seen, [True, False])

    def test_exported_programs_keep_the_kernel(self):
        with torch.no_grad():
            program = torch.export.export(self.model, (tokens(50),))
        self.assertIn("fuse_mlir.exported", str(program.graph))
        torch.testing.assert_close(
            program.module()(tokens(50)),
            self.expected[50],
            atol=1e-5,
            rtol=1e-5,
        )

    def test_functional_transforms(self):
        x = tokens(50)
        found = torch.func.vmap(self.model)(x.view(2, 25, 8))
        torch.testing.assert_close(
            found.view(50, 8), self.expected[50], atol=1e-5, rtol=1e-5
        )

    def test_a_hook_of_the_model_sees_what_it_would(self):
        seen = []
        handle = self.model.layers[0].norm.register_forward_pre_hook(
            lambda _, args: seen.append(args[0].shape[0])
        )
        self.model(tokens(50))
        handle.remove()
        self.assertEqual(seen, [50])

    def test_training_mode_and_autocast_are_those_of_any_rows(self):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for rows in (2, 50):
                with self.assertRaisesRegex(fuse_mlir.FuseError, "autocast"):
                    self.model(tokens(rows))

    def test_another_flow_is_refused_where_the_kernel_ran(self):
        layer = self.model.layers[0]
        normed = layer.norm(tokens(50))
        self.assertTrue(
            torch.equal(layer.mlp(normed), layer.mlp._member(normed))
        )
        layer.norm(tokens(2))
        with self.assertRaisesRegex(fuse_mlir.FuseError, "not-a-chain"):
            layer.mlp(tokens(2))

    def test_side_inputs(self):
        torch.manual_seed(0)
        model = SideBlock().eval().requires_grad_(False)
        expected = {n: model(tokens(n)) for n in (2, 50)}
        result = fuse_mlir.fuse_modules(model, inputs=tokens(2))
        self.assertTrue(result.fused)
        for rows, value in expected.items():
            torch.testing.assert_close(
                model(tokens(rows)), value, atol=1e-5, rtol=1e-5
            )


class Captures(unittest.TestCase):
    """Eager calls that run members also load the kernels for a later graph.

    Nothing can be loaded during a capture.
    """

    def prefers(self, rows, capturing=False, **ranges):
        loaded = []
        first = SimpleNamespace(is_cuda=True, shape=torch.Size([1, rows, 8]))
        site = SimpleNamespace(
            **{"_eager_rows": None, "_traced_rows": None, **ranges},
            gradients="recompute",
            _verdict=None,
        )
        with mock.patch(
            "torch.cuda.is_current_stream_capturing", return_value=capturing
        ):
            found = FusedModule._prefers_members(
                site, first, SimpleNamespace(load=loaded.append)
            )
        return found, loaded

    def test_what_graphs_run_is_loaded(self):
        few = RowRanges.up_to(33)
        self.assertEqual(self.prefers(257, _eager_rows=few), (True, [257]))
        self.assertEqual(
            self.prefers(257, _eager_rows=RowRanges(), _traced_rows=few),
            (True, []),
        )
        self.assertEqual(self.prefers(257, True, _eager_rows=few), (False, []))
        self.assertEqual(self.prefers(257, True, _traced_rows=few), (True, []))

    def test_only_what_is_missing_is_loaded(self):
        loaded = []
        kernel = SimpleNamespace(
            _flat=True,
            _limit=33,
            _instance="an instance",
            load_up_to=loaded.append,
        )
        for rows in (1, 33, 34):
            Kernel.load(kernel, rows)
        self.assertEqual(loaded, [34])


if __name__ == "__main__":
    unittest.main()
