# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuses modules of a model in place, and takes it back.

The first member's place holds a `FusedModule`, the others hold identities
(`fuse_mlir.places`).
"""

from __future__ import annotations

import contextlib
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad

from fuse_mlir import kernels, native, static_mlp
from fuse_mlir.arguments import require, require_module
from fuse_mlir.experts import (UnknownExperts, activation_of,
                               looks_like_experts)
from fuse_mlir.flow import Flow, observe
from fuse_mlir.globs import match
from fuse_mlir.kernels import Chain, Kernel, KernelError
from fuse_mlir.patterns import (ARTIFACT, FAMILIES, KernelConfig, ModuleSpec,
                                Pattern, PatternError,
                                check_specs, declared_patterns,
                                resolve)
from fuse_mlir.places import (OWN, FusedIdentity, FusedPlace, FuseError,
                              Pending, arguments_of, check_constant, named)
from fuse_mlir.ptx import PtxKernel
from fuse_mlir.sites import (Plan, Refusal, Site, candidates,
                             distributed, find_sites, hook_on, hook_on_all,
                             join, looks_like_mlp, shorter_sites)
from fuse_mlir.static_mlp import StaticMlp, stored_members
from fuse_mlir.stored import Refused
from fuse_mlir.watch import Watch, is_exporting, is_tracing

#: Elements that the kernel for experts reads at once.
_VECTOR = 8
GRADIENTS = ("recompute", "error")


class FusedModule(FusedPlace):
    """Computes a chain of members with one kernel.

    Args:
        site: id of the place.
        names: of the members among the children of their parent.
        members: the modules, the first of which this one stands for.
        plan: how the model calls them.
        kernel: `fuse`, the family that it has to be, the path of an artefact,
            or a `PtxKernel`.
        gradients: `recompute` runs the members again in the backward pass;
            `error` refuses calls that need gradients.
        static: scales for linears of the members, which then are demanded.

    Calls with more rows than `Kernel.most_rows`, which experts on a GPU have,
    run the member as it is.
    """

    def __init__(self, site: str, names: Sequence[str],
                 members: Sequence[nn.Module], plan: Plan,
                 kernel: str | PtxKernel,
                 gradients: str, static: StaticMlp | None = None) -> None:
        super().__init__(site, members[0])
        self.__dict__["members"] = list(members)
        self.names = tuple(names)
        self.kernel_name = kernel
        self.gradients = gradients
        self.static = static
        # Examples are tensors of another mode and are not needed any more.
        self.__dict__["plan"] = Plan(plan.inputs, [], plan.steps,
                                     plan.eval_only)
        self.__dict__.update(_kernel=None, _file=None, _watch=None,
                             _built=None, _parent=None)
        self._mode_matters = plan.eval_only or any(
            isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0
            or isinstance(m, nn.modules.batchnorm._BatchNorm)
            for member in members for m in member.modules())
        #: Whether members after the first one read inputs too.
        self._has_sides = any(source.kind == "input"
                              for step in plan.steps[1:]
                              for _, source in step.slots())

    def put_into(self, parent: nn.Module) -> None:
        """Takes the places of its members among the children of `parent`."""
        places: list[nn.Module] = [self]
        places += [FusedIdentity(self.site, member, step,
                                 last=member is self.members[-1])
                   for member, step
                   in list(zip(self.members, self.plan.steps))[1:]]
        # The parent owns this module, so that a strong reference would be a
        # cycle.
        self.__dict__["_parent"] = weakref.ref(parent)
        # Assigning to a key keeps the order of children, and one call is not
        # interrupted.
        parent._modules.update(zip(self.names, places))

    def take_out_of(self, parent: nn.Module) -> None:
        """Puts the members back."""
        for name, member in zip(self.names, self.members):
            member.training = parent.get_submodule(name).training
        parent._modules.update(zip(self.names, self.members))

    # Handles of the library live in one process and belong to one module.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kernel": None, "_file": None,
                "_watch": None, "_built": None,
                "_parent": self._parent and self._parent()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parent = state.pop("_parent", None)
        super().__setstate__(state)
        self.__dict__["_parent"] = parent and weakref.ref(parent)

    def __deepcopy__(self, memo: dict[int, Any]) -> "FusedModule":
        import copy

        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        state = self.__getstate__()
        # Where the parent is copied, that has begun already.
        parent = memo.get(id(state.pop("_parent")))
        copied.__dict__.update(copy.deepcopy(state, memo))
        copied.__dict__.update(_file=self._file,
                               _parent=parent and weakref.ref(parent))
        return copied

    def _apply(self, *args: Any, **kwargs: Any) -> "FusedModule":
        # Type or device may change; the next call makes a kernel for them.
        super()._apply(*args, **kwargs)
        self.__dict__["_kernel"] = None
        return self

    def build(self, inputs: Sequence[torch.Tensor]) -> Kernel:
        """Makes the kernel for the types of `inputs`, and their device.

        Raises:
            KernelError: there is none; with the reason.
        """
        try:
            copies, compiled = self.compile_for(inputs)
        except Refused as refusal:
            raise KernelError(str(refusal)) from refusal
        return self.bind(copies, compiled, inputs[0].device)

    def compile_for(self, inputs: Sequence[torch.Tensor]) \
            -> tuple[static_mlp.Copies, kernels.Compiled]:
        """Code for the types of `inputs`, and the members that it is of.

        Raises:
            KernelError: there is none; with the reason.
            Refused: a linear has no scales that a kernel can use.
        """
        try:
            copies = stored_members(self.names, self.members, self.static)
        except UnknownExperts as error:
            raise KernelError(str(error)) from error
        compiled = kernels.compile_chain(
            self.names, copies.members, self.plan,
            kernels.input_types(inputs))
        chain = Chain(self.names, copies.members, self.plan)
        if isinstance(self.kernel_name, PtxKernel):
            return copies, kernels.from_ptx(compiled, chain, self.kernel_name,
                                            inputs[0].device)
        check_family(compiled, self.kernel_name)
        if self.static is not None:
            check_static(compiled, self.static)
        if self.kernel_name.endswith(ARTIFACT):
            # Kernels for other types come later, when the file may be gone.
            if self._file is None:
                self.__dict__["_file"] = native.Artifact.load(
                    self.kernel_name)
            compiled = kernels.from_artifact(compiled, chain,
                                             self.kernel_name, self._file)
        return copies, compiled

    def bind(self, copies: static_mlp.Copies, compiled: kernels.Compiled,
             device: torch.device) -> Kernel:
        """The kernel with the weights of `copies`, for the calls to come."""
        chain = Chain(self.names, copies.members, self.plan)
        kernel = Kernel(self.site, chain, compiled, device, copies)
        kernel.owner = weakref.WeakMethod(self.still_has)
        self.__dict__.update(_kernel=kernel, _built=self._structure(),
                             _watch=Watch(self.members))
        return kernel

    def still_has(self, kernel: Kernel, inputs: Sequence[torch.Tensor]) \
            -> bool:
        """Whether calls on `inputs` would take `kernel` now.

        Raises:
            As `_look_again`.
        """
        self._check_places()
        if self._watch is None or not self._watch.same():
            kernels.outside_of_ops(inputs[0].device,
                                   lambda: self._look_again(inputs))
        return self._kernel is kernel

    def _structure(self) -> tuple:
        # What is referred to by id is held by the members, and kernels look
        # at the types of parameters themselves.
        return tuple(kernels.structure(m, [], types=False)
                     for m in self.members)

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        inputs = self.inputs(args, kwargs)
        if self.training and self._mode_matters:
            raise FuseError(
                f"site '{self.site}' has dropout or batch statistics and is "
                "in training mode; call eval(), or unfuse it")
        check_autocast(f"site '{self.site}'", inputs[0])
        tracing = is_tracing()
        if not tracing:
            self._check_places()
            if is_transformed(inputs):
                return self._tag(Chain(self.names, self.members,
                                       self.plan)(*inputs), inputs)
            if self._watch is None or not self._watch.same():
                self._look_again(inputs)
            kernel = self._kernel
            if kernel is None or not kernel.matches(inputs):
                kernel = self.build(inputs)
        else:
            kernel = self._kernel
        if kernel is None:
            raise FuseError(
                f"site '{self.site}' has no kernel for the model's present "
                "type and device; call the model once before compiling it")
        if self.gradients == "error" and torch.is_grad_enabled() and any(
                t.requires_grad for t in [*inputs, *kernel.weights()]):
            raise FuseError(
                f"site '{self.site}' is fused with gradients='error' and "
                "this call needs gradients; use torch.no_grad(), "
                "gradients='recompute', or unfuse it")
        if kernel.most_rows and not is_exporting() \
                and inputs[0].shape[:-1].numel() > kernel.most_rows:
            return self._member.forward(*args, **kwargs)
        if tracing:
            return kernels.call(kernel, inputs)
        kernel.is_asked = True
        return self._tag(kernels.call(kernel, inputs), inputs)

    def _tag(self, result: torch.Tensor, inputs: Sequence[torch.Tensor]) \
            -> torch.Tensor:
        """What identities know a result by."""
        tagged: Any = result
        tagged._fuse_site = self.site
        if len(self.names) > 1 and type(result) is torch.Tensor:
            tagged.__class__ = Pending
        if self._has_sides:
            tagged._fuse_inputs = tuple(map(id, inputs))
        return result

    def inputs(self, args: tuple, kwargs: dict[str, Any]) \
            -> list[torch.Tensor]:
        """The tensors of a call that the kernel reads.

        Raises:
            FuseError: the call has other arguments than the chain is for.
        """
        if self._is_usual(args, kwargs):
            return [args[s] if isinstance(s, int) else kwargs[s]
                    for s in self.plan.inputs]
        return self._bind(args, kwargs)

    def _is_usual(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        first = self.plan.steps[0]
        if len(args) != len(first.args) or len(kwargs) != len(first.kwargs):
            return False
        for slot, source in first.slots():
            value = args[slot] if isinstance(slot, int) \
                else kwargs.get(slot, first)
            if isinstance(value, torch.Tensor) != (source.kind == "input") \
                    or source.kind == "constant" and value != source.value:
                return False
        return True

    def _bind(self, args: tuple, kwargs: dict[str, Any]) \
            -> list[torch.Tensor]:
        """Inputs of a call that passes them in another way than usual."""
        inputs: dict[int, torch.Tensor] = {}
        for name, source, value in arguments_of(
                self._member, self.plan.steps[0], args, kwargs):
            if source.kind != "input":
                check_constant(self.site, name, source, value)
                continue
            if not isinstance(value, torch.Tensor):
                raise FuseError(f"site '{self.site}' expects a tensor as "
                                f"{named(name)}, got {type(value).__name__}")
            inputs[source.index] = value
        return [inputs[i] for i in range(len(self.plan.inputs))]

    def _check_places(self) -> None:
        """Whether the result goes through the identities still.

        Raises:
            FuseError: another module would read it as if it were the input of
                a member.
        """
        parent = self._parent and self._parent()
        if parent is None and len(self.names) > 1:
            raise FuseError(
                f"FUSE-N206 not-a-chain: the kernel of site '{self.site}' is "
                "without the other members, because it was copied alone, or "
                "the module that has them is gone; copy that module, or unfuse "
                "the site before")
        for name in self.names[1:]:
            place = parent._modules.get(name)
            if not isinstance(place, FusedPlace) or place.site != self.site:
                raise FuseError(
                    f"FUSE-N206 not-a-chain: '{name}', a member of site "
                    f"'{self.site}', was replaced by a "
                    f"{type(place).__name__} after it was fused; put it back, "
                    "unfuse the site, and replace the member then")

    def _look_again(self, inputs: Sequence[torch.Tensor]) -> None:
        """Makes another kernel where the members are not what they were.

        Raises:
            FuseError: a member got what would not run, or was distributed.
            KernelError: there is no kernel for them any more.
        """
        check_members(f"site '{self.site}'", self.names, self.members,
                      "unfuse the site")
        kernel = self._kernel
        same = self._watch is not None \
            and self._watch.has_modules(self.members)
        if kernel is not None \
                and (not same or self._structure() != self._built):
            try:
                copies, compiled = self.compile_for(inputs)
            except Refused as refusal:
                raise KernelError(str(refusal)) from refusal
            if kernel.computes(compiled, same):
                self.__dict__["_built"] = self._structure()
            else:
                self.bind(copies, compiled, inputs[0].device)
        self.__dict__["_watch"] = Watch(self.members)


#: What places have for themselves and modules have not.
PLACE_NAMES = frozenset(
    name for name in {*OWN, *dir(FusedModule), *dir(FusedIdentity), "members",
                      "plan", "_member", "_kernel", "_file", "_watch",
                      "_built", "_parent"}.difference(dir(nn.Module()))
    if not name.startswith("__"))


def check_members(what: str, names: Sequence[str],
                  members: Sequence[nn.Module], undo: str,
                  own_hooks: bool = False) -> None:
    """Whether members still are what a kernel may stand for.

    Args:
        what: they are part of, for messages.
        undo: how to run them as they are, for messages.
        own_hooks: whether all hooks of the first member run.

    Raises:
        FuseError: a member got what would not run, or was distributed.
    """
    hook = hook_on_all()
    if hook is not None:
        raise FuseError(
            f"FUSE-N208 has-hooks: all modules, and those of {what}, have the "
            f"hook {hook}; {undo}, or remove the hook")
    for index, member in enumerate(members):
        for path, module in member.named_modules():
            name = names[index] + (f".{path}" if path else "")
            first = index == 0 and not path
            hook = None if first and own_hooks else hook_on(module, first)
            if hook is not None:
                raise FuseError(
                    f"FUSE-N208 has-hooks: '{name}' of {what} got {hook} "
                    f"after it was fused; {undo}, or remove the hook")
            spread = distributed(module)
            if spread is not None:
                raise FuseError(
                    f"FUSE-N209 tensor-parallel: '{name}{spread[0]}' of "
                    f"{what} {spread[1]} after it was fused; {undo}")


def check_autocast(what: str, x: torch.Tensor) -> None:
    """Whether a kernel for `x` computes what the members would.

    Args:
        what: it is of, for messages.

    Raises:
        FuseError: autocast would compute in another type.
    """
    if not x.is_meta and torch.is_autocast_enabled(x.device.type) \
            and x.dtype is not torch.get_autocast_dtype(x.device.type):
        raise FuseError(
            f"{what} is fused for {x.dtype}, and autocast would compute it in "
            f"{torch.get_autocast_dtype(x.device.type)}; leave autocast, "
            "convert the model, or unfuse it")


def is_transformed(inputs: Sequence[torch.Tensor]) -> bool:
    """Whether a call is one of `torch.func`, or in forward-mode
    differentiation, which see through members and not through kernels, or has
    no data."""
    if inputs[0].is_meta:
        return True
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    return forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(t).tangent is not None for t in inputs)


def check_family(compiled: kernels.Compiled, wanted: str) -> None:
    """Whether the kernel is what was asked for.

    Raises:
        KernelError: no kernel formed, with the compiler's reasons, or another.
    """
    missed = _missed(compiled)
    if not compiled.families:
        ops = ", ".join(op.removeprefix("fuse.") for op in compiled.ops
                        if op.startswith("fuse.")) or "no op of a layer"
        raise KernelError("no kernel forms: " + (
            missed or f"the members are {ops}, and no family is that "
            f"({', '.join(FAMILIES)})"))
    if wanted in FAMILIES and wanted not in compiled.families:
        raise KernelError(f"the members form {', '.join(compiled.families)}, "
                          f"the pattern asks for {wanted}"
                          + (f": {missed}" if missed else ""))


def _missed(compiled: kernels.Compiled) -> str:
    """Why there is no kernel, or no larger one, in the compiler's words."""
    stopped = "Remark=a larger kernel stopped"
    return "; ".join(
        f"{r.name}: {r.text.removeprefix('Remark=')}"
        for r in compiled.remarks
        if r.kind == "Missed" or r.text.startswith(stopped))


