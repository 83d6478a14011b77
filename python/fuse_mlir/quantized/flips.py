# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stored codes that may round either way.

Both a kernel and PyTorch compute a value in f32 before they store it in 8 bits.
If the value is within the f32 error of the middle between two codes, it is a
tie: either code is right, although the codes are one step of 8 bits apart. The
reference of a check then uses the code of the kernel. No other code may differ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fuse_mlir.quantized.stored import STORAGE, StoredLinear

#: Distance of a tie from the middle, as a multiple of the relative L2 error of
#: sums in f32. Single values of a row have a larger error than their mean.
_SPREAD = 4.0
#: Maximum number of rows to search, and of different codes in one row.
_MOST_ROWS, _MOST_CODES = 256, 8


@dataclass(frozen=True)
class _Code:
    """Another code for one input of linears that read the same value."""

    linears: tuple[int, ...]
    column: int
    #: The real value of the code.
    value: float


def match_flips(
    chain: nn.Module,
    inputs: Sequence[Tensor],
    exact: Tensor,
    ours: Tensor,
    error: float,
) -> tuple[Tensor, int]:
    """The result in double precision, with the codes that a kernel took.

    Args:
        chain: members in double precision, whose rows are independent.
        inputs: of the chain, in double precision, of shape [..., features].
        exact: the result of `chain`, of shape [..., features].
        ours: the result of the kernel, of the same shape.
        error: relative L2 error that sums in f32 may have.

    Returns:
        `exact` with other codes at ties in the rows where they explain the
        kernel's result, and the number of such codes.
    """
    linears = [
        module
        for module in chain.modules()
        if isinstance(module, StoredLinear)
        and module.scale_of_input is not None
    ]
    leading = exact.shape[:-1]
    if not linears or any(t.shape[:-1] != leading for t in inputs):
        return exact, 0
    rows = [t.reshape(-1, t.shape[-1]) for t in inputs]
    ours = ours.double().reshape(-1, ours.shape[-1])
    result = exact.reshape(-1, exact.shape[-1]).clone()
    off = (result - ours).norm(dim=-1) / result.norm(dim=-1).clamp(min=1e-300)
    count = 0
    for row in off.argsort(descending=True)[:_MOST_ROWS].tolist():
        if not off[row] > error:
            break
        best, used = _match_row(
            chain,
            linears,
            [t[row : row + 1] for t in rows],
            result[row],
            ours[row],
            error,
        )
        result[row] = best
        count += used
    return result.reshape(exact.shape), count


def _match_row(
    chain: nn.Module,
    linears: Sequence[StoredLinear],
    row: Sequence[Tensor],
    exact: Tensor,
    ours: Tensor,
    error: float,
) -> tuple[Tensor, int]:
    """One row with the codes at ties that bring it nearest to `ours`.

    Codes are added while each explains most of the remaining difference.
    """
    taken: list[_Code] = []
    best, distance = exact, float((exact - ours).norm())
    while len(taken) < _MOST_CODES and distance > error * float(exact.norm()):
        ties = [
            code
            for code in _ties(chain, linears, row, taken, error)
            if not any(
                (code.linears, code.column) == (t.linears, t.column)
                for t in taken
            )
        ]
        if not ties:
            break
        codes = [[*taken, code] for code in ties]
        with _reading(linears, lambda number, x: _with_codes(x, number, codes)):
            tried = chain(*(t.expand(len(ties), -1) for t in row))
        off = (tried - ours).norm(dim=-1)
        nearest = int(off.argmin())
        if float(off[nearest]) > 0.5 * distance:
            break
        taken.append(ties[nearest])
        best, distance = tried[nearest], float(off[nearest])
    return best, len(taken)


def _ties(
    chain: nn.Module,
    linears: Sequence[StoredLinear],
    row: Sequence[Tensor],
    taken: list[_Code],
    error: float,
) -> Iterator[_Code]:
    """Inputs of linears in the middle between two codes."""
    seen: dict[int, Tensor] = {}

    def look(number: int, x: Tensor) -> Tensor:
        x = _with_codes(x, number, [taken])
        seen[number] = x[0]
        return x

    with _reading(linears, look):
        chain(*row)
    groups: list[tuple[int, ...]] = []
    for number, values in seen.items():
        # Gate and up of a gated MLP read the same codes.
        same = next(
            (
                g
                for g in groups
                if torch.equal(seen[g[0]], values)
                and linears[g[0]].scale_of_input
                == linears[number].scale_of_input
            ),
            (),
        )
        groups = [g for g in groups if g != same] + [(*same, number)]
    for group in groups:
        linear, values = linears[group[0]], seen[group[0]]
        scale = linear.scale_of_input
        assert scale is not None
        codes = _codes(linear.stored.dtype).to(values.device)
        scaled = values.double() / scale
        middles = (codes[1:] + codes[:-1]) / 2
        above = torch.searchsorted(middles, scaled).clamp(1, len(middles) - 1)
        below = above - 1
        nearest = torch.where(
            (scaled - middles[below]).abs() < (scaled - middles[above]).abs(),
            below,
            above,
        )
        room = (
            _SPREAD
            * error
            * torch.maximum(scaled.abs(), scaled.square().mean().sqrt())
        )
        is_tie = (scaled - middles[nearest]).abs() <= room
        for column in is_tie.nonzero()[:, 0].tolist():
            at = int(nearest[column])
            # The chain quantizes in f32 too, and may have either code.
            for choice in (at, at + 1):
                yield _Code(group, column, float(codes[choice]) * scale)


@functools.cache
def _codes(dtype: torch.dtype) -> Tensor:
    """All values of a storage type, in ascending order."""
    assert dtype in STORAGE
    patterns = torch.arange(256, dtype=torch.uint8).view(dtype).double()
    return patterns[patterns.isfinite()].unique()


def _with_codes(
    x: Tensor, number: int, codes: Sequence[Sequence[_Code]]
) -> Tensor:
    """The input of a linear, with the codes `codes[i]` in row i."""
    x = x.clone()
    for row, chosen in enumerate(codes):
        for code in chosen:
            if number in code.linears:
                x[row, code.column] = code.value
    return x


@contextmanager
def _reading(
    linears: Sequence[StoredLinear], change: Callable[[int, Tensor], Tensor]
) -> Iterator[None]:
    """Passes the input of each linear through a function.

    A chain calls members without their hooks, so forwards are replaced.
    """
    for number, linear in enumerate(linears):
        linear.__dict__["forward"] = functools.partial(
            lambda number, forward, x: forward(change(number, x)),
            number,
            linear.forward,
        )
    try:
        yield
    finally:
        for linear in linears:
            del linear.__dict__["forward"]
