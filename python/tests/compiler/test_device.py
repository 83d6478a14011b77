# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GPUs as the compiler sees them."""

import unittest
from types import SimpleNamespace
from unittest import mock

import torch

from fuse_mlir.native.device import multiprocessors_of

CAPABILITIES = ((8, 0), (9, 0), (8, 0))
MULTIPROCESSORS = (108, 132, 98)


class Multiprocessors(unittest.TestCase):
    def test_fewest_of_a_chip(self):
        with mock.patch.multiple(
            torch.cuda,
            is_available=lambda: True,
            device_count=lambda: len(CAPABILITIES),
            get_device_capability=lambda device: CAPABILITIES[device.index],
            get_device_properties=lambda index: SimpleNamespace(
                multi_processor_count=MULTIPROCESSORS[index]
            ),
        ):
            self.assertEqual(multiprocessors_of("sm_80"), 98)
            self.assertEqual(multiprocessors_of("sm_90a"), 132)
            self.assertEqual(multiprocessors_of("sm_120"), 0)

    def test_no_gpu(self):
        with mock.patch.object(torch.cuda, "is_available", return_value=False):
            self.assertEqual(multiprocessors_of("sm_80"), 0)


if __name__ == "__main__":
    unittest.main()
