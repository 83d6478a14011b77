# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the calls to the CUDA driver, with a fake library in its place."""

import ctypes
import types
import unittest
import unittest.mock

import torch

from fuse_bench.common import driver, hub_files
from fuse_bench.common.plan import PlanError


class Driver:
    """Keeps the arguments of calls, and returns a code."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.calls: dict[str, tuple] = {}

    def __getattr__(self, name: str):
        def called(*arguments):
            self.calls[name] = arguments
            return self.code

        return called

    def cuGetErrorString(self, code, text) -> None:
        text._obj.value = b"out of order"


class Launches(unittest.TestCase):
    def setUp(self) -> None:
        self.library = Driver()
        for target, name, value in (
            (driver, "_driver", lambda: self.library),
            (driver._HUB, "_driver", lambda: self.library),
            (
                torch.cuda,
                "current_stream",
                lambda: types.SimpleNamespace(cuda_stream=77),
            ),
        ):
            patch = unittest.mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def launch(self, **options: bool):
        # The driver copies arguments; here their memory has to stay.
        self.values = [ctypes.c_float(2.5), ctypes.c_void_p(9)]
        driver.launch(ctypes.c_void_p(5), 12, 384, 4096, self.values, **options)
        reference, kernel, pointers, _ = self.library.calls["cuLaunchKernelEx"]
        self.assertEqual(kernel.value, 5)
        return reference._obj, pointers

    def test_a_launch_has_its_grid_stream_and_arguments(self):
        config, pointers = self.launch()
        self.assertEqual(
            (list(config.grid), list(config.block)), ([12, 1, 1], [384, 1, 1])
        )
        self.assertEqual(
            (config.shared, config.stream, config.count), (4096, 77, 0)
        )
        self.assertEqual(
            ctypes.cast(pointers[0], ctypes.POINTER(ctypes.c_float))[0], 2.5
        )
        self.assertEqual(
            ctypes.cast(pointers[1], ctypes.POINTER(ctypes.c_void_p))[0], 9
        )

    def test_attributes_are_those_that_are_asked_for(self):
        for options, wanted in (
            ({"cooperative": True}, {2: 1}),
            ({"programmatic": True}, {6: 1}),
            ({"cooperative": True, "programmatic": True}, {2: 1, 6: 1}),
        ):
            config, _ = self.launch(**options)
            self.assertEqual(
                {
                    config.attributes[index].id: config.attributes[index].value[
                        0
                    ]
                    for index in range(config.count)
                },
                wanted,
            )

    def test_a_tensor_map_has_bytes_and_boxes(self):
        driver.tensor_map(4096, 100, 64, 8, 32, "bf16", 128)
        (_, kind, rank, address, shape, strides, box, _, _, swizzle, _, _) = (
            self.library.calls["cuTensorMapEncodeTiled"]
        )
        self.assertEqual((kind.value, rank.value, address.value), (9, 2, 4096))
        self.assertEqual(
            (list(shape), list(strides), list(box)), ([64, 100], [128], [32, 8])
        )
        self.assertEqual(swizzle.value, 3)

    def test_a_tensor_map_of_another_type_is_an_error(self):
        with self.assertRaisesRegex(
            PlanError, "no tensor map of i64 with a swizzle of 128 bytes"
        ):
            driver.tensor_map(4096, 100, 64, 8, 32, "i64", 128)

    def test_errors_of_the_driver_are_of_one_class(self):
        self.library.code = 700
        with self.assertRaisesRegex(
            driver.CudaError, "cuLaunchKernelEx: error 700, out of order"
        ):
            self.launch()
        with self.assertRaisesRegex(
            driver.CudaError, "error 700, out of order: 100x64 bf16, box 8x32"
        ):
            driver.tensor_map(4096, 100, 64, 8, 32, "bf16", 128)


class HubFiles(unittest.TestCase):
    def test_a_file_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(
            ModuleNotFoundError, "no file '_none.py' in .*/deploy/hub_template"
        ):
            hub_files.load("_none")


if __name__ == "__main__":
    unittest.main()
