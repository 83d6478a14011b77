# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles PTX files of the user to kernels of chains."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fuse_mlir import native
from fuse_mlir.errors import PtxError
from fuse_mlir.ir.builder import float_literal, quote
from fuse_mlir.matching.ptx_kernel import PtxKernel
from fuse_mlir.native.context import Context

_NUMBER = re.compile(r"sm_(\d+)[a-z]?")
_ARGUMENT = re.compile(
    r"%arg\d+: (tensor<[^>]*>)"
    r'(?: \{fuse\.parameter = "([^"]*)"\})?'
)


def compile_ptx(kernel: PtxKernel, function: str, chip: str) -> native.Artifact:
    """An artifact of a kernel, with the signature of a function.

    Args:
        kernel: its file is read now.
        function: IR whose only function has the signature.
        chip: the chip to run on, such as `sm_90a`.

    Raises:
        PtxError: the function lacks a name, or the chip is too old.
        NativeError: the file is missing, lacks the kernel, or has another
            digest.
    """
    found = _NUMBER.fullmatch(chip)
    if found is None or int(found[1]) < kernel.capability:
        raise PtxError(
            f"PTX '{kernel}' is for sm_{kernel.capability} and "
            f"later, not for {chip}"
        )
    head = re.search(
        r"func\.func @main\((.*)\) -> (tensor<[^>]*>) \{", function
    )
    assert head is not None, "one function with one result"
    arguments = _ARGUMENT.findall(head[1])
    names = _tensor_names([parameter for _, parameter in arguments])
    takes = ", ".join(type_ for type_, _ in arguments)
    given = ", ".join(f"%arg{i}" for i in range(len(arguments)))
    type_ = f"({takes}) -> ({head[2]})"
    context = Context()
    path = Path(kernel.path).resolve()
    registration = _registration(kernel, names, path)
    if kernel.sha256 is None:
        context.register_kernels(registration, path.parent)
    else:
        context.register_kernels(
            registration, path.parent, sha256={path.name: kernel.sha256}
        )
    module = context.parse(
        f'nn.slot @chain op "chain" variant "of_members" : {type_} {{}}\n'
        f"func.func @main({head[1]}) -> {head[2]} {{\n"
        f"  %r = nn.call_slot @chain({given}) : {type_}\n"
        f"  return %r : {head[2]}\n}}\n"
    )
    module.bind({"bind": {"chain": "ptx"}, "target": chip})
    return native.compile_module(
        module._handle.pointer, module._context._diagnostics, chip=chip
    )


def _tensor_names(parameters: Sequence[str]) -> dict[str, str]:
    """Names of tensors for the user, and in the IR."""
    names = {"result0": "result0"}
    inputs = 0
    for i, parameter in enumerate(parameters):
        if not parameter:
            parameter, inputs = f"input{inputs}", inputs + 1
        names[parameter] = f"arg{i}"
    return names


def _registration(
    kernel: PtxKernel, names: Mapping[str, str], path: Path
) -> str:
    """The IR that registers the kernel, relative to the folder of its file."""
    places = []
    for name, (tensor, dim) in kernel.sizes.items():
        place = names.get(tensor, "")
        if not place.startswith("arg"):
            raise PtxError(
                f"size '{name}' of PTX '{kernel}' is of tensor "
                f"'{tensor}'; there are "
                + ", ".join(n for n in names if n != "result0")
            )
        places.append(f"[{place[3:]}, {int(dim)}]")
    symbols = f"()[{', '.join(kernel.sizes)}]"

    def show(argument: str | int | float) -> str:
        if isinstance(argument, int):
            return f"{argument} : i32"
        if isinstance(argument, float):
            return f"{float_literal(argument, 'f32')} : f32"
        if argument in kernel.sizes:
            return f"affine_map<{symbols} -> ({argument})>"
        if argument not in names:
            raise PtxError(
                f"argument '{argument}' of PTX '{kernel}' is "
                "neither a tensor nor a size; there are "
                + ", ".join([*names, *kernel.sizes])
            )
        return quote(names[argument])

    grid, block = (
        ", ".join(map(str, [*sizes, 1, 1][:3]))
        for sizes in (kernel.grid, kernel.block)
    )
    shared = f"shared = {kernel.shared}, " if kernel.shared else ""
    return (
        f'nn.slot_kernel "ptx" op "chain" variant "of_members" {{\n'
        f"  nn.implementation on <gpu from {kernel.capability}>\n"
        "    code #nn.gpu_code<format = ptx, "
        f"file = {quote(path.name)}, "
        f"entry = {quote(kernel.entry)}, "
        f"grid = affine_map<{symbols} -> ({grid})>, block = [{block}], "
        f"{shared}sizes = [{', '.join(places)}], "
        f"args = [{', '.join(map(show, kernel.args))}]> {{}}\n}}\n"
    )
