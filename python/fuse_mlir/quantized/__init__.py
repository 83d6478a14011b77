# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stored weights, their scales, and their values in floating point."""
