# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C interface of fuse (include/fuse-c) on tensors of PyTorch."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int32,
                    c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64,
                    c_void_p, sizeof)
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fuse_mlir.arguments import require, require_device

#: Names the library file, or the directory that it is in.
LIBRARY_VARIABLE = "FUSE_LIBRARY"

# Code and bits of DLPack. Float8 types have codes of their own.
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

# Key of the workspace of captured graphs; streams are addresses.
_GRAPHS = -1

# FUSE_LAUNCH_ORDERED: PyTorch puts graphs that share memory in order.
_ORDERED = 2


class NativeError(RuntimeError):
    """A call into libfuse that failed; the text is the library's sentence.

    Attributes:
        status: name of the library's status, such as `FUSE_ERROR_TENSOR`;
            empty where the call did not come to it.
    """

    status = ""


class _Device(Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class _DataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    """A view of a tensor, as DLPack lays it out."""

    _fields_ = [("data", c_void_p), ("device", _Device), ("ndim", c_int32),
                ("dtype", _DataType), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _CompileOptions(Structure):
    # Larger than any version of the struct: the library fills in its size.
    _fields_ = [("size", c_size_t), ("cpu", c_char_p), ("link", c_int32),
                ("chip", c_char_p), ("portable", c_int32),
                ("tokens", c_int32), ("multiprocessors", c_int32),
                ("assemble", c_int32), ("schedules", c_char_p),
                ("rest", c_uint8 * 256)]


class _LaunchArgs(Structure):
    _fields_ = [("size", c_size_t), ("inputs", POINTER(POINTER(DLTensor))),
                ("num_inputs", c_size_t),
                ("outputs", POINTER(POINTER(DLTensor))),
                ("num_outputs", c_size_t), ("workspace", c_void_p),
                ("stream", c_void_p), ("flags", c_uint32)]


class _TensorType(Structure):
    _fields_ = [("dtype", _DataType), ("ndim", c_int32),
                ("shape", POINTER(c_int64)), ("parameter", c_char_p)]


class _Signature(Structure):
    _fields_ = [("name", c_char_p), ("num_arguments", c_size_t),
                ("arguments", POINTER(_TensorType)),
                ("num_results", c_size_t), ("results", POINTER(_TensorType)),
                ("max_tokens", c_int64)]


SECTION_MANIFEST, SECTION_IR, SECTION_PTX = 1, 2, 5


class _Section(Structure):
    _fields_ = [("kind", c_uint32), ("data", c_void_p), ("size", c_size_t)]


class _Remark(Structure):
    _fields_ = [("kind", c_char_p), ("category", c_char_p),
                ("name", c_char_p), ("location", c_char_p),
                ("text", c_char_p)]


_RemarkHandler = CFUNCTYPE(None, POINTER(_Remark), c_void_p)
_DiagnosticHandler = CFUNCTYPE(None, c_int32, c_char_p, c_char_p, c_void_p)

# FUSE_ERROR of fuse_severity.
_SEVERITY_WARNING = 1
_SEVERITY_ERROR = 2


@dataclass(frozen=True)
class TensorType:
    """A tensor of a signature; sizes are -1 where they are not static."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    parameter: str | None


@dataclass(frozen=True)
class Signature:
    """What the function of a program takes and gives."""

    name: str
    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    #: Most rows that a launch takes, 0 for any.
    max_tokens: int


@dataclass(frozen=True)
class Remark:
    """What a pass says of one site: fused, or why not.

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
        """Id of the predicate that kept a kernel, or a larger one, from
        forming."""
        if self.kind not in ("Missed", "Analysis"):
            return None
        found = _REASON.search(self.text)
        return found and found[1]

    @property
    def named_reason(self) -> tuple[str, str]:
        """Name of that predicate, and its sentence."""
        found = _REASON.search(self.fields.get("Reason", ""))
        return (found[2], found[3]) if found else ("", self.text)

    @property
    def place(self) -> str:
        """File and line of the model; empty where they are not known."""
        return source_line(self.location)


# Keys of remarks are words in capitals; the compiler's sentences have none.
_KEY = re.compile(r"(?:^|; )([A-Z]\w*)=")
_REASON = re.compile(r"(FUSE-N\d+) ([\w-]+)(?:: (.*))?")


def source_line(location: str) -> str:
    """File and line of "file:line:column", unless it is a line of IR, which
    is in no file."""
    file, _, rest = location.partition(":")
    line = rest.partition(":")[0]
    return f"{file}:{line}" if file not in ("", "-") and line.isdigit() \
        and line != "0" else ""


def _candidates() -> list[Path]:
    """Where the library may be, the user's choice first."""
    chosen = os.environ.get(LIBRARY_VARIABLE)
    if chosen:
        path = Path(chosen)
        return [path / "libfuse.so" if path.is_dir() else path]
    package = Path(__file__).resolve().parent
    build = package.parents[1] / "build"
    return [package / "lib" / "libfuse.so",
            build / "dev" / "lib" / "libfuse.so",
            *sorted(build.glob("*/lib/libfuse.so"))]


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Loads libfuse once.

    Raises:
        NativeError: it is nowhere, or it can not be loaded.
    """
    paths = _candidates()
    path = next((p for p in paths if p.is_file()), None)
    if path is None:
        raise NativeError(
            "no libfuse.so; looked at "
            + ", ".join(str(p) for p in dict.fromkeys(paths))
            + f"; build the target fuse-c, or set {LIBRARY_VARIABLE}")
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise NativeError(f"cannot load '{path}': {error}") from error
    loaded.fuse_last_error.restype = c_char_p
    loaded.fuse_status_name.restype = c_char_p
    loaded.fuse_artifact_bytes.restype = c_void_p
    kinds = ["artifact", "device", "program", "instance", "workspace",
             "shared_weights"]
    # libfuse-rt has no compiler, and is enough for artefacts.
    if hasattr(loaded, "fuse_module_parse"):
        kinds += ["context", "module"]
        loaded.fuse_compile_options_init.restype = None
        loaded.fuse_string_free.restype = None
        loaded.fuse_string_free.argtypes = [c_void_p]
    for name in kinds:
        destroy = getattr(loaded, f"fuse_{name}_destroy")
        destroy.restype, destroy.argtypes = None, [c_void_p]
    return loaded


def available() -> bool:
    """Whether the library is there."""
    try:
        library()
    except NativeError:
        return False
    return True


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor that kernels of GPUs can read vectors of."""
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % VECTOR_BYTES else tensor


def _check(status: int, text: str = "") -> None:
    """Raises the error of a call.

    Args:
        text: instead of the library's sentence.
    """
    if status:
        error = NativeError(text or _last_error())
        error.status = library().fuse_status_name(status).decode()
        raise error


def _last_error() -> str:
    return (library().fuse_last_error() or b"").decode() or "no reason given"


class _Handle:
    """An opaque pointer that is destroyed with its Python object."""

    def __init__(self, kind: str, pointer: c_void_p) -> None:
        self.pointer = pointer
        destroy = getattr(library(), f"fuse_{kind}_destroy")
        self._finalizer = weakref.finalize(self, destroy,
                                           c_void_p(pointer.value))
        # At exit the library may be gone first.
        self._finalizer.atexit = False


def tensor_view(tensor: torch.Tensor) -> DLTensor:
    """A view of a contiguous tensor, which has to stay alive.

    Raises:
        NativeError: the tensor is strided, of a type that DLPack has no code
            for, or neither on the CPU nor on a CUDA device.
    """
    if tensor.dtype not in DLPACK_TYPES:
        raise NativeError(f"a tensor has type {tensor.dtype}; expected one of "
                          + ", ".join(map(str, DLPACK_TYPES)))
    if not tensor.is_contiguous():
        raise NativeError(f"a tensor of shape {tuple(tensor.shape)} has the "
                          f"strides {tensor.stride()}; expected a contiguous "
                          "one")
    kinds = {"cpu": DLPACK_CPU, "cuda": DLPACK_CUDA}
    if tensor.device.type not in kinds:
        raise NativeError(f"a tensor is on '{tensor.device}'; expected cpu or "
                          "cuda")
    code, bits = DLPACK_TYPES[tensor.dtype]
    rank = tensor.dim()
    return DLTensor(
        tensor.data_ptr(),
        _Device(kinds[tensor.device.type], tensor.device.index or 0), rank,
        _DataType(code, bits, 1), (c_int64 * rank)(*tensor.shape), None, 0)


def _views(tensors: Sequence[torch.Tensor]):
    """Array of pointers to views; keeps them alive itself."""
    array = (POINTER(DLTensor) * max(1, len(tensors)))()
    for i, tensor in enumerate(tensors):
        array[i] = ctypes.pointer(tensor_view(tensor))
    return array


class _Diagnostics:
    """Errors and warnings of a context, as the compiler gives them.

    Args:
        context: a handle; the handler lives as long as this object.
    """

    def __init__(self, context: c_void_p) -> None:
        self._errors: list[tuple[str, str]] = []
        #: Those of the last call.
        self.warnings: list[str] = []
        errors, warnings = self._errors, self.warnings

        def collect(severity: int, location: bytes, message: bytes,
                    _user_data: Any) -> None:
            if severity == _SEVERITY_ERROR:
                errors.append(((location or b"").decode(),
                               (message or b"").decode()))
            elif severity == _SEVERITY_WARNING:
                warnings.append((message or b"").decode())

        self._handler = _DiagnosticHandler(collect)
        _check(library().fuse_context_set_diagnostic_handler(
            context, self._handler, None))

    def check(self, call: Callable[..., int], *arguments: Any) -> None:
        """Calls a function of the library.

        Raises:
            NativeError: it failed. Lines of IR are named where it does not
                parse; elsewhere the caller has not seen that IR.
        """
        self._errors.clear()
        self.warnings.clear()
        status = call(*arguments)
        name = library().fuse_status_name(status).decode()
        _check(status, "; ".join(dict.fromkeys(
            _diagnostic(*error, name == "FUSE_ERROR_PARSE")
            for error in self._errors)))


def _diagnostic(location: str, message: str, parsing: bool) -> str:
    """One error in a sentence."""
    place = source_line(location)
    if place:
        return f"{message} ({place})"
    found = re.fullmatch(r".*:(\d+):(\d+)", location)
    if parsing and found and found[1] != "0":
        return f"line {found[1]}, column {found[2]}: {message}"
    return message


class Module:
    """IR in a context of its own.

    Args:
        text: fuse IR.

    Raises:
        NativeError: the text does not parse or verify.
    """

    def __init__(self, text: str) -> None:
        require(text, str, "the IR", "the text of a module")
        lib = library()
        if not hasattr(lib, "fuse_module_parse"):
            raise NativeError(f"'{lib._name}' is the runtime without the "
                              "compiler; expected libfuse.so")
        self.remarks: list[Remark] = []
        context = c_void_p()
        _check(lib.fuse_context_create(byref(context)))
        self._context = _Handle("context", context)
        self._diagnostics = _Diagnostics(context)
        remarks = self.remarks

        def collect(remark, _user_data) -> None:
            fields = (getattr(remark.contents, field[0]) or b""
                      for field in _Remark._fields_)
            remarks.append(Remark(*(f.decode() for f in fields)))

        self._handler = _RemarkHandler(collect)
        _check(lib.fuse_context_set_remark_handler(context, self._handler,
                                                   None))
        data = text.encode()
        module = c_void_p()
        self._diagnostics.check(lib.fuse_module_parse, context, data,
                                c_size_t(len(data)), byref(module))
        self._module = _Handle("module", module)

    def run(self, pipeline: str) -> None:
        """Runs passes; when one fails the module is as it was before."""
        require(pipeline, str, "the pipeline", "a text such as "
                "'builtin.module(canonicalize)'")
        self._diagnostics.check(library().fuse_module_run,
                                self._module.pointer, pipeline.encode())

    def text(self) -> str:
        """The module as it is printed."""
        printed = c_void_p()
        _check(library().fuse_module_print(self._module.pointer,
                                           byref(printed), None))
        try:
            return ctypes.string_at(printed).decode()
        finally:
            library().fuse_string_free(printed)

    def compile(self, link: bool = False, chip: str = "",
                tokens: int = 0, portable: bool = False,
                cpu: str = "native") -> "Artifact":
        """Code for the CPU of this machine, or for a GPU.

        Args:
            link: also for hosts without the compiler.
            chip: such as `sm_90a`, instead of the CPU.
            tokens: most rows that scheduled kernels take, if not the default.
            portable: without scheduled kernels.
            cpu: `native`, or a level such as `x86-64-v3`, for other machines.

        Raises:
            NativeError: there is no code for this IR and target.
        """
        return compile_module(self._module.pointer, self._diagnostics, link,
                              chip, tokens, portable, cpu)


def compile_module(module: c_void_p, diagnostics: _Diagnostics,
                   link: bool = False, chip: str = "",
                   tokens: int = 0, portable: bool = False,
                   cpu: str = "native") -> "Artifact":
    """`Module.compile` for a handle of the library, and its context's
    errors."""
    for what, name in (("chip", chip), ("cpu", cpu)):
        require(name, str, f"the {what}", "its name")
    options = _CompileOptions()
    library().fuse_compile_options_init(byref(options))
    options.link = int(link)
    options.portable = int(portable)
    options.cpu = cpu.encode()
    if chip:
        options.cpu, options.chip = b"", chip.encode()
    if tokens:
        options.tokens = tokens
    artifact = c_void_p()
    diagnostics.check(library().fuse_module_compile, module, byref(options),
                      byref(artifact))
    return Artifact(artifact)


class Artifact:
    """Compiled code with everything that a host needs."""

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = _Handle("artifact", pointer)

    @classmethod
    def load(cls, path: str | Path) -> "Artifact":
        """Reads and checks a file."""
        pointer = c_void_p()
        _check(library().fuse_artifact_load(os.fsencode(path),
                                            byref(pointer)))
        return cls(pointer)

    def save(self, path: str | Path) -> None:
        """Writes a file, which readers see whole or not at all."""
        _check(library().fuse_artifact_save(self._handle.pointer,
                                            os.fsencode(path)))

    def sections(self, kind: int) -> list[bytes]:
        """Contents of the sections of a kind, `SECTION_PTX` for one.

        Raises:
            NativeError: a kernel does not compile.
        """
        lib, section = library(), _Section()
        lib.fuse_artifact_num_sections.restype = c_size_t
        count = lib.fuse_artifact_num_sections(self._handle.pointer)
        if count == 0:
            raise NativeError(_last_error())
        found = []
        for i in range(count):
            _check(lib.fuse_artifact_section(self._handle.pointer,
                                             c_size_t(i), byref(section)))
            if section.kind == kind:
                found.append(ctypes.string_at(section.data, section.size))
        return found

    def ir(self) -> str:
        """The fused IR that the code was made from."""
        found = self.sections(SECTION_IR)
        if not found:
            raise NativeError("the artefact has no IR")
        return found[0].decode()

    def load_on(self, device: str | torch.device) -> "Program":
        """Puts the code on a device."""
        device = require_device(device)
        program = c_void_p()
        _check(library().fuse_program_load(
            self._handle.pointer, _device(device.type, device.index or 0),
            byref(program)))
        return Program(program)

    # Defined last: it shadows the builtin in annotations.
    def bytes(self) -> bytes:
        """The contents of the file, for which all code is compiled.

        Raises:
            NativeError: a kernel does not compile.
        """
        size = c_size_t()
        data = library().fuse_artifact_bytes(self._handle.pointer, byref(size))
        if data is None:
            raise NativeError(_last_error())
        return ctypes.string_at(data, size.value)


_DEVICES: dict[tuple[str, int], _Handle] = {}
_LOCK = threading.Lock()


def set_num_threads(count: int = 0) -> None:
    """Sets how many threads share a launch on the CPU, the caller among them.

    Args:
        count: 1 to 1024, or 0 for `FUSE_NUM_THREADS` or else the processors
            that the process may run on, as it is at first. Results do not
            depend on it.
    """
    require(count, int, "argument 'count'", "a number of threads")
    _check(library().fuse_set_num_threads(c_uint32(count)))


def num_threads() -> int:
    """Threads that share a launch on the CPU."""
    count = c_uint32()
    _check(library().fuse_num_threads(byref(count)))
    return count.value


def _device(kind: str, index: int) -> c_void_p:
    """One handle per device and process."""
    if kind not in ("cpu", "cuda"):
        raise NativeError(f"no code for device '{kind}'; expected cpu or cuda")
    with _LOCK:
        if (kind, index) not in _DEVICES:
            lib, device = library(), c_void_p()
            if kind == "cpu":
                _check(lib.fuse_device_open_cpu(byref(device)))
            else:
                _check(lib.fuse_device_open_cuda(c_int32(index),
                                                 byref(device)))
            _DEVICES[kind, index] = _Handle("device", device)
        return _DEVICES[kind, index].pointer


def set_exclusive(device: torch.device | str, exclusive: bool = True) -> None:
    """Promises that no two kernels whose blocks wait for each other run on a
    GPU at the same time, so that overlapping launches need not be cooperative.

    `fuse_device_set_exclusive` in `fuse-c/Runtime.h` says what this takes.
    Every call forgets on which stream the last launch was: after a change of
    streams that PyTorch has put in order, call it again.

    Args:
        device: such as `cuda:0`.
        exclusive: whether the promise holds from now on.

    Raises:
        NativeError: the device is the CPU, or there is no such GPU.
    """
    device = require_device(device)
    _check(library().fuse_device_set_exclusive(
        _device(device.type, device.index or 0), c_int32(exclusive)))


def _tensor_type(found: _TensorType) -> TensorType:
    key = (found.dtype.code, found.dtype.bits)
    dtype = next(d for d, k in DLPACK_TYPES.items() if k == key)
    name = found.parameter
    return TensorType(dtype, tuple(found.shape[:found.ndim]),
                      None if name is None else name.decode())


class SharedWeights:
    """Packed weights that instances on one device share, found again by where
    the tensors lie: those that changed need another object."""

    def __init__(self) -> None:
        made = c_void_p()
        _check(library().fuse_shared_weights_create(byref(made)))
        self.handle = _Handle("shared_weights", made)


class Workspaces:
    """Scratch memory of the instances of a program.

    Launches on one stream follow each other, so that they share a workspace,
    however many instances they are of; so do all graphs, which must not replay
    at the same time.
    """

    def __init__(self) -> None:
        #: Held while the kernels of a launch are put on a stream.
        self.lock = threading.Lock()
        self._held: dict[int, tuple[int, Any]] = {}
        self._kept: list[Any] = []

    def take(self, instance: c_void_p, size: int, stream: int,
             capturing: bool) -> Any:
        """A workspace of at least `size` bytes for a launch.

        Raises:
            NativeError: a graph is captured, during which nothing can be
                allocated, and there is none that is large enough.
        """
        if not capturing:
            self._reserve(instance, _GRAPHS, size)
            return self._reserve(instance, stream, size)
        most, workspace = self._held.get(_GRAPHS, (0, None))
        if most < size:
            raise NativeError(
                "a graph is captured before the kernel ran with inputs "
                "of this size; call the model once before capturing it")
        return workspace

    def _reserve(self, instance: c_void_p, key: int, size: int) -> Any:
        most, workspace = self._held.get(key, (0, None))
        if most < size:
            if key == _GRAPHS:
                # A graph may still use the smaller one.
                self._kept.append(workspace)
            workspace = self._create(instance, size)
            self._held[key] = size, workspace
        return workspace

    @staticmethod
    def _create(instance: c_void_p, size: int) -> _Handle:
        made = c_void_p()
        _check(library().fuse_workspace_create(instance, c_size_t(size),
                                               byref(made)))
        return _Handle("workspace", made)


class Program:
    """Code on a device."""

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = _Handle("program", pointer)
        self._workspaces = Workspaces()

    def signature(self) -> Signature:
        """Of the first function."""
        found = _Signature()
        _check(library().fuse_program_signature(
            self._handle.pointer, c_size_t(0), byref(found)))
        return Signature(
            found.name.decode(),
            tuple(map(_tensor_type,
                      found.arguments[:found.num_arguments])),
            tuple(map(_tensor_type, found.results[:found.num_results])),
            found.max_tokens)

    def instance(self) -> "Instance":
        """The one function of the code, without weights yet."""
        instance = c_void_p()
        _check(library().fuse_instance_create(self._handle.pointer, None,
                                              byref(instance)))
        signature = self.signature()
        return Instance(instance, [len(r.shape) for r in signature.results],
                        signature.max_tokens, self._workspaces)


class Instance:
    """A function with weights, which it refers to and does not copy.

    Args:
        pointer: the handle.
        ranks: of the results.
        max_tokens: most rows that a launch takes, 0 for any.
        workspaces: what launches of instances of the same code share.
    """

    def __init__(self, pointer: c_void_p, ranks: Sequence[int],
                 max_tokens: int, workspaces: Workspaces) -> None:
        self.ranks = tuple(ranks)
        self.max_tokens = max_tokens
        self._handle = _Handle("instance", pointer)
        self._weights: dict[str, tuple[torch.Tensor, DLTensor]] = {}
        self._workspaces = workspaces

    def bind(self, parameter: str, tensor: torch.Tensor) -> None:
        """Binds the memory of `tensor`, kept alive, to a parameter."""
        require(tensor, torch.Tensor, f"parameter '{parameter}'", "a tensor")
        tensor = tensor.detach()
        view = tensor_view(tensor)
        _check(library().fuse_instance_bind_parameter(
            self._handle.pointer, parameter.encode(), byref(view)))
        self._weights[parameter] = (tensor, view)

    def limit_tokens(self, tokens: int) -> None:
        """Launches will have at most so many tokens: code for more is not
        loaded. A prepared instance loads what it lacks."""
        _check(library().fuse_instance_limit_tokens(self._handle.pointer,
                                                    c_int64(tokens)))

    def prepare(self, shared: SharedWeights | None = None) -> None:
        """Does what a launch must not: packs weights, loads code."""
        if shared is None:
            _check(library().fuse_instance_prepare(self._handle.pointer))
        else:
            _check(library().fuse_instance_prepare_shared(
                self._handle.pointer, shared.handle.pointer))

    def result_shape(self, inputs: Sequence[torch.Tensor],
                     result: int = 0) -> list[int]:
        """Shape of a result for such inputs."""
        lib, rank = library(), self.ranks[result]
        shape = (c_int64 * max(1, rank))()
        _check(lib.fuse_instance_result_shape(
            self._handle.pointer, _views(inputs), c_size_t(len(inputs)),
            c_size_t(result), shape))
        return list(shape[:rank])

    def launch(self, inputs: Sequence[torch.Tensor],
               outputs: Sequence[torch.Tensor]) -> None:
        """Runs on contiguous tensors, on the current stream of PyTorch.

        Raises:
            NativeError: a tensor does not fit the signature.
        """
        lib = library()
        ins, outs = _views(inputs), _views(outputs)
        args = _LaunchArgs(sizeof(_LaunchArgs), ins, len(inputs), outs,
                           len(outputs), None, None, 0)
        if not (outputs and outputs[0].is_cuda):
            _check(lib.fuse_launch(self._handle.pointer, byref(args)))
            return
        args.stream = torch.cuda.current_stream(outputs[0].device).cuda_stream
        capturing = torch.cuda.is_current_stream_capturing()
        if capturing:
            args.flags = _ORDERED
        size = c_size_t()
        _check(lib.fuse_instance_workspace_size(
            self._handle.pointer, ins, c_size_t(len(inputs)), byref(size)))
        # Kernels of two launches must not mix in one workspace.
        with self._workspaces.lock:
            if size.value:
                args.workspace = self._workspaces.take(
                    self._handle.pointer, size.value, args.stream or 0,
                    capturing).pointer
            _check(lib.fuse_launch(self._handle.pointer, byref(args)))
