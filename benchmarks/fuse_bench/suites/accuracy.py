# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The accuracy cost of static FP8 and INT8 on MLP blocks of real sizes.

    python3 -m fuse_bench.suites.accuracy --output out/results/accuracy.json

The blocks are norm and gated MLP in the sizes of Gemma and Qwen. Weights and
inputs are drawn so that quantization is hard: rows of different spread, heavy
tails, a few input channels and rows that are far larger than the rest, and a
residual stream with massive channels and one massive token. Scales are
calibrated on one set of tokens and compared on another. The residual add after
the block is omitted, because the stream would hide the differences. Each
configuration runs for minutes on the CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..common.environment import RAW, ROOT, read_commit, require_tools


@dataclass(frozen=True)
class Shape:
    """A block: its sizes and its ops."""

    name: str
    width: int
    hidden: int
    act: str
    norm: str

    def text(self) -> str:
        w, h = self.width, self.hidden
        x, v = f"tensor<?x{w}xbf16>", f"tensor<{w}xbf16>"
        inner = f"tensor<?x{h}xbf16>"
        wide, tall = f"tensor<{h}x{w}xbf16>", f"tensor<{w}x{h}xbf16>"

        def parameter(name: str) -> str:
            return f'{{fuse.parameter = "{name}.weight"}}'

        return f"""func.func @block(
    %x: {x}, %w: {v} {parameter("norm")},
    %wg: {wide} {parameter("mlp.gate_proj")},
    %wu: {wide} {parameter("mlp.up_proj")},
    %wd: {tall} {parameter("mlp.down_proj")}) -> {x} {{
  %n = fuse.rms_norm %x weight(%w) eps 1.0e-6 {self.norm}
    : ({x}, {v}) -> {x}
  %g = fuse.linear %n, %wg : ({x}, {wide}) -> {inner}
  %a = fuse.activation {self.act} %g : {inner} -> {inner}
  %u = fuse.linear %n, %wu : ({x}, {wide}) -> {inner}
  %p = fuse.gated_mul %a, %u : ({inner}, {inner}) -> {inner}
  %d = fuse.linear %p, %wd : ({inner}, {tall}) -> {x}
  return %d : {x}
}}
"""


SHAPES = (
    Shape(
        "geglu-2048-16384",
        2048,
        16384,
        "gelu_tanh",
        "offset 1 cast after_weight",
    ),
    Shape("swiglu-4096-12288", 4096, 12288, "silu", ""),
)
# Storage type, method, one weight scale per channel.
CONFIGURATIONS = (
    ("f8E4M3FN", "amax", False),
    ("f8E4M3FN", "percentile", False),
    ("f8E4M3FN", "mse", False),
    ("f8E4M3FN", "amax", True),
    ("i8", "amax", True),
)


