# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files of inputs: collected from text, and rounded to the type of a block."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fuse_mlir.errors import BlockError

#: Types of blocks that are narrower than the f32 of files.
_NARROW = {"bf16": torch.bfloat16, "f16": torch.float16}


def input_type(source: str) -> str:
    """The element type of a function's first argument, such as "bf16"; empty
    if it is not a tensor.

    Args:
        source: text of fuse IR.
    """
    found = re.search(r"func\.func [^\n]*?\(%\w+: tensor<([^>]*)>", source)
    return found.group(1).rpartition("x")[2].strip() if found else ""


def rounded_files(
    paths: Sequence[Path],
    element: str,
    directory: Path,
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Files whose values are representable in the input type of a block.

    Args:
        paths: .npy files in f32 or f64.
        element: type of the block's input.
        directory: for rounded copies; a file whose values all fit is not
            copied.
        say: called once with a line about the rounded values.

    Returns:
        A path for each of `paths`. Values are rounded to nearest even.

    Raises:
        BlockError: a file is not a .npy file.
    """
    dtype = _NARROW.get(element)
    if dtype is None:
        return list(paths)
    result, count = [], 0
    for index, path in enumerate(paths):
        try:
            values = np.load(path, allow_pickle=False)
        except ValueError as error:
            raise BlockError(f"'{path}' is not a .npy file: {error}") from error
        if values.dtype not in (np.float32, np.float64):
            result.append(path)
            continue
        exact = torch.from_numpy(np.ascontiguousarray(values))
        fitting = exact.to(dtype).to(exact.dtype)
        if bool(((exact == fitting) | exact.isnan()).all()):
            result.append(path)
            continue
        count += 1
        result.append(directory / f"rounded-{index}.npy")
        np.save(result[-1], fitting.float().numpy())
    if count:
        say(
            f"rounded the values of {count} of {len(paths)} files to "
            f"{element}, the type of the block"
        )
    return result


def collect_inputs(
    model: nn.Module,
    tokenizer: Callable[..., Mapping[str, torch.Tensor]],
    lines: Sequence[str],
    path: str,
    directory: Path,
    length: int = 512,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Path]:
    """Writes the inputs of a module while the model runs on lines of text.

    Args:
        model: in eval mode.
        tokenizer: of transformers, for the model.
        lines: each the text of one call; empty lines are skipped.
        path: of the module; its first tensor argument is written.
        directory: for the files input-0000.npy, input-0001.npy, ..., in f32,
            of shape [tokens, features].
        length: maximum number of tokens of a line.
        progress: called after each line with the number of finished lines.

    Returns:
        The files.

    Raises:
        BlockError: the module does not exist, there is no text, or the model
            does not call the module.
    """
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise BlockError("there is no text; expected one line for each call")
    modules = dict(model.named_modules())
    if path not in modules:
        close = [
            name
            for name in modules
            if name.rpartition(".")[2] == path.rpartition(".")[2]
        ]
        raise BlockError(
            f"no module '{path}'"
            + (f"; there is {', '.join(close[:4])}" if close else "")
        )
    seen: list[torch.Tensor] = []

    def keep(_: nn.Module, args: tuple, kwargs: dict) -> None:
        seen.extend(
            value
            for value in (*args, *kwargs.values())
            if isinstance(value, torch.Tensor) and value.is_floating_point()
        )

    directory.mkdir(parents=True, exist_ok=True)
    files = []
    device = next(model.parameters()).device
    handle = modules[path].register_forward_pre_hook(keep, with_kwargs=True)
    try:
        for index, text in enumerate(texts):
            seen.clear()
            encoded = tokenizer(
                text, return_tensors="pt", truncation=True, max_length=length
            )
            with torch.no_grad():
                model(**{k: v.to(device) for k, v in dict(encoded).items()})
            if not seen:
                raise BlockError(
                    f"'{path}' reads no tensor while the model runs"
                )
            values = seen[0].detach().float().cpu()
            files.append(directory / f"input-{index:04}.npy")
            np.save(files[-1], values.reshape(-1, values.shape[-1]).numpy())
            if progress is not None:
                progress(index + 1, len(texts), files[-1].name)
    finally:
        handle.remove()
    return files
