# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models and weights from local directories."""
