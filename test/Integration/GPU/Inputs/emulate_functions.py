"""Function ops on the emulated GPU beside PyTorch as transformers writes them.

usage: emulate_functions.py kernels.mlir plan.json build-directory
"""

import emulate
import torch
from torch.nn import functional

F32, F64 = torch.float32, torch.float64


def rotary(x, cos, sin, heads):
    """apply_rotary_pos_emb of one tensor, rounded where PyTorch rounds."""
    cos, sin = cos.unsqueeze(heads), sin.unsqueeze(heads)
    width = cos.shape[-1]
    part, rest = x[..., :width], x[..., width:]
    half = width // 2
    turned = torch.cat((-part[..., half:], part[..., :half]), dim=-1)
    y = part * cos + turned * sin
    return (torch.cat((y, rest), dim=-1).to(x.dtype),)


def loss(logits, labels, items=None, ignore=-100, causal=False, total=False):
    labels = labels.long()
    if causal:
        labels = functional.pad(labels, (0, 1), value=ignore)[..., 1:]
    value = functional.cross_entropy(
        logits.to(F64).reshape(-1, logits.shape[-1]),
        labels.reshape(-1),
        ignore_index=ignore,
        reduction="sum" if total else "mean",
    )
    return ((value if items is None else value / items).to(F32),)


def experts(x, index, weights, gate_up, down, act):
    """A loop over experts, with the sum over choices rounded once."""
    y = torch.zeros(x.shape, dtype=F64)
    for token in range(x.shape[0]):
        for expert, weight in zip(index[token].tolist(), weights[token]):
            if not 0 <= expert < gate_up.shape[0]:
                continue
            projected = (gate_up[expert].to(F64) @ x[token].to(F64)).to(x.dtype)
            gate, up = projected.chunk(2)
            hidden = emulate.activation(act, gate) * up
            out = (down[expert].to(F64) @ hidden.to(F64)).to(x.dtype)
            y[token] += (out * weight).to(x.dtype).to(F64)
    return (y.to(x.dtype),)


REFERENCES = {
    "rotary_bf16": lambda *args: rotary(*args, 1),
    "rotary_partial": lambda *args: rotary(*args, 2),
    "rotary_f16": lambda *args: rotary(*args, 1),
    "loss_causal": lambda *args: loss(*args, causal=True),
    "loss_items": lambda *args: loss(*args, ignore=3, total=True),
    "loss_sum": lambda *args: loss(*args, causal=True, total=True),
    "experts_bf16": lambda *args: experts(*args, "silu"),
    "experts_f32": lambda *args: experts(*args, "gelu_tanh"),
}


def make(name, index, shape, dtype):
    if name.startswith("loss") and index == 0:
        # Rows whose exponentials overflow unless the maximum is taken out.
        return (torch.randn(shape) * 30 + 200).to(dtype)
    if name.startswith("loss") and index == 1:
        labels = torch.randint(0, 37, shape)
        labels[torch.rand(shape) < 0.3] = 3 if name == "loss_items" else -100
        return labels.to(dtype)
    if name.startswith("loss"):
        return torch.tensor(11, dtype=dtype)
    if name.startswith("experts") and index == 1:
        # The last number is that of an expert elsewhere.
        return torch.randint(-1, 6, shape).to(dtype)
    if name.startswith("experts") and len(shape) == 3:
        return (torch.randn(shape) / shape[-1] ** 0.5).to(dtype)
    return torch.randn(shape).to(dtype)


emulate.main(REFERENCES, make, sizes=(0, 1, 19))
