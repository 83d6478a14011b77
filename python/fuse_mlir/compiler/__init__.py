# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code for chains of modules, called by PyTorch.

Importing the package registers the op that exported programs call.
"""

from fuse_mlir.compiler import exported

__all__ = ["exported"]
