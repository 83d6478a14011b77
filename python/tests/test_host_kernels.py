# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for the CPU with packed weights, beside the portable code."""

from __future__ import annotations

import itertools
import platform
import unittest
from collections.abc import Sequence

import torch

from fuse_mlir import native

BF16, F32 = torch.bfloat16, torch.float32
NAMES = {BF16: "bf16", F32: "f32"}
TOKENS = (1, 2, 7, 16, 33, 128, 131)


class Site:
    """One fused op, compiled on both paths.

    Args:
        op: its text; operands are %x and those below.
        order: of operands in its type.
        operands: shapes of all but %x.
        results: widths.
        width: of %x.
        dtype: of all tensors.
        cpu: what the kernel is for.
    """

    def __init__(self, op: str, order: str,
                 operands: dict[str, tuple[int, ...]],
                 results: Sequence[int], width: int,
                 dtype: torch.dtype, cpu: str = "native") -> None:
        name = NAMES[dtype]
        types = {"x": f"tensor<?x{width}x{name}>"}
        for operand, shape in operands.items():
            types[operand] = f"tensor<{'x'.join(map(str, shape))}x{name}>"
        outs = ", ".join(f"tensor<?x{n}x{name}>" for n in results)
        arguments = ", ".join(
            f"%{o}: {t}" + ("" if o == "x" else f' {{fuse.parameter = "{o}"}}')
            for o, t in types.items())
        used = ", ".join(types[o] for o in order.split())
        names = ", ".join(f"%r#{i}" for i in range(len(results)))
        self.text = (
            f"func.func @f({arguments}) -> ({outs}) {{\n"
            f"  %r:{len(results)} = {op} rounding(exact)\n"
            f"    : ({used}) -> ({outs})\n"
            f"  return {names} : {outs}\n}}")
        self.width, self.results, self.dtype = width, results, dtype
        generator = torch.Generator().manual_seed(1)
        self.operands = {
            o: (torch.randn(s, generator=generator)
                * (s[-1] ** -0.5 if len(s) > 1 else 1)).to(dtype)
            for o, s in operands.items()}
        module = native.Module(self.text)
        self.fast = self._bind(module.compile(cpu=cpu))
        self.portable = self._bind(module.compile(portable=True))

    def _bind(self, artifact: native.Artifact) -> native.Instance:
        instance = artifact.load_on(torch.device("cpu")).instance()
        for name, tensor in self.operands.items():
            instance.bind(name, tensor)
        instance.prepare()
        return instance

    def input(self, tokens: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(tokens)
        return torch.randn(tokens, self.width,
                           generator=generator).to(self.dtype)

    def run(self, instance: native.Instance,
            x: torch.Tensor) -> list[torch.Tensor]:
        results = [torch.full((len(x), n), torch.nan, dtype=self.dtype)
                   for n in self.results]
        instance.launch([x], results)
        return results


def gated(width: int, hidden: int, dtype: torch.dtype,
          cpu: str = "native") -> Site:
    return Site("fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) "
                "down(%d) act(silu) then_add(%x)", "x w g u d x",
                {"w": (width,), "g": (hidden, width), "u": (hidden, width),
                 "d": (width, hidden)}, [width], width, dtype, cpu)


def projections(dtype: torch.dtype) -> Site:
    return Site("fuse.norm_linear %x norm(layer %w, %b eps 1.0e-5) "
                "linear(%q bias %c, %k) also([normed])", "x w b q k c",
                {"w": (34,), "b": (34,), "q": (70, 34), "k": (5, 34),
                 "c": (70,)}, [70, 5, 34], 34, dtype)


def dense(dtype: torch.dtype, act: str) -> Site:
    return Site("fuse.mlp %x residual(%x) up(%u bias %b) down(%d bias %c) "
                f"act({act}) add_stream", "x x u b d c",
                {"u": (90, 20), "b": (90,), "d": (20, 90), "c": (20,)},
                [20], 20, dtype)


class HostKernelsTest(unittest.TestCase):
    """The two paths differ in the order of sums alone."""

    def tearDown(self) -> None:
        native.set_num_threads(0)

    def check(self, site: Site, tokens: Sequence[int] = TOKENS) -> None:
        # A sum of K products in another order is off by less than K units of
        # the last place of f32; bf16 moves to a neighbour now and then, and
        # what is computed of it as well.
        relative = 2e-5 if site.dtype == F32 else 2 ** -6
        for count in tokens:
            x = site.input(count)
            for mine, other in zip(site.run(site.fast, x),
                                   site.run(site.portable, x)):
                with self.subTest(tokens=count, text=site.text):
                    self.assertTrue(torch.isfinite(mine).all())
                    scale = other.abs().max().item()
                    difference = (mine.double() - other.double()).abs()
                    self.assertLessEqual(difference.max().item(),
                                         relative * scale)
                    if site.dtype == BF16 and mine.numel() > 100:
                        moved = (mine != other).double().mean().item()
                        self.assertLess(moved, 0.05)

    def test_gated_mlp(self) -> None:
        # Whole panels, and nothing that is whole.
        for dtype, (width, hidden) in itertools.product(
                (F32, BF16), ((64, 192), (66, 70))):
            self.check(gated(width, hidden, dtype))
        # Longer sums than a block, and an odd width.
        self.check(gated(96, 2100, F32), (1, 7, 130))
        self.check(gated(33, 17, F32))

    def test_long_sums_are_no_worse_than_short_ones(self) -> None:
        # Of 4096 terms one after the other, 1.2e-6.
        for width in (256, 4096):
            site = Site("fuse.norm_linear %x norm(rms %w eps 1.0e-6) "
                        "linear(%q)", "x w q", {"w": (width,),
                                                "q": (64, width)},
                        [64], width, F32)
            x = site.input(9)
            wide = x.double()
            scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
            exact = (wide * scale * site.operands["w"].double()
                     ) @ site.operands["q"].double().t()
            error = site.run(site.fast, x)[0].double() - exact
            self.assertLess((error.norm() / exact.norm()).item(), 5e-7)

    def test_projections(self) -> None:
        for dtype in (F32, BF16):
            self.check(projections(dtype))

    def test_activations(self) -> None:
        # Vectors approximate what the portable code calls a library for.
        for act in ("silu", "gelu", "gelu_tanh", "quick_gelu", "relu",
                    "relu2"):
            self.check(dense(F32, act), (3,))
            self.check(dense(BF16, act), (3,))

    @unittest.skipUnless(platform.machine() == "x86_64", "levels of x86-64")
    def test_other_processors(self) -> None:
        # 4 lanes without fma, 8 lanes, 16 lanes without products of pairs.
        for cpu in ("x86-64", "x86-64-v3", "x86-64-v4"):
            for dtype in (F32, BF16):
                try:
                    site = gated(66, 70, dtype, cpu)
                except native.NativeError as error:
                    if "this machine has" not in str(error):
                        raise
                else:
                    self.check(site, (1, 33))

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
        with self.assertRaisesRegex(native.NativeError,
                                    "2000 threads, expected at most 1024"):
            native.set_num_threads(2000)

    def test_only_gpus_are_exclusive(self) -> None:
        with self.assertRaisesRegex(native.NativeError,
                                    "only a CUDA device can be exclusive"):
            native.set_exclusive("cpu")
        with self.assertRaisesRegex(native.NativeError,
                                    "no usable CUDA driver"):
            native.set_exclusive("cuda:0")


if __name__ == "__main__":
    unittest.main()
