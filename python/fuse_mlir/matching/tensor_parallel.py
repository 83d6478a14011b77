# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears that tensor parallelism distributes over ranks.

Three hosts distribute linears: transformers from 5.16 on, by a forward of the
instance; transformers 5.0 to 5.15, by hooks; and `parallelize_module` of
PyTorch, by hooks too. A linear is `Part` if the host computes it in a way that
a kernel can repeat: from a replicated input to a shard of the outputs
(colwise), or from a shard of the inputs to a sum over all ranks (rowwise). Any
other form has a refusal of its own.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from fuse_mlir.errors import Refusal
from fuse_mlir.native.refusals import refusal

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

#: Parameters of linears that hold scales, whose shards follow the weight.
_SCALES = ("weight_scale_inv", "weight_scale")
#: Names of styles of transformers 5.0 to 5.15, which are values of plans.
_NAMED = {
    "ColwiseParallel": "colwise",
    "RowwiseParallel": "rowwise",
}
#: Styles whose forward communicates nothing, only gradients.
_REPLICATED = ("ReplicatedWithGradAllReduce",)
#: Refusals of styles by the start of the name of their class.
_STYLES = {
    "Packed": (
        "packed-shard",
        "shards a weight of several packed projections",
    ),
    "GroupedGemm": ("parallel-experts", "distributes experts"),
    "SequenceParallel": ("sequence-parallel", "splits the sequence over ranks"),
    "Moe": ("parallel-experts", "distributes experts"),
    "Ep": ("parallel-experts", "distributes experts"),
    "Router": ("parallel-experts", "distributes experts"),
    "Mla": (
        "parallel-mla",
        "splits the compressed keys of attention from the rotated ones",
    ),
    "AllReduce": (
        "module-all-reduce",
        "adds up the results of a module that has no distributed weight itself",
    ),
}


@dataclass(frozen=True)
class Part:
    """How one rank computes its part of a module."""

    #: "colwise", "rowwise" or "replicated".
    style: str
    #: The host: "transformers", "hooks of transformers" or "torch".
    host: str
    #: With one dimension.
    mesh: DeviceMesh

    @property
    def size(self) -> int:
        """Number of ranks."""
        return int(self.mesh.size())

    @property
    def group(self) -> dist.ProcessGroup:
        """The process group of the ranks."""
        return self.mesh.get_group()


@dataclass(frozen=True)
class _Form:
    """What a host does around the forward of a module."""

    #: Name of the class of the style, such as `ColwiseParallel`.
    name: str
    host: str
    mesh: Any
    #: "replicated", "shard" or another layout, in words.
    reads: str
    returns: str
    #: Whether the result is a plain tensor.
    local: bool = True
    #: Why the form is not that of the host, or empty.
    changed: str = ""


