# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The names of the package, for programs and for type checkers."""

import ast
import inspect
import re
import subprocess
import sys
import unittest
from pathlib import Path

import fuse_mlir
from fuse_mlir import errors, slots


class Names(unittest.TestCase):
    def test_lists_agree(self):
        self.assertEqual(fuse_mlir.__all__, sorted(fuse_mlir._EXPORTS))
        found = {}
        for node in ast.walk(ast.parse(Path(fuse_mlir.__file__).read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and node.level == 0
                and node.module.startswith("fuse_mlir.")
            ):
                found.update(
                    (alias.name, node.module.partition(".")[2])
                    for alias in node.names
                )
        self.assertEqual(found, fuse_mlir._EXPORTS)

    def test_each_is_there_and_documented(self):
        for name in fuse_mlir.__all__:
            self.assertTrue(getattr(fuse_mlir, name).__doc__, name)
            self.assertIn(name, dir(fuse_mlir))
        with self.assertRaisesRegex(
            AttributeError, "'fuse_mlir' has no attribute 'fuse_module'"
        ):
            _ = getattr(fuse_mlir, "fuse_module")

    def test_signatures_have_no_any(self):
        for module in (fuse_mlir, slots):
            for name in module.__all__:
                value = getattr(module, name)
                if not inspect.isfunction(value):
                    continue
                for parameter in inspect.signature(value).parameters.values():
                    with self.subTest(f"{name}({parameter.name})"):
                        words = re.findall(r"\w+", str(parameter.annotation))
                        self.assertNotEqual(words, [])
                        self.assertNotIn("Any", words)

    def test_errors_have_one_base(self):
        for name in dir(errors):
            kind = getattr(errors, name)
            if isinstance(kind, type) and issubclass(kind, Exception):
                base = (
                    Warning
                    if name.endswith("Warning")
                    else errors.FuseMlirError
                )
                self.assertTrue(issubclass(kind, base), name)

    def test_importing_changes_nothing(self):
        script = """
import logging, os, sys, warnings
before = dict(os.environ), list(warnings.filters), list(sys.path), \
    logging.getLogger().handlers[:]
import fuse_mlir
assert before == (dict(os.environ), list(warnings.filters), list(sys.path),
                  logging.getLogger().handlers)
loaded = {"torch", "numpy", "transformers"} & set(sys.modules)
assert not loaded, loaded
assert {m for m in sys.modules if m.startswith("fuse_mlir")} == {"fuse_mlir"}
"""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            cwd=Path(fuse_mlir.__file__).parents[1],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(
            (done.returncode, done.stdout, done.stderr), (0, "", "")
        )


if __name__ == "__main__":
    unittest.main()
