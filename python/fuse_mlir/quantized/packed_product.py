# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The op of linears whose weights have 4 bits, which the importer knows."""

from __future__ import annotations

import torch

from fuse_mlir.quantized.contract import Quant, parse_quant, with_bias
from fuse_mlir.quantized.four_bits import (
    GROUP_SCALE_TYPES,
    SCALE,
    TENSOR_SCALE,
    WEIGHT,
    Entries,
    Packed,
    real_weight,
)


def packed_quant(packed: Packed, parts: Entries) -> Quant:
    """The contract of a linear.

    Args:
        packed: its format.
        parts: of it, in the order of kernels.
    """
    scale = parts[SCALE]
    point = packed.zero_point
    return Quant(
        packed.storage,
        "group",
        activations="none",
        weight_group=2 * parts[WEIGHT].shape[1] // scale.shape[1],
        scale_type=packed.scale_type or GROUP_SCALE_TYPES[scale.dtype],
        zero_points="group" if isinstance(point, str) else point,
        tensor_scale=packed.tensor_op if TENSOR_SCALE in parts else "none",
    )


@torch.library.custom_op("fuse_mlir::packed_linear", mutates_args=())
def packed_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    tensor_scale: torch.Tensor | None,
    bias_place: str,
    quant: str,
) -> torch.Tensor:
    """A linear on a weight of 4 bits, with the arithmetic of the fuse ops.

    Sums are in f64, so that their order does not matter.
    """
    contract = parse_quant(quant)
    real = real_weight(
        weight,
        scale,
        zero_point
        if contract.zero_points == "group"
        else None
        if contract.zero_points is None
        else int(contract.zero_points),
        tensor_scale,
        contract.storage,
        contract.tensor_scale,
        x.dtype,
    )
    total = (x.double() @ real.double().t()).float()
    return with_bias(total, bias, bias_place, x.dtype)


@packed_linear.register_fake
def _packed_linear_shape(
    x, weight, bias, scale, zero_point, tensor_scale, bias_place, quant
):
    return x.new_empty((*x.shape[:-1], weight.shape[0]))
