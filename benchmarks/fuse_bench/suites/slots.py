# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the registered kernels of slots with their eager bodies.

    python3 -m fuse_bench.suites.slots compile     # where the compiler is
    python3 -m fuse_bench.suites.slots run         # where the GPU is

The first step binds each slot of `slot_cases.py` to its kernel and writes PTX
and a launch plan; bound to the eager body, it runs the same slot on the CPU
and keeps inputs and results. The second step launches the kernels and writes
how far they are from the eager body, from PyTorch, and from the nearest wrong
variant, which has to be outside of the tolerance.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..common.device import read_device
from ..common.environment import (
    RAW,
    ROOT,
    read_commit,
    require_gpu,
    require_tools,
    write_json,
)
from ..common.plan import evaluate
from .slot_cases import Case, Error, all_cases, error

TOKENS = (0, 1, 7, 67, 300)
CHIP = "sm_90"


def _fuse(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def bind(case: Case, kernel: str, directory: Path, bin_dir: Path) -> Path:
    """The program of a case with its slot bound."""
    source, bound = directory / "slot.mlir", directory / f"{kernel}.mlir"
    source.write_text(case.text())
    _fuse(
        [
            str(bin_dir / "fuse-opt"),
            str(source),
            f"--fuse-bind-slots=bind={case.op}={kernel}",
            "-o",
            str(bound),
        ]
    )
    return bound


def run_on_cpu(
    program: Path, case: Case, inputs: list[Tensor], bin_dir: Path
) -> list[Tensor]:
    """Results of a bound program; 16-bit types travel as f32."""
    with tempfile.TemporaryDirectory() as name:
        command = [str(bin_dir / "fuse-run"), str(program), "--entry=main"]
        for i, tensor in enumerate(inputs):
            wide = tensor.float() if tensor.is_floating_point() else tensor
            np.save(f"{name}/x{i}.npy", wide.numpy())
            command.append(f"--input={name}/x{i}.npy")
        command += [
            f"--output={name}/y{i}.npy" for i in range(len(case.results))
        ]
        _fuse(command)
        return [
            torch.from_numpy(np.load(f"{name}/y{i}.npy")).to(dtype)
            for i, (_, dtype) in enumerate(case.results)
        ]


def emit_ptx(program: Path, bin_dir: Path, chip: str = CHIP) -> None:
    """Writes PTX and launch plan next to a bound program."""
    ptx, plan = program.with_suffix(".ptx"), program.with_suffix(".json")
    _fuse(
        [
            str(bin_dir / "fuse-opt"),
            str(program),
            f"--fuse-gpu-pipeline=chip={chip}",
            f"--fuse-emit-ptx=output={ptx} plan={plan}",
            "-o",
            "/dev/null",
        ]
    )


def compile_case(case: Case, directory: Path, bin_dir: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    emit_ptx(bind(case, "fuse", directory, bin_dir), bin_dir)
    eager = bind(case, "eager", directory, bin_dir)
    data = {}
    for tokens in TOKENS:
        inputs = case.inputs(tokens)
        data[tokens] = (inputs, run_on_cpu(eager, case, inputs, bin_dir))
    torch.save(data, directory / "data.pt")


# Launches.


class Kernel:
    """A function of a launch plan on the GPU."""

    def __init__(self, ptx: Path, plan: Path) -> None:
        # The driver exists only on machines with a GPU.
        from ..common.driver import Module

        self.plan = json.loads(plan.read_text())["functions"][0]
        self.module = Module(ptx)

    def __call__(self, inputs: list[Tensor], results: list[Tensor]) -> None:
        from ..common.driver import call

        tensors = [*inputs, *results]
        symbols = [tensors[arg].shape[dim] for arg, dim in self.plan["symbols"]]
        workspace = [
            torch.full(
                (max(1, evaluate(size, symbols)),),
                0xAA,
                dtype=torch.uint8,
                device="cuda",
            )
            for size in self.plan["workspace"]
        ]
        for launch in self.plan["launches"]:
            grid = [evaluate(size, symbols) for size in launch["grid"]]
            if 0 in grid:
                continue
            values = []
            for arg in launch["args"]:
                if "arg" in arg:
                    value = tensors[arg["arg"]].data_ptr()
                elif "workspace" in arg:
                    value = workspace[arg["workspace"]].data_ptr()
                else:
                    value = evaluate(arg["size"], symbols)
                values.append(ctypes.c_uint64(value))
            pointers = (ctypes.c_void_p * len(values))(
                *[ctypes.addressof(value) for value in values]
            )
            function = self.module.function(launch["kernel"], 0)
            sizes = [ctypes.c_uint(size) for size in (*grid, *launch["block"])]
            stream = torch.cuda.current_stream().cuda_stream
            call(
                "cuLaunchKernel",
                function,
                *sizes,
                ctypes.c_uint(0),
                ctypes.c_void_p(stream),
                pointers,
                None,
                note=launch["kernel"],
            )
        torch.cuda.synchronize()


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def run_on_gpu(
    kernel: Kernel, case: Case, inputs: list[Tensor], repeats: int = 5
) -> tuple[list[Tensor], int]:
    """Results, and the number of repeated launches whose bits differ."""
    on_gpu = [tensor.cuda().contiguous() for tensor in inputs]
    tokens = next(
        (
            tensor.shape[shape.index("?")]
            for tensor, (shape, _) in zip(inputs, case.args)
            if "?" in shape
        ),
        0,
    )
    first: list[Tensor] = []
    differing = 0
    for _ in range(repeats):
        results = [
            torch.full(
                [tokens if size == "?" else int(size) for size in shape],
                float("nan"),
                dtype=dtype,
                device="cuda",
            )
            for shape, dtype in case.results
        ]
        kernel(on_gpu, results)
        first = first or results
        differing += any(
            not torch.equal(_bytes(a), _bytes(b))
            for a, b in zip(results, first)
        )
    return [result.cpu() for result in first], differing


def _row(value: Error) -> dict[str, float]:
    return {"largest": value.largest, "differing": value.differing}


def check(case: Case, directory: Path) -> list[dict[str, Any]]:
    kernel = Kernel(directory / "fuse.ptx", directory / "fuse.json")
    rows = []
    for tokens, (inputs, eager) in torch.load(directory / "data.pt").items():
        results, differing = run_on_gpu(kernel, case, inputs)
        off = error(results, eager)
        # The repeated kernels of PyTorch are those of the CPU.
        expected = case.expected(inputs)
        mistake = error(case.mistaken(inputs), expected)
        separates = not mistake.within(case.tolerance)
        is_right = (
            off.within(case.tolerance)
            and not differing
            and error(results, expected).within(case.tolerance)
        )
        rows.append(
            {
                "op": case.op,
                "variant": case.variant,
                "case": case.name(),
                "tokens": tokens,
                "launches": len(kernel.plan["launches"]),
                "right": is_right,
                "tolerance": _row(case.tolerance),
                "to_eager_body": _row(off),
                "to_pytorch": _row(error(results, expected)),
                "wrong_variant": _row(mistake),
                "separates": separates,
                "differing_repeats": differing,
            }
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=("compile", "run"))
    parser.add_argument("--bin", type=Path, default=ROOT / "build/dev/bin")
    parser.add_argument("--directory", type=Path, default=ROOT / "out/slots")
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument(
        "--output", type=Path, default=RAW / "slot-kernels-h200.json"
    )
    options = parser.parse_args()
    cases = [
        case
        for case in all_cases()
        if case.has_kernel and options.only in case.name()
    ]
    if not cases:
        parser.error(f"no case is called '{options.only}'")
    if options.step == "compile":
        require_tools(options.bin, "fuse-opt", "fuse-run")
        options.directory.mkdir(parents=True, exist_ok=True)
        (options.directory / "commit").write_text(read_commit())
        for case in cases:
            compile_case(case, options.directory / case.name(), options.bin)
            print(f"{case.name()}: compiled", flush=True)
        return 0
    require_gpu()
    rows = []
    for case in cases:
        rows += check(case, options.directory / case.name())
        verdict = (
            "right"
            if all(row["right"] for row in rows if row["case"] == case.name())
            else "WRONG"
        )
        print(f"{case.name()}: {verdict}", flush=True)
    write_json(
        options.output,
        {
            "gpu": torch.cuda.get_device_name(),
            "driver": read_device().get("driver_version", ""),
            "versions": {
                "torch": torch.__version__,
                "cuda": torch.version.cuda,
            },
            "commit": (options.directory / "commit").read_text(),
            "chip": CHIP,
            "rows": rows,
        },
    )
    # Without tokens, or with one, some wrong variants compute the same.
    wrong = [
        row
        for row in rows
        if not row["right"] or (row["tokens"] > 1 and not row["separates"])
    ]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
