# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports on sites, on the accuracy of their kernels, and on speed."""
