# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of the benchmarks that need no GPU."""

import argparse
import contextlib
import fcntl
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from dataclasses import replace
from pathlib import Path

import torch

from .support import ROOT, fuse_opt, tool

sys.path.insert(0, str(ROOT))

# pylint: disable=wrong-import-position
from benchmarks import (data, environment, merge, mlp_h200,  # noqa: E402
                        packing, peers, stale, sum_checks, sweep, sweep_plot,
                        timing, tune_peers)
from benchmarks.cases import SETS, all_cases  # noqa: E402
from benchmarks.plan import Plan, PlanError  # noqa: E402
from benchmarks.prefill_cases import PREFILL_CHECKED_TOKENS  # noqa: E402
from benchmarks.problem import BF16, FP8, NORMS, Problem  # noqa: E402
from benchmarks.reference import (Chain, Range, activate,  # noqa: E402
                                  aligned_sum, aligned_sum_error,
                                  kernel_scalars, quantize, real_output,
                                  relative_error)
from benchmarks.results import (Results, side_by_side,  # noqa: E402
                                summary)

E4M3 = torch.float8_e4m3fn


def random_bytes(rows: int, columns: int, dtype: torch.dtype, seed: int
                 ) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randint(0, 256, (rows, columns * dtype.itemsize),
                        dtype=torch.uint8, generator=generator)
    return raw.view(dtype)


