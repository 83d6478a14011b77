# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A kernel in a PTX file of the user, and how it is launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class PtxKernel:
    """A kernel in a PTX file, and how it is launched.

    Tensors are named `input0`, `input1`, ..., `result0`, and by the paths of
    parameters below the parent, such as `norm.weight`. They are row-major
    without gaps. If the rows of a chain do not depend on each other, inputs and
    results are [rows, features], whatever shape the model uses.

    Args:
        path: of the file.
        entry: the kernel's name in it.
        args: its arguments, in order: tensors by name, which are passed as
            addresses; sizes by name, as i64; ints as i32; floats as f32.
        grid: numbers of blocks, each a number or an affine expression of sizes,
            such as `rows ceildiv 32`.
        block: numbers of threads.
        sizes: named sizes, each a tensor and one of its dimensions.
        shared: bytes of dynamic shared memory.
        capability: the oldest GPU that it runs on, 80 for sm_80.
        sha256: digest of the file as 64 hexadecimal digits, which is checked
            before the file is parsed; None accepts any file.
    """

    path: str | Path
    entry: str
    args: Sequence[str | int | float]
    grid: Sequence[str | int] = (1, 1, 1)
    block: Sequence[int] = (128, 1, 1)
    sizes: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    shared: int = 0
    capability: int = 80
    sha256: str | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.entry}"
