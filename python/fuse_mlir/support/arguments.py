# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of what callers pass in, so that errors are about their arguments."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch import nn


def require(
    value: Any, kinds: type | tuple[type, ...], what: str, expected: str
) -> None:
    """Refuses an argument of another type.

    Args:
        what: it is, for the message.
        expected: instead, for the message.

    Raises:
        TypeError: it says what it is.
    """
    if not isinstance(value, kinds):
        raise TypeError(
            f"{what} is of type {type(value).__name__}; expected {expected}"
        )


def require_module(model: Any) -> nn.Module:
    """The model. Refuses what is not a module, such as the name of a model."""
    require(model, nn.Module, "the model", "a torch.nn.Module")
    return model


def require_tensors(values: Any, what: str) -> None:
    """Refuses arguments one of which is not a tensor.

    Args:
        what: takes them, for the message.
    """
    for i, value in enumerate(values):
        # This is on the way of calls.
        if not isinstance(value, torch.Tensor):
            require(value, torch.Tensor, f"argument {i} of {what}", "a tensor")


def no_tensor(value: Any) -> str:
    """What a call got where a kernel reads a tensor, and what to do."""
    kind = type(value).__name__
    if not isinstance(value, torch.fx.Proxy):
        return kind
    return (
        f"{kind}: torch.fx.symbolic_trace sees no kernel; trace the model "
        "before it is fused, or use torch.export"
    )


def require_device(device: Any) -> torch.device:
    """The device of that name."""
    require(
        device,
        (str, torch.device),
        "the device",
        "a name such as 'cpu' or 'cuda:0', or a torch.device",
    )
    return torch.device(device)