def check_static(compiled: kernels.Compiled, static: StaticMlp) -> None:
    """Whether all linears are in kernels with static scales, of the families
    asked for.

    Raises:
        KernelError: it is not, with the compiler's reasons.
    """
    reasons = _missed(compiled)
    missed = f": {reasons}" if reasons else ""
    other = [f for f in compiled.families if f not in static.families]
    if other:
        raise KernelError(f"the members form {', '.join(other)}; the "
                          "fusion_config has kernels for "
                          f"{', '.join(static.families)}{missed}")
    left = re.search(r"fuse\.(linear|quantize|dequantize)\b",
                     compiled.formed)
    if left or " scales(" not in compiled.formed:
        raise KernelError(f"no kernel with static scales forms{missed}")


@dataclass
class SiteResult:
    """A place that a pattern selects, and what became of it."""

    id: str
    parent: str
    members: list[str]
    #: "fused", "could fuse" or "refused".
    status: str
    families: tuple[str, ...] = ()
    refusal: Refusal | None = None
    #: When the kernel does not run although it could.
    note: str = ""

    @property
    def reason(self) -> str:
        return str(self.refusal) if self.refusal else ""


class FusionResult(list[SiteResult]):
    """Sites in the order of the model; prints as a table."""

    #: What scales were made from, where `calibrate` made them.
    calibration: Any = None

    @property
    def fused(self) -> list[SiteResult]:
        return [s for s in self if s.status == "fused"]

    @property
    def refused(self) -> list[SiteResult]:
        return [s for s in self if s.status == "refused"]

    def __str__(self) -> str:
        from fuse_mlir.report import sites_text

        return sites_text(self)


