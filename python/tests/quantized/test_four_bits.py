# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed weights of 4 bits: orders of codes, values, and wrong entries."""

from __future__ import annotations

import itertools
import unittest

import torch

from fuse_mlir.errors import Refused
from fuse_mlir.quantized import four_bits
from fuse_mlir.quantized.contract import Quant, parse_quant
from fuse_mlir.quantized.four_bits import (
    SCALE,
    TENSOR_SCALE,
    WEIGHT,
    ZERO_POINT,
    Packed,
    check_packed,
    read_packed,
    real_weight,
    unpack_codes,
    write_packed,
)

OUT, FEATURES, GROUP = 16, 64, 32
GROUPS = FEATURES // GROUP
FORMATS = {
    "words": Packed("words", "ui4", GROUP, zero_point=8),
    "words with zero points": Packed(
        "words", "ui4", GROUP, zero_point="weight_zero_point"
    ),
    "MXFP4": Packed("bytes", "f4E2M1FN", GROUP, "f8E8M0FNU"),
    "NVFP4": Packed(
        "bytes",
        "f4E2M1FN",
        16,
        "f8E4M3FN",
        tensor_scale="weight_global_scale",
        tensor_op="divide",
    ),
    "GPTQ": Packed(
        "gptq",
        "ui4",
        GROUP,
        weight="qweight",
        scale="scales",
        zero_point="qzeros",
        zero_offset=1,
    ),
    "AWQ": Packed(
        "awq",
        "ui4",
        GROUP,
        weight="qweight",
        scale="scales",
        zero_point="qzeros",
    ),
}


def random_entries(packed: Packed) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    entries = {}
    for name, shape in packed.shapes(OUT, FEATURES).items():
        if name == packed.scale:
            entries[name] = {
                None: lambda s: (torch.rand(s) * 0.02 + 0.01).half(),
                "f8E8M0FNU": lambda s: torch.randint(
                    118, 122, s, dtype=torch.uint8
                ),
                "f8E4M3FN": lambda s: (torch.rand(s) * 99 + 99).to(
                    torch.float8_e4m3fn
                ),
            }[packed.scale_type](shape)
        elif packed.layout == "bytes":
            entries[name] = torch.randint(0, 256, shape, dtype=torch.uint8)
        else:
            entries[name] = torch.randint(-(1 << 31), (1 << 31) - 1, shape).to(
                torch.int32
            )
    if packed.tensor_scale is not None:
        entries[packed.tensor_scale] = torch.tensor([2688.0])
    return entries


