# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that `fuse_mlir.export_hub_kernel` copies into kernel directories.

They need PyTorch and the driver of CUDA, but neither fuse nor a compiler.
"""
