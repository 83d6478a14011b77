#!/usr/bin/env python3
# ===- reliability.py - Results and times of random tests ------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Keep benchmarks/results/reliability.json, and the table that shows it.

    scripts/reliability.py run "E, H" -- fuse-fuzz --run --seed=7 --seconds=60
    scripts/reliability.py add FILE...    # runs of another machine
    scripts/reliability.py write          # the tables of docs/appendix/reliability.md
    scripts/reliability.py check          # check that they agree, as lit does

`run` measures the time of a command, parses the counts in its output, and
appends both to a row of the file. With --output it writes them to a separate
file, which `add` appends. A failing command is recorded as such, and `run`
returns its status.

`check` compares the tables with the file, and looks for every regression test
that the file names: PATH of a test, or PATH#TEXT if it contains TEXT.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("benchmarks/results/reliability.json")
PAGE = Path("docs/appendix/reliability.md")
BEGIN, END = "<!-- {} of reliability.json -->", "<!-- end of {} -->"

# Output of programs with counts. Groups are units with their numbers.
PATTERNS = (
    r"seeds \d+ to \d+: (?P<functions>\d+) functions run on "
    r"(?P<input_sets>\d+) sets of inputs, (?P<values>\d+) values judged by the "
    r"contracts, (?P<exact_values>\d+) of them to the bit, (?P<relations>\d+) "
    r"relations",
    r"seeds \d+ to \d+: (?P<ops>\d+) ops, (?P<sites>\d+) sites fused, "
    r"(?P<refused>\d+) refused",
    r"seeds \d+ to \d+: (?P<valid_texts>\d+) texts were valid",
    r"stat::number_of_executed_units:\s*(?P<inputs>\d+)",
    r"\[  PASSED  \] (?P<tests>\d+) tests?",
    r"(?P<cycles>\d+) cycles, (?P<first_kib>\d+) KiB at the start, "
    r"(?P<last_kib>\d+) KiB at the end",
    r"(?P<bugs>\d+) of \d+ bugs noticed, (?P<by_fuzz>\d+) by random modules",
    r"(?P<covered>\d+) of (?P<lines>\d+) lines run",
    r"^Ran (?P<tests>\d+) tests in ",
    r"^  Passed *: *(?P<tests>\d+)",
    r"(?P<steps>\d+) steps passed, 0 failed",
    r"^(?P<cases>\d+) cases of \d+ passes on ",
    r"^(?P<plans>\d+) plans: ",
    r"^(?P<models>\d+) models, (?P<fused_models>\d+) with fused sites, 0 wrong",
    r"^(?P<layers>\d+) layers to \d+, by rounds",
)
# Printed names of units, if they differ from those in the file.
NAMES = {
    "input_sets": "sets of inputs",
    "exact_values": "of them to the bit",
    "sites": "sites fused",
    "fused_models": "of them with fused sites",
    "valid_texts": "valid texts",
    "first_kib": "KiB at the start",
    "last_kib": "KiB at the end",
    "bugs": "bugs noticed",
    "by_fuzz": "of them by random modules",
    "covered": "lines run",
    "lines": "of them in all",
}
# Units that describe the state at one commit. They are only added up over the
# commands of that commit.
STATES = {
    "bugs",
    "by_fuzz",
    "covered",
    "lines",
    "first_kib",
    "last_kib",
    "tests",
    "steps",
    "layers",
}


def read_reached(text: str) -> dict[str, int]:
    """The counts in the output of a command; seeds come first."""
    reached: dict[str, int] = {}
    for first, last in re.findall(r"seeds (\d+) to (\d+):", text):
        reached["seeds"] = reached.get("seeds", 0) + int(last) - int(first) + 1
    for pattern in PATTERNS:
        for match in re.finditer(pattern, text, re.MULTILINE):
            for unit, number in match.groupdict().items():
                reached[unit] = reached.get(unit, 0) + int(number)
    # A script with several runners prints their sum last.
    if total := re.findall(r"^(\d+) passed, \d+ failed$", text, re.MULTILINE):
        reached["tests"] = int(total[-1])
    return reached


