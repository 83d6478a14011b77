"""Runs the kernels of the portable GPU path on the CPU and compares.

usage: emulate.py kernels.mlir plan.json build-directory

`kernels.mlir` holds a gpu.binary with LLVM bitcode, `plan.json` the launch
plans. The reference is PyTorch in double precision with the roundings that the
ops of the fuse dialect name. Every buffer has guard bytes around it.
"""

import ctypes
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "benchmarks"))

from fuse_bench.common.plan import evaluate  # noqa: E402

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
TYPES = {
    "bf16": BF16,
    "f16": torch.float16,
    "f32": F32,
    "i8": torch.int8,
    "f8E4M3FN": E4M3,
    "f8E5M2": E5M2,
    "i32": torch.int32,
    "i64": torch.int64,
}
GUARD = 64


# What the ops of the fuse dialect mean.


def rms_norm(x, w, eps, offset=0, after=False):
    v = x.to(F32)
    mean = v.to(F64).pow(2).mean(-1, keepdim=True).to(F32)
    n = v * (1 / torch.sqrt(mean + torch.tensor(eps, dtype=F32)))
    scale = w.to(F32) + offset
    if after:
        return (n * scale).to(x.dtype)
    return (n.to(x.dtype).to(F32) * scale.to(w.dtype).to(F32)).to(x.dtype)


def layer_norm(x, w, b, eps):
    v = x.to(F64)
    v = v - v.mean(-1, keepdim=True)
    n = v / torch.sqrt(v.pow(2).mean(-1, keepdim=True) + eps)
    return (n * w.to(F64) + b.to(F64)).to(x.dtype)


def linear(x, w, bias=None, alpha=None, dtype=None):
    y = x.to(F64) @ w.to(F64).T
    if alpha is not None:
        y = y * alpha
    if bias is not None:
        y = y + bias.to(F64)
    return y.to(dtype or x.dtype)


def scale_of(x, w):
    return (torch.as_tensor(x, dtype=F32) * torch.as_tensor(w, dtype=F32)).to(
        F64
    )


