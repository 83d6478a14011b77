# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Subclasses that override methods of a live module.

The module's `__class__` is replaced, so that its names, parameters and hooks
stay what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

Kind = type[nn.Module]


class Derived:
    """One subclass for each class of modules, which has its name.

    Args:
        mark: attribute of the subclasses that holds what they stand for.
        restore: makes a module from that class, for modules that are loaded;
            a function of a Python module, since it is saved by its name.
        methods: those of the subclass of a class.
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
        """The subclass of a class, the same one each time; a subclass that
        was made here is its own."""
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
            # Threads that come here at once get one class.
            self._made.setdefault(kind, made)
        return self._made[kind]

    def put_on(self, module: nn.Module) -> None:
        """Makes `module` one of the subclass of its class."""
        module.__class__ = self.of(type(module))

    def origin(self, kind: Kind) -> Kind | None:
        """The class that `kind`, or a base of it, stands for, if it does."""
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
