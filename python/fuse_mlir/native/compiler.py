# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of IR, and the artifacts that the compiler makes from them."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import byref, c_size_t, c_void_p
from pathlib import Path

import torch

from fuse_mlir.errors import NativeError
from fuse_mlir.native.bindings import (
    SECTION_IR,
    CompileOptions,
    CRemark,
    Diagnostics,
    Handle,
    Remark,
    RemarkHandler,
    Section,
    check,
    last_error,
    library,
)
from fuse_mlir.native.device import multiprocessors_of
from fuse_mlir.native.instance import Program, device_handle
from fuse_mlir.support.arguments import require, require_device
from fuse_mlir.support.digests import require_digest
from fuse_mlir.support.ptxas import find_ptxas

#: Value of `assemble` in `fuse_compile_options` that requires ptxas.
_REQUIRED = 2


class Module:
    """IR in a separate context.

    Args:
        text: fuse IR.

    Raises:
        NativeError: the text does not parse or verify.
    """

    def __init__(self, text: str) -> None:
        require(text, str, "the IR", "the text of a module")
        lib = library()
        if not hasattr(lib, "fuse_module_parse"):
            raise NativeError(
                f"'{lib._name}' is the runtime without the "
                "compiler; expected libfuse.so"
            )
        self.remarks: list[Remark] = []
        context = c_void_p()
        check(lib.fuse_context_create(byref(context)))
        self._context = Handle("context", context)
        self._diagnostics = Diagnostics(context)
        remarks = self.remarks

        def collect(remark, _user_data) -> None:
            fields = (
                getattr(remark.contents, field[0]) or b""
                for field in CRemark._fields_
            )
            remarks.append(Remark(*(f.decode() for f in fields)))

        self._handler = RemarkHandler(collect)
        check(lib.fuse_context_set_remark_handler(context, self._handler, None))
        data = text.encode()
        module = c_void_p()
        self._diagnostics.check(
            lib.fuse_module_parse,
            context,
            data,
            c_size_t(len(data)),
            byref(module),
        )
        self._module = Handle("module", module)

    def run(self, pipeline: str) -> None:
        """Runs passes. If one fails, the module does not change."""
        require(
            pipeline,
            str,
            "the pipeline",
            "a text such as 'builtin.module(canonicalize)'",
        )
        self._diagnostics.check(
            library().fuse_module_run, self._module.pointer, pipeline.encode()
        )

    def text(self) -> str:
        """The printed module."""
        printed = c_void_p()
        check(
            library().fuse_module_print(
                self._module.pointer, byref(printed), None
            )
        )
        try:
            return ctypes.string_at(printed).decode()
        finally:
            library().fuse_string_free(printed)

    def compile(
        self,
        link: bool = False,
        chip: str = "",
        tokens: int = 0,
        portable: bool = False,
        cpu: str = "native",
        cached: bool = False,
        assemble: bool = False,
    ) -> Artifact:
        """Code for the CPU of this machine, or for a GPU.

        Args:
            link: whether hosts without the compiler can load the code.
            chip: such as `sm_90a`, instead of the CPU.
            tokens: maximum number of rows of scheduled kernels; 0 for the
                default.
            portable: whether to use no scheduled kernels.
            cpu: `native`, or a level such as `x86-64-v3` for other machines.
            cached: whether to look for the code in the cache on disk, and to
                keep it there.
            assemble: whether ptxas assembles the code of a GPU now, if it is
                found. Otherwise the driver does when it loads a kernel.

        Raises:
            NativeError: this IR cannot be compiled for the target.
        """
        return compile_module(
            self._module.pointer,
            self._diagnostics,
            link,
            chip,
            tokens,
            portable,
            cpu,
            cached,
            assemble,
        )


@functools.cache
def _open_cache() -> tuple[Handle | None, str]:
    """The cache of artifacts, or why there is none."""
    found = c_void_p()
    try:
        check(library().fuse_cache_open(None, byref(found)))
    except NativeError as error:
        return None, str(error)
    return Handle("cache", found), ""


def cache_problem() -> str:
    """Why code is not kept on disk; empty where it is."""
    return _open_cache()[1]


