# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each ATen op becomes.

An op that is a layer op of fuse becomes that op; every other op becomes
upstream ops with the roundings of PyTorch's CPU kernels: operands are promoted
to the common type, the computation runs in f32 for 16-bit types, and the
result is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from fuse_mlir.emitter import (
    Body, Dim, Value, float_literal, is_static, tensor_type)

if TYPE_CHECKING:
    from fuse_mlir.importer import Node, Walker

Handler = Callable[["Walker", "Node"], Any]

ELEMENTS = {
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float32: "f32",
    torch.float64: "f64",
}
# Types that layer ops of fuse take.
LAYER_ELEMENTS = ("bf16", "f16", "f32")
# Types that indices have.
INDEX_ELEMENTS = {torch.int64: "i64", torch.int32: "i32"}
# Types that parameters are stored in; ops of PyTorch do not read them.
STORED_ELEMENTS = {
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.int8: "i8",
}


class Unsupported(Exception):
    """A case of an op that has no translation; the text says which."""


def _compute_type(element: str) -> str:
    return "f64" if element == "f64" else "f32"


# ---------------------------------------------------------------------------
# Elementwise ops
# ---------------------------------------------------------------------------


def _elementwise(walker: Walker, node: Node, operands: Sequence[Any],
                 body: Callable[[Body, list[str]], str]) -> Value:
    """`operands` are values or Python numbers, as in the ATen call."""
    shape, element = walker.result(node)
    tensors = [v for v in operands if isinstance(v, Value)]
    for tensor in tensors:
        _float_operand(tensor)
    common = walker.common_element(operands)
    compute = _compute_type(common)

    def emit(block: Body) -> str:
        scalars = iter(block.inputs)
        inputs = [next(scalars) if isinstance(v, Value)
                  else block.constant(float(v)) for v in operands]
        result = body(block, inputs)
        # A result type other than the common one is a second conversion.
        return block.round(result, common) if element != common else result

    return walker.emitter.elementwise(
        node.name, tensors, shape, element, compute, emit,
        [common] * len(tensors))


def _float_operand(value: Value) -> None:
    if value.element not in ELEMENTS.values():
        raise Unsupported(f"operand of type {value.element}; expected one of "
                          + ", ".join(ELEMENTS.values()))


def _unary(body: Callable[[Body, str], str]) -> Handler:
    def handle(walker: Walker, node: Node) -> Value:
        return _elementwise(walker, node, [walker.arg(node, 0)],
                            lambda b, x: body(b, x[0]))
    return handle


def _binary(body: Callable[[Body, str, str], str]) -> Handler:
    def handle(walker: Walker, node: Node) -> Value:
        operands = [walker.arg(node, 0), walker.arg(node, 1)]
        return _elementwise(walker, node, operands,
                            lambda b, x: body(b, x[0], x[1]))
    return handle


def _simple(name: str) -> Handler:
    return _unary(lambda b, x: b.op(name, x))


def _sigmoid(b: Body, x: str) -> str:
    one = b.constant(1.0)
    exp = b.op("math.exp", b.op("arith.negf", x))
    return b.op("arith.divf", one, b.op("arith.addf", one, exp))


def _rounded(walker: Walker, number: float, element: str) -> float:
    return float(torch.tensor(number, dtype=walker.dtype(element)))


def _sum(walker: Walker, node: Node, lhs: Any, rhs: Any, name: str) -> Value:
    """`lhs` plus or minus alpha times `rhs`.

    PyTorch rounds numbers to the common type in sums, though not in products.
    """
    operands = [lhs, rhs]
    common = walker.common_element(operands)
    operands = [v if isinstance(v, Value) else _rounded(walker, v, common)
                for v in operands]
    alpha = _rounded(walker, walker.arg(node, 2, "alpha", 1), common)

    def body(b: Body, x: list[str]) -> str:
        if alpha == 1:
            return b.op(name, x[0], x[1])
        sign = -1.0 if name == "arith.subf" else 1.0
        # One rounding, as PyTorch's vectorized fused multiply-add.
        return b.op("math.fma", x[1], b.constant(sign * alpha), x[0])

    return _elementwise(walker, node, operands, body)


def _add(name: str) -> Handler:
    return lambda w, n: _sum(w, n, w.arg(n, 0), w.arg(n, 1), name)


def _rsub(walker: Walker, node: Node) -> Value:
    return _sum(walker, node, walker.arg(node, 1), walker.arg(node, 0),
                "arith.subf")


