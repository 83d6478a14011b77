# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Commands of `python -m fuse_mlir`."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DTYPES = ("bfloat16", "float16", "float32")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the result is the exit status."""
    options = _parser().parse_args(arguments)
    from fuse_mlir.blocks import BlockError
    from fuse_mlir.calibrate import CalibrationError
    from fuse_mlir.importer import ImportFailure

    try:
        return options.run(options)
    except (BlockError, CalibrationError, ImportFailure, OSError,
            ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fuse_mlir", description="Python side of the fuse compiler.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_import(commands)
    _add_compare(commands)
    _add_calibrate(commands)
    return parser


def _add_import(commands: Any) -> None:
    command = commands.add_parser(
        "import", help="turn modules of a transformers model into fuse IR",
        description="Exports a chain of modules with torch.export and writes "
        "it as fuse IR (OUTPUT) with its weights beside it "
        "(OUTPUT with the suffix .safetensors).")
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--architecture", metavar="NAME",
        help="model type of transformers, built from its config with drawn "
        "weights, such as qwen3")
    source.add_argument(
        "--pretrained", metavar="DIR", type=Path,
        help="local directory with a model and its weights")
    command.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[],
        help="setting of the config, such as hidden_size=1024; may repeat")
    command.add_argument(
        "--parent", metavar="PATH", default="",
        help="module the members are children of, such as model.layers.0")
    command.add_argument(
        "--members", metavar="NAMES", required=True,
        help="modules called one after the other, separated by commas")
    command.add_argument(
        "--residual", action="store_true",
        help="add the input of the chain to its result")
    command.add_argument(
        "--shape", metavar="DIMS", required=True,
        help="input shape; a name is a dynamic dimension: tokens,1024")
    command.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    command.add_argument("--name", default="main",
                         help="name of the function (default: main)")
    command.add_argument("--seed", type=int, default=0,
                         help="seed of drawn weights and of the sample input")
    command.add_argument(
        "--sample", metavar="DIM=SIZE", action="append", default=[],
        help="also write a random input with these sizes and what PyTorch "
        "computes from it: OUTPUT with the suffixes .input.npy, "
        ".output.npy and, in f32 throughout, .output-f32.npy")
    command.add_argument("-o", "--output", metavar="OUTPUT", type=Path,
                         required=True)
    command.set_defaults(run=_run_import)


def _settings(items: Sequence[str]) -> dict[str, Any]:
    settings = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ValueError(f"bad setting '{item}'; expected KEY=VALUE")
        try:
            settings[key] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            settings[key] = value
    return settings


def _run_import(options: argparse.Namespace) -> int:
    import torch
    import transformers
    from fuse_mlir import blocks
    from fuse_mlir.importer import import_program

    # A config cut down to one block warns about parts that are not there.
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    dtype = getattr(torch, options.dtype)
    shape = blocks.parse_shape(options.shape)
    if options.pretrained:
        if options.set:
            raise ValueError("--set needs --architecture")
        model = blocks.load_model(options.pretrained, dtype)
    else:
        model = blocks.build_model(options.architecture,
                                   _settings(options.set), dtype)
    chain = blocks.take_chain(model, options.parent,
                              options.members.split(","), options.residual)
    if options.architecture:
        blocks.seed_weights(chain, options.seed)
    function = import_program(blocks.export_module(chain, shape, dtype),
                              options.name)

    from safetensors.torch import save_file
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(function.text)
    weights = options.output.with_suffix(".safetensors")
    save_file(function.weights, weights, metadata=function.aliases or None)
    print(f"{options.output}: {len(function.text.splitlines())} lines")
    size = sum(t.numel() * t.element_size()
               for t in function.weights.values())
    print(f"{weights}: {len(function.weights)} tensors, {size:,} bytes")
    if options.sample:
        sizes = _settings(options.sample)
        sample = blocks.example_input(shape, sizes, dtype, options.seed + 1)
        _write_sample(chain, sample, options.output)
    return 0


def _write_sample(chain: Any, sample: Any, output: Path) -> None:
    """Files are f32, which holds every value of the 16-bit types."""
    import numpy as np
    import torch

    with torch.no_grad():
        result = chain(sample)
        exact = chain.float()(sample.float())
    for suffix, tensor in ((".input.npy", sample), (".output.npy", result),
                           (".output-f32.npy", exact)):
        path = output.with_suffix(suffix)
        np.save(path, tensor.float().numpy())
        print(f"{path}: {'x'.join(map(str, tensor.shape))}")


