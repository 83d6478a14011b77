# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Commands of `python -m fuse_mlir`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fuse_mlir.cli.advice import for_commands
from fuse_mlir.cli.compare_command import add_compare
from fuse_mlir.cli.doctor_command import add_doctor
from fuse_mlir.cli.model_arguments import (
    DTYPES,
    add_model,
    add_stored,
    make_chain,
    settings,
)

if TYPE_CHECKING:
    import torch
    from torch import nn

    from fuse_mlir.frontend.extract import DimSpec
    from fuse_mlir.fusion.results import FusionResult
    from fuse_mlir.matching.members import Chain
    from fuse_mlir.reports.profile import Profile
    from fuse_mlir.reports.report import Check, Timing, Verification
    from fuse_mlir.support.about import About
    from fuse_mlir.support.types import Progress

#: The commands that a parser knows.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the result is the exit status."""
    options = _parser().parse_args(arguments)
    options.line = shlex.join(
        [
            "python",
            "-m",
            "fuse_mlir",
            *(sys.argv[1:] if arguments is None else arguments),
        ]
    )
    from fuse_mlir.errors import BlockError, CalibrationError, ImportFailure

    try:
        return options.run(options)
    # Errors of kernels and of the library are runtime errors.
    except (
        BlockError,
        CalibrationError,
        ImportError,
        ImportFailure,
        OSError,
        RuntimeError,
        ValueError,
    ) as error:
        text = str(error)
        if isinstance(error, ImportError) and not isinstance(
            error, ImportFailure
        ):
            first = text.strip().partition("\n")[0]
            text = f"a package is missing: {first}"
        if isinstance(error, OSError) and error.filename is not None:
            text = f"{error.filename}: {error.strerror}"
        print(f"error: {for_commands(text)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fuse_mlir", description="Python side of the fuse compiler."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _add_import(commands)
    add_compare(commands)
    _add_calibrate(commands)
    _add_accuracy(commands)
    _add_inputs(commands)
    _add_model_commands(commands)
    add_doctor(commands)
    return parser


def _add_import(commands: Commands) -> None:
    command = commands.add_parser(
        "import",
        help="turn modules of a transformers model into fuse IR",
        description="Exports a chain of modules with torch.export and writes "
        "it as fuse IR (OUTPUT) with its weights beside it "
        "(OUTPUT with the suffix .safetensors).",
    )
    add_model(command, required=True)
    add_stored(command)
    command.add_argument(
        "--check-data",
        metavar="FILE",
        type=Path,
        nargs="+",
        default=[],
        help=".npy inputs of the chain, with which static input scales are "
        "compared",
    )
    command.add_argument(
        "--tools",
        type=Path,
        metavar="DIR",
        help="directory of fuse-opt and fuse-run, which --check-data runs",
    )
    command.add_argument(
        "--sample",
        metavar="DIM=SIZE",
        action="append",
        default=[],
        help="also write a random input with these sizes and what PyTorch "
        "computes from it: OUTPUT with the suffixes .input.npy, "
        ".output.npy and, in f32 throughout, .output-f32.npy",
    )
    command.add_argument(
        "-o", "--output", metavar="OUTPUT", type=Path, required=True
    )
    command.set_defaults(run=_run_import)


def _run_import(options: argparse.Namespace) -> int:
    from safetensors.torch import save_file

    from fuse_mlir.frontend import extract
    from fuse_mlir.frontend.importer import import_program

    chain, dtype, shape = make_chain(options)
    function = import_program(
        extract.export_module(chain, shape, dtype), options.name
    )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(function.text)
    weights = options.output.with_suffix(".safetensors")
    save_file(function.weights, weights, metadata=function.aliases or None)
    print(f"{options.output}: {len(function.text.splitlines())} lines")
    size = sum(t.numel() * t.element_size() for t in function.weights.values())
    print(f"{weights}: {len(function.weights)} tensors, {size:,} bytes")
    if options.check_data:
        _check_scales(options, chain, dtype, shape)
    if options.sample:
        sizes = settings(options.sample)
        sample = extract.example_input(shape, sizes, dtype, options.seed + 1)
        _write_sample(chain, sample, options.output)
    return 0


def _check_scales(
    options: argparse.Namespace,
    chain: Chain,
    dtype: torch.dtype,
    shape: list[DimSpec],
) -> None:
    """Compares the static input scales of a chain with data.

    The chain runs with activations in floating point, and each scale is
    compared with the inputs of its linear.
    """
    import tempfile

    from safetensors.torch import save_file

    from fuse_mlir.calibration.scales import Tools, observe
    from fuse_mlir.frontend import extract
    from fuse_mlir.frontend.importer import import_program
    from fuse_mlir.quantized.stored import (
        STORAGE,
        StoredLinear,
        check_input_scales,
    )

    linears = {
        path: module
        for path, module in chain.named_modules()
        if isinstance(module, StoredLinear)
    }
    policies = {path: module.policy for path, module in linears.items()}
    for module in linears.values():
        module.policy = replace(module.policy, activations="none")
    try:
        function = import_program(extract.export_module(chain, shape, dtype))
    finally:
        for path, module in linears.items():
            module.policy = policies[path]
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "real.mlir"
        source.write_text(function.text)
        weights = source.with_suffix(".safetensors")
        save_file(function.weights, weights)
        seen = observe(
            Tools(options.tools), source, weights, options.check_data
        )
    for path, module in linears.items():
        if module.scale_of_input is not None:
            check_input_scales(
                {path: module.scale_of_input},
                seen,
                STORAGE[module.stored.dtype],
            )
    print(
        f"{len(linears)} input scales agree with "
        f"{len(options.check_data)} files"
    )


def _write_sample(chain: Chain, sample: torch.Tensor, output: Path) -> None:
    """Writes files in f32, which represents all values of 16-bit types."""
    import numpy as np
    import torch

    from fuse_mlir.quantized.stored import StoredLinear

    with torch.no_grad():
        tensors = {".input.npy": sample, ".output.npy": chain(sample)}
        # Stored weights have no original in f32.
        if not any(isinstance(m, StoredLinear) for m in chain.modules()):
            tensors[".output-f32.npy"] = chain.float()(sample.float())
    for suffix, tensor in tensors.items():
        path = output.with_suffix(suffix)
        np.save(path, tensor.float().numpy())
        print(f"{path}: {'x'.join(map(str, tensor.shape))}")


def _add_calibrate(commands: Commands) -> None:
    command = commands.add_parser(
        "calibrate",
        help="make static scales from sample inputs",
        description="Runs the function of SOURCE on every DATA file and "
        "writes the scales of its linears for fuse-quantize-linears.",
    )
    command.add_argument(
        "source", metavar="SOURCE", type=Path, help="fuse IR with one function"
    )
    command.add_argument(
        "data",
        metavar="DATA",
        type=Path,
        nargs="+",
        help=".npy files, each the input of one call",
    )
    command.add_argument(
        "--weights",
        type=Path,
        required=True,
        metavar="FILE",
        help="parameters as .safetensors",
    )
    command.add_argument(
        "--stored",
        type=Path,
        metavar="FILE",
        help="also write the parameters with the weights as "
        "they are stored, for weights=stored",
    )
    _add_scales(command)
    command.add_argument(
        "-o",
        "--output",
        metavar="OUTPUT",
        type=Path,
        required=True,
        help="JSON file with the scales",
    )
    command.set_defaults(run=_run_calibrate)


def _add_scales(command: argparse.ArgumentParser) -> None:
    """Adds arguments on scales, the cache of ranges, and reports."""
    command.add_argument(
        "--storage", default="f8E4M3FN", help="f8E4M3FN (default), f8E5M2 or i8"
    )
    command.add_argument(
        "--method", default="amax", help="amax (default), percentile or mse"
    )
    command.add_argument(
        "--percentile",
        type=float,
        default=99.99,
        help="share that does not saturate, in percent",
    )
    command.add_argument(
        "--per-channel",
        action="store_true",
        help="one weight scale per output channel, by amax; "
        "calibrate writes them with the parameters to OUTPUT "
        "with the suffix .safetensors",
    )
    command.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="also write a report: .html, .json or text",
    )
    command.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="directory with ranges observed before, by the "
        "hash of function, weights and data (default: "
        "fuse-mlir/ranges in the user's cache)",
    )
    command.add_argument(
        "--no-cache",
        action="store_true",
        help="neither read nor write the cache",
    )
    command.add_argument(
        "--tools",
        type=Path,
        metavar="DIR",
        help="directory of fuse-opt and fuse-run",
    )


