# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slots: places in a model that kernels are bound to, instance by instance.

`Context` keeps registered kernels, `Module` is fuse IR whose slots can be
bound, and `OpSlot` is a slot in a PyTorch module: a function with an eager
body, bound by `bind(model, config)`. A slot is no `nn.Module` and never enters
the module tree. docs/Slots.md has the rules; they are those of the compiler,
which this module calls through its C interface.
"""

from __future__ import annotations

import copy
import ctypes
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fuse_mlir import native

_TYPES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16",
          torch.bfloat16: "bf16", torch.float8_e4m3fn: "f8E4M3FN",
          torch.float8_e5m2: "f8E5M2", torch.int64: "i64",
          torch.int32: "i32", torch.int8: "i8"}


class SlotError(native.NativeError):
    """A slot that can not be bound or called as asked."""


def _call(name: str, *arguments: Any) -> None:
    native._check(getattr(native.library(), name)(*arguments))


def _take_text(name: str, *arguments: Any) -> str:
    """A string that the last parameter of a function gives."""
    text = c_void_p()
    _call(name, *arguments, byref(text))
    try:
        return ctypes.string_at(text).decode()  # type: ignore[arg-type]
    finally:
        native.library().fuse_string_free(text)


class Context:
    """Kernels that can be bound; those that fuse generates, and added ones."""

    def __init__(self) -> None:
        pointer = c_void_p()
        _call("fuse_context_create", byref(pointer))
        self._handle = native._Handle("context", pointer)

    def register_kernels(self, kernels: str | Path,
                         directory: Path | None = None,
                         force: bool = False) -> None:
        """Registers the `fuse.slot_kernel` ops of a file or of a text.

        Relative paths of code start at the directory of the file, or at
        `directory`. A second kernel of one (op, variant, name) is an error
        unless `force` is set.
        """
        if isinstance(kernels, Path):
            directory = directory or kernels.resolve().parent
            kernels = kernels.read_text()
        text = kernels.encode()
        _call("fuse_context_register_kernels", self._handle.pointer, text,
              c_size_t(len(text)),
              c_char_p(str(directory).encode() if directory else None),
              c_int32(force))

    def list_kernels(self) -> list[dict[str, Any]]:
        """Ops and variants, each with its kernels."""
        return json.loads(_take_text("fuse_context_list_kernels",
                                     self._handle.pointer, c_int32(1)))

    def parse(self, text: str) -> Module:
        """A module of fuse IR."""
        return Module(self, text)


class Module:
    """Fuse IR whose slots can be bound and whose function can be run."""

    def __init__(self, context: Context, text: str) -> None:
        data, pointer = text.encode(), c_void_p()
        _call("fuse_module_parse", context._handle.pointer, data,
              c_size_t(len(data)), byref(pointer))
        #: Kernels live in the context.
        self._context = context
        self._handle = native._Handle("module", pointer)

    def __str__(self) -> str:
        printed = c_void_p()
        _call("fuse_module_print", self._handle.pointer, byref(printed), None)
        try:
            return ctypes.string_at(printed).decode()  # type: ignore[arg-type]
        finally:
            native.library().fuse_string_free(printed)

    def bind(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Binds slots; returns the report. After an error nothing is bound."""
        return json.loads(_take_text("fuse_module_bind_slots",
                                     self._handle.pointer,
                                     json.dumps(config).encode()))

    def unbind(self, model: str | None = None) -> None:
        """Undoes the bindings of one model, or all."""
        _call("fuse_module_unbind_slots", self._handle.pointer,
              c_char_p(model.encode() if model else None))

    def compile(self) -> native.Instance:
        """Compiles the function for this CPU; its slots have to be bound."""
        artifact = c_void_p()
        _call("fuse_module_compile", self._handle.pointer, None,
              byref(artifact))
        program = native.Artifact(artifact).load_on(torch.device("cpu"))
        instance = program.instance()
        instance.prepare()
        return instance


