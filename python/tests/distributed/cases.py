# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each rank does in the tests of tensor parallelism."""

from __future__ import annotations

import os
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
from tests.models import LLAMA, MLP, Block, transformer

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
    from transformers.distributed.utils import initialize_distributed_mesh

    config = DistributedConfig(tp_size=dist.get_world_size(), tp_plan=plan)
    _, mesh = initialize_distributed_mesh(config)
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
    keys = {k: str(v.placements) if hasattr(v, "placements") else ""
            for k, v in model.state_dict().items()}
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
            (r.id, r.status, r.families, r.note, r.reason) for r in result
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
