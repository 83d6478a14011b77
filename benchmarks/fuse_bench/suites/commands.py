# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs every command of `python -m fuse_mlir` that takes a model on configs
and checkpoints of the kinds that are published, and keeps its output.

The models are small ones of `command_models.py`, with drawn weights. There is
one process for each model, on the CPU. Needs fuse-opt and fuse-run, from
FUSE_BIN or build/dev. One call runs everything:

    python3 -m fuse_bench.suites.commands
    python3 -m fuse_bench.suites.commands --only AWQ --output out.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..common.environment import (
    RAW,
    ROOT,
    add_only_option,
    read_commit,
    write_json,
)
from .command_models import (
    CHAIN,
    CHAINS,
    CHECKPOINTS,
    CONFIGS,
    MXFP4,
    WIDTH,
    write_checkpoint,
    write_config,
)

RESULTS = RAW / "commands.json"

#: In the order in which they run: the last two read files of those before.
COMMANDS = (
    "explain",
    "fuse",
    "verify",
    "bench",
    "import",
    "inputs",
    "calibrate",
    "accuracy",
)
#: Text that no command may print.
FORBIDDEN = re.compile(
    r"Traceback \(most recent|\bAt=|-:\d+:\d+:|<unknown>:|"
    r"FUSE_ERROR_PASS|\b0x[0-9a-f]{6,}"
)
#: Rows and lines of the inputs.
ROWS = (1, 33)
#: Time limit for the commands of one model in seconds.
LIMIT = 300.0


@contextlib.contextmanager
def captured(folder: Path) -> Iterator[dict[str, str]]:
    """All output of this process, including the compiler."""
    found: dict[str, str] = {}
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with (
        (folder / "stdout").open("w") as out,
        (folder / "stderr").open("w") as error,
    ):
        try:
            os.dup2(out.fileno(), 1)
            os.dup2(error.fileno(), 2)
            with (
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(error),
            ):
                yield found
        finally:
            for number, old in enumerate(kept, 1):
                os.dup2(old, number)
                os.close(old)
    for name in ("stdout", "stderr"):
        found[name] = (folder / name).read_text(errors="replace")


def arguments(
    command: str,
    model: Path,
    chain: tuple[str, ...],
    width: int,
    settings: Sequence[str],
    folder: Path,
) -> list[str]:
    """The arguments of a command on a model: a directory or a config.json."""
    is_config = model.is_file()
    given = [f"--set={item}" for item in settings]
    source = [
        "--architecture" if is_config else "--pretrained",
        str(model),
        *given,
        "--parent",
        chain[0],
        "--members",
        chain[1],
        "--shape",
        f"{chain[2] if len(chain) > 2 else 'tokens'},{width}",
    ]
    tools = os.environ.get("FUSE_BIN", str(ROOT / "build/dev/bin"))
    data = [str(path) for path in sorted(folder.glob("data/*.npy"))]
    block = folder / "block.mlir"
    return [
        command,
        *{
            "explain": [str(model), *given],
            "fuse": [str(model), *given, "-o", str(folder / "fused")],
            "verify": [str(model), *given],
            "bench": [str(model), *given, "--repeats=2"],
            "import": [*source, "-o", str(block)],
            "inputs": [
                str(model),
                "--text",
                str(folder / "lines.txt"),
                "--module",
                f"{chain[0]}.{chain[1].split(',')[0]}",
                "-o",
                str(folder / "collected"),
            ],
            "calibrate": [
                str(block),
                *data,
                "--weights",
                str(block.with_suffix(".safetensors")),
                "--no-cache",
                "--tools",
                tools,
                "-o",
                str(folder / "scales.json"),
            ],
            "accuracy": [*data, *source, "--no-cache", "--tools", tools],
        }[command],
    ]


def prepare(folder: Path, width: int) -> None:
    """Writes inputs of commands: text, and inputs of a chain."""
    import numpy as np
    import torch

    (folder / "data").mkdir()
    draw = np.random.default_rng(0)
    for count in ROWS:
        values = torch.from_numpy(draw.standard_normal((count, width)))
        np.save(folder / f"data/{count}.npy", values.bfloat16().float().numpy())
    (folder / "lines.txt").write_text(
        "".join(
            " ".join(f"w{i % 98 + 1}" for i in range(n)) + "\n" for n in ROWS
        )
    )


def run_command(
    command: str,
    model: Path,
    chain: tuple[str, ...],
    width: int,
    settings: Sequence[str],
    folder: Path,
) -> dict[str, Any]:
    """The row of a command, which runs in this process."""
    from fuse_mlir.cli.main import main

    if command == "calibrate" and not (folder / "block.mlir").exists():
        return {
            "command": command,
            "status": None,
            "seconds": 0.0,
            "says": "no block was imported",
            "refusals": [],
            "raw": [],
        }
    line = arguments(command, model, chain, width, settings, folder)
    start = time.perf_counter()
    with captured(folder) as found:
        try:
            status = main(line)
        except SystemExit as error:
            status = int(error.code or 0)
        # A user would see it; so does the table.
        except BaseException:
            traceback.print_exc()
            status = -1
    seconds = time.perf_counter() - start
    # Names of the machine are replaced.
    place = model.parent if model.is_file() else model
    text = {
        name: value.replace(str(folder), "OUT").replace(str(place), "MODEL")
        for name, value in found.items()
    }
    whole = text["stdout"] + text["stderr"]
    return {
        "command": command,
        "status": status,
        "seconds": round(seconds, 2),
        "says": says(command, status, **text),
        "refusals": sorted(set(re.findall(r"FUSE-[A-Z]\d{3}", whole))),
        "raw": sorted(set(FORBIDDEN.findall(whole))),
    }


