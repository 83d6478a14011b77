# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Helpers of several test files."""

from __future__ import annotations

import os
import shutil
import subprocess
import unittest
from pathlib import Path

import torch
from torch import nn

from fuse_mlir.frontend.importer import import_program
from fuse_mlir.frontend.walker import ImportedFunction

ROOT = Path(__file__).resolve().parents[2]


def tool(name: str) -> str:
    """A built tool; FUSE_BIN names the directory, build/dev by default."""
    directory = os.environ.get("FUSE_BIN", str(ROOT / "build/dev/bin"))
    path = shutil.which(name, path=directory)
    if path is None:
        raise unittest.SkipTest(f"{name} is not built in {directory}")
    return path


def fuse_opt(text: str, *options: str) -> str:
    """The output of fuse-opt for `text`; its errors fail the test."""
    done = subprocess.run(
        [tool("fuse-opt"), *options],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{done.stderr}\n{text}")
    return done.stdout


class Function(nn.Module):
    """A Python function as a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def import_function(function, *inputs, dynamic=None) -> ImportedFunction:
    """Exports a function or module and imports it."""
    module = function if isinstance(function, nn.Module) else Function(function)
    with torch.no_grad():
        program = torch.export.export(
            module.eval(), inputs, dynamic_shapes=dynamic
        )
    return import_program(program)
