# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares stored values on a GPU with those of the CPU and the hardware.

    python3 -m fuse_bench.suites.float8 compile
    python3 -m fuse_bench.suites.float8 check

The first step runs where the compiler is: it writes PTX of fuse.quantize and
fuse.dequantize for both ways to convert, native (sm_90a) and emulated in
integer arithmetic (sm_80), and what the CPU path makes of the same values,
which unittests/Pipelines/QuantizeTest.cpp compares with APFloat. The second
runs where the GPU is: every bf16, f16 and stored code against the CPU's bytes,
and every one of the 2^32 f32 against the conversion instruction itself
(float8.ptx).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..common.environment import (
    PTX_FOLDER,
    RAW,
    ROOT,
    read_commit,
    require_gpu,
    require_tools,
    write_json,
)

if TYPE_CHECKING:
    import torch

STORED = ("f8E4M3FN", "f8E5M2", "i8")
FLOATS = ("bf16", "f16", "f32")
BITS = {"bf16": 16, "f16": 16, "f32": 32, "f8E4M3FN": 8, "f8E5M2": 8, "i8": 8}
SCALES = (1.0, 0.03)
ORDERS = ("reciprocal", "divide")
# Conversion path for 8-bit floats, and the target chip that selects it.
PATHS = {"native": "sm_90a", "emulated": "sm_80"}
#: Number of f32 values that one launch covers.
CHUNK = 1 << 26


@dataclass(frozen=True)
class Case:
    """One function: quantize or dequantize between two types."""

    source: str
    target: str
    scale: float
    order: str
    #: Number of source codes to check. f32 codes are checked in chunks.
    count: int

    @property
    def name(self) -> str:
        scale = str(self.scale).replace(".", "p")
        return f"{self.source}_{self.target}_{scale}_{self.order}".lower()

    def text(self) -> str:
        x = f"tensor<{self.count // 64}x64x{self.source}>"
        y = f"tensor<{self.count // 64}x64x{self.target}>"
        op = "dequantize" if self.source in STORED else "quantize"
        order = " order divide" if self.order == "divide" else ""
        return (
            f"func.func @{self.name}(%x: {x}) -> {y} {{\n"
            f"  %y = fuse.{op} %x scale {self.scale}{order}\n"
            f"    : ({x}) -> {y}\n  return %y : {y}\n}}\n"
        )


def cases() -> list[Case]:
    """Returns both directions for all types, with f32 for the instruction."""
    result = [
        Case(source, target, scale, order, 1 << 16)
        for source in ("bf16", "f16")
        for target in STORED
        for scale in SCALES
        for order in ORDERS
    ]
    result += [
        Case(source, target, scale, "reciprocal", 256)
        for source in STORED
        for target in FLOATS
        for scale in SCALES
    ]
    result += [
        Case("f32", target, 1.0, "reciprocal", CHUNK) for target in STORED
    ]
    return result


# Steps that need the compiler.


def codes_as_floats(element: str) -> np.ndarray:
    """Returns the f32 value of every code, as input for the CPU path."""
    import torch

    from ..common.data import TORCH_TYPES

    width = BITS[element]
    codes = np.arange(1 << width).astype(f"u{width // 8}")
    bits = torch.from_numpy(codes.view(f"i{width // 8}").copy())
    return bits.view(TORCH_TYPES[element]).float().numpy().reshape(-1, 64)


def expected_bytes(case: Case, tools: Path, folder: Path) -> bytes:
    """Returns the results of the CPU path for all source codes."""
    import torch

    from ..common.data import TORCH_TYPES

    source, x, y = (folder / n for n in ("f.mlir", "x.npy", "y.npy"))
    source.write_text(case.text())
    values = codes_as_floats(case.source)
    np.save(x, values.astype(np.int8) if case.source == "i8" else values)
    subprocess.run(
        [tools / "fuse-run", source, f"--input={x}", f"--output={y}"],
        check=True,
    )
    result = torch.from_numpy(np.load(y)).to(TORCH_TYPES[case.target])
    return result.view(torch.uint8).numpy().tobytes()