def _cache(options: argparse.Namespace) -> Path | None:
    from fuse_mlir.calibration.range_cache import default_directory

    if options.no_cache:
        return None
    return options.cache or default_directory()


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _run_calibrate(options: argparse.Namespace) -> int:
    from safetensors.torch import load_file, save_file

    from fuse_mlir.calibration import scales

    tools = scales.Tools(options.tools)
    ranges = scales.observe(
        tools,
        options.source,
        options.weights,
        options.data,
        _say,
        _cache(options),
    )
    parameters = load_file(options.weights)
    result = scales.calibrate(
        ranges,
        parameters,
        options.storage,
        options.method,
        options.percentile,
        options.per_channel,
    )
    options.output.write_text(scales.scales_json(result))
    print(scales.report_text(result), end="")
    if options.stored:
        save_file(scales.stored_weights(result, parameters), options.stored)
        print(f"{options.stored}: parameters with stored weights")
    if result.channel_scales:
        path = options.output.with_suffix(".safetensors")
        save_file(parameters | result.channel_scales, path)
        print(
            f"{path}: parameters and {len(result.channel_scales)} vectors "
            "of channel scales"
        )
    if options.report:
        from fuse_mlir.support.about import about

        head = about(str(options.source), options.line)
        if options.report.suffix == ".html":
            text = scales.report_html(result, head)
        elif options.report.suffix == ".json":
            text = scales.report_json(result, head)
        else:
            text = head.text() + scales.report_text(result)
        options.report.write_text(text)
        print(f"report: {options.report}")
    return 0


