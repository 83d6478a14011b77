# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scales from data, and what they cost in accuracy."""
