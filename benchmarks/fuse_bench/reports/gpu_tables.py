# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of the other measurements on GPUs."""

from __future__ import annotations

from typing import Any

from .condense import records
from .markdown import Section, number, significant, table

#: Ends of ranges of tokens, and the numbers after them.
BORDERS = (128, 129, 256, 257, 512, 513, 640, 641, 1024)
#: The names of experts' models.
EXPERTS = {
    "qwen3_moe": "Qwen3-30B-A3B",
    "mixtral": "Mixtral-8x7B",
    "olmoe": "OLMoE-1B-7B",
    "phimoe": "Phi-3.5-MoE",
}


def _dtype(name: str) -> str:
    return "FP8" if name in ("fp8", "f8E4M3FN") else name


def sweep(section: Section) -> str:
    """Time at borders of ranges, and the largest step between two numbers."""
    groups: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in records(section):
        groups.setdefault((row["K"], row["H"], row["dtype"]), {})[row["M"]] = (
            row["us"]
        )
    rows = []
    for (k, h, dtype), times in sorted(groups.items()):
        numbers = sorted(m for m in times if m >= 128)
        steps = {
            m: times[after] - times[m] for m, after in zip(numbers, numbers[1:])
        }
        largest = max(steps, key=lambda m: steps[m])
        rows.append(
            [
                f"{k}/{h}",
                _dtype(dtype),
                *(number(times.get(m), 1) for m in BORDERS),
                number((times[1024] - times[128]) / 7, 1),
                f"{steps[largest]:.1f}, after {largest}",
            ]
        )
    return table(
        [
            "K/H",
            "type",
            *(f"M = {m}" for m in BORDERS),
            "mean for 128 tokens more",
            "largest step",
        ],
        rows,
    )


def other_chip(section: Section) -> str:
    """Times of kernels for another chip, beside the library's products."""
    return table(
        [
            "K/H",
            "type",
            "M",
            "us",
            "over a read of the weights",
            "products of the library, us",
            "over products",
            "TFLOP/s",
        ],
        (
            [
                f"{row['K']}/{row['H']}",
                _dtype(row["dtype"]),
                row["M"],
                number(row["us"], 1),
                number(row["us"] / row["read_us"], 2),
                number(row["products_us"], 1),
                number(row["us"] / row["products_us"], 2),
                number(6e-6 * row["K"] * row["H"] * row["M"] / row["us"], 0),
            ]
            for row in records(section)
        ),
    )


def by_system(section: Section, digits: int = 1) -> str:
    """Microseconds, with a column for each system."""
    size, *systems = section["columns"]
    return table(
        [size, *systems],
        (
            [
                f"{row[size]:,}",
                *(
                    "-" if row[system] is None else number(row[system], digits)
                    for system in systems
                ),
            ]
            for row in records(section)
        ),
    )


def row_kernels(section: Section) -> str:
    """norm_quantize and act_quantize, compared with a copy of as many bytes."""
    return table(
        ["kernel", "M", "MB", "us", "copy, us", "rate over copy"],
        (
            [
                row["case"],
                row["M"],
                significant(row["mbytes"]),
                number(row["median_us"], 1),
                number(row["copy_us"], 1),
                number(row["copy_us"] / row["median_us"], 2),
            ]
            for row in records(section)
            if row["mbytes"] > 8
        ),
    )


def moe(section: Section) -> str:
    """Experts, compared with grouped and batched products."""
    systems = (
        "fused",
        "kernel",
        "grouped_mm",
        "batched_mm",
        "compiled grouped_mm",
    )
    return table(
        [
            "experts",
            "M",
            "active",
            "fused",
            "kernel",
            "grouped",
            "batched",
            "grouped, compiled",
        ],
        (
            [
                EXPERTS.get(row["experts"], row["experts"]),
                row["tokens"],
                row["active"],
                *(number(row["us"].get(system), 1) for system in systems),
            ]
            for row in records(section)
        ),
    )


def e2e(section: Section) -> str:
    """Steps of a whole model."""

    def cells(us: dict[str, float]) -> list[object]:
        return [
            number(us["unfused"], 0),
            *(
                cell
                for system in ("bf16", "fp8")
                for cell in (
                    number(us[system], 0),
                    number(us["unfused"] / us[system], 2),
                )
            ),
        ]

    return table(
        [
            "sequences",
            "other modules",
            "unfused, us",
            "fused bf16, us",
            "ratio",
            "fused static FP8, us",
            "ratio",
        ],
        (
            [
                row["sequences"],
                "torch.compile" if row["compiled"] else "eager",
                *cells(row["us"]),
            ]
            for row in records(section)
        ),
    )


