# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs of blocks: from text, and rounded to the type of a block."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
import transformers

from fuse_mlir.calibration.input_files import input_type, rounded_files
from fuse_mlir.errors import BlockError
from tests.checkpoint.test_model_source import QWEN3, Directories, qwen3_weights
from tests.cli.test_models import run
from tests.models import needs_library
from tests.support import tool

TEXT = "one two three\n\ntwo three\n"


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"[UNK]": 0, "one": 1, "two": 2, "three": 3}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="[UNK]",
        model_input_names=["input_ids", "attention_mask"],
    )


class Rounding(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)

    def test_type_of_the_first_argument(self):
        for text, element in (
            (
                "func.func @main(%x: tensor<?x256xbf16>, %w: tensor<8xf32>)",
                "bf16",
            ),
            ("func.func private @f(%0: tensor<f32>) -> f32", "f32"),
            ("func.func @f(%0: i32)", ""),
        ):
            self.assertEqual(input_type(text), element)

    def test_finding_16_values_round_by_themselves(self):
        exact, wide = self.path / "exact.npy", self.path / "wide.npy"
        np.save(exact, np.array([[0.5, -1.0]], np.float32))
        np.save(wide, np.array([[-0.198886, np.nan]], np.float32))
        lines = []
        found = rounded_files([exact, wide], "bf16", self.path, lines.append)
        self.assertEqual(found[0], exact)
        self.assertEqual(
            lines,
            [
                "rounded the values of 1 of 2 files to bf16, "
                "the type of the block"
            ],
        )
        value = torch.tensor(-0.198886).bfloat16()
        self.assertEqual(np.load(found[1])[0, 0], float(value))
        self.assertEqual(rounded_files([wide], "f32", self.path), [wide])
        broken = self.path / "broken.npy"
        broken.write_text("text")
        with self.assertRaisesRegex(BlockError, "broken.npy' is not a .npy"):
            rounded_files([broken], "f16", self.path)


@needs_library
class FromText(Directories):
    def test_one_command_makes_inputs_that_calibrate_takes(self):
        path = self.write("qwen3", QWEN3, qwen3_weights())
        tokenizer().save_pretrained(path)
        text = self.path / "lines.txt"
        text.write_text(TEXT)
        out = self.path / "inputs"
        status, printed, error = run(
            "inputs",
            path,
            "--text",
            text,
            "--module",
            "model.layers.0.post_attention_layernorm",
            "--quiet",
            "-o",
            out,
        )
        self.assertEqual((status, printed), (0, f"{out}: 2 files\n"), error)
        files = sorted(out.glob("*.npy"))
        self.assertEqual([np.load(f).shape for f in files], [(3, 32), (2, 32)])
        block = self.path / "block.mlir"
        status, _, error = run(
            "import",
            "--pretrained",
            path,
            "--parent",
            "model.layers.0",
            "--members",
            "post_attention_layernorm,mlp",
            "--shape",
            "tokens,32",
            "-o",
            block,
        )
        self.assertEqual(status, 0, error)
        status, printed, error = run(
            "calibrate",
            block,
            *files,
            "--weights",
            block.with_suffix(".safetensors"),
            "--no-cache",
            "--tools",
            Path(tool("fuse-opt")).parent,
            "-o",
            self.path / "scales.json",
        )
        self.assertEqual(status, 0, error)
        self.assertIn("mlp.down_proj.input", printed)

    def test_errors(self):
        path = self.write("qwen3", QWEN3, qwen3_weights())
        text = self.path / "lines.txt"
        text.write_text(TEXT)

        def fails(message, *more, module="model.norm"):
            status, _, error = run(
                "inputs",
                path,
                "--text",
                text,
                "--module",
                module,
                "-o",
                self.path / "out",
                *more,
            )
            self.assertEqual(status, 1)
            self.assertIn(message, error)

        fails("--length: expected 1 or more, got 0", "--length=0")
        binary = self.path / "lines.npy"
        binary.write_bytes(b"\x93NUMPY")
        fails(
            f"--text: '{binary}' is not text in UTF-8: byte 0 is 0x93",
            f"--text={binary}",
        )
        fails("has no tokenizer: expected tokenizer.json")
        tokenizer().save_pretrained(path)
        fails(
            "no module 'layers.0.mlp'; there is model.layers.0.mlp",
            module="layers.0.mlp",
        )
        text.write_text("\n")
        fails("there is no text")


if __name__ == "__main__":
    unittest.main()
