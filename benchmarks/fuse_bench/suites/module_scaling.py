# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measure how long fuse-opt takes per layer to fuse a model and undo it.

Every layer has three modules; norm and MLP are fused by one pattern. In each of
--repeat rounds all sizes take turns, small models so often that all sizes have
as many layers: a single run of few milliseconds finds a moment in which the
machine has nothing else to do, one of a second never does. The table shows
MLIR's own timing of each phase per layer, the mean of a round, and of those the
least. "fuse" is all from text to the model that is unfused again, without
printing it. Below the table stands how many times as long as in the smallest
model a layer took in each round: both had the same neighbors then. With
--limit the script fails when the total times per layer of the table differ by
more than that factor; with --output it writes what it measured as JSON.

--instructions counts instructions by valgrind too, and the loads and stores
that miss a cache of 2 MiB, in the smallest model and in the largest of no more
than --count-layers: what grows in time and not in instructions is memory that
the caches do not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from ..common.environment import read_commit

LAYER = """      nn.module @"{i}" class "Layer" {{
        nn.module @norm class "RMSNorm" {{
          nn.parameter @weight : tensor<8xbf16>
          func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {{
            %w = nn.get_parameter @weight : tensor<8xbf16>
            %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
              : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
            return %y : tensor<?x8xbf16>
          }}
        }}
        nn.module @mlp class "MLP" {{
          nn.parameter @up : tensor<16x8xbf16>
          nn.parameter @down : tensor<8x16xbf16>
          func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {{
            %wu = nn.get_parameter @up : tensor<16x8xbf16>
            %wd = nn.get_parameter @down : tensor<8x16xbf16>
            %u = fuse.linear %x, %wu
              : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
            %a = fuse.activation gelu %u
              : tensor<?x16xbf16> -> tensor<?x16xbf16>
            %d = fuse.linear %a, %wd
              : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
            return %d : tensor<?x8xbf16>
          }}
        }}
        func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {{
          %n = nn.call_module @norm(%x)
            : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
          %m = nn.call_module @mlp(%n)
            : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
          %y = fuse.residual_add %x, %m
            : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
          return %y : tensor<?x8xbf16>
        }}
      }}
"""

MATCH = (
    "--fuse-match-modules=patterns=((RMSNorm,layers.*.norm),"
    "(MLP,layers.*.mlp))->mlp"
)
PASSES = [
    MATCH,
    "--fuse-inline-modules",
    "--fuse-form-kernels",
    "--fuse-unfuse",
]
# Names of the phases in MLIR.
NAMES = {
    "Parser": "parse",
    "MatchModulesPass": "fuse-match-modules",
    "InlineModulesPass": "fuse-inline-modules",
    "'func.func' Pipeline": "fuse-form-kernels",
    "UnfusePass": "fuse-unfuse",
    "Output": "print",
    "Rest": "rest",
    "Total": "total",
}
# Phases from parsing the text to unfusing the model.
FUSE = [
    "parse",
    "fuse-match-modules",
    "fuse-inline-modules",
    "fuse-form-kernels",
    "fuse-unfuse",
]
# Total number of layers per size and round. Larger models run once.
LAYERS_OF_ROUND = 10000

# Size in bytes of the simulated cache. It is between the second-level and
# third-level caches of typical servers.
CACHE = 2 << 20
# Function names in callgrind. Pass times exclude the verifier.
FUNCTIONS = {
    "parse": "mlir::parseSourceFile",
    "fuse-match-modules": "MatchModules::runOnOperation",
    "fuse-inline-modules": "InlineModules::runOnOperation",
    "fuse-form-kernels": "FormKernels::runOnOperation",
    "fuse-unfuse": "Unfuse::runOnOperation",
    "verify": "mlir::verify(",
    "print": "mlir::Operation::print(llvm::raw_ostream&, mlir::AsmState&)",
    "total": "mlir::MlirOptMain(llvm::raw_ostream&",
}


