# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of sites that are distributed over ranks; all ranks run them."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
import torch.distributed as dist

from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.fusion.tensor_parallel import Distributed
from fuse_mlir.matching.plans import run_plan

#: A level, whether the check passed, and a text.
Found = tuple[str, bool, str]


def gathered(
    tensor: torch.Tensor, group: dist.ProcessGroup
) -> list[torch.Tensor]:
    """A tensor of each rank, in the order of ranks."""
    tensor = tensor.contiguous()
    found = [
        torch.empty_like(tensor) for _ in range(dist.get_world_size(group))
    ]
    dist.all_gather(found, tensor, group=group)
    return found


def check_sum(
    module: Distributed,
    kernel: Kernel,
    inputs: Sequence[torch.Tensor],
    floor: float,
    yardstick: float,
) -> list[Found]:
    """Compares the sum over ranks with its terms, and with one device.

    Args:
        module: a site whose ranks add up their results.
        kernel: of this rank.
        inputs: of the site, [..., features], equal on all ranks.
        floor: smallest relative error that counts.
        yardstick: how much larger than that of the members an error may be.

    Returns:
        VR: all ranks have the same inputs, and the same bits as a sum of their
        terms in f32, in the order of ranks if there are two.
        VG: the result is about as near to double precision as the members.
    """
    group = module.group
    same = all(
        torch.equal(_bits(t), _bits(x))
        for x in inputs
        for t in gathered(x, group)
    )
    (partial,) = kernel.run_all(inputs, kernel.weights())
    terms = gathered(partial, group)
    expected = terms[0].clone()
    for term in terms[1:]:
        expected += term
    bias = module.sum_bias
    dtype = module.sum_dtype
    rounded = expected.to(dtype)
    if bias is not None:
        rounded = rounded + bias.detach()
    (ours,) = module.reduced([partial.clone()])
    results = gathered(ours, group)
    agree = all(torch.equal(_bits(r), _bits(ours)) for r in results)
    differ = int((_bits(ours) != _bits(rounded)).sum())
    # Collectives of more ranks choose the order of the sum.
    passed = same and agree and (differ == 0 or len(terms) > 2)
    detail = f"{differ} of {ours.numel()} values differ from the sum in order"
    if not agree:
        detail = "ranks have different results"
    if not same:
        detail = "ranks have different inputs"
    found: list[Found] = [("VR", passed, detail)]

    members = copy.deepcopy(kernel.chain).double()
    exact = members(
        *(t.double() if t.is_floating_point() else t for t in inputs)
    )
    exact = exact.double().clone()
    dist.all_reduce(exact, group=group)
    if bias is not None:
        exact = exact + bias.detach().double()
    (eager,) = run_plan(module.members, module.plan, inputs)
    scale = max(float(exact.norm()), 1e-300)
    own = float((ours.double() - exact).norm()) / scale
    theirs = float((eager.double() - exact).norm()) / scale
    found.append(
        (
            "VG",
            own <= yardstick * theirs + floor,
            f"relative error {own:.2e}, PyTorch {theirs:.2e}, against the sum "
            "of all ranks in double precision",
        )
    )
    return found


def all_passed(
    passed: bool, group: dist.ProcessGroup, device: torch.device
) -> list[int]:
    """The ranks on which a check failed."""
    flag = torch.tensor([int(passed)], device=device)
    return [
        rank
        for rank, value in enumerate(gathered(flag, group))
        if not int(value)
    ]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)
