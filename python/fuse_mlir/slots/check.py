# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the eager function of a slot with the definition of its op.

The definitions are those of `slots.list_kernels`, in double precision. The
inputs are small and drawn so that variants and params matter: the weights of
norms are far from zero and one, and some rows are as small as the root of eps.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

Param = float | int | str
Params = Mapping[str, Param]
Eager = Callable[..., object]

#: Largest relative difference, in the L2 norm, between an eager function in
#: f32 and the definition in f64. Rounding costs about 1e-7, the nearest wrong
#: variant (tanh for erf in a GELU) about 1e-3.
TOLERANCE = 1e-4
#: Values of eps that are tried to explain a mismatch.
_EPS = (0.0, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
_ROWS, _FEATURES, _HIDDEN = 6, 8, 12


@dataclass(frozen=True)
class Definition:
    """The mathematical definition of an op and variant.

    Args:
        inputs: draws inputs; the eager function may have fewer parameters.
        least: the minimum number of inputs.
        compute: the results on inputs in double precision.
    """

    inputs: Callable[[torch.Generator, Params], list[Tensor]]
    least: int
    compute: Callable[[Sequence[Tensor], Params], list[Tensor]]


class Mismatch(Exception):
    """An eager function does not compute the op of its slot."""


# Inputs.


def _draw(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator)


def _norm_inputs(generator: torch.Generator, params: Params) -> list[Tensor]:
    x = _draw(generator, _ROWS, _FEATURES)
    # In some rows, eps is as large as the mean of squares.
    eps = float(params.get("eps", 0.0))
    x[1::2] *= max(eps, 1e-6) ** 0.5
    weight = 0.5 + torch.rand(_FEATURES, generator=generator)
    return [x, weight, _draw(generator, _FEATURES)]


def _gated_inputs(generator: torch.Generator, params: Params) -> list[Tensor]:
    return [2 * _draw(generator, _ROWS, _FEATURES) for _ in range(2)]


def _mlp_inputs(generator: torch.Generator, params: Params) -> list[Tensor]:
    return [
        _draw(generator, _ROWS, _FEATURES),
        _draw(generator, _HIDDEN, _FEATURES),
        _draw(generator, _HIDDEN, _FEATURES),
        _draw(generator, _FEATURES, _HIDDEN),
    ]


def _rotary_inputs(
    turned: int,
) -> Callable[[torch.Generator, Params], list[Tensor]]:
    def inputs(generator: torch.Generator, params: Params) -> list[Tensor]:
        tokens, heads = 5, 4
        angles = _draw(generator, 2, tokens, turned // 2).repeat(1, 1, 2)
        sizes = [
            (2, n, tokens, _FEATURES)
            if params.get("unsqueeze_dim", 1) == 1
            else (2, tokens, n, _FEATURES)
            for n in (heads, heads // 2)
        ]
        return [
            *(_draw(generator, *size) for size in sizes),
            angles.cos(),
            angles.sin(),
        ]

    return inputs


def _loss_inputs(generator: torch.Generator, params: Params) -> list[Tensor]:
    labels = torch.randint(_FEATURES, (2, _ROWS), generator=generator)
    labels[0, 2] = int(params.get("ignore_index", -100))
    return [_draw(generator, 2, _ROWS, _FEATURES), labels]


def _experts_inputs(generator: torch.Generator, params: Params) -> list[Tensor]:
    index = torch.stack(
        [torch.randperm(3, generator=generator)[:2] for _ in range(_ROWS)]
    )
    return [
        _draw(generator, _ROWS, _FEATURES),
        index,
        torch.rand(_ROWS, 2, generator=generator),
        _draw(generator, 3, 2 * _HIDDEN, _FEATURES),
        _draw(generator, 3, _FEATURES, _HIDDEN),
    ]


# Definitions.


def _rms(x: Tensor, params: Params) -> Tensor:
    return x * torch.rsqrt(
        x.square().mean(-1, keepdim=True) + float(params["eps"])
    )


def _layer_norm(args: Sequence[Tensor], params: Params) -> list[Tensor]:
    x = args[0]
    weight, bias = [*args[1:], None, None][:2]
    return [
        functional.layer_norm(
            x, x.shape[-1:], weight, bias, float(params["eps"])
        )
    ]


def _rotary(args: Sequence[Tensor], params: Params) -> list[Tensor]:
    heads = int(params.get("unsqueeze_dim", 1))
    cos, sin = args[2].unsqueeze(heads), args[3].unsqueeze(heads)
    results = []
    for x in args[:2]:
        part, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
        low, high = part.chunk(2, -1)
        turned = part * cos + torch.cat((-high, low), -1) * sin
        results.append(torch.cat((turned, rest), -1))
    return results


def _loss(args: Sequence[Tensor], params: Params) -> list[Tensor]:
    ignored = int(params.get("ignore_index", -100))
    labels = functional.pad(args[1], (0, 1), value=ignored)[..., 1:]
    return [
        functional.cross_entropy(
            args[0].flatten(0, -2), labels.flatten(), ignore_index=ignored
        )
    ]


def _experts(args: Sequence[Tensor], params: Params) -> list[Tensor]:
    x, index, weights, gate_up, down = args
    act = _ACTS[str(params.get("act", "silu"))]
    result = torch.zeros_like(x)
    for row in range(len(x)):
        for choice, expert in enumerate(index[row].tolist()):
            gate, up = (gate_up[expert] @ x[row]).chunk(2)
            result[row] += weights[row, choice] * (
                down[expert] @ (act(gate) * up)
            )
    return [result]


_ACTS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
}


def _gated(act: str) -> Callable[[Sequence[Tensor], Params], list[Tensor]]:
    return lambda args, params: [_ACTS[act](args[0]) * args[1]]


def _mlp(act: str) -> Callable[[Sequence[Tensor], Params], list[Tensor]]:
    def compute(args: Sequence[Tensor], params: Params) -> list[Tensor]:
        x, gate, up, down = args
        return [(_ACTS[act](x @ gate.T) * (x @ up.T)) @ down.T]

    return compute


DEFINITIONS: dict[tuple[str, str], Definition] = {
    ("rms_norm", "standard"): Definition(
        lambda g, p: _norm_inputs(g, p)[:2],
        2,
        lambda a, p: [_rms(a[0], p) * a[1]],
    ),
    ("rms_norm", "offset1_f32"): Definition(
        lambda g, p: _norm_inputs(g, p)[:2],
        2,
        lambda a, p: [_rms(a[0], p) * (1 + a[1])],
    ),
    ("rms_norm", "unweighted"): Definition(
        lambda g, p: _norm_inputs(g, p)[:1], 1, lambda a, p: [_rms(a[0], p)]
    ),
    ("layer_norm", "standard"): Definition(_norm_inputs, 1, _layer_norm),
    ("apply_rotary_pos_emb", "full"): Definition(
        _rotary_inputs(_FEATURES), 4, _rotary
    ),
    ("apply_rotary_pos_emb", "partial"): Definition(
        _rotary_inputs(_FEATURES // 2), 4, _rotary
    ),
    ("cross_entropy_loss", "causal"): Definition(_loss_inputs, 2, _loss),
    ("moe_experts", "standard"): Definition(_experts_inputs, 5, _experts),
    ("swiglu_mlp", "standard"): Definition(_mlp_inputs, 4, _mlp("silu")),
    **{
        ("act_and_mul", act): Definition(_gated_inputs, 2, _gated(act))
        for act in ("silu", "gelu", "gelu_tanh")
    },
    **{
        ("geglu_mlp", act): Definition(_mlp_inputs, 4, _mlp(act))
        for act in ("gelu", "gelu_tanh")
    },
}


# The comparison.


def check(
    op: str,
    variant: str,
    params: Params,
    eager: Eager,
    device: torch.device = torch.device("cpu"),
    *,
    what: str = "its eager function",
    takes: Eager | None = None,
) -> str | None:
    """Compares an eager function with the definition of its op and variant.

    The state of random numbers and gradients do not change.

    Args:
        op: name of the slot's op, such as `rms_norm`.
        variant: of the slot, such as `standard`.
        params: constants of the slot, such as eps.
        eager: function of tensors, which is called in f32.
        device: of the call.
        what: names the function in messages.
        takes: a function whose number of inputs is used; None uses `eager`.

    Returns:
        The reason that nothing was compared: the op is not one of fuse, or
        the function does not support the inputs. None after a successful
        comparison.

    Raises:
        Mismatch: the function computes something else; with the difference,
            and the variant or eps that fits, if there is one.
    """
    definition = DEFINITIONS.get((op, variant))
    if definition is None:
        return f"op={op}, variant={variant} is not one of fuse's own"
    if device.type == "meta":
        return "the model is on the meta device"
    inputs = definition.inputs(torch.Generator().manual_seed(7), params)
    inputs = inputs[: _taken(takes or eager, definition.least, len(inputs))]
    try:
        results, again = _call_twice(eager, inputs, device)
    except Mismatch as mismatch:
        raise Mismatch(f"{what} cannot stand for it: {mismatch}") from None
    except Exception as error:  # whatever the function raises
        return (
            f"{what} does not support sample inputs of shapes "
            f"{', '.join(str(list(t.shape)) for t in inputs)}: "
            f"{type(error).__name__}: {str(error).splitlines()[0]}"
            if str(error)
            else f"{what} raised {type(error).__name__}"
        )
    if not all(torch.equal(a, b) for a, b in zip(results, again)):
        raise Mismatch(
            f"{what} gives other results for the same inputs, so "
            "no kernel can stand for it"
        )
    off = _distance(results, _exact(definition, inputs, params))
    if off <= TOLERANCE:
        return None
    fits = min(_fitting(op, variant, params, inputs, results), default=None)
    raise Mismatch(
        f"{what} is off by {off:.2g} from variant "
        f"'{variant}' with {_named(params)} (at most "
        f"{TOLERANCE:g} is rounding)"
        + (f"; it computes {fits[1]}" if fits else "")
    )


def _named(params: Params) -> str:
    return (
        ", ".join(f"{name}={value}" for name, value in params.items())
        or "no params"
    )


def required_inputs(eager: Eager) -> int:
    """Number of inputs that a function requires; 0 if it is unknown."""
    count = _taken(eager, 0, sys.maxsize)
    return 0 if count == sys.maxsize else count


def _taken(eager: Eager, least: int, most: int) -> int:
    """Number of inputs to call a function with."""
    try:
        parameters = inspect.signature(eager).parameters.values()
    except (TypeError, ValueError):
        return least
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return most
    count = sum(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        and p.default is p.empty
        for p in parameters
    )
    return max(least, min(count, most))


def _call_twice(
    eager: Eager, inputs: Sequence[Tensor], device: torch.device
) -> tuple[list[Tensor], list[Tensor]]:
    """Results of two calls with consecutive random numbers."""
    cuda = [device] if device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices=cuda),
        torch.no_grad(),
        torch.autocast(device.type, enabled=False),
    ):
        calls = [
            eager(*(t.clone().to(device) for t in inputs)) for _ in range(2)
        ]
    return _tensors(calls[0]), _tensors(calls[1])


def _tensors(value: object) -> list[Tensor]:
    results = list(value) if isinstance(value, (tuple, list)) else [value]
    tensors = [t.cpu() for t in results if isinstance(t, Tensor)]
    if len(tensors) != len(results):
        raise TypeError("the results are not tensors")
    return tensors


def _exact(
    definition: Definition, inputs: Sequence[Tensor], params: Params
) -> list[Tensor]:
    return definition.compute(
        [t.double() if t.is_floating_point() else t for t in inputs], params
    )


def _distance(ours: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """The largest relative difference of a row in the L2 norm."""
    if [t.shape for t in ours] != [t.shape for t in exact]:
        return float("inf")
    worst = 0.0
    for a, b in zip(ours, exact):
        a, b = a.double(), b.double()
        rows = (
            (a - b, b)
            if b.dim() == 0
            else ((a - b).norm(dim=-1), b.norm(dim=-1))
        )
        ratio = rows[0].abs() / rows[1].abs().clamp(min=1e-30)
        worst = max(worst, float(ratio.nan_to_num(float("inf")).max()))
    return worst


def _fitting(
    op: str,
    variant: str,
    params: Params,
    inputs: Sequence[Tensor],
    results: Sequence[Tensor],
) -> Iterator[tuple[float, str]]:
    """Other variants and values of eps that explain the results, with their
    differences."""
    for (name, other), definition in DEFINITIONS.items():
        if name != op:
            continue
        candidates: list[Params] = [params] if other != variant else []
        if "eps" in params:
            candidates += [{**params, "eps": eps} for eps in _EPS]
        given = inputs[:1] if other == "unweighted" else inputs
        if len(given) < definition.least:
            continue
        for candidate in candidates:
            try:
                off = _distance(results, _exact(definition, given, candidate))
            except (RuntimeError, ValueError):
                continue
            if off <= TOLERANCE:
                yield off, f"variant '{other}' with {_named(candidate)}"
