# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets torch.compile move residual adds into kernels of fused modules.

Decoder layers add residuals before the norm and after the MLP, in the forward
of a module that is not fused. `torch.compile` sees both adds next to the
kernel. Moving an add into the kernel saves a launch and a round trip to memory.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn
from torch._inductor.custom_graph_pass import (
    CustomGraphPass,
    get_hash_for_files,
)

from fuse_mlir.compiler.chains import Chain, compile_variant
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.errors import KernelError
from fuse_mlir.fusion.places import fused_sites

_ADDS = (torch.ops.aten.add.Tensor,)


class ResidualChain(Chain):
    """Computes `s + chain(s)`, where `s` is the sum of two inputs."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        stream = inputs[0] + inputs[1]
        return stream + cast(torch.Tensor, super().forward(stream))


def with_residual(kernel: Kernel) -> Kernel | None:
    """A kernel of the same weights with the adds around its chain.

    None if one kernel cannot compute them.
    """
    chain, inputs = kernel.chain, kernel.compiled.inputs
    if (
        len(inputs) != 1
        or not kernel.compiled.by_rows
        or len(kernel.compiled.results) != 1
    ):
        return None
    wide = ResidualChain.__new__(ResidualChain)
    wide.__dict__.update(chain.__dict__)
    try:
        compiled = compile_variant(wide, [inputs[0], inputs[0]])
        if not compiled.by_rows or len(compiled.ops) != 1:
            return None
        return Kernel(kernel.site, wide, compiled, kernel.device, shared=kernel)
    except KernelError:
        # The kernel without adds is right too.
        return None


class ResidualPass(CustomGraphPass):
    """Replaces add, kernel, add by one kernel, if no other op reads the first
    sum."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        for node in list(graph.nodes):
            if node.target is torch.ops.fuse_mlir.call.default:
                self._widen(graph, node)

    @staticmethod
    def _widen(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
        arguments: Any = node.args
        inputs, weights, number = arguments
        if len(inputs) != 1 or len(node.users) != 1:
            return
        stream, after = inputs[0], next(iter(node.users))
        added = _summands(stream)
        if (
            added is None
            or set(stream.users) != {node, after}
            or set(_summands(after) or ()) != {stream, node}
        ):
            return
        values = [n.meta["val"] for n in (*added, stream, after)]
        if any(
            v.shape != values[0].shape or v.dtype != values[0].dtype
            for v in values
        ):
            return
        # Kernels cannot be exported while a model is compiled.
        kernel = Kernel.by_id(number).residual
        if kernel is None:
            return
        with graph.inserting_before(after):
            whole = graph.call_function(
                torch.ops.fuse_mlir.call.default,
                (list(added), weights, kernel.id),
            )
        whole.meta.update(after.meta)
        after.replace_all_uses_with(whole)
        for old in (after, node, stream):
            graph.erase_node(old)

    def uuid(self) -> bytes:
        return get_hash_for_files((__file__,))


def _summands(node: object) -> tuple[torch.fx.Node, torch.fx.Node] | None:
    """The two tensors that a node adds; None for other nodes."""
    if (
        not isinstance(node, torch.fx.Node)
        or node.target not in _ADDS
        or node.kwargs.get("alpha", 1) != 1
    ):
        return None
    left, right = node.args[:2]
    if isinstance(left, torch.fx.Node) and isinstance(right, torch.fx.Node):
        return left, right
    return None


def inductor_options(model: nn.Module) -> dict[str, Any]:
    """Options for `torch.compile(model, options=...)` of a fused model.

    With these options, kernels include the residual adds around their sites.
    Other modules are not affected. Sites whose kernels are made later, after a
    change of the model, keep their adds.

    Examples:
        >>> compiled = torch.compile(
        ...     model, options=fuse_mlir.inductor_options(model))
    """
    for _, module in fused_sites(model):
        kernel = module._kernel
        if kernel is not None and kernel.residual is None:
            kernel.residual = with_residual(kernel)
    return {"post_grad_custom_pre_pass": ResidualPass()}
