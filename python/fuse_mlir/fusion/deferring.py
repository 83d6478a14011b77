# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A place whose kernel runs where the model reads its result."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling
from torch.utils.hooks import RemovableHandle

from fuse_mlir.compiler.fast_calls import Arguments, Site
from fuse_mlir.fusion.deferred import computed
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.member_checks import is_transformed
from fuse_mlir.matching.proxy import Proxy
from fuse_mlir.support.module_snapshot import is_tracing


class DeferringModule(FusedModule):
    """Returns a stand-in for the result of the first member.

    Programs of torch.compile and torch.export contain the members: they see the
    ops of the model themselves, and cannot trace a stand-in.
    """

    #: Number of tensors that the kernel reads.
    _num_inputs: int
    #: Told of the inputs of each call, by the numbers of their handles.
    _callbacks: Mapping[int, Callable[[list[torch.Tensor]], None]] = (
        MappingProxyType({})
    )

    def forward(self, *args: object, **kwargs: object) -> torch.Tensor:
        if is_dynamo_compiling() or is_tracing():
            return self._member.forward(*args, **kwargs)
        # Classes of places copy this code, so that it has no `super`.
        inputs = self._read(args, kwargs)
        if (
            len(inputs) != 1
            or type(inputs[0]) is not torch.Tensor
            or is_transformed(inputs)
        ):
            return self._member.forward(*args, **kwargs)
        return self._stand_in(inputs[0])

    def _stand_in(self, x: torch.Tensor) -> torch.Tensor:
        """What the place of the first member returns for its input."""
        raise NotImplementedError

    def take(
        self, func: Callable, args: tuple, kwargs: dict[str, Any]
    ) -> object:
        """The result of an op on a stand-in, or NotImplemented for an op that
        is not part of the site."""
        raise NotImplementedError

    def compute(self, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The result of the first member, by itself."""
        return self._member.forward(*inputs)

    def run_kernel(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The result of the site.

        Args:
            inputs: of the kernel, [..., features] each.
        """
        for tell in self._callbacks.values():
            tell(list(inputs))
        fast = self._fast
        if fast is not None:
            result = fast(inputs, {})
            if result is not None:
                return result
        return self._run(inputs, {})

    def inputs(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        # As `run_kernel` passes them.
        return list(args)

    def _read(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """The inputs of the first member."""
        return list(map(computed, super().inputs(args, kwargs)))

    def on_inputs(
        self, tell: Callable[[list[torch.Tensor]], None]
    ) -> RemovableHandle:
        callbacks: dict[int, Any] = OrderedDict()
        handle = RemovableHandle(callbacks)
        callbacks[handle.id] = tell
        self.__dict__["_callbacks"] = callbacks
        return handle

    def _member_alone(
        self, args: tuple, kwargs: dict[str, Any]
    ) -> torch.Tensor:
        return self._run_members(self.inputs(args, kwargs))[0]

    def _tag(
        self, results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        return results[0]

    def _first_input(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        return args[0]

    def _fast_site(self) -> Site | None:
        return None

    def _fast_arguments(self) -> Arguments:
        return Arguments(self._num_inputs, 0, range(self._num_inputs))


Proxy.reserved |= {"_callbacks", "_num_inputs", "run_kernel", "take", "compute"}
