# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requirements of benchmarks on the machine, and shared options."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: The repository.
ROOT = Path(__file__).resolve().parents[3]
#: PTX that is written by hand.
PTX_FOLDER = ROOT / "benchmarks/ptx"
#: Raw results, which the repository does not keep.
RAW = ROOT / "out/results"
#: The summary of them, which it keeps.
SUMMARY = ROOT / "benchmarks/results"
#: Of Hopper GPUs, sm_90a.
CAPABILITY = (9, 0)


def gpu_problem() -> str:
    """Why no kernel can run here; empty if kernels can run."""
    import torch

    if torch.version.cuda is None:
        return (
            f"torch {torch.__version__} is built without CUDA: expected a "
            "build for CUDA 13"
        )
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:
        return f"no GPU: {str(error).strip().splitlines()[0].rstrip('.')}"
    found = torch.cuda.get_device_capability()
    if found != CAPABILITY:
        return (
            f"{torch.cuda.get_device_name()} has compute capability "
            f"{'.'.join(map(str, found))}: expected "
            f"{'.'.join(map(str, CAPABILITY))}, which Hopper GPUs have"
        )
    return ""


def require_gpu() -> None:
    """Ends the program if no kernel can run."""
    problem = gpu_problem()
    if problem:
        sys.exit(f"error: {problem}")


def require_tools(folder: Path, *names: str) -> None:
    """Ends the program if the compiler is not built."""
    for name in names:
        if not (folder / name).exists():
            sys.exit(
                f"error: {name} is not in {folder}: expected the "
                "programs of a build"
            )


def end_when_told() -> None:
    """Makes SIGTERM raise an exception, so that started programs are ended.

    Only the first signal counts: a time limit may send it both to a group and
    to each of its programs.
    """

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(1)

    signal.signal(signal.SIGTERM, end)


def read_commit() -> str:
    """FUSE_COMMIT if it is set, else the commit of the sources.

    Modified sources get a mark. The result is empty without a repository.
    """
    named = os.environ.get("FUSE_COMMIT")
    if named:
        return named
    try:
        return subprocess.run(
            [
                "git",
                "-C",
                str(ROOT),
                "describe",
                "--always",
                "--dirty",
                "--abbrev=12",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Writes a file of results atomically.

    Each entry is on one line, as is each row of a list, so that diffs are
    readable.
    """
    lines = []
    for name, value in data.items():
        text = json.dumps(value)
        if isinstance(value, list) and value:
            rows = ",\n".join(f"  {json.dumps(row)}" for row in value)
            text = f"[\n{rows}\n ]"
        lines.append(f" {json.dumps(name)}: {text}")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    os.replace(partial, path)


def existing(text: str) -> Path:
    """A file to read, as an option."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no {text}")
    return path


def pattern(text: str) -> str:
    """A regular expression, as an option."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a regular expression: {error}"
        ) from None
    return text


def add_only_option(parser: argparse.ArgumentParser, what: str) -> None:
    """The option that selects some of the cases, by their `what`."""
    parser.add_argument(
        "--only",
        default="",
        type=pattern,
        help=f"regular expression that {what} must contain",
    )


def add_budget_option(
    parser: argparse.ArgumentParser, then: str = "nothing new is begun"
) -> None:
    """The option of programs that end by themselves."""
    parser.add_argument(
        "--budget", type=float, default=540, help=f"seconds after which {then}"
    )


def add_run_options(parser: argparse.ArgumentParser, step: str) -> None:
    """Options of programs that launch kernels, one step after the other. What
    is drawn follows from the seed, which `choose_seed` fills in."""
    add_budget_option(parser)
    parser.add_argument(
        "--hang",
        type=float,
        default=30,
        help=f"seconds after which a {step} counts as hanging",
    )
    parser.add_argument(
        "--seed", type=int, help="default: from the clock, printed"
    )


def choose_seed(options: argparse.Namespace) -> None:
    """The given seed, or one from the clock, which is printed."""
    if options.seed is None:
        options.seed = int(time.time()) % 100000
        print(f"seed {options.seed}", flush=True)


def run_models(
    main: Callable[..., int],
    description: str,
    names: str = "",
    arguments: Sequence[str] | None = None,
) -> int:
    """Calls the main function of a benchmark of models with its options.

    With `names`, a word for the cases, an option selects some of them.
    """
    parser = argparse.ArgumentParser(
        prog=f"fuse_bench.suites.{Path(sys.argv[0]).stem}",
        description=" ".join(description.split("\n\n")[1].split()),
    )
    parser.add_argument("output", help="JSON, written after every step")
    parser.add_argument(
        "seconds",
        type=float,
        nargs="?",
        default=600.0,
        help="no step starts later (default: %(default)s)",
    )
    if names:
        parser.add_argument(
            "only",
            nargs="?",
            default="",
            help=f"{names}, with commas (default: all)",
        )
    return main(*vars(parser.parse_args(arguments)).values())
