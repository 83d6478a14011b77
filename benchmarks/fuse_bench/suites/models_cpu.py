# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times models on the CPU: unfused, with all sites fused, and fused by default,
which omits slower sites.

Models have the widths of published ones, one or two layers and drawn weights.
A block is the largest site of a layer, a norm and its MLP where one kernel has
both; the model is measured whole as well. Calls of a system and of the model
as it is take turns, and the best of each counts.

There is one process for each setting of the instructions that libraries may
use. A package of another commit is measured by `--package` and `--library`:

    python3 -m fuse_bench.suites.models_cpu --output models-cpu.json
    python3 -m fuse_bench.suites.models_cpu --label before \\
        --output models-cpu.json --package OLD/python \\
        --library OLD/libfuse.so
    python3 -m fuse_bench.suites.models_cpu --table models-cpu.json
"""

from __future__ import annotations

import argparse
import gc
import inspect
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.environment import ROOT

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

    from fuse_mlir.matching.patterns import Patterns

ROWS = (1, 33, 257)
#: Environment of the processes, by the name of the setting.
ISAS: dict[str, dict[str, str]] = {
    "all": {},
    "avx512-bf16": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "FUSE_AMX": "0"},
}
#: Type of transformers, element type, settings; by the name of the case.
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "MiniLM f32": (
        "bert",
        "float32",
        {
            "hidden_size": 384,
            "intermediate_size": 1536,
            "num_hidden_layers": 6,
            "num_attention_heads": 12,
        },
    ),
    "MiniLM bf16": (
        "bert",
        "bfloat16",
        {
            "hidden_size": 384,
            "intermediate_size": 1536,
            "num_hidden_layers": 6,
            "num_attention_heads": 12,
        },
    ),
    "Qwen3-0.6B bf16": (
        "qwen3",
        "bfloat16",
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 2,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
    ),
    "Qwen3-0.6B f32": (
        "qwen3",
        "float32",
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 2,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
    ),
    "GPT-2 XL bf16": (
        "gpt2",
        "bfloat16",
        {"n_embd": 1600, "n_layer": 1, "n_head": 25},
    ),
    "Gemma3-4B bf16": (
        "gemma3_text",
        "bfloat16",
        {
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 1,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
        },
    ),
    "Phi-3-mini bf16": (
        "phi3",
        "bfloat16",
        {
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_hidden_layers": 1,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "pad_token_id": 0,
        },
    ),
    "Qwen3-30B-A3B bf16": (
        "qwen3_moe",
        "bfloat16",
        {
            "hidden_size": 2048,
            "moe_intermediate_size": 768,
            "num_hidden_layers": 1,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "num_experts": 128,
            "num_experts_per_tok": 8,
        },
    ),
    "Mistral-7B bf16": (
        "mistral",
        "bfloat16",
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 1,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
    ),
    "OLMo2-7B bf16": (
        "olmo2",
        "bfloat16",
        {
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 1,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
        },
    ),
    "Granite-8B bf16": (
        "granite",
        "bfloat16",
        {
            "hidden_size": 4096,
            "intermediate_size": 12800,
            "num_hidden_layers": 1,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        },
    ),
    "Command-R bf16": (
        "cohere",
        "bfloat16",
        {
            "hidden_size": 8192,
            "intermediate_size": 22528,
            "num_hidden_layers": 1,
            "num_attention_heads": 64,
            "num_key_value_heads": 64,
        },
    ),
}
EXPERTS = {(("*Experts", "**.experts"),): "fuse"}
#: Seconds that calls of one system with one number of rows take turns for,
#: and the least number of turns. Calls beyond LONG seconds have one turn.
TURNS, LEAST, LONG = 0.35, 3, 2.0

Call = Callable[[], object]


def build(case: str) -> PreTrainedModel:
    """A model with drawn weights, and norms that are not all ones."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    kind, dtype, settings = CASES[case]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=1000, **settings
    )
    auto = (
        transformers.AutoModel
        if kind == "bert"
        else transformers.AutoModelForCausalLM
    )
    # Drawing in this type halves the memory. Weights of norms are ones.
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        model = auto.from_config(config, dtype=getattr(torch, dtype))
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 and name.endswith("weight"):
                parameter.add_(0.1 * torch.randn_like(parameter))
            # Rows of experts that are not initialized.
            elif parameter.dim() == 3:
                parameter.normal_(std=0.02)
    return model.eval()


