# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of fused models, and its release by unfusing."""

import gc
import subprocess
import sys
import unittest
import weakref
from pathlib import Path

import torch

import fuse_mlir
from fuse_mlir import native
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.fusion.modules import fused_sites
from tests.models import CHAIN, Block, needs_library, net

torch.set_num_threads(1)

#: Prints MiB of the process: with code loaded, and after each of two rounds of
#: fusing and unfusing, of which none may stay.
PROGRAM = """
import ctypes, gc
import torch
import fuse_mlir
from tests.models import CHAIN, Block, Net

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

def cycle(model, x):
    fuse_mlir.fuse_modules(model, CHAIN, inputs=x)
    model(x)
    held = resident()
    fuse_mlir.unfuse_modules(model)
    gc.collect()
    return held

torch.set_num_threads(1)
with torch.no_grad():
    # One layer, so that its code is compiled before.
    cycle(Net(1, lambda: Block(512, 1536)), torch.zeros(2, 512))
    model = Net(8, lambda: Block(512, 1536))
    x = torch.zeros(2, 512)
    model(x)
    # From now on malloc takes what is smaller from memory that it keeps.
    large = torch.ones(7 << 20)
    del large
    before = resident()
    held = [cycle(model, x) for _ in range(2)]
    print(before, max(held), resident())
"""


@needs_library
class Unfusing(unittest.TestCase):
    def test_finding_16_packed_weights_are_freed(self):
        made = []

        class Counted(native.SharedWeights):
            def __init__(self):
                super().__init__()
                made.append(weakref.ref(self))

        original, native.SharedWeights = native.SharedWeights, Counted
        self.addCleanup(setattr, native, "SharedWeights", original)
        model, x = net(3)
        # Those of other tests go before, not meanwhile.
        gc.collect()
        kernels = len(Kernel.all())
        for _ in range(2):
            result = fuse_mlir.fuse_modules(model, CHAIN, inputs=x)
            model(x)
            self.assertEqual(len([p for p in made if p() is not None]), 3)
            first = weakref.ref(fused_sites(model)[0][1])
            fuse_mlir.unfuse_modules(model)
            self.assertEqual(len(result), 3)
            gc.collect()
            self.assertIsNone(first())
            self.assertEqual([p for p in made if p() is not None], [])
            self.assertEqual(len(Kernel.all()), kernels)

    def test_finding_16_memory_goes_back_to_the_system(self):
        tests = Path(__file__).resolve().parents[2]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=tests,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        before, held, after = map(float, done.stdout.split())
        packed = 8 * 3 * 512 * 1536 * 4 / 2**20
        self.assertGreater(held - before, 0.8 * packed)
        self.assertLess(after - before, 0.25 * packed)

    def test_refusing_a_site_frees_what_was_measured(self):
        from fuse_mlir.fusion import timing

        timing.forget()
        self.addCleanup(timing.forget)
        kernels = len(Kernel.all())
        model, x = net(2, Block)
        fuse_mlir.explain(model, inputs=x)
        gc.collect()
        self.assertEqual(len(Kernel.all()), kernels)


if __name__ == "__main__":
    unittest.main()
