# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `fuse_mlir.export_hub_kernel` copies into kernel directories.

These files need PyTorch and the driver of CUDA, and neither fuse nor a
compiler.
"""
