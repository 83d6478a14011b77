# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the slots of a model with their definitions and kernels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fuse_mlir.errors import SlotError
from fuse_mlir.slots.call import results_of
from fuse_mlir.slots.op_slot import OpSlot
from fuse_mlir.slots.places import (
    Place,
    check_eager,
    require_slots,
)
from fuse_mlir.support.arguments import require_module


@dataclass(frozen=True)
class SlotCheck:
    """The result of `verify` for one slot."""

    path: str
    slot: str
    #: `eager`, the name of a kernel, or None while it is unbound.
    kernel: str | None
    passed: bool
    detail: str


class SlotChecks(list[SlotCheck]):
    """The results for all slots of a model; true if none failed."""

    def __bool__(self) -> bool:
        return all(check.passed for check in self)

    def __str__(self) -> str:
        return "".join(
            f"{'ok' if c.passed else 'FAILED':6}  {c.path}.{c.slot}  "
            f"{c.kernel or 'unbound'}  {c.detail}\n"
            for c in self
        )


def verify(model: nn.Module, *inputs: object) -> SlotChecks:
    """Compares every slot with its definition and with its kernel.

    The eager function is compared with the op, variant and params on small
    inputs. With inputs of the model, the kernel is also compared with the
    eager function, on the inputs of the slot in that call.

    Args:
        model: bound or not.
        inputs: positional arguments of one call; without inputs, kernels are
            not compared.

    Returns:
        One entry per slot. The reference is the eager function in f64. A kernel
        passes if its error is at most three times that of the eager function in
        its own dtype, or two units in the last place of that dtype.

    Raises:
        SlotError: the model has no slots, or one is a global of a module.
    """
    require_module(model)
    places = require_slots(model)
    seen = _inputs_of(model, places, inputs) if inputs else {}
    found = SlotChecks()
    for place in places:
        slot = place.slot
        try:
            reason = check_eager(model, place)
            detail = (
                f"not compared with its definition: {reason}"
                if reason
                else "the eager function is what the slot says"
            )
            passed = True
        except SlotError as error:
            detail, passed = str(error), False
        if passed and slot.has_kernel and id(slot) in seen:
            passed, more = _compare_kernel(slot, seen[id(slot)])
            detail += f"; {more}"
        elif passed and slot.has_kernel:
            detail += "; the kernel did not run: pass inputs that reach it"
        found.append(
            SlotCheck(place.path, place.name, slot.kernel, passed, detail)
        )
    return found


def _inputs_of(
    model: nn.Module, places: Sequence[Place], inputs: Sequence[Any]
) -> dict[int, tuple[Tensor, ...]]:
    """The inputs of the first call of each slot."""
    seen: dict[int, tuple[Tensor, ...]] = {}
    slots = [place.slot for place in places]

    def record(slot: OpSlot, *args: Tensor) -> object:
        seen.setdefault(id(slot), tuple(t.detach().clone() for t in args))
        return slot.eager(*args)

    for slot in slots:
        slot._recorder = functools.partial(record, slot)
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for slot in slots:
            slot._recorder = None
    return seen


def _compare_kernel(
    slot: OpSlot, inputs: tuple[Tensor, ...]
) -> tuple[bool, str]:
    with torch.no_grad():
        ours = results_of(slot(*inputs))
        eager = results_of(slot.eager(*inputs))
        exact = results_of(
            slot.eager(
                *(t.double() if t.is_floating_point() else t for t in inputs)
            )
        )
    worst, bound = 0.0, 0.0
    for a, b, c in zip(ours, eager, exact):
        scale = max(float(c.double().norm()), 1e-300)
        off = float((a.double() - c.double()).norm()) / scale
        own = float((b.double() - c.double()).norm()) / scale
        limit = 3 * own + 2 * torch.finfo(a.dtype).eps
        if off / limit >= worst / max(bound, 1e-300):
            worst, bound = off, limit
    return worst <= bound, (
        f"kernel '{slot.kernel}' is off by {worst:.2e} of at most {bound:.2e}"
    )
