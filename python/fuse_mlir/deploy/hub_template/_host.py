# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the kernel of this directory on tensors of PyTorch.

`plan.json` has code for several chips. A GPU uses the first code that it
supports. On Hopper, that is scheduled kernels, which are selected by the number
of rows and read packed copies of the weights. Other GPUs use the portable
kernel.
"""

import ctypes
import functools
import json
import re
import threading
from pathlib import Path

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from . import _driver
from ._packing import pack

_TYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
}
_NUMBERS = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "index": ctypes.c_int64,
}
#: Bytes of one vector load of kernels.
_VECTOR = 16
_OPERATORS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "mod": lambda a, b: a % b,
    "floordiv": lambda a, b: a // b,
    "ceildiv": lambda a, b: -(-a // b),
}


def _evaluate(value, symbols):
    """The value of a number, a symbol, or an operator with two operands."""
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return symbols[int(value[1:])]
    operator, left, right = value
    return _OPERATORS[operator](
        _evaluate(left, symbols), _evaluate(right, symbols)
    )


@functools.cache
def _plan():
    return json.loads((Path(__file__).parent / "plan.json").read_text())


def _choose(capability, multiprocessors):
    """The first code of the plan that runs on a GPU.

    Raises:
        RuntimeError: no code runs on it.
    """
    for code in _plan()["codes"]:
        own = code["chip"].endswith("a")
        number = code["chip"].removeprefix("sm_").removesuffix("a")
        # Blocks that wait for each other need one multiprocessor each.
        waiting = [
            launch["grid"][0]
            for plan in code["plans"]
            for launch in plan["launches"]
            if launch.get("cooperative")
        ]
        wanted = (int(number[:-1]), int(number[-1]))
        if (wanted == capability if own else wanted <= capability) and all(
            blocks <= multiprocessors for blocks in waiting
        ):
            return code
    raise RuntimeError(
        "this kernel is for "
        + ", ".join(code["chip"] for code in _plan()["codes"])
        + " and later; the GPU is sm_{}{}".format(*capability)
    )


class _Code:
    """The code for a device, and the memory that its launches share."""

    _all: dict = {}
    _creating = threading.Lock()

    def __init__(self, device):
        found = torch.cuda.get_device_properties(device)
        self.plan = _choose(
            (found.major, found.minor), found.multi_processor_count
        )
        #: Held while the kernels of a call are enqueued on a stream.
        self.lock = threading.Lock()
        self._modules = {}
        self._functions = {}
        self._packed = {}
        self._zeros = {}

    @classmethod
    def on(cls, device):
        with cls._creating:
            if device.index not in cls._all:
                cls._all[device.index] = cls(device)
            return cls._all[device.index]

    def _wait_for_graphs(self, what):
        """Raises an error if a graph is being captured."""
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f"{what} yet, and cannot be while a graph is "
                "captured; call the layer once before, with as "
                "many rows"
            )

    def functions(self, number):
        """The kernels of a plan, which are loaded on first use."""
        if number not in self._functions:
            self._wait_for_graphs("the kernel is not loaded")
            found = []
            for launch in self.plan["plans"][number]["launches"]:
                name = self.plan["ptx"][launch.get("module", 0)]
                if name not in self._modules:
                    self._modules[name] = _driver.load(
                        (Path(__file__).parent / name).read_bytes()
                    )
                found.append(_driver.function(self._modules[name], launch))
            self._functions[number] = found
        return self._functions[number]

    def packed(self, tensors):
        """Packed copies of weights, made again when the weights change."""
        recipes = self.plan["packed"]
        if not recipes:
            return []
        weights = [tensors[i] for recipe in recipes for i in recipe["operands"]]
        key = tuple(t.data_ptr() for t in weights)
        versions = [0 if t.is_inference() else t._version for t in weights]
        held = self._packed.get(key)
        if held is None or held[0] != versions:
            self._wait_for_graphs("the weights are not packed")
            # Another tensor may have the same address later.
            self._packed = {
                k: v
                for k, v in self._packed.items()
                if k != key and not any(r.expired() for r in v[1])
            }
            made = [
                pack(recipe["recipe"], [tensors[i] for i in recipe["operands"]])
                for recipe in recipes
            ]
            for recipe, result in zip(recipes, made):
                if result.numel() != recipe["bytes"]:
                    raise RuntimeError(
                        f"recipe '{recipe['recipe']}' makes {result.numel()} "
                        f"bytes, the plan has {recipe['bytes']}"
                    )
            # Other streams may read them from now on.
            torch.cuda.current_stream().synchronize()
            held = (
                versions,
                [StorageWeakRef(t.untyped_storage()) for t in weights],
                made,
            )
            self._packed[key] = held
        elif any(r.expired() for r in held[1]):
            del self._packed[key]
            return self.packed(tensors)
        return held[2]

    def workspace(self, plan, symbols, device, stream):
        """Buffers of a plan for a stream; all captured graphs share one set.

        Counters start at zero and continue from launch to launch.
        """
        sizes = [_evaluate(size, symbols) for size in plan["workspace"]]
        buffers = []
        if self.plan["zeroed_bytes"]:
            capturing = torch.cuda.is_current_stream_capturing()
            for key in ("graphs", stream):
                if key not in self._zeros and not capturing:
                    self._zeros[key] = torch.zeros(
                        sizes[0], dtype=torch.uint8, device=device
                    )
                    torch.cuda.current_stream().synchronize()
            key = "graphs" if capturing else stream
            if key not in self._zeros:
                self._wait_for_graphs("there is no workspace")
            buffers.append(self._zeros[key])
        for size in sizes[len(buffers) :]:
            buffers.append(torch.empty(size, dtype=torch.uint8, device=device))
        return buffers


def _argument(argument, pointers, buffers, packed, symbols):
    """The value of a kernel's parameter."""
    if "value" in argument:
        return _NUMBERS[argument["type"]](argument["value"])
    if "size" in argument:
        kind = ctypes.c_int32 if argument.get("bytes") == 4 else ctypes.c_int64
        return kind(_evaluate(argument["size"], symbols))
    if "packed" in argument:
        return ctypes.c_void_p(packed[argument["packed"]].data_ptr())
    address = (
        buffers[argument["workspace"]].data_ptr()
        if "workspace" in argument
        else pointers[argument["tensor"]]
    )
    address += argument.get("offset", 0)
    if "map" in argument:
        return _driver.tensor_map(address, argument["map"])
    return ctypes.c_void_p(address)


