# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole models on a GPU: `python -m benchmarks.e2e OUT.json [SECONDS]`.

One step of a model as wide as Qwen3-8B with 8 layers, in bf16 with drawn
weights: one token for each of B sequences without a cache, in a CUDA graph,
eager and compiled by torch.compile, with the model as it is, with fused MLP
blocks, and with MLP blocks in static FP8, all in the same process. Timings are
medians of batches of replays between two events.

Then models of several architectures: their sites are fused and held against
the unfused model, and 32 greedy tokens with a static cache, every step a
replay of a CUDA graph, have to be those of the unfused model.

OUT.json is written after every step, so that what ran is kept when SECONDS,
after which no new step starts, or the machine run out.
"""

from __future__ import annotations

import json
import os
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

from benchmarks.timing import read_device

SMALL = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
         "num_attention_heads": 4, "vocab_size": 512}
LLAMA = {**SMALL, "num_key_value_heads": 2, "head_dim": 64}
# Every layer attends to everything, so that the cache is of one kind.
FULL = {"layer_types": ["full_attention"] * 4}
VISION = {**{k: v for k, v in SMALL.items() if k != "vocab_size"},
          "image_size": 32, "patch_size": 8}
ARCHITECTURES = {
    "qwen3": LLAMA, "llama": LLAMA, "gemma3_text": {**LLAMA, **FULL},
    "gpt_neox": SMALL, "bert": SMALL, "siglip_vision_model": VISION,
    "mixtral": {**SMALL, "num_key_value_heads": 2, "num_local_experts": 8},
    "qwen3_moe": {**LLAMA, "num_experts": 16, "num_experts_per_tok": 4,
                  "moe_intermediate_size": 128}}
#: What has experts.
EXPERTS = ("mixtral", "qwen3_moe")
#: One layer in the width of a published model.
FULL_WIDTH = {
    "qwen3": {**LLAMA, "hidden_size": 4096, "intermediate_size": 12288,
              "num_attention_heads": 32, "num_key_value_heads": 8,
              "head_dim": 128, "num_hidden_layers": 1},
    "gpt_neox": {**SMALL, "hidden_size": 6144, "intermediate_size": 24576,
                 "num_attention_heads": 64, "num_hidden_layers": 1}}
WIDE = {"hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 8, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32000}
#: What has no tokens to generate.
ENCODERS = ("bert", "siglip_vision_model")
SYSTEMS = ("unfused", "bf16", "fp8")


def build(kind: str, settings: dict[str, int]) -> torch.nn.Module:
    """A model on the GPU with drawn weights."""
    config = transformers.AutoConfig.for_model(kind, **settings)
    auto = transformers.AutoModel if kind in ENCODERS \
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


def draw(model: torch.nn.Module) -> torch.nn.Module:
    """Weights whose logits have a peak, as those of trained models do.

    Otherwise the largest two of a few hundred logits are often one number in
    bf16, and the next token depends on the order of a sum.
    """
    from fuse_mlir.blocks import seed_weights

    model = seed_weights(model, seed=0)
    head = model.get_output_embeddings() \
        if hasattr(model, "get_output_embeddings") else None
    if head is not None:
        sizes = torch.Generator().manual_seed(1)
        scale = torch.randn(head.weight.shape[0], 1, generator=sizes).exp()
        head.weight.mul_(scale.to(head.weight))
    return model


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


def architecture(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Fuses, verifies and undoes; generates with and without."""
    from fuse_mlir.flow import default_inputs

    model = draw(build(kind, settings))
    inputs = default_inputs(model)
    row: dict[str, Any] = {"architecture": kind, "settings": settings}
    with torch.no_grad():
        before = model(**inputs)[0]
        if kind not in ENCODERS:
            tokens, margins = greedy(model)
        sites = fuse_mlir.fuse_modules(model)
        checks = fuse_mlir.verify(model)
        row |= {"sites": len(sites.fused), "passed": bool(checks),
                "refused": [s.reason for s in sites.refused],
                "failed": [vars(c) for c in checks.checks if not c.passed]}
        if kind not in ENCODERS:
            row["tokens"], _ = greedy(model)
            row["tokens_equal"] = row["tokens"] == tokens
            # How near the second token was, where they part or at worst.
            parted = [m for ours, theirs, m in
                      zip(row["tokens"], tokens, margins) if ours != theirs]
            row["margin"] = parted[0] if parted else min(margins)
        fuse_mlir.unfuse_modules(model)
        row["unfused_identical"] = torch.equal(model(**inputs)[0], before)
    return row


