# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Corresponding dimensions of a reshape, with symbolic sizes."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from fuse_mlir.ir.builder import Dim


def _equal(lhs: Dim, rhs: Dim) -> bool:
    return sympy.simplify(sympy.sympify(lhs) - sympy.sympify(rhs)) == 0


def reassociate(
    source: Sequence[Dim], target: Sequence[Dim]
) -> list[tuple[list[int], list[int]]] | None:
    """Shortest groups of dimensions with equal products, in order.

    Returns pairs of dimensions of `source` and of `target`, or None if the
    sizes do not determine them. Unit dimensions join the group before them;
    leading ones join the first group.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) and j < len(target):
        left, right = [i], [j]
        product_left = sympy.sympify(source[i])
        product_right = sympy.sympify(target[j])
        i, j = i + 1, j + 1
        while not _equal(product_left, product_right):
            # A symbolic size contains its factors, so the side that divides
            # the other is extended.
            extend_left = _smaller(product_left, product_right)
            if extend_left is None:
                return None
            if extend_left and i < len(source):
                product_left *= source[i]
                left.append(i)
                i += 1
            elif not extend_left and j < len(target):
                product_right *= target[j]
                right.append(j)
                j += 1
            else:
                return None
        groups.append((left, right))
    while i < len(source):
        if source[i] != 1:
            return None
        if not groups:
            groups.append(([], []))
        groups[-1][0].append(i)
        i += 1
    while j < len(target):
        if target[j] != 1:
            return None
        if not groups:
            groups.append(([], []))
        groups[-1][1].append(j)
        j += 1
    return groups


def _smaller(lhs: sympy.Expr, rhs: sympy.Expr) -> bool | None:
    """Whether `lhs` must grow to become `rhs`; None if undecided."""
    if lhs.is_number and rhs.is_number:
        return bool(lhs < rhs)
    quotient = sympy.simplify(rhs / lhs)
    if quotient.is_number:
        return bool(quotient > 1)
    if sympy.denom(quotient) == 1:
        return True
    if sympy.numer(quotient) == 1:
        return False
    # If neither divides the other, the number grows first.
    if lhs.is_number != rhs.is_number:
        return bool(lhs.is_number)
    return None
