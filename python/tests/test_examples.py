# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples for PyTorch run."""

import contextlib
import io
import runpy
import sys
import unittest
from unittest import mock

import torch

from tests.models import needs_library
from tests.support import ROOT

torch.set_num_threads(1)


@needs_library
class Examples(unittest.TestCase):
    def run_example(self, name):
        path = str(ROOT / "examples/pytorch" / name)
        out = io.StringIO()
        with (
            mock.patch.object(sys, "argv", [path]),
            contextlib.redirect_stdout(out),
        ):
            runpy.run_path(path, run_name="__main__")
        return out.getvalue()

    def test_inference(self):
        out = self.run_example("inference.py")
        self.assertIn("7 could fuse", out)
        self.assertIn("22 of 22 checks passed", out)

    def test_quantization(self):
        out = self.run_example("quantization.py")
        self.assertIn("model.layers.1.mlp.down_proj.input", out)
        self.assertIn("7 of 7 checks passed", out)
        self.assertRegex(out, r"mlp#0 could fuse")
        self.assertRegex(
            out,
            r"mlp#1 refused FUSE-N307 unusable-scale: "
            r"linear 'mlp.up_proj'",
        )


if __name__ == "__main__":
    unittest.main()