# Slots of PyTorch modules.


def _type(tensor: Tensor) -> str:
    if tensor.dtype not in _TYPES:
        raise SlotError(f"a slot can not take {tensor.dtype}; expected one of "
                        f"{', '.join(map(str, _TYPES))}")
    shape = "".join(f"{size}x" for size in tensor.shape)
    return f"tensor<{shape}{_TYPES[tensor.dtype]}>"


def _attribute(value: float | int | str) -> str:
    """A param as an attribute: numbers are f32 or i64."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, int):
        return f"{value} : i64"
    return f"{value:.9e} : f32"


class OpSlot:
    """A function of a module that a kernel can be bound to.

    Assign it in `__init__` of a module. Each instance has a binding of its
    own; copies of a model have copies of its slots. An unbound slot can not be
    called: bind it to `eager` for the function that it was made with.
    """

    def __init__(self, op: str, variant: str = "standard", *,
                 eager: Callable[..., Any],
                 params: Mapping[str, float | int | str] | None = None) -> None:
        self.op = op
        self.variant = variant
        self.eager = eager
        self.params = dict(params or {})
        self._kernel: str | None = None
        self._context: Context | None = None
        self._mode = ""
        self._programs: dict[tuple[str, ...], tuple[native.Instance, Any]] = {}

    @property
    def kernel(self) -> str | None:
        """`eager`, the name of a kernel, or None while it is unbound."""
        return self._kernel

    def __repr__(self) -> str:
        return (f"OpSlot({self.op}/{self.variant}: "
                f"{self._kernel or 'unbound'})")

    def __deepcopy__(self, memo: dict[int, Any]) -> OpSlot:
        twin = OpSlot(self.op, self.variant,
                      eager=copy.deepcopy(self.eager, memo),
                      params=self.params)
        twin._set(self._kernel, self._context, self._mode)
        return twin

    def _set(self, kernel: str | None, context: Context | None,
             mode: str = "") -> None:
        self._kernel, self._context, self._mode = kernel, context, mode
        self._programs.clear()

    def __call__(self, *inputs: Tensor) -> Any:
        if self._kernel is None:
            raise SlotError(f"slot op={self.op}, variant={self.variant} has no "
                            "kernel bound; bind it, to eager for its own body")
        if self._kernel == "eager":
            return self.eager(*inputs)
        key = tuple(_type(tensor) for tensor in inputs)
        if key not in self._programs:
            self._programs[key] = self._compile(inputs)
        program, like = self._programs[key]
        outputs = [torch.empty(shape, dtype=dtype) for shape, dtype in like]
        program.launch([tensor.detach().contiguous() for tensor in inputs],
                       outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _compile(self, inputs: Sequence[Tensor]) \
            -> tuple[native.Instance, Any]:
        if any(tensor.requires_grad for tensor in inputs) and \
                torch.is_grad_enabled():
            raise SlotError(f"kernel '{self._kernel}' of op={self.op} gives no "
                            "gradients; bind the slot to eager for training")
        # The eager function says what comes out, without computing it.
        meta = self.eager(*[tensor.detach().to("meta") for tensor in inputs])
        results = meta if isinstance(meta, (tuple, list)) else [meta]
        takes = ", ".join(_type(tensor) for tensor in inputs)
        gives = ", ".join(_type(tensor) for tensor in results)
        params = ", ".join(f"{name} = {_attribute(value)}"
                           for name, value in self.params.items())
        names = [f"%{i}" for i in range(len(inputs))]
        formals = ", ".join(f"{name}: {_type(tensor)}"
                            for name, tensor in zip(names, inputs))
        returned = ", ".join(f"%r#{i}" for i in range(len(results)))
        module = self._context.parse(  # type: ignore[union-attr]
            f'fuse.slot @slot op "{self.op}" variant "{self.variant}" '
            f"params {{{params}}} : ({takes}) -> ({gives}) {{}}\n"
            f"func.func @call({formals}) -> ({gives}) {{\n"
            f"  %r:{len(results)} = fuse.call_slot @slot({', '.join(names)}) "
            f": ({takes}) -> ({gives})\n"
            f"  return {returned} : {gives}\n}}\n")
        module.bind({"bind": {self.op: self._kernel}, "mode": self._mode})
        like = [(tensor.shape, tensor.dtype) for tensor in results]
        return module.compile(), like


@dataclass(frozen=True)
class _Place:
    path: str
    name: str
    slot: OpSlot


def _find(model: nn.Module) -> Iterator[_Place]:
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, OpSlot):
                yield _Place(path, name, value)


def _print_tree(places: Sequence[_Place]) -> str:
    """A model of the slots alone, for the compiler to decide about."""
    lines = ['fuse.model @model class "Model" {']
    for key in sorted({(p.slot.op, p.slot.variant) for p in places}):
        lines.append(f'fuse.slot @"{key[0]}/{key[1]}" op "{key[0]}" '
                     f'variant "{key[1]}" : () -> () {{}}')

    def calls(path: str) -> list[str]:
        here = [f'fuse.call_slot @"{p.slot.op}/{p.slot.variant}"() : () -> ()'
                for p in places if p.path == path]
        return ["func.func @forward() {", *here, "return", "}"] if here else []

    def walk(names: set[str], prefix: str) -> None:
        heads = dict.fromkeys(name.split(".")[0] for name in sorted(names)
                              if name)
        for head in heads:
            path = f"{prefix}{head}"
            lines.append(f'fuse.module @"{head}" class "Module" {{')
            walk({name[len(head) + 1:] for name in names
                  if name.startswith(f"{head}.")}, f"{path}.")
            lines.extend(calls(path))
            lines.append("}")

    walk({p.path for p in places}, "")
    lines.extend([*calls(""), "}"])
    return "\n".join(lines)


def bind(model: nn.Module, config: Mapping[str, Any], context: Context, *,
         rebind: bool = False) -> dict[str, Any]:
    """Binds the slots of one model instance and returns the report.

    `config` is that of `fuse-bind-slots`: `bind`, `overrides` by path, `preset`
    and `default`, `mode`. Errors come before anything changes; a slot that is
    bound to another kernel is one, unless `rebind` is set.
    """
    if config.get("target", "cpu") != "cpu":
        raise SlotError(f"target '{config['target']}': kernels of PyTorch "
                        "modules run on the cpu")
    places = list(_find(model))
    tree = context.parse(_print_tree(places))
    report = tree.bind({**config, "check": True})
    # The walk of the tree has its own order, the places of one path theirs.
    kernels: dict[tuple[str, str, str], str | None] = {
        (call["path"], call["op"], call["variant"]): call["kernel"]
        for call in report["calls"]}
    chosen: dict[int, str] = {}
    changes = []
    for place in places:
        slot = place.slot
        kernel = kernels[place.path, slot.op, slot.variant]
        if kernel is None:
            continue
        bound = chosen.get(id(slot), None if rebind else slot.kernel)
        if bound is not None and bound != kernel:
            raise SlotError(
                f"slot {place.name} (op={slot.op}, variant={slot.variant}) at "
                f"'{place.path}' is bound to '{bound}'; to bind it to "
                f"'{kernel}' set rebind")
        chosen[id(slot)] = kernel
        changes.append((slot, kernel))
    for slot, kernel in changes:
        slot._set(kernel, context, config.get("mode", ""))
    return report


def unbind(model: nn.Module) -> None:
    """Undoes all bindings of a model instance."""
    for place in _find(model):
        place.slot._set(None, None)


def list_kernels(context: Context | None = None) -> list[dict[str, Any]]:
    """Ops and variants with their kernels, of a context or of fuse itself."""
    return (context or Context()).list_kernels()
