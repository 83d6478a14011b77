# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights of 4 bits: how files pack them, and how kernels read them.

A kernel reads one order of codes for all formats: `weight` is int8 of
[out, features / 2], and a byte has two codes, that of the even feature in its
low bits. Scales and zero points are [out, groups]. Reading a file permutes its
codes, and writing it permutes them back, so that no bit changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from fuse_mlir.errors import Refused

Entries = Mapping[str, torch.Tensor]

#: Names of the parts of a linear in the order of kernels.
WEIGHT, SCALE = "weight", "weight_scale"
ZERO_POINT, TENSOR_SCALE = "weight_zero_point", "weight_tensor_scale"
#: Codes in a word of 32 bits.
_WORD = 8
#: Column of each code of a word of AWQ, from the lowest bits.
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_PLAIN_ORDER = tuple(range(_WORD))
#: Real values of the codes of f4E2M1FN.
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
#: Names of the types of scales in the IR.
GROUP_SCALE_TYPES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float8_e4m3fn: "f8E4M3FN",
}
#: e8m0 is stored in bytes.
_BYTES = (torch.uint8, torch.float8_e8m0fnu)


@dataclass(frozen=True)
class Packed:
    """How a format stores weights of 4 bits.

    Args:
        layout: `bytes` or `words` along the features, `gptq` for words along
            the rows of the transposed weight, or `awq`.
        storage: f4E2M1FN or ui4.
        group: features that share a scale; 0 for all.
        scale_type: of the scales in the IR; None for that of the file, in
            floating point.
        weight: entry with the codes.
        scale: entry with the scales.
        zero_point: the code of zero, or the entry with one code per group;
            None for f4E2M1FN.
        zero_offset: what is added to zero points of the file.
        tensor_scale: entry with the scale of the whole weight, or None.
        tensor_op: multiply or divide.
    """

    layout: str
    storage: str
    group: int
    scale_type: str | None = None
    weight: str = "weight_packed"
    scale: str = "weight_scale"
    zero_point: int | str | None = None
    zero_offset: int = 0
    tensor_scale: str | None = None
    tensor_op: str = "multiply"

    def names(self) -> dict[str, str]:
        """Entries of a file by the names of kernels."""
        found = {WEIGHT: self.weight, SCALE: self.scale}
        if isinstance(self.zero_point, str):
            found[ZERO_POINT] = self.zero_point
        if self.tensor_scale is not None:
            found[TENSOR_SCALE] = self.tensor_scale
        return found

    def shapes(self, out: int, features: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the entries of a file for a weight of [out, features]."""
        groups = features // (self.group or features)
        along: tuple[int, ...] = {
            "bytes": (out, features // 2),
            "words": (out, features // _WORD),
            "gptq": (features // _WORD, out),
            "awq": (features, out // _WORD),
        }[self.layout]
        found: dict[str, tuple[int, ...]] = {self.weight: along}
        turned = self.layout in ("gptq", "awq")
        found[self.scale] = (groups, out) if turned else (out, groups)
        if isinstance(self.zero_point, str):
            found[self.zero_point] = (
                (groups, out // _WORD) if turned else (out // _WORD, groups)
            )
        return found


# Permutations.


def _unpack(words: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """Codes of words along the last dimension, in uint8."""
    wide = words.to(torch.int64) & 0xFFFFFFFF
    shifts = torch.empty(_WORD, dtype=torch.int64, device=words.device)
    for place, column in enumerate(order):
        shifts[column] = 4 * place
    codes = (wide[..., None] >> shifts) & 15
    return codes.flatten(-2).to(torch.uint8)


def _pack(codes: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """Words of int32 with the codes along the last dimension."""
    groups = codes.to(torch.int64).unflatten(-1, (-1, _WORD))
    words = torch.zeros(
        groups.shape[:-1], dtype=torch.int64, device=codes.device
    )
    for place, column in enumerate(order):
        words |= groups[..., column] << (4 * place)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(
        torch.int32
    )


def _to_bytes(codes: torch.Tensor) -> torch.Tensor:
    return (codes[..., ::2] | codes[..., 1::2] << 4).view(torch.int8)


def unpack_codes(weight: torch.Tensor) -> torch.Tensor:
    """Codes in uint8, [out, features], of a weight in the kernels' order."""
    pairs = weight.view(torch.uint8)
    return torch.stack((pairs & 15, pairs >> 4), -1).flatten(-2)


def read_packed(packed: Packed, entries: Entries) -> dict[str, torch.Tensor]:
    """The parts of a linear in the order of kernels, and all other entries."""
    names = packed.names()
    found = {
        name: tensor
        for name, tensor in entries.items()
        if name not in names.values()
    }
    weight = entries[packed.weight].detach()
    scale = entries[packed.scale].detach()
    if packed.layout == "awq":
        weight = _to_bytes(_unpack(weight, _AWQ_ORDER).t().contiguous())
    elif packed.layout == "gptq":
        weight = weight.t().contiguous().view(torch.int8)
    else:
        weight = weight.contiguous().view(torch.int8)
    if packed.layout in ("awq", "gptq"):
        scale = scale.t()
    scale = scale.contiguous()
    if scale.dtype in _BYTES:
        scale = scale.view(torch.int8)
    found |= {WEIGHT: weight, SCALE: scale}
    if isinstance(packed.zero_point, str):
        points = entries[packed.zero_point].detach()
        order = _AWQ_ORDER if packed.layout == "awq" else _PLAIN_ORDER
        if packed.layout not in ("awq", "gptq"):
            points = points.t()
        codes = _unpack(points, order).t().contiguous()
        found[ZERO_POINT] = (codes + packed.zero_offset).to(torch.int8)
    if packed.tensor_scale is not None:
        found[TENSOR_SCALE] = entries[packed.tensor_scale].detach()
    return found


def write_packed(
    packed: Packed, parts: Entries, scale_dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """The entries of a file, which `read_packed` has read.

    Args:
        packed: the format.
        parts: of the linear in the order of kernels.
        scale_dtype: of the scales in the file.
    """
    known = (WEIGHT, SCALE, ZERO_POINT, TENSOR_SCALE)
    found = {n: tensor for n, tensor in parts.items() if n not in known}
    weight, scale = parts[WEIGHT].detach(), parts[SCALE].detach()
    if packed.layout == "awq":
        codes = unpack_codes(weight).t().contiguous()
        weight = _pack(codes, _AWQ_ORDER)
    elif packed.layout == "gptq":
        weight = weight.view(torch.int32).t().contiguous()
    else:
        weight = weight.view(
            torch.uint8 if packed.layout == "bytes" else torch.int32
        )
    if scale.dtype == torch.int8:
        scale = scale.view(scale_dtype)
    if packed.layout in ("awq", "gptq"):
        scale = scale.t().contiguous()
    found |= {packed.weight: weight, packed.scale: scale}
    if isinstance(packed.zero_point, str):
        points = (parts[ZERO_POINT].to(torch.int64) - packed.zero_offset) & 15
        order = _AWQ_ORDER if packed.layout == "awq" else _PLAIN_ORDER
        words = _pack(points.t().contiguous(), order)
        if packed.layout not in ("awq", "gptq"):
            words = words.t().contiguous()
        found[packed.zero_point] = words
    if packed.tensor_scale is not None:
        found[packed.tensor_scale] = parts[TENSOR_SCALE].detach()
    return found


# Values.


def scale_values(scale: torch.Tensor) -> torch.Tensor:
    """Scales in f32; those in int8 are the bytes of e8m0."""
    if scale.dtype != torch.int8:
        return scale.float()
    return scale.view(torch.float8_e8m0fnu).float()


def code_values(codes: torch.Tensor, storage: str) -> torch.Tensor:
    """Real values of codes of 4 bits in f32, without scales."""
    if storage == "f4E2M1FN":
        table = torch.tensor(
            E2M1 + tuple(-v for v in E2M1), device=codes.device
        )
        return table[codes.to(torch.int64)]
    values = codes.to(torch.float32)
    return values if storage == "ui4" else values - 16.0 * (values > 7)


def real_weight(
    weight: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | int | None,
    tensor_scale: torch.Tensor | None,
    storage: str,
    tensor_op: str,
    dtype: torch.dtype,
) -> torch.Tensor:
    """The real weight, [out, features], as `fuse.dequantize_weight` has it.

    Args:
        weight: codes in the order of kernels.
        scale: [out, groups].
        zero_point: [out, groups], one code, or None.
        tensor_scale: one number, or None.
        storage: f4E2M1FN, i4 or ui4.
        tensor_op: multiply or divide.
        dtype: of the result.
    """
    values = code_values(unpack_codes(weight), storage)
    group = values.shape[1] // scale.shape[1]

    def spread(per_group: torch.Tensor) -> torch.Tensor:
        return per_group.repeat_interleave(group, 1)

    if isinstance(zero_point, torch.Tensor):
        values = values - spread(zero_point.float())
    elif zero_point is not None:
        values = values - zero_point
    factor = scale_values(scale)
    if tensor_scale is not None:
        whole = tensor_scale.reshape(1, 1)
        factor = factor * whole if tensor_op == "multiply" else factor / whole
    return (values * spread(factor)).to(dtype)


# Checks.


def _refuse_shape(
    linear: str,
    name: str,
    tensor: torch.Tensor,
    expected: tuple[int, ...],
    refusal: str,
    what: str,
) -> None:
    shape = tuple(tensor.shape)
    if shape == expected:
        return
    hint = ""
    if shape == expected[::-1]:
        hint = "; it is transposed"
    elif tensor.dim() == 2 and tensor.numel() == expected[0] * expected[1]:
        hint = "; it is packed along the other dimension"
    raise Refused(
        refusal,
        linear,
        f"'{name}' has shape {list(shape)}; {what} has {list(expected)}{hint}",
    )


def check_packed(
    linear: str,
    name: str,
    packed: Packed,
    entries: Entries,
    shape: tuple[int, int],
) -> None:
    """Whether the entries of a file are a weight of a format.

    Args:
        linear: path of the linear, for messages.
        name: of the format.
        packed: how it stores weights.
        entries: of the file, by the names below the path.
        shape: of the weight in the model, [out, features].

    Raises:
        Refused: with the first predicate that fails.
    """
    out, features = shape
    for entry in packed.names().values():
        if entries.get(entry) is None:
            raise Refused(
                "weight-scale-missing",
                linear,
                f"{name} needs '{entry}'; the file has "
                + ", ".join(map(repr, sorted(entries))),
            )
    if packed.group and features % packed.group:
        raise Refused(
            "group-width",
            linear,
            f"its input has {features} features, which groups of "
            f"{packed.group} of {name} do not divide",
        )
    for what, size, number in (
        (
            "features",
            features,
            {"bytes": 2, "words": _WORD, "gptq": _WORD, "awq": 2}[
                packed.layout
            ],
        ),
        (
            "outputs",
            out,
            _WORD
            if packed.layout == "awq" or isinstance(packed.zero_point, str)
            else 1,
        ),
    ):
        if size % number:
            raise Refused(
                "packed-width",
                linear,
                f"it has {size} {what}, and {name} packs {number} codes of "
                "4 bits in an element; expected a multiple",
            )
    codes = torch.uint8 if packed.layout == "bytes" else torch.int32
    what = f"a weight of {out}x{features} in {name}"
    expected = packed.shapes(out, features)
    weight = entries[packed.weight]
    if weight.dtype not in (
        codes,
        torch.int8 if codes.itemsize == 1 else codes,
    ):
        raise Refused(
            "weight-type",
            linear,
            f"'{packed.weight}' is {weight.dtype}; {name} has {codes}",
        )
    _refuse_shape(
        linear,
        packed.weight,
        weight,
        expected[packed.weight],
        "weight-width",
        what,
    )
    _check_scale(linear, name, packed, entries, expected[packed.scale], what)
    if isinstance(packed.zero_point, str):
        points = entries[packed.zero_point]
        if points.dtype != torch.int32:
            raise Refused(
                "weight-type",
                linear,
                f"'{packed.zero_point}' is {points.dtype}; {name} has "
                f"{torch.int32}",
            )
        _refuse_shape(
            linear,
            packed.zero_point,
            points,
            expected[packed.zero_point],
            "scale-shape",
            what,
        )
    _check_order(linear, packed, entries, features)


def _check_scale(
    linear: str,
    name: str,
    packed: Packed,
    entries: Entries,
    shape: tuple[int, ...],
    what: str,
) -> None:
    scale = entries[packed.scale]
    allowed: tuple[torch.dtype, ...] = (
        torch.float32,
        torch.bfloat16,
        torch.float16,
    )
    if packed.scale_type == "f8E8M0FNU":
        allowed = _BYTES
    elif packed.scale_type == "f8E4M3FN":
        allowed = (torch.float8_e4m3fn,)
    if scale.dtype not in allowed:
        raise Refused(
            "scale-type",
            linear,
            f"'{packed.scale}' is {scale.dtype}; {name} has "
            + " or ".join(map(str, allowed)),
        )
    _refuse_shape(linear, packed.scale, scale, shape, "scale-shape", what)
    if scale.is_meta:
        return
    values = scale.detach()
    if values.dtype == torch.uint8:
        values = values.view(torch.float8_e8m0fnu)
    wholes = [(packed.scale, values.float())]
    if packed.tensor_scale is not None:
        whole = entries[packed.tensor_scale].detach()
        if whole.numel() != 1 or whole.dtype != torch.float32:
            raise Refused(
                "scale-shape",
                linear,
                f"'{packed.tensor_scale}' is {whole.dtype} of shape "
                f"{list(whole.shape)}; {name} has one number in f32",
            )
        wholes.append((packed.tensor_scale, whole))
        if float(whole) == 0.0:
            raise Refused(
                "unusable-scale", linear, f"'{packed.tensor_scale}' is zero"
            )
    for entry, numbers in wholes:
        for bad, text in (
            (numbers.isnan(), "is not a number"),
            (numbers.isinf(), "is not finite"),
            (numbers < 0, "is negative"),
        ):
            if bool(bad.any()):
                raise Refused(
                    "unusable-scale",
                    linear,
                    f"'{entry}' {text}, got {float(numbers[bad][0]):g}",
                )


def _check_order(
    linear: str, packed: Packed, entries: Entries, features: int
) -> None:
    """Refuses groups of features that are not consecutive."""
    for name in ("g_idx", "weight_g_idx"):
        index = entries.get(name)
        if index is None or index.is_meta:
            continue
        plain = torch.arange(features, device=index.device) // (
            packed.group or features
        )
        if not torch.equal(index.to(torch.int64), plain):
            raise Refused(
                "activation-order",
                linear,
                f"'{name}' assigns features to groups in another order than "
                "theirs, which no kernel does; quantize with desc_act or "
                "actorder off",
            )


def direction(
    weight: torch.Tensor,
    scale: torch.Tensor,
    tensor_scale: torch.Tensor | None,
    storage: str,
    tensor_op: str,
) -> str:
    """Whether real weights are plausible: `ok`, `scale` or `tensor` for the
    one that is the inverse of a factor.

    As for weights in 8 bits, the root mean square of the weights, times the
    square root of the number of features, is near one.
    """
    values = code_values(unpack_codes(weight), storage)
    values = values - (8.0 if storage == "ui4" else 0.0)
    rms = float(values.square().mean().sqrt())
    factor = scale_values(scale)
    factor = factor[factor > 0]
    if rms == 0.0 or factor.numel() == 0:
        return "ok"
    gain = torch.tensor(rms * values.shape[1] ** 0.5).log2()
    middle = factor.median().log2()
    whole = torch.tensor(0.0)
    if tensor_scale is not None:
        whole = tensor_scale.detach().reshape(()).cpu().log2()
        whole = whole if tensor_op == "multiply" else -whole
    middle = middle.cpu()
    distance = float((gain + middle + whole).abs())
    if distance <= 6:
        return "ok"
    if (
        tensor_scale is not None
        and float((gain + middle - whole).abs()) + 4 < distance
    ):
        return "tensor"
    if float((gain - middle + whole).abs()) + 4 < distance:
        return "scale"
    return "ok"


def check_direction(linear: str, packed: Packed, parts: Entries) -> None:
    """Whether scales of a linear are factors and not their inverses.

    Raises:
        Refused: they are not.
    """
    found = direction(
        parts[WEIGHT].detach(),
        parts[SCALE].detach(),
        parts.get(TENSOR_SCALE),
        packed.storage,
        packed.tensor_op,
    )
    if found != "ok":
        name = packed.scale if found == "scale" else packed.tensor_scale
        raise Refused(
            "inverted-scale-in-checkpoint",
            linear,
            f"the data fits the inverse of '{name}'; invert it in the "
            "checkpoint",
        )
