# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Examples in the docstrings of public functions run as they are written."""

import doctest
import inspect
import tempfile
import unittest
from pathlib import Path

import torch

import fuse_mlir
from tests.models import needs_library, net
from tests.support import tool

#: Functions whose example would need a checkpoint or a repository.
WITHOUT = {
    "export_hub_kernel",
    "fusion_at_load",
    "load",
    "load_model",
    "register_fusion_patterns",
}


@needs_library
class Docstrings(unittest.TestCase):
    def test_each_example_runs(self):
        functions = [
            name
            for name in fuse_mlir.__all__
            if inspect.isfunction(getattr(fuse_mlir, name))
        ]
        for name in sorted(set(functions) - WITHOUT):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                model, x = net(1)
                test = doctest.DocTestParser().get_doctest(
                    inspect.getdoc(getattr(fuse_mlir, name)),
                    {
                        "fuse_mlir": fuse_mlir,
                        "torch": torch,
                        "model": model,
                        "x": x,
                        "folder": Path(folder),
                        "tools": Path(tool("fuse-explain")).parent,
                    },
                    name,
                    None,
                    None,
                )
                self.assertTrue(test.examples, "no example")
                said: list[str] = []
                doctest.DocTestRunner().run(test, out=said.append)
                self.assertEqual("".join(said), "")
                torch.compiler.reset()
