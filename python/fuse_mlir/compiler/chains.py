# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles chains of modules: exports, imports, forms kernels, makes code.

Code depends on the structure of a chain, not on its weights, so that layers of
one kind share it. `fuse_mlir.compiler.kernels` adds the weights.
"""

from __future__ import annotations

import copy
import functools
import itertools
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from fuse_mlir import errors, native
from fuse_mlir.compiler.exports import InputType, export_chain
from fuse_mlir.compiler.ptx import compile_ptx
from fuse_mlir.compiler.scale_names import (
    stand_in,
    with_scales,
    without_scales,
)
from fuse_mlir.compiler.stored_exports import ResultType
from fuse_mlir.errors import KernelError, PtxError
from fuse_mlir.frontend.walker import storage_key
from fuse_mlir.matching.plans import Plan, run_plan
from fuse_mlir.matching.ptx_kernel import PtxKernel
from fuse_mlir.native.device import gpu_chip
from fuse_mlir.native.refusals import refusal
from fuse_mlir.quantized.stored import Policy
from fuse_mlir.support.module_snapshot import (
    STANDARD,
    has_own_forward,
    leaves,
    plain,
)

RAISE = "builtin.module(fuse-raising-pipeline,canonicalize)"
FORM = "builtin.module(func.func(fuse-form-kernels))"
FUSED_OP = re.compile(
    r"= fuse\.(gated_mlp|mlp|norm_linear|fused_linear|norm_quantize|"
    r"act_quantize|moe_experts|group)\b"
)
#: Ops whose rows do not depend on each other.
ROW_OPS = frozenset(
    f"fuse.{name}"
    for name in (
        "gated_mlp",
        "mlp",
        "norm_linear",
        "fused_linear",
        "norm_quantize",
        "act_quantize",
        "rms_norm",
        "layer_norm",
        "linear",
        "activation",
        "quantize",
    )
)
#: Maximum number of cached kernels, which structurally equal chains share.
CACHE_SIZE = 64


class Chain(nn.Module):
    """Members called as the model calls them.

    Args:
        names: of the members among the children of their parent.
        members: the modules; they do not change, and their hooks do not run.
        plan: the sources of their arguments.
    """

    def __init__(
        self, names: Sequence[str], members: Sequence[nn.Module], plan: Plan
    ) -> None:
        super().__init__()
        self._names = tuple(names)
        # The examples of a plan are of no use here.
        self._plan = Plan(plan.inputs, [], plan.steps, outputs=plan.outputs)
        for name, member in zip(names, members):
            holder: nn.Module = self
            *containers, child = name.split(".")
            for container in containers:
                if container not in holder._modules:
                    holder.add_module(container, nn.Module())
                holder = holder.get_submodule(container)
            holder.add_module(child, member)

    @property
    def num_results(self) -> int:
        """Number of tensors that the chain returns."""
        outputs = self._plan.outputs
        return 1 if outputs is None else len(outputs)

    def forward(
        self, *inputs: torch.Tensor
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        members = [self.get_submodule(name) for name in self._names]
        results = run_plan(members, self._plan, inputs)
        return results[0] if len(results) == 1 else tuple(results)


@dataclass
class Text:
    """The IR of a function."""

    #: With recognized layers, and with the formed kernel.
    layers: str
    formed: str
    remarks: list[native.Remark] = field(default_factory=list)


class _LaterText:
    """The IR of a function with other scales, which few callers read.

    Args:
        source: IR of the importer, with stand-ins for scales.
        scales: the scale of each stand-in.
        shared: the IR with stand-ins.
    """

    def __init__(
        self, source: str, scales: tuple[float, ...], shared: Text
    ) -> None:
        self._source, self._scales = source, scales
        # Remarks on a kernel that has all linears name no scale.
        self.remarks = shared.remarks

    @functools.cached_property
    def _text(self) -> Text:
        return _form(with_scales(self._source, self._scales))

    @property
    def layers(self) -> str:
        return self._text.layers

    @property
    def formed(self) -> str:
        return self._text.formed


@dataclass
class Compiled:
    """The compiled function that structurally equal chains share."""

    #: Type and shape of each parameter, by its name in the chain.
    parameters: dict[str, tuple[torch.dtype, tuple[int, ...]]]
    #: Tensors that a forward refers to and that no module has.
    constants: dict[str, torch.Tensor]
    text: Text | _LaterText
    families: tuple[str, ...]
    inputs: tuple[InputType, ...]
    results: tuple[ResultType, ...]
    #: Objects that the key names by id, kept alive.
    kept: list[Any] = field(default_factory=list)
    #: Other names of tied parameters.
    aliases: dict[str, str] = field(default_factory=dict)
    #: Whether the rows do not depend on each other.
    by_rows: bool = False
    #: Names of the ops of the function, in order.
    ops: tuple[str, ...] = ()
    #: Whether a clone of the chain can use other parameters.
    clones: bool = True
    #: Whether to use no scheduled kernels.
    portable: bool = False
    #: Code from the user, for this function or for the one of rank two.
    given: native.Artifact | None = None
    given_rows: bool = False
    #: IR of the importer.
    source: str = ""
    #: The function with stand-ins for scales, whose code this one uses with
    #: `scales`; None if the code is for this function alone.
    shared: Compiled | None = None
    scales: tuple[float, ...] = ()
    _rows: Compiled | None = None
    _artifacts: dict[Any, native.Artifact] = field(default_factory=dict)
    _programs: dict[Any, native.Program] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    @property
    def layers(self) -> str:
        """IR with recognized layers."""
        return self.text.layers

    @property
    def formed(self) -> str:
        """IR with the formed kernel."""
        return self.text.formed

    @property
    def kind(self) -> str:
        """IR with the formed kernel that functions with other scales share."""
        return (self.shared or self).text.formed

    @property
    def remarks(self) -> list[native.Remark]:
        """Remarks of the compiler on the formed kernel."""
        return self.text.remarks

    def same_as(self, other: Compiled) -> bool:
        """Whether both are one function, whatever code they have."""
        return self.kind == other.kind and (
            self.scales == other.scales
            if self.shared and other.shared
            else self.formed == other.formed
        )

    @property
    def result(self) -> ResultType:
        """Type of the first result, which most chains have alone."""
        return self.results[0]

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the first result."""
        return self.results[0].dtype

    def artifact(self, device: torch.device) -> native.Artifact:
        """Compiles once per kind of device, for any number of tokens.

        Raises:
            KernelError: there is no code for the device.
        """
        if self.given is not None:
            return self.given
        chip = gpu_chip(device) if device.type == "cuda" else ""
        with self._lock:
            if chip not in self._artifacts:
                self._artifacts[chip] = self._compile_for(
                    chip, cached=True, assemble=True
                )
            return self._artifacts[chip]

    def _compile_for(
        self, chip: str, cached: bool = False, assemble: bool = False
    ) -> native.Artifact:
        module = native.Module(self.formed)
        try:
            return module.compile(
                chip=chip,
                portable=self.portable,
                cached=cached,
                assemble=assemble,
            )
        except errors.NativeError as error:
            if not assemble or "ptxas failed" not in str(error):
                raise KernelError(
                    refusal(
                        "no-code",
                        "the compiler makes no code for "
                        f"{chip or 'the CPU'}: {error}",
                    )
                ) from error
            _tell_ptxas(str(error))
        # The driver's own assembler may be newer.
        return self._compile_for(chip, cached)

    def check_code(self, device: torch.device) -> None:
        """Compiles for a device and keeps nothing.

        Raises:
            KernelError: there is no code for the device.
            NativeError: the device cannot load it.
        """
        if self.shared is not None and self.given is None:
            # Other scales will use the code.
            self.shared.program(device)
            return
        artifact = self.given
        if artifact is None:
            chip = gpu_chip(device) if device.type == "cuda" else ""
            artifact = self._compile_for(chip)
        artifact.load_on(device)

    def program(self, device: torch.device) -> native.Program:
        """The code on a device.

        Raises:
            KernelError: there is no code for the device.
            NativeError: the device cannot load it.
        """
        artifact = self.artifact(device)
        with self._lock:
            if device not in self._programs:
                self._programs[device] = artifact.load_on(device)
            return self._programs[device]

    def instance(self, device: torch.device) -> native.Instance:
        """A new instance of the code on a device.

        Raises:
            KernelError: there is no code for the device.
            NativeError: the device cannot load it.
        """
        if self.shared is not None and self.given is None:
            program = self.shared.program(device)
            known = {stand_in(i): s for i, s in enumerate(self.scales)}
            scales = program.scales()
            # Code without scales as data has those of the stand-ins.
            if scales and all(scale in known for scale in scales):
                instance = program.instance()
                instance.set_scales([known[scale] for scale in scales])
                return instance
        return self.program(device).instance()

    def for_rows(self, chain: nn.Module) -> Compiled:
        """The same function for inputs of rank two, [rows, features]."""
        shared = self.shared
        if shared is not None:
            # Without a lock: the other function has one.
            if shared._rows is None:
                found = without_scales([chain])
                assert found is not None
                shared.for_rows(found[0][0])
            assert shared._rows is not None
            if self._rows is None:
                self._rows = shared._rows.with_scales(self.scales)
            return self._rows
        with self._lock:
            if self._rows is None:
                self._rows = _compile(
                    chain, [replace(t, rank=2) for t in self.inputs]
                )
            return self._rows

    def with_scales(self, scales: tuple[float, ...]) -> Compiled:
        """The same function with scales in place of stand-ins."""
        assert isinstance(self.text, Text)
        return replace(
            self,
            text=_LaterText(self.source, scales, self.text),
            shared=self,
            scales=scales,
            _rows=None,
            _artifacts={},
            _programs={},
            _lock=threading.Lock(),
        )

    @property
    def can_share(self) -> bool:
        """Whether functions with other scales have the same kernel."""
        return bool(self.families) and not re.search(
            r"fuse\.(linear|quantize|dequantize)\b", self.formed
        )


