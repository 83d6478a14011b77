# RUN: %python %s %t
"""Weights are read by name; every rule of the format is checked."""

import json
import os
import struct
import subprocess
import sys

directory = sys.argv[1] + ".dir"
os.makedirs(directory, exist_ok=True)


def path(name):
    return os.path.join(directory, name)


with open(path("f.mlir"), "w", encoding="utf-8") as file:
    file.write("""
func.func @f(%w: tensor<2x2xbf16> {fuse.parameter = "a.weight"},
             %b: tensor<2xf32> {fuse.parameter = "a.bias"})
    -> (tensor<2x2xbf16>, tensor<2xf32>) {
  return %w, %b : tensor<2x2xbf16>, tensor<2xf32>
}
""")


def run(data):
    with open(path("w.safetensors"), "wb") as file:
        file.write(data)
    result = subprocess.run(
        [
            "fuse-run",
            path("f.mlir"),
            "--weights=" + path("w.safetensors"),
            "--print",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode in (0, 1), (result.returncode, result.stderr)
    return result.stdout if result.returncode == 0 else result.stderr


def pack(header, data, pad=0):
    text = header if isinstance(header, str) else json.dumps(header)
    text = text.encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


data = struct.pack("<4H2f", 0x3F80, 0xC000, 0x4040, 0x0000, 1.5, -2.5)
header = {
    "a.weight": tensor("BF16", [2, 2], 0, 8),
    "a.bias": tensor("F32", [2], 8, 16),
}
expected = "2x2xbf16\n[1, -2]\n[3, 0]\n2xf32\n[1.5, -2.5]\n"
assert run(pack(header, data)) == expected
assert (
    run(pack({**header, "__metadata__": {"format": "pt"}}, data, pad=3))
    == expected
)
assert (
    run(pack({**header, "empty": tensor("F32", [0, 3], 16, 16)}, data))
    == expected
)


def fails(file, text):
    error = run(file)
    assert "w.safetensors: " in error and text in error, (text, error)


def changed(name="a.bias", **fields):
    return {**header, name: {**header[name], **fields}}


fails(b"", "shorter than the length of a header")
fails(b"\x10\0\0\0\0\0\0\0", "does not fit into the file")
fails(b"\xff" * 8 + b"{}", "does not fit into the file")
fails(struct.pack("<Q", 2) + b"[]", "does not start with '{'")
fails(
    pack(
        '{"\udcff": 1}'.encode("utf-8", "surrogateescape").decode("latin1"),
        data,
    ),
    "is not an object",
)
fails(struct.pack("<Q", 5) + b'{"\xff"}', "is not UTF-8")
fails(pack('{"a": ' + "[" * 9 + "]" * 9 + "}", data), "nested more than 8")
fails(pack('{"a": ' + "[" * 100000, data), "nested more than 8")
fails(pack('{"a": }', data), "header: ")
fails(pack('{"a": ]}}', data), "unbalanced brackets")
fails(pack("{", data), "header: ")
one = json.dumps(header["a.bias"])
fails(pack(f'{{"a.bias": {one}, "a.bias": {one}}}', data), "a key twice")
fails(pack({"__metadata__": {"a": 1}, **header}, data), "is not a string")
fails(pack({**header, "x": 1}, data), "tensor 'x' is not an object")
fails(pack({"a.bias": {"dtype": "F32"}}, data), "needs dtype, shape and two")
fails(pack(changed(extra=1), data), "and nothing else")
fails(pack(changed(dtype="F33"), data), "has unknown type 'F33'")
fails(pack(changed(shape=[-2]), data), "is not a natural number")
fails(pack(changed(shape=[1] * 8 + [2]), data), "more than 8 dimensions")
fails(pack(changed(shape=[2**40, 2**40]), data), "is too large")
fails(pack(changed(dtype="F4", shape=[3]), data), "does not end at a byte")
fails(pack(changed(shape=[3]), data), "has 8 bytes, its shape and type need 12")
fails(pack(changed(data_offsets=[16, 24]), data), "outside of the file")
fails(pack(changed(data_offsets=[16, 8]), data), "outside of the file")
fails(pack(changed(data_offsets=[4, 12]), data + b"1234"), "gap or an overlap")
fails(pack(changed(data_offsets=[12, 20]), data + b"1234"), "gap or an overlap")
fails(pack(header, data + b"1"), "1 bytes after the last tensor")
fails(
    pack({"a.bias": tensor("F32", [2], 0, 8)}, data[8:]),
    "no tensor 'a.weight'; there are a.bias",
)
fails(
    pack(changed("a.weight", dtype="F16"), data),
    "tensor 'a.weight' is 2x2xF16, expected 2x2xbf16",
)
fails(
    pack(changed("a.weight", shape=[4]), data),
    "tensor 'a.weight' is 4xBF16, expected 2x2xbf16",
)
missing = subprocess.run(
    ["fuse-run", path("f.mlir"), "--weights=" + path("none")],
    stderr=subprocess.PIPE,
    text=True,
    check=False,
)
assert "none: No such file" in missing.stderr, missing.stderr
