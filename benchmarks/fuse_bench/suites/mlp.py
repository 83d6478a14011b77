# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times the kernels and their peers.

    python3 -m fuse_bench.suites.mlp --output out/results/mlp-h200.json

runs on the machine with the GPU, from the kernels that
`fuse_bench.common.kernels` compiled. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import subprocess
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..common import data
from ..common.cases import (
    CHECKED_TOKENS,
    LONE_SHAPES,
    LONE_TOKENS,
    TIMED_SHAPES,
    TIMED_TOKENS,
    timed_problem,
    timed_tokens,
)
from ..common.data import kernel_scalars
from ..common.device import DeviceReader, describe_device, short_uuid
from ..common.driver import CudaError, Layers, Module, Weights
from ..common.environment import (
    RAW,
    ROOT,
    add_only_option,
    add_run_options,
    choose_seed,
    gpu_problem,
    pattern,
)
from ..common.plan import Plan, load_plans
from ..common.prefill_cases import (
    PREFILL_SHAPES,
    PREFILL_TOKENS,
    choose_tokens,
)
from ..common.problem import BF16, FP8, Problem
from ..common.results import LIBRARY, Results, tables
from ..common.timing import Floor, Sample, Timer, capture, ceilings
from ..peers.systems import (
    MODES,
    Peer,
    library_products,
    make_peers,
    parameters,
    peer_modes,
)
from ..peers.tune import CACHE, CHOICES, only_tuned, read_choices
from ..reference.checks import bad_row, check_tokens, loses_device, short
from ..reference.decomposition import (
    library_sum_error,
    real_output,
    relative_error,
)

_HANG = 3
LAYERS = 8
#: More tokens are not a decode step: nothing is timed as a chain, the library's
#: products are timed beside, and rows have rates.
FEW_TOKENS = 128
#: From here on, power limits the clock: systems also run for some time each.
MANY_TOKENS = 2048
_SUSTAINED = ("fuse", LIBRARY, "torch-compile", "torch-compile-autotune")
#: The timer of graphs of single calls.
_SINGLE = {"single", "sustained"}


#: `--rounds` are repeated, at most this often and for `--seconds`, until
#: the ratio to the fastest peer is certain to 1 -+ this with a probability of
#: 0.95.
_CERTAIN, _MOST_REPEATS = 0.001, 20
#: Operations of the tensor cores of a Hopper multiprocessor per cycle.
_FLOP_PER_CYCLE = {BF16: 4096, FP8: 8192}


def tensor_us(
    problem: Problem, tokens: int, mhz: float, multiprocessors: int = 132
) -> float:
    """Time of the products if all tensor cores always multiply."""
    return problem.flop(tokens) / (
        multiprocessors * _FLOP_PER_CYCLE[problem.dtype] * mhz
    )


def _find_ours(samples: dict[str, Sample]) -> Sample | None:
    return next(
        (
            sample
            for name, sample in samples.items()
            if name.split("/")[0] == "fuse"
        ),
        None,
    )


