# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks models on a GPU:
`python -m fuse_bench.suites.architectures OUT.json [SECONDS]`.

The models are small ones of several architectures, and layers in the width of
published models, in bf16 with drawn weights. Their sites are fused, verified
(V0, V2, V3) and unfused. 32 greedy tokens with a static cache must be equal to
those of the unfused model; each step is a replay of a CUDA graph. The same is
checked with experts as slots, with MLPs in static FP8, and by `generate`, which
compiles the step. Tokens in static FP8 (`calibrate`) must only be equal in a
second run.

If the hidden state differs in its last bits, a router may select another
expert, and the model continues from another state. `routing` lists these cases
while both models read the same tokens: the margin of the last selected expert,
and the difference of the router's logits. Tokens may differ only after a step
with such a small margin.

Without a GPU, each replay is a call, which tests this file and not the kernels.
OUT.json is written after each step; no step starts after SECONDS.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias

import torch
import transformers
from torch import nn

import fuse_mlir

from ..common.device import read_device
from ..common.environment import read_commit, run_models, write_json
from ..common.timing import capture

Model: TypeAlias = transformers.PreTrainedModel
P = ParamSpec("P")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 512,
}
LLAMA = {**SMALL, "num_key_value_heads": 2, "head_dim": 64}
PAD = {"pad_token_id": 0}
GROUPED = {**SMALL, **PAD, "num_key_value_heads": 2}
# Full attention in every layer, so that all layers use one kind of cache.
FULL = {"layer_types": ["full_attention"] * 4}
VISION = {
    **{k: v for k, v in SMALL.items() if k != "vocab_size"},
    "image_size": 32,
    "patch_size": 8,
}
#: Model type, settings and sites with an MLP.
NAMED: dict[str, tuple[dict[str, Any], int]] = {
    "qwen3": (LLAMA, 4),
    "llama": (LLAMA, 4),
    "gemma3_text": ({**LLAMA, **FULL}, 4),
    "gpt_neox": (SMALL, 4),
    "bert": (SMALL, 4),
    "siglip_vision_model": (VISION, 5),
    "mixtral": ({**SMALL, "num_key_value_heads": 2, "num_local_experts": 8}, 4),
    "qwen3_moe": (
        {
            **LLAMA,
            "num_experts": 16,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 128,
        },
        4,
    ),
}
OTHERS: dict[str, tuple[dict[str, Any], int]] = {
    "mistral": (LLAMA, 4),
    "qwen2": ({**GROUPED, **FULL}, 4),
    "gemma2": ({**LLAMA, **FULL}, 4),
    "phi3": (GROUPED, 4),
    "olmo2": (GROUPED, 4),
    "granite": (GROUPED, 4),
    "cohere": (GROUPED, 4),
    "stablelm": (GROUPED, 4),
    "starcoder2": (GROUPED, 4),
    "nemotron": (GROUPED, 4),
    "glm4": ({**LLAMA, **PAD}, 4),
    "smollm3": (GROUPED, 4),
    "falcon": (SMALL, 4),
    "gpt_bigcode": (
        {"n_embd": 256, "n_layer": 4, "n_head": 4, "vocab_size": 512},
        4,
    ),
    "opt": ({**SMALL, "ffn_dim": 512, "word_embed_proj_dim": 256}, 4),
    "vit": (VISION, 4),
}
#: One layer in the width of a published model.
FULL_WIDTH: dict[str, tuple[dict[str, Any], int]] = {
    "qwen3": (
        {
            **LLAMA,
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "num_hidden_layers": 1,
        },
        1,
    ),
    "gpt_neox": (
        {
            **SMALL,
            "hidden_size": 6144,
            "intermediate_size": 24576,
            "num_attention_heads": 64,
            "num_hidden_layers": 1,
        },
        1,
    ),
}
#: Models with experts, models compiled by `generate`, and those with static
#: scales.
EXPERTS = ("mixtral", "qwen3_moe")
GENERATED = ("qwen3", "llama", "gpt_neox", "gemma3_text")
STATIC = ("qwen3", "gemma3_text", "gpt_neox")
#: Models that generate no tokens, or that copy from the host in each step,
#: which a graph cannot contain.
ENCODERS = ("bert", "siglip_vision_model", "vit")
UNCAPTURED = ("falcon", "opt")
PROMPT, COUNT = 9, 32
#: Minimum lead of the best token relative to its logit: two bf16 steps.
AHEAD = 1 / 64


