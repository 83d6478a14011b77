# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels on the threads of PyTorch."""

import ctypes
import os
import unittest
from pathlib import Path
from unittest import mock

import torch

from fuse_mlir import native
from fuse_mlir.native import threads
from tests.models import needs_library


class Libraries(unittest.TestCase):
    def find(self, *paths):
        text = "".join(f"7f00-7f01 r-xp 0 00:00 1 {path}\n" for path in paths)
        with mock.patch.object(Path, "read_text", return_value=text):
            return threads.openmp_library()

    def test_the_library_of_pytorch_comes_first(self):
        own = str(Path(torch.__file__).parent / "lib" / "libgomp.so.1")
        self.assertEqual(self.find("/usr/lib/libgomp.so.1", own, own), own)
        self.assertEqual(self.find("/lib/libiomp5.so"), "/lib/libiomp5.so")

    def test_none_is_chosen_of_two(self):
        self.assertIsNone(self.find("/a/libgomp.so.1", "/b/libomp.so"))
        self.assertIsNone(self.find("/lib/libc.so.6"))


@needs_library
class Sharing(unittest.TestCase):
    def test_the_user_may_keep_threads_apart(self):
        library = native.library()
        with mock.patch.dict(os.environ, {threads.OWN_THREADS: "1"}):
            self.assertFalse(threads.share_threads(library))

    @unittest.skipUnless(threads.openmp_library(), "PyTorch has no OpenMP")
    def test_kernels_run_on_threads_of_pytorch(self):
        self.assertTrue(threads.share_threads(native.library()))

    def test_libraries_without_these_functions(self):
        with mock.patch.object(
            threads, "openmp_library", return_value="/nowhere/libgomp.so"
        ):
            self.assertFalse(threads.share_threads(native.library()))
        other = ctypes.CDLL(None)
        self.assertFalse(threads.share_threads(other))


if __name__ == "__main__":
    unittest.main()
