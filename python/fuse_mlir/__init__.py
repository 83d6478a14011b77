# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python side of the fuse compiler.

`fuse_modules` replaces chains of modules of a PyTorch model by kernels, and
`unfuse_modules` undoes it. `explain` lists the sites that can be fused, and why
others cannot. `verify` compares kernels with the modules that they replace.
Importing this package imports neither PyTorch nor the compiler; the first use
does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # For type checkers and editors: the names that `__getattr__` finds.
    from fuse_mlir.checkpoint.model_source import load_model
    from fuse_mlir.compiler.weight_versions import refresh
    from fuse_mlir.deploy.hub import export_hub_kernel
    from fuse_mlir.deploy.inductor import inductor_options
    from fuse_mlir.errors import (
        FlowError,
        FuseError,
        FuseMlirError,
        FusionWarning,
        GlobError,
        KernelError,
        NativeError,
        PatternError,
    )
    from fuse_mlir.fusion.at_load import fusion_at_load, fusion_result
    from fuse_mlir.fusion.calibrate import calibrate
    from fuse_mlir.fusion.compiled_module import (
        compile_module,
        decompile_module,
        export,
        load,
    )
    from fuse_mlir.fusion.fused_module import FusedModule
    from fuse_mlir.fusion.kernel_config import KernelConfig
    from fuse_mlir.fusion.modules import fuse_modules, fused, unfuse_modules
    from fuse_mlir.matching.patterns import ModuleSpec, register_fusion_patterns
    from fuse_mlir.matching.ptx_kernel import PtxKernel
    from fuse_mlir.reports.ir_report import explain_ir
    from fuse_mlir.reports.profile import profile
    from fuse_mlir.reports.report import bench, explain, verify

__version__ = "0.1.0"

# Public names and the modules that define them.
_EXPORTS = {
    "FlowError": "errors",
    "FuseMlirError": "errors",
    "FuseError": "errors",
    "FusedModule": "fusion.fused_module",
    "FusionWarning": "errors",
    "GlobError": "errors",
    "KernelConfig": "fusion.kernel_config",
    "KernelError": "errors",
    "ModuleSpec": "matching.patterns",
    "NativeError": "errors",
    "PatternError": "errors",
    "PtxKernel": "matching.ptx_kernel",
    "bench": "reports.report",
    "calibrate": "fusion.calibrate",
    "compile_module": "fusion.compiled_module",
    "decompile_module": "fusion.compiled_module",
    "explain": "reports.report",
    "explain_ir": "reports.ir_report",
    "export": "fusion.compiled_module",
    "export_hub_kernel": "deploy.hub",
    "fuse_modules": "fusion.modules",
    "fused": "fusion.modules",
    "fusion_at_load": "fusion.at_load",
    "fusion_result": "fusion.at_load",
    "inductor_options": "deploy.inductor",
    "load": "fusion.compiled_module",
    "load_model": "checkpoint.model_source",
    "profile": "reports.profile",
    "refresh": "compiler.weight_versions",
    "register_fusion_patterns": "matching.patterns",
    "unfuse_modules": "fusion.modules",
    "verify": "reports.report",
}

# A literal, because type checkers read it too.
__all__ = [
    "FlowError",
    "FuseError",
    "FuseMlirError",
    "FusedModule",
    "FusionWarning",
    "GlobError",
    "KernelConfig",
    "KernelError",
    "ModuleSpec",
    "NativeError",
    "PatternError",
    "PtxKernel",
    "bench",
    "calibrate",
    "compile_module",
    "decompile_module",
    "explain",
    "explain_ir",
    "export",
    "export_hub_kernel",
    "fuse_modules",
    "fused",
    "fusion_at_load",
    "fusion_result",
    "inductor_options",
    "load",
    "load_model",
    "profile",
    "refresh",
    "register_fusion_patterns",
    "unfuse_modules",
    "verify",
]


def _find(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'fuse_mlir' has no attribute '{name}'")
    return getattr(importlib.import_module(f"fuse_mlir.{_EXPORTS[name]}"), name)


if not TYPE_CHECKING:
    # With a `__getattr__`, type checkers would accept any name.
    __getattr__ = _find


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