def fuse_modules(model: nn.Module, patterns: Any = None,
                 specs: Sequence[ModuleSpec] | None = None, *,
                 inputs: Any = None, strict: bool | None = None,
                 gradients: str = "recompute", fusion_config: Any = None,
                 progress: Any = None) -> FusionResult:
    """Replaces chains of modules of `model` by kernels, in place.

    Only this instance changes; other models of its class, and models loaded
    later, are not affected.

    Args:
        model: in eval mode where its members have dropout. On the CPU or CUDA.
        patterns: a `KernelConfig`, a mapping like its argument, one key or a
            list of keys. None takes the patterns that the model declares, or
            every chain around linears that its data flow shows.
        specs: one per member of the pattern, to hold names of inputs and
            outputs against the data flow.
        inputs: example inputs, of which shapes and types matter. Models of
            transformers need none.
        strict: refuse the whole call when a selected site can not be fused;
            the default where patterns are given or declared. Otherwise such
            sites stay as they are, with their reason.
        gradients: `recompute` or `error`, see `FusedModule`.
        fusion_config: `{"static_quantized_mlp": {"input_quant": "fuse",
            "gated_mlp": "fuse", "dense_gelu_mlp": "fuse"}}` demands static
            scales for all linears of a site and takes sites of the named
            kinds; `scales` gives those of linears in floating point.
        progress: called after each site with how many are done, how many
            there are, and a line about it.

    Returns:
        All selected sites.

    Raises:
        PatternError: a pattern is malformed, unknown or selects nothing.
        FlowError: the model can not be run on the inputs.
        FuseError: a site was refused and `strict` is set, no site is there to
            fuse, or libfuse is missing. The model is as it was.
    """
    if gradients not in GRADIENTS:
        raise PatternError(f"unknown gradients '{gradients}'; expected "
                           + " or ".join(GRADIENTS))
    if isinstance(patterns, KernelConfig) and patterns.layers:
        raise PatternError(
            "KernelConfig has layers for kernels of the Hub ("
            + ", ".join(map(str, patterns.layers)) + "); give "
            "KernelConfig.hub_config() to from_pretrained of transformers")
    static = static_mlp.parse(fusion_config)
    static_mlp.check_paths(static, require_module(model))
    sites, flow = select(model, patterns, inputs)
    if specs is not None:
        _check_specs(sites, specs)
    results, fused = FusionResult(), []
    for done, site in enumerate(sites, 1):
        result, module = plan_site(site, gradients, static)
        results.append(result)
        if module is not None:
            fused.append((site, module))
        if progress is not None:
            progress(done, len(sites), f"{join(site.parent, site.id)}: "
                     + (result.reason or ", ".join(result.families)))
    if strict is None:
        strict = patterns is not None or bool(declared_patterns(model))
    if strict and results.refused:
        first = results.refused[0]
        more = len(results.refused) - 1
        raise FuseError(
            f"site '{join(first.parent, first.id)}' is refused: "
            f"{first.reason}" + (f" (and {more} more)" if more else "")
            + "; pass strict=False to fuse the others")
    if not fused and patterns is None:
        why = f": {results.refused[0].reason}" if results.refused else ""
        itself = "" if results.refused or not looks_like_mlp(model) else \
            "; fuse_mlir.compile(model) makes one kernel of the module itself"
        raise FuseError(
            f"{type(model).__name__} has no chain to fuse{why}; "
            f"fuse_mlir.explain(model) lists all reasons{itself}")
    placed: list[tuple[nn.Module, FusedModule]] = []
    try:
        for site, module in fused:
            placed.append((model.get_submodule(site.parent), module))
            module.put_into(placed[-1][0])
    # Whatever keeps one site from its place, the others are not left either.
    except BaseException:
        for parent, module in placed:
            module.take_out_of(parent)
        raise
    for planned in results:
        if planned.status == "could fuse":
            planned.status = "fused"
    return results


