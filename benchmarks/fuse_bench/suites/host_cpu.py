# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times MLPs on the CPU beside PyTorch, eager and by torch.compile.

All systems of a case run in one process, with as many threads, in batches that
take turns; a batch during which threads had to wait for a processor, because
something else ran on the machine, is measured again. Weights and inputs are
the same, results are compared with float64. Each row has the median of single
calls and what part it is of what `benchmarks/host/probe.cpp` reads and
multiplies on the machine: of the larger of the two.

    python3 -m fuse_bench.suites.host_cpu --output out/results/host-cpu.json
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fuse_mlir import native

from ..common.environment import ROOT, read_commit, write_json

Call = Callable[[], Tensor]

# Width, hidden width.
MODELS = {"Qwen3-0.6B": (1024, 3072), "Qwen3-4B": (2560, 9728)}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
EPS = 1e-6
# Seconds of a batch, and the part of it that its threads may wait for
# processors.
BATCH = 0.05
WAITING = 0.03

IR = """
func.func @mlp(%x: tensor<?x{k}x{t}>,
    %norm: tensor<{k}x{t}> {{fuse.parameter = "norm"}},
    %gate: tensor<{h}x{k}x{t}> {{fuse.parameter = "gate"}},
    %up: tensor<{h}x{k}x{t}> {{fuse.parameter = "up"}},
    %down: tensor<{k}x{h}x{t}> {{fuse.parameter = "down"}})
    -> tensor<?x{k}x{t}> {{
  %y = fuse.gated_mlp %x norm(rms %norm eps {eps}) gate(%gate) up(%up)
         down(%down) act(silu) then_add(%x) rounding(exact)
    : (tensor<?x{k}x{t}>, tensor<{k}x{t}>, tensor<{h}x{k}x{t}>,
       tensor<{h}x{k}x{t}>, tensor<{k}x{h}x{t}>, tensor<?x{k}x{t}>)
      -> tensor<?x{k}x{t}>
  return %y : tensor<?x{k}x{t}>
}}
"""


