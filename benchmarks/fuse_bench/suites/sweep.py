# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks one artifact over the number of tokens, and looks for jumps of time.

    python3 -m fuse_bench.suites.sweep compile

writes artifacts to out/sweep. Each problem has one artifact with kernels for
all token ranges. Each schedule at the end of a range has another, which shows
the cost of moving the boundary. This needs the built compiler, not a GPU.

    FUSE_LIBRARY=build/dev/lib/libfuse-rt.so \\
        python3 -m fuse_bench.suites.sweep run

checks and times them on a GPU through the runtime library. The library launches
the kernel that the manifest lists for the number of tokens.

With `--chip=sm_80` or another chip, both steps are about the kernels for that
chip, which a newer GPU also runs. Fewer numbers of tokens are timed, beside a
read of the weights.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.cases import DTYPES, TIMED_SHAPES, timed_problem
from ..common.environment import (
    RAW,
    ROOT,
    add_only_option,
    require_gpu,
    require_tools,
    write_json,
)
from ..common.problem import NORMS, ROW_OPERANDS, Problem

if TYPE_CHECKING:
    import torch

    from fuse_mlir import native

ARTIFACTS = ROOT / "out/sweep"
RESULTS = RAW / "sweep-h200.json"
CHECKED_TOKENS = (1, 8, 9, 128, 129, 200, 256, 300, 511, 512, 1000, 4096)
SWEPT_TOKENS = tuple(range(64, 1025, 32))
#: With kernels for another chip.
OTHER_CHIP_TOKENS = (1, 16, 64, 128, 256, 512, 1024, 4096)
HOPPER = "sm_90a"
#: Largest relative error of an output against the decomposition.
ERROR = {"bf16": 8e-3, "f8E4M3FN": 2e-2}
_RANGE = re.compile(r"(\d+) : (#tile\.(?:prefill_|mma_)?schedule<[^>]*>)")


def problems() -> Iterator[tuple[Problem, bool]]:
    """Returns the checked problems, and whether each is also timed."""
    for dtype in DTYPES:
        for width, hidden, act in TIMED_SHAPES[:2]:
            yield timed_problem(width, hidden, act, dtype), True
        yield (
            Problem(
                "mlp", 2064, 4112, dtype, "gelu", NORMS["layer"], biases=True
            ),
            False,
        )


def fixed_scales(problem: Problem) -> dict[str, float]:
    """Returns scales for normally distributed weights of variance 1 / K.

    Artifacts contain these scales as constants.
    """
    if not problem.fp8:
        return {}
    largest = {"input": 7.5, "hidden": 12.0, "down": 5.5 / problem.hidden**0.5}
    for role in ("gate", "up"):
        largest[role] = 5.5 / problem.width**0.5
    return {name: largest[name] / 448 for name in problem.scales()}


# Compiling.


def _text(problem: Problem, attributes: str = "") -> str:
    text = problem.to_mlir(None, attributes, fixed_scales(problem))
    # Weights are bound by name.
    for role in problem.operands():
        if role not in ROW_OPERANDS:
            text = re.sub(
                rf"(%{role}: tensor<[^>]*>)",
                rf'\1 {{fuse.parameter = "{role}"}}',
                text,
                count=1,
            )
    return text


def _run(command: Sequence[str | Path], text: str = "") -> str:
    done = subprocess.run(
        [str(part) for part in command],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name}: {done.stderr.strip()}")
    return done.stdout


