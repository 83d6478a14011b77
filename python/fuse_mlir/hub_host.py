# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches the kernel of this directory through the driver of CUDA.

`fuse_mlir.export_hub_kernel` copies this file into the directories that it
writes, beside `plan.json` and the PTX. It needs PyTorch and the driver, and
neither fuse nor a compiler.
"""

import ctypes
import functools
import json
import re
import threading
from pathlib import Path

import torch

_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32,
          "f64": torch.float64, "i8": torch.int8, "i32": torch.int32,
          "i64": torch.int64, "f8E4M3FN": torch.float8_e4m3fn,
          "f8E5M2": torch.float8_e5m2}
_MAX_DYNAMIC_SHARED = 8
_ALIGNMENT = 256
_NUMBERS = {"f32": ctypes.c_float, "f64": ctypes.c_double,
            "i32": ctypes.c_int32, "i64": ctypes.c_int64,
            "index": ctypes.c_int64}
_OPERATORS = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b,
              "mod": lambda a, b: a % b, "floordiv": lambda a, b: a // b,
              "ceildiv": lambda a, b: -(-a // b)}


def _evaluate(value, symbols):
    """A number, a symbol, or an operator with two of these."""
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return symbols[int(value[1:])]
    operator, left, right = value
    return _OPERATORS[operator](_evaluate(left, symbols),
                                _evaluate(right, symbols))


@functools.lru_cache(maxsize=None)
def _plan():
    return json.loads((Path(__file__).parent / "plan.json").read_text())


@functools.lru_cache(maxsize=None)
def _driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RuntimeError(f"no driver of CUDA: {error}") from error


def _call(name, *arguments):
    code = getattr(_driver(), name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(text))
        reason = (text.value or b"unknown error").decode()
        raise RuntimeError(f"{name}: error {code}, {reason}")


_FUNCTIONS = {}
_LOCK = threading.Lock()


def _functions(index):
    """The kernels on a device, loaded when they are first needed."""
    with _LOCK:
        if index not in _FUNCTIONS:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("the kernel is not loaded yet, and can not "
                                   "be while a graph is captured; call the "
                                   "layer once before")
            modules = []
            for name in _plan()["ptx"]:
                handle = ctypes.c_void_p()
                image = (Path(__file__).parent / name).read_bytes() + b"\0"
                _call("cuModuleLoadData", ctypes.byref(handle), image)
                modules.append(handle)
            found = []
            for launch in _plan()["cuda"]["launches"]:
                handle = ctypes.c_void_p()
                _call("cuModuleGetFunction", ctypes.byref(handle),
                      modules[launch.get("module", 0)],
                      launch["kernel"].encode())
                shared = launch.get("shared_bytes", 0)
                if shared:
                    _call("cuFuncSetAttribute", handle, _MAX_DYNAMIC_SHARED,
                          shared)
                found.append(handle)
            _FUNCTIONS[index] = found
        return _FUNCTIONS[index]


def _check(tensors):
    """Holds tensors against the types of the kernel's arguments."""
    arguments = _plan()["arguments"]
    for argument, tensor in zip(arguments, tensors):
        what = f"parameter '{argument['parameter']}'" \
            if "parameter" in argument else "an input"
        wanted, shape = argument["shape"], tuple(tensor.shape)
        if tensor.dtype != _TYPES[argument["type"]] \
                or len(wanted) != len(shape) \
                or any(a not in (-1, b) for a, b in zip(wanted, shape)):
            raise RuntimeError(
                f"{what} is {tensor.dtype} {shape}; the kernel is for "
                f"{argument['type']} {wanted}, where -1 is any size")
        if tensor.device != tensors[0].device or not tensor.is_contiguous():
            raise RuntimeError(f"{what} is on {tensor.device} with the "
                               f"strides {tensor.stride()}; expected a "
                               f"contiguous tensor on {tensors[0].device}")


