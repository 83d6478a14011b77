# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A kernel in a PTX file of the user, and how it is launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class PtxKernel:
    """A kernel in a PTX file, and how it is launched.

    Tensors are called `input0` and so on, `result0`, and by the names of
    parameters among the children of the parent, such as `norm.weight`. They
    are row-major and have no gaps. Where every row of a chain is computed by
    itself, inputs and results have two dimensions, whatever the model has.

    Args:
        path: of the file.
        entry: the kernel's name in it.
        args: what it takes, in order: tensors by name, which are passed as
            addresses; sizes by name, as i64; ints as i32; floats as f32.
        grid: the numbers of blocks, each a number or an affine expression of
            sizes, such as `rows ceildiv 32`.
        block: the numbers of threads.
        sizes: by their names, a tensor and one of its dimensions.
        shared: bytes of dynamic shared memory.
        capability: the oldest GPU that it runs on, 80 for sm_80.
    """

    path: str | Path
    entry: str
    args: Sequence[str | int | float]
    grid: Sequence[str | int] = (1, 1, 1)
    block: Sequence[int] = (128, 1, 1)
    sizes: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    shared: int = 0
    capability: int = 80

    def __str__(self) -> str:
        return f"{self.path}:{self.entry}"