def activation(kind, x):
    v = x.to(F64)
    y = {
        "silu": lambda: v / (1 + torch.exp(-v)),
        "quick_gelu": lambda: v / (1 + torch.exp(-1.702 * v)),
        "gelu": lambda: v / 2 * (1 + torch.erf(v / math.sqrt(2))),
        "gelu_tanh": lambda: (
            v
            / 2
            * (1 + torch.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
        ),
        "relu2": lambda: torch.relu(v) ** 2,
    }[kind]()
    return y.to(x.dtype)


def add(a, b):
    return (a.to(F32) + b.to(F32)).to(a.dtype)


def mul(a, b):
    return (a.to(F32) * b.to(F32)).to(a.dtype)


def quantize(x, scale, dtype, divide=False):
    s = torch.tensor(scale, dtype=F32)
    v = x.to(F32) / s if divide else x.to(F32) * (1 / s)
    if dtype == torch.int8:
        return torch.round(v).clamp(-128, 127).to(dtype)
    limit = 448.0 if dtype == E4M3 else 57344.0
    return v.clamp(-limit, limit).to(dtype)


def dequantize(q, scale):
    return (q.to(F32) * torch.tensor(scale, dtype=F32)).to(BF16)


# The functions of ptx-families.mlir.


def mlp_bf16(x, r, w, b, w1, b1, w2, b2):
    s = add(x, r)
    h = activation("gelu", linear(layer_norm(s, w, b, 1e-5), w1, b1))
    return add(s, linear(h, w2, b2)), s


def mlp_f32(x, w1, w2):
    return (linear(activation("relu2", linear(x, w1)), w2),)


def mlp_i8(x, w, w1, w2, s):
    n = quantize(rms_norm(x, w, 1e-6), 2.1e-2, torch.int8)
    h = linear(n, w1, alpha=scale_of(2.1e-2, s), dtype=BF16)
    h = quantize(activation("gelu_tanh", h), 4e-2, torch.int8)
    return (linear(h, w2, alpha=scale_of(4e-2, 9e-4), dtype=BF16),)


def gated_mlp_bf16(x, r, w, g, u, d):
    s = add(x, r)
    n = rms_norm(s, w, 1e-6)
    h = mul(activation("silu", linear(n, g)), linear(n, u))
    return (add(s, linear(h, d)),)


def gated_mlp_f16(x, g, u, d):
    return (
        linear(mul(activation("quick_gelu", linear(x, g)), linear(x, u)), d),
    )


def gated_mlp_f8(x, w, g, u, d):
    n = quantize(rms_norm(x, w, 1e-6, 1, True), 2.1e-2, E4M3)
    gate = linear(n, g, alpha=scale_of(2.1e-2, 1.3e-3), dtype=BF16)
    up = linear(n, u, alpha=scale_of(2.1e-2, 1.1e-3), dtype=BF16)
    h = quantize(mul(activation("gelu_tanh", gate), up), 4e-2, E4M3)
    return (linear(h, d, alpha=scale_of(4e-2, 9e-4), dtype=BF16),)


def gated_mlp_qdq(x, g, u, d):
    n = dequantize(quantize(x, 2.1e-2, E5M2, True), 2.1e-2)
    gate = linear(n, dequantize(g, 1.3e-3))
    up = linear(n, dequantize(u, 1.1e-3))
    h = quantize(mul(activation("silu", gate), up), 4e-2, E5M2, True)
    return (linear(dequantize(h, 4e-2), dequantize(d, 9e-4)),)


def norm_linear(x, w, q, k, b):
    n = rms_norm(x, w, 1e-6)
    return linear(n, q, b), linear(n, k)


def norm_quantize(x, r, w):
    s = add(x, r)
    return quantize(rms_norm(s, w, 1e-6), 2.1e-2, E4M3), s


def act_quantize(g, u):
    return (quantize(mul(activation("silu", g), u), 4e-2, torch.int8, True),)


def group(x, w):
    return (activation("gelu", rms_norm(x, w, 1e-6)),)


def silu_f32(x):
    return (activation("silu", x),)


def gelu_f32(x):
    return (activation("gelu", x),)


def gelu_tanh_f32(x):
    return (activation("gelu_tanh", x),)


# These measure how well functions of math are approximated, relative to |x|.
ACTIVATIONS = {"silu_f32", "gelu_f32", "gelu_tanh_f32"}


# Running kernels.


def build(kernels, directory):
    """Compiles the bitcode in a gpu.binary for this machine."""
    text = open(kernels).read()
    escaped = re.search(
        r'#gpu\.object<.*?, (?:offload = )?"((?:[^"\\]|\\.)*)"', text, re.S
    ).group(1)
    bitcode = re.sub(
        rb"\\(\\|[0-9A-F]{2})",
        lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1], 16)]),
        escaped.encode("latin-1"),
    )
    path = os.path.join(directory, "kernels")
    with open(path + ".bc", "wb") as file:
        file.write(bitcode)
    subprocess.run(["llvm-dis", path + ".bc", "-o", path + ".ll"], check=True)
    ir = open(path + ".ll").read()
    ir = re.sub(r"(?m)^target .*$", "", ir)
    ir = re.sub(r" ?addrspace\(3\)|ptx_kernel ", "", ir)
    for intrinsic, function in (
        ("read.ptx.sreg.tid.x", "fuse_thread_x"),
        ("read.ptx.sreg.ctaid.x", "fuse_block_x"),
        ("read.ptx.sreg.ctaid.y", "fuse_block_y"),
    ):
        ir = ir.replace("@llvm.nvvm." + intrinsic, "@" + function)
    # The number of the barrier is of no interest: there is only one.
    ir = re.sub(
        r"void @llvm\.nvvm\.barrier[\w.]*\((i32)?[^)]*\)",
        "void @fuse_barrier()",
        ir,
    )
    with open(path + ".host.ll", "w") as file:
        file.write(ir)
    runtime = os.path.join(os.path.dirname(__file__), "emulate.c")
    subprocess.run(
        [
            "clang",
            "-w",
            "-O1",
            "-shared",
            "-fPIC",
            path + ".host.ll",
            runtime,
            "-o",
            path + ".so",
            "-lm",
        ],
        check=True,
    )
    return ctypes.CDLL(path + ".so")


class Buffer:
    """Bytes with guards on both sides, full of NaN (or -86) at first."""

    def __init__(self, size):
        self.size = size
        self.data = (ctypes.c_uint8 * (size + 2 * GUARD))(
            *[0xAA] * (size + 2 * GUARD)
        )
        self.address = ctypes.addressof(self.data) + GUARD

    def check(self, name):
        for i in (
            *range(GUARD),
            *range(GUARD + self.size, self.size + 2 * GUARD),
        ):
            if self.data[i] != 0xAA:
                sys.exit(f"{name}: wrote out of bounds, byte {i - GUARD}")

    def copy_in(self, tensor):
        ctypes.memmove(self.address, tensor.contiguous().data_ptr(), self.size)

    def copy_out(self, tensor):
        ctypes.memmove(tensor.data_ptr(), self.address, self.size)


