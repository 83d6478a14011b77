# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Helpers that do not depend on models or kernels."""
