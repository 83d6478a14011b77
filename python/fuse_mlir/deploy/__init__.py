# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Artifacts, kernels for the Hub, and torch.compile."""
