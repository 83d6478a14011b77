# RUN: %python %s %t | FileCheck %s
"""All ranks of tensor parallelism in one process.

The MLP of a block runs on 1, 2, 4 and 8 ranks, with partial results that are
added in f32. All ranks have the same bits. The error against float64 is that of
one rank, which rounds the hidden value and the result; partial results in bf16
would have 3.6e-3 on 4 ranks and 4.4e-3 on 8.

CHECK: 1 rank: within 2.4e-3 of float64
CHECK: 2 ranks: equal bits, within 2.4e-3 of float64, 1e-3 of one rank
CHECK: 4 ranks: equal bits, within 2.4e-3 of float64, 1e-3 of one rank
CHECK: 8 ranks: equal bits, within 2.4e-3 of float64, 1e-3 of one rank
CHECK: one part only: not within 2.4e-3
"""

import os
import subprocess
import sys

import numpy as np

TOKENS, WIDTH, HIDDEN = 16, 256, 1024
BOUND = 2.4e-3
directory = sys.argv[1] + ".dir"
os.makedirs(directory, exist_ok=True)


def to_bf16(values):
    """Values of bf16 as f32, rounded to nearest even."""
    bits = values.astype(np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32)


def path(name):
    return os.path.join(directory, name)


def save(name, values):
    np.save(path(name), values)
    return path(name)


def module(ranks):
    """The text describes all ranks; on one, no parameter is cut."""

    def cut(dim):
        if ranks == 1:
            return ""
        return (
            f'{{fuse.shard = #fuse.shard<dim = {dim}, axis = "tp", '
            f"count = {ranks}>}}"
        )

    text = f"""
func.func @mlp(%x: tensor<?x{WIDTH}xbf16>,
    %g: tensor<{HIDDEN}x{WIDTH}xbf16> {cut(0)},
    %u: tensor<{HIDDEN}x{WIDTH}xbf16> {cut(0)},
    %d: tensor<{WIDTH}x{HIDDEN}xbf16> {cut(1)})
    -> tensor<?x{WIDTH}xbf16> {{
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         rounding(exact types {{gate = f32, up = f32, act = f32}})
    : (tensor<?x{WIDTH}xbf16>, tensor<{HIDDEN}x{WIDTH}xbf16>,
       tensor<{HIDDEN}x{WIDTH}xbf16>, tensor<{WIDTH}x{HIDDEN}xbf16>)
      -> tensor<?x{WIDTH}xbf16>
  return %y : tensor<?x{WIDTH}xbf16>
}}
"""
    with open(path(f"ranks{ranks}.mlir"), "w") as file:
        file.write(text)
    return path(f"ranks{ranks}.mlir")


def run(ranks, inputs):
    outputs = [path(f"y{ranks}.{rank}.npy") for rank in range(ranks)]
    command = ["fuse-run", module(ranks), "--all-ranks"]
    command += [f"--input={name}" for name in inputs]
    command += [f"--output={name}" for name in outputs]
    subprocess.run(command, check=True)
    return [np.load(name) for name in outputs]


def distance(result, expected):
    return np.linalg.norm(result - expected) / np.linalg.norm(expected)


random = np.random.default_rng(0)
x = to_bf16(random.standard_normal((TOKENS, WIDTH)))
gate = to_bf16(random.standard_normal((HIDDEN, WIDTH)) / WIDTH**0.5)
up = to_bf16(random.standard_normal((HIDDEN, WIDTH)) / WIDTH**0.5)
down = to_bf16(random.standard_normal((WIDTH, HIDDEN)) / HIDDEN**0.5)
names = [
    save(name, values)
    for name, values in (
        ("x.npy", x),
        ("g.npy", gate),
        ("u.npy", up),
        ("d.npy", down),
    )
]

x64, gate64, up64, down64 = (v.astype(np.float64) for v in (x, gate, up, down))
g = x64 @ gate64.T
hidden = g / (1 + np.exp(-g)) * (x64 @ up64.T)
exact = hidden @ down64.T

one = run(1, names)[0]
print(
    "1 rank: within" if distance(one, exact) <= BOUND else distance(one, exact),
    end="",
)
print(" 2.4e-3 of float64")
for ranks in (2, 4, 8):
    results = run(ranks, names)
    for result in results[1:]:
        assert result.tobytes() == results[0].tobytes()
    errors = distance(results[0], exact), distance(results[0], one)
    assert errors[0] <= BOUND, errors
    assert errors[1] <= 1e-3, errors
    print(
        f"{ranks} ranks: equal bits, within 2.4e-3 of float64, 1e-3 of one rank"
    )

half = hidden[:, : HIDDEN // 2] @ down64.T[: HIDDEN // 2]
assert distance(one, half) > BOUND
print("one part only: not within 2.4e-3")
