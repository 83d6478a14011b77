# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests keep compiled code and timings in a folder of their own."""

import atexit
import os
import shutil
import tempfile

_FOLDER = tempfile.mkdtemp(prefix="fuse-tests-")
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)
# Tests of other processes choose their own.
os.environ.setdefault("XDG_CACHE_HOME", _FOLDER)
os.environ.setdefault("FUSE_CACHE_DIR", os.path.join(_FOLDER, "fuse"))
