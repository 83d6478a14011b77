# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Visits the graph of an exported program and writes fuse IR."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from fuse_mlir.errors import ImportFailure, Unsupported
from fuse_mlir.frontend.elements import (
    ELEMENTS,
    INDEX_ELEMENTS,
    STORED_ELEMENTS,
)
from fuse_mlir.ir.builder import (
    Dim,
    Emitter,
    Value,
    is_static,
    quote,
    tensor_type,
)
from fuse_mlir.ir.reshape import reassociate
from fuse_mlir.support.messages import first_line

Node = torch.fx.Node


@dataclass(frozen=True)
class ImportedFunction:
    """A function as text with everything it needs from the state dict."""

    name: str
    text: str
    # One entry per argument that is a parameter or buffer, contiguous.
    weights: dict[str, torch.Tensor]
    # Names of the state dict that share storage with an argument.
    aliases: dict[str, str]


class Walker:
    """Visits the graph of an exported program once, in order.

    Args:
        program: from `torch.export`.
        name: of the function that is written.
        handlers: translations of ATen ops, by the name of the overload.
        ignored: names of ops that yield no tensor.
    """

    def __init__(
        self,
        program: ExportedProgram,
        name: str,
        handlers: Mapping[str, Callable[[Walker, Node], Any]],
        ignored: Container[str],
    ) -> None:
        self.program = program
        self._handlers = handlers
        self._ignored = ignored
        self.emitter = Emitter(name)
        self._values: dict[Node, Any] = {}
        self._transposed: dict[str, Value] = {}
        self._weights: dict[str, torch.Tensor] = {}
        self._aliases: dict[str, str] = {}
        self._root = f"{quote(name)}"
        # Quantized inputs of linears, by what they were made from.
        self.quantized: dict[tuple, tuple[Value, Value | None]] = {}
        # Inputs of relus, by their results.
        self.rectified: dict[str, Value] = {}
        # Names of the parameters of arguments.
        self._parameters: dict[str, str] = {}
        self._cut: dict[tuple[str, int, int], Value] = {}

    def run(self) -> ImportedFunction:
        self._check_signature()
        self._arguments()
        results: list[Value] = []
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                results = self._results(node)
        self._drop_cut()
        text = self.emitter.finish(results, self._root)
        return ImportedFunction(
            self.emitter.name, text, self._weights, self._aliases
        )

    # Signature.

    def _check_signature(self) -> None:
        for spec in self.program.graph_signature.output_specs:
            if spec.kind is not OutputKind.USER_OUTPUT:
                raise ImportFailure(
                    f"output '{spec.arg.name}' is {spec.kind.name.lower()}; "
                    "expected a function that changes no state"
                )

    def _arguments(self) -> None:
        """User inputs first, then every parameter the graph uses."""
        signature = self.program.graph_signature
        specs = {s.arg.name: s for s in signature.input_specs}
        nodes = [n for n in self.program.graph.nodes if n.op == "placeholder"]
        users = [n for n in nodes if specs[n.name].kind is InputKind.USER_INPUT]
        for node in users:
            self._values[node] = self._user_input(node)
        owners: dict[tuple, tuple[str, Value]] = {}
        for node in nodes:
            spec = specs[node.name]
            if node in users or not node.users:
                continue
            if spec.kind not in (
                InputKind.PARAMETER,
                InputKind.BUFFER,
                InputKind.CONSTANT_TENSOR,
            ):
                raise ImportFailure(
                    f"input '{node.name}' is {spec.kind.name.lower()}; "
                    "expected a tensor, parameter or buffer"
                )
            if self._is_zero_point(node):
                # Looked at, never computed with.
                self._values[node] = self._state(spec)
                continue
            self._parameter(node, spec, owners)
        self._record_aliases(owners)

    @staticmethod
    def _is_zero_point(node: Node) -> bool:
        """Whether only per-channel dequantize ops read it, as zero points."""
        return all(
            "dequantize_per_channel" in _target_name(user)
            and len(user.args) > 2
            and user.args[2] is node
            and node not in (user.args[0], user.args[1])
            for user in node.users
        )

    def _user_input(self, node: Node) -> Value | Any:
        fake = node.meta["val"]
        if not isinstance(fake, torch.Tensor):
            if node.users:
                raise ImportFailure(
                    f"input '{node.name}' is a {type(fake).__name__}; "
                    "expected a tensor"
                )
            return fake
        shape, element = self._tensor(
            fake, f"input '{node.name}'", ELEMENTS | INDEX_ELEMENTS
        )
        return self.emitter.argument(_identifier(node.name), shape, element)

    def _parameter(
        self, node: Node, spec: Any, owners: dict[tuple, tuple[str, Value]]
    ) -> None:
        tensor = self._state(spec)
        key = storage_key(tensor)
        if key in owners:
            self._values[node] = owners[key][1]
            return
        # A tied weight goes by the first of its names in the state dict.
        name = next(
            (
                n
                for n, t in self.program.state_dict.items()
                if storage_key(t) == key
            ),
            spec.target,
        )
        shape, element = self._tensor(
            tensor, f"parameter '{name}'", ELEMENTS | STORED_ELEMENTS
        )
        value = self.emitter.argument(
            _identifier(name),
            shape,
            element,
            f"{{fuse.parameter = {quote(name)}}}",
        )
        self._values[node] = value
        self._parameters[value.name] = name
        self._weights[name] = tensor.detach().contiguous()
        owners[key] = (name, value)

    def _state(self, spec: Any) -> torch.Tensor:
        name = spec.target
        if name in self.program.state_dict:
            return self.program.state_dict[name]
        return self.program.constants[name]

    def _record_aliases(self, owners: dict[tuple, tuple[str, Value]]) -> None:
        for name, tensor in self.program.state_dict.items():
            owner = owners.get(storage_key(tensor))
            if owner is not None and owner[0] != name:
                self._aliases[name] = owner[0]

    def _results(self, node: Node) -> list[Value]:
        results: list[Value] = []
        items: Any = node.args[0]
        for item in items:
            value = self._values[item] if isinstance(item, Node) else item
            if not isinstance(value, Value):
                raise ImportFailure(
                    f"result '{item}' is not a tensor; expected tensors only"
                )
            results.append(value)
        return results

    # What handlers use.

    def arg(
        self,
        node: Node,
        position: int,
        name: str | None = None,
        default: Any = None,
    ) -> Any:
        """An argument of the call, by position or name."""
        if position < len(node.args):
            item = node.args[position]
        elif name is not None:
            item = node.kwargs.get(name, default)
        else:
            raise Unsupported(f"missing argument {position}")
        return self._resolve(item)

    def is_parameter(self, value: Value) -> bool:
        """Whether a value is an argument with a name of the state dict."""
        return value.name in self._parameters

    def rows(self, value: Value, start: int, stop: int) -> Value:
        """Rows of a parameter as an argument of its own, `name[start:stop]`.

        The tensor is a view of the parameter's, and the name says of which
        rows.
        """
        key = (value.name, start, stop)
        if key not in self._cut:
            whole = self._parameters[value.name]
            name = f"{whole}[{start}:{stop}]"
            self._cut[key] = self.emitter.argument(
                _identifier(f"{whole}_{start}"),
                (stop - start, *value.shape[1:]),
                value.element,
                f"{{fuse.parameter = {quote(name)}}}",
            )
            self._weights[name] = self._weights[whole][start:stop]
        return self._cut[key]

    def _drop_cut(self) -> None:
        """Drops parameters of which only rows are read."""
        for whole in {key[0] for key in self._cut}:
            if not self.emitter.is_read(whole):
                self.emitter.drop_argument(whole)
                del self._weights[self._parameters[whole]]

    def result(self, node: Node) -> tuple[tuple[Dim, ...], str]:
        """Shape and element type of the result of a call."""
        return self._tensor(node.meta["val"], "result")

    @staticmethod
    def dtype(element: str) -> torch.dtype:
        """PyTorch's type for an element type."""
        found = next((d for d, e in ELEMENTS.items() if e == element), None)
        if found is None:
            raise Unsupported(
                f"operand of type {element}; expected one "
                f"of {', '.join(ELEMENTS.values())}"
            )
        return found

    def common_element(self, operands: Sequence[Any]) -> str:
        """Element type after promotion of `operands`."""
        samples = []
        for operand in operands:
            if isinstance(operand, Value):
                # Promotion distinguishes scalars from other tensors only.
                samples.append(
                    torch.empty(
                        [1] * min(operand.rank, 1),
                        dtype=self.dtype(operand.element),
                        device="cpu",
                    )
                )
            elif isinstance(operand, sympy.Basic):
                raise Unsupported(f"the size {operand} as a number")
            else:
                samples.append(operand)
        if len(samples) == 1:
            return operands[0].element
        return ELEMENTS[torch.result_type(*samples)]

    def reshape(self, hint: str, value: Value, shape: Sequence[Dim]) -> Value:
        """`value` with another shape, by collapsing then expanding."""
        shape = tuple(shape)
        if shape == value.shape:
            return value
        groups = reassociate(value.shape, shape)
        if groups is None:
            raise Unsupported(
                f"reshape of {_show(value.shape)} to {_show(shape)}"
            )
        # A tensor of rank zero has no dimensions to put into groups.
        if not shape:
            return self._collapse(hint, value, [], shape)
        if not value.shape:
            return self._expand(hint, value, [], shape)
        middle = tuple(
            _product([value.shape[i] for i in left]) for left, _ in groups
        )
        middle = tuple(
            shape[right[0]] if len(right) == 1 else size
            for size, (_, right) in zip(middle, groups)
        )
        if any(len(left) != 1 for left, _ in groups):
            last = all(len(right) == 1 for _, right in groups)
            value = self._collapse(
                hint if last else f"{hint}_flat",
                value,
                [left for left, _ in groups],
                middle,
            )
        if any(len(right) != 1 for _, right in groups):
            value = self._expand(hint, value, [r for _, r in groups], shape)
        return value

    def _collapse(
        self,
        hint: str,
        value: Value,
        groups: list[list[int]],
        shape: tuple[Dim, ...],
    ) -> Value:
        return self.emitter.op(
            hint,
            f"tensor.collapse_shape {value.name} {_groups(groups)} : "
            f"{value.type} into {tensor_type(shape, value.element)}",
            shape,
            value.element,
        )

    def _expand(
        self,
        hint: str,
        value: Value,
        groups: list[list[int]],
        shape: tuple[Dim, ...],
    ) -> Value:
        sizes = ", ".join(
            str(d) if is_static(d) else self.emitter.dim(d) for d in shape
        )
        return self.emitter.op(
            hint,
            f"tensor.expand_shape {value.name} {_groups(groups)} "
            f"output_shape [{sizes}] : {value.type} into "
            f"{tensor_type(shape, value.element)}",
            shape,
            value.element,
        )

    def transpose(self, hint: str, value: Value, order: Sequence[int]) -> Value:
        """`value` with its dimensions in another order."""
        if list(order) == list(range(value.rank)):
            return value
        # The transpose of a transpose is the value itself, which lets
        # x @ w.t() become a linear on w.
        if list(order) == [1, 0] and value.name in self._transposed:
            return self._transposed[value.name]
        shape = tuple(value.shape[i] for i in order)
        init = self.emitter.empty(shape, value.element)
        type_ = tensor_type(shape, value.element)
        result = self.emitter.op(
            hint,
            f"linalg.transpose ins({value.name} : {value.type}) "
            f"outs({init} : {type_}) permutation = {list(order)}",
            shape,
            value.element,
        )
        if list(order) == [1, 0]:
            self._transposed[result.name] = value
        return result

    # Nodes.

    def _call(self, node: Node) -> None:
        target = _target_name(node)
        if target in self._ignored or not _makes_tensors(node):
            return
        handler = self._handlers.get(target)
        self.emitter.set_location(self._location(node))
        if handler is None:
            raise ImportFailure(
                f"{self._place(node)}: no translation for '{target}'"
            )
        try:
            self._values[node] = handler(self, node)
        except Unsupported as error:
            raise ImportFailure(
                f"{self._place(node)}: no translation for "
                f"'{target}' with {error}"
            ) from error
        # Translations are for arguments that layers have: another one must
        # not keep the other layers of a model from being fused.
        except Exception as error:
            raise ImportFailure(
                f"{self._place(node)}: no translation for '{target}' with "
                f"these arguments: {first_line(error)}"
            ) from error

    def _resolve(self, item: Any) -> Any:
        if isinstance(item, Node):
            if item in self._values:
                return self._values[item]
            return _dim(item.meta["val"])
        if isinstance(item, (list, tuple)):
            return [self._resolve(i) for i in item]
        return item

    def _tensor(
        self,
        tensor: torch.Tensor,
        what: str,
        elements: Mapping[torch.dtype, str] = ELEMENTS,
    ) -> tuple[tuple[Dim, ...], str]:
        element = elements.get(tensor.dtype)
        if element is None:
            known = ", ".join(str(d) for d in elements)
            raise (
                Unsupported(
                    f"{what} of type {tensor.dtype}; expected one of {known}"
                )
                if what == "result"
                else ImportFailure(
                    f"{what} has type {tensor.dtype}; expected one of {known}"
                )
            )
        return tuple(_dim(d) for d in tensor.shape), element

    # Places.

    def _module_path(self, node: Node) -> str:
        stack = node.meta.get("nn_module_stack") or {}
        paths = [path for path, _ in stack.values()]
        return paths[-1] if paths and paths[-1] else ""

    def _source(self, node: Node) -> tuple[str, int] | None:
        """The innermost source line, the path counted from the package."""
        trace = node.meta.get("stack_trace") or ""
        found = re.findall(r'File "([^"]+)", line (\d+)', trace)
        if not found:
            return None
        path, line = found[-1]
        for marker in ("site-packages/", "dist-packages/"):
            if marker in path:
                path = path.rsplit(marker, 1)[1]
                break
        else:
            path = path.rsplit("/", 1)[-1]
        return path, int(line)

    def _location(self, node: Node) -> str:
        path = self._module_path(node)
        name = quote(path) if path else self._root
        source = self._source(node)
        if source is None:
            return name
        return f"{name}({quote(source[0])}:{source[1]}:0)"

    def _place(self, node: Node) -> str:
        source = self._source(node)
        place = f"{source[0]}:{source[1]}" if source else "unknown source line"
        path = self._module_path(node)
        return f"{place} (module '{path}')" if path else place


