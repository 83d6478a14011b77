# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names of GPUs for the compiler."""

from __future__ import annotations

import torch

from fuse_mlir.support.chips import chip_name


def gpu_chip(device: torch.device) -> str:
    """Name of a GPU for the compiler; `sm_90a` on Hopper."""
    return chip_name(*torch.cuda.get_device_capability(device))
