# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chains without the values of their static scales.

Code has static scales as data, so layers that differ only in scales share it.
The IR of such code has a stand-in for each scale. Equal scales of inputs have
equal stand-ins, since linears in one kernel may read one quantized input.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from torch import nn

from fuse_mlir.ir.builder import float_literal
from fuse_mlir.quantized.stored import StoredLinear

#: Attributes of stored linears that are static scales.
SCALES = ("scale_of_weight", "scale_of_input")
#: Scales outside of this range are compiled as they are: the compiler may
#: simplify a pair of casts with scales that are nearly denormal.
LEAST, MOST = 2.0**-64, 2.0**64

#: Exact in f32, and with digits that no constant of a model has.
_FIRST, _STEP = 4099 * 2.0**-22, 2.0**-21

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def stand_in(index: int) -> float:
    """The scale in the IR for the scale of this index."""
    return _FIRST + index * _STEP


def without_scales(
    modules: Sequence[ModuleT],
) -> tuple[list[ModuleT], tuple[float, ...]] | None:
    """The same modules with stand-ins for static scales.

    Args:
        modules: which do not change; what holds no scale is not copied.

    Returns:
        The modules, and the scale of each stand-in. None if the modules have
        no static scale, or one that code cannot have as data.
    """
    scales: list[float] = []
    inputs: dict[float, float] = {}
    numbers: dict[int, dict[str, float]] = {}

    def name(scale: float) -> float:
        scales.append(scale)
        return stand_in(len(scales) - 1)

    for module in modules:
        for linear in module.modules():
            if not isinstance(linear, StoredLinear) or id(linear) in numbers:
                continue
            of_weight, of_input = (getattr(linear, s) for s in SCALES)
            # The compiler may drop a multiplication by one.
            if any(
                s is not None and (not LEAST <= s <= MOST or s == 1.0)
                for s in (of_weight, of_input)
            ):
                return None
            chosen = numbers.setdefault(id(linear), {})
            if of_weight is not None:
                chosen[SCALES[0]] = name(of_weight)
            if of_input is not None:
                if of_input not in inputs:
                    inputs[of_input] = name(of_input)
                chosen[SCALES[1]] = inputs[of_input]
    # Equality in the IR is that of the numbers as they are written.
    if not scales or len({float(np.float32(s)) for s in inputs}) < len(inputs):
        return None
    return [_replaced(module, numbers) for module in modules], tuple(scales)


def _replaced(
    module: ModuleT, numbers: Mapping[int, Mapping[str, float]]
) -> ModuleT:
    children = {
        name: None if child is None else _replaced(child, numbers)
        for name, child in module._modules.items()
    }
    own = numbers.get(id(module), {})
    if not own and all(
        child is module._modules[name] for name, child in children.items()
    ):
        return module
    made = copy.copy(module)
    made.__dict__.update(_modules=children, **own)
    return made


_NUMBER = r"[0-9][0-9.eE+-]*"
#: The clauses with scales in the IR of the importer.
_CLAUSES = re.compile(rf"\bscale {_NUMBER}|\bscales\([^()]*\)")


def with_scales(text: str, scales: Sequence[float]) -> str:
    """IR of the importer with scales in place of their stand-ins."""
    literals = {
        stand_in(i): float_literal(scale, "f64")
        for i, scale in enumerate(scales)
    }

    def number(found: re.Match) -> str:
        return literals.get(float(found[0]), found[0])

    return _CLAUSES.sub(lambda clause: re.sub(_NUMBER, number, clause[0]), text)
