# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The summary of each kind of raw results.

A function here receives the content of a raw file and returns the part of it
that tables, plots and comparisons read. Rows are lists in the order of
`columns`, so that the file stays small; `records` turns them into dictionaries.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from ..common.results import LIBRARY, Row, best_peer

Data = dict[str, Any]
_PACKAGES = (
    "torch",
    "cuda",
    "triton",
    "transformers",
    "python",
    "compute-sanitizer",
)


def columnar(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> Data:
    """Rows as lists in the order of `columns`.

    >>> columnar(["M", "us"], [{"M": 1, "us": 2.0}, {"M": 8}])
    {'columns': ['M', 'us'], 'rows': [[1, 2.0], [8, None]]}
    """
    return {
        "columns": list(columns),
        "rows": [[row.get(name) for name in columns] for row in rows],
    }


def records(section: Mapping[str, Any]) -> list[Row]:
    """The rows of `columnar` as dictionaries.

    >>> records({"columns": ["M", "us"], "rows": [[1, 2.0]]})
    [{'M': 1, 'us': 2.0}]
    """
    return [dict(zip(section["columns"], row)) for row in section["rows"]]


def rounded(value: float, digits: int = 4) -> float:
    """`value` with `digits` significant digits."""
    return float(f"{value:.{digits}g}")


def versions(sources: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Versions of packages by name; the first source that has one counts."""
    found: dict[str, str] = {}
    for source in sources:
        more = source.get("versions")
        for name, version in {
            **source,
            **(more if isinstance(more, dict) else {}),
        }.items():
            if name in _PACKAGES and isinstance(version, str):
                found.setdefault(name, version)
    return found


def provenance(raw: Mapping[str, Any]) -> Data:
    """Device, driver, clocks, versions, commit and date of a raw file, where
    it has them."""
    state = raw.get("state") or raw.get("device")
    state = state if isinstance(state, dict) else {}
    environment = raw.get("environment") or {}
    runs = raw.get("runs")
    runs = (
        [run for run in runs if isinstance(run, dict)]
        if isinstance(runs, list)
        else []
    )
    rows = [
        row
        for row in (raw.get("rows") or raw.get("kernels") or [])
        if isinstance(row, dict)
    ]
    clocks = raw.get("clocks") or {
        name: state[f"clocks.{name}"]
        for name in ("sm", "mem")
        if f"clocks.{name}" in state
    }
    commits = [
        source["commit"]
        for source in (raw, environment, *runs, *rows)
        if source.get("commit")
    ]
    dates = sorted({str(row["run"])[:10] for row in rows if "run" in row})
    device = (
        raw.get("gpu")
        or raw.get("cpu")
        or raw.get("device")
        or environment.get("device")
        or next((run["cpu"] for run in runs if "cpu" in run), "")
    )
    if isinstance(device, dict):
        device = device.get("name", "")
    found = {
        "device": device,
        "driver": raw.get("driver")
        or state.get("driver_version")
        or state.get("driver"),
        "clocks": clocks,
        "versions": versions([raw, environment, *runs]),
        "commit": ", ".join(dict.fromkeys(commits))
        if len(set(commits)) < 4
        else commits[0],
        "date": raw.get("date")
        or " to ".join(dict.fromkeys(dates[:1] + dates[-1:])),
    }
    return {name: value for name, value in found.items() if value}


def system_name(row: Row) -> str:
    """A system and its scales, which are static unless the name tells."""
    return (
        f"{row['system']} dynamic"
        if row.get("scales") == "dynamic"
        else str(row["system"])
    )


#: A width and number of hidden units has one activation.
_PLACE = ("K", "H", "dtype", "M")
#: Columns of each protocol: those of our row, then those of the group.
MLP_COLUMNS = {
    "single": (
        *_PLACE,
        "floor_us",
        "tensor_us",
        "sm_mhz",
        "peer",
        "over",
        "us",
    ),
    "chain": (*_PLACE, "floor_us", "peer", "over", "us"),
    "sustained": (
        *_PLACE,
        "tensor_us",
        "rounds",
        "sm_mhz",
        "power_w",
        "peer",
        "over",
        "peer_mhz",
        "peer_w",
        "us",
    ),
}


def _mlp_row(group: Sequence[Row]) -> Row:
    """The systems that were measured side by side as one row."""
    ours = next((row for row in group if row["system"] == "fuse"), {})
    # Scales that are dynamic are more work.
    peer = (
        best_peer(
            [row for row in group if row.get("scales") != "dynamic"], ours
        )
        or {}
    )
    over = [peer.get("over_fuse"), *peer.get("over_fuse_95", [])]
    return {
        **group[0],
        **{
            name: ours.get(name)
            for name in ("floor_us", "tensor_us", "rounds", "sm_mhz", "power_w")
        },
        "peer": peer.get("system"),
        "over": over if over[0] else None,
        "peer_mhz": peer.get("sm_mhz"),
        "peer_w": peer.get("power_w"),
        "us": {
            system_name(row): row["median_us"]
            for row in group
            if row.get("median_us")
        },
    }


def mlp(raw: Data) -> Data:
    """For each protocol, a row for each block, type and number of tokens: the
    medians of all systems, and the fastest peer of the same scales."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in raw["rows"]:
        groups[(row["protocol"], *(row[name] for name in _PLACE))].append(row)
    ordered = sorted(
        groups.items(),
        key=lambda item: tuple(str(part).rjust(8) for part in item[0]),
    )
    tables = {
        protocol: columnar(
            columns,
            (_mlp_row(group) for key, group in ordered if key[0] == protocol),
        )
        for protocol, columns in MLP_COLUMNS.items()
    }
    return {
        "gpus": raw["gpus"],
        "checks": count_checks(raw.get("checks", [])),
        **(
            {
                "memcheck": {
                    name: raw["compute_sanitizer"][name]
                    for name in ("kernels", "checks", "errors")
                }
            }
            if "compute_sanitizer" in raw
            else {}
        ),
        "tuned": tuned(raw),
        **tables,
    }


def tuned(raw: Data) -> Data:
    """Of the products that PyTorch tuned: for how many it chose the library's
    kernel."""
    products = raw.get("tuned", {}).get("products", [])
    return {
        dtype: [
            sum("mm_" not in product["chosen"] for product in mine),
            len(mine),
        ]
        for dtype in sorted({product["dtype"] for product in products})
        for mine in [
            [product for product in products if product["dtype"] == dtype]
        ]
    }


def count_checks(checks: Sequence[Row]) -> Data:
    """How many checks pass, of how many kernels, and the launches of each."""
    if not checks:
        return {}
    return {
        "checks": sum(len(row.get("tokens", [0])) for row in checks),
        "passed": sum(
            len(row.get("tokens", [0])) for row in checks if row["ok"]
        ),
        "kernels": len({(row["case"], row["tile"]) for row in checks}),
        "launches": min(row["repeats"] for row in checks),
        # Relaxed kernels have a limit of the norm alone.
        "outside": sum(
            row.get(f"{name}_outside", 0)
            for row in checks
            if "relaxed" not in row["case"]
            for name in ("input", "hidden", "out")
        ),
        "differing": sum(row["differing_repeats"] for row in checks),
    }


def product(raw: Data) -> Data:
    return {"checks": count_checks(raw["kernels"])}


def row_kernels(raw: Data) -> Data:
    """norm_linear, norm_quantize and act_quantize, compared with a copy."""
    return {
        "checks": len(raw["rows"]),
        "passed": sum(row["ok"] for row in raw["rows"]),
        "kernels": len({row["case"] for row in raw["rows"]}),
        **columnar(
            ("case", "M", "mbytes", "median_us", "copy_us"),
            (row for row in raw["rows"] if row.get("copy_us")),
        ),
    }


def sweep(raw: Data) -> Data:
    """Time by number of tokens: the kernel that the launch picks, and the
    library's products."""
    places: dict[tuple[Any, ...], Row] = {}
    for row in raw["rows"]:
        key = tuple(row[name] for name in ("K", "H", "dtype", "M"))
        place = places.setdefault(
            key,
            {
                "K": row["K"],
                "H": row["H"],
                "dtype": row["dtype"],
                "M": row["M"],
            },
        )
        if row["system"] == "fuse":
            place |= {"range": row["range"], "us": row["median_us"]}
        elif row["system"] == LIBRARY:
            place["products_us"] = row["median_us"]
    checks = raw["checks"]
    return {
        "protocol": raw["protocol"],
        "checks": len(checks),
        "passed": sum(row["ok"] for row in checks),
        **columnar(
            ("K", "H", "dtype", "M", "range", "us", "products_us"),
            places.values(),
        ),
    }


def other_chip(raw: Data) -> Data:
    """Kernels for another chip, and a read of the weights."""
    read = {
        (row["K"], row["H"], row["dtype"]): row["median_us"]
        for row in raw["rows"]
        if row["system"] == "read"
    }
    found = sweep(
        raw | {"rows": [row for row in raw["rows"] if row["system"] != "read"]}
    )
    rows = [
        row
        | {"us": rounded(row["us"]), "products_us": rounded(row["products_us"])}
        | {"read_us": rounded(read[row["K"], row["H"], row["dtype"]])}
        for row in records(found)
    ]
    return (
        found
        | {"chip": raw["chip"]}
        | columnar(
            ("K", "H", "dtype", "M", "us", "products_us", "read_us"), rows
        )
    )


def ranks(raw: Data) -> Data:
    """Tensor parallelism: blocks, models and sums by system."""
    rows = [row for row in raw["rows"] if "us" in row]
    checks = [row for row in raw["rows"] if "passed" in row]

    def part(name: str, size: str) -> Data:
        found: dict[int, dict[str, float]] = {}
        for row in rows:
            if row["part"] == name and row.get("dtype") != "float32":
                times = found.setdefault(row[size], {})
                times[row["system"]] = rounded(row["us"])
        systems = list(
            dict.fromkeys(s for each in found.values() for s in each)
        )
        return columnar(
            (size, *systems),
            ({size: key, **times} for key, times in found.items()),
        )

    sums = part("collectives", "bytes"), part("symmetric", "bytes")
    return {
        "ranks": raw["ranks"],
        "checks": len(checks),
        "passed": sum(row["passed"] for row in checks),
        "block": part("block", "M"),
        "model": part("model", "B"),
        "sums": columnar(
            dict.fromkeys((*sums[0]["columns"], *sums[1]["columns"])),
            (
                own | other
                for own, other in zip(records(sums[0]), records(sums[1]))
                if own["bytes"] == other["bytes"]
            ),
        ),
    }


def moe(raw: Data) -> Data:
    """Experts: time by model, number of tokens and system."""
    places: dict[tuple[Any, ...], Row] = {}
    for row in raw["rows"]:
        place = places.setdefault(
            (row["experts"], row["tokens"]),
            {
                "experts": row["experts"],
                "tokens": row["tokens"],
                "active": row["active"],
                "us": {},
            },
        )
        place["us"][row["system"]] = row["microseconds"]
    return columnar(("experts", "tokens", "active", "us"), places.values())


def e2e(raw: Data) -> Data:
    """Steps of a whole model: the least time of each way."""
    best: dict[tuple[Any, ...], float] = {}
    for step in raw["steps"]:
        key = (step["sequences"], step["compiled"], step["system"])
        best[key] = min(
            best.get(key, step["microseconds"]), step["microseconds"]
        )
    return {
        "model": raw["model"],
        **columnar(
            ("sequences", "compiled", "us"),
            (
                {
                    "sequences": count,
                    "compiled": compiled,
                    "us": {
                        system: rounded(us, 5)
                        for (n, c, system), us in best.items()
                        if (n, c) == (count, compiled)
                    },
                }
                for count, compiled in dict.fromkeys(key[:2] for key in best)
            ),
        ),
    }


def architectures(raw: Data) -> Data:
    """Models that have to stay right."""
    return columnar(
        (
            "architecture",
            "how",
            "sites",
            "families",
            "checks",
            "failed",
            "tokens",
            "tokens_equal",
            "unfused_identical",
            "passed",
        ),
        (
            {
                **row,
                "failed": len(row.get("failed") or []),
                "tokens": len(row.get("tokens") or []),
            }
            for row in raw["rows"]
        ),
    )


def slots(raw: Data) -> Data:
    """Registered kernels, compared with their eager bodies."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in raw["rows"]:
        groups[row["op"], row["variant"]].append(row)
    return columnar(
        ("op", "variant", "cases", "tokens", "right", "separates", "largest"),
        (
            {
                "op": op,
                "variant": variant,
                "cases": len(rows),
                "tokens": [
                    min(row["tokens"] for row in rows),
                    max(row["tokens"] for row in rows),
                ],
                "right": sum(
                    row["right"] and not row["differing_repeats"]
                    for row in rows
                ),
                "separates": sum(row["separates"] for row in rows),
                "largest": rounded(
                    max(row["to_eager_body"]["largest"] for row in rows)
                ),
            }
            for (op, variant), rows in groups.items()
        ),
    )


def float8(raw: Data) -> Data:
    """Conversions: numbers of compared and of differing codes."""
    return columnar(
        (
            "source",
            "target",
            "scale",
            "order",
            "path",
            "against",
            "codes",
            "mismatches",
        ),
        raw["rows"],
    )


def soak(raw: Data) -> Data:
    rows = raw["rows"]
    return {
        "launches": raw["launches"],
        "layers": raw["layers"],
        "rows": len(rows),
        "ok": sum(row["ok"] for row in rows),
        "changed_rounds": sum(row["changed_rounds"] for row in rows),
        "kernels": len({(row["case"], row["tile"]) for row in rows}),
    }


def external_kernel(raw: Data) -> Data:
    return {
        "kernel": raw["kernel"],
        **columnar(
            (
                "function",
                "tokens",
                "tolerance",
                "to_eager_body_on_gpu",
                "wrong_variant",
                "right",
            ),
            raw["rows"],
        ),
    }


def host_gpu(raw: Data) -> Data:
    """Host time of a launch, and checks of embedding hosts."""
    checks = [
        *raw["checks"],
        *raw["in_process_checks"],
        *raw["streams"]["checks"],
    ]
    return {
        "checks": len(checks),
        "passed": sum(row["ok"] for row in checks),
        "devices": len(raw["devices"]["rows"]),
        "orders": [
            len(raw["orders"]["rows"]),
            sum(row["ok"] for row in raw["orders"]["rows"]),
        ],
        "exclusive": columnar(
            ("tokens", "graph_us", "chain_us", "exclusive_us"),
            raw["exclusive"]["rows"],
        ),
        **columnar(
            (
                "file",
                "tokens",
                "load_ms",
                "prepare_ms",
                "host_us",
                "graph_us",
                "chain_us",
            ),
            raw["launches"],
        ),
    }


def schedule_fields(text: str) -> dict[str, str]:
    """The fields of a schedule by name."""
    return dict(re.findall(r"(\w+) = (\w+)", text))


def schedule_change(schedule: str, other: str) -> str:
    """The fields of the second schedule that differ from the first."""
    before, after = map(schedule_fields, (schedule, other))
    return (
        ", ".join(
            f"{name} = {after[name]}" if name in after else f"no {name}"
            for name in {**before, **after}
            if before.get(name) != after.get(name)
        )
        or "nothing"
    )


def tuning(raw: Data) -> Data:
    """The cost model's choice, compared with the fastest measured schedule."""
    rows = []
    for run in raw.get("ops") or raw["runs"]:
        good = [each for each in run["candidates"] if each["status"] == "ok"]
        choice = run["candidates"][0]
        fastest = min(good, key=lambda each: each["median_us"])
        rows.append(
            {
                "K": run["widths"][0],
                "H": run["widths"][1],
                "dtype": run["element"],
                "M": run["measured_tokens"],
                "protocol": run.get("protocol", raw.get("protocol"))["name"],
                "candidates": len(run["candidates"]),
                "same": len(good),
                "choice_us": choice["median_us"],
                "fastest_us": fastest["median_us"],
                "change": schedule_change(
                    choice["schedule"], fastest["schedule"]
                ),
            }
        )
    return columnar(tuple(rows[0]), rows)


def random_modules(raw: Data) -> Data:
    """Results of random modules: counts, distances and sanitizers."""
    found = raw["random_modules"]
    kept = (
        "modules",
        "cases",
        "results",
        "results_bit_equal",
        "values",
        "values_different",
        "values_outside_contract",
        "ulps",
        "ratio",
    )
    return {
        **{name: found[name] for name in kept},
        "ratio": {
            name: {key: rounded(value) for key, value in ratio.items()}
            for name, ratio in found["ratio"].items()
        },
        "failures": len(found["failures"]),
        "soak_launches": sum(soak["launches"] for soak in raw.get("soak", [])),
        "sanitizers": raw.get("compute_sanitizer", {}),
    }


def eager(raw: Data) -> Data:
    """What a user of an eager model waits for."""
    found: Data = {
        "sizes": raw["sizes"],
        "parts_us": {n: rounded(v) for n, v in raw["parts_us"].items()},
        **columnar(
            ("way", "process", "seconds"),
            (
                row | {"seconds": [rounded(s) for s in row["seconds"]]}
                for row in raw["ready"]
            ),
        ),
    }
    for name in ("forward_ms", "tokens_per_s"):
        if name in raw:
            found[name] = {n: rounded(v) for n, v in raw[name].items()}
    return found


def faster_gpu(raw: Data) -> Data:
    """Models that are fused by default: both times, and the fused sites."""
    return {
        "unit": raw["unit"],
        **columnar(
            ("case", "fused", "refused", "times"),
            (
                {
                    "case": row["case"],
                    "fused": sum(site[0] == "fused" for site in row["sites"]),
                    "refused": sum(
                        site[0] == "refused" for site in row["sites"]
                    ),
                    "times": {
                        name: [rounded(value) for value in times]
                        for name, times in row.items()
                        if re.fullmatch(r"(eager|graph) \d+", name)
                    },
                }
                for row in raw["rows"]
            ),
        ),
    }


def emulator(raw: Data) -> Data:
    """The emulator compared with a GPU: equal bits, and found mistakes."""
    paths: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in raw["rows"]:
        bits = "8 bits" if row["operands"].startswith("f8") else "others"
        paths[row["path"], bits].update(
            {
                name: row[name]
                for name in (
                    "results",
                    "equal_results",
                    "values",
                    "different",
                    "outside",
                )
            }
        )
    # Imported here: the suite imports nothing of the reports.
    from ..suites.emulator import make_table

    return {
        "paths": columnar(
            (
                "path",
                "operands",
                "results",
                "equal_results",
                "values",
                "different",
                "outside",
            ),
            (
                {"path": path, "operands": bits, **counts}
                for (path, bits), counts in paths.items()
            ),
        ),
        "later": {
            "commit": raw["later"]["commit"],
            "values": sum(row["values"] for row in raw["later"]["rows"]),
            "different": sum(row["different"] for row in raw["later"]["rows"]),
        },
        "mistakes": make_table(raw).split("\n"),
    }


def host_cpu(raw: Data) -> Data:
    """MLPs on the CPU: time of each system, and part of the machine."""
    places: dict[tuple[Any, ...], Row] = {}
    for row in raw["rows"]:
        place = places.setdefault(
            (row["model"], row["dtype"], row["M"]),
            {name: row[name] for name in ("model", "K", "H", "dtype", "M")}
            | {"ms": {}},
        )
        place["ms"][row["system"]] = row["ms"]
        if row["system"] == "fuse":
            place |= {
                name: row[name]
                for name in ("compile_s", "of_bandwidth", "of_flops", "threads")
            }
    return {
        "ceilings": raw["ceilings"],
        **columnar(
            (
                "model",
                "K",
                "H",
                "dtype",
                "M",
                "threads",
                "of_bandwidth",
                "of_flops",
                "compile_s",
                "ms",
            ),
            places.values(),
        ),
    }


def models_cpu(raw: Data) -> Data:
    """Models on the CPU: the largest site of a layer, unfused and fused."""
    rows = []
    for run in raw["runs"]:
        label = run["label"] if run["label"] == "before" else run["isa"]
        for row in run["rows"]:
            for system, found in row["systems"].items():
                if "block" in found:
                    rows.append(
                        {
                            "case": row["case"],
                            "run": label,
                            "commit": run["commit"],
                            "system": system,
                            "ms": {
                                m: [rounded(ms) for ms in both]
                                for m, both in found["block"].items()
                            },
                        }
                    )
    return {
        "unit": raw["unit"],
        **columnar(("case", "run", "commit", "system", "ms"), rows),
    }


def memory(raw: Data) -> Data:
    return {
        "unit": raw["unit"],
        **columnar(
            (
                "case",
                "weights",
                "model",
                "with_compiler",
                "sites",
                "fused",
                "unfused",
                "fused_again",
                "unfused_again",
            ),
            (
                {
                    name: round(value) if isinstance(value, float) else value
                    for name, value in row.items()
                }
                for row in raw["rows"]
            ),
        ),
    }


def accuracy(raw: Data) -> Data:
    """The relative error of quantized blocks by the way scales are chosen."""
    return {
        "tokens": raw["environment"]["tokens"],
        **columnar(
            ("shape", "storage", "method", "per_channel", "relative_l2"),
            (
                {
                    **block,
                    "relative_l2": {
                        row["variant"]: rounded(row["relative_l2"])
                        for row in block["rows"]
                        if row["reference"] == "original"
                    },
                }
                for block in raw["blocks"]
            ),
        ),
    }


def host_compile(raw: Data) -> Data:
    """Milliseconds from the text of a block to its first results."""
    preset = raw["presets"]["release"]
    rows = []
    for step in preset["steps"]:
        firsts = [
            first
            for first, _ in preset["sum_wall_ms_of_each_process"][
                step["target"]
            ]
        ]
        rows.append(
            {
                "target": step["target"],
                "first_ms": step["sum_wall_ms"][0],
                "least_ms": min(firsts),
                "most_ms": max(firsts),
                "later_ms": step["sum_wall_ms"][1],
                "compile_ms": step["compile_wall_ms"][1],
            }
        )
    again = raw["again"]["release_sum_wall_ms_of_each_process"]
    return {
        "module": raw["module"],
        "again": {
            "commit": raw["again"]["commit"],
            "first_ms": {
                target: median(first for first, _ in found)
                for target, found in again.items()
            },
        },
        **columnar(tuple(rows[0]), rows),
    }


def module_scaling(raw: Data) -> Data:
    """Microseconds for each layer, by the number of layers."""
    return {
        "unit": raw["unit"],
        "runs": raw["runs"],
        "preset": raw["preset"],
        "layers": raw["layers"],
        "phases": raw["phases"],
        "other_runs": [
            {"layers": run["layers"], "total": run["phases"]["total"]}
            for run in raw["other_runs"]
        ],
    }


def sum_error(raw: Data) -> Data:
    """The part of their interval that sums of 8-bit products use."""
    places: dict[int, Row] = {}
    for row in raw["rows"]:
        place = places.setdefault(
            row["length"],
            {
                "length": row["length"],
                "sums": 0,
                "max_of_interval": 0.0,
                "max_of_fixed": 0.0,
            },
        )
        place["sums"] += row["sums"]
        for name in ("max_of_interval", "max_of_fixed"):
            place[name] = max(place[name], row[name])
    return columnar(
        ("length", "sums", "max_of_interval", "max_of_fixed"), places.values()
    )


def commands(raw: Data) -> Data:
    """The outcome of each command of `fuse_mlir` for each model.

    It is the index of its status, text and refusals in `ends`.
    """
    names = list(dict.fromkeys(row["command"] for row in raw["rows"]))
    ends: dict[tuple[Any, ...], int] = {}
    table: dict[str, dict[str, int]] = defaultdict(dict)
    for row in raw["rows"]:
        # A text that does not mention them is complete without them.
        refusals = (
            row["refusals"]
            if row["status"] == 0 and "refused" in row["says"]
            else []
        )
        key = (row["status"], row["says"], *refusals)
        table[row["model"]][row["command"]] = ends.setdefault(key, len(ends))
    return {
        "ends": [[status, text, refusals] for status, text, *refusals in ends],
        **columnar(
            ("model", *names),
            ({"model": model, **found} for model, found in table.items()),
        ),
    }


#: Functions by the name of their section.
CONDENSE: dict[str, Callable[[Data], Data]] = {
    function.__name__: function
    for function in (
        mlp,
        product,
        row_kernels,
        sweep,
        other_chip,
        ranks,
        moe,
        e2e,
        architectures,
        slots,
        float8,
        soak,
        external_kernel,
        host_gpu,
        tuning,
        random_modules,
        faster_gpu,
        eager,
        emulator,
        host_cpu,
        models_cpu,
        memory,
        accuracy,
        host_compile,
        module_scaling,
        sum_error,
        commands,
    )
}
