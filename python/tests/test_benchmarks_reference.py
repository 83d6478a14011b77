# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What benchmarks compute and check kernels with."""

import json
import sys
import unittest
import unittest.mock
from dataclasses import replace

import torch

from .benchmark_blocks import operands, small
from .support import ROOT, fuse_opt

sys.path.insert(0, str(ROOT))

# pylint: disable=wrong-import-position
from benchmarks import checks, mlp_h200  # noqa: E402
from benchmarks.cases import SETS, all_cases  # noqa: E402
from benchmarks.checks import (KEPT_RESULTS,  # noqa: E402
                               count_differences)
from benchmarks.prefill_cases import PREFILL_CHECKED_TOKENS  # noqa: E402
from benchmarks.problem import BF16, FP8, NORMS, Problem  # noqa: E402
from benchmarks.reference import (Chain, Range, activate,  # noqa: E402
                                  aligned_sum, aligned_sum_error,
                                  kernel_scalars, quantize, real_output,
                                  relative_error)


class Reference(unittest.TestCase):

    def test_quantize(self):
        x = torch.tensor([0.0, 447.0, 1e4, -1e4, 17.0, 0.3, float("nan")])
        q = quantize(x, 1.0).float()
        self.assertEqual(q[:5].tolist(), [0, 448, 448, -448, 16])
        self.assertTrue(q[6].isnan())

    def test_orders_of_quantization_differ(self):
        # 175 / 7 lies between two codes; 1/7 is rounded up.
        x, scale = torch.tensor([175.0]), torch.tensor(7.0)
        self.assertEqual(quantize(x, 7.0, divide=True).item(), 24)
        self.assertEqual(quantize(x, (1 / scale).item()).item(), 26)

    def test_activations(self):
        x = torch.linspace(-12, 12, 97, dtype=torch.float64)
        f = torch.nn.functional
        for kind, expected in (("silu", f.silu(x)), ("gelu", f.gelu(x)),
                               ("gelu_tanh", f.gelu(x, approximate="tanh")),
                               ("relu", f.relu(x)), ("relu2", f.relu(x)**2),
                               ("quick_gelu", x * (1.702 * x).sigmoid())):
            torch.testing.assert_close(activate(kind, x), expected,
                                       rtol=1e-9, atol=1e-13)

    def test_scalars(self):
        scales = {"input": 0.02, "up": 0.5, "hidden": 0.25, "down": 2.0}
        problem = small("mlp", FP8, "rms0")
        self.assertEqual(kernel_scalars(problem, scales)["hidden"], 4.0)
        divide = replace(problem, order="divide")
        self.assertEqual(kernel_scalars(divide, scales)["hidden"], 0.25)
        self.assertEqual(kernel_scalars(divide, scales)["down"], 0.5)

    def test_bounds_contain_another_order_of_sums(self):
        # The same chain in f32, as a library computes it.
        problem = small("gated_mlp", BF16, "rms0")
        tensors, scales = operands(problem)
        f = torch.nn.functional
        x = tensors["x"].float()
        n = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        n = (n.bfloat16().float() * tensors["norm_weight"].float()).bfloat16()
        gate = (n.float() @ tensors["gate"].float().t()).bfloat16()
        up = (n.float() @ tensors["up"].float().t()).bfloat16()
        hidden = f.silu(gate.float()).bfloat16().float() * up.float()
        hidden = hidden.bfloat16()
        out = (hidden.float() @ tensors["down"].float().t()).bfloat16()
        chain = Chain(problem, tensors, scales)
        self.assertEqual(chain.input.outside(n), 0)
        self.assertEqual(chain.hidden_from(n).outside(hidden), 0)
        result = chain.output_from(Range.exact(hidden))
        self.assertEqual(result.outside(out), 0)
        self.assertGreater(result.equal(out), 0.9)

    def test_bounds_exclude_a_missing_rounding(self):
        problem = small("gated_mlp", BF16, "none")
        tensors, scales = operands(problem, 32)
        chain = Chain(problem, tensors, scales)
        x = tensors["x"].double()
        gate = activate("silu", x @ tensors["gate"].double().t())
        hidden = (gate * (x @ tensors["up"].double().t())).float().bfloat16()
        self.assertGreater(chain.hidden.outside(hidden), 0)

    def test_aligned_sums_stay_in_their_interval(self):
        generator = torch.Generator().manual_seed(3)
        gate, up = torch.randn(2, 4, 8192, generator=generator)
        hidden = torch.nn.functional.silu(gate) * up
        weight = torch.randn(256, 8192, generator=generator)
        x = quantize(hidden, 448 / 0.8 / hidden.abs().max()).double()
        w = quantize(weight, 448 / weight.abs().max()).double()
        total = x @ w.t()
        for digits, inside in ((13, True), (10, False)):
            error = (aligned_sum(x, w, digits) - total).abs()
            # What simulation says of a sum: a third at most.
            bound = aligned_sum_error(x, w, total) / 2
            self.assertEqual(bool((error < bound).all()), inside, digits)

    def test_nan_is_outside(self):
        bounds = Range.exact(torch.zeros(3))
        self.assertEqual(bounds.outside(torch.tensor([0.0, torch.nan, 1.0])),
                         2)

    def test_chain_is_near_the_real_block(self):
        for family in ("gated_mlp", "mlp"):
            for dtype, limit in ((BF16, 1.2e-2), (FP8, 0.12)):
                for norm in NORMS:
                    last = {"add_stream": True} if norm == "rms0" else {
                        "then_add": True}
                    problem = small(family, dtype, norm, residual=True,
                                    biases=True, **last)
                    tensors, scales = operands(problem)
                    chain = Chain(problem, tensors, scales)
                    with self.subTest(problem.label()):
                        self.assertLess(relative_error(
                            chain.output().mid,
                            real_output(problem, tensors, scales)), limit)

    def test_infinite_error(self):
        self.assertEqual(relative_error(torch.tensor([torch.nan]),
                                        torch.ones(1)), float("inf"))