def _add_accuracy(commands: Commands) -> None:
    command = commands.add_parser(
        "accuracy",
        help="report what static quantization costs",
        description="Calibrates a function on data, runs it in its own "
        "precision, with static scales as one kernel, with scales measured at "
        "run time and with stored weights alone, and prints how far the "
        "results are apart and how much of each input saturates. The function "
        "is SOURCE with --weights, or modules of a model as import takes "
        "them.",
    )
    command.add_argument(
        "data",
        metavar="DATA",
        type=Path,
        nargs="+",
        help=".npy files, each the input of one call",
    )
    command.add_argument(
        "--source",
        metavar="SOURCE",
        type=Path,
        help="fuse IR with one function",
    )
    command.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="parameters of SOURCE as .safetensors",
    )
    command.add_argument(
        "--calibrate-on",
        metavar="FILE",
        type=Path,
        nargs="+",
        default=[],
        help=".npy files that the scales come from (default: DATA)",
    )
    command.add_argument(
        "--order", default="reciprocal", help="reciprocal (default) or divide"
    )
    command.add_argument(
        "--min-cosine",
        type=float,
        metavar="BOUND",
        help="fail where the static results have a smaller "
        "cosine with the original",
    )
    _add_scales(command)
    add_model(command, required=False)
    command.set_defaults(run=_run_accuracy)


def _run_accuracy(options: argparse.Namespace) -> int:
    import tempfile

    from fuse_mlir.calibration import accuracy
    from fuse_mlir.calibration.scales import Tools

    tools = Tools(options.tools)
    from_model = options.pretrained or options.architecture
    if bool(options.source) == bool(from_model):
        raise ValueError(
            "expected either --source or a model, named by "
            "--architecture or --pretrained"
        )
    if options.source and not options.weights:
        raise ValueError("--source needs --weights")
    if from_model and not (options.members and options.shape):
        raise ValueError("a model needs --members and --shape")
    with tempfile.TemporaryDirectory() as directory:
        source, weights = options.source, options.weights
        if from_model:
            source, weights = _import_to(options, Path(directory))
        report = accuracy.measure(
            tools,
            source,
            weights,
            options.data,
            options.calibrate_on,
            options.storage,
            options.method,
            options.percentile,
            options.per_channel,
            options.order,
            _cache(options),
            _say,
        )
    if from_model:
        # The file does not exist any more.
        report = replace(report, source=_chain_name(options))
    print(accuracy.accuracy_text(report), end="")
    if options.report:
        from fuse_mlir.support.about import about

        head = about(report.source, options.line)
        if options.report.suffix == ".html":
            text = accuracy.accuracy_html(report, head)
        elif options.report.suffix == ".json":
            text = accuracy.accuracy_json(report, head)
        else:
            text = head.text() + accuracy.accuracy_text(report)
        options.report.write_text(text)
        print(f"report: {options.report}")
    static = report.rows[0]
    if options.min_cosine is not None and not (
        static.cosine >= options.min_cosine and static.nonfinite == 0
    ):
        print(
            f"static: cosine {static.cosine:.7f} is below "
            f"{options.min_cosine}, or {static.nonfinite} elements are not "
            "finite"
        )
        return 1
    return 0


