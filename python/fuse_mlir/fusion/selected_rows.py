# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A norm and a linear that reads some of its rows, such as a last norm and a head.

Models for text compute the logits of the last tokens alone. The place of the
norm returns a stand-in. Where the model selects rows of it, the same rows of the
norm's input are selected. The place of the linear computes the norm and the
linear of these rows with one kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fuse_mlir.fusion.deferred import Deferred, defer, inputs_of
from fuse_mlir.fusion.deferring import DeferringModule
from fuse_mlir.fusion.proxies import FusedPlace
from fuse_mlir.matching.dataflow import selects_rows


class FusedSelection(DeferringModule):
    """Stands for the norm, and computes rows of it with the linear."""

    _num_inputs = 1

    def _stand_in(self, x: torch.Tensor) -> torch.Tensor:
        return defer(x.view_as(x), self, (x,))

    def take(
        self, func: Callable, args: tuple, kwargs: dict[str, Any]
    ) -> object:
        """The stand-in for selected rows."""
        if not selects_rows(func, args, kwargs):
            return NotImplemented
        value, *others = args
        # The result of a norm is contiguous, and its input need not be.
        if func is torch.Tensor.view:
            func = torch.Tensor.reshape
        return self._stand_in(func(inputs_of(value)[0], *others))

    def _other_places(self) -> list[nn.Module]:
        return [SelectedLinear(self.site, self.members[1])]


class SelectedLinear(FusedPlace):
    """Runs the kernel on rows that the model selected of the norm.

    On any other input, it is the linear.
    """

    _fast = None

    def forward(self, *args: object, **kwargs: object) -> torch.Tensor:
        value: Any = args[0] if len(args) == 1 and not kwargs else None
        if (
            type(value) is Deferred
            and value._fuse_value is None
            and value._fuse_host.site == self.site
        ):
            return value._fuse_host.run_kernel(*inputs_of(value))
        return self._member.forward(*args, **kwargs)
