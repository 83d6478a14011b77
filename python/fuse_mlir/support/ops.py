# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of PyTorch that are written in Python.

`torch.library.custom_op` infers schemas and checks each call for aliases. An
explicit schema makes registration cheap, and these ops return new tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import torch


@functools.cache
def _library() -> torch.library.Library:
    return torch.library.Library("fuse_mlir", "FRAGMENT")


def define(
    schema: str, run: Callable[..., Any], fake: Callable[..., Any]
) -> Callable[..., Any]:
    """Registers an op of the namespace `fuse_mlir` without gradients.

    Args:
        schema: name, arguments and results, such as `copy(Tensor x) -> Tensor`.
        run: computes the results, which are new tensors.
        fake: makes results of the right shapes and dtypes.

    Returns:
        The op.

    Example:
        >>> copy = define("copy(Tensor x) -> Tensor", torch.clone,
        ...               torch.empty_like)
    """
    name = schema.partition("(")[0]

    def backward(_ctx: object, *_gradients: object) -> NoReturn:
        raise RuntimeError(f"fuse_mlir::{name} has no gradient")

    library = _library()
    library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"fuse_mlir::{name}", fake, lib=library)
    torch.library.register_autograd(f"fuse_mlir::{name}", backward, lib=library)
    return getattr(torch.ops.fuse_mlir, name)