def bytes_of(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def run(library, plan, tensors):
    name = plan["name"]
    symbols = [tensors[a].shape[d] for a, d in plan["symbols"]]
    buffers = [Buffer(t.numel() * t.element_size()) for t in tensors]
    for buffer, tensor in zip(buffers, tensors):
        buffer.copy_in(tensor)
    workspace = [Buffer(evaluate(e, symbols)) for e in plan["workspace"]]
    for launch in plan["launches"]:
        grid = [evaluate(e, symbols) for e in launch["grid"]]
        if 0 in grid:
            continue
        values = []
        for arg in launch["args"]:
            if "arg" in arg:
                values.append(buffers[arg["arg"]].address)
            elif "workspace" in arg:
                values.append(workspace[arg["workspace"]].address)
            else:
                values.append(evaluate(arg["size"], symbols))
        status = library.fuse_launch(
            ctypes.cast(library[launch["kernel"]], ctypes.c_void_p),
            ctypes.c_uint64(grid[0]),
            ctypes.c_uint64(grid[1]),
            ctypes.c_uint32(launch["block"][0]),
            (ctypes.c_uint64 * len(values))(*values),
            ctypes.c_uint32(len(values)),
        )
        if status:
            sys.exit(f"{name}: {launch['kernel']} cannot run, status {status}")
    for buffer in buffers + workspace:
        buffer.check(name)
    for buffer, tensor, info in zip(buffers, tensors, plan["arguments"]):
        if info["result"]:
            buffer.copy_out(tensor)
        else:
            after = torch.empty_like(tensor)
            buffer.copy_out(after)
            if not torch.equal(bytes_of(after), bytes_of(tensor)):
                sys.exit(f"{name}: wrote into an input")


def make(name, index, shape, dtype):
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, dtype=dtype)
    x = torch.randn(shape)
    if dtype in (E4M3, E5M2):
        return (x * 30).to(dtype)
    # Weights keep the size of what they multiply.
    if len(shape) == 2 and shape[0] >= 24 and shape[0] % 8 == 0:
        x = x / math.sqrt(shape[1])
    return x.to(dtype)


# One step of the last rounding, relative to the largest result: sums may run
# in another order, so a value can round the other way.
TOLERANCE = {
    F32: 2e-6,
    torch.float16: 2**-9,
    BF16: 2**-6,
    torch.int8: 1.01 / 128,
    E4M3: 2**-3,
    E5M2: 2**-2,
}


def main(references, make, sizes=(0, 1, 7, 33, 67)):
    """Compares each function with its reference for some numbers of tokens.

    `make` makes the operand `index` of function `name`.
    """
    kernels, plans, directory = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    torch.manual_seed(0)
    library = build(kernels, directory)
    for plan in json.load(open(plans))["functions"]:
        name = plan["name"]
        for tokens in sizes:
            tensors = []
            for index, info in enumerate(plan["arguments"]):
                shape, dynamic = list(info["shape"]), info["shape"].count(-1)
                for i, size in enumerate(shape):
                    if size == -1:
                        shape[i] = 2 if dynamic > 1 and i == 0 else tokens
                dtype = TYPES[info["type"]]
                tensors.append(
                    torch.zeros(shape).to(dtype)
                    if info["result"]
                    else make(name, index, shape, dtype)
                )
            inputs = [
                t for t, i in zip(tensors, plan["arguments"]) if not i["result"]
            ]
            if name in ACTIVATIONS:
                inputs[0] *= torch.logspace(-6, 2, inputs[0].shape[-1])
            results = [
                t for t, i in zip(tensors, plan["arguments"]) if i["result"]
            ]
            for tensor in results:
                if tensor.numel():
                    bytes_of(tensor).fill_(0xAA)
            expected = references[name](*inputs)
            run(library, plan, tensors)
            for got, want in zip(results, expected, strict=True):
                if got.shape != want.shape:
                    sys.exit(f"{name}: shape {got.shape}, not {want.shape}")
                if not want.numel():
                    continue
                error = (got.to(F64) - want.to(F64)).abs()
                error[got.isnan() & want.isnan()] = 0
                limit = (
                    TOLERANCE[want.dtype]
                    * want.to(F64).nan_to_num().abs().max()
                )
                if name in ACTIVATIONS:
                    error, limit = error / inputs[0].to(F64).abs(), 3e-7
                error = error.max()
                if not error <= limit:
                    sys.exit(
                        f"{name}: {tokens} tokens, error {error:.3g}, "
                        f"limit {limit:.3g}"
                    )
        print(f"{name}: right")


if __name__ == "__main__":
    main(globals(), make)
