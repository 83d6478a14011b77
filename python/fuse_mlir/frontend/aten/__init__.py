# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each ATen op becomes.

An op that is a layer op of fuse becomes that op; every other op becomes
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

# Ops that check or compute shapes and yield no tensor.
IGNORED = frozenset(
    {
        "aten._assert_tensor_metadata.default",
        "aten._assert_scalar.default",
        "aten.sym_constrain_range_for_size.default",
    }
)
