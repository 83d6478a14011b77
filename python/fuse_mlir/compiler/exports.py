# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chains of modules as IR, which PyTorch exports.

An export takes seconds, so processes share those of equal chains on disk.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from fuse_mlir.compiler import stored_exports
from fuse_mlir.compiler.stored_exports import Description, ResultType
from fuse_mlir.errors import ImportFailure, KernelError, Refusal
from fuse_mlir.frontend.importer import import_program
from fuse_mlir.frontend.walker import storage_key
from fuse_mlir.native.refusals import refusal
from fuse_mlir.support.clone import clone
from fuse_mlir.support.messages import first_line
from fuse_mlir.support.quiet import quiet


@dataclass(frozen=True)
class InputType:
    """Type of an input; all dimensions except the last have any size."""

    rank: int
    features: int
    dtype: torch.dtype


@dataclass
class Exported:
    """The function of a chain."""

    #: What a file can hold of it.
    description: Description
    #: Tensors that a forward refers to and that no module has.
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    #: Whether a clone of the chain can use other parameters.
    clones: bool = True


def export_chain(chain: nn.Module, inputs: Sequence[InputType]) -> Exported:
    """The function of a chain, from the disk if it is known there.

    Args:
        chain: with weights.
        inputs: their types.

    Raises:
        KernelError: PyTorch cannot export the chain, or one of its ops has no
            translation.
    """
    key = stored_exports.key_of(chain, inputs)
    found = None if key is None else stored_exports.load(key)
    if found is not None and _fits(found, chain):
        return Exported(found)
    program, clones = _export_apart(chain, inputs)
    try:
        function = import_program(program, "main")
    except ImportFailure as error:
        raise KernelError(_untranslated(chain, inputs, error)) from error
    results = _result_types(program, getattr(chain, "num_results", 1))
    parameters = {
        name: (tensor.dtype, tuple(tensor.shape))
        for name, tensor in function.weights.items()
    }
    aliases = {
        name: owner
        for name, owner in function.aliases.items()
        if owner in parameters
    }
    # The cache must not keep parameters of a model alive.
    constants = {
        name: tensor
        for name, tensor in function.weights.items()
        if owner_of(chain, name) is None
    }
    description = Description(function.text, parameters, aliases, results)
    if key is not None and clones and not constants:
        stored_exports.store(key, description)
    return Exported(description, constants, clones)


def _fits(found: Description, chain: nn.Module) -> bool:
    """Whether the chain has the tensors that a function names."""
    for name, (dtype, shape) in found.parameters.items():
        owner = owner_of(chain, name)
        if owner is None:
            return False
        path, part = rows_of(name)
        # A stored linear shows its weight in another dtype.
        held = owner._parameters | owner._buffers
        tensor = held[path.rpartition(".")[2]]
        if tensor is None or tensor.dtype != dtype:
            return False
        if tuple(rows(tensor, part).shape) != shape:
            return False
    return True


def _untranslated(
    chain: nn.Module, inputs: Sequence[InputType], error: ImportFailure
) -> Refusal:
    """Why a program has no IR: its dtypes, or else an op."""
    tensors = [("an input", t.dtype) for t in inputs]
    tensors += [
        (f"'{name}'", t.dtype)
        for name, t in itertools.chain(
            chain.named_parameters(), chain.named_buffers()
        )
    ]
    for name, dtype in tensors:
        if dtype.is_complex or dtype is torch.float64:
            return refusal(
                "unsupported-type",
                f"{name} is {dtype}, and "
                "kernels compute in bfloat16, float16 or float32; "
                "convert the model with model.to(torch.float32)",
            )
    return refusal(
        "no-translation",
        f"{error}; leave this module out of the "
        "chain, or write that line with ops that "
        "docs/how-to/import-a-block.md lists",
    )


def rows_of(name: str) -> tuple[str, slice | None]:
    """The parameter and its rows that a name such as `w[0:8]` means."""
    found = re.fullmatch(r"(.*)\[(\d+):(\d+)\]", name)
    if found is None:
        return name, None
    return found[1], slice(int(found[2]), int(found[3]))


def rows(tensor: torch.Tensor, part: slice | None) -> torch.Tensor:
    """A view of rows of a tensor; all of it for None."""
    return tensor if part is None else tensor[part]


