# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether modules still are what a kernel was made of.

A kernel stands for the code of its members, which the host can change: by
hooks, by other children, by attributes that a forward reads, by another forward
of a class. Each call compares the identity of all of that, in the extension
where there is one. Values are compared only when an identity differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import is_
from typing import Any

from torch import nn

from fuse_mlir import native
from fuse_mlir.support.module_snapshot import (
    GLOBAL_HOOKS,
    STANDARD,
    leaves,
    plain,
)

_HOOKS = ("_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


class Watch:
    """What members are made of, but for the values of their tensors.

    Args:
        members: pre-hooks of the first one itself may change.
        own_hooks: whether its other hooks may, too.
        hooked: modules that have hooks, which stay the same.
    """

    def __init__(
        self,
        members: Sequence[nn.Module],
        own_hooks: bool = False,
        hooked: Sequence[nn.Module] = (),
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
        known = {
            id(d): d
            for m in hooked
            for name in (*_HOOKS, "_forward_pre_hooks")
            if (d := getattr(m, name))
        }
        self._hooks = [d for d in self._hooks if id(d) not in known]
        # Lists and mappings change in place.
        held = list(known.values()) + [
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
        self._held_containers = held
        self.guard = self._make_guard()

    def _make_guard(self) -> native.Guard | None:
        """The same without Python; None where there is no extension."""
        module = native.extension()
        if module is None:
            return None
        guard = module.Guard(
            self._dicts,
            [*self._hooks, *GLOBAL_HOOKS],
            self._modules,
            [kind for kind, _ in self._forwards],
            self._held_containers,
        )
        # Another thread may have changed a module meanwhile. A guard of the
        # changed one would never notice.
        return guard if self._same_values() else None

    def _held(self) -> Iterator[object]:
        return chain.from_iterable(map(dict.values, self._dicts))

    def same(self) -> bool:
        """Whether nothing was replaced, added, or hooked since."""
        if self.guard is not None and self.guard.same():
            return True
        if not self._same_values():
            return False
        # Lists with equal values are the same here, and others for the guard.
        self.guard = self._make_guard()
        return True

    def _same_values(self) -> bool:
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
        """Whether `members` consist of the same modules still."""
        return _are(_below(members), self._modules)


def _are(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))


def _below(members: Sequence[nn.Module]) -> list[nn.Module]:
    return [m for member in members for m in member.modules()]
