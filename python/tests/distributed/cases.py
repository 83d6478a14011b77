# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank does in the tests of tensor parallelism."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn

import fuse_mlir
from fuse_mlir import native
from fuse_mlir.errors import FuseMlirError
from tests.models import LLAMA, Block, Norm, fp8_transformer, transformer
from tests.support import ROOT

HEADS = {**LLAMA, "num_attention_heads": 4, "num_key_value_heads": 4}
IDS = torch.arange(1, 13).view(2, 6)


def build(kind: str, dtype: torch.dtype = torch.bfloat16, **settings: Any):
    """A small model with drawn weights; small biases too."""
    model = transformer(
        kind,
        dtype,
        **{
            **HEADS,
            "num_hidden_layers": 2,
            "tie_word_embeddings": False,
            **settings,
        },
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.uniform_(
                    -1.0, 1.0, generator=torch.Generator().manual_seed(7)
                )
    return model


def distribute(model: Any, plan: Any = None) -> Any:
    """Distributes a model of transformers over all ranks."""
    from transformers.distributed.configuration_utils import DistributedConfig

    config = DistributedConfig(tp_size=dist.get_world_size(), tp_plan=plan)
    config, _, mesh = type(model).prepare_distribute_model(config)
    return model.maybe_distribute_model(model, config, mesh).eval()


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS, use_cache=False).logits


def state(model: nn.Module) -> list[Any]:
    """What fusing and unfusing must not change."""
    return [
        (
            path,
            id(module),
            type(module),
            id(vars(module).get("forward")),
            list(module._forward_hooks),
            list(module._forward_pre_hooks),
            [
                (
                    name,
                    id(p),
                    str(getattr(p, "placements", "")),
                    getattr(p, "_local_tensor", p).data_ptr(),
                )
                for name, p in module._parameters.items()
                if p is not None
            ],
        )
        for path, module in model.named_modules()
    ]


def saved(model: Any, rank: int) -> dict[str, bytes]:
    """The files of `save_pretrained`, on rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return {
            path.name: path.read_bytes()
            for path in Path(folder).iterdir()
            if path.suffix in (".safetensors", ".json")
        }


def whole_life(rank: int, kind: str, dtype: str, settings: dict) -> dict:
    """Fuses, runs, verifies, saves and unfuses a model of transformers."""
    alone = build(kind, getattr(torch, dtype), **settings)
    expected = logits(alone).float()
    model = distribute(alone)
    before, unfused = state(model), logits(model)
    keys = {
        k: str(v.placements) if hasattr(v, "placements") else ""
        for k, v in model.state_dict().items()
    }
    files = saved(model, rank)
    result = fuse_mlir.fuse_modules(model, only_faster=False, strict=False)
    fused = logits(model)
    again = logits(model)
    while_fused = {
        k: str(v.placements) if hasattr(v, "placements") else ""
        for k, v in model.state_dict().items()
    }
    files_fused = saved(model, rank)
    checks = fuse_mlir.verify(model)
    fuse_mlir.unfuse_modules(model)
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, fused)
    return {
        "sites": [
            (r.id, r.status, r.families, r.note, r.reason)
            for r in without_head(result)
        ],
        "equal on ranks": all(torch.equal(g, fused) for g in gathered),
        "repeats": torch.equal(fused, again),
        "error": float((fused.float() - expected).norm() / expected.norm()),
        "error unfused": float(
            (unfused.float() - expected).norm() / expected.norm()
        ),
        "restored": state(model) == before
        and torch.equal(logits(model), unfused),
        "keys": keys == while_fused and bool(keys),
        "files": files == files_fused == saved(model, rank),
        "checks": [(c.rung, c.passed, c.detail) for c in checks.checks],
    }


def page(rank: int) -> list[str]:
    """Runs the Python of the page on tensor parallelism."""
    text = (ROOT / "docs/how-to/tensor-parallelism.md").read_text()
    found = re.findall(
        r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
    )
    names = {
        "model": distribute(build("qwen3")),
        "ids": IDS,
        "torch": torch,
        "fuse_mlir": fuse_mlir,
    }
    with contextlib.redirect_stdout(io.StringIO()):
        for block in found:
            exec(block, names)
    return [site.status for site in without_head(names["sites"])]


def compiled(rank: int) -> list[bool]:
    """Whether compiled fused models have about the results of eager ones."""
    model = distribute(build("llama"))
    fuse_mlir.fuse_modules(model, only_faster=False)
    eager = logits(model)
    run = torch.compile(model, backend="aot_eager")
    found = [torch.equal(logits(run), eager), torch.equal(logits(run), eager)]
    torch._dynamo.reset()
    with torch.no_grad():
        x = torch.randn(3, 16)
        dist.broadcast(x, 0)
        small = block(bias=True)
        parallelize(small)
        fuse_mlir.fuse_modules(small, inputs=x, only_faster=False)
        eager = small(x)
        whole = torch.compile(small, fullgraph=True)
        found += [torch.allclose(whole(x), eager, atol=1e-6) for _ in range(2)]
    return found


def block(bias: bool = False) -> Block:
    """A norm and an MLP of 16 and 32, with equal weights on all ranks."""
    torch.manual_seed(0)
    model = Block(16, 32).eval()
    if bias:
        model.mlp.down.bias = nn.Parameter(torch.randn(16))
    return model


class Attention(nn.Module):
    """Reads its input by two linears, whose results have other readers."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(16, 32)
        self.k = nn.Linear(16, 32)
        self.o = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.o(self.q(x) * self.k(x).sigmoid())


