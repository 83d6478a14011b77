# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums up results of random modules on a GPU.

    fuse-fuzz --emit=out/bundles --count=1000 [--stratum=scheduled]
    fuse-device-run test out/bundles/*.bundle -o outcomes.json --soak=600   # GPU
    python3 -m fuse_bench.reports.reliability outcomes*.json --sanitizer logs

writes out/results/reliability-h200.json. `logs` has files per tool of
compute-sanitizer, called `<tool>.log` or `<tool>.<anything>.log`, with what it
and `fuse-device-run test --in-process` printed. Cases that name their stratum
are also counted by stratum.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..common.environment import RAW, existing

RESULTS = RAW / "reliability-h200.json"
TOOLS = ("memcheck", "racecheck", "initcheck", "initcheck-kept", "synccheck")


def sum_up(outcomes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts by path, how much is bit-equal, and the largest deviations."""
    modules: set[str] = set()
    paths: dict[str, Counter[str]] = defaultdict(Counter)
    strata: dict[str, Counter[str]] = defaultdict(Counter)
    values: Counter[str] = Counter()
    worst: dict[str, dict[str, float]] = {}
    ulps: dict[str, Counter[str]] = defaultdict(Counter)
    ratios: dict[str, list[float]] = defaultdict(list)
    failures = []
    seen = set()
    for outcome in outcomes:
        for case in outcome["cases"]:
            # A soak begins with the checks of its cases.
            if (case["name"], case["path"]) in seen:
                continue
            seen.add((case["name"], case["path"]))
            modules.add(case["name"].split("@")[0])
            paths[case["path"]][case["status"]] += 1
            if "stratum" in case:
                strata[case["stratum"]][f"{case['path']} {case['status']}"] += 1
            if case["status"] != "ok":
                failures.append(
                    {
                        key: case[key]
                        for key in ("name", "path", "status", "detail")
                        if key in case
                    }
                )
            for result in case.get("results", []):
                equal = result["different"] == 0
                values["results"] += 1
                values["results_bit_equal"] += equal
                values["values"] += result["values"]
                values["values_different"] += result["different"]
                values["values_outside_contract"] += result["outside"]
                if case["status"] == "ok":
                    most = worst.setdefault(
                        result["type"], {"energy": 0.0, "element": 0.0}
                    )
                    for key in most:
                        most[key] = max(most[key], result[key])
                    ratios[result["type"]].append(result["ratio"])
                    for place, count in enumerate(result["ulps"]):
                        # None, 1, below 4, below 8 and so on.
                        ulps[result["type"]][f"<{2**place}"] += count
    return {
        "modules": len(modules),
        "cases": {path: dict(counts) for path, counts in paths.items()},
        **(
            {"strata": {name: dict(counts) for name, counts in strata.items()}}
            if strata
            else {}
        ),
        **values,
        "worst": worst,
        "ulps": {
            name: {place: count for place, count in counts.items() if count}
            for name, counts in ulps.items()
        },
        # Fraction of the allowed error that was measured, by result.
        "ratio": {
            name: {
                "median": statistics.median(found),
                "p99": sorted(found)[len(found) * 99 // 100],
                "max": max(found),
            }
            for name, found in ratios.items()
        },
        "failures": failures,
    }


def read_sanitizer(folder: Path) -> dict[str, Any]:
    """The report of each tool: cases that ran, and number of errors."""
    tools = {}
    for tool in TOOLS:
        summaries, cases, good = [], 0, 0
        for path in sorted(
            [*folder.glob(f"{tool}.log"), *folder.glob(f"{tool}.*.log")]
        ):
            text = path.read_text(errors="replace")
            # A line about omitted errors may follow.
            summary = re.findall(
                r"=+ (?:ERROR|RACECHECK) SUMMARY: "
                r"(\d+ (?:errors?$|hazards? .*))",
                text,
                re.MULTILINE,
            )
            ran = re.search(r"(\d+) cases, (\d+) ok", text)
            summaries.append(summary[-1] if summary else "none")
            cases += int(ran.group(1)) if ran else 0
            good += int(ran.group(2)) if ran else 0
        if summaries:
            tools[tool] = {
                "summary": ", ".join(
                    text if count == 1 else f"{count} times {text}"
                    for text, count in Counter(summaries).items()
                ),
                "cases": cases,
                "ok": good,
            }
    return tools


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.reports.reliability",
        description=__doc__.split("\n")[0],
    )
    parser.add_argument("outcomes", nargs="+", type=existing)
    parser.add_argument("--sanitizer", type=Path, help="folder of logs")
    parser.add_argument(
        "--note",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="something to keep with the "
        "results, such as the commit that was compiled",
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    outcomes = [json.loads(path.read_text()) for path in options.outcomes]
    report: dict[str, Any] = {
        "device": outcomes[0]["device"],
        **dict(note.split("=", 1) for note in options.note),
        "random_modules": sum_up(outcomes),
    }
    soaks = [outcome["soak"] for outcome in outcomes if "soak" in outcome]
    if soaks:
        report["soak"] = soaks
    if options.sanitizer:
        report["compute_sanitizer"] = read_sanitizer(options.sanitizer)
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
