# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Peers: the block in PyTorch, eager and compiled.

Each system is a function of activations and parameters, so that a compiled
one serves every layer of a chain. Per-tensor FP8 goes through
`torch._scaled_mm` with fast accumulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from ..common.cases import TIMED_SHAPES, is_lone
from ..common.data import E4M3_MAX
from ..common.problem import Norm, Problem

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "relu2": lambda x: functional.relu(x).square(),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}
#: Numbers of tokens for which peers are tuned too, with the first shapes;
#: tuning takes long.
AUTOTUNED_SHAPES = [shape[:2] for shape in TIMED_SHAPES[:2]]
AUTOTUNED_TOKENS = (50, 16, 512, 4096, 128, 1)


@dataclass
class Peer:
    """A system, its scales (static, dynamic, none) and its parameters."""

    system: str
    scales: str
    function: Callable[..., Tensor]
    parameters: list[str]

    def bind(self, tensors: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
        values = [tensors[name] for name in self.parameters]
        return lambda x: self.function(x, *values)


def parameters(
    problem: Problem, tensors: dict[str, Tensor], scales: dict[str, float]
) -> dict[str, Tensor]:
    """Operands and scales as tensors, and the merged gate_up matrix."""
    result = dict(tensors)
    if problem.gated:
        result["gate_up"] = torch.cat(
            [tensors["gate"].view(torch.uint8), tensors["up"].view(torch.uint8)]
        ).view(tensors["up"].dtype)
    for name, value in scales.items():
        result[f"{name}_scale"] = torch.tensor(
            value, dtype=torch.float32, device=tensors["up"].device
        )
    return result


#: Values of `--peers`. Tuned dynamic scales are separate: tuning them takes as
#: long as for static ones, and each row takes longer.
MODES = ("eager", "compile", "autotune", "autotune-dynamic")


def peer_modes(
    problem: Problem, tokens: int, wanted: Sequence[str]
) -> list[str]:
    """Those of the modes of `make_peers` that a problem is timed with."""
    if is_lone(problem.width, problem.hidden, tokens):
        return []
    tuned = (
        tokens in AUTOTUNED_TOKENS
        and (problem.width, problem.hidden) in AUTOTUNED_SHAPES
    )
    return [mode for mode in wanted if tuned or not mode.startswith("autotune")]


def supports(problem: Problem) -> bool:
    """Peers are written for the gated block after an RMSNorm."""
    return (
        problem.gated
        and problem.norm is not None
        and problem.norm.kind == "rms"
        and not problem.biases
        and not problem.residual
        and not problem.then_add
    )


def _to_fp8(x: Tensor, scale: Tensor) -> Tensor:
    return (
        (x.float() / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    )


def _product(
    x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor
) -> Tensor:
    return torch._scaled_mm(
        x,
        weight.t(),
        x_scale,
        weight_scale,
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )


def _make_norm(norm: Norm) -> Callable[[Tensor, Tensor], Tensor]:
    eps, offset = norm.eps, norm.offset

    def normed(x: Tensor, weight: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        if offset:
            return (wide * (offset + weight.float())).to(x.dtype)
        return weight * wide.to(x.dtype)

    return normed


@dataclass
class _Form:
    """A way to write the block, with its scales and parameters."""

    scales: str
    function: Callable[..., Tensor]
    parameters: list[str]


def _bf16_forms(
    act: Callable[[Tensor], Tensor], normed: Callable[[Tensor, Tensor], Tensor]
) -> list[_Form]:
    """The block with gate and up as one product, and with two."""

    def separate(
        x: Tensor, norm_weight: Tensor, gate: Tensor, up: Tensor, down: Tensor
    ) -> Tensor:
        h = normed(x, norm_weight)
        return functional.linear(
            act(functional.linear(h, gate)) * functional.linear(h, up), down
        )

    def merged(
        x: Tensor, norm_weight: Tensor, gate_up: Tensor, down: Tensor
    ) -> Tensor:
        h = normed(x, norm_weight)
        g, u = functional.linear(h, gate_up).chunk(2, -1)
        return functional.linear(act(g) * u, down)

    return [
        _Form("none", merged, ["norm_weight", "gate_up", "down"]),
        _Form("none", separate, ["norm_weight", "gate", "up", "down"]),
    ]


def _fp8_forms(
    act: Callable[[Tensor], Tensor], normed: Callable[[Tensor, Tensor], Tensor]
) -> list[_Form]:
    """The block with static scales, and with those of each tensor."""

    def static(
        x: Tensor,
        norm_weight: Tensor,
        gate_up: Tensor,
        down: Tensor,
        input_scale: Tensor,
        up_scale: Tensor,
        hidden_scale: Tensor,
        down_scale: Tensor,
    ) -> Tensor:
        h = _to_fp8(normed(x, norm_weight), input_scale)
        g, u = _product(h, gate_up, input_scale, up_scale).chunk(2, -1)
        return _product(
            _to_fp8(act(g) * u, hidden_scale), down, hidden_scale, down_scale
        )

    def dynamic(
        x: Tensor,
        norm_weight: Tensor,
        gate_up: Tensor,
        down: Tensor,
        up_scale: Tensor,
        down_scale: Tensor,
    ) -> Tensor:
        h = normed(x, norm_weight)
        scale = h.abs().max().float() / E4M3_MAX
        g, u = _product(_to_fp8(h, scale), gate_up, scale, up_scale).chunk(
            2, -1
        )
        h = act(g) * u
        scale = h.abs().max().float() / E4M3_MAX
        return _product(_to_fp8(h, scale), down, scale, down_scale)

    base = ["norm_weight", "gate_up", "down"]
    return [
        _Form(
            "static",
            static,
            [*base, "input_scale", "up_scale", "hidden_scale", "down_scale"],
        ),
        _Form("dynamic", dynamic, [*base, "up_scale", "down_scale"]),
    ]


def make_peers(problem: Problem, modes: Sequence[str]) -> list[Peer]:
    """Systems for the problem's type; `modes` are some of MODES.

    The compiled ones are new on each call.
    """
    if problem.norm is None or not supports(problem):
        return []
    act, normed = _ACTIVATIONS[problem.act], _make_norm(problem.norm)
    peers: list[Peer] = []

    def add(
        system: str,
        mode: str,
        form: _Form,
        make: Callable[..., Any] | None = None,
    ) -> None:
        if mode in modes:
            function = make(form.function) if make else form.function
            peers.append(Peer(system, form.scales, function, form.parameters))

    if problem.fp8:
        forms, eager = _fp8_forms(act, normed), "torch-eager"
    else:
        # As models are written; compiled ones get gate and up merged.
        merged, separate = _bf16_forms(act, normed)
        add("torch-eager", "eager", separate)
        forms, eager = [merged], "torch-eager-merged"
    compiled = partial(torch.compile, dynamic=False)
    for form in forms:
        add(eager, "eager", form)
        add("torch-compile", "compile", form, partial(compiled, mode=None))
        add(
            "torch-compile-autotune",
            "autotune-dynamic" if form.scales == "dynamic" else "autotune",
            form,
            partial(compiled, mode="max-autotune-no-cudagraphs"),
        )
    return peers


def library_products(problem: Problem, tokens: int) -> Callable[[], Tensor]:
    """The two products of the library, without the ops around them."""
    rows = problem.hidden * (2 if problem.gated else 1)
    shapes = (
        (tokens, problem.width),
        (rows, problem.width),
        (tokens, problem.hidden),
        (problem.width, problem.hidden),
    )
    x, first, hidden, last = (
        torch.randn(*shape, device="cuda").bfloat16() for shape in shapes
    )
    if not problem.fp8:

        def multiply() -> Tensor:
            torch.mm(x, first.t())
            return torch.mm(hidden, last.t())

        return multiply
    x8, first8, hidden8, last8 = (
        value.to(torch.float8_e4m3fn) for value in (x, first, hidden, last)
    )
    one = torch.tensor(1.0, device="cuda")

    def multiply8() -> Tensor:
        for left, right in ((x8, first8), (hidden8, last8)):
            result = torch._scaled_mm(
                left,
                right.t(),
                one,
                one,
                out_dtype=torch.bfloat16,
                use_fast_accum=True,
            )
        return result

    return multiply8
