# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Commands on whole models."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from fuse_mlir.checkpoint import models as blocks
from fuse_mlir.cli.main import main
from tests.models import LLAMA, needs_library

SETTINGS = [
    f"--set={key}={value}"
    for key, value in {**LLAMA, "num_hidden_layers": 2}.items()
]


def run(*arguments):
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = main([*map(str, arguments)])
    return status, out.getvalue(), error.getvalue()


@needs_library
class Commands(unittest.TestCase):
    def test_explain(self):
        status, out, error = run("explain", "llama", *SETTINGS)
        self.assertEqual(status, 0, error)
        self.assertIn(
            "could fuse  model.layers.1.post_attention_layernorm"
            "+mlp#1  gated_mlp\n",
            out,
        )
        self.assertIn("+q_proj+k_proj+v_proj#1  norm_linear\n", out)
        self.assertIn("o_proj+add#1  fused_linear\n7 could", out)
        self.assertIn("[7/7] model.layers.1", error)

    def test_advice_names_options(self):
        sizes = {
            **LLAMA,
            "num_hidden_layers": 1,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
        }
        settings = [f"--set={key}={value}" for key, value in sizes.items()]
        _, out, error = run("explain", "mixtral", "--quiet", *settings)
        self.assertIn("--pattern '*Experts=**.experts' asks for it", out, error)
        pattern = "--pattern=*Experts=**.experts"
        status, out, error = run(
            "explain", "mixtral", "--quiet", pattern, *settings
        )
        self.assertIn("1 could fuse", out, error)

    def test_activations_that_round_once(self):
        settings = (
            "--set=n_embd=32",
            "--set=n_layer=1",
            "--set=n_head=2",
            "--set=vocab_size=64",
            "--set=n_positions=16",
            "--quiet",
        )
        for rounding, line in (
            (
                "exact",
                "norm_linear without 'mlp.act', which --rounding relaxed allows",
            ),
            ("relaxed", "mlp with 'mlp.act' rounded once"),
        ):
            status, out, error = run(
                "explain", "gpt2", *settings, f"--rounding={rounding}"
            )
            self.assertEqual((status, error), (0, ""))
            self.assertIn(f"transformer.h.0.ln_2+mlp#0  {line}\n", out)
        status, out, error = run(
            "verify", "gpt2", *settings, "--rounding=relaxed"
        )
        self.assertEqual(status, 0, error + out)

    def test_explain_a_pattern_as_json_and_html(self):
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory) / "r.html"
            status, out, error = run(
                "explain",
                "llama",
                *SETTINGS,
                "--quiet",
                "--format=json",
                "--pattern=*RMSNorm=model.layers.1.post_attention_layernorm,"
                "LlamaMLP=model.layers.1.mlp",
            )
            self.assertEqual((status, error), (0, ""))
            found = json.loads(out)
            self.assertEqual(
                [s["parent"] for s in found["sites"]], ["model.layers.1"]
            )
            self.assertEqual(found["about"]["model"], "llama")
            self.assertIn("fuse_mlir explain llama", found["about"]["command"])
            status, out, _ = run(
                "explain", "llama", *SETTINGS, "--format=html", "-o", report
            )
            self.assertEqual(status, 0)
            self.assertIn("<td>model.layers.0.post", report.read_text())

    def test_fuse_writes_each_kernel_once(self):
        import fuse_mlir

        with tempfile.TemporaryDirectory() as directory:
            status, out, error = run(
                "fuse", "llama", *SETTINGS, "-o", directory
            )
            self.assertEqual(status, 0, error)
            weights = (
                "lm_head.weight",
                "self_attn.q_proj.weight",
                "mlp.down_proj.weight",
                "o_proj.weight",
            )
            self.assertEqual(
                sorted(p.name for p in Path(directory).iterdir()),
                [f"kernel-{i}.fuse" for i in range(len(weights))]
                + ["sites.json"],
            )
            for number, weight in enumerate(weights):
                count = 2 if number else 1
                self.assertIn(
                    f"kernel-{number}.fuse: kernel of {count} sites", out
                )
                kernel = fuse_mlir.load(
                    Path(directory) / f"kernel-{number}.fuse"
                )
                self.assertIn(weight, kernel.parameters)

    def test_fuse_for_a_gpu_and_for_the_hub(self):
        from fuse_mlir import native

        with tempfile.TemporaryDirectory() as directory:
            here = Path(directory)
            status, out, error = run(
                "fuse",
                "llama",
                *SETTINGS,
                "-o",
                directory,
                "--chip=sm_80",
                "--hub=llama-mlp",
            )
            self.assertEqual(status, 0, error)
            code = native.Artifact.load(here / "kernel-0.fuse")
            self.assertTrue(code.sections(native.SECTION_PTX))
            self.assertIn("llama-mlp/build/torch-cuda: kernel of 2 sites", out)
            made = here / "llama-mlp/build/torch-cuda/metadata.json"
            self.assertEqual(json.loads(made.read_text())["name"], "llama-mlp")

    def test_verify_a_config_file(self):
        with tempfile.TemporaryDirectory() as directory:
            config = Path(directory) / "config.json"
            config.write_text(
                json.dumps(
                    {"model_type": "llama", **LLAMA, "num_hidden_layers": 1}
                )
            )
            status, out, error = run("verify", config)
        self.assertEqual(status, 0, error)
        self.assertIn("13 of 13 checks passed", out)
        self.assertIn(
            "[3/4] model.layers.0.post_attention_layernorm+mlp#0: verified",
            error,
        )

    def test_bench(self):
        status, out, error = run(
            "bench", "llama", *SETTINGS, "--repeats=2", "--format=json"
        )
        self.assertEqual(status, 0, error)
        self.assertEqual(set(json.loads(out)), {"about", "fused", "unfused"})

    def test_files_of_text_and_json_have_a_head(self):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "report"
            for command, key in (
                ("explain", "sites"),
                ("verify", "checks"),
                ("bench", "fused"),
            ):
                with self.subTest(command):
                    line = (
                        command,
                        "llama",
                        *SETTINGS,
                        "--quiet",
                        "-o",
                        file,
                        *(("--repeats=1",) if command == "bench" else ()),
                    )
                    self.assertEqual(run(*line)[0], 0)
                    head, _, rest = file.read_text().partition("\n\n")
                    self.assertTrue(rest)
                    names = [
                        row.partition(": ")[0] for row in head.splitlines()
                    ]
                    self.assertEqual(
                        names[:5],
                        ["model", "command", "date", "fuse", "Python"],
                    )
                    self.assertEqual(run(*line, "--format=json")[0], 0)
                    found = json.loads(file.read_text())
                    self.assertIn(key, found)
                    self.assertEqual(list(found["about"]), names)
                    if command == "explain":
                        self.assertIn("nothing was measured", found["note"])
                    if command == "verify":
                        self.assertIn(
                            "gradients and training", found["not_checked"]
                        )

    def test_errors(self):
        for arguments, message in (
            (("explain", "no_such_model"), "unknown architecture"),
            (
                ("explain", "llama", *SETTINGS, "--pattern=MLP"),
                "bad pattern 'MLP'; expected CLASS=GLOB",
            ),
            (
                ("explain", "llama", *SETTINGS, "--device=tpu"),
                "--device: expected cpu or cuda, got 'tpu'",
            ),
            (
                ("explain", "llama", *SETTINGS, "--device=xla"),
                "--device: expected cpu or cuda, got 'xla'",
            ),
            (
                ("bench", "llama", *SETTINGS, "--repeats=0"),
                "--repeats: expected 1 or more, got 0",
            ),
            (
                ("verify", "llama", *SETTINGS, "--pattern=MLP=mlp"),
                "FUSE-N201 no-module-matches",
            ),
            (("explain", tempfile.gettempdir()), "no config.json in"),
        ):
            with self.subTest(message):
                status, _, error = run(*arguments)
                self.assertEqual(status, 1)
                self.assertIn(message, error)

    def test_wrong_options_come_before_the_model(self):
        with (
            tempfile.NamedTemporaryFile() as file,
            mock.patch.object(
                blocks,
                "build_from_config",
                side_effect=AssertionError("the model is built"),
            ),
        ):
            for arguments, message in (
                (("verify", "llama", "--pattern=MLP"), "bad pattern"),
                (("bench", "llama", "--repeats=0"), "--repeats: expected"),
                (
                    ("explain", "llama", f"-o{file.name}/x/report.html"),
                    "Not a directory",
                ),
                (("fuse", "llama", f"-o{file.name}"), "File exists"),
                (
                    ("fuse", "llama", "-o.", "--hub=Not This"),
                    "'Not This' is not a kernel name",
                ),
            ):
                with self.subTest(message):
                    status, _, error = run(*arguments)
                    self.assertEqual(status, 1)
                    self.assertIn(message, error)

    def test_interrupted(self):
        with mock.patch.object(
            blocks, "build_from_config", side_effect=KeyboardInterrupt
        ):
            self.assertEqual(
                run("explain", "llama"), (130, "", "error: interrupted\n")
            )


if __name__ == "__main__":
    unittest.main()
