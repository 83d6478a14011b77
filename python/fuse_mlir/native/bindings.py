# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C interface of fuse (include/fuse-c) on tensors of PyTorch."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import weakref
from collections.abc import Callable, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass
from pathlib import Path

import torch

from fuse_mlir.errors import NativeError
from fuse_mlir.native.threads import share_threads

#: Environment variable with the path of the library or of its directory.
LIBRARY_VARIABLE = "FUSE_LIBRARY"

# Code and bits of DLPack. Float8 types have separate codes.
DLPACK_TYPES = {
    torch.float64: (2, 64),
    torch.float32: (2, 32),
    torch.float16: (2, 16),
    torch.bfloat16: (4, 16),
    torch.float8_e4m3fn: (10, 8),
    torch.float8_e5m2: (12, 8),
    torch.int64: (0, 64),
    torch.int32: (0, 32),
    torch.int8: (0, 8),
    torch.uint8: (1, 8),
}
DLPACK_CPU, DLPACK_CUDA = 1, 2

#: Alignment in bytes that vector loads of GPUs need.
VECTOR_BYTES = 16


class _Device(Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class _DataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    """A view of a tensor in the layout of DLPack."""

    _fields_ = [
        ("data", c_void_p),
        ("device", _Device),
        ("ndim", c_int32),
        ("dtype", _DataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class CompileOptions(Structure):
    # Larger than any version of the struct; the library sets the real size.
    _fields_ = [
        ("size", c_size_t),
        ("cpu", c_char_p),
        ("link", c_int32),
        ("chip", c_char_p),
        ("portable", c_int32),
        ("tokens", c_int32),
        ("multiprocessors", c_int32),
        ("assemble", c_int32),
        ("schedules", c_char_p),
        ("ptxas", c_char_p),
        ("rest", c_uint8 * 256),
    ]


class LaunchArgs(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("inputs", POINTER(POINTER(DLTensor))),
        ("num_inputs", c_size_t),
        ("outputs", POINTER(POINTER(DLTensor))),
        ("num_outputs", c_size_t),
        ("workspace", c_void_p),
        ("stream", c_void_p),
        ("flags", c_uint32),
    ]


class CTensorType(Structure):
    _fields_ = [
        ("dtype", _DataType),
        ("ndim", c_int32),
        ("shape", POINTER(c_int64)),
        ("parameter", c_char_p),
    ]


class CSignature(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("num_arguments", c_size_t),
        ("arguments", POINTER(CTensorType)),
        ("num_results", c_size_t),
        ("results", POINTER(CTensorType)),
        ("max_tokens", c_int64),
    ]


SECTION_MANIFEST, SECTION_IR, SECTION_PTX = 1, 2, 5


class Section(Structure):
    _fields_ = [("kind", c_uint32), ("data", c_void_p), ("size", c_size_t)]


class CRemark(Structure):
    _fields_ = [
        ("kind", c_char_p),
        ("category", c_char_p),
        ("name", c_char_p),
        ("location", c_char_p),
        ("text", c_char_p),
    ]


RemarkHandler = CFUNCTYPE(None, POINTER(CRemark), c_void_p)
DiagnosticHandler = CFUNCTYPE(None, c_int32, c_char_p, c_char_p, c_void_p)

# FUSE_ERROR of fuse_severity.
_SEVERITY_WARNING = 1
_SEVERITY_ERROR = 2


@dataclass(frozen=True)
class TensorType:
    """A tensor of a signature; dynamic sizes are -1."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    parameter: str | None


@dataclass(frozen=True)
class Signature:
    """Arguments and results of the function of a program."""

    name: str
    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    #: Maximum number of rows of a launch; 0 for any number.
    max_tokens: int


@dataclass(frozen=True)
class Remark:
    """The remark of a pass on one site: fused, or the reason why not.

    Attributes:
        kind: Passed, Missed, Failure or Analysis.
        category: of the pass.
        name: id of the site.
        location: of its first op, file:line:column.
        text: "Key=value; Key=value".
    """

    kind: str
    category: str
    name: str
    location: str
    text: str

    @property
    def fields(self) -> dict[str, str]:
        """The values of `text` by their keys."""
        parts = _KEY.split(self.text)
        return dict(zip(parts[1::2], parts[2::2]))

    @property
    def refusal(self) -> str | None:
        """Id of the predicate that prevented a kernel, or a larger one."""
        if self.kind not in ("Missed", "Analysis"):
            return None
        found = _REASON.search(self.text)
        return found and found[1]

    @property
    def named_reason(self) -> tuple[str, str]:
        """Name of the predicate of `refusal`, and its text."""
        found = _REASON.search(self.fields.get("Reason", ""))
        return (found[2], found[3]) if found else ("", self.text)

    @property
    def place(self) -> str:
        """File and line of the model; empty if they are unknown."""
        return source_line(self.location)


# Keys of remarks are capitalized words before `=`, which texts lack.
_KEY = re.compile(r"(?:^|; )([A-Z]\w*)=")
_REASON = re.compile(r"(FUSE-N\d+) ([\w-]+)(?:: (.*))?")


def source_line(location: str) -> str:
    """File and line of "file:line:column"; empty for lines of IR without a
    file."""
    file, _, rest = location.partition(":")
    line = rest.partition(":")[0]
    return (
        f"{file}:{line}"
        if file not in ("", "-") and line.isdigit() and line != "0"
        else ""
    )


def library_candidates() -> list[Path]:
    """Possible paths of the library, the user's choice first."""
    chosen = os.environ.get(LIBRARY_VARIABLE)
    if chosen:
        path = Path(chosen)
        return [path / "libfuse.so" if path.is_dir() else path]
    package = Path(__file__).resolve().parents[1]
    build = package.parents[1] / "build"
    return [
        package / "lib" / "libfuse.so",
        build / "dev" / "lib" / "libfuse.so",
        *sorted(build.glob("*/lib/libfuse.so")),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """Loads libfuse once.

    Raises:
        NativeError: the library is missing, or cannot be loaded.
    """
    paths = library_candidates()
    path = next((p for p in paths if p.is_file()), None)
    if path is None:
        raise NativeError(
            "no libfuse.so; looked at "
            + ", ".join(str(p) for p in dict.fromkeys(paths))
            + f"; build the target fuse-c, or set {LIBRARY_VARIABLE}"
        )
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise NativeError(f"cannot load '{path}': {error}") from error
    loaded.fuse_last_error.restype = c_char_p
    loaded.fuse_status_name.restype = c_char_p
    loaded.fuse_artifact_bytes.restype = c_void_p
    kinds = [
        "artifact",
        "device",
        "program",
        "instance",
        "workspace",
        "shared_weights",
    ]
    # libfuse-rt lacks the compiler, but suffices for artifacts.
    if hasattr(loaded, "fuse_module_parse"):
        kinds += ["context", "module", "cache"]
        loaded.fuse_compile_options_init.restype = None
        loaded.fuse_string_free.restype = None
        loaded.fuse_string_free.argtypes = [c_void_p]
    for name in kinds:
        destroy = getattr(loaded, f"fuse_{name}_destroy")
        destroy.restype, destroy.argtypes = None, [c_void_p]
    share_threads(loaded)
    return loaded


@functools.cache
def library_with_lock() -> ctypes.PyDLL:
    """The same library, whose functions keep Python's lock."""
    return ctypes.PyDLL(library()._name)


@functools.cache
def build_id() -> str:
    """Tells builds of the library apart: its path, size and time."""
    path = os.path.realpath(library()._name)
    found = os.stat(path)
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def available() -> bool:
    """Whether the library exists."""
    try:
        library()
    except NativeError:
        return False
    return True


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor, aligned for vector loads of GPUs."""
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % VECTOR_BYTES else tensor


def check(status: int, text: str = "") -> None:
    """Raises the error of a call.

    Args:
        status: the code that the call returned; 0 is success.
        text: message that replaces the library's own.

    Raises:
        NativeError: the call failed.
    """
    if status:
        error = NativeError(text or last_error())
        error.status = library().fuse_status_name(status).decode()
        raise error


def last_error() -> str:
    return (library().fuse_last_error() or b"").decode() or "no reason given"


class Handle:
    """An opaque pointer that is destroyed with its Python object."""

    def __init__(self, kind: str, pointer: c_void_p) -> None:
        self.pointer = pointer
        destroy = getattr(library(), f"fuse_{kind}_destroy")
        self._finalizer = weakref.finalize(
            self, destroy, c_void_p(pointer.value)
        )
        # At exit, the library may be unloaded first.
        self._finalizer.atexit = False


def tensor_view(tensor: torch.Tensor) -> DLTensor:
    """A view of a contiguous tensor, which must stay alive.

    Raises:
        NativeError: the tensor has gaps, a dtype without a code in DLPack, or
            is neither on the CPU nor on a CUDA device.
    """
    if tensor.dtype not in DLPACK_TYPES:
        raise NativeError(
            f"a tensor has type {tensor.dtype}; expected one of "
            + ", ".join(map(str, DLPACK_TYPES))
        )
    if not tensor.is_contiguous():
        raise NativeError(
            f"a tensor of shape {tuple(tensor.shape)} has the "
            f"strides {tensor.stride()}; expected a contiguous "
            "one"
        )
    kinds = {"cpu": DLPACK_CPU, "cuda": DLPACK_CUDA}
    if tensor.device.type not in kinds:
        raise NativeError(
            f"a tensor is on '{tensor.device}'; expected cpu or cuda"
        )
    code, bits = DLPACK_TYPES[tensor.dtype]
    rank = tensor.dim()
    return DLTensor(
        tensor.data_ptr(),
        _Device(kinds[tensor.device.type], tensor.device.index or 0),
        rank,
        _DataType(code, bits, 1),
        (c_int64 * rank)(*tensor.shape),
        None,
        0,
    )


def tensor_views(tensors: Sequence[torch.Tensor]):
    """An array of pointers to views, which it keeps alive."""
    array = (POINTER(DLTensor) * max(1, len(tensors)))()
    for i, tensor in enumerate(tensors):
        array[i] = ctypes.pointer(tensor_view(tensor))
    return array


class Diagnostics:
    """Collects the errors and warnings of a context of the compiler.

    Args:
        context: a handle; its handler lives as long as this object.
    """

    def __init__(self, context: c_void_p) -> None:
        self._errors: list[tuple[str, str]] = []
        #: Warnings of the last call.
        self.warnings: list[str] = []
        errors, warnings = self._errors, self.warnings

        def collect(
            severity: int, location: bytes, message: bytes, _user_data: object
        ) -> None:
            if severity == _SEVERITY_ERROR:
                errors.append(
                    ((location or b"").decode(), (message or b"").decode())
                )
            elif severity == _SEVERITY_WARNING:
                warnings.append((message or b"").decode())

        self._handler = DiagnosticHandler(collect)
        check(
            library().fuse_context_set_diagnostic_handler(
                context, self._handler, None
            )
        )

    def check(self, call: Callable[..., int], *arguments: object) -> None:
        """Calls a function of the library.

        Raises:
            NativeError: the call failed. The text names lines of IR only for
                errors of the parser, because callers see no other IR.
        """
        self._errors.clear()
        self.warnings.clear()
        status = call(*arguments)
        name = library().fuse_status_name(status).decode()
        check(
            status,
            "; ".join(
                dict.fromkeys(
                    diagnostic_text(*error, name == "FUSE_ERROR_PARSE")
                    for error in self._errors
                )
            ),
        )


def diagnostic_text(location: str, message: str, parsing: bool) -> str:
    """The text of one error."""
    place = source_line(location)
    if place:
        return f"{message} ({place})"
    found = re.fullmatch(r".*:(\d+):(\d+)", location)
    if parsing and found and found[1] != "0":
        return f"line {found[1]}, column {found[2]}: {message}"
    return message


def tensor_type_of(found: CTensorType) -> TensorType:
    key = (found.dtype.code, found.dtype.bits)
    dtype = next(d for d, k in DLPACK_TYPES.items() if k == key)
    name = found.parameter
    return TensorType(
        dtype,
        tuple(found.shape[: found.ndim]),
        None if name is None else name.decode(),
    )
