# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Progress of what takes longer than a second, with a clock of the tests."""

import contextlib
import io
import itertools
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from safetensors.torch import save_file

import fuse_mlir
from fuse_mlir.calibration.accuracy import measure
from fuse_mlir.calibration.scales import Tools
from fuse_mlir.checkpoint import loader
from fuse_mlir.checkpoint.check import compare_with_files
from fuse_mlir.checkpoint.models import build_model, seed_weights
from fuse_mlir.fusion import at_load
from fuse_mlir.fusion.compiled_module import export_all
from fuse_mlir.support import progress
from fuse_mlir.support.progress import Display, Paced, paced, progress_of
from tests.calibration.test_calibration import MLP
from tests.checkpoint.test_model_source import (
    HF_QUANT,
    QWEN3,
    Directories,
    modelopt_weights,
)
from tests.fusion.test_timing import Priced, TimedBlock
from tests.models import CHAIN, LLAMA, needs_library, net, transformer
from tests.support import tool


def clock(*times):
    """Sets the times of the next looks at the clock; the last one stays."""
    seconds = itertools.chain(times[:-1], itertools.repeat(times[-1]))
    return mock.patch.object(progress, "CLOCK", lambda: next(seconds))


def slow():
    """A clock on which each step takes a minute."""
    minutes = itertools.count()
    return mock.patch.object(progress, "CLOCK", lambda: 60.0 * next(minutes))


