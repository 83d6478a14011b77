# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A linear whose result a model adds to another tensor.

The output projection of attention is below `self_attn`, and the forward of the
decoder layer adds its result to the residual. The place of the linear returns a
stand-in, and one kernel computes the product and the sum where they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from fuse_mlir.fusion.deferred import Deferred, computed, defer, inputs_of
from fuse_mlir.fusion.deferring import DeferringModule
from fuse_mlir.matching.linears import ADDS
from fuse_mlir.matching.plans import Plan, Source, Step


class ResidualAdd(nn.Module):
    """The op of the model that adds."""

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return other + x


#: The name of `ResidualAdd` in a chain; no module of a model has it.
ADD = "fuse_residual_add"


def _is_identity(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether a dropout with these arguments returns its input."""
    return not kwargs.get("training", args[2] if len(args) > 2 else True)


class FusedLinearAdd(DeferringModule):
    """Stands for a linear, and computes it with the sum that reads it."""

    _num_inputs = 2

    def _chained(
        self, members: Sequence[nn.Module]
    ) -> tuple[Sequence[str], Sequence[nn.Module], Plan]:
        add = Step([Source("step", 0), Source("input", 1)], {})
        return (
            (*self.names, ADD),
            (*members, ResidualAdd()),
            replace(
                self.plan,
                inputs=[*self.plan.inputs, ADD],
                steps=[*self.plan.steps, add],
            ),
        )

    def _stand_in(self, x: torch.Tensor) -> torch.Tensor:
        kernel, member = self._kernel, self._member
        if (
            kernel is not None
            and not self._callbacks
            and self._prefers_members(x, kernel)
        ):
            return member.forward(x)
        features = kernel and kernel.compiled.result.dims[-1]
        if not isinstance(features, int):
            return member.forward(x)
        like = (
            x.view_as(x)
            if features == x.shape[-1]
            else x[..., :1].expand(*x.shape[:-1], features)
        )
        return defer(like, self, (x,))

    def take(
        self, func: Callable, args: tuple, kwargs: dict[str, Any]
    ) -> object:
        """The sum of the linear and another tensor. A dropout that does nothing
        may come first."""
        if func is nn.functional.dropout:
            return args[0] if _is_identity(args, kwargs) else NotImplemented
        if getattr(func, "__name__", "") not in ADDS or kwargs:
            return NotImplemented
        value, other = args
        if not isinstance(value, Deferred) or value._fuse_host is not self:
            value, other = other, value
        other = computed(other)
        if (
            not isinstance(other, torch.Tensor)
            or value._fuse_value is not None
            or (other.shape, other.dtype, other.device)
            != (value.shape, value.dtype, value.device)
        ):
            return NotImplemented
        return self.run_kernel(*inputs_of(value), other)