def get_commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def run(options: argparse.Namespace) -> int:
    begin = time.monotonic()
    with subprocess.Popen(
        options.command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    entry = {
        "command": " ".join(options.command),
        "reached": read_reached("".join(lines)),
        "seconds": round(time.monotonic() - begin, 1),
        "machine": options.machine,
        "commit": options.commit or get_commit(),
        "date": datetime.date.today().isoformat(),
    }
    if process.returncode:
        entry["status"] = process.returncode
    append([(options.row, entry)], options.output)
    return process.returncode


def append(runs: list[tuple[str, dict[str, Any]]], output: Path | None) -> None:
    """Appends runs to rows of the results, or to a list in a file."""
    if output:
        before = json.loads(output.read_text()) if output.exists() else []
        output.write_text(
            json.dumps(before + [list(run) for run in runs], indent=1) + "\n"
        )
        return
    results = json.loads((ROOT / RESULTS).read_text())
    rows = {row["id"]: row for row in results["rows"]}
    for name, entry in runs:
        if name not in rows:
            raise SystemExit(
                f"error: no row '{name}'; expected one of " + ", ".join(rows)
            )
        if entry["machine"] not in results["machines"]:
            raise SystemExit(
                f"error: no machine '{entry['machine']}'; "
                "expected one of " + ", ".join(results["machines"])
            )
        rows[name]["runs"].append(entry)
    save(results)


def save(results: dict[str, Any]) -> None:
    head = [
        f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in results.items()
        if name != "rows"
    ]
    rows = [
        f"  {json.dumps(row, ensure_ascii=False)}" for row in results["rows"]
    ]
    text = ",\n".join([*head, ' "rows": [\n' + ",\n".join(rows)])
    (ROOT / RESULTS).write_text(f"{{\n{text}\n ]\n}}\n")


# ===-----------------------------------------------------------------------===#
# Tables
# ===-----------------------------------------------------------------------===#


def get_reached(runs: list[dict[str, Any]]) -> str:
    """The sum of the counts of several runs."""
    total: dict[str, int] = {}
    now = {
        entry["command"]: entry
        for entry in runs
        if entry["commit"] == runs[-1]["commit"]
    }
    for entry in runs:
        for unit, number in entry["reached"].items():
            if unit not in STATES or entry is now.get(entry["command"]):
                total[unit] = total.get(unit, 0) + number
    return ", ".join(
        f"{number:,} {NAMES.get(unit, unit.replace('_', ' '))}"
        for unit, number in total.items()
        if number
    )


def get_time(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:,.0f} min"


def get_row(row: dict[str, Any]) -> list[str]:
    """The cells of one row."""
    timed = [entry for entry in row["runs"] if entry["seconds"] is not None]
    untimed = [entry for entry in row["runs"] if entry["seconds"] is None]
    reached = [get_reached(timed)] if timed else []
    reached += [entry["note"] for entry in timed if "note" in entry]
    if untimed:
        reached += [f"others, whose time was not kept: {get_reached(untimed)}"]
        reached += [entry["note"] for entry in untimed if "note" in entry]
    times: dict[str, float] = {}
    for entry in timed:
        name = entry["machine"]
        times[name] = times.get(name, 0) + entry["seconds"]
    last = (timed or untimed or [{"commit": "never", "date": ""}])[-1]
    found = [
        f"{bug['what']}"
        + "".join(f" `{name.split('#')[0]}`" for name in bug["tests"])
        for bug in row["found"]
    ]
    return [
        row["id"],
        row["what"],
        "; ".join(reached),
        ", ".join(
            f"{get_time(seconds)} {name}" for name, seconds in times.items()
        ),
        f"{last['commit']}, {last['date'][5:]}",
        "; ".join(found) or "nothing",
    ]


def print_table(heading: list[str], rows: Iterator[list[str]]) -> list[str]:
    return [
        "| " + " | ".join(cells).replace("\n", " ") + " |"
        for cells in (heading, ["---"] * len(heading), *rows)
    ]


def get_tables(results: dict[str, Any]) -> dict[str, list[str]]:
    """The lines of each table, by its name."""
    return {
        "rows": print_table(
            ["row", "what", "reached", "wall time", "last", "found"],
            (get_row(row) for row in results["rows"]),
        ),
        "commands": print_table(
            ["row", "command"],
            ([row["id"], f"`{row['replay']}`"] for row in results["rows"]),
        ),
    }


def place(text: str, name: str, lines: list[str]) -> str:
    """Replaces a table in the text of a page."""
    begin, end = BEGIN.format(name), END.format(name)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"error: {PAGE} has no place for table '{name}'")
    head, rest = text.split(begin)
    tail = rest.split(end)[1]
    return head + "\n".join([begin, *lines, end]) + tail