def write_model(path: str, layers: int) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            'nn.model @m class "M" {\n'
            '  nn.module @layers class "ModuleList" {\n'
        )
        for i in range(layers):
            file.write(LAYER.format(i=i))
        file.write(
            "  }\n  func.func @forward(%x0: tensor<?x8xbf16>) "
            "-> tensor<?x8xbf16> {\n"
        )
        for i in range(layers):
            file.write(
                f'    %x{i + 1} = nn.call_module @layers::@"{i}"'
                f"(%x{i}) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>\n"
            )
        file.write(f"    return %x{layers} : tensor<?x8xbf16>\n  }}\n}}\n")


def time_phases(command: Sequence[str]) -> dict[str, float]:
    """Returns the seconds that each phase of one run takes."""
    done = subprocess.run(
        command, check=True, stderr=subprocess.PIPE, text=True
    )
    return {
        NAMES[phase["name"]]: phase["wall"]["duration"]
        for phase in json.loads(done.stderr)
    }


def time_rounds(
    command: Sequence[str], paths: Mapping[int, str], repeat: int
) -> dict[int, list[dict[str, float]]]:
    """Returns the microseconds per layer and phase, per size and round."""
    rounds: dict[int, list[dict[str, float]]] = {size: [] for size in paths}
    layers = min(LAYERS_OF_ROUND, max(paths))
    for number in range(repeat):
        print(f"round {number + 1} of {repeat}", flush=True)
        for size, path in paths.items():
            runs = [
                time_phases([*command, path])
                for _ in range(max(1, layers // size))
            ]
            means = {
                name: 1e6
                / size
                * statistics.fmean(run.get(name, 0.0) for run in runs)
                for name in NAMES.values()
            }
            means["fuse"] = sum(means[name] for name in FUSE)
            rounds[size].append(means)
    return rounds


def run_once(command: Sequence[str]) -> tuple[int, int]:
    """Returns the peak memory in KiB and the page faults of one run."""
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_maxrss, usage.ru_minflt


def count_instructions(
    command: Sequence[str], directory: str
) -> dict[str, dict[str, int]]:
    """Returns the instructions and 2 MiB cache misses of each phase."""
    path = os.path.join(directory, "callgrind")
    # Valgrind must be told that the allocator is statically linked.
    subprocess.run(
        [
            "valgrind",
            "--soname-synonyms=somalloc=NONE",
            "--tool=callgrind",
            "--cache-sim=yes",
            f"--LL={CACHE},16,64",
            f"--callgrind-out-file={path}",
            *command,
        ],
        check=True,
        capture_output=True,
    )
    text = subprocess.run(
        [
            "callgrind_annotate",
            "--inclusive=yes",
            "--threshold=100",
            "--show=Ir,DLmr,DLmw",
            path,
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    number = r"([0-9,.]+)(?: \([^)]*\))? +"
    line_of = re.compile(" *" + 3 * number)
    counts: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        match = line_of.match(line)
        for name, function in FUNCTIONS.items():
            if match and function in line and name not in counts:
                values = [
                    int("0" + re.sub("[,.]", "", field))
                    for field in match.groups()
                ]
                counts[name] = {
                    "instructions": values[0],
                    "misses": values[1] + values[2],
                }
    return counts


def cpu() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.machine()


def write_result(
    args: argparse.Namespace,
    sizes: list[int],
    rows: Mapping[str, list[float]],
    growth: Mapping[str, float],
    ratios: Mapping[str, list[float]],
    rounds: Mapping[int, list[dict[str, float]]],
    memory: Mapping[str, list[int]],
    instructions: Mapping[str, dict[str, dict[str, int]]],
) -> None:
    result: dict[str, Any] = {
        "benchmark": "module_scaling",
        "commit": read_commit(),
        "machine": platform.machine(),
        "cpu": cpu(),
        "unit": "microseconds per layer, one thread",
        "runs": args.repeat,
        "layers": sizes,
        "phases": {
            name: [round(value, 2) for value in values]
            for name, values in rows.items()
        },
        "growth": {name: round(value, 3) for name, value in growth.items()},
        "growth_of_rounds": ratios,
        "rounds": {
            str(size): [round(means["total"], 2) for means in of_size]
            for size, of_size in rounds.items()
        },
        "memory": memory,
    }
    if instructions:
        result["counts_per_layer"] = instructions
        result["counted_cache_bytes"] = CACHE
    with open(args.output, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=2)
        file.write("\n")


def parse_options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--fuse-opt", default="fuse-opt", metavar="PATH")
    parser.add_argument(
        "--layers",
        default="100,1000,3000,10000,30000",
        help="sizes of the models (default %(default)s)",
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=3,
        help="rounds, of which the fastest counts",
    )
    parser.add_argument(
        "--limit",
        type=float,
        metavar="FACTOR",
        help="largest ratio of times per layer",
    )
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="count instructions too, which takes minutes",
    )
    parser.add_argument(
        "--count-layers",
        type=int,
        default=10000,
        metavar="N",
        help="largest model counted (default %(default)s)",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="JSON file for the result"
    )
    args = parser.parse_args(argv)
    if not shutil.which(args.fuse_opt):
        parser.error(
            f"there is no {args.fuse_opt}: expected the fuse-opt of a build"
        )
    return args


def print_rows(
    sizes: Sequence[int],
    rows: Mapping[str, Sequence[float]],
    instructions: Mapping[str, Mapping[str, Mapping[str, int]]],
) -> None:
    print("microseconds per layer")
    print(f"{'layers':20}" + "".join(f"{size:>10}" for size in sizes))
    for name, values in rows.items():
        print(f"{name:20}" + "".join(f"{value:10.1f}" for value in values))
    for size, counts in instructions.items():
        print(f"per layer, {size} layers:")
        for phase, count in counts.items():
            print(
                f"  {phase:20}{count['instructions']:>10} instructions"
                f"{count['misses']:>8} misses"
            )


def main(argv: Sequence[str]) -> int:
    args = parse_options(argv)
    sizes = [int(text) for text in args.layers.split(",")]
    memory: dict[str, list[int]] = {"peak_kib": [], "page_faults": []}
    instructions: dict[str, dict[str, dict[str, int]]] = {}
    with tempfile.TemporaryDirectory(prefix="fuse-scaling-") as directory:
        paths = {}
        for size in sizes:
            paths[size] = os.path.join(directory, f"{size}.mlir")
            write_model(paths[size], size)
        command = [
            args.fuse_opt,
            "-o",
            os.devnull,
            *PASSES,
            "--mlir-disable-threading",
            "--mlir-timing",
            "--mlir-output-format=json",
        ]
        rounds = time_rounds(command, paths, args.repeat)
        rows = {
            name: [min(means[name] for means in rounds[size]) for size in sizes]
            for name in rounds[sizes[0]][0]
        }
        for path in paths.values():
            peak, faults = run_once([*command, path])
            memory["peak_kib"].append(peak)
            memory["page_faults"].append(faults)
        if args.instructions:
            largest = max(
                (n for n in sizes if n <= args.count_layers), default=min(sizes)
            )
            for size in sorted({min(sizes), largest}):
                print(f"counting instructions of {size} layers", flush=True)
                instructions[str(size)] = {
                    phase: {
                        name: round(count / size)
                        for name, count in counts.items()
                    }
                    for phase, counts in count_instructions(
                        [*command, paths[size]], directory
                    ).items()
                }
    print_rows(sizes, rows, instructions)
    growth = {
        name: max(values) / min(values)
        for name, values in rows.items()
        if min(values) > 0
    }
    total = growth["total"]
    print(f"largest total per layer over the smallest: {total:.2f}x")
    ratios = {
        str(size): sorted(
            round(long["total"] / short["total"], 3)
            for long, short in zip(rounds[size], rounds[sizes[0]])
        )
        for size in sizes[1:]
    }
    for layers, values in ratios.items():
        print(
            f"{layers} layers to {sizes[0]}, by rounds: median "
            f"{statistics.median(values):.2f}x of {values}"
        )
    if args.output:
        write_result(
            args, sizes, rows, growth, ratios, rounds, memory, instructions
        )
    if args.limit and total > args.limit:
        print(f"error: more than {args.limit}x", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
