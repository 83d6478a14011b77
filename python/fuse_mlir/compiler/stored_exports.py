# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of chains that other processes exported, on disk.

An export depends on the code of the modules, on their attributes, and on the
types of their tensors. `source_digest` describes all of them by a text, and
each file is named by the hash of it. A chain that no text describes is exported
in each process, and so is one whose file cannot be read.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import native
from fuse_mlir.compiler.source_digest import Undescribed, describe
from fuse_mlir.support.cache_folder import cache_folder, write_file

# Part of every key: what a file holds.
FORMAT = "fuse-exports-2"
#: Maximum number of files, of about ten KiB each. The oldest ones go first.
MOST = 1024


@dataclass(frozen=True)
class ResultType:
    """Type of a result."""

    #: Each dimension: a size, or an input and its dimension.
    dims: tuple[int | tuple[int, int], ...]
    dtype: torch.dtype

    def shape(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        """Sizes of the result, symbolic where those of `inputs` are."""
        return [
            d if isinstance(d, int) else inputs[d[0]].shape[d[1]]
            for d in self.dims
        ]


@dataclass(frozen=True)
class Description:
    """A function without values of tensors."""

    #: IR as PyTorch's program has it, without recognized layers.
    text: str
    #: Type and shape of each parameter, by its name in the chain.
    parameters: dict[str, tuple[torch.dtype, tuple[int, ...]]]
    #: Other names of tied parameters.
    aliases: dict[str, str]
    results: tuple[ResultType, ...]


def folder() -> Path:
    """The folder of the files, whether it exists or not."""
    return cache_folder("exports")


@functools.cache
def _versions() -> str:
    """What translates a chain: PyTorch, and the sources of this package."""
    package = Path(fuse_mlir.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return " ".join(
        [
            FORMAT,
            sys.version,
            torch.__version__,
            digest.hexdigest(),
            native.build_id(),
        ]
    )


def key_of(chain: nn.Module, inputs: Sequence[object]) -> str | None:
    """Name of the file of a chain; None if no text describes the chain.

    Args:
        chain: with its members.
        inputs: types of the inputs, whose `repr` says all of them.
    """
    # Casts of autocast would be part of the function.
    if any(
        torch.is_autocast_enabled(kind)
        for kind in ("cpu", torch.accelerator.current_accelerator() or "cuda")
        for kind in (torch.device(kind).type,)
    ):
        return None
    try:
        parts = [_versions(), repr(torch.get_default_dtype()), describe(chain)]
    except (Undescribed, OSError):
        return None
    text = "\n".join([*parts, *map(repr, inputs)])
    return hashlib.sha256(text.encode()).hexdigest()


def load(key: str) -> Description | None:
    """The function of a chain; None if there is none that can be read."""
    try:
        found = json.loads((folder() / f"{key}.json").read_text())
        text = found["text"]
        if (
            found["format"] != FORMAT
            or found["key"] != key
            or found["digest"] != _digest(text)
        ):
            return None
        return Description(
            text,
            {
                str(name): (_dtype(dtype), tuple(map(int, shape)))
                for name, (dtype, shape) in found["parameters"].items()
            },
            {str(a): str(b) for a, b in found["aliases"].items()},
            tuple(
                ResultType(
                    tuple(
                        (int(size[0]), int(size[1]))
                        if isinstance(size, list)
                        else int(size)
                        for size in dims
                    ),
                    _dtype(dtype),
                )
                for dims, dtype in found["results"]
            ),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"'{name}' is not a dtype")
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def store(key: str, description: Description) -> None:
    """Writes a file at once; a folder that cannot be written is no error."""

    def name(dtype: torch.dtype) -> str:
        return str(dtype).removeprefix("torch.")

    text = json.dumps(
        {
            "format": FORMAT,
            "key": key,
            "digest": _digest(description.text),
            "text": description.text,
            "parameters": {
                parameter: (name(dtype), shape)
                for parameter, (dtype, shape) in description.parameters.items()
            },
            "aliases": description.aliases,
            "results": [
                [result.dims, name(result.dtype)]
                for result in description.results
            ],
        }
    )
    with contextlib.suppress(OSError):
        write_file(folder() / f"{key}.json", text, MOST)
