# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of kernels as text in exported programs."""

import json
import unittest

import torch

from fuse_mlir import errors, native
from fuse_mlir.compiler import description
from tests.compiler.test_rows import make_kernel


class VersionTest(unittest.TestCase):
    def setUp(self) -> None:
        described = make_kernel().described
        assert described is not None
        self.found = json.loads(described)

    def test_ir_has_its_version(self):
        self.assertRegex(
            self.found["formed"],
            r"^module attributes {fuse\.version = \d+ : i32} {",
        )

    def test_texts_of_a_version_are_equal(self):
        _, compiled = description.parse(json.dumps(self.found))
        self.assertEqual(native.stamped(compiled.formed), compiled.formed)

    def test_newer_ir_is_refused_by_its_number(self):
        newer = self.found["formed"].replace(
            "fuse.version = ", "fuse.version = 99"
        )
        _, compiled = description.parse(
            json.dumps(self.found | {"formed": newer})
        )
        with self.assertRaisesRegex(
            errors.NativeError, r"the IR has version 99\d, this build reads"
        ):
            compiled.artifact(torch.device("cpu"))