def _dim(size: Any) -> Any:
    if isinstance(size, torch.SymInt):
        expr = size.node.expr
        return int(expr) if expr.is_number else expr
    return size


def _product(sizes: Sequence[Dim]) -> Dim:
    product = sympy.Mul(*[sympy.sympify(s) for s in sizes])
    return int(product) if product.is_number else product


def _show(shape: Sequence[Dim]) -> str:
    return "[" + ", ".join(str(d) for d in shape) + "]"


def _groups(groups: list[list[int]]) -> str:
    return "[" + ", ".join(str(g) for g in groups) + "]"


def _identifier(name: str) -> str:
    text = re.sub(r"[^A-Za-z0-9_.$-]", "_", name)
    return f"_{text}" if text[:1].isdigit() else text


def _target_name(node: Node) -> str:
    if node.target is operator.getitem:
        return "getitem"
    return str(node.target)


def _makes_tensors(node: Node) -> bool:
    """Whether the call yields tensors rather than sizes."""
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)):
        return any(isinstance(v, torch.Tensor) for v in value)
    return isinstance(value, torch.Tensor)


def storage_key(tensor: torch.Tensor) -> tuple:
    return (
        tensor.untyped_storage().data_ptr(),
        tensor.storage_offset(),
        tensor.dtype,
        tuple(tensor.shape),
        tuple(tensor.stride()),
    )
