# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears with stored weights of loaded checkpoints.

This module reads the entries of one linear (`weight`, `weight_scale_inv`,
`input_scale`, ...). It decides the direction of each scale by its name and
shape, compares it with the data, and makes a module that the importer knows.
Linears that cannot be expressed are refused with an id of
docs/reference/refusals.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import torch
from torch import nn

from fuse_mlir.errors import BlockError, Refused
from fuse_mlir.quantized.contract import (
    Quant,
    Scheme,
    dynamic_scale,
    parse_quant,
    with_bias,
)
from fuse_mlir.quantized.four_bits import (
    SCALE,
    TENSOR_SCALE,
    WEIGHT,
    ZERO_POINT,
    Packed,
    check_direction,
    real_weight,
)
from fuse_mlir.quantized.packed_product import packed_linear, packed_quant
from fuse_mlir.quantized.partial_linear import dtype_of_terms
from fuse_mlir.quantized.schemes import scheme_of
from fuse_mlir.quantized.value_range import (
    Range,
    as_scale,
    dequantize,
    largest_value,
    quantize,
)
from fuse_mlir.support.ops import define

#: Storage types by the dtype of a weight.
STORAGE = {
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.int8: "i8",
}
ACTIVATIONS = ("static", "per_token", "per_tensor", "none")
ORDERS = ("reciprocal", "divide")
BIAS_PLACES = ("before_rounding", "after_rounding")

# Names of the scales of a weight and of an input. All of them are factors from
# stored to real values. The `inv` in `weight_scale_inv` of DeepSeek and
# transformers means the inverse of the factor that quantized.
WEIGHT_SCALES = ("weight_scale", "weight_scale_inv", "scale", "qscale_weight")
INPUT_SCALES = ("input_scale", "activation_scale", "act_scale")
ZERO_POINTS = ("weight_zero_point", "input_zero_point")
#: The largest magnitude of an input that counts, of fbgemm_fp8.
UPPER_LIMIT = "input_scale_ub"
KNOWN = ("weight", "bias", *WEIGHT_SCALES, *INPUT_SCALES, *ZERO_POINTS)
#: Types of scales, all of which are exact in f32.
SCALE_TYPES = (
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float8_e8m0fnu,
)
#: Integers, which no conversion of a module changes, by their size in bytes.
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
#: Refusals of linears whose real weight is still known.
CAN_DEQUANTIZE = (
    "block-scale",
    "group-width",
    "input-scale-missing",
    "power-of-two-scales",
    "static-input-of-blocks",
    "zero-point-in-checkpoint",
)


@dataclass(frozen=True)
class Policy:
    """The user's choices for stored linears.

    Args:
        activations: static, per_token, per_tensor or none.
        order: division order of static quantize ops.
        bias_place: where biases are added.
        unsupported: `error`, or `dequantize` to keep linears in floating
            point that cannot be expressed.
        inverse: names of entries with the inverse of a scale.
        scheme: what the format of the checkpoint states; None if only the
            entries tell. It counts with static `activations`.
    """

    activations: str = "static"
    order: str = "reciprocal"
    bias_place: str = "before_rounding"
    unsupported: str = "error"
    inverse: tuple[str, ...] = ()
    scheme: Scheme | None = None

    def __post_init__(self) -> None:
        for what, value, known in (
            ("activations", self.activations, ACTIVATIONS),
            ("order", self.order, ORDERS),
            ("place of the bias", self.bias_place, BIAS_PLACES),
            ("unsupported", self.unsupported, ("error", "dequantize")),
        ):
            if value not in known:
                raise BlockError(
                    f"unknown {what} '{value}'; expected one of "
                    + ", ".join(known)
                )
        for name in self.inverse:
            if name not in WEIGHT_SCALES + INPUT_SCALES:
                raise BlockError(
                    f"'{name}' is not the name of a scale; expected one of "
                    + ", ".join(WEIGHT_SCALES + INPUT_SCALES)
                )

    @property
    def stated(self) -> Scheme | None:
        """The scheme of the checkpoint, unless the user chose another."""
        return self.scheme if self.activations == "static" else None


@dataclass(frozen=True)
class StoredParts:
    """The parts of a linear after all checks.

    With `quant`, the scales of the weight are a tensor of its granularity, and
    those of the input are measured. Weights of 4 bits are packed as
    `four_bits` describes.
    """

    weight: torch.Tensor
    weight_scale: float | torch.Tensor
    input_scale: float | None
    bias: torch.Tensor | None
    quant: Quant | None = None
    zero_point: torch.Tensor | None = None
    tensor_scale: torch.Tensor | None = None


