# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Translations of ATen ops.

An ATen op with a layer op of fuse becomes that op. Each other op becomes
upstream ops with the roundings of PyTorch's CPU kernels.
"""

from fuse_mlir.errors import Unsupported
from fuse_mlir.frontend.aten import elementwise, layers, shapes
from fuse_mlir.frontend.aten.types import Handler
from fuse_mlir.frontend.elements import (
    ELEMENTS,
    INDEX_ELEMENTS,
    STORED_ELEMENTS,
)

__all__ = [
    "ELEMENTS",
    "HANDLERS",
    "IGNORED",
    "INDEX_ELEMENTS",
    "STORED_ELEMENTS",
    "Unsupported",
]

HANDLERS: dict[str, Handler] = {
    **layers.HANDLERS,
    **elementwise.HANDLERS,
    **shapes.HANDLERS,
}

# Ops that check or compute shapes and return no tensor.
IGNORED = frozenset(
    {
        "aten._assert_tensor_metadata.default",
        "aten._assert_scalar.default",
        "aten.sym_constrain_range_for_size.default",
    }
)
