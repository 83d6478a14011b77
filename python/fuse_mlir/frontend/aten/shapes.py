# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that move elements without computing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fuse_mlir.errors import Unsupported
from fuse_mlir.frontend.aten.types import Handler
from fuse_mlir.ir.builder import Dim, Value, is_static, tensor_type

if TYPE_CHECKING:
    from fuse_mlir.frontend.walker import Node, Walker


class Pieces(tuple):
    """Results of one linear, cut into features like its only reader does."""


def _reshape(walker: Walker, node: Node) -> Value:
    shape, _ = walker.result(node)
    return walker.reshape(node.name, walker.arg(node, 0), shape)


def _transpose(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    first = walker.arg(node, 1) % value.rank
    second = walker.arg(node, 2) % value.rank
    order = list(range(value.rank))
    order[first], order[second] = order[second], order[first]
    return walker.transpose(node.name, value, order)


def _t(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    return walker.transpose(node.name, value, range(value.rank)[::-1])


def _permute(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    order = [d % value.rank for d in walker.arg(node, 1)]
    return walker.transpose(node.name, value, order)


def _expand(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    shape, element = walker.result(node)
    if tuple(shape) == value.shape:
        return value
    return walker.emitter.elementwise(
        node.name, [value], shape, element, element, lambda b: b.inputs[0]
    )


def _extract(
    walker: Walker, hint: str, value: Value, dim: int, start: int, size: int
) -> Value:
    offsets = ["0"] * value.rank
    sizes = [
        str(d) if is_static(d) else walker.emitter.dim(d) for d in value.shape
    ]
    offsets[dim], sizes[dim] = str(start), str(size)
    shape: list[Dim] = list(value.shape)
    shape[dim] = size
    strides = ", ".join(["1"] * value.rank)
    return walker.emitter.op(
        hint,
        f"tensor.extract_slice {value.name}[{', '.join(offsets)}] "
        f"[{', '.join(sizes)}] [{strides}] : {value.type} to "
        f"{tensor_type(shape, value.element)}",
        shape,
        value.element,
    )


def _static_dim(value: Value, dim: int) -> tuple[int, int]:
    """The dimension, counted from the front, and its size."""
    dim %= value.rank
    size = value.shape[dim]
    if not is_static(size):
        raise Unsupported(f"dimension {dim}, whose size is not static")
    return dim, size


def _pieces(
    walker: Walker, node: Node, value: Value, dim: int, sizes: Sequence[int]
) -> tuple[Value, ...]:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(
        _extract(walker, f"{node.name}_{i}", value, dim, start, size)
        for i, (start, size) in enumerate(zip(starts, sizes))
    )


def _split_sizes(walker: Walker, node: Node, total: int) -> list[int]:
    sizes = walker.arg(node, 1)
    if isinstance(sizes, int):
        sizes = [min(sizes, total - i) for i in range(0, total, sizes)]
    return sizes


def _chunk_sizes(walker: Walker, node: Node, total: int) -> list[int]:
    step = max(1, math.ceil(total / walker.arg(node, 1)))
    return [min(step, total - i) for i in range(0, total, step)]


#: Ops that cut a dimension.
CUTS = {
    "aten.split.Tensor": _split_sizes,
    "aten.split_with_sizes.default": _split_sizes,
    "aten.chunk.default": _chunk_sizes,
}


def _split(walker: Walker, node: Node) -> tuple[Value, ...]:
    value = walker.arg(node, 0)
    if isinstance(value, Pieces):
        return value
    dim, total = _static_dim(value, walker.arg(node, 2, "dim", 0))
    sizes = CUTS[str(node.target)](walker, node, total)
    return _pieces(walker, node, value, dim, sizes)


def _slice(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    start = walker.arg(node, 2, "start", None)
    end = walker.arg(node, 3, "end", None)
    if walker.arg(node, 4, "step", 1) != 1:
        raise Unsupported("step other than 1")
    shape, _ = walker.result(node)
    if tuple(shape) == value.shape:
        return value
    dim, total = _static_dim(value, walker.arg(node, 1, "dim", 0))
    start, end, _ = slice(start, end).indices(total)
    return _extract(walker, node.name, value, dim, start, max(0, end - start))


def _select(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    dim, total = _static_dim(value, walker.arg(node, 1))
    index = walker.arg(node, 2) % total
    piece = _extract(walker, f"{node.name}_slice", value, dim, index, 1)
    shape, _ = walker.result(node)
    return walker.reshape(node.name, piece, shape)


def _getitem(walker: Walker, node: Node) -> Value:
    item = walker.arg(node, 0)[walker.arg(node, 1)]
    if item is None:
        raise Unsupported("a result of a norm other than the first")
    return item


HANDLERS: dict[str, Handler] = {
    "aten.view.default": _reshape,
    "aten._unsafe_view.default": _reshape,
    "aten.reshape.default": _reshape,
    "aten.flatten.using_ints": _reshape,
    "aten.unflatten.int": _reshape,
    "aten.unsqueeze.default": _reshape,
    "aten.squeeze.dim": _reshape,
    "aten.squeeze.dims": _reshape,
    "aten.squeeze.default": _reshape,
    "aten.transpose.int": _transpose,
    "aten.t.default": _t,
    "aten.numpy_T.default": _t,
    "aten.permute.default": _permute,
    "aten.expand.default": _expand,
    "aten.split.Tensor": _split,
    "aten.split_with_sizes.default": _split,
    "aten.chunk.default": _split,
    "aten.slice.Tensor": _slice,
    "aten.select.int": _select,
    "getitem": _getitem,
}
