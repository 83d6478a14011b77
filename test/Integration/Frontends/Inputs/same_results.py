"""Runs two programs with one function on the same arrays and compares.

usage: same_results.py <original.mlir> <other.mlir> <tolerance>

Arguments are tensors of static shape. The difference of each result is
relative to the largest result.
"""

import array
import math
import random
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path


def shapes(text):
    """The shapes of the arguments of the function in `text`."""
    signature = re.search(r"func\.func @\w+\((.*?)\)\s*->", text, re.DOTALL)
    return [
        [int(size) for size in match.split("x")]
        for match in re.findall(r"tensor<([\dx]+)x(?:bf16|f32)>", signature[1])
    ]


def write(path, shape, random_source):
    """Writes an array of numbers between -1 and 1, which bf16 represents."""
    dims = "".join(f"{size}, " for size in shape)
    header = (
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({dims}), }}\n"
    ).encode()
    numbers = array.array(
        "f",
        (random_source.randint(-64, 64) / 64 for _ in range(math.prod(shape))),
    )
    path.write_bytes(
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(header))
        + header
        + numbers.tobytes()
    )


def read(path):
    """The numbers in a file of NumPy, of f32."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<H", data, 8)
    return array.array("f", data[10 + length :])


def run(program, inputs, output):
    subprocess.run(
        ["fuse-run", program, *inputs, f"--output={output}"], check=True
    )
    return read(output)


def main():
    original, other, tolerance = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        random_source = random.Random(7)
        inputs = []
        for number, shape in enumerate(shapes(Path(original).read_text())):
            path = directory / f"{number}.npy"
            write(path, shape, random_source)
            inputs.append(f"--input={path}")
        wanted = run(original, inputs, directory / "wanted.npy")
        found = run(other, inputs, directory / "found.npy")
    largest = max(map(abs, wanted))
    difference = max(abs(a - b) for a, b in zip(wanted, found, strict=True))
    relative = difference / largest
    if not (largest > 0 and relative <= float(tolerance)):
        sys.exit(f"largest {largest:.3g}, relative difference {relative:.3g}")
    print(f"{len(found)} results, relative difference {relative:.3g}")


if __name__ == "__main__":
    main()
