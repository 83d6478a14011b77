# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python side of the fuse compiler.

`fuse_modules` replaces chains of modules of a PyTorch model by kernels,
`unfuse_modules` takes it back, `explain` says what can be fused and why the
rest can not, and `verify` holds kernels against what they replace. Importing
this package imports neither PyTorch nor the compiler; the first use does.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public names and the modules that define them.
_EXPORTS = {
    "FlowError": "flow",
    "FuseError": "modules",
    "FusedModule": "modules",
    "GlobError": "globs",
    "KernelConfig": "patterns",
    "KernelError": "kernels",
    "ModuleSpec": "patterns",
    "NativeError": "native",
    "PatternError": "patterns",
    "PtxKernel": "ptx",
    "bench": "report",
    "calibrate": "static_mlp",
    "compile": "compiled",
    "decompile": "compiled",
    "explain": "report",
    "explain_ir": "ir_report",
    "export": "compiled",
    "export_hub_kernel": "hub",
    "fuse_modules": "modules",
    "fused": "modules",
    "inductor_options": "inductor",
    "load": "compiled",
    "refresh": "updates",
    "register_fusion_patterns": "patterns",
    "unfuse_modules": "modules",
    "verify": "report",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'fuse_mlir' has no attribute '{name}'")
    return getattr(importlib.import_module(f"fuse_mlir.{_EXPORTS[name]}"),
                   name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