def architectures(section: Section) -> str:
    """Models that have to stay right."""

    def tokens(row: dict[str, Any]) -> str:
        if not row["tokens"]:
            return "-"
        return f"{row['tokens']}, " + (
            "equal" if row["tokens_equal"] else "others"
        )

    return table(
        [
            "model type",
            "how",
            "sites",
            "kernels",
            "checks",
            "failed",
            "greedy tokens",
            "passed",
        ],
        (
            [
                f"`{row['architecture']}`",
                row["how"],
                row["sites"],
                ", ".join(row["families"] or []),
                row["checks"],
                row["failed"],
                tokens(row),
                "yes" if row["passed"] else "no",
            ]
            for row in records(section)
        ),
    )


def slots(section: Section) -> str:
    """Registered kernels, compared with their eager bodies."""
    return table(
        [
            "op",
            "variant",
            "cases",
            "tokens",
            "right",
            "wrong variant fails",
            "largest difference",
        ],
        (
            [
                row["op"],
                row["variant"],
                row["cases"],
                f"{row['tokens'][0]} to {row['tokens'][1]}",
                row["right"],
                row["separates"],
                f"{row['largest']:.1e}",
            ]
            for row in records(section)
        ),
    )


def float8(section: Section) -> str:
    """Conversions, all scales and orders in one row."""
    places: dict[tuple[str, ...], list[int]] = {}
    for row in records(section):
        key = (row["source"], row["target"], row["path"], row["against"])
        found = places.setdefault(key, [0, 0])
        found[0] += row["codes"]
        found[1] += row["mismatches"]
    return table(
        ["from", "to", "instructions", "compared with", "codes", "mismatches"],
        (
            [*key, f"{codes:,}", mismatches]
            for key, (codes, mismatches) in places.items()
        ),
    )


def host_launch(section: Section) -> str:
    """Host time of a launch through the runtime library."""
    return table(
        [
            "artifact",
            "M",
            "load, ms",
            "prepare, ms",
            "host, us",
            "in a graph, us",
            "in a chain, us",
        ],
        (
            [
                row["file"],
                row["tokens"],
                significant(row["load_ms"]),
                significant(row["prepare_ms"]),
                number(row["host_us"], 2),
                number(row["graph_us"], 1),
                number(row["chain_us"], 1),
            ]
            for row in records(section)
        ),
    )


def external_kernel(section: Section) -> str:
    """A hand-written kernel next to generated ones."""
    return table(
        [
            "function",
            "M",
            "tolerance",
            "to the eager body",
            "wrong variant",
            "right",
        ],
        (
            [
                row["function"],
                row["tokens"],
                f"{row['tolerance']:.0e}",
                f"{row['to_eager_body_on_gpu']:.1e}",
                f"{row['wrong_variant']:.2g}",
                "yes" if row["right"] else "no",
            ]
            for row in records(section)
        ),
    )


def tuning(section: Section) -> str:
    """The cost model's choice, compared with the fastest measured schedule."""
    return table(
        [
            "K/H",
            "type",
            "M",
            "protocol",
            "candidates",
            "model's choice, us",
            "fastest, us",
            "ratio",
            "fields that differ",
        ],
        (
            [
                f"{row['K']}/{row['H']}",
                _dtype(row["dtype"]),
                row["M"],
                row["protocol"],
                row["candidates"],
                number(row["choice_us"], 1),
                number(row["fastest_us"], 1),
                number(row["choice_us"] / row["fastest_us"], 3),
                ", ".join(f"`{change}`" for change in row["change"].split(", "))
                if row["change"] != "nothing"
                else "-",
            ]
            for row in records(section)
        ),
    )


def distances(section: Section) -> str:
    """How far the results of random modules are from the CPU's, in units in
    the last place."""
    bounds = {"equal": 1, "within 1": 2, "within 3": 4, "within 15": 16}

    def near(counts: dict[int, int], bound: int) -> int:
        return sum(count for place, count in counts.items() if place <= bound)

    rows = []
    for name, places in section["ulps"].items():
        counts = {int(place[1:]): count for place, count in places.items()}
        total = sum(counts.values())
        rows.append(
            [
                f"`{name}`",
                f"{total:,}",
                *(
                    f"{100 * near(counts, bound) / total:.4f} %"
                    for bound in bounds.values()
                ),
                number(section["ratio"][name]["max"], 3),
            ]
        )
    return table(["type", "finite values", *bounds, "part of the bound"], rows)


