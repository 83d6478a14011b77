# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A slot of a PyTorch module: a function that a kernel can be bound to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.compiler import is_dynamo_compiling
from torch.utils._python_dispatch import TorchDispatchMode

from fuse_mlir import errors
from fuse_mlir.errors import SlotError
from fuse_mlir.ir.builder import float_literal, quote
from fuse_mlir.native.device import gpu_chip
from fuse_mlir.slots.call import (
    CompiledProgram,
    Program,
    call_slot,
    results_of,
    run,
)
from fuse_mlir.slots.context import Context, Module
from fuse_mlir.slots.function_kernels import FunctionKernel, FunctionProgram
from fuse_mlir.support.arguments import require
from fuse_mlir.support.module_snapshot import is_tracing

_TYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int8: "i8",
}

#: A dimension of any size.
_ANY = -1
_Shape = tuple[int, ...]


def _check_type(tensor: Tensor) -> None:
    require(tensor, Tensor, "an input of a slot", "a tensor")
    if tensor.dtype not in _TYPES:
        raise SlotError(
            f"a slot does not support {tensor.dtype}; expected one of "
            f"{', '.join(map(str, _TYPES))}"
        )


def _type(shape: _Shape, dtype: torch.dtype) -> str:
    sizes = "".join("?x" if size == _ANY else f"{size}x" for size in shape)
    return f"tensor<{sizes}{_TYPES[dtype]}>"


def _loose(tensor: Tensor) -> _Shape:
    """The shape of an input, with `_ANY` for sizes that change between calls.

    Parameters keep their shape, and inputs keep the last dimension, which is
    that of features. A size of one also stays, because it may be broadcast.
    """
    shape = tuple(tensor.shape)
    if isinstance(tensor, nn.Parameter):
        return shape
    return (*(size if size == 1 else _ANY for size in shape[:-1]), *shape[-1:])


