# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that are distributed over two and four processes."""

import time
import unittest

import fuse_mlir
from tests.distributed import cases
from tests.distributed.pool import PATIENCE, Pool
from tests.models import needs_library

GATED = "gated_mlp"
NOTE = "adds up {} partial results in float32"


@needs_library
class TwoRanks(unittest.TestCase):
    pool: Pool

    @classmethod
    def setUpClass(cls) -> None:
        cls.pool = Pool(2)
        cls.addClassCleanup(cls.pool.close)

    def whole_life(self, kind, family, dtype="bfloat16", **settings):
        ranks = self.pool.run(cases.whole_life, kind, dtype, settings)
        for rank in ranks:
            self.assertEqual(rank["sites"], ranks[0]["sites"])
            fused = [s for s in rank["sites"] if s[1] == "fused"]
            sums = [s for s in fused if s[3] == NOTE.format(2)]
            self.assertEqual([s[2] for s in sums], [(family,)] * 2)
            self.assertEqual(
                [s[2] for s in fused if s not in sums], [("norm_linear",)] * 2
            )
            for key in ("equal on ranks", "repeats", "restored"):
                self.assertTrue(rank[key], key)
            self.assertTrue(rank["keys"])
            self.assertTrue(rank["files"])
            limit = 2e-6 if dtype == "float32" else 0.012
            self.assertLess(rank["error"], limit)
            self.assertEqual([c for c in rank["checks"] if not c[1]], [])
            levels = [c[0] for c in rank["checks"]]
            self.assertEqual((levels.count("VR"), levels.count("VG")), (3, 2))
        return ranks[0]

    def test_llama(self):
        self.whole_life("llama", GATED, "float32")

    def test_qwen3(self):
        self.whole_life("qwen3", GATED)

    def test_mistral_in_float16(self):
        self.whole_life("mistral", GATED, "float16")

    def test_norm_after_the_sum_of_gemma(self):
        sites = self.whole_life("gemma3_text", GATED)["sites"]
        refused = [s for s in sites if s[1] == "refused"]
        self.assertEqual(len(refused), 2)
        for site in refused:
            self.assertRegex(
                site[4],
                "FUSE-N244 reduction-not-last: the result of '.*down_proj' is "
                "a sum over ranks, and the site goes on after it",
            )

    def test_biases_of_gpt_neox(self):
        self.whole_life("gpt_neox", "mlp", "float32")

    def test_parallelize_module_of_torch(self):
        for rank in self.pool.run(cases.parallelized):
            self.assertEqual(
                rank,
                {
                    "status": ["fused", "fused"],
                    "note": NOTE.format(2),
                    "close": True,
                    "restored": True,
                    "checks": [],
                },
            )

    def test_hooks_of_earlier_transformers(self):
        for rank in self.pool.run(cases.old_hooks):
            self.assertEqual(
                rank,
                {
                    "status": ["fused", "fused"],
                    "close": [True] * 3,
                    "restored": True,
                },
            )

    def test_the_page_of_the_documentation(self):
        for rank in self.pool.run(cases.page):
            self.assertEqual(rank, ["fused"] * 4)

    def test_torch_compile(self):
        for rank in self.pool.run(cases.compiled, limit=300):
            self.assertEqual(rank, [True] * 4)

    def test_static_scales(self):
        for rank in self.pool.run(cases.static_fp8, False):
            self.assertEqual(rank["error"], "")
            self.assertEqual(rank["families"], (GATED,))
            self.assertEqual(rank["note"], NOTE.format(2))
            self.assertLess(rank["distance"], 1e-4)
            self.assertEqual(rank["failed"], [])
            self.assertRegex(rank["calibrate"], "distributed over 2 ranks")

    def test_fp8_linears(self):
        for rank in self.pool.run(cases.fp8_linears):
            self.assertEqual(
                [site[1:] for site in rank["sites"]],
                [("fused", (GATED,), "")] * 2
                + [("fused", ("norm_linear",), "")] * 2,
            )
            self.assertRegex(rank["note"], f"{NOTE.format(2)}; .*not compared")
            self.assertRegex(rank["placed"], r"dim=0.* torch.float8_e4m3fn")
            self.assertLess(rank["distance"], 1e-4)
            self.assertTrue(rank["finite"])

    def test_fp8_linears_with_a_scale_per_block(self):
        for rank in self.pool.run(cases.fp8_blocks):
            self.assertEqual(rank["families"], (GATED,))
            self.assertEqual(rank["note"], NOTE.format(2))
            self.assertLess(rank["distance"], 1e-4)

    def test_scales_that_differ(self):
        for rank in self.pool.run(cases.static_fp8, True):
            self.assertRegex(
                rank["error"],
                "FUSE-N238 scales-differ: ranks 0 and 1 of 2 have other static "
                "scales",
            )

    def test_gradients(self):
        for rank in self.pool.run(cases.with_gradients):
            self.assertTrue(rank["same"])
            self.assertRegex(rank["error"], "FUSE-N248 distributed-gradients")

    def test_changed_weights(self):
        for rank in self.pool.run(cases.changed_weights):
            self.assertEqual(rank, [True] * 6)

    # Ranks that differ.

    def test_a_rank_that_refuses_a_site(self):
        first, second = self.pool.run(cases.one_rank_differs, "hook")
        self.assertEqual(first["fused"], second["fused"])
        self.assertEqual(len(first["fused"]), 3)
        self.assertRegex(
            first["reasons"][0],
            "FUSE-N247 another-rank-refuses: rank 1 of 2 refuses it: "
            "FUSE-N208; its result has the text",
        )
        self.assertRegex(second["reasons"][0], "FUSE-N208 has-hooks")
        self.assertTrue(first["unchanged"] and second["unchanged"])

    def test_a_rank_without_a_site(self):
        first, second = self.pool.run(cases.one_rank_differs, "sites")
        self.assertEqual(first["fused"], second["fused"])
        self.assertEqual(
            first["reasons"],
            ["FUSE-N247 another-rank-refuses: rank 1 of 2 has no such site"]
            * 2,
        )

    def test_a_rank_that_fails(self):
        first, second = self.pool.run(cases.one_rank_differs, "pattern")
        self.assertRegex(
            first["error"],
            "FUSE-N247 another-rank-refuses: rank 1 of 2 refuses the whole "
            "call",
        )
        self.assertRegex(second["error"], "FUSE-N201")
        self.assertTrue(first["unchanged"] and second["unchanged"])

    def test_other_arguments_and_versions(self):
        for how in ("arguments", "version"):
            for rank in self.pool.run(cases.one_rank_differs, how):
                self.assertRegex(
                    rank["error"],
                    f"FUSE-N246 ranks-disagree: ranks 0 and 1 of 2 have other "
                    f"{how}",
                )
                self.assertTrue(rank["unchanged"])


