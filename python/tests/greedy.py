# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Greedy tokens of models, and how far from a tie each one is.

The largest two logits of drawn weights are often one number in bf16. The next
token then depends on the order of a sum, and shows nothing about a kernel.
"""

from __future__ import annotations

import copy
import unittest
from typing import Any

import torch

import fuse_mlir

#: Settings of models whose tokens `check` compares, by their types.
SMALL = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "tie_word_embeddings": False,
}
GROUPED = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0}
HEADS = {**GROUPED, "head_dim": 64}
MODELS = {
    "llama": HEADS,
    "qwen2": GROUPED,
    "qwen3": HEADS,
    "gemma3_text": {**HEADS, "layer_types": ["full_attention"] * 4},
    "phi3": GROUPED,
    "cohere": GROUPED,
    "gpt_neox": SMALL,
}

PROMPT, COUNT = 9, 32
#: Minimum lead of each token relative to its logit: two steps of bf16.
AHEAD = 1 / 64


def draw_head(model: Any, drawn: torch.Tensor, seed: int) -> None:
    """Scales each row of the head differently, so that logits have a peak, as
    those of trained models do.

    Args:
        model: its head changes in place.
        drawn: the weight of the head before, [words, features].
        seed: of the scales.
    """
    sizes = torch.Generator().manual_seed(seed)
    scale = torch.randn(drawn.shape[0], 1, generator=sizes).exp()
    model.get_output_embeddings().weight.data.copy_(drawn * scale.to(drawn))


def tokens(model: Any) -> tuple[list[int], float]:
    """Greedy tokens after a prompt, and the least lead over a runner-up
    relative to the largest logit."""
    device = next(model.parameters()).device
    found = model.generate(
        torch.arange(1, PROMPT + 1, device=device).view(1, PROMPT),
        max_new_tokens=COUNT,
        min_new_tokens=COUNT,
        do_sample=False,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    ahead = []
    for logits in found.logits:
        best = logits.float().topk(2).values[0]
        ahead.append(float((best[0] - best[1]) / best.abs().max()))
    return found.sequences[0, PROMPT:].tolist(), min(ahead)


def clear(model: Any, tries: int = 8) -> tuple[list[int], float]:
    """Greedy tokens with the least ambiguous of a few heads, which stays.

    Among heads without a near tie, the one with the most different tokens.

    Returns:
        The tokens, and the least lead.
    """
    drawn = model.get_output_embeddings().weight.detach().clone()

    def rank(seed: int) -> tuple[float, int, int]:
        draw_head(model, drawn, seed)
        found, ahead = tokens(model)
        return min(ahead, AHEAD), len(set(found)), seed

    draw_head(model, drawn, max(map(rank, range(1, tries + 1)))[2])
    return tokens(model)


def error(logits: torch.Tensor, reference: torch.Tensor) -> float:
    """Root of the mean square of the difference, relative to the reference."""
    away = (logits.double() - reference).norm()
    return float(away / reference.norm())


@torch.no_grad()
def check(test: unittest.TestCase, model: Any) -> None:
    """Checks that fusing changes no greedy token, and adds no error.

    Args:
        test: receives the failures.
        model: in bf16 or f16, with a head of its own; it changes.
    """
    ids = torch.arange(1, 33, device=model.device).view(1, 32)
    expected, ahead = clear(model)
    test.assertGreaterEqual(ahead, AHEAD)
    reference = copy.deepcopy(model).double()(ids).logits
    before = error(model(ids).logits, reference)
    found = fuse_mlir.fuse_modules(model, only_faster=False, strict=False)
    test.assertTrue(found.fused)
    test.assertEqual(tokens(model)[0], expected)
    # The roundings of the model itself have this size.
    test.assertLess(error(model(ids).logits, reference), 1.2 * before)
    fuse_mlir.unfuse_modules(model)
    test.assertEqual(tokens(model)[0], expected)
