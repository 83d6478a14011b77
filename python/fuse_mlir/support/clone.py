# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules with places of their own for the same tensors.

To export or differentiate a module, PyTorch puts other tensors in the places
of its parameters for a while. Where these are places of the model, other
threads that call it meanwhile read them.
"""

from __future__ import annotations

from types import MethodType

from torch import nn

from fuse_mlir.support.module_snapshot import SCALARS, STANDARD


def clone(module: nn.Module) -> nn.Module:
    """Copies of `module` and the modules below it, with the same tensors and
    attributes; what refers to a module by an attribute, a list, or a method
    refers to the copy."""
    modules = list(module.modules())
    # Classes may have a way of their own to make modules: that of GraphModule
    # gives each another class, without the forward.
    made: dict[int, nn.Module] = {
        id(m): object.__new__(type(m)) for m in modules
    }

    def of(value: object) -> object:
        if isinstance(value, nn.Module):
            return made.get(id(value), value)
        if isinstance(value, MethodType):
            return MethodType(value.__func__, of(value.__self__))
        if isinstance(value, (list, tuple, set)):
            # Subclasses may have other constructors.
            if type(value) in (list, tuple, set):
                return type(value)(map(of, value))
            return value
        if isinstance(value, dict) and type(value) is dict:
            return {key: of(v) for key, v in value.items()}
        return value

    for m in modules:
        held = vars(m).copy()
        for name, value in held.items():
            if name not in STANDARD and not isinstance(value, SCALARS):
                held[name] = of(value)
        held.update(
            _parameters=m._parameters.copy(),
            _buffers=m._buffers.copy(),
            _modules={
                name: None if child is None else made[id(child)]
                for name, child in m._modules.items()
            },
        )
        vars(made[id(m)]).update(held)
    return made[id(module)]
