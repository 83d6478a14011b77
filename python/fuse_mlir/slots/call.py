# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The op of PyTorch that runs the kernel of a slot, and its gradients."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from fuse_mlir import native

#: Shapes of inputs that a program knows the shapes of results for: more than a
#: model has, and a bound on memory for one whose lengths never repeat.
SHAPES = 1024


def run(program: Program, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Runs a program as an op of PyTorch, or without one where nothing would
    see it: no gradient, mode or transform."""
    ambient = native.ambient()
    if (
        ambient is not None
        and all(type(tensor) in (Tensor, nn.Parameter) for tensor in inputs)
        and ambient.holds()
        and torch._C._functorch.peek_interpreter_stack() is None
        and not (
            torch.is_grad_enabled()
            and any(tensor.requires_grad for tensor in inputs)
        )
    ):
        return program.run(inputs)
    return call_slot(list(inputs), program.id)


class Program:
    """The code that calls of one slot run on one device."""

    _ids = itertools.count(1)
    _all: weakref.WeakValueDictionary[int, Program] = (
        weakref.WeakValueDictionary()
    )

    def __init__(self, eager: Callable[..., Any]) -> None:
        self.eager = eager
        self.id = next(Program._ids)
        Program._all[self.id] = self

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Results without gaps that share no memory with the inputs."""
        raise NotImplementedError


class CompiledProgram(Program):
    """Code that the compiler made."""

    def __init__(
        self,
        instance: native.Instance,
        eager: Callable[..., Any],
        dtypes: Sequence[torch.dtype],
    ) -> None:
        super().__init__(eager)
        self.instance = instance
        self.dtypes = tuple(dtypes)
        self._shapes: dict[tuple[torch.Size, ...], list[list[int]]] = {}

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        inputs = [tensor.detach().contiguous() for tensor in inputs]
        outputs = [
            torch.empty(shape, dtype=dtype, device=inputs[0].device)
            for shape, dtype in zip(self._result_shapes(inputs), self.dtypes)
        ]
        if any(tensor.numel() for tensor in outputs):
            self.instance.launch(inputs, outputs)
        return outputs

    def _result_shapes(self, inputs: Sequence[Tensor]) -> list[list[int]]:
        key = tuple(tensor.shape for tensor in inputs)
        found = self._shapes.get(key)
        if found is None:
            if len(self._shapes) >= SHAPES:
                self._shapes.clear()
            found = self._shapes[key] = [
                self.instance.result_shape(inputs, i)
                for i in range(len(self.dtypes))
            ]
        return found


@torch.library.custom_op("fuse_mlir::call_slot", mutates_args=())
def call_slot(inputs: list[Tensor], program: int) -> list[Tensor]:
    """Runs the kernel that a slot is bound to, as an op of PyTorch."""
    return Program._all[program].run(inputs)


@call_slot.register_fake
def _fake_slot(inputs, program):
    # Kernels write results without gaps, even if the eager function preserves
    # the strides of its inputs.
    results = results_of(Program._all[program].eager(*inputs))
    return [
        inputs[0].new_empty(tensor.shape, dtype=tensor.dtype)
        for tensor in results
    ]


class _Context(Protocol):
    """The context of autograd, with values that the forward pass stores."""

    eager: Callable[..., Any]
    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor) -> None: ...


def _save(ctx: _Context, inputs: tuple, output: list[Tensor]) -> None:
    tensors, program = inputs
    # A slot may be bound again before the backward pass.
    ctx.eager = Program._all[program].eager
    ctx.save_for_backward(*tensors)


def _backward(ctx: _Context, gradients: list[Tensor]) -> tuple:
    """Gradients of the eager function, which runs again."""
    # With create_graph, gradients have gradients too. Views distinguish
    # tensors that are read twice.
    twice = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = [
            t.view_as(t)
            if twice
            else t.detach().requires_grad_(t.is_floating_point())
            for t in ctx.saved_tensors
        ]
        results = results_of(ctx.eager(*leaves))
        pairs = [
            (result, gradient)
            for result, gradient in zip(results, gradients)
            if result.requires_grad and gradient is not None
        ]
        wanted = [t for t in leaves if t.requires_grad]
        found = torch.autograd.grad(
            [r for r, _ in pairs],
            wanted,
            [g for _, g in pairs],
            create_graph=twice,
            allow_unused=True,
        )
    by_leaf = iter(found)
    return [next(by_leaf) if t.requires_grad else None for t in leaves], None


call_slot.register_autograd(_backward, setup_context=_save)


def results_of(value: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """One result, or a tuple or list of them, as a list."""
    if isinstance(value, (tuple, list)):
        return list(value)
    return [cast(Tensor, value)]
