# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled code on a device, with its weights and workspaces."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from ctypes import (
    POINTER,
    byref,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
    sizeof,
)

import torch

from fuse_mlir.errors import NativeError
from fuse_mlir.native.bindings import (
    DLPACK_CPU,
    DLPACK_CUDA,
    CSignature,
    DLTensor,
    Handle,
    LaunchArgs,
    Signature,
    check,
    library,
    library_with_lock,
    tensor_type_of,
    tensor_view,
    tensor_views,
)
from fuse_mlir.native.call_extension import Launcher, extension
from fuse_mlir.support.arguments import require, require_device

# Key of the workspace of captured graphs. Other keys are addresses of streams.
_GRAPHS = -1


# FUSE_LAUNCH_ORDERED: PyTorch orders graphs that share memory.
_ORDERED = 2


_DEVICES: dict[tuple[str, int], Handle] = {}


_LOCK = threading.Lock()


def set_num_threads(count: int = 0) -> None:
    """Sets the number of threads of a launch on the CPU, including the caller.

    Results do not depend on it.

    Args:
        count: 1 to 1024. 0 restores the initial number, which is that of
            `FUSE_NUM_THREADS` or else of the processors of the process.
    """
    require(count, int, "argument 'count'", "a number of threads")
    check(library().fuse_set_num_threads(c_uint32(count)))


def num_threads() -> int:
    """Number of threads of a launch on the CPU."""
    count = c_uint32()
    check(library().fuse_num_threads(byref(count)))
    return count.value


def device_handle(kind: str, index: int) -> c_void_p:
    """One handle per device and process."""
    if kind not in ("cpu", "cuda"):
        raise NativeError(f"no code for device '{kind}'; expected cpu or cuda")
    with _LOCK:
        if (kind, index) not in _DEVICES:
            lib, device = library(), c_void_p()
            if kind == "cpu":
                check(lib.fuse_device_open_cpu(byref(device)))
            else:
                check(lib.fuse_device_open_cuda(c_int32(index), byref(device)))
            _DEVICES[kind, index] = Handle("device", device)
        return _DEVICES[kind, index].pointer


def set_exclusive(device: torch.device | str, exclusive: bool = True) -> None:
    """Promises that kernels with waiting blocks never run at the same time.

    Overlapping launches on this GPU then need not be cooperative.
    `fuse_device_set_exclusive` in `fuse-c/Runtime.h` lists the requirements.
    Each call forgets the stream of the last launch. Call it again after a
    change between streams that PyTorch has ordered.

    Args:
        device: such as `cuda:0`.
        exclusive: whether the promise holds from now on.

    Raises:
        NativeError: the device is the CPU, or the GPU does not exist.
    """
    device = require_device(device)
    check(
        library().fuse_device_set_exclusive(
            device_handle(device.type, device.index or 0), c_int32(exclusive)
        )
    )


class SharedWeights:
    """Packed weights that instances on one device share.

    They are found by the addresses of tensors, so that changed weights need
    another object.
    """

    def __init__(self) -> None:
        made = c_void_p()
        check(library().fuse_shared_weights_create(byref(made)))
        self.handle = Handle("shared_weights", made)


class Workspaces:
    """Scratch memory of the instances of a program.

    Launches on one stream run one after the other, so they share a workspace,
    also across instances. All captured graphs share another workspace, so they
    must not replay at the same time.
    """

    def __init__(self) -> None:
        #: Held while the kernels of a launch are enqueued on a stream.
        self.lock = threading.Lock()
        self._held: dict[int, tuple[int, Handle | None]] = {}
        self._kept: list[Handle | None] = []

    def take(
        self, instance: c_void_p, size: int, stream: int, capturing: bool
    ) -> Handle | None:
        """A workspace of at least `size` bytes for a launch.

        Raises:
            NativeError: a graph is being captured, so that nothing can be
                allocated, and no workspace is large enough.
        """
        if not capturing:
            self._reserve(instance, _GRAPHS, size)
            return self._reserve(instance, stream, size)
        most, workspace = self._held.get(_GRAPHS, (0, None))
        if most < size:
            raise NativeError(
                "a graph is captured before the kernel ran with inputs "
                "of this size; call the model once before capturing it"
            )
        return workspace

    def _reserve(
        self, instance: c_void_p, key: int, size: int
    ) -> Handle | None:
        most, workspace = self._held.get(key, (0, None))
        if most < size:
            if key == _GRAPHS:
                # A graph may still use the smaller workspace.
                self._kept.append(workspace)
            workspace = self._create(instance, size)
            self._held[key] = size, workspace
        return workspace

    @staticmethod
    def _create(instance: c_void_p, size: int) -> Handle:
        made = c_void_p()
        check(
            library().fuse_workspace_create(
                instance, c_size_t(size), byref(made)
            )
        )
        return Handle("workspace", made)


def _take_workspace(
    workspaces: Workspaces, instance: Handle, size: int, stream: int
) -> tuple[int, Handle]:
    """The address of a workspace, and what keeps it alive."""
    with workspaces.lock:
        found = workspaces.take(instance.pointer, size, stream, False)
    assert found is not None and found.pointer.value is not None
    return found.pointer.value, found


