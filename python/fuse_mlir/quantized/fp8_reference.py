# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs FP8 linears of transformers without their kernels.

`FP8Linear` calls kernels of the Hub, which need a GPU. This module uses PyTorch
instead. Linears that kernels support compute with the arithmetic of the fuse
ops. Other layouts use dequantized weights.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping
from typing import TypeGuard

import torch
from torch import nn

from fuse_mlir.errors import Refused
from fuse_mlir.quantized.packed_linear import PackedLinear
from fuse_mlir.quantized.schemes import scheme_of
from fuse_mlir.quantized.stored import (
    Policy,
    StoredLinear,
    dequantized_weight,
    is_stored,
    read_linear,
)
from fuse_mlir.support.dynamic_class import Derived, Kind


def entries_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers of a module itself."""
    found = dict(module.named_parameters(recurse=False))
    return found | dict(module.named_buffers(recurse=False))


def is_fp8_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a module is a linear of another library with a stored weight."""
    return (
        isinstance(module, nn.Linear)
        and not isinstance(module, StoredLinear)
        and is_stored(entries_of(module))
    )


def policy_for(module: nn.Module, activations: str = "static") -> Policy:
    """The policy of a linear of a loaded model.

    `FP8Linear` and `FbgemmFp8Linear` of transformers add their biases in a
    separate op.
    """
    own = any(
        k.__name__ in ("FP8Linear", "FbgemmFp8Linear")
        for k in type(module).__mro__
    )
    scheme = scheme_of(module)
    return Policy(
        activations="none"
        if scheme is not None
        and (activations, scheme.activations) == ("static", "none")
        else activations,
        order="reciprocal" if scheme is None else scheme.order,
        bias_place=getattr(
            module,
            "fuse_bias_place",
            "after_rounding" if own else "before_rounding",
        ),
        scheme=scheme,
    )


def emulate(model: nn.Module) -> int:
    """Lets all FP8 linears of `model` run that have no kernel on this machine.

    Only the classes of modules change, not their names, parameters or hooks.
    Returns the number of changed modules.
    """
    changed = 0
    for module in model.modules():
        if (
            is_fp8_linear(module)
            and not isinstance(module, PackedLinear)
            and _lacks_kernel(module)
            and _EMULATED.origin(type(module)) is None
        ):
            _EMULATED.put_on(module)
            changed += 1
    return changed


@contextlib.contextmanager
def emulated(model: nn.Module, always: bool = False) -> Iterator[None]:
    """`emulate` for the duration of a `with`.

    Args:
        model: changed in place, and restored after the `with`.
        always: also if kernels are installed, for a run on fake tensors.
    """
    changed = [
        m
        for m in model.modules()
        if is_fp8_linear(m)
        and not isinstance(m, PackedLinear)
        and (always or _lacks_kernel(m))
        and _EMULATED.origin(type(m)) is None
    ]
    kinds = [type(m) for m in changed]
    for module in changed:
        _EMULATED.put_on(module)
    try:
        yield
    finally:
        for module, kind in zip(changed, kinds):
            module.__class__ = kind


def _lacks_kernel(module: nn.Linear) -> bool:
    # A plain linear has the weight of a file that fuse_mlir loaded.
    return (
        type(module) is nn.Linear
        or module.weight.device.type != "cuda"
        or importlib.util.find_spec("kernels") is None
    )


def _restore(kind: Kind) -> nn.Module:
    return _EMULATED.new(kind)


def _forward(self: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    weight = self.weight
    if _has_no_data(x) or _has_no_data(weight):
        return nn.functional.linear(x, x.new_empty(weight.shape))
    return _compute(entries_of(self), x, policy_for(self))


def _compute(
    entries: Mapping[str, torch.Tensor], x: torch.Tensor, policy: Policy
) -> torch.Tensor:
    try:
        return StoredLinear(read_linear("", entries, policy), policy)(x)
    except Refused:
        return nn.functional.linear(
            x, dequantized_weight(entries, policy, x.dtype), entries.get("bias")
        )


def _has_no_data(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return tensor.is_meta or isinstance(tensor, FakeTensor)


_EMULATED = Derived(
    "_fuse_emulates", _restore, lambda kind: {"forward": _forward}
)
