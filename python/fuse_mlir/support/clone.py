# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Clones of modules that share tensors.

To export or differentiate a module, PyTorch replaces its parameters by other
tensors for a while. Without a clone, other threads that call the model at the
same time would read these tensors.
"""

from __future__ import annotations

from types import MethodType

from torch import nn

from fuse_mlir.support.module_snapshot import SCALARS, STANDARD


def clone(module: nn.Module) -> nn.Module:
    """A copy of `module` and the modules below it, with the same tensors.

    Attributes, lists and methods that refer to a module refer to its copy.
    """
    modules = list(module.modules())
    # Classes may override `__new__`: that of GraphModule makes a new class
    # without the forward.
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