def compile_all(arguments: argparse.Namespace) -> int:
    """Writes artifacts, and index.json next to them."""
    require_tools(arguments.bin, "fuse-opt", "fuse-compile")
    arguments.artifacts.mkdir(parents=True, exist_ok=True)
    index = []
    for problem, timed in problems():
        if not re.search(arguments.only, problem.label()):
            continue
        begin = time.monotonic()
        scheduled = _run(
            [
                arguments.bin / "fuse-opt",
                "--fuse-select-schedules=dispatch=true tokens=16384 "
                f"chip={arguments.chip}",
            ],
            _text(problem),
        )
        ranges = [
            (int(bound), schedule)
            for bound, schedule in _RANGE.findall(scheduled)
        ]
        entry: dict[str, Any] = {
            "problem": problem.to_json(),
            "timed": timed,
            "chip": arguments.chip,
            "ranges": ranges,
            "artifact": _compile(arguments, problem, "", "all"),
            "alone": {},
        }
        alone = arguments.alone and arguments.chip == HOPPER
        for bound, schedule in ranges if timed and alone else ():
            # Time the kernels of a range with more tokens, too.
            if 64 <= bound <= 2048:
                entry["alone"][bound] = _compile(
                    arguments,
                    problem,
                    f"{{tile.schedule = {schedule}}}",
                    str(bound),
                )
        index.append(entry)
        print(
            f"{problem.label()}: {len(ranges)} ranges, "
            f"{time.monotonic() - begin:.0f} s",
            flush=True,
        )
    (arguments.artifacts / "index.json").write_text(
        json.dumps(index, indent=1) + "\n"
    )
    return 0


def _compile(
    arguments: argparse.Namespace, problem: Problem, attributes: str, name: str
) -> str:
    file = f"{problem.label()}-{name}.fuse"
    source = arguments.artifacts / "source.mlir"
    source.write_text(_text(problem, attributes))
    _run(
        [
            arguments.bin / "fuse-compile",
            source,
            "--cpu=none",
            f"--chip={arguments.chip}",
            f"--assemble={arguments.assemble}",
            "-o",
            arguments.artifacts / file,
        ]
    )
    return file


# Running.


@dataclass
class Block:
    """A problem on the GPU: its weights, and instances of its code."""

    problem: Problem
    weights: dict[str, Any]
    shared: Any

    def load(self, path: Path) -> tuple[Any, float]:
        """Returns an instance, and the seconds to load and prepare it."""
        import torch

        from fuse_mlir import native

        begin = time.monotonic()
        instance = (
            native.Artifact.load(path)
            .load_on(torch.device("cuda", 0))
            .instance()
        )
        for name, tensor in self.weights.items():
            instance.bind(name, tensor)
        instance.prepare(self.shared)
        return instance, time.monotonic() - begin


def make_block(problem: Problem, seed: int) -> Block:
    import torch

    from fuse_mlir import native

    generator = torch.Generator("cuda").manual_seed(seed)
    scales = fixed_scales(problem)
    weights = {}
    for role in problem.operands():
        if role in ROW_OPERANDS:
            continue
        shape = problem.shape(role)
        value = torch.randn(*shape, generator=generator, device="cuda")
        if role == "norm_weight":
            value = 1 + 0.1 * value
        elif len(shape) == 1:
            value = 0.1 * value
        else:
            value = value / shape[1] ** 0.5
        if problem.fp8 and role in scales:
            value = (value / scales[role]).clamp(-448, 448)
            weights[role] = value.to(torch.float8_e4m3fn)
        else:
            weights[role] = value.bfloat16()
    return Block(problem, weights, native.SharedWeights())


