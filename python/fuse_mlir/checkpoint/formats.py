# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Formats of quantized checkpoints, by the names that publishers use.

A checkpoint declares its format in `quantization_config` of config.json, or in
hf_quant_config.json of ModelOpt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from torch import nn

from fuse_mlir.errors import REFUSALS
from fuse_mlir.quantized.schemes import four_bits_of

Json: TypeAlias = (
    "None | bool | int | float | str | list[Json] | dict[str, Json]"
)
Quantization = Mapping[str, Json]

#: Methods whose weights no kernel reads, and their formats.
_UNSUPPORTED = {
    "awq": "AWQ",
    "gptq": "GPTQ",
    "bitsandbytes": "bitsandbytes",
    "bitnet": "BitNet",
    "aqlm": "AQLM",
    "quip": "QuIP#",
    "hqq": "HQQ",
    "eetq": "EETQ",
    "quanto": "Quanto",
    "torchao": "torchao",
    "spqr": "SpQR",
    "vptq": "VPTQ",
    "higgs": "HIGGS",
    "auto-round": "AutoRound",
    "fp_quant": "FP-Quant",
    "mxfp4": "MXFP4",
    "gguf": "GGUF",
}
#: Width of codes in bits, for configurations that lack it.
_BITS = {
    "awq": 4,
    "gptq": 4,
    "mxfp4": 4,
    "eetq": 8,
    "bitnet": 2,
    "quip": 2,
    "fbgemm_fp8": 8,
}
#: What a user can do with a checkpoint of a method, by its name.
_ADVICE = {
    "compressed-tensors": "CompressedTensorsConfig(run_compressed=False) of "
    "transformers loads it dequantized",
    "mxfp4": "Mxfp4Config(dequantize=True) of transformers loads it "
    "dequantized",
    "bitsandbytes": "model.dequantize() of transformers gives weights that "
    "can be fused",
    "gguf": "gguf_file of from_pretrained loads it dequantized",
    "modelopt": "fuse the checkpoint that it was made from, or quantize that "
    "one to FP8",
}
_ANY_ADVICE = (
    "fuse the checkpoint that it was made from, or one of the model in FP8"
)
#: Entries that hold codes of several weights in one element, by the end of
#: their names, and their formats and methods.
_PACKED_ENTRIES = {
    ".weight_packed": ("packed compressed-tensors", "compressed-tensors"),
    ".qweight": ("AWQ or GPTQ", "awq"),
    "_blocks": ("MXFP4", "mxfp4"),
    "_qdata": ("torchao", "torchao"),
    ".weight_qdata": ("torchao", "torchao"),
}
#: Formats of compressed-tensors with one code of 8 bits per element.
_COMPRESSED_8BIT = ("float-quantized", "int-quantized", "naive-quantized")


def quantization_of(directory: str | Path) -> dict[str, Json] | None:
    """The format of the weights of a checkpoint; None if no file declares it.

    Args:
        directory: with config.json, and hf_quant_config.json for ModelOpt.

    Returns:
        `quantization_config` of config.json. Where that is missing, the
        `quantization` of hf_quant_config.json with `quant_method` set to
        "modelopt".
    """
    config = _read(Path(directory) / "config.json")
    for name in ("quantization_config", "compression_config"):
        found = config.get(name)
        if isinstance(found, dict):
            return found
    found = _read(Path(directory) / "hf_quant_config.json").get("quantization")
    if isinstance(found, dict) and found.get("quant_algo"):
        return {"quant_method": "modelopt", **found}
    return None


def _read(path: Path) -> dict[str, Json]:
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def describe(quantization: Quantization) -> str:
    """The usual name of a format, such as "4-bit AWQ"."""
    method = str(quantization.get("quant_method") or "unknown")
    if method == "modelopt":
        return f"ModelOpt {quantization.get('quant_algo') or 'FP8'}"
    if method == "compressed-tensors":
        bits = _bits_of_groups(quantization)
        name = quantization.get("format") or "compressed"
        return (
            f"{bits}-bit compressed-tensors ({name})"
            if bits
            else f"compressed-tensors ({name})"
        )
    if method == "fp8":
        block = quantization.get("weight_block_size")
        scheme = quantization.get("activation_scheme") or "dynamic"
        return (
            "fine-grained FP8 ("
            + (
                f"blocks of {'x'.join(map(str, block))}, "
                if isinstance(block, list)
                else ""
            )
            + f"{scheme} activations)"
        )
    bits = _bits(method, quantization)
    name = _UNSUPPORTED.get(method, method)
    return f"{bits}-bit {name}" if bits else name


