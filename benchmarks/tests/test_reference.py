# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the reference computations and checks of kernels."""

import json
import unittest
import unittest.mock
from dataclasses import replace
from pathlib import Path

import torch
from small_blocks import operands, small

from fuse_bench.common import data
from fuse_bench.common.cases import SETS, all_cases
from fuse_bench.common.data import activate, kernel_scalars
from fuse_bench.common.plan import Plan
from fuse_bench.common.prefill_cases import (
    PREFILL_CHECKED_TOKENS,
    choose_tokens,
)
from fuse_bench.common.problem import BF16, FP8, NORMS, ROW_OPERANDS, Problem
from fuse_bench.reference import checks
from fuse_bench.reference.checks import KEPT_RESULTS, count_differences
from fuse_bench.reference.decomposition import (
    Chain,
    Range,
    aligned_sum,
    aligned_sum_error,
    quantize,
    real_output,
    relative_error,
)
from tests.support import fuse_opt


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
        for kind, expected in (
            ("silu", f.silu(x)),
            ("gelu", f.gelu(x)),
            ("gelu_tanh", f.gelu(x, approximate="tanh")),
            ("relu", f.relu(x)),
            ("relu2", f.relu(x) ** 2),
            ("quick_gelu", x * (1.702 * x).sigmoid()),
        ):
            torch.testing.assert_close(
                activate(kind, x), expected, rtol=1e-9, atol=1e-13
            )

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
        self.assertGreater(result.count_equal(out), 0.9 * out.numel())

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
            # The result of simulation for a sum: a third at most.
            bound = aligned_sum_error(x, w, total) / 2
            self.assertEqual(bool((error < bound).all()), inside, digits)

    def test_nan_is_outside(self):
        bounds = Range.exact(torch.zeros(3))
        self.assertEqual(bounds.outside(torch.tensor([0.0, torch.nan, 1.0])), 2)

    def test_chain_is_near_the_real_block(self):
        for family in ("gated_mlp", "mlp"):
            for dtype, limit in ((BF16, 1.2e-2), (FP8, 0.12)):
                for norm in NORMS:
                    last = (
                        {"add_stream": True}
                        if norm == "rms0"
                        else {"then_add": True}
                    )
                    problem = small(
                        family, dtype, norm, residual=True, biases=True, **last
                    )
                    tensors, scales = operands(problem)
                    chain = Chain(problem, tensors, scales)
                    with self.subTest(problem.label()):
                        self.assertLess(
                            relative_error(
                                chain.output().mid,
                                real_output(problem, tensors, scales),
                            ),
                            limit,
                        )

    def test_parts_of_the_tokens_make_the_same_row(self):
        for dtype in (BF16, FP8):
            problem = small(
                "gated_mlp",
                dtype,
                "layer",
                residual=True,
                add_stream=True,
                returns_stream=True,
            )
            tensors, scales = operands(problem)
            chain = Chain(problem, tensors, scales)
            values = {
                "input": chain.input.mid,
                "hidden": chain.hidden.mid,
                "out": chain.output().mid.clone(),
                "stream": chain.stream.mid,
            }
            values["out"][3, 2] += 1
            rows = []
            for size in (2, 5):
                steps: dict[str, checks.Tally] = {}
                for first in range(0, 5, size):
                    part = slice(first, first + size)
                    checks.compare(
                        problem,
                        scales,
                        steps,
                        {
                            role: tensor[part]
                            if role in ROW_OPERANDS
                            else tensor
                            for role, tensor in tensors.items()
                        },
                        {name: value[part] for name, value in values.items()},
                    )
                rows.append(
                    {name: tally.row(name) for name, tally in steps.items()}
                )
            self.assertEqual(rows[0], rows[1])
            row = rows[0]["out"]
            self.assertEqual(
                (row["out_equal"], row["out_outside"]),
                (round(1 - 1 / (5 * 48), 6), 1),
            )
            # The largest values saturate alike in both.
            self.assertEqual(
                rows[0]["input"],
                {"input_equal": 1.0, "input_rel_err": 0.0, "input_outside": 0},
            )
            self.assertEqual(
                row["out_rel_err"],
                checks.short(relative_error(values["out"], chain.output().mid)),
            )

    def test_values_that_are_no_numbers_are_far_away(self):
        tally = checks.Tally()
        tally.add(torch.ones(2), torch.ones(2, dtype=torch.float64))
        self.assertEqual(tally.error(), 0.0)
        tally.add(torch.tensor([torch.nan]), torch.ones(1).double())
        tally.add(torch.ones(2), torch.ones(2).double())
        self.assertEqual(tally.error(), float("inf"))

    def test_nominal_values_need_no_bounds(self):
        for dtype in (BF16, FP8):
            problem = small(
                "gated_mlp", dtype, "layer", biases=True, then_add=True
            )
            tensors, scales = operands(problem)
            whole, nominal = (
                Chain(problem, tensors, scales, bounds)
                for bounds in (True, False)
            )
            for step in ("input", "hidden"):
                self.assertTrue(
                    torch.equal(
                        getattr(whole, step).mid, getattr(nominal, step).mid
                    )
                )
            self.assertTrue(
                torch.equal(whole.output().mid, nominal.output().mid)
            )

    def test_infinite_error(self):
        self.assertEqual(
            relative_error(torch.tensor([torch.nan]), torch.ones(1)),
            float("inf"),
        )


