# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Binds the slots of a PyTorch model to kernels, and unbinds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from fuse_mlir.errors import SlotError
from fuse_mlir.native.device import gpu_chip
from fuse_mlir.slots.context import A_CONTEXT, Context
from fuse_mlir.slots.function_kernels import (
    FunctionKernel,
    rename_sources,
)

# Other files of slots import this function from here.
from fuse_mlir.slots.places import (
    Place,
    check_eager,
    check_function,
    device_of,
    find_slots,
    require_slots,
)
from fuse_mlir.support.arguments import require, require_module


def _print_tree(places: Sequence[Place]) -> str:
    """IR with only the slots, for which the compiler selects kernels."""
    lines = ['nn.model @model class "Model" {']
    for key in sorted({(p.slot.op, p.slot.variant) for p in places}):
        lines.append(
            f'nn.slot @"{key[0]}/{key[1]}" op "{key[0]}" '
            f'variant "{key[1]}" : () -> () {{}}'
        )

    def calls(path: str) -> list[str]:
        here = [
            f'nn.call_slot @"{p.slot.op}/{p.slot.variant}"() : () -> ()'
            for p in places
            if p.path == path
        ]
        return ["func.func @forward() {", *here, "return", "}"] if here else []

    def walk(names: set[str], prefix: str) -> None:
        heads = dict.fromkeys(
            name.split(".")[0] for name in sorted(names) if name
        )
        for head in heads:
            path = f"{prefix}{head}"
            lines.append(f'nn.module @"{head}" class "Module" {{')
            walk(
                {
                    name[len(head) + 1 :]
                    for name in names
                    if name.startswith(f"{head}.")
                },
                f"{path}.",
            )
            lines.extend(calls(path))
            lines.append("}")

    walk({p.path for p in places}, "")
    lines.extend([*calls(""), "}"])
    return "\n".join(lines)


def bind(
    model: nn.Module,
    config: Mapping[str, object],
    context: Context,
    *,
    rebind: bool = False,
) -> dict[str, Any]:
    """Binds the slots of one model instance and returns the report.

    After an error, no binding has changed. A model without slots is an error,
    and so is a slot that is bound to another kernel, unless `rebind` is set.

    `config` is that of `fuse-bind-slots`: `bind`, `overrides` by path, `preset`
    and `default`, `mode`. `target` is `cpu` or a chip such as `sm_90`; None
    uses the device of the model.
    """
    if not isinstance(model, nn.Module):
        raise SlotError(
            f"the model is of type {type(model).__name__}; "
            "expected a torch.nn.Module"
        )
    if not isinstance(config, Mapping):
        raise SlotError(
            f"the configuration is a {type(config).__name__}; "
            "expected a mapping such as {'bind': {'rms_norm': "
            "'fuse'}}"
        )
    require(context, Context, "the context", A_CONTEXT)
    places = require_slots(model)
    target = str(config.get("target") or _target(model))
    tree = context.parse(_print_tree(places))
    report = tree.bind({**config, "target": target, "check": True})
    # The report is in the order of the IR; slots of one path keep their order.
    kernels: dict[
        tuple[str, str, str], tuple[str | None, FunctionKernel | None]
    ] = {
        (call["path"], call["op"], call["variant"]): (
            call["kernel"],
            context._functions.get(call.get("source", "")),
        )
        for call in report["calls"]
    }
    rename_sources(report["calls"], context._functions)
    chosen: dict[int, str] = {}
    changes = []
    for place in places:
        slot = place.slot
        kernel, function = kernels[place.path, slot.op, slot.variant]
        if kernel is None:
            continue
        bound = chosen.get(id(slot), None if rebind else slot.kernel)
        if bound is not None and bound != kernel:
            raise SlotError(
                f"slot {place.name} (op={slot.op}, variant={slot.variant}) at "
                f"'{place.path}' is bound to '{bound}'; to bind it to "
                f"'{kernel}' set rebind"
            )
        chosen[id(slot)] = kernel
        changes.append((place, kernel, function))
    unchecked = []
    for place in places:
        if chosen.get(id(place.slot), "eager") != "eager":
            reason = check_eager(model, place)
            if reason is not None:
                unchecked.append(
                    {"path": place.path, "slot": place.name, "reason": reason}
                )
    for place, _, function in changes:
        reason = (
            None
            if function is None
            else check_function(model, place, function, target)
        )
        if reason is not None:
            unchecked.append(
                {"path": place.path, "slot": place.name, "reason": reason}
            )
    for place, kernel, function in changes:
        place.slot._set(
            kernel, context, str(config.get("mode", "")), target, function
        )
    return {**report, "unchecked": unchecked}


def _target(model: nn.Module) -> str:
    device = device_of(model)
    return gpu_chip(device) if device.type == "cuda" else "cpu"


def unbind(model: nn.Module) -> None:
    """Undoes all bindings of a model instance."""
    require_module(model)
    for place in find_slots(model):
        place.slot._set(None, None)
