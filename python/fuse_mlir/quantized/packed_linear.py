# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears of loaded models whose weights have 4 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from fuse_mlir.quantized.contract import Scheme
from fuse_mlir.quantized.four_bits import (
    SCALE,
    TENSOR_SCALE,
    WEIGHT,
    ZERO_POINT,
    check_packed,
    read_packed,
    write_packed,
)
from fuse_mlir.quantized.packed_product import packed_linear
from fuse_mlir.quantized.stored import Policy, read_linear

#: Integers, which no conversion of a module changes, by their size in bytes.
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class PackedLinear(nn.Linear):
    """A linear that keeps the codes of 4 bits of its file.

    `weight` has the order of kernels, see `four_bits`. The state dict has the
    entries of the file.

    Args:
        path: of the linear, for messages.
        entries: of the file by their names below the path.
        scheme: of the format.
        shape: outputs and features.
        dtype: of the bias.
        bias_place: where the bias is added.

    Raises:
        Refused: the entries are not those of the format.
    """

    def __init__(
        self,
        path: str,
        entries: Mapping[str, torch.Tensor],
        scheme: Scheme,
        shape: tuple[int, int],
        dtype: torch.dtype,
        bias_place: str,
    ) -> None:
        assert scheme.packed is not None
        out, features = shape
        check_packed(path, scheme.name, scheme.packed, entries, shape)
        super().__init__(features, out, bias=False, device="meta")
        self.fuse_scheme = scheme
        self.fuse_bias_place = bias_place
        self._scale_dtype = entries[scheme.packed.scale].dtype
        parts = read_packed(scheme.packed, entries)
        bias = parts.pop("bias", None)
        if bias is not None:
            self.bias = nn.Parameter(bias.to(dtype), requires_grad=False)
        self.weight = nn.Parameter(parts.pop(WEIGHT), requires_grad=False)
        for name, tensor in parts.items():
            self.register_buffer(name, tensor)
        # The data shows whether scales are factors.
        read = read_linear(path, self.packed_parts(), self.policy)
        assert read.quant is not None
        self._quant = read.quant.text()

    @property
    def policy(self) -> Policy:
        """How kernels compute the linear."""
        return Policy(
            activations="none",
            bias_place=self.fuse_bias_place,
            scheme=self.fuse_scheme,
        )

    def packed_parts(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers in the order of kernels."""
        found = dict(self.named_parameters(recurse=False))
        return found | dict(self.named_buffers(recurse=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return packed_linear(
            x,
            self.weight,
            self.bias,
            self.get_buffer(SCALE),
            self._buffers.get(ZERO_POINT),
            self._buffers.get(TENSOR_SCALE),
            self.fuse_bias_place,
            self._quant,
        )

    def _apply(
        self,
        fn: Callable[[torch.Tensor], torch.Tensor],
        recurse: bool = True,
    ) -> PackedLinear:
        # Codes and scales must not be converted to another dtype.
        def kept(tensor: torch.Tensor) -> torch.Tensor:
            if tensor is self.bias:
                return fn(tensor)
            whole = _INTEGERS[tensor.element_size()]
            return fn(tensor.view(whole)).view(tensor.dtype)

        return super()._apply(kept, recurse)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        assert self.fuse_scheme.packed is not None
        entries = write_packed(
            self.fuse_scheme.packed, self.packed_parts(), self._scale_dtype
        )
        for name, tensor in entries.items():
            destination[prefix + name] = (
                tensor if keep_vars else tensor.detach()
            )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        *args: Any,  # noqa: ANN401
    ) -> None:
        packed = self.fuse_scheme.packed
        assert packed is not None
        entries = {
            name.removeprefix(prefix): tensor
            for name, tensor in state_dict.items()
            if name.startswith(prefix) and "." not in name[len(prefix) :]
        }
        if packed.weight in entries and packed.scale in entries:
            for name in entries:
                del state_dict[prefix + name]
            parts = read_packed(packed, entries)
            if parts[SCALE].dtype == torch.int8:
                self._scale_dtype = entries[packed.scale].dtype
            state_dict |= {prefix + n: tensor for n, tensor in parts.items()}
        super()._load_from_state_dict(state_dict, prefix, *args)
