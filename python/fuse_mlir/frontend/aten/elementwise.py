# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise ops and reductions.

As in PyTorch's CPU kernels, operands are promoted to the common type, 16-bit
types are computed in f32, and the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from fuse_mlir.errors import Unsupported
from fuse_mlir.frontend.aten.types import Handler
from fuse_mlir.frontend.elements import ELEMENTS
from fuse_mlir.ir.builder import Body, Value, is_static

if TYPE_CHECKING:
    from fuse_mlir.frontend.walker import Node, Walker


def _compute_type(element: str) -> str:
    return "f64" if element == "f64" else "f32"


def elementwise(
    walker: Walker,
    node: Node,
    operands: Sequence[Any],
    body: Callable[[Body, list[str]], str],
) -> Value:
    """An elementwise op on `operands`, which are values or Python numbers."""
    shape, element = walker.result(node)
    tensors = [v for v in operands if isinstance(v, Value)]
    for tensor in tensors:
        _float_operand(tensor)
    common = walker.common_element(operands)
    compute = _compute_type(common)

    def emit(block: Body) -> str:
        scalars = iter(block.inputs)
        inputs = [
            next(scalars) if isinstance(v, Value) else block.constant(float(v))
            for v in operands
        ]
        result = body(block, inputs)
        # A result type other than the common one needs a second conversion.
        return block.round(result, common) if element != common else result

    return walker.emitter.elementwise(
        node.name,
        tensors,
        shape,
        element,
        compute,
        emit,
        [common] * len(tensors),
    )


def _float_operand(value: Value) -> None:
    if value.element not in ELEMENTS.values():
        raise Unsupported(
            f"operand of type {value.element}; expected one of "
            + ", ".join(ELEMENTS.values())
        )


def _unary(body: Callable[[Body, str], str]) -> Handler:
    def handle(walker: Walker, node: Node) -> Value:
        return elementwise(
            walker, node, [walker.arg(node, 0)], lambda b, x: body(b, x[0])
        )

    return handle


def _binary(body: Callable[[Body, str, str], str]) -> Handler:
    def handle(walker: Walker, node: Node) -> Value:
        operands = [walker.arg(node, 0), walker.arg(node, 1)]
        return elementwise(
            walker, node, operands, lambda b, x: body(b, x[0], x[1])
        )

    return handle


def _simple(name: str) -> Handler:
    return _unary(lambda b, x: b.op(name, x))


def _sigmoid(b: Body, x: str) -> str:
    one = b.constant(1.0)
    exp = b.op("math.exp", b.op("arith.negf", x))
    return b.op("arith.divf", one, b.op("arith.addf", one, exp))


#: An operand: a tensor or a number.
Operand: TypeAlias = "Value | float"


def _rounded(walker: Walker, number: float, element: str) -> float:
    return float(
        torch.tensor(number, dtype=walker.dtype(element), device="cpu")
    )


def _sum(
    walker: Walker, node: Node, lhs: Operand, rhs: Operand, name: str
) -> Value:
    """`lhs` plus or minus alpha times `rhs`.

    PyTorch rounds numbers to the common type in sums, but not in products.
    """
    operands: list[Operand] = [lhs, rhs]
    common = walker.common_element(operands)
    operands = [
        v if isinstance(v, Value) else _rounded(walker, v, common)
        for v in operands
    ]
    alpha = _rounded(walker, walker.arg(node, 2, "alpha", 1), common)

    def body(b: Body, x: list[str]) -> str:
        if alpha == 1:
            return b.op(name, x[0], x[1])
        sign = -1.0 if name == "arith.subf" else 1.0
        # One rounding, as in PyTorch's vectorized fused multiply-add.
        return b.op("math.fma", x[1], b.constant(sign * alpha), x[0])

    return elementwise(walker, node, operands, body)


def _add(name: str) -> Handler:
    return lambda w, n: _sum(w, n, w.arg(n, 0), w.arg(n, 1), name)


def _rsub(walker: Walker, node: Node) -> Value:
    return _sum(
        walker, node, walker.arg(node, 1), walker.arg(node, 0), "arith.subf"
    )


def _div(walker: Walker, node: Node) -> Value:
    operands = [walker.arg(node, 0), walker.arg(node, 1)]
    return elementwise(
        walker, node, operands, lambda b, x: b.op("arith.divf", x[0], x[1])
    )


