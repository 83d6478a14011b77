# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks whether models that are fused by default get slower on a GPU.

Models have the widths of published ones, one layer and drawn weights. Each is
called with several numbers of rows, as Python calls it and in a captured CUDA
graph, unfused and fused by `fuse_modules(model)`, in turns. Losses of more
than 3 % are listed, and the status is 1 where there are any.

    python3 -m fuse_bench.suites.faster_gpu \\
        --output out/results/faster-gpu-h100.json
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import fuse_mlir
from fuse_mlir.fusion.modules import fused_sites, members_back

from ..common.environment import read_commit, write_json
from .models_cpu import CASES, ROWS, build

#: Calls between two synchronizations, and rounds of them.
CALLS, ROUNDS = 10, 8


def seconds(call: Callable[[], object], device: torch.device) -> float:
    """Time per call, over several calls with one wait at the end."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    wait()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    wait()
    return (time.perf_counter() - start) / CALLS


def captured(call: Callable[[], object]) -> Callable[[], object]:
    """Replays of a graph of the call."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def measure(case: str, device: torch.device, rounds: int) -> dict[str, Any]:
    """Milliseconds of a case, unfused and fused."""
    model: Any = build(case)
    model.to(device)
    options = {} if model.config.model_type == "bert" else {"use_cache": False}
    row: dict[str, Any] = {"case": case}
    begin = time.perf_counter()
    try:
        found = fuse_mlir.fuse_modules(model)
    except fuse_mlir.FuseError as error:
        return {**row, "error": str(error)}
    row["fuse_seconds"] = round(time.perf_counter() - begin, 2)
    row["sites"] = [[s.status, s.id, s.reason or s.note] for s in found]
    row["tables"] = [
        str(module.verdict) for _, module in fused_sites(model)[:1]
    ]
    for rows in ROWS:
        ids = (torch.arange(rows, device=device) * 37 % 999 + 1).view(1, rows)

        def call() -> object:
            return model(ids, **options)

        ways: dict[str, list[Callable[[], object]]] = {"eager": [call, call]}
        call()
        if device.type == "cuda":
            try:
                with members_back(model):
                    unfused = captured(call)
                ways["graph"] = [unfused, captured(call)]
            except RuntimeError as error:
                row[f"no graph of {rows}"] = str(error).split("\n")[0]
                torch.cuda.synchronize()
        for way, (theirs, ours) in ways.items():
            best = [float("inf")] * 2
            for _ in range(rounds):
                with members_back(model):
                    best[0] = min(best[0], seconds(theirs, device))
                best[1] = min(best[1], seconds(ours, device))
            row[f"{way} {rows}"] = [1e3 * t for t in best]
    fuse_mlir.unfuse_modules(model)
    return row


def losses(rows: list[dict[str, Any]]) -> list[str]:
    """Times of fused models that are more than 3 % longer."""
    return [
        f"{row['case']}, {way} rows: {times[0]:.4g} -> {times[1]:.4g} ms"
        for row in rows
        for way, times in row.items()
        if way.startswith(("eager ", "graph ")) and times[1] > 1.03 * times[0]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--seconds",
        type=float,
        default=300.0,
        help="seconds after which no case starts (default: 300)",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--cases", nargs="+", default=list(CASES), choices=CASES, metavar="NAME"
    )
    options = parser.parse_args()
    device = torch.device(options.device)
    start, rows = time.monotonic(), []
    with torch.no_grad():
        for case in options.cases:
            if time.monotonic() - start > options.seconds:
                print("no time was left for", case)
                continue
            rows.append(measure(case, device, options.rounds))
            print(f"{time.monotonic() - start:6.1f} s {rows[-1]}", flush=True)
            if device.type == "cuda":
                torch.cuda.empty_cache()
            if options.output:
                write_json(
                    options.output,
                    {
                        "commit": read_commit(),
                        "torch": torch.__version__,
                        "device": torch.cuda.get_device_name()
                        if device.type == "cuda"
                        else "cpu",
                        "unit": "ms: unfused, fused",
                        "rows": rows,
                    },
                )
    slower = losses(rows)
    print("slower by more than 3 %:\n" + ("\n".join(slower) or "none"))
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
