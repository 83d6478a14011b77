# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts on a GPU: `python3 -m fuse_bench.suites.moe OUT.json`.

Experts in the sizes of Qwen3-30B-A3B, Mixtral-8x7B, OLMoE-1B-7B and
Phi-3.5-MoE, in bf16 with drawn weights, for tokens that choose experts at
random: fused as a user has them (`fused`), the kernel for any number of tokens
(`kernel`), and what transformers has, grouped and batched products, the former
and the fused experts under torch.compile too. For the last two, tokens are
those up to which fused experts run the kernel, and twice as many. Systems
of a row run the same calls, each with other tokens and experts, in one CUDA
graph; a time is that of a call, the median of replays. `error` is the largest
difference to double precision by the largest result.

OUT.json is written after every row; no row starts after SECONDS.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn import functional as F
from transformers import MixtralConfig
from transformers.integrations import moe
from transformers.models.mixtral.modeling_mixtral import MixtralExperts

import fuse_mlir

from ..common.device import read_device
from ..common.environment import (
    read_commit,
    require_gpu,
    run_models,
    write_json,
)
from ..common.timing import capture, replay_us

#: Features, hidden features, experts, experts of a token.
SHAPES = {
    "qwen3_moe": (2048, 768, 128, 8),
    "mixtral": (4096, 14336, 8, 2),
    "olmoe": (2048, 1024, 64, 8),
    "phimoe": (4096, 6400, 16, 2),
}
ALL = (1, 2, 4, 8, 16, 32, 64)
TOKENS = {"qwen3_moe": ALL, "mixtral": ALL, "olmoe": (8, 16), "phimoe": (8, 16)}
COMPILED = {
    "qwen3_moe": (1, 8, 16),
    "mixtral": (1, 8, 16),
    "olmoe": (8,),
    "phimoe": (8,),
}
#: Calls in a graph.
CALLS = 8
Call = Callable[..., torch.Tensor]


class Layer(nn.Module):
    """Experts without their router."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        features, hidden, experts, chosen = SHAPES[kind]
        # All of these models write their experts alike.
        config = MixtralConfig(
            hidden_size=features,
            intermediate_size=hidden,
            num_local_experts=experts,
            num_experts_per_tok=chosen,
        )
        config._experts_implementation = "grouped_mm"
        with torch.device("cuda"):
            self.experts = MixtralExperts(config).bfloat16()
        source = torch.Generator("cuda").manual_seed(0)
        for weight in self.experts.parameters():
            weight.requires_grad_(False)
            for matrix in weight:
                matrix.normal_(0, weight.shape[-1] ** -0.5, generator=source)

    def forward(
        self, x: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        return self.experts(x, index, weights)


def draw(kind: str, tokens: int) -> list[tuple[torch.Tensor, ...]]:
    """Inputs of the calls of a graph."""
    features, _, experts, chosen = SHAPES[kind]
    source = torch.Generator("cuda").manual_seed(tokens)
    made: list[tuple[torch.Tensor, ...]] = []
    for _ in range(CALLS):
        scores, index = torch.rand(
            tokens, experts, device="cuda", generator=source
        ).topk(chosen)
        x = torch.randn(tokens, features, device="cuda", generator=source)
        made.append(
            (
                x.bfloat16(),
                index,
                (scores / scores.sum(-1, keepdim=True)).bfloat16(),
            )
        )
    return made


def reference(
    layer: Layer, x: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """The result in double precision."""
    result = torch.zeros_like(x, dtype=torch.float64)
    for number, first in enumerate(layer.experts.gate_up_proj):
        token, choice = torch.where(index == number)
        if not len(token):
            continue
        gate, up = F.linear(x[token].double(), first.double()).chunk(2, -1)
        each = F.linear(
            F.silu(gate) * up, layer.experts.down_proj[number].double()
        )
        result.index_add_(
            0, token, each * weights[token, choice, None].double()
        )
    return result


def microseconds(call: Call, inputs: Sequence[tuple]) -> float:
    """Median time of a call in a graph of one call for each input."""
    graph = capture(lambda: [call(*values) for values in inputs])
    return round(replay_us(graph) / len(inputs), 1)


def systems(layer: Layer, kind: str, tokens: int) -> dict[str, Call]:
    """The systems of a row, by name."""
    module: Any = layer.experts
    # The members of a fused site are modules of transformers.
    own = module.members[0]
    kernel = module._kernel

    def grouped(*inputs: torch.Tensor) -> torch.Tensor:
        return moe.grouped_mm_experts_forward(own, *inputs)

    def batched(*inputs: torch.Tensor) -> torch.Tensor:
        return moe.batched_mm_experts_forward(own, *inputs)

    found: dict[str, Call] = {
        "fused": layer,
        "kernel": lambda *inputs: kernel.run(inputs, kernel.weights()),
        "grouped_mm": grouped,
    }
    # These copy the weights for each token.
    if tokens <= 16:
        found["batched_mm"] = batched
    if tokens in COMPILED[kind]:
        torch._dynamo.reset()
        for name, call in (("grouped_mm", grouped), ("fused", layer)):
            found[f"compiled {name}"] = torch.compile(
                call, fullgraph=True, dynamic=False
            )
    return found


def main(path: str, seconds: float = 120.0, only: str = "") -> int:
    """Measures all rows; the status is 1 when a result is wrong."""
    require_gpu()
    start, wrong = time.monotonic(), False
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "state": read_device(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "commit": read_commit(),
        "rows": [],
    }
    for kind, (features, hidden, _, _) in SHAPES.items():
        if only and kind not in only.split(","):
            continue
        layer = Layer(kind).eval()
        fuse_mlir.fuse_modules(
            layer, inputs=draw(kind, 1)[0], only_faster=False
        )
        for tokens in TOKENS[kind]:
            inputs = draw(kind, tokens)
            expected = reference(layer, *inputs[0])
            active = inputs[0][1].unique().numel()
            for name, call in systems(layer, kind, tokens).items():
                if time.monotonic() - start > seconds:
                    return int(wrong)
                error = (call(*inputs[0]) - expected).abs().max()
                row = {
                    "experts": kind,
                    "tokens": tokens,
                    "system": name,
                    "active": active,
                    "weight_bytes": active * 6 * features * hidden,
                    "error": float(error / expected.abs().max()),
                    "microseconds": microseconds(call, inputs),
                }
                wrong |= row["error"] > 0.02
                report["rows"].append(row)
                print(f"{time.monotonic() - start:6.1f}s {row}", flush=True)
                write_json(Path(path), report)
        del layer
        torch.cuda.empty_cache()
    report["state_after"] = read_device()
    write_json(Path(path), report)
    return int(wrong)


if __name__ == "__main__":
    with torch.no_grad():
        sys.exit(run_models(main, __doc__, "kinds of experts"))
