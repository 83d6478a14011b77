# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The systems that kernels are compared with, and how PyTorch tunes them."""