class Problems(unittest.TestCase):
    def test_text_is_valid(self):
        problems = {
            replace(case.problem, width=64, hidden=128)
            for case in all_cases(list(SETS))
        }
        text = "\n// -----\n".join(problem.to_mlir(8) for problem in problems)
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
            (56, False, [16, 33, 50]),
            (128, False, list(few)),
            (192, False, [33, 129, 137, 192]),
            (256, True, [129, 200, 256]),
            (512, True, [129, 200, 256, 300, 384, 511, 512]),
            (4096, False, list(PREFILL_CHECKED_TOKENS)),
        ):
            self.assertEqual(choose_tokens(most, "mlp", few, every), expected)
        some = choose_tokens(512, "mlp", few)
        self.assertIn(512, some)
        self.assertIn(len(some), (3, 4))

    def test_lone_blocks_have_kernels_of_their_own(self):
        names = {case.name() for case in all_cases(["timed"])}
        for shape, tokens in (
            ("2064x8208", 40),
            ("1024x3072", 104),
            ("3600x10256", 56),
            ("5120x13824", 128),
        ):
            self.assertIn(f"gated_mlp-{shape}-fp8-silu-rms0-t{tokens}", names)

    def test_product_has_every_combination_at_every_width(self):
        found = {
            (
                case.problem.family,
                case.problem.dtype,
                case.problem.act,
                case.problem.norm,
                case.problem.width,
            )
            for case in all_cases(["product"])
        }
        self.assertEqual(len(found), 2 * 2 * 6 * 4 * 5)

    def test_every_combination_meets_tiles_in_turn(self):
        tiles: dict[Problem, set[int]] = {}
        for case in all_cases(["product-tiles"]):
            self.assertLess(case.tokens, 128)
            tiles.setdefault(
                replace(case.problem, width=16, hidden=16), set()
            ).add(case.tokens)
        self.assertEqual(len(tiles), 96)
        self.assertEqual({len(found) for found in tiles.values()}, {5})
        self.assertEqual(set.union(*tiles.values()), {8, 16, 40, 56, 64, 104})

    def test_unknown_activation(self):
        with self.assertRaisesRegex(
            ValueError, "act is 'mish': expected one of silu, gelu"
        ):
            Problem("mlp", 16, 16, BF16, "mish", None)


class Repeats(unittest.TestCase):
    def count(self, wrong: set[int], repeats: int, results: int = 1) -> int:
        """What is counted where launches of these numbers are wrong."""
        runner = unittest.mock.Mock()
        runner.results = [
            torch.empty(3, 4, dtype=torch.bfloat16) for _ in range(results)
        ]

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
            for wrong in (
                set(),
                {1},
                {some - 1, some, some + 1, 3 * some},
                {199},
                set(range(1, 200)),
            ):
                self.assertEqual(self.count(wrong, 200, results), len(wrong))
                # Each result is 24 bytes large.
                for most in (1, 24, 100):
                    with unittest.mock.patch.object(checks, "KEPT_BYTES", most):
                        self.assertEqual(
                            self.count(wrong, 200, results), len(wrong)
                        )
        self.assertEqual(self.count({0}, 5), 4)
        self.assertEqual(self.count(set(), 1), 0)

    def test_what_is_not_written_stays_poisoned(self):
        runner = unittest.mock.Mock()
        runner.results = [torch.ones(2, 2, dtype=torch.bfloat16)]
        self.assertEqual(count_differences(runner, 3), 0)
        self.assertTrue(runner.results[0].isnan().all())


