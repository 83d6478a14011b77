# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code is found on disk by the next process, and assembled before it is used."""

import os
import stat
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import torch
from torch import nn

from fuse_mlir import native
from fuse_mlir.compiler import chains, exports
from fuse_mlir.errors import FusionWarning, KernelError
from fuse_mlir.matching.plans import Plan, Source, Step
from fuse_mlir.native import compiler
from fuse_mlir.support.ptxas import find_ptxas
from tests.models import MLP, Norm, needs_library
from tests.support import ROOT

#: Writes what it was asked to assemble, and fails if the file FAIL is there.
SCRIPT = """#!/bin/sh
here=$(dirname "$0")
[ -e "$here/FAIL" ] && { echo "ptxas fatal : too old"; exit 1; }
echo "$1" >> "$here/log"
while [ $# -gt 1 ]; do shift; done
printf cubin > "$1"
"""


STATIC = """
func.func @main(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
    %g: tensor<128x64xf8E4M3FN>, %u: tensor<128x64xf8E4M3FN>,
    %d: tensor<64x128xf8E4M3FN>) -> tensor<?x64xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
       : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<128x64xf8E4M3FN>,
          tensor<128x64xf8E4M3FN>, tensor<64x128xf8E4M3FN>)
         -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
"""


def compile_mlp() -> chains.Compiled:
    chain = [nn.Sequential(Norm(64), MLP(64, 128)).bfloat16()]
    plan = Plan([0], [], [Step([Source("input", 0)], {})])
    return chains.compile_chain(
        ["chain"], chain, plan, [exports.InputType(2, 64, torch.bfloat16)]
    )


@needs_library
class Assembling(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        ptxas = self.folder / "ptxas"
        ptxas.write_text(SCRIPT)
        ptxas.chmod(ptxas.stat().st_mode | stat.S_IXUSR)
        for patch in (
            mock.patch.object(compiler, "find_ptxas", return_value=str(ptxas)),
            mock.patch.object(chains, "gpu_chip", return_value="sm_90"),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.compiled = compile_mlp()
        self.compiled._artifacts.clear()
        chains._tell_ptxas.cache_clear()

    def artifact(self) -> native.Artifact:
        return self.compiled.artifact(torch.device("cuda:0"))

    def test_code_of_gpus_is_assembled(self) -> None:
        cubins = self.artifact().sections(6)
        self.assertEqual(set(cubins), {b"cubin"})
        log = (self.folder / "log").read_text().split()
        self.assertEqual(set(log), {"-arch=sm_90"})
        # The next process finds it.
        self.compiled._artifacts.clear()
        self.artifact()
        self.assertEqual((self.folder / "log").read_text().split(), log)

    def test_layers_with_other_scales_share_code(self) -> None:
        """Scales are arguments of kernels, so that one assembling is enough."""
        counts = []
        for scale in ("2.1e-2", "3.7e-2", "1.53e-1"):
            module = native.Module(STATIC.replace("2.1e-2", scale))
            artifact = module.compile(chip="sm_90a", assemble=True)
            self.assertIn(b"cubin", artifact.sections(6))
            counts.append(len((self.folder / "log").read_text().split()))
        self.assertEqual(counts, counts[:1] * 3)

    def test_the_driver_assembles_where_ptxas_fails(self) -> None:
        (self.folder / "FAIL").touch()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            artifact = self.artifact()
        self.assertEqual(artifact.sections(6), [])
        self.assertGreater(len(artifact.sections(native.SECTION_PTX)), 0)
        (warning,) = [w for w in told if w.category is FusionWarning]
        self.assertRegex(
            str(warning.message), "does not assemble kernels.*too old"
        )

    def test_other_errors_stay_errors(self) -> None:
        with (
            mock.patch.object(chains, "gpu_chip", return_value="sm_1"),
            self.assertRaisesRegex(KernelError, "no code for sm_1"),
        ):
            self.artifact()


@needs_library
class Finding(unittest.TestCase):
    def test_ptxas_of_a_toolkit(self) -> None:
        with tempfile.TemporaryDirectory() as home:
            path = Path(home) / "bin" / "ptxas"
            path.parent.mkdir()
            path.write_text("")
            path.chmod(0o755)
            with mock.patch.dict(os.environ, {"PATH": "", "CUDA_HOME": home}):
                found = find_ptxas()
        self.assertEqual(found, str(path))

    def test_a_path_that_is_no_program(self) -> None:
        with (
            mock.patch.object(
                compiler, "find_ptxas", return_value="/nowhere/ptxas"
            ),
            self.assertRaisesRegex(
                native.NativeError, "'/nowhere/ptxas' is not a program"
            ),
        ):
            native.Module(compile_mlp().formed).compile(
                chip="sm_90", assemble=True
            )


PROCESS = """
import sys, time, torch
from tests.models import net
import fuse_mlir
from fuse_mlir.native import bindings
model, x = net(2)
fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
model(x)
"""


@needs_library
class Caching(unittest.TestCase):
    def run_process(self, folder: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PROCESS],
            cwd=ROOT / "python",
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_processes_share_code(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "fuse"
            self.run_process(folder, FUSE_CACHE_DIR=str(cache))
            (entry,) = cache.glob("*.fuse")
            first = entry.stat()
            self.run_process(folder, FUSE_CACHE_DIR=str(cache))
            (again,) = cache.glob("*.fuse")
            self.assertEqual(first.st_ino, again.stat().st_ino)
            # A damaged entry is compiled again.
            entry.write_bytes(entry.read_bytes()[:100])
            self.run_process(folder, FUSE_CACHE_DIR=str(cache))
            self.assertEqual(entry.stat().st_size, first.st_size)

    def test_without_a_folder(self) -> None:
        with tempfile.NamedTemporaryFile() as file:
            self.run_process(file.name, FUSE_CACHE_DIR=file.name)


if __name__ == "__main__":
    unittest.main()