# Scales.


def scale_problem(scale: float) -> str | None:
    """Why kernels cannot use a scale, or None; as in the verifiers of ops."""
    if math.isnan(scale):
        return "is not a number"
    if math.isinf(scale):
        return "is not finite"
    if scale < 0.0:
        return "is negative"
    smallest = float(np.finfo(np.float32).tiny)
    rounded = np.float32(scale)
    if rounded == 0.0:
        return "is zero in f32"
    if float(rounded) < smallest:
        return "is not a normal number in f32"
    if float(np.float32(1.0) / rounded) < smallest:
        return "has no normal reciprocal in f32"
    return None


def shortest(scale: float) -> float:
    """The number with the fewest digits that rounds to `scale` in f32."""
    return float(str(np.float32(scale)))


def _read_scale(
    linear: str, name: str, tensor: torch.Tensor, inverse: bool
) -> torch.Tensor:
    """The values of a scale in f32, in the direction real = scale * stored."""
    if tensor.dtype not in SCALE_TYPES:
        raise Refused(
            "scale-type",
            linear,
            f"'{name}' is {tensor.dtype}; expected one of "
            + ", ".join(map(str, SCALE_TYPES)),
        )
    values = tensor.detach().to("cpu", torch.float32)
    for value in values.flatten().tolist():
        problem = scale_problem(value)
        if problem is not None:
            raise Refused(
                "unusable-scale", linear, f"'{name}' {problem}, got {value:g}"
            )
    # Kernels read scales per channel next to the weight.
    return (1.0 / values if inverse else values).to(tensor.device)


def _is_number(shape: torch.Size) -> bool:
    return all(size == 1 for size in shape)


def _pick(
    linear: str,
    entries: Mapping[str, torch.Tensor],
    names: tuple[str, ...],
    policy: Policy,
) -> tuple[str, torch.Tensor] | None:
    """The scale among `names`; several scales must agree."""
    found = {
        name: _read_scale(linear, name, entries[name], name in policy.inverse)
        for name in names
        if entries.get(name) is not None
    }
    if not found:
        return None
    first, values = next(iter(found.items()))
    for name, other in found.items():
        if other.numel() != values.numel() or not torch.equal(
            other.flatten(), values.flatten()
        ):
            raise Refused(
                "scale-conflict",
                linear,
                f"'{first}' and '{name}' are different numbers",
            )
    return first, values


# Directions and data.


def weight_direction(weight: torch.Tensor, scale: float | torch.Tensor) -> str:
    """Whether the real weights are plausible: `ok` or `inverted`.

    The results of a linear are within a few orders of magnitude of its inputs:
    the root mean square of the weights, times the square root of the number of
    inputs, is near one. A scale is inverted if this value is off by a factor
    of 64, and if the inverse is nearer by another factor of 16.
    """
    stored = weight.to(torch.float32)
    rms = float(stored.square().mean().sqrt())
    if rms == 0.0:
        return "ok"
    middle = float(as_scale(scale).median())
    gain = rms * math.sqrt(weight.shape[1])
    distance = abs(math.log2(gain * middle))
    inverse = abs(math.log2(gain / middle))
    return "inverted" if distance > 6 and inverse + 4 < distance else "ok"


