# RUN: %python %s %t
"""Quantization saturates, rounds to nearest even and keeps NaN and -0."""

import math
import os
import struct
import subprocess
import sys

directory = sys.argv[1] + ".dir"
os.makedirs(directory, exist_ok=True)
source = os.path.join(directory, "q.mlir")
array = os.path.join(directory, "x.npy")
result = os.path.join(directory, "q.npy")
nan, inf = math.nan, math.inf


def quantize(values, element, order, options):
    count = len(values)
    clause = f" order {order}" if order == "divide" else ""
    with open(source, "w", encoding="utf-8") as file:
        file.write(f"""
func.func @q(%x: tensor<1x{count}xf32>) -> tensor<1x{count}x{element}> {{
  %q = fuse.quantize %x scale 0.5{clause}
    : (tensor<1x{count}xf32>) -> tensor<1x{count}x{element}>
  return %q : tensor<1x{count}x{element}>
}}
""")
    header = (
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': (1, {count}), }}\n"
    ).encode()
    with open(array, "wb") as file:
        file.write(
            b"\x93NUMPY\x01\x00"
            + struct.pack("<H", len(header))
            + header
            + struct.pack(f"<{count}f", *(v / 2 for v in values))
        )
    subprocess.run(
        [
            "fuse-run",
            source,
            f"--input={array}",
            f"--output={result}",
            *options,
        ],
        check=True,
    )
    with open(result, "rb") as file:
        data = file.read()[128:]
    return struct.unpack(f"<{count}{'b' if element == 'i8' else 'f'}", data)


def check(element, cases):
    for options in ([], ["--reference"]):
        for order in ("reciprocal", "divide"):
            actual = quantize(list(cases), element, order, options)
            for value, got in zip(cases, actual):
                expected = cases[value]
                same = (
                    math.isnan(got)
                    if math.isnan(expected)
                    else got == expected
                    and math.copysign(1, got) == math.copysign(1, expected)
                )
                assert same, (element, order, options, value, expected, got)


# 464 lies halfway between 448 and the code that is NaN.
check(
    "f8E4M3FN",
    {
        448.0: 448.0,
        464.0: 448.0,
        465.0: 448.0,
        1e30: 448.0,
        inf: 448.0,
        -465.0: -448.0,
        -inf: -448.0,
        nan: nan,
        -0.0: -0.0,
        17.0: 16.0,
        19.0: 20.0,
        2.0**-9: 2.0**-9,
        2.0**-10: 0.0,
        3 * 2.0**-10: 2.0**-8,
        1.5 * 2.0**-10: 2.0**-9,
        -(2.0**-11): -0.0,
        2.0**-6: 2.0**-6,
    },
)
check(
    "f8E5M2",
    {
        57344.0: 57344.0,
        61440.0: 57344.0,
        1e30: 57344.0,
        inf: 57344.0,
        -inf: -57344.0,
        nan: nan,
        -0.0: -0.0,
        9.0: 8.0,
        11.0: 12.0,
        2.0**-16: 2.0**-16,
        2.0**-17: 0.0,
    },
)
check(
    "i8",
    {
        127.5: 127,
        128.0: 127,
        1e30: 127,
        inf: 127,
        -128.5: -128,
        -129.0: -128,
        -inf: -128,
        nan: 0,
        0.5: 0,
        1.5: 2,
        2.5: 2,
        -0.5: 0,
        -1.5: -2,
    },
)