def check(root: Path) -> Iterator[str]:
    """Yields all problems."""
    results = json.loads((root / RESULTS).read_text())
    text = (root / PAGE).read_text()
    lines = text.splitlines()
    for name, table in get_tables(results).items():
        for line in table:
            if line not in lines:
                yield (
                    f"{PAGE}: table '{name}' lacks the row that "
                    f"{RESULTS.name} gives: {line[:80]}"
                )
        if place(text, name, table) != text:
            yield (
                f"{PAGE}: table '{name}' is not that of {RESULTS.name}; "
                "scripts/reliability.py write makes it"
            )
    for row in results["rows"]:
        if not any(entry["seconds"] for entry in row["runs"]):
            yield f"row {row['id']} has no wall time"
        for entry in row["runs"]:
            if entry["machine"] not in results["machines"]:
                yield (
                    f"row {row['id']} ran on '{entry['machine']}', which "
                    "is no machine of the file"
                )
            if entry.get("status") and "note" not in entry:
                yield (
                    f"row {row['id']} has a run that failed: {entry['command']}"
                )
        for bug in row["found"]:
            if not bug["tests"]:
                yield f"row {row['id']}: nothing tests '{bug['what'][:60]}'"
            for test in bug["tests"]:
                path, _, wanted = test.partition("#")
                if not (root / path).is_file():
                    yield f"row {row['id']}: no test '{path}'"
                elif wanted not in (root / path).read_text():
                    yield f"row {row['id']}: {path} does not have '{wanted}'"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True)
    runner = actions.add_parser("run", help="run a command and keep its time")
    runner.add_argument("row", help="id of a row")
    runner.add_argument(
        "--machine",
        default="shared",
        help="name of a machine of the file (default: shared)",
    )
    runner.add_argument("--commit", help="default: that of the repository")
    runner.add_argument("--output", type=Path, help="a file of its own")
    runner.add_argument("command", nargs="+")
    adder = actions.add_parser("add", help="append runs of --output")
    adder.add_argument("files", nargs="+", type=Path)
    actions.add_parser("write", help="write the tables of the page")
    checker = actions.add_parser("check", help="compare page, file and tests")
    checker.add_argument("root", nargs="?", type=Path, default=ROOT)
    options = parser.parse_args(arguments)
    if options.action == "run":
        return run(options)
    if options.action == "add":
        for path in options.files:
            append(
                [tuple(entry) for entry in json.loads(path.read_text())], None
            )
        return 0
    if options.action == "write":
        results = json.loads((ROOT / RESULTS).read_text())
        text = (ROOT / PAGE).read_text()
        for name, table in get_tables(results).items():
            text = place(text, name, table)
        (ROOT / PAGE).write_text(text)
        return 0
    problems = list(check(options.root))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
