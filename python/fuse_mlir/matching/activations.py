# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Activations that a model writes out as formulas.

In 16 bits, each op of such a formula rounds its result, which no kernel does.
With `rounding="relaxed"`, a kernel computes the formula in f32 and rounds once,
as PyTorch's own activations do.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

#: Values of `rounding`. With `relaxed`, kernels compute activations in f32 and
#: round once; with `exact`, they round wherever the members do.
ROUNDINGS = ("exact", "relaxed")


class RoundedOnce(nn.Module):
    """An activation that is computed in f32 and rounded once.

    Args:
        formula: the activation as the model writes it.
    """

    def __init__(self, formula: nn.Module) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        return self.formula(x.to(wide)).to(x.dtype)


def rounds_inside(module: nn.Module) -> bool:
    """Whether a module is an activation that rounds inside.

    Its result in bf16 then differs from the rounded result in f32. A thousand
    numbers are tried.
    """
    if (
        module._parameters
        or module._buffers
        or module._modules
        or type(module).__module__.startswith("torch.")
    ):
        return False
    # Numbers that bf16 and f32 both represent.
    x = torch.arange(-512, 512, device="cpu").bfloat16().float() / 64
    try:
        with torch.no_grad():
            narrow, wide, some = map(
                module.forward, (x.bfloat16(), x, x[::2].clone())
            )
    # A module that does not support such a tensor is not an activation.
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
    """Paths of the activations of members that round inside.

    Args:
        names: paths of the members.
        members: the modules, in the order of `names`.
    """
    return [
        f"{name}.{path}" if path else name
        for name, member in zip(names, members)
        for path, module in member.named_modules()
        if rounds_inside(module)
    ]