def select(model: nn.Module, patterns: Any, inputs: Any) \
        -> tuple[list[Site], Flow]:
    """Sites of `patterns`, or of the data flow where there are none."""
    require_module(model)
    _refuse_sharded(model)
    resolved: list[Pattern] = resolve(model, patterns)
    # What is fused already is seen as it was before.
    with members_back(model):
        flow = observe(model, inputs)
    if patterns is None and not resolved:
        resolved = candidates(model, flow)
        sites = [found for pattern in resolved
                 for site in find_sites(model, [pattern], flow)
                 for found in (site, *shorter_sites(model, site, flow))]
        for site in sites:
            _refuse_convolutions(site)
            _hold_back_experts(site)
        # Ids count places of equal members, which have a pattern each here.
        count: dict[str, int] = {}
        for site in sites:
            base = site.id.rpartition("#")[0]
            site.id = f"{base}#{count.get(base, 0)}"
            count[base] = count.get(base, 0) + 1
        return sites, flow
    return find_sites(model, resolved, flow), flow


def _refuse_sharded(model: nn.Module) -> None:
    """Running such a model without its hooks or on tensors without data fails,
    or leaves its parameters without data."""
    for path, module in model.named_modules():
        kind = type(module)
        if hasattr(kind, "flatten_sharded_optim_state_dict"):
            what = (f"is a {kind.__name__}, which flattens the parameters "
                    "below it; fuse a model without it")
        elif hasattr(kind, "set_reshard_after_forward"):
            what = "was given to fully_shard; fuse the model before that"
        else:
            continue
        raise FuseError(f"FUSE-N209 tensor-parallel: '{path}' {what}")


