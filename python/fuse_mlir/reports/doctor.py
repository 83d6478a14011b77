# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which parts of an installation there are, and what the others prevent.

Importing this module imports no package that can be broken. Each probe imports
what it examines, and an error of a probe becomes its finding.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Literal

from fuse_mlir.support.chips import CAPABILITIES, chip_name
from fuse_mlir.support.ptxas import find_ptxas

#: ok: all of it is there. limited: fusing works without it, with the stated
#: consequence. broken: nothing can be fused.
Status = Literal["ok", "limited", "broken"]
_MARKS: dict[Status, str] = {"ok": "ok", "limited": "--", "broken": "!!"}

#: The oldest PyTorch whose tensors C code can read without ctypes.
_TORCH = (2, 11)
#: The oldest driver with all functions that the runtime calls, as in
#: include/fuse/Runtime/CUDA/CudaDriverApi.h: 1000 * major + 10 * minor.
_DRIVER = 12000
#: Seconds until `ptxas --version` counts as broken; it needs some 10 ms.
_PTXAS_SECONDS = 10
# Numbers of CUdevice_attribute.
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76

#: Environment variables that parts of fuse read, as in
#: docs/reference/environment-variables.md.
VARIABLES = (
    "FUSE_AMX",
    "FUSE_BIN",
    "FUSE_CACHE_DIR",
    "FUSE_CHECK_ROUNDTRIP",
    "FUSE_COMMIT",
    "FUSE_CUDA_LIBRARY",
    "FUSE_EMULATOR_MULTIPROCESSORS",
    "FUSE_EMULATOR_SEED",
    "FUSE_LIBRARY",
    "FUSE_MUTANT",
    "FUSE_NUM_THREADS",
    "FUSE_OWN_THREADS",
    "FUSE_PREBUILT",
    "FUSE_PYTHON",
    "FUSE_SITE",
    "FUSE_TBLGEN",
    "FUSE_TEST_PACKAGE",
)


@dataclass(frozen=True)
class Finding:
    """One part of an installation.

    Args:
        name: the part, such as `libfuse`.
        found: what there is.
        consequence: a sentence on what a lack means; empty if nothing lacks.
        status: how much works with it.
        details: the same for programs.
    """

    name: str
    found: str
    consequence: str = ""
    status: Status = "ok"
    details: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        mark = f"[{_MARKS[self.status]}] "
        lines = [f"{mark}{self.name}: {' '.join(self.found.split())}"]
        if self.consequence:
            lines.append(" " * len(mark) + self.consequence)
        return "\n".join(lines)


@dataclass(frozen=True)
class Diagnosis:
    """The findings on an installation; true if modules can be fused."""

    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return all(finding.status != "broken" for finding in self.findings)

    def __str__(self) -> str:
        last = (
            "Modules can be fused here."
            if self
            else "Modules cannot be fused here, because of the lines with [!!]."
        )
        return "\n".join([*map(str, self.findings), last]) + "\n"

    def json(self) -> str:
        """The findings for programs, with `works` as the result."""
        return (
            json.dumps(
                {
                    "works": bool(self),
                    "findings": [asdict(finding) for finding in self.findings],
                },
                indent=2,
                default=str,
            )
            + "\n"
        )


@dataclass(frozen=True)
class Probe:
    """Examines one part.

    Args:
        name: the part.
        examine: makes its findings; any error becomes a finding.
        consequence: of an error.
        status: after an error.
    """

    name: str
    examine: Callable[[], Iterable[Finding]]
    consequence: str
    status: Status = "limited"

    def findings(self) -> list[Finding]:
        """What the probe found until it ended or failed."""
        found: list[Finding] = []
        try:
            found.extend(self.examine())
        # Parts of an installation can be broken in any way.
        except Exception as error:
            text = str(error) or type(error).__name__
            found.append(
                Finding(
                    self.name,
                    f"not usable: {text}",
                    self.consequence,
                    self.status,
                    {"error": type(error).__name__},
                )
            )
        return found


def diagnose() -> Diagnosis:
    """Examines this installation. It raises nothing, whatever is broken."""
    return Diagnosis(
        tuple(finding for probe in PROBES for finding in probe.findings())
    )


def _fuse() -> Iterable[Finding]:
    import fuse_mlir

    folder = Path(fuse_mlir.__file__).parent
    version = fuse_mlir.__version__
    yield Finding(
        "fuse_mlir",
        f"{version} in '{folder}', Python {platform.python_version()}",
        details={
            "version": version,
            "path": str(folder),
            "python": platform.python_version(),
        },
    )


