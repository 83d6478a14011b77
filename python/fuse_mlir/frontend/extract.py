# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports modules with example inputs of a shape."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from fuse_mlir.errors import BlockError
from fuse_mlir.support.quiet import quiet

#: A dimension of an input: a size, or the name of a dynamic dimension.
DimSpec = int | str


def example_input(
    shape: Sequence[DimSpec],
    sizes: Mapping[str, int],
    dtype: torch.dtype,
    seed: int,
) -> torch.Tensor:
    """A random input; named dimensions get the sizes given for them."""
    missing = [d for d in shape if isinstance(d, str) and d not in sizes]
    if missing:
        raise BlockError(f"no size given for dimension '{missing[0]}'")
    concrete = [sizes[d] if isinstance(d, str) else d for d in shape]
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(concrete, generator=generator, device="cpu").to(dtype)


def export_module(
    module: nn.Module, shape: Sequence[DimSpec], dtype: torch.dtype
) -> ExportedProgram:
    """torch.export with the named dimensions of `shape` dynamic."""
    names = sorted({d for d in shape if isinstance(d, str)})
    # torch.export would specialize sizes 0 and 1, and unify equal sizes.
    sizes = {name: 5 + 2 * i for i, name in enumerate(names)}
    dims = {name: Dim(name, min=1) for name in names}
    dynamic = {i: dims[d] for i, d in enumerate(shape) if isinstance(d, str)}
    example = example_input(shape, sizes, dtype, seed=0)
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(
                module, (example,), dynamic_shapes=(dynamic or None,)
            )
    # Any error of the module or of the tracer is about the module.
    except Exception as error:
        raise BlockError(
            "PyTorch cannot export the modules: "
            f"{reason_of(error)}; their input has the shape "
            + ",".join(map(str, shape))
        ) from error


def reason_of(error: BaseException) -> str:
    """The kind of an error and the first line of its text."""
    first = str(error).strip().split("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {first}"


def parse_shape(text: str) -> list[DimSpec]:
    """Parses `tokens,1024`: sizes and names of dynamic dimensions."""
    shape: list[DimSpec] = []
    for part in text.split(","):
        part = part.strip()
        if part.isdecimal() and int(part) > 0:
            shape.append(int(part))
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part):
            shape.append(part)
        else:
            raise BlockError(
                f"bad dimension '{part}' in shape '{text}'; "
                "expected a positive size or a name"
            )
    return shape
