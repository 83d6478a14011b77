# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models and the measured time of compile_layers."""

import subprocess
import sys
import unittest

from fuse_bench.suites.compile_layers import LAYER, measure, write_layers


class CompileLayers(unittest.TestCase):
    def test_layers_follow_each_other(self):
        text = write_layers(3)
        self.assertEqual(text.count("fuse.linear"), 3 * LAYER.count("linear"))
        self.assertIn("%x3 = fuse.residual_add %x2, %o2", text)
        self.assertIn("return %x3", text)
        self.assertEqual(text.count("%d2: tensor<128x256xbf16>"), 1)

    def test_failing_run_is_an_error(self):
        self.assertGreater(measure([sys.executable, "-c", ""]), 0.0)
        with self.assertRaises(subprocess.CalledProcessError):
            measure([sys.executable, "-c", "raise SystemExit(1)"])


if __name__ == "__main__":
    unittest.main()
