# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the hand-written CUDA kernel of the documentation on a GPU.

    python3 -m fuse_bench.suites.external_kernel compile
    python3 -m fuse_bench.suites.external_kernel run

The first step needs the compiler, the second a GPU. The first step reads the
files of the page that adds a kernel, compiles the kernel by clang,
binds it, and writes the launch plan in which it stands beside the kernels that
fuse generates; bound to the eager body, it runs the same functions on the CPU.
The second step launches both plans and compares with that.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..common.environment import (
    RAW,
    ROOT,
    require_gpu,
    require_tools,
    write_json,
)
from ..common.plan import evaluate

#: Text that only the page about adding a kernel contains.
MARK = "<!-- file: rms_norm.cu -->"
WIDTH = 64
TOKENS = (0, 1, 7, 300, 4096)
#: Relative difference that sums of f32 in another order may have.
TOLERANCE = 2e-6
#: The slot alone, in addition to the block of the page.
NORM = f"""
func.func @norm_only(%x: tensor<?x{WIDTH}xf32>, %weight: tensor<{WIDTH}xf32>)
    -> tensor<?x{WIDTH}xf32> {{
  %n = nn.call_slot @norm(%x, %weight)
    : (tensor<?x{WIDTH}xf32>, tensor<{WIDTH}xf32>) -> tensor<?x{WIDTH}xf32>
  return %n : tensor<?x{WIDTH}xf32>
}}
"""


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def find_page() -> Path:
    """The page of the documentation that adds a kernel.

    Raises:
        FileNotFoundError: no page has the kernel.
    """
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if MARK in path.read_text():
            return path
    raise FileNotFoundError(f"no page of {ROOT / 'docs'} has {MARK}")


def page_files() -> dict[str, str]:
    """The files that the page shows, by name."""
    return dict(
        re.findall(
            r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n",
            find_page().read_text(),
            re.S,
        )
    )


def page_command(word: str) -> list[str]:
    """The command of the page that starts with a word."""
    page = find_page()
    text = page.read_text().replace("\\\n", " ")
    found = re.search(rf"^{re.escape(word)} .*$", text, re.M)
    if not found:
        raise RuntimeError(f"{page} has no command {word}")
    return found.group(0).split()


def make_inputs(tokens: int) -> list[np.ndarray]:
    """x, weight, proj; weights are about one, where (1 + w) is not w."""
    random = np.random.default_rng(tokens)
    return [
        random.standard_normal((tokens, WIDTH)).astype(np.float32),
        random.uniform(0.5, 1.5, WIDTH).astype(np.float32),
        (random.standard_normal((WIDTH, WIDTH)) / 8).astype(np.float32),
    ]


FUNCTIONS = {"norm_only": 2, "block": 3}


