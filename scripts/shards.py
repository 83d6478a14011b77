#!/usr/bin/env python3
# ===- shards.py - Run a random test in many processes --------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Divide the seeds of a random test among processes and add up the results.

    scripts/shards.py --seed 1000000 --until "5000 compared" --seconds 300 \\
        -- fuse-fuzz --orders=test,examples

Each process runs the command with `--seed`, `--count` and `--seconds`. Its last
line, such as `seeds 0 to 99: 40 compared, no failure`, is added to that of the
others. Failures are printed as they occur. The run ends once a sum reaches the
number of --until, or when the time is up. A process that is still running half
a minute later is killed, and its seeds are printed.

The exit status is 0 if no seed failed, every process printed its line and
--until was reached, and 1 otherwise.
"""

import argparse
import collections
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import threading
import time

SUMMARY = re.compile(r"^seeds (\d+) to (\d+): (.*)$", re.MULTILINE)
COUNT = re.compile(r"^(\d+) (.+)$")
# Time after the last seed has started for which a process may go on, in
# seconds. One seed may take a minute of processor time; most take less than a
# second.
GRACE = 30


class Totals:
    """Sums of the last lines of processes, by what they count."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.lock = threading.Lock()
        self.seeds = self.failures = self.broken = 0

    def add(self, first: int, last: int, text: str) -> None:
        """Adds a line such as `3 compared, 2 by bits, no failure`."""
        self.seeds += last - first + 1
        for part in text.split(", "):
            if match := COUNT.match(part):
                self.counts[match[2]] += int(match[1])
        self.failures = self.counts.get("failures", 0)

    def format(self) -> str:
        parts = [
            f"{number} {what}"
            for what, number in self.counts.items()
            if what != "failures"
        ]
        ending = f"{self.failures} failures" if self.failures else "no failure"
        return ", ".join([*parts, ending])


def run_shard(
    command: list[str], first: int, count: int, end: float, totals: Totals
) -> None:
    """Runs `count` seeds from `first` on and adds the result to `totals`."""
    left = end - time.monotonic()
    if left < 1:
        return
    seeds = f"seeds {first} to {first + count - 1}"
    process = subprocess.Popen(
        [
            *command,
            f"--seed={first}",
            f"--count={count}",
            f"--seconds={left:.0f}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    is_late = False
    try:
        output, _ = process.communicate(timeout=left + GRACE)
    except subprocess.TimeoutExpired:
        is_late = True
        # The seeds run in children of the process.
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    found = SUMMARY.search(output)
    with totals.lock:
        failed = process.returncode != 0 or found is None
        if found:
            totals.add(int(found[1]), int(found[2]), found[3])
        else:
            totals.broken += 1
        if failed:
            why = "too late" if is_late else f"status {process.returncode}"
            print(f"{seeds}: {why}\n{output}", flush=True)


def parse_until(text: str) -> tuple[int, str]:
    match = COUNT.match(text)
    if not match:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a number and a name, such as '5000 compared'"
        )
    return int(match[1]), match[2]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count(),
        metavar="N",
        help="processes at a time (default: one for each CPU)",
    )
    parser.add_argument(
        "--chunk",
        type=int,
        default=100,
        metavar="N",
        help="seeds of a process (default: 100)",
    )
    parser.add_argument(
        "--count",
        type=int,
        default=100000,
        metavar="N",
        help="seeds of all processes (default: 100000)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=3600,
        metavar="S",
        help="time after which no seed starts (default: 3600)",
    )
    parser.add_argument(
        "--until",
        type=parse_until,
        metavar='"N WHAT"',
        help="end once the sum of WHAT is N",
    )
    parser.add_argument(
        "command", nargs="+", metavar="COMMAND", help="the random test"
    )
    options = parser.parse_args(arguments)
    for name in ("jobs", "chunk", "count"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be positive")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    start = time.monotonic()
    end = start + options.seconds
    totals = Totals()

    def is_enough() -> bool:
        if not options.until:
            return False
        number, what = options.until
        return totals.counts[what] >= number

    def run(first: int) -> None:
        if not is_enough():
            count = min(options.chunk, options.seed + options.count - first)
            run_shard(options.command, first, count, end, totals)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        firsts = range(
            options.seed, options.seed + options.count, options.chunk
        )
        for done in [pool.submit(run, first) for first in firsts]:
            done.result()
    seconds = time.monotonic() - start
    print(
        f"{totals.seeds} seeds from {options.seed} in {seconds:.0f} s with "
        f"{options.jobs} processes: {totals.format()}"
    )
    if totals.broken:
        print(f"{totals.broken} processes without a result")
    is_short = bool(options.until) and not is_enough()
    if is_short:
        number, what = options.until
        print(f"expected {number} {what}")
    return int(bool(totals.failures or totals.broken or is_short))


if __name__ == "__main__":
    sys.exit(main())