def _attribute(value: float | int | str) -> str:
    """A param as an attribute of the IR; numbers are f32 or i64."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return f"{value} : i64"
    return f"{float_literal(value, 'f32')} : f32"


class _Ops(TorchDispatchMode):
    """Records the names of called ops."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class OpSlot:
    """A function of a module that a kernel can be bound to.

    Assign it in `__init__` of a module. Each instance has a separate binding.
    Copies of a model have copies of its slots, and a slot from a file is
    unbound. An unbound slot cannot be called; bind it to `eager` to run its own
    function.

    Kernels are called as the op `fuse_mlir::call_slot`, on the CPU or on
    PyTorch's current stream. The first call with inputs of new types compiles
    the kernel. Except for parameters, all dimensions of inputs but the last may
    change between calls.
    """

    def __init__(
        self,
        op: str,
        variant: str = "standard",
        *,
        eager: Callable[..., Any],
        params: Mapping[str, float | int | str] | None = None,
    ) -> None:
        require(op, str, "the op of a slot", "its name")
        require(variant, str, "the variant of a slot", "its name")
        params = {} if params is None else params
        require(params, Mapping, "argument 'params'", "values by their names")
        for name, value in params.items():
            require(
                value,
                (bool, int, float, str),
                f"param '{name}' of a slot",
                "a number or a text",
            )
        if not callable(eager):
            raise TypeError(
                f"the eager body of a slot is of type "
                f"{type(eager).__name__}; expected a function"
            )
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

        torch.compile treats the value as a constant.
        """
        return self._kernel not in (None, "eager")

    def __repr__(self) -> str:
        return f"OpSlot({self.op}/{self.variant}: {self._kernel or 'unbound'})"

    def __deepcopy__(self, memo: dict[int, Any]) -> OpSlot:
        twin = OpSlot(
            self.op,
            self.variant,
            eager=copy.deepcopy(self.eager, memo),
            params=self.params,
        )
        twin._set(
            self._kernel,
            self._context,
            self._mode,
            self._target,
            self._function,
        )
        return twin

    def __reduce__(self) -> tuple:
        return _restore, (self.op, self.variant, self.eager, self.params)

    def _set(
        self,
        kernel: str | None,
        context: Context | None,
        mode: str = "",
        target: str = "cpu",
        function: FunctionKernel | None = None,
    ) -> None:
        self._kernel, self._context = kernel, context
        self._mode, self._target = mode, target
        #: The kernel, if it is a Python function.
        self._function = function
        self._called = (
            None
            if function is None
            else FunctionProgram(
                function, function.bind_params(self.params), self.eager
            )
        )
        #: The function that `verify` calls instead, to record inputs.
        self._recorder: Callable[..., Any] | None = None
        self._cast: dict[Any, bool] = {}
        # None for types that need a program per shape.
        self._programs: dict[Any, Program | None] = {}

    def __call__(self, *inputs: Tensor) -> Any:  # noqa: ANN401
        if self._recorder is not None:
            return self._recorder(*inputs)
        if self._kernel is None:
            raise self._unbound()
        if self._kernel == "eager":
            return self.eager(*inputs)
        self._check(inputs)
        program = self._program(inputs)
        outputs = (
            call_slot(list(inputs), program.id)
            if is_dynamo_compiling()
            else run(program, inputs)
        )
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _unbound(self) -> SlotError:
        return SlotError(
            f"slot op={self.op}, variant={self.variant} has no "
            "kernel bound; bind it, to eager for its own body"
        )

    def _check(self, inputs: Sequence[Tensor]) -> None:
        if not inputs:
            raise SlotError(
                f"kernel '{self._kernel}' of op={self.op} is "
                "called without tensors; expected one or more"
            )
        wanted = "cpu" if self._target == "cpu" else "cuda"
        for tensor in inputs:
            _check_type(tensor)
            if (
                tensor.device.type != wanted
                or tensor.device != inputs[0].device
            ):
                raise SlotError(
                    f"kernel '{self._kernel}' of op={self.op} is bound for "
                    f"{self._target}, and an input is on {tensor.device}; "
                    "bind the slot again where its inputs are, with rebind"
                )
        kind = inputs[0].device.type
        if (
            torch.is_autocast_enabled(kind)
            and not is_tracing()
            and self._is_cast(kind, inputs)
        ):
            raise SlotError(
                f"kernel '{self._kernel}' of op={self.op} computes in "
                f"{inputs[0].dtype}, and autocast would have the eager body "
                f"compute in {torch.get_autocast_dtype(kind)}; leave autocast, "
                "or bind the slot to eager"
            )

    def _is_cast(self, kind: str, inputs: Sequence[Tensor]) -> bool:
        """Whether autocast changes what the eager body computes."""
        key = (
            kind,
            torch.get_autocast_dtype(kind),
            tuple((t.dtype, t.dim()) for t in inputs),
        )
        if key not in self._cast:
            mode = FakeTensorMode(allow_non_fake_inputs=True)
            fake = [mode.from_tensor(t) for t in inputs]
            ops = []
            for enabled in (True, False):
                with (
                    torch.no_grad(),
                    mode,
                    _Ops() as seen,
                    torch.autocast(kind, key[1], enabled=enabled),
                ):
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
                "these inputs yet; call the model once before compiling it"
            )
        if (place, loose) not in self._programs and loose != exact:
            # Some functions support only known sizes.
            try:
                program = self._compile(inputs, loose)
            except errors.NativeError:
                program = None
            self._programs[place, loose] = program
        if program is None:
            program = self._compile(inputs, exact)
            self._programs[place, exact] = program
        return program

    def _compile(
        self, inputs: Sequence[Tensor], shapes: Sequence[_Shape]
    ) -> Program:
        device, chip = inputs[0].device, ""
        if device.type == "cuda":
            chip = gpu_chip(device)
        module, dtypes = self.bound_ir(inputs, shapes)
        code = module._context._code
        key = str(module), chip, device
        # The IR has only the path of a file of code, whose contents may change.
        if (
            key not in code
            or "#nn.gpu_code" in key[0]
            or "#nn.cpu_code" in key[0]
        ):
            code[key] = module.load(device, chip)
        instance = code[key].instance()
        instance.prepare()
        return CompiledProgram(instance, self.eager, dtypes)

    def bound_ir(
        self, inputs: Sequence[Tensor], shapes: Sequence[_Shape] | None = None
    ) -> tuple[Module, list[torch.dtype]]:
        """IR of a function with one bound call of the slot, and its types.

        Args:
            inputs: only shapes and dtypes matter.
            shapes: of the inputs, -1 for any size; None uses those of
                `inputs`.

        Raises:
            SlotError: the slot is unbound, or its kernel does not support the
                inputs.
        """
        context = self._context
        if context is None:
            raise self._unbound()
        if self._function is not None:
            raise SlotError(
                f"{self._function.spec} is a Python function, which has no IR"
            )
        shapes = shapes or [tuple(t.shape) for t in inputs]
        results = self._result_types(inputs, shapes)
        takes = [_type(shape, t.dtype) for shape, t in zip(shapes, inputs)]
        gives = ", ".join(_type(*result) for result in results)
        params = ", ".join(
            f"{name} = {_attribute(value)}"
            for name, value in self.params.items()
        )
        names = [f"%{i}" for i in range(len(inputs))]
        formals = ", ".join(map(": ".join, zip(names, takes)))
        returned = ", ".join(f"%r#{i}" for i in range(len(results)))
        type_ = f"({', '.join(takes)}) -> ({gives})"
        module = context.parse(
            f'nn.slot @slot op "{self.op}" variant "{self.variant}" '
            f"params {{{params}}} : {type_} {{}}\n"
            f"func.func @call({formals}) -> ({gives}) {{\n"
            f"  %r:{len(results)} = nn.call_slot @slot({', '.join(names)}) "
            f": {type_}\n"
            f"  return {returned} : {gives}\n}}\n"
        )
        module.bind(
            {
                "bind": {self.op: self._kernel},
                "mode": self._mode,
                "target": self._target,
            }
        )
        return module, [dtype for _, dtype in results]

    def _result_types(
        self, inputs: Sequence[Tensor], shapes: Sequence[_Shape]
    ) -> list[tuple[_Shape, torch.dtype]]:
        """Result types of the eager function, from a run on fake tensors.

        Sizes that depend on unknown sizes are unknown too.
        """

        def given(grow: int) -> list[Tensor]:
            # Equal sizes stay equal.
            return results_of(
                self.eager(
                    *(
                        torch.empty(
                            [
                                size + grow if kind == _ANY else size
                                for size, kind in zip(t.shape, shape)
                            ],
                            dtype=t.dtype,
                            device="meta",
                        )
                        for t, shape in zip(inputs, shapes)
                    )
                )
            )

        try:
            now, grown = given(0), given(1)
        except (RuntimeError, TypeError, ValueError) as error:
            raise SlotError(
                f"the eager function of op={self.op} does not "
                f"support other sizes: {error}"
            ) from error
        return [
            (
                tuple(
                    size if size == other else _ANY
                    for size, other in zip(t.shape, more.shape)
                ),
                t.dtype,
            )
            for t, more in zip(now, grown)
        ]


def _restore(
    op: str,
    variant: str,
    eager: Callable[..., Any],
    params: Mapping[str, float | int | str],
) -> OpSlot:
    return OpSlot(op, variant, eager=eager, params=params)