def build(kind: str, settings: dict[str, Any]) -> Model:
    """A model in bf16 as its class initializes it."""
    config = transformers.AutoConfig.for_model(kind, **settings)
    auto = (
        transformers.AutoModel
        if kind in ENCODERS
        else transformers.AutoModelForCausalLM
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        torch.manual_seed(0)
        with torch.device(DEVICE):
            model = auto.from_config(config)
    finally:
        torch.set_default_dtype(before)
    return model.eval().requires_grad_(False)


def draw(model: Model) -> Model:
    """Weights whose logits have a peak, as those of trained models do.

    Otherwise the largest two of a few hundred logits are often one number in
    bf16, and the next token depends on the order of a sum.
    """
    from fuse_mlir.checkpoint.models import seed_weights

    model = seed_weights(model, seed=0)
    draw_head(model, 1)
    return model


def draw_head(model: Model, seed: int) -> None:
    """Scales each row of the head differently."""
    head = (
        model.get_output_embeddings()
        if hasattr(model, "get_output_embeddings")
        else None
    )
    if head is None:
        return
    if not hasattr(head, "drawn"):
        head.drawn = head.weight.clone()
    sizes = torch.Generator().manual_seed(seed)
    scale = torch.randn(head.weight.shape[0], 1, generator=sizes).exp()
    head.weight.copy_(head.drawn * scale.to(head.weight))


class Replay:
    """A warmed-up step captured in a CUDA graph, and its result tensor."""

    def __init__(self, step: Callable[[], torch.Tensor]) -> None:
        self._step = step
        self.result = torch.empty(0)
        #: None if every replay is a plain call.
        self.graph = None if DEVICE == "cpu" else capture(self._run)

    def _run(self) -> None:
        self.result = self._step()

    def replay(self) -> None:
        """Runs the step again on the current contents of its tensors."""
        if self.graph is None:
            self._run()
        else:
            self.graph.replay()


def greedy(model: Model) -> tuple[list[int], list[float]]:
    """Greedy tokens with a static cache; all but the first are replays.

    Returns:
        The tokens, and for each the lead of its logit over the runner-up,
        relative to the largest logit.
    """
    prompt = torch.arange(1, PROMPT + 1, device=DEVICE).view(1, PROMPT)
    cache = transformers.StaticCache(config=model.config, max_cache_len=64)
    token = torch.zeros(1, 1, dtype=torch.long, device=DEVICE)
    place = torch.full((1, 1), PROMPT, dtype=torch.long, device=DEVICE)

    tokens: list[int] = []
    margins: list[float] = []

    def step() -> torch.Tensor:
        return model(
            input_ids=token,
            past_key_values=cache,
            position_ids=place,
            use_cache=True,
        ).logits[:, -1]

    def take(logits: torch.Tensor) -> None:
        best = logits.float().topk(2)
        token.copy_(best.indices[:, :1])
        tokens.append(int(token))
        margins.append(
            float(
                (best.values[0, 0] - best.values[0, 1])
                / best.values.abs().max()
            )
        )

    def prefill() -> torch.Tensor:
        return model(
            input_ids=prompt, past_key_values=cache, use_cache=True
        ).logits[:, -1]

    prefill()
    graph = Replay(step)
    cache.reset()
    take(prefill())
    for number in range(COUNT - 1):
        place.fill_(PROMPT + number)
        graph.replay()
        take(graph.result)
    return tokens, margins


def forced(model: Model, tokens: list[int]) -> list[list[torch.Tensor]]:
    """Logits of the routers for the last token, by step and layer, when the
    model reads the prompt and then `tokens`."""
    found: list[list[torch.Tensor]] = []

    def remember(
        _module: nn.Module,
        _args: object,
        output: torch.Tensor | tuple[torch.Tensor, ...],
    ) -> None:
        logits = output[0] if isinstance(output, tuple) else output
        found[-1].append(logits[-1].float())

    hooks = [
        module.register_forward_hook(remember)
        for path, module in model.named_modules()
        if path.endswith(".mlp.gate")
    ]
    cache = transformers.StaticCache(config=model.config, max_cache_len=64)
    ids = torch.arange(1, PROMPT + 1, device=DEVICE).view(1, PROMPT)
    place = torch.arange(PROMPT, device=DEVICE).view(1, PROMPT)
    for number, token in enumerate(tokens):
        found.append([])
        model(
            input_ids=ids,
            past_key_values=cache,
            position_ids=place,
            use_cache=True,
        )
        ids = torch.tensor([[token]], device=DEVICE)
        place = torch.tensor([[PROMPT + number]], device=DEVICE)
    for hook in hooks:
        hook.remove()
    return found


def flips(
    ours: list[list[torch.Tensor]],
    theirs: list[list[torch.Tensor]],
    choices: int,
) -> list[dict[str, Any]]:
    """Positions where routers select other experts."""
    found = []
    for step, layers in enumerate(zip(ours, theirs)):
        for layer, (a, b) in enumerate(zip(*layers)):
            if set(a.topk(choices).indices.tolist()) == set(
                b.topk(choices).indices.tolist()
            ):
                continue
            best = b.topk(choices + 1).values
            found.append(
                {
                    "step": step,
                    "layer": layer,
                    "ahead": float(best[-2] - best[-1]),
                    "apart": float((a - b).abs().max()),
                }
            )
    return found


def routed(
    row: dict[str, Any], theirs: list[int], found: list[dict[str, Any]]
) -> bool:
    """True if the tokens are equal until a router selects another expert."""
    row["routing"] = found
    parted = next(
        (i for i, (a, b) in enumerate(zip(row["tokens"], theirs)) if a != b),
        COUNT,
    )
    return parted == COUNT or any(
        f["step"] <= parted and f["ahead"] <= 2 * f["apart"] for f in found
    )


def clear(model: Model) -> tuple[list[int], list[float]]:
    """Greedy tokens, with the least ambiguous of a few random heads."""
    best = 0.0, 1
    for seed in range(1, 6 if DEVICE == "cuda" else 2):
        draw_head(model, seed)
        best = max(best, (min(greedy(model)[1]), seed))
        if best[0] >= AHEAD:
            break
    draw_head(model, best[1])
    return greedy(model)


def compare(
    ours: list[int], theirs: list[int], margins: list[float]
) -> dict[str, Any]:
    """Compares tokens, with the margin where they differ or the smallest."""
    parted = [m for a, b, m in zip(ours, theirs, margins) if a != b]
    return {
        "tokens": ours,
        "tokens_equal": ours == theirs,
        "different_tokens": len(set(ours)),
        "margin": parted[0] if parted else min(margins),
    }


def described(kind: str, settings: dict[str, Any], how: str) -> dict[str, Any]:
    return {"architecture": kind, "settings": settings, "how": how}


def fused(
    kind: str, settings: dict[str, Any], sites: int, how: str = "fused"
) -> dict[str, Any]:
    """Fuses, verifies and unfuses; generates tokens with and without fusion."""
    from fuse_mlir.matching.dataflow import default_inputs

    model = draw(build(kind, settings))
    inputs = default_inputs(model)
    if "pixel_values" in inputs:
        inputs["pixel_values"].normal_()
    row = described(kind, settings, how)
    generates = kind not in ENCODERS and not (
        kind in UNCAPTURED and DEVICE == "cuda"
    )
    if generates:
        tokens, margins = clear(model)
    before = model(**inputs)[0]
    # Elsewhere experts are taken only when a pattern asks for them.
    patterns = (
        {(("*Experts", "**.experts"),): "fuse"}
        if kind in EXPERTS and DEVICE == "cpu"
        else None
    )
    if kind in EXPERTS:
        routers = forced(model, tokens)
    found = fuse_mlir.fuse_modules(model, patterns, only_faster=False)
    checks = fuse_mlir.verify(model, inputs)
    # Linears of attention and heads are sites as well, in some of these models.
    mlps = [
        s
        for s in found.fused
        if not {"norm_linear", "fused_linear"}.issuperset(s.families)
    ]
    row |= {
        "sites": len(mlps),
        "expected_sites": sites,
        "families": sorted({f for s in found.fused for f in s.families}),
        "refused": [s.reason for s in found.refused],
        "checks": len(checks.checks),
        "failed": [vars(c) for c in checks.checks if not c.passed],
        "model": checks.checks[-1].detail,
    }
    if generates:
        row |= compare(greedy(model)[0], tokens, margins)
    right = row.get("tokens_equal", True)
    if kind in EXPERTS:
        right = routed(
            row,
            tokens,
            flips(
                forced(model, tokens), routers, model.config.num_experts_per_tok
            ),
        )
    fuse_mlir.unfuse_modules(model)
    row["unfused_identical"] = torch.equal(model(**inputs)[0], before)
    row["passed"] = (
        bool(checks)
        and row["sites"] == sites
        and row["unfused_identical"]
        and right
    )
    return row


def static(kind: str, settings: dict[str, Any], sites: int) -> dict[str, Any]:
    """The same with MLPs in static FP8."""
    from fuse_mlir.matching.dataflow import default_inputs

    model = draw(build(kind, settings))
    inputs = default_inputs(model)
    before = model(**inputs)[0]
    generator = torch.Generator().manual_seed(1)
    data = [
        {
            "input_ids": torch.randint(
                1, settings["vocab_size"], (4, 16), generator=generator
            ).to(DEVICE)
        }
        for _ in range(2)
    ]
    found = fuse_mlir.calibrate(model, data)
    checks = fuse_mlir.verify(model)
    tokens, margins = greedy(model)
    row = described(kind, settings, "static fp8")
    row |= {
        "sites": len(found.fused),
        "expected_sites": sites,
        "checks": len(checks.checks),
        "failed": [vars(c) for c in checks.checks if not c.passed],
        "model": checks.checks[-1].detail,
    }
    row |= compare(greedy(model)[0], tokens, margins)
    fuse_mlir.unfuse_modules(model)
    row["unfused_identical"] = torch.equal(model(**inputs)[0], before)
    row["passed"] = (
        bool(checks)
        and row["sites"] == sites
        and row["unfused_identical"]
        and row["tokens_equal"]
    )
    return row


def slotted(kind: str, settings: dict[str, Any], sites: int) -> dict[str, Any]:
    """Binds experts as slots to the kernel, and unfuses them again."""
    from fuse_mlir import slots
    from fuse_mlir.matching.dataflow import default_inputs
    from fuse_mlir.slots import moe as expert_slots

    model = draw(build(kind, settings))
    inputs = default_inputs(model)
    theirs, margins = clear(model)
    before = model(**inputs)[0]
    routers = forced(model, theirs)
    paths = expert_slots.add_expert_slots(model)
    slots.bind(model, {"bind": {"moe_experts": "fuse"}}, slots.Context())
    row = described(kind, settings, "slots")
    row |= {"sites": len(paths), "expected_sites": sites}
    row |= compare(greedy(model)[0], theirs, margins)
    right = routed(
        row,
        theirs,
        flips(forced(model, theirs), routers, model.config.num_experts_per_tok),
    )
    expert_slots.remove_expert_slots(model)
    row["removed_identical"] = torch.equal(model(**inputs)[0], before)
    row["passed"] = len(paths) == sites and right and row["removed_identical"]
    return row


def generated(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """`generate` with a static cache, whose step transformers compiles."""
    settings = {**settings, "num_hidden_layers": 1}
    if "layer_types" in settings:
        settings["layer_types"] = settings["layer_types"][:1]
    model = draw(build(kind, settings))
    prompt = torch.arange(1, PROMPT + 1, device=DEVICE).view(1, PROMPT)

    def tokens() -> list[int]:
        torch._dynamo.reset()
        generate: Callable[..., torch.Tensor] = getattr(model, "generate")
        return generate(
            prompt,
            max_new_tokens=COUNT,
            do_sample=False,
            cache_implementation="static",
            pad_token_id=0,
        )[0, PROMPT:].tolist()

    theirs = tokens()
    fuse_mlir.fuse_modules(model, only_faster=False)
    # Makes the kernels for one row, which a compiled call cannot do.
    model(prompt[:, :1])
    ours = tokens()
    return described(kind, settings, "generate") | {
        "tokens": ours,
        "tokens_equal": ours == theirs,
        "passed": ours == theirs,
    }


def steps() -> list[tuple[str, Callable[[], dict[str, Any]]]]:
    """The steps, the most important first."""
    made: list[tuple[str, Callable[[], dict[str, Any]]]] = []

    def add(
        name: str,
        step: Callable[P, dict[str, Any]],
        *args: P.args,
        **options: P.kwargs,
    ) -> None:
        made.append((name, lambda: step(*args, **options)))

    for kind, (settings, sites) in NAMED.items():
        add(kind, fused, kind, settings, sites)
    for kind, (settings, sites) in FULL_WIDTH.items():
        add(f"{kind} full width", fused, kind, settings, sites, "full width")
    for kind in EXPERTS:
        add(f"{kind} slots", slotted, kind, *NAMED[kind])
    for kind in STATIC:
        add(f"{kind} static fp8", static, kind, *NAMED[kind])
    for kind in GENERATED:
        add(f"{kind} generate", generated, kind, NAMED[kind][0])
    for kind, (settings, sites) in OTHERS.items():
        add(kind, fused, kind, settings, sites)
    return made


@torch.no_grad()
def main(path: str, seconds: float = 600.0, only: str = "") -> int:
    """Runs all steps; returns 1 if any check fails."""
    start, failed = time.monotonic(), False
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU",
        "state": read_device() if DEVICE == "cuda" else {},
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "commit": read_commit(),
        "rows": [],
    }
    for name, step in steps():
        if only and name not in only.split(","):
            continue
        if time.monotonic() - start > seconds:
            report["rows"].append(
                {"architecture": name, "skipped": "out of time"}
            )
        else:
            try:
                report["rows"].append(step())
            # One failed step must not hide the others.
            except Exception as error:
                traceback.print_exc()
                report["rows"].append(
                    {"architecture": name, "passed": False, "error": str(error)}
                )
            failed |= not report["rows"][-1]["passed"]
        row = {
            k: v
            for k, v in report["rows"][-1].items()
            if k not in ("tokens", "settings")
        }
        print(f"{time.monotonic() - start:6.1f}s {row}", flush=True)
        write_json(Path(path), report)
    return int(failed)


if __name__ == "__main__":
    sys.exit(run_models(main, __doc__, "names of steps"))
