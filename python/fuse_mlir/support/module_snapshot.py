# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks whether modules changed after a kernel was made from them.

A kernel replaces the code of its members. A host can change that code: by
hooks, by other children, by attributes that a forward reads, by another forward
of a class. Before each call, the identities of all these objects are compared,
without a loop in Python. Values are compared only if an identity differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import is_
from typing import Any

import torch
from torch import nn

#: Attributes of every module.
STANDARD = frozenset(vars(nn.Module()))
_HOOKS = ("_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
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


class Watch:
    """A snapshot of members, without the values of their tensors.

    Args:
        members: the modules; pre-hooks of the first one may change.
        own_hooks: whether other hooks of the first one may change too.
    """

    def __init__(
        self, members: Sequence[nn.Module], own_hooks: bool = False
    ) -> None:
        self._modules = _below(members)
        self._types = [type(m) for m in self._modules]
        self._forwards = [(t, t.forward) for t in dict.fromkeys(self._types)]
        self._dicts = [vars(m) for m in self._modules] + [
            m._modules for m in self._modules
        ]
        self._sizes = [len(d) for d in self._dicts]
        self._values = list(self._held())
        self._hooks = [
            getattr(m, name)
            for m in self._modules
            for name in _HOOKS
            if not own_hooks or m is not members[0]
        ] + [m._forward_pre_hooks for m in self._modules if m is not members[0]]
        # Lists and mappings change in place.
        held = [
            value
            for m in self._modules
            for name, value in vars(m).items()
            if name not in STANDARD and isinstance(value, (list, dict, set))
        ]
        self._contents = [
            (value, plain(value)) for value in held if plain(value) is not None
        ]
        self._leaves = [
            (value, leaves(value)) for value in held if plain(value) is None
        ]

    def _held(self) -> Iterator[object]:
        return chain.from_iterable(map(dict.values, self._dicts))

    def same(self) -> bool:
        """Whether nothing was replaced, added, or hooked since the snapshot."""
        return (
            list(map(len, self._dicts)) == self._sizes
            and all(map(is_, self._values, self._held()))
            and not any(self._hooks)
            and not any(GLOBAL_HOOKS)
            and all(map(is_, map(type, self._modules), self._types))
            and all(t.forward is f for t, f in self._forwards)
            and all(plain(v) == before for v, before in self._contents)
            and all(_are(leaves(v), before) for v, before in self._leaves)
        )

    def has_modules(self, members: Sequence[nn.Module]) -> bool:
        """Whether `members` still consist of the same modules."""
        return _are(_below(members), self._modules)


def _are(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))


def _below(members: Sequence[nn.Module]) -> list[nn.Module]:
    return [m for member in members for m in member.modules()]
