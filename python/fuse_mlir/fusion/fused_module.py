# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The module that computes a chain, and its checks before a call."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from fuse_mlir import native
from fuse_mlir.compiler import chains, kernels
from fuse_mlir.compiler.adapters import lost
from fuse_mlir.compiler.chains import Chain, Compiled
from fuse_mlir.compiler.copies import Copies, stored_members
from fuse_mlir.compiler.fast_calls import Arguments, Site, make_call
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.compiler.watch import Watch
from fuse_mlir.errors import (
    FuseError,
    FusionWarning,
    KernelError,
    Refused,
    UnknownExperts,
)
from fuse_mlir.fusion import stored_timings, timing
from fuse_mlir.fusion.deferred import computed
from fuse_mlir.fusion.member_checks import (
    check_autocast,
    check_family,
    check_members,
    check_static,
    is_transformed,
)
from fuse_mlir.fusion.proxies import (
    OWN,
    FusedIdentity,
    FusedPlace,
    Pending,
    arguments_of,
    check_constant,
    mark_unfused,
    named,
)
from fuse_mlir.fusion.timing import RowRanges, Verdict
from fuse_mlir.matching.patterns import artifact_of
from fuse_mlir.matching.plans import (
    Plan,
    child_at,
    replace_members,
    run_plan,
)
from fuse_mlir.matching.proxy import Proxy
from fuse_mlir.matching.ptx_kernel import PtxKernel
from fuse_mlir.matching.static_mlp import StaticMlp
from fuse_mlir.native.refusals import refusal
from fuse_mlir.support.arguments import no_tensor
from fuse_mlir.support.module_snapshot import is_exporting, is_tracing