def is_dtensor(tensor: object) -> bool:
    """Whether a tensor is a DTensor of PyTorch, or data of one is."""
    return "DTensor" in (
        type(tensor).__name__,
        type(getattr(tensor, "data", None)).__name__,
    )


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of this rank."""
    return getattr(tensor, "_local_tensor", tensor)


def is_distributed(module: nn.Module) -> bool:
    """Whether a module itself is distributed, in any form."""
    return (
        any(is_dtensor(p) for p in module._parameters.values() if p is not None)
        or bool(getattr(module, "_hf_tp_plan", None))
        or _installed(module) is not None
    )


def part_of(module: nn.Module) -> Part | Refusal | None:
    """The part of a module that this rank computes.

    Returns:
        None if the module is not distributed, and a refusal if it is in a way
        that no kernel repeats. Texts of refusals lack their subject, the
        module.
    """
    form = _form_of(module)
    if form is None:
        return _without_style(module)
    if isinstance(form, Refusal):
        return form
    return _check_form(module, form) or _check_part(module, form)


def _form_of(module: nn.Module) -> _Form | Refusal | None:
    return (
        _form_of_forward(module)
        or _form_of_hooks(module)
        or _form_of_torch(module)
    )


def _installed(module: nn.Module) -> Callable[..., object] | None:
    """The forward that transformers has installed, or None."""
    forward = vars(module).get("forward")
    if (
        forward is None
        or not getattr(forward, "__qualname__", "").endswith(
            ".install_forward.<locals>.tp_forward"
        )
        or not (getattr(forward, "__module__", "") or "").startswith(
            "transformers.distributed."
        )
    ):
        return None
    return forward


def _layout(value: object) -> str:
    """A placement, or a tuple of one, in words."""
    if isinstance(value, (tuple, list)):
        if len(value) != 1:
            return str(value)
        value = value[0]
    kind = type(value).__name__
    if kind == "Replicate":
        return "replicated"
    if kind == "Shard" and getattr(value, "dim", None) == -1:
        return "shard"
    return str(value)


def _form_of_forward(module: nn.Module) -> _Form | None:
    """The form of transformers from 5.16 on."""
    forward = _installed(module)
    if forward is None:
        return None
    found = inspect.getclosurevars(forward).nonlocals
    style, mesh = found.get("self"), found.get("mesh")
    if mesh is None and "_all_reduce_grad" in found:
        inner = inspect.getclosurevars(found["_all_reduce_grad"]).nonlocals
        mesh = inner.get("mesh")
    name = (
        type(style).__name__
        if style is not None
        else forward.__qualname__.partition(".")[0]
    )
    original = found.get("original_forward")
    changed = ""
    if found.get("module", module) is not module:
        changed = "was copied from another module"
    elif (
        getattr(original, "__self__", None) is not module
        or getattr(original, "__func__", None) is not type(module).forward
    ):
        changed = (
            "calls another forward than that of its class, "
            f"{getattr(original, '__qualname__', original)}"
        )
    return _Form(
        name,
        "transformers",
        mesh,
        _layout(getattr(style, "input_layouts", None)),
        _layout(getattr(style, "output_layouts", None)),
        getattr(style, "use_local_output", True),
        changed,
    )


def _hooks(module: nn.Module) -> list[Any]:
    return [
        *module._forward_pre_hooks.values(),
        *module._forward_hooks.values(),
    ]


def _of_distribute_module(hook: object, package: str) -> Mapping[str, Any]:
    """Variables of a hook of a function `distribute_module`; {} otherwise."""
    if not inspect.isfunction(hook) or (
        hook.__qualname__ != "distribute_module.<locals>.<lambda>"
        or hook.__module__ != package
    ):
        return {}
    return inspect.getclosurevars(hook).nonlocals


_OLD_HOST = "transformers.integrations.tensor_parallel"


def _form_of_hooks(module: nn.Module) -> _Form | Refusal | None:
    """The form of transformers 5.0 to 5.15."""
    plan = getattr(module, "_hf_tp_plan", None)
    if not plan:
        return None
    mesh = getattr(module, "_hf_device_mesh", None)
    found = [_of_distribute_module(h, _OLD_HOST) for h in _hooks(module)]
    styles = {
        id(style): style
        for variables in found
        for function in (variables.get("input_fn"), variables.get("output_fn"))
        if (style := getattr(function, "__self__", None)) is not None
    }
    if not all(found) or len(styles) != 1:
        return refusal(
            "unknown-parallel-forward",
            f"has the plan '{plan}' and {len(found)} hooks, which are not "
            "the two of transformers 5.0 to 5.15 for that plan",
        )
    (style,) = styles.values()
    name = type(style).__name__
    rowwise = name == "RowwiseParallel"
    reads = getattr(style, "split_input", False) != rowwise
    returns = getattr(style, "gather_output", False) or rowwise
    return _Form(
        name,
        "hooks of transformers",
        mesh,
        "shard" if reads else "replicated",
        "replicated" if returns else "shard",
        changed=""
        if _NAMED.get(name, plan) == plan
        or str(plan).startswith(f"{_NAMED[name]}_")
        else f"has the plan '{plan}' and hooks of {name}",
    )


def _form_of_torch(module: nn.Module) -> _Form | Refusal | None:
    """The form of `torch.distributed.tensor.parallel.parallelize_module`."""
    if not getattr(module, "_distribute_module_applied", False):
        return None
    found = [
        _of_distribute_module(h, "torch.distributed.tensor._api")
        for h in _hooks(module)
    ]
    into: Any = next((v["input_fn"] for v in found if "input_fn" in v), None)
    out: Any = next((v["output_fn"] for v in found if "output_fn" in v), None)
    names = [
        getattr(getattr(f, "func", None), "__qualname__", "").split(".")
        for f in (into, out)
    ]
    if (
        len(found) != 2
        or not all(found)
        or names[0][1:] != ["_prepare_input_fn"]
        or names[1][1:] != ["_prepare_output_fn"]
        or names[0][0] != names[1][0]
        or into.func.__module__ != "torch.distributed.tensor.parallel.style"
    ):
        return refusal(
            "unknown-parallel-forward",
            "was given to distribute_module of PyTorch with other hooks than "
            "those of ColwiseParallel and RowwiseParallel",
        )
    return _Form(
        names[0][0],
        "torch",
        found[0]["device_mesh"],
        _layout(into.args[0]),
        _layout(out.args[0]),
        bool(out.args[1]),
    )


def _check_form(module: nn.Module, form: _Form) -> Refusal | None:
    """Refuses forms that no kernel repeats."""
    if form.changed:
        return refusal(
            "unknown-parallel-forward",
            f"has the forward of {form.name} of {form.host}, which "
            f"{form.changed}",
        )
    if form.name in _REPLICATED:
        return None
    for start, (name, what) in _STYLES.items():
        if form.name.startswith(start):
            return refusal(
                name,
                f"has the style {form.name} of {form.host}, which {what}",
            )
    if form.name not in _NAMED:
        return refusal(
            "unknown-parallel-style",
            f"has the style {form.name} of {form.host}; expected "
            "ColwiseParallel or RowwiseParallel",
        )
    if not isinstance(module, nn.Linear):
        return refusal(
            "unknown-parallel-style",
            f"is a {type(module).__name__} with the style {form.name} of "
            f"{form.host}; expected a Linear",
        )
    usual = (
        ("replicated", "shard")
        if form.name == "ColwiseParallel"
        else ("shard", "replicated")
    )
    if form.name == "ColwiseParallel" and form.returns == "replicated":
        return refusal(
            "gathered-output",
            f"has the style {form.name} of {form.host}, which gathers its "
            "result on every rank; expected results that stay sharded",
        )
    if form.name == "RowwiseParallel" and form.reads == "replicated":
        return refusal(
            "split-input",
            f"has the style {form.name} of {form.host}, which splits an "
            "input that every rank has whole; expected a sharded input",
        )
    if (form.reads, form.returns) != usual:
        return refusal(
            "other-layouts",
            f"has the style {form.name} of {form.host}, which reads the "
            f"layout '{form.reads}' and returns '{form.returns}'; expected "
            f"'{usual[0]}' and '{usual[1]}'",
        )
    if not form.local:
        return refusal(
            "other-layouts",
            f"has the style {form.name} of {form.host}, which returns "
            "DTensors; expected use_local_output=True",
        )
    return None


def _check_part(module: nn.Module, form: _Form) -> Part | Refusal:
    """The part of a module with a style, or why its tensors do not fit."""
    mesh = form.mesh
    if mesh is None or mesh.ndim != 1:
        return refusal(
            "mesh-dimensions",
            f"is distributed over a mesh of {getattr(mesh, 'ndim', 0)} "
            "dimensions; expected one, without FSDP",
        )
    if form.name in _REPLICATED:
        return Part("replicated", form.host, mesh)
    ranks = torch.distributed.get_world_size(mesh.get_group())
    if mesh.size() != ranks:
        return refusal(
            "world-size-differs",
            f"is planned for {mesh.size()} ranks, and its process group has "
            f"{ranks}",
        )
    style = _NAMED[form.name]
    for name, parameter in module._parameters.items():
        if parameter is None:
            continue
        found = (
            _check_tensor(module, name, cast("DTensor", parameter), style, mesh)
            if is_dtensor(parameter)
            else _check_plain(name, parameter, form)
        )
        if found is not None:
            return found
    return _check_blocks(module, style) or Part(style, form.host, mesh)


def _expected(name: str, style: str, parameter: torch.Tensor) -> int | None:
    """The dimension in which a parameter is sharded; None for none."""
    if parameter.dim() == 0 or name == "bias" and style == "rowwise":
        return None
    if style == "colwise":
        return 0
    return 1 if parameter.dim() > 1 else None


def _check_tensor(
    module: nn.Module,
    name: str,
    parameter: DTensor,
    style: str,
    mesh: DeviceMesh,
) -> Refusal | None:
    if parameter.device_mesh.ndim != 1:
        return refusal(
            "mesh-dimensions",
            f"has '{name}' on a mesh of {parameter.device_mesh.ndim} "
            "dimensions; expected one, without FSDP",
        )
    if parameter.device_mesh != mesh:
        return refusal(
            "meshes-differ",
            f"has '{name}' on {parameter.device_mesh} and its forward on "
            f"{mesh}; expected one mesh",
        )
    dim = _expected(name, style, parameter)
    placement: Any = parameter.placements[0]
    kind = type(placement).__name__
    if kind == "_StridedShard":
        return refusal(
            "packed-shard",
            f"has '{name}' in strided shards of packed projections, "
            f"{placement}; expected contiguous shards",
        )
    fits = (
        kind == "Replicate"
        if dim is None
        else kind == "Shard" and placement.dim in (dim, dim - parameter.dim())
    )
    if not fits:
        wanted = "Replicate()" if dim is None else f"Shard(dim={dim})"
        return refusal(
            "placement-differs",
            f"has '{name}' placed as {placement}, and {style} needs {wanted}",
        )
    if dim is not None and parameter.shape[dim] % mesh.size():
        return refusal(
            "uneven-shard",
            f"has '{name}' with {parameter.shape[dim]} entries in dimension "
            f"{dim}, which {mesh.size()} ranks cannot share evenly",
        )
    return None


def _check_plain(
    name: str, parameter: torch.Tensor, form: _Form
) -> Refusal | None:
    # Hooks of transformers have plain parameters, and scales are one number.
    if form.host == "hooks of transformers" or parameter.numel() == 1:
        return None
    return refusal(
        "placement-differs",
        f"has '{name}' as a plain tensor of shape {tuple(parameter.shape)}; "
        "expected a DTensor, as its other parameters are",
    )


def _check_blocks(module: nn.Module, style: str) -> Refusal | None:
    """Refuses shards that cut blocks with one scale."""
    blocks = getattr(module, "block_size", None)
    scale = next(
        (
            s
            for name in _SCALES
            if (s := module._parameters.get(name)) is not None and s.dim() == 2
        ),
        None,
    )
    if scale is None or not isinstance(blocks, (tuple, list)):
        return None
    weight = module._parameters["weight"]
    assert weight is not None
    dim = 0 if style == "colwise" else 1
    rows, block = local_of(weight).shape[dim], blocks[dim]
    if rows % block:
        return refusal(
            "sub-block-scale",
            f"has a shard of {rows} in dimension {dim}, and one scale per "
            f"{block}; expected a multiple of it",
        )
    return None


def _without_style(module: nn.Module) -> Part | Refusal | None:
    """Modules with DTensors whose forward no host has changed."""
    found: dict[str, Any] = {
        name: p
        for name, p in module._parameters.items()
        if p is not None and is_dtensor(p)
    }
    for name, parameter in found.items():
        placements: tuple[Any, ...] = getattr(parameter, "placements", ())
        shown = "".join(f", {p}" for p in placements)
        if len(placements) != 1:
            return refusal(
                "mesh-dimensions",
                f"has '{name}', a DTensor{shown}, on a mesh of "
                f"{len(placements)} dimensions; expected one, without FSDP",
            )
        if placements[0].is_replicate():
            continue
        forward = vars(module).get("forward")
        if forward is None and module._forward_hooks:
            return refusal(
                "unknown-parallel-forward",
                f"has '{name}', a DTensor{shown}, and hooks of another "
                "package than transformers and PyTorch",
            )
        what = (
            "no forward or hook of its module adds up or gathers the results"
            if forward is None
            else f"its forward {getattr(forward, '__qualname__', forward)} "
            "has replaced the one that adds up or gathers the results"
        )
        return refusal(
            "shard-without-reduction",
            f"has '{name}', a DTensor{shown}, and {what}, so that the model "
            "itself may compute with a part of the weight; distribute it with "
            "a plan that names the module",
        )
    if not found:
        return None
    return Part("replicated", "torch", next(iter(found.values())).device_mesh)


def has_hooks_of_host(module: nn.Module) -> bool:
    """Whether a module communicates in its hooks, which its forward needs."""
    return bool(
        getattr(module, "_hf_tp_plan", None)
        or getattr(module, "_distribute_module_applied", False)
    ) and isinstance(part_of(module), Part)


# Modules as one rank sees them.


def local_copy(module: nn.Module) -> nn.Module:
    """A module with the memory of this rank, which communicates nothing.

    Rowwise linears have no bias, which is added after the sum.

    Args:
        module: with a `Part`; it does not change.
    """
    part = part_of(module)
    if not isinstance(part, Part):
        return module
    local = copy.copy(module)
    state = local.__dict__
    for name in ("forward", "__repr__", "_hf_tp_plan", "_hf_device_mesh"):
        state.pop(name, None)
    for name in ("_forward_hooks", "_forward_pre_hooks"):
        state[name] = OrderedDict()
    state["_parameters"] = local_parameters(module)
    if part.style == "rowwise":
        state["_parameters"]["bias"] = None
        state.pop("_bias", None)
    if isinstance(local, nn.Linear):
        rows, columns = local.weight.shape
        state.update(out_features=rows, in_features=columns)
    return local


def is_rowwise(module: nn.Module) -> bool:
    """Whether results of a module are terms of a sum over ranks."""
    part = part_of(module)
    return isinstance(part, Part) and part.style == "rowwise"


def local_parameters(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """Parameters that share the memory of this rank."""
    return {
        name: nn.Parameter(local_of(p).detach(), requires_grad=p.requires_grad)
        if p is not None and is_dtensor(p)
        else p
        for name, p in module._parameters.items()
    }


def bias_of(module: nn.Module) -> nn.Parameter | None:
    """The bias of a rowwise linear, which is added after the sum."""
    held = module._parameters.get("bias")
    if held is None:
        # Hooks of transformers move it at the first call.
        held = module._parameters.get("_bias")
    if held is None or not is_dtensor(held):
        return held
    return nn.Parameter(local_of(held).detach(), held.requires_grad)


@contextlib.contextmanager
def plain_modules(model: nn.Module) -> Iterator[None]:
    """Lets a model run without communication, for the shapes of its values.

    Values are those of one rank. Results that ranks would gather have the
    right shape and no meaning.
    """
    changed = [
        (module, form if isinstance(form := _form_of(module), _Form) else None)
        for module in model.modules()
        if is_distributed(module)
        or getattr(module, "_distribute_module_applied", False)
    ]
    saved = [
        (module, module._parameters, dict(vars(module)))
        for module, _ in changed
    ]
    try:
        for module, form in changed:
            module.__dict__["_parameters"] = local_parameters(module)
            module.__dict__.pop("forward", None)
            if form is not None and (stand_in := _shapes(module, form)):
                module.__dict__["forward"] = stand_in
        yield
    finally:
        for module, parameters, state in saved:
            module.__dict__["_parameters"] = parameters
            module.__dict__.pop("forward", None)
            if "forward" in state:
                # The place in the dict does not matter.
                module.__dict__["forward"] = state["forward"]


def keeps_shapes(module: nn.Module, refused: Refusal) -> bool:
    """Whether `plain_modules` knows the shapes of a refused module's results."""
    form = _form_of(module)
    return isinstance(form, _Form) and (
        form.name == "EmbeddingParallel"
        or refused.name in ("gathered-output", "split-input")
    )


