# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests that kernels of all forms run under compute-sanitizer."""

import unittest
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from fuse_bench.common import row_cases
from fuse_bench.common.cases import blocks
from fuse_bench.common.forms import list_forms, read_schedules
from fuse_bench.common.memcheck_cases import memcheck_cases
from fuse_bench.common.problem import BF16, FP8, Problem
from tests.support import fuse_opt

WIDTHS = (256, 512, 784, 1024, 1536, 2048, 3072, 4096, 8192)
HIDDEN = (
    768,
    2000,
    4112,
    5632,
    6912,
    8192,
    8960,
    10256,
    11008,
    12288,
    14336,
    16384,
    17408,
    18944,
    20480,
    24576,
    28672,
    32768,
    36864,
)
TOKENS = (8, 16, 40, 56, 64, 72, 96, 104, 128, 192, 256, 512, 4096)
RELAXED = {
    "gated_mlp": (("act", "product"), ("gate", "up", "act", "product")),
    "mlp": (("act",), ("up", "act")),
}


def select(functions: list[str], tokens: int | None) -> list[str]:
    """The schedule that is chosen for each function."""
    option = f"=tokens={tokens}" if tokens else ""
    text = "\n".join(
        function.replace("func @", f"func @f{index}", 1)
        for index, function in enumerate(functions)
    )
    found = read_schedules(fuse_opt(text, f"--fuse-select-schedules{option}"))
    if len(found) != len(functions):
        raise AssertionError(
            f"{len(found)} of {len(functions)} ops have a "
            f"schedule for {tokens} tokens"
        )
    return found


def forms_of(problem: Problem, schedule: str) -> set:
    return list_forms(
        schedule,
        problem.family,
        problem.fp8,
        problem.hidden * (2 if problem.gated else 1),
    )


class Forms(unittest.TestCase):
    def test_what_makes_a_form(self):
        fields = (
            "tokens = 128, blocks = 132, split_k = 11, {}weight_stages = 8, "
            "token_stages = 4, max_in_flight = 3, l2_prefetch_stages = 8, "
            "{}partials = f32, tagged_partials = true, {}hint = evict_first, "
            "dependent = true"
        )
        whole = "#tile.schedule<" + fields.format(
            "", "", "smem_epilogue = true, "
        )
        what = ("mlp", "gemm1_tile_m = 256", "gemm2_tile_m = 256")
        self.assertEqual(
            list_forms(whole + ">", "mlp", False, 132 * 256),
            {what, (*what, "bf16")},
        )
        self.assertEqual(
            list_forms(whole + ">", "mlp", True, 133 * 256),
            {(*what, *more) for more in ((), ("fp8",), ("several tiles",))},
        )
        swapped = (
            "#tile.schedule<"
            + fields.format(
                "gemm1_tile_m = 160, gemm2_tile_m = 128, ",
                "publish_throttle_stages = 3, publish_in_flight = 1, ",
                "swap_ab = true, ",
            )
            + ">"
        )
        what = (
            "gated_mlp",
            "swap_ab",
            "gemm1_tile_m = 160",
            "gemm2_tile_m = 128",
        )
        self.assertEqual(
            list_forms(swapped, "gated_mlp", False, 2 * 8976),
            {
                (*what, *more)
                for more in (
                    (),
                    ("bf16",),
                    ("publish_throttle_stages",),
                    ("publish_in_flight",),
                    ("unstaged",),
                    ("idle blocks",),
                )
            },
        )
        many = (
            "#tile.prefill_schedule<tokens = 512, blocks = 132, split_k = "
            "2, stages = 4, group = 16, launches = 1, uneven_split_k = true, "
            "dependent = true>"
        )
        what = ("mlp", "many tokens", "gemm2_tile_m = 256", "launches = 1")
        self.assertEqual(
            list_forms(many, "mlp", True, 768),
            {
                (*what, *more)
                for more in ((), ("fp8",), ("uneven_split_k",), ("ranges",))
            },
        )
        with self.assertRaisesRegex(
            ValueError, "^brisk of a schedule: expected one of blocks, "
        ):
            list_forms(whole + ", brisk = true>", "mlp", True, 768)
        linear = list_forms(whole + ">", "norm_linear", True)
        self.assertIn(("norm_linear", "gemm2_tile_m = 256", "fp8"), linear)

    def test_all_that_are_chosen_run_under_compute_sanitizer(self):
        problems = [
            replace(
                base,
                width=width,
                hidden=hidden,
                skip=skip,
                mode="relaxed" if skip else "exact",
            )
            for base in blocks()
            for skip in ((), *RELAXED[base.family])
            for width in WIDTHS
            for hidden in HIDDEN
        ]
        texts = [problem.to_mlir(None) for problem in problems]
        chosen: dict[tuple[str, ...], str] = {}
        with ThreadPoolExecutor(2) as pool:
            for tokens, schedules in zip(
                TOKENS, pool.map(lambda tokens: select(texts, tokens), TOKENS)
            ):
                for problem, schedule in zip(problems, schedules):
                    for form in forms_of(problem, schedule):
                        chosen.setdefault(
                            form,
                            f"{problem.label()} with "
                            f"{tokens} tokens: {schedule}",
                        )
        run: set[tuple[str, ...]] = set()
        for case in memcheck_cases():
            [schedule] = select([case.problem.to_mlir(case.tokens)], None)
            run |= forms_of(case.problem, schedule)
        self.assertEqual(
            {form: chosen[form] for form in chosen.keys() - run}, {}
        )

    def test_all_linears_that_are_chosen_do(self):
        cases = [
            row_cases.Case(
                "",
                "norm_linear",
                width,
                (
                    "x",
                    "norm_weight",
                    *(f"weight{index}" for index in range(len(outputs))),
                ),
                rows=outputs,
                dtype=dtype,
            )
            for dtype in (BF16, FP8)
            for width in WIDTHS
            for outputs in ((width, 272), (1024,), (4096, 1024, 1024), (12288,))
        ]
        texts = [case.to_mlir() for case in cases]
        chosen = {
            form: (case.width, case.rows, tokens)
            for tokens in TOKENS
            for case, schedule in zip(cases, select(texts, tokens))
            for form in list_forms(schedule, "norm_linear", case.dtype == FP8)
        }
        run: set[tuple[str, ...]] = set()
        for case in row_cases.memcheck_cases():
            if case.family == "norm_linear":
                (schedule,) = select([case.to_mlir()], None)
                run |= list_forms(schedule, "norm_linear", case.dtype == FP8)
        self.assertEqual(
            {form: chosen[form] for form in chosen.keys() - run}, {}
        )


if __name__ == "__main__":
    unittest.main()
