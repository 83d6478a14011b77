# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types of PyTorch, and their names in the IR."""

from __future__ import annotations

import torch

ELEMENTS = {
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float32: "f32",
    torch.float64: "f64",
}


# Types that layer ops of fuse support.
LAYER_ELEMENTS = ("bf16", "f16", "f32")


# Types of indices.
INDEX_ELEMENTS = {torch.int64: "i64", torch.int32: "i32"}


# Types of stored parameters, which ops of PyTorch do not read.
STORED_ELEMENTS = {
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.int8: "i8",
}
