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
import dis
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from fuse_mlir import native, slot_check
from fuse_mlir.arguments import require, require_module
from fuse_mlir.chains import gpu_chip
from fuse_mlir.emitter import float_literal, quote
from fuse_mlir.function_kernels import (FunctionKernel, FunctionProgram,
                                        KernelSpec, reads_only,
                                        rename_sources)
from fuse_mlir.function_kernels import (
    HardwareRequirement as HardwareRequirement)
from fuse_mlir.slot_call import CompiledProgram, Program
from fuse_mlir.slot_call import SlotError as SlotError
from fuse_mlir.slot_call import call_slot, results_of
from fuse_mlir.watch import is_tracing

_TYPES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16",
          torch.bfloat16: "bf16", torch.float8_e4m3fn: "f8E4M3FN",
          torch.float8_e5m2: "f8E5M2", torch.int64: "i64",
          torch.int32: "i32", torch.int8: "i8"}


def _call(name: str, *arguments: Any,
          context: Context | None = None) -> None:
    """Calls the library; `context` is whose errors a failure is told by."""
    function = getattr(native.library(), name)
    if context is None:
        native._check(function(*arguments))
    else:
        context._diagnostics.check(function, *arguments)


def _take_text(name: str, *arguments: Any, context: Context) -> str:
    """A string that the last parameter of a function gives."""
    text = c_void_p()
    _call(name, *arguments, byref(text), context=context)
    try:
        return ctypes.string_at(text).decode()
    finally:
        native.library().fuse_string_free(text)


#: What an argument that is no context should have been.
_A_CONTEXT = "a fuse_mlir.slots.Context"


class Context:
    """Kernels that can be bound; those that fuse generates, and added ones."""

    def __init__(self) -> None:
        pointer = c_void_p()
        _call("fuse_context_create", byref(pointer))
        self._handle = native._Handle("context", pointer)
        self._diagnostics = native._Diagnostics(pointer)
        #: Code that slots of equal layers share, by its IR and device.
        self._code: dict[tuple[str, str, torch.device], native.Program] = {}
        #: Functions by what the compiler calls their code.
        self._functions: dict[str, FunctionKernel] = {}

    def register_kernels(self, kernels: str | Path,
                         directory: Path | None = None,
                         force: bool = False) -> None:
        """Registers the `fuse.slot_kernel` ops of a file or of a text.

        Relative paths of code start at the directory of the file, or at
        `directory`. A second kernel of one (op, variant, name) is an error
        unless `force` is set.
        """
        require(kernels, (str, Path), "the registry", "a text of "
                "fuse.slot_kernel ops, or the path of a file with them")
        if isinstance(kernels, Path):
            directory = directory or kernels.resolve().parent
            kernels = kernels.read_text()
        text = kernels.encode()
        _call("fuse_context_register_kernels", self._handle.pointer, text,
              c_size_t(len(text)),
              c_char_p(str(directory).encode() if directory else None),
              c_int32(force), context=self)

    def register(self, spec: KernelSpec, force: bool = False) -> None:
        """Registers a Python function as a kernel, for slots of modules.

        Raises:
            SlotError: the name is taken and `force` is not set, or is none.
        """
        require(spec, KernelSpec, "the kernel", "a fuse_mlir.slots.KernelSpec")
        kernel = FunctionKernel(spec)
        try:
            self.register_kernels(kernel.stand_in(), force=force)
        except native.NativeError as error:
            # Positions are those of the stand-in, which nobody has seen.
            text = re.sub(r"^line \d+, column \d+: ('fuse\.slot_kernel' op )?",
                          "", str(error))
            raise SlotError(f"{spec} cannot be registered: {text}") from error
        self._functions.update(dict.fromkeys(kernel.sources(), kernel))

    def list_kernels(self) -> list[dict[str, Any]]:
        """Ops and variants, each with its kernels."""
        found = json.loads(_take_text("fuse_context_list_kernels",
                                      self._handle.pointer, c_int32(1),
                                      context=self))
        for entry in found:
            for kernel in entry["kernels"]:
                rename_sources(kernel["implementations"], self._functions)
        return found

    def parse(self, text: str) -> Module:
        """A module of fuse IR."""
        return Module(self, text)


