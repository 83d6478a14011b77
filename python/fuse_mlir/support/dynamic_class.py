# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Subclasses that override methods of a live module.

Only the module's `__class__` is replaced, so that its names, parameters and
hooks do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

Kind = type[nn.Module]


class Derived:
    """Makes one subclass, with the same name, for each class of modules.

    Args:
        mark: attribute of the subclasses with the original class.
        restore: makes a module from the original class while pickle loads it;
            a global function, because pickle saves its name.
        methods: returns the methods of the subclass of a class.
    """

    def __init__(
        self,
        mark: str,
        restore: Callable[[Kind], nn.Module],
        methods: Callable[[Kind], dict[str, Any]],
    ) -> None:
        self._mark = mark
        self._restore = restore
        self._methods = methods
        self._made: dict[Kind, Kind] = {}

    def of(self, kind: Kind) -> Kind:
        """The subclass of a class, always the same one.

        A class that was made here is returned as it is.
        """
        if self._mark in vars(kind):
            return kind
        if kind not in self._made:

            def reduce(module: nn.Module, _protocol: object) -> tuple:
                return self._restore, (kind,), state_of(module)

            made = type(
                kind.__name__,
                (kind,),
                {
                    "__reduce_ex__": reduce,
                    "__module__": kind.__module__,
                    "__doc__": kind.__doc__,
                    "__qualname__": kind.__qualname__,
                    self._mark: kind,
                    **self._methods(kind),
                },
            )
            # All threads get the same class.
            self._made.setdefault(kind, made)
        return self._made[kind]

    def put_on(self, module: nn.Module) -> None:
        """Replaces the class of `module` by its subclass."""
        module.__class__ = self.of(type(module))

    def origin(self, kind: Kind) -> Kind | None:
        """The original class of `kind` or of its bases; None without one."""
        return getattr(kind, self._mark, None)

    def new(self, kind: Kind) -> nn.Module:
        """A module of the subclass of `kind` without state."""
        made = self.of(kind)
        return made.__new__(made)


def state_of(module: nn.Module) -> object:
    """The state that pickle saves of a module."""
    # Objects have the method since Python 3.11.
    own = getattr(module, "__getstate__", None)
    return own() if own is not None else module.__dict__
