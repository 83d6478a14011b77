# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Verdicts of `verify`, and what `explain` lists."""

import html.parser
import json
import unittest
from types import SimpleNamespace
from unittest import mock

import torch

import fuse_mlir
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.fusion.results import sites_text
from fuse_mlir.reports import report
from fuse_mlir.reports.report import sites_html, sites_json
from tests.models import CHAIN, Block, Net, fuse, needs_library, net

INF, NAN = float("inf"), float("nan")


class Models(unittest.TestCase):
    """V3, on results that are given."""

    def check(self, ours, theirs):
        return report._check_model(
            list(map(torch.tensor, ours)), list(map(torch.tensor, theirs))
        )

    def test_what_is_not_finite_on_both_sides(self):
        for same in (
            [[1.0, NAN]],
            [[INF, 1.0]],
            [[-INF], [2.0]],
            [[]],
            [[1, 2]],
            [[True]],
            [[1 + 2j]],
        ):
            self.assertTrue(self.check(same, same).passed, same)

    def test_what_is_not_finite_on_one_side(self):
        for ours, theirs in (
            ([[1.0, NAN]], [[1.0, 2.0]]),
            ([[1.0, 2.0]], [[1.0, NAN]]),
            ([[1.0, INF]], [[1.0, -INF]]),
            ([[1.0, INF]], [[1.0, NAN]]),
        ):
            found = self.check(ours, theirs)
            self.assertFalse(found.passed, ours)
            self.assertIn("1 values are not finite on one side", found.detail)

    def test_other_results(self):
        found = self.check([[1.0]], [[1.0], [2.0]])
        self.assertFalse(found.passed)
        self.assertIn("shapes [(1,)], unfused [(1,), (1,)]", found.detail)
        self.assertFalse(self.check([[1.0]], [[-1.0]]).passed)
        self.assertFalse(self.check([[1j]], [[-1j]]).passed)


@needs_library
class Sites(unittest.TestCase):
    def test_inputs_that_are_not_finite(self):
        model, x = net(1)
        x[0], x[1, 1] = NAN, INF
        lines = []
        self.assertTrue(
            fuse_mlir.verify(
                model,
                x,
                {CHAIN: "fuse"},
                progress=lambda *line: lines.append(line),
            )
        )
        # Checking a model fuses it first.
        self.assertEqual(
            lines,
            [
                (1, 1, "layers.0.norm+mlp#0: gated_mlp"),
                (1, 1, "layers.0.norm+mlp#0: verified"),
            ],
        )

    def test_a_kernel_that_makes_nan(self):
        model, x = net(1)
        fuse(model, x)
        run = Kernel.run_all

        def wrong(kernel, *args):
            (result,) = run(kernel, *args)
            result[0, 0] = NAN
            return [result]

        lines = []
        with mock.patch.object(Kernel, "run_all", wrong):
            found = fuse_mlir.verify(
                model, x, progress=lambda *line: lines.append(line)
            )
        self.assertEqual(lines, [(1, 1, "layers.0.norm+mlp#0: V2 failed")])
        failed = {c.rung: c.detail for c in found.checks if not c.passed}
        self.assertEqual(set(failed), {"V2", "V3"})
        for detail in failed.values():
            self.assertIn("1 values are not finite on one side", detail)

    def test_nothing_is_cached(self):
        class Caching(Net):
            config = SimpleNamespace(use_cache=True)

            def forward(self, x, use_cache=True):
                seen.append(use_cache)
                return super().forward(x)

        _, x = net(1)
        model, seen = Caching(1).eval(), []
        self.assertTrue(fuse_mlir.verify(model, x))
        fuse_mlir.bench(model, x, repeats=1)
        self.assertEqual(set(seen), {False})
        fuse_mlir.bench(model, {"x": x, "use_cache": True}, repeats=1)
        self.assertIn(True, seen)

    def test_sums_in_order(self):
        model, x = net(1, lambda: Block(8, 2048))
        mlp = model.layers[0].mlp
        fuse(model, x)

        def linear(x, weight):
            total = torch.zeros(len(x), len(weight))
            for i in range(x.shape[1]):
                total += x[:, i : i + 1] * weight[:, i]
            return total

        def run(kernel, inputs, weights):
            normed = model.layers[0].norm._member(inputs[0])
            hidden = torch.nn.functional.silu(
                linear(normed, mlp.gate.weight)
            ) * linear(normed, mlp.up.weight)
            return [linear(hidden, mlp.down.weight) * factor]

        for factor, failed in ((1.0, []), (1 + 2.0**-18, ["V2"])):
            with mock.patch.object(Kernel, "run_all", run):
                found = fuse_mlir.verify(model, x)
            self.assertEqual(
                [c.rung for c in found.checks if not c.passed],
                failed,
                str(found),
            )

    def test_what_overflows(self):
        model, x = net(1)
        model.half()
        with torch.no_grad():
            model.layers[0].mlp.down.weight.mul_(1e5)
            model.layers[0].mlp.up.weight.mul_(100)
        x = x.half()
        self.assertFalse(model(x).isfinite().all())
        fuse(model, x)
        self.assertTrue(fuse_mlir.verify(model, x))

    def test_fused_sites_are_no_missed_chains(self):
        model, x = net(2)
        before = fuse_mlir.explain(model, inputs=x, only_faster=False)
        fuse(model, x)
        after = fuse_mlir.explain(model, inputs=x, only_faster=False)
        self.assertEqual([s.status for s in before], ["could fuse"] * 2)
        self.assertEqual(
            [(s.parent, s.id, s.status) for s in after],
            [(s.parent, s.id, "fused") for s in before],
        )

    def test_a_module_that_is_an_mlp_itself(self):
        model, x = net(1)
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "MLP has no chain to fuse.*; fuse_mlir.compile_module",
        ):
            fuse_mlir.fuse_modules(model.layers[0].mlp, inputs=x)
        with self.assertRaises(fuse_mlir.FuseError) as caught:
            fuse_mlir.fuse_modules(model.layers[0].norm, inputs=x)
        self.assertNotIn("fuse_mlir.compile_module", str(caught.exception))


