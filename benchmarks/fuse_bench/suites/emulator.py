# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the emulator with a GPU, by right kernels and by broken ones.

    python3 -m fuse_bench.suites.emulator prepare    # where the compiler is
    python3 -m fuse_bench.suites.emulator run        # where the GPU is

`prepare` writes test bundles to out/emulator. Their expected results come from
the emulator. `run` executes them on the GPU and counts the values whose bits
differ. It then runs the kernels of test/Emulator/Inputs/mistakes.toml, which
have one mistake each. They run alone and under the tools of compute-sanitizer.
The results go to out/results/emulator-h100.json. `table` prints which tool
finds which mistake.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..common.environment import (
    RAW,
    ROOT,
    add_budget_option,
    read_commit,
    require_gpu,
    require_tools,
    write_json,
)

FILES = ROOT / "out/emulator"
RESULTS = RAW / "emulator-h100.json"
#: Tools of compute-sanitizer, with their options and those of
#: `fuse-device-run test`.
#: initcheck keeps the workspace, because a fill would count as initialization.
SANITIZERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "memcheck": ((), ()),
    "racecheck": (("--racecheck-report", "all"), ()),
    "synccheck": ((), ()),
    "initcheck": ((), ("--keep-workspace",)),
}
STAGES = ("right", "broken")
LAUNCHES = 20
#: Number of correct-kernel cases in one process.
PART_CASES = 12
#: Time limits in seconds, without a tool and for a process under a tool.
LAUNCH_SECONDS, TOOL_SECONDS = 3, 20


# Tool output.


def read_report(text: str) -> dict[str, Any]:
    """Returns the summary of compute-sanitizer, and a count of each message.

    Locations are removed from the messages.
    """
    summary = re.findall(r"^=+ ((?:ERROR|RACECHECK) SUMMARY: .*)$", text, re.M)
    messages: Counter[str] = Counter()
    for line in re.findall(r"^========= (\S.*)$", text, re.M):
        if "SUMMARY:" in line or line.startswith("COMPUTE-SANITIZER"):
            continue
        line = re.sub(r"\b0x[0-9a-f]+\b", "#", line)
        line = re.sub(r"\(\d+,\d+,\d+\)", "()", line)
        messages[line] += 1
    return {
        "summary": summary[-1] if summary else "",
        "messages": dict(messages.most_common(6)),
    }


def count_digests(digests: Sequence[str], right: str) -> dict[str, int]:
    """Counts the launches whose bits differ from the correct kernel's."""
    return {
        "launches": len(digests),
        "wrong": sum(digest != right for digest in digests),
    }


def sum_up(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Summarizes how GPU values differ from emulator values.

    There is one row per path, narrowest operand type and result type. Each row
    counts values by their distance in units in the last place.
    """
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for case in cases:
        for result in case.get("results", []):
            key = (
                case["group"],
                case["path"],
                case["operands"],
                result["type"],
            )
            row = rows.setdefault(
                key,
                {
                    **dict(zip(("group", "path", "operands", "type"), key)),
                    "results": 0,
                    "equal_results": 0,
                    "values": 0,
                    "different": 0,
                    "specials": 0,
                    "outside": 0,
                    "energy": 0.0,
                    "ulps": [0] * len(result["ulps"]),
                },
            )
            row["results"] += 1
            row["equal_results"] += result["different"] == 0
            for name in ("values", "different", "specials", "outside"):
                row[name] += result[name]
            row["energy"] = max(row["energy"], result["energy"])
            row["ulps"] = [a + b for a, b in zip(row["ulps"], result["ulps"])]
    return [rows[key] for key in sorted(rows)]


# The GPU.


class Machine:
    """Runs programs of a build on the GPU's host."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.bin: Path = arguments.bin
        self.out: Path = arguments.output.parent / "emulator-logs"
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        self.end = time.monotonic() + arguments.budget

    def left(self) -> float:
        return self.end - time.monotonic()

    def run(
        self,
        name: str,
        command: Sequence[str],
        seconds: float,
        **variables: str,
    ) -> tuple[int | None, str]:
        """Runs a program and returns its exit status and output.

        The status is None for a killed program. Environment variables take
        precedence over the given ones.
        """
        log = self.out / f"{name}.log"
        with (
            log.open("w") as file,
            subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**variables, **os.environ},
            ) as it,
        ):
            try:
                status: int | None = it.wait(min(seconds, max(1, self.left())))
            except subprocess.TimeoutExpired:
                os.killpg(it.pid, signal.SIGKILL)
                status = None
        return status, log.read_text(errors="replace")

    def bundle(
        self,
        name: str,
        bundle: Path,
        *options: str,
        around: Sequence[str] = (),
        seconds: float = TOOL_SECONDS,
    ) -> tuple[list[dict[str, Any]], int | None, str]:
        """Returns the outcomes of a test bundle; none if it was killed."""
        outcomes = self.out / f"{name}.json"
        status, text = self.run(
            name,
            [
                *around,
                str(self.bin / "fuse-device-run"),
                "test",
                str(bundle),
                *options,
                "-o",
                str(outcomes),
            ],
            seconds,
        )
        if not outcomes.exists():
            return [], status, text
        cases = json.loads(outcomes.read_text())["cases"]
        outcomes.unlink()
        return cases, status, text


