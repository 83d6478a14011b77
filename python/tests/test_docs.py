# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The code and the commands of documentation pages run."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fuse_mlir import native
from tests.calibration.test_input_files import TEXT, tokenizer
from tests.models import LLAMA, SIZES, needs_library, transformer
from tests.support import ROOT, tool

torch.set_num_threads(1)


def blocks(page, language):
    """The blocks of a page in a language."""
    text = (ROOT / f"docs/{page}.md").read_text()
    return re.findall(
        rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
    )


def rms_norm(x, weight):
    return nn.functional.rms_norm(x, weight.shape, weight, 1e-6)


class Slotted(nn.Module):
    """A model with a slot."""

    def __init__(self):
        super().__init__()
        from fuse_mlir import slots

        self.norm = slots.OpSlot(
            "rms_norm", params={"eps": 1e-6}, eager=rms_norm
        )


@needs_library
class Pages(unittest.TestCase):
    def run_page(self, page, least, **names):
        """Runs the Python of a page, which may use `names`."""
        found = blocks(page, "python")
        self.assertGreaterEqual(len(found), least)
        namespace = {**names, "__name__": "page"}
        with contextlib.redirect_stdout(io.StringIO()):
            for block in found:
                exec(compile(block, f"docs/{page}.md", "exec"), namespace)
        return namespace

    def tutorial(self):
        """Names that the first page for PyTorch defines, for later pages."""
        return self.run_page("tutorials/fuse-your-first-model", 3)

    def test_faster_tokens(self):
        self.run_page("tutorials/faster-tokens", 5)

    def test_models(self):
        names = self.tutorial()
        names.update(self.run_page("how-to/select-modules", 5, **names))
        self.run_page("how-to/verify-and-debug-refusals", 1, **names)
        self.run_page("how-to/fuse-at-load", 2, **names)

    def test_quantize(self):
        self.run_page("how-to/quantize", 3, **self.tutorial())

    def test_export(self):
        self.run_page("how-to/export-to-hub", 2, **self.tutorial())

    def test_importing(self):
        names = self.run_page(
            "how-to/import-a-block",
            1,
            module=nn.Linear(8, 4),
            example_inputs=(torch.zeros(3, 8),),
        )
        self.assertIn("fuse.linear", names["function"].text)
        self.assertEqual(sorted(names["function"].weights), ["bias", "weight"])

    def test_slots(self):
        mixtral = transformer(
            "mixtral", **SIZES, num_key_value_heads=1, num_local_experts=4
        )
        student, teacher = Slotted(), Slotted()
        names = self.run_page(
            "how-to/bind-slots",
            4,
            torch=torch,
            nn=nn,
            rms_norm=rms_norm,
            student=student,
            teacher=teacher,
            mixtral=mixtral,
            model=transformer("llama", **LLAMA),
            input_ids=torch.tensor([[3, 14, 15]]),
        )
        self.assertEqual(
            (student.norm.kernel, teacher.norm.kernel), ("mine", "eager")
        )
        model = names["RMSNorm"](8).requires_grad_(False)
        names["slots"].bind(
            model, {"bind": {"rms_norm": "fuse"}}, names["context"]
        )
        x = torch.randn(3, 8)
        torch.testing.assert_close(model(x), rms_norm(x, model.weight))


