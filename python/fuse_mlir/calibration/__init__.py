# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scales that are chosen from data, and their effect on accuracy."""
