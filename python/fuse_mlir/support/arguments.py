# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of arguments from callers, so that errors name these arguments."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.fx
from torch import nn


def require(
    value: object, kinds: type | tuple[type, ...], what: str, expected: str
) -> None:
    """Refuses an argument of another type.

    Args:
        value: the argument.
        kinds: the types that it may have.
        what: names the argument in the message.
        expected: describes the types in the message.

    Raises:
        TypeError: the argument is of another type.
    """
    if not isinstance(value, kinds):
        raise TypeError(
            f"{what} is of type {type(value).__name__}; expected {expected}"
        )


def require_module(model: nn.Module) -> nn.Module:
    """The model, or a TypeError for anything else, such as its name."""
    require(model, nn.Module, "the model", "a torch.nn.Module")
    return model


def require_tensors(values: Iterable[object], what: str) -> None:
    """Refuses arguments that are not all tensors.

    Args:
        values: the arguments of a call.
        what: names the function in the message.

    Raises:
        TypeError: an argument is not a tensor.
    """
    for i, value in enumerate(values):
        # Every call of a kernel runs this check, so it costs little.
        if not isinstance(value, torch.Tensor):
            require(value, torch.Tensor, f"argument {i} of {what}", "a tensor")


def no_tensor(value: object) -> str:
    """The type of an argument that should be a tensor, and advice."""
    kind = type(value).__name__
    if not isinstance(value, torch.fx.Proxy):
        return kind
    return (
        f"{kind}: torch.fx.symbolic_trace sees no kernel; trace the model "
        "before it is fused, or use torch.export"
    )


def require_device(device: torch.device | str) -> torch.device:
    """The device of a name."""
    require(
        device,
        (str, torch.device),
        "the device",
        "a name such as 'cpu' or 'cuda:0', or a torch.device",
    )
    return torch.device(device)
