# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels inside of programs of torch.export.

In an exported program a kernel is the op `fuse_mlir::exported`, whose last
argument is its IR with what a host has to know. So a saved program needs
neither the process nor the model that it was made in: the first call compiles
the kernel for where its tensors are. Importing this module registers the op.
"""

from __future__ import annotations

import functools
import json
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from fuse_mlir.chains import CACHE_SIZE, Compiled, InputType, KernelError
from fuse_mlir.kernels import Kernel

_VERSION = 1
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64,
    torch.int32, torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)}


def describe(kernel: Kernel) -> str:
    """Everything about a kernel but its weights, as JSON."""
    compiled = kernel.compiled
    rows = kernel._code.formed if kernel._flat else None
    return json.dumps({
        "version": _VERSION, "site": kernel.site, "formed": compiled.formed,
        "rows": rows, "families": compiled.families,
        "parameters": [[name, _name(dtype), shape] for name, (dtype, shape)
                       in compiled.parameters.items()],
        "inputs": [[t.rank, t.features, _name(t.dtype)]
                   for t in compiled.inputs],
        "result": [compiled.result, _name(compiled.dtype)]},
        separators=(",", ":"))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@functools.lru_cache(maxsize=CACHE_SIZE)
def _parse(text: str) -> tuple[str, Compiled]:
    found = json.loads(text)
    if found["version"] != _VERSION:
        raise KernelError(f"the exported program has a kernel of version "
                          f"{found['version']}; expected {_VERSION}")
    shape, dtype = found["result"]
    compiled = Compiled(
        {name: (_DTYPES[kind], tuple(sizes))
         for name, kind, sizes in found["parameters"]},
        {}, "", found["formed"], tuple(found["families"]), [],
        tuple(InputType(rank, features, _DTYPES[kind])
              for rank, features, kind in found["inputs"]),
        tuple(s if isinstance(s, int) else tuple(s) for s in shape),
        _DTYPES[dtype], by_rows=found["rows"] is not None)
    if found["rows"] is not None:
        compiled._rows = replace(compiled, formed=found["rows"])
    return found["site"], compiled


# Kernels by their text, device and weights, which they keep alive.
_KERNELS: OrderedDict[Any, Kernel] = OrderedDict()


def _kernel(inputs: list[torch.Tensor], weights: list[torch.Tensor],
            text: str) -> Kernel:
    device = inputs[0].device
    key = text, device, tuple(w.data_ptr() for w in weights)
    if key not in _KERNELS:
        site, compiled = _parse(text)
        own = replace(compiled, constants=dict(zip(compiled.parameters,
                                                   weights)))
        _KERNELS[key] = Kernel(site, nn.Module(), own, device)
        while len(_KERNELS) > CACHE_SIZE:
            _KERNELS.popitem(last=False)
    _KERNELS.move_to_end(key)
    return _KERNELS[key]


@torch.library.custom_op("fuse_mlir::exported", mutates_args=())
def exported(inputs: list[torch.Tensor], weights: list[torch.Tensor],
             kernel: str) -> torch.Tensor:
    """Runs a kernel that an exported program describes."""
    return _kernel(inputs, weights, kernel).run(inputs, weights)


@exported.register_fake
def _shape(inputs, weights, kernel):
    _, compiled = _parse(kernel)
    return inputs[0].new_empty(
        [d if isinstance(d, int) else inputs[d[0]].shape[d[1]]
         for d in compiled.result], dtype=compiled.dtype)
