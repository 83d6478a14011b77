# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arithmetic of quantized formats, by the configs and modules that have them.

One block FP8 checkpoint has several implementations, which differ in limits
and orders. The defaults are those of DeepGEMM for `fp8`, which transformers
and vLLM prefer on Hopper, of vLLM for compressed-tensors and ModelOpt, and of
the FBGEMM kernel for `fbgemm_fp8`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from fuse_mlir.quantized.contract import Scheme
from fuse_mlir.quantized.four_bits import Packed

#: Limits of `per_token_cast_to_fp8` in deep_gemm/utils/math.py.
_DEEP_GEMM = ("amax", 1e-4)
#: Limits of csrc/quantization/fp8 in vLLM.
_VLLM = ("amax", 1e-10)
#: `1 / (448 * 512)`, the least scale of quantize_fp8_per_row of FBGEMM.
_FBGEMM = ("scale", 1.0 / (448.0 * 512.0))
#: Default of `weight_block_size` and `block_structure`.
_BLOCK = (128, 128)

#: The scheme of the linear at a path; None if it is not quantized.
Schemes = Callable[[str], Scheme | None]


def fine_grained(
    block: Sequence[int] | None, activations: str, powers_of_two: bool
) -> Scheme:
    """`fp8` of transformers, which DeepSeek and Qwen publish.

    Args:
        block: outputs and inputs of a block; None for one scale.
        activations: static or dynamic.
        powers_of_two: whether scales of activations are rounded to powers of
            two, as `scale_fmt: ue8m0` states.
    """
    if block is None:
        name = f"fine-grained FP8 (per tensor, {activations} activations)"
        if activations == "dynamic":
            return Scheme(name, "unknown", "tensor")
        return Scheme(name, "static", "tensor")
    rows, columns = (int(size) for size in block)
    name = (
        f"fine-grained FP8 (blocks of {rows}x{columns}, "
        f"{activations} activations)"
    )
    if activations == "static":
        return Scheme(
            name,
            "static",
            "block",
            (rows, columns),
            refusal=(
                "static-input-of-blocks",
                f"{name} has one static scale for activations, and no kernel "
                "adds blocks with it; set activation_scheme to dynamic in "
                "config.json if the model may measure its scales",
            ),
        )
    refusal = None
    if powers_of_two:
        refusal = (
            "power-of-two-scales",
            f"{name} with scale_fmt ue8m0 rounds scales of activations to "
            "powers of two, which no kernel does; scale_fmt float in "
            "config.json keeps the scales of weights as they are and measures "
            "exact ones for activations",
        )
    return Scheme(
        name,
        "per_group",
        "block",
        (rows, columns),
        columns,
        _DEEP_GEMM,
        scale_op="reciprocal",
        refusal=refusal,
    )


def fbgemm(upper: float | None) -> Scheme:
    """`fbgemm_fp8`, with the upper limit of magnitudes, if it has one."""
    return Scheme(
        "FBGEMM FP8",
        "per_token",
        "channel",
        floor=_FBGEMM,
        upper=upper,
        order="divide",
    )


def per_row(name: str) -> Scheme:
    """Dynamic scales per token, with the arithmetic of vLLM."""
    return Scheme(name, "per_token", floor=_VLLM, order="divide")


def _compressed_group(group: Mapping[str, object]) -> Scheme | None:
    """One of the `config_groups` of compressed-tensors; None if the entries
    of a linear tell how it is quantized."""
    weights, inputs = group.get("weights"), group.get("input_activations")
    if isinstance(weights, Mapping) and weights.get("num_bits") == 4:
        return _compressed_four_bits(weights, inputs, group.get("format"))
    if (
        not isinstance(weights, Mapping)
        or weights.get("type") == "int"
        or "input_activations" not in group
    ):
        return None
    strategy = weights.get("strategy")
    name = f"compressed-tensors FP8 ({strategy} weights"
    block = None
    if strategy == "block":
        sizes = weights.get("block_structure") or _BLOCK
        assert isinstance(sizes, Sequence)
        block = (int(sizes[0]), int(sizes[1]))
    if not isinstance(inputs, Mapping):
        return Scheme(f"{name} alone)", "none", strategy, block)
    if not inputs.get("dynamic"):
        return Scheme(
            f"{name}, static activations)",
            "static",
            strategy,
            block,
            order="divide",
            refusal=(
                "static-input-of-blocks",
                f"{name}, static activations) has one static scale for "
                "activations, and no kernel adds blocks with it; quantize "
                "with FP8_BLOCK, whose activations are dynamic",
            )
            if block
            else None,
        )
    name += f", dynamic activations per {inputs.get('strategy')})"
    if inputs.get("strategy") == "token":
        return Scheme(
            name, "per_token", strategy, block, floor=_VLLM, order="divide"
        )
    if inputs.get("strategy") in ("group", "tensor_group") and block:
        size = inputs.get("group_size") or block[1]
        return Scheme(
            name,
            "per_group",
            strategy,
            block,
            int(str(size)),
            _VLLM,
            order="divide",
        )
    return Scheme(name, "unknown", strategy, block)


