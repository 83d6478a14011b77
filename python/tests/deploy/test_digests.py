# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs in files whose SHA-256 the caller knows."""

import dataclasses
import hashlib
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch

import fuse_mlir
from fuse_mlir import native, slots
from fuse_mlir.compiler.ptx import compile_ptx
from fuse_mlir.errors import NativeError, PatternError
from fuse_mlir.matching.patterns import artifact_of
from fuse_mlir.support.digests import CheckedFolder
from tests.compiler.test_ptx import NORM, PTX
from tests.models import CHAIN, needs_library, net

ZEROS = 64 * "0"

#: A copy of eight values in PTX.
COPY = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 x, .param .u64 y) { ret; }
"""
#: Kernels `copy` of a file, at a path to fill in.
KERNELS = """
nn.slot_kernel "mine" op "copy" variant "standard" {
  nn.implementation on <gpu>
    code #nn.gpu_code<format = ptx, file = "%s", entry = "copy",
      grid = affine_map<() -> (1, 1, 1)>, block = [32, 1, 1], sizes = [],
      args = ["arg0", "result0"]> {}
}
"""
SLOT = """
nn.slot @copy op "copy" variant "standard"
    : (tensor<8xf32>) -> tensor<8xf32> {}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = nn.call_slot @copy(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
"""


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def refused(self, text, call, *arguments, error=NativeError, **options):
        with self.assertRaisesRegex(error, text):
            call(*arguments, **options)


@needs_library
class Artifacts(Folder):
    def setUp(self):
        super().setUp()
        self.model, self.x = net(1)
        fuse_mlir.fuse_modules(self.model, CHAIN, inputs=self.x)
        self.path = fuse_mlir.export(self.model, self.folder / "chain.fuse")
        fuse_mlir.unfuse_modules(self.model)
        self.digest = digest(self.path)

    def test_the_expected_file(self):
        for text in (self.digest, self.digest.upper()):
            kernel = fuse_mlir.load(self.path, sha256=text)
        # The file was read once.
        self.path.write_bytes(b"another program")
        layer = self.model.layers[0]
        torch.testing.assert_close(
            kernel.bind(layer.state_dict())(self.x),
            layer.mlp(layer.norm(self.x)),
        )

    def test_another_file(self):
        # Not even an artifact, which the digest hides.
        for content in (b"another program", self.path.read_bytes() + b"x"):
            self.path.write_bytes(content)
            self.refused(
                f"chain.fuse: its SHA-256 is {digest(self.path)}, "
                f"expected {self.digest}$",
                fuse_mlir.load,
                self.path,
                sha256=self.digest.upper(),
            )
        self.refused(
            "none.fuse: No such file",
            fuse_mlir.load,
            self.folder / "none.fuse",
            sha256=self.digest,
        )

    def test_malformed_digests(self):
        for text in ("", self.digest[1:], self.digest + "0", "g" + ZEROS[1:]):
            self.refused(
                f"chain.fuse: '{text}' is not a SHA-256, expected 64 hex",
                fuse_mlir.load,
                self.path,
                sha256=text,
            )
        self.refused(
            "the SHA-256 of '.*chain.fuse' is of type bytes",
            fuse_mlir.load,
            self.path,
            sha256=bytes(32),
            error=TypeError,
        )

    def test_the_library_checks_by_itself(self):
        with mock.patch.object(
            native.compiler, "require_digest", lambda path, text: text
        ):
            self.refused(
                "'12' is not a SHA-256",
                native.Artifact.load,
                self.path,
                "12",
            )

    def test_kernels_of_patterns(self):
        kernel = f"{self.path}#sha256={self.digest}"
        self.assertEqual(artifact_of(kernel), (str(self.path), self.digest))
        self.assertEqual(artifact_of("a.fuse"), ("a.fuse", None))
        self.assertIsNone(artifact_of("gated_mlp"))
        expected = self.model(self.x)
        result = fuse_mlir.fuse_modules(
            self.model, {CHAIN: kernel}, inputs=self.x
        )
        self.assertEqual(len(result.fused), 1)
        torch.testing.assert_close(self.model(self.x), expected)
        fuse_mlir.unfuse_modules(self.model)
        self.refused(
            f"its SHA-256 is {self.digest}, expected {ZEROS}",
            fuse_mlir.fuse_modules,
            self.model,
            {CHAIN: f"{self.path}#sha256={ZEROS}"},
            inputs=self.x,
            error=fuse_mlir.FuseMlirError,
        )
        self.refused(
            "chain.fuse: 'ab' is not a SHA-256",
            fuse_mlir.KernelConfig,
            {CHAIN: f"{self.path}#sha256=ab"},
            error=PatternError,
        )
        self.refused(
            "no artifact 'none.fuse'",
            fuse_mlir.KernelConfig,
            {CHAIN: f"none.fuse#sha256={ZEROS}"},
            error=PatternError,
        )


@needs_library
class PtxFiles(Folder):
    def test_digest_of_a_kernel(self):
        path = self.folder / "scale.ptx"
        path.write_text(PTX)
        kernel = fuse_mlir.PtxKernel(
            path,
            "scale",
            ["input0", "norm.weight", "result0", 1e-6, "rows"],
            sizes={"rows": ("input0", 0)},
            sha256=digest(path),
        )
        artifact = compile_ptx(kernel, NORM, "sm_90a")
        self.assertIn(
            b".entry scale", b"".join(artifact.sections(native.SECTION_PTX))
        )
        wrong = dataclasses.replace(kernel, sha256=ZEROS)
        self.refused(
            f"scale.ptx: its SHA-256 is {kernel.sha256}, expected {ZEROS}",
            compile_ptx,
            wrong,
            NORM,
            "sm_90a",
        )
        self.refused(
            "scale.ptx: 'x' is not a SHA-256",
            fuse_mlir.KernelConfig,
            {CHAIN: dataclasses.replace(kernel, sha256="x")},
            error=PatternError,
        )


@needs_library
class KernelFolders(Folder):
    def setUp(self):
        super().setUp()
        self.context = slots.Context()
        (self.folder / "code").mkdir()
        self.ptx = self.folder / "code/copy.ptx"
        self.ptx.write_text(COPY)
        self.registry = self.folder / "kernels.mlir"
        self.registry.write_text(KERNELS % "code/copy.ptx")
        self.digests = {
            "kernels.mlir": digest(self.registry),
            "code/copy.ptx": digest(self.ptx),
        }

    def kernels(self):
        return [
            kernel["name"]
            for entry in self.context.list_kernels()
            for kernel in entry["kernels"]
            if entry["op"] == "copy"
        ]

    def test_the_expected_files(self):
        self.context.register_kernels(self.registry, sha256=self.digests)
        # The checked bytes run, even if the files change or are removed.
        self.ptx.write_text(COPY.replace("ret;", "trap;"))
        self.registry.unlink()
        module = self.context.parse(SLOT)
        module.bind({"bind": {"copy": "mine"}, "target": "sm_90a"})
        artifact = native.compile_module(
            module._handle.pointer, self.context._diagnostics, chip="sm_90a"
        )
        (code,) = artifact.sections(native.SECTION_PTX)
        self.assertIn(b"ret;", code)
        self.assertNotIn(b"trap;", code)

    def test_other_files(self):
        for path in (self.registry, self.ptx):
            with self.subTest(path.name):
                before = path.read_text()
                path.write_text(before + "\n")
                name = str(path.relative_to(self.folder))
                self.refused(
                    f"{path}: its SHA-256 is {digest(path)}, "
                    f"expected {self.digests[name]}",
                    self.context.register_kernels,
                    self.registry,
                    sha256=self.digests,
                )
                path.write_text(before)
        self.assertEqual(self.kernels(), [])

    def test_files_without_a_digest(self):
        outside = self.folder / "outside.ptx"
        outside.write_text(COPY)
        for name in ("../outside.ptx", str(outside), str(self.ptx), "a/b.ptx"):
            self.refused(
                f"{name}: its SHA-256 is not given; expected one of "
                "code/copy.ptx, kernels.mlir",
                self.context.register_kernels,
                KERNELS % name,
                self.folder,
                sha256=self.digests,
            )
        for name in self.digests:
            rest = {k: v for k, v in self.digests.items() if k != name}
            self.refused(
                f"{name}: its SHA-256 is not given; expected one of "
                f"{next(iter(rest))}$",
                self.context.register_kernels,
                self.registry,
                sha256=rest,
            )
        self.assertEqual(self.kernels(), [])

    def test_texts(self):
        digests = {"code/copy.ptx": self.digests["code/copy.ptx"]}
        text = self.registry.read_text()
        self.refused(
            "digests of files need their directory",
            self.context.register_kernels,
            text,
            sha256=digests,
        )
        self.context.register_kernels(text, self.folder, sha256=digests)
        self.assertEqual(self.kernels(), ["mine"])

    def test_malformed_arguments(self):
        for digests, text, error in (
            ({"kernels.mlir": "12"}, "'12' is not a SHA-256", NativeError),
            ({"/a": ZEROS}, "'/a' is not a path of a file below", NativeError),
            ({"../a": ZEROS}, "'../a' is not a path of a file", NativeError),
            ({"": ZEROS}, "'' is not a path of a file below", NativeError),
            ({"none": ZEROS}, "No such file", OSError),
            ({"code": ZEROS}, "Is a directory", OSError),
            ([ZEROS], "argument 'sha256' is of type list", TypeError),
            ({1: ZEROS}, "the name of a file is of type int", TypeError),
            ({"a": 1}, "the SHA-256 of .* is of type int", TypeError),
        ):
            self.refused(
                text,
                self.context.register_kernels,
                self.registry,
                sha256=digests,
                error=error,
            )

    def test_copies_are_private_and_temporary(self):
        folder = CheckedFolder(self.folder, self.digests)
        self.assertEqual(os.stat(folder.path).st_mode & 0o077, 0)
        self.assertEqual(
            folder.name_of(f"{folder.path}/code/copy.ptx"), "code/copy.ptx"
        )
        self.assertIsNone(folder.name_of("code/copy.ptx"))
        path = folder.path
        del folder
        self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