class Watch:
    """Ends the process if a step lasts too long, because a kernel may hang."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = float("inf")
        self._step = ""
        self._give_up: Callable[[str], None] = lambda step: None
        threading.Thread(target=self._run, daemon=True).start()

    def on_hang(self, give_up: Callable[[str], None]) -> None:
        self._give_up = give_up

    def start(self, step: str, seconds: float | None = None) -> None:
        self._step = step
        self._deadline = time.monotonic() + (seconds or self._seconds)

    def stop(self) -> None:
        self._deadline = float("inf")

    def _run(self) -> None:
        while True:
            time.sleep(0.2)
            if time.monotonic() > self._deadline:
                print(f"HANG in {self._step}", flush=True)
                self._give_up(self._step)
                os._exit(_HANG)


def served_tokens(shape: tuple[int, int, str]) -> tuple[int, ...]:
    """All numbers of tokens that a block is timed with."""
    return (
        *timed_tokens(shape),
        *(PREFILL_TOKENS if shape in PREFILL_SHAPES else ()),
    )


class Bench:
    """One run over checks and timings."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.begin = options.begin
        #: Ratios hold within a run.
        self.began = time.strftime(
            "%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.begin)
        )
        self.results = Results(options.output, options.start)
        self.plans = (
            load_plans(options.kernels) if options.kernels.exists() else []
        )
        self.watch = Watch(options.hang)
        self.gpu = short_uuid()
        self.clocks: list[float] = []
        self.reader = DeviceReader()

    # Bookkeeping -----------------------------------------------------------

    def left(self) -> float:
        return self.options.budget - (time.time() - self.begin)

    def log(self, text: str) -> None:
        print(f"[{time.time() - self.begin:5.0f} s] {text}", flush=True)

    def wants(self, name: str) -> bool:
        return re.search(self.options.only, name) is not None

    def describe(self) -> None:
        """Adds the machine of the measurements."""
        info = self.results.data
        info.update(describe_device())
        commits = {plan.commit for plan in self.plans if plan.commit}
        info["commit"] = self.options.commit or ", ".join(sorted(commits))
        if CACHE in os.environ:
            chosen = read_choices(Path(os.environ[CACHE]) / CHOICES)
            info["tuned"] = {"products": chosen}

    def read_clock(self) -> float | None:
        clock = self.reader.clock()
        if clock is None:
            return None
        self.clocks.append(clock)
        seen = self.results.gpu(self.gpu)["clocks"]
        seen["sm_mhz_min"] = min(self.clocks + [seen.get("sm_mhz_min", 1e9)])
        seen["sm_mhz_max"] = max(self.clocks + [seen.get("sm_mhz_max", 0.0)])
        return clock

    def find(self, problem: Problem, tokens: int) -> Plan | None:
        """The kernel with the smallest tile that serves `tokens`."""
        fits = [
            plan
            for plan in self.plans
            if plan.problem == problem and plan.max_tokens >= tokens
        ]
        return min(fits, key=lambda plan: plan.max_tokens, default=None)

    # Checks ----------------------------------------------------------------

    def check_all(self) -> None:
        # The order lets a short run have all kinds.
        plans = sorted(
            (
                plan
                for plan in self.plans
                if self.wants(f"{plan.problem.label()}-t{plan.max_tokens}")
            ),
            key=lambda plan: zlib.crc32(plan.binary.stem.encode()),
        )
        self.log(f"checking {len(plans)} kernels")
        for index, plan in enumerate(plans):
            if self.left() < 20:
                self.log(
                    f"budget reached after {index} of {len(plans)} kernels"
                )
                return
            self.check_plan(plan, f"{index + 1}/{len(plans)}")
            self.results.save()

    def tokens_to_check(self, plan: Plan) -> list[int]:
        return choose_tokens(
            plan.max_tokens,
            plan.problem.label(),
            self.options.check_tokens,
            self.options.all_tokens,
        )

    def check_plan(self, plan: Plan, progress: str) -> None:
        label = plan.problem.label()
        tokens = self.tokens_to_check(plan)
        if self.options.resume:
            tokens = [
                m
                for m in tokens
                if not self.results.has_check(
                    label, plan.max_tokens, m, plan.digest
                )
            ]
        if not tokens:
            return
        begin = time.time()
        rows: list[dict[str, Any]] = []
        checks = check_tokens(
            plan, tokens, self.options.seed, self.options.repeats
        )
        for m in tokens:

            def give_up(step: str, m: int = m) -> None:
                self.results.add_check(bad_row(plan, m, "hang"))
                self.results.save()

            self.watch.on_hang(give_up)
            self.watch.start(f"check {label} M={m}")
            row = next(checks)
            self.watch.stop()
            rows.append(row)
            self.results.add_check(row)
            if loses_device(row):
                self.results.save()
                print(
                    f"the device is lost after {label} M={m}: {row['note']}",
                    flush=True,
                )
                os._exit(_HANG)
        checks.close()
        good = all(row["ok"] for row in rows)
        equal = min((row.get("hidden_equal", 0.0) for row in rows), default=0.0)
        worst = max((row.get("out_rel_err", 9.9) for row in rows), default=9.9)
        self.log(
            f"{progress} {label} tile {plan.max_tokens} "
            f"M={','.join(str(row['M']) for row in rows)}: "
            f"{'ok' if good else 'FAILED'}, hidden equal {equal:.4f}, "
            f"out {worst:.1e} ({time.time() - begin:.1f} s)"
        )
        for row in rows:
            if not row["ok"]:
                self.log(f"  {row}")

    # Timings ---------------------------------------------------------------

    def time_all(self) -> None:
        self.prepare()
        for shape in (*TIMED_SHAPES, *LONE_SHAPES):
            served = served_tokens(shape)
            tokens = [m for m in self.options.tokens if m in served]
            for dtype in (FP8, BF16):
                problem = timed_problem(*shape, dtype)
                if tokens and self.wants(problem.label()):
                    self.time_problem(problem, tokens)

    def prepare(self) -> None:
        """Prepares the data of all timings."""
        self.floor = Floor()
        self.timer = Timer(self.floor)
        empty = self.timer.interleave(
            {"empty": capture(self.floor.empty())}, 30
        )["empty"]
        self.results.gpu(self.gpu)["ceilings"]["empty_graph_us"] = empty.per(1)[
            "median_us"
        ]
        torch._dynamo.config.cache_size_limit = 256

    def measure_ceilings(self) -> None:
        found = self.results.gpu(self.gpu)["ceilings"]
        found.update(ceilings())
        found["fp8_sums_of_interval"] = short(library_sum_error())
        self.log(f"ceilings {found}")

    def time_problem(self, problem: Problem, tokens: Sequence[int]) -> None:
        """Single launches and chains of one shape and type."""
        layers = LAYERS if "chain" in self.options.stages else 1
        operands = []
        for layer in range(layers):
            tensors, scales = data.make_weights(
                problem, self.options.seed + layer, one_scale=True
            )
            operands.append((tensors, scales))
        calibration = data.make_activations(problem, 128, 1)
        scales = data.calibrate(
            problem, {**operands[0][0], **calibration}, operands[0][1]
        )
        weights = [Weights(tensors) for tensors, _ in operands]
        layer_scales = [{**scales, **own} for _, own in operands]
        peers = [
            parameters(problem, tensors, own)
            for (tensors, _), own in zip(operands, layer_scales)
        ]
        # The floor reads the same number of bytes, from another buffer.
        raw = torch.empty(
            layers * problem.weight_bytes, dtype=torch.uint8, device="cuda"
        ).random_(0, 255)
        for m in tokens:
            if self.left() < self.options.reserve:
                self.log("budget reached")
                break
            begin = time.time()
            self.time_tokens(problem, m, weights, layer_scales, peers, raw)
            self.results.save()
            self.log(
                f"{problem.label()} M={m} done in {time.time() - begin:.1f} s"
            )
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()

    def time_tokens(
        self,
        problem: Problem,
        m: int,
        weights: list[Weights],
        scales: list[dict[str, float]],
        peers: list[dict[str, Tensor]],
        raw: Tensor,
    ) -> None:
        x = data.make_activations(problem, m, 7 + m)["x"]
        base = {
            "K": problem.width,
            "H": problem.hidden,
            "M": m,
            "act": problem.act,
            "dtype": "fp8" if problem.fp8 else "bf16",
        }
        calls: dict[tuple[str, str, str], Callable[[], Any]] = {}
        errors: dict[tuple[str, str], float] = {}
        tensors = {**weights[0].tensors, "x": x}
        truth = real_output(problem, tensors, scales[0])

        own = "static" if problem.fp8 else "none"
        ours = self.find(problem, m)
        if ours is None:
            for protocol in self.protocols(m):
                self.results.add_row(
                    {
                        **base,
                        "scales": own,
                        "system": "fuse",
                        "protocol": protocol,
                        "note": "no kernel",
                    }
                )
        else:
            self.add_ours(ours, x, weights, scales, truth, own, calls, errors)
        if m > FEW_TOKENS:
            calls[LIBRARY, "none", "single"] = library_products(problem, m)
            errors[LIBRARY, "none"] = float("inf")
        relaxed = self.find(
            timed_problem(
                problem.width, problem.hidden, problem.act, problem.dtype, True
            ),
            m,
        )
        if relaxed is not None:
            self.add_ours(
                relaxed,
                x,
                weights,
                scales,
                truth,
                own,
                calls,
                errors,
                "fuse-relaxed",
            )
        name = f"{problem.label()} M={m}"
        for peer in make_peers(
            problem,
            [
                mode
                for mode in peer_modes(problem, m, self.options.peers)
                if not mode.startswith("autotune")
                or re.search(self.options.tuned, name)
            ],
        ):
            bound = [peer.bind(values) for values in peers]
            result = self.run_peer(peer, bound[0], x)
            if result is None:
                continue
            errors[peer.system, peer.scales] = relative_error(result, truth)
            protocols = self.protocols(m)
            if set(protocols) & _SINGLE:
                calls[peer.system, peer.scales, "single"] = partial(bound[0], x)
            if "chain" in protocols and peer.system != "torch-eager-merged":

                def run(functions: list[Any] = bound) -> Tensor:
                    y = x
                    for function in functions:
                        y = function(y)
                    return y

                calls[peer.system, peer.scales, "chain"] = run
        self.measure(base, calls, errors, raw, problem)

    def run_peer(
        self, peer: Peer, function: Callable[[Tensor], Tensor], x: Tensor
    ) -> Tensor | None:
        """Compiles a peer and runs it; None if that fails, or if it would have
        to be tuned first."""
        name = f"{peer.system} {peer.scales} M={x.shape[0]}"
        self.watch.start(f"compile {name}", 240)
        with only_tuned() as untuned:
            try:
                return function(x)
            except Exception as error:
                text = (
                    f"left out, as fuse_bench.peers.tune has not tuned "
                    f"{untuned[0]}"
                    if untuned
                    else str(error)
                )
                self.log(f"{name}: {' '.join(text.split())[:200]}")
                return None
            finally:
                self.watch.stop()

    def protocols(self, tokens: int) -> list[str]:
        stages = ["single"]
        if tokens <= FEW_TOKENS:
            stages.append("chain")
        if tokens >= MANY_TOKENS:
            stages.append("sustained")
        return [stage for stage in stages if stage in self.options.stages]

    def add_ours(
        self,
        plan: Plan,
        x: Tensor,
        weights: list[Weights],
        scales: list[dict[str, float]],
        truth: Tensor,
        own: str,
        calls: dict[tuple[str, str, str], Callable[[], Any]],
        errors: dict[tuple[str, str], float],
        system: str = "fuse",
    ) -> None:
        module = Module(plan.binary)
        layers = Layers(
            plan,
            module,
            weights,
            x,
            [
                kernel_scalars(
                    plan.problem, {**own_scales, **plan.fixed_scales}
                )
                for own_scales in scales
            ],
        )
        runners = layers.runners
        name = f"{plan.problem.label()} M={x.shape[0]}"
        self.watch.on_hang(lambda step: self.results.save())
        self.watch.start(f"run {name}")
        runners[0]()
        torch.cuda.synchronize()
        self.watch.stop()
        errors[system, own] = relative_error(runners[0].results[0], truth)
        protocols = self.protocols(x.shape[0])
        if set(protocols) & _SINGLE:
            calls[system, own, "single"] = runners[0]
        if "chain" not in protocols:
            return

        self.watch.start(f"chain {name}")
        layers()
        plain = runners[-1].results[0].clone()
        for way, call in layers.ways().items():
            way = system + way
            for runner in runners:
                runner.results[0].fill_(float("nan"))
            call()
            torch.cuda.synchronize()
            errors.setdefault((way, own), errors[system, own])
            if not torch.equal(
                plain.view(torch.int16),
                runners[-1].results[0].view(torch.int16),
            ):
                self.log(
                    f"{name}: overlapping launches change the result of {way}"
                )
                errors[way, own] = float("inf")
            calls[way, own, "chain"] = call
        self.watch.stop()

    def measure(
        self,
        base: dict[str, Any],
        calls: dict[tuple[str, str, str], Callable[[], Any]],
        errors: dict[tuple[str, str], float],
        raw: Tensor,
        problem: Problem,
    ) -> None:
        graphs: dict[str, torch.cuda.CUDAGraph] = {}
        for protocol in self.protocols(base["M"]):
            kind = "single" if protocol in _SINGLE else protocol
            layers = 1 if kind == "single" else LAYERS
            if protocol != "sustained" or not graphs:
                self.watch.start(f"capture {base} {protocol}", 120)
                graphs = self.capture_all(calls, kind)
            if protocol == "sustained":
                self.measure_sustained(base, graphs, errors, problem)
                continue
            graphs["floor"] = capture(
                self.floor.read(raw[: layers * problem.weight_bytes])
            )
            self.watch.start(f"time {base} {protocol}", 120)
            samples = self.interleave(graphs, base["M"])
            self.watch.stop()
            self.add_rows(
                {**base, "protocol": protocol},
                samples,
                errors,
                problem,
                layers,
                {"sm_mhz": self.read_clock()},
                {"power_w": self.reader.power()},
            )

    def capture_all(
        self, calls: dict[tuple[str, str, str], Callable[[], Any]], kind: str
    ) -> dict[str, torch.cuda.CUDAGraph]:
        """The graphs of one kind by system and scales; reports captures that
        fail."""
        graphs = {}
        for (system, scales, own), function in calls.items():
            if own != kind:
                continue
            try:
                graphs[f"{system}/{scales}"] = capture(function)
            except (CudaError, RuntimeError) as error:
                self.log(f"{system} {scales}: {error}")
        return graphs

    def interleave(
        self, graphs: dict[str, torch.cuda.CUDAGraph], tokens: int
    ) -> dict[str, Sample]:
        """Samples of rounds until ratios are certain enough."""
        samples: dict[str, Sample] = {}
        begin = time.monotonic()
        for _ in range(_MOST_REPEATS):
            found = self.timer.interleave(
                graphs, self.options.rounds, clocks=tokens > FEW_TOKENS
            )
            for name, more in found.items():
                samples.setdefault(name, Sample([])).add(more)
            ours = _find_ours(samples)
            if ours is None:
                break
            # Only the fastest peer counts.
            best = min(
                (
                    sample
                    for name, sample in samples.items()
                    if name.startswith("torch")
                ),
                default=ours,
                key=lambda sample: sample.per(1)["median_us"],
            )
            ratio, low, high = best.over(ours)
            if (
                high - low < 2 * _CERTAIN * ratio
                or time.monotonic() - begin > self.options.seconds
            ):
                break
        return samples

    def measure_sustained(
        self,
        base: dict[str, Any],
        graphs: dict[str, torch.cuda.CUDAGraph],
        errors: dict[tuple[str, str], float],
        problem: Problem,
    ) -> None:
        """The graphs of single calls, each for some time."""
        chosen = {
            name: graph
            for name, graph in graphs.items()
            if name.split("/")[0] in _SUSTAINED
            and not name.endswith("/dynamic")
        }
        if not chosen:
            return
        self.watch.start(f"sustain {base}", 120)
        samples = self.timer.sustain(
            chosen, self.options.sustained_rounds, self.reader
        )
        self.watch.stop()
        self.add_rows(
            {**base, "protocol": "sustained"}, samples, errors, problem
        )

    def add_rows(
        self,
        base: dict[str, Any],
        samples: dict[str, Sample],
        errors: dict[tuple[str, str], float],
        problem: Problem,
        layers: int = 1,
        clock: dict[str, Any] | None = None,
        power: dict[str, Any] | None = None,
    ) -> None:
        """A row for each system that was timed."""
        m, protocol = base["M"], base["protocol"]
        read = samples.pop("floor", None)
        floor = read and read.per(layers)["median_us"]
        library = samples.get(f"{LIBRARY}/none")
        ours = _find_ours(samples)
        plans = {
            "fuse": self.find(problem, m),
            "fuse-relaxed": self.find(
                timed_problem(
                    problem.width,
                    problem.hidden,
                    problem.act,
                    problem.dtype,
                    True,
                ),
                m,
            ),
        }
        plans |= {f"{system}-exclusive": plan for system, plan in plans.items()}
        for name, sample in samples.items():
            system, scales = name.split("/")
            error = errors[system, scales]
            row = {
                **base,
                "scales": scales,
                "system": system,
                **sample.per(layers),
                "floor_us": floor,
                "rel_err": short(error) if error < 1e9 else None,
                "weight_bytes": problem.weight_bytes,
                **(clock or {}),
                "run": self.began,
                "gpu": self.gpu,
            }
            if ours is not None and sample is not ours:
                over, *row["over_fuse_95"] = (
                    round(ratio, 4) for ratio in sample.over(ours)
                )
                row["over_fuse"] = over
            if library is not None:
                rate = problem.flop(m) / row["median_us"] * 1e-6
                row |= {
                    "tflop_per_s": round(rate, 1),
                    **(power or {}),
                    "of_library_products": round(
                        library.per(1)["median_us"] / row["median_us"], 3
                    ),
                }
            row |= {"rounds": len(sample.of_rounds()), **sample.state()}
            if sample.clocks:
                row["tensor_us"] = round(
                    tensor_us(problem, m, row["sm_mhz"]), 2
                )
            plan = plans.get(system)
            if plan is not None:
                row |= {
                    "tile": plan.max_tokens,
                    "commit": plan.commit,
                    "digest": plan.digest,
                }
            self.results.add_row(row)
            self.log(
                f"{protocol} {base['K']}/{base['H']} {base['dtype']} "
                f"M={m} {system} {scales}: {row['median_us']:.1f} us "
                f"({row['min_us']:.1f}-{row['max_us']:.1f})"
                + (
                    f", {row['median_us'] / floor:.2f} x floor"
                    if floor
                    else f", {row.get('power_w')} W"
                )
                + f", {row.get('sm_mhz')} MHz, {row['rounds']} rounds, "
                f"error {error:.1e}"
            )

    # The run ---------------------------------------------------------------

    def run(self) -> int:
        self.describe()
        self.log(
            f"{self.results.data['gpu']} {self.gpu}, driver "
            f"{self.results.data['driver']}, torch "
            f"{torch.__version__}, {len(self.plans)} kernels"
        )
        if self.plans:
            # Otherwise every single check would report it.
            try:
                Module(self.plans[0].binary)
            except CudaError as error:
                self.log(
                    f"the driver does not load "
                    f"{self.plans[0].binary.name}: {error}; expected one "
                    "for the CUDA of the ptxas that made it, or newer"
                )
                return 1
        if "ceilings" in self.options.stages:
            self.measure_ceilings()
        self.read_clock()
        if "check" in self.options.stages:
            self.check_all()
        if self.protocols(1):
            self.time_all()
        self.results.save()
        print(tables(self.results))
        print(f"written to {self.results.path}", flush=True)
        return 0


