# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python functions as kernels of slots.

`Context.register` registers a `KernelSpec`. The compiler sees a stand-in with
its name, hardware and mode, so that functions are selected by the same rules as
all kernels. Calls of a bound slot run the function.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fuse_mlir.errors import SlotError
from fuse_mlir.ir.builder import quote
from fuse_mlir.slots.call import Program, results_of
from fuse_mlir.slots.check import Mismatch, Params
from fuse_mlir.support.arguments import require

#: A function of tensors, and of the slot's params as keyword arguments.
Function = Callable[..., "Tensor | Sequence[Tensor]"]

_DEVICES = ("any", "cpu", "gpu")
MODES = (
    "any",
    "inference",
    "inference|compile",
    "training",
    "training|compile",
)


@dataclass(frozen=True)
class HardwareRequirement:
    """Hardware that a kernel runs on.

    Args:
        device_type: `any`, `cpu` or `gpu`.
        min_compute_capability: of a GPU, inclusive, such as 90 for `sm_90`.
        max_compute_capability: of a GPU, inclusive.

    Raises:
        SlotError: such hardware does not exist.
    """

    device_type: str = "any"
    min_compute_capability: int | None = None
    max_compute_capability: int | None = None

    def __post_init__(self) -> None:
        if self.device_type not in _DEVICES:
            raise SlotError(
                f"device type '{self.device_type}' is not known; "
                f"expected {', '.join(_DEVICES)}"
            )
        limits = self.min_compute_capability, self.max_compute_capability
        for limit in limits:
            require(
                limit,
                (int, type(None)),
                "a compute capability",
                "a number such as 90",
            )
        if limits != (None, None) and self.device_type != "gpu":
            raise SlotError(
                f"device type '{self.device_type}' has no compute "
                "capability; only 'gpu' has"
            )
        low, high = limits
        if low is not None and high is not None and low > high:
            raise SlotError(
                f"range of capabilities from {low} to {high} is empty; "
                "expected the smaller one first"
            )

    def _texts(self) -> list[tuple[str, str]]:
        """Pairs of a device and the attribute that requires it."""
        if self.device_type != "gpu":
            devices = ("cpu", "gpu") if self.device_type == "any" else ("cpu",)
            return [(device, f"<{device}>") for device in devices]
        ends = (
            ("from", self.min_compute_capability),
            ("to", self.max_compute_capability),
        )
        return [
            (
                "gpu",
                "<gpu"
                + "".join(
                    f" {word} {end}" for word, end in ends if end is not None
                )
                + ">",
            )
        ]


@dataclass(frozen=True)
class KernelSpec:
    """A Python function as a kernel of one op and variant.

    The arguments of the function are the contiguous inputs of the slot, and the
    params of the slot by keyword. The function returns tensors of the same
    number, shapes and dtypes as the eager function of the slot. It must not
    write into its inputs.

    Args:
        name: of the kernel, for `slots.bind`.
        op_name: op that the kernel computes.
        variant: variant that the kernel computes.
        factory: returns the function. It is called when the first slot is
            bound to the kernel, so that imports happen only then.
        hardware: that the kernel runs on.
        description: for listings.
        mode: `any`, or a mode of docs/how-to/bind-slots.md.
        function: the function itself, instead of a factory.
        aliases: earlier names of the kernel; binding one of them warns.

    Raises:
        SlotError: there is not exactly one of factory and function, or the
            mode is unknown.
    """

    name: str
    op_name: str
    variant: str = "standard"
    factory: Callable[[], Function] | None = None
    hardware: HardwareRequirement = HardwareRequirement()
    description: str = ""
    mode: str = "any"
    function: Function | None = None
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for what in ("name", "op_name", "variant", "description"):
            require(getattr(self, what), str, f"'{what}' of a kernel", "a text")
        require(
            self.aliases,
            tuple,
            f"the aliases of kernel '{self.name}'",
            "a tuple of names",
        )
        require(
            self.hardware,
            HardwareRequirement,
            f"the hardware of kernel '{self.name}'",
            "a HardwareRequirement",
        )
        given = [
            what
            for what in ("factory", "function")
            if getattr(self, what) is not None
        ]
        if len(given) != 1:
            raise SlotError(
                f"kernel '{self.name}' has "
                f"{' and '.join(given) or 'no function'}; expected "
                "a factory or a function"
            )
        value = getattr(self, given[0])
        if not callable(value):
            raise TypeError(
                f"the {given[0]} of kernel '{self.name}' is of "
                f"type {type(value).__name__}; expected a function"
            )
        if self.mode not in MODES:
            raise SlotError(
                f"mode '{self.mode}' of kernel '{self.name}' is "
                f"not known; expected {', '.join(MODES)}"
            )

    @property
    def source(self) -> str:
        """File and line of the function, for listings and reports."""
        value = self.function or self.factory
        where = (
            f"{getattr(value, '__module__', type(value).__module__)}."
            f"{getattr(value, '__qualname__', type(value).__qualname__)}"
        )
        return f"Python {'function' if self.function else 'factory'} {where}"

    def __str__(self) -> str:
        return f"kernel '{self.name}' of op={self.op_name}"


