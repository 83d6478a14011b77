# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code that all suites share: problems, kernels, launches, timing, results."""
