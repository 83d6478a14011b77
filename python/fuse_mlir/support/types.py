# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of arguments that several public functions accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch

#: The arguments of one call of a model: a tensor, its positional arguments, or
#: its keyword arguments. None asks for example inputs made from the config.
Inputs: TypeAlias = (
    "torch.Tensor | Sequence[object] | Mapping[str, object] | None"
)
#: Called after each step with the number of finished steps, the number of all
#: steps, and a line about the step.
Progress: TypeAlias = Callable[[int, int, str], None]
#: An argument `progress`: such a function, or True for a bar on the standard
#: error that appears after a second, in terminals and notebooks.
ProgressOption: TypeAlias = Progress | bool | None
#: The value of `fusion_config`, as in a model's config.
FusionConfig: TypeAlias = Mapping[str, object]