class FunctionKernel:
    """A registered function, with its stand-in for the compiler."""

    _ids = itertools.count(1)

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self._symbol = f"function_{next(FunctionKernel._ids)}"
        self._function = spec.function

    def stand_in(self) -> str:
        """An `nn.slot_kernel` that can be selected and is never built."""
        mode = "" if self.spec.mode == "any" else f" mode <{self.spec.mode}>"
        same = "sizes = [], args = []"
        code = {
            "cpu": '#nn.cpu_code<library = "python", symbol = '
            f'"{self._symbol}", {same}>',
            "gpu": '#nn.gpu_code<format = ptx, file = "python", entry = '
            f'"{self._symbol}", grid = affine_map<() -> (1, 1, 1)>, '
            f"block = [1, 1, 1], {same}>",
        }
        spec = self.spec
        bodies = "".join(
            f"  nn.implementation on {text}{mode} code {code[device]} {{}}\n"
            for device, text in spec.hardware._texts()
        )
        description = (
            f" description {quote(spec.description)}"
            if spec.description
            else ""
        )
        aliases = (
            f" aliases [{', '.join(map(quote, spec.aliases))}]"
            if spec.aliases
            else ""
        )
        return (
            f"nn.slot_kernel {quote(spec.name)} op {quote(spec.op_name)} "
            f"variant {quote(spec.variant)}{description}{aliases} {{\n"
            f"{bodies}}}\n"
        )

    def sources(self) -> list[str]:
        """Names of the stand-in's code in the compiler."""
        return [f"library python:{self._symbol}", f"ptx python:{self._symbol}"]

    def function(self) -> Function:
        """The function, which a factory makes once.

        Raises:
            SlotError: the factory failed, or did not return a function.
        """
        if self._function is None:
            assert self.spec.factory is not None
            try:
                made = self.spec.factory()
            except Exception as error:  # whatever it raises
                raise SlotError(
                    f"the factory of {self.spec} raised "
                    f"{type(error).__name__}: {error}"
                ) from error
            if not callable(made):
                raise SlotError(
                    f"the factory of {self.spec} gave a value of "
                    f"type {type(made).__name__}; expected a "
                    "function"
                )
            self._function = made
        return self._function

    def bind_params(self, params: Params, inputs: int = 0) -> Function:
        """The function with bound params, which has only tensor arguments.

        Args:
            params: of the slot.
            inputs: number of inputs that the eager function requires; 0 if it
                is unknown.

        Raises:
            SlotError: the function lacks a parameter for a param or an input.
        """
        function = self.function()
        takes = _signature(function)
        if takes is None:  # Functions in C may have no signature.
            return functools.partial(function, **params)
        if not any(p.kind is p.VAR_KEYWORD for p in takes.parameters.values()):
            by_name = [
                p.name
                for p in takes.parameters.values()
                if p.kind is not p.POSITIONAL_ONLY
            ]
            for name in params:
                if name not in by_name:
                    raise SlotError(
                        f"{self.spec} does not support param '{name}' of the "
                        f"slot; expected a parameter '{name}', whose value "
                        f"is {params[name]!r}"
                    )
        if inputs:
            try:
                takes.bind(*range(inputs), **params)
            except TypeError as error:
                after = " and then " + ", ".join(params) if params else ""
                raise SlotError(
                    f"{self.spec} has the arguments {takes}; expected "
                    f"{inputs} inputs{after} ({error})"
                ) from error
        return functools.partial(function, **params)


