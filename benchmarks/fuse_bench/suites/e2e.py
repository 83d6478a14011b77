# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole models on a GPU: `python -m fuse_bench.suites.e2e OUT.json [SECONDS]`.

One step of a model as wide as Qwen3-8B with 8 layers, in bf16 with drawn
weights: one token for each of B sequences without a cache, in a CUDA graph,
eager and compiled by torch.compile, with the model as it is, with fused MLP
blocks, and with MLP blocks in static FP8, all in the same process. Timings are
medians of batches of replays between two events. `architectures.py` says
whether models stay right.

OUT.json is written after every step, so that what ran is kept when SECONDS,
after which no new step starts, or the machine run out.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

import fuse_mlir

from ..common.device import read_device
from ..common.environment import (
    read_commit,
    require_gpu,
    run_models,
    write_json,
)
from ..common.timing import replay_us
from .architectures import Replay, build

WIDE = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 8,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 32000,
}
SYSTEMS = ("unfused", "fp8", "bf16")


class Wide:
    """The wide model, which becomes each of the systems in turn."""

    def __init__(self) -> None:
        self.model = build("qwen3", WIDE)
        self.reference: dict[int, torch.Tensor] = {}

    def become(self, system: str) -> dict[str, Any]:
        """Fuses the model as the system requires."""
        from fuse_mlir.fusion.modules import fused_sites

        if fused_sites(self.model):
            fuse_mlir.unfuse_modules(self.model)
        start = time.monotonic()
        sites: Any = []
        if system == "bf16":
            sites = fuse_mlir.fuse_modules(self.model, only_faster=False).fused
        elif system == "fp8":
            generator = torch.Generator("cuda").manual_seed(1)
            data = [
                {
                    "input_ids": torch.randint(
                        0,
                        WIDE["vocab_size"],
                        (4, 16),
                        device="cuda",
                        generator=generator,
                    ),
                    "use_cache": False,
                }
                for _ in range(2)
            ]
            sites = fuse_mlir.calibrate(self.model, data).fused
        return {
            "system": system,
            "sites": len(sites),
            "seconds_to_fuse": time.monotonic() - start,
        }

    def step(
        self,
        system: str,
        sequences: int,
        compiled: bool,
        residual: bool = False,
    ) -> dict[str, Any]:
        """One timed configuration of the present system."""
        ids = (torch.arange(sequences, device="cuda") * 37 + 5).view(-1, 1)
        row: dict[str, Any] = {
            "sequences": sequences,
            "system": system,
            "compiled": compiled,
            "residual": residual,
        }
        torch._dynamo.reset()

        def call() -> torch.Tensor:
            return self.model(input_ids=ids, use_cache=False).logits

        with torch.no_grad():
            # Build the kernels now: a compiled call must not build any.
            call()
            start = time.monotonic()
            step = call
            if compiled:
                options = (
                    fuse_mlir.inductor_options(self.model) if residual else None
                )
                step = torch.compile(
                    call, fullgraph=True, dynamic=False, options=options
                )
            graph = Replay(step)
            if graph.graph is None:
                raise RuntimeError("steps are timed on a GPU only")
            row["seconds_to_capture"] = time.monotonic() - start
            row["microseconds"] = replay_us(graph.graph, replays=10)
            logits = graph.result.double()
        reference = self.reference.setdefault(sequences, logits)
        row["cosine"] = float(
            torch.nn.functional.cosine_similarity(
                logits.flatten(), reference.flatten(), 0
            )
        )
        row["top_tokens"] = logits[:, -1].argmax(-1).tolist()
        return row


def main(path: str, seconds: float = 600.0) -> int:
    """Runs everything; the status is 1 when a step failed."""
    require_gpu()
    start, failed = time.monotonic(), False
    properties = torch.cuda.get_device_properties(0)
    report: dict[str, Any] = {
        "device": properties.name,
        "state": read_device(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "commit": read_commit(),
        "model": WIDE,
        "systems": [],
        "steps": [],
    }

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
        row = {k: v for k, v in report[where][-1].items() if k != "top_tokens"}
        print(f"{time.monotonic() - start:6.1f}s {row}", flush=True)
        write_json(Path(path), report)

    wide = Wide()

    def measure(system: str, residual: bool, compiled: bool) -> None:
        for sequences in (1, 16):
            attempt(
                f"{system} B={sequences}",
                "steps",
                lambda: wide.step(system, sequences, compiled, residual),
            )

    for system in SYSTEMS:
        attempt(system, "systems", lambda: wide.become(system))
        for compiled in (False, True):
            measure(system, compiled and system != "unfused", compiled)
    # The same without the adds in the kernel.
    measure("bf16", False, compiled=True)
    report["state_after"] = read_device()
    write_json(Path(path), report)
    return int(failed)


if __name__ == "__main__":
    sys.exit(run_models(main, __doc__))
