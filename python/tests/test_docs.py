# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The code of documentation pages runs."""

import contextlib
import io
import re
import unittest

import torch

from tests.models import needs_library
from tests.support import ROOT

torch.set_num_threads(1)


@needs_library
class Pages(unittest.TestCase):

    def test_pytorch(self):
        text = (ROOT / "docs/PyTorch.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```$", text,
                            re.DOTALL | re.MULTILINE)
        self.assertGreater(len(blocks), 5)
        namespace = {"__name__": "page"}
        with contextlib.redirect_stdout(io.StringIO()):
            for block in blocks:
                exec(compile(block, "docs/PyTorch.md", "exec"), namespace)


if __name__ == "__main__":
    unittest.main()