def turns(ours: Call, theirs: Call) -> tuple[float, float]:
    """Best milliseconds of two calls."""
    best = [math.inf, math.inf]
    calls = (ours, theirs)
    first = []
    for call in calls:
        start = time.perf_counter()
        call()
        first.append(time.perf_counter() - start)
    if max(first) > LONG:
        return 1e3 * first[0], 1e3 * first[1]
    begin = time.perf_counter()
    count = 0
    while count < LEAST or time.perf_counter() - begin < TURNS:
        count += 1
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return 1e3 * best[0], 1e3 * best[1]


class Blocks:
    """The largest chain of a model, called as the model calls it.

    Args:
        model: not fused yet.
        patterns: as for `fuse_modules`.
    """

    def __init__(self, model: nn.Module, patterns: Patterns) -> None:
        from fuse_mlir.fusion import modules

        sites, _ = modules.select(model, patterns, None)
        able = [
            site
            for site in sites
            if site.refusal is None
            and site.plan is not None
            # Other sites have several results or ops of the model.
            and site.plan.outputs is None
            and not site.plan.adds
            and modules.plan_site(site)[1] is not None
        ]
        if not able:
            raise ValueError("no site can be fused")
        self.site = max(
            able,
            key=lambda s: sum(
                p.numel() for m in s.members for p in m.parameters()
            ),
        )
        self.parent = model.get_submodule(self.site.parent)
        self.names = list(self.site.names)
        self.members = list(self.site.members)

    def call(self, rows: int, members: bool) -> Call:
        """A call with a number of rows.

        Args:
            rows: of the input, [rows, features].
            members: whether the members run, not the modules that replace
                them.
        """
        import torch

        from fuse_mlir.compiler.chains import Chain

        assert self.site.plan is not None
        parts = (
            self.members
            if members
            else [self.parent.get_submodule(name) for name in self.names]
        )
        chain = Chain(self.names, parts, self.site.plan)
        source = torch.Generator().manual_seed(rows)
        experts = "num_experts" in vars(self.members[0])
        values: list[torch.Tensor] = []
        for example in self.site.plan.examples:
            shape = [1] * (example.dim() - 2) + [rows, example.shape[-1]]
            if example.is_floating_point():
                drawn = torch.randn(shape, generator=source)
                values.append(
                    (drawn.abs() if experts and values else drawn).to(
                        example.dtype
                    )
                )
            else:
                count = int(str(self.members[0].num_experts))
                values.append(
                    torch.rand([*shape[:-1], count], generator=source)
                    .topk(shape[-1])
                    .indices
                )
        return lambda: chain(*values)


def measure(case: str, systems: Sequence[str]) -> dict[str, Any]:
    """All times of a case."""
    import torch

    import fuse_mlir
    from fuse_mlir.fusion.modules import fused_sites

    start = time.perf_counter()
    model = build(case)
    patterns = EXPERTS if "moe" in CASES[case][0] else None
    rows: dict[str, Any] = {"case": case, "systems": {}}
    with torch.no_grad():
        block = Blocks(model, patterns)
        rows["block"] = [type(m).__name__ for m in block.members]
        for system in systems:
            begin = time.perf_counter()
            found: Any
            if system == "default":
                try:
                    found = fuse_mlir.fuse_modules(model)
                except fuse_mlir.FuseError as error:
                    if "FUSE-N014" not in str(error):
                        raise
                    found = []
            elif (
                "only_faster"
                in inspect.signature(fuse_mlir.fuse_modules).parameters
            ):
                found = fuse_mlir.fuse_modules(
                    model, patterns, only_faster=False
                )
            else:
                found = fuse_mlir.fuse_modules(model, patterns)
            row: dict[str, Any] = {
                "fuse_seconds": round(time.perf_counter() - begin, 3),
                "sites": [[s.status, s.id, s.reason or s.note] for s in found],
                "block": {},
                "model": {},
            }
            for count in ROWS:
                row["block"][count] = turns(
                    block.call(count, members=False),
                    block.call(count, members=True),
                )
                row["model"][count] = whole(model, count)
            rows["systems"][system] = row
            if fused_sites(model):
                fuse_mlir.unfuse_modules(model)
            gc.collect()
    rows["seconds"] = round(time.perf_counter() - start, 1)
    return rows


