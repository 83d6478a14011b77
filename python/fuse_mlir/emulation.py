# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs FP8 linears of transformers where their kernels do not run.

`FP8Linear` calls kernels of the Hub that need a GPU. Static scales per tensor
or output channel are computed here with the arithmetic of the fuse ops, in
PyTorch; other layouts with their weights multiplied out.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from fuse_mlir.stored import (Policy, Refused, StoredLinear,
                              dequantized_weight, is_stored, read_linear)


def entries_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers that a module holds itself."""
    found = dict(module.named_parameters(recurse=False))
    return found | dict(module.named_buffers(recurse=False))


def is_fp8_linear(module: nn.Module) -> bool:
    """Whether a module is a linear with a stored weight of somebody else."""
    return isinstance(module, nn.Linear) \
        and not isinstance(module, StoredLinear) \
        and is_stored(entries_of(module))


def policy_for(module: nn.Module, activations: str = "static") -> Policy:
    """How a linear of a loaded model computes: `FP8Linear` of transformers
    adds its bias in an op of its own."""
    own = any(k.__name__ == "FP8Linear" for k in type(module).__mro__)
    return Policy(activations=activations,
                  bias_place="after_rounding" if own else "before_rounding")


def emulate(model: nn.Module) -> int:
    """Lets every FP8 linear of `model` that has no kernel here run.

    Only the classes of modules change, so names, parameters and hooks are
    those that they were. Returns how many changed.
    """
    changed = 0
    for module in model.modules():
        if is_fp8_linear(module) and _lacks_kernel(module) \
                and not hasattr(type(module), "_fuse_emulates"):
            module.__class__ = _emulated_class(type(module))
            changed += 1
    return changed


@contextlib.contextmanager
def emulated(model: nn.Module, always: bool = False) -> Iterator[None]:
    """`emulate` for as long as a `with` lasts.

    Args:
        always: also where kernels are installed, for a run without data.
    """
    changed = [m for m in model.modules()
               if is_fp8_linear(m) and (always or _lacks_kernel(m))
               and not hasattr(type(m), "_fuse_emulates")]
    for module in changed:
        module.__class__ = _emulated_class(type(module))
    try:
        yield
    finally:
        for module in changed:
            module.__class__ = type(module)._fuse_emulates


def _lacks_kernel(module: nn.Module) -> bool:
    return module.weight.device.type != "cuda" \
        or importlib.util.find_spec("kernels") is None


@functools.lru_cache(maxsize=None)
def _emulated_class(kind: type) -> type:
    return type(kind.__name__, (kind,), {
        "forward": _forward, "__reduce_ex__": _reduce,
        "__module__": kind.__module__, "__qualname__": kind.__qualname__,
        "_fuse_emulates": kind})


def _reduce(self: nn.Module, _protocol: Any) -> tuple:
    return _restore, (type(self)._fuse_emulates,), self.__dict__


def _restore(kind: type) -> nn.Module:
    made = _emulated_class(kind)
    return made.__new__(made)


def _forward(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
    weight = self.weight
    if _has_no_data(x) or _has_no_data(weight):
        return nn.functional.linear(x, x.new_empty(weight.shape))
    return _compute(entries_of(self), x, policy_for(self))


def _compute(entries: Mapping[str, torch.Tensor], x: torch.Tensor,
             policy: Policy) -> torch.Tensor:
    try:
        return StoredLinear(read_linear("", entries, policy), policy)(x)
    except Refused:
        return nn.functional.linear(
            x, dequantized_weight(entries, policy, x.dtype),
            entries.get("bias"))


def _has_no_data(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return tensor.is_meta or isinstance(tensor, FakeTensor)