def _torch() -> Iterable[Finding]:
    import torch

    version = str(torch.__version__)
    cuda = torch.version.cuda
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    found = (
        "built without CUDA"
        if cuda is None
        else f"built for CUDA {cuda}, usable GPUs: {gpus}"
    )
    consequence = ""
    if tuple(map(int, version.split(".")[:2])) < _TORCH:
        consequence = (
            f"fuse supports PyTorch {'.'.join(map(str, _TORCH))} or later."
        )
    elif cuda is None:
        consequence = (
            "Models run on the CPU only; a build with CUDA could use GPUs."
        )
    elif not gpus:
        consequence = "Models run on the CPU only."
    yield Finding(
        "PyTorch",
        f"{version}, {found}",
        consequence,
        "limited" if consequence else "ok",
        {"version": version, "cuda": cuda, "gpus": gpus},
    )


_NO_DRIVER = (
    "Kernels run on the CPU only; code for GPUs can be compiled and exported."
)


def _cuda() -> Iterable[Finding]:
    path = os.environ.get("FUSE_CUDA_LIBRARY") or "libcuda.so.1"
    driver = ctypes.CDLL(path)

    def call(name: str, *arguments: object) -> None:
        code = getattr(driver, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            driver.cuGetErrorString(code, ctypes.byref(text))
            reason = (text.value or b"unknown error").decode()
            raise RuntimeError(f"{name} of '{path}': {reason} ({code})")

    def attribute(number: int, device: int) -> int:
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value

    call("cuInit", 0)
    version, count = ctypes.c_int(), ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(version))
    number = f"{version.value // 1000}.{version.value % 1000 // 10}"
    call("cuDeviceGetCount", ctypes.byref(count))
    consequence = ""
    if version.value < _DRIVER:
        consequence = (
            f"Kernels run on the CPU only, because CUDA {_DRIVER // 1000} or "
            "later is needed."
        )
    elif not count.value:
        consequence = _NO_DRIVER
    elif path != "libcuda.so.1":
        consequence = (
            "fuse loads this library for FUSE_CUDA_LIBRARY; PyTorch does not."
        )
    yield Finding(
        "CUDA driver",
        f"'{path}' for CUDA {number}, GPUs: {count.value}",
        consequence,
        "limited" if consequence else "ok",
        {"path": path, "version": number, "gpus": count.value},
    )
    for index in range(count.value):
        device = ctypes.c_int()
        call("cuDeviceGet", ctypes.byref(device), index)
        name = ctypes.create_string_buffer(256)
        call("cuDeviceGetName", name, len(name), device.value)
        yield describe_gpu(
            index,
            name.value.decode(errors="replace"),
            attribute(_MAJOR, device.value),
            attribute(_MINOR, device.value),
            attribute(_MULTIPROCESSORS, device.value),
        )


def describe_gpu(
    index: int, name: str, major: int, minor: int, multiprocessors: int
) -> Finding:
    """The finding on one GPU.

    Args:
        index: ordinal of the device.
        name: that the driver returns.
        major: of the compute capability.
        minor: of the compute capability.
        multiprocessors: number of SMs.
    """
    chip, capability = chip_name(major, minor), 10 * major + minor
    paths: list[str] = []
    consequence = ""
    if capability in CAPABILITIES:
        paths = ["scheduled", "portable"]
    else:
        names = ", ".join(f"sm_{known}" for known in CAPABILITIES)
        consequence = f"No kernel runs on it; the compiler supports {names}."
    kernels = f"{' and '.join(paths) or 'no'} kernels"
    return Finding(
        f"GPU {index}",
        f"{name}, {chip}, {multiprocessors} SMs, {kernels}",
        consequence,
        "limited" if consequence else "ok",
        {
            "index": index,
            "name": name,
            "chip": chip,
            "multiprocessors": multiprocessors,
            "paths": paths,
        },
    )


def _libfuse() -> Iterable[Finding]:
    from fuse_mlir import native

    library = native.library()
    path = os.path.realpath(library._name)
    version = library.fuse_c_version()
    number = f"{version >> 16}.{version & 0xFFFF}"
    compiler = hasattr(library, "fuse_module_parse")
    yield Finding(
        "libfuse",
        f"'{path}', C interface {number}, "
        f"{'with' if compiler else 'without'} the compiler",
        ""
        if compiler
        else "Artifacts run, but nothing can be fused: this is the runtime.",
        "ok" if compiler else "broken",
        {"path": path, "version": number, "compiler": compiler},
    )


def _fuse_call() -> Iterable[Finding]:
    from fuse_mlir import native

    problem = native.extension_problem()
    if problem:
        raise RuntimeError(problem)
    module = native.extension()
    yield Finding(
        "fuse_call",
        f"'{getattr(module, '__file__', '')}'",
        details={"path": getattr(module, "__file__", None)},
    )


