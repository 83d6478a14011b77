# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The hooks of transformers 5.0 to 5.15, which no newer release has.

Names of functions and modules are those of these releases, because tools
recognize the hooks by them.
"""

from __future__ import annotations

import types
from typing import Any

import torch.distributed as dist
from torch import nn

SOURCE = """
def distribute_module(module, device_mesh=None, input_fn=None, output_fn=None):
    module.register_forward_pre_hook(
        lambda mod, inputs: input_fn(mod, inputs, device_mesh)
    )
    module.register_forward_hook(
        lambda mod, inputs, outputs: output_fn(mod, outputs, device_mesh)
    )
    return module


class ColwiseParallel:
    def __init__(self, gather_output=False):
        self.gather_output = gather_output

    def _prepare_input_fn(self, mod, inputs, device_mesh):
        return inputs[0]

    def _prepare_output_fn(self, mod, outputs, device_mesh):
        return outputs


class RowwiseParallel:
    def __init__(self, split_input=False):
        self.split_input = split_input

    def _prepare_input_fn(self, mod, inputs, device_mesh):
        if hasattr(mod, "bias") and mod.bias is not None:
            mod._bias = mod.bias
            mod.bias = None
        return inputs[0]

    def _prepare_output_fn(self, mod, outputs, device_mesh):
        dist.all_reduce(outputs, group=device_mesh.get_group())
        if hasattr(mod, "_bias") and mod._bias is not None:
            outputs = outputs + mod._bias
        return outputs


class RouterParallel(ColwiseParallel):
    pass
"""

host = types.ModuleType("transformers.integrations.tensor_parallel")
host.__dict__["dist"] = dist
exec(SOURCE, host.__dict__)


def distribute(
    linear: nn.Linear, style: Any, plan: str, mesh: object
) -> nn.Linear:
    """Adds the hooks and marks of a style to a linear."""
    host.distribute_module(
        linear, mesh, style._prepare_input_fn, style._prepare_output_fn
    )
    linear._hf_tp_plan = plan
    linear._hf_device_mesh = mesh
    return linear


def distribute_layer(model: nn.Module, mesh: object) -> None:
    """Distributes the linears of a layer of `cases`."""
    rank, world = dist.get_rank(), dist.get_world_size()
    for path, module in model.named_modules():
        if not isinstance(module, nn.Linear):
            continue
        rowwise = path.endswith((".down", ".o"))
        for name, dim in (("weight", int(rowwise)), ("bias", 0)):
            whole = getattr(module, name)
            if whole is None or rowwise and name == "bias":
                continue
            part = whole.detach().chunk(world, dim)[rank].contiguous()
            setattr(module, name, nn.Parameter(part, requires_grad=False))
        module.out_features, module.in_features = module.weight.shape
        if rowwise:
            distribute(module, host.RowwiseParallel(), "rowwise", mesh)
        else:
            distribute(module, host.ColwiseParallel(), "colwise", mesh)
