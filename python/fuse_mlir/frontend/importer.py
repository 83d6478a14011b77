# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Translates a torch.export program to textual fuse IR and weights."""

from __future__ import annotations

from torch.export import ExportedProgram

from fuse_mlir.frontend import aten
from fuse_mlir.frontend.walker import ImportedFunction, Walker


def import_program(
    program: ExportedProgram, name: str = "main"
) -> ImportedFunction:
    """Translates `program` to one function called `name`."""
    return Walker(program, name, aten.HANDLERS, aten.IGNORED).run()