class Program:
    """Code on a device."""

    def __init__(self, pointer: c_void_p) -> None:
        self._handle = Handle("program", pointer)
        self._workspaces = Workspaces()

    def signature(self) -> Signature:
        """The signature of the first function."""
        found = CSignature()
        check(
            library().fuse_program_signature(
                self._handle.pointer, c_size_t(0), byref(found)
            )
        )
        return Signature(
            found.name.decode(),
            tuple(map(tensor_type_of, found.arguments[: found.num_arguments])),
            tuple(map(tensor_type_of, found.results[: found.num_results])),
            found.max_tokens,
        )

    def scales(self) -> list[float]:
        """The static scales of the only function, each value once, as they
        were compiled; empty if code has none as data."""
        values, count = POINTER(c_float)(), c_size_t()
        check(
            library().fuse_program_scales(
                self._handle.pointer, c_size_t(0), byref(values), byref(count)
            )
        )
        return values[: count.value] if count.value else []

    def instance(self) -> Instance:
        """A new instance of the only function, without weights."""
        instance = c_void_p()
        check(
            library().fuse_instance_create(
                self._handle.pointer, None, byref(instance)
            )
        )
        signature = self.signature()
        return Instance(
            instance,
            [len(r.shape) for r in signature.results],
            signature.max_tokens,
            self._workspaces,
        )


class Instance:
    """A function with references to its weights.

    Args:
        pointer: the handle.
        ranks: of the results.
        max_tokens: maximum number of rows of a launch; 0 for any number.
        workspaces: shared by all instances of the same code.
    """

    def __init__(
        self,
        pointer: c_void_p,
        ranks: Sequence[int],
        max_tokens: int,
        workspaces: Workspaces,
    ) -> None:
        self.ranks = tuple(ranks)
        self.max_tokens = max_tokens
        self._handle = Handle("instance", pointer)
        self._launcher: Launcher | None = None
        self._weights: dict[str, tuple[torch.Tensor, DLTensor]] = {}
        self._workspaces = workspaces

    def bind(self, parameter: str, tensor: torch.Tensor) -> None:
        """Binds the memory of `tensor`, which is kept alive, to a parameter."""
        require(tensor, torch.Tensor, f"parameter '{parameter}'", "a tensor")
        tensor = tensor.detach()
        view = tensor_view(tensor)
        check(
            library().fuse_instance_bind_parameter(
                self._handle.pointer, parameter.encode(), byref(view)
            )
        )
        self._weights[parameter] = (tensor, view)

    def set_scales(self, scales: Sequence[float]) -> None:
        """Replaces the static scales of later launches.

        Args:
            scales: in the order of `Program.scales`.

        Raises:
            NativeError: there is another number of scales, or one that no
                kernel can use.
        """
        check(
            library().fuse_instance_set_scales(
                self._handle.pointer,
                (c_float * len(scales))(*scales),
                c_size_t(len(scales)),
            )
        )

    def limit_tokens(self, tokens: int) -> None:
        """Promises that launches have at most `tokens` tokens.

        Code for more tokens is not loaded. A prepared instance loads the
        missing code.
        """
        check(
            library().fuse_instance_limit_tokens(
                self._handle.pointer, c_int64(tokens)
            )
        )

    def prepare(self, shared: SharedWeights | None = None) -> None:
        """Packs weights and loads code, which launches must not do."""
        if shared is None:
            check(library().fuse_instance_prepare(self._handle.pointer))
        else:
            check(
                library().fuse_instance_prepare_shared(
                    self._handle.pointer, shared.handle.pointer
                )
            )

    def result_shape(
        self, inputs: Sequence[torch.Tensor], result: int = 0
    ) -> list[int]:
        """Shape of a result for inputs of these shapes."""
        lib, rank = library(), self.ranks[result]
        shape = (c_int64 * max(1, rank))()
        check(
            lib.fuse_instance_result_shape(
                self._handle.pointer,
                tensor_views(inputs),
                c_size_t(len(inputs)),
                c_size_t(result),
                shape,
            )
        )
        return list(shape[:rank])

    def launcher(self, device: torch.device) -> Launcher | None:
        """What launches without ctypes; None where there is no extension."""
        module = extension()
        if self._launcher is None and module is not None:
            self._launcher = module.Launcher(
                self._handle.pointer.value,
                self._handle,
                DLPACK_CUDA if device.type == "cuda" else DLPACK_CPU,
                device.index or 0,
                functools.partial(
                    _take_workspace, self._workspaces, self._handle
                ),
                torch.cuda.is_current_stream_capturing
                if device.type == "cuda"
                else None,
            )
        return self._launcher

    def launch(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        """Runs on contiguous tensors, on the current stream of PyTorch.

        Raises:
            NativeError: a tensor does not fit the signature.
        """
        if outputs and not (
            outputs[0].is_cuda and torch.cuda.is_current_stream_capturing()
        ):
            launcher = self.launcher(outputs[0].device)
            status = launcher.launch(inputs, outputs) if launcher else -1
            if status >= 0:
                check(status)
                return
        self._launch_by_ctypes(inputs, outputs)

    def _launch_by_ctypes(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        lib = library()
        ins, outs = tensor_views(inputs), tensor_views(outputs)
        args = LaunchArgs(
            sizeof(LaunchArgs),
            ins,
            len(inputs),
            outs,
            len(outputs),
            None,
            None,
            0,
        )
        if not (outputs and outputs[0].is_cuda):
            check(lib.fuse_launch(self._handle.pointer, byref(args)))
            return
        args.stream = torch.cuda.current_stream(outputs[0].device).cuda_stream
        capturing = torch.cuda.is_current_stream_capturing()
        if capturing:
            args.flags = _ORDERED
        size = c_size_t()
        check(
            lib.fuse_instance_workspace_size(
                self._handle.pointer, ins, c_size_t(len(inputs)), byref(size)
            )
        )
        # Kernels of two launches must not interleave in one workspace.
        with self._workspaces.lock:
            if size.value:
                workspace = self._workspaces.take(
                    self._handle.pointer,
                    size.value,
                    args.stream or 0,
                    capturing,
                )
                assert workspace is not None
                args.workspace = workspace.pointer
            # Launches of the extension hold Python's lock, and not this one.
            check(
                library_with_lock().fuse_launch(
                    self._handle.pointer, byref(args)
                )
            )