def reads_only(function: Function) -> Function:
    """Wraps a function so that writes into its inputs are errors.

    Raises:
        Mismatch: at a call that changes an input.
    """

    @functools.wraps(function)
    def call(*inputs: Tensor) -> Tensor | Sequence[Tensor]:
        before = [tensor.clone() for tensor in inputs]
        results = function(*inputs)
        for i, (old, new) in enumerate(zip(before, inputs)):
            if not torch.equal(old, new):
                raise Mismatch(
                    f"it writes into input {i}, which is read "
                    "again for gradients"
                )
        return results

    setattr(call, "__signature__", _signature(function))
    return call


def _signature(function: Function) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


_Results = list[tuple[torch.Size, torch.dtype]]


class FunctionProgram(Program):
    """A function that the calls of one slot run.

    Args:
        kernel: the bound kernel.
        function: its function of tensors, with bound params.
        eager: the eager function of the slot.
    """

    def __init__(
        self, kernel: FunctionKernel, function: Function, eager: Function
    ) -> None:
        super().__init__(eager)
        self.kernel = kernel
        self.function = function
        self._expected: dict[object, _Results] = {}

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Runs the function, without gradients and autocast.

        Raises:
            SlotError: the number, shapes or dtypes of results differ from
                those of the eager function, or an input was changed.
        """
        inputs = [tensor.detach().contiguous() for tensor in inputs]
        versions = _versions(inputs)
        with (
            torch.no_grad(),
            torch.autocast(inputs[0].device.type, enabled=False),
        ):
            results = results_of(self.function(*inputs))
        for i, (old, new) in enumerate(zip(versions, _versions(inputs))):
            if old != new:
                raise SlotError(
                    f"{self.kernel.spec} writes into input {i}; "
                    "expected a function that only reads them"
                )
        expected = self._results(inputs)
        found = [
            (t.shape, t.dtype) if isinstance(t, Tensor) else None
            for t in results
        ]
        if found != expected or any(
            t.device != inputs[0].device for t in results
        ):
            raise SlotError(
                f"{self.kernel.spec} gives {', '.join(map(_text, results))}; "
                "expected what the eager function gives, "
                + ", ".join(
                    f"{dtype} {list(shape)} on {inputs[0].device}"
                    for shape, dtype in expected
                )
            )
        return _separate(results, inputs)

    def _results(self, inputs: Sequence[Tensor]) -> _Results:
        """Types of the eager function's results, cached by those of inputs."""
        key = tuple((t.shape, t.dtype) for t in inputs)
        if key not in self._expected:
            if len(self._expected) >= _KEPT:
                self._expected.clear()
            with (
                torch.no_grad(),
                torch.autocast(inputs[0].device.type, enabled=False),
            ):
                try:
                    results = results_of(
                        self.eager(
                            *(
                                torch.empty_like(t, device="meta")
                                for t in inputs
                            )
                        )
                    )
                except (RuntimeError, TypeError, ValueError):
                    # Some functions branch on values.
                    results = results_of(self.eager(*inputs))
            self._expected[key] = [(t.shape, t.dtype) for t in results]
        return self._expected[key]


#: Maximum number of cached combinations of input types.
_KEPT = 1024


def _versions(tensors: Sequence[Tensor]) -> list[int]:
    """Versions of tensors, which PyTorch changes at each write."""
    return [0 if t.is_inference() else t._version for t in tensors]


def _text(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} {list(value.shape)} on {value.device}"
    return f"a {type(value).__name__}"


def _separate(
    results: Sequence[Tensor], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """Results without gaps that share no memory, as ops of PyTorch require."""
    seen = {t.untyped_storage().data_ptr() for t in inputs if t.numel()}
    separate = []
    for result in results:
        result = result.contiguous()
        place = result.untyped_storage().data_ptr()
        if result.numel() and place in seen:
            result = result.clone()
            place = result.untyped_storage().data_ptr()
        seen.add(place)
        separate.append(result)
    return separate


def rename_sources(
    entries: Sequence[dict[str, object]], kernels: Mapping[str, FunctionKernel]
) -> None:
    """Replaces the locations of stand-ins by those of their functions."""
    for entry in entries:
        kernel = kernels.get(str(entry.get("source")))
        if kernel is not None:
            entry["source"] = kernel.spec.source
