# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The assembler of CUDA."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil

#: Where CUDA installs its toolkit.
_DEFAULT = "/usr/local/cuda/bin"


def find_ptxas() -> str | None:
    """The path of ptxas, or None: the first one in PATH, of a CUDA toolkit, and
    of Triton, which comes with builds of PyTorch for CUDA."""
    folders = [os.environ.get("PATH", "")]
    folders += [
        os.path.join(os.environ[name], "bin")
        for name in ("CUDA_HOME", "CUDA_PATH")
        if os.environ.get(name)
    ]
    folders.append(_DEFAULT)
    triton = None
    # A broken package has no ptxas.
    with contextlib.suppress(ImportError, ValueError):
        triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin:
        folders.append(
            os.path.join(
                os.path.dirname(triton.origin), "backends", "nvidia", "bin"
            )
        )
    return shutil.which("ptxas", path=os.pathsep.join(folders))