def cache_folder() -> Path | None:
    """The folder of the cache of artifacts, whether it exists or not; None if
    no environment variable leads to one. lib/CAPI/Cache.cpp has the same rules.
    """
    chosen = os.environ.get("FUSE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):
        return Path(base) / "fuse"
    home = os.environ.get("HOME")
    return Path(home) / ".cache" / "fuse" if home else None


def compile_module(
    module: c_void_p,
    diagnostics: Diagnostics,
    link: bool = False,
    chip: str = "",
    tokens: int = 0,
    portable: bool = False,
    cpu: str = "native",
    cached: bool = False,
    assemble: bool = False,
) -> Artifact:
    """`Module.compile` for a handle of the library, with the diagnostics of
    its context."""
    for what, name in (("chip", chip), ("cpu", cpu)):
        require(name, str, f"the {what}", "its name")
    options = CompileOptions()
    library().fuse_compile_options_init(byref(options))
    options.link = int(link)
    options.portable = int(portable)
    options.cpu = cpu.encode()
    if chip:
        options.cpu, options.chip = b"", chip.encode()
        options.multiprocessors = (
            multiprocessors_of(chip) or options.multiprocessors
        )
    if tokens:
        options.tokens = tokens
    ptxas = find_ptxas() if assemble and chip else None
    if ptxas is not None:
        options.assemble, options.ptxas = _REQUIRED, ptxas.encode()
    artifact = c_void_p()
    cache = _open_cache()[0] if cached else None
    if cache is None:
        diagnostics.check(
            library().fuse_module_compile,
            module,
            byref(options),
            byref(artifact),
        )
    else:
        diagnostics.check(
            library().fuse_module_compile_cached,
            module,
            byref(options),
            cache.pointer,
            byref(artifact),
            None,
        )
    return Artifact(artifact)


def stamped(text: str) -> str:
    """IR with the version of its text, `fuse.version`, for a file.

    Two texts are equal if their modules are, whatever versions they had.

    Args:
        text: fuse IR, as it was printed or read from a file.

    Raises:
        NativeError: the text does not parse, or its version is newer.

    Example:
        ```python
        stamped("module {}")  # module attributes {fuse.version = 1 : i32} {}
        ```
    """
    module = Module(text)
    module.run("builtin.module(fuse-stamp-version)")
    return module.text()


class Artifact:
    """Compiled code with all data that a host needs."""

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = Handle("artifact", pointer)

    @classmethod
    def load(cls, path: str | Path, sha256: str | None = None) -> Artifact:
        """Reads and checks a file.

        Args:
            path: of the file, which is read once.
            sha256: digest of the content, which is checked before anything is
                parsed; 64 hexadecimal digits, or None for any content.

        Raises:
            NativeError: the file is missing, damaged or of another version, or
                the digest is malformed or another one.
        """
        pointer = c_void_p()
        if sha256 is None:
            check(
                library().fuse_artifact_load(os.fsencode(path), byref(pointer))
            )
            return cls(pointer)
        check(
            library().fuse_artifact_load_checked(
                os.fsencode(path),
                require_digest(path, sha256).encode(),
                byref(pointer),
            )
        )
        return cls(pointer)

    def save(self, path: str | Path) -> None:
        """Writes a file atomically."""
        check(
            library().fuse_artifact_save(
                self._handle.pointer, os.fsencode(path)
            )
        )

    def sections(self, kind: int) -> list[bytes]:
        """Contents of the sections of a kind, such as `SECTION_PTX`.

        Raises:
            NativeError: a kernel does not compile.
        """
        lib, section = library(), Section()
        lib.fuse_artifact_num_sections.restype = c_size_t
        count = lib.fuse_artifact_num_sections(self._handle.pointer)
        if count == 0:
            raise NativeError(last_error())
        found = []
        for i in range(count):
            check(
                lib.fuse_artifact_section(
                    self._handle.pointer, c_size_t(i), byref(section)
                )
            )
            if section.kind == kind:
                found.append(ctypes.string_at(section.data, section.size))
        return found

    def ir(self) -> str:
        """The fused IR of the code."""
        found = self.sections(SECTION_IR)
        if not found:
            raise NativeError("the artifact has no IR")
        return found[0].decode()

    def load_on(self, device: str | torch.device) -> Program:
        """Loads the code on a device."""
        device = require_device(device)
        program = c_void_p()
        check(
            library().fuse_program_load(
                self._handle.pointer,
                device_handle(device.type, device.index or 0),
                byref(program),
            )
        )
        return Program(program)

    # Defined last: it shadows the builtin in annotations.
    def bytes(self) -> bytes:
        """The contents of the file, after compiling all code.

        Raises:
            NativeError: a kernel does not compile.
        """
        size = c_size_t()
        data = library().fuse_artifact_bytes(self._handle.pointer, byref(size))
        if data is None:
            raise NativeError(last_error())
        return ctypes.string_at(data, size.value)
