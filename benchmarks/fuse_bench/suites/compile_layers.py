# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measure the processor time that the compiler takes per layer.

    python3 -m fuse_bench.suites.compile_layers --bin build/dev/bin

A model is a function of some layers, each a norm, a gated MLP and a residual
add in linalg, as a front end writes them. Each step runs in a process of its
own. The table shows the milliseconds of processor time per layer after the
first one, which has the start of the process and the kernels that equal layers
share. It shows the least of --repeat rounds: other load on the machine adds to
a round, but nothing makes one shorter.

- form: raising, forming kernels and unfusing them;
- sm_90a: an artifact with the PTX of scheduled kernels, for up to 8 tokens;
- sm_80: an artifact with the PTX of mma kernels, for up to 8 tokens;
- ranges: the same for all ranges of tokens;
- portable: an artifact with the PTX of portable kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..common.environment import ROOT, read_commit

WIDTH, HIDDEN = 128, 256
LAYER = """  %a{i} = fuse.rms_norm %x{i} weight(%n{i}) eps 1.0e-6
    : ({x}, tensor<{k}xbf16>) -> {x}
  %b{i} = fuse.linear %a{i}, %g{i} : ({x}, {up}) -> {y}
  %c{i} = fuse.linear %a{i}, %u{i} : ({x}, {up}) -> {y}
  %s{i} = fuse.activation silu %b{i} : {y} -> {y}
  %p{i} = fuse.gated_mul %s{i}, %c{i} : ({y}, {y}) -> {y}
  %o{i} = fuse.linear %p{i}, %d{i} : ({y}, {down}) -> {x}
  %x{j} = fuse.residual_add %x{i}, %o{i} : ({x}, {x}) -> {x}
"""
COMPILE = ["--cpu=none", "--assemble=never", "-o", "/dev/null"]
#: The tool of each step and its options after the file.
STEPS = {
    "form": (
        "fuse-opt",
        [
            "--fuse-kernel-formation-pipeline",
            "--fuse-unfuse",
            "-o",
            "/dev/null",
        ],
    ),
    "sm_90a": ("fuse-compile", ["--chip=sm_90a", "--tokens=8", *COMPILE]),
    "sm_80": ("fuse-compile", ["--chip=sm_80", "--tokens=8", *COMPILE]),
    "ranges": ("fuse-compile", ["--chip=sm_80", *COMPILE]),
    "portable": ("fuse-compile", ["--chip=sm_80", "--portable", *COMPILE]),
}


def write_layers(layers: int) -> str:
    """The model as layer ops, from which linalg is made."""
    x, y = f"tensor<?x{WIDTH}xbf16>", f"tensor<?x{HIDDEN}xbf16>"
    up, down = (
        f"tensor<{HIDDEN}x{WIDTH}xbf16>",
        f"tensor<{WIDTH}x{HIDDEN}xbf16>",
    )
    arguments = [f"%x0: {x}"]
    for i in range(layers):
        arguments += [
            f"%n{i}: tensor<{WIDTH}xbf16>",
            f"%g{i}: {up}",
            f"%u{i}: {up}",
            f"%d{i}: {down}",
        ]
    body = "".join(
        LAYER.format(i=i, j=i + 1, x=x, y=y, up=up, down=down, k=WIDTH)
        for i in range(layers)
    )
    head = f"func.func @model({', '.join(arguments)}) -> {x} {{\n"
    return f"{head}{body}  return %x{layers} : {x}\n}}\n"


def measure(command: Sequence[str]) -> float:
    """Returns the milliseconds of processor time of one run."""
    with subprocess.Popen(command) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return 1e3 * (usage.ru_utime + usage.ru_stime)


def measure_steps(
    programs: Path, layers: Sequence[int], repeat: int, directory: Path
) -> dict[str, dict[int, float]]:
    """Returns the milliseconds per layer of each step and size."""
    files = {}
    for count in [1, *layers]:
        source, written = (
            directory / f"{count}.ops",
            directory / f"{count}.mlir",
        )
        source.write_text(write_layers(count), encoding="utf-8")
        convert = ["--convert-fuse-to-linalg", "-o", str(written)]
        subprocess.run(
            [str(programs / "fuse-opt"), str(source), *convert], check=True
        )
        files[count] = str(written)
    times: dict[str, dict[int, float]] = {name: {} for name in STEPS}
    for _ in range(repeat):
        for name, (tool, options) in STEPS.items():
            for count, file in files.items():
                time = measure([str(programs / tool), file, *options])
                before = times[name].get(count, time)
                times[name][count] = min(before, time)
    return {
        name: {
            count: (of_step[count] - of_step[1]) / (count - 1)
            for count in layers
        }
        for name, of_step in times.items()
    }


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--bin", type=Path, default=ROOT / "build" / "dev" / "bin"
    )
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 48])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path, help="JSON file for the result")
    args = parser.parse_args(argv)
    if min(args.layers) < 2:
        parser.error(f"--layers: expected at least 2, got {min(args.layers)}")
    with tempfile.TemporaryDirectory() as directory:
        times = measure_steps(
            args.bin, args.layers, args.repeat, Path(directory)
        )
    print("ms per layer" + "".join(f"{count:>10}" for count in args.layers))
    for name, row in times.items():
        print(f"{name:<12}" + "".join(f"{ms:>10.2f}" for ms in row.values()))
    if args.output:
        result = {
            "benchmark": "compile_layers",
            "commit": read_commit(),
            "unit": "milliseconds of processor time per layer after the first",
            "steps": times,
        }
        args.output.write_text(
            json.dumps(result, indent=2) + "\n", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
