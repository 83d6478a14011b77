# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code for many rows is loaded in the background, once for equal kernels."""

import threading
import unittest
from unittest import mock

from fuse_mlir.compiler import prefetch
from fuse_mlir.compiler.kernels import FEW_ROWS
from fuse_mlir.errors import NativeError


class FakeKernel:
    """Counts what is loaded.

    Args:
        code: the same for kernels that share code.
        most: rows of a launch.
        fails: the number of rows from which nothing can be loaded.
    """

    def __init__(self, code, most=1000, fails=None):
        self.code_id, self.most_rows_to_load, self.fails = code, most, fails
        self.most_loaded = FEW_ROWS
        self.loads = []

    def load_up_to(self, rows):
        self.loads.append(rows)
        if self.fails is not None and rows >= self.fails:
            raise NativeError("out of memory")
        self.most_loaded = rows


class Prefetch(unittest.TestCase):
    def loads(self, *kernels):
        thread = prefetch.prefetch(kernels)
        if thread is not None:
            thread.join()
        return [kernel.loads for kernel in kernels]

    def test_ranges_are_loaded_in_order(self):
        self.assertEqual(self.loads(FakeKernel(1)), [[256, 512, 1000]])

    def test_equal_code_is_loaded_once(self):
        self.assertEqual(
            self.loads(FakeKernel(1), FakeKernel(1), FakeKernel(2, most=200)),
            [[256, 512, 1000], [], [200]],
        )

    def test_nothing_to_load(self):
        for most in (0, FEW_ROWS):
            self.assertIsNone(prefetch.prefetch([FakeKernel(1, most)]))
        self.assertIsNone(prefetch.prefetch([]))

    def test_an_error_ends_one_kernel(self):
        self.assertEqual(
            self.loads(FakeKernel(1, fails=512), FakeKernel(2)),
            [[256, 512], [256, 512, 1000]],
        )

    def test_a_kernel_that_is_gone(self):
        begun, gone = threading.Event(), threading.Event()

        class Slow(FakeKernel):
            def load_up_to(self, rows):
                super().load_up_to(rows)
                begun.set()
                gone.wait(10)

        slow, other = Slow(1), FakeKernel(2)
        thread = prefetch.prefetch([slow, other])
        begun.wait(10)
        loads = other.loads
        del other
        gone.set()
        thread.join()
        self.assertEqual(loads, [])
        self.assertEqual(slow.loads, [256, 512, 1000])

    def test_the_end_of_the_process(self):
        with mock.patch.object(prefetch, "_STOP", threading.Event()) as stop:
            stop.set()
            self.assertEqual(self.loads(FakeKernel(1)), [[]])
            prefetch._stop()


if __name__ == "__main__":
    unittest.main()
