# RUN: python3 %s %t
"""A checkpoint in the layout of kernels runs as the original does, and comes
back byte by byte."""

import json
import os
import struct
import subprocess
import sys

directory = sys.argv[1] + ".dir"
os.makedirs(directory, exist_ok=True)


def path(name):
    return os.path.join(directory, name)


def read(name):
    with open(path(name), "rb") as file:
        return file.read()


def write(name, data):
    with open(path(name), "wb") as file:
        file.write(data)


def run(*command, fails=False):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if fails else 0), (command, done.stderr)
    return done.stderr if fails else done.stdout


def tensors(name):
    """Type, shape and bytes by name, and the metadata."""
    data = read(name)
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    begin = 8 + length
    return {
        key: (
            value["dtype"],
            value["shape"],
            data[
                begin + value["data_offsets"][0] : begin
                + value["data_offsets"][1]
            ],
        )
        for key, value in header.items()
    }, metadata


def checkpoint(entries, metadata=None, pad=0):
    """Entries in the order of their data; the header in another one."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in entries.items():
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    header = dict(sorted(header.items(), reverse=True))
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + data


def floats(count, start):
    return struct.pack(
        f"<{count}f", *((start + i % 7 - 3) / 4 for i in range(count))
    )


MODEL = """
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    nn.parameter @weight : tensor<4xf32>
    func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %w = nn.get_parameter @weight : tensor<4xf32>
      %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
        : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
      return %y : tensor<?x4xf32>
    }
  }
  nn.module @mlp class "MLP" {
    nn.parameter @gate : tensor<6x4xf32>
    nn.parameter @up : tensor<6x4xf32>
    nn.parameter @down tied_to(@head) : tensor<4x6xf32>
    func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %wg = nn.get_parameter @gate : tensor<6x4xf32>
      %wu = nn.get_parameter @up : tensor<6x4xf32>
      %wd = nn.get_parameter @down : tensor<4x6xf32>
      %g = fuse.linear %x, %wg
        : (tensor<?x4xf32>, tensor<6x4xf32>) -> tensor<?x6xf32>
      %a = fuse.activation silu %g : tensor<?x6xf32> -> tensor<?x6xf32>
      %u = fuse.linear %x, %wu
        : (tensor<?x4xf32>, tensor<6x4xf32>) -> tensor<?x6xf32>
      %p = fuse.gated_mul %a, %u
        : (tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>
      %d = fuse.linear %p, %wd
        : (tensor<?x6xf32>, tensor<4x6xf32>) -> tensor<?x4xf32>
      return %d : tensor<?x4xf32>
    }
  }
  nn.parameter @head : tensor<4x6xf32>
  func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %n = nn.call_module @norm(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
    %m = nn.call_module @mlp(%n) : (tensor<?x4xf32>) -> tensor<?x4xf32>
    return %m : tensor<?x4xf32>
  }
}
"""
write("model.mlir", MODEL.encode())
ORIGINAL = {
    "mlp.up": ("F32", [6, 4], floats(24, 1)),
    "norm.weight": ("F32", [4], floats(4, 5)),
    "mlp.gate": ("F32", [6, 4], floats(24, 2)),
    "head": ("F32", [4, 6], floats(24, 3)),
}
write("model.safetensors", checkpoint(ORIGINAL, {"format": "pt"}, pad=5))
MATCH = [
    "fuse-opt",
    path("model.mlir"),
    "--fuse-match-modules=patterns=((*,norm),(*,mlp))->gated_mlp",
    "--fuse-inline-modules",
    "--fuse-form-kernels",
]
RUN = ["--dim=3", "--seed=7", "--print"]

expected = run(
    "fuse-run",
    path("model.mlir"),
    "--weights=" + path("model.safetensors"),
    *RUN,
)

# Permutations: the parameters are gone from the packed file, in any layout.

for layout, first_rows in (
    ("concat(1:gate,1:up)", "mlp.gate mlp.gate mlp.gate".split()),
    ("interleave(1:gate,1:up,block=1)", "mlp.gate mlp.up mlp.gate".split()),
    (
        "interleave(1:gate,1:up,block=3)",
        "mlp.gate mlp.gate mlp.gate mlp.up".split(),
    ),
):
    run(
        *MATCH,
        f"--fuse-pack-weights=layouts=w={layout}",
        "-o",
        path("fused.mlir"),
    )
    run(
        "fuse-weights",
        "pack",
        path("fused.mlir"),
        path("model.safetensors"),
        "-o",
        path("packed.safetensors"),
    )
    packed, metadata = tensors("packed.safetensors")
    assert set(packed) == {"norm.weight", "head", "norm+mlp.w"}, set(packed)
    dtype, shape, data = packed["norm+mlp.w"]
    assert (dtype, shape) == ("F32", [12, 4])
    next_row = dict.fromkeys(ORIGINAL, 0)
    for row, name in enumerate(first_rows):
        source = next_row[name]
        next_row[name] += 1
        assert (
            data[16 * row : 16 * row + 16]
            == ORIGINAL[name][2][16 * source : 16 * source + 16]
        ), (layout, row)

    # The fused model on the packed weights has the bits of the original.
    assert (
        run(
            "fuse-run",
            path("fused.mlir"),
            "--weights=" + path("packed.safetensors"),
            *RUN,
        )
        == expected
    )

    run(
        "fuse-weights",
        "unpack",
        path("packed.safetensors"),
        "-o",
        path("back.safetensors"),
    )
    assert read("back.safetensors") == read("model.safetensors"), layout

# A transpose: row i of the stored weight is column i of the parameter.

run(
    *MATCH,
    "--fuse-pack-weights=layouts=w=transpose(1:gate)",
    "-o",
    path("fused.mlir"),
)
run(
    "fuse-weights",
    "pack",
    path("fused.mlir"),
    path("model.safetensors"),
    "-o",
    path("packed.safetensors"),
)
dtype, shape, data = tensors("packed.safetensors")[0]["norm+mlp.w"]
assert (dtype, shape) == ("F32", [4, 6])
gate = ORIGINAL["mlp.gate"][2]
for row in range(4):
    for column in range(6):
        at, source = 4 * (row * 6 + column), 4 * (column * 4 + row)
        assert data[at : at + 4] == gate[source : source + 4], (row, column)
assert (
    run(
        "fuse-run",
        path("fused.mlir"),
        "--weights=" + path("packed.safetensors"),
        *RUN,
    )
    == expected
)
run(
    "fuse-weights",
    "unpack",
    path("packed.safetensors"),
    "-o",
    path("back.safetensors"),
)
assert read("back.safetensors") == read("model.safetensors")
run(
    *MATCH,
    "--fuse-pack-weights=layouts=w=concat(1:gate,1:up)",
    "-o",
    path("fused.mlir"),
)

# A checkpoint may be written over itself; one of this size is mapped.

large = checkpoint(ORIGINAL | {"other": ("F32", [8192], floats(8192, 0))})
write("large.safetensors", large)
run(
    "fuse-weights",
    "pack",
    path("fused.mlir"),
    path("large.safetensors"),
    "-o",
    path("large.safetensors"),
)
assert read("large.safetensors") != large
run(
    "fuse-weights",
    "unpack",
    path("large.safetensors"),
    "-o",
    path("large.safetensors"),
)
assert read("large.safetensors") == large

# A tied parameter is found by the name that the checkpoint has.

run(
    *MATCH,
    "--fuse-pack-weights=layouts=w=concat(1:gate,1:up,keep)",
    "-o",
    path("fused.mlir"),
)
run(
    "fuse-weights",
    "pack",
    path("fused.mlir"),
    path("model.safetensors"),
    "-o",
    path("packed.safetensors"),
)
packed, _ = tensors("packed.safetensors")
assert packed["mlp.gate"] == ORIGINAL["mlp.gate"]
assert (
    run("fuse-weights", "list", path("fused.mlir"))
    == '#nn.recipe<"norm+mlp.w" = concat(@mlp::@gate, @mlp::@up) keep>\n'
)

# Recipes that round keep the parameters: what is stored is what they say, and
# the checkpoint comes back from the parameters.

DECLARED = MODEL.replace(
    "nn.module @norm",
    """
  nn.kernel @K targets(["cpu"]) weights [
    #nn.recipe<"folded" = fold("1:gate", "0:weight" offset 1) keep>,
    #nn.recipe<"down8" = quantize("1:down", f8E4M3FN scale 0.25) keep>,
    #nn.recipe<"gate8" = quantize("1:gate", i8 scale 0.5) keep>]
  nn.module @norm""",
    1,
)
write("declared.mlir", DECLARED.encode())
run(
    "fuse-opt",
    path("declared.mlir"),
    "--fuse-match-modules=patterns=((*,norm),(*,mlp))->K",
    "-o",
    path("fused.mlir"),
)
run(
    "fuse-weights",
    "pack",
    path("fused.mlir"),
    path("model.safetensors"),
    "-o",
    path("packed.safetensors"),
)
packed, _ = tensors("packed.safetensors")
gate = struct.unpack("<24f", ORIGINAL["mlp.gate"][2])
scale = struct.unpack("<4f", ORIGINAL["norm.weight"][2])
folded = struct.unpack("<24f", packed["norm+mlp.folded"][2])
assert folded == tuple(g * (1 + scale[i % 4]) for i, g in enumerate(gate))
stored = struct.unpack("<24b", packed["norm+mlp.gate8"][2])
assert stored == tuple(round(g / 0.5) for g in gate)
assert packed["norm+mlp.down8"][:2] == ("F8_E4M3", [4, 6])
# 0, 1/4 and 1/2 at a scale of 1/4 are 0, 1 and 2.
assert packed["norm+mlp.down8"][2][:3] == bytes([0x00, 0x38, 0x40]), packed[
    "norm+mlp.down8"
][2][:3].hex()
run(
    "fuse-weights",
    "unpack",
    path("packed.safetensors"),
    "-o",
    path("back.safetensors"),
)
assert read("back.safetensors") == read("model.safetensors")

# Errors name what is missing, and leave no file behind.


def fails(text, *command):
    if os.path.exists(path("out")):
        os.remove(path("out"))
    error = run("fuse-weights", *command, "-o", path("out"), fails=True)
    assert text in error, error
    assert not os.path.exists(path("out"))


write("bad.mlir", b"nonsense")
error = run("fuse-weights", "list", path("bad.mlir"), fails=True)
assert (
    f"{path('bad.mlir')}:1:1: error: custom op 'nonsense' is unknown" in error
)
assert f"fuse-weights: error: {path('bad.mlir')}: not a valid module" in error
fails(
    "no site of a model has recipes",
    "pack",
    path("model.mlir"),
    path("model.safetensors"),
)
fails(
    "the file is not a packed checkpoint", "unpack", path("model.safetensors")
)
fails(
    "the checkpoint is packed already; unpack it first",
    "pack",
    path("fused.mlir"),
    path("packed.safetensors"),
)
write("small.safetensors", checkpoint({"head": ORIGINAL["head"]}))
fails(
    "the checkpoint has no tensor 'mlp.gate' for recipe 'norm+mlp.folded'",
    "pack",
    path("fused.mlir"),
    path("small.safetensors"),
)
write(
    "wrong.safetensors",
    checkpoint(ORIGINAL | {"norm.weight": ("F32", [3], floats(3, 0))}),
)
fails(
    "recipe 'norm+mlp.folded' requires a matrix and a vector with one number "
    "per column",
    "pack",
    path("fused.mlir"),
    path("wrong.safetensors"),
)
write(
    "nan.safetensors",
    checkpoint(ORIGINAL | {"mlp.gate": ("F32", [6, 4], b"\xff" * 96)}),
)
fails(
    "recipe 'norm+mlp.gate8': element 0 of 'mlp.gate' is NaN",
    "pack",
    path("fused.mlir"),
    path("nan.safetensors"),
)

run(
    *MATCH,
    "--fuse-pack-weights=layouts=w=interleave(1:gate,1:up,block=3)",
    "-o",
    path("fused.mlir"),
)
write(
    "wrong.safetensors",
    checkpoint(
        ORIGINAL
        | {
            "mlp.gate": ("F32", [4, 4], floats(16, 0)),
            "mlp.up": ("F32", [4, 4], floats(16, 0)),
        }
    ),
)
fails(
    "recipe 'norm+mlp.w' reads blocks of 3 rows, 'mlp.gate' has 4",
    "pack",
    path("fused.mlir"),
    path("wrong.safetensors"),
)
run(
    "fuse-weights",
    "pack",
    path("fused.mlir"),
    path("model.safetensors"),
    "-o",
    path("packed.safetensors"),
)
packed, metadata = tensors("packed.safetensors")


def damaged(changes, extra=None):
    write(
        "damaged.safetensors",
        checkpoint(packed | (extra or {}), metadata | changes),
    )
    return "unpack", path("damaged.safetensors")


fails("the recipes of the file are damaged", *damaged({"fuse.recipes": "{}"}))
fails(
    "the recipes of the file are damaged",
    *damaged(
        {"fuse.recipes": metadata["fuse.recipes"].replace("interleave", "x")}
    ),
)
fails(
    "header is nested more than 8 deep",
    *damaged({"fuse.recipes": "[" * 100000}),
)
fails(
    "the header of the checkpoint is damaged",
    *damaged({"fuse.header": '{"a": {"dtype": "F32", "shape": []}}'}),
)
fails(
    "no tensor and no recipe of the file has 'mlp.up'",
    *damaged({"fuse.recipes": "[]"}),
)
fails(
    "'mlp.up' cannot be had back from 'norm+mlp.w': it has another type "
    "or shape",
    *damaged({}, {"norm+mlp.w": ("F32", [8, 4], floats(32, 0))}),
)
fails(
    "'head' has another type or shape than in the checkpoint",
    *damaged({}, {"head": ("F32", [2, 6], floats(12, 0))}),
)

# What a checkpoint has need not be what the model says.


def cannot_pack(text, name, entry):
    write("wrong.safetensors", checkpoint(ORIGINAL | {name: entry}))
    fails(text, "pack", path("fused.mlir"), path("wrong.safetensors"))


cannot_pack(
    "recipe 'norm+mlp.w' has sources of different types or widths",
    "mlp.up",
    ("F32", [6, 5], floats(30, 1)),
)
cannot_pack(
    "recipe 'norm+mlp.w' has sources of different types or widths",
    "mlp.up",
    ("BF16", [6, 4], bytes(48)),
)
cannot_pack(
    "recipe 'norm+mlp.w' reads blocks of 3 rows, 'mlp.up' has 9",
    "mlp.up",
    ("F32", [9, 4], floats(36, 1)),
)
run(
    "fuse-opt",
    path("declared.mlir"),
    "--fuse-match-modules=patterns=((*,norm),(*,mlp))->K",
    "-o",
    path("fused.mlir"),
)
cannot_pack(
    "recipe 'norm+mlp.down8' requires floating-point numbers, but 'head' has I32",
    "head",
    ("I32", [4, 6], bytes(96)),
)
cannot_pack(
    "the checkpoint has a tensor 'norm+mlp.gate8', the name of a recipe",
    "norm+mlp.gate8",
    ("F32", [1], floats(1, 0)),
)
assert "no command; expected one of pack, unpack, list" in run(
    "fuse-weights", fails=True
)