def slotted(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Experts as slots that are bound to the kernel, and undone."""
    from fuse_mlir import expert_slots, slots
    from fuse_mlir.flow import default_inputs

    model = draw(build(kind, settings))
    inputs = default_inputs(model)
    with torch.no_grad():
        before = model(**inputs)[0]
        theirs, margins = greedy(model)
        paths = expert_slots.add_expert_slots(model)
        slots.bind(model, {"bind": {"moe_experts": "fuse"}}, slots.Context())
        ours, _ = greedy(model)
        expert_slots.remove_expert_slots(model)
        again = torch.equal(model(**inputs)[0], before)
    return {"architecture": kind, "settings": settings, "slots": len(paths),
            "tokens": ours, "tokens_equal": ours == theirs,
            "margin": min(margins), "removed_identical": again}


def greedy(model: torch.nn.Module, count: int = 32) \
        -> tuple[list[int], list[float]]:
    """Greedy tokens with a static cache, each but the first one a replay.

    Returns:
        The tokens, and how much larger each logit is than the next.
    """
    prompt = torch.arange(1, 10, device="cuda").view(1, 9)
    cache = transformers.StaticCache(config=model.config, max_cache_len=64)
    token = torch.zeros(1, 1, dtype=torch.long, device="cuda")

    tokens: list[int] = []
    margins: list[float] = []

    def step() -> torch.Tensor:
        return model(input_ids=token, past_key_values=cache,
                     use_cache=True).logits[:, -1]

    def take(logits: torch.Tensor) -> None:
        best = logits.float().topk(2)
        token.copy_(best.indices[:, :1])
        tokens.append(int(token))
        margins.append(float(best.values[0, 0] - best.values[0, 1]))

    def prefill() -> torch.Tensor:
        return model(input_ids=prompt, past_key_values=cache,
                     use_cache=True).logits[:, -1]

    prefill()
    graph, result = capture(step)
    cache.reset()
    take(prefill())
    for _ in range(count - 1):
        graph.replay()
        take(result)
    return tokens, margins


def generated(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """`generate` with a static cache, which transformers compiles."""
    model = draw(build(kind, settings))
    prompt = torch.arange(1, 10, device="cuda").view(1, 9)

    def tokens() -> list[int]:
        torch._dynamo.reset()
        return model.generate(prompt, max_new_tokens=32, do_sample=False,
                              cache_implementation="static",
                              pad_token_id=0)[0, 9:].tolist()

    with torch.no_grad():
        theirs = tokens()
        fuse_mlir.fuse_modules(model)
        # Makes the kernels for one row, which a compiled call can not.
        model(prompt[:, :1])
        ours = tokens()
    return {"architecture": kind, "settings": settings, "generate": ours,
            "tokens_equal": ours == theirs}


class Wide:
    """The wide model, as one system after the other."""

    def __init__(self) -> None:
        self.model = build("qwen3", WIDE)
        self.reference: dict[int, torch.Tensor] = {}

    def become(self, system: str) -> dict[str, Any]:
        """Fuses as the system asks for."""
        from fuse_mlir.modules import fused_sites

        if fused_sites(self.model):
            fuse_mlir.unfuse_modules(self.model)
        start = time.monotonic()
        sites: Any = []
        if system == "bf16":
            sites = fuse_mlir.fuse_modules(self.model).fused
        elif system == "fp8":
            generator = torch.Generator("cuda").manual_seed(1)
            data = [{"input_ids": torch.randint(
                0, WIDE["vocab_size"], (4, 16), device="cuda",
                generator=generator), "use_cache": False} for _ in range(2)]
            sites = fuse_mlir.calibrate(self.model, data).fused
        return {"system": system, "sites": len(sites),
                "seconds_to_fuse": time.monotonic() - start}

    def step(self, system: str, sequences: int, compiled: bool,
             residual: bool = False) -> dict[str, Any]:
        """One timed configuration of the present system."""
        ids = (torch.arange(sequences, device="cuda") * 37 + 5).view(-1, 1)
        row: dict[str, Any] = {"sequences": sequences, "system": system,
                               "compiled": compiled, "residual": residual}
        torch._dynamo.reset()

        def call() -> torch.Tensor:
            return self.model(input_ids=ids, use_cache=False).logits

        with torch.no_grad():
            # Builds what a compiled call must not.
            call()
            start = time.monotonic()
            step = call
            if compiled:
                options = fuse_mlir.inductor_options(self.model) \
                    if residual else None
                step = torch.compile(call, fullgraph=True, dynamic=False,
                                     options=options)
            graph, logits = capture(step)
            row["seconds_to_capture"] = time.monotonic() - start
            row["microseconds"] = microseconds(graph)
            logits = logits.double()
        reference = self.reference.setdefault(sequences, logits)
        row["cosine"] = float(torch.nn.functional.cosine_similarity(
            logits.flatten(), reference.flatten(), 0))
        row["top_tokens"] = logits[:, -1].argmax(-1).tolist()
        return row


def main(path: str, seconds: float = 600.0) -> int:
    """Runs everything; the status is 1 when a step failed."""
    start, failed = time.monotonic(), False
    properties = torch.cuda.get_device_properties(0)
    report: dict[str, Any] = {
        "device": properties.name, "state": read_device(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "commit": os.environ.get("FUSE_COMMIT", ""), "model": WIDE,
        "systems": [], "steps": [], "architectures": []}

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
               if k not in ("tokens", "generate", "settings", "top_tokens")}
        print(f"{time.monotonic() - start:6.1f}s {row}", flush=True)
        Path(path).write_text(json.dumps(report, indent=1) + "\n")

    wide = Wide()

    def measure(system: str, residual: bool, compiled: bool) -> None:
        for sequences in (1, 16):
            attempt(f"{system} B={sequences}", "steps",
                    lambda: wide.step(system, sequences, compiled, residual))

    for system in SYSTEMS:
        attempt(system, "systems", lambda: wide.become(system))
        measure(system, system != "unfused", compiled=True)
        measure(system, False, compiled=False)
    for kind, settings in ARCHITECTURES.items():
        attempt(kind, "architectures", lambda: architecture(kind, settings))
        if kind in EXPERTS:
            attempt(kind, "architectures", lambda: slotted(kind, settings))
    for kind, settings in FULL_WIDTH.items():
        attempt(kind, "architectures", lambda: architecture(kind, settings))
    # The same without the adds in the kernel.
    measure("fp8", False, compiled=True)
    attempt("bf16", "systems", lambda: wide.become("bf16"))
    measure("bf16", False, compiled=True)
    del wide
    torch.cuda.empty_cache()
    for kind in ("qwen3", "llama", "gpt_neox", "gemma3_text"):
        settings = {**ARCHITECTURES[kind], "num_hidden_layers": 1}
        if "layer_types" in settings:
            settings["layer_types"] = settings["layer_types"][:1]
        attempt(kind, "architectures", lambda: generated(kind, settings))
    report["state_after"] = read_device()
    Path(path).write_text(json.dumps(report, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(float, sys.argv[2:3])))
