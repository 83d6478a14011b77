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
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from fuse_mlir import native
from fuse_mlir.errors import FuseError
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
        self, group: Any, device: torch.device, arguments: tuple
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

    def _compare(self, failed: bool, sites: object) -> None:
        """The first exchange.

        Raises:
            FuseError: a rank failed, or ranks differ.
        """
        self._voted = True
        found = self._gather(
            [
                failed,
                digest(torch.__version__, native.build_id()),
                digest(self._device.type),
                digest(self._arguments),
                digest(sites),
            ]
        )
        if failed:
            return
        for rank, numbers in enumerate(found):
            if numbers[0]:
                raise FuseError(
                    f"FUSE-N247 another-rank-refuses: rank {rank} of "
                    f"{len(found)} refuses the whole call, for the reason "
                    "that it reports; no rank changed its model"
                )
        for what, numbers in zip(_COMPARED, list(zip(*found))[1:]):
            if len(set(numbers)) > 1:
                other = next(
                    rank
                    for rank, number in enumerate(numbers)
                    if number != numbers[0]
                )
                raise FuseError(
                    "FUSE-N246 ranks-disagree: ranks 0 and "
                    f"{other} of {len(found)} have other {what}; no rank "
                    "changed its model"
                )

    def refuse_all(self) -> None:
        """Tells the other ranks that this one raises an error."""
        if not self._voted:
            self._compare(True, "")

    def agree(
        self, results: FusionResult, planned: Sequence[tuple[Site, Place]]
    ) -> list[tuple[Site, Place]]:
        """Refuses sites that another rank refuses, or for which it has
        another kernel.

        Args:
            results: of all sites, in order; changed in place.
            planned: the sites that this rank can fuse.

        Returns:
            Those of `planned` that all ranks can fuse.

        Raises:
            FuseError: ranks have other sites, versions or arguments.
        """
        names = [join(r.parent, r.id) for r in results]
        self._compare(False, list(zip(names, [r.members for r in results])))
        modules = {join(s.parent, s.id): module for s, module in planned}
        numbers: list[int] = []
        for name, result in zip(names, results):
            module = modules.get(name)
            numbers += [
                int(result.refusal.id[-3:]) if result.refusal else 0,
                *_digests(module),
            ]
        found = self._gather(numbers) if numbers else []
        for index, (name, result) in enumerate(zip(names, results)):
            parts = [n[3 * index : 3 * index + 3] for n in found]
            if result.refusal is None:
                result.refusal = _verdict(parts)
                if result.refusal is not None:
                    result.status, result.note = "refused", ""
        kept = {
            name for name, r in zip(names, results) if r.refusal is None
        }
        return [p for p in planned if join(p[0].parent, p[0].id) in kept]


def _digests(module: Place | None) -> tuple[int, int]:
    """Digests of the kernel of a site, and of its scales."""
    kernel = getattr(module, "_kernel", None)
    if kernel is None:
        return 0, 0
    parts = module.parts if isinstance(module, Distributed) else {}
    return (
        digest(
            kernel.compiled.kind,
            sorted((part.style, part.size) for part in parts.values()),
        ),
        digest(kernel.compiled.scales),
    )


def _verdict(parts: Sequence[Sequence[int]]) -> Any:
    """Why a site is refused that this rank can fuse; None if all can.

    Args:
        parts: the number of the refusal, and the digests, of each rank.
    """
    for rank, (number, _, _) in enumerate(parts):
        if number:
            return refusal(
                "another-rank-refuses",
                f"rank {rank} of {len(parts)} refuses it: FUSE-N{number:03}; "
                "its result has the text",
            )
    for rank, (_, kernel, scales) in enumerate(parts):
        if kernel != parts[0][1]:
            return refusal(
                "ranks-disagree",
                f"ranks 0 and {rank} of {len(parts)} have other kernels; "
                "shards, types and options have to be equal",
            )
        if scales != parts[0][2]:
            return refusal(
                "scales-differ",
                f"ranks 0 and {rank} of {len(parts)} have other static "
                "scales; use the largest one on all ranks",
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