def draw_weight(
    random: np.random.Generator, out: int, features: int
) -> np.ndarray:
    """A weight with rows of different spread, tails, and outlier channels."""
    weight = random.standard_t(6, size=(out, features)).astype(np.float32)
    weight *= np.float32((4 / 6) ** 0.5 * features**-0.5)
    weight *= np.exp(random.normal(0, 0.3, size=(out, 1))).astype(np.float32)
    columns = random.choice(features, max(1, features // 500), replace=False)
    weight[:, columns] *= np.float32(6.0)
    rows = random.choice(out, max(1, out // 1000), replace=False)
    weight[rows] *= np.float32(5.0)
    return weight


def draw_inputs(
    random: np.random.Generator,
    spread: np.ndarray,
    massive: np.ndarray,
    tokens: int,
) -> np.ndarray:
    """A residual stream whose channels differ in spread.

    Some channels are massive, ten times more so on the first token.
    """
    x = random.normal(size=(tokens, spread.size)) * spread
    x *= np.exp(random.normal(0, 0.3, size=(tokens, 1)))
    x[:, massive] += 30.0 * np.sign(random.normal(size=massive.size))
    x[0, massive] *= 10.0
    return x.astype(np.float32)


def write_block(shape: Shape, folder: Path, tokens: int, seed: int) -> None:
    """The function, its weights, and calibration and evaluation inputs."""
    import torch
    from safetensors.torch import save_file

    random = np.random.default_rng(seed)
    width, hidden = shape.width, shape.hidden
    (folder / f"{shape.name}.mlir").write_text(shape.text())
    massive = random.choice(width, 4, replace=False)
    norm = np.exp(random.normal(0, 0.25, size=width))
    norm[massive] = 0.05
    if "offset 1" in shape.norm:
        norm -= 1.0
    arrays = {"norm": norm.astype(np.float32)}
    for name, size in (
        ("mlp.gate_proj", (hidden, width)),
        ("mlp.up_proj", (hidden, width)),
        ("mlp.down_proj", (width, hidden)),
    ):
        arrays[name] = draw_weight(random, *size)
    save_file(
        {
            f"{name}.weight": torch.from_numpy(array).bfloat16()
            for name, array in arrays.items()
        },
        folder / f"{shape.name}.safetensors",
    )
    spread = np.exp(random.normal(0, 0.6, size=width))
    for name in ("calibration", "evaluation"):
        x = torch.from_numpy(draw_inputs(random, spread, massive, tokens))
        np.save(folder / f"{name}.npy", x.bfloat16().float().numpy())


def write_results(
    path: Path, blocks: Sequence[dict[str, Any]], environment: dict[str, Any]
) -> None:
    """JSON with one line per row, which keeps diffs readable."""
    parts = []
    for block in blocks:
        fields = {
            k: v for k, v in block.items() if k not in ("rows", "saturation")
        }
        tables = [
            "".join(
                [
                    f' "{name}": [\n  ',
                    ",\n  ".join(json.dumps(row) for row in block[name]),
                    "]",
                ]
            )
            for name in ("rows", "saturation")
        ]
        parts.append(json.dumps(fields)[:-1] + ",\n" + ",\n".join(tables) + "}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'{{"environment": {json.dumps(environment)},\n"blocks": '
        "[\n" + ",\n".join(parts) + "\n]}\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m fuse_bench.suites.accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--tools",
        type=Path,
        default=ROOT / "build/dev/bin",
        help="directory of fuse-opt and fuse-run",
    )
    parser.add_argument("--output", type=Path, default=RAW / "accuracy.json")
    parser.add_argument("--only", default="", help="part of a shape's name")
    parser.add_argument(
        "--tokens", type=int, default=32, help="tokens of each of the two sets"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--limit",
        type=int,
        default=len(CONFIGURATIONS),
        help="number of configurations of each shape",
    )
    options = parser.parse_args(arguments)
    require_tools(options.tools, "fuse-opt", "fuse-run")
    from fuse_mlir.calibration import accuracy
    from fuse_mlir.calibration.scales import Tools

    tools = Tools(options.tools)
    blocks = []
    for shape in SHAPES:
        if options.only not in shape.name:
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_block(shape, folder, options.tokens, options.seed)
            for storage, method, per_channel in CONFIGURATIONS[: options.limit]:
                begin = time.time()
                report = accuracy.measure(
                    tools,
                    folder / f"{shape.name}.mlir",
                    folder / f"{shape.name}.safetensors",
                    [folder / "evaluation.npy"],
                    [folder / "calibration.npy"],
                    storage,
                    method,
                    per_channel=per_channel,
                    cache=folder / "ranges",
                )
                print(accuracy.accuracy_text(report))
                print(f"{time.time() - begin:.0f} s\n", flush=True)
                blocks.append(
                    {
                        "shape": shape.name,
                        "storage": storage,
                        "method": method,
                        "per_channel": per_channel,
                        "kernels": report.kernels,
                        "rows": [asdict(row) for row in report.rows],
                        "saturation": [asdict(s) for s in report.saturation],
                        "scales": report.calibration.scales,
                    }
                )
                write_results(
                    options.output,
                    blocks,
                    {
                        "commit": read_commit(),
                        "tokens": options.tokens,
                        "seed": options.seed,
                    },
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