def says(command: str, status: int, stdout: str, stderr: str) -> str:
    """The line that sums up the output of a command."""
    if status:
        lines = [
            line for line in stderr.splitlines() if line.startswith("error: ")
        ]
        if lines:
            return lines[-1].removeprefix("error: ")
        failed = [line for line in stdout.splitlines() if "FAIL" in line]
        if failed:
            return failed[0].strip()
        return (stderr.strip() or stdout.strip()).splitlines()[-1]
    if command == "explain":
        found = re.findall(
            r"^\d+ (?:could fuse|left out|refused).*$", stdout, re.MULTILINE
        )
        return found[-1] if found else stdout.strip().splitlines()[-1]
    if command == "fuse":
        kernels = [
            line for line in stdout.splitlines() if ": kernel of " in line
        ]
        return f"{len(kernels)} kernel" + "s" * (len(kernels) != 1)
    if command == "verify":
        found = re.findall(r"^\d+ of \d+ checks passed", stdout, re.MULTILINE)
        return found[-1] if found else stdout.strip().splitlines()[-1]
    if command in ("bench", "calibrate", "accuracy"):
        return "ok"
    return re.sub(r"^\S+: ", "", stdout.strip().splitlines()[-1])


def names() -> list[str]:
    """All rows."""
    return [f"{name}, config.json" for name in CONFIGS] + [*CHECKPOINTS, MXFP4]


def make(name: str, folder: Path) -> tuple[Path, str]:
    """The model of a row, and its type."""
    if name.endswith(", config.json"):
        config = CONFIGS[name.removesuffix(", config.json")]
        return (
            write_config(folder / "model", config) / "config.json",
            config["model_type"],
        )
    return write_checkpoint(folder / "model", name), "qwen3"


def chain_of(kind: str) -> tuple[str, ...]:
    """Parent, members and perhaps dimensions, by the type of model."""
    return CHAINS.get(kind, CHAIN)


def work(name: str) -> int:
    """One process: prints a line of JSON for each command."""
    import torch
    import transformers

    torch.set_num_threads(2)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        model, kind = make(name, folder)
        (folder / "out").mkdir()
        prepare(folder / "out", WIDTH)
        for command in COMMANDS:
            print(
                json.dumps(
                    run_command(
                        command,
                        model,
                        chain_of(kind),
                        WIDTH,
                        (),
                        folder / "out",
                    )
                ),
                flush=True,
            )
    return 0


def measure(name: str) -> list[dict[str, Any]]:
    """The ends of all commands for one model, in a separate process."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'benchmarks'}:{ROOT / 'python'}",
    }
    found = []
    with subprocess.Popen(
        [sys.executable, "-m", "fuse_bench.suites.commands", "--work", name],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            out, error = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, error = process.communicate()
            error = f"no end within {LIMIT:g} s"
    for line in out.splitlines():
        if line.startswith("{"):
            found.append({"model": name, **json.loads(line)})
    for command in COMMANDS[len(found) :]:
        found.append(
            {
                "model": name,
                "command": command,
                "status": -1,
                "seconds": 0.0,
                "refusals": [],
                "raw": ["no result"],
                "says": (error.strip() or "no result").splitlines()[-1],
            }
        )
    return found


def cell(row: dict[str, Any], notes: dict[str, str], link: str) -> str:
    """A cell of the table; a message without an id of a refusal gets a note.

    Args:
        row: the end of a command.
        notes: numbers by message; gets the messages that are new.
        link: of a refusal, with `{id}` and `{anchor}`.
    """

    def linked(name: str) -> str:
        return f"[{name}]({link.format(id=name, anchor=name.lower())})"

    said = str(row["says"])
    if row["status"] is None:
        return "-"
    if row["status"] == 0:
        ids = map(linked, row["refusals"]) if "refused" in said else ()
        return " ".join([said, *ids])
    found = re.search(r"FUSE-[A-Z]\d{3}", said)
    if found:
        return linked(found[0])
    return "error " + notes.setdefault(said, str(len(notes) + 1))


def table(data: dict[str, Any], link: str) -> str:
    """Markdown: a row for each model, a column for each command, and a list
    of the errors. `link` is that of `cell`."""
    rows = data["rows"]
    notes: dict[str, str] = {}
    lines = [
        "| model | " + " | ".join(COMMANDS) + " |",
        "|---|" + "---|" * len(COMMANDS),
    ]
    for name in dict.fromkeys(row["model"] for row in rows):
        cells = [
            next(
                (
                    cell(row, notes, link)
                    for row in rows
                    if (row["model"], row["command"]) == (name, command)
                ),
                "",
            )
            for command in COMMANDS
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if notes:
        lines.append("")
        lines += [
            f"- error {number}: `{said}`" for said, number in notes.items()
        ]
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.suites.commands",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    add_only_option(parser, "names of models")
    parser.add_argument("--work", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.work:
        return work(options.work)
    chosen = [n for n in names() if re.search(options.only, n)]
    if not chosen:
        parser.error(f"no model is called '{options.only}'")
    import torch
    import transformers

    data: dict[str, Any] = {
        "commit": read_commit(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "rows": [],
    }
    for name in chosen:
        rows = measure(name)
        data["rows"] += rows
        for row in rows:
            print(
                f"{name}: {row['command']}: {row['status']}, "
                f"{row['seconds']} s: {row['says'][:200]}"
                + (f" RAW {row['raw']}" if row["raw"] else ""),
                flush=True,
            )
    write_json(options.output, data)
    return 1 if any(row["raw"] for row in data["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