def frozen():
    """A clock on which nothing takes time."""
    return clock(0.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Lines(list):
    """Receives reports."""

    def __call__(self, *report):
        self.append(report)

    def steps(self):
        return [(done, total) for done, total, _ in self]


class Displays(unittest.TestCase):
    def test_terminals_redraw_a_line(self):
        stream = Terminal()
        show = Display(stream)
        show(1, 3, "first")
        show(3, 3, 70 * "x")
        first, last = stream.getvalue().split("\r")[1:]
        self.assertEqual(first, f"{10 * '█'}{20 * '░'} 1/3 {'first':60}")
        self.assertEqual(last, f"{30 * '█'} 3/3 {60 * 'x'}\n")

    def test_notebooks_redraw_a_line(self):
        # Their streams are no terminals.
        kind = type("OutStream", (io.StringIO,), {})
        kind.__module__ = "ipykernel.iostream"
        stream = kind()
        Display(stream)(0, 0, "line")
        self.assertTrue(stream.getvalue().startswith("\r░"))

    def test_files_get_lines(self):
        stream = io.StringIO()
        with contextlib.redirect_stderr(stream):
            Display()(1, 2, "first")
            Display()(2, 2, "second")
        self.assertEqual(stream.getvalue(), "[1/2] first\n[2/2] second\n")


class Pace(unittest.TestCase):
    def reports(self, times, steps):
        lines = Lines()
        with clock(0.0, *times):
            each = Paced(lines)
            for done, total in steps:
                each(done, total, "")
        return lines.steps()

    def test_short_waits_have_no_report(self):
        self.assertEqual(self.reports((0.5, 1.0), ((1, 2), (2, 2))), [])

    def test_one_report_each_second_and_the_end(self):
        self.assertEqual(
            self.reports(
                (0.9, 1.1, 1.5, 2.2, 2.3),
                ((1, 5), (2, 5), (3, 5), (4, 5), (5, 5)),
            ),
            [(2, 5), (4, 5), (5, 5)],
        )

    def test_arguments(self):
        self.assertIsNone(paced(None))
        self.assertIsNone(progress_of(None))
        self.assertIsNone(progress_of(False))
        self.assertIs(progress_of(print), print)
        for call in (
            fuse_mlir.fuse_modules,
            fuse_mlir.explain,
            fuse_mlir.verify,
            fuse_mlir.bench,
            lambda model, **options: fuse_mlir.calibrate(model, [1], **options),
            lambda _, **options: fuse_mlir.load_model(".", **options),
        ):
            with self.assertRaisesRegex(
                TypeError,
                "argument 'progress' is of type int; expected a function of two "
                "numbers and a line, True, False or None",
            ):
                call(net(1)[0], progress=3)


@needs_library
class Models(unittest.TestCase):
    def test_true_shows_what_takes_a_second(self):
        for time, shown in ((slow(), True), (frozen(), False)):
            model, x = net(2)
            stream = io.StringIO()
            with time, contextlib.redirect_stderr(stream):
                fuse_mlir.fuse_modules(model, CHAIN, inputs=x, progress=True)
            self.assertEqual(
                "[2/2] layers.1.norm+mlp#1: gated_mlp\n" in stream.getvalue(),
                shown,
            )

    def test_explain_measures(self):
        model, x = net(1, TimedBlock)
        lines = Lines()
        with Priced(lambda n: 1e5, lambda n: 5e4):
            fuse_mlir.explain(model, inputs=x, progress=lines)
        self.assertIn(
            (0, 1, "layers.0.norm+mlp#0: measuring calls with 33 rows"), lines
        )

    def test_bench(self):
        model, x = net(1)
        lines = Lines()
        with slow():
            fuse_mlir.bench(model, x, repeats=2, progress=lines)
        self.assertEqual(lines[0], (1, 1, "layers.0.norm+mlp#0: gated_mlp"))
        self.assertEqual(lines.steps()[1:], [(i, 4) for i in range(1, 5)])
        lines.clear()
        with frozen():
            fuse_mlir.bench(model, x, repeats=2, progress=lines)
        self.assertEqual(len(lines), 1)

    def test_calibrate(self):
        stream = io.StringIO()
        model, x = net(2)
        with slow(), contextlib.redirect_stderr(stream):
            fuse_mlir.calibrate(model, [x, x, x], progress=True)
        for line in (
            "[2/2] layers.1.norm+mlp#1: plan\n",
            "[3/3] calibration\n",
            "[2/2] layers.1.norm+mlp#1: gated_mlp\n",
        ):
            self.assertIn(line, stream.getvalue())

    def test_export(self):
        model, x = net(2)
        fuse_mlir.fuse_modules(model, CHAIN, inputs=x)
        lines = Lines()
        with slow(), tempfile.TemporaryDirectory() as folder:
            export_all(model, folder, progress=lines)
        self.assertEqual(lines, [(1, 1, "compiled kernel-0.fuse")])

    def test_fusion_at_load_follows_transformers(self):
        from transformers.utils import logging

        self.addCleanup(logging.enable_progress_bar)
        for switch, shown in (
            (logging.enable_progress_bar, True),
            (logging.disable_progress_bar, False),
        ):
            switch()
            stream = io.StringIO()
            with slow(), contextlib.redirect_stderr(stream):
                result = at_load.fuse_loaded(
                    transformer("llama", **LLAMA), None, {}
                )
            self.assertTrue(result)
            self.assertEqual("[1/" in stream.getvalue(), shown)


class Loading(Directories):
    def loaded(self, path, time):
        lines = Lines()
        with time:
            model = fuse_mlir.load_model(path, progress=lines)
        return model, lines

    def test_weights_of_transformers(self):
        from transformers.utils import logging

        before = logging._tqdm_hook
        path = self.path / "model"
        transformer("llama", **LLAMA).save_pretrained(path)
        model, lines = self.loaded(path, slow())
        count = len(list(model.state_dict()))
        self.assertEqual(lines.steps()[0], (1, count))
        self.assertEqual(lines[-1], (count, count, "loading weights"))
        self.assertIs(logging._tqdm_hook, before)
        self.assertEqual(self.loaded(path, frozen())[1], [])
        # Comparing with files takes as long.
        lines.clear()
        with slow():
            self.assertTrue(compare_with_files(model, path, lines))
        total = len(list(model.named_parameters()))
        self.assertEqual(lines.steps()[-1], (total, total))

    def test_stored_weights(self):
        path = self.write(
            "stored", QWEN3, modelopt_weights(), hf_quant_config=HF_QUANT
        )
        _, lines = self.loaded(path, slow())
        steps = lines.steps()
        total = len(list(loader.Checkpoint(path)))
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[-1], (total, total))
        self.assertEqual(self.loaded(path, frozen())[1], [])

    def test_weights_that_no_module_reads(self):
        save_file(
            {"a": torch.ones(2), "b": torch.ones(2)},
            self.path / "model.safetensors",
        )
        lines = Lines()
        with slow():
            checkpoint = loader.Checkpoint(self.path, lines)
            checkpoint.read("a")
            checkpoint.read("a")
            checkpoint.end()
        self.assertEqual(lines.steps(), [(1, 2), (2, 2)])

    def test_drawn_weights(self):
        lines = Lines()
        with slow():
            model = seed_weights(
                build_model("llama", LLAMA, torch.float32, "cpu"), 0, lines
            )
        total = len(list(model.parameters()))
        self.assertEqual(lines.steps()[0], (1, total))
        self.assertEqual(lines[-1], (total, total, "drawing weights"))


class Accuracy(unittest.TestCase):
    def test_each_file_has_a_line(self):
        tools = Tools(Path(tool("fuse-opt")).parent)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            source = folder / "mlp.mlir"
            source.write_text(MLP)
            torch.manual_seed(0)
            weights = folder / "mlp.safetensors"
            save_file(
                {
                    "up.weight": torch.randn(16, 8) / 4,
                    "down.weight": torch.randn(8, 16) / 4,
                },
                weights,
            )
            data = []
            for i in range(3):
                data.append(folder / f"{i}.npy")
                np.save(data[-1], np.random.rand(5, 8).astype(np.float32))
            for time, shown in ((slow(), True), (frozen(), False)):
                lines = []
                with time:
                    measure(tools, source, weights, data, progress=lines.append)
                self.assertEqual("ran static: 2 of 3" in lines, shown)
                self.assertEqual("ran the original: 1 of 3" in lines, shown)
                self.assertIn("ran static", lines)


if __name__ == "__main__":
    unittest.main()
