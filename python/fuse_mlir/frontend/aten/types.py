# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Common types of the translations of ATen ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuse_mlir.frontend.walker import Node, Walker

Handler = Callable[["Walker", "Node"], Any]