def whole(model: PreTrainedModel, count: int) -> tuple[float, float]:
    """Milliseconds of the model with its kernels, and with its members."""
    import torch

    from fuse_mlir.fusion.modules import fused_sites

    ids = (torch.arange(count) * 37 % 999 + 1).view(1, count)
    options = {} if model.config.model_type == "bert" else {"use_cache": False}
    placed = [
        (
            model.get_submodule(path),
            module,
            [model.get_submodule(path)._modules[n] for n in module.names],
        )
        for path, module in fused_sites(model)
    ]

    def ours() -> object:
        return model(ids, **options)

    best = [math.inf, math.inf]
    first = time.perf_counter()
    turn = 0
    while turn < LEAST + 1 or time.perf_counter() - first < TURNS:
        for i in (0, 1):
            for parent, module, places in placed:
                parent._modules.update(
                    zip(module.names, module.members if i else places)
                )
            start = time.perf_counter()
            ours()
            # The first turn warms up.
            taken = time.perf_counter() - start
            if turn or taken > LONG:
                best[i] = min(best[i], taken)
        turn += 1
        if max(best) > LONG and math.isfinite(max(best)):
            break
    for parent, module, places in placed:
        parent._modules.update(zip(module.names, places))
    return 1e3 * best[0], 1e3 * best[1]


def work(options: argparse.Namespace) -> int:
    """One process: prints a line of JSON for each case."""
    import torch

    from fuse_mlir import native

    if options.threads:
        torch.set_num_threads(options.threads)
        native.set_num_threads(options.threads)
    start = time.perf_counter()
    for case in options.cases:
        if time.perf_counter() - start > options.seconds:
            print(
                json.dumps({"case": case, "error": "no time was left"}),
                flush=True,
            )
            continue
        try:
            row = measure(case, options.systems)
        # The results of other cases are still valid.
        except Exception as error:
            row = {
                "case": case,
                "error": f"{type(error).__name__}: "
                + str(error).split("\n")[0],
            }
        gc.collect()
        print(json.dumps(row), flush=True)
    return 0


