# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Helpers that know nothing of models or kernels."""
