# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random PyTorch models, fused and undone.

    python -m tests.random_models --seed 1 --count 100

A model of a few blocks is drawn: norms, MLPs, ops between and around them, and
changes by users (hooks, shared modules, tied and changed weights, views, nested
lists). It is fused by the patterns of its seed, or by its data flow. The fused
and the unfused model are compared with double precision. Unfusing must restore
all modules, parameters, hooks and bits.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import fuse_mlir
from tests.models import MLP, Norm, snapshot

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "relu_inplace": lambda: nn.ReLU(inplace=True),
    "sigmoid": nn.Sigmoid,
    "identity": nn.Identity,
    "tanh": nn.Tanh,
}


class CastNorm(nn.Module):
    """As in Llama: in f32, and multiplied by the weight in its own type."""

    def __init__(self, size: int, offset: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 - offset + 0.1 * torch.randn(size))
        self.offset = offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float() if x.dtype != torch.float64 else x
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.offset:
            return (
                (wide * scale) * (self.offset + self.weight.to(wide.dtype))
            ).to(x.dtype)
        return self.weight * (wide * scale).to(x.dtype)


class GatedMlp(nn.Module):
    """Gate and up, apart or as one linear, and something in between."""

    def __init__(self, draw: random.Random, size: int, hidden: int) -> None:
        super().__init__()
        self.one = draw.random() < 0.4
        self.exchanged = draw.random() < 0.3
        bias = draw.random() < 0.4
        if self.one:
            self.gate_up = nn.Linear(size, 2 * hidden, bias=bias)
        else:
            self.gate = nn.Linear(size, hidden, bias=bias)
            self.up = nn.Linear(size, hidden, bias=bias)
        self.act = ACTIVATIONS[draw.choice(list(ACTIVATIONS))]()
        self.dropout = nn.Dropout(0.1) if draw.random() < 0.3 else None
        self.down = nn.Linear(hidden, size, bias=draw.random() < 0.4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = (
            self.gate_up(x).chunk(2, dim=-1)
            if self.one
            else (self.gate(x), self.up(x))
        )
        if self.exchanged:
            gate, up = up, gate
        hidden = self.act(gate) * up
        return self.down(
            hidden if self.dropout is None else self.dropout(hidden)
        )


class RandomBlock(nn.Module):
    """A norm and an MLP with something around them."""

    def __init__(self, draw: random.Random, size: int) -> None:
        super().__init__()
        hidden = draw.choice((1, 8, 16, 24, 40, 64))
        self.norm = draw.choice(
            (
                lambda: Norm(size),
                lambda: CastNorm(size),
                lambda: CastNorm(size, 1.0),
                lambda: nn.LayerNorm(size),
                lambda: nn.LayerNorm(size, bias=False),
                lambda: nn.RMSNorm(size),
                lambda: nn.LayerNorm(size, elementwise_affine=False),
                lambda: nn.RMSNorm(size, eps=1e-5),
                nn.Identity,
            )
        )()
        self.mlp = draw.choice(
            (
                lambda: MLP(size, hidden),
                lambda: GatedMlp(draw, size, hidden),
                lambda: GatedMlp(draw, size, hidden),
                lambda: nn.Sequential(
                    nn.Linear(size, hidden, bias=draw.random() < 0.6),
                    ACTIVATIONS[draw.choice(list(ACTIVATIONS))](),
                    nn.Dropout(0.2) if draw.random() < 0.3 else nn.Identity(),
                    nn.Linear(hidden, size, bias=draw.random() < 0.6),
                ),
                lambda: nn.Linear(size, size),
            )
        )()
        self.form = draw.choice(
            (
                "residual",
                "residual",
                "residual",
                "plain",
                "scaled",
                "kept",
                "after",
                "twice",
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.form == "after":
            return x + self.norm(self.mlp(x))
        normed = self.norm(x)
        y = self.mlp(normed)
        if self.form == "plain":
            return y
        if self.form == "scaled":
            return x + 0.5 * y
        if self.form == "kept":
            return x + y + 0.125 * normed
        if self.form == "twice":
            return x + self.mlp(functional.relu(y))
        return x + y


class RandomNet(nn.Module):
    """Blocks in a list, some of them the same, some not called."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.size = draw.choice((1, 8, 16, 31, 32, 48))
        blocks = [RandomBlock(draw, self.size)]
        for _ in range(draw.randint(0, 3)):
            blocks.append(
                draw.choice(
                    (
                        lambda: blocks[-1],
                        lambda: copy.deepcopy(blocks[0]),
                        lambda: copy.deepcopy(blocks[0]),
                        lambda: RandomBlock(draw, self.size),
                    )
                )()
            )
        self.layers = nn.ModuleList(blocks)
        self.skipped = draw.randrange(8)
        self.keywords = draw.random() < 0.2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, layer in enumerate(self.layers):
            if index != self.skipped:
                x = layer(x=x) if self.keywords else layer(x)
        return x


def hook(module: nn.Module, args: Any, result: torch.Tensor) -> torch.Tensor:
    """Changes the result of a module."""
    return 2 * result


def prehook(module: nn.Module, args: tuple) -> tuple:
    """Changes the input of a module."""
    return tuple(0.5 * arg for arg in args)


def treat(model: RandomNet, draw: random.Random) -> list[str]:
    """Changes a model as users do; returns a description."""
    done = []
    first = model.layers[0]
    members = [first.norm, first.mlp, *first.mlp.children()]
    if draw.random() < 0.15:
        draw.choice(members).register_forward_hook(hook)
        done.append("hook")
    if draw.random() < 0.15:
        draw.choice(members).register_forward_pre_hook(prehook)
        done.append("pre-hook")
    if draw.random() < 0.15 and len(model.layers) > 1:
        model.layers[-1].norm = first.norm
        done.append("shared norm")
    linears = [m for m in model.modules() if isinstance(m, nn.Linear)]
    if draw.random() < 0.15:
        # The weight is a view: every second column, or transposed.
        linear = draw.choice(linears)
        wide = torch.randn(linear.out_features, 2 * linear.in_features)
        wide = (0.2 * wide).to(linear.weight.dtype)
        view = (
            wide[:, ::2]
            if draw.random() < 0.5
            else wide[:, : linear.in_features].t().contiguous().t()
        )
        linear.weight = nn.Parameter(view, requires_grad=False)
        done.append("weight is a view")
    pairs = [
        (a, b)
        for a in linears
        for b in linears
        if a is not b and a.weight.shape == b.weight.shape
    ]
    if pairs and draw.random() < 0.2:
        a, b = draw.choice(pairs)
        b.weight = a.weight
        done.append("tied weights")
    return done


def draw_input(
    draw: random.Random, size: int, rank: int, dtype: torch.dtype
) -> torch.Tensor:
    """Values of an input of some shape, now and then a view."""
    shape = [draw.choice((0, 1, 2, 3, 7, 17)) for _ in range(rank - 1)]
    x = torch.randn(*shape, size).to(dtype)
    if draw.random() < 0.2 and rank > 2:
        return x.transpose(0, 1)
    if draw.random() < 0.2:
        return torch.cat([x, x], -1)[..., :size]
    return x


def distance(value: torch.Tensor, exact: torch.Tensor) -> float:
    """Relative error in the L2 norm; infinite if a result is not a number."""
    if not value.numel():
        return 0.0
    difference = (value.double() - exact).norm() / (exact.norm() + 1e-30)
    return float("inf") if difference.isnan() else float(difference)


def check_close(model: nn.Module, plain: nn.Module, x: torch.Tensor) -> None:
    """Checks that the fused model has about the error of PyTorch."""
    given = x.clone()
    with torch.inference_mode():
        fused, eager = model(x), plain(x.clone())
        exact = copy.deepcopy(plain).double()(x.double())
    assert torch.equal(x, given), "the input has changed"
    assert fused.shape == eager.shape and fused.dtype == eager.dtype, (
        f"{fused.dtype} {tuple(fused.shape)}, not "
        f"{eager.dtype} {tuple(eager.shape)}"
    )
    limit = 1.5 * distance(eager, exact) + 4 * torch.finfo(x.dtype).eps
    far = distance(fused, exact)
    assert far <= limit, f"{far:.3g} from double precision, limit {limit:.3g}"


def draw_patterns(draw: random.Random, model: RandomNet) -> Any:
    """Nothing, or patterns of a norm and an MLP on some layers."""
    if draw.random() < 0.6:
        return None
    block = draw.choice(list(model.layers))
    where = draw.choice(("*", "0", "[0-1]", "{0,2}"))
    return {
        (
            (type(block.norm).__name__, f"layers.{where}.norm"),
            (type(block.mlp).__name__, f"layers.{where}.mlp"),
        ): "fuse"
    }


def run(seed: int) -> str:
    """Draws, fuses, compares, changes and unfuses; returns a description.

    Raises:
        AssertionError: a check failed.
    """
    draw = random.Random(f"model {seed}")
    dtype = draw.choice(
        (torch.float32, torch.float32, torch.bfloat16, torch.float16)
    )
    model = RandomNet(seed).to(dtype).eval().requires_grad_(False)
    done = treat(model, draw)
    plain = copy.deepcopy(model)
    rank = draw.choice((2, 2, 3, 4))
    x = draw_input(draw, model.size, rank, dtype)
    before = snapshot(model)
    hooks = [list(m._forward_hooks.values()) for m in model.modules()]
    with torch.inference_mode():
        expected = model(x.clone())
    try:
        result = fuse_mlir.fuse_modules(
            model,
            draw_patterns(draw, model),
            inputs=x,
            only_faster=False,
            strict=draw.choice((None, False)),
        )
    except (fuse_mlir.FuseError, fuse_mlir.PatternError) as error:
        assert snapshot(model) == before, f"refused, and changed: {error}"
        return f"refused: {str(error)[:60]}"
    check_close(model, plain, x)
    check_close(model, plain, draw_input(draw, model.size, rank, dtype))
    assert list(model.state_dict()) == list(plain.state_dict())
    change = draw.choice(("", "scale", "load", "deepcopy", "rank"))
    if change == "scale":
        for each in (model, plain):
            for parameter in list(each.parameters())[:3]:
                parameter.mul_(0.75)
    elif change == "load":
        other = copy.deepcopy(plain)
        for parameter in other.parameters():
            parameter.add_(0.01)
        model.load_state_dict(other.state_dict())
        plain.load_state_dict(other.state_dict())
    elif change == "rank":
        rank = 5 - rank if rank < 4 else 2
    other = copy.deepcopy(model) if change == "deepcopy" else model
    check_close(other, plain, draw_input(draw, model.size, rank, dtype))
    sites = [s for s in result if s.status == "fused"]
    if sites and draw.random() < 0.3:
        fuse_mlir.unfuse_modules(model, draw.choice(sites).parent or None)
        check_close(model, plain, x)
    if fuse_mlir.fusion.modules.fused_sites(model):
        fuse_mlir.unfuse_modules(model)
    assert snapshot(model) == before, "undone, and not as it was"
    assert hooks == [list(m._forward_hooks.values()) for m in model.modules()]
    with torch.inference_mode():
        if change not in ("scale", "load"):
            assert torch.equal(model(x.clone()), expected), "other bits"
    return f"{len(sites)} of {len(result)} fused" + "".join(
        f", {what}" for what in [*done, change] if what
    )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    end, wrong, done, fused = time.monotonic() + args.seconds, 0, 0, 0
    for seed in range(args.seed, args.seed + args.count):
        if time.monotonic() > end:
            break
        done += 1
        try:
            outcome = run(seed)
            fused += outcome[0].isdigit() and outcome[0] != "0"
            if args.verbose:
                print(f"seed {seed}: {outcome}", flush=True)
        except Exception:
            wrong += 1
            print(
                f"seed {seed}: python -m tests.random_models --seed {seed} "
                f"--count 1\n{traceback.format_exc()}",
                flush=True,
            )
    print(f"{done} models, {fused} with fused sites, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
