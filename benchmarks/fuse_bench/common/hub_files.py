# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The CUDA driver and the packing recipes that kernel directories carry.

Both are written once in Python, in files of `fuse_mlir` that need nothing but
PyTorch. They are loaded from there by path, so that the benchmarks run on a
machine on which `fuse_mlir` is not installed.
"""

from __future__ import annotations

import importlib.util
from types import ModuleType

from .environment import ROOT

#: The files of kernel directories.
_FOLDER = ROOT / "python/fuse_mlir/deploy/hub_template"


def load(name: str) -> ModuleType:
    """Loads a file of kernel directories by the name of its module.

    Raises:
        ModuleNotFoundError: there is no such file.
    """
    path = _FOLDER / f"{name}.py"
    if not path.exists():
        raise ModuleNotFoundError(
            f"no file '{name}.py' in {_FOLDER}", name=name
        )
    spec = importlib.util.spec_from_file_location(f"fuse_hub{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
