# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole models on a GPU: `python -m benchmarks.e2e OUT.json [SECONDS]`.

First small models of several architectures: their sites are fused and held
against the unfused model, and a captured decode step gives the same tokens.
Then one step of a model as wide as Qwen3-8B with 8 layers, in bf16 with drawn
weights: one token for each of B sequences without a cache, in a CUDA graph,
eager and compiled by torch.compile, with and without fused MLP blocks, in the
same process. Timings are medians of batches of replays between two events.

OUT.json is written after every step, so that what ran is kept when SECONDS,
after which no new step starts, or the machine run out.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

import fuse_mlir

SMALL = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
         "num_attention_heads": 4, "vocab_size": 512}
LLAMA = {**SMALL, "num_key_value_heads": 2, "head_dim": 64}
ARCHITECTURES = {"qwen3": LLAMA, "llama": LLAMA, "gemma3_text": LLAMA,
                 "gpt_neox": SMALL, "bert": SMALL}
WIDE = {"hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 8, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32000}


def build(kind: str, settings: dict[str, int]) -> torch.nn.Module:
    """A model on the GPU with drawn weights."""
    config = transformers.AutoConfig.for_model(kind, **settings)
    auto = transformers.AutoModel if kind == "bert" \
        else transformers.AutoModelForCausalLM
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        torch.manual_seed(0)
        with torch.device("cuda"):
            model = auto.from_config(config)
    finally:
        torch.set_default_dtype(before)
    return model.eval().requires_grad_(False)


def capture(step: Callable[[], torch.Tensor]) \
        -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """A graph of `step` after warming up, and where its result is."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph, result


def microseconds(graph: torch.cuda.CUDAGraph, batches: int = 20,
                 replays: int = 10) -> float:
    """Median time of a replay."""
    graph.replay()
    times = []
    for _ in range(batches):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * start.elapsed_time(end) / replays)
    return statistics.median(times)


def architecture(kind: str, settings: dict[str, int]) -> dict[str, Any]:
    """Fuses, verifies and undoes; a decode loop under a graph as well."""
    model = build(kind, settings)
    ids = torch.arange(1, 13, device="cuda").view(2, 6)
    with torch.no_grad():
        before = model(ids)[0]
        sites = fuse_mlir.fuse_modules(model)
        checks = fuse_mlir.verify(model)
        row = {"architecture": kind, "sites": len(sites.fused),
               "refused": [s.reason for s in sites.refused],
               "checks": [vars(c) for c in checks.checks],
               "passed": bool(checks)}
        if kind != "bert":
            row["tokens_fused"] = greedy(model)
        fuse_mlir.unfuse_modules(model)
        row["unfused_identical"] = torch.equal(model(ids)[0], before)
        if kind != "bert":
            row["tokens"] = greedy(model)
            row["tokens_equal"] = row["tokens"] == row["tokens_fused"]
    return row


def greedy(model: torch.nn.Module, count: int = 32) -> list[int]:
    """Greedy tokens of a window of fixed length, each step one replay."""
    window = torch.arange(1, 17, device="cuda").view(1, 16)
    graph, logits = capture(
        lambda: model(input_ids=window, use_cache=False).logits)
    tokens = []
    for _ in range(count):
        graph.replay()
        token = logits[:, -1:].argmax(-1)
        tokens.append(int(token))
        window.copy_(torch.cat([window[:, 1:], token], 1))
    return tokens


def wide(sequences: int, compiled: bool, fused: bool,
         model: torch.nn.Module) -> dict[str, Any]:
    """One timed configuration."""
    ids = (torch.arange(sequences, device="cuda") * 37 + 5).view(-1, 1)
    torch._dynamo.reset()
    row: dict[str, Any] = {"sequences": sequences, "compiled": compiled,
                           "fused": fused}
    with torch.no_grad():
        if fused:
            row["sites"] = len(fuse_mlir.fuse_modules(model).fused)
        try:
            def call() -> torch.Tensor:
                return model(input_ids=ids, use_cache=False).logits

            # Builds what a compiled call must not.
            call()
            step = torch.compile(call, fullgraph=fused, dynamic=False) \
                if compiled else call
            graph, logits = capture(step)
            row["microseconds"] = microseconds(graph)
            row["top_tokens"] = logits[:, -1].argmax(-1).tolist()
        finally:
            if fused:
                fuse_mlir.unfuse_modules(model)
    return row


def main(path: str, seconds: float = 600.0) -> int:
    """Runs everything; the status is 1 when a step failed."""
    start, failed = time.monotonic(), False
    properties = torch.cuda.get_device_properties(0)
    report: dict[str, Any] = {
        "device": properties.name, "torch": torch.__version__,
        "transformers": transformers.__version__, "model": WIDE,
        "architectures": [], "steps": []}

    def attempt(name: str, where: str, step: Callable[[], dict]) -> None:
        nonlocal failed
        if time.monotonic() - start > seconds:
            report[where].append({"name": name, "skipped": "out of time"})
        else:
            try:
                report[where].append(step())
            # One failed step must not hide the others.
            except Exception as error:
                traceback.print_exc()
                failed = True
                report[where].append({"name": name, "error": str(error)})
        row = {k: v for k, v in report[where][-1].items()
               if k not in ("checks", "tokens", "tokens_fused")}
        print(f"{time.monotonic() - start:6.1f}s {row}", flush=True)
        Path(path).write_text(json.dumps(report, indent=1) + "\n")

    for kind in ("qwen3", "gpt_neox"):
        attempt(kind, "architectures",
                lambda: architecture(kind, ARCHITECTURES[kind]))
    model = build("qwen3", WIDE)
    for compiled in (False, True):
        for sequences in (1, 16):
            for fused in (False, True):
                attempt(f"B={sequences}", "steps",
                        lambda: wide(sequences, compiled, fused, model))
    del model
    for kind in ("llama", "gemma3_text", "bert"):
        attempt(kind, "architectures",
                lambda: architecture(kind, ARCHITECTURES[kind]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(float, sys.argv[2:3])))
