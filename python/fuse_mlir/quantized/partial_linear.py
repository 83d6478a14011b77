# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears whose results are terms of a sum over ranks.

The terms stay in f32, so that the sum is rounded once, as that of a linear on
one device.
"""

from __future__ import annotations

import torch
from torch import nn

from fuse_mlir.support.ops import define


def dtype_of_terms(dtype: torch.dtype) -> torch.dtype:
    """The type of a term of a sum that is rounded to `dtype`."""
    return torch.float32 if dtype.itemsize < 4 else dtype


def _run_partial_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """`x @ weight.T` in at least f32, [..., features]."""
    dtype = dtype_of_terms(x.dtype)
    return nn.functional.linear(x.to(dtype), weight.to(dtype))


def _partial_linear_shape(x, weight):
    return x.new_empty(
        (*x.shape[:-1], weight.shape[0]), dtype=dtype_of_terms(x.dtype)
    )


partial_linear = define(
    "partial_linear(Tensor x, Tensor weight) -> Tensor",
    _run_partial_linear,
    _partial_linear_shape,
)


class PartialLinear(nn.Module):
    """Replaces the shard of a rowwise linear; the importer knows it.

    Args:
        weight: [outputs, inputs of this rank].
    """

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return partial_linear(x, self.weight)