def _bits(method: str, quantization: Quantization) -> int | None:
    if method == "bitsandbytes":
        return (
            4
            if quantization.get("load_in_4bit")
            or quantization.get("_load_in_4bit")
            else 8
        )
    for name in ("bits", "nbits", "w_bit", "wbits"):
        value = quantization.get(name)
        if isinstance(value, int):
            return value
    return _BITS.get(method)


def _bits_of_groups(quantization: Quantization) -> int | None:
    groups = quantization.get("config_groups")
    if isinstance(groups, dict):
        for group in groups.values():
            weights = group.get("weights") if isinstance(group, dict) else None
            bits = (
                weights.get("num_bits") if isinstance(weights, dict) else None
            )
            if isinstance(bits, int):
                return bits
    return None


def is_supported(quantization: Quantization) -> bool:
    """Whether kernels read the weights of a format: codes of 8 bits, or packed
    ones of 4 bits, with separate scales."""
    four_bits = four_bits_of(quantization)
    if four_bits is not None:
        return all(
            scheme is not None and scheme.refusal is None
            for scheme in four_bits
        )
    method = quantization.get("quant_method")
    if method in ("fp8", "fbgemm_fp8"):
        return True
    if method == "modelopt":
        return str(quantization.get("quant_algo") or "FP8").upper() in (
            "FP8",
            "FP8_PER_CHANNEL_PER_TOKEN",
            "FP8_PB_WO",
            "INT8_SQ",
        )
    if method == "compressed-tensors":
        bits = _bits_of_groups(quantization)
        return quantization.get("format") in _COMPRESSED_8BIT and bits in (
            None,
            8,
        )
    return False


def refusal(quantization: Quantization) -> str | None:
    """Why kernels cannot read a checkpoint of this format, or None."""
    if is_supported(quantization):
        return None
    for scheme in four_bits_of(quantization) or ():
        if scheme is not None and scheme.refusal is not None:
            name, text = scheme.refusal
            return f"{REFUSALS[name]} {name}: {text}"
    return (
        f"FUSE-N313 unsupported-format: {describe(quantization)} weights, "
        "which no kernel reads; supported are fine-grained FP8, "
        "compressed-tensors, ModelOpt and FBGEMM checkpoints with 8 bits per "
        "element, compressed-tensors, ModelOpt, AWQ and GPTQ ones with 4 bits, "
        f"and unquantized ones; {_advice(quantization)}"
    )


def _advice(quantization: Quantization) -> str:
    method = str(quantization.get("quant_method"))
    return _ADVICE.get(method, _ANY_ADVICE)


def packed_entries(names: Iterable[str], name: str) -> str | None:
    """What the entries of a file have in place of a missing weight.

    Args:
        names: all entries of the file.
        name: of the missing parameter, such as "mlp.up_proj.weight".

    Returns:
        A refusal with the format, or None if no entry is known.
    """
    stem = name.removesuffix(".weight")
    known = {
        f"{base}{suffix}": found
        for base in {stem, stem.removeprefix("model."), f"model.{stem}"}
        for suffix, found in _PACKED_ENTRIES.items()
    }
    for entry in names:
        if entry in known:
            format_name, method = known[entry]
            return (
                f"FUSE-N313 unsupported-format: '{entry}' holds {format_name} "
                f"codes, which no kernel reads; {_ADVICE.get(method, _ANY_ADVICE)}"
            )
    return None


#: Packages whose modules have weights that no kernel reads, and their formats.
_PACKED = {
    "awq": "4-bit AWQ",
    "gptqmodel": "GPTQ or AWQ",
    "auto_gptq": "GPTQ",
    "bitsandbytes": "bitsandbytes",
    "hqq": "HQQ",
    "aqlm": "AQLM",
    "eetq": "8-bit EETQ",
    "optimum": "Quanto",
    "quanto": "Quanto",
    "vptq": "VPTQ",
    "auto_round": "AutoRound",
}


def packed_format(module: nn.Module) -> str | None:
    """The format of a loaded module's weights if no kernel reads them, or None.

    It is found by the package of the class of the module or of its weight,
    without importing a package.
    """
    weight = getattr(module, "weight", None)
    for kind in (*type(module).__mro__, type(weight)):
        package = kind.__module__.partition(".")[0]
        if package in _PACKED:
            return f"{_PACKED[package]} ({kind.__name__})"
        if package == "torchao":
            return f"torchao ({kind.__name__})"
    return None


def compressed_forward(module: nn.Module) -> bool:
    """Whether compressed-tensors replaced the forward of a module.

    The wrapper looks like the forward of the class, so its code is compared.
    """
    own = getattr(module.__dict__.get("forward"), "__func__", None)
    code = getattr(own, "__code__", None)
    return (
        code is not None
        and "compressed_tensors" in Path(code.co_filename).parts
    )
