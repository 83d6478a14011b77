# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models and the measured time of compile_layers."""

import contextlib
import io
import subprocess
import sys
import unittest

from fuse_bench.suites.compile_layers import (
    LAYER,
    main,
    measure,
    write_layers,
)


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

    def test_one_layer_is_an_error(self):
        with (
            self.assertRaises(SystemExit),
            contextlib.redirect_stderr(io.StringIO()) as errors,
        ):
            main(["--layers", "1", "12"])
        self.assertIn("expected at least 2, got 1", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
