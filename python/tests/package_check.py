# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuses a model with the package that is installed, and no other.

With --standalone, LLVM must be inside of the package's library.
"""

import pathlib
import re
import sys

import torch

import fuse_mlir
from fuse_mlir import native

package = pathlib.Path(fuse_mlir.__file__).parent
assert "site-packages" in package.parts, package
found = pathlib.Path(native.library()._name)
assert found == package / "lib" / "libfuse.so", found
assert native.extension() is not None, native.extension_problem()
# Type checkers read only types of packages with a py.typed file.
assert (package / "py.typed").exists()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8)
        )

    def forward(self, x):
        return x + self.mlp(self.norm(x))


block, x = Block().eval(), torch.randn(3, 8)
expected = block(x)
print(fuse_mlir.fuse_modules(block, inputs=x, only_faster=False))
torch.testing.assert_close(block(x), expected)

# The second call is the extension's.
with torch.no_grad():
    torch.testing.assert_close(block(x), expected)
    block(x)
assert block.norm._fast.count > 0

# Kernels for GPUs need no GPU to compile.
formed = block.norm._kernel.compiled.formed
code = native.Module(formed).compile(chip="sm_90a").bytes()
assert b".target sm_90a" in code

if "--standalone" in sys.argv[1:]:
    maps = pathlib.Path("/proc/self/maps").read_text()
    loaded = {line.split()[-1] for line in maps.splitlines() if "/" in line}
    shared = {f for f in loaded if re.search(r"lib(LLVM|MLIR|clang|lld)", f)}
    assert not shared, shared
    ours = {pathlib.Path(f) for f in loaded if "fuse" in pathlib.Path(f).name}
    assert ours and all(f.parent == package / "lib" for f in ours), ours
