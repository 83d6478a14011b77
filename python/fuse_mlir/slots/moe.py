# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slots of the op `moe_experts` in models that were written without slots."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from torch import nn

from fuse_mlir.errors import SlotError, UnknownExperts
from fuse_mlir.matching.moe import (
    activation_of,
    looks_like_experts,
    moe_experts,
)
from fuse_mlir.slots.op_slot import OpSlot
from fuse_mlir.support.arguments import require_module
from fuse_mlir.support.dynamic_class import Derived, Kind

#: Attribute of experts that holds their slot.
ATTRIBUTE = "experts_slot"


def add_expert_slots(model: nn.Module) -> list[str]:
    """Adds a slot to all experts of a model, for `slots.bind`.

    Experts are modules with parameters [expert, 2 * hidden, feature] and
    [expert, feature, hidden], as in Mixtral and Qwen3-MoE. Routers do not
    change. Bound to `eager`, experts run their own code. Only the classes of
    modules of this model change, not their names or parameters.

    Returns:
        The paths of the experts.

    Raises:
        SlotError: the model has no experts, or experts that compute another
            function; then nothing changes.
    """
    require_module(model)
    found = [
        (path, module)
        for path, module in model.named_modules()
        if looks_like_experts(module) and _SLOTTED.origin(type(module)) is None
    ]
    if not found:
        raise SlotError(f"{type(model).__name__} has no experts without a slot")
    try:
        acts = [activation_of(module, path) for path, module in found]
    except UnknownExperts as error:
        raise SlotError(str(error)) from error
    for (_, module), act in zip(found, acts):
        slot = OpSlot(
            "moe_experts",
            params={"act": act},
            eager=functools.partial(_eager, act=act),
        )
        setattr(module, ATTRIBUTE, slot)
        _SLOTTED.put_on(module)
    return [path for path, _ in found]


def remove_expert_slots(model: nn.Module) -> list[str]:
    """Undoes `add_expert_slots`, whether the slots are bound or not."""
    require_module(model)
    paths = []
    for path, module in model.named_modules():
        kind = _SLOTTED.origin(type(module))
        if kind is not None:
            module.__class__ = kind
            delattr(module, ATTRIBUTE)
            paths.append(path)
    return paths


def _eager(
    x: torch.Tensor,
    index: torch.Tensor,
    weights: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    act: str,
) -> torch.Tensor:
    return moe_experts(x, index, weights, gate_up, down, act)


def _methods(kind: Kind) -> dict[str, Any]:
    def forward(
        self: nn.Module, *args: object, **kwargs: object
    ) -> torch.Tensor:
        slot = getattr(self, ATTRIBUTE)
        if slot.kernel == "eager":
            return kind.forward(self, *args, **kwargs)
        inputs = (
            inspect.signature(kind.forward).bind(self, *args, **kwargs).args[1:]
        )
        return slot(*inputs, self.gate_up_proj, self.down_proj)

    return {"forward": forward}


def _restore(kind: Kind) -> nn.Module:
    return _SLOTTED.new(kind)


_SLOTTED = Derived("_fuse_slotted_from", _restore, _methods)