class Packing(unittest.TestCase):

    def test_unpack_inverts_pack(self):
        for rows, columns in ((256, 128), (16, 16), (784, 2000), (272, 144),
                              (128, 48), (400, 4112)):
            for dtype in (E4M3, torch.bfloat16):
                for recipe in packing.RECIPES:
                    count = 2 if recipe == "gate_up_256" else 1
                    given = [random_bytes(rows, columns, dtype, seed)
                             for seed in range(count)]
                    packed = packing.pack(recipe, given)
                    with self.subTest(recipe, rows=rows, columns=columns,
                                      dtype=dtype):
                        self.assertEqual(packed.numel(), packing.packed_bytes(
                            recipe, (rows, columns), dtype.itemsize))
                        back = packing.unpack(recipe, packed, (rows, columns),
                                              dtype)
                        for before, after in zip(given, back, strict=True):
                            self.assertTrue(torch.equal(
                                before.view(torch.uint8),
                                after.view(torch.uint8)))

    def test_rows_lie_where_the_formula_says(self):
        # 2 tiles of 2 steps; every row has its number in each byte pair.
        rows, columns = 300, 256
        up = torch.arange(rows, dtype=torch.int16)[:, None].repeat(1, 128)
        down = packing.pack("rows_256", [up.view(torch.uint8)])
        pair = packing.pack("gate_up_256", [up.view(torch.uint8),
                                            (up + 1000).view(torch.uint8)])
        for p in range(256):
            wl, m, warp = p // 128, p // 64 % 2, p // 16 % 4
            half, lr = p // 8 % 2, p % 8
            row = 256 + wl * 128 + warp * 32 + lr * 4 + m * 2 + half
            stored = down.view(2, 2, 256, columns // 2)[0, 1, p]
            expected = row if row < rows else 0
            self.assertEqual(stored.view(torch.int16)[0].item(), expected)
            unit = 128 + wl * 64 + lr // 2 * 16 + warp * 4 + lr % 2 * 2 + m
            stored = pair.view(2, 3, 256, columns // 2)[1, 1, p]
            self.assertEqual(stored.view(torch.int16)[0].item(),
                             unit + 1000 * half)

    def test_chunks_are_swizzled(self):
        row = torch.arange(128, dtype=torch.uint8)[None].repeat(256, 1)
        packed = packing.pack("rows_256", [row]).view(256, 8, 16)
        for p in range(16):
            for chunk in range(8):
                self.assertEqual(packed[p, chunk ^ (p % 8), 0].item(),
                                 16 * chunk)

    def test_tokens_of_a_step_follow_each_other(self):
        # Kernels store chunk c of token t at chunk c ^ (t % 8) of its step.
        tokens, steps = 16, 3
        chunks = torch.arange(tokens * steps * 8) % 251
        given = chunks.to(torch.uint8).view(tokens, steps, 8)
        packed = torch.empty(steps, tokens, 8, 16, dtype=torch.uint8)
        for t in range(tokens):
            for chunk in range(8):
                packed[:, t, chunk ^ (t % 8)] = given[t, :, chunk, None]
        back = packing.unpack_tokens(packed.view(-1), tokens)
        self.assertEqual(back.shape, (tokens, steps * 128))
        self.assertTrue(torch.equal(
            back, given.view(tokens, -1).repeat_interleave(16, 1)))

    def test_unknown_recipe(self):
        with self.assertRaisesRegex(ValueError, "'rows_128': expected one of "
                                    "gate_up_256, rows_256, identity"):
            packing.pack("rows_128", [torch.zeros(1, 1)])

    def test_wrong_number_of_matrices(self):
        with self.assertRaisesRegex(ValueError, "packs 2 matrices, got 1"):
            packing.pack("gate_up_256", [torch.zeros(1, 1)])


def small(family: str, dtype: str, norm: str, **others) -> Problem:
    return Problem(family, 48, 96, dtype, "silu", NORMS[norm], **others)


def operands(problem: Problem, tokens: int = 5):
    tensors, scales = data.make_weights(problem, 3, "cpu")
    tensors |= data.make_activations(problem, tokens, 4, "cpu")
    return tensors, data.calibrate(problem, tensors, scales)


class Reference(unittest.TestCase):

    def test_quantize(self):
        x = torch.tensor([0.0, 447.0, 1e4, -1e4, 17.0, 0.3, float("nan")])
        q = quantize(x, 1.0).float()
        self.assertEqual(q[:5].tolist(), [0, 448, 448, -448, 16])
        self.assertTrue(q[6].isnan())

    def test_orders_of_quantization_differ(self):
        # 175 / 7 lies between two codes; 1/7 is rounded up.
        x, scale = torch.tensor([175.0]), torch.tensor(7.0)
        self.assertEqual(quantize(x, 7.0, divide=True).item(), 24)
        self.assertEqual(quantize(x, (1 / scale).item()).item(), 26)

    def test_activations(self):
        x = torch.linspace(-12, 12, 97, dtype=torch.float64)
        f = torch.nn.functional
        for kind, expected in (("silu", f.silu(x)), ("gelu", f.gelu(x)),
                               ("gelu_tanh", f.gelu(x, approximate="tanh")),
                               ("relu", f.relu(x)), ("relu2", f.relu(x)**2),
                               ("quick_gelu", x * (1.702 * x).sigmoid())):
            torch.testing.assert_close(activate(kind, x), expected,
                                       rtol=1e-9, atol=1e-13)

    def test_scalars(self):
        scales = {"input": 0.02, "up": 0.5, "hidden": 0.25, "down": 2.0}
        problem = small("mlp", FP8, "rms0")
        self.assertEqual(kernel_scalars(problem, scales)["hidden"], 4.0)
        divide = replace(problem, order="divide")
        self.assertEqual(kernel_scalars(divide, scales)["hidden"], 0.25)
        self.assertEqual(kernel_scalars(divide, scales)["down"], 0.5)

    def test_bounds_contain_another_order_of_sums(self):
        # The same chain in f32, as a library computes it.
        problem = small("gated_mlp", BF16, "rms0")
        tensors, scales = operands(problem)
        f = torch.nn.functional
        x = tensors["x"].float()
        n = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        n = (n.bfloat16().float() * tensors["norm_weight"].float()).bfloat16()
        gate = (n.float() @ tensors["gate"].float().t()).bfloat16()
        up = (n.float() @ tensors["up"].float().t()).bfloat16()
        hidden = f.silu(gate.float()).bfloat16().float() * up.float()
        hidden = hidden.bfloat16()
        out = (hidden.float() @ tensors["down"].float().t()).bfloat16()
        chain = Chain(problem, tensors, scales)
        self.assertEqual(chain.input.outside(n), 0)
        self.assertEqual(chain.hidden_from(n).outside(hidden), 0)
        result = chain.output_from(Range.exact(hidden))
        self.assertEqual(result.outside(out), 0)
        self.assertGreater(result.equal(out), 0.9)

    def test_bounds_exclude_a_missing_rounding(self):
        problem = small("gated_mlp", BF16, "none")
        tensors, scales = operands(problem, 32)
        chain = Chain(problem, tensors, scales)
        x = tensors["x"].double()
        gate = activate("silu", x @ tensors["gate"].double().t())
        hidden = (gate * (x @ tensors["up"].double().t())).float().bfloat16()
        self.assertGreater(chain.hidden.outside(hidden), 0)

    def test_aligned_sums_stay_in_their_interval(self):
        generator = torch.Generator().manual_seed(3)
        gate, up = torch.randn(2, 4, 8192, generator=generator)
        hidden = torch.nn.functional.silu(gate) * up
        weight = torch.randn(256, 8192, generator=generator)
        x = quantize(hidden, 448 / 0.8 / hidden.abs().max()).double()
        w = quantize(weight, 448 / weight.abs().max()).double()
        total = x @ w.t()
        for digits, inside in ((13, True), (10, False)):
            error = (aligned_sum(x, w, digits) - total).abs()
            # What simulation says of a sum: a third at most.
            bound = aligned_sum_error(x, w, total) / 2
            self.assertEqual(bool((error < bound).all()), inside, digits)

    def test_nan_is_outside(self):
        bounds = Range.exact(torch.zeros(3))
        self.assertEqual(bounds.outside(torch.tensor([0.0, torch.nan, 1.0])),
                         2)

    def test_chain_is_near_the_real_block(self):
        for family in ("gated_mlp", "mlp"):
            for dtype, limit in ((BF16, 1.2e-2), (FP8, 0.12)):
                for norm in NORMS:
                    last = {"add_stream": True} if norm == "rms0" else {
                        "then_add": True}
                    problem = small(family, dtype, norm, residual=True,
                                    biases=True, **last)
                    tensors, scales = operands(problem)
                    chain = Chain(problem, tensors, scales)
                    with self.subTest(problem.label()):
                        self.assertLess(relative_error(
                            chain.output().mid,
                            real_output(problem, tensors, scales)), limit)

    def test_infinite_error(self):
        self.assertEqual(relative_error(torch.tensor([torch.nan]),
                                        torch.ones(1)), float("inf"))


class Peers(unittest.TestCase):

    def test_bf16_systems_compute_the_block(self):
        for norm in ("rms0", "rms1"):
            problem = small("gated_mlp", BF16, norm)
            tensors, scales = operands(problem)
            values = peers.parameters(problem, tensors, scales)
            real = real_output(problem, tensors, scales)
            made = peers.make_peers(problem, ["eager"])
            self.assertEqual([peer.system for peer in made],
                             ["torch-eager", "torch-eager-merged"])
            for peer in made:
                self.assertLess(relative_error(
                    peer.bind(values)(tensors["x"]), real), 1.5e-2)

    def test_systems_of_a_type(self):
        problem = small("gated_mlp", FP8, "rms0")
        names = {(peer.system, peer.scales) for peer in peers.make_peers(
            problem, peers.MODES)}
        self.assertEqual(names, {
            ("torch-eager", "static"), ("torch-eager", "dynamic"),
            ("torch-compile", "static"), ("torch-compile", "dynamic"),
            ("torch-compile-autotune", "static"),
            ("torch-compile-autotune", "dynamic")})

    def test_few_are_tuned_and_those_come_first(self):
        found = list(tune_peers.tasks(peers.MODES[1:]))
        tuned = [task for task in found if len(task[2]) == 2]
        # Of bf16, static and dynamic FP8.
        self.assertEqual(len(tuned), 2 * 3 * len(peers.AUTOTUNED_TOKENS))
        self.assertEqual(len(found), 3 * 52)
        self.assertEqual(tuned, found[:len(tuned)])
        self.assertEqual({task[3] for task in tuned[-12:]}, {"dynamic"})
        self.assertEqual([task[3] for task in tune_peers.tasks(["autotune"])],
                         [task[3] for task in tuned[:-12]])

    def test_one_process_times_at_a_time(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lock"
            turn, other = tune_peers.Turn(path), path.open("w")

            def is_free() -> bool:
                try:
                    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                fcntl.flock(other, fcntl.LOCK_UN)
                return True

            self.assertTrue(is_free())
            self.assertFalse(turn.wrap(turn.wrap(is_free))())
            self.assertTrue(is_free())
            other.close()
            turn.close()

    def test_processes_add_to_the_times_of_others(self):
        self.assertEqual(tune_peers.merge(
            {"mm": {"a": {"x": 1.0}}, "flag": True},
            {"mm": {"a": {"y": 2.0}, "b": {}}, "flag": False}),
            {"mm": {"a": {"x": 1.0, "y": 2.0}, "b": {}}, "flag": False})

    def test_choices_are_kept_and_what_was_fastest_is_tried_again(self):
        nodes = [unittest.mock.Mock(get_size=lambda sizes=sizes: sizes,
                                    get_dtype=lambda: E4M3)
                 for sizes in ((16, 2048), (2048, 32768))]

        def choice(name: str, description: str = "") -> unittest.mock.Mock:
            mock = unittest.mock.Mock(description=description,
                                      input_nodes=nodes)
            mock.name = name
            return mock

        library = choice("_scaled_mm")
        written = [choice(f"triton_mm_{i}", f"BLOCK_M={i}") for i in range(8)]
        times = {library: 0.0248, **{each: 0.0239 + i / 1e4 for i, each in
                                     enumerate(reversed(written))}}
        hooks = "torch._inductor.select_algorithm.add_"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / tune_peers.CHOICES
            self.assertEqual(tune_peers.read_choices(path), [])
            turn = tune_peers.Turn(Path(folder) / "lock")
            with unittest.mock.patch(hooks + "feedback_saver") as add:
                tune_peers.keep_choices(turn, path)
            # Static and dynamic scales have the same products.
            for _ in range(2):
                add.call_args.args[0](times, "scaled_mm", nodes)
            turn.close()
            rows = tune_peers.read_choices(path)
        self.assertEqual(rows, [
            {"M": 16, "K": 2048, "N": 32768, "dtype": "fp8", "choices": 9,
             "chosen": "triton_mm_7", "chosen_us": 23.9, "library_us": 24.8,
             "fastest": [f"BLOCK_M={i}" for i in (7, 6, 5, 4)]}])
        with unittest.mock.patch(hooks + "preprocessing_fn") as add:
            tune_peers.keep_fastest(rows)
        keep = add.call_args.args[0]
        self.assertEqual(keep([library, *written]), [library, *written[4:]])
        with self.assertRaisesRegex(ValueError, "is what was fastest: BLOCK"):
            keep([library, *written[:4]])
        # Another product has all candidates.
        nodes[0].get_size = lambda: (50, 2048)
        self.assertEqual(keep([library, written[0]]), [library, written[0]])

    def test_tuning_wants_a_place_for_its_cache(self):
        output = io.StringIO()
        with unittest.mock.patch.dict("os.environ"), \
                contextlib.redirect_stderr(output):
            os.environ.pop(tune_peers.CACHE, None)
            self.assertEqual(tune_peers.main([]), 1)
        self.assertIn("TORCHINDUCTOR_CACHE_DIR is not set: it names the "
                      "folder", output.getvalue())

    def test_no_peers_for_a_dense_block(self):
        self.assertEqual(peers.make_peers(small("mlp", BF16, "rms0"),
                                          ["eager"]), [])


class Clock:
    """The time of a GPU that does nothing but replay graphs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []
        self.graphs = {name: unittest.mock.Mock(
            replay=lambda name=name, ms=ms: self.replay(name, ms))
            for name, ms in (("ours", 1.0), ("theirs", 3.0))}

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
        with unittest.mock.patch.multiple(
                timing.torch.cuda, Event=self.event,
                synchronize=lambda: None,
                _sleep=lambda cycles: self.order.append("delay")), \
                unittest.mock.patch.object(timing.torch, "empty"), \
                unittest.mock.patch.object(timing.time, "sleep"):
            yield timing.Timer(floor)


class Timing(unittest.TestCase):

    def test_rounds_have_every_graph_once_in_changing_order(self):
        clock = Clock()
        with clock.timer() as timer:
            samples = timer.interleave(clock.graphs, 20, warmup=1)
        rounds = [tuple(clock.order[i:i + 2]) for i in range(0, 42, 2)]
        self.assertEqual(set(rounds), {("ours", "theirs"),
                                       ("theirs", "ours")})
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
        # Nothing is certain of few.
        self.assertEqual(timing.Sample([3.0, 1.0]).over(
            timing.Sample([1.0, 1.0])), (2.0, 1.0, 3.0))

    def test_clocks_are_those_of_one_multiprocessor(self):
        stamps = [(7, 1000, 500), (7, 16000, 10500), (7, 0, 0), (8, 90, 10),
                  (3, 5, 64), (3, 5, 64), (3, 10, 100), (3, 1990, 1100)]
        self.assertEqual(timing.mean_clocks(stamps), [1500.0, 1980.0])
        clock = Clock()
        floor = unittest.mock.Mock()
        stamps = torch.tensor([[[1, 0, 0], [1, 1500, 1000]]] * 22)
        with clock.timer(floor) as timer, unittest.mock.patch.object(
                timing.torch, "zeros", return_value=stamps):
            samples = timer.interleave(clock.graphs, 20, warmup=2,
                                       clocks=True)
        self.assertEqual(samples["ours"].clocks, [1500.0] * 20)
        self.assertEqual(samples["ours"].state(), {"sm_mhz": 1500.0})
        self.assertEqual(floor.stamp.call_count, 2 * 2 * 22)

    def test_tensor_cores_bound_what_multiplies(self):
        problem = Problem("gated_mlp", 2048, 16384, FP8, "gelu_tanh",
                          NORMS["rms0"])
        # A k-step of 128 tokens, 256 rows and 128 bytes takes 1024 cycles.
        steps = 4096 / 128 * (32768 / 256 * 2048 + 2048 / 256 * 16384) / 128
        self.assertAlmostEqual(
            mlp_h200.tensor_us(problem, 4096, 1500.0),
            steps * 1024 / 132 / 1500)
        self.assertAlmostEqual(
            mlp_h200.tensor_us(replace(problem, dtype=BF16), 4096, 1500.0),
            2 * steps * 1024 / 132 / 1500)

    def test_rounds_go_on_until_ratios_are_certain(self):
        bench = mlp_h200.Bench.__new__(mlp_h200.Bench)
        for spread, seconds, repeats in (
                (0.0, 60, 1), (0.5, 0, 1), (0.5, 60, mlp_h200._MOST_REPEATS)):
            bench.options = argparse.Namespace(rounds=10, seconds=seconds)

            def rounds(graphs: dict, count: int, clocks: bool) -> dict:
                self.assertFalse(clocks)
                return {"fuse/none": timing.Sample([1.0] * count),
                        "torch-compile/none": timing.Sample(
                            [2 + spread * (i % 2) for i in range(count)])}
            bench.timer = unittest.mock.Mock(interleave=rounds)
            found = bench.interleave({}, 16)
            self.assertEqual(len(found["fuse/none"].times), 10 * repeats)

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


class Environment(unittest.TestCase):

    def gpu(self, **values) -> str:
        """What is said of a GPU like this one."""
        device = {"init.return_value": None,
                  "get_device_name.return_value": "NVIDIA H200",
                  "get_device_capability.return_value": (9, 0), **values}
        with unittest.mock.patch.object(
                torch, "cuda", unittest.mock.Mock(**device)), \
                unittest.mock.patch.object(torch.version, "cuda", "13.0"):
            return environment.gpu_problem()

    def test_what_a_gpu_lacks(self):
        self.assertEqual(self.gpu(), "")
        self.assertEqual(
            self.gpu(**{"get_device_capability.return_value": (8, 0),
                        "get_device_name.return_value": "NVIDIA A100"}),
            "NVIDIA A100 has compute capability 8.0: expected 9.0, which "
            "Hopper GPUs have")
        self.assertEqual(
            self.gpu(**{"init.side_effect": RuntimeError(
                "The NVIDIA driver on your system is too old (found version "
                "12040).\nUpdate it.")}),
            "no GPU: The NVIDIA driver on your system is too old (found "
            "version 12040)")

    @unittest.skipIf(torch.version.cuda, "for a PyTorch without CUDA")
    def test_programs_end_without_a_gpu(self):
        with self.assertRaisesRegex(SystemExit, "error: torch .* is built "
                                    "without CUDA: expected a build for"):
            environment.require_gpu()

    def test_nothing_to_time_is_an_error(self):
        from benchmarks.mlp_h200 import kernel_problem

        def problem(kernels, only=""):
            return kernel_problem(unittest.mock.Mock(
                kernels=Path(kernels), only=only))
        self.assertEqual(problem("none"), "")
        self.assertIn("no kernels in /nowhere: expected those of python3 -m "
                      "benchmarks.kernels, or --kernels none",
                      problem("/nowhere"))
        self.assertIn("no problem is called '7x7': expected part of a name "
                      "such as gated_mlp-2048x16384-fp8-gelu_tanh-rms0",
                      problem("none", "7x7"))

    def run_program(self, name: str, *arguments: str, isolated: bool = False
                    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, *(["-S"] if isolated else []), "-m",
             f"benchmarks.{name}", *arguments], cwd=ROOT, check=False,
            capture_output=True, text=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"})

    def test_a_missing_package_is_named(self):
        # Without the packages of the environment.
        done = self.run_program("mlp_h200", "--help", isolated=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^error: there is no package "
                         r"'(torch|numpy)' for .*: scripts/setup.sh")

    def test_missing_files_and_programs_are_named(self):
        for name, *arguments, error in (
                ("kernels", "--bin", "/none", "fuse-opt is not in /none"),
                ("rows", "compile", "--bin", "/none", "is not in /none"),
                ("sweep", "compile", "--bin", "/none", "is not in /none"),
                ("stale", "/none.json", "there is no /none.json"),
                ("merge", "a.json", "/none.json", "there is no /none.json"),
                ("plot", "/none.json", "there is no /none.json")):
            with self.subTest(name):
                done = self.run_program(name, *arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(error, done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_options_are_regular_expressions(self):
        self.assertEqual(environment.pattern("2048x"), "2048x")
        with self.assertRaisesRegex(argparse.ArgumentTypeError,
                                    r"'\(' is no regular expression"):
            environment.pattern("(")


class Problems(unittest.TestCase):

    def test_text_is_valid(self):
        problems = {replace(case.problem, width=64, hidden=128)
                    for case in all_cases(list(SETS))}
        text = "\n// -----\n".join(problem.to_mlir(8)
                                   for problem in problems)
        fuse_opt(text, "--split-input-file")

    def test_json(self):
        for case in all_cases(["checked"]):
            stored = json.loads(json.dumps(case.problem.to_json()))
            self.assertEqual(Problem.from_json(stored), case.problem)

    def test_names_are_distinct(self):
        names = [case.name() for case in all_cases(list(SETS))]
        self.assertEqual(len(names), len(set(names)))

    def test_kernels_are_checked_with_what_they_serve(self):
        few = (1, 7, 8, 16, 33, 50, 64, 100, 128)
        for most, every, expected in (
                (56, False, [16, 33, 50]), (128, False, list(few)),
                (192, False, [33, 129, 137, 192]),
                (256, True, [129, 200, 256]),
                (512, True, [129, 200, 256, 300, 384, 511, 512]),
                (4096, False, list(PREFILL_CHECKED_TOKENS))):
            self.assertEqual(mlp_h200.choose_tokens(most, "mlp", few, every),
                             expected)
        some = mlp_h200.choose_tokens(512, "mlp", few)
        self.assertIn(512, some)
        self.assertIn(len(some), (3, 4))

    def test_product_has_every_combination_at_every_width(self):
        found = {(case.problem.family, case.problem.dtype, case.problem.act,
                  case.problem.norm, case.problem.width)
                 for case in all_cases(["product"])}
        self.assertEqual(len(found), 2 * 2 * 6 * 4 * 5)

    def test_unknown_activation(self):
        with self.assertRaisesRegex(ValueError, "act is 'mish': expected one "
                                    "of silu, gelu"):
            Problem("mlp", 16, 16, BF16, "mish", None)


class Plans(unittest.TestCase):

    def stored(self, **changes):
        plan = {"arguments": [{"kind": "tokens"}], "blocks": 1, "threads": 32,
                "shared_bytes": 0, "dependent": False, "max_tokens": 8,
                "workspace_bytes": 300, "zeroed_bytes": 4}
        return {"problem": small("mlp", BF16, "none").to_json(),
                "binary": "a.cubin", "version": 1,
                "launches": [{"kernel": "first", "plan": plan | changes},
                             {"kernel": "second", "plan": plan}]}

    def load(self, stored) -> Plan:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.json"
            path.write_text(json.dumps(stored))
            return Plan.load(path)

    def test_workspaces_lie_side_by_side(self):
        plan = self.load(self.stored())
        self.assertEqual(plan.bases, [0, 512])
        self.assertEqual(plan.workspace_bytes, 812)

    def test_the_smallest_tile_counts(self):
        self.assertEqual(self.load(self.stored(max_tokens=4)).max_tokens, 4)

    def test_unknown_argument(self):
        with self.assertRaisesRegex(PlanError, "argument 0 of first has kind "
                                    "'stream': expected one of operand"):
            self.load(self.stored(arguments=[{"kind": "stream"}]))

    def test_unknown_version(self):
        with self.assertRaisesRegex(PlanError, "version 7, expected 1"):
            self.load(self.stored() | {"version": 7})

    def test_unknown_key(self):
        with self.assertRaisesRegex(PlanError, "plan of first"):
            self.load(self.stored(clusters=2))

    def test_carveouts_are_per_cent(self):
        launches = self.load(self.stored(carveout=100)).launches
        self.assertEqual([item.carveout for item in launches], [100, None])
        with self.assertRaisesRegex(PlanError, "first has a carveout of 101: "
                                    "expected 0 to 100 per cent"):
            self.load(self.stored(carveout=101))


class ResultFiles(unittest.TestCase):

    def row(self, system: str, time: float) -> dict:
        return {"K": 64, "H": 128, "M": 1, "act": "silu", "dtype": "bf16",
                "scales": "none", "system": system, "protocol": "single",
                "median_us": time, "min_us": time, "max_us": time,
                "floor_us": 10.0, "rel_err": 0.0, "weight_bytes": 10**6}

    def test_later_rows_replace_earlier_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "r.json"
            first = Results(path)
            first.add_row(self.row("fuse", 20.0))
            first.add_row(self.row("torch-compile", 30.0))
            first.save()
            second = Results(path)
            second.add_row(self.row("fuse", 15.0))
            second.save()
            rows = Results(path).rows
            self.assertEqual([(row["system"], row["median_us"])
                              for row in rows],
                             [("fuse", 15.0), ("torch-compile", 30.0)])
            table = summary(rows)
            self.assertIn("| 2.000 | - | 3.000 | 10.0 | 1.50 |", table)

    def test_checks_are_summed_up_for_each_kernel(self):
        check = {"case": "mlp", "tile": 8, "M": 1, "digest": "a",
                 "commit": "c", "repeats": 200, "differing_repeats": 0,
                 "poisoned": 0, "hidden_equal": 0.9, "hidden_outside": 0,
                 "rel_err": 0.004, "ok": True}
        runs = [{"gpu": "H200", "checks": [
                    check, {**check, "M": 8, "hidden_equal": 0.8},
                    {**check, "case": "other", "digest": "old", "M": 7}]},
                {"gpu": "H200", "checks": [
                    {**check, "M": 7, "rel_err": 0.005},
                    {**check, "case": "other", "ok": False,
                     "hidden_outside": 3}]}]
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{i}.json" for i in range(3)]
            for path, run in zip(paths, runs):
                path.write_text(json.dumps(run))
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                self.assertEqual(sum_checks.main(
                    [*map(str, paths[:2]), "-o", str(paths[2])]), 1)
            stored = json.loads(paths[2].read_text())
        self.assertIn("2 kernels, 4 checks, 1 kernels failed",
                      printed.getvalue())
        good, bad = stored["kernels"]
        self.assertEqual((good["tokens"], good["ok"], good["hidden_equal"],
                          good["rel_err"]), ([1, 7, 8], True, 0.8, 0.005))
        # What an older kernel did is not said of this one.
        self.assertEqual((bad["tokens"], bad["ok"], bad["hidden_outside"]),
                         ([1], False, 3))

    def test_merged_runs_keep_what_they_do_not_have(self):
        row = {"K": 16, "H": 32, "M": 1, "act": "silu", "dtype": "bf16",
               "scales": "none", "system": "fuse", "protocol": "single"}
        with tempfile.TemporaryDirectory() as folder:
            first, second = (Path(folder) / f"{i}.json" for i in range(2))
            results = Results(first)
            results.add_row({**row, "median_us": 2.0})
            results.add_row({**row, "M": 8, "median_us": 3.0})
            results.data["ceilings"] = {"copy_tb_per_s": 4.2}
            results.data["clocks"] = {"sm_mhz_min": 1500.0,
                                      "sm_mhz_max": 1965.0}
            results.save()
            later = Results(second)
            later.add_row({**row, "median_us": 1.0})
            later.data["ceilings"] = {"empty_graph_us": 3.7}
            later.data["clocks"] = {"sm_mhz_min": 1650.0,
                                    "sm_mhz_max": 1980.0}
            later.save()
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(merge.main([str(first), str(second)]), 0)
            merged = Results(first)
        self.assertEqual({row["M"]: row["median_us"] for row in merged.rows},
                         {1: 1.0, 8: 3.0})
        self.assertEqual(merged.data["ceilings"],
                         {"copy_tb_per_s": 4.2, "empty_graph_us": 3.7})
        self.assertEqual(merged.data["clocks"],
                         {"sm_mhz_min": 1500.0, "sm_mhz_max": 1980.0})

    def test_kernels_of_rows_and_checks_are_cases(self):
        names = {case.name() for case in all_cases(["timed"], SETS)}
        row = {"K": 2048, "H": 16384, "M": 50, "act": "gelu_tanh", "tile": 56,
               "dtype": "fp8", "system": "fuse"}
        check = {"case": "gated_mlp-4096x12288-bf16-silu-rms0", "tile": 8,
                 "M": 7}
        self.assertIn(stale.kernel_of(row), names)
        self.assertIn(stale.kernel_of(check), names)
        self.assertIsNone(stale.kernel_of({**row, "system": "torch-eager"}))
        relaxed = stale.kernel_of({**row, "system": "fuse-relaxed"})
        self.assertIn("relaxed", relaxed)
        self.assertEqual(relaxed, stale.kernel_of(
            {**row, "system": "fuse-relaxed-exclusive"}))

    def test_tables_have_all_systems_side_by_side(self):
        row = {"K": 2048, "H": 16384, "M": 16, "act": "silu", "dtype": "bf16",
               "scales": "none", "protocol": "single", "floor_us": 40.0,
               "rel_err": 4e-3, "weight_bytes": 1 << 27, "sm_mhz": 1980.0,
               "run": "1"}
        text = side_by_side([
            {**row, "system": "fuse", "median_us": 42.0, "min_us": 41.0,
             "max_us": 44.0},
            {**row, "system": "torch-compile", "median_us": 60.0,
             "min_us": 58.0, "max_us": 61.0}])
        self.assertEqual(text.splitlines()[-1], "| single | 2048/16384 | bf16 "
                         "| 16 | 40.0 | 42.0 (41.0-44.0) 105 % "
                         "| 60.0 (58.0-61.0) 150 % | 1980 |")

    def test_sustained_rows_have_clock_and_power(self):
        row = {**self.row("torch-compile", 1300.0), "M": 4096,
               "protocol": "sustained", "floor_us": None, "sm_mhz": 1410.0,
               "power_w": 698.0, "over_fuse": 1.31,
               "over_fuse_95": [1.298, 1.314]}
        table = side_by_side([row, {**row, "system": "fuse",
                                    "median_us": 1000.0, "power_w": None}])
        self.assertIn("| 1000.0, 1410 MHz | 1300.0, 1410 MHz, 698 W |", table)
        # Nothing is faster than tensor cores at the clock of our row.
        self.assertIn("| 1.300 | 1.310 (1.298-1.314) | 1.444 | - | - |",
                      summary([row, self.row("fuse", 1000.0) | {
                          "M": 4096, "protocol": "sustained",
                          "floor_us": None, "tensor_us": 900.0}]))

    def test_a_missing_kernel_has_a_row(self):
        missing = self.row("fuse", 0.0) | {"note": "no kernel"}
        del missing["median_us"]
        table = summary([missing, self.row("torch-compile", 30.0)])
        self.assertIn("no kernel", table)
        self.assertIn("torch-compile 30.0", table)


class Schedules(unittest.TestCase):

    def test_the_committed_table_is_taken(self):
        path = ROOT / "benchmarks/results/schedules-h200.json"
        for row in json.loads(path.read_text())["rows"]:
            width, hidden, _ = row["widths"]
            problem = Problem(row["family"], width, hidden, row["element"],
                              "silu", NORMS["rms0"])
            with self.subTest(problem.label(), tokens=row["tokens"]):
                text = fuse_opt(problem.to_mlir(row["tokens"]),
                                f"--fuse-select-schedules=table={path}")
                self.assertIn(f"tile.schedule = {row['schedule']}", text)
                self.assertLessEqual(row["median_us"],
                                     row["model_choice_us"])

    def test_it_is_that_of_the_measurements(self):
        results = ROOT / "benchmarks/results"
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "table.json"
            subprocess.run([tool("fuse-tune"), "table",
                            results / "tuning-h200.json", "-o", made],
                           check=True, capture_output=True)
            self.assertEqual(made.read_text(), (
                results / "schedules-h200.json").read_text())


class Sweep(unittest.TestCase):

    @staticmethod
    def row(system: str, tokens: int, time: float) -> dict:
        return {"K": 64, "H": 256, "dtype": "bf16", "M": tokens,
                "system": system, "range": 128 if tokens <= 128 else 1024,
                "median_us": time}

    def setUp(self) -> None:
        self.rows = [self.row("fuse", 128, 10.0), self.row("fuse", 129, 24.0),
                     self.row("fuse", 1024, 80.0),
                     self.row("alone-512", 129, 20.0),
                     self.row("cublas-products", 129, 15.0)]

    def test_table_has_the_largest_step_and_what_a_tile_costs(self):
        table = sweep.jumps(self.rows)
        self.assertIn("| 64/256 | bf16 | 10.0 / 80.0 | 10.0 | 56.0 | 129 1024 "
                      "|", table)
        self.assertIn("most 20 % at 129 |", table)

    def test_plot_has_the_best_of_all_schedules(self):
        lines = sweep_plot.lines_of(self.rows)
        self.assertEqual(lines["best"], {128: 10.0, 129: 20.0, 1024: 80.0})
        self.assertEqual(lines["cublas-products"], {129: 15.0})
        data = {"rows": self.rows, "gpu": "a GPU", "commit": "1",
                "device": {"driver_version": "2"}, "protocol": "<none>"}
        self.assertIn("&lt;none&gt;", sweep_plot.draw(data))

    def test_weights_are_parameters_with_fixed_scales(self):
        problem = next(p for p, _ in sweep.problems() if p.fp8)
        text = sweep._text(problem)
        self.assertIn('{fuse.parameter = "gate"}', text)
        self.assertNotIn('fuse.parameter = "x"', text)
        self.assertEqual(list(sweep.fixed_scales(problem)), problem.scales())
        fuse_opt(text)


if __name__ == "__main__":
    unittest.main()
