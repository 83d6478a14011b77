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
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import torch
from torch import nn

from fuse_mlir.errors import BlockError, Refused
from fuse_mlir.quantized.value_range import (
    Range,
    as_scale,
    dequantize,
    largest_value,
    quantize,
)

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
KNOWN = ("weight", "bias", *WEIGHT_SCALES, *INPUT_SCALES, *ZERO_POINTS)
#: Refusals of linears whose real weight is still known.
CAN_DEQUANTIZE = (
    "block-scale",
    "input-scale-missing",
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
    """

    activations: str = "static"
    order: str = "reciprocal"
    bias_place: str = "before_rounding"
    unsupported: str = "error"
    inverse: tuple[str, ...] = ()

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


@dataclass(frozen=True)
class StoredParts:
    """The parts of a linear after all checks."""

    weight: torch.Tensor
    weight_scale: float | torch.Tensor
    input_scale: float | None
    bias: torch.Tensor | None


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
    if tensor.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise Refused(
            "scale-type",
            linear,
            f"'{name}' is {tensor.dtype}; expected torch.float32, "
            "torch.bfloat16 or torch.float16",
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


def original_direction(
    weight: torch.Tensor, scale: float | torch.Tensor, original: torch.Tensor
) -> str:
    """Compares with the weight before quantization: `ok`, `inverted` or
    `different`."""
    factor = as_scale(scale)
    if factor.dim() == 1:
        factor = factor[:, None]
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
) -> StoredParts:
    """Checks the entries of a linear, by their names below its path.

    With `trusted`, the direction of the scale of the weight is not checked.

    Raises:
        Refused: with the first predicate that fails.
    """
    for name, tensor in entries.items():
        if name not in KNOWN and tensor is not None:
            raise Refused(
                "unknown-scale-name",
                linear,
                f"'{name}'; known are " + ", ".join(KNOWN),
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
    for name in ZERO_POINTS:
        point = entries.get(name)
        if point is not None and bool((point.to(torch.float32) != 0).any()):
            raise Refused(
                "zero-point-in-checkpoint", linear, f"'{name}' is not zero"
            )
    weight_scale = _read_weight_scale(linear, weight, entries, policy)
    if not trusted:
        _check_direction(linear, weight, weight_scale, original)
    input_scale = None
    if policy.activations == "static":
        input_scale = _read_input_scale(linear, entries, policy)
    return StoredParts(weight, weight_scale, input_scale, entries.get("bias"))


def _read_weight_scale(
    linear: str,
    weight: torch.Tensor,
    entries: Mapping[str, torch.Tensor],
    policy: Policy,
) -> float | torch.Tensor:
    found = _pick(linear, entries, WEIGHT_SCALES, policy)
    if found is None:
        raise Refused(
            "weight-scale-missing",
            linear,
            "expected one of " + ", ".join(WEIGHT_SCALES),
        )
    name, values = found
    shape = values.shape
    if _is_number(shape):
        return shortest(float(values))
    out, features = weight.shape
    if shape in ((out,), (out, 1)):
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
        f"[{out}] or [{out}, 1]",
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
) -> None:
    if weight.is_meta:
        return
    if original is not None:
        verdict = original_direction(weight, scale, original)
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
    weight = entries["weight"].detach().to(torch.float32)
    point = entries.get("weight_zero_point")
    if point is not None:
        points = point.to(torch.float32)
        weight = weight - (points[:, None] if points.dim() == 1 else points)
    found = _pick("", entries, WEIGHT_SCALES, policy)
    assert found is not None
    scale = found[1]
    out, features = weight.shape
    if _is_number(scale.shape):
        scale = scale.reshape(1, 1)
    elif scale.dim() == 1:
        scale = scale[:, None]
    rows, columns = -(-out // scale.shape[0]), -(-features // scale.shape[1])
    full = scale.repeat_interleave(rows, 0)[:out]
    full = full.repeat_interleave(columns, 1)[:, :features]
    return (weight * full).to(dtype)


# The module.


@torch.library.custom_op("fuse_mlir::stored_linear", mutates_args=())
def stored_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    channel_scale: torch.Tensor | None,
    input_scale: float | None,
    weight_scale: float | None,
    activations: str,
    order: str,
    bias_place: str,
) -> torch.Tensor:
    """A linear on a stored weight, with the arithmetic of the fuse ops.

    The result has the dtype of `x`. Sums are in f64, so that their order does
    not matter.
    """
    storage = STORAGE[weight.dtype]
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
    if bias is not None:
        if bias_place == "after_rounding":
            total = total.to(x.dtype).float()
        total = total + bias.float()
    return total.to(x.dtype)


@stored_linear.register_fake
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
):
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def dynamic_scale(x: torch.Tensor, scope: str, storage: str) -> torch.Tensor:
    """The scale that `fuse.dynamic_quantize` measures, ready to broadcast."""
    magnitude = x.float().abs()
    amax = (
        magnitude.amax(dim=-1, keepdim=True)
        if scope == "per_token"
        else magnitude.amax()
    )
    return (amax / largest_value(storage)).clamp(min=2.0**-64)


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
        self.scale_of_weight = (
            None if vector is not None else float(parts.weight_scale)
        )
        self.scale_of_input = parts.input_scale
        self.policy = policy
        self.shown = shown

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
        return torch.Tensor._make_wrapper_subclass(
            Shown,
            self.stored.shape,
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
            if tensor.element_size() > 1:
                return fn(tensor)
            return fn(tensor.view(torch.uint8)).view(tensor.dtype)

        if self.shown is not None:
            self.shown = fn(torch.empty((), dtype=self.shown)).dtype
        return super()._apply(kept, recurse)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
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

    Raises:
        Refused: the layout is not supported, and the user did not allow to
            keep the linear in floating point, or its values are not known.
    """
    try:
        parts = read_linear(path, entries, policy, original, trusted)
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
        replacement, left = make_linear(path, entries, policy, dtype)
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
