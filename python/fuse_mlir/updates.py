# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes of weights that PyTorch does not count.

Kernels pack copies of weights, and pack them again when the version of a weight
says that its values changed. PyTorch's fused optimizers and those of other
packages write without counting; they are followed here. What is written through
`weight.data`, NumPy, or by collectives on a weight, nobody can see: `refresh`
is told.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

from fuse_mlir.kernels import Kernel
from fuse_mlir.arguments import require_module


def refresh(model: nn.Module) -> int:
    """Lets kernels of `model` read their weights anew.

    For changes that PyTorch does not count: through `weight.data`, through
    NumPy or DLPack, by collectives such as `torch.distributed.broadcast`, and
    of weights that were made under `inference_mode`. Not needed after
    optimizers, `load_state_dict`, or changes of a weight in place.

    Args:
        model: with fused sites or compiled modules.

    Returns:
        How many kernels read weights of `model`.
    """
    require_module(model)
    held = {id(t) for t in itertools.chain(
        model.parameters(), model.buffers())}
    found = [kernel for kernel in Kernel.all()
             if not held.isdisjoint(map(id, kernel.originals()))]
    for kernel in found:
        kernel.refresh()
    return len(found)


def count_step(optimizer: torch.optim.Optimizer, _args: Any,
               _kwargs: Any) -> None:
    """Counts what a step of an optimizer changed in weights of kernels."""
    # What torch.compile makes of other optimizers counts by itself.
    if not torch.compiler.is_compiling() \
            or any(group.get("fused") for group in optimizer.param_groups):
        _count(optimizer)


@torch.compiler.disable
def _count(optimizer: torch.optim.Optimizer) -> None:
    held = {id(t) for kernel in Kernel.all() for t in kernel.originals()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) in held and parameter.grad is not None:
                torch.autograd.graph.increment_version(parameter)