def compile_all(options: argparse.Namespace) -> int:
    require_tools(options.tools, "fuse-opt", "fuse-run")
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = cases()
    source = options.folder / "float8.mlir"
    source.write_text("\n".join(case.text() for case in chosen))
    for path, chip in PATHS.items():
        output = options.folder / f"{path}.ptx"
        plan = options.folder / f"{path}.json"
        subprocess.run(
            [
                options.tools / "fuse-opt",
                source,
                f"--fuse-gpu-pipeline=chip={chip}",
                f"--fuse-emit-ptx=output={output} plan={plan}",
                "-o",
                "/dev/null",
            ],
            check=True,
        )
    with tempfile.TemporaryDirectory() as name:
        for case in chosen:
            if case.source != "f32":
                (options.folder / f"{case.name}.bin").write_bytes(
                    expected_bytes(case, options.tools, Path(name))
                )
    (options.folder / "commit").write_text(read_commit())
    print(
        f"{options.folder}: {len(chosen)} functions for "
        + ", ".join(PATHS.values())
    )
    return 0


# Steps that need a GPU.


@dataclass
class Row:
    """Number of compared codes, and their differences."""

    source: str
    target: str
    scale: float
    order: str
    path: str
    against: str
    codes: int
    #: Results that differ, except where both are NaN.
    mismatches: int
    #: NaN results that differ in sign or payload.
    nan_payloads: int