def sanitizers(section: Section) -> str:
    """Reports of compute-sanitizer on random modules."""
    return table(
        ["tool", "cases", "ok", "summary"],
        (
            [name, found["cases"], found["ok"], found["summary"]]
            for name, found in section["sanitizers"].items()
        ),
    )


#: Parts of a call in the order of the table, and what each does.
_PARTS = {
    "F.linear": "one linear of the same widths, for comparison",
    "unfused": "norm and MLP by PyTorch",
    "fused": "the same two modules, fused",
    "first place": "of that, the module in place of the norm",
    "call object": "of that, the extension",
    "modes of PyTorch": "autocast, modes, tracing, the profiler",
    "modules": "children, attributes, hooks and forwards of the members",
    "result": "`torch.empty_like`",
    "launch": "views of tensors, workspace, launches",
}


def call_parts(section: Section) -> str:
    """Microseconds of the host for one call and its parts."""
    parts = section["parts_us"]
    return table(
        ["part", "us", "content"],
        [
            [name, number(parts[name], 1), content]
            for name, content in _PARTS.items()
        ],
    )


def eager_models(section: Section) -> str:
    """A forward and `generate` of copies of a decoder."""
    ways = (
        ("forward_ms", "forward with one token, ms", 1),
        ("tokens_per_s", "`generate`, tokens/s", 1),
    )
    rows = []
    # Earlier runs have no copy with fused MLPs alone.
    titles = {
        copy: title
        for copy, title in (
            ("unfused", "unfused"),
            ("mlps", "MLPs fused"),
            ("fused", "fused"),
            ("nothing", "no MLPs"),
        )
        if copy in section["forward_ms"]
    }
    for key, name, digits in ways:
        times = section[key]
        rows.append(
            [
                name,
                *(number(times[copy], digits) for copy in titles),
                number(times["fused"] / times["unfused"], 2),
            ]
        )
    return table(["", *titles.values(), "fused / unfused"], rows)


def ready(section: Section) -> str:
    """Seconds until fused models are ready, in two processes."""
    return table(
        ["function", "process", "function, s", "1 row, s", "33 rows", "512"],
        [
            [
                f"`{row['way']}`",
                row["process"],
                *(significant(second) for second in row["seconds"]),
            ]
            for row in records(section)
            if not row["way"].startswith("compile")
        ],
    )


def first_token(section: Section) -> str:
    """Seconds until the first token of a model under torch.compile."""
    names = {"compile": "unfused", "compile_fused": "fused"}
    return table(
        ["model", "process", "fusing, s", "compiling and first call, s"],
        [
            [
                names[row["way"]],
                row["process"],
                *(significant(second) for second in row["seconds"]),
            ]
            for row in records(section)
            if row["way"] in names
        ],
    )


def faster_gpu(section: Section) -> str:
    """Models that are fused by default: milliseconds unfused and fused."""
    rows = []
    for row in records(section):
        for name, (unfused, fused) in row["times"].items():
            way, m = name.split()
            rows.append(
                [
                    row["case"],
                    f"{row['fused']} of {row['fused'] + row['refused']}",
                    "CUDA graph" if way == "graph" else way,
                    m,
                    significant(unfused),
                    significant(fused),
                    number(unfused / fused, 2),
                ]
            )
    return table(
        [
            "model",
            "fused sites",
            "calls",
            "rows",
            "unfused, ms",
            "fused, ms",
            "ratio",
        ],
        rows,
    )


def emulator_paths(section: Section) -> str:
    """Values of the emulator, compared with those of the GPU."""
    return table(
        [
            "path",
            "operands",
            "results",
            "equal results",
            "values",
            "values that differ",
            "outside of the contract",
        ],
        (
            [
                row["path"],
                row["operands"],
                row["results"],
                row["equal_results"],
                f"{row['values']:,}",
                f"{row['different']:,}",
                row["outside"],
            ]
            for row in records(section["paths"])
        ),
    )


def emulator_mistakes(section: Section) -> str:
    """Which tool finds which mistake in a kernel."""
    return "\n".join(section["mistakes"])
