# RUN: python3 %s %fuse_src_root | FileCheck %s
# CHECK-NOT: has no test
# CHECK: {{^[1-9][0-9]+}} functions
"""Every function of the C interface is called by a test.

The wrappers for C++ and Python count as what calls them is tested itself.
"""

import pathlib
import re
import sys

CALLERS = (
    "test/**/*.c",
    "test/**/*.cpp",
    "unittests/**/*.cpp",
    "include/fuse-c/*.hpp",
    "python/fuse_mlir/*.py",
)
# libfuse calls it when it is loaded.
OWN = {"fuse_set_object_linker"}


def main(root):
    root = pathlib.Path(root)
    headers = "".join(
        path.read_text() for path in (root / "include/fuse-c").glob("*.h")
    )
    names = set(
        re.findall(r"\bFUSE_C_EXPORT\b[^;(]*?\b(fuse_\w+)\s*\(", headers)
    )
    calls = set()
    for pattern in CALLERS:
        for path in root.glob(pattern):
            calls.update(re.findall(r"\bfuse_\w+", path.read_text()))
    for name in sorted(names - calls - OWN):
        print(f"{name} has no test")
    print(f"{len(names)} functions")


main(*sys.argv[1:])
