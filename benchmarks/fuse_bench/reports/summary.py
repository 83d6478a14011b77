# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the summary of raw results, benchmarks/results/*.json.

    python3 -m fuse_bench.reports.summary [--raw FOLDER]

A raw file that the folder has replaces its section of the summary; all other
sections stay. From the summary, `fuse_bench.reports.tables` writes the pages of
docs/performance, and `fuse_bench.reports.stale` asks the compiler whether it
still makes the kernels that were measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.environment import RAW, ROOT, SUMMARY, existing
from .condense import CONDENSE, Data, provenance

#: Hexadecimal digits of a digest that the summary keeps. Two different kernels
#: of one name have the same 32 bits with a probability of 2e-10.
DIGEST_DIGITS = 8
KERNELS = "kernels.json"


@dataclass(frozen=True)
class Section:
    """A section of the summary and the raw file that it is made of."""

    page: str
    name: str
    source: str
    kind: str
    command: str


def _section(
    page: str, name: str, source: str, command: str, kind: str = ""
) -> Section:
    return Section(page, name, f"{source}.json", kind or name, command)


_SUITE = "python3 -m fuse_bench.suites."
_TRIALS = (
    "fuse-fuzz --emit; fuse-device-run test; fuse_bench.reports.reliability"
)
SECTIONS = (
    _section("h200", "mlp", "mlp-h200", f"{_SUITE}mlp_gpus"),
    _section(
        "h200",
        "again",
        "mlp-again-h200",
        f"{_SUITE}mlp_gpus --again REGEX",
        "mlp",
    ),
    _section("h200", "product", "product-h200", f"{_SUITE}check_all"),
    _section("h200", "row_kernels", "rows-h200", f"{_SUITE}rows"),
    _section("h200", "sweep", "sweep-h200", f"{_SUITE}sweep"),
    _section(
        "h200",
        "other_chip",
        "other-chip-h200",
        f"{_SUITE}sweep --chip=sm_89",
    ),
    _section("h200", "ranks", "ranks-h200", f"{_SUITE}ranks"),
    _section("h200", "moe", "moe-h200", f"{_SUITE}moe"),
    _section("h200", "e2e", "e2e-h200", f"{_SUITE}e2e"),
    _section(
        "h200", "architectures", "architectures-h200", f"{_SUITE}architectures"
    ),
    _section("h200", "slots", "slot-kernels-h200", f"{_SUITE}slots"),
    _section("h200", "float8", "float8-h200", f"{_SUITE}float8"),
    _section("h200", "soak", "soak-h200", f"{_SUITE}soak"),
    _section(
        "h200",
        "external_kernel",
        "external-kernel-h200",
        f"{_SUITE}external_kernel",
    ),
    _section(
        "h200",
        "host_gpu",
        "host-h200",
        f"benchmarks/host/launch.cpp, devices.cpp; {_SUITE}host_orders",
    ),
    _section("h200", "tuning", "tuning-h200", "fuse-tune"),
    _section(
        "h200", "tuning_chains", "tuning-chains-h200", "fuse-tune", "tuning"
    ),
    _section("h200", "random_modules", "reliability-h200", _TRIALS),
    _section(
        "h200",
        "random_schedules",
        "reliability-schedules-h200",
        _TRIALS,
        "random_modules",
    ),
    _section(
        "h200",
        "random_strata",
        "reliability-strata-h200",
        _TRIALS,
        "random_modules",
    ),
    _section("h100", "mlp", "mlp-h100", f"{_SUITE}mlp_gpus"),
    _section("h100", "emulator", "emulator-h100", f"{_SUITE}emulator"),
    _section("h100", "faster_gpu", "faster-gpu-h100", f"{_SUITE}faster_gpu"),
    _section("h200", "eager", "eager-h200", f"{_SUITE}eager"),
    _section("h100", "eager", "eager-h100", f"{_SUITE}eager"),
    _section("cpu", "eager", "eager-cpu", f"{_SUITE}eager --device=cpu"),
    _section("cpu", "host_cpu", "host-cpu", f"{_SUITE}host_cpu"),
    _section("cpu", "models_cpu", "models-cpu", f"{_SUITE}models_cpu"),
    _section("cpu", "memory", "memory-cpu", f"{_SUITE}memory"),
    _section("cpu", "accuracy", "accuracy", f"{_SUITE}accuracy"),
    _section(
        "cpu", "host_compile", "host-compile", "benchmarks/host/compile.cpp"
    ),
    _section(
        "cpu", "module_scaling", "module-scaling", f"{_SUITE}module_scaling"
    ),
    _section(
        "cpu",
        "sum_error",
        "sum-error",
        "python3 -m fuse_bench.reference.sum_error",
    ),
    _section(
        "cpu", "architectures", "architectures-cpu", f"{_SUITE}architectures"
    ),
    _section("cpu", "commands", "commands", f"{_SUITE}commands"),
)
PAGES = tuple(dict.fromkeys(section.page for section in SECTIONS))


