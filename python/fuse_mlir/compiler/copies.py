# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies of members that kernels are made from."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from fuse_mlir.errors import PatternError
from fuse_mlir.matching.activations import RoundedOnce, rounds_inside
from fuse_mlir.matching.moe import looks_like_experts, stand_in
from fuse_mlir.matching.static_mlp import StaticMlp
from fuse_mlir.matching.tensor_parallel import (
    is_distributed,
    is_rowwise,
    local_copy,
    local_of,
)
from fuse_mlir.quantized.fp8_reference import (
    entries_of,
    is_fp8_linear,
    policy_for,
)
from fuse_mlir.quantized.partial_linear import PartialLinear
from fuse_mlir.quantized.stored import (
    INPUT_SCALES,
    Policy,
    StoredLinear,
    make_linear,
    read_linear,
)
from fuse_mlir.quantized.value_range import as_scale, largest_value, quantize


@dataclass
class Copies:
    """Copies of members for kernels, and the parameters they depend on."""

    members: list[nn.Module]
    #: Parameters whose change requires new copies: the owner, the name, and
    #: whether its values count or only its identity.
    watched: list[tuple[nn.Module, str, bool]]
    #: Activations that round once in the copies.
    once: list[str] = field(default_factory=list)

    @property
    def note(self) -> str:
        """How rounding differs from the members; empty if it does not."""
        if not self.once:
            return ""
        return (
            "with "
            + ", ".join(f"'{path}'" for path in self.once)
            + " rounded once"
        )

    def state(self) -> list[tuple[int, int]]:
        """A value that changes when a watched parameter changes."""
        found = []
        for owner, name, values in self.watched:
            tensor = owner._parameters.get(name)
            if tensor is None:
                tensor = getattr(owner, name)
            # Writes to a DTensor count there, and not in the shard.
            shard = local_of(tensor)
            version = (
                tensor._version + (shard is not tensor and shard._version)
                if values and not tensor.is_inference()
                else 0
            )
            found.append((shard.data_ptr(), version))
        return found


def stored_members(
    names: Iterable[str],
    members: Iterable[nn.Module],
    static: StaticMlp | None,
    relaxed: bool = False,
    partial: bool = False,
) -> Copies:
    """Copies of members in which linears with scales are `StoredLinear`s,
    experts are one op, and distributed linears have the shard of this rank.

    Members without any are not copied.

    Args:
        names: of the members, for messages and for the scales of `static`.
        members: the modules, which do not change.
        static: with paths relative to the parent of the members. If given, a
            linear without a stored weight and scales is refused.
        relaxed: whether activations round once.
        partial: whether rowwise linears return terms of a sum in f32.

    Raises:
        Refused: a linear cannot be expressed as it is stored.
        UnknownExperts: no op computes the experts.
    """
    copies = Copies([], [])
    for name, member in zip(names, members):
        copies.members.append(
            _stored_copy(member, name, static, copies, relaxed, partial)
        )
    return copies


def _stored_copy(
    module: nn.Module,
    path: str,
    static: StaticMlp | None,
    copies: Copies,
    relaxed: bool,
    partial: bool,
) -> nn.Module:
    if is_distributed(module):
        local = local_copy(module)
        copies.watched += [
            (module, parameter, True)
            for parameter, tensor in module._parameters.items()
            if tensor is not None
        ]
        if not isinstance(local, nn.Linear):
            return local
        # Its tensors are watched as those of the module.
        linear = _stored_linear(local, path, static, Copies([], []))
        return _partial(linear) if partial and is_rowwise(module) else linear
    if isinstance(module, nn.Linear):
        return _stored_linear(module, path, static, copies)
    if looks_like_experts(module):
        return stand_in(module, path)
    if relaxed and rounds_inside(module):
        copies.once.append(path)
        return RoundedOnce(module)
    children = {
        name: None
        if child is None
        else _stored_copy(
            child, f"{path}.{name}", static, copies, relaxed, partial
        )
        for name, child in module._modules.items()
    }
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    clone = copy.copy(module)
    clone.__dict__["_modules"] = children
    return clone