def _refuse_convolutions(site: Site) -> None:
    """Refuses what mixes tokens, before it is exported: that can take long for
    modules such as Mamba's."""
    if site.refusal is not None:
        return
    for path, member in zip(site.paths, site.members):
        for below, module in member.named_modules():
            if isinstance(module, nn.modules.conv._ConvNd):
                site.refuse("FUSE-N212", "member-without-body",
                            f"'{join(path, below) if below else path}' is a "
                            f"{type(module).__name__}, which no kernel has")
                return


def _hold_back_experts(site: Site) -> None:
    """Refuses experts that nobody asked for, where PyTorch is faster."""
    if site.refusal is not None or not looks_like_experts(site.members[0]):
        return
    path = site.paths[0]
    try:
        activation_of(site.members[0], path)
    except UnknownExperts as error:
        site.refuse("FUSE-N212", "member-without-body", str(error))
        return
    weights = dict(site.members[0].named_parameters())["down_proj"]
    if weights.is_cuda and weights.element_size() == 2 \
            and not any(size % _VECTOR for size in weights.shape[1:]):
        return
    site.refuse(
        "FUSE-N014", "family-not-requested", "the kernel for experts "
        f"'{path}' is slower than grouped products, but for few tokens in 16 "
        "bits on a GPU; a pattern such as ((\"*Experts\", \"**.experts\"),) "
        "asks for it")