def _chain_name(options: argparse.Namespace) -> str:
    """The model and its modules, for a report."""
    members = "+".join(options.members.split(","))
    where = f"{options.parent}.{members}" if options.parent else members
    return f"{options.pretrained or options.architecture}: {where}"


def _import_to(
    options: argparse.Namespace, directory: Path
) -> tuple[Path, Path]:
    """Writes the modules of a model to files."""
    from safetensors.torch import save_file

    from fuse_mlir.frontend import extract
    from fuse_mlir.frontend.importer import import_program

    chain, dtype, shape = make_chain(options)
    function = import_program(
        extract.export_module(chain, shape, dtype), options.name
    )
    source = directory / "model.mlir"
    source.write_text(function.text)
    weights = source.with_suffix(".safetensors")
    save_file(function.weights, weights)
    return source, weights


def _add_inputs(commands: Commands) -> None:
    command = commands.add_parser(
        "inputs",
        help="collect a module's inputs from text",
        description="Runs the model of DIR on each line of a text file, with "
        "its tokenizer, and writes the inputs of a module as .npy files for "
        "calibrate, accuracy and import --check-data.",
    )
    command.add_argument(
        "model",
        metavar="DIR",
        help="directory with a model, its weights and its tokenizer",
    )
    command.add_argument(
        "--text",
        type=Path,
        required=True,
        metavar="FILE",
        help="one call for each line",
    )
    command.add_argument(
        "--module",
        required=True,
        metavar="PATH",
        help="module whose input is kept, such as "
        "model.layers.0.post_attention_layernorm",
    )
    command.add_argument(
        "--length",
        type=int,
        default=512,
        help="most tokens of a line (default: 512)",
    )
    command.add_argument(
        "--dtype",
        choices=DTYPES,
        help="default: that of "
        "the config, else that of the weights, else bfloat16",
    )
    command.add_argument(
        "--device", default="cpu", help="cpu (default) or cuda"
    )
    command.add_argument(
        "--quiet", action="store_true", help="no progress on stderr"
    )
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="directory for the files",
    )
    command.set_defaults(run=_run_inputs)


def _run_inputs(options: argparse.Namespace) -> int:
    import transformers

    from fuse_mlir.calibration import input_files
    from fuse_mlir.checkpoint.model_source import open_source
    from fuse_mlir.frontend import extract

    if options.length < 1:
        raise ValueError(f"--length: expected 1 or more, got {options.length}")
    try:
        lines = options.text.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"--text: '{options.text}' is not text in UTF-8: byte "
            f"{error.start} is 0x{error.object[error.start]:02x}"
        ) from error
    source = open_source(options.model, {}, options.dtype)
    if source.directory is None:
        raise ValueError(
            "inputs needs a directory with weights and a "
            f"tokenizer; '{options.model}' is not a directory"
        )
    # Without files, transformers makes a tokenizer without a vocabulary.
    if not any(
        next(Path(options.model).glob(name), None)
        for name in ("tokenizer*.json", "vocab.*", "*.model")
    ):
        raise ValueError(
            f"'{options.model}' has no tokenizer: expected "
            "tokenizer.json, vocab.txt or the like"
        )
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            options.model, local_files_only=True
        )
    except Exception as error:
        raise ValueError(
            f"'{options.model}' has no tokenizer that "
            f"transformers reads: {extract.reason_of(error)}"
        ) from error
    model = source.build(
        options.device, None if options.quiet else _say, _progress(options)
    )
    files = input_files.collect_inputs(
        model,
        tokenizer,
        lines,
        options.module,
        options.output,
        options.length,
        _progress(options),
    )
    print(f"{options.output}: {len(files)} files")
    return 0


