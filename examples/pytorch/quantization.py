# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A quantization engineer: static FP8 MLPs, and how to find invalid scales.

`python examples/pytorch/quantization.py`
"""

# %% A model in bf16, and representative data.
import torch
import transformers

import fuse_mlir
from fuse_mlir.calibration.scales import report_text

torch.manual_seed(0)
model = (
    transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=96,
        )
    )
    .bfloat16()
    .eval()
)
data = [torch.randint(1, 96, (2, 16)) for _ in range(4)]
with torch.inference_mode():
    before = model(data[0]).logits

# %% Compute scales from the data, and fuse the MLPs in static FP8.
sites = fuse_mlir.calibrate(model, data)
print(report_text(sites.calibration))
print(fuse_mlir.verify(model, data[0]))
with torch.inference_mode():
    after = model(data[0]).logits
print(
    "cosine:",
    float(
        torch.nn.functional.cosine_similarity(
            after.double().flatten(), before.double().flatten(), 0
        )
    ),
)

# %% A scale that no kernel supports is reported with its linear.
fuse_mlir.unfuse_modules(model)
scales = {path: dict(entry) for path, entry in sites.calibration.scales.items()}
scales["model.layers.1.mlp.up_proj"]["input_scale"] = 0.0
static = {
    "static_quantized_mlp": {
        "input_quant": "fuse",
        "gated_mlp": "fuse",
        "scales": scales,
    }
}
for site in fuse_mlir.explain(model, fusion_config=static):
    print(site.id, site.status, site.reason)