def _spread(
    scale: torch.Tensor,
    weight: torch.Tensor,
    block: tuple[int, int] | None,
) -> torch.Tensor:
    """Scales of any granularity, ready to multiply with a weight.

    Args:
        scale: one number, one per output, or one per block.
        weight: [out, features].
        block: sizes of a block; None to derive them from the shapes.
    """
    if _is_number(scale.shape):
        return scale.reshape(1, 1)
    out, features = weight.shape
    if scale.dim() == 1 or scale.shape in ((out, 1), (1, out)):
        return scale.reshape(-1, 1)
    rows, columns = block or (
        -(-out // scale.shape[0]),
        -(-features // scale.shape[1]),
    )
    full = scale.repeat_interleave(rows, 0)[:out]
    return full.repeat_interleave(columns, 1)[:, :features]


def original_direction(
    weight: torch.Tensor,
    scale: float | torch.Tensor,
    original: torch.Tensor,
    block: tuple[int, int] | None = None,
) -> str:
    """Compares with the weight before quantization: `ok`, `inverted` or
    `different`."""
    factor = _spread(as_scale(scale), weight, block)
    exact = original.double()

    def error(candidate: torch.Tensor) -> float:
        restored = dequantize(weight, candidate).double()
        return float((restored - exact).norm() / exact.norm().clamp(min=1e-300))

    # Quantizing to 8 bits has an error of a few percent.
    if error(factor) < 0.25:
        return "ok"
    return "inverted" if error(1.0 / factor) < 0.25 else "different"


def input_direction(scale: float, seen: Range, storage: str) -> str:
    """Compares an input scale with observed values: `ok` or `inverted`.

    A scale maps the largest value approximately to the largest code. It is
    inverted if it is off by a factor of 32, and if the inverse is nearer by
    another factor of 16.
    """
    if seen.largest == 0.0:
        return "ok"
    aim = seen.largest / largest_value(storage)
    distance = abs(math.log2(aim / scale))
    inverse = abs(math.log2(aim * scale))
    return "inverted" if distance > 5 and inverse + 4 < distance else "ok"


def check_input_scales(
    scales: Mapping[str, float], seen: Mapping[str, Range], storage: str
) -> None:
    """Raises Refused if sample inputs contradict an input scale."""
    for linear, scale in scales.items():
        if (
            linear in seen
            and input_direction(scale, seen[linear], storage) != "ok"
        ):
            largest = largest_value(storage)
            raise Refused(
                "inverted-scale-in-checkpoint",
                linear,
                f"the input scale {scale:g} reaches to {scale * largest:g}, "
                f"the largest input is {seen[linear].largest:g}; the inverse "
                f"reaches to {largest / scale:g}, so invert the scale in the "
                "checkpoint, or name it with --inverse-scales of python -m "
                "fuse_mlir import",
            )


# One linear.


def read_linear(
    linear: str,
    entries: Mapping[str, torch.Tensor],
    policy: Policy,
    original: torch.Tensor | None = None,
    trusted: bool = False,
    shape: tuple[int, int] | None = None,
) -> StoredParts:
    """Checks the entries of a linear, by their names below its path.

    Args:
        linear: path of the linear, for messages.
        entries: tensors by their names.
        policy: how they are handled.
        original: weight before quantization, [out, features].
        trusted: whether the direction of the scale need not be checked.
        shape: of the weight in the model, [out, features], if it is known.

    Raises:
        Refused: with the first predicate that fails.
    """
    if policy.scheme is not None and policy.scheme.packed is not None:
        return _read_packed(linear, entries, policy.scheme.packed, trusted)
    scheme = policy.stated
    if scheme is not None and scheme.refusal is not None:
        raise Refused(scheme.refusal[0], linear, scheme.refusal[1])
    known: tuple[str, ...] = KNOWN
    if scheme is not None and scheme.is_dynamic:
        known = (*KNOWN, UPPER_LIMIT)
    for name, tensor in entries.items():
        if name not in known and tensor is not None:
            raise Refused(
                "unknown-scale-name",
                linear,
                f"'{name}'; known are " + ", ".join(known),
            )
        if hasattr(tensor, "device_mesh"):
            raise Refused(
                "sharded-weight",
                linear,
                f"'{name}' is spread over {tensor.device_mesh}",
            )
    weight = entries["weight"].detach()
    storage = STORAGE.get(weight.dtype)
    if storage is None or weight.dim() != 2:
        raise Refused(
            "weight-type",
            linear,
            f"the weight is {weight.dtype} of shape "
            f"{list(weight.shape)}; expected a matrix of "
            + ", ".join(map(str, STORAGE)),
        )
    if shape is not None and tuple(weight.shape) != tuple(shape):
        hint = ""
        if tuple(weight.shape) == (shape[0], shape[1] // 2):
            hint = "; two codes of 4 bits in a byte have this shape"
        elif tuple(weight.shape) == (shape[1], shape[0]):
            hint = "; it is transposed"
        raise Refused(
            "weight-width",
            linear,
            f"the weight has shape {list(weight.shape)}, the model wants "
            f"{list(shape)}{hint}",
        )
    for name in ZERO_POINTS:
        point = entries.get(name)
        if point is not None and bool((point.to(torch.float32) != 0).any()):
            raise Refused(
                "zero-point-in-checkpoint", linear, f"'{name}' is not zero"
            )
    if scheme is not None and scheme.is_dynamic:
        return _read_dynamic(linear, weight, entries, policy, original)
    weight_scale = _read_weight_scale(linear, weight, entries, policy)
    if not trusted:
        _check_direction(linear, weight, weight_scale, original)
    input_scale = None
    if policy.activations == "static":
        input_scale = _read_input_scale(linear, entries, policy)
    return StoredParts(weight, weight_scale, input_scale, entries.get("bias"))


def _read_packed(
    linear: str,
    entries: Mapping[str, torch.Tensor],
    packed: Packed,
    trusted: bool,
) -> StoredParts:
    """A linear of 4 bits, whose file was checked when it was read."""
    if not trusted and not entries[WEIGHT].is_meta:
        check_direction(linear, packed, entries)
    scale = entries.get(TENSOR_SCALE)
    return StoredParts(
        entries[WEIGHT].detach(),
        entries[SCALE].detach(),
        None,
        entries.get("bias"),
        packed_quant(packed, entries),
        entries.get(ZERO_POINT),
        None if scale is None else scale.detach().reshape(1),
    )


def _read_dynamic(
    linear: str,
    weight: torch.Tensor,
    entries: Mapping[str, torch.Tensor],
    policy: Policy,
    original: torch.Tensor | None,
) -> StoredParts:
    """A linear whose format measures the scales of its input."""
    scheme = policy.stated
    assert scheme is not None
    for name in INPUT_SCALES:
        if entries.get(name) is not None:
            raise Refused(
                "scale-conflict",
                linear,
                f"'{name}' is a static scale, and {scheme.name} measures "
                "scales of activations",
            )
    features = weight.shape[1]
    if scheme.group and features % scheme.group:
        raise Refused(
            "group-width",
            linear,
            f"its input has {features} features, which groups of "
            f"{scheme.group} of {scheme.name} do not divide",
        )
    limit = entries.get(UPPER_LIMIT)
    if limit is not None:
        values = _read_scale(linear, UPPER_LIMIT, limit, False)
        if not _is_number(values.shape):
            raise Refused(
                "scale-shape",
                linear,
                f"'{UPPER_LIMIT}' has shape {list(values.shape)}; a limit has "
                "one number",
            )
        scheme = replace(scheme, upper=shortest(float(values)))
    weights, scales = _read_granular(linear, weight, entries, policy)
    _check_direction(linear, weight, scales, original, scheme.block)
    quant = scheme.quant(STORAGE[weight.dtype], weights)
    return StoredParts(weight, scales, None, entries.get("bias"), quant)


def _read_granular(
    linear: str,
    weight: torch.Tensor,
    entries: Mapping[str, torch.Tensor],
    policy: Policy,
) -> tuple[str, torch.Tensor]:
    """The granularity of the scales of a weight, and the scales."""
    scheme = policy.stated
    assert scheme is not None
    name, values = _weight_scale(linear, entries, policy)
    out, features = weight.shape
    shapes: dict[str, tuple[tuple[int, ...], ...]] = {
        "tensor": ((), (1,), (1, 1)),
        "channel": ((out,), (out, 1), (1, out)),
    }
    blocks = None
    if scheme.block is not None:
        rows, columns = scheme.block
        blocks = (-(-out // rows), -(-features // columns))
        shapes["block"] = (blocks,)
    stated = (scheme.weights,) if scheme.weights else ("tensor", "channel")
    for granularity in stated:
        if tuple(values.shape) in shapes[granularity]:
            if granularity != "block":
                values = values.reshape(-1)
            return granularity, values.contiguous()
    hint = ""
    if blocks is not None and tuple(values.shape) == (blocks[1], blocks[0]):
        hint = "; it is transposed"
    elif blocks is not None and values.dim() == 2:
        assert scheme.block is not None
        hint = (
            "; a shard of a weight begins and ends between blocks of "
            "{}x{}".format(*scheme.block)
        )
    raise Refused(
        "scale-shape",
        linear,
        f"'{name}' has shape {list(values.shape)}; a weight of "
        f"{out}x{features} in {scheme.name} has "
        + " or ".join(
            str(list(shape)) for kind in stated for shape in shapes[kind]
        )
        + hint,
    )


def _weight_scale(
    linear: str, entries: Mapping[str, torch.Tensor], policy: Policy
) -> tuple[str, torch.Tensor]:
    found = _pick(linear, entries, WEIGHT_SCALES, policy)
    if found is None:
        raise Refused(
            "weight-scale-missing",
            linear,
            "expected one of " + ", ".join(WEIGHT_SCALES),
        )
    return found


def _read_weight_scale(
    linear: str,
    weight: torch.Tensor,
    entries: Mapping[str, torch.Tensor],
    policy: Policy,
) -> float | torch.Tensor:
    name, values = _weight_scale(linear, entries, policy)
    shape = values.shape
    if _is_number(shape):
        return shortest(float(values))
    out, features = weight.shape
    # Linears of transformers for compressed-tensors have [1, out].
    if shape in ((out,), (out, 1), (1, out)):
        return values.reshape(-1)
    if (
        values.dim() == 2
        and shape[0] <= out
        and shape[1] <= features
        and shape != (1, features)
    ):
        rows, columns = -(-out // shape[0]), -(-features // shape[1])
        raise Refused(
            "block-scale",
            linear,
            f"'{name}' has shape {list(shape)}, one entry per block "
            f"of {rows}x{columns} of the weight; load the model "
            "dequantized to fuse it in 16 bits, for example with "
            "FineGrainedFP8Config(dequantize=True) or "
            "CompressedTensorsConfig(run_compressed=False) of transformers, "
            "or import it with --unsupported dequantize",
        )
    raise Refused(
        "scale-shape",
        linear,
        f"'{name}' has shape {list(shape)}; expected one number, "
        f"[{out}], [{out}, 1] or [1, {out}]",
    )


def _read_input_scale(
    linear: str, entries: Mapping[str, torch.Tensor], policy: Policy
) -> float:
    found = _pick(linear, entries, INPUT_SCALES, policy)
    if found is None:
        raise Refused(
            "input-scale-missing",
            linear,
            "expected one of "
            + ", ".join(INPUT_SCALES)
            + "; its activations are quantized dynamically, and "
            "fuse_mlir.calibrate(model, inputs) measures static "
            "scales for them; import keeps them dynamic with "
            "--activations per_token or per_tensor",
        )
    name, values = found
    if not _is_number(values.shape):
        raise Refused(
            "scale-shape",
            linear,
            f"'{name}' has shape {list(values.shape)}; an input has one number",
        )
    return shortest(float(values))


def _check_direction(
    linear: str,
    weight: torch.Tensor,
    scale: float | torch.Tensor,
    original: torch.Tensor | None,
    block: tuple[int, int] | None = None,
) -> None:
    if weight.is_meta:
        return
    if original is not None:
        verdict = original_direction(weight, scale, original, block)
        if verdict == "different":
            raise Refused(
                "scale-conflict",
                linear,
                "neither the scale of the weight nor its inverse "
                "gives the original weight",
            )
    else:
        verdict = weight_direction(weight, scale)
    if verdict == "inverted":
        number = float(as_scale(scale).median())
        raise Refused(
            "inverted-scale-in-checkpoint",
            linear,
            f"the scale of the weight is {number:g}, and the data "
            f"fits its inverse {1.0 / number:g}; invert it in the "
            "checkpoint, or name it with --inverse-scales of "
            "python -m fuse_mlir import",
        )


def dequantized_weight(
    entries: Mapping[str, torch.Tensor], policy: Policy, dtype: torch.dtype
) -> torch.Tensor:
    """The real weight of any known layout, rounded once."""
    packed = None if policy.scheme is None else policy.scheme.packed
    if packed is not None:
        return real_weight(
            entries[WEIGHT].detach(),
            entries[SCALE].detach(),
            entries[ZERO_POINT]
            if isinstance(packed.zero_point, str)
            else packed.zero_point,
            entries.get(TENSOR_SCALE),
            packed.storage,
            packed.tensor_op,
            dtype,
        )
    weight = entries["weight"].detach().to(torch.float32)
    point = entries.get("weight_zero_point")
    if point is not None:
        points = point.to(torch.float32)
        weight = weight - (points[:, None] if points.dim() == 1 else points)
    found = _pick("", entries, WEIGHT_SCALES, policy)
    assert found is not None
    block = None if policy.scheme is None else policy.scheme.block
    full = _spread(found[1], weight, block)
    return (weight * full).to(dtype)


# The module.


def _run_stored_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    channel_scale: torch.Tensor | None,
    input_scale: float | None,
    weight_scale: float | None,
    activations: str,
    order: str,
    bias_place: str,
    quant: str = "",
    partial: bool = False,
) -> torch.Tensor:
    """A linear on a stored weight, with the arithmetic of the fuse ops.

    The result has the dtype of `x`, and at least f32 if it is a term of a sum
    over ranks. Sums are in f64, so that their order does not matter. `quant` is
    the text of a `Quant`, or empty.
    """
    dtype = dtype_of_terms(x.dtype) if partial else x.dtype
    storage = STORAGE[weight.dtype]
    if quant:
        assert channel_scale is not None
        contract = parse_quant(quant)
        codes, scale_x = contract.measure(x)
        total = contract.multiply(codes, scale_x, weight, channel_scale)
        return with_bias(total, bias, bias_place, dtype)
    if channel_scale is None:
        assert weight_scale is not None
        scale_w = as_scale(weight_scale)
    else:
        scale_w = channel_scale
    if activations == "none":
        factor = scale_w[:, None] if scale_w.dim() else scale_w
        real = dequantize(weight, factor).to(x.dtype)
        total = (x.double() @ real.double().t()).float()
    else:
        if activations == "static":
            assert input_scale is not None
            scale_x = as_scale(input_scale)
        else:
            scale_x = dynamic_scale(x, activations, storage)
        stored = quantize(x, scale_x, storage, order)
        total = (stored.double() @ weight.double().t()).float()
        total = total * (scale_x * scale_w)
    return with_bias(total, bias, bias_place, dtype)


def _stored_linear_shape(
    x,
    weight,
    bias,
    channel_scale,
    input_scale,
    weight_scale,
    activations,
    order,
    bias_place,
    quant="",
    partial=False,
):
    return x.new_empty(
        (*x.shape[:-1], weight.shape[0]),
        dtype=dtype_of_terms(x.dtype) if partial else x.dtype,
    )


stored_linear = define(
    "stored_linear(Tensor x, Tensor weight, Tensor? bias, "
    "Tensor? channel_scale, float? input_scale, float? weight_scale, "
    'str activations, str order, str bias_place, str quant="", '
    "bool partial=False) -> Tensor",
    _run_stored_linear,
    _stored_linear_shape,
)


class Shown(torch.Tensor):
    """A weight as forwards of members see it.

    They may read its dtype and shape. Its values have another type.
    """

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from fuse_mlir.support.metadata_ops import METADATA

        name = getattr(func, "__name__", str(func))
        if name not in METADATA:
            raise RuntimeError(
                f"'{name}' reads a weight that is stored in 8 "
                "bits outside of its linear"
            )
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: object,
        types: object,
        args: object = (),
        kwargs: object = None,
    ) -> NoReturn:
        raise RuntimeError(
            f"'{func}' reads a weight that is stored in 8 bits "
            "outside of its linear"
        )


class StoredLinear(nn.Module):
    """Replaces a linear with a stored weight; the importer knows it.

    Args:
        parts: of the linear.
        policy: the user's choices.
        shown: dtype of the weight in the model; None for the stored one.
    """

    bias: torch.Tensor | None
    weight_scale: torch.Tensor | None
    zero_point: torch.Tensor | None
    tensor_scale: torch.Tensor | None

    def __init__(
        self,
        parts: StoredParts,
        policy: Policy,
        shown: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self._buffers["weight"] = parts.weight
        self.register_buffer(
            "bias", None if parts.bias is None else parts.bias.detach()
        )
        vector = (
            parts.weight_scale
            if isinstance(parts.weight_scale, torch.Tensor)
            else None
        )
        self.register_buffer("weight_scale", vector)
        self.register_buffer("zero_point", parts.zero_point)
        self.register_buffer("tensor_scale", parts.tensor_scale)
        self.scale_of_weight = (
            None if vector is not None else float(parts.weight_scale)
        )
        self.scale_of_input = parts.input_scale
        #: The arithmetic of dynamic scales; empty for static ones.
        self.quant = "" if parts.quant is None else parts.quant.text()
        self.is_packed = parts.quant is not None and parts.quant.is_packed
        self.policy = policy
        self.shown = shown
        #: Whether the result is a term of a sum over ranks.
        self.partial = False

    @property
    def stored(self) -> torch.Tensor:
        """The stored weight."""
        weight = self._buffers["weight"]
        assert weight is not None
        return weight

    @property
    def weight(self) -> torch.Tensor:
        """The weight that forwards of members see."""
        if self.shown is None:
            return self.stored
        out, features = self.stored.shape
        return torch.Tensor._make_wrapper_subclass(
            Shown,
            (out, 2 * features if self.is_packed else features),
            dtype=self.shown,
            device=self.stored.device,
        )

    def _apply(
        self,
        fn: Callable[[torch.Tensor], torch.Tensor],
        recurse: bool = True,
    ) -> StoredLinear:
        # Stored codes must not be converted to another dtype.
        def kept(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.element_size() > 1 and (
                not self.is_packed or tensor is self.bias
            ):
                return fn(tensor)
            return fn(tensor.view(_INTEGERS[tensor.element_size()])).view(
                tensor.dtype
            )

        if self.shown is not None:
            self.shown = fn(torch.empty((), dtype=self.shown)).dtype
        return super()._apply(kept, recurse)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_packed:
            assert self.weight_scale is not None
            return packed_linear(
                x,
                self.stored,
                self.bias,
                self.weight_scale,
                self.zero_point,
                self.tensor_scale,
                self.policy.bias_place,
                self.quant,
            )
        return stored_linear(
            x,
            self.stored,
            self.bias,
            self.weight_scale,
            self.scale_of_input,
            self.scale_of_weight,
            self.policy.activations,
            self.policy.order,
            self.policy.bias_place,
            self.quant,
            self.partial,
        )


@dataclass(frozen=True)
class Kept:
    """A linear that stays in floating point, with the user's permission."""

    linear: str
    refusal: Refused


def make_linear(
    path: str,
    entries: Mapping[str, torch.Tensor],
    policy: Policy,
    dtype: torch.dtype,
    original: torch.Tensor | None = None,
    shown: torch.dtype | None = None,
    trusted: bool = False,
    shape: tuple[int, int] | None = None,
) -> tuple[nn.Module, Kept | None]:
    """The module for the entries of one linear.

    Args:
        path: of the linear in the model.
        entries: tensors of the checkpoint by their names below `path`, such
            as `weight` and `weight_scale`.
        policy: how activations and layouts are handled.
        dtype: of values in floating point.
        original: weight before quantization, [out, in], to compare with.
        shown: as for `StoredLinear`.
        trusted: whether the scales are known to be those of the weight, so
            that the weight is not read to find out.
        shape: as for `read_linear`.

    Raises:
        Refused: the layout is not supported, and the user did not allow to
            keep the linear in floating point, or its values are not known.
    """
    try:
        parts = read_linear(path, entries, policy, original, trusted, shape)
    except Refused as refusal:
        if (
            policy.unsupported != "dequantize"
            or refusal.name not in CAN_DEQUANTIZE
        ):
            raise
        weight = dequantized_weight(entries, policy, dtype)
        bias = entries.get("bias")
        module = nn.Linear(
            weight.shape[1],
            weight.shape[0],
            bias=bias is not None,
            device="meta",
            dtype=dtype,
        )
        module.weight = nn.Parameter(weight, requires_grad=False)
        if bias is not None:
            module.bias = nn.Parameter(
                bias.detach().to(dtype), requires_grad=False
            )
        return module, Kept(path, refusal)
    return StoredLinear(parts, policy, shown), None


def replace_linears(
    model: nn.Module, policy: Policy, dtype: torch.dtype = torch.bfloat16
) -> list[Kept]:
    """Replaces every module of `model` with an 8-bit weight and scales.

    It is for a loaded model with modules such as FP8Linear of transformers.
    The entries are the parameters and buffers of the modules.

    Returns:
        The linears that stay in floating point.
    """
    kept: list[Kept] = []
    for path, module in list(model.named_modules()):
        entries = dict(module.named_parameters(recurse=False))
        entries |= dict(module.named_buffers(recurse=False))
        if not is_stored(entries):
            continue
        own = replace(policy, scheme=policy.scheme or scheme_of(module))
        replacement, left = make_linear(path, entries, own, dtype)
        if left is not None:
            kept.append(left)
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, replacement)
    return kept


def is_stored(entries: Mapping[str, torch.Tensor]) -> bool:
    """Whether these are the entries of a linear with a stored weight."""
    weight = entries.get("weight")
    return weight is not None and (
        weight.element_size() == 1
        or any(
            re.fullmatch(r"(weight|input|activation|act)_.*scale.*", name)
            for name in entries
        )
    )