class Problems(unittest.TestCase):

    def test_text_is_valid(self):
        problems = {replace(case.problem, width=64, hidden=128)
                    for case in all_cases(list(SETS))}
        text = "\n// -----\n".join(problem.to_mlir(8)
                                   for problem in problems)
        fuse_opt(text, "--split-input-file")

    def test_json(self):
        for case in all_cases(["checked"]):
            stored = json.loads(json.dumps(case.problem.to_json()))
            self.assertEqual(Problem.from_json(stored), case.problem)

    def test_names_are_distinct(self):
        names = [case.name() for case in all_cases(list(SETS))]
        self.assertEqual(len(names), len(set(names)))

    def test_kernels_are_checked_with_what_they_serve(self):
        few = (1, 7, 8, 16, 33, 50, 64, 100, 128)
        for most, every, expected in (
                (56, False, [16, 33, 50]), (128, False, list(few)),
                (192, False, [33, 129, 137, 192]),
                (256, True, [129, 200, 256]),
                (512, True, [129, 200, 256, 300, 384, 511, 512]),
                (4096, False, list(PREFILL_CHECKED_TOKENS))):
            self.assertEqual(mlp_h200.choose_tokens(most, "mlp", few, every),
                             expected)
        some = mlp_h200.choose_tokens(512, "mlp", few)
        self.assertIn(512, some)
        self.assertIn(len(some), (3, 4))

    def test_lone_blocks_have_kernels_of_their_own(self):
        names = {case.name() for case in all_cases(["timed"])}
        for shape, tokens in (("2064x8208", 40), ("1024x3072", 104),
                              ("3600x10256", 56), ("5120x13824", 128)):
            self.assertIn(f"gated_mlp-{shape}-fp8-silu-rms0-t{tokens}", names)

    def test_product_has_every_combination_at_every_width(self):
        found = {(case.problem.family, case.problem.dtype, case.problem.act,
                  case.problem.norm, case.problem.width)
                 for case in all_cases(["product"])}
        self.assertEqual(len(found), 2 * 2 * 6 * 4 * 5)

    def test_unknown_activation(self):
        with self.assertRaisesRegex(ValueError, "act is 'mish': expected one "
                                    "of silu, gelu"):
            Problem("mlp", 16, 16, BF16, "mish", None)


class Repeats(unittest.TestCase):

    def count(self, wrong: set[int], repeats: int, results: int = 1) -> int:
        """What is counted where launches of these numbers are wrong."""
        runner = unittest.mock.Mock()
        runner.results = [torch.empty(3, 4, dtype=torch.bfloat16)
                          for _ in range(results)]

        def launch(programmatic: bool = False) -> None:
            for result in runner.results:
                result.fill_(1)
            if runner.call_count - 1 in wrong:
                runner.results[-1][1, 2] = 2
        runner.side_effect = launch
        found = count_differences(runner, repeats)
        self.assertEqual(runner.call_count, repeats)
        return found

    def test_every_launch_counts_once(self):
        some = KEPT_RESULTS
        for results in (1, 2):
            for wrong in (set(), {1}, {some - 1, some, some + 1, 3 * some},
                          {199}, set(range(1, 200))):
                self.assertEqual(self.count(wrong, 200, results), len(wrong))
                # Each result is 24 bytes large.
                for most in (1, 24, 100):
                    with unittest.mock.patch.object(checks, "KEPT_BYTES",
                                                    most):
                        self.assertEqual(self.count(wrong, 200, results),
                                         len(wrong))
        self.assertEqual(self.count({0}, 5), 4)
        self.assertEqual(self.count(set(), 1), 0)

    def test_what_is_not_written_stays_poisoned(self):
        runner = unittest.mock.Mock()
        runner.results = [torch.ones(2, 2, dtype=torch.bfloat16)]
        self.assertEqual(count_differences(runner, 3), 0)
        self.assertTrue(runner.results[0].isnan().all())


if __name__ == "__main__":
    unittest.main()