@functools.cache
def _tell_ptxas(reason: str) -> None:
    """Warns, once for each reason, that the driver has to assemble kernels."""
    warnings.warn(
        f"'{native.find_ptxas()}' does not assemble kernels, so that the "
        "driver compiles them, and the first calls with other numbers of rows "
        f"take seconds: {reason}",
        errors.FusionWarning,
        stacklevel=2,
    )


_CACHE: OrderedDict[Any, Compiled] = OrderedDict()
_CACHE_LOCK = threading.Lock()


def compile_chain(
    names: Sequence[str],
    members: Sequence[nn.Module],
    plan: Plan,
    inputs: Sequence[InputType],
) -> Compiled:
    """Exports, imports and forms the kernel of a chain.

    Raises:
        KernelError: PyTorch cannot export the members, one of their ops has
            no translation, or no kernel forms; with the location.
        NativeError: libfuse is missing.
    """
    # A missing library is not a property of the members.
    native.library()
    split = without_scales(members)
    if split is not None:
        shared = _compile_once(names, split[0], plan, inputs)
        if shared.can_share:
            return shared.with_scales(split[1])
    return _compile_once(names, members, plan, inputs)


def _compile_once(
    names: Sequence[str],
    members: Sequence[nn.Module],
    plan: Plan,
    inputs: Sequence[InputType],
) -> Compiled:
    """The function of members, which members with the same structure share."""
    kept: list[Any] = []
    key = (
        tuple(names),
        plan.structure(),
        tuple(inputs),
        tuple(structure(m, kept) for m in members),
        _ties(members),
    )
    with _CACHE_LOCK:
        if key in _CACHE:
            _CACHE.move_to_end(key)
            return _CACHE[key]
    compiled = _compile(Chain(names, members, plan), inputs)
    compiled.kept = kept
    with _CACHE_LOCK:
        _CACHE[key] = compiled
        while len(_CACHE) > CACHE_SIZE:
            _CACHE.popitem(last=False)
    return compiled


