# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small configs and checkpoints of the kinds that are published, on which
`commands.py` runs every command.

Configs have the keys of published files, with those that transformers
ignores; checkpoints are one Qwen3 with drawn weights, as each tool writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    Weights = dict[str, "torch.Tensor"]

WIDTH, HIDDEN, BLOCK = 256, 512, 128

_DECODER: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "hidden_act": "silu",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "use_cache": True,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "bfloat16",
}
_QWEN3 = {
    **_DECODER,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "head_dim": 64,
}

#: Keys of config.json, by the name of the row.
CONFIGS: dict[str, dict[str, Any]] = {
    "BERT": {
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
        "gradient_checkpointing": False,
        "hidden_act": "gelu",
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 128,
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
        "transformers_version": "4.6.0.dev0",
        "type_vocab_size": 2,
    },
    "GPT-2": {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_ctx": 64,
        "n_embd": WIDTH,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 64,
        "vocab_size": 128,
        "bos_token_id": 1,
        "eos_token_id": 1,
        "summary_type": "cls_index",
        "task_specific_params": {"text-generation": {"max_length": 50}},
    },
    "Gemma 2": {
        **_DECODER,
        "architectures": ["Gemma2ForCausalLM"],
        "model_type": "gemma2",
        "cache_implementation": "hybrid",
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "head_dim": 64,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_act": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 64,
        "sliding_window": 64,
        "torch_dtype": "float32",
    },
    "Llama 3.1": {
        **_DECODER,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "eos_token_id": [2, 3],
        "mlp_bias": False,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
    },
    "Mistral": {
        **_DECODER,
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "sliding_window": 64,
    },
    "Mixtral": {
        **_DECODER,
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "num_experts_per_tok": 2,
        "num_local_experts": 4,
        "output_router_logits": False,
        "router_aux_loss_coef": 0.02,
        "sliding_window": None,
    },
    "Phi-3": {
        **_DECODER,
        "_name_or_path": "Phi-3-mini-4k-instruct",
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
        "num_key_value_heads": 4,
        "pad_token_id": 0,
        "rope_scaling": None,
        "original_max_position_embeddings": 4096,
    },
    "Qwen2.5": {
        **_DECODER,
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "max_window_layers": 28,
        "sliding_window": 131072,
        "use_sliding_window": False,
    },
    "Qwen3": {**_QWEN3, "max_window_layers": 36, "rope_scaling": None},
    "TinyLlama": {
        **_DECODER,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "pretraining_tp": 1,
        "rope_scaling": None,
    },
}
_GPT_OSS = {
    **{
        k: v
        for k, v in _DECODER.items()
        if k not in ("rms_norm_eps", "hidden_act")
    },
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "intermediate_size": WIDTH,
    "head_dim": 64,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "pad_token_id": 0,
}
#: Parent and members of the chain that `import` reads, by model type. If the
#: input needs two leading dimensions, they follow.
CHAINS: dict[str, tuple[str, ...]] = {
    "bert": ("bert.encoder.layer.0", "intermediate"),
    "gpt2": ("transformer.h.0", "ln_2,mlp"),
    "gemma2": ("model.layers.0", "pre_feedforward_layernorm,mlp"),
    "mixtral": ("model.layers.0", "post_attention_layernorm,mlp", "1,tokens"),
}
CHAIN = ("model.layers.0", "post_attention_layernorm,mlp")


@dataclass(frozen=True)
class Checkpoint:
    """A way of storing the weights of a Qwen3."""

    #: quantization_config of config.json.
    quantization: dict[str, Any] | None = None
    #: The entries of one linear layer, by the suffix of their names.
    store: Callable[[torch.Tensor], Weights] | None = None
    #: hf_quant_config.json.
    beside: dict[str, Any] | None = None


