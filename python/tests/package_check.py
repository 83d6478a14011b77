# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuses a model with the package that is installed, and no other."""

import pathlib

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