def _four_bits(name: str, packed: Packed, activations: str = "") -> Scheme:
    """A format of weights of 4 bits.

    Args:
        name: of the format.
        packed: how it stores weights.
        activations: the line of config.json that keeps them in 16 bits; empty
            if they are.
    """
    refusal = None
    if activations:
        refusal = (
            "four-bit-activations",
            f"{name} also quantizes activations, which no kernel does beside "
            f"weights of 4 bits; {activations} keeps them in 16 bits",
        )
    return Scheme(name, "none", "group", refusal=refusal, packed=packed)


def _compressed_four_bits(
    weights: Mapping[str, object], inputs: object, format_name: object
) -> Scheme | None:
    """Weights of 4 bits of compressed-tensors: NVFP4, MXFP4 or integers."""
    strategy, size = weights.get("strategy"), weights.get("group_size")
    group = int(str(size)) if isinstance(size, (int, float)) else 0
    activations = (
        "`input_activations: null` in config.json"
        if isinstance(inputs, Mapping)
        else ""
    )
    if weights.get("type") == "float":
        nvidia = group == 16
        name = f"compressed-tensors {'NVFP4' if nvidia else 'MXFP4'}"
        if group not in (16, 32):
            return None
        packed = Packed(
            "bytes",
            "f4E2M1FN",
            group,
            "f8E4M3FN" if nvidia else "f8E8M0FNU",
            tensor_scale="weight_global_scale" if nvidia else None,
            tensor_op="divide" if nvidia else "multiply",
        )
    else:
        if strategy not in ("group", "channel") or format_name == "marlin-24":
            return None
        name = "compressed-tensors W4A16"
        if activations:
            name = "compressed-tensors integers of 4 bits"
        packed = Packed(
            "words",
            "ui4",
            group if strategy == "group" and group > 0 else 0,
            zero_point=8
            if weights.get("symmetric", True)
            else "weight_zero_point",
        )
    return _four_bits(name, packed, activations)


def _awq(config: Mapping[str, object]) -> Scheme | None:
    if config.get("bits", config.get("w_bit", 4)) != 4:
        return None
    if str(config.get("version") or "gemm").lower() != "gemm":
        return None
    size = config.get("group_size", config.get("q_group_size", 128))
    return _four_bits(
        "AWQ",
        Packed(
            "awq",
            "ui4",
            max(int(str(size)), 0),
            weight="qweight",
            scale="scales",
            zero_point="qzeros",
        ),
    )


def _gptq(config: Mapping[str, object]) -> Scheme | None:
    if config.get("bits") != 4:
        return None
    kind = config.get("checkpoint_format") or "gptq"
    if kind not in ("gptq", "gptq_v2"):
        return None
    return _four_bits(
        "GPTQ",
        Packed(
            "gptq",
            "ui4",
            max(int(str(config.get("group_size", 128))), 0),
            weight="qweight",
            scale="scales",
            zero_point="qzeros",
            # The first version stores zero points less one.
            zero_offset=1 if kind == "gptq" else 0,
        ),
    )


def _is_target(path: str, names: object) -> bool:
    """Whether a linear is named: by its class, its path or `re:` and a
    pattern of its path."""
    if not isinstance(names, Sequence) or isinstance(names, str):
        return False
    return any(
        bool(re.match(name[3:], path))
        if name.startswith("re:")
        else name in ("Linear", path)
        for name in map(str, names)
    )


