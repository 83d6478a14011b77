# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stored weights, their scales, and what they mean in floating point."""
