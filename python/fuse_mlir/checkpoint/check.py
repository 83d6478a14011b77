# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the parameters of a loaded model with the files of its directory.

Fused and unfused modules read the same parameters. Comparing the two can
therefore find neither a drawn weight nor codes that were read as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from fuse_mlir.checkpoint.loader import Checkpoint
from fuse_mlir.quantized.packed_linear import PackedLinear
from fuse_mlir.support.progress import paced
from fuse_mlir.support.types import Progress


@dataclass
class Comparison:
    """The outcome for each tensor of a directory."""

    directory: str
    #: Number of parameters with the values of the files, in any dtype.
    equal: int = 0
    #: Names of parameters with other values, with the reason.
    differ: list[str] = field(default_factory=list)
    #: Parameters without a tensor of the same name. transformers renames or
    #: merges some tensors while it loads them.
    unknown: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.differ and self.equal > 0

    def __str__(self) -> str:
        total = self.equal + len(self.differ) + len(self.unknown)
        text = (
            f"{self.equal} of {total} parameters have the values of "
            f"'{self.directory}'"
        )
        if self.differ:
            text += "; others differ: " + "; ".join(self.differ[:4])
        if self.unknown:
            text += (
                f"; {len(self.unknown)} have no tensor of their name and "
                "were not compared: " + ", ".join(self.unknown[:4])
            )
        return text


def compare_with_files(
    model: nn.Module,
    directory: str | Path,
    progress: Progress | None = None,
) -> Comparison:
    """Compares parameters and scales with the tensors of the same names.

    Args:
        model: loaded from the directory; fused or not.
        directory: with safetensors files.
        progress: called with the number of compared parameters, at most once in
            a second.

    Returns:
        The outcome for each parameter. A tensor of 8-bit codes equals only a
        parameter of the same dtype.

    Raises:
        BlockError: the directory has no safetensors files.
    """
    checkpoint = Checkpoint(directory)
    result = Comparison(str(directory))
    named: dict[str, torch.Tensor] = dict(model.named_parameters())
    named |= {
        name: buffer
        for name, buffer in model.named_buffers()
        if "scale" in name.rpartition(".")[2]
    }
    for path, module in model.named_modules():
        if isinstance(module, PackedLinear):
            # Kernels read another order of codes than the file has.
            for name in module.packed_parts():
                named.pop(f"{path}.{name}", None)
            entries: dict[str, torch.Tensor] = module.state_dict()
            named |= {f"{path}.{name}": t for name, t in entries.items()}
    report = paced(progress)
    for done, (name, tensor) in enumerate(named.items(), 1):
        if report is not None:
            report(done, len(named), f"comparing with files: {name}")
        entry = checkpoint.find(name)
        if entry is None:
            result.unknown.append(name)
            continue
        reason = _difference(tensor.detach().cpu(), checkpoint.read(entry))
        if reason is None:
            result.equal += 1
        else:
            result.differ.append(f"'{name}' {reason}")
    return result


def _difference(ours: torch.Tensor, file: torch.Tensor) -> str | None:
    """Why a parameter differs from the tensor of a file, or None."""
    if ours.shape != file.shape and ours.numel() != file.numel():
        return f"is {list(ours.shape)}, the file has {list(file.shape)}"
    file = file.reshape(ours.shape)
    if file.element_size() == 1 and ours.dtype != file.dtype:
        same = torch.equal(file.float(), ours.float())
        return (
            f"holds the codes of {file.dtype} as if they were numbers"
            if same
            else f"is {ours.dtype}, the file has codes of {file.dtype}"
        )
    rounded = file.to(ours.dtype)
    if ours.element_size() == 1:
        same = torch.equal(ours.view(torch.uint8), rounded.view(torch.uint8))
    else:
        same = torch.equal(ours, rounded) or bool(
            ((ours == rounded) | (ours.isnan() & rounded.isnan())).all()
        )
    return None if same else "has other values"