class Layer(Block):
    """x + attention(norm(x)), and a block."""

    def __init__(self) -> None:
        super().__init__(16, 32)
        self.attention = Attention()
        self.before = Norm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x + self.attention(self.before(x)))


def layer() -> Layer:
    """Equal weights on all ranks, and a bias in each rowwise linear."""
    torch.manual_seed(0)
    model = Layer().eval()
    model.mlp.down.bias = nn.Parameter(torch.randn(16))
    return model


def mesh() -> Any:
    return torch.distributed.device_mesh.init_device_mesh(
        "cpu", (dist.get_world_size(),)
    )


def parallelize(model: Block) -> None:
    """Distributes a block by `parallelize_module` of PyTorch."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan: dict[str, Any] = {
        "mlp.gate": ColwiseParallel(),
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(),
    }
    if isinstance(model, Layer):
        plan |= {
            "attention.q": ColwiseParallel(),
            "attention.k": ColwiseParallel(),
            "attention.o": RowwiseParallel(),
        }
    parallelize_module(model, mesh(), plan)


def parallelized(rank: int) -> dict:
    """`parallelize_module` of PyTorch, with a bias of the rowwise linear."""
    x = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    model = layer()
    with torch.no_grad():
        expected = model(x)
    parallelize(model)
    before = state(model)
    result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
    with torch.no_grad():
        close = torch.allclose(model(x), expected, atol=1e-5)
        checks = fuse_mlir.verify(model, x)
    # With gradients, the members run with their hooks.
    members = torch.allclose(model(x), expected, atol=1e-5)
    fuse_mlir.unfuse_modules(model)
    with torch.no_grad():
        unfused = torch.allclose(model(x), expected, atol=1e-5)
    return {
        "status": [r.status for r in result],
        "note": result[0].note,
        "close": close and unfused and members,
        "restored": state(model) == before,
        "checks": [str(c) for c in checks.checks if not c.passed],
    }


def old_hooks(rank: int) -> dict:
    """The hooks of transformers 5.0 to 5.15, before and after a first call."""
    from tests.distributed.old_transformers import distribute_layer

    x = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    model = layer()
    with torch.no_grad():
        expected = model(x)
        distribute_layer(model, mesh())
        result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        first = model(x)
        fuse_mlir.unfuse_modules(model)
        unfused = model(x)
        # The bias is an attribute of another name from now on.
        before = state(model)
        fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        second = model(x)
        fuse_mlir.unfuse_modules(model)
    return {
        "status": [r.status for r in result],
        "close": [
            torch.allclose(y, expected, atol=1e-5)
            for y in (first, unfused, second)
        ],
        "restored": state(model) == before,
    }


def static_fp8(rank: int, differ: bool) -> dict:
    """An MLP with static scales, which are those of the whole tensors.

    Args:
        rank: of this process.
        differ: whether each rank has a scale of its own for hidden values.
    """
    x = torch.randn(7, 16, generator=torch.Generator().manual_seed(1))
    x = x.to(torch.bfloat16)
    model = block().to(torch.bfloat16)
    own = rank if differ else 0
    config = {
        "static_quantized_mlp": {
            "input_quant": "fuse",
            "gated_mlp": "fuse",
            "scales": {
                f"mlp.{name}": {
                    "input_scale": 0.01 * (1 + (own if name == "down" else 0)),
                    "weight_scale": 0.005,
                }
                for name in ("gate", "up", "down")
            },
        }
    }
    with torch.no_grad():
        fuse_mlir.fuse_modules(model, inputs=x, fusion_config=config)
        one_device = model(x).float()
        fuse_mlir.unfuse_modules(model)
        parallelize(model)
        found: list[Any] = []
        error = failure(
            lambda: found.append(
                fuse_mlir.fuse_modules(model, inputs=x, fusion_config=config)
            )
        )
        if error:
            return {"error": error}
        result = model(x).float()
        checks = fuse_mlir.verify(model, x)
    return {
        "error": error,
        "families": found[0][0].families,
        "note": found[0][0].note,
        "distance": float((result - one_device).norm() / one_device.norm()),
        "failed": [str(c) for c in checks.checks if not c.passed],
        "calibrate": failure(lambda: fuse_mlir.calibrate(model, [x])),
    }


def fp8_linears(rank: int) -> dict:
    """A model with FP8Linears, which run fused alone on a CPU."""
    model = fp8_transformer(
        "qwen3",
        **{**HEADS, "num_hidden_layers": 2, "tie_word_embeddings": False},
    )
    layer = model.model.layers[0]
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(1))
    x = x.to(torch.bfloat16)
    with torch.no_grad():
        fuse_mlir.fuse_modules(model, only_faster=False)
        one_device = layer.mlp(layer.post_attention_layernorm(x)).float()
        fuse_mlir.unfuse_modules(model)
        distribute(
            model,
            {
                f"model.layers.*.mlp.{name}.{scale}": "replicate"
                for name in ("gate_proj", "up_proj", "down_proj")
                for scale in ("weight_scale_inv", "activation_scale")
            },
        )
        result = fuse_mlir.fuse_modules(model, only_faster=False, strict=False)
        fused = layer.mlp(layer.post_attention_layernorm(x)).float()
        finite = bool(logits(model).isfinite().all())
    weight = layer.mlp.up_proj.weight
    return {
        "finite": finite,
        "sites": [
            (r.id, r.status, r.families, r.reason) for r in without_head(result)
        ],
        "note": result[0].note,
        "distance": float((fused - one_device).norm() / one_device.norm()),
        "placed": f"{weight.placements} {weight.dtype}",
    }


def without_head(sites: Any) -> list[Any]:
    """Sites but for the head, whose results transformers gathers."""
    return [
        site
        for site in sites
        if not site.reason.startswith("FUSE-N195 gathered-output: 'lm_head'")
    ]


def failure(function: Callable[[], object]) -> str:
    """The text of the error that a function raises."""
    try:
        function()
    except FuseMlirError as error:
        return str(error)
    return ""


def one_rank_differs(rank: int, how: str) -> dict:
    """Rank 1 refuses, fails or has another version, and no model changes."""
    model = distribute(build("llama"))
    before = state(model)
    options: dict[str, Any] = {"only_faster": False, "strict": False}
    patch: Any = mock.patch.object(native, "tell_missing")
    if rank == 1:
        if how == "hook":
            mlp = model.model.layers[0].mlp
            mlp.act_fn.register_forward_hook(lambda *_: None)
            before = state(model)
        elif how == "pattern":
            options["patterns"] = {(("*", "no.such.path"),): "fuse"}
        elif how == "arguments":
            options["gradients"] = "error"
        elif how == "version":
            patch = mock.patch.object(native, "build_id", lambda: "other")
        elif how == "sites":
            del model.model.layers[1]
            before = state(model)
    found: list[Any] = []
    with patch:
        error = failure(
            lambda: found.append(fuse_mlir.fuse_modules(model, **options))
        )
    fused = [r.parent for r in found[0].fused] if found else []
    reasons = (
        [r.reason for r in without_head(found[0].refused)] if found else []
    )
    if how == "hook":
        # The others still run fused, on both ranks.
        logits(model)
        fuse_mlir.unfuse_modules(model)
    return {
        "error": error,
        "fused": fused,
        "reasons": reasons,
        "unchanged": state(model) == before,
    }


def with_gradients(rank: int) -> dict:
    """Calls with gradients run the members on all ranks."""
    model = distribute(build("llama", torch.float32).requires_grad_())
    model(IDS, use_cache=False).logits.sum().backward()
    weight = model.model.layers[0].mlp.up_proj.weight
    expected = weight.grad.to_local().clone()
    model.zero_grad()
    fuse_mlir.fuse_modules(model, only_faster=False)
    model(IDS, use_cache=False).logits.sum().backward()
    same = torch.allclose(weight.grad.to_local(), expected, atol=1e-6)
    fuse_mlir.unfuse_modules(model)
    fuse_mlir.fuse_modules(model, only_faster=False, gradients="error")
    return {"same": same, "error": failure(lambda: model(IDS))}


def changed_weights(rank: int) -> list[bool]:
    """Writes to weights reach the kernel, as do later hooks."""
    model = distribute(build("llama"))
    mlp = model.model.layers[0].mlp
    fuse_mlir.fuse_modules(model, only_faster=False, partials="model")
    found = []
    for change in (
        lambda: mlp.down_proj.weight.mul_(2),
        lambda: mlp.gate_proj.weight.to_local().mul_(0.5),
        lambda: setattr(
            mlp.up_proj,
            "weight",
            nn.Parameter(mlp.up_proj.weight.detach() * 3),
        ),
    ):
        before = logits(model)
        with torch.no_grad():
            change()
        after = logits(model)
        fuse_mlir.unfuse_modules(model)
        found += [
            torch.equal(after, logits(model)),
            not torch.equal(after, before),
        ]
        fuse_mlir.fuse_modules(model, only_faster=False, partials="model")
    return found


def dies(rank: int) -> str:
    """Rank 1 ends before the ranks agree."""
    model, x = block(), torch.randn(4, 16)
    parallelize(model)
    if rank == 1:
        os._exit(1)
    try:
        fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
    except Exception as error:
        return type(error).__name__
    return ""


def dies_in_a_call(rank: int) -> str:
    """Rank 1 ends between two calls of the fused model."""
    model, x = block(), torch.randn(4, 16)
    parallelize(model)
    fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
    with torch.no_grad():
        model(x)
    if rank == 1:
        os._exit(1)
    try:
        with torch.no_grad():
            model(x)
    except Exception as error:
        return type(error).__name__
    return ""


def fp8_blocks(rank: int) -> dict:
    """FP8Linears with a scale per block, distributed by transformers."""
    from transformers.distributed.tensor_parallel import (
        apply_tensor_parallelism,
    )
    from transformers.integrations.finegrained_fp8 import FP8Linear

    torch.manual_seed(0)
    size, hidden, side = 128, 256, 128
    model = Block(size, hidden).eval()
    for name in ("gate", "up", "down"):
        linear = getattr(model.mlp, name)
        rows, columns = linear.weight.shape
        made = FP8Linear(columns, rows, (side, side))
        blocks = torch.randn(rows // side, side, columns // side, side)
        scale = blocks.abs().amax(dim=(1, 3)) / 448
        codes = (blocks / scale[:, None, :, None]).reshape(rows, columns)
        made.weight = nn.Parameter(
            codes.to(torch.float8_e4m3fn), requires_grad=False
        )
        made.weight_scale_inv = nn.Parameter(scale * 0.1, requires_grad=False)
        setattr(model.mlp, name, made)
    model.norm.to(torch.bfloat16)
    x = torch.randn(5, size).to(torch.bfloat16)
    dist.broadcast(x, 0)
    pattern = {(("Norm", "norm"), ("MLP", "mlp")): "fuse"}
    plan = {"mlp.gate": "colwise", "mlp.up": "colwise", "mlp.down": "rowwise"}
    names = {
        f"{path}.{name}": style
        for path, style in plan.items()
        for name in ("weight", "weight_scale_inv")
    }
    with torch.no_grad():
        fuse_mlir.fuse_modules(model, pattern, inputs=x)
        one_device = model(x).float()
        fuse_mlir.unfuse_modules(model)
        apply_tensor_parallelism(model, mesh(), {**names, **plan})
        result = fuse_mlir.fuse_modules(model, pattern, inputs=x)
        fused = model(x).float()
    return {
        "families": result[0].families,
        "note": result[0].note,
        "distance": float((fused - one_device).norm() / one_device.norm()),
    }