def read(page: str, folder: Path = SUMMARY) -> dict[str, Data]:
    """The sections of one file of the summary by name."""
    path = folder / f"{page}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _has_rows(value: object) -> bool:
    return isinstance(value, dict) and (
        "rows" in value or any(map(_has_rows, value.values()))
    )


def layout(value: object, indent: int = 0) -> str:
    """JSON with an entry of a section, and a row of a table, on each line, so
    that differences are readable."""
    pad = " " * (indent + 1)
    if isinstance(value, dict) and (
        indent < 2
        and any(isinstance(each, (dict, list)) for each in value.values())
        or _has_rows(value)
    ):
        inside = ",\n".join(
            f"{pad}{_text(name)}: {layout(each, indent + 1)}"
            for name, each in value.items()
        )
        return "{\n" + inside + "\n" + " " * indent + "}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        # Indented, thousands of rows would be a tenth larger.
        return "[\n" + ",\n".join(map(_text, value)) + "\n]"
    return _text(value)


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Writes a file of the summary atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(layout(data) + "\n")
    os.replace(partial, path)


def commit_date(commit: str) -> str:
    """The day of a commit; empty if the history lacks the commit."""
    name = commit.split(",")[0].removesuffix("-dirty")
    done = subprocess.run(
        ["git", "-C", str(ROOT), "show", "-s", "--format=%cs", name],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def summarize(section: Section, raw: Data) -> Data:
    """One section of the summary.

    Its date is that of the run, or of the commit if the raw file has no date.
    """
    head = provenance(raw)
    if "date" not in head and "commit" in head:
        date = commit_date(head["commit"])
        head |= {"commit_date": date} if date else {}
    return {
        "source": section.source,
        "command": section.command,
        **head,
        **CONDENSE[section.kind](raw),
    }


def kernels(sources: Mapping[str, Data]) -> Data:
    """Digests of the kernels that rows and checks of raw files are of.

    A kernel has its digest and the numbers of its rows and checks.

    Raises:
        ValueError: two rows of one kernel have different digests.
    """
    # Imported here, because making lists of all cases lasts a second.
    from .stale import kernel_of

    table: dict[str, dict[str, list[Any]]] = {}
    for raw in sources.values():
        for row in [
            *raw.get("rows", []),
            *raw.get("checks", []),
            *raw.get("kernels", []),
        ]:
            name = kernel_of(row)
            if not name:
                continue
            digest = row.get("digest", "")[:DIGEST_DIGITS]
            label, _, tile = name.rpartition("-t")
            known = table.setdefault(label, {}).setdefault(tile, [digest, 0, 0])
            if known[0] != digest:
                raise ValueError(
                    f"kernel '{name}' has the digests {known[0]} and {digest}"
                )
            known[1 + ("case" in row)] += len(row.get("tokens", [0]))
    return {
        "sources": list(sources),
        "columns": ["digest", "rows", "checks"],
        "kernels": {
            label: {tile: tiles[tile] for tile in sorted(tiles, key=int)}
            for label, tiles in sorted(table.items())
        },
    }


#: Files whose rows carry digests of kernels.
DIGESTED = (
    "mlp-h200.json",
    "mlp-again-h200.json",
    "product-h200.json",
    "mlp-h100.json",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fuse_bench.reports.summary", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--raw",
        type=existing,
        default=RAW,
        help="folder of raw results (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=SUMMARY,
        help="folder of the summary (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    found = {
        section.source: options.raw / section.source
        for section in SECTIONS
        if (options.raw / section.source).exists()
    }
    if not found:
        parser.error(
            f"no raw results in {options.raw}: expected files such "
            f"as {SECTIONS[0].source}"
        )
    raw = {name: json.loads(path.read_text()) for name, path in found.items()}
    for page in PAGES:
        before = read(page, options.output)
        sections = {
            section.name: summarize(section, raw[section.source])
            if section.source in raw
            else before[section.name]
            for section in SECTIONS
            if section.page == page
            and (section.source in raw or section.name in before)
        }
        write(options.output / f"{page}.json", sections)
    digested = {name: raw[name] for name in DIGESTED if name in raw}
    if len(digested) == len(DIGESTED):
        write(options.output / KERNELS, kernels(digested))
    elif digested:
        print(
            f"{KERNELS} stays as it was: it needs all of {', '.join(DIGESTED)}"
        )
    size = sum(path.stat().st_size for path in options.output.glob("*.json"))
    print(
        f"{options.output}: {len(found)} raw files, {size / 1000:.0f} KB in all"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
