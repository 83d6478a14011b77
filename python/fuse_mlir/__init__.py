# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python side of the fuse compiler.

`fuse_modules` replaces chains of modules of a PyTorch model by kernels,
`unfuse_modules` takes it back, `explain` says what can be fused and why the
rest can not, and `verify` holds kernels against what they replace. Importing
this package imports neither PyTorch nor the compiler; the first use does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # What `__getattr__` finds, for type checkers and editors.
    from fuse_mlir.at_load import fusion_at_load, fusion_result
    from fuse_mlir.chains import KernelError
    from fuse_mlir.compiled import compile, decompile, export, load
    from fuse_mlir.flow import FlowError
    from fuse_mlir.fused_module import FusedModule
    from fuse_mlir.globs import GlobError
    from fuse_mlir.hub import export_hub_kernel
    from fuse_mlir.inductor import inductor_options
    from fuse_mlir.ir_report import explain_ir
    from fuse_mlir.kernel_config import KernelConfig
    from fuse_mlir.model_source import load_model
    from fuse_mlir.modules import fuse_modules, fused, unfuse_modules
    from fuse_mlir.native import NativeError
    from fuse_mlir.patterns import (ModuleSpec, PatternError,
                                    register_fusion_patterns)
    from fuse_mlir.places import FuseError, FusionWarning
    from fuse_mlir.ptx import PtxKernel
    from fuse_mlir.report import bench, explain, verify
    from fuse_mlir.static_mlp import calibrate
    from fuse_mlir.updates import refresh

__version__ = "0.1.0"

# Public names and the modules that define them.
_EXPORTS = {
    "FlowError": "flow",
    "FuseError": "places",
    "FusedModule": "fused_module",
    "FusionWarning": "places",
    "GlobError": "globs",
    "KernelConfig": "kernel_config",
    "KernelError": "chains",
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
    "fusion_at_load": "at_load",
    "fusion_result": "at_load",
    "inductor_options": "inductor",
    "load": "compiled",
    "load_model": "model_source",
    "refresh": "updates",
    "register_fusion_patterns": "patterns",
    "unfuse_modules": "modules",
    "verify": "report",
}

# Written out, because checkers read it too.
__all__ = [
    "FlowError", "FuseError", "FusedModule", "FusionWarning", "GlobError",
    "KernelConfig", "KernelError", "ModuleSpec", "NativeError", "PatternError",
    "PtxKernel", "bench", "calibrate", "compile", "decompile", "explain",
    "explain_ir", "export", "export_hub_kernel", "fuse_modules", "fused",
    "fusion_at_load", "fusion_result", "inductor_options", "load",
    "load_model", "refresh", "register_fusion_patterns", "unfuse_modules",
    "verify",
]


def _find(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'fuse_mlir' has no attribute '{name}'")
    return getattr(importlib.import_module(f"fuse_mlir.{_EXPORTS[name]}"),
                   name)


if not TYPE_CHECKING:
    # Checkers would take any name for one that it finds.
    __getattr__ = _find


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