def _add_model_commands(commands: Commands) -> None:
    for name, run, summary in (
        (
            "explain",
            _run_explain,
            "say which modules of a model can be fused, and why others not",
        ),
        ("fuse", _run_fuse, "fuse a model and write its kernels"),
        ("verify", _run_verify, "hold fused modules against what they replace"),
        ("bench", _run_bench, "time a model with and without fusion"),
    ):
        command = commands.add_parser(
            name,
            help=summary,
            description=f"Commands on a model of transformers: {summary}.",
        )
        command.add_argument(
            "model",
            metavar="MODEL_OR_CONFIG",
            help="directory with config.json and weights, a config.json, or "
            "a model type such as qwen3; the last two get drawn weights",
        )
        command.add_argument(
            "--set",
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help="setting of the config, such as num_hidden_layers=4; may "
            "repeat; with weights only where it changes none of them",
        )
        command.add_argument(
            "--dtype",
            choices=DTYPES,
            help="default: that of the config, "
            "else that of the weights, else bfloat16",
        )
        command.add_argument(
            "--device", default="cpu", help="cpu (default) or cuda"
        )
        command.add_argument(
            "--pattern",
            metavar="CLASS=GLOB,...",
            action="append",
            default=[],
            help="members of a chain; may repeat (default: "
            "declared patterns, or every chain around linears)",
        )
        command.add_argument(
            "--rounding",
            choices=("exact", "relaxed"),
            default="exact",
            help="relaxed rounds activations once where a model writes out "
            "formulas that round in between",
        )
        command.add_argument(
            "--format", choices=("text", "json", "html"), default="text"
        )
        command.add_argument(
            "--quiet", action="store_true", help="no progress on stderr"
        )
        command.add_argument(
            "-o",
            "--output",
            metavar="PATH",
            type=Path,
            required=name == "fuse",
            help="directory for kernels and sites.json"
            if name == "fuse"
            else "file for the report (default: stdout)",
        )
        if name == "fuse":
            command.add_argument(
                "--chip",
                help="GPU that the kernels are for, such as sm_90a "
                "(default: where the model is)",
            )
            command.add_argument(
                "--hub",
                metavar="NAME",
                help="also write kernel directories "
                "of Hugging Face, called NAME, or NAME-1 and so on",
            )
        if name == "explain":
            command.add_argument(
                "--profile",
                action="store_true",
                help="run the model, and report the time of a call by kernel "
                "without and with fusion, with a timeline in HTML",
            )
        if name == "bench":
            command.add_argument("--repeats", type=int, default=20)
        command.set_defaults(run=run)


def _patterns(items: Sequence[str]) -> dict[tuple, str] | None:
    found: dict[tuple, str] = {}
    for item in items:
        members = []
        for part in item.split(","):
            name, equals, glob = part.partition("=")
            if not (name and equals and glob):
                raise ValueError(
                    f"bad pattern '{item}'; expected CLASS=GLOB,CLASS=GLOB"
                )
            members.append((name, glob))
        found[tuple(members)] = "fuse"
    return found or None


def _check(options: argparse.Namespace) -> None:
    """Checks options early, because building a model takes long."""
    _patterns(options.pattern)
    if getattr(options, "hub", None) is not None:
        from fuse_mlir.deploy import hub

        hub.check_name(options.hub)
    if getattr(options, "repeats", 1) < 1:
        raise ValueError(
            f"--repeats: expected 1 or more, got {options.repeats}"
        )
    if options.output is not None:
        place = (
            options.output
            if options.command == "fuse"
            else options.output.parent
        )
        place.mkdir(parents=True, exist_ok=True)


def _model(options: argparse.Namespace, weights: bool = True) -> nn.Module:
    import torch
    import transformers

    from fuse_mlir.checkpoint.model_source import open_source

    transformers.logging.disable_progress_bar()
    # Warnings of transformers about weights are for the user. For a config with
    # one block, transformers also warns of missing tokens.
    if not Path(options.model).is_dir():
        transformers.logging.set_verbosity_error()
    _check(options)
    device = options.device.partition(":")[0]
    if device not in ("cpu", "cuda"):
        raise ValueError(f"--device: expected cpu or cuda, got '{device}'")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device: PyTorch finds no GPU of CUDA here")
    source = open_source(options.model, settings(options.set), options.dtype)
    if not weights and not source.is_stored:
        return source.skeleton()
    return source.build(
        options.device, None if options.quiet else _say, _progress(options)
    )


def _about(options: argparse.Namespace) -> About:
    from fuse_mlir.support.about import about

    return about(options.model, options.line, options.device)


def _progress(options: argparse.Namespace) -> Progress | None:
    from fuse_mlir.support.progress import Display

    return None if options.quiet else Display()


