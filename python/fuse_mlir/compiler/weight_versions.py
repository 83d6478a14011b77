# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes of weights that PyTorch does not count.

Kernels pack copies of weights, and pack them again when the version of a weight
changes. Fused optimizers of PyTorch and of other packages write without
changing versions; this module follows them. Writes through `weight.data`,
NumPy, or collectives cannot be seen: the user calls `refresh` after them.
"""

from __future__ import annotations

import itertools

from torch import nn

from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.support.arguments import require_module


def refresh(model: nn.Module) -> int:
    """Lets kernels of `model` read their weights again.

    Call it after changes that PyTorch does not count: through `weight.data`,
    NumPy or DLPack, by collectives such as `torch.distributed.broadcast`, and
    of weights that were made under `inference_mode`. It is not needed after
    optimizers, `load_state_dict`, or changes of a weight in place.

    Args:
        model: with fused sites or compiled modules.

    Returns:
        The number of kernels that read weights of `model`.

    Examples:
        >>> result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        >>> y = model(x)
        >>> model.layers[0].mlp.up.weight.data.mul_(2)  # doctest: +ELLIPSIS
        tensor(...)
        >>> fuse_mlir.refresh(model)
        1
    """
    require_module(model)
    held = {id(t) for t in itertools.chain(model.parameters(), model.buffers())}
    found = [
        kernel
        for kernel in Kernel.all()
        if not held.isdisjoint(map(id, kernel.originals()))
    ]
    for kernel in found:
        kernel.refresh()
    return len(found)