def _div(walker: Walker, node: Node) -> Value:
    operands = [walker.arg(node, 0), walker.arg(node, 1)]
    return _elementwise(walker, node, operands,
                        lambda b, x: b.op("arith.divf", x[0], x[1]))


def _pow(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    exponent = float(walker.arg(node, 1))
    # The exponent has the type of the operand, and in bf16 every product is
    # rounded as well.
    if value.element != "f64":
        exponent = _rounded(walker, exponent, value.element)

    def body(b: Body, x: list[str]) -> str:
        # The cases that PyTorch's kernel computes without pow.
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
    return _elementwise(walker, node, [value], body)


def _clamp(walker: Walker, node: Node) -> Value:
    low, high = walker.arg(node, 1, "min"), walker.arg(node, 2, "max")
    return _bounded(walker, node, low, high)


def _hardtanh(walker: Walker, node: Node) -> Value:
    return _bounded(walker, node, walker.arg(node, 1, "min_val", -1.0),
                    walker.arg(node, 2, "max_val", 1.0))


def _bounded(walker: Walker, node: Node, low: float | None,
             high: float | None) -> Value:
    def body(b: Body, x: list[str]) -> str:
        out = x[0]
        if low is not None:
            out = b.op("arith.maximumf", out, b.constant(float(low)))
        if high is not None:
            out = b.op("arith.minimumf", out, b.constant(float(high)))
        return out

    return _elementwise(walker, node, [walker.arg(node, 0)], body)


def _cast(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    _float_operand(value)
    shape, element = walker.result(node)
    if element == value.element:
        return value
    # The narrowing or widening is the whole computation.
    return walker.emitter.elementwise(
        node.name, [value], shape, element, value.element,
        lambda b: b.inputs[0])


def _same(walker: Walker, node: Node) -> Value:
    return walker.arg(node, 0)


def _dropout(walker: Walker, node: Node) -> Value:
    if walker.arg(node, 2, "train", False):
        raise Unsupported("training mode; call .eval() before exporting")
    return walker.arg(node, 0)


# ---------------------------------------------------------------------------
# Reductions
# ---------------------------------------------------------------------------


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
                    f"mean over dimension {d}, whose size is not static")
            count = count * value.shape[d]
        shape, element = walker.result(node)
        # dtype= converts the input first.
        wanted = walker.arg(node, 3, "dtype", None)
        emitter = walker.emitter
        if wanted is not None and ELEMENTS[wanted] != value.element:
            value = emitter.elementwise(
                f"{node.name}_cast", [value], value.shape, ELEMENTS[wanted],
                value.element, lambda b: b.inputs[0])
        compute = _compute_type(value.element)
        total = emitter.reduce_sum(f"{node.name}_sum", value, dims, compute)

        def finish(b: Body) -> str:
            if not mean:
                return b.inputs[0]
            return b.op("arith.divf", b.inputs[0], b.constant(float(count)))

        reduced = total
        if mean or element != compute:
            hint = f"{node.name}_quotient" if keep else node.name
            reduced = emitter.elementwise(hint, [total], total.shape, element,
                                          compute, finish)
        return walker.reshape(node.name, reduced, shape) if keep else reduced
    return handle


# ---------------------------------------------------------------------------
# Layer ops
# ---------------------------------------------------------------------------


def _layer_operand(value: Value, what: str) -> None:
    if value.element not in LAYER_ELEMENTS:
        raise Unsupported(f"{what} of type {value.element}; expected one of "
                          + ", ".join(LAYER_ELEMENTS))
    if value.rank and not is_static(value.shape[-1]):
        raise Unsupported(f"{what} whose last dimension is not static")


def _relu(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    result = _activation("relu")(walker, node)
    walker.rectified[result.name] = value
    return result


def _square(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    source = walker.rectified.get(value.name)
    if source is not None:
        # One op in f32 rounds as the two do: relu is exact.
        return walker.emitter.op(
            node.name, f"fuse.activation relu2 {source.name} : {source.type} "
            f"-> {value.type}", value.shape, value.element)
    return _elementwise(walker, node, [value],
                        lambda b, x: b.op("arith.mulf", x[0], x[0]))


def _activation(kind: str | Callable[[Walker, Node], str]) -> Handler:
    def handle(walker: Walker, node: Node) -> Value:
        value = walker.arg(node, 0)
        _layer_operand(value, "operand")
        name = kind if isinstance(kind, str) else kind(walker, node)
        shape, element = walker.result(node)
        return walker.emitter.op(
            node.name,
            f"fuse.activation {name} {value.name} : {value.type} -> "
            f"{tensor_type(shape, element)}", shape, element)
    return handle


def _gelu_kind(walker: Walker, node: Node) -> str:
    mode = walker.arg(node, 1, "approximate", "none")
    return {"none": "gelu", "tanh": "gelu_tanh"}[mode]


def _emit_linear(walker: Walker, node: Node, value: Value, weight: Value,
                 bias: Value | None, hint: str = "") -> Value:
    _layer_operand(value, "input")
    _layer_operand(weight, "weight")
    if weight.rank != 2:
        raise Unsupported(f"weight of rank {weight.rank}; expected 2")
    shape, element = walker.result(node)
    shape = (*shape[:-1], weight.shape[0])
    types = [value.type, weight.type]
    text = f"fuse.linear {value.name}, {weight.name}"
    if bias is not None:
        if bias.rank != 1:
            raise Unsupported(f"bias of rank {bias.rank}; expected 1")
        text += f" bias({bias.name})"
        types.append(bias.type)
    return walker.emitter.op(
        hint or node.name,
        f"{text} : ({', '.join(types)}) -> {tensor_type(shape, element)}",
        shape, element)


class Pieces(tuple):
    """Results of one linear on its features, cut as its only reader does."""


def _linear(walker: Walker, node: Node) -> Value | Pieces:
    value, weight = walker.arg(node, 0), walker.arg(node, 1)
    bias = walker.arg(node, 2, "bias", None)
    cuts = _cuts(walker, node, weight, bias)
    if cuts is None:
        return _emit_linear(walker, node, value, weight, bias)
    # A merged projection is several linears on rows of its weight, which
    # lets each of them become part of a kernel.
    pieces = []
    for i, (start, stop) in enumerate(cuts):
        rows = walker.rows(weight, start, stop)
        part = None if bias is None else walker.rows(bias, start, stop)
        pieces.append(_emit_linear(walker, node, value, rows, part,
                                   f"{node.name}_{i}"))
    return Pieces(pieces)


def _cuts(walker: Walker, node: Node, weight: Value,
          *vectors: Value | None) -> list[tuple[int, int]] | None:
    """Where the only reader of a linear cuts its features, if it does."""
    if len(node.users) != 1 or weight.rank != 2 or not all(
            p is None or walker.is_parameter(p) for p in (weight, *vectors)):
        return None
    user = next(iter(node.users))
    sizes = _SIZES.get(str(user.target))
    if sizes is None:
        return None
    dim = walker.arg(user, 2, "dim", 0)
    rank = node.meta["val"].dim()
    if dim % rank != rank - 1:
        return None
    cuts, start = [], 0
    for size in sizes(walker, user, weight.shape[0]):
        cuts.append((start, start + size))
        start += size
    return cuts


def _quantized(walker: Walker, x: Value, storage: str, activations: str,
               order: str, scale: float | None) -> tuple[Value, Value | None]:
    """The stored input of a linear, and the scale where it is measured.

    Linears that quantize one value in one way share the op, which makes them
    members of one kernel.

    Args:
        scale: None where it is measured.
    """
    key = (x.name, storage, activations, order, scale)
    if key in walker.quantized:
        return walker.quantized[key]
    pair: tuple[Value, Value | None]
    stored = tensor_type(x.shape, storage)
    hint = f"{x.name[1:]}_q"
    if scale is not None:
        clause = " order divide" if order == "divide" else ""
        text = (f"fuse.quantize {x.name} scale {float_literal(scale, 'f64')}"
                f"{clause} : ({x.type}) -> {stored}")
        pair = (walker.emitter.op(hint, text, x.shape, storage), None)
    else:
        shape = x.shape[:-1] if activations == "per_token" else (1,)
        text = (f"fuse.dynamic_quantize {activations} {x.name} : ({x.type}) -> "
                f"({stored}, {tensor_type(shape, 'f32')})")
        pair = walker.emitter.op2(hint, f"{x.name[1:]}_scale", text,
                                  (x.shape, storage), (shape, "f32"))
    walker.quantized[key] = pair
    return pair


def _stored_linear(walker: Walker, node: Node) -> Value | Pieces:
    x, weight, bias, channel = (walker.arg(node, i) for i in range(4))
    _layer_operand(x, "input")
    cuts = _cuts(walker, node, weight, bias, channel)
    if cuts is None:
        return _emit_stored(walker, node, x, weight, bias, channel)

    def part(value: Value | None, cut: tuple[int, int]) -> Value | None:
        return None if value is None else walker.rows(value, *cut)

    return Pieces(
        _emit_stored(walker, node, x, walker.rows(weight, *cut),
                     part(bias, cut), part(channel, cut)) for cut in cuts)


def _emit_stored(walker: Walker, node: Node, x: Value, weight: Value,
                 bias: Value | None, channel: Value | None) -> Value:
    input_scale, weight_scale, activations, order, bias_place = (
        walker.arg(node, i) for i in range(4, 9))
    shape, element = walker.result(node)
    shape = (*shape[:-1], weight.shape[0])
    number = "per_channel" if channel is not None \
        else float_literal(weight_scale, "f64")
    scales = ""
    measured = None
    if activations == "none":
        vector = "" if channel is None else f" channel_scale({channel.name})"
        scale = f" scale {number}" if channel is None else ""
        operands = weight.type if channel is None \
            else f"{weight.type}, {channel.type}"
        weight = walker.emitter.op(
            f"{weight.name[1:]}_real",
            f"fuse.dequantize {weight.name}{scale}{vector} : ({operands}) -> "
            f"{tensor_type(weight.shape, x.element)}", weight.shape, x.element)
        channel = None
    else:
        x, measured = _quantized(
            walker, x, weight.element, activations, order,
            input_scale if activations == "static" else None)
        first = "dynamic" if measured is not None \
            else float_literal(input_scale, "f64")
        scales = f" scales({first}, {number})"
    text = f"fuse.linear {x.name}, {weight.name}"
    types = [x.type, weight.type]
    if bias is not None:
        _layer_operand(bias, "bias")
        place = " added after_rounding" if bias_place == "after_rounding" \
            else ""
        text += f" bias({bias.name}){place}"
        types.append(bias.type)
    for name, operand in (("channel_scale", channel),
                          ("dynamic_scale", measured)):
        if operand is not None:
            text += f" {name}({operand.name})"
            types.append(operand.type)
    return walker.emitter.op(
        node.name, f"{text}{scales} : ({', '.join(types)}) -> "
        f"{tensor_type(shape, element)}", shape, element)


def _full_range(walker: Walker, node: Node, first: int) -> None:
    """Refuses a zero point and a part of the range, which no op has."""
    if walker.arg(node, first) != 0:
        raise Unsupported("a zero point")
    low, high, dtype = (walker.arg(node, first + i) for i in (1, 2, 3))
    if dtype not in STORED_ELEMENTS:
        raise Unsupported(f"type {dtype}; expected one of "
                          + ", ".join(map(str, STORED_ELEMENTS)))
    info = torch.iinfo(dtype) if dtype == torch.int8 else torch.finfo(dtype)
    if (low, high) != (info.min, info.max):
        raise Unsupported(f"the range {low} to {high}; expected "
                          f"{info.min:g} to {info.max:g}")


def _scale(scale: float) -> str:
    """A scale as fuse has it: rounded to f32, in as few digits as give that.

    PyTorch takes the reciprocal in f64 and rounds it. That of the f32 scale
    may be its neighbour, which is a difference within f32.
    """
    rounded = torch.tensor(scale, dtype=torch.float32).numpy()
    return float_literal(float(str(rounded)), "f64")


def _quantize_per_tensor(walker: Walker, node: Node) -> Value:
    x = walker.arg(node, 0)
    _layer_operand(x, "input")
    _full_range(walker, node, 2)
    scale = _scale(walker.arg(node, 1))
    storage = STORED_ELEMENTS[walker.arg(node, 5)]
    if storage != "i8":
        # The op rounds to an integer before it converts.
        raise Unsupported(f"type {storage}; expected i8")
    return walker.emitter.op(
        node.name, f"fuse.quantize {x.name} scale {scale} : ({x.type}) -> "
        f"{tensor_type(x.shape, storage)}", x.shape, storage)


def _dequantized(walker: Walker, node: Node, value: Value, clause: str,
                 types: Sequence[str]) -> Value:
    wanted: Any = node.kwargs.get("out_dtype") or torch.float32
    element = ELEMENTS[wanted]
    return walker.emitter.op(
        node.name, f"fuse.dequantize {value.name} {clause} : "
        f"({', '.join(types)}) -> {tensor_type(value.shape, element)}",
        value.shape, element)


def _dequantize_per_tensor(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    _full_range(walker, node, 2)
    return _dequantized(walker, node, value,
                        f"scale {_scale(walker.arg(node, 1))}", [value.type])


def _dequantize_per_channel(walker: Walker, node: Node) -> Value:
    value, scales = walker.arg(node, 0), walker.arg(node, 1)
    if walker.arg(node, 3) != 0:
        raise Unsupported(f"scales along dimension {walker.arg(node, 3)}; "
                          "expected 0")
    point = walker.arg(node, 2)
    if point is not None and bool((point != 0).any()):
        raise Unsupported("a zero point")
    if scales.element != "f32":
        raise Unsupported(f"scales of type {scales.element}; expected f32")
    return _dequantized(walker, node, value, f"channel_scale({scales.name})",
                        [value.type, scales.type])


def _mm(walker: Walker, node: Node) -> Value:
    rhs = walker.arg(node, 1)
    if rhs.rank != 2:
        raise Unsupported(f"right operand of rank {rhs.rank}; expected 2")
    return _emit_linear(walker, node, walker.arg(node, 0),
                        walker.transpose(f"{node.name}_weight", rhs, [1, 0]),
                        None)


def _addmm(walker: Walker, node: Node) -> Value:
    if walker.arg(node, 3, "beta", 1) != 1 \
            or walker.arg(node, 4, "alpha", 1) != 1:
        raise Unsupported("alpha or beta other than 1")
    weight = walker.transpose(f"{node.name}_weight", walker.arg(node, 2),
                              [1, 0])
    return _emit_linear(walker, node, walker.arg(node, 1), weight,
                        walker.arg(node, 0))


def _norm(walker: Walker, node: Node, mnemonic: str, value: Value,
          shape: Sequence[int], weight: Value | None, bias: Value | None,
          eps: float, tail: str = "") -> Value:
    _layer_operand(value, "input")
    if len(shape) != 1:
        raise Unsupported(f"normalized shape of rank {len(shape)}; expected 1")
    types = [value.type]
    text = f"fuse.{mnemonic} {value.name}"
    for name, operand in (("weight", weight), ("bias", bias)):
        if operand is not None:
            _layer_operand(operand, name)
            text += f" {name}({operand.name})"
            types.append(operand.type)
    return walker.emitter.op(
        node.name, f"{text} eps {float_literal(eps, 'f64')}{tail} : "
        f"({', '.join(types)}) -> {value.type}", value.shape, value.element)


def _layer_norm(walker: Walker, node: Node) -> Value:
    return _norm(walker, node, "layer_norm", walker.arg(node, 0),
                 walker.arg(node, 1), walker.arg(node, 2, "weight", None),
                 walker.arg(node, 3, "bias", None),
                 walker.arg(node, 4, "eps", 1e-5))


def _native_layer_norm(walker: Walker, node: Node) -> Any:
    return (_layer_norm(walker, node), None, None)


def _rms_norm(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    eps = walker.arg(node, 3, "eps", None)
    if eps is None:
        # PyTorch takes the epsilon of the type it computes in.
        eps = torch.finfo(torch.float32).eps
    return _norm(walker, node, "rms_norm", value, walker.arg(node, 1),
                 walker.arg(node, 2, "weight", None), None, eps,
                 " cast after_weight")


def _moe_experts(walker: Walker, node: Node) -> Value:
    x, index, weights, gate_up, down, act = (walker.arg(node, i)
                                             for i in range(6))
    for value, what in ((x, "input"), (weights, "factors"),
                        (gate_up, "weight"), (down, "weight")):
        _layer_operand(value, what)
    operands = (x, index, weights, gate_up, down)
    return walker.emitter.op(
        node.name, f"fuse.moe_experts {x.name} route({index.name}, "
        f"{weights.name}) gate_up({gate_up.name}) down({down.name}) "
        f"act({act}) : ({', '.join(v.type for v in operands)}) -> {x.type}",
        x.shape, x.element)


# ---------------------------------------------------------------------------
# Shapes
# ---------------------------------------------------------------------------


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
    return walker.emitter.elementwise(node.name, [value], shape, element,
                                      element, lambda b: b.inputs[0])


def _extract(walker: Walker, hint: str, value: Value, dim: int, start: int,
             size: int) -> Value:
    offsets = ["0"] * value.rank
    sizes = [str(d) if is_static(d) else walker.emitter.dim(d)
             for d in value.shape]
    offsets[dim], sizes[dim] = str(start), str(size)
    shape: list[Dim] = list(value.shape)
    shape[dim] = size
    strides = ", ".join(["1"] * value.rank)
    return walker.emitter.op(
        hint, f"tensor.extract_slice {value.name}[{', '.join(offsets)}] "
        f"[{', '.join(sizes)}] [{strides}] : {value.type} to "
        f"{tensor_type(shape, value.element)}", shape, value.element)


def _static_dim(value: Value, dim: int) -> tuple[int, int]:
    """The dimension counted from the front and its size."""
    dim %= value.rank
    size = value.shape[dim]
    if not is_static(size):
        raise Unsupported(f"dimension {dim}, whose size is not static")
    return dim, size


def _pieces(walker: Walker, node: Node, value: Value, dim: int,
            sizes: Sequence[int]) -> tuple[Value, ...]:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(_extract(walker, f"{node.name}_{i}", value, dim, start, size)
                 for i, (start, size) in enumerate(zip(starts, sizes)))


def _split_sizes(walker: Walker, node: Node, total: int) -> list[int]:
    sizes = walker.arg(node, 1)
    if isinstance(sizes, int):
        sizes = [min(sizes, total - i) for i in range(0, total, sizes)]
    return sizes


def _chunk_sizes(walker: Walker, node: Node, total: int) -> list[int]:
    step = max(1, math.ceil(total / walker.arg(node, 1)))
    return [min(step, total - i) for i in range(0, total, step)]


#: How ops cut a dimension.
_SIZES = {
    "aten.split.Tensor": _split_sizes,
    "aten.split_with_sizes.default": _split_sizes,
    "aten.chunk.default": _chunk_sizes,
}


def _split(walker: Walker, node: Node) -> tuple[Value, ...]:
    value = walker.arg(node, 0)
    if isinstance(value, Pieces):
        return value
    dim, total = _static_dim(value, walker.arg(node, 2, "dim", 0))
    sizes = _SIZES[str(node.target)](walker, node, total)
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


def _getitem(walker: Walker, node: Node) -> Any:
    item = walker.arg(node, 0)[walker.arg(node, 1)]
    if item is None:
        raise Unsupported("a result of a norm other than the first")
    return item


# ---------------------------------------------------------------------------
# The table
# ---------------------------------------------------------------------------

HANDLERS: dict[str, Handler] = {
    "aten.linear.default": _linear,
    "fuse_mlir.stored_linear.default": _stored_linear,
    "fuse_mlir.moe_experts.default": _moe_experts,
    "aten.mm.default": _mm,
    "aten.matmul.default": _mm,
    "aten.addmm.default": _addmm,
    "quantized_decomposed.quantize_per_tensor.default": _quantize_per_tensor,
    "quantized_decomposed.dequantize_per_tensor.default":
        _dequantize_per_tensor,
    "quantized_decomposed.dequantize_per_channel.default":
        _dequantize_per_channel,
    "aten.silu.default": _activation("silu"),
    "aten.gelu.default": _activation(_gelu_kind),
    "aten.relu.default": _relu,
    "aten.layer_norm.default": _layer_norm,
    "aten.native_layer_norm.default": _native_layer_norm,
    "aten.rms_norm.default": _rms_norm,

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
    "aten.maximum.default":
        _binary(lambda b, x, y: b.op("arith.maximumf", x, y)),
    "aten.minimum.default":
        _binary(lambda b, x, y: b.op("arith.minimumf", x, y)),
    "aten.pow.Tensor_Scalar": _pow,
    "aten.square.default": _square,
    "aten.neg.default": _simple("arith.negf"),
    "aten.abs.default": _simple("math.absf"),
    "aten.exp.default": _simple("math.exp"),
    "aten.log.default": _simple("math.log"),
    "aten.sqrt.default": _simple("math.sqrt"),
    "aten.rsqrt.default": _simple("math.rsqrt"),
    "aten.reciprocal.default":
        _unary(lambda b, x: b.op("arith.divf", b.constant(1.0), x)),
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

# Ops that check or compute shapes and yield no tensor.
IGNORED = frozenset({
    "aten._assert_tensor_metadata.default",
    "aten._assert_scalar.default",
    "aten.sym_constrain_range_for_size.default",
})