class Checker:
    """Launches compiled functions on arrays of codes."""

    def __init__(self, folder: Path) -> None:
        import torch

        from ..common.driver import Module

        self.torch = torch
        self.folder = folder
        self.modules, self.plans = {}, {}
        for path in PATHS:
            self.modules[path] = Module(folder / f"{path}.ptx")
            plan = json.loads((folder / f"{path}.json").read_text())
            self.plans[path] = {f["name"]: f for f in plan["functions"]}
        self.hardware = Module(PTX_FOLDER / "float8.ptx")

    def run(self, path: str, case: Case, x: torch.Tensor) -> torch.Tensor:
        """Returns the result bytes of the code compiled for `path`."""
        import ctypes

        from ..common.driver import launch

        function = self.plans[path][case.name]
        (item,) = function["launches"]
        y = self.empty(case)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, y)]
        arguments = [pointers[a["arg"]] for a in item["args"]]
        launch(
            self.modules[path].function(item["kernel"], 0),
            item["grid"][0],
            item["block"][0],
            0,
            arguments,
        )
        return y

    def convert(self, kernel: str, case: Case, x: torch.Tensor) -> torch.Tensor:
        """Returns the bytes that the conversion instruction produces."""
        import ctypes

        from ..common.driver import launch

        y = self.empty(case)
        threads = min(256, case.count)
        launch(
            self.hardware.function(kernel, 0),
            case.count // threads,
            threads,
            0,
            [ctypes.c_void_p(t.data_ptr()) for t in (x, y)],
        )
        return y

    def empty(self, case: Case) -> torch.Tensor:
        """Allocates a result, filled with a pattern that no result has."""
        return self.torch.full(
            (case.count * BITS[case.target] // 8,),
            0xA5,
            dtype=self.torch.uint8,
            device="cuda",
        )

    def is_nan(self, element: str, data: torch.Tensor) -> torch.Tensor:
        from ..common.data import TORCH_TYPES

        torch = self.torch
        if element == "i8":
            return torch.zeros(data.shape, dtype=torch.bool, device="cuda")
        masks = {"f8E4M3FN": (0x7F, 0x7E), "f8E5M2": (0x7F, 0x7C)}
        if element in masks:
            mask, largest = masks[element]
            return (data & mask) > largest
        return data.view(TORCH_TYPES[element]).isnan()

    def compare(
        self, case: Case, result: torch.Tensor, expected: torch.Tensor
    ) -> list[int]:
        """Counts mismatches, and NaN results that differ."""
        size = BITS[case.target] // 8
        differs = (result != expected).view(-1, size).any(dim=1)
        both = self.is_nan(case.target, result) & self.is_nan(
            case.target, expected
        )
        return [int((differs & ~both).sum()), int((differs & both).sum())]

    def row(
        self,
        case: Case,
        path: str,
        against: str,
        codes: int,
        counts: Sequence[int],
    ) -> Row:
        return Row(
            case.source,
            case.target,
            case.scale,
            case.order,
            path,
            against,
            codes,
            *counts,
        )

    def small(self, case: Case) -> list[Row]:
        """Checks all codes of an 8-bit or 16-bit type."""
        torch = self.torch
        width = BITS[case.source] // 8
        codes = np.arange(case.count).astype(f"u{width}")
        x = torch.from_numpy(codes.view(np.uint8).copy()).cuda()
        data = (self.folder / f"{case.name}.bin").read_bytes()
        expected = torch.frombuffer(bytearray(data), dtype=torch.uint8).cuda()
        rows = [
            self.row(
                case,
                path,
                "cpu",
                case.count,
                self.compare(case, self.run(path, case, x), expected),
            )
            for path in PATHS
        ]
        if (
            case.source in ("f8E4M3FN", "f8E5M2")
            and case.target == "f32"
            and case.scale == 1.0
        ):
            exact = self.convert(f"decode_{case.source}", case, x)
            rows.append(
                self.row(
                    case,
                    "cpu",
                    "hardware",
                    case.count,
                    self.compare(case, expected, exact),
                )
            )
        return rows

    def large(self, case: Case) -> list[Row]:
        """Checks every f32 code."""
        torch = self.torch
        totals = {path: np.zeros(2, dtype=np.int64) for path in PATHS}
        chunks = (1 << 32) // case.count
        for index in range(chunks):
            first = index * case.count - (1 << 31)
            x = torch.arange(
                first, first + case.count, dtype=torch.int64, device="cuda"
            ).to(torch.int32)
            expected = self.convert(f"encode_{case.target}", case, x)
            for path, total in totals.items():
                total += self.compare(case, self.run(path, case, x), expected)
        return [
            self.row(case, path, "hardware", 1 << 32, total.tolist())
            for path, total in totals.items()
        ]


def check_all(options: argparse.Namespace) -> int:
    require_gpu()
    import torch

    begin = time.time()
    checker = Checker(options.folder)
    rows: list[Row] = []
    for case in cases():
        rows += (
            checker.large(case) if case.source == "f32" else checker.small(case)
        )
    torch.cuda.synchronize()
    wrong = [row for row in rows if row.mismatches]
    for row in rows:
        print(
            f"{row.source:9} {row.target:9} {row.scale:5} {row.order:10} "
            f"{row.path:9} {row.against:9} {row.codes:11} "
            f"{row.mismatches} {row.nan_payloads}"
        )
    codes = sum(row.codes for row in rows)
    print(
        f"{len(rows)} comparisons of {codes:,} codes, {len(wrong)} differ, "
        f"{time.time() - begin:.1f} s"
    )
    head = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "commit": (options.folder / "commit").read_text(),
    }
    write_json(
        options.output,
        {"environment": head, "rows": [asdict(row) for row in rows]},
    )
    return 1 if wrong else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m fuse_bench.suites.float8",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    for name, run in (("compile", compile_all), ("check", check_all)):
        command = commands.add_parser(name)
        command.add_argument(
            "--folder",
            type=Path,
            default=ROOT / "out/float8",
            help="compiled code and expected bytes",
        )
        command.set_defaults(run=run)
        if name == "compile":
            command.add_argument(
                "--tools",
                type=Path,
                default=ROOT / "build/dev/bin",
                help="directory of fuse-opt and fuse-run",
            )
        else:
            command.add_argument(
                "--output", type=Path, default=RAW / "float8-h200.json"
            )
    options = parser.parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
