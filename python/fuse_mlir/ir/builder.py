# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds one func.func as text: values, ops with locations, attribute aliases.

It knows the syntax of MLIR and how tensors broadcast, but no ops of PyTorch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import sympy

# A dimension is a number or a symbolic expression of the exported program.
Dim: TypeAlias = "int | sympy.Expr"


@dataclass(frozen=True)
class Value:
    """An SSA value that is a tensor."""

    name: str
    shape: tuple[Dim, ...]
    element: str

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.element)


@dataclass(frozen=True)
class Argument:
    """A function argument and the text of its attribute dictionary."""

    value: Value
    attributes: str = ""


def is_static(dim: Dim) -> bool:
    return isinstance(dim, int)


def tensor_type(shape: Sequence[Dim], element: str) -> str:
    dims = "".join(f"{d if is_static(d) else '?'}x" for d in shape)
    return f"tensor<{dims}{element}>"


def quote(text: str) -> str:
    """A string literal of MLIR."""
    out = []
    for byte in text.encode():
        char = chr(byte)
        if char in '"\\' or byte < 0x20 or byte > 0x7E:
            out.append(f"\\{byte:02X}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def float_literal(value: float, element: str) -> str:
    """`value` as a literal of type `element`, which is f32 or f64."""
    if math.isfinite(value):
        text = repr(float(value))
        if "." not in text.split("e")[0]:
            mantissa, _, exponent = text.partition("e")
            text = f"{mantissa}.0e{exponent}" if exponent else f"{mantissa}.0"
        return text
    codes = {
        "f32": ("0x7F800000", "0xFF800000", "0x7FC00000"),
        "f64": (
            "0x7FF0000000000000",
            "0xFFF0000000000000",
            "0x7FF8000000000000",
        ),
    }[element]
    if math.isnan(value):
        return codes[2]
    return codes[0] if value > 0 else codes[1]


WIDTHS = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}


class Body:
    """Scalar ops inside one linalg.generic."""

    def __init__(
        self, emitter: Emitter, inputs: Sequence[str], element: str
    ) -> None:
        self._emitter = emitter
        self.inputs = list(inputs)
        self.element = element

    def op(self, name: str, *operands: str) -> str:
        """An op whose operands and result have the type of the body."""
        result = self._emitter.fresh()
        self._emitter.line(
            f"  {result} = {name} {', '.join(operands)} : {self.element}"
        )
        return result

    def constant(self, value: float) -> str:
        result = self._emitter.fresh("cst")
        literal = float_literal(value, self.element)
        self._emitter.line(
            f"  {result} = arith.constant {literal} : {self.element}"
        )
        return result

    def round(self, value: str, element: str) -> str:
        """`value` rounded to `element`, in the type of the body."""
        return self.cast(
            self.cast(value, self.element, element), element, self.element
        )

    def cast(self, value: str, source: str, target: str) -> str:
        """`value` converted between float types, through f32 if neither type
        contains the other."""
        if source == target:
            return value
        if WIDTHS[source] == WIDTHS[target]:
            return self.cast(self.cast(value, source, "f32"), "f32", target)
        name = "extf" if WIDTHS[source] < WIDTHS[target] else "truncf"
        result = self._emitter.fresh()
        self._emitter.line(
            f"  {result} = arith.{name} {value} : {source} to {target}"
        )
        return result


