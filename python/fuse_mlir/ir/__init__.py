# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text of fuse IR, and the shapes in it."""
