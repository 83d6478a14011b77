# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python side of the fuse compiler."""

__version__ = "0.1.0"
