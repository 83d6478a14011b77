# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A kernel as text, for programs of torch.export."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

import torch

from fuse_mlir import native
from fuse_mlir.compiler.chains import CACHE_SIZE, Compiled, Text
from fuse_mlir.compiler.exports import InputType
from fuse_mlir.compiler.stored_exports import ResultType
from fuse_mlir.errors import KernelError

_VERSION = 2


_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    )
}


def describe(site: str, compiled: Compiled, rows: str | None) -> str:
    """A kernel without its weights, as JSON.

    Args:
        site: id of the site.
        compiled: code of the kernel.
        rows: IR of the code of rank two, if the kernel runs that code.
    """
    return json.dumps(
        {
            "version": _VERSION,
            "site": site,
            "formed": _stamped(compiled.formed),
            "rows": None if rows is None else _stamped(rows),
            "families": compiled.families,
            "parameters": [
                [name, _name(dtype), shape]
                for name, (dtype, shape) in compiled.parameters.items()
            ],
            "inputs": [
                [t.rank, t.features, _name(t.dtype)] for t in compiled.inputs
            ],
            "results": [[r.dims, _name(r.dtype)] for r in compiled.results],
        },
        separators=(",", ":"),
    )


# Kernels of equal modules have one text.
_stamped = functools.lru_cache(maxsize=CACHE_SIZE)(native.stamped)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@functools.lru_cache(maxsize=CACHE_SIZE)
def parse(text: str) -> tuple[str, Compiled]:
    """The site and the code that `describe` wrote.

    Raises:
        KernelError: another version wrote it.
    """
    found = json.loads(text)
    if found["version"] != _VERSION:
        raise KernelError(
            f"the exported program has a kernel of version "
            f"{found['version']}; expected {_VERSION}"
        )
    compiled = Compiled(
        {
            name: (_DTYPES[kind], tuple(sizes))
            for name, kind, sizes in found["parameters"]
        },
        {},
        Text("", found["formed"]),
        tuple(found["families"]),
        tuple(
            InputType(rank, features, _DTYPES[kind])
            for rank, features, kind in found["inputs"]
        ),
        tuple(
            ResultType(
                tuple(d if isinstance(d, int) else tuple(d) for d in dims),
                _DTYPES[dtype],
            )
            for dims, dtype in found["results"]
        ),
        by_rows=found["rows"] is not None,
    )
    if found["rows"] is not None:
        compiled._rows = replace(compiled, text=Text("", found["rows"]))
    return found["site"], compiled
