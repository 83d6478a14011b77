# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The extension module `fuse_call`, which calls kernels without ctypes.

It lies beside libfuse and is optional: without it, calls do the same in
Python and take several times as long.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.autograd import forward_ad

from fuse_mlir.errors import FusionWarning, NativeError
from fuse_mlir.native.bindings import library

NAME = "fuse_call"
#: The file beside libfuse.
FILE = f"{NAME}.abi3.so"
#: What a file of this version has.
CLASSES = ("Ambient", "Guard", "Launcher", "Call", "Identity", "Part")


class Launcher(Protocol):
    """Launches one instance on tensors, on the current stream."""

    def launch(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> int:
        """The status, or -1 for tensors of which PyTorch gives no view."""


class Ambient(Protocol):
    """Asks whether PyTorch is in its usual state."""

    def holds(self) -> bool:
        """Whether all questions have their usual answers."""


class Guard(Protocol):
    """Remembers what modules consist of, as identities of objects."""

    def same(self) -> bool:
        """Whether nothing was replaced, added or removed since."""


class FastCall(Protocol):
    """The usual call of a fused module."""

    #: Whether the last call came to modules or weights that are others.
    stale: bool
    #: Calls that launched.
    count: int

    def __call__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> torch.Tensor | None:
        """The result, or None if Python has to run the call."""


class Extension(Protocol):
    """The functions and classes of the module."""

    def Ambient(self, *args: object) -> Ambient: ...
    def Guard(self, *args: object) -> Guard: ...
    def Launcher(self, *args: object) -> Launcher: ...
    def Call(self, *args: object) -> FastCall: ...
    def Identity(self, *args: object) -> FastCall: ...
    def Part(self, *args: object) -> FastCall: ...


@functools.cache
def _load() -> tuple[Extension | None, str]:
    """The module, or why it is not used."""
    table = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if table is None:
        return None, (
            f"PyTorch {torch.__version__} has no table of C functions for "
            "tensors; it came with PyTorch 2.11"
        )
    try:
        loaded = library()
    except NativeError as error:
        return None, str(error)
    path = Path(os.path.realpath(loaded._name)).parent / FILE
    if not path.is_file():
        return None, f"there is no '{path}'; build the target fuse-call"
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(path))
    spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
    assert spec is not None
    try:
        module: Any = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        for name in CLASSES:
            if not hasattr(module, name):
                return None, (
                    f"'{path}' is of another version, without '{name}'; "
                    "build the target fuse-call again"
                )
        module.connect(
            tuple(
                ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value
                for name in ("fuse_launch", "fuse_instance_workspace_size")
            ),
            (
                table,
                torch.Tensor,
                torch.empty,
                torch.empty_like,
                torch.Tensor.detach,
                torch.Tensor.is_neg,
            ),
        )
    except (ImportError, RuntimeError) as error:
        return None, f"cannot load '{path}': {error}"
    return module, ""


def extension() -> Extension | None:
    """The module, or None where calls go through ctypes."""
    return _load()[0]


@functools.cache
def ambient() -> Ambient | None:
    """Asks whether anything wants to see a call: autocast, forward-mode
    gradients, a mode, tracing, the profiler. Transforms wrap tensors, which
    then have no memory. None where there is no extension."""
    module = extension()
    if module is None:
        return None
    c: Any = torch._C
    return module.Ambient(
        (c._is_any_autocast_enabled, None, False),
        (vars(forward_ad), "_current_level", -1),
        (c._len_torch_dispatch_stack, None, 0),
        (c._len_torch_function_stack, None, 0),
        (c._get_tracing_state, None, None),
        (c._autograd._profiler_enabled, None, False),
    )


def extension_problem() -> str:
    """Why there is no extension; empty where there is one."""
    return _load()[1]


@functools.cache
def tell_missing() -> None:
    """Warns, once in a process, that calls take longer than they could."""
    problem = extension_problem()
    if problem:
        warnings.warn(
            "calls of fused modules go through ctypes, which takes some 50 us "
            f"more for each: {problem}",
            FusionWarning,
            stacklevel=2,
        )
