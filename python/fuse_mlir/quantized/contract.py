# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The arithmetic of linears whose activations are quantized at run time.

`Quant` is `#fuse.quant` of the IR: its text is the body of the attribute, and
its methods compute what `fuse.dynamic_quantize` and `fuse.linear` define.
`Scheme` is what a format states before the shape of a weight is known.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import torch

from fuse_mlir.quantized.four_bits import Packed
from fuse_mlir.quantized.value_range import (
    as_scale,
    largest_value,
    quantize,
)

#: Lower limit of scales without another one, as in the dialect.
SMALLEST = ("scale", 2.0**-64)


@dataclass(frozen=True)
class Quant:
    """Granularities and arithmetic of one quantized format.

    Args:
        storage: type of codes, such as "f8E4M3FN".
        weights: tensor, channel, block or group.
        block: outputs and inputs of a block; None for other granularities.
        activations: per_token, per_group or none.
        group: features of a group; 0 for per_token.
        floor: `amax` or `scale`, and its lower limit.
        upper: upper limit of the largest magnitude, or None.
        scale_op: divide, or reciprocal for a product with the reciprocal of the
            largest code.
        order: divide, or reciprocal for a product with the reciprocal of the
            scale.
        sums: products that are summed before they are scaled; 0 for all.
        weight_group: features of a weight of 4 bits that share a scale.
        scale_type: of these scales.
        zero_points: the code of zero, "group" for one per group, or None.
        tensor_scale: multiply or divide by a scale of the whole weight, or
            none.

    Examples:
        >>> Quant("f8E4M3FN", "channel", activations="per_token").text()
        'f8E4M3FN, weights = channel, activations = per_token'
    """

    storage: str
    weights: str
    block: tuple[int, int] | None = None
    activations: str = "per_token"
    group: int = 0
    floor: tuple[str, float] = SMALLEST
    upper: float | None = None
    scale_op: str = "divide"
    order: str = "reciprocal"
    sums: int = 0
    weight_group: int = 0
    scale_type: str = ""
    zero_points: int | str | None = None
    tensor_scale: str = "none"

    @property
    def is_packed(self) -> bool:
        """Whether weights are packed codes of 4 bits."""
        return self.weights == "group"

    def text(self) -> str:
        """The body of `#fuse.quant`."""
        parts = [self.storage, f"weights = {self.weights}"]
        if self.block is not None:
            parts[-1] += "<{}x{}>".format(*self.block)
        if self.is_packed:
            parts[-1] += f"<{self.weight_group}, {self.scale_type}>"
        if self.zero_points is not None:
            parts.append(f"zero_points = {self.zero_points}")
        if self.tensor_scale != "none":
            parts.append(f"tensor_scale = {self.tensor_scale}")
        parts.append(f"activations = {self.activations}")
        if self.group:
            parts[-1] += f"<{self.group}>"
        if self.floor != SMALLEST:
            kind, value = self.floor
            parts.append(f"floor = {kind}<{_number(value)}>")
        if self.upper is not None:
            parts.append(f"upper = {_number(self.upper)}")
        if self.scale_op != "divide":
            parts.append(f"scale_op = {self.scale_op}")
        if self.order != "reciprocal":
            parts.append(f"order = {self.order}")
        if self.sums:
            parts.append(f"sums = block<{self.sums}>")
        return ", ".join(parts)

    def scale_shape(self, out: int, features: int) -> tuple[int, ...]:
        """Shape of the scales of an [out, features] weight."""
        if self.block is None:
            return (1,) if self.weights == "tensor" else (out,)
        rows, columns = self.block
        return -(-out // rows), -(-features // columns)

    def measure(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Codes of `x`, and its scales: [..., 1] or [..., groups], in f32."""
        groups = x.float().unflatten(-1, (-1, self.group or x.shape[-1]))
        amax = groups.abs().amax(-1)
        kind, limit = self.floor
        least = torch.tensor(limit, dtype=torch.float32, device=amax.device)
        if kind == "amax":
            amax = torch.maximum(amax, least)
        if self.upper is not None:
            amax = torch.minimum(amax, as_scale(self.upper).to(amax.device))
        largest = largest_value(self.storage)
        if self.scale_op == "divide":
            # PyTorch multiplies by the reciprocal of a number on some devices.
            scale = amax / torch.full_like(amax, largest)
        else:
            scale = amax * as_scale(1.0 / largest).to(amax.device)
        if kind == "scale":
            scale = torch.maximum(scale, least)
        codes = quantize(groups, scale[..., None], self.storage, self.order)
        return codes.flatten(-2), scale

    def multiply(
        self,
        codes: torch.Tensor,
        scale: torch.Tensor,
        weight: torch.Tensor,
        weight_scale: torch.Tensor,
    ) -> torch.Tensor:
        """The scaled product in f32.

        Sums of a block are in f64, so that their order does not matter.

        Args:
            codes: of the input, [..., features].
            scale: of the input, as `measure` returns it.
            weight: codes, [out, features].
            weight_scale: in f32, of the shape `scale_shape`.
        """
        features = codes.shape[-1]
        length = self.sums or features
        total: torch.Tensor | None = None
        for start in range(0, features, length):
            end = min(start + length, features)
            part = (
                codes[..., start:end].double()
                @ weight[:, start:end].double().t()
            ).float()
            alpha = self._input_scale(scale, start) * self._weight_scale(
                weight_scale, weight.shape[0], start
            )
            if not self.sums:
                return part * alpha
            # A product of two f32 numbers is exact in f64.
            before = 0.0 if total is None else total.double()
            total = (alpha.double() * part.double() + before).float()
        assert total is not None
        return total

    def _input_scale(self, scale: torch.Tensor, k: int) -> torch.Tensor:
        return scale[..., k // self.group, None] if self.group else scale

    def _weight_scale(
        self, scale: torch.Tensor, out: int, k: int
    ) -> torch.Tensor:
        if self.block is None:
            return scale
        rows, columns = self.block
        column = scale[:, k // columns]
        return column.repeat_interleave(rows)[:out]


def with_bias(
    total: torch.Tensor,
    bias: torch.Tensor | None,
    bias_place: str,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Adds the bias to a product in f32 and rounds the result."""
    if bias is not None:
        if bias_place == "after_rounding":
            total = total.to(dtype).float()
        total = total + bias.float()
    return total.to(dtype)


def dynamic_scale(x: torch.Tensor, scope: str, storage: str) -> torch.Tensor:
    """The scale that `fuse.dynamic_quantize` measures, ready to broadcast."""
    magnitude = x.float().abs()
    amax = (
        magnitude.amax(dim=-1, keepdim=True)
        if scope == "per_token"
        else magnitude.amax()
    )
    return (amax / largest_value(storage)).clamp(min=2.0**-64)


def _number(value: float) -> str:
    """A number as MLIR reads it, with a point."""
    text = repr(float(value))
    mantissa, mark, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return mantissa + mark + exponent


_FIELD = re.compile(r"(\w+) = ([-+.\w]+)(?:<([^>]*)>)?")


@functools.cache
def parse_quant(text: str) -> Quant:
    """The contract with the body `text` of `#fuse.quant`.

    Examples:
        >>> quant = Quant("f8E4M3FN", "block", (128, 128), "per_group", 128,
        ...               ("amax", 1e-4), sums=128)
        >>> parse_quant(quant.text()) == quant
        True
    """
    storage, _, rest = text.partition(", ")
    values: dict[str, object] = {}
    for name, value, size in _FIELD.findall(rest):
        if name == "weights":
            values["weights"] = value
            if value == "group":
                group, scale_type = size.split(", ")
                values["weight_group"] = int(group)
                values["scale_type"] = scale_type
            elif size:
                rows, columns = size.split("x")
                values["block"] = (int(rows), int(columns))
        elif name == "activations":
            values["activations"] = value
            values["group"] = int(size or 0)
        elif name == "floor":
            values["floor"] = (value, float(size))
        elif name == "upper":
            values["upper"] = float(value)
        elif name == "sums":
            values["sums"] = int(size)
        elif name == "zero_points":
            values["zero_points"] = value if value == "group" else int(value)
        else:
            values[name] = value
    return Quant(storage, **values)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Scheme:
    """What a format states about all its linears.

    Args:
        name: of the format, for messages.
        activations: static, per_token, per_group, or none for weights alone;
            `unknown` if the format states nothing.
        weights: granularity that the format states; None for any.
        block: outputs and inputs of a block of a weight.
        group: features of a group of activations.
        floor: as for `Quant`.
        upper: as for `Quant`.
        scale_op: as for `Quant`.
        order: as for `Quant`.
        refusal: name of a refusal and its text, if no kernel has the
            arithmetic of the format.
        packed: how weights of 4 bits are stored; None for others.
    """

    name: str
    activations: str
    weights: str | None = None
    block: tuple[int, int] | None = None
    group: int = 0
    floor: tuple[str, float] = SMALLEST
    upper: float | None = None
    scale_op: str = "divide"
    order: str = "reciprocal"
    refusal: tuple[str, str] | None = None
    packed: Packed | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether scales of activations are measured at run time."""
        return self.activations in ("per_token", "per_group")

    def quant(self, storage: str, weights: str) -> Quant:
        """The contract for a weight of a storage type and a granularity."""
        sums = 0
        if weights == "block" or self.group:
            assert self.block is not None or weights != "block"
            sizes = [self.group] if self.group else []
            if weights == "block" and self.block is not None:
                sizes.append(self.block[1])
            sums = min(sizes)
        return Quant(
            storage,
            weights,
            self.block if weights == "block" else None,
            self.activations,
            self.group,
            self.floor,
            self.upper,
            self.scale_op,
            self.order,
            sums,
        )
