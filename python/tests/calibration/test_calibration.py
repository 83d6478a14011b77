# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scales of a whole function, from running it on data."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from fuse_mlir.calibration.scales import (
    Tools,
    calibrate,
    observe,
    observed_names,
    report_html,
    report_json,
    report_text,
    scales_json,
    stored_weights,
    weight_error,
)
from fuse_mlir.errors import CalibrationError
from fuse_mlir.quantized.value_range import Range
from tests.support import tool

MLP = """
func.func @mlp(%x: tensor<?x8xf32>,
               %w1: tensor<16x8xf32> {fuse.parameter = "up.weight"},
               %w2: tensor<8x16xf32> {fuse.parameter = "down.weight"})
    -> tensor<?x8xf32> {
  %0 = fuse.linear %x, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %1 = fuse.activation relu %0 : tensor<?x16xf32> -> tensor<?x16xf32>
  %2 = fuse.linear %1, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}
"""


def seen(values: np.ndarray) -> Range:
    result = Range(sample_size=1024)
    result.add(values)
    return result


class ObservedNamesTest(unittest.TestCase):
    def test_observers_come_last(self) -> None:
        text = (
            "func.func @f(%a: f32) -> (f32, f32 {fuse.observed = "
            '["up", "gate"]}, f32 {fuse.observed = ["down"]}) {\n'
            "  return %0, %a, %1 : f32, f32, f32\n}"
        )
        self.assertEqual(observed_names(text), (1, [["up", "gate"], ["down"]]))

    def test_names_of_parts_of_a_weight(self) -> None:
        text = (
            "func.func @f(%a: f32) -> (f32, f32 {fuse.observed = "
            '["up.weight[0:4]", "up.weight[4:8]"]}) {\n'
            "  return %0, %1 : f32, f32\n}"
        )
        self.assertEqual(
            observed_names(text), (1, [["up.weight[0:4]", "up.weight[4:8]"]])
        )


class CalibrateTest(unittest.TestCase):
    def setUp(self) -> None:
        random = np.random.default_rng(0)
        self.inputs = {"up": seen(random.normal(size=(32, 8)))}
        self.weight = torch.from_numpy(
            random.normal(size=(4, 8)).astype(np.float32)
        )
        self.weight[1] *= 100.0

    def test_parts_of_a_weight(self) -> None:
        part = "up.weight[0:4]"
        done = calibrate(
            {part: self.inputs["up"]},
            {part: self.weight},
            "f8E4M3FN",
            per_channel=True,
        )
        self.assertEqual(list(done.scales), [part])
        self.assertEqual(list(done.channel_scales), [f"{part}.weight_scale"])
        stored = stored_weights(done, {part: self.weight})
        self.assertIs(stored[part].dtype, torch.float8_e4m3fn)

    def test_weights_that_are_computed(self) -> None:
        with self.assertRaisesRegex(
            CalibrationError,
            "the weight of 'linear#0' is not a "
            "parameter but computed from parameters",
        ):
            calibrate({"linear#0": self.inputs["up"]}, {}, "i8")

    def test_per_channel_is_closer_than_one_scale(self) -> None:
        parameters = {"up.weight": self.weight}
        one = calibrate(self.inputs, parameters, "i8")
        many = calibrate(self.inputs, parameters, "i8", per_channel=True)
        self.assertEqual(many.scales["up"]["weight_scale"], "per_channel")
        channels = many.channel_scales["up.weight_scale"]
        self.assertEqual(channels.shape, (4,))
        rows = self.weight[[0, 2, 3]]
        scale = one.scales["up"]["weight_scale"]
        assert isinstance(scale, float)
        self.assertLess(
            weight_error(rows, channels[[0, 2, 3], None], "i8"),
            0.1 * weight_error(rows, scale, "i8"),
        )

    def test_a_channel_of_zeros_has_a_scale(self) -> None:
        self.weight[2] = 0.0
        self.weight[3] = 1e-42
        many = calibrate(
            self.inputs,
            {"up.weight": self.weight},
            "f8E4M3FN",
            per_channel=True,
        )
        scales = many.channel_scales["up.weight_scale"]
        self.assertTrue((scales > 2.0**-126).all())

    def test_linears_that_read_one_value_share_its_scale(self) -> None:
        self.inputs["gate"] = self.inputs["up"]
        result = calibrate(
            self.inputs,
            {"up.weight": self.weight, "gate.weight": self.weight},
            "f8E4M3FN",
            "mse",
        )
        self.assertEqual(
            result.scales["up"]["input_scale"],
            result.scales["gate"]["input_scale"],
        )

    def test_a_missing_weight_is_named(self) -> None:
        with self.assertRaisesRegex(
            CalibrationError, "no parameter 'up.weight'; there are down.weight"
        ):
            calibrate(self.inputs, {"down.weight": self.weight}, "i8")

    def test_reports_have_every_tensor(self) -> None:
        result = calibrate(self.inputs, {"up.weight": self.weight}, "i8")
        for text in (report_text(result), report_html(result)):
            self.assertIn("up.input", text)
            self.assertIn("up.weight", text)
            self.assertIn("used  saturated", text)
        self.assertNotIn("http", report_html(result))
        self.assertEqual(json.loads(report_json(result))["storage"], "i8")


class ObserveTest(unittest.TestCase):
    """Runs the tools."""

    def test_scales_of_a_function(self) -> None:
        tools = Tools(Path(tool("fuse-run")).parent)
        random = np.random.default_rng(1)
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            (root / "mlp.mlir").write_text(MLP)
            weights = {
                "up.weight": torch.randn(16, 8, generator=torch.manual_seed(0)),
                "down.weight": torch.randn(8, 16),
            }
            save_file(weights, root / "w.safetensors")
            batches = []
            for index, rows in enumerate((3, 5)):
                batch = random.normal(size=(rows, 8)).astype(np.float32)
                np.save(root / f"{index}.npy", batch)
                batches.append(batch)
            ranges = observe(
                tools,
                root / "mlp.mlir",
                root / "w.safetensors",
                [root / "0.npy", root / "1.npy"],
            )
            x = np.concatenate(batches)
            hidden = np.maximum(x @ weights["up.weight"].numpy().T, 0.0)
            self.assertEqual(ranges["up"].largest, float(np.abs(x).max()))
            self.assertAlmostEqual(
                ranges["down"].largest, float(hidden.max()), places=4
            )
            self.assertEqual(ranges["down"].count, 8 * 16)

            scales = root / "scales.json"
            scales.write_text(
                scales_json(calibrate(ranges, weights, "f8E4M3FN"))
            )
            formed = tools.run(
                "fuse-opt",
                root / "mlp.mlir",
                f"--fuse-quantize-linears=scales={scales}",
                "--fuse-form-kernels",
            )
            self.assertIn("scales(f8E4M3FN, input = ", formed)

    def test_what_is_missing_is_named(self) -> None:
        with self.assertRaisesRegex(CalibrationError, "no fuse-opt in "):
            Tools(Path("/nonexistent"))
        tools = Tools(Path(tool("fuse-run")).parent)
        with self.assertRaisesRegex(CalibrationError, "at least one input"):
            observe(tools, Path("f.mlir"), None, [])
        with self.assertRaisesRegex(CalibrationError, "fuse-opt failed: "):
            observe(tools, Path("missing.mlir"), None, [Path("x.npy")])


if __name__ == "__main__":
    unittest.main()