def _check_specs(sites: Sequence[Site], specs: Sequence[ModuleSpec]) -> None:
    for site in sites:
        if not site.members:
            continue
        check_specs(site.members, specs)
        if site.plan is None:
            continue
        for i, (step, spec) in enumerate(zip(site.plan.steps, specs)):
            for (_, source), name in zip(step.slots(), spec.inputs):
                makers = [j for j, s in enumerate(specs[:i])
                          if name in s.outputs]
                seen = source.index if source.kind == "step" else None
                if (makers[-1] if makers else None) != seen:
                    site.refuse(
                        "FUSE-N206", "not-a-chain",
                        f"the spec of '{site.paths[i]}' takes '{name}' from "
                        + (f"'{site.paths[makers[-1]]}'" if makers else
                           "outside") + ", the model takes it from "
                        + (f"'{site.paths[seen]}'" if seen is not None
                           else "outside"))
                    break


def plan_site(site: Site, gradients: str = "recompute",
              static: StaticMlp | None = None) \
        -> tuple[SiteResult, FusedModule | None]:
    """The fused module of a site, which is not put in place yet."""
    result = SiteResult(site.id, site.parent, site.paths, "refused",
                        refusal=site.refusal)
    plan = site.plan
    # Sites without a plan are refused.
    if site.refusal is not None or plan is None:
        return result, None
    try:
        # A missing library is no property of a site.
        native.library()
    except native.NativeError as error:
        raise FuseError(str(error)) from error
    module = FusedModule(site.id, site.names, site.members, plan,
                         site.pattern.kernel, gradients,
                         static and static.below(site.parent))
    try:
        copies, compiled = module.compile_for(plan.examples)
        result.families = compiled.families
        device = plan.examples[0].device
        if device.type != "meta":
            result.note = module.bind(copies, compiled, device).note
    except Refused as refusal:
        result.refusal = Refusal(refusal.id, refusal.name, refusal.text)
        return result, None
    except KernelError as error:
        result.refusal = Refusal("FUSE-N212", "member-without-body",
                                 str(error))
        return result, None
    except native.NativeError as error:
        result.refusal = Refusal("FUSE-N212", "member-without-body",
                                 f"no code for the members: {error}")
        return result, None
    result.status = "could fuse"
    return result, module


