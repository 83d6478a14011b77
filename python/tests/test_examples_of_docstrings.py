# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Examples in the docstrings of public functions run."""

import doctest
import inspect
import tempfile
import unittest
from pathlib import Path

import torch

import fuse_mlir
from tests.models import LLAMA, needs_library, net, transformer
from tests.support import tool


@needs_library
class Docstrings(unittest.TestCase):
    #: Directory of a saved model of transformers.
    checkpoint: str

    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.checkpoint = directory.name
        transformer(
            "qwen3", **{**LLAMA, "num_hidden_layers": 1}
        ).save_pretrained(cls.checkpoint)

    def test_each_example_runs(self):
        for name in fuse_mlir.__all__:
            if not inspect.isfunction(getattr(fuse_mlir, name)):
                continue
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
                        "checkpoint": self.checkpoint,
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
