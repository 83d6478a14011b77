# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m fuse_mlir`."""

import sys

from fuse_mlir.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