def _write(options: argparse.Namespace, text: str) -> None:
    if options.output is None:
        print(text, end="")
    else:
        # A file needs the command, because it outlives the terminal.
        if options.format == "text":
            text = _about(options).text() + text
        options.output.write_text(text)
        print(f"report: {options.output}")


def _sites(options: argparse.Namespace, results: FusionResult) -> str:
    from fuse_mlir.reports import report

    if options.format == "html":
        return report.sites_html(results, "Fusion", _about(options))
    if options.format == "json":
        return report.sites_json(results, _about(options))
    return for_commands(str(results))


def _run_explain(options: argparse.Namespace) -> int:
    from fuse_mlir.reports import report

    if options.profile:
        from fuse_mlir.reports.profile import profile

        found = profile(
            _model(options),
            patterns=_patterns(options.pattern),
            progress=_progress(options),
            rounding=options.rounding,
        )
        found.about = _about(options)
        _write(options, _printed(found, options.format))
        return 0
    model = _model(options, weights=False)
    results = report.explain(
        model,
        _patterns(options.pattern),
        progress=_progress(options),
        rounding=options.rounding,
    )
    _write(options, _sites(options, results))
    return 0


def _run_fuse(options: argparse.Namespace) -> int:
    from fuse_mlir.deploy import hub
    from fuse_mlir.fusion import compiled_module, modules
    from fuse_mlir.fusion.places import fused_sites
    from fuse_mlir.matching.sites import join
    from fuse_mlir.reports import report

    model = _model(options)
    results = modules.fuse_modules(
        model,
        _patterns(options.pattern),
        progress=_progress(options),
        rounding=options.rounding,
        only_faster=False,
    )
    files = compiled_module.export_all(
        model, options.output, options.chip, _progress(options)
    )
    (options.output / "sites.json").write_text(
        report.sites_json(results, _about(options))
    )
    print(_sites(options, results), end="")
    for path, sites in files.items():
        print(f"{path}: kernel of {len(sites)} sites")
    layers = {
        join(parent, module.site)
        for parent, module in fused_sites(model)
        if hub.has_layer(module)
    }
    # Projections of attention are no layer of the Hub.
    kinds = [sites for sites in files.values() if sites[0] in layers]
    for number, sites in enumerate(kinds if options.hub else ()):
        name = f"{options.hub}-{number}" if len(kinds) > 1 else options.hub
        made = hub.export_hub_kernel(
            model, options.output / name, sites[0], name=name
        )
        print(f"{made}: kernel of {len(sites)} sites")
    return 0


def _run_verify(options: argparse.Namespace) -> int:
    from fuse_mlir.fusion import modules
    from fuse_mlir.reports import report

    model = _model(options)
    modules.fuse_modules(
        model,
        _patterns(options.pattern),
        progress=_progress(options),
        rounding=options.rounding,
        only_faster=False,
    )
    checks = report.verify(model, progress=_progress(options))
    files = _check_files(model, Path(options.model), _progress(options))
    checks.checks += files
    if files:
        checks.unchecked.pop()
    checks.about = _about(options)
    _write(options, _printed(checks, options.format))
    return 0 if checks else 1


def _check_files(
    model: nn.Module, path: Path, progress: Progress | None
) -> list[Check]:
    """Compares the weights with the safetensors files of the model's directory,
    if there are any."""
    from fuse_mlir.checkpoint.check import compare_with_files
    from fuse_mlir.reports.report import Check

    if not path.is_dir() or next(path.glob("*.safetensors"), None) is None:
        return []
    found = compare_with_files(model, path, progress)
    return [Check("model", "files", bool(found), str(found))]


def _run_bench(options: argparse.Namespace) -> int:
    from fuse_mlir.fusion import modules
    from fuse_mlir.reports import report

    model = _model(options)
    modules.fuse_modules(
        model,
        _patterns(options.pattern),
        progress=_progress(options),
        rounding=options.rounding,
        only_faster=False,
    )
    timing = report.bench(
        model, repeats=options.repeats, progress=_progress(options)
    )
    timing.about = _about(options)
    _write(options, _printed(timing, options.format))
    return 0


def _printed(result: Verification | Timing | Profile, form: str) -> str:
    if form == "json":
        return result.json()
    return result.html() if form == "html" else str(result)