def _launch_all(tensors, out):
    code = _Code.on(out.device)
    stream = torch.cuda.current_stream(out.device).cuda_stream
    pointers = [tensor.data_ptr() for tensor in (*tensors, out)]
    symbols = [
        tensors[argument].shape[dim] for argument, dim in code.plan["symbols"]
    ]
    number = next(
        i
        for i, plan in enumerate(code.plan["plans"])
        if not plan["upto"] or symbols[0] <= plan["upto"]
    )
    plan = code.plan["plans"][number]
    # Scheduled kernels, which are for one chip, read vectors. A misaligned
    # address would end the CUDA context of the process.
    if code.plan["chip"].endswith("a"):
        for argument, pointer in zip(_plan()["arguments"], pointers):
            if pointer % _VECTOR:
                raise RuntimeError(
                    f"parameter '{argument.get('parameter', '')}' starts "
                    f"{pointer % _VECTOR} bytes after a multiple of "
                    f"{_VECTOR}; expected an aligned tensor"
                )
    with code.lock:
        functions = code.functions(number)
        packed = code.packed(tensors)
        buffers = code.workspace(plan, symbols, out.device, stream)
        for i, launch in enumerate(plan["launches"]):
            values = [
                _argument(argument, pointers, buffers, packed, symbols)
                for argument in launch["args"]
            ]
            grid = [_evaluate(size, symbols) for size in launch["grid"]]
            # The launch before the first one is not of this kernel.
            _driver.launch(
                functions[i],
                launch,
                grid,
                values,
                stream,
                overlaps=i > 0 and launch.get("dependent", False),
            )


