# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that a kernel may replace members, and is the kernel asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

import torch
from torch import nn
from torch.autograd import forward_ad

from fuse_mlir.compiler.adapters import WHOLE
from fuse_mlir.compiler.chains import Compiled
from fuse_mlir.errors import FuseError, KernelError
from fuse_mlir.matching.patterns import FAMILIES
from fuse_mlir.matching.sites import distributed, hook_on, hook_on_all
from fuse_mlir.matching.static_mlp import StaticMlp
from fuse_mlir.matching.tensor_parallel import Part, part_of
from fuse_mlir.native.refusals import compiler_refusal, refusal


def check_members(
    what: str,
    names: Sequence[str],
    members: Sequence[nn.Module],
    undo: str,
    own_hooks: bool = False,
    parts: Mapping[int, Part] | None = None,
) -> None:
    """Checks that a kernel may still replace its members.

    Args:
        what: names the site in messages.
        names: of the members.
        members: the modules, in the order of `names`.
        undo: how to run the members unfused, for messages.
        own_hooks: whether all hooks of the first member run.
        parts: modules that were distributed before, by their ids.

    Raises:
        FuseError: a member has hooks that would not run, or is distributed
            in another way than before.
    """
    hook = hook_on_all()
    if hook is not None:
        raise FuseError(
            f"FUSE-N208 has-hooks: all modules, and those of {what}, have the "
            f"hook {hook}; {undo}, or remove the hook"
        )
    for index, member in enumerate(members):
        for path, module in member.named_modules():
            name = names[index] + (f".{path}" if path else "")
            first = index == 0 and not path
            if parts and parts.get(id(module)) == part_of(module) is not None:
                continue
            spread = distributed(module)
            if spread is not None:
                raise FuseError(
                    f"FUSE-N209 tensor-parallel: '{name}{spread[0]}' of "
                    f"{what} {spread[1]} after it was fused; {undo}"
                )
            hook = None if first and own_hooks else hook_on(module, first)
            if hook is not None:
                raise FuseError(
                    f"FUSE-N208 has-hooks: '{name}' of {what} got {hook} "
                    f"after it was fused; {undo}, or remove the hook"
                )


def check_autocast(what: str, x: torch.Tensor) -> None:
    """Checks that autocast does not change the type of a computation.

    Args:
        what: names the site in the message.
        x: first input of the call, [..., features].

    Raises:
        FuseError: autocast would compute in another type.
    """
    if (
        not x.is_meta
        and torch.is_autocast_enabled(x.device.type)
        and x.dtype is not torch.get_autocast_dtype(x.device.type)
    ):
        raise FuseError(
            f"{what} is fused for {x.dtype}, and autocast would compute it in "
            f"{torch.get_autocast_dtype(x.device.type)}; leave autocast, "
            "convert the model, or unfuse it"
        )


def is_transformed(inputs: Sequence[torch.Tensor]) -> bool:
    """Whether the inputs are those of a transform or have no data.

    `torch.func` and forward-mode differentiation see through members, but not
    through kernels.
    """
    if inputs[0].is_meta:
        return True
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    return forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(t).tangent is not None for t in inputs
    )


#: Texts for the families whose activations a `fusion_config` names.
_MLPS = {"gated_mlp": "a gated MLP", "mlp": "a dense MLP"}
_NAMED = {"gated_mlp": "gated_mlp", "mlp": "dense_gelu_mlp"}


def check_family(compiled: Compiled, wanted: str) -> None:
    """Checks that the kernel is of the family that the user asked for.

    Raises:
        KernelError: no kernel formed, with the compiler's reason, or the
            kernel is of another family.
    """
    if not compiled.families:
        ops = (
            ", ".join(
                op.removeprefix("fuse.")
                for op in compiled.ops
                if op.startswith("fuse.")
            )
            or "no layer"
        )
        raise KernelError(
            compiler_refusal(compiled.remarks)
            or refusal(
                "no-kernel",
                f"the members are {ops}, and no kernel consists of "
                f"these; there are {', '.join(FAMILIES)}",
            )
        )
    if wanted in FAMILIES and wanted not in compiled.families:
        _refuse_families(
            compiled,
            f"the pattern asks for {wanted}",
            f"ask for 'fuse' or 'fuse:{compiled.families[0]}'",
        )


def check_static(compiled: Compiled, static: StaticMlp) -> None:
    """Checks that kernels of the wanted families contain all linears, with
    static scales.

    Raises:
        KernelError: a linear is outside; with the compiler's reason.
    """
    if any(f not in static.families for f in compiled.families):
        _refuse_families(
            compiled,
            "the fusion_config asks for " + " or ".join(static.families),
            "name its kernel in the "
            "fusion_config, or leave the fusion_config out",
        )
    for family, known in static.activations.items():
        for act in re.findall(
            rf"fuse\.{family} .*? act\((\w+)\)", compiled.kind
        ):
            if act not in known:
                raise KernelError(
                    refusal(
                        "activation-not-asked-for",
                        f"the members are {_MLPS[family]} with the activation "
                        f"{act}, and the fusion_config asks for "
                        f"{' or '.join(known)}; 'any_mlp' instead of "
                        f"'{_NAMED[family]}' allows all activations, as does "
                        "fusion_config={}",
                    )
                )
    left = re.search(r"fuse\.(linear|quantize|dequantize)\b", compiled.kind)
    if left or " scales(" not in compiled.kind:
        raise KernelError(
            compiler_refusal(compiled.remarks)
            or refusal(
                "no-kernel",
                "the members form no kernel that has all of their "
                "linears with static scales; fuse them without a fusion_config",
            )
        )


def _refuse_families(compiled: Compiled, asked: str, advice: str) -> NoReturn:
    """Raises the reason that the kernels are of other families.

    Either the compiler could not form a larger kernel, or the members form
    another one.
    """
    formed = " and ".join(compiled.families)
    forms = "form" if len(compiled.families) > 1 else "forms"
    stopped = (
        None
        if any(f in WHOLE for f in compiled.families)
        else compiler_refusal(
            compiled.remarks, f"only {formed} {forms}, and {asked}"
        )
    )
    raise KernelError(
        stopped
        or refusal(
            "other-family", f"the members form {formed}, and {asked}; {advice}"
        )
    )
