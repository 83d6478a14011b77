# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX files and artifacts of GPUs as kernels of chains.

Without a GPU: what would be launched.
"""

import ctypes
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch

import fuse_mlir
from fuse_mlir import errors, native
from fuse_mlir.compiler.ptx import compile_ptx
from fuse_mlir.errors import PtxError
from fuse_mlir.fusion.modules import fused_sites
from fuse_mlir.matching.ptx_kernel import PtxKernel
from tests.models import CHAIN, needs_library, net

torch.set_num_threads(1)

PTX = """.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 w, .param .u64 y,
                      .param .f32 eps, .param .u64 rows) { ret; }
"""
NORM = """
func.func @main(%arg0: tensor<?x8xf32>, %arg1: tensor<8xf32>
    {fuse.parameter = "norm.weight"}) -> tensor<?x8xf32> {
""".replace("\n    {", " {")
NORMS = (("Norm", "layers.*.norm"),)


@needs_library
class Files(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "scale.ptx"
        self.path.write_text(PTX)

    def kernel(self, **changes):
        return PtxKernel(
            **{
                "path": self.path,
                "entry": "scale",
                "grid": ("rows ceildiv 4",),
                "block": (32,),
                "sizes": {"rows": ("input0", 0)},
                "args": ["input0", "norm.weight", "result0", 1e-6, "rows"],
                **changes,
            }
        )

    def test_launch(self):
        artifact = compile_ptx(self.kernel(), NORM, "sm_90a")
        self.assertIn(
            b".entry scale", b"".join(artifact.sections(native.SECTION_PTX))
        )
        manifest = artifact.sections(native.SECTION_MANIFEST)[0]
        function = json.loads(manifest)["functions"][0]
        self.assertEqual(function["arguments"][1]["parameter"], "norm.weight")
        (launch,) = function["cuda"]["launches"]
        self.assertEqual(
            (launch["kernel"], launch["grid"], launch["block"]),
            ("scale", [["ceildiv", "s0", 4], 1, 1], [32, 1, 1]),
        )
        self.assertEqual(
            [a for a in launch["args"] if "tensor" in a],
            [{"tensor": 0}, {"tensor": 1}, {"tensor": 2}],
        )
        self.assertEqual(launch["args"][4], {"size": "s0"})

    def test_any_path(self):
        path = self.path.with_name('größe "1".ptx')
        path.write_text(PTX)
        compile_ptx(self.kernel(path=path), NORM, "sm_90a")

    def refused(self, error, text, chip="sm_90a", **changes):
        with self.assertRaisesRegex(error, text):
            compile_ptx(self.kernel(**changes), NORM, chip)

    def test_names(self):
        self.refused(
            PtxError,
            "argument 'norm.bias' of PTX .*scale.ptx:scale' "
            "is not a tensor or a size; there are result0, input0, "
            "norm.weight, rows",
            args=["norm.bias"],
        )
        self.refused(
            PtxError,
            "size 'rows' of PTX .* is of tensor 'x'; there "
            "are input0, norm.weight",
            sizes={"rows": ("x", 0)},
        )

    def test_chip(self):
        self.refused(
            PtxError, "is for sm_80 and later, not for sm_75", chip="sm_75"
        )

    def test_entry(self):
        self.refused(errors.NativeError, "other", entry="other")

    def test_model_on_the_cpu(self):
        model, x = net()
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "scale.ptx:scale' is PTX, which runs on CUDA; the model is on cpu",
        ):
            fuse_mlir.fuse_modules(model, {NORMS: self.kernel()}, inputs=x)

    def test_values(self):
        with self.assertRaisesRegex(
            fuse_mlir.PatternError, "no PTX file 'missing.ptx'"
        ):
            fuse_mlir.KernelConfig({NORMS: self.kernel(path="missing.ptx")})
        with self.assertRaisesRegex(
            fuse_mlir.PatternError, "is a int; expected a string or a Ptx"
        ):
            fuse_mlir.KernelConfig({NORMS: 3})


@needs_library
class Artifacts(unittest.TestCase):
    def test_code_that_does_not_compile(self):
        """What is null or none in C is an error here."""
        lib = native.library()
        artifact = native.Artifact(ctypes.c_void_p())
        for name, read, result in (
            ("fuse_artifact_bytes", artifact.bytes, None),
            (
                "fuse_artifact_num_sections",
                lambda: artifact.sections(native.SECTION_PTX),
                0,
            ),
        ):
            failing = mock.Mock(return_value=result)
            with (
                self.subTest(name),
                mock.patch.object(lib, name, failing),
                self.assertRaises(errors.NativeError),
            ):
                read()

    def test_code_for_gpus_on_the_cpu(self):
        model, x = net()
        fuse_mlir.fuse_modules(model, {CHAIN: "fuse"}, inputs=x)
        with tempfile.TemporaryDirectory() as directory:
            path = str(
                fuse_mlir.export(
                    model, Path(directory) / "k.fuse", chip="sm_80"
                )
            )
            ptx = native.Artifact.load(path).sections(native.SECTION_PTX)
            self.assertIn(b".target sm_80", ptx[0])
            fuse_mlir.unfuse_modules(model)
            with self.assertRaisesRegex(fuse_mlir.FuseError, "no code for"):
                fuse_mlir.fuse_modules(model, {CHAIN: path}, inputs=x)
            self.assertFalse(fused_sites(model))


if __name__ == "__main__":
    unittest.main()
