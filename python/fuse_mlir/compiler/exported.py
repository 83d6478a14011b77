# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels inside programs of torch.export.

In an exported program, a kernel is the op `fuse_mlir::exported`. Its last
argument describes the kernel, with its IR. A saved program therefore needs
neither its process nor its model: the first call compiles the kernel for the
device of its tensors. Importing this module registers the op.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from fuse_mlir.compiler.chains import CACHE_SIZE
from fuse_mlir.compiler.description import parse
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.support.ops import define

# Kernels by description, device and weights; the entries keep weights alive.
_KERNELS: OrderedDict[Any, Kernel] = OrderedDict()


def _kernel(
    inputs: list[torch.Tensor], weights: list[torch.Tensor], text: str
) -> Kernel:
    device = inputs[0].device
    key = text, device, tuple(w.data_ptr() for w in weights)
    if key not in _KERNELS:
        site, compiled = parse(text)
        own = replace(
            compiled, constants=dict(zip(compiled.parameters, weights))
        )
        _KERNELS[key] = Kernel(site, nn.Module(), own, device)
        while len(_KERNELS) > CACHE_SIZE:
            _KERNELS.popitem(last=False)
    _KERNELS.move_to_end(key)
    return _KERNELS[key]


def _run(
    inputs: list[torch.Tensor], weights: list[torch.Tensor], kernel: str
) -> torch.Tensor:
    """Runs a kernel that an exported program describes."""
    return _kernel(inputs, weights, kernel).run(inputs, weights)


def _shape(inputs, weights, kernel):
    _, compiled = parse(kernel)
    return inputs[0].new_empty(
        compiled.result.shape(inputs), dtype=compiled.dtype
    )


def _run_all(
    inputs: list[torch.Tensor], weights: list[torch.Tensor], kernel: str
) -> list[torch.Tensor]:
    """Runs a kernel with several results that a program describes."""
    return _kernel(inputs, weights, kernel).run_all(inputs, weights)


def _shapes(inputs, weights, kernel):
    _, compiled = parse(kernel)
    return [
        inputs[0].new_empty(result.shape(inputs), dtype=result.dtype)
        for result in compiled.results
    ]


exported = define(
    "exported(Tensor[] inputs, Tensor[] weights, str kernel) -> Tensor",
    _run,
    _shape,
)
exported_all = define(
    "exported_all(Tensor[] inputs, Tensor[] weights, str kernel) -> Tensor[]",
    _run_all,
    _shapes,
)
