#!/usr/bin/env python3
# ===- passes.py - Run passes on unexpected input -------------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Run passes of fuse on modules from any stage of other pipelines.

    scripts/passes.py --seed 1 --count 1000

Each case changes some types, sizes and numbers in an input of the tests, also
to absurd values. It runs the first passes of a pipeline, and then one to three
passes of fuse in any order. Passes may refuse their input, and mostly do. They
must not crash, hang or fail without an error. Cases that do are printed with
their seed and passes; `--seed SEED --count 1 --print` prints the input.
"""

import argparse
import concurrent.futures
import pathlib
import random
import re
import shlex
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PIPELINES = (
    "fuse-cpu-pipeline",
    "fuse-gpu-pipeline=chip=sm_90a",
    "fuse-hopper-pipeline",
    "fuse-cpu-kernels-pipeline",
    "fuse-linalg-pipeline",
)
# Passes of fuse in the list of all passes.
OURS = re.compile(
    r"^ +--((?:fuse-|convert-(?:fuse|tile|kernels|small-floats|linalg-to-gpu))"
    r"\S*)",
    re.MULTILINE,
)


# Replacements for element types, and for sizes in types.
TYPES = (
    "f32",
    "bf16",
    "f16",
    "f64",
    "i8",
    "i32",
    "index",
    "f8E4M3FN",
    "f8E5M2",
)
SIZES = (
    "0",
    "1",
    "3",
    "16",
    "?",
    "65537",
    "2147483648",
    "4294967297",
    "281474976710656",
    "9223372036854775807",
)
# Replacements for numbers in ops of fuse: integers and floats.
WHOLE = (
    "0",
    "1",
    "-1",
    "33",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775807",
)
BROKEN = (
    "0.0",
    "-0.0",
    "-1.0e-2",
    "1.0e-45",
    "1.0e+38",
    "1.0e+308",
    "0x7FC00000",
    "0x7F800000",
)


class Case(NamedTuple):
    """A run of the tool."""

    file: pathlib.Path
    text: str
    pipeline: str


def exchange(text: str, draw: random.Random) -> str:
    """Replace all occurrences of a type and of a size in tensors."""
    if draw.random() < 0.5:
        old, new = draw.sample(TYPES, 2)
        text = re.sub(rf"(?<![A-Za-z_])(\d*x?){old}\b", rf"\g<1>{new}", text)
    sizes = sorted(set(re.findall(r"(?<=[<x])(\d+|\?)(?=x)", text)))
    if sizes and draw.random() < 0.5:
        old, new = draw.choice(sizes), draw.choice(SIZES)
        text = re.sub(rf"(?<=[<x]){re.escape(old)}(?=x)", new, text)
    if draw.random() < 0.3:
        text = exchange_number(text, draw)
    return text


def exchange_number(text: str, draw: random.Random) -> str:
    """Replace a number on all lines that have ops or attributes of fuse."""
    pattern, values = draw.choice(
        (
            (r"(?<![\w.%@#:-])\d+(?![\w.])", WHOLE),
            (r"(?<![\w.%@#-])\d+\.\d+(?:[eE][-+]?\d+)?", BROKEN),
        )
    )
    lines = text.split("\n")
    ours = [
        i
        for i, line in enumerate(lines)
        if re.search(r"\b(?:fuse|stage|tile)\.", line)
    ]
    found = sorted({n for i in ours for n in re.findall(pattern, lines[i])})
    if not found:
        return text
    old, new = draw.choice(found), draw.choice(values)
    for i in ours:
        lines[i] = re.sub(
            pattern, lambda m: new if m[0] == old else m[0], lines[i]
        )
    return "\n".join(lines)


class Generator:
    """Draws cases, each of which depends only on its seed."""

    def __init__(self, tool: str, inputs: pathlib.Path) -> None:
        """Ask `tool` for its passes and list the modules below `inputs`."""
        self.tool = tool
        self.files = sorted(inputs.rglob("*.mlir"))
        if not self.files:
            raise ValueError(f"no .mlir file below '{inputs}'")
        names = OURS.findall(self.run("--help"))
        self.passes = [
            self.dump(name)[0]
            for name in sorted(names)
            if not name.endswith("-pipeline")
        ]
        if not self.passes:
            raise ValueError(f"'{tool}' has no passes of fuse")
        self.pipelines = [
            self.dump("fuse-kernel-formation-pipeline") + self.dump(name)
            for name in PIPELINES
        ]

    def run(self, *arguments: str) -> str:
        """Return the output of the tool for arguments, on an empty module."""
        result = subprocess.run(
            [self.tool, *arguments],
            capture_output=True,
            text=True,
            input="",
            check=False,
        )
        return result.stdout + result.stderr

    def dump(self, name: str) -> list[str]:
        """The passes of a pipeline, each nested in its ops."""
        text = self.run(f"--{name}", "--dump-pass-pipeline")
        text = text[text.index("builtin.module(") + 15 : text.index("\n)")]
        parts, depth = [""], 0
        for char in text:
            depth += (char in "({") - (char in ")}")
            if char == "," and depth == 0:
                parts.append("")
            else:
                parts[-1] += char
        return [" ".join(part.split()) for part in parts]

    def draw(self, seed: int) -> Case:
        """Draw the case of a seed."""
        draw = random.Random(seed)
        passes: list[str] = []
        if draw.random() < 0.7:
            pipeline = draw.choice(self.pipelines)
            passes += pipeline[: draw.randrange(len(pipeline))]
        passes += draw.choices(self.passes, k=draw.randint(1, 3))
        file = draw.choice(self.files)
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
        return Case(
            file, exchange(text, draw), f"builtin.module({','.join(passes)})"
        )


def find_problem(tool: str, case: Case, timeout: float) -> str | None:
    """Run a case. Returns a description of the problem, or None.

    Several modules in a file run one by one. A refused module causes a line
    with `error:`, and exit status 1.
    """
    command = [
        tool,
        f"--pass-pipeline={case.pipeline}",
        "--split-input-file",
        "--mlir-disable-threading",
        "--allow-unregistered-dialect",
        "-o",
        "/dev/null",
    ]
    shown = f"{case.file.name}: {shlex.join(command)}"
    try:
        result = subprocess.run(
            command,
            input=case.text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"hangs: {shown}"
    if result.returncode < 0 or "Stack dump" in result.stderr:
        reasons = [
            line
            for line in result.stderr.splitlines()
            if "Assertion" in line or "LLVM ERROR" in line
        ]
        reason = reasons[0] if reasons else f"status {result.returncode}"
        return f"crashes ({reason}): {shown}"
    if result.returncode and "error:" not in result.stderr:
        return f"fails without an error: {shown}"
    return None


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--fuse-opt", default=str(ROOT / "build/dev/bin/fuse-opt")
    )
    parser.add_argument(
        "--inputs",
        type=pathlib.Path,
        default=ROOT / "test",
        help="folder of modules (default: the tests)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="begin no case after this time",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=120,
        help="seconds after which a case hangs",
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--print", action="store_true", help="print the input of the first case"
    )
    return parser.parse_args()


def main() -> int:
    """Run the cases. The exit status is 1 if one has a problem."""
    args = parse_args()
    try:
        generator = Generator(args.fuse_opt, args.inputs)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.print:
        sys.stdout.write(generator.draw(args.seed).text)
        return 0
    end = time.monotonic() + args.seconds
    done = wrong = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        while done < args.count and time.monotonic() < end:
            # Submit a few at a time, since there may be very many.
            seeds = range(
                args.seed + done,
                args.seed + min(args.count, done + 8 * args.jobs),
            )
            problems = pool.map(
                lambda seed: find_problem(
                    args.fuse_opt, generator.draw(seed), args.timeout
                ),
                seeds,
            )
            for seed, problem in zip(seeds, problems):
                done += 1
                if problem:
                    wrong += 1
                    print(f"seed {seed} {problem}", flush=True)
                elif sys.stderr.isatty():
                    print(f"\r{done} of {args.count}", end="", file=sys.stderr)
    print(
        f"{done} cases of {len(generator.passes)} passes on "
        f"{len(generator.files)} files, {wrong} wrong"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