def _launch_all(tensors, out):
    cuda = _plan()["cuda"]
    symbols = [tensors[argument].shape[dim]
               for argument, dim in cuda["symbols"]]
    ends = [0]
    for size in cuda["workspace"]:
        size = _evaluate(size, symbols)
        ends.append(ends[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
    workspace = torch.empty(ends[-1], dtype=torch.uint8, device=out.device)
    pointers = [tensor.data_ptr() for tensor in (*tensors, out)]
    stream = torch.cuda.current_stream(out.device).cuda_stream
    functions = _functions(out.device.index)
    for function, launch in zip(functions, cuda["launches"]):
        values = []
        for argument in launch["args"]:
            if "tensor" in argument:
                values.append(ctypes.c_void_p(pointers[argument["tensor"]]))
            elif "workspace" in argument:
                values.append(ctypes.c_void_p(
                    workspace.data_ptr() + ends[argument["workspace"]]
                    + argument.get("offset", 0)))
            elif "value" in argument:
                values.append(_NUMBERS[argument["type"]](argument["value"]))
            else:
                kind = ctypes.c_int32 if argument.get("bytes") == 4 \
                    else ctypes.c_int64
                values.append(kind(_evaluate(argument["size"], symbols)))
        array = (ctypes.c_void_p * len(values))(*(
            ctypes.cast(ctypes.byref(value), ctypes.c_void_p)
            for value in values))
        grid = [_evaluate(size, symbols) for size in launch["grid"]]
        _call("cuLaunchKernel", function, *map(ctypes.c_uint, grid),
              *map(ctypes.c_uint, launch["block"]),
              ctypes.c_uint(launch.get("shared_bytes", 0)),
              ctypes.c_void_p(stream), array, None)


def _result_shape(inputs):
    if _plan()["rows"]:
        # Rows in any number of dimensions.
        return [*inputs[0].shape[:-1], _plan()["result"]["shape"][-1]]
    return [size if isinstance(size, int) else inputs[size[0]].shape[size[1]]
            for size in _plan()["result"]["shape"]]


def _run(inputs, parameters):
    shape = _result_shape(inputs)
    out = torch.empty(shape, dtype=_TYPES[_plan()["result"]["type"]],
                      device=inputs[0].device)
    if _plan()["rows"]:
        inputs = [t.reshape(-1, t.shape[-1]) for t in inputs]
    tensors = [*(t.contiguous() for t in inputs), *parameters]
    _check(tensors)
    if out.numel():
        with torch.cuda.device(out.device):
            _launch_all(tensors, out.view(-1, shape[-1])
                        if _plan()["rows"] else out)
    return out


def _elsewhere(inputs, parameters):
    raise RuntimeError("this kernel is PTX and runs on CUDA; an input is on "
                       f"{inputs[0].device}")


def _shape(inputs, parameters):
    return inputs[0].new_empty(_result_shape(inputs),
                               dtype=_TYPES[_plan()["result"]["type"]])


@functools.lru_cache(maxsize=None)
def define():
    """Registers the op of this version of the kernel; several may be in a
    process. Returns it, the names of its parameters, and what keeps it."""
    name = re.sub(r"\W", "_", __package__ or "fuse_kernel")
    library = torch.library.Library(name, "DEF")
    library.define("call(Tensor[] inputs, Tensor[] parameters) -> Tensor")
    library.impl("call", _run, "CUDA")
    library.impl("call", _elsewhere, "CPU")
    torch.library.register_fake(f"{name}::call", _shape, lib=library)
    return getattr(torch.ops, name).call, _plan()["parameters"], library


def _parameter(module, name):
    """`a.b.weight`, or rows of it, `a.b.weight[0:64]`."""
    path, _, rows = name.partition("[")
    value = functools.reduce(getattr, path.split("."), module)
    if rows:
        first, _, last = rows.rstrip("]").partition(":")
        value = value[int(first):int(last)]
    return value


def call(module, inputs, operator, names):
    """The result of the kernel with the parameters of a module, by `names`.

    Raises:
        RuntimeError: an input or parameter is not what the kernel is for, or
            gradients are needed.
    """
    parameters = [_parameter(module, name) for name in names]
    if torch.is_grad_enabled() and any(
            t.requires_grad for t in (*inputs, *parameters)):
        raise RuntimeError("this kernel has no backward pass; use "
                           "torch.no_grad()")
    return operator(list(inputs), parameters)
