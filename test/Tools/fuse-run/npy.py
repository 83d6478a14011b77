# RUN: %python %s %t
"""Arrays come in and go out unchanged; damaged files are named errors."""

import os
import struct
import subprocess
import sys

directory = sys.argv[1] + ".dir"
os.makedirs(directory, exist_ok=True)


def path(name):
    return os.path.join(directory, name)


def npy(descr, shape, data, order="False", version=1):
    header = (
        f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"
    ).encode()
    size = struct.pack("<H" if version == 1 else "<I", len(header) + 1)
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + b"\n" + data


def write(name, data):
    with open(path(name), "wb") as file:
        file.write(data)
    return path(name)


def module(element):
    return write(
        element + ".mlir",
        f"""
func.func @f(%x: tensor<?x2x{element}>) -> tensor<?x2x{element}> {{
  return %x : tensor<?x2x{element}>
}}
""".encode(),
    )


def run(element, array):
    output = path("out.npy")
    result = subprocess.run(
        ["fuse-run", module(element), f"--input={array}", f"--output={output}"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if result.returncode == 0:
        with open(output, "rb") as file:
            return file.read()[128:]
    assert result.returncode == 1, (result.returncode, result.stderr)
    return result.stderr


values = struct.pack("<4f", 1.0, -0.5, 3.0, 0.0)
good = npy("<f4", "(2, 2)", values)

for element in ("f32", "bf16", "f8E4M3FN", "f8E5M2"):
    assert run(element, write("a.npy", good)) == values, element
assert run("f16", write("a.npy", good)) == struct.pack("<4e", 1, -0.5, 3, 0)
assert (
    run("i8", write("a.npy", npy("|i1", "(1, 2)", b"\xff\x02"))) == b"\xff\x02"
)
# Bits of a type that NumPy lacks.
assert run(
    "bf16", write("a.npy", npy("<V2", "(1, 2)", b"\x80\x3f\x00\xc0"))
) == struct.pack("<2f", 1.0, -2.0)
assert (
    run("f32", write("a.npy", npy("<f4", "(2, 2)", values, version=2)))
    == values
)
assert run("f32", write("a.npy", npy("<f4", "(0, 2)", b""))) == b""


def fails(data, text, element="f32"):
    error = run(element, write("bad.npy", data))
    assert isinstance(error, str) and text in error, (text, error)


fails(b"", "not a .npy file")
fails(npy("<f4", "(-2,)", values), "header: expected a size before '-2,)")
fails(b"PK\x03\x04" + good, "not a .npy file")
fails(good[:9], "not a .npy file")
fails(good[:40], "file ends in its header")
fails(good[:-1], "shape and type need 16 bytes, the file has 15")
fails(good + b"\0", "shape and type need 16 bytes, the file has 17")
fails(
    npy("<f4", "(2, 3)", values + values[:8]),
    "argument 0 is ?x2xf32, the file has 2x3xf32",
)
fails(npy("<f4", "(4,)", values), "the file has 4xf32")
fails(npy(">f4", "(2, 2)", values), "is big-endian")
fails(npy("<c8", "(1, 2)", values), "type '<c8' cannot become f32")
fails(npy("<f4", "(2, 2)", values, order="True"), "Fortran order")
fails(npy("<f4", "(-1, 2)", values), "expected a size")
fails(npy("<f4", f"({2**48}, {2**48})", values), "shape is too large")
fails(
    npy("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 2)", values[:8]),
    "more than 8 dimensions",
)
fails(npy("<f4", "(2, 2", values), "header: ")
fails(npy("<f4", "(2, 2)", values, version=9), "format version 9 is unknown")
fails(
    npy("<f4", "(1, 2)", struct.pack("<2f", 0.1, 1.0)),
    "is not a bf16",
    element="bf16",
)
fails(
    npy("<f4", "(1, 2)", struct.pack("<2f", 1000.0, 1.0)),
    "is not a f8E4M3FN",
    element="f8E4M3FN",
)
# Wherever the header is cut off, it is an error.
for length in range(0, 60, 7):
    fails(good[:length], "bad.npy: ")


def header(text):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


for text, problem in (
    ("('descr': '<f4')", "expected '{' before '('descr': '<f4')'"),
    ("{descr: '<f4'}", "expected ''' before 'descr: '<f4'}'"),
    ("{'descr", "string without an end"),
    ("{'descr' '<f4'}", "expected ':' before ''<f4'}'"),
    ("{'descr': <f4}", "expected ''' before '<f4}'"),
    ("{'fortran_order': 0}", "expected 'False' before '0}'"),
    ("{'shape': [2]}", "expected '(' before '[2]}'"),
    ("{'shape': (2 2)}", "expected ')' before '2)}'"),
    ("{'order': 'C'}", "unknown key 'order'"),
    (
        "{'descr': '<f4', 'shape': (2, 2)}",
        "expected the keys descr, fortran_order and shape",
    ),
):
    fails(header(text), "header: " + problem)
fails(b"\x93NUMPY\x02\x00\x01\x00", "file ends in its header")

more = subprocess.run(
    ["fuse-run", module("f32"), *[f"--input={write('a.npy', good)}"] * 2],
    stderr=subprocess.PIPE,
    text=True,
    check=False,
)
assert "a.npy is one file more than @f has arguments" in more.stderr, more
