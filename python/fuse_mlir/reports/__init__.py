# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What can be fused, whether it is right, and how fast it is."""
