# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random operands, the static scales that fit them, and activations."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from .problem import ROW_OPERANDS, Problem

#: The largest value of f8E4M3FN.
E4M3_MAX = 448.0
#: By the names of element types in IR.
TORCH_TYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
}

_MATRICES = ("gate", "up", "down")


def activate(kind: str, x: Tensor) -> Tensor:
    """The activation functions of the fuse dialect, in the type of x."""
    if kind == "silu":
        return x * torch.sigmoid(x)
    if kind == "quick_gelu":
        return x * torch.sigmoid(1.702 * x)
    if kind == "gelu":
        # erfc keeps its relative accuracy for very negative x.
        return x / 2 * torch.special.erfc(-x * math.sqrt(0.5))
    if kind == "gelu_tanh":
        # x/2 (1 + tanh z) = x sigmoid(2z), for the same reason.
        z = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return x * torch.sigmoid(2 * z)
    if kind == "relu":
        return torch.relu(x)
    if kind == "relu2":
        return torch.relu(x) ** 2
    raise ValueError(f"unknown activation '{kind}'")


def kernel_scalars(
    problem: Problem, scales: Mapping[str, float]
) -> dict[str, float]:
    """The f32 arguments of a kernel: quantization factors and products."""
    if not problem.fp8:
        return {}
    s = {
        name: torch.tensor(scales[name], dtype=torch.float32)
        for name in problem.scales()
    }
    one = torch.tensor(1.0, dtype=torch.float32)
    divide = problem.order == "divide"
    result = {
        "input": s["input"] if divide else one / s["input"],
        "up": s["input"] * s["up"],
        "hidden": s["hidden"] if divide else one / s["hidden"],
        "down": s["hidden"] * s["down"],
    }
    if problem.gated:
        result["gate"] = s["input"] * s["gate"]
    return {name: value.item() for name, value in result.items()}


def _generator(seed: int, device: str) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


def make_weights(
    problem: Problem, seed: int, device: str = "cuda", one_scale: bool = False
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Weights, norm parameters and biases by role, and the weights' scales.

    With `one_scale`, gate and up share theirs, which libraries need to run
    both as one product.
    """
    generator = _generator(seed, device)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    tensors: dict[str, Tensor] = {}
    for role in problem.operands():
        if role in ROW_OPERANDS:
            continue
        shape = problem.shape(role)
        if role == "norm_weight":
            # With an offset, checkpoints store the distance from it.
            center = 1 - problem.norm.offset if problem.norm else 1
            value = center + 0.1 * normal(*shape)
        elif len(shape) == 1:
            value = 0.1 * normal(*shape)
        else:
            value = normal(*shape) / shape[1] ** 0.5
        tensors[role] = value.bfloat16()
    if not problem.fp8:
        return tensors, {}
    roles = [role for role in _MATRICES if role in tensors]
    scales = {
        role: tensors[role].float().abs().max().item() / E4M3_MAX
        for role in roles
    }
    if one_scale and problem.gated:
        scales["gate"] = scales["up"] = max(scales["gate"], scales["up"])
    for role in roles:
        stored = tensors[role].float() / scales[role]
        tensors[role] = stored.clamp(-E4M3_MAX, E4M3_MAX).to(
            torch.float8_e4m3fn
        )
    return tensors, scales


def make_activations(
    problem: Problem, tokens: int, seed: int, device: str = "cuda"
) -> dict[str, Tensor]:
    """Operands with a row for each token, which differ in size by up to 16."""
    generator = _generator(seed, device)
    result = {}
    for role in ROW_OPERANDS:
        if role in problem.operands():
            spread = 2 ** (
                4 * torch.rand(tokens, 1, generator=generator, device=device)
                - 2
            )
            if problem.norm is None:
                spread = spread.clamp(max=1)
            value = spread * torch.randn(
                tokens, problem.width, generator=generator, device=device
            )
            result[role] = value.bfloat16()
    return result


def calibrate(
    problem: Problem,
    tensors: dict[str, Tensor],
    scales: dict[str, float],
    headroom: float = 1.0,
) -> dict[str, float]:
    """Adds the scales of the activations, from their largest values.

    A headroom below 1 makes the largest values saturate.
    """
    if not problem.fp8:
        return {}
    x = tensors["x"].float()
    if problem.residual:
        x = x + tensors["residual"].float()
    if problem.norm is not None:
        if problem.norm.kind == "layer":
            x = x - x.mean(-1, keepdim=True)
        x = x * torch.rsqrt(
            x.square().mean(-1, keepdim=True) + problem.norm.eps
        )
        x = x * (tensors["norm_weight"].float() + problem.norm.offset)
        if problem.norm.has_bias:
            x = x + tensors["norm_bias"].float()

    def linear(role: str) -> Tensor:
        value = x @ tensors[role].float().t() * scales[role]
        if problem.biases:
            value = value + tensors[f"{role}_bias"].float()
        return value

    hidden = activate(problem.act, linear("gate" if problem.gated else "up"))
    if problem.gated:
        hidden = hidden * linear("up")
    return {
        **scales,
        "input": headroom * x.abs().max().item() / E4M3_MAX,
        "hidden": headroom * hidden.abs().max().item() / E4M3_MAX,
    }