class Page(html.parser.HTMLParser):
    """Tags and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


@needs_library
class Names(unittest.TestCase):
    """Modules may be called anything that has no dot."""

    NAMES = (
        "<script>alert(1)</script>",
        "b&\"'",
        "a b, c",
        "x[0]*",
        "нôrm",
        "{a+b#1}",
        "n\nl\x1b[1m",
    )

    def test_reports_have_all_of_them(self):
        class Named(Block):
            def forward(self, x):
                names = list(self._modules)
                return x + self._modules[names[1]](self._modules[names[0]](x))

        for name in self.NAMES:
            with self.subTest(name=name):
                model, x = net(1, Named)
                layer = model.layers[0]
                layer._modules = {name: layer.norm, "mlp": layer.mlp}
                result = fuse_mlir.fuse_modules(
                    model, inputs=x, only_faster=False
                )
                self.assertEqual(result[0].members[0], f"layers.0.{name}")
                page = Page(sites_html(result, title=name))
                # The page has only its own script, which sorts.
                self.assertEqual(
                    [tag for tag, _ in page.tags].count("script"), 1
                )
                self.assertIn(f"layers.0.{name}+mlp#0", page.texts)
                self.assertFalse(
                    [
                        a
                        for _, attrs in page.tags
                        for a in attrs
                        if a in ("src", "href")
                    ]
                )
                self.assertEqual(
                    json.loads(sites_json(result))[0]["members"],
                    result[0].members,
                )
                # One line per site, whatever its name does to terminals.
                text = sites_text(result)
                self.assertEqual(len(text.splitlines()), 2)
                self.assertNotIn("\x1b", text)
                found = fuse_mlir.verify(model, x)
                self.assertTrue(found)
                # Five checks and totals, three lines on unchecked properties.
                self.assertEqual(len(str(found).splitlines()), 8)
                fuse_mlir.unfuse_modules(model, result[0].id)


if __name__ == "__main__":
    unittest.main()
