# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types, as PyTorch and as IR spell them."""

from __future__ import annotations

import torch

ELEMENTS = {
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float32: "f32",
    torch.float64: "f64",
}


# Types that layer ops of fuse take.
LAYER_ELEMENTS = ("bf16", "f16", "f32")


# Types that indices have.
INDEX_ELEMENTS = {torch.int64: "i64", torch.int32: "i32"}


# Types that parameters are stored in; ops of PyTorch do not read them.
STORED_ELEMENTS = {
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.int8: "i8",
}
