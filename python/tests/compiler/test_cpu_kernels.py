# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for the CPU with packed weights, compared with portable code."""

from __future__ import annotations

import itertools
import json
import platform
import unittest
from collections.abc import Sequence

import torch

from fuse_mlir import errors, native

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
NAMES = {BF16: "bf16", F16: "f16", F32: "f32"}
TOKENS = (1, 2, 7, 16, 33, 128, 131)


class Site:
    """A function, compiled on both paths.

    Args:
        body: its ops. Operands are %x and the following; results are %r#i.
        operands: shapes of all operands except %x.
        results: widths.
        width: of %x.
        dtype: of all tensors.
        cpu: the CPU that the kernel is compiled for.
    """

    def __init__(
        self,
        body: str,
        operands: dict[str, tuple[int, ...]],
        results: Sequence[int],
        width: int,
        dtype: torch.dtype,
        cpu: str = "native",
    ) -> None:
        name = NAMES[dtype]
        types = {"x": f"tensor<?x{width}x{name}>"}
        for operand, shape in operands.items():
            types[operand] = f"tensor<{'x'.join(map(str, shape))}x{name}>"
        outs = ", ".join(f"tensor<?x{n}x{name}>" for n in results)
        arguments = ", ".join(
            f"%{o}: {t}" + ("" if o == "x" else f' {{fuse.parameter = "{o}"}}')
            for o, t in types.items()
        )
        names = ", ".join(f"%r#{i}" for i in range(len(results)))
        self.text = (
            f"func.func @f({arguments}) -> ({outs}) {{\n{body}\n"
            f"  return {names} : {outs}\n}}"
        )
        self.width, self.results, self.dtype = width, results, dtype
        generator = torch.Generator().manual_seed(1)
        self.operands = {
            o: (
                torch.randn(s, generator=generator)
                * (s[-1] ** -0.5 if len(s) > 1 else 1)
            ).to(dtype)
            for o, s in operands.items()
        }
        module = native.Module(self.text)
        artifact = module.compile(cpu=cpu)
        manifest = json.loads(artifact.sections(native.SECTION_MANIFEST)[0])
        self.is_scheduled = "scheduled" in manifest["functions"][0]["cpu"]
        self.fast = self._bind(artifact)
        self.portable = self._bind(module.compile(portable=True))

    @classmethod
    def of_op(
        cls,
        op: str,
        order: str,
        operands: dict[str, tuple[int, ...]],
        results: Sequence[int],
        width: int,
        dtype: torch.dtype,
        cpu: str = "native",
    ) -> Site:
        """One fused op; `order` is that of the operands in its type."""
        name = NAMES[dtype]
        shapes = {"x": ("?", width), **operands}
        used = ", ".join(
            f"tensor<{'x'.join(map(str, shapes[o]))}x{name}>"
            for o in order.split()
        )
        outs = ", ".join(f"tensor<?x{n}x{name}>" for n in results)
        return cls(
            f"  %r:{len(results)} = {op} rounding(exact)\n"
            f"    : ({used}) -> ({outs})",
            operands,
            results,
            width,
            dtype,
            cpu,
        )

    def _bind(self, artifact: native.Artifact) -> native.Instance:
        instance = artifact.load_on(torch.device("cpu")).instance()
        for name, tensor in self.operands.items():
            instance.bind(name, tensor)
        instance.prepare()
        return instance

    def input(self, tokens: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(tokens)
        return torch.randn(tokens, self.width, generator=generator).to(
            self.dtype
        )

    def run(
        self, instance: native.Instance, x: torch.Tensor
    ) -> list[torch.Tensor]:
        results = [
            torch.full((len(x), n), torch.nan, dtype=self.dtype)
            for n in self.results
        ]
        instance.launch([x], results)
        return results


def gated(
    width: int, hidden: int, dtype: torch.dtype, cpu: str = "native"
) -> Site:
    return Site.of_op(
        "fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) "
        "down(%d) act(silu) then_add(%x)",
        "x w g u d x",
        {
            "w": (width,),
            "g": (hidden, width),
            "u": (hidden, width),
            "d": (width, hidden),
        },
        [width],
        width,
        dtype,
        cpu,
    )


def projections(dtype: torch.dtype) -> Site:
    return Site.of_op(
        "fuse.norm_linear %x norm(layer %w, %b eps 1.0e-5) "
        "linear(%q bias %c, %k) also([normed])",
        "x w b q k c",
        {"w": (34,), "b": (34,), "q": (70, 34), "k": (5, 34), "c": (70,)},
        [70, 5, 34],
        34,
        dtype,
    )


def dense(dtype: torch.dtype, act: str) -> Site:
    return Site.of_op(
        "fuse.mlp %x residual(%x) up(%u bias %b) down(%d bias %c) "
        f"act({act}) add_stream",
        "x x u b d c",
        {"u": (90, 20), "b": (90,), "d": (20, 90), "c": (20,)},
        [20],
        20,
        dtype,
    )


def norm_after(dtype: torch.dtype, norm: str) -> Site:
    """A dense MLP whose sum with the input is normalized, as in BERT."""
    x, w = f"tensor<?x20x{NAMES[dtype]}>", f"tensor<20x{NAMES[dtype]}>"
    u, d = f"tensor<90x20x{NAMES[dtype]}>", f"tensor<20x90x{NAMES[dtype]}>"
    op, vectors, of = {
        "layer": ("layer_norm", "weight(%w) bias(%b) eps 1.0e-12", [w, w]),
        "rms": ("rms_norm", "weight(%w) eps 1.0e-6", [w]),
    }[norm]
    return Site(
        "  %y = fuse.mlp %x up(%u) down(%d) act(gelu) then_add(%x)\n"
        f"    rounding(exact) : ({x}, {u}, {d}, {x}) -> {x}\n"
        f"  %r:1 = fuse.{op} %y {vectors} : ({', '.join([x, *of])}) -> {x}",
        {"u": (90, 20), "d": (20, 90), "w": (20,), "b": (20,)},
        [20],
        20,
        dtype,
    )


def conv1d(dtype: torch.dtype) -> Site:
    """Weights of [in, out] and an activation that is written out."""
    name = NAMES[dtype]
    x, h, n = (
        f"tensor<?x20x{name}>",
        f"tensor<?x90x{name}>",
        f"tensor<20x{name}>",
    )
    u, ut = f"tensor<20x90x{name}>", f"tensor<90x20x{name}>"

    def elementwise(result: str, inputs: str, op: str) -> str:
        names = inputs.split()
        maps = ", ".join(
            ["affine_map<(d0, d1) -> (d0, d1)>"] * (len(names) + 1)
        )
        body, used = "", []
        for i, _ in enumerate(names):
            used.append(f"%w{i}" if dtype == BF16 else f"%i{i}")
            if dtype == BF16:
                body += f"    %w{i} = arith.extf %i{i} : bf16 to f32\n"
        body += f"    %v = {op} {', '.join([*used, *op_constant(op)])} : f32\n"
        last = "%v"
        if dtype == BF16:
            body += "    %t = arith.truncf %v : f32 to bf16\n"
            last = "%t"
        head = ", ".join(f"%i{i}: {name}" for i, _ in enumerate(names))
        types = ", ".join([h] * len(names))
        return (
            f"  {result} = linalg.generic {{indexing_maps = [{maps}],\n"
            '    iterator_types = ["parallel", "parallel"]}\n'
            f"    ins({', '.join(names)} : {types}) outs(%e : {h}) {{\n"
            f"  ^bb0({head}, %o: {name}):\n{body}"
            f"    linalg.yield {last} : {name}\n  }} -> {h}\n"
        )

    def op_constant(op: str) -> list[str]:
        return ["%half"] if op == "arith.mulf" else []

    return Site(
        "  %half = arith.constant 0.5 : f32\n"
        "  %c0 = arith.constant 0 : index\n"
        f"  %m = tensor.dim %x, %c0 : {x}\n"
        f"  %e = tensor.empty(%m) : {h}\n"
        f"  %e0 = tensor.empty() : {ut}\n"
        f"  %ut = linalg.transpose ins(%u : {u}) outs(%e0 : {ut})\n"
        "    permutation = [1, 0]\n"
        f"  %h = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%ut)\n"
        f"    rounding(exact) : ({x}, {n}, {ut}) -> {h}\n"
        + elementwise("%a", "%h", "arith.mulf")
        + elementwise("%b", "%h", "math.tanh")
        + elementwise("%p", "%a %b", "arith.addf")
        + f"  %e1 = tensor.empty() : {u}\n"
        f"  %dt = linalg.transpose ins(%d : {ut}) outs(%e1 : {u})\n"
        "    permutation = [1, 0]\n"
        f"  %r:1 = fuse.linear %p, %dt : ({h}, {u}) -> {x}",
        {"n": (20,), "u": (20, 90), "d": (90, 20)},
        [20],
        20,
        dtype,
    )


class HostKernelsTest(unittest.TestCase):
    """The two paths differ in the order of sums alone."""

    def tearDown(self) -> None:
        native.set_num_threads(0)

    def check(self, site: Site, tokens: Sequence[int] = TOKENS) -> None:
        # A sum of K products in another order differs by less than K units in
        # the last place of f32. Rounding to bf16 sometimes gives a neighbor,
        # which also changes later results.
        relative = 2e-5 if site.dtype == F32 else 2**-6
        self.assertTrue(site.is_scheduled, site.text)
        for count in tokens:
            x = site.input(count)
            for mine, other in zip(
                site.run(site.fast, x), site.run(site.portable, x)
            ):
                with self.subTest(tokens=count, text=site.text):
                    self.assertTrue(torch.isfinite(mine).all())
                    scale = other.abs().max().item()
                    difference = (mine.double() - other.double()).abs()
                    self.assertLessEqual(
                        difference.max().item(), relative * scale
                    )
                    if site.dtype == BF16 and mine.numel() > 100:
                        moved = (mine != other).double().mean().item()
                        self.assertLess(moved, 0.05)

    def check_rows_alone(self, site: Site) -> None:
        """A row has the same bits alone and among others."""
        x = site.input(33)
        together = site.run(site.fast, x)
        for row in (0, 5, 32):
            alone = site.run(site.fast, x[row : row + 1].contiguous())
            for mine, other in zip(alone, together):
                self.assertTrue(torch.equal(mine[0], other[row]))

    def test_gated_mlp(self) -> None:
        # Whole panels, and nothing that is whole.
        for dtype, (width, hidden) in itertools.product(
            (F32, BF16), ((64, 192), (66, 70))
        ):
            self.check(gated(width, hidden, dtype))
        # Longer sums than a block, and an odd width.
        self.check(gated(96, 2100, F32), (1, 7, 130))
        self.check(gated(33, 17, F32))

    def test_long_sums_are_no_worse_than_short_ones(self) -> None:
        # Of 4096 terms one after the other, 1.2e-6.
        for width in (256, 4096):
            site = Site.of_op(
                "fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%q)",
                "x w q",
                {"w": (width,), "q": (64, width)},
                [64],
                width,
                F32,
            )
            x = site.input(9)
            wide = x.double()
            scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
            exact = (
                wide * scale * site.operands["w"].double()
            ) @ site.operands["q"].double().t()
            error = site.run(site.fast, x)[0].double() - exact
            self.assertLess((error.norm() / exact.norm()).item(), 5e-7)

    def test_projections(self) -> None:
        for dtype in (F32, BF16):
            self.check(projections(dtype))

    def test_norm_after_the_mlp(self) -> None:
        for dtype, norm in itertools.product((F32, BF16), ("layer", "rms")):
            site = norm_after(dtype, norm)
            self.check(site)
            self.check_rows_alone(site)

    def test_transposed_weights_and_elementwise_ops(self) -> None:
        for dtype in (F32, BF16):
            site = conv1d(dtype)
            self.check(site)
            self.check_rows_alone(site)

    def test_activations(self) -> None:
        # Vector code approximates functions for which portable code calls a
        # library.
        for act in ("silu", "gelu", "gelu_tanh", "quick_gelu", "relu", "relu2"):
            self.check(dense(F32, act), (3,))
            self.check(dense(BF16, act), (3,))

    @unittest.skipUnless(platform.machine() == "x86_64", "levels of x86-64")
    def test_other_processors(self) -> None:
        # 4 lanes without fma, 8 lanes, 16 lanes without products of pairs.
        for cpu in ("x86-64", "x86-64-v3", "x86-64-v4"):
            for dtype in (F32, BF16):
                try:
                    site = gated(66, 70, dtype, cpu)
                except errors.NativeError as error:
                    if "this machine has" not in str(error):
                        raise
                else:
                    self.check(site, (1, 33))

    @unittest.skipUnless(platform.machine() == "x86_64", "levels of x86-64")
    def test_processor_without_f16(self) -> None:
        # The code calls functions of libgcc.
        site = gated(66, 70, F16, "x86-64")
        x = site.input(3)
        torch.testing.assert_close(
            site.run(site.fast, x), site.run(site.portable, x)
        )

    def test_threads_and_tokens_do_not_change_results(self) -> None:
        for dtype in (F32, BF16):
            site = gated(66, 70, dtype)
            x = site.input(131)
            native.set_num_threads(1)
            expected = site.run(site.fast, x)[0]
            for threads in (2, 4):
                native.set_num_threads(threads)
                self.assertEqual(native.num_threads(), threads)
                for count in TOKENS:
                    found = site.run(site.fast, x[:count].contiguous())[0]
                    self.assertTrue(torch.equal(found, expected[:count]))

    def test_special_values(self) -> None:
        for dtype in (F32, BF16):
            site = gated(64, 192, dtype)
            x = site.input(4)
            clean = site.run(site.fast, x)[0]
            x[1, 5], x[2, 7] = torch.nan, torch.inf
            found = site.run(site.fast, x)[0]
            other = site.run(site.portable, x)[0]
            self.assertTrue(torch.equal(found.isnan(), other.isnan()))
            self.assertTrue(found[1].isnan().all())
            # Rows do not reach each other.
            self.assertTrue(torch.equal(found[[0, 3]], clean[[0, 3]]))

    def test_no_tokens(self) -> None:
        site = gated(64, 192, F32)
        self.assertEqual(site.run(site.fast, site.input(0))[0].shape, (0, 64))

    def test_number_of_threads(self) -> None:
        with self.assertRaisesRegex(
            errors.NativeError, "2000 threads, expected at most 1024"
        ):
            native.set_num_threads(2000)

    def test_only_gpus_are_exclusive(self) -> None:
        with self.assertRaisesRegex(
            errors.NativeError, "only a CUDA device can be exclusive"
        ):
            native.set_exclusive("cpu")
        with self.assertRaisesRegex(
            errors.NativeError, "no usable CUDA driver"
        ):
            native.set_exclusive("cuda:0")


if __name__ == "__main__":
    unittest.main()
