# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An inference engineer: fuse the MLPs of a model, compare, take it back.

`python examples/pytorch/inference.py [MODEL_DIR]`; without a directory, a small
Qwen3 with drawn weights.
"""

# %% A transformers model in eval mode.
import sys

import torch
import transformers

import fuse_mlir

if len(sys.argv) > 1:
    model = transformers.AutoModelForCausalLM.from_pretrained(
        sys.argv[1], dtype=torch.bfloat16
    ).eval()
else:
    torch.manual_seed(0)
    model = (
        transformers.Qwen3ForCausalLM(
            transformers.Qwen3Config(
                hidden_size=64,
                intermediate_size=128,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=16,
                vocab_size=96,
            )
        )
        .bfloat16()
        .eval()
    )
ids = torch.arange(1, 9).view(1, 8)
with torch.inference_mode():
    before = model(ids).logits

# %% List sites that can be fused, and the reasons of refusals.
print(fuse_mlir.explain(model, only_faster=False))

# %% Fuse every chain, or those that a pattern names. By default a chain of such
# a small model is not fused, because its kernel is no faster.
sites = fuse_mlir.fuse_modules(model, only_faster=False)
print(fuse_mlir.verify(model))
with torch.inference_mode():
    after = model(ids).logits
print("largest difference:", float((after - before).abs().max()))

# %% Undo one site, then all: the same modules, the same results.
fuse_mlir.unfuse_modules(model, f"{sites[0].parent}")
fuse_mlir.unfuse_modules(model)
with torch.inference_mode():
    assert torch.equal(model(ids).logits, before)
