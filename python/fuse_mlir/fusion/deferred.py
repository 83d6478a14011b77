# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results that are computed when the model reads them.

A kernel may contain ops that stand in the code of a model and not in a module,
such as the selection of rows between the last norm and the head. The place of
the first member then returns a stand-in. An op that belongs to the site goes to
the place, which may run the kernel. Any other op computes the member's own
result first, so that a model may read it whenever it wants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import torch
from torch.utils._pytree import tree_map

from fuse_mlir.errors import FuseError
from fuse_mlir.support.metadata_ops import METADATA

ValueT = TypeVar("ValueT")


class Host(Protocol):
    """The place that made a stand-in."""

    site: str

    def take(
        self, func: Callable, args: tuple, kwargs: dict[str, Any]
    ) -> object:
        """The result of an op of the site, or NotImplemented."""

    def compute(self, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The member's own result."""


class Deferred(torch.Tensor):
    """A stand-in with the shape, the type and the device of a result."""

    _fuse_host: Host
    #: The inputs of the member, and how often each was written to.
    _fuse_inputs: tuple[torch.Tensor, ...]
    _fuse_versions: tuple[int, ...]
    #: The result, once something has read it.
    _fuse_value: torch.Tensor | None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name, kwargs = getattr(func, "__name__", str(func)), kwargs or {}
        if name in METADATA and name not in ("__repr__", "data_ptr"):
            with torch._C.DisableTorchFunctionSubclass():
                result = func(*args, **kwargs)
            if not isinstance(result, torch.Tensor):
                return result
        for value in args:
            if isinstance(value, Deferred) and value._fuse_value is None:
                result = value._fuse_host.take(func, args, kwargs)
                if result is not NotImplemented:
                    return result
        args, kwargs = tree_map(computed, (args, kwargs))
        return func(*args, **kwargs)


def computed(value: ValueT) -> ValueT:
    """The result that a stand-in stands for; other values as they are.

    Raises:
        FuseError: the inputs of the member changed since its call.
    """
    if not isinstance(value, Deferred):
        return value
    if value._fuse_value is None:
        value._fuse_value = value._fuse_host.compute(inputs_of(value))
    return cast(ValueT, value._fuse_value)


def inputs_of(value: Deferred) -> tuple[torch.Tensor, ...]:
    """The inputs of the member whose result `value` stands for.

    Raises:
        FuseError: they changed since the call of the member.
    """
    if tuple(map(version, value._fuse_inputs)) != value._fuse_versions:
        host = value._fuse_host
        raise FuseError(
            "FUSE-N206 not-a-chain: in this call the model changed the input "
            f"of the first member of site '{host.site}' in place, before it "
            "read the result; unfuse this site"
        )
    return value._fuse_inputs


def defer(
    like: torch.Tensor, host: Host, inputs: tuple[torch.Tensor, ...]
) -> torch.Tensor:
    """A stand-in.

    Args:
        like: a new tensor with the shape and type of the result. Its values are
            never read.
        host: the place that computes the result.
        inputs: of the member.
    """
    made: Any = like
    made.__class__ = Deferred
    made._fuse_host = host
    made._fuse_inputs = inputs
    made._fuse_versions = tuple(map(version, inputs))
    made._fuse_value = None
    return made


def version(tensor: torch.Tensor) -> int:
    """The number of writes to a tensor; 0 where PyTorch does not count them."""
    return 0 if tensor.is_inference() else tensor._version
