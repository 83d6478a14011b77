# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules that several suites fuse."""

from __future__ import annotations

import torch
from torch import nn


class GatedMLP(nn.Module):
    """down(silu(gate(x)) * up(x)) without biases, [..., width]."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))
