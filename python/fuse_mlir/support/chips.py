# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names of GPUs as the compiler spells them."""

from __future__ import annotations

#: Compute capabilities for which the compiler generates code, as in
#: lib/Schedule/Chip.cpp.
CAPABILITIES = (80, 86, 87, 89, 90, 100, 103, 120, 121)


def chip_name(major: int, minor: int) -> str:
    """The chip of a compute capability; `sm_90a` on Hopper."""
    return f"sm_{major}{minor}" + ("a" if major == 9 else "")