class Module:
    """Fuse IR whose slots can be bound and whose function can be run."""

    def __init__(self, context: Context, text: str) -> None:
        require(context, Context, "the context", _A_CONTEXT)
        require(text, str, "the IR", "the text of a module")
        data, pointer = text.encode(), c_void_p()
        _call("fuse_module_parse", context._handle.pointer, data,
              c_size_t(len(data)), byref(pointer), context=context)
        #: Kernels live in the context.
        self._context = context
        self._handle = native._Handle("module", pointer)

    def __str__(self) -> str:
        printed = c_void_p()
        _call("fuse_module_print", self._handle.pointer, byref(printed), None)
        try:
            return ctypes.string_at(printed).decode()
        finally:
            native.library().fuse_string_free(printed)

    def bind(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Binds slots; returns the report. After an error nothing is bound.

        Raises:
            SlotError: a kernel is a Python function.
        """
        if self._context._functions and not config.get("check"):
            for call in self._bind({**config, "check": True})["calls"]:
                kernel = self._context._functions.get(call.get("source", ""))
                if kernel is not None:
                    raise SlotError(
                        f"{kernel.spec} is a Python function, which compiled "
                        "code cannot call; bind it to a slot of a PyTorch "
                        "module, with slots.bind")
        return self._bind(config)

    def _bind(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return json.loads(_take_text("fuse_module_bind_slots",
                                     self._handle.pointer,
                                     json.dumps(config).encode(),
                                     context=self._context))

    def unbind(self, model: str | None = None) -> None:
        """Undoes the bindings of one model, or all."""
        require(model, (str, type(None)), "argument 'model'",
                "the name of a fuse.model")
        _call("fuse_module_unbind_slots", self._handle.pointer,
              c_char_p(model.encode() if model else None),
              context=self._context)

    def compile(self, device: torch.device = torch.device("cpu"),
                chip: str = "") -> native.Instance:
        """Compiles the function; its slots have to be bound.

        Args:
            device: where it will run, of the kind that its kernels are for.
            chip: that of a GPU, such as `sm_90a`; none for this CPU.
        """
        instance = self.load(device, chip).instance()
        instance.prepare()
        return instance

    def load(self, device: torch.device, chip: str) -> native.Program:
        """The code of `compile`, of which there may be many instances."""
        artifact = native.compile_module(
            self._handle.pointer, self._context._diagnostics, chip=chip)
        return artifact.load_on(device)


# Slots of PyTorch modules.

#: A dimension that a kernel takes in any size.
_ANY = -1
_Shape = tuple[int, ...]


def _check_type(tensor: Tensor) -> None:
    require(tensor, Tensor, "an input of a slot", "a tensor")
    if tensor.dtype not in _TYPES:
        raise SlotError(f"a slot cannot take {tensor.dtype}; expected one of "
                        f"{', '.join(map(str, _TYPES))}")


def _type(shape: _Shape, dtype: torch.dtype) -> str:
    sizes = "".join("?x" if size == _ANY else f"{size}x" for size in shape)
    return f"tensor<{sizes}{_TYPES[dtype]}>"


def _loose(tensor: Tensor) -> _Shape:
    """The shape of an input, without sizes that change from call to call.

    Parameters keep their shape, and features are the last dimension. A size
    of one may be there to be repeated, which another size is not.
    """
    shape = tuple(tensor.shape)
    if isinstance(tensor, nn.Parameter):
        return shape
    return (*(size if size == 1 else _ANY for size in shape[:-1]),
            *shape[-1:])


def _attribute(value: float | int | str) -> str:
    """A param as an attribute: numbers are f32 or i64."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return f"{value} : i64"
    return f"{float_literal(value, 'f32')} : f32"


class _Ops(TorchDispatchMode):
    """Names of the ops that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class OpSlot:
    """A function of a module that a kernel can be bound to.

    Assign it in `__init__` of a module. Each instance has a binding of its
    own; copies of a model have copies of its slots, and a slot from a file is
    unbound. An unbound slot can not be called: bind it to `eager` for the
    function that it was made with.

    Kernels are called as the op `fuse_mlir::call_slot`, on the CPU or on
    PyTorch's current stream, and are compiled by the first call with inputs of
    their types; sizes but the last of inputs that are no parameters may
    change.
    """

    def __init__(self, op: str, variant: str = "standard", *,
                 eager: Callable[..., Any],
                 params: Mapping[str, float | int | str] | None = None) -> None:
        require(op, str, "the op of a slot", "its name")
        require(variant, str, "the variant of a slot", "its name")
        params = {} if params is None else params
        require(params, Mapping, "argument 'params'", "values by their names")
        for name, value in params.items():
            require(value, (bool, int, float, str), f"param '{name}' of a slot",
                    "a number or a text")
        if not callable(eager):
            raise TypeError(f"the eager body of a slot is of type "
                            f"{type(eager).__name__}; expected a function")
        self.op = op
        self.variant = variant
        self.eager = eager
        self.params = dict(params)
        self._set(None, None)

    @property
    def kernel(self) -> str | None:
        """`eager`, the name of a kernel, or None while it is unbound."""
        return self._kernel

    @property
    def has_kernel(self) -> bool:
        """Whether calls run a kernel: the slot is bound, and not to `eager`.
        torch.compile takes it as a constant."""
        return self._kernel not in (None, "eager")

    def __repr__(self) -> str:
        return (f"OpSlot({self.op}/{self.variant}: "
                f"{self._kernel or 'unbound'})")

    def __deepcopy__(self, memo: dict[int, Any]) -> OpSlot:
        twin = OpSlot(self.op, self.variant,
                      eager=copy.deepcopy(self.eager, memo),
                      params=self.params)
        twin._set(self._kernel, self._context, self._mode, self._target,
                  self._function)
        return twin

    def __reduce__(self) -> tuple:
        return _restore, (self.op, self.variant, self.eager, self.params)

    def _set(self, kernel: str | None, context: Context | None,
             mode: str = "", target: str = "cpu",
             function: FunctionKernel | None = None) -> None:
        self._kernel, self._context = kernel, context
        self._mode, self._target = mode, target
        #: The kernel, where it is a Python function.
        self._function = function
        self._called = None if function is None else FunctionProgram(
            function, function.bind_params(self.params), self.eager)
        #: What is called instead, while `verify` looks at inputs.
        self._recorder: Callable[..., Any] | None = None
        self._cast: dict[Any, bool] = {}
        # None for types that need a program per shape.
        self._programs: dict[Any, Program | None] = {}

    def __call__(self, *inputs: Tensor) -> Any:
        if self._recorder is not None:
            return self._recorder(*inputs)
        if self._kernel is None:
            raise self._unbound()
        if self._kernel == "eager":
            return self.eager(*inputs)
        self._check(inputs)
        outputs = call_slot(list(inputs), self._program(inputs).id)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _unbound(self) -> SlotError:
        return SlotError(f"slot op={self.op}, variant={self.variant} has no "
                         "kernel bound; bind it, to eager for its own body")

    def _check(self, inputs: Sequence[Tensor]) -> None:
        if not inputs:
            raise SlotError(f"kernel '{self._kernel}' of op={self.op} is "
                            "called without tensors; it takes one or more")
        wanted = "cpu" if self._target == "cpu" else "cuda"
        for tensor in inputs:
            _check_type(tensor)
            if tensor.device.type != wanted \
                    or tensor.device != inputs[0].device:
                raise SlotError(
                    f"kernel '{self._kernel}' of op={self.op} is bound for "
                    f"{self._target}, and an input is on {tensor.device}; "
                    "bind the slot again where its inputs are, with rebind")
        kind = inputs[0].device.type
        if torch.is_autocast_enabled(kind) and not is_tracing() \
                and self._is_cast(kind, inputs):
            raise SlotError(
                f"kernel '{self._kernel}' of op={self.op} computes in "
                f"{inputs[0].dtype}, and autocast would have the eager body "
                f"compute in {torch.get_autocast_dtype(kind)}; leave autocast, "
                "or bind the slot to eager")

    def _is_cast(self, kind: str, inputs: Sequence[Tensor]) -> bool:
        """Whether autocast changes what the eager body computes."""
        key = kind, torch.get_autocast_dtype(kind), tuple(
            (t.dtype, t.dim()) for t in inputs)
        if key not in self._cast:
            mode = FakeTensorMode(allow_non_fake_inputs=True)
            fake = [mode.from_tensor(t) for t in inputs]
            ops = []
            for enabled in (True, False):
                with torch.no_grad(), mode, _Ops() as seen, \
                        torch.autocast(kind, key[1], enabled=enabled):
                    self.eager(*fake)
                ops.append(seen.names)
            self._cast[key] = ops[0] != ops[1]
        return self._cast[key]

    def _program(self, inputs: Sequence[Tensor]) -> Program:
        if self._called is not None:
            return self._called
        place = (inputs[0].device, *(t.dtype for t in inputs))
        loose = tuple(map(_loose, inputs))
        exact = tuple(tuple(t.shape) for t in inputs)
        program = self._programs.get((place, loose))
        if program is None:
            program = self._programs.get((place, exact))
        if program is not None:
            return program
        if is_tracing():
            raise SlotError(
                f"kernel '{self._kernel}' of op={self.op} has no code for "
                "these inputs yet; call the model once before compiling it")
        if (place, loose) not in self._programs and loose != exact:
            # Some functions hold for sizes that are known alone.
            try:
                program = self._compile(inputs, loose)
            except native.NativeError:
                program = None
            self._programs[place, loose] = program
        if program is None:
            program = self._compile(inputs, exact)
            self._programs[place, exact] = program
        return program

    def _compile(self, inputs: Sequence[Tensor],
                 shapes: Sequence[_Shape]) -> Program:
        device, chip = inputs[0].device, ""
        if device.type == "cuda":
            chip = gpu_chip(device)
        module, dtypes = self.bound_ir(inputs, shapes)
        code = module._context._code
        key = str(module), chip, device
        # The IR has the path of a file of code, which may change.
        if key not in code or "#fuse.gpu_code" in key[0] \
                or "#fuse.host_code" in key[0]:
            code[key] = module.load(device, chip)
        instance = code[key].instance()
        instance.prepare()
        return CompiledProgram(instance, self.eager, dtypes)

    def bound_ir(self, inputs: Sequence[Tensor],
                 shapes: Sequence[_Shape] | None = None) \
            -> tuple[Module, list[torch.dtype]]:
        """A function with one call of the slot, bound, and its result types.

        Args:
            inputs: of which shapes and types matter.
            shapes: -1 for sizes that the function takes any of; those of
                `inputs` when None.

        Raises:
            SlotError: nothing is bound to the slot, or not for such inputs.
        """
        context = self._context
        if context is None:
            raise self._unbound()
        if self._function is not None:
            raise SlotError(f"{self._function.spec} is a Python function, "
                            "which has no IR")
        shapes = shapes or [tuple(t.shape) for t in inputs]
        results = self._result_types(inputs, shapes)
        takes = [_type(shape, t.dtype) for shape, t in zip(shapes, inputs)]
        gives = ", ".join(_type(*result) for result in results)
        params = ", ".join(f"{name} = {_attribute(value)}"
                           for name, value in self.params.items())
        names = [f"%{i}" for i in range(len(inputs))]
        formals = ", ".join(map(": ".join, zip(names, takes)))
        returned = ", ".join(f"%r#{i}" for i in range(len(results)))
        type_ = f"({', '.join(takes)}) -> ({gives})"
        module = context.parse(
            f'fuse.slot @slot op "{self.op}" variant "{self.variant}" '
            f"params {{{params}}} : {type_} {{}}\n"
            f"func.func @call({formals}) -> ({gives}) {{\n"
            f"  %r:{len(results)} = fuse.call_slot @slot({', '.join(names)}) "
            f": {type_}\n"
            f"  return {returned} : {gives}\n}}\n")
        module.bind({"bind": {self.op: self._kernel}, "mode": self._mode,
                     "target": self._target})
        return module, [dtype for _, dtype in results]

    def _result_types(self, inputs: Sequence[Tensor],
                      shapes: Sequence[_Shape]) \
            -> list[tuple[_Shape, torch.dtype]]:
        """What the eager function gives, which it says without computing.

        Sizes that follow those that are not known are not known either.
        """
        def given(grow: int) -> list[Tensor]:
            # Equal sizes stay equal.
            return results_of(self.eager(*(
                torch.empty([size + grow if kind == _ANY else size
                             for size, kind in zip(t.shape, shape)],
                            dtype=t.dtype, device="meta")
                for t, shape in zip(inputs, shapes))))

        try:
            now, grown = given(0), given(1)
        except (RuntimeError, TypeError, ValueError) as error:
            raise SlotError(f"the eager function of op={self.op} does not "
                            f"take other sizes: {error}") from error
        return [(tuple(size if size == other else _ANY
                       for size, other in zip(t.shape, more.shape)), t.dtype)
                for t, more in zip(now, grown)]


def _restore(op: str, variant: str, eager: Callable[..., Any],
             params: Mapping[str, float | int | str]) -> OpSlot:
    return OpSlot(op, variant, eager=eager, params=params)


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
    and `default`, `mode`. `target` is `cpu` or a chip such as `sm_90`, that of
    the device of the model when left out. Errors come before anything changes;
    a slot that is bound to another kernel is one, unless `rebind` is set.
    """
    if not isinstance(model, nn.Module):
        raise SlotError(f"the model is of type {type(model).__name__}; "
                        "expected a torch.nn.Module")
    _refuse_globals(model)
    if not isinstance(config, Mapping):
        raise SlotError(f"the configuration is a {type(config).__name__}; "
                        "expected a mapping such as {'bind': {'rms_norm': "
                        "'fuse'}}")
    require(context, Context, "the context", _A_CONTEXT)
    target = config.get("target") or _target(model)
    places = list(_find(model))
    tree = context.parse(_print_tree(places))
    report = tree.bind({**config, "target": target, "check": True})
    # The walk of the tree has its own order, the places of one path theirs.
    kernels: dict[tuple[str, str, str],
                  tuple[str | None, FunctionKernel | None]] = {
        (call["path"], call["op"], call["variant"]):
        (call["kernel"], context._functions.get(call.get("source", "")))
        for call in report["calls"]}
    rename_sources(report["calls"], context._functions)
    chosen: dict[int, str] = {}
    changes = []
    for place in places:
        slot = place.slot
        kernel, function = kernels[place.path, slot.op, slot.variant]
        if kernel is None:
            continue
        bound = chosen.get(id(slot), None if rebind else slot.kernel)
        if bound is not None and bound != kernel:
            raise SlotError(
                f"slot {place.name} (op={slot.op}, variant={slot.variant}) at "
                f"'{place.path}' is bound to '{bound}'; to bind it to "
                f"'{kernel}' set rebind")
        chosen[id(slot)] = kernel
        changes.append((place, kernel, function))
    unchecked = []
    for place in places:
        if chosen.get(id(place.slot), "eager") != "eager":
            reason = _check_eager(model, place)
            if reason is not None:
                unchecked.append({"path": place.path, "slot": place.name,
                                  "reason": reason})
    for place, kernel, function in changes:
        reason = None if function is None else _check_function(
            model, place, function, target)
        if reason is not None:
            unchecked.append({"path": place.path, "slot": place.name,
                              "reason": reason})
    for place, kernel, function in changes:
        place.slot._set(kernel, context, config.get("mode", ""), target,
                        function)
    return {**report, "unchecked": unchecked}


def _check_eager(model: nn.Module, place: _Place) -> str | None:
    """Why the eager function of a slot was not compared, or None.

    Raises:
        SlotError: it is not what the slot says.
    """
    slot = place.slot
    try:
        return slot_check.check(slot.op, slot.variant, slot.params,
                                slot.eager, _device(model))
    except slot_check.Mismatch as mismatch:
        raise SlotError(
            f"slot {place.name} (op={slot.op}, variant={slot.variant}) of "
            f"{_at(place.path)} is not what it says: {mismatch}") from None


def _check_function(model: nn.Module, place: _Place, kernel: FunctionKernel,
                    target: str) -> str | None:
    """Why a Python function was not compared, or None.

    Raises:
        SlotError: it cannot be had, or is not what the slot says.
    """
    slot, device = place.slot, _device(model)
    function = kernel.bind_params(slot.params)
    if (slot.op, slot.variant) not in slot_check.DEFINITIONS:
        return None  # The report has that already, of the eager function.
    if (target == "cpu") != (device.type == "cpu"):
        return (f"{kernel.spec} is bound for {target}, and the model is on "
                f"{device}")
    try:
        return slot_check.check(
            slot.op, slot.variant, slot.params, reads_only(function), device,
            what=f"kernel '{kernel.spec.name}'", takes=slot.eager)
    except slot_check.Mismatch as mismatch:
        raise SlotError(f"{kernel.spec} does not fit slot {place.name} of "
                        f"{_at(place.path)}: {mismatch}") from None


@dataclass(frozen=True)
class SlotCheck:
    """What `verify` found of one slot."""

    path: str
    slot: str
    #: `eager`, the name of a kernel, or None while it is unbound.
    kernel: str | None
    passed: bool
    detail: str


class SlotChecks(list[SlotCheck]):
    """All slots of a model; true when none failed."""

    def __bool__(self) -> bool:
        return all(check.passed for check in self)

    def __str__(self) -> str:
        return "".join(
            f"{'ok' if c.passed else 'FAILED':6}  {c.path}.{c.slot}  "
            f"{c.kernel or 'unbound'}  {c.detail}\n" for c in self)


def verify(model: nn.Module, *inputs: Any) -> SlotChecks:
    """Compares every slot with its definition and with its kernel.

    The eager function is held against the op, variant and params on small
    inputs. With inputs of the model, the kernel is held against the eager
    function on what the slot gets in that call.

    Args:
        model: bound or not.
        inputs: positional arguments of one call; none for the first
            comparison alone.

    Returns:
        One entry per slot. A kernel passes where it is at most as far from
        the eager function in f64 as three times the eager function in its own
        type, or two units in the last place of that type.

    Raises:
        SlotError: a slot is a global of a module.
    """
    require_module(model)
    _refuse_globals(model)
    places = list(_find(model))
    seen = _inputs_of(model, places, inputs) if inputs else {}
    found = SlotChecks()
    for place in places:
        slot = place.slot
        try:
            reason = _check_eager(model, place)
            detail = (f"not compared with its definition: {reason}" if reason
                      else "the eager function is what the slot says")
            passed = True
        except SlotError as error:
            detail, passed = str(error), False
        if passed and slot.has_kernel and id(slot) in seen:
            passed, more = _compare_kernel(slot, seen[id(slot)])
            detail += f"; {more}"
        elif passed and slot.has_kernel:
            detail += "; the kernel did not run: pass inputs that reach it"
        found.append(SlotCheck(place.path, place.name, slot.kernel, passed,
                               detail))
    return found


def _inputs_of(model: nn.Module, places: Sequence[_Place],
               inputs: Sequence[Any]) -> dict[int, tuple[Tensor, ...]]:
    """What each slot is called with first."""
    seen: dict[int, tuple[Tensor, ...]] = {}
    slots = [place.slot for place in places]

    def record(slot: OpSlot, *args: Tensor) -> Any:
        seen.setdefault(id(slot), tuple(t.detach().clone() for t in args))
        return slot.eager(*args)

    for slot in slots:
        slot._recorder = functools.partial(record, slot)
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for slot in slots:
            slot._recorder = None
    return seen


def _compare_kernel(slot: OpSlot,
                    inputs: tuple[Tensor, ...]) -> tuple[bool, str]:
    with torch.no_grad():
        ours = results_of(slot(*inputs))
        eager = results_of(slot.eager(*inputs))
        exact = results_of(slot.eager(*(
            t.double() if t.is_floating_point() else t for t in inputs)))
    worst, bound = 0.0, 0.0
    for a, b, c in zip(ours, eager, exact):
        scale = max(float(c.double().norm()), 1e-300)
        off = float((a.double() - c.double()).norm()) / scale
        own = float((b.double() - c.double()).norm()) / scale
        limit = 3 * own + 2 * torch.finfo(a.dtype).eps
        if off / limit >= worst / max(bound, 1e-300):
            worst, bound = off, limit
    return worst <= bound, (f"kernel '{slot.kernel}' is off by {worst:.2e} of "
                            f"at most {bound:.2e}")


def _refuse_globals(model: nn.Module) -> None:
    """Refuses slots that are globals of the file of a module's class: one
    binding would be that of every model of the process."""
    for path, module in model.named_modules():
        for kind in type(module).__mro__:
            if not issubclass(kind, nn.Module):
                continue
            for name in _globals_of(kind):
                raise SlotError(
                    f"slot '{name}' is a global of '{kind.__module__}', which "
                    f"{kind.__name__} ({_at(path)}) reads; a binding belongs "
                    "to one model, so assign the slot in __init__: self."
                    f"{name.lower()} = OpSlot(...)")


def _at(path: str) -> str:
    return f"'{path}'" if path else "the model"


def _globals_of(kind: type) -> Iterator[str]:
    """Names of slots that methods of a class read as globals."""
    for method in vars(kind).values():
        code = getattr(method, "__code__", None)
        if code is None:
            continue
        found = {name for name in code.co_names
                 if isinstance(method.__globals__.get(name), OpSlot)}
        # An attribute may have the name of a global.
        if found:
            yield from sorted({i.argval for i in dis.get_instructions(code)
                               if i.opname == "LOAD_GLOBAL"} & found)


def _device(model: nn.Module) -> torch.device:
    tensor = next(itertools.chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if tensor is None else tensor.device


def _target(model: nn.Module) -> str:
    device = _device(model)
    return gpu_chip(device) if device.type == "cuda" else "cpu"


def unbind(model: nn.Module) -> None:
    """Undoes all bindings of a model instance."""
    require_module(model)
    for place in _find(model):
        place.slot._set(None, None)


def list_kernels(context: Context | None = None) -> list[dict[str, Any]]:
    """Ops and variants with their kernels, of a context or of fuse itself."""
    if context is None:
        context = Context()
    require(context, Context, "the context", _A_CONTEXT)
    return context.list_kernels()