def fused_sites(model: nn.Module) -> list[tuple[str, FusedModule]]:
    """Fused modules of `model` and the paths of their parents."""
    require_module(model)
    return [(path.rpartition(".")[0], module)
            for path, module in model.named_modules()
            if isinstance(module, FusedModule)]


def one_kernel(model: nn.Module, site: str | None) -> FusedModule:
    """The fused module of a site, or any one when all have one kernel.

    Raises:
        FuseError: no such site, or kernels that differ.
    """
    found = {join(parent, module.site): module
             for parent, module in fused_sites(model)}
    chosen = [m for name, m in found.items()
              if (site is None or site in (name, m.site)) and m._kernel]
    if not found:
        raise FuseError("nothing is fused; call fuse_modules before")
    codes = {m._kernel.compiled.formed for m in chosen}
    if len(codes) != 1:
        what = f"no fused site '{site}'" if site is not None \
            else f"sites have {len(codes)} kernels"
        raise FuseError(f"{what}; name one of {', '.join(found)}")
    return chosen[0]


@contextlib.contextmanager
def members_back(model: nn.Module) -> Iterator[None]:
    """The members in their places, for as long as a `with` lasts."""
    sites = [(model.get_submodule(path), module)
             for path, module in fused_sites(model)]
    places = []
    for parent, module in sites:
        places.append([parent._modules[n] for n in module.names])
        parent._modules.update(zip(module.names, module.members))
    try:
        yield
    finally:
        for (parent, module), held in zip(sites, places):
            parent._modules.update(zip(module.names, held))


