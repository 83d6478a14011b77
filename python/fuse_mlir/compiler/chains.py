# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles chains of modules: exports, imports, forms kernels, makes code.

Code depends on the structure of a chain, not on its weights, so that layers of
one kind share it. `fuse_mlir.compiler.kernels` adds the weights.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from fuse_mlir import errors, native
from fuse_mlir.compiler.ptx import compile_ptx
from fuse_mlir.errors import ImportFailure, KernelError, PtxError, Refusal
from fuse_mlir.frontend.importer import import_program
from fuse_mlir.frontend.walker import storage_key
from fuse_mlir.matching.ptx_kernel import PtxKernel
from fuse_mlir.matching.sites import Plan, Source, Step
from fuse_mlir.native.device import gpu_chip
from fuse_mlir.native.refusals import refusal
from fuse_mlir.quantized.stored import Policy, StoredLinear
from fuse_mlir.support.clone import clone
from fuse_mlir.support.messages import first_line
from fuse_mlir.support.module_snapshot import (
    STANDARD,
    has_own_forward,
    leaves,
    plain,
)
from fuse_mlir.support.quiet import quiet

RAISE = "builtin.module(func.func(fuse-raise-layers),canonicalize)"
FORM = "builtin.module(func.func(fuse-form-kernels))"
FUSED_OP = re.compile(
    r"= fuse\.(gated_mlp|mlp|norm_linear|norm_quantize|"
    r"act_quantize|moe_experts|group)\b"
)
#: Ops whose rows do not depend on each other.
ROW_OPS = frozenset(
    f"fuse.{name}"
    for name in (
        "gated_mlp",
        "mlp",
        "norm_linear",
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
        self._steps = plan.steps
        for name, member in zip(names, members):
            self.add_module(name, member)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return run_chain(
            [getattr(self, name) for name in self._names], self._steps, inputs
        )


def run_chain(
    members: Sequence[nn.Module],
    steps: Sequence[Step],
    inputs: Sequence[torch.Tensor],
) -> torch.Tensor:
    """Calls members as the model calls them, and returns the last result."""
    results: list[torch.Tensor] = []

    def value(source: Source) -> object:
        if source.kind == "input":
            return inputs[source.index]
        if source.kind == "step":
            return results[source.index]
        return source.value

    for member, step in zip(members, steps):
        # Pre-hooks of the first member ran before the fused module.
        call = member.forward if member._forward_pre_hooks else member
        results.append(
            call(
                *map(value, step.args),
                **{k: value(s) for k, s in step.kwargs.items()},
            )
        )
    return results[-1]


@dataclass(frozen=True)
class InputType:
    """Type of an input; all dimensions except the last have any size."""

    rank: int
    features: int
    dtype: torch.dtype


@dataclass
class Compiled:
    """The compiled function that structurally equal chains share."""

    #: Type and shape of each parameter, by its name in the chain.
    parameters: dict[str, tuple[torch.dtype, tuple[int, ...]]]
    #: Tensors that a forward refers to and that no module has.
    constants: dict[str, torch.Tensor]
    #: IR with recognized layers, and IR with the formed kernel.
    layers: str
    formed: str
    families: tuple[str, ...]
    remarks: list[native.Remark]
    inputs: tuple[InputType, ...]
    #: Each dimension of the result: a size, or an input and its dimension.
    result: tuple[int | tuple[int, int], ...]
    dtype: torch.dtype
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
    _rows: Compiled | None = None
    _artifacts: dict[Any, native.Artifact] = field(default_factory=dict)
    _programs: dict[Any, native.Program] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

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
        artifact = self.given
        if artifact is None:
            chip = gpu_chip(device) if device.type == "cuda" else ""
            artifact = self._compile_for(chip)
        artifact.load_on(device)

    def instance(self, device: torch.device) -> native.Instance:
        """A new instance of the code on a device."""
        artifact = self.artifact(device)
        with self._lock:
            if device not in self._programs:
                self._programs[device] = artifact.load_on(device)
            return self._programs[device].instance()

    def for_rows(self, chain: nn.Module) -> Compiled:
        """The same function for inputs of rank two, [rows, features]."""
        with self._lock:
            if self._rows is None:
                self._rows = _compile(
                    chain, [replace(t, rank=2) for t in self.inputs]
                )
            return self._rows


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


#: Attributes of stored linears that are numbers in the IR.
SCALES = ("scale_of_weight", "scale_of_input")


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
    shared = key[:3] + (
        tuple(structure(m, kept, scales=False) for m in members),
        key[4],
    )
    compiled = _compile(Chain(names, members, plan), inputs, (shared, kept))
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


def structure(
    module: nn.Module,
    kept: list[Any],
    types: bool = True,
    scales: bool = True,
) -> tuple:
    """Everything that an export can depend on, except values of tensors.

    Args:
        module: with its children.
        kept: receives the objects that the result names by id, so that they
            stay alive.
        types: whether dtypes and shapes of tensors count.
        scales: whether static scales of stored linears count.
    """
    tensors = types and tuple(
        (
            name,
            tensor.dtype,
            tuple(tensor.shape),
            tensor.stride(),
            tensor.device.type,
        )
        if tensor is not None
        else (name, None)
        for name, tensor in itertools.chain(
            module._parameters.items(), module._buffers.items()
        )
    )
    own: list[tuple] = []
    for name, value in sorted(module.__dict__.items()):
        if name == "forward" and not has_own_forward(module):
            continue
        if not scales and name in SCALES and isinstance(module, StoredLinear):
            own.append((name, value is None))
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
        (name, structure(child, kept, types, scales))
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


#: The structure of a chain without scales, and what it refers to by id.
Shared = tuple[tuple[object, ...], list[object]]


def _compile(
    chain: nn.Module, inputs: Sequence[InputType], shared: Shared | None = None
) -> Compiled:
    if any(
        t.is_meta for t in itertools.chain(chain.parameters(), chain.buffers())
    ):
        # Tensors on the meta device have no storage to compare.
        chain = copy.deepcopy(chain).to_empty(device="cpu")
    program, clones = _export_shared(chain, inputs, shared)
    try:
        function = import_program(program, "main")
    except ImportFailure as error:
        raise KernelError(_untranslated(chain, inputs, error)) from error
    result, dtype = _result_type(program)
    try:
        module = native.Module(function.text)
        module.run(RAISE)
        layers = module.text()
        module.run(FORM)
        formed = module.text()
    except errors.NativeError as error:
        raise KernelError(
            refusal("no-code", f"the compiler refuses the members: {error}")
        ) from error
    families = tuple(dict.fromkeys(FUSED_OP.findall(formed)))
    # The cache must not keep parameters of a model alive.
    constants = {
        name: tensor
        for name, tensor in function.weights.items()
        if owner_of(chain, name) is None
    }
    parameters = {
        name: (tensor.dtype, tuple(tensor.shape))
        for name, tensor in function.weights.items()
    }
    ops = re.findall(r"^ +%[^=]*= ([\w.]+)", formed, re.MULTILINE)
    by_rows = bool(families) and ROW_OPS.issuperset(ops)
    aliases = {
        name: owner
        for name, owner in function.aliases.items()
        if owner in parameters
    }
    return Compiled(
        parameters,
        constants,
        layers,
        formed,
        families,
        module.remarks,
        tuple(inputs),
        result,
        dtype,
        aliases=aliases,
        by_rows=by_rows,
        ops=tuple(ops),
        clones=clones,
    )


def _untranslated(
    chain: nn.Module, inputs: Sequence[InputType], error: ImportFailure
) -> Refusal:
    """Why a program has no IR: its dtypes, or else an op."""
    tensors = [("an input", t.dtype) for t in inputs]
    tensors += [
        (f"'{name}'", t.dtype)
        for name, t in itertools.chain(
            chain.named_parameters(), chain.named_buffers()
        )
    ]
    for name, dtype in tensors:
        if dtype.is_complex or dtype is torch.float64:
            return refusal(
                "unsupported-type",
                f"{name} is {dtype}, and "
                "kernels compute in bfloat16, float16 or float32; "
                "convert the model with model.to(torch.float32)",
            )
    return refusal(
        "no-translation",
        f"{error}; leave this module out of the "
        "chain, or write that line with ops that "
        "docs/how-to/import-a-block.md lists",
    )


def rows_of(name: str) -> tuple[str, slice | None]:
    """The parameter and its rows that a name such as `w[0:8]` means."""
    found = re.fullmatch(r"(.*)\[(\d+):(\d+)\]", name)
    if found is None:
        return name, None
    return found[1], slice(int(found[2]), int(found[3]))


def rows(tensor: torch.Tensor, part: slice | None) -> torch.Tensor:
    """A view of rows of a tensor; all of it for None."""
    return tensor if part is None else tensor[part]


def owner_of(chain: nn.Module, name: str) -> nn.Module | None:
    """The module that holds a parameter or buffer."""
    path, _, attribute = rows_of(name)[0].rpartition(".")
    try:
        owner = chain.get_submodule(path)
    except AttributeError:
        return None
    held = attribute in owner._parameters or attribute in owner._buffers
    return owner if held else None


#: Programs of the chains that are compiled in a scope of `shared_exports`.
_EXPORTS: ContextVar[dict[Any, tuple[Any, bool, Any]] | None] = ContextVar(
    "exports", default=None
)


@contextlib.contextmanager
def shared_exports() -> Iterator[None]:
    """Exports chains that differ only in static scales once.

    Layers of a quantized model do. The programs, which hold the weights of the
    first layer, end with the scope.
    """
    token = _EXPORTS.set({})
    try:
        yield
    finally:
        _EXPORTS.reset(token)


def _export_shared(
    chain: nn.Module, inputs: Sequence[InputType], shared: Shared | None
) -> tuple[Any, bool]:
    """`_export_apart`, or the program of a chain that differs only in scales,
    with the scales of this one. A chain without `shared` shares nothing."""
    known = _EXPORTS.get()
    if known is None or shared is None:
        return _export_apart(chain, inputs)
    key, kept = shared
    if key in known and _set_scales(known[key][0], chain):
        return known[key][:2]
    program, clones = _export_apart(chain, inputs)
    # A program that is not of a clone may read the weights of its own chain.
    if clones:
        # Ids in the key are those of objects that exist.
        known[key] = program, clones, kept
    return program, clones


def _set_scales(program: ExportedProgram, chain: nn.Module) -> bool:
    """Gives the linears of a program the static scales of those in `chain`.

    Returns:
        False, and leaves the program as it is, if a linear is not found.
    """
    buffers = program.graph_signature.inputs_to_buffers
    changes = []
    for node in program.graph.nodes:
        if node.target is not torch.ops.fuse_mlir.stored_linear.default:
            continue
        path = buffers.get(getattr(node.args[1], "name", ""))
        if path is None or node.kwargs or len(node.args) < 6:
            return False
        linear = chain.get_submodule(path.rpartition(".")[0])
        if not isinstance(linear, StoredLinear):
            return False
        args = list(node.args)
        args[4:6] = linear.scale_of_input, linear.scale_of_weight
        changes.append((node, tuple(args)))
    for node, arguments in changes:
        node.args = arguments
    return True


def _export_apart(
    chain: nn.Module, inputs: Sequence[InputType]
) -> tuple[Any, bool]:
    """The program of a clone of `chain`, and whether clones work.

    If they do not, the program is that of `chain` itself.
    """
    program = _export(clone(chain), inputs)
    held = {
        storage_key(t)
        for t in itertools.chain(chain.parameters(), chain.buffers())
        if t.numel()
    }
    if not any(
        isinstance(t, torch.Tensor) and storage_key(t) in held
        for t in program.constants.values()
    ):
        return program, True
    # A function in an attribute may read parameters of the original module.
    return _export(chain, inputs), False


def _export(chain: nn.Module, inputs: Sequence[InputType]) -> ExportedProgram:
    tensor = next(itertools.chain(chain.parameters(), chain.buffers()), None)
    device = torch.device("cpu") if tensor is None else tensor.device
    # torch.export would specialize sizes 0 and 1, and unify equal sizes.
    sizes = (5, 7, 3, 11, 13)
    depth = max(t.rank for t in inputs) - 1
    if depth > len(sizes):
        raise KernelError(
            refusal(
                "unsupported-argument",
                f"an input has {depth + 1} dimensions; "
                f"expected at most {len(sizes) + 1}",
            )
        )
    dims = [Dim(f"d{i}", min=1) for i in range(depth)]
    examples, dynamic = [], []
    for type_ in inputs:
        shape = [*sizes[: type_.rank - 1], type_.features]
        examples.append(torch.zeros(shape, dtype=type_.dtype, device=device))
        dynamic.append({i: dims[i] for i in range(type_.rank - 1)} or None)
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(
                chain, tuple(examples), dynamic_shapes=(tuple(dynamic),)
            )
    # Any error of a module or of the tracer is about the module.
    except Exception as error:
        why = (
            "they branch on the values of a tensor; compute both results "
            "and choose with torch.where"
            if isinstance(error, GuardOnDataDependentSymNode)
            else first_line(error)
        )
        raise KernelError(
            refusal(
                "not-traceable", f"torch.export cannot trace the members: {why}"
            )
        ) from error


def _result_type(program: ExportedProgram) -> tuple[tuple, torch.dtype]:
    spec = program.call_spec.out_spec
    if not spec.is_leaf():
        kind = "None" if spec.type is None else spec.type.__name__
        raise KernelError(
            refusal(
                "unsupported-argument",
                f"the members return a {kind}; expected a tensor",
            )
        )
    nodes = list(program.graph.nodes)
    users = {
        s.arg.name
        for s in program.graph_signature.input_specs
        if s.kind is torch.export.graph_signature.InputKind.USER_INPUT
    }
    holders: dict[Any, tuple[int, int]] = {}
    count = 0
    for node in nodes:
        if node.op == "placeholder" and node.name in users:
            for i, size in enumerate(node.meta["val"].shape):
                if isinstance(size, torch.SymInt):
                    holders.setdefault(size.node.expr, (count, i))
            count += 1
    value = nodes[-1].args[0][0].meta["val"]
    dims: list[int | tuple[int, int]] = []
    for size in value.shape:
        if not isinstance(size, torch.SymInt):
            dims.append(size)
        elif size.node.expr in holders:
            dims.append(holders[size.node.expr])
        else:
            raise KernelError(
                refusal(
                    "unsupported-argument",
                    f"the result has size "
                    f"{size.node.expr}; expected a number or a size of an input",
                )
            )
    return tuple(dims), value.dtype
