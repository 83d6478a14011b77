# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A package imports only those before it, inside functions too."""

import ast
import unittest
from collections.abc import Iterator
from pathlib import Path

import fuse_bench

ORDER = ("common", "reference", "peers", "suites", "reports")
ROOT = Path(fuse_bench.__file__).parent


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """The packages that a file imports, with the lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            if node.level == 2:
                yield names[0].split(".")[0], node.lineno
            elif node.level == 0 and names[0].startswith("fuse_bench."):
                yield names[0].split(".")[1], node.lineno


class Layers(unittest.TestCase):
    def test_imports_go_one_way(self):
        for place, package in enumerate(ORDER):
            for path in sorted((ROOT / package).glob("*.py")):
                for name, line in imported(path):
                    with self.subTest(f"{package}/{path.name}:{line}"):
                        self.assertIn(name, ORDER[: place + 1])

    def test_every_package_has_a_place(self):
        self.assertEqual(
            {path.parent.name for path in ROOT.glob("*/__init__.py")},
            set(ORDER),
        )

    def test_imports_are_found(self):
        path = ROOT / "reports/tables.py"
        self.assertIn("suites", [name for name, _ in imported(path)])


if __name__ == "__main__":
    unittest.main()
