# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fused modules of a live model, put in place and taken back."""