class Checks(unittest.TestCase):
    """Checks of kernels that are the reference itself, without a GPU."""

    def rows(
        self,
        problem: Problem,
        change=lambda runner: None,
        fail=lambda tokens: None,
    ) -> list[dict]:
        test = self

        class Runner:
            """What differs from the nominal values."""

            make_workspace = staticmethod(lambda plan: None)

            def __init__(self, plan, module, weights, activations, *_):
                fail(len(activations["x"]))
                tensors = {**weights.tensors, **activations}
                scales = test.scales[-1]
                chain = Chain(problem, tensors, scales)
                kind = torch.float8_e4m3fn if problem.fp8 else torch.bfloat16
                self.stored = [
                    step.mid.to(kind) for step in (chain.input, chain.hidden)
                ]
                self.nominal = [
                    chain.output().mid.bfloat16(),
                    chain.stream.mid.bfloat16(),
                ]
                self.results = [
                    torch.empty_like(value) for value in self.nominal
                ]
                self.intermediate = self.stored.__getitem__

            def __call__(self, programmatic: bool = False) -> None:
                for result, value in zip(self.results, self.nominal):
                    result.copy_(value)
                change(self)

        def calibrate(*arguments):
            self.scales.append(data.calibrate(*arguments))
            return self.scales[-1]

        self.scales: list[dict] = []
        stub = unittest.mock.Mock(
            calibrate=calibrate,
            make_weights=lambda *some: data.make_weights(*some, "cpu"),
            make_activations=lambda *some: data.make_activations(*some, "cpu"),
        )
        launch = unittest.mock.Mock(
            max_tokens=8, workspace_bytes=256, shares_workspace=False
        )
        plan = Plan(problem, Path("k.cubin"), [launch], "c", "d")
        self.assertGreater(checks.memory_bytes(plan, (1, 8)), 2**20)
        with (
            unittest.mock.patch.multiple(
                checks,
                data=stub,
                Runner=Runner,
                PART_TOKENS=3,
                Module=unittest.mock.Mock(),
            ),
            unittest.mock.patch("torch.cuda.synchronize"),
        ):
            return list(checks.check_tokens(plan, (1, 8), 5, 3))

    def test_the_reference_passes(self):
        for dtype in (BF16, FP8):
            problem = small(
                "gated_mlp", dtype, "rms0", residual=True, returns_stream=True
            )
            rows = self.rows(problem)
            self.assertEqual(
                [(row["M"], row["tile"], row["ok"]) for row in rows],
                [(1, 8, True), (8, 8, True)],
            )
            for row in rows:
                self.assertEqual(
                    [
                        row[f"{step}_equal"]
                        for step in ("input", "hidden", "out", "stream")
                    ],
                    [1.0] * 4,
                )
                self.assertEqual(
                    (row["commit"], row["digest"], row["repeats"]),
                    ("c", "d", 3),
                )
                self.assertLess(row["chain_rel_err"], 1e-2)

    def test_what_is_wrong_fails(self):
        def change(runner: unittest.mock.Mock) -> None:
            runner.results[0][-1, 3] += 1

        problem = small("mlp", BF16, "layer")
        self.assertEqual(
            [
                (row["ok"], row["out_outside"])
                for row in self.rows(problem, change)
            ],
            [(False, 1), (False, 1)],
        )

    def test_what_keeps_a_check_from_its_end_is_its_note(self):
        def fail(tokens: int) -> None:
            if tokens == 1:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried\nto")

        first, second = self.rows(small("mlp", BF16, "layer"), fail=fail)
        self.assertEqual(
            first,
            {
                "case": "mlp-48x96-bf16-silu-layer",
                "tile": 8,
                "M": 1,
                "commit": "c",
                "digest": "d",
                "ok": False,
                "note": "CUDA out of memory. Tried to",
            },
        )
        self.assertTrue(second["ok"])
        for note, memory, device in (
            ("CUDA error: out of memory", True, False),
            ("cuMemAlloc: error 2, CUDA_ERROR_OUT_OF_MEMORY", True, False),
            ("error 700, an illegal memory access", False, True),
            ("CUDA error: unspecified", False, True),
            ("hang", False, False),
        ):
            row = {"note": note}
            self.assertEqual(
                (checks.lacks_memory(row), checks.loses_device(row)),
                (memory, device),
            )
        self.assertFalse(checks.loses_device(second))


if __name__ == "__main__":
    unittest.main()
