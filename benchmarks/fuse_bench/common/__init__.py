# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What all suites share: problems, kernels, launches, timing, results."""
