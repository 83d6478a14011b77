# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Activations that a model writes out as formulas.

In 16 bits, each op of such a formula rounds its result, which no kernel
computes. A user may allow that it is computed in f32 and rounded once, as
PyTorch's own activations are.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

#: What kernels may round otherwise than the members: nothing, or activations.
ROUNDINGS = ("exact", "relaxed")


class RoundedOnce(nn.Module):
    """An activation without the roundings inside of it.

    Args:
        formula: computes it.
    """

    def __init__(self, formula: nn.Module) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        return self.formula(x.to(wide)).to(x.dtype)


def rounds_inside(module: nn.Module) -> bool:
    """Whether a module is an activation whose result in 16 bits is not the
    rounded one of f32. It is tried out on a thousand numbers."""
    if (
        module._parameters
        or module._buffers
        or module._modules
        or type(module).__module__.startswith("torch.")
    ):
        return False
    # Numbers that both types have.
    x = torch.arange(-512, 512, device="cpu").bfloat16().float() / 64
    try:
        with torch.no_grad():
            narrow, wide, some = map(
                module.forward, (x.bfloat16(), x, x[::2].clone())
            )
    # A module that takes no such tensor is not an activation.
    except Exception:
        return False
    return (
        all(isinstance(result, torch.Tensor) for result in (narrow, wide, some))
        and narrow.shape == wide.shape == x.shape
        and narrow.dtype is torch.bfloat16
        and wide.dtype is torch.float32
        and some.shape == wide[::2].shape
        and torch.allclose(some, wide[::2])
        and not torch.equal(narrow, wide.bfloat16())
    )


def formulas_in(
    names: Iterable[str], members: Iterable[nn.Module]
) -> list[str]:
    """Paths of such activations of members.

    Args:
        names: of the members.
    """
    return [
        f"{name}.{path}" if path else name
        for name, member in zip(names, members)
        for path, module in member.named_modules()
        if rounds_inside(module)
    ]