def _add_compare(commands: Any) -> None:
    command = commands.add_parser(
        "compare", help="print how results differ from a reference",
        description="Prints for each result the largest and the relative "
        "difference from REFERENCE and how many elements differ by how many "
        "units in the last place.")
    command.add_argument("reference", type=Path)
    command.add_argument("results", metavar="NAME=FILE", nargs="+")
    command.add_argument("--element", default="bf16",
                         help="type the results are rounded to")
    command.add_argument(
        "--max-relative", type=float, metavar="BOUND",
        help="fail where the relative difference in the L2 norm is larger")
    command.add_argument("--identical", action="store_true",
                         help="fail where any element differs")
    command.add_argument(
        "--yardstick", metavar="NAME",
        help="fail where a result is farther from REFERENCE in the L2 norm "
        "than FACTOR times the result NAME")
    command.add_argument("--factor", type=float, default=1.5)
    command.set_defaults(run=_run_compare)


def _run_compare(options: argparse.Namespace) -> int:
    import numpy as np
    from fuse_mlir.compare import difference, table

    reference = np.load(options.reference)
    rows = {}
    for item in options.results:
        name, equals, path = item.partition("=")
        if not equals:
            raise ValueError(f"bad result '{item}'; expected NAME=FILE")
        rows[name] = difference(np.load(path), reference, options.element)
    print(table(rows, options.element))
    status = 0
    bound = options.max_relative
    if options.yardstick is not None:
        if options.yardstick not in rows:
            raise ValueError(f"no result '{options.yardstick}'; expected one "
                             "of " + ", ".join(rows))
        yard = options.factor * rows[options.yardstick].relative_l2
        bound = yard if bound is None else min(bound, yard)
    for name, row in rows.items():
        if row.nonfinite_mismatches:
            print(f"{name}: {row.nonfinite_mismatches} elements are finite "
                  "or NaN on one side only")
            status = 1
        if options.identical and not row.identical:
            print(f"{name}: not identical")
            status = 1
        if bound is not None and not row.relative_l2 <= bound:
            print(f"{name}: relative difference {row.relative_l2:.2e} "
                  f"exceeds {bound:.2e}")
            status = 1
    return status


def _add_calibrate(commands: Any) -> None:
    command = commands.add_parser(
        "calibrate", help="make static scales from sample inputs",
        description="Runs the function of SOURCE on every DATA file and "
        "writes the scales of its linears for fuse-quantize-linears.")
    command.add_argument("source", metavar="SOURCE", type=Path,
                         help="fuse IR with one function")
    command.add_argument("data", metavar="DATA", type=Path, nargs="+",
                         help=".npy files, each the input of one call")
    command.add_argument("--weights", type=Path, required=True,
                         metavar="FILE", help="parameters as .safetensors")
    command.add_argument("--storage", default="f8E4M3FN",
                         help="f8E4M3FN (default), f8E5M2 or i8")
    command.add_argument("--method", default="amax",
                         help="amax (default), percentile or mse")
    command.add_argument("--percentile", type=float, default=99.99,
                         help="share that does not saturate, in percent")
    command.add_argument("--per-channel", action="store_true",
                         help="one weight scale per output channel; written "
                         "with the parameters to OUTPUT with the suffix "
                         ".safetensors")
    command.add_argument("--report", type=Path, metavar="FILE",
                         help="also write a report: .html, .json or text")
    command.add_argument("--tools", type=Path, metavar="DIR",
                         help="directory of fuse-opt and fuse-run")
    command.add_argument("-o", "--output", metavar="OUTPUT", type=Path,
                         required=True, help="JSON file with the scales")
    command.set_defaults(run=_run_calibrate)


def _run_calibrate(options: argparse.Namespace) -> int:
    from fuse_mlir import calibrate
    from safetensors.torch import load_file, save_file

    tools = calibrate.Tools(options.tools)
    ranges = calibrate.observe(tools, options.source, options.weights,
                               options.data,
                               lambda line: print(line, file=sys.stderr))
    parameters = load_file(options.weights)
    result = calibrate.calibrate(ranges, parameters, options.storage,
                                 options.method, options.percentile,
                                 options.per_channel)
    options.output.write_text(calibrate.scales_json(result))
    print(calibrate.report_text(result), end="")
    if result.channel_scales:
        path = options.output.with_suffix(".safetensors")
        save_file(parameters | result.channel_scales, path)
        print(f"{path}: parameters and {len(result.channel_scales)} vectors "
              "of channel scales")
    if options.report:
        write = {".html": calibrate.report_html,
                 ".json": calibrate.report_json}.get(
                     options.report.suffix, calibrate.report_text)
        options.report.write_text(write(result))
        print(f"report: {options.report}")
    return 0
