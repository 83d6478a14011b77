# REQUIRES: torch
# RUN: %python %s %t | FileCheck %s
"""Fused ops against the same chain run op by op, at every boundary.

Each layer op is compiled and run as a function of its own; what it returns is
the input of the next. In exact mode the fused ops that end at a boundary give
the same bytes there: normed and quantized input, projections, quantized hidden
value, result. The last case looks into the MLP itself: with a down projection
that is the identity, its result in f32 is the scale times the stored hidden
value.

CHECK: f8E4M3FN silu reciprocal: 6 boundaries byte-equal
CHECK: f8E4M3FN gelu_tanh divide: 6 boundaries byte-equal
CHECK: f8E5M2 gelu reciprocal: 6 boundaries byte-equal
CHECK: i8 silu reciprocal: 6 boundaries byte-equal
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from fuse_mlir.quantized.value_range import quantize

TOKENS, WIDTH, HIDDEN = 19, 48, 72
SCALES = {
    "input": 0.011,
    "gate": 7e-4,
    "up": 9e-4,
    "hidden": 0.004,
    "down": 6e-4,
}
IDENTITY = {**SCALES, "down": 1.0}


class Case:
    """One storage type, activation and order."""

    def __init__(self, root: Path, storage: str, act: str, order: str) -> None:
        self.root, self.storage, self.act = root, storage, act
        self.order = order
        root.mkdir(parents=True, exist_ok=True)
        generator = torch.Generator().manual_seed(3)

        def draw(*shape):
            return torch.randn(shape, generator=generator)

        stored = {"w": (draw(WIDTH) * 0.1 + 1.0).bfloat16()}
        for name, shape in (
            ("gate", (HIDDEN, WIDTH)),
            ("up", (HIDDEN, WIDTH)),
            ("down", (WIDTH, HIDDEN)),
        ):
            weight = draw(*shape) * shape[1] ** -0.5
            stored[name] = quantize(weight, SCALES[name], storage)
        identity = torch.eye(HIDDEN)
        stored["identity"] = quantize(identity, 1.0, storage)
        save_file(stored, root / "w.safetensors")
        # A few values saturate, and a token of zeros is there.
        x = draw(TOKENS, WIDTH) * 2.0
        x[5] = 0.0
        x[7, 3] = 300.0
        self.x = x.bfloat16().float().numpy()
        self.residual = draw(TOKENS, WIDTH).bfloat16().float().numpy()

    def types(self, *names: str) -> dict[str, str]:
        known = {
            "x": f"?x{WIDTH}xbf16",
            "r": f"?x{WIDTH}xbf16",
            "w": f"{WIDTH}xbf16",
            "q": f"?x{WIDTH}x{self.storage}",
            "g": f"?x{HIDDEN}xbf16",
            "u": f"?x{HIDDEN}xbf16",
            "h": f"?x{HIDDEN}x{self.storage}",
            "gate": f"{HIDDEN}x{WIDTH}x{self.storage}",
            "up": f"{HIDDEN}x{WIDTH}x{self.storage}",
            "down": f"{WIDTH}x{HIDDEN}x{self.storage}",
            "identity": f"{HIDDEN}x{HIDDEN}x{self.storage}",
        }
        return {name: f"tensor<{known[name]}>" for name in names}

    def run(
        self,
        op: str,
        operands: list[str],
        results: list[str],
        arrays: list[np.ndarray],
    ) -> list[np.ndarray]:
        """Runs a function of one op; operands are named by their types."""
        types = self.types(*operands)
        arguments = ", ".join(
            f"%{n}: {t}"
            + (
                f' {{fuse.parameter = "{n}"}}'
                if n in ("w", "gate", "up", "down", "identity")
                else ""
            )
            for n, t in types.items()
        )
        names = ", ".join(f"%y{i}" for i in range(len(results)))
        outs = ", ".join(f"tensor<{r}>" for r in results)
        source = self.root / "f.mlir"
        source.write_text(
            f"func.func @f({arguments}) -> ({outs}) {{\n  {names} = {op}\n"
            f"    : ({', '.join(types.values())}) -> ({outs})\n"
            f"  return {names} : {outs}\n}}\n"
        )
        command = [
            "fuse-run",
            source,
            f"--weights={self.root / 'w.safetensors'}",
        ]
        for i, array in enumerate(arrays):
            np.save(self.root / f"in{i}.npy", array)
            command.append(f"--input={self.root / f'in{i}.npy'}")
        paths = [self.root / f"out{i}.npy" for i in range(len(results))]
        subprocess.run(command + [f"--output={p}" for p in paths], check=True)
        return [np.load(path) for path in paths]

    def clause(self, *names: str, scales=None) -> str:
        listed = "".join(f", {n} = {(scales or SCALES)[n]}" for n in names)
        order = ", order = divide" if self.order == "divide" else ""
        return f"scales({self.storage}{listed}{order}) rounding(exact)"

    def staged(self) -> dict[str, np.ndarray]:
        """The chain, one compiled function per op."""
        order = " order divide" if self.order == "divide" else ""
        wide, hidden = f"?x{WIDTH}xbf16", f"?x{HIDDEN}xbf16"
        (stream,) = self.run(
            "fuse.residual_add %x, %r",
            ["x", "r"],
            [wide],
            [self.x, self.residual],
        )
        (normed,) = self.run(
            "fuse.rms_norm %x weight(%w) eps 1.0e-6",
            ["x", "w"],
            [wide],
            [stream],
        )
        (q,) = self.run(
            f"fuse.quantize %x scale {SCALES['input']}{order}",
            ["x"],
            [f"?x{WIDTH}x{self.storage}"],
            [normed],
        )
        (gate,) = self.run(
            f"fuse.linear %q, %gate scales({SCALES['input']}, "
            f"{SCALES['gate']})",
            ["q", "gate"],
            [hidden],
            [q],
        )
        (up,) = self.run(
            f"fuse.linear %q, %up scales({SCALES['input']}, {SCALES['up']})",
            ["q", "up"],
            [hidden],
            [q],
        )
        # `activation` prints its types in another form.
        act = self.activation(gate)
        (product,) = self.run(
            "fuse.gated_mul %g, %u", ["g", "u"], [hidden], [act, up]
        )
        (h,) = self.run(
            f"fuse.quantize %g scale {SCALES['hidden']}{order}",
            ["g"],
            [f"?x{HIDDEN}x{self.storage}"],
            [product],
        )
        (real,) = self.run(
            f"fuse.dequantize %h scale {SCALES['hidden']}",
            ["h"],
            [f"?x{HIDDEN}xf32"],
            [h],
        )
        (y,) = self.run(
            f"fuse.linear %h, %down scales({SCALES['hidden']}, "
            f"{SCALES['down']})",
            ["h", "down"],
            [wide],
            [h],
        )
        return {
            "input": q,
            "gate": gate,
            "up": up,
            "hidden": h,
            "hidden in the mlp": real,
            "result": y,
        }

    def activation(self, gate: np.ndarray) -> np.ndarray:
        source = self.root / "act.mlir"
        source.write_text(
            f"func.func @f(%x: tensor<?x{HIDDEN}xbf16>) -> "
            f"tensor<?x{HIDDEN}xbf16> {{\n"
            f"  %y = fuse.activation {self.act} %x : tensor<?x{HIDDEN}xbf16> "
            f"-> tensor<?x{HIDDEN}xbf16>\n"
            f"  return %y : tensor<?x{HIDDEN}xbf16>\n}}\n"
        )
        np.save(self.root / "g.npy", gate)
        subprocess.run(
            [
                "fuse-run",
                source,
                f"--input={self.root / 'g.npy'}",
                f"--output={self.root / 'a.npy'}",
            ],
            check=True,
        )
        return np.load(self.root / "a.npy")

    def fused(self) -> dict[str, np.ndarray]:
        """Fused ops that end at each boundary, from the original input."""
        head = "%x residual(%r) norm(rms %w eps 1.0e-6)"
        data = [self.x, self.residual]
        hidden = f"?x{HIDDEN}xbf16"
        (q,) = self.run(
            f"fuse.norm_quantize {head} {self.clause('input')}",
            ["x", "r", "w"],
            [f"?x{WIDTH}x{self.storage}"],
            data,
        )
        weights = {**SCALES, "weight0": SCALES["gate"], "weight1": SCALES["up"]}
        gate, up = self.run(
            f"fuse.norm_linear {head} linear(%gate, %up) "
            + self.clause("input", "weight0", "weight1", scales=weights),
            ["x", "r", "w", "gate", "up"],
            [hidden, hidden],
            data,
        )
        (h,) = self.run(
            f"fuse.act_quantize %g times(%u) act({self.act}) "
            + self.clause("hidden"),
            ["g", "u"],
            [f"?x{HIDDEN}x{self.storage}"],
            [gate, up],
        )
        mlp = f"fuse.gated_mlp {head} gate(%gate) up(%up)"
        names = ("input", "gate", "up", "hidden", "down")
        (real,) = self.run(
            f"{mlp} down(%identity) act({self.act}) "
            + self.clause(*names, scales=IDENTITY),
            ["x", "r", "w", "gate", "up", "identity"],
            [f"?x{HIDDEN}xf32"],
            data,
        )
        (y,) = self.run(
            f"{mlp} down(%down) act({self.act}) " + self.clause(*names),
            ["x", "r", "w", "gate", "up", "down"],
            [f"?x{WIDTH}xbf16"],
            data,
        )
        return {
            "input": q,
            "gate": gate,
            "up": up,
            "hidden": h,
            "hidden in the mlp": real,
            "result": y,
        }


for storage, act, order in (
    ("f8E4M3FN", "silu", "reciprocal"),
    ("f8E4M3FN", "gelu_tanh", "divide"),
    ("f8E5M2", "gelu", "reciprocal"),
    ("i8", "silu", "reciprocal"),
):
    case = Case(Path(sys.argv[1]) / f"{storage}-{act}", storage, act, order)
    staged, fused = case.staged(), case.fused()
    assert staged.keys() == fused.keys()
    for boundary, expected in staged.items():
        assert len(np.unique(expected)) > 8, boundary
        assert expected.dtype == fused[boundary].dtype, boundary
        assert expected.tobytes() == fused[boundary].tobytes(), (
            storage,
            act,
            boundary,
            np.abs(expected - fused[boundary]).max(),
        )
    print(f"{storage} {act} {order}: {len(staged)} boundaries byte-equal")
