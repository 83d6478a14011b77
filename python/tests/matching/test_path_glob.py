# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every rule of docs/reference/path-globs.md; the cases are those of the C++ side."""

import unittest

from fuse_mlir.errors import GlobError
from fuse_mlir.matching.path_glob import PathGlob

# The tree of test/Transforms/Modules/list-modules.mlir.
TREE = [
    "layers",
    "layers.3",
    "layers.3.mlp",
    "layers.3.mlp.inner",
    "layers.3.mlp.inner.mlp",
    "layers.11",
    "layers.11.mlp",
    "layers.13",
    "layers.13.mlp",
    "conv1",
    "conv2",
]

SELECTS = {
    "layers.3": ["layers.3"],
    "layers.*.mlp": ["layers.3.mlp", "layers.11.mlp", "layers.13.mlp"],
    "**.mlp": [
        "layers.3.mlp",
        "layers.3.mlp.inner.mlp",
        "layers.11.mlp",
        "layers.13.mlp",
    ],
    "layers.**": TREE[:9],
    "**.mlp.**": [p for p in TREE if ".mlp" in p],
    "layers.[3-12]": ["layers.3", "layers.11"],
    "layers.{3,11}.mlp": ["layers.3.mlp", "layers.11.mlp"],
    "layers.{[3-5],[11-11]}.mlp": ["layers.3.mlp", "layers.11.mlp"],
    "layers.[3-3]": ["layers.3"],
    "layers.{3}": ["layers.3"],
    "conv1": ["conv1"],
    "conv?": ["conv1", "conv2"],
    "conv[!1]": ["conv2"],
    "conv[12]": ["conv1", "conv2"],
    "[b-d]onv1": ["conv1"],
    "layers.1*": ["layers.11", "layers.13"],
    "*.mlp": [],
    "layers.*.*.mlp": [],
    "conv\\?": [],
    "c\\onv1": ["conv1"],
}

ERRORS = {
    "": "is empty",
    "layers..mlp": "has an empty segment",
    "layers.**x": "'**' must be a whole segment, got '**x'",
    "layers.[3-0]": "range [3-0] ends before it begins",
    "layers.[0-5000]": "range [0-5000] has more than 1024 numbers",
    "layers.[10,12]": "'[10,12]' is not a range of numbers; expected "
    "[first-last], or {a,b} for single ones",
    "layers.[0-]": "'[0-]' is not a range of numbers",
    f"layers.[0-{1 << 64}]": f"'[0-{1 << 64}]' is not a range of numbers",
    "layers.[0": "invalid glob pattern, unmatched '['",
    "layers.{0,1": "incomplete brace expansion",
    "layers.{0.mlp,1}": "'.' between '{' and '}'; alternatives are parts of "
    "one segment",
    "layers.{}": "empty or singleton brace expansions are not supported",
    "layers.{a[0-3],5}": "nested brace expansions are not supported",
    "mlp\\": "stray '\\'",
}


class Globs(unittest.TestCase):
    def test_what_a_glob_selects(self):
        for glob, expected in SELECTS.items():
            with self.subTest(glob):
                compiled = PathGlob(glob)
                self.assertEqual(
                    [p for p in TREE if compiled.match(p)], expected
                )

    def test_what_a_glob_breaks(self):
        for glob, message in ERRORS.items():
            with self.subTest(glob), self.assertRaises(GlobError) as caught:
                PathGlob(glob)
            self.assertIn(f"path glob '{glob}': ", str(caught.exception))
            self.assertIn(message, str(caught.exception))

    def test_many_stars_stay_fast(self):
        self.assertFalse(PathGlob("**.a.**.a.**.a.**.b").match("a." * 60 + "c"))


if __name__ == "__main__":
    unittest.main()
