# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sites whose linears are distributed over ranks.

The kernel of a rank reads the shards of that rank. After a rowwise linear, its
result is one term of a sum: the ranks add up their results, and each adds the
bias once. Everything that decides between the kernel and the members is equal on
all ranks, because a rank that runs the members waits for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from fuse_mlir.compiler.chains import Compiled
from fuse_mlir.compiler.copies import Copies
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.compiler.watch import Watch
from fuse_mlir.errors import FuseError
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.member_checks import check_members
from fuse_mlir.fusion.projections import FusedProjections
from fuse_mlir.matching.proxy import Proxy
from fuse_mlir.matching.sites import Site
from fuse_mlir.matching.tensor_parallel import Part, bias_of
from fuse_mlir.support.module_snapshot import is_exporting, is_tracing


class Distributed(FusedModule):
    """A fused module whose kernel computes the part of one rank."""

    #: How members are distributed, by the ids of modules.
    _parts: dict[int, Part]
    #: The linear whose results the ranks add up; None for shards of outputs.
    _rowwise: nn.Module | None
    #: The name of the group of ranks in the registry of PyTorch.
    _group_name: str
    #: The bias of the rowwise linear.
    _sum_bias: nn.Parameter | None
    #: The type of the results of the rowwise linear.
    _sum_dtype: torch.dtype | None

    def distribute(self, site: Site) -> None:
        """Takes over how the members of a site are distributed."""
        by_path = {
            path: module
            for top, member in zip(site.paths, site.members)
            for below, module in member.named_modules()
            if (path := f"{top}.{below}" if below else top) in site.parts
        }
        rows = [
            by_path[path]
            for path, part in site.parts.items()
            if part.style == "rowwise"
        ]
        part = next(iter(site.parts.values()))
        self.__dict__.update(
            _parts={id(by_path[p]): part for p, part in site.parts.items()},
            _rowwise=rows[0] if rows else None,
            _group_name=part.group.group_name,
            _sum_bias=None,
            _sum_dtype=None,
            _sums_in_f32=bool(rows) and site.sums_in_f32,
        )

    @property
    def parts(self) -> Mapping[int, Part]:
        """How members are distributed, by the ids of modules."""
        return self._parts

    @property
    def reduces(self) -> bool:
        """Whether the ranks add up the results of their kernels."""
        return self._rowwise is not None

    @property
    def group(self) -> dist.ProcessGroup:
        """The process group of the ranks."""
        resolve: Any = dist.distributed_c10d._resolve_process_group
        return resolve(self._group_name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Distributed:
        raise FuseError(
            f"the members of site '{self.site}' communicate as parts of the "
            "model that was loaded, and copies of them would too; unfuse the "
            "model before copying it"
        )

    def bind(
        self,
        copies: Copies,
        compiled: Compiled,
        inputs: Sequence[torch.Tensor],
        slow: Callable[[str], None] | None = None,
    ) -> Kernel:
        kernel = super().bind(copies, compiled, inputs, slow)
        if self._rowwise is not None:
            weight = self._rowwise._parameters["weight"]
            assert weight is not None
            # Weights in 8 bits have results of the type of their inputs.
            self.__dict__.update(
                _sum_bias=bias_of(self._rowwise),
                _sum_dtype=weight.dtype
                if weight.element_size() > 1
                else inputs[0].dtype,
            )
        return kernel

    @property
    def note(self) -> str:
        if self._kernel is None or self._rowwise is None:
            return super().note
        ranks = self.group.size()
        dtype = str(self._kernel.compiled.dtype).removeprefix("torch.")
        return "; ".join(
            filter(
                None,
                (super().note, f"adds up {ranks} partial results in {dtype}"),
            )
        )

    def _new_watch(self) -> Watch:
        return Watch(
            self.members,
            hooked=[
                module
                for member in self.members
                for module in member.modules()
                if id(module) in self._parts
            ],
        )

    def _check_members(self) -> None:
        check_members(
            f"site '{self.site}'",
            self.names,
            self.members,
            "unfuse the site",
            parts=self._parts,
        )

    def _trace(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        return self._run(args, kwargs)

    def _prepare_fast(self, kernel: Kernel) -> None:
        # The extension would return the part of one rank.
        pass

    def _prefers_members(
        self, first: torch.Tensor, kernel: Kernel, traced: bool = False
    ) -> bool:
        # Whether a tensor needs gradients may differ between ranks.
        if not torch.is_grad_enabled():
            return False
        if self.gradients == "error":
            raise FuseError(
                f"FUSE-N248 distributed-gradients: site '{self.site}' is fused "
                "with gradients='error' and its members are distributed, so "
                "that calls with gradients would run them; use torch.no_grad()"
            )
        return True

    @property
    def sum_bias(self) -> torch.Tensor | None:
        """The bias that each rank adds to the sum."""
        return self._sum_bias

    @property
    def sum_dtype(self) -> torch.dtype:
        """The type to which the sum is rounded."""
        assert self._sum_dtype is not None
        return self._sum_dtype

    def _whole(self, results: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        return results if self._rowwise is None else self.reduced(results)

    def reduced(
        self, results: Sequence[torch.Tensor]
    ) -> Sequence[torch.Tensor]:
        """The sum of the results of all ranks, rounded, with the bias.

        Args:
            results: of the kernel of this rank; changed in place.
        """
        (partial,) = results
        if is_tracing():
            if is_exporting():
                raise FuseError(
                    f"site '{self.site}' is distributed over ranks, and an "
                    "exported program has none; unfuse it"
                )
            ops = torch.ops._c10d_functional
            total = ops.wait_tensor(
                ops.all_reduce(partial, "sum", self._group_name)
            )
        else:
            total = partial
            dist.all_reduce(total, group=self.group)
        # The sum is rounded before the bias is added, as in the members.
        total = total.to(self._sum_dtype)
        return [total if self._sum_bias is None else total + self._sum_bias]


class DistributedChain(Distributed):
    """A chain that ends with a sum over ranks."""


class DistributedProjections(Distributed, FusedProjections):
    """A norm with linears that return shards of their outputs."""


Proxy.reserved |= {
    "_parts",
    "_rowwise",
    "_group_name",
    "_sum_bias",
    "_sum_dtype",
    "_sums_in_f32",
    "parts",
    "reduces",
    "reduced",
    "sum_bias",
    "sum_dtype",
    "group",
    "distribute",
}