@dataclass
class Emitter:
    """The text of one function that is being built."""

    name: str
    arguments: list[Argument] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _maps: dict[str, str] = field(default_factory=dict)
    _locations: dict[str, str] = field(default_factory=dict)
    _location: str = ""
    _names: set[str] = field(default_factory=set)
    _counter: int = 0
    _dims: dict[Dim, str] = field(default_factory=dict)
    _holders: dict[Dim, tuple[str, int, str]] = field(default_factory=dict)

    # Names, locations, lines.

    def fresh(self, hint: str = "") -> str:
        """An unused SSA name, `hint` itself if possible."""
        if hint and f"%{hint}" not in self._names:
            name = f"%{hint}"
        else:
            while True:
                number, self._counter = self._counter, self._counter + 1
                name = f"%{hint}_{number}" if hint else f"%{number}"
                if name not in self._names:
                    break
        self._names.add(name)
        return name

    def set_location(self, text: str) -> None:
        """The location of the ops that follow, in the syntax of MLIR."""
        if text not in self._locations:
            self._locations[text] = f"#loc{len(self._locations) + 1}"
        self._location = self._locations[text]

    def line(self, text: str, located: bool = True) -> None:
        suffix = f" loc({self._location})" if located and self._location else ""
        self._lines.append(text + suffix)

    def define(self, value: Value) -> Value:
        """Records which value has which symbolic dimension."""
        for index, dim in enumerate(value.shape):
            if not is_static(dim):
                self._holders.setdefault(dim, (value.name, index, value.type))
        return value

    def argument(
        self,
        name: str,
        shape: Sequence[Dim],
        element: str,
        attributes: str = "",
    ) -> Value:
        value = self.define(Value(self.fresh(name), tuple(shape), element))
        self.arguments.append(Argument(value, attributes))
        return value

    def is_read(self, name: str) -> bool:
        """Whether an earlier line refers to a value."""
        reference = re.compile(re.escape(name) + r"(?![\w.$-])")
        return any(reference.search(line) for line in self._lines)

    def drop_argument(self, name: str) -> None:
        """Removes an unused argument."""
        self.arguments = [a for a in self.arguments if a.value.name != name]

    # Helpers for several ops.

    def dim_constant(self, value: int) -> str:
        key = sympy.Integer(value)
        if key not in self._dims:
            name = self.fresh(f"c{value}")
            self.line(f"{name} = arith.constant {value} : index")
            self._dims[key] = name
        return self._dims[key]

    def dim(self, dim: Dim) -> str:
        """An index value that holds a symbolic dimension."""
        if dim in self._dims:
            return self._dims[dim]
        if dim not in self._holders:
            raise ValueError(f"no tensor has the symbolic dimension {dim}")
        holder, position, type_ = self._holders[dim]
        constant = self.dim_constant(position)
        name = self.fresh("dim")
        self.line(f"{name} = tensor.dim {holder}, {constant} : {type_}")
        self._dims[dim] = name
        return name

    def empty(self, shape: Sequence[Dim], element: str) -> str:
        sizes = ", ".join(self.dim(d) for d in shape if not is_static(d))
        name = self.fresh("init")
        self.line(
            f"{name} = tensor.empty({sizes}) : {tensor_type(shape, element)}"
        )
        return name

    def map(self, text: str) -> str:
        if text not in self._maps:
            self._maps[text] = f"#map{len(self._maps) or ''}"
        return self._maps[text]

    def broadcast_map(
        self, source: Sequence[Dim], target: Sequence[Dim]
    ) -> str:
        """Map from the indices of `target` to those of a tensor of shape
        `source` that broadcasts to it, as in NumPy."""
        loops = [f"d{i}" for i in range(len(target))]
        offset = len(target) - len(source)
        exprs = []
        for i, dim in enumerate(source):
            unit = dim == 1 and target[offset + i] != 1
            exprs.append("0" if unit else loops[offset + i])
        return self.map(
            f"affine_map<({', '.join(loops)}) -> ({', '.join(exprs)})>"
        )

    # Ops.

    def op(
        self, hint: str, text: str, shape: Sequence[Dim], element: str
    ) -> Value:
        """An op with one tensor result; `text` follows the `=`."""
        value = Value(self.fresh(hint), tuple(shape), element)
        self.line(f"{value.name} = {text}")
        return self.define(value)

    def op2(
        self,
        hint: str,
        second: str,
        text: str,
        types: tuple[Sequence[Dim], str],
        second_types: tuple[Sequence[Dim], str],
    ) -> tuple[Value, Value]:
        """An op with two tensor results."""
        values = (
            Value(self.fresh(hint), tuple(types[0]), types[1]),
            Value(self.fresh(second), tuple(second_types[0]), second_types[1]),
        )
        self.line(f"{values[0].name}, {values[1].name} = {text}")
        return self.define(values[0]), self.define(values[1])

    def elementwise(
        self,
        hint: str,
        inputs: Sequence[Value],
        shape: Sequence[Dim],
        element: str,
        compute: str,
        body: Callable[[Body], str],
        through: Sequence[str] = (),
    ) -> Value:
        """A linalg.generic over `inputs` broadcast to `shape`.

        Each input is converted to `compute`, through the type in `through`
        if it has one. The result is rounded once to `element`.
        """
        init = self.empty(shape, element)
        maps = [self.broadcast_map(v.shape, shape) for v in inputs]
        maps.append(self.broadcast_map(shape, shape))
        return self._generic(
            hint,
            inputs,
            init,
            shape,
            element,
            maps,
            ["parallel"] * len(shape),
            compute,
            body,
            tuple(through) or (None,) * len(inputs),
        )

    def reduce_sum(
        self, hint: str, value: Value, dims: Sequence[int], compute: str
    ) -> Value:
        """Sum over `dims` in `compute`, which is also the result type."""
        shape = [d for i, d in enumerate(value.shape) if i not in dims]
        init = self.empty(shape, compute)
        zero = self.fresh("zero")
        self.line(f"{zero} = arith.constant 0.0 : {compute}")
        type_ = tensor_type(shape, compute)
        fill = self.fresh("fill")
        self.line(
            f"{fill} = linalg.fill ins({zero} : {compute})"
            f" outs({init} : {type_}) -> {type_}"
        )
        loops = [f"d{i}" for i in range(value.rank)]
        kept = [loop for i, loop in enumerate(loops) if i not in dims]
        head = f"affine_map<({', '.join(loops)}) -> "
        maps = [
            self.map(f"{head}({', '.join(loops)})>"),
            self.map(f"{head}({', '.join(kept)})>"),
        ]
        iterators = [
            "reduction" if i in dims else "parallel" for i in range(value.rank)
        ]
        return self._generic(
            hint,
            [value],
            fill,
            shape,
            compute,
            maps,
            iterators,
            compute,
            lambda b: b.op("arith.addf", b.inputs[1], b.inputs[0]),
            (None,),
            accumulate=True,
        )

    def _generic(
        self,
        hint: str,
        inputs: Sequence[Value],
        init: str,
        shape: Sequence[Dim],
        element: str,
        maps: Sequence[str],
        iterators: Sequence[str],
        compute: str,
        body: Callable[[Body], str],
        through: Sequence[str | None],
        accumulate: bool = False,
    ) -> Value:
        result = Value(self.fresh(hint), tuple(shape), element)
        iterator_text = ", ".join(f'"{i}"' for i in iterators)
        outs = f"outs({init} : {result.type})"
        ins = ""
        if inputs:
            names = ", ".join(v.name for v in inputs)
            types = ", ".join(v.type for v in inputs)
            ins = f"ins({names} : {types})\n      "
        self.line(
            f"{result.name} = linalg.generic {{indexing_maps ="
            f" [{', '.join(maps)}], iterator_types = [{iterator_text}]}}\n"
            f"      {ins}{outs} {{",
            located=False,
        )
        scalars = [self.fresh("in") for _ in inputs]
        out = self.fresh("out")
        head = [f"{s}: {v.element}" for s, v in zip(scalars, inputs)]
        self.line(
            f"^bb0({', '.join([*head, f'{out}: {element}'])}):", located=False
        )
        block = Body(self, [], compute)
        for scalar, value, stop in zip(scalars, inputs, through):
            source = value.element
            if stop is not None:
                scalar = block.cast(scalar, source, stop)
                source = stop
            block.inputs.append(block.cast(scalar, source, compute))
        if accumulate:
            block.inputs.append(out)
        scalar = block.cast(body(block), compute, element)
        self.line(f"  linalg.yield {scalar} : {element}")
        self.line(f"}} -> {result.type}")
        return self.define(result)

    # The whole function.

    def finish(
        self, results: Sequence[Value], location: str, attributes: str = ""
    ) -> str:
        """Text of a module that holds the function."""
        self.set_location(location)
        names = ", ".join(v.name for v in results)
        types = ", ".join(v.type for v in results)
        self.line(f"return {names} : {types}" if results else "return")
        out = [f"{alias} = {text}" for text, alias in self._maps.items()]
        if out:
            out.append("")
        out.append(f"module{attributes} {{")
        arguments = ",\n      ".join(
            f"{a.value.name}: {a.value.type}"
            + (f" {a.attributes}" if a.attributes else "")
            for a in self.arguments
        )
        arrow = "" if not results else f" -> ({types})"
        out.append(
            f"  func.func @{symbol(self.name)}(\n      {arguments}){arrow} {{"
        )
        out.extend(f"    {line}" for line in self._lines)
        out.append(f"  }} loc({self._location})")
        out.append("} loc(unknown)")
        out.extend(
            f"{alias} = loc({text})" for text, alias in self._locations.items()
        )
        return "\n".join(out) + "\n"


def symbol(name: str) -> str:
    """A symbol name, quoted if MLIR's grammar requires it."""
    plain = name.replace("_", "a").replace(".", "a").replace("$", "a")
    if (
        plain.isascii()
        and plain.isalnum()
        and not name[0].isdigit()
        and name[0] not in ".$"
    ):
        return name
    return quote(name)
