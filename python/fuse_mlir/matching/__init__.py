# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sites: which modules of a model form a chain, and where data flows."""