def unfuse_modules(model: nn.Module,
                   sites: str | Sequence[str] | None = None) -> list[str]:
    """Puts the members back: the same modules in the same order.

    Args:
        model: may be fused or not.
        sites: ids, or path globs of members or their parents; all when None.

    Returns:
        The parents of the sites that were undone.

    Raises:
        FuseError: an id or glob names no fused site, or a place was replaced
            by something else since.
    """
    found = fused_sites(model)
    chosen = found
    if sites is not None:
        require(sites, Iterable, "argument 'sites'",
                "an id, a path glob, or a list of them")
        wanted = [sites] if isinstance(sites, str) else list(sites)
        chosen = []
        for name in wanted:
            require(name, str, f"the site {name!r}", "an id or a path glob")
            matching = [s for s in found if _names_site(name, *s)]
            if not matching:
                known = ", ".join(join(p, m.site) for p, m in found) or "none"
                raise FuseError(f"no fused site '{name}'; there are {known}")
            chosen += [s for s in matching if s not in chosen]
    for path, module in chosen:
        parent = model.get_submodule(path)
        if parent._modules.get(module.names[0]) is not module:
            raise FuseError(
                f"the kernel of site '{module.site}' is not in the place of "
                f"'{module.names[0]}' any more, but somewhere in '{path}'; "
                "put it back before unfusing")
        for name in module.names:
            place = parent._modules.get(name)
            if not isinstance(place, FusedPlace) or place.site != module.site:
                raise FuseError(
                    f"'{join(path, name)}' is a {type(place).__name__} and "
                    f"not part of site '{module.site}' any more; put it back "
                    "before unfusing")
    for path, module in chosen:
        module.take_out_of(model.get_submodule(path))
    return [path for path, _ in chosen]


def _names_site(name: str, parent: str, module: FusedModule) -> bool:
    if name in (module.site, join(parent, module.site)):
        return True
    if "#" in name or "+" in name:
        return False
    return match(name, parent) or any(match(name, join(parent, n))
                                      for n in module.names)


@contextlib.contextmanager
def fused(model: nn.Module, patterns: Any = None, **options: Any) \
        -> Iterator[FusionResult]:
    """Fuses for the body of a `with`, then undoes what it fused.

    Args and errors are those of `fuse_modules`.
    """
    before = {id(module) for _, module in fused_sites(model)}
    result = fuse_modules(model, patterns, **options)
    try:
        yield result
    finally:
        mine = [join(path, module.site) for path, module in fused_sites(model)
                if id(module) not in before]
        if mine:
            unfuse_modules(model, mine)
