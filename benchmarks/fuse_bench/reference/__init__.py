# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The expected values of a kernel, and the checks against them."""