class Block(nn.Module):
    """RMS norm, SwiGLU MLP and residual add, as Qwen3 writes them."""

    def __init__(self, width: int, hidden: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.norm = nn.Parameter((1 + 0.1 * torch.randn(width)).to(dtype))
        self.gate = nn.Linear(width, hidden, bias=False, dtype=dtype)
        self.up = nn.Linear(width, hidden, bias=False, dtype=dtype)
        self.down = nn.Linear(hidden, width, bias=False, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        variance = wide.pow(2).mean(-1, keepdim=True)
        wide = wide * torch.rsqrt(variance + EPS)
        normed = self.norm * wide.to(x.dtype)
        hidden = nn.functional.silu(self.gate(normed)) * self.up(normed)
        return x + self.down(hidden)


def reference(block: Block, x: Tensor) -> Tensor:
    """The block in float64, without any rounding."""

    def wide(tensor: Tensor) -> Tensor:
        return tensor.detach().double()

    normed = wide(x) * torch.rsqrt(wide(x).pow(2).mean(-1, keepdim=True) + EPS)
    normed *= wide(block.norm)
    hidden = nn.functional.silu(normed @ wide(block.gate.weight).T) * (
        normed @ wide(block.up.weight).T
    )
    return wide(x) + hidden @ wide(block.down.weight).T


def compile_fused(block: Block, dtype: str) -> tuple[native.Instance, float]:
    """An instance with packed weights, and seconds of compilation."""
    hidden, width = block.gate.weight.shape
    start = time.perf_counter()
    module = native.Module(
        IR.format(k=width, h=hidden, t=dtype, eps=f"{EPS:.1e}")
    )
    artifact = module.compile()
    seconds = time.perf_counter() - start
    instance = artifact.load_on(torch.device("cpu")).instance()
    for name in ("norm", "gate", "up", "down"):
        parameter = getattr(block, name)
        instance.bind(name, getattr(parameter, "weight", parameter))
    instance.prepare()
    return instance, seconds


def run_fused(instance: native.Instance, x: Tensor) -> Call:
    def call() -> Tensor:
        result = torch.empty_like(x)
        instance.launch([x], [result])
        return result

    return call


def run_compiled(block: Block, x: Tensor, frozen: bool, mode: str) -> Call:
    """A compiled call, with weights as constants or not."""
    import torch._inductor as inductor

    # All blocks share one code object, to which compiled code is attached:
    # PyTorch tells it apart by options, not by settings at the time.
    # Choices of an earlier run, made under unknown load, do not count.
    options = {
        **inductor.list_mode_options(mode),
        "freezing": frozen,
        "fx_graph_cache": False,
        "autotune_local_cache": False,
    }
    with inductor.config.patch(freezing=frozen):
        compiled = torch.compile(block, dynamic=False, options=options)
        for _ in range(3):
            compiled(x)
    return lambda: compiled(x)


def check_frozen(block: Block, call: Call, frozen: bool) -> None:
    """Checks that weights are constants of a call exactly if they should be.

    The block cannot be used afterwards.

    Raises:
        RuntimeError: they are constants and should not be, or vice versa.
    """
    before = call().clone()
    block.down.weight.zero_()
    if torch.equal(call(), before) != frozen:
        raise RuntimeError(
            "weights are constants in the code that runs, and should not be"
            if not frozen
            else "weights should be constants in the code that runs"
        )


def get_waiting() -> int:
    """Nanoseconds that threads of this process waited for a processor."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[1])
        except OSError:
            # The thread ended.
            pass
    return total


def measure(calls: dict[str, Call], seconds: float) -> dict[str, Any]:
    """Times of single calls in alternating batches, without disturbed ones."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    rejected = dict.fromkeys(calls, 0)
    end = time.perf_counter() + seconds * len(calls)
    limit = time.perf_counter() + 4 * seconds * len(calls)
    while True:
        now = time.perf_counter()
        enough = all(len(samples) >= 5 for samples in times.values())
        if now >= limit or (now >= end and enough):
            break
        for name, call in calls.items():
            # Threads of the other systems keep polling for work for a while.
            time.sleep(0.03)
            call()
            call()
            batch: list[float] = []
            waited, begin = get_waiting(), time.perf_counter()
            while time.perf_counter() - begin < BATCH or len(batch) < 2:
                start = time.perf_counter()
                call()
                batch.append(time.perf_counter() - start)
            spent = time.perf_counter() - begin
            if (get_waiting() - waited) * 1e-9 > WAITING * spent:
                rejected[name] += 1
            else:
                times[name] += batch
    return {
        name: {
            "ms": round(statistics.median(samples) * 1e3, 4),
            "ms_p10": round(sorted(samples)[len(samples) // 10] * 1e3, 4),
            "calls": len(samples),
            "batches_rejected": rejected[name],
        }
        if samples
        else {"ms": None, "batches_rejected": rejected[name]}
        for name, samples in times.items()
    }


def probe(threads: int, sizes: list[int]) -> dict[str, Any]:
    """Rates of reading and multiplying with some threads."""
    with tempfile.TemporaryDirectory() as directory:
        program = f"{directory}/probe"
        subprocess.run(
            [
                "c++",
                "-O3",
                "-funroll-loops",
                "-march=native",
                "-ffp-contract=fast",
                "-std=c++17",
                "-pthread",
                str(ROOT / "benchmarks/host/probe.cpp"),
                "-o",
                program,
            ],
            check=True,
        )
        text = subprocess.run(
            [program, str(threads), "0.5", *map(str, sizes)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    return json.loads(text)


def get_cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def run_case(
    model: str, dtype: str, tokens: list[int], seconds: float, peers: list[str]
) -> Iterator[dict[str, Any]]:
    """Rows of one model and type, without the fractions."""
    torch.manual_seed(0)
    width, hidden = MODELS[model]
    block = Block(width, hidden, DTYPES[dtype])
    instance, compile_seconds = compile_fused(block, dtype)
    for count in tokens:
        x = torch.randn(count, width).to(DTYPES[dtype])
        calls: dict[str, Call] = {"fuse": run_fused(instance, x)}
        copies: dict[str, tuple[Block, bool]] = {}
        torch._dynamo.reset()
        if "eager" in peers:
            calls["eager"] = partial(block, x)
        for name, frozen, mode in (
            ("compile", False, "default"),
            ("compile-max-autotune", False, "max-autotune"),
            # Weights are constants, so that they can be packed.
            ("compile-frozen", True, "max-autotune"),
        ):
            if name in peers:
                # Freezing discards weights, so each system needs a separate block.
                copy = Block(width, hidden, DTYPES[dtype])
                copy.load_state_dict(block.state_dict())
                calls[name] = run_compiled(copy, x, frozen, mode)
                copies[name] = copy, frozen
        exact = reference(block, x)
        scale = exact.abs().max().item()
        found = measure(calls, seconds)
        for name, call in calls.items():
            error = (call().double() - exact).abs().max().item() / scale
            yield {
                "model": model,
                "K": width,
                "H": hidden,
                "dtype": dtype,
                "M": count,
                "system": name,
                **found[name],
                "error": float(f"{error:.2e}"),
                **(
                    {"compile_s": round(compile_seconds, 2)}
                    if name == "fuse"
                    else {}
                ),
            }
        for name, (copy, frozen) in copies.items():
            check_frozen(copy, calls[name], frozen)


def add_fractions(row: dict[str, Any], ceilings: dict[str, Any]) -> None:
    if row["ms"] is None:
        return
    size = DTYPES[row["dtype"]].itemsize
    weights = 3 * row["K"] * row["H"]
    seconds = row["ms"] * 1e-3
    reading = weights * size / seconds
    flops = 2 * weights * row["M"] / seconds
    # Without bf16 instructions, products are computed in f32.
    peak = ceilings[f"{row['dtype']}_flops"] or ceilings["f32_flops"]
    row["GBps"] = round(reading / 1e9, 1)
    row["GFlops"] = round(flops / 1e9, 1)
    row["of_bandwidth"] = round(
        reading / ceilings["read_bytes"][str(weights * size)], 3
    )
    row["of_flops"] = round(flops / peak, 3)


def print_table(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'model':<11}{'type':<6}{'M':>4}  {'system':<22}{'ms':>9}"
        f"{'of read':>9}{'of flop':>9}{'/fuse':>7}  error"
    )
    ours = {
        (r["model"], r["dtype"], r["M"]): r["ms"]
        for r in rows
        if r["system"] == "fuse"
    }
    for row in rows:
        if row["ms"] is None:
            print(
                f"{row['model']:<11}{row['dtype']:<6}{row['M']:>4}  "
                f"{row['system']:<22} disturbed throughout"
            )
            continue
        own = ours.get((row["model"], row["dtype"], row["M"]))
        ratio = row["ms"] / own if own else math.nan
        print(
            f"{row['model']:<11}{row['dtype']:<6}{row['M']:>4}  "
            f"{row['system']:<22}{row['ms']:>9.3f}"
            f"{row['of_bandwidth']:>9.0%}{row['of_flops']:>9.0%}"
            f"{ratio:>7.2f}  {row['error']:.1e}"
        )


def save(
    path: Path,
    threads: int,
    ceilings: dict[str, Any],
    rows: list[dict[str, Any]],
) -> None:
    """Adds rows to a file, or replaces those of the same key. Ceilings are the
    best of all runs, and all fractions are of those."""
    data: dict[str, Any] = {"rows": []}
    if path.exists():
        data = json.loads(path.read_text())
    for key, value in data.get("ceilings", {}).items():
        if isinstance(value, dict):
            ceilings[key] = {
                size: max(rate, value.get(size, 0))
                for size, rate in ceilings[key].items()
            }
        else:
            ceilings[key] = max(ceilings[key], value)
    names = ("model", "dtype", "M", "system", "threads")
    for row in rows:
        row["threads"] = threads
    found = {tuple(row[n] for n in names): row for row in data["rows"] + rows}
    merged = sorted(
        found.values(), key=lambda row: (row["model"], row["dtype"], row["M"])
    )
    for row in merged:
        add_fractions(row, ceilings)
    data = {
        "cpu": get_cpu(),
        "ceilings": ceilings,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": read_commit(),
        "date": time.strftime("%Y-%m-%d"),
        "rows": merged,
    }
    write_json(path, data)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--models", nargs="+", default=list(MODELS), choices=list(MODELS)
    )
    parser.add_argument(
        "--dtypes", nargs="+", default=list(DTYPES), choices=list(DTYPES)
    )
    parser.add_argument("--tokens", nargs="+", type=int, default=[1, 16, 128])
    parser.add_argument(
        "--peers",
        nargs="*",
        default=["eager", "compile", "compile-max-autotune", "compile-frozen"],
    )
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0))
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="per system and row"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="JSON; rows that are not measured again stay",
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    native.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    sizes = sorted(
        {
            3 * k * h * d.itemsize
            for k, h in MODELS.values()
            for d in DTYPES.values()
        }
    )
    ceilings = probe(options.threads, sizes)
    rows = []
    for model in options.models:
        for dtype in options.dtypes:
            for row in run_case(
                model, dtype, options.tokens, options.seconds, options.peers
            ):
                add_fractions(row, ceilings)
                rows.append(row)
                print(json.dumps(row), flush=True)
    print_table(rows)
    if options.output:
        save(options.output, options.threads, ceilings, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