def get_cpu() -> str:
    """Name of the processor, with the extensions that matter here."""
    text = Path("/proc/cpuinfo").read_text()
    name = next(
        (
            line.split(":", 1)[1].strip()
            for line in text.splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    flags = next(
        (
            line.split()
            for line in text.splitlines()
            if line.startswith("flags")
        ),
        [],
    )
    return name + "".join(
        f", {flag}"
        for flag in ("avx512f", "avx512_bf16", "amx_bf16")
        if flag in flags
    )


def show(row: dict[str, Any]) -> str:
    """A line of progress."""
    if "error" in row:
        return f"{row['case']}: {row['error']}"
    parts = []
    for system, found in row["systems"].items():
        times = ", ".join(
            f"{count}: {theirs:.3g}->{ours:.3g}"
            for count, (ours, theirs) in found["block"].items()
        )
        parts.append(f"{system} {times}")
    return f"{row['case']} ({row['seconds']} s): " + "; ".join(parts)


def run(options: argparse.Namespace) -> int:
    """All processes; adds to the file of results."""
    from ..common.environment import read_commit, write_json

    data: dict[str, Any] = {"unit": "ms: fused, unfused", "runs": []}
    if options.output and options.output.exists():
        data = json.loads(options.output.read_text())
    import torch
    import transformers

    threads = options.threads or torch.get_num_threads()
    machine = get_cpu()
    begin = time.monotonic()
    for isa in options.isas:
        environment = {
            **os.environ,
            **ISAS[isa],
            "PYTHONPATH": str(options.package.resolve()),
            "FUSE_NUM_THREADS": str(threads),
        }
        if options.library:
            environment["FUSE_LIBRARY"] = str(options.library.resolve())
        left = options.seconds - (time.monotonic() - begin)
        count = len(options.isas) - options.isas.index(isa)
        # The package is that of PYTHONPATH.
        command = [
            sys.executable,
            "-m",
            "fuse_bench.suites.models_cpu",
            "--work",
            "--threads",
            str(threads),
            "--seconds",
            str(max(left / count, 1)),
            "--systems",
            *options.systems,
            "--cases",
            *options.cases,
        ]
        rows = []
        with subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not line.startswith("{"):
                    continue
                rows.append(json.loads(line))
                print(
                    f"{time.monotonic() - begin:6.1f} s {options.label} "
                    f"{isa} {show(rows[-1])}",
                    flush=True,
                )
        entry = {
            "label": options.label,
            "isa": isa,
            "cpu": machine,
            "threads": threads,
            "environment": ISAS[isa],
            "commit": options.commit or read_commit(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "rows": rows,
        }
        data["runs"] = [
            r
            for r in data["runs"]
            if (r["label"], r["isa"], r["cpu"]) != (options.label, isa, machine)
        ]
        data["runs"].append(entry)
        if options.output:
            write_json(options.output, data)
        if process.returncode:
            return process.returncode
    return 0


def tables(data: dict[str, Any], part: str) -> str:
    """Markdown: a table for each machine and setting.

    Args:
        data: the results, as this suite writes them.
        part: `block` or `model`.
    """
    lines: list[str] = []
    for cpu, isa in dict.fromkeys((r["cpu"], r["isa"]) for r in data["runs"]):
        runs = [r for r in data["runs"] if (r["cpu"], r["isa"]) == (cpu, isa)]
        columns = [
            (r, system)
            for r in runs
            for system in next(
                (row["systems"] for row in r["rows"] if "systems" in row), {}
            )
        ]
        threads = runs[0]["threads"]
        lines += [
            f"{cpu}; {threads} threads; instructions: {isa}",
            "",
            "| model | rows | unfused | "
            + " | ".join(f"{r['label']}: {system}" for r, system in columns)
            + " |",
            "|---|---|---|" + "---|" * len(columns),
        ]
        for case in CASES:
            found = [
                next(
                    (
                        row["systems"].get(system)
                        for row in r["rows"]
                        if row["case"] == case and "systems" in row
                    ),
                    None,
                )
                for r, system in columns
            ]
            if not any(found):
                continue
            for count in map(str, ROWS):
                unfused = min(f[part][count][1] for f in found if f)
                cells = [f"{f[part][count][0]:.3g}" if f else "" for f in found]
                lines.append(
                    f"| {case} | {count} | {unfused:.3g} | "
                    + " | ".join(cells)
                    + " |"
                )
        lines.append("")
    return "\n".join(lines)


def losses(data: dict[str, Any]) -> list[str]:
    """The calls that get more than 3 % slower when fused by default."""
    return [
        f"{run_['cpu']} {run_['isa']} {row['case']} {part} {count} rows: "
        f"{theirs:.3g} -> {ours:.3g} ms"
        for run_ in data["runs"]
        for row in run_["rows"]
        for part in ("block", "model")
        for count, (ours, theirs) in row.get("systems", {})
        .get("default", {})
        .get(part, {})
        .items()
        if ours > 1.03 * theirs
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument(
        "--package",
        type=Path,
        default=ROOT / "python",
        help="directory with fuse_mlir (default: this one)",
    )
    parser.add_argument("--library", type=Path, help="its libfuse.so")
    parser.add_argument("--commit", default="", help="of the package")
    parser.add_argument("--label", default="after")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument(
        "--seconds",
        type=float,
        default=440.0,
        help="seconds after which no case starts (default: 440)",
    )
    parser.add_argument(
        "--cases",
        nargs="+",
        default=list(CASES),
        choices=CASES,
        metavar="NAME",
        help="of " + ", ".join(CASES),
    )
    parser.add_argument("--isas", nargs="+", default=list(ISAS), choices=ISAS)
    parser.add_argument(
        "--systems",
        nargs="+",
        default=["all", "default"],
        choices=["all", "default"],
    )
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--table",
        type=Path,
        metavar="FILE",
        help="print tables of a file and do nothing else",
    )
    options = parser.parse_args()
    if options.table:
        data = json.loads(options.table.read_text())
        for part in ("block", "model"):
            print(f"{part}s, ms of a call\n\n{tables(data, part)}")
        print("slower by more than 3 % as fused by default:")
        print("\n".join(losses(data)) or "none")
        return 0
    return work(options) if options.work else run(options)


if __name__ == "__main__":
    sys.exit(main())