def _partial(linear: nn.Module) -> nn.Module:
    """The linear with results that are terms of a sum."""
    if isinstance(linear, StoredLinear):
        linear.partial = True
        return linear
    weight = linear._parameters["weight"]
    assert weight is not None
    return PartialLinear(weight)


def _stored_linear(
    module: nn.Linear, path: str, static: StaticMlp | None, copies: Copies
) -> nn.Module:
    chosen = {} if static is None else static.scales.get(path, {})
    entries = entries_of(module)
    shown = None
    trusted = False
    if is_fp8_linear(module):
        copies.watched += [
            (module, name, name not in ("weight", "bias")) for name in entries
        ]
        policy = policy_for(module)
        if "input_scale" in chosen:
            # The user's static scale replaces those that the format measures.
            policy = replace(policy, activations="static", scheme=None)
            for name in INPUT_SCALES:
                entries.pop(name, None)
            entries["input_scale"] = as_scale(chosen["input_scale"])
    elif static is None:
        return module
    elif chosen:
        copies.watched.append((module, "weight", True))
        policy = Policy()
        shown = module.weight.dtype
        # The scale is that of this weight.
        trusted = static.measured
        entries = _quantized(
            module, path, chosen, static.storage, not static.planned
        )
    else:
        # This raises an error that names the missing entry.
        read_linear(path, entries, Policy())
        return module
    if module.weight.is_meta:
        # Without data, any scale is valid.
        entries = {
            name: torch.ones(tensor.shape, dtype=tensor.dtype, device="cpu")
            if "scale" in name
            else tensor
            for name, tensor in entries.items()
        }
    return make_linear(
        path,
        entries,
        policy,
        torch.bfloat16,
        shown=shown,
        trusted=trusted,
        shape=(module.out_features, module.in_features),
    )[0]


def _quantized(
    module: nn.Linear,
    path: str,
    chosen: Mapping[str, Any],
    storage: str,
    values: bool,
) -> dict[str, torch.Tensor]:
    """Entries of a quantized checkpoint for a linear in floating point.

    Args:
        module: the linear.
        path: of it, for messages.
        chosen: its scales.
        storage: type of the weight.
        values: whether the entries need values, or only types and shapes.
    """
    missing = [
        name for name in ("input_scale", "weight_scale") if name not in chosen
    ]
    if missing:
        raise PatternError(
            f"the scales of linear '{path}' have no '{missing[0]}'"
        )
    weight = module.weight.detach()
    scale = chosen["weight_scale"]
    if weight.is_meta or not values:
        stored = {
            "f8E4M3FN": torch.float8_e4m3fn,
            "i8": torch.int8,
            "f8E5M2": torch.float8_e5m2,
        }[storage]
        number = (
            torch.ones(weight.shape[0], device="cpu")
            if scale == "per_channel"
            else as_scale(float(scale))
        )
        return {
            "weight": torch.zeros(
                weight.shape, dtype=stored, device=weight.device
            ),
            "weight_scale": number,
            "input_scale": as_scale(float(chosen["input_scale"])),
            "bias": module.bias,
        }
    if scale == "per_channel":
        largest = largest_value(storage)
        amax = weight.float().abs().amax(dim=1)
        # A channel of zeros has the codes of zero with any scale.
        factor = (
            amax.where(
                amax >= largest * 2.0**-100, torch.full_like(amax, largest)
            )
            / largest
        )
        column = factor[:, None]
    else:
        factor = column = as_scale(float(scale))
    return {
        "weight": quantize(weight, column.to(weight.device), storage),
        "weight_scale": factor,
        "bias": module.bias,
        "input_scale": as_scale(float(chosen["input_scale"])),
    }