@needs_library
class Commands(unittest.TestCase):
    """Commands of pages, in a directory that looks like a checkout."""

    def setUp(self):
        # The directory of the tools of this build.
        binaries = Path(tool("fuse-opt")).parent.resolve()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "build/dev").mkdir(parents=True)
        (self.folder / "build/dev/bin").symlink_to(binaries)
        (self.folder / ".venv/bin").mkdir(parents=True)
        python = self.folder / ".venv/bin/python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        (self.folder / "python").symlink_to(ROOT / "python")
        self.environment = {
            **os.environ,
            native.LIBRARY_VARIABLE: native.library()._name,
            "PATH": f"{binaries}:{python.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "python"),
        }

    def follow(self, page, count, without=None, width="32"):
        """Runs the commands of a page, which has `count` blocks of them.

        Args:
            without: blocks with this text are left out.
            width: of the models here, instead of the page's 4096.
        """
        found = [
            block.replace("4096", width)
            for block in blocks(page, "sh")
            if without is None or without not in block
        ]
        self.assertEqual(len(found), count)
        printed = ""
        for block in found:
            if shutil.which("ptxas") is None:
                block = re.sub("^ptxas .*\n", "", block, flags=re.MULTILINE)
            done = subprocess.run(
                ["bash", "-e", "-c", block],
                cwd=self.folder,
                text=True,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            self.assertEqual(done.returncode, 0, f"{block}\n{done.stdout}")
            printed += done.stdout
        return printed

    def save_model(self, path):
        model = transformer("qwen3", **{**LLAMA, "num_hidden_layers": 2})
        model.save_pretrained(self.folder / path)

    def test_getting_started(self):
        printed = self.follow("tutorials/getting-started", 5, "scripts/")
        self.assertRegex(printed, r"V0 .* identical \(kernels: 1,")
        self.assertRegex(printed, r"V1 .* bit-equal")

    def test_importing(self):
        self.follow("how-to/import-a-block", 1)
        self.assertTrue((self.folder / "out/block.safetensors").exists())

    def test_module_fusion(self):
        from safetensors.torch import load_file, save_file

        source = ROOT / "examples/decoder-model.mlir"
        shutil.copy(source, self.folder / "model.mlir")
        shapes = {
            "norm.weight": (64,),
            "mlp.gate_proj.weight": (128, 64),
            "mlp.up_proj.weight": (128, 64),
            "mlp.down_proj.weight": (64, 128),
        }
        weights = {
            f"layers.{i}.{name}": torch.randn(shape).bfloat16() / 8
            for i in range(2)
            for name, shape in shapes.items()
        }
        path = self.folder / "model.safetensors"
        save_file(weights, path)
        printed = self.follow("explanation/module-fusion", 3)
        self.assertRegex(printed, r"V0 .* identical \(kernels: 2,")
        # Packed by the last block and unpacked to the same file.
        for name, tensor in load_file(path).items():
            self.assertTrue(torch.equal(tensor, weights[name]), name)

    def test_pytorch(self):
        self.save_model("path/to/model")
        shutil.copy(
            self.folder / "path/to/model/config.json",
            self.folder / "path/to/config.json",
        )
        printed = self.follow("tutorials/fuse-your-first-model", 1)
        self.assertIn("7 could fuse", printed)
        self.assertIn("times as fast", printed)
        for path in (
            "verify.html",
            "kernels/kernel-0.fuse",
            "gpu/my-mlp/build",
        ):
            self.assertTrue((self.folder / "out" / path).exists(), path)

    def test_quantization(self):
        self.save_model("model")
        for name in ("data", "calibration"):
            (self.folder / name).mkdir()
            np.save(
                self.folder / name / "0.npy",
                torch.randn(8, 32).bfloat16().float().numpy(),
            )
        block = self.folder / "block.mlir"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "fuse_mlir",
                "import",
                "--pretrained",
                "model",
                "--parent",
                "model.layers.0",
                "--members",
                "post_attention_layernorm,mlp",
                "--shape",
                "tokens,32",
                "-o",
                block,
            ],
            cwd=self.folder,
            env=self.environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        tokenizer().save_pretrained(self.folder / "model")
        (self.folder / "lines.txt").write_text(TEXT)
        printed = self.follow("how-to/quantize", 4)
        self.assertTrue((self.folder / "data" / "input-0001.npy").exists())
        self.assertRegex(printed, r"fuse\.gated_mlp .* scales\(f8E4M3FN, ")
        self.assertTrue((self.folder / "report.html").exists())


if __name__ == "__main__":
    unittest.main()