class Comparison:
    """Runs all kernels on a GPU and collects their outcomes."""

    def __init__(
        self, arguments: argparse.Namespace, head: dict[str, Any]
    ) -> None:
        self.arguments = arguments
        self.files: Path = arguments.files
        self.index: dict[str, Any] = json.loads(
            (self.files / "index.json").read_text()
        )
        self.machine = Machine(arguments)
        self.data = {
            **head,
            "commit": read_commit(),
            "rows": [],
            "cases": [],
            "contract": [],
            "broken": [],
            "sanitizers": [],
        }
        self.began = time.monotonic()

    def log(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def save(self) -> None:
        write_json(self.arguments.output, self.data)

    # Correct kernels.

    def compare_part(self, job: tuple[str, int, int]) -> list[dict[str, Any]]:
        file, part, parts = job
        name = f"{Path(file).stem}-{part}"
        cases, status, text = self.machine.bundle(
            name,
            self.files / "right" / file,
            f"--part={part}",
            f"--parts={parts}",
            f"--timeout-ms={LAUNCH_SECONDS * 1000}",
            # The differences are small, and help to explain differing bits.
            *(
                [f"--results={self.machine.out / name}"]
                if file.startswith("product")
                else []
            ),
            seconds=self.arguments.budget,
        )
        if not cases:
            self.log(
                f"{name}: no outcome, status {status}: {text.strip()[-200:]}"
            )
        group = re.sub(r"-\d+\.bundle$|\.bundle$", "", file)
        operands = self.index["right"][file][part::parts]
        return [
            {"group": group, "operands": narrowest, **case}
            for narrowest, case in zip(operands, cases)
        ]

    def verify(self, entry: str) -> dict[str, Any]:
        """Returns true if the results are within the contract's intervals."""
        status, text = self.machine.run(
            f"verify-{entry}",
            [
                str(self.machine.bin / "fuse-run"),
                str(self.files / "scheduled.mlir"),
                "--verify",
                "--chip=sm_90a",
                f"--entry={entry}",
                f"--dim={','.join(map(str, self.index['tokens']))}",
            ],
            self.arguments.budget,
            FUSE_CUDA_LIBRARY="libcuda.so.1",
        )
        line = re.search(r"^V2 .*$|^.*error: .*$", text, re.M)
        return {
            "function": entry,
            "ok": status == 0,
            "says": line[0] if line else f"status {status}",
        }

    def compare(self) -> None:
        """Compares the correct kernels, in several processes at a time."""
        entries = re.findall(
            r"@(\w+)\(", (self.files / "scheduled.mlir").read_text()
        )
        # The driver assembles the kernels of every case.
        parts = {
            file: -(-len(cases) // PART_CASES)
            for file, cases in self.index["right"].items()
        }
        jobs = [
            (file, part, count)
            for file, count in parts.items()
            for part in range(count)
        ]
        with ThreadPoolExecutor(self.arguments.jobs) as pool:
            verified = [pool.submit(self.verify, entry) for entry in entries]
            for found in pool.map(self.compare_part, jobs):
                self.data["cases"] += found
            self.data["contract"] = [item.result() for item in verified]
        self.data["rows"] = sum_up(self.data["cases"])
        # Random cases are summarized. Only failures are listed by name.
        self.data["cases"] = [
            case
            for case in self.data["cases"]
            if not case["group"].startswith("random") or case["status"] != "ok"
        ]
        for row in self.data["rows"]:
            self.log(
                f"{row['group']}, {row['path']}, {row['operands']} to "
                f"{row['type']}: "
                f"{row['different']} of {row['values']} differ, "
                f"ulps {row['ulps']}"
            )
        for item in self.data["contract"]:
            self.log(f"{item['function']}: {item['says']}")
        self.save()

    # Broken kernels.

    def right_digest(self, name: str, bundle: str) -> str:
        """Returns the digest of a correct kernel, or "" if it cannot run."""
        cases, _, _ = self.machine.bundle(
            name, self.files / "broken" / bundle, "--launches=1"
        )
        return cases[0].get("digests", [""])[0] if cases else ""

    def run_alone(
        self, index: int, row: dict[str, Any], right: dict[str, str]
    ) -> None:
        """Launches a kernel 20 times without a tool, then a correct kernel."""
        cases, status, _ = self.machine.bundle(
            f"alone-{index}",
            self.files / "broken" / row["bundle"],
            f"--launches={LAUNCHES}",
            f"--timeout-ms={LAUNCH_SECONDS * 1000}",
        )
        outcome = (
            cases[0]
            if cases
            else {"status": "ended" if status is None else f"status {status}"}
        )
        row["alone"] = outcome["status"]
        row["detail"] = outcome.get("detail", "")
        if "digests" in outcome:
            row |= count_digests(outcome["digests"], right[row["right"]])
        row["device_after"] = (
            self.right_digest(f"after-{index}", row["right"])
            == right[row["right"]]
        )
        self.log(
            f"{row['mistake']}: {row['alone']}, {row.get('wrong')} wrong,"
            f" {row['detail']}; right afterwards: {row['device_after']}"
        )

    def sanitize(
        self, job: tuple[str, str, dict[str, Any]], right: dict[str, str]
    ) -> dict[str, Any]:
        """Runs one kernel under one tool, in a separate process."""
        tool, name, row = job
        found = {"tool": tool, "bundle": name, "mistake": row["mistake"]}
        if self.machine.left() < TOOL_SECONDS:
            return {**found, "status": "left out"}
        options, own = SANITIZERS[tool]
        begin = time.monotonic()
        cases, status, text = self.machine.bundle(
            f"{tool}-{Path(name).stem}",
            self.files / "broken" / name,
            "--in-process",
            "--launches=2",
            *own,
            f"--timeout-ms={TOOL_SECONDS // 2 * 1000}",
            around=[
                self.arguments.sanitizer,
                "--tool",
                tool,
                "--target-processes",
                "all",
                "--print-limit",
                "50",
                *options,
            ],
        )
        found |= {
            "seconds": round(time.monotonic() - begin, 1),
            **read_report(text),
        }
        if cases:
            found["status"] = cases[0]["status"]
            found["detail"] = cases[0].get("detail", "")
            if "digests" in cases[0]:
                found |= count_digests(cases[0]["digests"], right[row["right"]])
        else:
            found["status"] = "ended" if status is None else f"status {status}"
        if found["status"] != "ok":
            found["device_after"] = (
                self.right_digest(
                    f"after-{tool}-{Path(name).stem}", row["right"]
                )
                == right[row["right"]]
            )
        self.log(
            f"{tool}, {row['mistake']}: {found['status']}, {found['summary']}"
        )
        return found

    def break_kernels(self) -> None:
        rows = self.index["broken"]
        right = {
            name: self.right_digest(Path(name).stem, name)
            for name in dict.fromkeys(row["right"] for row in rows)
        }
        for index, row in enumerate(rows):
            self.run_alone(index, row, right)
            self.data["broken"].append(row)
            self.save()
        # Run one tool after another, so that an interrupted run has complete
        # columns. A correct kernel shows what a tool reports without a mistake.
        kernels = [(name, {"mistake": "none", "right": name}) for name in right]
        kernels += [(row["bundle"], row) for row in rows]
        jobs = [(tool, *kernel) for tool in SANITIZERS for kernel in kernels]
        with ThreadPoolExecutor(self.arguments.jobs) as pool:
            for found in pool.map(lambda job: self.sanitize(job, right), jobs):
                self.data["sanitizers"].append(found)
        self.save()

    def run(self) -> int:
        if "right" in self.arguments.stages:
            self.compare()
        if "broken" in self.arguments.stages:
            self.break_kernels()
        self.log("complete")
        return int(
            any(case["status"] != "ok" for case in self.data["cases"])
            or not all(item["ok"] for item in self.data["contract"])
        )


# Tables.

#: Text that distinguishes the emulator's messages.
PHRASES = (
    "in no order",
    "all threads wait",
    "still reads it",
    "there is no wgmma.fence before it",
    "bytes more than expected",
    "without fence.proxy.async in between",
)


def describe_tool(found: dict[str, Any]) -> str:
    """Returns a table cell with the report of a tool and the result."""
    words = []
    errors = re.search(r"(\d+) errors", found["summary"])
    if errors and errors[1] != "0":
        words.append(f"{int(errors[1]):,} errors")
    if found.get("wrong"):
        words.append("wrong bits")
    if found["status"] in ("timeout", "ended"):
        words.append("hangs")
    return ", ".join(words) or "–"


def describe_alone(row: dict[str, Any]) -> str:
    """Returns a table cell for the launches without a tool."""
    if "wrong" not in row:
        return "hangs" if row["alone"] in ("timeout", "ended") else row["alone"]
    return f"{row['wrong']} of {row['launches']} wrong"


def make_table(data: dict[str, Any]) -> str:
    """Returns a Markdown table of the tools that find each mistake."""
    found = {
        (row["mistake"], row["tool"]): describe_tool(row)
        for row in data["sanitizers"]
    }
    lines = [
        "| mistake | emulator | H100 | " + " | ".join(SANITIZERS) + " |",
        "|---" * (3 + len(SANITIZERS)) + "|",
    ]
    for row in data["broken"]:
        phrase = next(
            (f'"{text}"' for text in PHRASES if text in row["says"]), "–"
        )
        lines.append(
            "| "
            + " | ".join(
                (
                    row["mistake"],
                    phrase,
                    describe_alone(row),
                    *(found[row["mistake"], tool] for tool in SANITIZERS),
                )
            )
            + " |"
        )
    return "\n".join(lines)


def table(arguments: argparse.Namespace) -> int:
    print(make_table(json.loads(arguments.output.read_text())))
    return 0


def prepare(arguments: argparse.Namespace) -> int:
    # Imported here because the steps on the GPU do not need it.
    from . import emulator_cases as cases

    require_tools(arguments.bin, "fuse-compile", "fuse-fuzz", "fuse-device-run")
    cases.prepare(cases.Tools(arguments.bin), arguments.files, cases.RANDOM)
    print(f"{arguments.files}: prepared")
    return 0


def run(arguments: argparse.Namespace) -> int:
    require_gpu()
    from ..common.device import describe_device

    head = describe_device()
    done = subprocess.run(
        [arguments.sanitizer, "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    version = re.search(r"Version (\S+)", done.stdout)
    head["versions"]["compute-sanitizer"] = version[1] if version else ""
    return Comparison(arguments, head).run()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    steps = {"prepare": prepare, "run": run, "table": table}
    parser.add_argument("step", choices=steps)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/dev/bin")
    parser.add_argument(
        "--files", type=Path, default=FILES, help="folder of what is prepared"
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--sanitizer", default="compute-sanitizer")
    parser.add_argument(
        "--jobs",
        type=int,
        default=8,
        help="processes at a time, of right kernels and under "
        "compute-sanitizer",
    )
    add_budget_option(parser, "what still runs is ended")
    options = parser.parse_args(arguments)
    return steps[options.step](options)


if __name__ == "__main__":
    sys.exit(main())
