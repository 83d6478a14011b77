# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What modules consist of, and whether PyTorch traces a call."""

from __future__ import annotations

import torch
from torch import nn

#: Attributes of every module.
STANDARD = frozenset(vars(nn.Module()))
#: Hooks on every module of the process.
GLOBAL_HOOKS = tuple(
    getattr(nn.modules.module, f"_global_{kind}_hooks")
    for kind in ("forward_pre", "forward", "backward_pre", "backward")
)
#: Types of values that are compared directly.
SCALARS = (bool, int, float, str, type(None), torch.dtype)


def is_tracing() -> bool:
    """Whether this thread compiles or exports a model that it calls.

    `torch.compiler.is_compiling` is true in all threads while one of them
    exports a model.
    """
    return (
        torch.compiler.is_dynamo_compiling()
        or torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() > 0
    )


def is_exporting() -> bool:
    """Whether this thread exports a model that it calls.

    In PyTorch 2.11, `torch.compiler.is_exporting` is also true while
    torch.compile traces.
    """
    flag = getattr(torch.compiler, "_is_exporting_flag", None)
    return is_tracing() and (
        torch.compiler.is_exporting() if flag is None else flag
    )


def has_own_forward(module: nn.Module) -> bool:
    """Whether calls of a module run another forward than that of its class.

    The package `kernels` sets the attribute `forward` of each layer that it may
    replace, even to the forward of its class.
    """
    own = vars(module).get("forward")
    return own is not None and not (
        getattr(own, "__self__", None) is module
        and getattr(own, "__func__", None) is type(module).forward
    )


def plain(value: object) -> tuple[str, object] | None:
    """A comparable form of numbers, texts, and lists and mappings of them.

    Returns:
        The name of the type and the value. None for anything else.
    """
    if isinstance(value, SCALARS):
        return type(value).__name__, value
    if isinstance(value, (tuple, list, set, frozenset)):
        found = [plain(v) for v in value]
        if all(f is not None for f in found):
            return type(value).__name__, tuple(
                sorted(found, key=repr)
                if isinstance(value, (set, frozenset))
                else found
            )
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        items = [(k, plain(v)) for k, v in value.items()]
        if all(v is not None for _, v in items):
            return type(value).__name__, tuple(items)
    return None


def leaves(value: object) -> list[object]:
    """Objects in lists and mappings that cannot be compared, such as tensors.

    They are identical as long as none is replaced.
    """
    if isinstance(value, dict):
        return [v for item in value.items() for v in leaves(item)]
    if isinstance(value, (tuple, list, set, frozenset)):
        return [len(value), *(v for part in value for v in leaves(part))]
    return [value]