def from_artifact(
    compiled: Compiled, chain: Chain, path: str, artifact: native.Artifact
) -> Compiled:
    """The same function with the code of an artifact.

    Args:
        compiled: the function as compiled here.
        chain: its members.
        path: of the file, for messages.
        artifact: the code to use.

    Raises:
        KernelError: the file is of another function.
    """
    theirs = native.stamped(artifact.ir())
    if theirs == native.stamped(compiled.formed):
        return with_code(compiled, artifact)
    if compiled.by_rows and theirs == native.stamped(
        compiled.for_rows(chain).formed
    ):
        return with_code(compiled, artifact, rows=True)
    raise KernelError(
        refusal(
            "other-family",
            f"'{path}' is the kernel of another function than "
            "that of the members; export one from a model with these members",
        )
    )


def from_ptx(
    compiled: Compiled, chain: Chain, kernel: PtxKernel, device: torch.device
) -> Compiled:
    """The same function with a PTX kernel of the user as its code.

    Raises:
        KernelError: the kernel is for other devices, or has an argument that
            the function lacks.
        NativeError: the file is missing, or lacks the kernel.
    """
    if device.type != "cuda":
        raise KernelError(
            refusal(
                "kernel-not-for-target",
                f"'{kernel}' is PTX, which runs on CUDA; "
                f"the model is on {device}",
            )
        )
    rows = compiled.by_rows
    code = compiled.for_rows(chain) if rows else compiled
    try:
        artifact = compile_ptx(kernel, code.formed, gpu_chip(device))
    except PtxError as error:
        raise KernelError(refusal("layout-does-not-fit", str(error))) from error
    return with_code(compiled, artifact, rows)


def with_code(
    compiled: Compiled, artifact: native.Artifact, rows: bool = False
) -> Compiled:
    """The same function with code that the user gave.

    Args:
        compiled: the function as compiled here.
        artifact: the code to use.
        rows: whether the code is for inputs of rank two, [rows, features].
    """
    return replace(
        compiled,
        given=artifact,
        given_rows=rows,
        _artifacts={},
        _programs={},
        _lock=threading.Lock(),
    )