def _shapes(
    module: nn.Module, form: _Form
) -> Callable[..., torch.Tensor] | None:
    """A forward for `plain_modules` of a module whose results are whole."""
    own = type(module).forward
    weight = module._parameters.get("weight")
    if weight is None:
        return None
    if form.name == "EmbeddingParallel":
        width = _whole(module, "embedding_dim", weight.shape[1])

        def look_up(ids: torch.Tensor) -> torch.Tensor:
            return weight.new_empty((*ids.shape, width))

        return look_up
    if form.name == "ColwiseParallel" and form.returns == "replicated":
        ranks = form.mesh.size()

        def gathered(x: torch.Tensor) -> torch.Tensor:
            y = own(module, x)
            whole = _whole(module, "out_features", y.shape[-1] * ranks)
            return y.new_empty((*y.shape[:-1], whole))

        return gathered
    if form.name == "RowwiseParallel" and form.reads == "replicated":
        columns = weight.shape[1]

        def split(x: torch.Tensor) -> torch.Tensor:
            return own(module, x[..., :columns])

        return split
    return None


def _whole(module: nn.Module, name: str, other: int) -> int:
    found = getattr(module, name, other)
    return int(found)


def mesh_of(model: nn.Module) -> DeviceMesh | None:
    """The mesh over which a model is distributed; None for one rank.

    It is that of the first distributed module, whether kernels can compute it
    or not, so that ranks find the same one.
    """
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None and is_dtensor(parameter):
                found = getattr(parameter, "device_mesh", None)
                if found is not None and found.ndim == 1:
                    return found
        mesh = getattr(module, "_hf_device_mesh", None)
        if mesh is None and (forward := _installed(module)) is not None:
            mesh = inspect.getclosurevars(forward).nonlocals.get("mesh")
        if mesh is not None and mesh.ndim == 1:
            return mesh
    return None
