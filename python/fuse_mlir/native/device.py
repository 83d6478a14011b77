# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names of GPUs for the compiler."""

from __future__ import annotations

import torch

from fuse_mlir.support.chips import chip_name


def gpu_chip(device: torch.device) -> str:
    """Name of a GPU for the compiler; `sm_90a` on Hopper."""
    return chip_name(*torch.cuda.get_device_capability(device))


def multiprocessors_of(chip: str) -> int:
    """Fewest multiprocessors of the GPUs of this machine that are such a chip;
    0 if there are none. Blocks that wait for each other need one each.
    """
    if not torch.cuda.is_available():
        return 0
    found = [
        torch.cuda.get_device_properties(index).multi_processor_count
        for index in range(torch.cuda.device_count())
        if gpu_chip(torch.device("cuda", index)) == chip
    ]
    return min(found, default=0)