def compile_variant(chain: Chain, inputs: Sequence[InputType]) -> Compiled:
    """Code for a chain whose forward is not that of `Chain`.

    Raises:
        KernelError: as `compile_chain`.
    """
    return _compile(chain, inputs)


def structure(module: nn.Module, kept: list[Any], types: bool = True) -> tuple:
    """Everything that an export can depend on, except values of tensors.

    Args:
        module: with its children.
        kept: receives the objects that the result names by id, so that they
            stay alive.
        types: whether dtypes and shapes of tensors count.
    """
    tensors = tuple(
        (name, tensor is None)
        if tensor is None or not types
        else (
            name,
            tensor.dtype,
            tuple(tensor.shape),
            tensor.stride(),
            tensor.device.type,
        )
        for name, tensor in itertools.chain(
            module._parameters.items(), module._buffers.items()
        )
    )
    own: list[tuple] = []
    for name, value in sorted(module.__dict__.items()):
        if name == "forward" and not has_own_forward(module):
            continue
        comparable = plain(value) if name not in STANDARD else None
        if isinstance(value, Policy):
            own.append((name, "Policy", value))
        elif comparable is not None:
            own.append((name, *comparable))
        elif not name.startswith("_"):
            found = [value, *leaves(value)]
            kept.extend(found)
            own.append((name, "object", *map(id, found)))
    children = tuple(
        (name, structure(child, kept, types))
        for name, child in module._modules.items()
        if child is not None
    )
    kind = type(module)
    kept.append(kind.forward)
    return (
        kind,
        id(kind.forward),
        bool(module._forward_pre_hooks),
        module.training,
        tensors,
        tuple(own),
        children,
    )


def _ties(members: Sequence[nn.Module]) -> tuple[int, ...]:
    """For each tensor of the members, the index of the first one with the same
    storage."""
    seen: dict[Any, int] = {}
    return tuple(
        seen.setdefault(id(t) if t.is_meta else storage_key(t), len(seen))
        for member in members
        for module in member.modules()
        for t in itertools.chain(
            module._parameters.values(), module._buffers.values()
        )
        if t is not None
    )


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor is memory with strides."""
    return tensor.layout is torch.strided and not tensor.is_nested


def require_dense(tensors: Sequence[torch.Tensor], what: str) -> None:
    """Refuses sparse and nested tensors.

    Args:
        tensors: of any shape and dtype.
        what: names the function in the message.

    Raises:
        KernelError: a tensor is not memory with strides.
    """
    for tensor in tensors:
        if not is_dense(tensor):
            kind = (
                "a nested tensor"
                if tensor.is_nested
                else f"of layout {tensor.layout}"
            )
            raise KernelError(
                refusal(
                    "unsupported-argument",
                    f"an input of {what} is {kind}; expected a dense tensor",
                )
            )


def input_types(examples: Sequence[torch.Tensor]) -> tuple[InputType, ...]:
    """Types of the inputs of a chain, from one call of it.

    Raises:
        KernelError: an input has no dimensions, or is not dense.
    """
    require_dense(examples, "the chain")
    for tensor in examples:
        if tensor.dim() < 1:
            raise KernelError(
                refusal(
                    "unsupported-argument",
                    "an input of the chain has no "
                    "dimension; expected rows of features",
                )
            )
    return tuple(
        InputType(t.dim(), int(t.shape[-1]), t.dtype) for t in examples
    )


def _form(source: str) -> Text:
    """IR of the importer with recognized layers, and with the formed kernel.

    Raises:
        KernelError: the compiler refuses it.
    """
    try:
        module = native.Module(source)
        module.run(RAISE)
        layers = module.text()
        module.run(FORM)
        return Text(layers, module.text(), module.remarks)
    except errors.NativeError as error:
        raise KernelError(
            refusal("no-code", f"the compiler refuses the members: {error}")
        ) from error


def _compile(chain: nn.Module, inputs: Sequence[InputType]) -> Compiled:
    if any(
        t.is_meta for t in itertools.chain(chain.parameters(), chain.buffers())
    ):
        # Tensors on the meta device have no storage to compare.
        chain = copy.deepcopy(chain).to_empty(device="cpu")
    exported = export_chain(chain, inputs)
    found = exported.description
    text = _form(found.text)
    formed = text.formed
    families = tuple(dict.fromkeys(FUSED_OP.findall(formed)))
    ops = re.findall(r"^ +%[^=]*= ([\w.]+)", formed, re.MULTILINE)
    by_rows = bool(families) and ROW_OPS.issuperset(ops)
    return Compiled(
        found.parameters,
        exported.constants,
        text,
        families,
        tuple(inputs),
        found.results,
        aliases=found.aliases,
        by_rows=by_rows,
        ops=tuple(ops),
        clones=exported.clones,
        source=found.text,
    )
