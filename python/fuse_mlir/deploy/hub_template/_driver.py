# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The driver of CUDA, which PyTorch has initialized, through ctypes."""

import ctypes
import functools

_MAX_DYNAMIC_SHARED, _PREFERRED_CARVEOUT = 8, 9
_COOPERATIVE, _CLUSTER, _PROGRAMMATIC = 2, 4, 6
#: Number and bytes of the elements of tensor maps.
MAP_TYPES = {
    "i8": (0, 1),
    "f8E4M3FN": (0, 1),
    "f8E5M2": (0, 1),
    "f16": (6, 2),
    "f32": (7, 4),
    "bf16": (9, 2),
}
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTE_L2_128 = 2


class _Attribute(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_int),
        ("pad", ctypes.c_int),
        ("value", ctypes.c_uint32 * 16),
    ]


class _Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


@functools.cache
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


def load(ptx):
    """A module made of PTX, in the current context."""
    handle = ctypes.c_void_p()
    _call("cuModuleLoadData", ctypes.byref(handle), ptx + b"\0")
    return handle


def function(module, launch):
    """The kernel of a launch.

    Raises:
        RuntimeError: the driver lacks the kernel or enough shared memory, or
            the carveout of the plan is not within 0 to 100. It is the
            percentage of the largest shared memory that the kernel prefers.
    """
    carveout = launch.get("carveout")
    if carveout not in (None, *range(101)):
        raise RuntimeError(
            f"'{launch['kernel']}' has a carveout of "
            f"{carveout}: expected 0 to 100 per cent"
        )
    handle = ctypes.c_void_p()
    _call(
        "cuModuleGetFunction",
        ctypes.byref(handle),
        module,
        launch["kernel"].encode(),
    )
    if launch.get("shared_bytes"):
        _call(
            "cuFuncSetAttribute",
            handle,
            _MAX_DYNAMIC_SHARED,
            launch["shared_bytes"],
        )
    if carveout is not None:
        _call("cuFuncSetAttribute", handle, _PREFERRED_CARVEOUT, carveout)
    return handle


def tensor_map(address, form):
    """A tensor map of a matrix at an address, by the description of a plan."""
    storage = (ctypes.c_uint64 * 24)()
    # The driver requires an alignment of 64 bytes.
    encoded = (ctypes.c_uint64 * 16).from_buffer(
        storage, -ctypes.addressof(storage) % 64
    )
    number, size = MAP_TYPES[form["element"]]
    _call(
        "cuTensorMapEncodeTiled",
        ctypes.byref(encoded),
        ctypes.c_int(number),
        ctypes.c_uint32(2),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * 2)(form["columns"], form["rows"]),
        (ctypes.c_uint64 * 1)(form["columns"] * size),
        (ctypes.c_uint32 * 2)(form["box_columns"], form["box_rows"]),
        (ctypes.c_uint32 * 2)(1, 1),
        ctypes.c_int(0),
        ctypes.c_int(MAP_SWIZZLES[form["swizzle"]]),
        ctypes.c_int(_PROMOTE_L2_128),
        ctypes.c_int(0),
    )
    return encoded


def launch(handle, plan, grid, values, stream, overlaps):
    """Launches a kernel.

    Args:
        handle: of the kernel.
        plan: of the launch.
        grid: three numbers of blocks; if one is 0, nothing is launched.
        values: arguments as ctypes, which are copied.
        stream: a handle.
        overlaps: whether the kernel may start before the previous launch ends.
    """
    if 0 in grid:
        return
    wanted = []
    if overlaps:
        wanted.append((_PROGRAMMATIC, [1]))
    # Blocks that wait for each other must be resident together.
    if plan.get("cooperative"):
        wanted.append((_COOPERATIVE, [1]))
    if plan.get("cluster", [1, 1, 1]) != [1, 1, 1]:
        wanted.append((_CLUSTER, plan["cluster"]))
    attributes = (_Attribute * max(1, len(wanted)))()
    for attribute, (number, numbers) in zip(attributes, wanted):
        attribute.id = number
        attribute.value[: len(numbers)] = numbers
    config = _Config(
        (ctypes.c_uint * 3)(*grid),
        (ctypes.c_uint * 3)(*plan["block"]),
        plan.get("shared_bytes", 0),
        stream,
        attributes,
        len(wanted),
    )
    array = (ctypes.c_void_p * max(1, len(values)))(
        *(ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in values)
    )
    _call("cuLaunchKernelEx", ctypes.byref(config), handle, array, None)
