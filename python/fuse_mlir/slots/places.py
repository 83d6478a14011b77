# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the slots of a model and checks their eager functions."""

from __future__ import annotations

import dis
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from fuse_mlir.errors import SlotError
from fuse_mlir.slots import check as slot_check
from fuse_mlir.slots.function_kernels import FunctionKernel, reads_only
from fuse_mlir.slots.op_slot import OpSlot


@dataclass(frozen=True)
class Place:
    """An attribute of a module that holds a slot."""

    path: str
    name: str
    slot: OpSlot


def find_slots(model: nn.Module) -> Iterator[Place]:
    """All slots of a model, in the order of its modules."""
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, OpSlot):
                yield Place(path, name, value)


def require_slots(model: nn.Module) -> list[Place]:
    """All slots of a model, of which there is at least one.

    Raises:
        SlotError: there is none, or a slot is a global of a module.
    """
    refuse_globals(model)
    places = list(find_slots(model))
    if not places:
        raise SlotError(
            f"{type(model).__name__} has no slots; assign them in __init__ of "
            "its modules: self.norm = OpSlot('rms_norm', ...); or add them to "
            "a model of transformers: fuse_mlir.slots.models.add_slots(model), "
            "fuse_mlir.slots.moe.add_expert_slots(model)"
        )
    return places


def device_of(model: nn.Module) -> torch.device:
    """The device of a model's first tensor; the CPU without tensors."""
    tensor = next(itertools.chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if tensor is None else tensor.device


def check_eager(model: nn.Module, place: Place) -> str | None:
    """Why the eager function of a slot was not compared, or None.

    Raises:
        SlotError: the function does not compute the op of the slot.
    """
    slot = place.slot
    try:
        return slot_check.check(
            slot.op, slot.variant, slot.params, slot.eager, device_of(model)
        )
    except slot_check.Mismatch as mismatch:
        raise SlotError(
            f"slot {place.name} (op={slot.op}, variant={slot.variant}) of "
            f"{_at(place.path)} is not what it says: {mismatch}"
        ) from None


def check_function(
    model: nn.Module, place: Place, kernel: FunctionKernel, target: str
) -> str | None:
    """Why a Python function was not compared, or None.

    Raises:
        SlotError: its factory fails, or the function does not compute the op
            of the slot.
    """
    slot, device = place.slot, device_of(model)
    function = kernel.bind_params(
        slot.params, slot_check.required_inputs(slot.eager)
    )
    if (slot.op, slot.variant) not in slot_check.DEFINITIONS:
        return None  # The report of the eager function has the reason.
    if (target == "cpu") != (device.type == "cpu"):
        return (
            f"{kernel.spec} is bound for {target}, and the model is on {device}"
        )
    try:
        return slot_check.check(
            slot.op,
            slot.variant,
            slot.params,
            reads_only(function),
            device,
            what=f"kernel '{kernel.spec.name}'",
            takes=slot.eager,
        )
    except slot_check.Mismatch as mismatch:
        raise SlotError(
            f"{kernel.spec} does not fit slot {place.name} of "
            f"{_at(place.path)}: {mismatch}"
        ) from None


def refuse_globals(model: nn.Module) -> None:
    """Refuses slots that are globals of the file of a module's class.

    All models of the process would share their bindings.
    """
    for path, module in model.named_modules():
        for kind in type(module).__mro__:
            if not issubclass(kind, nn.Module):
                continue
            for name in _globals_of(kind):
                raise SlotError(
                    f"slot '{name}' is a global of '{kind.__module__}', which "
                    f"{kind.__name__} ({_at(path)}) reads; a binding belongs "
                    "to one model, so assign the slot in __init__: self."
                    f"{name.lower()} = OpSlot(...)"
                )


def _at(path: str) -> str:
    return f"'{path}'" if path else "the model"


def _globals_of(kind: type) -> Iterator[str]:
    """Names of slots that methods of a class read as globals."""
    for method in vars(kind).values():
        code = getattr(method, "__code__", None)
        if code is None:
            continue
        found = {
            name
            for name in code.co_names
            if isinstance(method.__globals__.get(name), OpSlot)
        }
        # An attribute may have the same name as a global.
        if found:
            yield from sorted(
                {
                    i.argval
                    for i in dis.get_instructions(code)
                    if i.opname == "LOAD_GLOBAL"
                }
                & found
            )
