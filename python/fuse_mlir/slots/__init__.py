# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slots: named ops of a model to which kernels are bound by configuration.

- `Context` holds the registered kernels.
- `Module` is fuse IR whose slots can be bound.
- `OpSlot` is a slot in a PyTorch module: a function with an eager body.
  `bind(model, config)` binds the slots of one model.

A slot is not an `nn.Module` and never enters the module tree. The compiler
selects the kernels, through its C interface, by the rules of
docs/how-to/bind-slots.md.
"""

from fuse_mlir.errors import SlotError
from fuse_mlir.slots.binding import bind, unbind
from fuse_mlir.slots.context import Context, Module, list_kernels
from fuse_mlir.slots.function_kernels import HardwareRequirement, KernelSpec
from fuse_mlir.slots.op_slot import OpSlot
from fuse_mlir.slots.verify import SlotCheck, SlotChecks, verify

__all__ = [
    "Context",
    "HardwareRequirement",
    "KernelSpec",
    "Module",
    "OpSlot",
    "SlotCheck",
    "SlotChecks",
    "SlotError",
    "bind",
    "list_kernels",
    "unbind",
    "verify",
]