class FusedModule(FusedPlace):
    """Computes a chain of members with one kernel.

    Args:
        site: id of the site.
        names: of the members among the children of their parent.
        members: the modules; this module replaces the first one.
        plan: how the model calls them.
        kernel: `fuse` for any family, the required family, the path of an
            artifact, or a `PtxKernel`.
        gradients: `recompute` runs the members again in the backward pass;
            `error` refuses calls that need gradients.
        static: scales of linears; then all linears must be quantized. None
            for the weights of the members.
        rounding: `relaxed` rounds activations in 16 bits once, also if the
            members compute them by formulas that round each op.
        rows: numbers of rows to measure; calls run the members where they are
            faster. None runs the kernel for any number of rows, or for up to
            `Kernel.most_rows` rows, which kernels of experts have.
    """

    #: The modules that the kernel replaces, and how the model calls them.
    members: list[nn.Module]
    plan: Plan
    #: The kernel of the last call; None before the first.
    _kernel: Kernel | None
    #: The artifact that the user named.
    _file: native.Artifact | None
    _watch: Watch | None
    #: What `_fast` was made for.
    _fast_of: tuple[int, int] | None
    _built: Any
    #: The parent of the members.
    _parent: weakref.ref[nn.Module] | None
    _verdict: Verdict | None
    #: Rows that run the kernel, in eager and in compiled calls.
    _eager_rows: RowRanges | None
    _traced_rows: RowRanges | None
    #: Why the kernel covers less than a whole MLP; empty if it covers all.
    lost: str
    #: Numbers of rows to measure.
    _counts: tuple[int, ...] | None
    #: Whether members after the first one return results of their own.
    _hands_out: ClassVar[bool] = False
    #: Whether results are terms of a sum over ranks in f32.
    _sums_in_f32: bool = False

    def __init__(
        self,
        site: str,
        names: Sequence[str],
        members: Sequence[nn.Module],
        plan: Plan,
        kernel: str | PtxKernel,
        gradients: str,
        static: StaticMlp | None = None,
        rounding: str = "exact",
        rows: Sequence[int] | None = None,
    ) -> None:
        super().__init__(site, members[0])
        self.__dict__["members"] = list(members)
        self.names = tuple(names)
        self.kernel_name = kernel
        self.gradients = gradients
        self.static = static
        self.rounding = rounding
        # The examples are fake tensors and are no longer needed.
        self.__dict__["plan"] = replace(plan, examples=[])
        self.__dict__.update(
            _kernel=None,
            _file=None,
            _watch=None,
            _built=None,
            _parent=None,
            _verdict=None,
            _eager_rows=None,
            _traced_rows=None,
            _fast=None,
            _fast_of=None,
            lost="",
            _counts=None if rows is None else tuple(rows),
        )
        self._mode_matters = plan.eval_only or any(
            isinstance(m, nn.modules.dropout._DropoutNd)
            and m.p > 0
            or isinstance(m, nn.modules.batchnorm._BatchNorm)
            for member in members
            for m in member.modules()
        )
        #: Whether members after the first one read inputs too.
        self._has_sides = any(
            source.kind == "input"
            for step in plan.steps[1:]
            for _, source in step.slots()
        )

    def put_into(self, parent: nn.Module) -> None:
        """Replaces the members below `parent`."""
        # The parent owns this module, so a strong reference would be a cycle.
        self.__dict__["_parent"] = weakref.ref(parent)
        replace_members(parent, self.names, [self, *self._other_places()])
        self._forget_fast()

    def _other_places(self) -> list[nn.Module]:
        """New modules for the places of the members after the first one."""
        return [
            FusedIdentity(
                self.site, member, step, last=member is self.members[-1]
            )
            for member, step in list(zip(self.members, self.plan.steps))[1:]
        ]

    def take_out_of(self, parent: nn.Module) -> None:
        """Puts the members back."""
        for name, member in zip(self.names, self.members):
            member.training = parent.get_submodule(name).training
        replace_members(parent, self.names, self.members)

    # Handles of the library live in one process and belong to one module.
    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_kernel": None,
            "_file": None,
            "_watch": None,
            "_built": None,
            "_fast": None,
            "_fast_of": None,
            "_parent": self._parent and self._parent(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        parent = state.pop("_parent", None)
        super().__setstate__(state)
        self.__dict__["_parent"] = parent and weakref.ref(parent)

    def __deepcopy__(self, memo: dict[int, Any]) -> FusedModule:
        import copy

        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        state = self.__getstate__()
        # If the parent is being copied, the memo has its copy already.
        parent = memo.get(id(state.pop("_parent")))
        copied.__dict__.update(copy.deepcopy(state, memo))
        copied.__dict__.update(
            _file=self._file, _parent=parent and weakref.ref(parent)
        )
        return copied

    def _apply(self, *args: object, **kwargs: object) -> FusedModule:
        # The dtype or device may change; the next call makes a new kernel.
        super()._apply(*args, **kwargs)
        self.__dict__["_kernel"] = None
        self._forget_fast()
        return self

    def train(self, mode: bool = True) -> FusedModule:
        super().train(mode)
        self._forget_fast()
        return self

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "training":
            self._forget_fast()

    def _forget_fast(self) -> None:
        """Lets Python run the next call, and decide again."""
        self.__dict__.update(_fast=None, _fast_of=None)

    def chain_of(self, members: Sequence[nn.Module]) -> Chain:
        """What the kernel computes, with these members or copies of them."""
        return Chain(*self._chained(members))

    def _chained(
        self, members: Sequence[nn.Module]
    ) -> tuple[Sequence[str], Sequence[nn.Module], Plan]:
        """The arguments of `Chain`."""
        return self.names, members, self.plan

    def _run_members(
        self, inputs: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The results of the kernel, by the members themselves."""
        _, members, plan = self._chained(self.members)
        return run_plan(members, plan, inputs)

    def build(self, inputs: Sequence[torch.Tensor]) -> Kernel:
        """Makes the kernel for the types and the device of `inputs`.

        Raises:
            KernelError: the members cannot be compiled; with the reason.
        """
        copies, compiled = self._compile_again(inputs)
        return self.bind(copies, compiled, inputs)

    def _compile_again(
        self, inputs: Sequence[torch.Tensor]
    ) -> tuple[Copies, Compiled]:
        """`compile_for` of a site that is fused already.

        Raises:
            KernelError: the changed members cannot be compiled; with the
                reason.
        """
        try:
            return self.compile_for(inputs)
        except (Refused, KernelError) as error:
            raise KernelError(
                f"site '{self.site}' has no kernel for its members and "
                f"inputs as they are now: {error}; unfuse the site"
            ) from error

    def compile_for(
        self, inputs: Sequence[torch.Tensor]
    ) -> tuple[Copies, Compiled]:
        """The members with their copied weights, and code for `inputs`.

        Raises:
            KernelError: the members cannot be compiled; with the reason.
            Refused: a linear has no scales that a kernel can use.
        """
        try:
            copies = stored_members(
                self.names,
                self.members,
                self.static,
                self.rounding == "relaxed" and inputs[0].element_size() == 2,
                self._sums_in_f32,
            )
        except UnknownExperts as error:
            raise KernelError(refusal("unknown-experts", str(error))) from error
        compiled = chains.compile_chain(
            *self._chained(copies.members), chains.input_types(inputs)
        )
        chain = self.chain_of(copies.members)
        if isinstance(self.kernel_name, PtxKernel):
            return copies, chains.from_ptx(
                compiled, chain, self.kernel_name, inputs[0].device
            )
        check_family(compiled, self.kernel_name)
        if self.static is not None:
            check_static(compiled, self.static)
        self.__dict__["lost"] = lost(*self._chained(copies.members), compiled)
        artifact = artifact_of(self.kernel_name)
        # The IR of an artifact has scales that a plan does not know yet.
        if artifact is not None and not (self.static and self.static.planned):
            # Kernels for other types are made later, when the file may be gone.
            if self._file is None:
                self.__dict__["_file"] = native.Artifact.load(*artifact)
            assert self._file is not None
            compiled = chains.from_artifact(
                compiled, chain, artifact[0], self._file
            )
        return copies, compiled

    def bind(
        self,
        copies: Copies,
        compiled: Compiled,
        inputs: Sequence[torch.Tensor],
        slow: Callable[[str], None] | None = None,
    ) -> Kernel:
        """Makes the kernel of later calls, with the weights of `copies`.

        Args:
            copies: the weights that the kernel reads.
            compiled: the code of the members.
            inputs: as in a call, [..., features]; values do not matter.
            slow: as for `timing.measured`.
        """
        chain = self.chain_of(copies.members)
        native.tell_missing()
        kernel = Kernel(self.site, chain, compiled, inputs[0].device, copies)
        self._forget_fast()
        kernel.owner = weakref.WeakMethod(self.still_has)
        self.__dict__.update(
            _kernel=kernel, _built=self._structure(), _watch=self._new_watch()
        )
        limit = kernel.most_rows and RowRanges.up_to(kernel.most_rows)
        self.__dict__.update(
            _eager_rows=limit, _traced_rows=limit, _verdict=None
        )
        if self._counts is not None:
            self._use(self._measure(kernel, inputs, slow))
        return kernel

    def verdict_for(
        self, compiled: Compiled, device: torch.device
    ) -> Verdict | None:
        """The earlier measurement of a site with the same structure."""
        return None if self._counts is None else self._known(compiled, device)

    def _known(
        self, compiled: Compiled, device: torch.device
    ) -> Verdict | None:
        """The measurement of such a site in this process, or a final one of
        another process."""
        key = self._key(compiled, device)
        found = timing.known(key)
        if found is None:
            found = stored_timings.load(self._stored_key(compiled, device))
            if found is None or not found.final:
                return None
            timing.remember(key, found)
        return found

    def _stored_key(self, compiled: Compiled, device: torch.device) -> str:
        """The same as `_key` for other processes."""
        return stored_timings.key_of(
            device,
            (
                timing.timed_ir(compiled.kind),
                self.plan.structure(),
                [
                    f"{type(m).__module__}.{type(m).__qualname__}"
                    for member in self.members
                    for m in member.modules()
                ],
                self._counts,
                torch.get_num_threads(),
                native.num_threads(),
            ),
        )

    def _key(self, compiled: Compiled, device: torch.device) -> object:
        """A key that sites with equal times share."""
        return (
            timing.timed_ir(compiled.kind),
            self.plan.structure(),
            str(device),
            tuple(type(m) for member in self.members for m in member.modules()),
            self._counts,
            torch.get_num_threads(),
            native.num_threads(),
        )

    def _measure(
        self,
        kernel: Kernel,
        inputs: Sequence[torch.Tensor],
        slow: Callable[[str], None] | None,
    ) -> Verdict | None:
        """Times the kernel and the members, once for each structure.

        Returns:
            None if the members do not run on this device.
        """
        if self.training and self._mode_matters:
            return None
        device = kernel.device
        verdict = self._known(kernel.compiled, device)
        if verdict is not None:
            return verdict
        members = self.chain_of(self.members)
        by_kernel = self._trial(kernel, self.members, None)
        # The checks before members run take the same time for all members.
        # Members that do nothing show it best.
        idle = [timing.Idle() for _ in self.members]
        asked = self._trial(kernel, idle, RowRanges())
        not_asked = self.chain_of(idle)
        largest = kernel.experts

        def run(chain: nn.Module, count: int) -> Callable[[], object]:
            values = timing.example_inputs(inputs, count, device, largest)
            return lambda: chain(*values)

        def eager(count: int, watch: timing.Stopwatch) -> timing.Times:
            return timing.Times(
                count,
                *watch.compare(run(members, count), run(by_kernel, count)),
            )

        def overhead(count: int) -> float:
            found = timing.Stopwatch(torch.device("cpu")).compare(
                run(not_asked, count), run(asked, count)
            )
            return max(found.other - found.members, 0.0)

        try:
            with torch.no_grad():
                run(members, 1)()
        # Some members have no code for a CPU, such as those of FP8Linear.
        except Exception:
            return None
        assert self._counts is not None
        stored = self._stored_key(kernel.compiled, device)
        verdict = timing.measured(
            self._counts,
            eager,
            overhead,
            device,
            slow,
            stored_timings.load(stored),
        )
        stored_timings.store(stored, verdict)
        return timing.remember(self._key(kernel.compiled, device), verdict)

    def _trial(
        self,
        kernel: Kernel,
        members: Sequence[nn.Module],
        rows: RowRanges | None,
    ) -> nn.Module:
        """A chain with separate proxies, called as the model calls it.

        Args:
            kernel: that the chain runs.
            members: that the proxies replace.
            rows: numbers of rows that run the kernel; None for any.
        """
        kind: Any = self._kind
        place = kind(
            self.site,
            self.names,
            members,
            self.plan,
            self.kernel_name,
            "recompute",
            self.static,
            self.rounding,
        )
        place.__dict__.update(
            _kernel=kernel,
            _built=self._built,
            _watch=self._watch,
            _eager_rows=rows,
            _traced_rows=rows,
        )
        chain = self.chain_of(members)
        place.put_into(chain)
        return chain

    def _use(self, verdict: Verdict | None) -> None:
        """Runs the members where that is faster."""
        self._forget_fast()
        self.__dict__["_verdict"] = verdict
        if verdict is None:
            self.__dict__.update(_eager_rows=None, _traced_rows=None)
            return
        eager = verdict.eager.rows
        traced = verdict.traced.rows if verdict.traced else eager
        self.__dict__.update(
            _eager_rows=None if eager.all else eager,
            _traced_rows=None if traced.all else traced,
        )

    @property
    def verdict(self) -> Verdict | None:
        """The measurement of the kernel; None without one."""
        return self._verdict

    @property
    def families(self) -> tuple[str, ...]:
        """The families of the kernel; empty before the first call."""
        return self._kernel.compiled.families if self._kernel else ()

    @property
    def note(self) -> str:
        """How the kernel differs from the members, and which calls run the
        members; empty if neither applies."""
        kernel = self._kernel
        if kernel is None:
            return ""
        if self._counts is None:
            return "; ".join(filter(None, (kernel.note, self.lost)))
        return "; ".join(
            filter(
                None,
                (
                    kernel.copies_note,
                    self.lost,
                    self._verdict.note()
                    if self._verdict
                    else "its speed was not measured, because the members do not run "
                    "here",
                ),
            )
        )

    def still_has(self, kernel: Kernel, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether calls on `inputs` would run `kernel` now.

        Raises:
            FuseError: as `_look_again`.
            KernelError: as `_look_again`.
        """
        self._check_places()
        if self._watch is None or not self._watch.same():
            kernels.outside_of_ops(
                inputs[0].device, lambda: self._look_again(inputs)
            )
        return self._kernel is kernel

    def _structure(self) -> tuple:
        # The members keep the objects of these ids alive, and kernels check
        # the types of parameters themselves.
        return tuple(chains.structure(m, [], types=False) for m in self.members)

    def _trace(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        kernel, rows = self._kernel, self._traced_rows
        if (
            kernel is None
            or self.gradients == "error"
            or self.training
            or torch.is_grad_enabled()
            or rows is not None
            and rows.ranges != ((0, None),)
            or len(args) != 1
            or kwargs
            or self.plan.inputs[0] != 0
            or len(self.plan.inputs) != 1
            or not isinstance(args[0], torch.Tensor)
            or torch.is_autocast_enabled(args[0].device.type)
            or getattr(torch.compiler, "_is_exporting_flag", True)
            and is_exporting()
        ):
            return self._run(args, kwargs)
        if self._hands_out:
            inputs = [args[0]]
            return self._pass_on(kernels.call_all(kernel, inputs), inputs)
        return torch.ops.fuse_mlir.call([args[0]], kernel.weights(), kernel.id)

    def _run(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        """A call that asks everything in Python."""
        first = self._first_input(args, kwargs)
        if self.training and self._mode_matters:
            raise FuseError(
                f"site '{self.site}' has dropout or batch statistics and is "
                "in training mode; call eval(), or unfuse it"
            )
        check_autocast(f"site '{self.site}'", first)
        tracing = is_tracing()
        if (
            not tracing
            and self._kernel is not None
            and self._prefers_members(first, self._kernel)
        ):
            return self._member_alone(args, kwargs)
        inputs = self.inputs(args, kwargs)
        if not tracing:
            inputs = list(map(computed, inputs))
            self._check_places()
            if is_transformed(inputs):
                return self._tag(self._run_members(inputs), inputs)
            if self._watch is None or not self._watch.same():
                self._look_again(inputs)
            kernel = self._kernel
            if kernel is None or not kernel.matches(inputs):
                kernel = self.build(inputs)
                # Making the kernel measured which of the two is faster.
                if self._prefers_members(first, kernel):
                    return self._member_alone(args, kwargs)
        else:
            kernel = self._kernel
        if kernel is None:
            raise FuseError(
                f"site '{self.site}' has no kernel for the model's present "
                "type and device; call the model once before compiling it"
            )
        if (
            self.gradients == "error"
            and torch.is_grad_enabled()
            and any(t.requires_grad for t in [*inputs, *kernel.weights()])
        ):
            raise FuseError(
                f"site '{self.site}' is fused with gradients='error' and "
                "this call needs gradients; use torch.no_grad(), "
                "gradients='recompute', or unfuse it"
            )
        if tracing:
            # Identities pass the result on, so that all members run.
            if not is_exporting() and self._prefers_members(
                first, kernel, traced=True
            ):
                return self._pass_on(self._run_members(inputs), inputs)
            return self._pass_on(
                self._whole(kernels.call_all(kernel, inputs)), inputs
            )
        result = self._tag(
            self._whole(kernels.call_all_asked(kernel, inputs)), inputs
        )
        self._prepare_fast(kernel)
        return result

    def _whole(self, results: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The results of the site from those of its kernel."""
        return results

    def _prepare_fast(self, kernel: Kernel) -> None:
        """Lets the extension run calls like the one that has just run."""
        fast, of = self._fast, (kernel.id, kernel.most_loaded)
        if of == self._fast_of and (fast is None or not fast.stale):
            return
        rows = self._eager_rows
        assert self._watch is not None
        self.__dict__.update(
            _fast=make_call(
                kernel,
                self._watch,
                self._fast_arguments(),
                ((1, None),) if rows is None else rows.ranges,
                self._fast_site(),
            ),
            _fast_of=of,
        )

    def _fast_arguments(self) -> Arguments:
        """How usual calls pass their inputs."""
        step = self.plan.steps[0]
        return Arguments(
            len(step.args),
            len(step.kwargs),
            self.plan.inputs,
            [
                (slot, source.value)
                for slot, source in step.slots()
                if source.kind == "constant"
            ],
        )

    def _fast_site(self) -> Site | None:
        """What calls ask of the places after the first one, if there are any."""
        parent = self._parent
        owner = None if parent is None else parent()
        if len(self.names) == 1 or parent is None or owner is None:
            return None
        return Site(
            self.site,
            Pending,
            parent,
            [
                (name.split("."), owner.get_submodule(name))
                for name in self.names[1:]
            ],
            self._has_sides,
            self._hands_out,
            self.plan.outputs is not None and self.plan.outputs[0] == 0,
        )

    def _first_input(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        """The first of `inputs`; the others are not checked."""
        slot = self.plan.inputs[0]
        value = (
            kwargs.get(slot)
            if isinstance(slot, str)
            else args[slot]
            if slot < len(args)
            else None
        )
        return (
            value
            if isinstance(value, torch.Tensor)
            else self.inputs(args, kwargs)[0]
        )

    def _prefers_members(
        self, first: torch.Tensor, kernel: Kernel, traced: bool = False
    ) -> bool:
        """Whether the members are faster for a call.

        Args:
            first: input of the call, [..., features].
            kernel: with the measured numbers of rows.
            traced: whether the call is compiled.
        """
        ranges, other = self._eager_rows, self._traced_rows
        if traced or first.is_cuda and torch.cuda.is_current_stream_capturing():
            ranges, other = other, ranges
        if ranges is not None and not ranges.has(
            rows := first.shape[:-1].numel()
        ):
            # The call before a capture is eager.
            if (
                first.is_cuda
                and ranges is self._eager_rows
                and (other is None or other.has(rows))
            ):
                kernel.load(rows)
            if self.gradients != "error":
                return True
            # Such calls are refused whichever of the two runs.
            return not torch.is_grad_enabled()
        # The backward pass of a kernel runs the members once more.
        return (
            self._verdict is not None
            and torch.is_grad_enabled()
            and self.gradients != "error"
            and (
                first.requires_grad
                or any(t.requires_grad for t in kernel.weights())
            )
        )

    def _member_alone(
        self, args: tuple, kwargs: dict[str, Any]
    ) -> torch.Tensor:
        """The result of the first member; the identities run the others."""
        result = self._call_member(args, kwargs)
        if len(self.names) > 1:
            mark_unfused(result, self.site)
        return result

    def _pass_on(
        self, results: Sequence[torch.Tensor], _inputs: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """What this module returns in a traced call with these results."""
        return results[0]

    def _tag(
        self, results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """Marks the result, so that identities recognize it."""
        result = results[0]
        tagged: Any = result
        tagged._fuse_site = self.site
        if len(self.names) > 1 and type(result) is torch.Tensor:
            tagged.__class__ = Pending
        if self._has_sides:
            tagged._fuse_inputs = tuple(map(id, inputs))
        return result

    def inputs(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """The tensors of a call that the kernel reads.

        Raises:
            FuseError: the chain was fused for other arguments.
        """
        if self._is_usual(args, kwargs):
            return [
                args[s] if isinstance(s, int) else kwargs[s]
                for s in self.plan.inputs
            ]
        return self._bind(args, kwargs)

    def on_inputs(
        self, tell: Callable[[list[torch.Tensor]], None]
    ) -> RemovableHandle:
        """Calls `tell` with the inputs of the kernel in each call, until the
        handle is removed."""
        return self.register_forward_pre_hook(
            lambda _, args, kwargs: tell(self.inputs(args, kwargs)),
            with_kwargs=True,
        )

    def _is_usual(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        first = self.plan.steps[0]
        if len(args) != len(first.args) or len(kwargs) != len(first.kwargs):
            return False
        for slot, source in first.slots():
            value = (
                args[slot] if isinstance(slot, int) else kwargs.get(slot, first)
            )
            if (
                isinstance(value, torch.Tensor) != (source.kind == "input")
                or source.kind == "constant"
                and value != source.value
            ):
                return False
        return True

    def _bind(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """Inputs of a call that passes them by other positions or names."""
        inputs: dict[int, torch.Tensor] = {}
        for name, source, value in arguments_of(
            self._member, self.plan.steps[0], args, kwargs
        ):
            if source.kind != "input":
                check_constant(self.site, name, source, value)
                continue
            if not isinstance(value, torch.Tensor):
                raise FuseError(
                    f"site '{self.site}' expects a tensor as "
                    f"{named(name)}, got {no_tensor(value)}"
                )
            inputs[source.index] = value
        return [inputs[i] for i in range(len(self.plan.inputs))]

    def _check_places(self) -> None:
        """Checks that the result still passes through the identities.

        Raises:
            FuseError: another module would read the result as if it were the
                input of a member.
        """
        parent = self._parent() if self._parent is not None else None
        if parent is None:
            if len(self.names) == 1:
                return
            raise FuseError(
                f"FUSE-N206 not-a-chain: the fused module of site "
                f"'{self.site}' was copied without its parent, or its parent "
                "is gone; copy the parent, or unfuse the site before"
            )
        for name in self.names[1:]:
            place = child_at(parent, name)
            if not isinstance(place, FusedPlace) or place.site != self.site:
                raise FuseError(
                    f"FUSE-N206 not-a-chain: '{name}', a member of site "
                    f"'{self.site}', was replaced by a "
                    f"{type(place).__name__} after it was fused; put it back, "
                    "unfuse the site, and replace the member then"
                )

    def _look_again(self, inputs: Sequence[torch.Tensor]) -> None:
        """Makes another kernel if the members changed.

        Raises:
            FuseError: a member has hooks that would not run, or is distributed.
            KernelError: the changed members cannot be compiled.
        """
        self._check_members()
        kernel = self._kernel
        same = self._watch is not None and self._watch.has_modules(self.members)
        if kernel is not None and (
            not same or self._structure() != self._built
        ):
            copies, compiled = self._compile_again(inputs)
            if kernel.computes(compiled, same):
                self.__dict__["_built"] = self._structure()
            else:
                self.bind(copies, compiled, inputs)
                self._tell_family(kernel.compiled.families, compiled.families)
        self.__dict__["_watch"] = self._new_watch()

    def _new_watch(self) -> Watch:
        return Watch(self.members)

    def _check_members(self) -> None:
        check_members(
            f"site '{self.site}'", self.names, self.members, "unfuse the site"
        )

    def _tell_family(self, before: Sequence[str], now: Sequence[str]) -> None:
        if now != before:
            # The text lacks the number of the layer, so that Python warns once
            # for all layers.
            warnings.warn(
                "the members of a site "
                f"'{self.site.rpartition('#')[0]}' changed, and its kernel is "
                f"{', '.join(now)}, which was {', '.join(before)}"
                + (f": {self.lost}" if self.lost else "")
                + "; fuse_mlir.explain lists each site",
                FusionWarning,
                stacklevel=2,
            )


Proxy.reserved = frozenset(
    name
    for name in {
        *OWN,
        *dir(FusedModule),
        *dir(FusedIdentity),
        "members",
        "plan",
        "_member",
        "_calls_hooks",
        "_kernel",
        "_file",
        "_watch",
        "_built",
        "_parent",
        "_counts",
        "_verdict",
        "lost",
        "_eager_rows",
        "_traced_rows",
        "_fast",
        "_fast_of",
    }.difference(dir(nn.Module()))
    if not name.startswith("__")
)