def kernel_problem(options: argparse.Namespace) -> str:
    """The reason why nothing can be checked or timed; empty if something can."""
    folder = options.kernels
    names = (
        []
        if str(folder) == "none"
        else sorted(
            path.stem for path in folder.glob("*.json") if path.name[0] != "_"
        )
    )
    if not names and str(folder) != "none":
        return (
            f"no kernels in {folder}: expected those of python3 -m "
            "fuse_bench.common.kernels, or --kernels none"
        )
    names += [
        timed_problem(*shape, dtype).label()
        for shape in (*TIMED_SHAPES, *LONE_SHAPES)
        for dtype in (FP8, BF16)
    ]
    if not any(re.search(options.only, name) for name in names):
        return (
            f"no problem is called '{options.only}': expected part of a "
            f"name such as {names[0]}"
        )
    return ""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.suites.mlp", description=__doc__.split("\n")[0]
    )
    stages = ("ceilings", "check", "single", "chain", "sustained")
    parser.add_argument(
        "--kernels",
        type=Path,
        default=ROOT / "out/kernels",
        help="folder that fuse_bench.common.kernels filled; "
        "'none' times the other systems alone",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=RAW / "mlp-h200.json",
        help="rows and checks replace those of the same "
        "problem in this file (default: %(default)s)",
    )
    parser.add_argument("--start", type=Path, help="results to begin with")
    add_only_option(parser, "the name of a problem")
    parser.add_argument(
        "--stages", nargs="+", choices=stages, default=list(stages)
    )
    parser.add_argument(
        "--tokens",
        nargs="+",
        type=int,
        default=[*TIMED_TOKENS, *PREFILL_TOKENS, *LONE_TOKENS],
        help="M that are timed, in this order; more than "
        f"{FEW_TOKENS} with the first shapes only",
    )
    parser.add_argument(
        "--check-tokens", nargs="+", type=int, default=list(CHECKED_TOKENS)
    )
    parser.add_argument(
        "--all-tokens",
        action="store_true",
        help="check kernels for many tokens with all numbers "
        "that are checked, instead of some in turn",
    )
    parser.add_argument(
        "--peers", nargs="*", choices=MODES, default=list(MODES)
    )
    parser.add_argument(
        "--tuned",
        default="",
        type=pattern,
        help="regular expression that 'NAME M=TOKENS' must "
        "contain for peers that are tuned to be timed",
    )
    parser.add_argument(
        "--reserve",
        type=float,
        default=30,
        help="no row is begun with fewer seconds left",
    )
    parser.add_argument(
        "--rounds", type=int, default=100, help="replays of each graph at least"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=2,
        help="for which they are repeated where ratios are not certain",
    )
    parser.add_argument(
        "--sustained-rounds",
        type=int,
        default=6,
        help="how often each graph runs for 200 ms, with "
        f"{MANY_TOKENS} tokens and more",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=200,
        help="launches that must agree bit by bit",
    )
    add_run_options(parser, "check")
    parser.add_argument(
        "--commit",
        default="",
        help="default: what the kernels were compiled of",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep checks that the output already has",
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--begin", type=float, default=time.time(), help=argparse.SUPPRESS
    )
    options = parser.parse_args(arguments)
    if not options.worker:
        problem = gpu_problem() or kernel_problem(options)
        if problem:
            parser.error(problem)
    choose_seed(options)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.worker:
        try:
            return Bench(options).run()
        except Exception:
            traceback.print_exc()
            return 1
    # A kernel that hangs ends its process; the rest runs in another one.
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = [
        sys.executable,
        "-m",
        "fuse_bench.suites.mlp",
        *given,
        "--worker",
        "--begin",
        str(options.begin),
        "--seed",
        str(options.seed),
    ]
    code = subprocess.run(command, check=False).returncode
    while code == _HANG and time.time() - options.begin < options.budget - 30:
        print("going on in a new process", flush=True)
        code = subprocess.run([*command, "--resume"], check=False).returncode
    return code


if __name__ == "__main__":
    sys.exit(main())
