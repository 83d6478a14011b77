# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recognizes experts of mixtures of experts as `fuse.moe_experts`.

Models implement experts in many ways: loops over the selected ones, grouped
products, kernels. All of them compute the same function. A module is recognized
if a copy with small weights computes it, whatever its code looks like.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from fuse_mlir.errors import UnknownExperts
from fuse_mlir.support.dynamic_class import Derived, Kind
from fuse_mlir.support.messages import first_line
from fuse_mlir.support.module_snapshot import is_exporting
from fuse_mlir.support.ops import define

#: Names of activations in fuse.
ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
}
_WEIGHTS = ("gate_up_proj", "down_proj")
#: Sizes of the copy that is tried: features and hidden features.
_FEATURES, _HIDDEN = 16, 8
#: Scales of the inputs. Small values tell activations apart; large ones show
#: whether a model clamps values.
_SCALES = (0.2, 3.0)
_TOLERANCE = 2e-5


def _run(
    x: torch.Tensor,
    index: torch.Tensor,
    weights: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    act: str,
) -> torch.Tensor:
    """Gated MLPs of the experts of each token, rounded as `fuse.moe_experts`.

    Args:
        x: [token, feature].
        index: [token, choice]; indices without an expert add nothing.
        weights: [token, choice], factors of the results.
        gate_up: [expert, 2 * hidden, feature], the rows of the gate first.
        down: [expert, feature, hidden].
        act: of `ACTIVATIONS`.

    Returns:
        [token, feature] of the type of `x`.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    total = torch.zeros_like(x, dtype=wide)
    for expert, (first, second) in enumerate(zip(gate_up, down)):
        token, choice = torch.where(index == expert)
        if not len(token):
            continue
        gate, up = F.linear(x[token], first).chunk(2, dim=-1)
        result = F.linear(ACTIVATIONS[act](gate) * up, second)
        result = (result * weights[token, choice, None]).to(x.dtype)
        total.index_add_(0, token, result.to(wide))
    return total.to(x.dtype)


def _shape(x, index, weights, gate_up, down, act):
    return x.new_empty(x.shape)


moe_experts = define(
    "moe_experts(Tensor x, Tensor index, Tensor weights, Tensor gate_up, "
    "Tensor down, str act) -> Tensor",
    _run,
    _shape,
)


def looks_like_experts(module: nn.Module) -> bool:
    """Whether a module holds the weights of several experts itself."""
    counts = [
        p.shape[0]
        for p in module._parameters.values()
        if p is not None and p.dim() == 3
    ]
    # Positions and tokens of an image are [1, ..., feature].
    return len(counts) > 1 and min(counts) == max(counts) > 1


def activation_of(module: nn.Module, path: str) -> str:
    """The activation of experts, when they are `fuse.moe_experts`.

    Args:
        module: with [expert, 2 * hidden, feature] and [expert, feature,
            hidden] as its tensors; called with rows, indices and factors.
        path: of the module, for messages.

    Raises:
        UnknownExperts: other tensors, other shapes, or another function.
    """
    held = dict(module.named_parameters()) | dict(module.named_buffers())
    if set(held) != set(_WEIGHTS):
        raise UnknownExperts(
            f"experts '{path}' have the tensors "
            + ", ".join(sorted(held))
            + "; expected "
            + " and ".join(_WEIGHTS)
        )
    first, second = (held[name].shape for name in _WEIGHTS)
    if len(first) != 3 or (first[0], first[2], first[1]) != (
        second[0],
        second[1],
        2 * second[2],
    ):
        raise UnknownExperts(
            f"experts '{path}' have weights of the shapes {list(first)} and "
            f"{list(second)}; expected [experts, 2 * hidden, features] and "
            "[experts, features, hidden]"
        )
    off = {}
    for act in ACTIVATIONS:
        off[act] = max(
            _difference(module, path, act, scale) for scale in _SCALES
        )
        if off[act] < _TOLERANCE:
            return act
    raise UnknownExperts(
        f"experts '{path}' compute another function than gated MLPs with "
        f"{', '.join(ACTIVATIONS)}: small ones of {type(module).__name__} are "
        f"off by {min(off.values()):.1e} of the largest result at least"
    )


def _difference(module: nn.Module, path: str, act: str, scale: float) -> float:
    """The difference between a small copy of `module` and the op, relative to
    the largest result."""
    source = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return (
            torch.randn(
                shape, generator=source, dtype=torch.float32, device="cpu"
            )
            * scale
        )

    count, features, hidden = module.get_parameter("down_proj").shape
    gate_up = normal(count, 2 * _HIDDEN, _FEATURES)
    down = normal(count, _FEATURES, _HIDDEN)
    x = normal(6, _FEATURES)
    scores = torch.rand((6, count), generator=source, device="cpu")
    weights, index = scores.topk(min(2, count))
    small = copy.copy(module)
    small.__dict__["_parameters"] = {
        name: nn.Parameter(tensor, requires_grad=False)
        for name, tensor in zip(_WEIGHTS, (gate_up, down))
    }
    # Forwards read sizes that __init__ stored as attributes.
    sizes = {2 * hidden: 2 * _HIDDEN, hidden: _HIDDEN, features: _FEATURES}
    for name, value in vars(module).items():
        if type(value) is int and value in sizes and "expert" not in name:
            small.__dict__[name] = sizes[value]
    try:
        with torch.no_grad():
            ours = type(module).forward(small, x, index, weights)
            theirs = moe_experts(x, index, weights, gate_up, down, act)
            return float((ours - theirs).abs().max() / theirs.abs().max())
    # Whatever the forward raises is about the module.
    except Exception as error:
        raise UnknownExperts(
            f"experts '{path}' do not run with rows, indices and factors: "
            f"{first_line(error)}"
        ) from error


def stand_in(module: nn.Module, path: str) -> nn.Module:
    """A copy that is one op in an export, and the module elsewhere.

    It shares the parameters of `module`.

    Raises:
        UnknownExperts: as `activation_of`.
    """
    clone = copy.copy(module)
    _STAND_INS[activation_of(module, path)].put_on(clone)
    return clone


def _methods(act: str, kind: Kind) -> dict[str, Any]:
    def forward(
        self: nn.Module, *args: object, **kwargs: object
    ) -> torch.Tensor:
        x, index, weights = (
            inspect.signature(kind.forward).bind(self, *args, **kwargs).args[1:]
        )
        if not is_exporting():
            # Decorators of transformers replace forwards by grouped products,
            # which do not support double precision.
            own = (
                inspect.unwrap(kind.forward)
                if x.dtype is torch.float64
                else kind.forward
            )
            return own(self, x, index, weights)
        return moe_experts(
            x, index, weights, self.gate_up_proj, self.down_proj, act
        )

    return {"forward": forward}


def _restore(act: str, kind: Kind) -> nn.Module:
    return _STAND_INS[act].new(kind)


_STAND_INS = {
    act: Derived(
        "_fuse_stands_in_for",
        functools.partial(_restore, act),
        functools.partial(_methods, act),
    )
    for act in ACTIVATIONS
}
