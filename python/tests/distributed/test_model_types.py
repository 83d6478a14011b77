# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All models of transformers whose plan has gate and up colwise, down rowwise."""

import importlib
import os
import unittest
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import transformers
from torch import nn

from fuse_mlir.errors import Refusal
from fuse_mlir.fusion import modules
from fuse_mlir.matching.tensor_parallel import Part, part_of
from tests.models import needs_library

TINY: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "max_position_embeddings": 64,
    "num_experts": 4,
    "n_routed_experts": 4,
    "num_local_experts": 4,
    "moe_intermediate_size": 32,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
    "first_k_dense_replace": 1,
    "mlp_only_layers": [0],
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 64,
    "layer_types": ["full_attention"] * 2,
    "num_kv_shared_layers": 0,
    "activation_sparsity_pattern": [0.0] * 2,
}
#: Settings that some types check in a way of their own.
OPTIONAL = ("layer_types", "activation_sparsity_pattern", "head_dim")
LINEARS = ("gate_proj", "up_proj", "down_proj")
#: Types whose sites are searched too.
SEARCHED = ("apertus", "cohere", "gemma3_text", "olmo2", "qwen3", "smollm3")


def plain_types() -> Iterator[tuple[str, type]]:
    """Types of models and their configs."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for name in CONFIG_MAPPING:
        try:
            kind = CONFIG_MAPPING[name]
        except (AttributeError, ImportError, ValueError):
            continue
        plan = getattr(kind, "base_model_tp_plan", None) or {}
        styles = {
            (path.rpartition(".")[2], style)
            for path, style in plan.items()
            if ".mlp." in path
        }
        if {("up_proj", "colwise"), ("down_proj", "rowwise")} <= styles:
            yield name, kind


def tiny_config(kind: type) -> Any:
    settings = dict(TINY)
    for name in (*OPTIONAL, None):
        try:
            return kind(**settings)
        except Exception:
            if name is None:
                raise
            settings.pop(name)


def class_of(kind: type) -> Any:
    """A class of models for a config."""
    for mapping in (
        transformers.MODEL_FOR_CAUSAL_LM_MAPPING,
        transformers.MODEL_MAPPING,
    ):
        found = mapping.get(kind, None)
        if found is not None:
            return found[0] if isinstance(found, (list, tuple)) else found
    name = kind.__module__.replace("configuration_", "modeling_")
    for value in vars(importlib.import_module(name)).values():
        if (
            isinstance(value, type)
            and issubclass(value, transformers.PreTrainedModel)
            and value.__module__ == name
            and value.config_class is kind
            and "PreTrained" not in value.__name__
        ):
            return value
    return None


@needs_library
class Types(unittest.TestCase):
    def setUp(self) -> None:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
        self.addCleanup(dist.destroy_process_group)
        ranks = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
        patch = mock.patch.dict(os.environ, ranks)
        patch.start()
        self.addCleanup(patch.stop)
        transformers.logging.set_verbosity_error()

    def distributed(self, kind: type) -> nn.Module | None:
        """A tiny model without weights; None if its settings are special."""
        from transformers.distributed.configuration_utils import (
            DistributedConfig,
        )

        try:
            found = class_of(kind)
            with torch.device("meta"):
                model = found._from_config(tiny_config(kind)).eval()
            config, _, mesh = found.prepare_distribute_model(
                DistributedConfig(tp_size=2)
            )
            return found.maybe_distribute_model(model, config, mesh)
        except Exception:
            return None

    def test_each_linear_of_a_plain_plan_is_recognized(self):
        recognized = set()
        for name, kind in plain_types():
            model = self.distributed(kind)
            if model is None:
                continue
            linears = {
                path: module
                for path, module in model.named_modules()
                if path.endswith(tuple(f"mlp.{n}" for n in LINEARS))
                and "forward" in vars(module)
            }
            with self.subTest(name):
                for path, module in linears.items():
                    part = part_of(module)
                    self.assertIsInstance(part, Part, f"{path}: {part}")
                    self.assertEqual(
                        part.style,
                        "rowwise" if path.endswith("down_proj") else "colwise",
                    )
                if linears:
                    recognized.add(name)
        # transformers 5.23 has 98 such types; some need experts in each layer
        # or settings of their own.
        self.assertGreaterEqual(len(recognized), 82)

    def test_sites_without_weights(self):
        kinds = dict(plain_types())
        for name in SEARCHED:
            with self.subTest(name):
                model = self.distributed(kinds[name])
                sites, _ = modules.select(model, None, None, linears="floating")
                sums = [
                    site
                    for site in sites
                    if site.refusal is None
                    and "rowwise" in {p.style for p in site.parts.values()}
                ]
                self.assertEqual(len(sums), 2)

    def test_experts_keep_their_own_forward(self):
        kinds = dict(plain_types())
        model = self.distributed(kinds["deepseek_v3"])
        found = {
            str(part).split(":")[0]
            for module in model.modules()
            if isinstance(part := part_of(module), Refusal)
        }
        self.assertIn("FUSE-N199 parallel-experts", found)


if __name__ == "__main__":
    unittest.main()
