# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that are layer ops of fuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from fuse_mlir.errors import Unsupported
from fuse_mlir.frontend.aten.elementwise import elementwise
from fuse_mlir.frontend.aten.shapes import CUTS, Pieces
from fuse_mlir.frontend.aten.types import Handler
from fuse_mlir.frontend.elements import (
    ELEMENTS,
    LAYER_ELEMENTS,
    STORED_ELEMENTS,
)
from fuse_mlir.ir.builder import Value, float_literal, is_static, tensor_type
from fuse_mlir.quantized.contract import Quant, parse_quant

if TYPE_CHECKING:
    from fuse_mlir.frontend.walker import Node, Walker


def _layer_operand(value: Value, what: str) -> None:
    if value.element not in LAYER_ELEMENTS:
        raise Unsupported(
            f"{what} of type {value.element}; expected one of "
            + ", ".join(LAYER_ELEMENTS)
        )
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
        # One op in f32 rounds like the two, because relu is exact.
        return walker.emitter.op(
            node.name,
            f"fuse.activation relu2 {source.name} : {source.type} "
            f"-> {value.type}",
            value.shape,
            value.element,
        )
    return elementwise(
        walker, node, [value], lambda b, x: b.op("arith.mulf", x[0], x[0])
    )


def _activation(kind: str | Callable[[Walker, Node], str]) -> Handler:
    def handle(walker: Walker, node: Node) -> Value:
        value = walker.arg(node, 0)
        _layer_operand(value, "operand")
        name = kind if isinstance(kind, str) else kind(walker, node)
        shape, element = walker.result(node)
        return walker.emitter.op(
            node.name,
            f"fuse.activation {name} {value.name} : {value.type} -> "
            f"{tensor_type(shape, element)}",
            shape,
            element,
        )

    return handle


def _gelu_kind(walker: Walker, node: Node) -> str:
    mode = walker.arg(node, 1, "approximate", "none")
    return {"none": "gelu", "tanh": "gelu_tanh"}[mode]


def _emit_linear(
    walker: Walker,
    node: Node,
    value: Value,
    weight: Value,
    bias: Value | None,
    hint: str = "",
) -> Value:
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
        shape,
        element,
    )


def _linear(walker: Walker, node: Node) -> Value | Pieces:
    value, weight = walker.arg(node, 0), walker.arg(node, 1)
    bias = walker.arg(node, 2, "bias", None)
    cuts = _cuts(walker, node, weight, bias)
    if cuts is None:
        return _emit_linear(walker, node, value, weight, bias)
    # A merged projection becomes several linears on rows of its weight, so
    # that each of them can become part of a kernel.
    pieces = []
    for i, (start, stop) in enumerate(cuts):
        rows = walker.rows(weight, start, stop)
        part = None if bias is None else walker.rows(bias, start, stop)
        pieces.append(
            _emit_linear(walker, node, value, rows, part, f"{node.name}_{i}")
        )
    return Pieces(pieces)


def _cuts(
    walker: Walker, node: Node, weight: Value, *vectors: Value | None
) -> list[tuple[int, int]] | None:
    """Positions at which the only reader of a linear cuts its features."""
    if (
        len(node.users) != 1
        or weight.rank != 2
        or not all(
            p is None or walker.is_parameter(p) for p in (weight, *vectors)
        )
    ):
        return None
    user = next(iter(node.users))
    sizes = CUTS.get(str(user.target))
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


def _quantized(
    walker: Walker,
    x: Value,
    storage: str,
    activations: str,
    order: str,
    scale: float | None,
) -> tuple[Value, Value | None]:
    """The quantized input of a linear, and its scale if it is dynamic.

    Linears that quantize the same value in the same way share the op, so that
    they can become members of one kernel.

    Args:
        walker: of the program.
        x: input of the linear, [..., features].
        storage: f8E4M3FN, f8E5M2 or i8.
        activations: static, per_token or per_tensor.
        order: division order of the quantize op.
        scale: the static scale; None for a dynamic one.
    """
    key = (x.name, storage, activations, order, scale)
    if key in walker.quantized:
        return walker.quantized[key]
    pair: tuple[Value, Value | None]
    stored = tensor_type(x.shape, storage)
    hint = f"{x.name[1:]}_q"
    if scale is not None:
        clause = " order divide" if order == "divide" else ""
        text = (
            f"fuse.quantize {x.name} scale {float_literal(scale, 'f64')}"
            f"{clause} : ({x.type}) -> {stored}"
        )
        pair = (walker.emitter.op(hint, text, x.shape, storage), None)
    else:
        shape = x.shape[:-1] if activations == "per_token" else (1,)
        text = (
            f"fuse.dynamic_quantize {activations} {x.name} : ({x.type}) -> "
            f"({stored}, {tensor_type(shape, 'f32')})"
        )
        pair = walker.emitter.op2(
            hint,
            f"{x.name[1:]}_scale",
            text,
            (x.shape, storage),
            (shape, "f32"),
        )
    walker.quantized[key] = pair
    return pair


