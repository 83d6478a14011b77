# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The commands, their files and their exit status."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from fuse_mlir.cli.main import main


def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(a) for a in arguments])
    return status, out.getvalue(), err.getvalue()


class Files(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)


class Import(Files):
    QWEN3 = [
        "import",
        "--architecture",
        "qwen3",
        "--set",
        "hidden_size=64",
        "--set",
        "intermediate_size=96",
        "--set",
        "num_hidden_layers=1",
        "--parent",
        "model.layers.0",
        "--members",
        "post_attention_layernorm,mlp",
        "--shape",
        "tokens,64",
    ]

    def test_writes_ir_weights_and_sample(self):
        output = self.path / "deep" / "block.mlir"
        status, out, _ = run(*self.QWEN3, "--sample", "tokens=3", "-o", output)
        self.assertEqual(status, 0)
        self.assertIn("4 tensors", out)
        text = output.read_text()
        weights = load_file(output.with_suffix(".safetensors"))
        for name, tensor in weights.items():
            self.assertIn(f'fuse.parameter = "{name}"', text)
            self.assertEqual(tensor.dtype, torch.bfloat16)
        sample = np.load(output.with_suffix(".input.npy"))
        result = np.load(output.with_suffix(".output.npy"))
        exact = np.load(output.with_suffix(".output-f32.npy"))
        self.assertEqual(sample.shape, (3, 64))
        self.assertEqual(result.shape, (3, 64))
        # Same function, other roundings.
        self.assertFalse(np.array_equal(result, exact))
        np.testing.assert_allclose(result, exact, atol=0.1)

    def test_errors_name_the_cause(self):
        output = ["-o", self.path / "block.mlir"]
        for extra, message in (
            (["--parent", "model.layers.7"], "has no child '7'"),
            (["--set", "oops"], "bad setting 'oops'"),
            (
                ["--members", "self_attn"],
                "the members cannot be called as Qwen3ForCausalLM does: "
                "FUSE-N228 unsupported-argument: argument ",
            ),
            (
                ["--members", "mlp", "--shape", "tokens,7"],
                "96]; their input has the shape tokens,7",
            ),
            (["--shape", "tokens,0"], "bad dimension '0'"),
        ):
            with self.subTest(message):
                status, _, err = run(*self.QWEN3, *extra, *output)
                self.assertEqual(status, 1)
                self.assertTrue(err.startswith("error: "), err)
                self.assertIn(message, err)


class ImportOfBert(Files):
    """Its second module also reads the input of the first."""

    BERT = [
        "import",
        "--architecture",
        "bert",
        *("--set", "hidden_size=32", "--set", "intermediate_size=64"),
        *("--set", "num_hidden_layers=1", "--set", "num_attention_heads=2"),
        *("--parent", "bert.encoder.layer.0", "--shape", "tokens,32"),
    ]

    def test_members_with_two_inputs(self):
        output = self.path / "bert.mlir"
        status, out, err = run(
            *self.BERT,
            *("--members", "intermediate,output"),
            *("--sample", "tokens=3", "-o", output),
        )
        self.assertEqual(status, 0, err)
        self.assertIn("6 tensors", out)
        self.assertEqual(
            np.load(output.with_suffix(".output.npy")).shape, (3, 32)
        )

    def test_a_member_without_its_input(self):
        status, _, err = run(
            *self.BERT, "--members", "output", "-o", self.path / "bert.mlir"
        )
        self.assertEqual(status, 1)
        self.assertIn("reads 2 tensors from outside of the chain", err)
        self.assertIn("with one input: 'intermediate,output'", err)


class Compare(Files):
    def setUp(self):
        super().setUp()
        np.save(self.path / "a.npy", np.ones(8, np.float32))
        np.save(self.path / "b.npy", np.full(8, 1 + 2**-7, np.float32))

    def compare(self, *arguments):
        return run("compare", self.path / "a.npy", *arguments)

    def test_prints_one_line_each(self):
        status, out, _ = self.compare(
            f"same={self.path / 'a.npy'}", f"other={self.path / 'b.npy'}"
        )
        self.assertEqual(status, 0)
        self.assertEqual(len(out.splitlines()), 3)

    def test_identical(self):
        self.assertEqual(
            self.compare(f"s={self.path / 'a.npy'}", "--identical")[0], 0
        )
        status, out, _ = self.compare(f"o={self.path / 'b.npy'}", "--identical")
        self.assertEqual(status, 1)
        self.assertIn("o: not identical", out)

    def test_bound(self):
        item = f"o={self.path / 'b.npy'}"
        self.assertEqual(self.compare(item, "--max-relative", "0.01")[0], 0)
        status, out, _ = self.compare(item, "--max-relative", "0.001")
        self.assertEqual(status, 1)
        self.assertIn("7.81e-03 exceeds 1.00e-03", out)

    def test_yardstick(self):
        near, far = f"n={self.path / 'b.npy'}", f"f={self.path / 'c.npy'}"
        np.save(self.path / "c.npy", np.full(8, 1 + 2**-6, np.float32))
        self.assertEqual(
            self.compare(near, far, "--yardstick", "n", "--factor", "2.5")[0], 0
        )
        status, out, _ = self.compare(near, far, "--yardstick", "n")
        self.assertEqual(status, 1)
        self.assertIn("f: relative difference 1.56e-02 exceeds 1.17e-02", out)
        status, _, err = self.compare(near, "--yardstick", "x")
        self.assertEqual(status, 1)
        self.assertIn("no result 'x'; expected one of n", err)

    def test_other_file(self):
        text = self.path / "text.npy"
        text.write_text("no array")
        status, _, err = self.compare(f"o={text}")
        self.assertEqual(status, 1)
        self.assertIn("text.npy: not a .npy file that can be read: ", err)

    def test_missing_file(self):
        status, _, err = self.compare("o=/nowhere.npy")
        self.assertEqual(status, 1)
        self.assertEqual(
            err, "error: /nowhere.npy: No such file or directory\n"
        )


if __name__ == "__main__":
    unittest.main()