def owner_of(chain: nn.Module, name: str) -> nn.Module | None:
    """The module that holds a parameter or buffer."""
    path, _, attribute = rows_of(name)[0].rpartition(".")
    try:
        owner = chain.get_submodule(path)
    except AttributeError:
        return None
    held = attribute in owner._parameters or attribute in owner._buffers
    return owner if held else None


def _export_apart(
    chain: nn.Module, inputs: Sequence[InputType]
) -> tuple[Any, bool]:
    """The program of a clone of `chain`, and whether clones work.

    If they do not, the program is that of `chain` itself.
    """
    program = _export(clone(chain), inputs)
    held = {
        storage_key(t)
        for t in itertools.chain(chain.parameters(), chain.buffers())
        if t.numel()
    }
    if not any(
        isinstance(t, torch.Tensor) and storage_key(t) in held
        for t in program.constants.values()
    ):
        return program, True
    # A function in an attribute may read parameters of the original module.
    return _export(chain, inputs), False


def _export(chain: nn.Module, inputs: Sequence[InputType]) -> ExportedProgram:
    tensor = next(itertools.chain(chain.parameters(), chain.buffers()), None)
    device = torch.device("cpu") if tensor is None else tensor.device
    # torch.export would specialize sizes 0 and 1, and unify equal sizes.
    sizes = (5, 7, 3, 11, 13)
    depth = max(t.rank for t in inputs) - 1
    if depth > len(sizes):
        raise KernelError(
            refusal(
                "unsupported-argument",
                f"an input has {depth + 1} dimensions; "
                f"expected at most {len(sizes) + 1}",
            )
        )
    dims = [Dim(f"d{i}", min=1) for i in range(depth)]
    examples, dynamic = [], []
    for type_ in inputs:
        shape = [*sizes[: type_.rank - 1], type_.features]
        examples.append(torch.zeros(shape, dtype=type_.dtype, device=device))
        dynamic.append({i: dims[i] for i in range(type_.rank - 1)} or None)
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(
                chain, tuple(examples), dynamic_shapes=(tuple(dynamic),)
            )
    # Any error of a module or of the tracer is about the module.
    except Exception as error:
        why = (
            "they branch on the values of a tensor; compute both results "
            "and choose with torch.where"
            if isinstance(error, GuardOnDataDependentSymNode)
            else first_line(error)
        )
        raise KernelError(
            refusal(
                "not-traceable", f"torch.export cannot trace the members: {why}"
            )
        ) from error


def _result_types(
    program: ExportedProgram, count: int
) -> tuple[ResultType, ...]:
    """Types of the results of a chain that has `count` of them."""
    spec = program.call_spec.out_spec
    if not spec.is_leaf() if count == 1 else spec.num_leaves != count:
        kind = "None" if spec.type is None else spec.type.__name__
        raise KernelError(
            refusal(
                "unsupported-argument",
                f"the members return a {kind}; expected "
                + ("a tensor" if count == 1 else f"{count} tensors"),
            )
        )
    nodes = list(program.graph.nodes)
    users = {
        s.arg.name
        for s in program.graph_signature.input_specs
        if s.kind is torch.export.graph_signature.InputKind.USER_INPUT
    }
    holders: dict[Any, tuple[int, int]] = {}
    count = 0
    for node in nodes:
        if node.op == "placeholder" and node.name in users:
            for i, size in enumerate(node.meta["val"].shape):
                if isinstance(size, torch.SymInt):
                    holders.setdefault(size.node.expr, (count, i))
            count += 1
    return tuple(
        _result_type(node.meta["val"], holders) for node in nodes[-1].args[0]
    )


def _result_type(
    value: torch.Tensor, holders: Mapping[Any, tuple[int, int]]
) -> ResultType:
    dims: list[int | tuple[int, int]] = []
    for size in value.shape:
        if not isinstance(size, torch.SymInt):
            dims.append(size)
        elif size.node.expr in holders:
            dims.append(holders[size.node.expr])
        else:
            raise KernelError(
                refusal(
                    "unsupported-argument",
                    f"the result has size "
                    f"{size.node.expr}; expected a number or a size of an input",
                )
            )
    return ResultType(tuple(dims), value.dtype)
