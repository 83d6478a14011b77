# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Registered kernels, and fuse IR whose slots are bound to them."""

from __future__ import annotations

import ctypes
import json
import os
import warnings
from collections.abc import Mapping
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import torch

from fuse_mlir import native
from fuse_mlir.errors import NativeError
from fuse_mlir.support.arguments import require
from fuse_mlir.support.digests import CheckedFolder


def _call(
    name: str, *arguments: object, context: Context | None = None
) -> None:
    """Calls the library; errors are those that `context` collected."""
    function = getattr(native.library(), name)
    if context is None:
        native.check(function(*arguments))
    else:
        context._diagnostics.check(function, *arguments)


def _take_text(name: str, *arguments: object, context: Context) -> str:
    """The string that a function returns through its last parameter."""
    text = c_void_p()
    _call(name, *arguments, byref(text), context=context)
    try:
        return ctypes.string_at(text).decode()
    finally:
        native.library().fuse_string_free(text)


#: First words of sources of code in files.
_CODE = ("ptx", "cubin", "library")


def _require_checked(checked: CheckedFolder, path: str) -> None:
    """Refuses the path of a file without a digest."""
    if checked.name_of(path) is None:
        raise NativeError(
            f"{path.removeprefix(f'{checked.path}/')}: its SHA-256 is not "
            "given; expected one of "
            f"{', '.join(sorted(checked.names)) or 'no file'}"
        )


def _check_sources(kernels: str, checked: CheckedFolder) -> None:
    """Refuses kernels that name a file without a digest."""
    # The list of another context has all paths, however the text writes them.
    probe = Context()
    probe._register(kernels, checked.path, force=True)
    for entry in probe.list_kernels():
        for kernel in entry["kernels"]:
            for implementation in kernel["implementations"]:
                kind, _, code = implementation["source"].partition(" ")
                if kind in _CODE:
                    _require_checked(checked, code.rpartition(":")[0])


#: The expected type in errors about a context.
A_CONTEXT = "a fuse_mlir.slots.Context"


class Context:
    """Kernels that can be bound: those of fuse, and registered ones."""

    def __init__(self) -> None:
        pointer = c_void_p()
        _call("fuse_context_create", byref(pointer))
        self._handle = native.Handle("context", pointer)
        self._diagnostics = native.Diagnostics(pointer)
        #: Copies of files that kernels name.
        self._checked: list[CheckedFolder] = []

    def register_kernels(
        self,
        kernels: str | Path,
        directory: Path | None = None,
        force: bool = False,
        *,
        sha256: Mapping[str, str] | None = None,
    ) -> None:
        """Registers the `nn.slot_kernel` ops of a file or of a text.

        Relative paths of code start at the directory of the file, or at
        `directory`. A second kernel with the same op, variant and name is an
        error, unless `force` is set.

        With `sha256`, every file is read once, now, and its digest is checked
        before it is parsed. Later bindings use what was read. Libraries that a
        shared library loads itself are not checked.

        Args:
            kernels: path of the file, or the text.
            directory: of the files that the kernels name.
            force: whether kernels may replace registered ones.
            sha256: digests of all files as 64 hexadecimal digits, by their
                paths below `directory`; None accepts any files.

        Raises:
            NativeError: a kernel is malformed, or a file has no digest or
                another one.
        """
        require(
            kernels,
            (str, Path),
            "the registry",
            "a text of nn.slot_kernel ops, or the path of a file with them",
        )
        name = None
        if isinstance(kernels, Path):
            path = kernels.absolute() if directory else kernels.resolve()
            directory = directory or path.parent
            name = os.path.relpath(path, directory)
        if sha256 is not None:
            if directory is None:
                raise NativeError("digests of files need their directory")
            checked = CheckedFolder(directory, sha256)
            if name is not None:
                _require_checked(checked, str(checked.path / name))
                kernels = checked.path / name
            directory = checked.path
        if isinstance(kernels, Path):
            kernels = kernels.read_text()
        if sha256 is None:
            self._register(kernels, directory, force)
            return
        _check_sources(kernels, checked)
        self._register(kernels, directory, force)
        # Bound kernels read the copies when they are compiled.
        self._checked.append(checked)

    def _register(
        self, kernels: str, directory: Path | None, force: bool
    ) -> None:
        text = kernels.encode()
        _call(
            "fuse_context_register_kernels",
            self._handle.pointer,
            text,
            c_size_t(len(text)),
            c_char_p(str(directory).encode() if directory else None),
            c_int32(force),
            context=self,
        )

    def list_kernels(self) -> list[dict[str, Any]]:
        """Ops and variants, each with its kernels."""
        return json.loads(
            _take_text(
                "fuse_context_list_kernels",
                self._handle.pointer,
                c_int32(1),
                context=self,
            )
        )

    def parse(self, text: str) -> Module:
        """A module of fuse IR."""
        return Module(self, text)


class Module:
    """Fuse IR whose slots can be bound and whose function can be run."""

    def __init__(self, context: Context, text: str) -> None:
        require(context, Context, "the context", A_CONTEXT)
        require(text, str, "the IR", "the text of a module")
        data, pointer = text.encode(), c_void_p()
        _call(
            "fuse_module_parse",
            context._handle.pointer,
            data,
            c_size_t(len(data)),
            byref(pointer),
            context=context,
        )
        #: The context owns the kernels.
        self._context = context
        self._handle = native.Handle("module", pointer)

    def __str__(self) -> str:
        printed = c_void_p()
        _call("fuse_module_print", self._handle.pointer, byref(printed), None)
        try:
            return ctypes.string_at(printed).decode()
        finally:
            native.library().fuse_string_free(printed)

    def bind(self, config: Mapping[str, object]) -> dict[str, Any]:
        """Binds slots and returns the report; an error changes nothing."""
        report = json.loads(
            _take_text(
                "fuse_module_bind_slots",
                self._handle.pointer,
                json.dumps(config).encode(),
                context=self._context,
            )
        )
        for text in self._context._diagnostics.warnings:
            # Warnings are about earlier names of kernels.
            warnings.warn(text, FutureWarning, stacklevel=4)
        return report

    def unbind(self, model: str | None = None) -> None:
        """Undoes the bindings of one model, or all bindings."""
        require(
            model,
            (str, type(None)),
            "argument 'model'",
            "the name of an nn.model",
        )
        _call(
            "fuse_module_unbind_slots",
            self._handle.pointer,
            c_char_p(model.encode() if model else None),
            context=self._context,
        )

    def compile(
        self, device: torch.device = torch.device("cpu"), chip: str = ""
    ) -> native.Instance:
        """Compiles the function; its slots must be bound.

        Args:
            device: where the function will run; its kernels must support it.
            chip: of a GPU, such as `sm_90a`; empty for this CPU.
        """
        instance = self.load(device, chip).instance()
        instance.prepare()
        return instance

    def load(self, device: torch.device, chip: str) -> native.Program:
        """The code of `compile`, which may have many instances."""
        artifact = native.compile_module(
            self._handle.pointer, self._context._diagnostics, chip=chip
        )
        return artifact.load_on(device)