@needs_library
class FourRanks(unittest.TestCase):
    def test_llama(self):
        pool = Pool(4)
        self.addCleanup(pool.close)
        ranks = pool.run(cases.whole_life, "llama", "bfloat16", {}, limit=300)
        for rank in ranks:
            self.assertEqual(rank["sites"], ranks[0]["sites"])
            self.assertEqual(rank["sites"][0][3], NOTE.format(4))
            self.assertTrue(rank["equal on ranks"] and rank["restored"])
            self.assertEqual([c for c in rank["checks"] if not c[1]], [])


@needs_library
class LostRanks(unittest.TestCase):
    def lost(self, case) -> None:
        pool = Pool(2)
        self.addCleanup(pool.close)
        start = time.monotonic()
        first, second = pool.run(case)
        self.assertEqual(second, "gone")
        self.assertIn("Error", first)
        self.assertLess(time.monotonic() - start, 2 * PATIENCE)

    def test_before_a_verdict(self):
        self.lost(cases.dies)

    def test_in_a_call(self):
        self.lost(cases.dies_in_a_call)


class OneRank(unittest.TestCase):
    def test_models_that_are_not_distributed_have_no_ranks(self):
        from fuse_mlir.fusion.ranks import ranks_of

        with ranks_of(cases.block()) as ranks:
            self.assertIsNone(ranks)
        with self.assertRaisesRegex(
            fuse_mlir.PatternError,
            "unknown partials 'half'; expected float32 or model",
        ):
            fuse_mlir.fuse_modules(cases.block(), partials="half")


if __name__ == "__main__":
    unittest.main()