class Sweep:
    """Checks and times the problems of an index."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import torch

        from ..common.device import read_device
        from ..common.timing import Floor, Timer

        self.arguments = arguments
        self.torch = torch
        self.timer = Timer()
        self.floor = Floor()
        self.data: dict[str, Any] = {
            "gpu": torch.cuda.get_device_name(0),
            "device": read_device(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "commit": arguments.commit,
            "protocol": "CUDA graph of one launch, cold L2, median",
            "rounds": arguments.rounds,
            "prepare": [],
            "checks": [],
            "rows": [],
        }
        self.began = time.monotonic()

    def log(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def save(self) -> None:
        write_json(self.arguments.output, self.data)

    def input(self, problem: Problem, tokens: int) -> torch.Tensor:
        generator = self.torch.Generator("cuda").manual_seed(tokens)
        return self.torch.randn(
            tokens, problem.width, generator=generator, device="cuda"
        ).bfloat16()

    def output(self, problem: Problem, tokens: int) -> torch.Tensor:
        return self.torch.full(
            (tokens, problem.width),
            float("nan"),
            dtype=self.torch.bfloat16,
            device="cuda",
        )

    def check(self, block: Block, instance: native.Instance) -> None:
        """Checks all numbers of tokens in one workspace, in several orders.

        Each launch starts with the data that the previous one left there.
        """
        from ..reference.decomposition import Chain, relative_error

        problem = block.problem
        most = max(CHECKED_TOKENS)
        instance.launch(
            [self.input(problem, most)], [self.output(problem, most)]
        )
        first: dict[int, Any] = {}
        differing: dict[int, int] = dict.fromkeys(CHECKED_TOKENS, 0)
        orders = [
            CHECKED_TOKENS,
            CHECKED_TOKENS[::-1],
            *(CHECKED_TOKENS[i::3] for i in range(3)),
        ]
        for turn in range(self.arguments.repeats):
            for tokens in orders[turn % len(orders)]:
                out = self.output(problem, tokens)
                instance.launch([self.input(problem, tokens)], [out])
                bits = out.view(self.torch.int16)
                known = first.setdefault(tokens, bits)
                differing[tokens] += int(not self.torch.equal(bits, known))
        for tokens in CHECKED_TOKENS:
            out = first[tokens].view(self.torch.bfloat16)
            chain = Chain(
                problem,
                {**block.weights, "x": self.input(problem, tokens)},
                fixed_scales(problem),
                bounds=False,
            )
            error = relative_error(out, chain.output().mid)
            self.data["checks"].append(
                {
                    "case": problem.label(),
                    "M": tokens,
                    "chain_rel_err": float(f"{error:.3g}"),
                    "repeats": self.arguments.repeats,
                    "differing_repeats": differing[tokens],
                    "ok": error < ERROR[problem.dtype]
                    and differing[tokens] == 0,
                }
            )
            del chain
        bad = [row for row in self.data["checks"] if not row["ok"]]
        self.log(
            f"{problem.label()}: checked, "
            f"{len(bad)} of {len(self.data['checks'])} bad so far"
        )

    def time(
        self, block: Block, entry: dict[str, Any], instances: dict[str, Any]
    ) -> None:
        from ..common.device import read_device
        from ..common.timing import capture
        from ..peers.systems import library_products

        problem = block.problem
        bounds = [bound for bound, _ in entry["ranges"]]
        graphs: dict[tuple[str, int], Any] = {}
        kept: list[Any] = []
        if entry["chip"] == HOPPER:
            borders = (bound for bound in bounds if 64 <= bound < 1024)
            tokens = sorted(
                {*SWEPT_TOKENS, *(b + more for b in borders for more in (0, 1))}
            )
        else:
            tokens = list(OTHER_CHIP_TOKENS)
            weights = self.torch.empty(
                problem.weight_bytes, dtype=self.torch.uint8, device="cuda"
            ).random_()
            kept.append(weights)
            graphs["read", 0] = capture(self.floor.read(weights))
        for m in tokens:
            x = self.input(problem, m)
            for name, instance in instances.items():
                if name != "fuse" and m > instance.max_tokens:
                    continue
                out = self.output(problem, m)
                kept.append((x, out))
                graphs[name, m] = capture(lambda: instance.launch([x], [out]))
            # A graph does not keep its tensors alive.
            kept.append(library_products(problem, m))
            graphs["cublas-products", m] = capture(kept[-1])
        samples = self.timer.interleave(graphs, self.arguments.rounds)
        clock = read_device()
        for (name, m), sample in samples.items():
            self.data["rows"].append(
                {
                    "K": problem.width,
                    "H": problem.hidden,
                    "dtype": problem.dtype,
                    "M": m,
                    "system": name,
                    "range": next((b for b in bounds if m <= b), None),
                    **sample.per(1),
                    "clock_sm": clock.get("clocks.sm", ""),
                }
            )
        self.log(f"{problem.label()}: {len(graphs)} graphs timed")

    def load(
        self, wanted: list[tuple[Block, str, str]]
    ) -> dict[tuple[str, str], Any]:
        """Loads instances by problem and name, several at a time."""

        def one(item: tuple[Block, str, str]) -> tuple[Any, float]:
            block, _, file = item
            return block.load(self.arguments.artifacts / file)

        found = {}
        with ThreadPoolExecutor(self.arguments.jobs) as pool:
            for (block, name, _), (instance, seconds) in zip(
                wanted, pool.map(one, wanted)
            ):
                label = block.problem.label()
                found[label, name] = instance
                self.data["prepare"].append(
                    {"case": label, "code": name, "seconds": round(seconds, 3)}
                )
        self.log(f"{len(found)} instances prepared")
        return found

    def run(self) -> int:
        index = json.loads(
            (self.arguments.artifacts / "index.json").read_text()
        )
        self.data["chip"] = index[0]["chip"]
        chosen = []
        for entry in index:
            problem = Problem.from_json(entry["problem"])
            if re.search(self.arguments.only, problem.label()):
                chosen.append((entry, make_block(problem, seed=7)))
        # Most of the time is spent in the driver, which compiles PTX. The first
        # instance of a block packs the weights. The others reuse them.
        loaded = [
            self.load(
                [(block, "fuse", entry["artifact"]) for entry, block in chosen]
            ),
            self.load(
                [
                    (block, f"alone-{bound}", file)
                    for entry, block in chosen
                    for bound, file in entry["alone"].items()
                ]
            ),
        ]
        self.save()
        for entry, block in chosen:
            instances = {
                name: instance
                for group in loaded
                for (owner, name), instance in group.items()
                if owner == block.problem.label()
            }
            self.check(block, instances["fuse"])
            if entry["timed"]:
                self.time(block, entry, instances)
            self.save()
            self.torch.cuda.empty_cache()
        if self.data["chip"] == HOPPER:
            print(jumps(self.data["rows"]))
        return int(not all(row["ok"] for row in self.data["checks"]))


# Reading.


def jumps(rows: list[dict[str, Any]]) -> str:
    """Finds the largest increase in time between adjacent token counts.

    It is compared with the average cost of a tile of 128 tokens, from 128 to
    1024 tokens.
    """
    lines = [
        "| K/H | type | us at 128 / 1024 | us for a tile | largest step | "
        "from to | slower than the best schedule |",
        "|---" * 7 + "|",
    ]
    keys = sorted({(r["K"], r["H"], r["dtype"]) for r in rows})
    for key in keys:
        own = {
            r["M"]: r["median_us"]
            for r in rows
            if (r["K"], r["H"], r["dtype"]) == key and r["system"] == "fuse"
        }
        best: dict[int, float] = {}
        for r in rows:
            if (r["K"], r["H"], r["dtype"]) == key and r["system"].startswith(
                ("fuse", "alone")
            ):
                best[r["M"]] = min(best.get(r["M"], 1e9), r["median_us"])
        numbers = sorted(own)
        steps = [(own[b] - own[a], a, b) for a, b in zip(numbers, numbers[1:])]
        step, begin, end = max(steps)
        tile = (own[1024] - own[128]) / 7
        lost, where = max((own[m] / best[m], m) for m in numbers)
        mean = statistics.mean(own[m] / best[m] for m in numbers)
        lines.append(
            f"| {key[0]}/{key[1]} | {key[2]} | {own[128]:.1f} / "
            f"{own[1024]:.1f} | {tile:.1f} | {step:.1f} | {begin} {end} | "
            f"{100 * (mean - 1):.1f} %, most {100 * (lost - 1):.0f} % at "
            f"{where} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m fuse_bench.suites.sweep")
    parser.add_argument("step", choices=("compile", "run", "table"))
    parser.add_argument("--artifacts", type=Path, default=ARTIFACTS)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/dev/bin")
    parser.add_argument(
        "--assemble", default="never", choices=("never", "auto", "always")
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument(
        "--chip",
        default=HOPPER,
        help="what to compile kernels for (default: %(default)s)",
    )
    add_only_option(parser, "the name of a problem")
    parser.add_argument(
        "--alone",
        default=True,
        action=argparse.BooleanOptionalAction,
        help="also every schedule alone, for all numbers",
    )
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--commit", default="")
    chosen = parser.parse_args(arguments)
    if chosen.step == "compile":
        return compile_all(chosen)
    if chosen.step == "table":
        print(jumps(json.loads(chosen.output.read_text())["rows"]))
        return 0
    require_gpu()
    return Sweep(chosen).run()


if __name__ == "__main__":
    sys.exit(main())
