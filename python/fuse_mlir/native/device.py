# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names of GPUs for the compiler."""

from __future__ import annotations

import torch


def gpu_chip(device: torch.device) -> str:
    """Name of a GPU for the compiler; `sm_90a` on Hopper."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}" + ("a" if major == 9 else "")