def _measured(
    walker: Walker, x: Value, quant: Quant
) -> tuple[Value, Value | None]:
    """The input of a linear with dynamic scales, and its scales.

    Linears that share an input and a contract share the op.
    """
    text = quant.text()
    key = (x.name, text)
    if key in walker.quantized:
        return walker.quantized[key]
    shape = x.shape[:-1]
    if quant.group:
        shape = (*shape, x.shape[-1] // quant.group)
    walker.quantized[key] = walker.emitter.op2(
        f"{x.name[1:]}_q",
        f"{x.name[1:]}_scale",
        f"fuse.dynamic_quantize {quant.activations} {x.name} quant({text}) : "
        f"({x.type}) -> ({tensor_type(x.shape, quant.storage)}, "
        f"{tensor_type(shape, 'f32')})",
        (x.shape, quant.storage),
        (shape, "f32"),
    )
    return walker.quantized[key]


def _stored_linear(walker: Walker, node: Node) -> Value | Pieces:
    x, weight, bias, channel = (walker.arg(node, i) for i in range(4))
    _layer_operand(x, "input")
    quant = walker.arg(node, 9, "quant", "")
    # Only scales per channel have the rows of the weight.
    by_rows = not quant or parse_quant(quant).weights == "channel"
    cuts = _cuts(walker, node, weight, bias, channel) if by_rows else None
    if cuts is None:
        return _emit_stored(walker, node, x, weight, bias, channel)

    def part(value: Value | None, cut: tuple[int, int]) -> Value | None:
        return None if value is None else walker.rows(value, *cut)

    return Pieces(
        _emit_stored(
            walker,
            node,
            x,
            walker.rows(weight, *cut),
            part(bias, cut),
            part(channel, cut),
        )
        for cut in cuts
    )


def _emit_stored(
    walker: Walker,
    node: Node,
    x: Value,
    weight: Value,
    bias: Value | None,
    channel: Value | None,
) -> Value:
    input_scale, weight_scale, activations, order, bias_place = (
        walker.arg(node, i) for i in range(4, 9)
    )
    shape, element = walker.result(node)
    shape = (*shape[:-1], weight.shape[0])
    quant = walker.arg(node, 9, "quant", "")
    number = (
        "per_channel"
        if channel is not None
        else float_literal(weight_scale, "f64")
    )
    scales = ""
    measured = None
    if quant:
        x, measured = _measured(walker, x, parse_quant(quant))
        scales = f" quant({quant})"
    elif activations == "none":
        vector = "" if channel is None else f" channel_scale({channel.name})"
        scale = f" scale {number}" if channel is None else ""
        operands = (
            weight.type if channel is None else f"{weight.type}, {channel.type}"
        )
        weight = walker.emitter.op(
            f"{weight.name[1:]}_real",
            f"fuse.dequantize {weight.name}{scale}{vector} : ({operands}) -> "
            f"{tensor_type(weight.shape, x.element)}",
            weight.shape,
            x.element,
        )
        channel = None
    else:
        x, measured = _quantized(
            walker,
            x,
            weight.element,
            activations,
            order,
            input_scale if activations == "static" else None,
        )
        first = (
            "dynamic"
            if measured is not None
            else float_literal(input_scale, "f64")
        )
        scales = f" scales({first}, {number})"
    text = f"fuse.linear {x.name}, {weight.name}"
    types = [x.type, weight.type]
    if bias is not None:
        _layer_operand(bias, "bias")
        place = (
            " added after_rounding" if bias_place == "after_rounding" else ""
        )
        text += f" bias({bias.name}){place}"
        types.append(bias.type)
    for name, operand in (
        ("channel_scale", channel),
        ("dynamic_scale", measured),
    ):
        if operand is not None:
            text += f" {name}({operand.name})"
            types.append(operand.type)
    return walker.emitter.op(
        node.name,
        f"{text}{scales} : ({', '.join(types)}) -> "
        f"{tensor_type(shape, element)}",
        shape,
        element,
    )


def _packed_linear(walker: Walker, node: Node) -> Value:
    x, weight, bias, *scales = (walker.arg(node, i) for i in range(6))
    bias_place, quant = walker.arg(node, 6), walker.arg(node, 7)
    _layer_operand(x, "input")
    shape, element = walker.result(node)
    given = [scale for scale in scales if scale is not None]
    real = (weight.shape[0], 2 * weight.shape[1])
    types = ", ".join([weight.type, *(scale.type for scale in given)])
    value = walker.emitter.op(
        f"{weight.name[1:]}_real",
        f"fuse.dequantize_weight {weight.name} scales("
        + ", ".join(scale.name for scale in given)
        + f") quant({quant}) : ({types}) -> {tensor_type(real, x.element)}",
        real,
        x.element,
    )
    text = f"fuse.linear {x.name}, {value.name}"
    operands = [x.type, value.type]
    if bias is not None:
        _layer_operand(bias, "bias")
        text += f" bias({bias.name})"
        if bias_place == "after_rounding":
            text += " added after_rounding"
        operands.append(bias.type)
    return walker.emitter.op(
        node.name,
        f"{text} : ({', '.join(operands)}) -> {tensor_type(shape, element)}",
        shape,
        element,
    )


def _full_range(walker: Walker, node: Node, first: int) -> None:
    """Refuses a zero point or a limited range, which no op supports."""
    if walker.arg(node, first) != 0:
        raise Unsupported("a zero point")
    low, high, dtype = (walker.arg(node, first + i) for i in (1, 2, 3))
    if dtype not in STORED_ELEMENTS:
        raise Unsupported(
            f"type {dtype}; expected one of "
            + ", ".join(map(str, STORED_ELEMENTS))
        )
    info = torch.iinfo(dtype) if dtype == torch.int8 else torch.finfo(dtype)
    if (low, high) != (info.min, info.max):
        raise Unsupported(
            f"the range {low} to {high}; expected {info.min:g} to {info.max:g}"
        )


def _scale(scale: float) -> str:
    """A scale in f32, as text with the fewest digits.

    PyTorch rounds the reciprocal of the f64 scale. The reciprocal of the f32
    scale may be a neighbor of it in f32.
    """
    rounded = torch.tensor(scale, dtype=torch.float32, device="cpu").numpy()
    return float_literal(float(str(rounded)), "f64")


def _quantize_per_tensor(walker: Walker, node: Node) -> Value:
    x = walker.arg(node, 0)
    _layer_operand(x, "input")
    _full_range(walker, node, 2)
    scale = _scale(walker.arg(node, 1))
    storage = STORED_ELEMENTS[walker.arg(node, 5)]
    if storage != "i8":
        # The op rounds to integers before it converts.
        raise Unsupported(f"type {storage}; expected i8")
    return walker.emitter.op(
        node.name,
        f"fuse.quantize {x.name} scale {scale} : ({x.type}) -> "
        f"{tensor_type(x.shape, storage)}",
        x.shape,
        storage,
    )


def _dequantized(
    walker: Walker, node: Node, value: Value, clause: str, types: Sequence[str]
) -> Value:
    wanted: Any = node.kwargs.get("out_dtype") or torch.float32
    element = ELEMENTS[wanted]
    return walker.emitter.op(
        node.name,
        f"fuse.dequantize {value.name} {clause} : "
        f"({', '.join(types)}) -> {tensor_type(value.shape, element)}",
        value.shape,
        element,
    )


def _dequantize_per_tensor(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    _full_range(walker, node, 2)
    return _dequantized(
        walker,
        node,
        value,
        f"scale {_scale(walker.arg(node, 1))}",
        [value.type],
    )


def _dequantize_per_channel(walker: Walker, node: Node) -> Value:
    value, scales = walker.arg(node, 0), walker.arg(node, 1)
    if walker.arg(node, 3) != 0:
        raise Unsupported(
            f"scales along dimension {walker.arg(node, 3)}; expected 0"
        )
    point = walker.arg(node, 2)
    if point is not None and bool((point != 0).any()):
        raise Unsupported("a zero point")
    if scales.element != "f32":
        raise Unsupported(f"scales of type {scales.element}; expected f32")
    return _dequantized(
        walker,
        node,
        value,
        f"channel_scale({scales.name})",
        [value.type, scales.type],
    )


def _mm(walker: Walker, node: Node) -> Value:
    rhs = walker.arg(node, 1)
    if rhs.rank != 2:
        raise Unsupported(f"right operand of rank {rhs.rank}; expected 2")
    return _emit_linear(
        walker,
        node,
        walker.arg(node, 0),
        walker.transpose(f"{node.name}_weight", rhs, [1, 0]),
        None,
    )


def _addmm(walker: Walker, node: Node) -> Value:
    if (
        walker.arg(node, 3, "beta", 1) != 1
        or walker.arg(node, 4, "alpha", 1) != 1
    ):
        raise Unsupported("alpha or beta other than 1")
    weight = walker.transpose(
        f"{node.name}_weight", walker.arg(node, 2), [1, 0]
    )
    return _emit_linear(
        walker, node, walker.arg(node, 1), weight, walker.arg(node, 0)
    )


def _norm(
    walker: Walker,
    node: Node,
    mnemonic: str,
    value: Value,
    shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
    tail: str = "",
) -> Value:
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
        node.name,
        f"{text} eps {float_literal(eps, 'f64')}{tail} : "
        f"({', '.join(types)}) -> {value.type}",
        value.shape,
        value.element,
    )


def _layer_norm(walker: Walker, node: Node) -> Value:
    return _norm(
        walker,
        node,
        "layer_norm",
        walker.arg(node, 0),
        walker.arg(node, 1),
        walker.arg(node, 2, "weight", None),
        walker.arg(node, 3, "bias", None),
        walker.arg(node, 4, "eps", 1e-5),
    )


def _native_layer_norm(walker: Walker, node: Node) -> tuple[Value, None, None]:
    return (_layer_norm(walker, node), None, None)


def _rms_norm(walker: Walker, node: Node) -> Value:
    value = walker.arg(node, 0)
    eps = walker.arg(node, 3, "eps", None)
    if eps is None:
        # PyTorch uses the epsilon of the type in which it computes.
        eps = torch.finfo(torch.float32).eps
    return _norm(
        walker,
        node,
        "rms_norm",
        value,
        walker.arg(node, 1),
        walker.arg(node, 2, "weight", None),
        None,
        eps,
        " cast after_weight",
    )


def _moe_experts(walker: Walker, node: Node) -> Value:
    x, index, weights, gate_up, down, act = (
        walker.arg(node, i) for i in range(6)
    )
    for value, what in (
        (x, "input"),
        (weights, "factors"),
        (gate_up, "weight"),
        (down, "weight"),
    ):
        _layer_operand(value, what)
    operands = (x, index, weights, gate_up, down)
    return walker.emitter.op(
        node.name,
        f"fuse.moe_experts {x.name} route({index.name}, "
        f"{weights.name}) gate_up({gate_up.name}) down({down.name}) "
        f"act({act}) : ({', '.join(v.type for v in operands)}) -> {x.type}",
        x.shape,
        x.element,
    )


HANDLERS: dict[str, Handler] = {
    "aten.linear.default": _linear,
    "fuse_mlir.packed_linear.default": _packed_linear,
    "fuse_mlir.partial_linear.default": _linear,
    "fuse_mlir.stored_linear.default": _stored_linear,
    "fuse_mlir.moe_experts.default": _moe_experts,
    "aten.mm.default": _mm,
    "aten.matmul.default": _mm,
    "aten.addmm.default": _addmm,
    "quantized_decomposed.quantize_per_tensor.default": _quantize_per_tensor,
    "quantized_decomposed.dequantize_per_tensor.default": _dequantize_per_tensor,
    "quantized_decomposed.dequantize_per_channel.default": _dequantize_per_channel,
    "aten.silu.default": _activation("silu"),
    "aten.gelu.default": _activation(_gelu_kind),
    "aten.relu.default": _relu,
    "aten.layer_norm.default": _layer_norm,
    "aten.native_layer_norm.default": _native_layer_norm,
    "aten.rms_norm.default": _rms_norm,
    "aten.square.default": _square,
}
