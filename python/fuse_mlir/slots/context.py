# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Contexts whose kernels may be Python functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from fuse_mlir import native
from fuse_mlir.errors import NativeError, SlotError
from fuse_mlir.native import context
from fuse_mlir.native.context import A_CONTEXT
from fuse_mlir.slots.function_kernels import (
    FunctionKernel,
    KernelSpec,
    rename_sources,
)
from fuse_mlir.support.arguments import require


class Context(context.Context):
    """Kernels that can be bound: those of fuse, and registered ones."""

    def __init__(self) -> None:
        super().__init__()
        #: Code that slots of equal layers share, by IR, chip and device.
        self._code: dict[tuple[str, str, torch.device], native.Program] = {}
        #: Functions by the name of their code in the compiler.
        self._functions: dict[str, FunctionKernel] = {}

    def register(self, spec: KernelSpec, force: bool = False) -> None:
        """Registers a Python function as a kernel, for slots of modules.

        Raises:
            SlotError: the name exists and `force` is not set, or the name is
                malformed.
        """
        require(spec, KernelSpec, "the kernel", "a fuse_mlir.slots.KernelSpec")
        kernel = FunctionKernel(spec)
        try:
            self.register_kernels(kernel.stand_in(), force=force)
        except NativeError as error:
            # Line numbers refer to the stand-in, which the caller cannot see.
            text = re.sub(
                r"^line \d+, column \d+: ('nn\.slot_kernel' op )?",
                "",
                str(error),
            )
            raise SlotError(f"{spec} cannot be registered: {text}") from error
        self._functions.update(dict.fromkeys(kernel.sources(), kernel))

    def list_kernels(self) -> list[dict[str, Any]]:
        """Ops and variants, each with its kernels."""
        found = super().list_kernels()
        for entry in found:
            for kernel in entry["kernels"]:
                rename_sources(kernel["implementations"], self._functions)
        return found

    def parse(self, text: str) -> Module:
        """A module of fuse IR."""
        return Module(self, text)


class Module(context.Module):
    """Fuse IR whose slots can be bound and whose function can be run."""

    _context: Context

    def bind(self, config: Mapping[str, object]) -> dict[str, Any]:
        """Binds slots; returns the report. After an error nothing is bound.

        Raises:
            SlotError: a kernel is a Python function.
        """
        if self._context._functions and not config.get("check"):
            for call in super().bind({**config, "check": True})["calls"]:
                kernel = self._context._functions.get(call.get("source", ""))
                if kernel is not None:
                    raise SlotError(
                        f"{kernel.spec} is a Python function, which compiled "
                        "code cannot call; bind it to a slot of a PyTorch "
                        "module, with slots.bind"
                    )
        return super().bind(config)


def list_kernels(context: Context | None = None) -> list[dict[str, Any]]:
    """Ops and variants with their kernels, of a context or of fuse."""
    if context is None:
        context = Context()
    require(context, Context, "the context", A_CONTEXT)
    return context.list_kernels()
