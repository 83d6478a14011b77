# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for chains of modules: code with weights, called by PyTorch.

A kernel is called as the custom op `fuse_mlir::call`, whose arguments are the
inputs of the chain and the parameters of its members. Thus torch.compile and
torch.export see every tensor that it reads. The backward pass computes the
chain again and returns its gradients.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias, TypeVar

import torch
from torch import nn

from fuse_mlir import native
from fuse_mlir.compiler.chains import Compiled, is_dense
from fuse_mlir.compiler.copies import Copies
from fuse_mlir.compiler.description import describe
from fuse_mlir.compiler.exports import owner_of, rows, rows_of
from fuse_mlir.errors import KernelError
from fuse_mlir.quantized.stored import StoredLinear
from fuse_mlir.support.clone import clone
from fuse_mlir.support.module_snapshot import is_exporting

#: Number of rows up to which a GPU has kernels from the start. Kernels for more
#: rows are loaded on demand, because the driver compiles them for seconds.
FEW_ROWS = 128


T = TypeVar("T")

#: A tensor; or a module, the name of its attribute and a slice of rows.
WeightSource: TypeAlias = "torch.Tensor | tuple[nn.Module, str, Any]"

#: The kernel that this thread has validated; its call skips the second check.
_ASKED = threading.local()


def _tensor_of(source: WeightSource) -> torch.Tensor:
    """The tensor itself, or rows of the attribute of a module as it is now."""
    if isinstance(source, torch.Tensor):
        return source
    owner, attribute, part = source
    return rows(getattr(owner, attribute), part)


class Packed:
    """Packed weights that kernels of the same weights share."""

    def __init__(self) -> None:
        self.weights = native.SharedWeights()
        self._of: list[tuple[int, int]] | None = None

    def require(self, weights: list[tuple[int, int]]) -> None:
        """Drops packed weights if they were packed from other weights.

        Args:
            weights: address and version of each weight.
        """
        if self._of is not None and self._of != sorted(weights):
            self.weights = native.SharedWeights()
        self._of = sorted(weights)

    def forget(self) -> None:
        """Drops all packed weights."""
        self.weights = native.SharedWeights()
        self._of = None