def _pow(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    exponent = float(walker.arg(node, 1))
    # The exponent has the type of the operand, and in bf16 each product is
    # also rounded.
    if value.element != "f64":
        exponent = _rounded(walker, exponent, value.element)

    def body(b: Body, x: list[str]) -> str:
        # PyTorch's kernel computes these cases without pow.
        a = x[0]
        if exponent in (2, 3, -2):
            square = b.op("arith.mulf", a, a)
            if value.element == "bf16":
                square = b.round(square, "bf16")
            if exponent == 2:
                return square
            if exponent == 3:
                return b.op("arith.mulf", square, a)
            return b.op("arith.divf", b.constant(1.0), square)
        if exponent == 0.5:
            return b.op("math.sqrt", a)
        if exponent == -0.5:
            return b.op("math.rsqrt", a)
        if exponent == -1:
            return b.op("arith.divf", b.constant(1.0), a)
        return b.op("math.powf", a, b.constant(exponent))

    if exponent == 1:
        return value
    return elementwise(walker, node, [value], body)


def _clamp(walker: Walker, node: Node) -> Value:
    low, high = walker.arg(node, 1, "min"), walker.arg(node, 2, "max")
    return _bounded(walker, node, low, high)


def _hardtanh(walker: Walker, node: Node) -> Value:
    return _bounded(
        walker,
        node,
        walker.arg(node, 1, "min_val", -1.0),
        walker.arg(node, 2, "max_val", 1.0),
    )


def _bounded(
    walker: Walker, node: Node, low: float | None, high: float | None
) -> Value:
    def body(b: Body, x: list[str]) -> str:
        out = x[0]
        if low is not None:
            out = b.op("arith.maximumf", out, b.constant(float(low)))
        if high is not None:
            out = b.op("arith.minimumf", out, b.constant(float(high)))
        return out

    return elementwise(walker, node, [walker.arg(node, 0)], body)


def _cast(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    _float_operand(value)
    shape, element = walker.result(node)
    if element == value.element:
        return value
    # The narrowing or widening is the whole computation.
    return walker.emitter.elementwise(
        node.name, [value], shape, element, value.element, lambda b: b.inputs[0]
    )


def _same(walker: Walker, node: Node) -> Value:
    return walker.arg(node, 0)


def _dropout(walker: Walker, node: Node) -> Value:
    if walker.arg(node, 2, "train", False):
        raise Unsupported("training mode; call .eval() before exporting")
    return walker.arg(node, 0)


def _reduce(mean: bool) -> Handler:
    def handle(walker: Walker, node: Node) -> Value:
        value = walker.arg(node, 0)
        dims = walker.arg(node, 1, "dim", None)
        keep = walker.arg(node, 2, "keepdim", False)
        if isinstance(dims, int):
            dims = [dims]
        if not dims:
            dims = list(range(value.rank))
        dims = sorted(d % value.rank for d in dims)
        count = 1
        for d in dims:
            if mean and not is_static(value.shape[d]):
                raise Unsupported(
                    f"mean over dimension {d}, whose size is not static"
                )
            count = count * value.shape[d]
        shape, element = walker.result(node)
        # dtype= converts the input first.
        wanted = walker.arg(node, 3, "dtype", None)
        emitter = walker.emitter
        if wanted is not None and ELEMENTS[wanted] != value.element:
            value = emitter.elementwise(
                f"{node.name}_cast",
                [value],
                value.shape,
                ELEMENTS[wanted],
                value.element,
                lambda b: b.inputs[0],
            )
        compute = _compute_type(value.element)
        total = emitter.reduce_sum(f"{node.name}_sum", value, dims, compute)

        def finish(b: Body) -> str:
            if not mean:
                return b.inputs[0]
            return b.op("arith.divf", b.inputs[0], b.constant(float(count)))

        reduced = total
        if mean or element != compute:
            hint = f"{node.name}_quotient" if keep else node.name
            reduced = emitter.elementwise(
                hint, [total], total.shape, element, compute, finish
            )
        return walker.reshape(node.name, reduced, shape) if keep else reduced

    return handle


HANDLERS: dict[str, Handler] = {
    "aten.add.Tensor": _add("arith.addf"),
    "aten.add.Scalar": _add("arith.addf"),
    "aten.sub.Tensor": _add("arith.subf"),
    "aten.sub.Scalar": _add("arith.subf"),
    "aten.rsub.Scalar": _rsub,
    "aten.rsub.Tensor": _rsub,
    "aten.mul.Tensor": _binary(lambda b, x, y: b.op("arith.mulf", x, y)),
    "aten.mul.Scalar": _binary(lambda b, x, y: b.op("arith.mulf", x, y)),
    "aten.div.Tensor": _div,
    "aten.div.Scalar": _div,
    "aten.maximum.default": _binary(
        lambda b, x, y: b.op("arith.maximumf", x, y)
    ),
    "aten.minimum.default": _binary(
        lambda b, x, y: b.op("arith.minimumf", x, y)
    ),
    "aten.pow.Tensor_Scalar": _pow,
    "aten.neg.default": _simple("arith.negf"),
    "aten.abs.default": _simple("math.absf"),
    "aten.exp.default": _simple("math.exp"),
    "aten.log.default": _simple("math.log"),
    "aten.sqrt.default": _simple("math.sqrt"),
    "aten.rsqrt.default": _simple("math.rsqrt"),
    "aten.reciprocal.default": _unary(
        lambda b, x: b.op("arith.divf", b.constant(1.0), x)
    ),
    "aten.erf.default": _simple("math.erf"),
    "aten.tanh.default": _simple("math.tanh"),
    "aten.sigmoid.default": _unary(_sigmoid),
    "aten.clamp.default": _clamp,
    "aten.hardtanh.default": _hardtanh,
    "aten.relu6.default": lambda w, n: _bounded(w, n, 0.0, 6.0),
    "aten.to.dtype": _cast,
    "aten.to.dtype_layout": _cast,
    "aten.to.device": _cast,
    "aten.to.other": _cast,
    "aten._to_copy.default": _cast,
    "aten.type_as.default": _cast,
    "aten.alias.default": _same,
    "aten.clone.default": _same,
    "aten.contiguous.default": _same,
    "aten.detach.default": _same,
    "aten.detach_.default": _same,
    "aten.lift_fresh_copy.default": _same,
    "aten.dropout.default": _dropout,
    "aten.mean.dim": _reduce(mean=True),
    "aten.mean.default": _reduce(mean=True),
    "aten.sum.default": _reduce(mean=False),
    "aten.sum.dim_IntList": _reduce(mean=False),
}
