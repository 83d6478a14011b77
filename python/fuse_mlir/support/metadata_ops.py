# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls that read a tensor's type or shape but not its values."""

from __future__ import annotations

# Calls that read the shape or type of a tensor and not its values.
METADATA = frozenset(
    {
        "__get__",
        "size",
        "dim",
        "stride",
        "numel",
        "nelement",
        "ndimension",
        "is_contiguous",
        "is_floating_point",
        "is_complex",
        "element_size",
        "storage_offset",
        "get_device",
        "__len__",
        "__hash__",
        "requires_grad_",
        "untyped_storage",
        "data_ptr",
        "__repr__",
    }
)