class Kernel:
    """Code for one chain on one device, with the weights of its members.

    Args:
        site: id of the site, for messages.
        chain: members whose parameters the code reads in place.
        compiled: the code.
        device: where it runs.
        copies: the sources of the members, if they are copies of modules of
            the model.
        shared: a kernel of the same weights, whose packed weights are used.
    """

    _ids = itertools.count(1)
    _all: weakref.WeakValueDictionary[int, Kernel] = (
        weakref.WeakValueDictionary()
    )

    def __init__(
        self,
        site: str,
        chain: nn.Module,
        compiled: Compiled,
        device: torch.device,
        copies: Copies | None = None,
        shared: Kernel | None = None,
    ) -> None:
        _register()
        self.site = site
        self.chain = chain
        self.compiled = compiled
        self.device = device
        self.id = next(Kernel._ids)
        Kernel._all[self.id] = self
        # Scheduled kernels of GPUs expect inputs [rows, features].
        self._flat = (
            device.type == "cuda" and compiled.by_rows
            if compiled.given is None
            else compiled.given_rows
        )
        self._code = (
            compiled.for_rows(chain)
            if self._flat and compiled.given is None
            else compiled
        )
        # Held while weights are bound, and while a launch is made again.
        self._lock = threading.RLock()
        self._instance: native.Instance | None = None
        #: Number of rows up to which kernels are loaded.
        self._limit = sys.maxsize
        self._packed: Packed = shared._packed if shared else Packed()
        #: Rows above which the members are faster; None if never.
        self.most_rows = _most_rows(compiled)
        #: The kernel with residual adds, if `inductor_options` made one.
        self.residual: Kernel | None = None
        #: Callback: whether the members are still those of the kernel.
        self.owner: weakref.WeakMethod | None = None
        self._base = weakref.ref(shared or self)
        self._names = list(compiled.parameters)
        self._types = list(compiled.parameters.values())
        self._sources = [self._find(name) for name in self._names]
        self._ties = [
            (self._find(name), self._find(owner))
            for name, owner in compiled.aliases.items()
        ]
        self._copies = copies or Copies([], [])
        self._copied: list[tuple[int, int]] | None = self._copies.state()
        #: Whether weights are stored in 8 bits and have no gradients.
        self.stored = any(isinstance(m, StoredLinear) for m in chain.modules())
        #: Address and version of each weight that the code reads.
        self._bound = self._nothing_bound()
        self._check(self.weights())

    @functools.cached_property
    def described(self) -> str | None:
        """The description for exported programs; None for code from files."""
        if self.compiled.given is not None:
            return None
        return describe(
            self.site,
            self.compiled,
            self._code.formed if self._flat else None,
        )

    @classmethod
    def by_id(cls, number: int) -> Kernel:
        """The kernel with a number, which is an argument of the op.

        Raises:
            KernelError: the kernel is of another process, or was deleted.
        """
        kernel = cls._all.get(number)
        if kernel is None:
            raise KernelError(
                f"no kernel {number} in this process: programs with fused "
                "modules refer to kernels of the process that fused them; "
                "unfuse before saving a program"
            )
        return kernel

    @classmethod
    def all(cls) -> list[Kernel]:
        """Kernels of this process."""
        return list(cls._all.values())

    @property
    def instance(self) -> native.Instance | None:
        """The code with the weights; None before the first call."""
        return self._instance

    @property
    def most_loaded(self) -> int:
        """Most rows whose kernels are loaded."""
        return self._limit

    @property
    def by_rows(self) -> bool:
        """Whether inputs are rows of one dimension for the code."""
        return self._flat

    def bound_tensors(self) -> Iterator[tuple[nn.Module, str, int, int]]:
        """The modules and attributes that weights are from, with the addresses
        and versions that the next launch expects; -1 for a version that does
        not count."""
        for source, (address, version) in zip(self._sources, self._bound):
            # Constants belong to the kernel.
            if not isinstance(source, torch.Tensor):
                owner, name, part = source
                whole = getattr(owner, name)
                offset = rows(whole, part).data_ptr() - whole.data_ptr()
                yield owner, name, address - offset, version
        for (owner, name, values), (address, version) in zip(
            self._copies.watched, self._copied or []
        ):
            yield owner, name, address, version if values else -1
        # Weights that were one tensor have to stay one.
        for tie in self._ties:
            for source in tie:
                if not isinstance(source, torch.Tensor):
                    owner, name, _ = source
                    yield owner, name, getattr(owner, name).data_ptr(), -1

    def originals(self) -> list[torch.Tensor]:
        """Tensors of the model that are the weights or their sources."""
        owners = [s[:2] for s in self._sources if isinstance(s, tuple)]
        owners += [watched[:2] for watched in self._copies.watched]
        return [getattr(owner, name) for owner, name in owners]

    def refresh(self) -> None:
        """Reads the weights again, whether they changed or not."""
        if self._copies.watched:
            # The next call makes a kernel with new copies.
            self._copied = None
            return
        self._bound = self._nothing_bound()
        self._packed.forget()
        self._check(self.weights())

    def _nothing_bound(self) -> list[tuple[int, int]]:
        return [(0, -1)] * len(self._names)

    @property
    def note(self) -> str:
        """How the kernel differs from the members, and which calls run the
        members, without a measurement; empty if neither applies."""
        rows = (
            ""
            if self.most_rows is None
            else (
                f"for up to {self.most_rows} rows; calls with more run the "
                "experts as they are, which is faster"
            )
        )
        return "; ".join(filter(None, (self._copies.note, rows)))

    @property
    def copies_note(self) -> str:
        """How the copies differ from the members."""
        return self._copies.note

    @property
    def experts(self) -> int:
        """Number of experts; 0 without experts."""
        return _experts(self.compiled)

    def _find(
        self, name: str
    ) -> tuple[nn.Module, str, slice | None] | torch.Tensor:
        if name in self.compiled.constants:
            return self.compiled.constants[name].to(self.device)
        owner = owner_of(self.chain, name)
        if owner is None:
            raise KernelError(
                f"the members of site '{self.site}' have no parameter '{name}'"
            )
        whole, part = rows_of(name)
        attribute = whole.rpartition(".")[2]
        if attribute == "weight" and isinstance(owner, StoredLinear):
            attribute = "stored"
        return owner, attribute, part

    def weights(self) -> list[torch.Tensor]:
        """Parameters that the code reads, as they are now."""
        # torch.compile enters each function that this one calls.
        return [
            getattr(source[0], source[1])
            if isinstance(source, tuple) and source[2] is None
            else _tensor_of(source)
            for source in self._sources
        ]

    def _bind(
        self, instance: native.Instance, weights: Sequence[torch.Tensor]
    ) -> None:
        for name, weight in zip(self._names, weights):
            instance.bind(name, weight)
        instance.prepare(self._packed.weights)

    def matches(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether the code is for inputs of these types."""
        types = self.compiled.inputs
        if self._is_outdated():
            return False
        # A linear may lose its bias.
        if any(
            isinstance(source, tuple)
            and getattr(source[0], source[1], None) is None
            for source in self._sources
        ):
            return False
        if any(
            _tensor_of(a).data_ptr() != _tensor_of(b).data_ptr()
            for a, b in self._ties
        ):
            return False
        return len(types) == len(inputs) and all(
            is_dense(t)
            and t.dtype == i.dtype
            and t.dim() == i.rank
            and t.shape[-1] == i.features
            and t.device == self.device
            for t, i in zip(inputs, types)
        )

    def _ask(self, inputs: Sequence[torch.Tensor]) -> None:
        """Checks members and copies, as eager calls do earlier.

        Code of torch.compile knows neither the members nor the sources of
        copies.
        """
        if self._is_outdated():
            raise KernelError(
                f"weights of site '{self.site}' changed after they were "
                "stored in 8 bits; call the model once without torch.compile, "
                "which stores them again"
            )
        base = self._base()
        still_has = base.owner() if base and base.owner else None
        if (
            base
            and still_has
            and not still_has(base, inputs[: len(base.compiled.inputs)])
        ):
            raise KernelError(
                f"members of site '{self.site}' changed after torch.compile "
                "saw them; the next call compiles them again"
            )

    def _is_outdated(self) -> bool:
        """Whether the weights changed after they were copied."""
        return (
            bool(self._copies.watched) and self._copies.state() != self._copied
        )

    def computes(self, compiled: Compiled, same_modules: bool) -> bool:
        """Whether the kernel has that code and reads the current weights.

        Args:
            compiled: the code that the members have now.
            same_modules: whether the members still consist of the same
                modules.
        """
        if self._copies.watched and (not same_modules or self._is_outdated()):
            return False
        constants = self.compiled.constants
        return (
            compiled.same_as(self.compiled)
            and compiled.given is self.compiled.given
            and compiled.aliases == self.compiled.aliases
            and all(
                compiled.constants[name] is constants[name]
                for name in constants
            )
            and all(
                a is b or isinstance(a, tuple) and a[0] is b[0]
                for a, b in zip(map(self._find, self._names), self._sources)
            )
        )

    def run(
        self, inputs: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """`run_all` of a kernel with one result."""
        return self.run_all(inputs, weights)[0]

    def run_all(
        self, inputs: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Launches on the current stream; returns all results.

        Only inputs with gaps, or without the alignment that a GPU needs for
        vector loads, are copied.

        Raises:
            KernelError: the members or weights changed.
        """
        if getattr(_ASKED, "kernel", None) != self.id:
            self._ask(inputs)
        _ASKED.kernel = None
        inputs = [
            native.aligned(t) if self._flat else t.contiguous() for t in inputs
        ]
        outs = [
            torch.empty(
                result.shape(inputs), dtype=result.dtype, device=self.device
            )
            for result in self.compiled.results
        ]
        try:
            self._launch(self._check(weights), inputs, outs)
        except native.NativeError as error:
            if error.status != "FUSE_ERROR_STATE":
                raise
            # Another thread bound other weights after this one had looked.
            with self._lock:
                self._launch(self._check(weights), inputs, outs)
        return outs

    def _launch(
        self,
        instance: native.Instance,
        inputs: Sequence[torch.Tensor],
        outs: Sequence[torch.Tensor],
    ) -> None:
        if outs[0].numel() == 0:
            return
        if not self._flat:
            instance.launch(inputs, outs)
            return
        rows = [t.view(-1, t.shape[-1]) for t in inputs]
        results = [t.view(-1, t.shape[-1]) for t in outs]
        count = len(results[0])
        # The launch selects the kernels for its number of rows.
        most = instance.max_tokens or count
        if min(count, most) > self._limit:
            self.load_up_to(min(count, most))
        for start in range(0, count, most):
            part = slice(start, start + most)
            instance.launch([t[part] for t in rows], [t[part] for t in results])

    def load(self, rows: int) -> None:
        """Loads the kernels for a call with `rows` rows. A captured graph
        cannot load them."""
        if self._flat and rows > self._limit and self._instance is not None:
            self.load_up_to(rows)

    def load_up_to(self, rows: int) -> None:
        """Loads the kernels for up to `rows` rows, rounded up to a power of
        two, and waits for them.

        Raises:
            KernelError: a graph is captured on the current stream.
        """
        if (
            self.device.type == "cuda"
            and torch.cuda.is_current_stream_capturing()
        ):
            raise KernelError(
                f"site '{self.site}' has no kernel for {rows} rows yet, and "
                "none can be loaded while a graph is captured; call the model "
                "once with this input before"
            )
        with self._lock:
            if self._instance is None or rows <= self._limit:
                return
            limit = 1 << (rows - 1).bit_length()
            if limit >= (self._instance.max_tokens or sys.maxsize):
                limit = sys.maxsize
            self._instance.limit_tokens(limit)
            self._limit = limit

    def _check(self, weights: Sequence[torch.Tensor]) -> native.Instance:
        """Binds weights again that moved or changed, because kernels pack them.

        Returns:
            The instance to launch.
        """
        now = [
            (w.data_ptr(), 0 if w.is_inference() else w._version)
            for w in weights
        ]
        instance = self._instance
        if now == self._bound and instance is not None:
            return instance
        with self._lock:
            for name, weight, (dtype, shape) in zip(
                self._names, weights, self._types
            ):
                if weight.dtype != dtype or tuple(weight.shape) != shape:
                    raise KernelError(
                        f"parameter '{name}' of site '{self.site}' is "
                        f"{weight.dtype} {tuple(weight.shape)}, the kernel is "
                        f"for {dtype} {shape}; unfuse and fuse again"
                    )
                if weight.device != self.device:
                    raise KernelError(
                        f"parameter '{name}' of site '{self.site}' is on "
                        f"{weight.device}, the kernel on {self.device}"
                    )
                if type(weight).__name__ == "DTensor":
                    raise KernelError(
                        f"parameter '{name}' of site '{self.site}' is a "
                        "DTensor now; unfuse the site"
                    )
                if not weight.is_contiguous():
                    raise KernelError(
                        f"parameter '{name}' of site '{self.site}' has the "
                        f"strides {weight.stride()}; expected a contiguous "
                        "tensor, because kernels read it where it is"
                    )
            wait_for_writes(self.site, self.device)
            if self._instance is None:
                self._instance = self._code.instance(self.device)
                if self._flat and self._instance.max_tokens > FEW_ROWS:
                    self._instance.limit_tokens(FEW_ROWS)
                    self._limit = FEW_ROWS
            self._packed.require(now)
            self._bind(self._instance, weights)
            self._bound = now
            return self._instance

    def recompute(
        self, inputs: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """`recompute_all` of a chain with one result."""
        return self.recompute_all(inputs, weights)[0]

    def recompute_all(
        self, inputs: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The results of the chain itself on these inputs and weights."""
        values: dict[str, torch.Tensor] = {}
        parts: dict[str, dict[int, torch.Tensor]] = {}
        for name, weight, source in zip(self._names, weights, self._sources):
            if isinstance(source, torch.Tensor):
                continue
            whole, part = rows_of(name)
            if part is None:
                values[whole] = weight
            else:
                parts.setdefault(whole, {})[part.start] = weight
        for whole, cut in parts.items():
            values[whole] = torch.cat([cut[start] for start in sorted(cut)])
        chain = clone(self.chain) if self.compiled.clones else self.chain
        result = torch.func.functional_call(chain, values, tuple(inputs))
        return [result] if isinstance(result, torch.Tensor) else list(result)


def outside_of_ops(device: torch.device, function: Callable[[], T]) -> T:
    """The result of `function`, which runs in another thread.

    Exporting a module fails inside an op of PyTorch.
    """

    def run() -> T:
        if device.type != "cuda":
            return function()
        with torch.cuda.stream(stream):
            return function()

    stream = (
        torch.cuda.current_stream(device) if device.type == "cuda" else None
    )
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def wait_for_writes(site: str, device: torch.device) -> None:
    """Waits until all writes to weights are complete.

    The runtime does not order packing after the stream that writes weights.

    Raises:
        KernelError: a graph is being captured, which cannot wait.
    """
    if device.type != "cuda":
        return
    if torch.cuda.is_current_stream_capturing():
        raise KernelError(
            f"weights of site '{site}' are new or changed, and none can be "
            "packed while a graph is captured; call the model once before"
        )
    torch.cuda.current_stream(device).synchronize()


def _experts(compiled: Compiled) -> int:
    return (
        max(shape[0] for _, shape in compiled.parameters.values())
        if "moe_experts" in compiled.families
        else 0
    )


def _most_rows(compiled: Compiled) -> int | None:
    """Number of rows above which the members of experts are faster.

    The kernel reads an expert once for each token that is routed to it. That
    costs nothing extra while most tokens have different experts.
    """
    if compiled.given is not None or "moe_experts" not in compiled.families:
        return None
    return max(1, _experts(compiled) // compiled.inputs[1].features)


@functools.cache
def _register() -> torch.library.Library:
    """Defines the custom op, once."""
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.utils.flop_counter import register_flop_formula

    # Fused optimizers write weights without changing their versions.
    register_optimizer_step_post_hook(count_step)
    library = torch.library.Library("fuse_mlir", "DEF")
    for name, result, run, fake in (
        ("call", "Tensor", _call, _fake),
        ("call_all", "Tensor[]", _call_all, _fake_all),
    ):
        library.define(
            f"{name}(Tensor[] inputs, Tensor[] weights, int kernel) -> "
            + result,
            tags=(torch.Tag.needs_fixed_stride_order,),
        )
        library.impl(name, run, "CPU")
        library.impl(name, run, "CUDA")
        torch.library.register_fake(f"fuse_mlir::{name}", fake, lib=library)
        torch.library.register_autograd(
            f"fuse_mlir::{name}", _backward, setup_context=_save, lib=library
        )
        register_flop_formula(getattr(torch.ops.fuse_mlir, name), get_raw=True)(
            _flops
        )
    return library


def _flops(
    inputs: list[torch.Tensor],
    weights: list[torch.Tensor],
    kernel: int,
    **_kwargs: object,
) -> int:
    """The operations that the members would count."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        Kernel.by_id(kernel).recompute_all(inputs, weights)
    return counter.get_total_flops()


def call(kernel: Kernel, inputs: list[torch.Tensor]) -> torch.Tensor:
    """`call_all` of a kernel with one result."""
    return call_all(kernel, inputs)[0]


def call_all(
    kernel: Kernel, inputs: list[torch.Tensor]
) -> Sequence[torch.Tensor]:
    """Runs a kernel as an op of PyTorch; returns all results."""
    several = len(kernel.compiled.results) > 1
    ops = torch.ops.fuse_mlir
    if torch.jit.is_tracing() or is_exporting():
        # A program may be run by another process.
        if kernel.described is None:
            raise KernelError(
                f"the kernel of site '{kernel.site}' is code from a file, "
                "which an exported program cannot contain; fuse it with 'fuse', "
                "or unfuse it"
            )
        if several:
            return ops.exported_all(inputs, kernel.weights(), kernel.described)
        return [ops.exported(inputs, kernel.weights(), kernel.described)]
    if several:
        return ops.call_all(inputs, kernel.weights(), kernel.id)
    return [ops.call(inputs, kernel.weights(), kernel.id)]


def call_asked(kernel: Kernel, inputs: list[torch.Tensor]) -> torch.Tensor:
    """`call` of a kernel whose members were just checked."""
    return call_all_asked(kernel, inputs)[0]


def call_all_asked(
    kernel: Kernel, inputs: list[torch.Tensor]
) -> Sequence[torch.Tensor]:
    """`call_all` of a kernel whose members were just checked."""
    _ASKED.kernel = kernel.id
    return call_all(kernel, inputs)


def _call(
    inputs: list[torch.Tensor], weights: list[torch.Tensor], kernel: int
) -> torch.Tensor:
    return Kernel.by_id(kernel).run(inputs, weights)


def _fake(
    inputs: list[torch.Tensor], weights: list[torch.Tensor], kernel: int
) -> torch.Tensor:
    return _fake_all(inputs, weights, kernel)[0]


def _call_all(
    inputs: list[torch.Tensor], weights: list[torch.Tensor], kernel: int
) -> list[torch.Tensor]:
    return Kernel.by_id(kernel).run_all(inputs, weights)


def _fake_all(
    inputs: list[torch.Tensor], weights: list[torch.Tensor], kernel: int
) -> list[torch.Tensor]:
    return [
        inputs[0].new_empty(result.shape(inputs), dtype=result.dtype)
        for result in Kernel.by_id(kernel).compiled.results
    ]


class _Context(Protocol):
    """The context of autograd, with values that the forward pass stores."""

    kernel: Kernel
    count: int
    saved_tensors: tuple[torch.Tensor, ...]

    def save_for_backward(self, *tensors: torch.Tensor) -> None: ...


def _save(ctx: _Context, inputs: tuple, output: object) -> None:
    tensors, weights, kernel = inputs
    # A model may be unfused, or gone, before the backward pass.
    ctx.kernel, ctx.count = Kernel.by_id(kernel), len(tensors)
    ctx.save_for_backward(*tensors, *weights)


def _backward(
    ctx: _Context, gradient: torch.Tensor | Sequence[torch.Tensor | None]
) -> tuple:
    kernel = ctx.kernel
    if kernel.stored:
        raise KernelError(
            f"site '{kernel.site}' has weights that are stored in 8 bits, "
            "through which no gradient goes; unfuse it, or use "
            "torch.no_grad()"
        )
    # With create_graph, gradients have gradients too. Views distinguish
    # tensors that are read twice.
    twice = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = [
            t.view_as(t)
            if twice
            else t.detach().requires_grad_(t.is_floating_point())
            for t in ctx.saved_tensors
        ]
        results = kernel.recompute_all(leaves[: ctx.count], leaves[ctx.count :])
        given = (
            [gradient]
            if isinstance(gradient, torch.Tensor)
            else [g for g in gradient if g is not None]
        )
        if not isinstance(gradient, torch.Tensor):
            # A model may read only some of the results.
            results = [r for r, g in zip(results, gradient) if g is not None]
        wanted = [t for t in leaves if t.requires_grad]
        found = torch.autograd.grad(
            results, wanted, given, create_graph=twice, allow_unused=True
        )
    gradients = iter(found)
    by_leaf = [next(gradients) if t.requires_grad else None for t in leaves]
    return by_leaf[: ctx.count], by_leaf[ctx.count :], None


def count_step(
    optimizer: torch.optim.Optimizer, _args: object, _kwargs: object
) -> None:
    """Changes the versions of weights that a step of an optimizer wrote."""
    # Compiled steps of other optimizers change versions themselves.
    if not torch.compiler.is_compiling() or any(
        group.get("fused") for group in optimizer.param_groups
    ):
        _count(optimizer)


@torch.compiler.disable
def _count(optimizer: torch.optim.Optimizer) -> None:
    held = {id(t) for kernel in Kernel.all() for t in kernel.originals()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) in held and parameter.grad is not None:
                torch.autograd.graph.increment_version(parameter)