def _code_cache() -> Iterable[Finding]:
    from fuse_mlir import native

    if not hasattr(native.library(), "fuse_cache_open"):
        raise RuntimeError("this libfuse has no compiler")
    problem = native.cache_problem()
    if problem:
        raise RuntimeError(problem)
    folder = native.cache_folder()
    assert folder is not None
    yield _describe_folder("cache of code", folder, "*.fuse")


def _timings() -> Iterable[Finding]:
    from fuse_mlir.fusion import stored_timings

    folder = existing = stored_timings.folder()
    while not existing.exists():
        existing = existing.parent
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        raise RuntimeError(f"cannot write to '{existing}'")
    yield _describe_folder("cache of timings", folder, "*.json")


def _describe_folder(name: str, folder: Path, pattern: str) -> Finding:
    sizes = []
    for file in folder.glob(pattern):
        # Other processes may remove entries meanwhile.
        try:
            sizes.append(file.stat().st_size)
        except OSError:
            continue
    return Finding(
        name,
        f"'{folder}' with {len(sizes)} entries, {sum(sizes):,} bytes",
        details={
            "path": str(folder),
            "entries": len(sizes),
            "bytes": sum(sizes),
        },
    )


def _ptxas() -> Iterable[Finding]:
    path = find_ptxas()
    if path is None:
        raise RuntimeError(
            "there is none in PATH, of a CUDA toolkit, or of Triton"
        )
    done = subprocess.run(
        [path, "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_PTXAS_SECONDS,
    )
    release = [
        part.strip()
        for line in done.stdout.splitlines()
        for part in line.split(",")
        if part.strip().startswith("release ")
    ]
    version = release[0].removeprefix("release ") if release else "unknown"
    yield Finding(
        "ptxas",
        f"'{path}' of CUDA {version}",
        details={"path": path, "version": version},
    )


def _package(name: str) -> Callable[[], Iterable[Finding]]:
    def examine() -> Iterable[Finding]:
        version = metadata.version(name)
        importlib.import_module(name)
        yield Finding(name, version, details={"version": version})

    return examine


def _threads() -> Iterable[Finding]:
    import torch

    from fuse_mlir import native

    kernels, pytorch = native.num_threads(), torch.get_num_threads()
    usable = len(os.sched_getaffinity(0))
    consequence = ""
    if kernels > usable:
        consequence = "Kernels on the CPU wait for processors."
    yield Finding(
        "threads",
        f"{kernels} for kernels, {pytorch} for PyTorch, "
        f"{usable} usable processors",
        consequence,
        "limited" if consequence else "ok",
        {"kernels": kernels, "pytorch": pytorch, "processors": usable},
    )


def _environment() -> Iterable[Finding]:
    names = sorted(name for name in os.environ if name.startswith("FUSE_"))
    if not names:
        yield Finding("environment", "no variable FUSE_* is set")
    for name in names:
        known = name in VARIABLES
        yield Finding(
            name,
            f"'{os.environ[name]}'",
            "" if known else "No part of fuse reads this variable.",
            "ok" if known else "limited",
            {"value": os.environ[name]},
        )


#: All probes, in the order of the report.
PROBES = (
    Probe("fuse_mlir", _fuse, "The package is incomplete.", "broken"),
    Probe(
        "PyTorch",
        _torch,
        "Nothing can be fused; install torch "
        f"{'.'.join(map(str, _TORCH))} or later.",
        "broken",
    ),
    Probe("CUDA driver", _cuda, _NO_DRIVER),
    Probe(
        "libfuse",
        _libfuse,
        "Nothing can be fused, and artifacts cannot run.",
        "broken",
    ),
    Probe(
        "fuse_call",
        _fuse_call,
        "Calls of fused modules go through ctypes, which takes some 50 us more "
        "for each.",
    ),
    Probe(
        "cache of code",
        _code_cache,
        "Each process compiles its kernels again.",
    ),
    Probe(
        "cache of timings",
        _timings,
        "Each process measures again which kernels are faster.",
    ),
    Probe(
        "ptxas",
        _ptxas,
        "The CUDA driver assembles PTX: the first calls with other numbers of "
        "rows take seconds, and artifacts get no cubins.",
    ),
    Probe(
        "transformers",
        _package("transformers"),
        "Commands and functions that build a model of transformers fail; "
        "fuse_modules works.",
    ),
    Probe(
        "safetensors",
        _package("safetensors"),
        "Commands and functions that read or write weights fail; fuse_modules "
        "works.",
    ),
    Probe("threads", _threads, "Kernels on the CPU do not run."),
    Probe("environment", _environment, "The variables are unknown."),
)
