# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models that several test files fuse."""

from __future__ import annotations

import unittest

import torch
from torch import nn

from fuse_mlir import native

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
         "num_attention_heads": 2, "vocab_size": 64}
LLAMA = {**SIZES, "num_key_value_heads": 1, "head_dim": 16}
NORM_MLP = {(("RMSNorm", "model.layers.*.post_attention_layernorm"),
             ("MLP", "model.layers.*.mlp")): "fuse"}


def needs_library(test):
    """Skips a test class where libfuse is not built."""
    return unittest.skipUnless(native.available(), "no libfuse.so")(test)


def transformer(kind: str, dtype=torch.bfloat16, **settings) -> nn.Module:
    """A model of transformers with drawn weights, in eval mode."""
    import transformers
    from fuse_mlir.blocks import seed_weights

    transformers.logging.set_verbosity_error()
    config = transformers.AutoConfig.for_model(kind, **settings)
    # Encoders are decoders for that mapping too.
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING \
            and kind != "bert":
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
        return torch.nn.functional.rms_norm(x, self.weight.shape, self.weight,
                                            1e-6)


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

    def __init__(self, size: int = 8, hidden: int = 16) -> None:
        super().__init__()
        self.norm = Norm(size)
        self.mlp = MLP(size, hidden)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    """Blocks in a list, as decoders have them."""

    def __init__(self, count: int = 2, block: type = Block) -> None:
        super().__init__()
        self.layers = nn.ModuleList(block() for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


CHAIN = (("Norm", "layers.*.norm"), ("MLP", "layers.*.mlp"))


def net(count: int = 2, block: type = Block, seed: int = 0) \
        -> tuple[Net, torch.Tensor]:
    """A model and an input."""
    torch.manual_seed(seed)
    return Net(count, block).eval().requires_grad_(False), torch.randn(3, 8)