def code_of(
    packed: Packed, weight: torch.Tensor, out: int, feature: int
) -> int:
    """One code by the formula of the format's writer."""
    if packed.layout == "bytes":
        return int(weight[out, feature // 2]) >> (4 * (feature % 2)) & 15
    if packed.layout == "words":
        return int(weight[out, feature // 8]) >> (4 * (feature % 8)) & 15
    if packed.layout == "gptq":
        return int(weight[feature // 8, out]) >> (4 * (feature % 8)) & 15
    place = (0, 2, 4, 6, 1, 3, 5, 7).index(out % 8)
    return int(weight[feature, out // 8]) >> (4 * place) & 15


class OrdersTest(unittest.TestCase):
    def test_codes(self) -> None:
        for name, packed in FORMATS.items():
            entries = random_entries(packed)
            codes = unpack_codes(read_packed(packed, entries)[WEIGHT])
            with self.subTest(name):
                for out, feature in itertools.product(
                    range(OUT), range(FEATURES)
                ):
                    self.assertEqual(
                        int(codes[out, feature]),
                        code_of(packed, entries[packed.weight], out, feature),
                    )

    def test_zero_points(self) -> None:
        for name in ("words with zero points", "GPTQ", "AWQ"):
            packed = FORMATS[name]
            entries = random_entries(packed)
            assert isinstance(packed.zero_point, str)
            words = entries[packed.zero_point]
            points = read_packed(packed, entries)[ZERO_POINT]
            for out, group in itertools.product(range(OUT), range(GROUPS)):
                place, word = out % 8, (group, out // 8)
                if name == "AWQ":
                    place = (0, 2, 4, 6, 1, 3, 5, 7).index(place)
                elif packed.layout == "words":
                    word = (out // 8, group)
                code = int(words[word]) >> (4 * place) & 15
                self.assertEqual(
                    int(points[out, group]), code + packed.zero_offset, name
                )

    def test_writing_gives_back_all_bits(self) -> None:
        for name, packed in FORMATS.items():
            entries = random_entries(packed)
            entries["other"] = torch.tensor([OUT, FEATURES])
            parts = read_packed(packed, entries)
            again = write_packed(packed, parts, entries[packed.scale].dtype)
            self.assertEqual(set(again), set(entries), name)
            for entry, tensor in entries.items():
                self.assertEqual(again[entry].dtype, tensor.dtype, entry)
                self.assertTrue(
                    torch.equal(
                        again[entry].view(torch.uint8),
                        tensor.view(torch.uint8),
                    ),
                    f"{name}: {entry}",
                )


class ValuesTest(unittest.TestCase):
    """All codes with all scales or zero points."""

    def all_codes(self, scales: int) -> torch.Tensor:
        codes = torch.arange(16, dtype=torch.uint8).repeat(scales, 1)
        return (codes[:, ::2] | codes[:, 1::2] << 4).view(torch.int8)

    def test_e2m1_with_e8m0(self) -> None:
        scale = torch.arange(256, dtype=torch.uint8).view(torch.int8)
        found = real_weight(
            self.all_codes(256),
            scale[:, None],
            None,
            None,
            "f4E2M1FN",
            "none",
            torch.float32,
        )
        magnitudes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        for byte, code in itertools.product(range(255), range(16)):
            value = magnitudes[code % 8] * 2.0 ** (byte - 127)
            if value > torch.finfo(torch.float32).max:
                value = float("inf")
            self.assertEqual(
                float(found[byte, code]), value if code < 8 else -value
            )
        self.assertTrue(bool(found[255].isnan().all()))

    def test_e2m1_with_e4m3(self) -> None:
        scale = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
        whole = torch.tensor([0.3])
        for op in ("multiply", "divide"):
            found = real_weight(
                self.all_codes(256),
                scale[:, None],
                None,
                whole,
                "f4E2M1FN",
                op,
                torch.bfloat16,
            )
            factor = scale.float() * whole
            if op == "divide":
                factor = scale.float() / whole
            table = torch.tensor(
                [*four_bits.E2M1, *(-v for v in four_bits.E2M1)]
            )
            exact = (factor[:, None] * table).bfloat16()
            torch.testing.assert_close(
                found, exact, rtol=0, atol=0, equal_nan=True
            )

    def test_integers_with_all_zero_points(self) -> None:
        points = torch.arange(17, dtype=torch.int8)[:, None]
        scale = torch.full((17, 1), 0.0123, dtype=torch.float16)
        found = real_weight(
            self.all_codes(17),
            scale,
            points,
            None,
            "ui4",
            "none",
            torch.float16,
        )
        for point, code in itertools.product(range(17), range(16)):
            # As AutoAWQ computes it, in f16.
            value = torch.tensor(code - point).half() * scale[0, 0]
            self.assertEqual(found[point, code], value)
        signed = real_weight(
            self.all_codes(17), scale, None, None, "i4", "none", torch.float32
        )
        self.assertEqual(
            (signed[0] / scale[0].float()).round().tolist(),
            [*range(8), *range(-8, 0)],
        )


class ContractTest(unittest.TestCase):
    def test_text(self) -> None:
        for quant in (
            Quant(
                "f4E2M1FN",
                "group",
                activations="none",
                weight_group=16,
                scale_type="f8E4M3FN",
                tensor_scale="divide",
            ),
            Quant(
                "ui4",
                "group",
                activations="none",
                weight_group=128,
                scale_type="bf16",
                zero_points=8,
            ),
            Quant(
                "ui4",
                "group",
                activations="none",
                weight_group=32,
                scale_type="f16",
                zero_points="group",
            ),
        ):
            self.assertEqual(parse_quant(quant.text()), quant)


class WrongEntriesTest(unittest.TestCase):
    def refuses(
        self,
        name: str,
        refusal: str,
        text: str,
        shape: tuple[int, int] = (OUT, FEATURES),
        **changed: torch.Tensor | None,
    ) -> None:
        packed = FORMATS[name]
        entries = random_entries(packed)
        for entry, tensor in changed.items():
            if tensor is None:
                del entries[entry]
            else:
                entries[entry] = tensor
        with self.assertRaises(Refused) as caught:
            check_packed("up", name, packed, entries, shape)
        self.assertIn(refusal, str(caught.exception))
        self.assertIn(text, str(caught.exception))

    def test_right_entries(self) -> None:
        for name, packed in FORMATS.items():
            check_packed(
                "up", name, packed, random_entries(packed), (OUT, FEATURES)
            )

    def test_missing(self) -> None:
        self.refuses(
            "AWQ", "FUSE-N312", "AWQ needs 'qzeros'; the file has", qzeros=None
        )

    def test_transposed(self) -> None:
        self.refuses(
            "words",
            "FUSE-N174",
            "'weight_packed' has shape [8, 16]; a weight of 16x64 in words has "
            "[16, 8]; it is transposed",
            weight_packed=torch.zeros(8, 16, dtype=torch.int32),
        )
        self.refuses(
            "MXFP4",
            "FUSE-N304",
            "'weight_scale' has shape [2, 16]; a weight of 16x64 in MXFP4 has "
            "[16, 2]; it is transposed",
            weight_scale=torch.zeros(2, 16, dtype=torch.uint8),
        )

    def test_packed_along_the_outputs(self) -> None:
        self.refuses(
            "words",
            "FUSE-N174",
            "has [16, 8]; it is packed along the other dimension",
            weight_packed=torch.zeros(2, 64, dtype=torch.int32),
        )
        # AWQ in a file that says GPTQ.
        self.refuses(
            "GPTQ",
            "FUSE-N174",
            "has [8, 16]; it is packed along the other dimension",
            qweight=torch.zeros(64, 2, dtype=torch.int32),
        )

    def test_types(self) -> None:
        self.refuses(
            "MXFP4",
            "FUSE-N303",
            "'weight_packed' is torch.int32; MXFP4 has torch.uint8",
            weight_packed=torch.zeros(OUT, FEATURES // 2, dtype=torch.int32),
        )
        self.refuses(
            "NVFP4",
            "FUSE-N305",
            "'weight_scale' is torch.float32; NVFP4 has torch.float8_e4m3fn",
            weight_scale=torch.ones(OUT, FEATURES // 16),
        )
        self.refuses(
            "NVFP4",
            "FUSE-N304",
            "'weight_global_scale' is torch.float32 of shape [2]; NVFP4 has "
            "one number in f32",
            weight_global_scale=torch.ones(2),
        )

    def test_unusable_scales(self) -> None:
        self.refuses(
            "MXFP4",
            "FUSE-N307",
            "'weight_scale' is not a number",
            weight_scale=torch.full((OUT, GROUPS), 255, dtype=torch.uint8),
        )
        for value, text in (
            (float("nan"), "is not a number"),
            (float("inf"), "is not finite"),
            (-1.0, "is negative"),
        ):
            self.refuses(
                "words",
                "FUSE-N307",
                f"'weight_scale' {text}",
                weight_scale=torch.full((OUT, GROUPS), value),
            )
        self.refuses(
            "NVFP4",
            "FUSE-N307",
            "'weight_global_scale' is zero",
            weight_global_scale=torch.zeros(1),
        )

    def test_widths(self) -> None:
        self.refuses(
            "MXFP4",
            "FUSE-N173",
            "its input has 48 features, which groups of 32 of MXFP4 do not "
            "divide",
            shape=(OUT, 48),
        )
        self.refuses(
            "AWQ",
            "FUSE-N176",
            "it has 12 outputs, and AWQ packs 8 codes of 4 bits in an element",
            shape=(12, FEATURES),
        )

    def test_order_of_activations(self) -> None:
        plain = torch.arange(FEATURES, dtype=torch.int32) // GROUP
        packed = FORMATS["GPTQ"]
        check_packed(
            "up",
            "GPTQ",
            packed,
            {**random_entries(packed), "g_idx": plain},
            (OUT, FEATURES),
        )
        self.refuses(
            "GPTQ",
            "FUSE-N175 activation-order",
            "'g_idx' assigns features to groups in another order",
            g_idx=plain.flip(0),
        )

    def test_directions(self) -> None:
        for name, packed in FORMATS.items():
            parts = read_packed(packed, random_entries(packed))

            def found(scale: torch.Tensor, whole: torch.Tensor | None) -> str:
                return four_bits.direction(
                    parts[WEIGHT],
                    scale,
                    whole,
                    packed.storage,
                    packed.tensor_op,
                )

            whole = parts.get(TENSOR_SCALE)
            self.assertEqual(found(parts[SCALE], whole), "ok", name)
            if whole is not None:
                self.assertEqual(found(parts[SCALE], 1 / whole), "tensor")
            elif parts[SCALE].dtype != torch.int8:
                inverse = 1.0 / parts[SCALE].float()
                self.assertEqual(found(inverse, whole), "scale", name)


if __name__ == "__main__":
    unittest.main()
