# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Norms whose result several linears read, such as the projections of attention.

One kernel computes the norm and all linears. It runs in the place of the norm,
which returns a stand-in for the norm's result with the results of the linears.
The places of the linears take theirs from it, wherever in the model they are. If
other modules read the norm too, the kernel returns its result, and no stand-in is
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from fuse_mlir import native
from fuse_mlir.errors import FuseError
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.proxies import (
    FusedPlace,
    Pending,
    arguments_of,
    check_constant,
    is_unfused,
)
from fuse_mlir.matching.plans import Step
from fuse_mlir.matching.proxy import Proxy
from fuse_mlir.support.module_snapshot import is_tracing


class _Handed:
    """The results of a traced call, until the last linear has taken its own.

    Traced tensors cannot carry attributes, so that the places share an object.
    """

    def __init__(self) -> None:
        #: The result of the norm, or the input that stands for it.
        self.source: torch.Tensor | None = None
        self.parts: tuple[torch.Tensor, ...] | None = None

    # Copies of a model are called by themselves.
    def __getstate__(self) -> dict[str, None]:
        return {"source": None, "parts": None}


class FusedProjections(FusedModule):
    """Computes a norm and the linears that read its result with one kernel."""

    _hands_out: ClassVar[bool] = True
    _handed: _Handed

    def _other_places(self) -> list[nn.Module]:
        last, handed = len(self.members) - 2, _Handed()
        self.__dict__["_handed"] = handed
        return [
            FusedPart(self.site, member, step, i, i == last, handed)
            for i, (member, step) in enumerate(
                zip(self.members[1:], self.plan.steps[1:])
            )
        ]

    def _pass_on(
        self, results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        handed, parts = self._handed, list(results)
        handed.source = parts.pop(0) if self._returns_norm else inputs[0]
        handed.parts = tuple(parts)
        return handed.source

    def _tag(
        self, results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """The norm's result, or a tensor of its type and shape."""
        parts = list(results)
        passed: Any = (
            parts.pop(0) if self._returns_norm else inputs[0].view_as(inputs[0])
        )
        passed._fuse_site = self.site
        passed._fuse_parts = parts
        passed._fuse_version = _version(passed)
        if not self._returns_norm and type(passed) is torch.Tensor:
            passed.__class__ = Pending
        return passed

    @property
    def _returns_norm(self) -> bool:
        """Whether the kernel returns the result of the norm, too."""
        return self.plan.outputs is not None and self.plan.outputs[0] == 0


def _version(tensor: torch.Tensor) -> int:
    """The number of writes to a tensor; 0 where PyTorch does not count them."""
    return 0 if tensor.is_inference() else tensor._version


class FusedPart(FusedPlace):
    """Hands out one result of a kernel, with the interface of its member.

    Args:
        site: id of the site.
        member: the linear that this proxy replaces.
        step: how the model calls the member.
        index: number of the result.
        last: whether the member is the last one of the site.
        handed: results of traced calls, shared by the places of the site.
    """

    _index: int
    _handed: _Handed

    def __init__(
        self,
        site: str,
        member: nn.Module,
        step: Step,
        index: int,
        last: bool,
        handed: _Handed,
    ) -> None:
        super().__init__(site, member)
        self.step = step
        self.last = last
        self.__dict__.update(_fast=None, _index=index, _handed=handed)

    # The object of the extension belongs to one process.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fast": None}

    def _trace(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        handed = self._handed
        if (
            len(args) != 1
            or kwargs
            or handed.parts is None
            or handed.source is not args[0]
        ):
            return self._run(args, kwargs)
        return self._take_traced()

    def _run(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        """A call that asks everything in Python."""
        if not is_tracing() and is_unfused(self.site, args, kwargs):
            return self._call_member(args, kwargs)
        given: Any = None
        for name, source, value in arguments_of(
            self._member, self.step, args, kwargs
        ):
            if source.kind == "constant":
                check_constant(self.site, name, source, value)
            else:
                given = value
        # Another part of the model may have run compiled.
        if given is not None and self._handed.source is given:
            return self._take_traced()
        parts = getattr(given, "_fuse_parts", None)
        if parts is None or getattr(given, "_fuse_site", None) != self.site:
            raise FuseError(
                "FUSE-N206 not-a-chain: in this call the input of "
                f"{self._get_name()} is not the result of the norm of site "
                f"'{self.site}', as it was when the model was fused; unfuse "
                "this site"
            )
        if getattr(given, "_fuse_version", 0) != _version(given):
            raise FuseError(
                "FUSE-N206 not-a-chain: in this call the model changed the "
                f"result of the norm of site '{self.site}' in place, before "
                f"{self._get_name()} read it; unfuse this site"
            )
        part = parts[self._index]
        if part is None:
            raise FuseError(
                f"FUSE-N206 not-a-chain: {self._get_name()} of site "
                f"'{self.site}' is called twice with one input, and was called "
                "once when the model was fused; unfuse this site"
            )
        # The stand-in outlives this call, and the result need not.
        parts[self._index] = None
        if args and not kwargs and not is_tracing():
            self._prepare_fast()
        return part

    def _take_traced(self) -> torch.Tensor:
        handed = self._handed
        assert handed.parts is not None
        part = handed.parts[self._index]
        if self.last:
            handed.source = handed.parts = None
        return part

    def _prepare_fast(self) -> None:
        """Lets the extension hand out results in calls like this one."""
        module = native.extension()
        if (
            module is not None
            and self._fast is None
            and len(self.step.args) == 1
        ):
            self.__dict__["_fast"] = module.Part(
                self.site, Pending, self._index
            )


Proxy.reserved |= {"_handed", "_index"}