def _float8(
    weight: torch.Tensor, dim: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes, with one scale for the weight or one per row."""
    import torch

    exact = weight.float()
    scale = (
        exact.abs().amax()
        if dim is None
        else exact.abs().amax(dim, keepdim=True)
    ) / 448
    return (exact / scale).to(torch.float8_e4m3fn), scale


def _blocks(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes, and the scales of square blocks."""
    import torch

    rows, columns = (size // BLOCK for size in weight.shape)
    tiles = weight.float().reshape(rows, BLOCK, columns, BLOCK)
    scale = tiles.abs().amax((1, 3), keepdim=True) / 448
    codes = (tiles / scale).reshape(weight.shape).to(torch.float8_e4m3fn)
    return codes, scale.reshape(rows, columns)


def _static(
    kind: str,
    name: str = "weight_scale",
    read: str = "input_scale",
    shape: tuple[int, ...] = (1,),
) -> Callable[[torch.Tensor], Weights]:
    """Scales of the whole weight and of its input."""

    def store(weight: torch.Tensor) -> Weights:
        import torch

        codes, scale = _float8(weight)
        of = getattr(torch, kind)
        entries = {"weight": codes, name: scale.reshape(shape).to(of)}
        if read:
            entries[read] = torch.full(shape, 6.0 / 448, dtype=of)
        return entries

    return store


def _per_channel(weight: torch.Tensor) -> Weights:
    import torch

    codes, scale = _float8(weight, 1)
    return {"weight": codes, "weight_scale": scale.to(torch.bfloat16)}


def _per_block(name: str) -> Callable[[torch.Tensor], Weights]:
    def store(weight: torch.Tensor) -> Weights:
        import torch

        codes, scale = _blocks(weight)
        return {"weight": codes, name: scale.to(torch.bfloat16)}

    return store


def _int8(weight: torch.Tensor) -> Weights:
    import torch

    scale = weight.float().abs().amax(1, keepdim=True) / 127
    return {
        "weight": (weight.float() / scale).round().to(torch.int8),
        "weight_scale": scale.to(torch.bfloat16),
    }


def _words(*shape: int) -> torch.Tensor:
    """Packed codes, which no kernel reads."""
    import torch

    return torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int32)


def _packed(weight: torch.Tensor) -> Weights:
    import torch

    rows, columns = weight.shape
    return {
        "weight_packed": _words(rows, columns // 8),
        "weight_scale": torch.rand(rows, columns // BLOCK).bfloat16(),
        "weight_shape": torch.tensor([rows, columns]),
    }


def _four_bits(weight: torch.Tensor) -> Weights:
    import torch

    rows, columns = weight.shape
    return {
        "weight": torch.randint(
            0, 255, (rows, columns // 2), dtype=torch.uint8
        ),
        "weight_scale": torch.rand(rows, columns // 16).to(torch.float8_e4m3fn),
        "weight_scale_2": torch.tensor(1e-3),
        "input_scale": torch.tensor(1e-3),
    }


def _awq(weight: torch.Tensor) -> Weights:
    import torch

    rows, columns = weight.shape
    return {
        "qweight": _words(columns, rows // 8),
        "qzeros": _words(columns // BLOCK, rows // 8),
        "scales": torch.rand(columns // BLOCK, rows).half(),
    }


def _gptq(weight: torch.Tensor) -> Weights:
    import torch

    rows, columns = weight.shape
    return {
        "qweight": _words(columns // 8, rows),
        "qzeros": _words(columns // BLOCK, rows // 8),
        "scales": torch.rand(columns // BLOCK, rows).half(),
        "g_idx": (torch.arange(columns) // BLOCK).int(),
    }


def _scheme(
    strategy: str, kind: str = "float", **settings: object
) -> dict[str, Any]:
    return {
        "num_bits": 8,
        "type": kind,
        "strategy": strategy,
        "symmetric": True,
        "dynamic": False,
        "observer": "minmax",
        "observer_kwargs": {},
        "actorder": None,
        "block_structure": None,
        "group_size": None,
        **settings,
    }


def _compressed(
    weights: dict[str, Any],
    inputs: dict[str, Any] | None,
    form: str = "float-quantized",
) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "kv_cache_scheme": None,
        "global_compression_ratio": None,
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": weights,
                "input_activations": inputs,
                "output_activations": None,
            }
        },
    }


def _fine_grained(scheme: str, block: list[int] | None) -> dict[str, Any]:
    return {
        "activation_scheme": scheme,
        "fmt": "e4m3",
        "quant_method": "fp8",
        "weight_block_size": block,
        "modules_to_not_convert": ["lm_head"],
    }


def _modelopt(kind: str) -> dict[str, Any]:
    return {
        "quant_method": "modelopt",
        "quant_algo": kind,
        "producer": {"name": "modelopt", "version": "0.33.0"},
        "ignore": ["lm_head"],
    }


_BESIDE = {
    "producer": {"name": "modelopt", "version": "0.33.0"},
    "quantization": {
        "quant_algo": "FP8",
        "kv_cache_quant_algo": "FP8",
        "exclude_modules": ["lm_head"],
    },
}
_TOKEN = _scheme("token", dynamic=True, observer=None)
#: By the name of the row.
CHECKPOINTS: dict[str, Checkpoint] = {
    "bf16": Checkpoint(),
    "compressed-tensors FP8, static": Checkpoint(
        _compressed(_scheme("tensor"), _scheme("tensor")), _static("float32")
    ),
    "compressed-tensors FP8, static, bf16 scales": Checkpoint(
        _compressed(_scheme("tensor"), _scheme("tensor")), _static("bfloat16")
    ),
    "compressed-tensors FP8, dynamic": Checkpoint(
        _compressed(_scheme("channel"), _TOKEN), _per_channel
    ),
    "compressed-tensors FP8, blocks": Checkpoint(
        _compressed(
            _scheme("block", block_structure=[BLOCK, BLOCK]),
            _scheme("group", dynamic=True, group_size=BLOCK, observer=None),
        ),
        _per_block("weight_scale"),
    ),
    "compressed-tensors INT8": Checkpoint(
        _compressed(
            _scheme("channel", "int"),
            {**_TOKEN, "type": "int"},
            "int-quantized",
        ),
        _int8,
    ),
    "compressed-tensors 4-bit": Checkpoint(
        _compressed(
            _scheme("group", "int", group_size=BLOCK, num_bits=4),
            None,
            "pack-quantized",
        ),
        _packed,
    ),
    "ModelOpt FP8": Checkpoint(
        _modelopt("FP8"), _static("float32", shape=()), _BESIDE
    ),
    "ModelOpt FP8, hf_quant_config.json alone": Checkpoint(
        None, _static("float32", shape=()), _BESIDE
    ),
    "ModelOpt NVFP4": Checkpoint(
        {**_modelopt("NVFP4"), "group_size": 16},
        _four_bits,
        {"quantization": {"quant_algo": "NVFP4", "group_size": 16}},
    ),
    "fine-grained FP8, blocks": Checkpoint(
        _fine_grained("dynamic", [BLOCK, BLOCK]), _per_block("weight_scale_inv")
    ),
    "fine-grained FP8, static": Checkpoint(
        _fine_grained("static", None),
        _static("float32", "weight_scale_inv", "activation_scale", ()),
    ),
    "fine-grained FP8, dynamic": Checkpoint(
        _fine_grained("dynamic", None),
        _static("float32", "weight_scale_inv", "", ()),
    ),
    "AWQ": Checkpoint(
        {
            "quant_method": "awq",
            "bits": 4,
            "group_size": BLOCK,
            "version": "gemm",
            "zero_point": True,
            "modules_to_not_convert": None,
        },
        _awq,
    ),
    "GPTQ": Checkpoint(
        {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": BLOCK,
            "desc_act": False,
            "sym": True,
            "damp_percent": 0.01,
        },
        _gptq,
    ),
    "bitsandbytes 4-bit": Checkpoint(
        {
            "quant_method": "bitsandbytes",
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
        }
    ),
}
#: The one checkpoint of another model, GPT-OSS.
MXFP4 = "MXFP4 experts (GPT-OSS)"


def write_tokenizer(path: Path) -> None:
    """A tokenizer with a word for each of a few numbers."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"[UNK]": 0, **{f"w{i}": i for i in range(1, 100)}}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="[UNK]",
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(path)


def write_config(path: Path, config: dict[str, Any], **beside: object) -> Path:
    """A config.json, and other JSON files by their names."""
    path.mkdir(parents=True)
    for name, content in {"config": config, **beside}.items():
        if content is not None:
            path.joinpath(f"{name}.json").write_text(
                json.dumps(content, indent=1)
            )
    return path


def _drawn(config: dict[str, Any]) -> Weights:
    import torch
    import transformers

    torch.manual_seed(0)
    made = transformers.AutoConfig.for_model(
        **{k: v for k, v in config.items() if k != "architectures"}
    )
    model = getattr(transformers, config["architectures"][0])(made).bfloat16()
    return {k: v.contiguous() for k, v in model.state_dict().items()}


def write_checkpoint(path: Path, name: str) -> Path:
    """A directory as a user downloads it, with a tokenizer."""
    import torch
    from safetensors.torch import save_file

    if name == MXFP4:
        quantization = {
            "quant_method": "mxfp4",
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
        }
        weights = _drawn(_GPT_OSS)
        for entry in [
            n
            for n in weights
            if n.endswith(("experts.gate_up_proj", "experts.down_proj"))
        ]:
            count, columns, rows = weights.pop(entry).shape
            weights[f"{entry}_blocks"] = torch.randint(
                0, 255, (count, rows, columns // 32, 16), dtype=torch.uint8
            )
            weights[f"{entry}_scales"] = torch.randint(
                118, 124, (count, rows, columns // 32), dtype=torch.uint8
            )
        write_config(path, {**_GPT_OSS, "quantization_config": quantization})
    else:
        kind = CHECKPOINTS[name]
        weights = _drawn(_QWEN3)
        linears = [n for n in weights if n.endswith("_proj.weight")]
        for entry in linears if kind.store is not None else ():
            assert kind.store is not None
            stored = kind.store(weights.pop(entry))
            base = entry.removesuffix("weight")
            weights |= {base + key: value for key, value in stored.items()}
        config = dict(_QWEN3)
        if kind.quantization is not None:
            config["quantization_config"] = kind.quantization
        write_config(path, config, hf_quant_config=kind.beside)
    save_file(
        {k: v.contiguous().clone() for k, v in weights.items()},
        path / "model.safetensors",
        metadata={"format": "pt"},
    )
    write_tokenizer(path)
    return path
