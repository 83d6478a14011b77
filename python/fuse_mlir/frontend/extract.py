# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Extracts chains of modules from a model, and exports them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from fuse_mlir.errors import BlockError
from fuse_mlir.support.quiet import quiet

#: A dimension of an input: a size, or the name of a dynamic dimension.
DimSpec = int | str


class Chain(nn.Module):
    """Modules of a model, called one after the other.

    The members keep their dotted paths, so that the exported program has the
    parameters and module paths of the model.
    """

    def __init__(
        self, members: Mapping[str, nn.Module], residual: bool = False
    ) -> None:
        super().__init__()
        self._paths = list(members)
        self._residual = residual
        for path, module in members.items():
            parent: nn.Module = self
            *containers, name = path.split(".")
            for container in containers:
                if container not in parent._modules:
                    parent.add_module(container, nn.Module())
                parent = parent.get_submodule(container)
            parent.add_module(name, module)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        residual = hidden_states
        for path in self._paths:
            hidden_states = self.get_submodule(path)(hidden_states)
        if self._residual:
            hidden_states = residual + hidden_states
        return hidden_states


def take_chain(
    model: nn.Module,
    parent: str,
    members: Sequence[str],
    residual: bool = False,
) -> Chain:
    """The modules `members` below the path `parent` of `model`."""
    found = {}
    for member in members:
        path = f"{parent}.{member}" if parent else member
        found[path] = _submodule(model, path)
    return Chain(found, residual).eval()


def _submodule(model: nn.Module, path: str) -> nn.Module:
    module, walked = model, ""
    for name in path.split("."):
        children = dict(module.named_children())
        if name not in children:
            where = f"'{walked}'" if walked else "the model"
            raise BlockError(
                f"no module '{path}': {where} has no child "
                f"'{name}'; it has " + (", ".join(children) or "none")
            )
        module = children[name]
        walked = f"{walked}.{name}" if walked else name
    return module


def example_input(
    shape: Sequence[DimSpec],
    sizes: Mapping[str, int],
    dtype: torch.dtype,
    seed: int,
) -> torch.Tensor:
    """A random input; named dimensions get the sizes given for them."""
    missing = [d for d in shape if isinstance(d, str) and d not in sizes]
    if missing:
        raise BlockError(f"no size given for dimension '{missing[0]}'")
    concrete = [sizes[d] if isinstance(d, str) else d for d in shape]
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(concrete, generator=generator, device="cpu").to(dtype)


def export_module(
    module: nn.Module, shape: Sequence[DimSpec], dtype: torch.dtype
) -> ExportedProgram:
    """torch.export with the named dimensions of `shape` dynamic."""
    names = sorted({d for d in shape if isinstance(d, str)})
    # torch.export would specialize sizes 0 and 1, and unify equal sizes.
    sizes = {name: 5 + 2 * i for i, name in enumerate(names)}
    dims = {name: Dim(name, min=1) for name in names}
    dynamic = {i: dims[d] for i, d in enumerate(shape) if isinstance(d, str)}
    example = example_input(shape, sizes, dtype, seed=0)
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(
                module, (example,), dynamic_shapes=(dynamic or None,)
            )
    # Any error of the module or of the tracer is about the module.
    except Exception as error:
        raise BlockError(
            "PyTorch cannot export the modules: "
            f"{reason_of(error)}; their input has the shape "
            + ",".join(map(str, shape))
        ) from error


def reason_of(error: BaseException) -> str:
    """The kind of an error and the first line of its text."""
    first = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first}"


def parse_shape(text: str) -> list[DimSpec]:
    """Parses `tokens,1024`: sizes and names of dynamic dimensions."""
    shape: list[DimSpec] = []
    for part in text.split(","):
        part = part.strip()
        if part.isdecimal() and int(part) > 0:
            shape.append(int(part))
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part):
            shape.append(part)
        else:
            raise BlockError(
                f"bad dimension '{part}' in shape '{text}'; "
                "expected a positive size or a name"
            )
    return shape
