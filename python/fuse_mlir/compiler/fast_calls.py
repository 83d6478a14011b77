# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The usual call of a kernel, which the extension runs without Python.

Once Python has run a call, it hands over what it compared: what the arguments
are, that modules and weights are the same objects with the same memory and
versions, that no mode of PyTorch wants to see the call. The extension compares
it again before each launch. Where anything differs, Python runs the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType

import torch
from torch import nn

from fuse_mlir import native
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.compiler.watch import Watch
from fuse_mlir.native.bindings import DLPACK_TYPES

#: More rows than any call has.
MANY = 2**62


@dataclass(frozen=True)
class Site:
    """What calls of a kernel that has members in several places ask too."""

    #: The id of the site.
    name: str
    #: The class of results that the places after the first one pass on.
    pending: type[torch.Tensor]
    #: The parent of the members, whose children the places are.
    parent: ReferenceType[nn.Module]
    #: Paths, as names of children, and modules of the places after the first
    #: one.
    places: Sequence[tuple[Sequence[str], nn.Module]]
    #: Whether one of them reads inputs of the call too.
    reads_inputs: bool
    #: Whether each of them returns a result of its own.
    hands_out: bool = False
    #: Whether the first result is that of the first member.
    returns_first: bool = False


@dataclass(frozen=True)
class Arguments:
    """How the model calls the first member."""

    #: Numbers of positional and of named arguments.
    positional: int
    named: int
    #: Position or name of each tensor that the kernel reads.
    inputs: Sequence[int | str]
    #: Position or name, and value, of all others.
    constants: Sequence[tuple[int | str, Any]] = ()


def make_call(
    kernel: Kernel,
    watch: Watch,
    arguments: Arguments,
    rows: Sequence[tuple[int, int | None]] = ((1, None),),
    site: Site | None = None,
) -> native.FastCall | None:
    """A call object for calls like the one that `kernel` has just run.

    Args:
        kernel: with bound weights.
        watch: of the members.
        arguments: of the calls.
        rows: first and last numbers of rows that run the kernel.
        site: for a kernel whose result passes through several places.

    Returns:
        None if there is no extension, or a weight is not kept where the
        extension can look: as the property of a parametrized module, for
        example.
    """
    extension, instance = native.extension(), kernel.instance
    if extension is None or instance is None or watch.guard is None:
        return None
    weights = _weights(kernel)
    if weights is None:
        return None
    launcher = instance.launcher(kernel.device)
    compiled = kernel.compiled
    most = min(kernel.most_loaded, instance.max_tokens or MANY)
    return extension.Call(
        watch.guard,
        launcher,
        native.ambient(),
        torch.is_grad_enabled,
        arguments.positional,
        arguments.named,
        [
            (slot, DLPACK_TYPES[type.dtype], type.rank, type.features)
            for slot, type in zip(arguments.inputs, compiled.inputs)
        ],
        list(arguments.constants),
        weights,
        None if site is None else site.parent,
        [] if site is None else list(site.places),
        [
            (first, min(MANY if last is None else last, most))
            for first, last in rows
        ],
        kernel.by_rows,
        native.VECTOR_BYTES if kernel.by_rows else 1,
        [
            (
                [(-1, d) if isinstance(d, int) else d for d in result.dims],
                DLPACK_TYPES[result.dtype],
                {"dtype": result.dtype, "device": kernel.device},
            )
            for result in compiled.results
        ],
        None if site is None else site.name,
        None if site is None else site.pending,
        site is not None and site.reads_inputs,
        site is not None and site.hands_out,
        site is not None and site.returns_first,
    )


def _weights(
    kernel: Kernel,
) -> list[tuple[dict[str, Any], str, object, int, int]] | None:
    """Where each weight is, the tensor, its address and its version, which is
    -1 if values do not count."""
    found = []
    for owner, name, address, version in kernel.bound_tensors():
        place = next(
            (
                values
                for values in (owner._parameters, owner._buffers, vars(owner))
                if name in values
            ),
            None,
        )
        if place is None:
            return None
        tensor = place[name]
        if not isinstance(tensor, torch.Tensor) or tensor.is_inference():
            version = -1
        found.append((place, name, tensor, address, version))
    return found
