# RUN: %python %s %t
"""All codes of 4 bits with all scales and zero points, in compiled code.

`dequantize` is one op on the portable path. `kernel` is a fused op: rows of
four times the unit matrix stay so in an RMS norm, and its results are the
columns of the weight, times four.
"""

import math
import os
import struct
import subprocess
import sys

directory = sys.argv[1] + ".dir"
os.makedirs(directory, exist_ok=True)
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 += [-value for value in E2M1]


def f32(value):
    """A value in f32, with infinity for an overflow."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def e4m3(byte):
    exponent, fraction = byte >> 3 & 15, byte & 7
    if byte & 127 == 127:
        return math.nan
    value = (8 + fraction if exponent else fraction) * 2.0 ** (
        max(exponent, 1) - 10
    )
    return -value if byte & 128 else value


def write(name, kind, shape, values, code):
    """A .npy file; its order of bytes is that of `struct`."""
    header = (
        f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n"
    ).encode()
    path = os.path.join(directory, name + ".npy")
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)))
        file.write(header + struct.pack(f"<{len(values)}{code}", *values))
    return path


def signed(byte):
    return byte - 256 if byte > 127 else byte


def run(text, files, count, options):
    source = os.path.join(directory, "f.mlir")
    result = os.path.join(directory, "result.npy")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run(
        ["fuse-run", source, f"--output={result}", *options]
        + [f"--input={path}" for path in files],
        check=True,
    )
    with open(result, "rb") as file:
        return struct.unpack(f"<{count}f", file.read()[128:])


def check(name, quant, scales, types, expected, skip=lambda row: False):
    """Compares each code in each row of scales."""
    rows = len(expected)
    codes = [signed(2 * i | (2 * i + 1) << 4) for i in range(8)] * rows
    packed = write("codes", "|i1", (rows, 8), codes, "b")
    unit = [4.0 * (i == j) for i in range(16) for j in range(16)]
    x = write("x", "<f4", (16, 16), unit, "f")
    arguments = ", ".join(f"%s{i}: {kind}" for i, kind in enumerate(types))
    names = ", ".join(f"%s{i}" for i in range(len(types)))
    operands = f"(tensor<{rows}x8xi8>, {', '.join(types)})"
    dequantize = f"""
func.func @f(%q: tensor<{rows}x8xi8>, {arguments}) -> tensor<{rows}x16xf32> {{
  %w = fuse.dequantize_weight %q scales({names}) quant({quant})
    : {operands} -> tensor<{rows}x16xf32>
  return %w : tensor<{rows}x16xf32>
}}
"""
    kernel = f"""
func.func @f(%x: tensor<16x16xf32>, %q: tensor<{rows}x8xi8>, {arguments})
    -> tensor<16x{rows}xf32> {{
  %y = fuse.norm_linear %x norm(rms eps 0.0) linear(%q)
         channel_scales({names}) quant({quant}) rounding(exact)
    : (tensor<16x16xf32>, {operands[1:-1]}) -> tensor<16x{rows}xf32>
  return %y : tensor<16x{rows}xf32>
}}
"""
    for options in ([], ["--reference"]):
        values = run(dequantize, [packed, *scales], 16 * rows, options)
        columns = run(kernel, [x, packed, *scales], 16 * rows, options)
        for row in range(rows):
            for code in range(16):
                wanted = expected[row][code]
                found = values[16 * row + code]
                same = (math.isnan(found) and math.isnan(wanted)) or (
                    struct.pack("<f", found) == struct.pack("<f", wanted)
                )
                assert same, (name, options, row, code, found, wanted)
                if skip(row):
                    continue
                found = columns[code * rows + row]
                assert found == 4.0 * wanted, (name, row, code, found, wanted)


def check_all():
    exponents = write("e", "|i1", (256, 1), map_bytes(range(256)), "b")
    check(
        "MXFP4",
        "f4E2M1FN, weights = group<16, f8E8M0FNU>, activations = none",
        [exponents],
        ["tensor<256x1xi8>"],
        [
            [
                f32(code * 2.0 ** (byte - 127)) if byte < 255 else math.nan
                for code in E2M1
            ]
            for byte in range(256)
        ],
        # Four times the value is not finite.
        lambda row: row > 250,
    )
    whole = f32(0.3)
    factors = [e4m3(byte) for byte in range(256)]
    scales = write("s", "<f4", (256, 1), factors, "f")
    number = write("t", "<f4", (1,), [whole], "f")
    for op in ("multiply", "divide"):
        totals = [
            f32(s * whole) if op == "multiply" else f32(s / whole)
            for s in factors
        ]
        check(
            f"NVFP4, {op}",
            "f4E2M1FN, weights = group<16, f8E4M3FN>, "
            f"tensor_scale = {op}, activations = none",
            [scales, number],
            ["tensor<256x1xf8E4M3FN>", "tensor<1xf32>"],
            [[f32(t * code) for code in E2M1] for t in totals],
            lambda row: row & 127 == 127,
        )
    factor = f32(0.0123)
    scales = write("s", "<f4", (17, 1), [factor] * 17, "f")
    points = write("z", "|i1", (17, 1), list(range(17)), "b")
    check(
        "integers with zero points",
        "ui4, weights = group<16, f32>, zero_points = group, "
        "activations = none",
        [scales, points],
        ["tensor<17x1xf32>", "tensor<17x1xi8>"],
        [[f32((c - z) * factor) for c in range(16)] for z in range(17)],
    )
    scales = write("s", "<f4", (1, 1), [factor], "f")
    for quant, values in (
        ("ui4, weights = group<16, f32>, zero_points = 8", range(-8, 8)),
        ("i4, weights = group<16, f32>", [*range(8), *range(-8, 0)]),
    ):
        check(
            quant,
            f"{quant}, activations = none",
            [scales],
            ["tensor<1x1xf32>"],
            [[f32(value * factor) for value in values]],
        )


def map_bytes(values):
    return [signed(value) for value in values]


check_all()