def _check(tensors):
    """Compares tensors with the types of the kernel's arguments."""
    arguments = _plan()["arguments"]
    for argument, tensor in zip(arguments, tensors):
        what = (
            f"parameter '{argument['parameter']}'"
            if "parameter" in argument
            else "an input"
        )
        wanted, shape = argument["shape"], tuple(tensor.shape)
        if (
            tensor.dtype != _TYPES[argument["type"]]
            or len(wanted) != len(shape)
            or any(a not in (-1, b) for a, b in zip(wanted, shape))
        ):
            raise RuntimeError(
                f"{what} is {tensor.dtype} {shape}; the kernel is for "
                f"{argument['type']} {wanted}, where -1 is any size"
            )
        if tensor.device != tensors[0].device or not tensor.is_contiguous():
            raise RuntimeError(
                f"{what} is on {tensor.device} with the "
                f"strides {tensor.stride()}; expected a "
                f"contiguous tensor on {tensors[0].device}"
            )


def _result_shape(inputs):
    if _plan()["rows"]:
        # Rows in any number of dimensions.
        return [*inputs[0].shape[:-1], _plan()["result"]["shape"][-1]]
    return [
        size if isinstance(size, int) else inputs[size[0]].shape[size[1]]
        for size in _plan()["result"]["shape"]
    ]


def _run(inputs, parameters):
    shape = _result_shape(inputs)
    out = torch.empty(
        shape, dtype=_TYPES[_plan()["result"]["type"]], device=inputs[0].device
    )
    if _plan()["rows"]:
        inputs = [t.reshape(-1, t.shape[-1]) for t in inputs]
    inputs = [t.contiguous() for t in inputs]
    inputs = [t.clone() if t.data_ptr() % _VECTOR else t for t in inputs]
    _check([*inputs, *parameters])
    if not out.numel():
        return out
    with torch.cuda.device(out.device):
        if not _plan()["rows"]:
            _launch_all([*inputs, *parameters], out)
            return out
        rows = out.view(-1, shape[-1])
        most = _Code.on(out.device).plan["max_tokens"] or len(rows)
        for first in range(0, len(rows), most):
            part = slice(first, first + most)
            _launch_all([*(t[part] for t in inputs), *parameters], rows[part])
    return out


def _elsewhere(inputs, parameters):
    raise RuntimeError(
        "this kernel is PTX and runs on CUDA; an input is on "
        f"{inputs[0].device}"
    )


def _shape(inputs, parameters):
    return inputs[0].new_empty(
        _result_shape(inputs), dtype=_TYPES[_plan()["result"]["type"]]
    )


@functools.cache
def define():
    """Registers the op of this version of the kernel.

    A process may have several versions. Returns the op, the names of its
    parameters, and the library that keeps it registered.
    """
    name = re.sub(r"\W", "_", __package__ or "fuse_kernel")
    library = torch.library.Library(name, "DEF")
    library.define("call(Tensor[] inputs, Tensor[] parameters) -> Tensor")
    library.impl("call", _run, "CUDA")
    library.impl("call", _elsewhere, "CPU")
    torch.library.register_fake(f"{name}::call", _shape, lib=library)
    return getattr(torch.ops, name).call, _plan()["parameters"], library


def _parameter(module, name):
    """The parameter `a.b.weight`, or rows of it, `a.b.weight[0:64]`."""
    path, _, rows = name.partition("[")
    value = functools.reduce(getattr, path.split("."), module)
    if rows:
        first, _, last = rows.rstrip("]").partition(":")
        value = value[int(first) : int(last)]
    return value


def call(module, inputs, operator, names):
    """The result of the kernel with the parameters of a module, by `names`.

    Raises:
        RuntimeError: the kernel does not support an input or parameter, or
            gradients are needed.
    """
    parameters = [_parameter(module, name) for name in names]
    if torch.is_grad_enabled() and any(
        t.requires_grad for t in (*inputs, *parameters)
    ):
        raise RuntimeError(
            "this kernel has no backward pass; use torch.no_grad()"
        )
    return operator(list(inputs), parameters)
