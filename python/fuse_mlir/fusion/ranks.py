# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One verdict on all ranks of a model that tensor parallelism distributes.

A rank that runs the members of a site waits for the members of all others. So
before any module changes, the ranks compare what they found: a site is fused
on all ranks or on none. The first exchange has numbers of fixed length, so that
ranks with other sites find that out as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import nn

from fuse_mlir import native
from fuse_mlir.errors import FuseError, Refusal
from fuse_mlir.fusion.places import Place
from fuse_mlir.fusion.results import FusionResult
from fuse_mlir.fusion.tensor_parallel import Distributed
from fuse_mlir.matching.sites import Site, join
from fuse_mlir.matching.tensor_parallel import mesh_of
from fuse_mlir.native.refusals import refusal

#: What the first exchange compares, in its order.
_COMPARED = ("versions", "types of devices", "arguments", "sites")


def digest(*values: object) -> int:
    """A number of 62 bits that equal values share in all processes."""
    text = "\0".join(map(str, values)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 2


class Ranks:
    """The ranks of a model, which agree once in a call.

    Args:
        group: process group of the ranks.
        device: of the tensors that its collectives exchange.
        arguments: of the call, as they are compared.
    """

    def __init__(
        self, group: dist.ProcessGroup, device: torch.device, arguments: tuple
    ) -> None:
        self._group, self._device = group, device
        self._arguments = arguments
        self._voted = False

    def _gather(self, numbers: Sequence[int]) -> list[list[int]]:
        """The numbers of all ranks."""
        own = torch.tensor(numbers, dtype=torch.int64, device=self._device)
        found = [torch.empty_like(own) for _ in range(self._group.size())]
        dist.all_gather(found, own, group=self._group)
        return [tensor.tolist() for tensor in found]

    def _compare(self, failed: bool, count: int = 0, sites: object = "") -> int:
        """The first exchange.

        Args:
            failed: whether this rank raises an error.
            count: number of its sites.
            sites: that have to be equal on all ranks.

        Returns:
            The largest number of sites of a rank.

        Raises:
            FuseError: another rank failed, or ranks differ.
        """
        self._voted = True
        found = self._gather(
            [
                failed,
                count,
                digest(torch.__version__, native.build_id()),
                digest(self._device.type),
                digest(self._arguments),
                digest(sites),
            ]
        )
        if failed:
            return 0
        for rank, numbers in enumerate(found):
            if numbers[0]:
                raise FuseError(
                    f"FUSE-N247 another-rank-refuses: rank {rank} of "
                    f"{len(found)} refuses the whole call, for the reason "
                    "that it reports; no rank changed its model"
                )
        for what, compared in zip(_COMPARED, list(zip(*found))[2:]):
            if len(set(compared)) > 1:
                other = next(
                    rank
                    for rank, number in enumerate(compared)
                    if number != compared[0]
                )
                raise FuseError(
                    "FUSE-N246 ranks-disagree: ranks 0 and "
                    f"{other} of {len(found)} have other {what}; no rank "
                    "changed its model"
                )
        return max(numbers[1] for numbers in found)

    def refuse_all(self) -> None:
        """Tells the other ranks that this one raises an error."""
        if not self._voted:
            self._compare(True)

    def agree(
        self,
        results: FusionResult,
        planned: Sequence[tuple[Site, Place]],
        strict: bool,
    ) -> list[tuple[Site, Place]]:
        """Refuses sites that another rank refuses, or for which it has
        another kernel.

        Args:
            results: of all sites, in order; changed in place.
            planned: the sites that this rank can fuse.
            strict: whether the whole call is refused if a site is.

        Returns:
            Those of `planned` that all ranks can fuse.

        Raises:
            FuseError: ranks have other versions or arguments, or other sites
                and `strict` is set.
        """
        names = [digest(r.parent, r.id, r.members) for r in results]
        most = self._compare(False, len(names), names if strict else "")
        modules = {join(s.parent, s.id): module for s, module in planned}
        numbers: list[int] = []
        for name, result in zip(names, results):
            numbers += [
                name,
                int(result.refusal.id[-3:]) if result.refusal else 0,
                *_digests(modules.get(join(result.parent, result.id))),
            ]
        numbers += [0] * (_FIELDS * most - len(numbers))
        found = [
            {
                row[i]: row[i + 1 : i + _FIELDS]
                for i in range(0, len(row), _FIELDS)
            }
            for row in (self._gather(numbers) if numbers else [])
        ]
        for name, result in zip(names, results):
            if result.refusal is None:
                result.refusal = _verdict([sites.get(name) for sites in found])
                if result.refusal is not None:
                    result.status, result.note = "refused", ""
        kept = {join(r.parent, r.id) for r in results if r.refusal is None}
        return [p for p in planned if join(p[0].parent, p[0].id) in kept]


#: Numbers of each site in the second exchange: digest of its name, number of
#: its refusal, digests of its kernel and of its scales.
_FIELDS = 4
_SCALES = re.compile(r"scales?\([^)]*\)|\bscale [^ ]+")


def _digests(module: Place | None) -> tuple[int, int]:
    """Digests of the kernel of a site, and of its scales."""
    kernel = getattr(module, "_kernel", None)
    if kernel is None:
        return 0, 0
    parts = module.parts if isinstance(module, Distributed) else {}
    text = kernel.compiled.kind
    return (
        digest(
            _SCALES.sub("", text),
            sorted((part.style, part.size) for part in parts.values()),
        ),
        digest(kernel.compiled.scales, _SCALES.findall(text)),
    )


def _verdict(ranks: Sequence[Sequence[int] | None]) -> Refusal | None:
    """Why a site is refused that this rank can fuse; None if all can.

    Args:
        ranks: the number of the refusal, and the digests, of each rank; None
            if it has no such site.
    """
    count = len(ranks)
    for rank, numbers in enumerate(ranks):
        if numbers is None:
            return refusal(
                "another-rank-refuses",
                f"rank {rank} of {count} has no such site",
            )
        if numbers[0]:
            return refusal(
                "another-rank-refuses",
                f"rank {rank} of {count} refuses it: FUSE-N{numbers[0]:03}; "
                "its result has the text",
            )
    _, kernel, scales = ranks[0] or (0, 0, 0)
    for rank, numbers in enumerate(ranks):
        assert numbers is not None
        if numbers[1] != kernel:
            return refusal(
                "ranks-disagree",
                f"ranks 0 and {rank} of {count} have other kernels; shards, "
                "types and options have to be equal",
            )
        if numbers[2] != scales:
            return refusal(
                "scales-differ",
                f"ranks 0 and {rank} of {count} have other static scales; use "
                "the largest one on all ranks",
            )
    return None


@contextlib.contextmanager
def ranks_of(model: nn.Module, *arguments: object) -> Iterator[Ranks | None]:
    """The ranks of a distributed model, which hear of errors of this one.

    Args:
        model: distributed or not.
        arguments: of the call, which have to be equal on all ranks.

    Yields:
        None if the model is not distributed.
    """
    mesh = mesh_of(model) if isinstance(model, nn.Module) else None
    if mesh is None or mesh.size() < 2:
        yield None
        return
    group = mesh.get_group()
    device = torch.device("cpu")
    if "nccl" in dist.get_backend(group):
        device = torch.device("cuda", torch.cuda.current_device())
    ranks = Ranks(group, device, arguments)
    try:
        yield ranks
    except BaseException:
        ranks.refuse_all()
        raise