def compile_all(directory: Path, bin_dir: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name, text in page_files().items():
        (directory / name).write_text(text)
    (directory / "both.mlir").write_text(page_files()["block.mlir"] + NORM)
    clang = page_command("clang++")
    _run([shutil.which("clang++-22") or clang[0], *clang[1:]], directory)
    opt = str(bin_dir / "fuse-opt")
    for kernel in ("mine", "eager"):
        _run(
            [
                opt,
                "both.mlir",
                f"--fuse-bind-slots=kernels=kernels.mlir "
                f"bind=rms_norm={kernel} target=sm_90",
                "--fuse-gpu-pipeline=chip=sm_90",
                f"--fuse-emit-ptx=output={kernel}.ptx plan={kernel}.json",
                "-o",
                "/dev/null",
            ],
            directory,
        )
    _run(
        [
            opt,
            "both.mlir",
            "--fuse-bind-slots=bind=rms_norm=eager",
            "-o",
            "eager.mlir",
        ],
        directory,
    )
    for tokens in TOKENS:
        inputs = make_inputs(tokens)
        for i, array in enumerate(inputs):
            np.save(directory / f"x{i}.npy", array)
        for function, count in FUNCTIONS.items():
            _run(
                [
                    str(bin_dir / "fuse-run"),
                    "eager.mlir",
                    f"--entry={function}",
                    *[f"--input=x{i}.npy" for i in range(count)],
                    f"--output={function}-{tokens}.npy",
                ],
                directory,
            )


class Plan:
    """The functions of a launch plan, and the modules that they launch."""

    def __init__(self, directory: Path, name: str) -> None:
        # The driver exists only on machines with a GPU.
        from ..common.driver import Module

        plan = json.loads((directory / f"{name}.json").read_text())
        self.functions = {entry["name"]: entry for entry in plan["functions"]}
        self.external = plan.get("modules", {})
        self.modules = {"": Module(directory / f"{name}.ptx")}
        for key, code in self.external.items():
            path = directory / f"{name}.{key}.external.ptx"
            path.write_text(code["ptx"])
            self.modules[key] = Module(path)

    def run(self, name: str, tensors: list[Tensor]) -> None:
        from ..common.driver import call

        plan = self.functions[name]
        symbols = [tensors[arg].shape[dim] for arg, dim in plan["symbols"]]
        workspace = [
            torch.full(
                (max(1, evaluate(size, symbols)),),
                0xAA,
                dtype=torch.uint8,
                device="cuda",
            )
            for size in plan["workspace"]
        ]
        for launch in plan["launches"]:
            grid = [evaluate(size, symbols) for size in launch["grid"]]
            if 0 in grid:
                continue
            values: list[Any] = []
            for arg in launch["args"]:
                if "arg" in arg:
                    values.append(
                        ctypes.c_uint64(tensors[arg["arg"]].data_ptr())
                    )
                elif "workspace" in arg:
                    values.append(
                        ctypes.c_uint64(workspace[arg["workspace"]].data_ptr())
                    )
                elif "size" in arg:
                    values.append(
                        ctypes.c_uint64(evaluate(arg["size"], symbols))
                    )
                else:
                    kinds = {
                        "f32": ctypes.c_float,
                        "f64": ctypes.c_double,
                        "i32": ctypes.c_int32,
                        "i64": ctypes.c_int64,
                        "index": ctypes.c_int64,
                    }
                    values.append(kinds[arg["type"]](arg["value"]))
            pointers = (ctypes.c_void_p * len(values))(
                *[ctypes.addressof(value) for value in values]
            )
            shared = launch.get("shared_bytes", 0)
            function = self.modules[launch.get("module", "")].function(
                launch["kernel"], shared
            )
            stream = torch.cuda.current_stream().cuda_stream
            call(
                "cuLaunchKernel",
                function,
                *[ctypes.c_uint(n) for n in (*grid, *launch["block"])],
                ctypes.c_uint(shared),
                ctypes.c_void_p(stream),
                pointers,
                None,
                note=launch["kernel"],
            )
        torch.cuda.synchronize()


def difference(actual: Tensor, expected: Tensor) -> float:
    """Largest difference relative to the largest magnitude."""
    if not expected.numel():
        return 0.0
    off = (actual.double() - expected.double()).abs().max()
    return float(off / expected.double().abs().max())


def check(directory: Path) -> list[dict[str, Any]]:
    plans = {name: Plan(directory, name) for name in ("mine", "eager")}
    if not plans["mine"].external or plans["eager"].external:
        raise RuntimeError("the kernel is not in the plan that it is bound in")
    rows = []
    for function, count in FUNCTIONS.items():
        for tokens in TOKENS:
            inputs = [
                torch.from_numpy(array) for array in make_inputs(tokens)[:count]
            ]
            on_gpu = [tensor.cuda() for tensor in inputs]
            expected = torch.from_numpy(
                np.load(directory / f"{function}-{tokens}.npy")
            )
            results = {}
            for name, plan in plans.items():
                result = torch.full_like(on_gpu[0], float("nan"))
                plan.run(function, [*on_gpu, result])
                results[name] = result.cpu()
            # The nearest other function: (1 + w) in place of w.
            scale = (
                inputs[0].double().pow(2).mean(-1, keepdim=True) + 9.765625e-4
            ).rsqrt()
            mistaken = inputs[0] * scale * (1 + inputs[1].double())
            if count == 3:
                mistaken = mistaken @ inputs[2].double().T + inputs[0]
            launches = plans["mine"].functions[function]["launches"]
            row: dict[str, Any] = {
                "function": function,
                "tokens": tokens,
                "external_launches": sum(
                    "module" in launch for launch in launches
                ),
                "launches": len(launches),
                "tolerance": TOLERANCE,
                "to_eager_body_on_cpu": difference(results["mine"], expected),
                "to_eager_body_on_gpu": difference(
                    results["mine"], results["eager"]
                ),
                "wrong_variant": difference(mistaken, expected),
            }
            row["right"] = (
                row["external_launches"] == 1
                and row["to_eager_body_on_cpu"] <= TOLERANCE
                and row["to_eager_body_on_gpu"] <= TOLERANCE
                and (not tokens or row["wrong_variant"] > 100 * TOLERANCE)
            )
            rows.append(row)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=("compile", "run"))
    parser.add_argument("--bin", type=Path, default=ROOT / "build/dev/bin")
    parser.add_argument(
        "--directory", type=Path, default=ROOT / "out/external-kernel"
    )
    parser.add_argument(
        "--output", type=Path, default=RAW / "external-kernel-h200.json"
    )
    options = parser.parse_args()
    if options.step == "compile":
        require_tools(options.bin, "fuse-opt", "fuse-run")
        compile_all(options.directory.resolve(), options.bin.resolve())
        print(f"{options.directory}: compiled")
        return 0
    require_gpu()
    rows = check(options.directory)
    report = {
        "gpu": torch.cuda.get_device_name(),
        "kernel": f"rms_norm_f32 of {find_page().name}",
        "rows": rows,
    }
    write_json(options.output, report)
    for row in rows:
        print(
            f"{row['function']:9} {row['tokens']:5} tokens: "
            f"{'right' if row['right'] else 'WRONG'}, "
            f"{row['to_eager_body_on_cpu']:.1e} from the eager body, "
            f"wrong variant {row['wrong_variant']:.1e}"
        )
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