def _compressed(config: Mapping[str, object]) -> Schemes:
    groups = config.get("config_groups")
    found = [
        (group.get("targets") or ["Linear"], _compressed_group(group))
        for group in (groups.values() if isinstance(groups, Mapping) else ())
        if isinstance(group, Mapping)
    ]
    # A pattern is more specific than the name of the class.
    found.sort(key=lambda entry: "Linear" in entry[0])

    def scheme(path: str) -> Scheme | None:
        for targets, group in found:
            if _is_target(path, targets):
                return group
        return None

    return scheme


def _modelopt(config: Mapping[str, object]) -> Scheme | None:
    algorithm = str(config.get("quant_algo") or "FP8").upper()
    if algorithm == "FP8":
        return Scheme("ModelOpt FP8", "static", "tensor")
    if algorithm == "FP8_PER_CHANNEL_PER_TOKEN":
        return Scheme(
            f"ModelOpt {algorithm}",
            "per_token",
            "channel",
            floor=_VLLM,
            order="divide",
        )
    if algorithm in ("NVFP4", "W4A16_NVFP4"):
        packed = Packed(
            "bytes",
            "f4E2M1FN",
            16,
            "f8E4M3FN",
            weight="weight",
            tensor_scale="weight_scale_2",
        )
        return _four_bits(
            f"ModelOpt {algorithm}",
            packed,
            "`quant_algo: W4A16_NVFP4` in config.json"
            if algorithm == "NVFP4"
            else "",
        )
    if algorithm == "FP8_PB_WO":
        return Scheme(f"ModelOpt {algorithm}", "none", "block", _BLOCK)
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def schemes_of(config: Mapping[str, object] | None) -> Schemes:
    """What a `quantization_config` states about the linear at each path.

    Examples:
        >>> config = {"quant_method": "fp8", "weight_block_size": [128, 128],
        ...           "activation_scheme": "dynamic"}
        >>> schemes_of(config)("model.layers.0.mlp.up_proj").activations
        'per_group'
    """
    config = config or {}
    method = config.get("quant_method")
    found: Scheme | None = None
    if method == "compressed-tensors":
        return _compressed(config)
    if method == "fp8":
        block = config.get("weight_block_size", _BLOCK)
        found = fine_grained(
            block if isinstance(block, Sequence) else None,
            str(config.get("activation_scheme") or "dynamic").lower(),
            config.get("scale_fmt") == "ue8m0",
        )
    elif method == "fbgemm_fp8":
        found = fbgemm(_number(config.get("activation_scale_ub")))
    elif method == "modelopt":
        found = _modelopt(config)
    elif method == "awq":
        found = _awq(config)
    elif method == "gptq":
        found = _gptq(config)
    return lambda path: found


def four_bits_of(config: Mapping[str, object]) -> list[Scheme | None] | None:
    """Schemes of a format of 4 bits, one for each group of linears.

    Returns:
        None for formats of other widths. A scheme of the list is None if the
        format has an unknown variant.
    """
    method = config.get("quant_method")
    if method in ("awq", "gptq"):
        return [schemes_of(config)("")]
    if method == "modelopt":
        scheme = _modelopt(config)
        return [scheme] if scheme is not None and scheme.packed else None
    groups = config.get("config_groups")
    if method != "compressed-tensors" or not isinstance(groups, Mapping):
        return None
    found = [
        _compressed_group(group)
        for group in groups.values()
        if isinstance(group, Mapping)
        and isinstance(group.get("weights"), Mapping)
        and group["weights"].get("num_bits") == 4
    ]
    return found or None


def scheme_of(module: nn.Module) -> Scheme | None:
    """The scheme of a linear of a loaded model, or None if its entries tell.

    Linears of transformers have it in their class and attributes. Those of
    `fuse_mlir.load_model` have the attribute `fuse_scheme`.
    """
    own = getattr(module, "fuse_scheme", None)
    if isinstance(own, Scheme):
        return own
    names = {kind.__name__ for kind in type(module).__mro__}
    if "FP8Linear" in names:
        scale = getattr(module, "weight_scale_inv", None)
        return fine_grained(
            getattr(module, "block_size", None),
            str(getattr(module, "activation_scheme", "dynamic")),
            isinstance(scale, torch.Tensor)
            and scale.dtype == torch.float8_e8m0fnu,
        )
    if "FbgemmFp8Linear" in names:
        return fbgemm(None)
    if "CompressedTensorsFP8Linear" in names:
        return per_row("compressed-tensors FP8 of transformers")
    return None
