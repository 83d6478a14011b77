# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Notes on adapters that keep a larger kernel from forming.

PEFT replaces a linear by a module that calls the linear as its `base_layer` and
adds to the result. The fused chain computes the right result, but its kernel is
smaller. Only a note can show that.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from torch import nn

from fuse_mlir.compiler.chains import Compiled, compile_chain
from fuse_mlir.errors import KernelError
from fuse_mlir.matching.plans import Plan
from fuse_mlir.matching.sites import join
from fuse_mlir.native.refusals import compiler_refusal

#: Families of whole MLPs, the largest kernels.
WHOLE = ("gated_mlp", "mlp", "moe_experts")


def lost(
    names: Sequence[str],
    members: Sequence[nn.Module],
    plan: Plan,
    compiled: Compiled,
) -> str:
    """Why a kernel does not cover a whole MLP, although it could.

    Args:
        names: of the members among the children of their parent.
        members: the modules, in the order of `names`.
        plan: how the model calls them.
        compiled: their kernel.

    Returns:
        A clause for the note of a site; empty when the kernel is of a whole
        MLP.
    """
    if any(family in WHOLE for family in compiled.families):
        return ""
    found = [
        (join(name, path), module)
        for name, member in zip(names, members)
        for path, module in member.named_modules()
        if _is_adapter(module)
    ]
    if found:
        try:
            plain = compile_chain(
                names, [_without(m) for m in members], plan, compiled.inputs
            )
        except KernelError:
            plain = compiled
        if plain.families != compiled.families:
            path, module = found[0]
            more = f", one of {len(found)}," if len(found) > 1 else ""
            return (
                f"not {', '.join(plain.families)}, because '{path}'{more} "
                f"is a {type(module).__name__} of "
                f"{type(module).__module__.partition('.')[0]}, which adds "
                "to the result of its 'base_layer'; merge the adapter "
                "into the weights for that"
            )
    refused = compiler_refusal(compiled.remarks)
    # The refusal of formulas has its own advice.
    if refused is None or refused.id == "FUSE-N101":
        return ""
    return f"and no larger kernel, because of {refused}"


def _is_adapter(module: nn.Module) -> bool:
    return isinstance(module._modules.get("base_layer"), nn.Linear)


def _without(module: nn.Module) -> nn.Module:
    """A copy of a module with linears instead of their adapters."""
    if _is_adapter(module):
        return module._modules["base_layer"]  # type: ignore[return-value]
    children = {
        name: None if child is None else _without(child)
        for name, child in module._modules.items()
    }
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    clone = copy.copy(module)
    clone.__dict__["_modules"] = children
    return clone
