# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a model calls the members of a chain, and calls like these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

# The position or keyword of an argument.
Slot = int | str


@dataclass(frozen=True)
class Source:
    """Where an argument of a member comes from."""

    #: "input" of the chain, result of a "step", a "constant", or "outside".
    kind: str
    index: int = 0
    value: Any = None


@dataclass
class Step:
    """How a member is called."""

    args: list[Source]
    kwargs: dict[str, Source]

    def flow_slot(self) -> Slot | None:
        """The argument that is the result of the previous member."""
        return next(
            (slot for slot, source in self.slots() if source.kind == "step"),
            None,
        )

    def slots(self) -> Iterator[tuple[Slot, Source]]:
        yield from enumerate(self.args)
        yield from self.kwargs.items()


@dataclass
class Plan:
    """Calls of a chain, as the model makes them."""

    #: Tensor arguments of the first call; `examples` has one of each.
    inputs: list[Slot]
    examples: list[torch.Tensor]
    steps: list[Step]
    #: Whether a dropout between members does nothing only in eval mode.
    eval_only: bool = False

    def structure(self) -> tuple:
        """A key that calls with the same structure share."""
        return (
            tuple(self.inputs),
            tuple(
                tuple(
                    (slot, s.kind, s.index, repr(s.value))
                    for slot, s in step.slots()
                )
                for step in self.steps
            ),
        )


def run_chain(
    members: Sequence[nn.Module],
    steps: Sequence[Step],
    inputs: Sequence[torch.Tensor],
    skip_pre_hooks: bool = True,
) -> torch.Tensor:
    """Calls members as the model calls them, and returns the last result.

    Args:
        members: the modules, in the order of their calls.
        steps: the sources of their arguments.
        inputs: of the chain.
        skip_pre_hooks: leaves out the pre-hooks of members, for a fused module
            before which they ran.
    """
    results: list[torch.Tensor] = []

    def value(source: Source) -> object:
        if source.kind == "input":
            return inputs[source.index]
        if source.kind == "step":
            return results[source.index]
        return source.value

    for member, step in zip(members, steps):
        skips = skip_pre_hooks and member._forward_pre_hooks
        call = member.forward if skips else member
        results.append(
            call(
                *map(value, step.args),
                **{k: value(s) for k, s in step.kwargs.items()},
            )
        )
    return results[-1]
