# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C interface of fuse (include/fuse-c) on tensors of PyTorch."""

from fuse_mlir.errors import NativeError
from fuse_mlir.native.bindings import (
    LIBRARY_VARIABLE,
    SECTION_MANIFEST,
    SECTION_PTX,
    VECTOR_BYTES,
    Diagnostics,
    Handle,
    Remark,
    aligned,
    available,
    build_id,
    check,
    library,
    source_line,
)
from fuse_mlir.native.call_extension import (
    FastCall,
    Guard,
    ambient,
    extension,
    extension_problem,
    tell_missing,
)
from fuse_mlir.native.compiler import (
    Artifact,
    Module,
    cache_folder,
    cache_problem,
    compile_module,
)
from fuse_mlir.native.instance import (
    Instance,
    Program,
    SharedWeights,
    Workspaces,
    num_threads,
    set_exclusive,
    set_num_threads,
)

__all__ = [
    "Artifact",
    "Diagnostics",
    "FastCall",
    "Guard",
    "Handle",
    "Instance",
    "LIBRARY_VARIABLE",
    "Module",
    "NativeError",
    "Program",
    "Remark",
    "SECTION_MANIFEST",
    "SECTION_PTX",
    "SharedWeights",
    "VECTOR_BYTES",
    "Workspaces",
    "aligned",
    "ambient",
    "available",
    "build_id",
    "cache_folder",
    "cache_problem",
    "check",
    "compile_module",
    "extension",
    "extension_problem",
    "library",
    "num_threads",
    "set_exclusive",
    "set_num_threads",
    "source_line",
    "tell_missing",
]
