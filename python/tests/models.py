# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models that several test files fuse."""

from __future__ import annotations

import threading
import unittest
from typing import Any

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import native

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "vocab_size": 64,
}
LLAMA = {**SIZES, "num_key_value_heads": 1, "head_dim": 16}
NORM_MLP = {
    (
        ("RMSNorm", "model.layers.*.post_attention_layernorm"),
        ("MLP", "model.layers.*.mlp"),
    ): "fuse"
}


def needs_library(test):
    """Skips a test class where libfuse is not built."""
    return unittest.skipUnless(native.available(), "no libfuse.so")(test)


def snapshot(model):
    """Everything of a module tree that undoing must bring back."""
    return [
        (
            path,
            id(module),
            type(module),
            module.training,
            [
                (n, id(p), p.data_ptr())
                for n, p in module._parameters.items()
                if p is not None
            ],
            [(n, id(b)) for n, b in module._buffers.items()],
            list(module._modules),
            list(module._forward_pre_hooks),
            list(module._forward_hooks),
        )
        for path, module in model.named_modules()
    ]


def fuse(model, x, patterns=None, **options):
    """Fuses a model in place, by default at the sites of CHAIN."""
    return fuse_mlir.fuse_modules(
        model,
        {CHAIN: "fuse"} if patterns is None else patterns,
        inputs=x,
        **options,
    )


def transformer(kind: str, dtype=torch.bfloat16, **settings) -> Any:
    """A model of transformers with drawn weights, in eval mode."""
    import transformers

    from fuse_mlir.checkpoint.models import seed_weights

    transformers.logging.set_verbosity_error()
    config = transformers.AutoConfig.for_model(kind, **settings)
    # Encoders are decoders for that mapping too.
    if (
        type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
        and kind != "bert"
    ):
        model = transformers.AutoModelForCausalLM.from_config(config)
    else:
        model = transformers.AutoModel.from_config(config)
    return seed_weights(model.to(dtype).eval(), seed=3)


class Norm(nn.Module):
    """Scales rows to a mean square of one."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(size))

    def forward(self, x):
        return torch.nn.functional.rms_norm(
            x, self.weight.shape, self.weight, 1e-6
        )


class MLP(nn.Module):
    """Gated, without biases."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(size, hidden, bias=False)
        self.up = nn.Linear(size, hidden, bias=False)
        self.down = nn.Linear(hidden, size, bias=False)
        self.hidden = hidden

    def forward(self, x):
        gate = torch.nn.functional.silu(self.gate(x))
        return self.down(gate * self.up(x))


class Block(nn.Module):
    """x + mlp(norm(x))."""

    # Tests put other modules there.
    norm: Any
    mlp: Any

    def __init__(self, size: int = 8, hidden: int = 16) -> None:
        super().__init__()
        self.norm = Norm(size)
        self.mlp = MLP(size, hidden)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    """Blocks in a list, as decoders have them."""

    layers: Any

    def __init__(self, count: int = 2, block: type = Block) -> None:
        super().__init__()
        self.layers = nn.ModuleList(block() for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


CHAIN = (("Norm", "layers.*.norm"), ("MLP", "layers.*.mlp"))


def net(
    count: int = 2, block: type = Block, seed: int = 0
) -> tuple[Any, torch.Tensor]:
    """A model and an input."""
    torch.manual_seed(seed)
    return Net(count, block).eval().requires_grad_(False), torch.randn(3, 8)


def call_in_threads(test, model, x, weight) -> None:
    """Calls a model in 16 threads while the data of a weight are exchanged.

    Each result has to be that of one of the two versions of the weight.

    Args:
        test: the test case.
        model: called as `model(x)`.
        x: its input.
        weight: a parameter that the result depends on.
    """
    versions = [weight.detach().clone(), 2 * weight.detach()]
    results = []
    for version in versions:
        weight.data = version.clone()
        results.append(model(x))
    test.assertFalse(torch.allclose(*results))
    stop, wrong, done = threading.Event(), [], []

    def call():
        count = 0
        while not stop.is_set():
            found = model(x)
            if not any(
                torch.allclose(found, result, atol=1e-5, rtol=1e-5)
                for result in results
            ):
                wrong.append(found)
            count += 1
        done.append(count)

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for i in range(50):
        weight.data = versions[i % 2].clone()
    stop.set()
    for thread in threads:
        thread.join()
    test.assertEqual(wrong, [])
    # A thread that raised an error is missing.
    test.assertEqual(len(done), 16)


def fp8_transformer(
    kind: str, input_scale: float = 0.02, everywhere: bool = False, **settings
) -> Any:
    """A model of transformers in the fine-grained fp8 layout: one scale per
    weight, static scales of inputs.

    Attention stays in bf16 unless `everywhere`, so that the model runs where
    FP8Linear has no kernel.
    """
    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import (
        replace_with_fp8_linear,
    )

    from fuse_mlir.quantized.value_range import quantize

    model = transformer(kind, **settings)
    weights = {
        path: module.weight.detach()
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear)
    }
    kept = ["lm_head"] + ([] if everywhere else ["attn", "attention"])
    skip = [p for p in weights if any(k in p for k in kept)]
    config = FineGrainedFP8Config(
        activation_scheme="static",
        weight_block_size=None,
        modules_to_not_convert=skip,
    )
    biases = {
        path: module.bias
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear)
    }
    replace_with_fp8_linear(model, skip, config)
    model.config.quantization_config = config
    for path, module in model.named_modules():
        if type(module).__name__ != "FP8Linear":
            continue
        scale = weights[path].float().abs().max() / 448.0
        parts = {
            "weight": quantize(weights[path], scale, "f8E4M3FN"),
            "weight_scale_inv": scale,
            "activation_scale": torch.tensor(input_scale),
        }
        if biases[path] is not None:
            parts["bias"] = biases[path].detach()
        for name, tensor in parts.items():
            setattr(module, name, nn.Parameter(tensor, requires_grad=False))
    return model.eval()
