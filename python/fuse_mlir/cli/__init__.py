# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The commands of `python -m fuse_mlir`."""
