# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments that name modules of a model, and the chain of these modules."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuse_mlir.checkpoint.model_source import ModelSource
    from fuse_mlir.matching.members import Chain

DTYPES = ("bfloat16", "float16", "float32")


def settings(items: Sequence[str]) -> dict[str, Any]:
    """Parses `KEY=VALUE` items; a value is a Python literal or text."""
    result = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ValueError(f"bad setting '{item}'; expected KEY=VALUE")
        try:
            result[key] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            result[key] = value
    return result


def add_model(command: argparse.ArgumentParser, required: bool) -> None:
    """Adds the arguments on a model, its modules and their input."""
    source = command.add_mutually_exclusive_group(required=required)
    source.add_argument(
        "--architecture",
        metavar="NAME",
        help="model type of transformers, such as qwen3, or a config.json; "
        "weights are drawn",
    )
    source.add_argument(
        "--pretrained",
        metavar="DIR",
        type=Path,
        help="local directory with a model and its weights",
    )
    command.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="setting of the config, such as hidden_size=1024; may repeat",
    )
    command.add_argument(
        "--parent",
        metavar="PATH",
        default="",
        help="module the members are children of, such as model.layers.0",
    )
    command.add_argument(
        "--members",
        metavar="NAMES",
        required=required,
        help="modules called one after the other, separated by commas",
    )
    command.add_argument(
        "--residual",
        action="store_true",
        help="add the input of the chain to its result",
    )
    command.add_argument(
        "--shape",
        metavar="DIMS",
        required=required,
        help="input shape; a name is a dynamic dimension: tokens,1024",
    )
    command.add_argument(
        "--dtype",
        choices=DTYPES,
        help="default: that of the config, else "
        "that of the weights, else bfloat16",
    )
    command.add_argument(
        "--name", default="main", help="name of the function (default: main)"
    )
    command.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed of drawn weights and of the sample input",
    )


def add_stored(command: argparse.ArgumentParser) -> None:
    """Adds the arguments on linears with stored weights."""
    group = command.add_argument_group(
        "quantized checkpoints", "linears whose weights are stored in 8 bits"
    )
    group.add_argument(
        "--activations",
        default="static",
        help="what is done with their inputs: static (default, the "
        "checkpoint's scales), per_token, per_tensor or none",
    )
    group.add_argument(
        "--order",
        help="division order of static scales: divide (default for "
        "compressed-tensors) or reciprocal (default for other formats)",
    )
    group.add_argument(
        "--bias-place",
        help="before_rounding or after_rounding; the latter by default for "
        "the fp8 method of transformers, the former otherwise",
    )
    group.add_argument(
        "--unsupported",
        default="error",
        help="error (default), or dequantize: keep linears whose layout is "
        "not supported in floating point",
    )
    group.add_argument(
        "--inverse-scales",
        metavar="NAMES",
        default="",
        help="entries that hold the inverse of a scale, separated by commas",
    )
    group.add_argument(
        "--original",
        metavar="DIR",
        type=Path,
        help="directory with the weights before quantization, with which the "
        "stored ones are compared",
    )


def make_chain(options: argparse.Namespace) -> tuple[Any, Any, list[Any]]:
    """The chain that the arguments name, its dtype and its input shape.

    Linears that stay in floating point with the user's permission are listed
    on the standard error.
    """
    import transformers

    from fuse_mlir.checkpoint import models
    from fuse_mlir.checkpoint.model_source import open_source
    from fuse_mlir.frontend import extract
    from fuse_mlir.matching.members import take_chain

    transformers.logging.disable_progress_bar()
    # For a config with one block, transformers warns of missing tokens.
    if not options.pretrained:
        transformers.logging.set_verbosity_error()
    shape = extract.parse_shape(options.shape)
    members = options.members.split(",")
    if options.pretrained:
        if options.set:
            raise ValueError("--set needs --architecture")
        source = open_source(str(options.pretrained), {}, options.dtype)
        if source.directory is None:
            raise ValueError(
                f"--pretrained: no directory '{options.pretrained}'"
            )
        return (
            _pretrained_chain(options, members, source),
            source.dtype,
            shape,
        )
    source = open_source(
        options.architecture, settings(options.set), options.dtype
    )
    if source.directory is not None:
        raise ValueError(
            f"--architecture: '{options.architecture}' is a "
            "directory; use --pretrained for its weights, or "
            f"'{options.architecture}/config.json' for drawn ones"
        )
    chain = take_chain(
        source.skeleton(), options.parent, members, options.residual
    )
    models.seed_weights(chain, options.seed)
    return chain, source.dtype, shape


def _pretrained_chain(
    options: argparse.Namespace, members: Sequence[str], source: ModelSource
) -> Chain:
    from fuse_mlir.checkpoint.loader import check_format, load_chain, policy_of
    from fuse_mlir.matching.members import take_chain
    from fuse_mlir.quantized.stored import Policy
    from fuse_mlir.support.progress import Display

    check_format(options.pretrained)
    if not source.is_stored:
        return take_chain(
            source.build(say=_say, progress=Display()),
            options.parent,
            members,
            options.residual,
        )
    if not hasattr(options, "activations"):
        raise ValueError(
            f"'{options.pretrained}' is quantized already, and accuracy "
            "quantizes weights in floating point; expected a directory with "
            "such weights"
        )
    inverse = tuple(n for n in options.inverse_scales.split(",") if n)
    policy = policy_of(
        options.pretrained,
        Policy(
            activations=options.activations,
            unsupported=options.unsupported,
            inverse=inverse,
        ),
        options.bias_place,
        options.order,
    )
    if options.order is None:
        _say(f"division order of static scales: {policy.order}")
    chain, kept = load_chain(
        options.pretrained,
        options.parent,
        members,
        options.residual,
        source.dtype,
        policy,
        options.original,
    )
    for left in kept:
        _say(f"kept in floating point: {left.refusal}")
    return chain


def _say(line: str) -> None:
    print(line, file=sys.stderr)
