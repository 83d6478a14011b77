# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches compiled kernels through the CUDA driver API.

PyTorch provides memory, streams and graph capture; modules, tensor maps and
launches go to the driver itself, because neither launch attributes nor tensor
maps have a PyTorch interface. Every return code is checked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from . import hub_files
from .packing import STEP_BYTES, pack, unpack_tokens
from .plan import Plan, PlanError

#: An argument of a kernel, as ctypes passes it.
CArgument: TypeAlias = (
    ctypes.c_void_p | ctypes.c_int32 | ctypes.c_float | ctypes.Structure
)

_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
_MAX_DYNAMIC_SHARED, _PREFERRED_CARVEOUT = 8, 9
#: Structures and launches are those of kernel directories.
_HUB = hub_files.load("_driver")


class CudaError(RuntimeError):
    """A call of the driver that failed."""


_library: ctypes.CDLL | None = None


def _driver() -> ctypes.CDLL:
    global _library
    if _library is None:
        try:
            _library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"no CUDA driver: {error}") from error
        # PyTorch's primary context becomes the current one.
        torch.zeros(1, device="cuda")
    return _library


def call(name: str, *arguments: object, note: str = "") -> None:
    """Calls a function of the driver and checks its status."""
    library = _driver()
    code = getattr(library, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        library.cuGetErrorString(code, ctypes.byref(text))
        reason = text.value.decode() if text.value else "unknown error"
        raise CudaError(
            f"{name}: error {code}, {reason}{': ' + note if note else ''}"
        )


class Module:
    """A loaded cubin or PTX file."""

    def __init__(self, path: Path) -> None:
        _driver()
        data = path.read_bytes()
        image = ctypes.create_string_buffer(data, len(data) + 1)
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(
            ctypes.cast(log, ctypes.c_void_p), ctypes.c_void_p(len(log))
        )
        self.handle = ctypes.c_void_p()
        try:
            call(
                "cuModuleLoadDataEx",
                ctypes.byref(self.handle),
                image,
                ctypes.c_uint(2),
                options,
                values,
                note=str(path),
            )
        except CudaError as error:
            details = log.value.decode(errors="replace").strip()
            raise CudaError(f"{error} {details}".strip()) from None

    def function(
        self, name: str, shared_bytes: int, carveout: int | None = None
    ) -> ctypes.c_void_p:
        """A kernel; `carveout` is the shared memory that it prefers to L1, in
        per cent of the most."""
        handle = ctypes.c_void_p()
        call(
            "cuModuleGetFunction",
            ctypes.byref(handle),
            self.handle,
            name.encode(),
            note=name,
        )
        if shared_bytes:
            call(
                "cuFuncSetAttribute",
                handle,
                ctypes.c_int(_MAX_DYNAMIC_SHARED),
                ctypes.c_int(shared_bytes),
                note=f"{name} with {shared_bytes} bytes of shared memory",
            )
        if carveout is not None:
            call(
                "cuFuncSetAttribute",
                handle,
                ctypes.c_int(_PREFERRED_CARVEOUT),
                ctypes.c_int(carveout),
                note=f"{name}, shared memory instead of L1",
            )
        return handle

    def kernels(self, plan: Plan) -> list[ctypes.c_void_p]:
        """The functions of all launches of a plan."""
        return [
            self.function(item.kernel, item.shared_bytes, item.carveout)
            for item in plan.launches
        ]

    def unload(self) -> None:
        call("cuModuleUnload", self.handle)


def launch(
    function: ctypes.c_void_p,
    blocks: int,
    threads: int,
    shared_bytes: int,
    arguments: Sequence[Any],
    *,
    cooperative: bool = False,
    programmatic: bool = False,
) -> None:
    """Launches on PyTorch's current stream; arguments are copied.

    With `cooperative`, all blocks are resident at the same time. With
    `programmatic`, the kernel may start before its predecessor in the stream
    has ended and waits for it itself.
    """
    _driver()
    try:
        _HUB.launch(
            function,
            {
                "block": [threads, 1, 1],
                "shared_bytes": shared_bytes,
                "cooperative": cooperative,
            },
            (blocks, 1, 1),
            arguments,
            torch.cuda.current_stream().cuda_stream,
            programmatic,
        )
    except RuntimeError as error:
        raise CudaError(str(error)) from None


def tensor_map(
    address: int,
    rows: int,
    columns: int,
    box_rows: int,
    box_columns: int,
    element: str,
    swizzle: int,
) -> ctypes.Structure:
    """A tensor map of a row-major matrix; rows past its end read as zero."""
    if element not in _HUB.MAP_TYPES or swizzle not in _HUB.MAP_SWIZZLES:
        raise PlanError(
            f"no tensor map of {element} with a swizzle of {swizzle} bytes"
        )
    _driver()
    try:
        return _HUB.tensor_map(
            address,
            {
                "element": element,
                "swizzle": swizzle,
                "rows": rows,
                "columns": columns,
                "box_rows": box_rows,
                "box_columns": box_columns,
            },
        )
    except RuntimeError as error:
        raise CudaError(
            f"{error}: {rows}x{columns} {element}, box {box_rows}x{box_columns}"
        ) from None


class Weights:
    """Operands of a fused op by role, and their packed copies."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = dict(tensors)
        self._packed: dict[tuple[str, ...], Tensor] = {}

    def packed(self, recipe: str, roles: Sequence[str]) -> Tensor:
        key = (recipe, *roles)
        if key not in self._packed:
            self._packed[key] = pack(
                recipe, [self.tensors[role] for role in roles]
            )
        return self._packed[key]


class Runner:
    """A plan bound to weights, activations and results."""

    def __init__(
        self,
        plan: Plan,
        module: Module,
        weights: Weights,
        activations: Mapping[str, Tensor],
        scalars: Mapping[str, float],
        workspace: Tensor,
        results: Sequence[Tensor] | None = None,
    ) -> None:
        self.plan = plan
        self.tokens = activations["x"].shape[0]
        if self.tokens > plan.max_tokens:
            raise PlanError(
                f"{self.tokens} tokens are more than the "
                f"{plan.max_tokens} of {plan.binary}"
            )
        if workspace.numel() < plan.workspace_bytes:
            raise PlanError(
                f"a workspace of {workspace.numel()} bytes is "
                f"less than {plan.workspace_bytes}"
            )
        self.workspace = workspace
        count = 2 if plan.problem.returns_stream else 1
        self.results = (
            list(results)
            if results is not None
            else [
                torch.empty(
                    self.tokens,
                    plan.problem.width,
                    device="cuda",
                    dtype=torch.bfloat16,
                )
                for _ in range(count)
            ]
        )
        self._roles = plan.problem.operands()
        self._tensors = {**weights.tensors, **activations}
        self._weights = weights
        self._scalars = scalars
        #: Objects that must outlive the launches.
        self._kept: list[Any] = []
        self._launches = [
            (
                item,
                kernel,
                [self._argument(argument, base) for argument in item.arguments],
            )
            for item, kernel, base in zip(
                plan.launches, module.kernels(plan), plan.bases
            )
        ]

    @staticmethod
    def make_workspace(plan: Plan) -> Tensor:
        """A workspace of random bytes, with zeros where the plan has zeros."""
        workspace = torch.empty(
            max(256, plan.workspace_bytes), dtype=torch.uint8, device="cuda"
        )
        workspace.random_(0, 255)
        for base, item in zip(plan.bases, plan.launches):
            workspace[base : base + item.zeroed_bytes].zero_()
        return workspace

    def _pointer(self, tensor: Tensor) -> ctypes.c_void_p:
        if not tensor.is_contiguous():
            raise PlanError("a tensor is not contiguous")
        self._kept.append(tensor)
        return ctypes.c_void_p(tensor.data_ptr())

    def _packed(self, argument: Mapping[str, Any]) -> Tensor:
        roles = [self._roles[index] for index in argument["operands"]]
        packed = self._weights.packed(argument["recipe"], roles)
        if packed.numel() != argument["bytes"]:
            raise PlanError(
                f"{' and '.join(roles)} packed by {argument['recipe']} have "
                f"{packed.numel()} bytes, the plan has {argument['bytes']}"
            )
        return packed

    def _argument(self, argument: Mapping[str, Any], base: int) -> CArgument:
        kind = argument["kind"]
        if kind == "operand":
            return self._pointer(self._tensors[self._roles[argument["index"]]])
        if kind == "result":
            return self._pointer(self.results[argument["index"]])
        if kind == "packed":
            return self._pointer(self._packed(argument))
        if kind == "workspace":
            return ctypes.c_void_p(
                self.workspace.data_ptr() + base + argument["offset"]
            )
        if kind == "tensor_map":
            if "operand" in argument:
                role = self._roles[argument["operand"]]
                address = self._pointer(self._tensors[role]).value or 0
            else:
                address = self.workspace.data_ptr() + base + argument["offset"]
            return tensor_map(
                address,
                argument["rows"],
                argument["columns"],
                argument["box_rows"],
                argument["box_columns"],
                argument["element"],
                argument["swizzle"],
            )
        if kind == "tokens":
            return ctypes.c_int32(self.tokens)
        if kind == "i32":
            return ctypes.c_int32(argument["value"])
        if kind == "f32":
            return ctypes.c_float(argument["value"])
        return ctypes.c_float(self._scalars[argument["name"]])

    def intermediate(self, index: int) -> Tensor | None:
        """An intermediate of the last launch in its workspace.

        0 is the (quantized) input of GEMM1, 1 the hidden layer, both
        [tokens, columns] in the type that the products read.
        """
        matrices = [
            (base, argument)
            for base, item in zip(self.plan.bases, self.plan.launches)
            for argument in item.arguments
            if "offset" in argument and "columns" in argument
        ]
        if index >= len(matrices):
            return None
        base, argument = matrices[index]
        element, columns = argument["element"], argument["columns"]
        first = base + argument["offset"]
        dtype = {"bf16": torch.bfloat16, "f8E4M3FN": torch.float8_e4m3fn}[
            element
        ]
        row_bytes = _HUB.MAP_TYPES[element][1] * columns
        if argument["kind"] == "tensor_map":
            size = row_bytes * self.tokens
            return (
                self.workspace[first : first + size]
                .view(dtype)
                .view(self.tokens, columns)
            )
        rows, steps = argument["rows"], -(-row_bytes // STEP_BYTES)
        packed = self.workspace[first : first + rows * steps * STEP_BYTES]
        return (
            unpack_tokens(packed, rows)[: self.tokens, :row_bytes]
            .contiguous()
            .view(dtype)
        )

    def __call__(
        self, programmatic: bool = False, exclusive: bool = False
    ) -> list[Tensor]:
        """Launches; `programmatic` lets the start overlap the predecessor.

        With `exclusive` such a launch may begin a block at a time, as runtimes
        let it where nothing else runs whose blocks wait for each other.
        """
        for item, function, arguments in self._launches:
            overlap = item.dependent and (programmatic or item.shares_workspace)
            launch(
                function,
                item.blocks,
                item.threads,
                item.shared_bytes,
                arguments,
                cooperative=item.cooperative
                and not (exclusive and overlap and item.cluster == 1),
                programmatic=overlap,
            )
        return self.results


class Layers:
    """A block several times with different weights, the result of one the
    input of the next."""

    def __init__(
        self,
        plan: Plan,
        module: Module,
        weights: Sequence[Weights],
        x: Tensor,
        scalars: Sequence[Mapping[str, float]],
    ) -> None:
        self.plan = plan
        workspace = Runner.make_workspace(plan)
        self.runners: list[Runner] = []
        for operands, own in zip(weights, scalars):
            self.runners.append(
                Runner(plan, module, operands, {"x": x}, own, workspace)
            )
            x = self.runners[-1].results[0]

    def __call__(self, overlap: bool = False, exclusive: bool = False) -> None:
        """Launches all; with `overlap`, each begins before the one before it
        has ended."""
        for index, runner in enumerate(self.runners):
            runner(overlap and index > 0, exclusive)

    def ways(self) -> dict[str, Callable[[], None]]:
        """Options of launches for hosts with one stream, by name."""
        ways: dict[str, Callable[[], None]] = {
            "": partial(self, self.plan.dependent)
        }
        if (
            self.plan.dependent
            and len(self.plan.launches) == 1
            and self.plan.launches[0].cooperative
        ):
            ways["-exclusive"] = partial(self, True, exclusive=True)
        return ways
