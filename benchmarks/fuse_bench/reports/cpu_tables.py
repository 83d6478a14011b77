# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of measurements on CPUs."""

from __future__ import annotations

from .condense import records
from .markdown import Section, number, significant, table

_PEERS = ("eager", "compile", "compile-max-autotune", "compile-frozen")
_RUNS = (
    "before, all",
    "all, all",
    "all, default",
    "avx512-bf16, all",
    "avx512-bf16, default",
)


def host_cpu(section: Section) -> str:
    """MLPs compared with PyTorch, in milliseconds."""
    rows = []
    for row in sorted(
        records(section),
        key=lambda row: (row["K"], row["dtype"] == "bf16", row["M"]),
    ):
        peers = [row["ms"].get(name) for name in _PEERS]
        ours = row["ms"]["fuse"]
        bound = "of_bandwidth" if row["M"] == 1 else "of_flops"
        rows.append(
            [
                row["model"],
                row["dtype"],
                row["M"],
                significant(ours),
                f"{100 * row[bound]:.0f} % of "
                + ("reading" if row["M"] == 1 else "multiplying"),
                *(significant(peer) if peer else None for peer in peers),
                number(
                    min(
                        ms
                        for system, ms in row["ms"].items()
                        if system != "fuse"
                    )
                    / ours,
                    2,
                ),
                number(row["compile_s"], 2),
            ]
        )
    return table(
        [
            "model",
            "type",
            "M",
            "fuse",
            "of the machine",
            "eager",
            "torch.compile",
            "max-autotune",
            "frozen",
            "ratio",
            "compile, s",
        ],
        rows,
    )


def models_cpu(section: Section) -> str:
    """The largest site of a layer: unfused → fused, in milliseconds."""
    places: dict[tuple[str, str], dict[str, str]] = {}
    for row in records(section):
        for m, (fused, unfused) in row["ms"].items():
            places.setdefault((row["case"], m), {})[
                f"{row['run']}, {row['system']}"
            ] = f"{significant(unfused)} → {significant(fused)}"
    return table(
        [
            "model",
            "rows",
            "before, all",
            "all",
            "default",
            "without AMX, all",
            "without AMX, default",
        ],
        (
            [*key, *(found.get(run) for run in _RUNS)]
            for key, found in places.items()
        ),
    )


def memory(section: Section) -> str:
    """Resident memory of a process, in MiB."""
    names = (
        "weights",
        "model",
        "with_compiler",
        "fused",
        "unfused",
        "fused_again",
        "unfused_again",
    )
    return table(
        [
            "model",
            "weights",
            "loaded",
            "with the compiler",
            "fused",
            "unfused",
            "fused again",
            "unfused again",
        ],
        (
            [row["case"], *(number(row[name], 0) for name in names)]
            for row in records(section)
        ),
    )


def host_compile(section: Section) -> str:
    """Milliseconds from the text of a block to its first results."""
    again = section["again"]["first_ms"]
    return table(
        [
            "target",
            "first in a process",
            "least",
            "most",
            "later",
            "of that compiling",
            f"first, commit {section['again']['commit']}",
        ],
        (
            [
                row["target"],
                *(
                    number(row[name], 0)
                    for name in (
                        "first_ms",
                        "least_ms",
                        "most_ms",
                        "later_ms",
                        "compile_ms",
                    )
                ),
                number(again.get(row["target"]), 0),
            ]
            for row in records(section)
        ),
    )


def module_scaling(section: Section) -> str:
    """Microseconds for each layer."""
    phases = section["phases"]
    return table(
        ["layers", *phases],
        (
            [
                f"{layers:,}",
                *(number(phases[name][index], 1) for name in phases),
            ]
            for index, layers in enumerate(section["layers"])
        ),
    )


def accuracy(section: Section) -> str:
    """Relative error against the unquantized block."""
    names = {"f8E4M3FN": "FP8", "i8": "INT8"}
    rows = list(records(section))
    variants = list(rows[0]["relative_l2"])
    return table(
        ["block", "type", "scales", *variants],
        (
            [
                row["shape"],
                names[row["storage"]],
                row["method"] + (", per channel" if row["per_channel"] else ""),
                *(number(row["relative_l2"].get(name), 4) for name in variants),
            ]
            for row in rows
        ),
    )


def sum_error(section: Section) -> str:
    """The part of their interval that sums of 8-bit products use."""
    return table(
        [
            "products",
            "sums",
            "of the interval, at most",
            "of the former interval, at most",
        ],
        (
            [
                f"{row['length']:,}",
                f"{row['sums']:,}",
                number(row["max_of_interval"], 2),
                number(row["max_of_fixed"], 2),
            ]
            for row in records(section)
        ),
    )
