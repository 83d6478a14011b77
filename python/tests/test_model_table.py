# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/reference/supported-models.md lists the sites of models."""

import re
import unittest

import torch

import fuse_mlir
from fuse_mlir.checkpoint import models as blocks
from tests.models import needs_library
from tests.support import ROOT

torch.set_num_threads(1)

# Configs call one thing by several names.
SMALL = {
    **dict.fromkeys(
        (
            "hidden_size",
            "n_embd",
            "d_model",
            "dim",
            "embedding_size",
            "word_embed_proj_dim",
        ),
        32,
    ),
    **dict.fromkeys(
        (
            "intermediate_size",
            "n_inner",
            "ffn_dim",
            "d_ff",
            "hidden_dim",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "max_position_embeddings",
            "n_positions",
            "vocab_size",
        ),
        64,
    ),
    **dict.fromkeys(
        (
            "num_hidden_layers",
            "n_layer",
            "num_layers",
            "n_layers",
            "encoder_layers",
            "decoder_layers",
            "num_key_value_heads",
        ),
        1,
    ),
    **dict.fromkeys(
        (
            "num_attention_heads",
            "n_head",
            "num_heads",
            "n_heads",
            "encoder_attention_heads",
            "decoder_attention_heads",
            "num_experts_per_tok",
        ),
        2,
    ),
    **dict.fromkeys(("num_experts", "num_local_experts"), 4),
    "head_dim": 16,
    "d_kv": 16,
    "rotary_dim": 8,
    "moe_intermediate_size": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def build(kind):
    """A model of that type with one layer and no weights."""
    import transformers

    transformers.logging.set_verbosity_error()
    default = transformers.CONFIG_MAPPING[kind]().to_dict()
    settings = {k: v for k, v in SMALL.items() if k in default}
    config = transformers.AutoConfig.for_model(kind, **settings)
    return blocks.build_from_config(config, torch.bfloat16).eval()


def row(kind):
    """The table's row of a model type: sites, kernels, and refusals."""
    found = fuse_mlir.explain(build(kind))
    fused, kernels, refused = {}, {}, {}
    for site in found:
        name = site.id.partition("#")[0]
        if site.status == "refused":
            reason = (
                re.search(r"FUSE-N1\d\d|$", site.reason)[0] or site.refusal.id
            )
            refused[f"{name}: {reason}"] = None
        else:
            fused[name] = None
            kernels.update(dict.fromkeys(site.families))
    return re.sub(
        r" +",
        " ",
        " | ".join(", ".join(part) for part in (fused, kernels, refused)),
    ).strip()


def table():
    """Model types and the rest of their rows."""
    text = (ROOT / "docs/reference/supported-models.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", text, re.MULTILINE)
    return {kind: cells.strip() for kind, cells in rows}


@needs_library
class Table(unittest.TestCase):
    def test_every_row(self):
        rows = table()
        self.assertGreater(len(rows), 40)
        for kind, expected in rows.items():
            with self.subTest(kind):
                self.assertEqual(row(kind), expected)

    def test_relaxed_rounding(self):
        text = (ROOT / "docs/reference/supported-models.md").read_text()
        kinds, gated = re.search(
            r"of this table (.*) become `mlp`, and\s+"
            r"`(\w+)` `gated_mlp`",
            text,
            re.DOTALL,
        ).groups()
        families = {
            **dict.fromkeys(re.findall(r"`([\w-]+)`", kinds), "mlp"),
            gated: "gated_mlp",
        }
        self.assertGreater(len(families), 5)
        for kind, family in families.items():
            with self.subTest(kind):
                found = fuse_mlir.explain(build(kind), rounding="relaxed")
                # Others are projections of attention.
                self.assertEqual(
                    {s.families for s in found if s.families}
                    - {("norm_linear",), ("fused_linear",)},
                    {(family,)},
                )


if __name__ == "__main__":
    unittest.main()
