# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the peers of fused blocks, and how PyTorch tunes them."""

import contextlib
import fcntl
import io
import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import torch
from small_blocks import operands, small

from fuse_bench.common.problem import BF16, FP8, NORMS, Problem
from fuse_bench.peers import systems as peers
from fuse_bench.peers import tune as tune_peers
from fuse_bench.reference.decomposition import real_output, relative_error


class Peers(unittest.TestCase):
    def test_bf16_systems_compute_the_block(self):
        for norm in ("rms0", "rms1"):
            problem = small("gated_mlp", BF16, norm)
            tensors, scales = operands(problem)
            values = peers.parameters(problem, tensors, scales)
            real = real_output(problem, tensors, scales)
            made = peers.make_peers(problem, ["eager"])
            self.assertEqual(
                [peer.system for peer in made],
                ["torch-eager", "torch-eager-merged"],
            )
            for peer in made:
                self.assertLess(
                    relative_error(peer.bind(values)(tensors["x"]), real),
                    1.5e-2,
                )

    def test_systems_of_a_type(self):
        problem = small("gated_mlp", FP8, "rms0")
        names = {
            (peer.system, peer.scales)
            for peer in peers.make_peers(problem, peers.MODES)
        }
        self.assertEqual(
            names,
            {
                ("torch-eager", "static"),
                ("torch-eager", "dynamic"),
                ("torch-compile", "static"),
                ("torch-compile", "dynamic"),
                ("torch-compile-autotune", "static"),
                ("torch-compile-autotune", "dynamic"),
            },
        )

    def test_few_are_tuned_and_those_come_first(self):
        found = list(tune_peers.tasks(peers.MODES[1:]))
        tuned = [task for task in found if len(task[2]) == 2]
        # The three modes are bf16, static FP8 and dynamic FP8.
        self.assertEqual(len(tuned), 2 * 3 * len(peers.AUTOTUNED_TOKENS))
        self.assertEqual(len(found), 3 * 52)
        self.assertEqual(tuned, found[: len(tuned)])
        self.assertEqual({task[3] for task in tuned[-12:]}, {"dynamic"})
        self.assertEqual(
            [task[3] for task in tune_peers.tasks(["autotune"])],
            [task[3] for task in tuned[:-12]],
        )

    def test_lone_blocks_have_none(self):
        for width, tokens, count in (
            (2048, 50, 4),
            (2048, 33, 0),
            (3072, 50, 0),
        ):
            problem = Problem(
                "gated_mlp",
                width,
                16384 if width == 2048 else 8192,
                FP8,
                "silu",
                NORMS["rms0"],
            )
            self.assertEqual(
                len(peers.peer_modes(problem, tokens, peers.MODES)), count
            )

    def test_one_process_times_at_a_time(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lock"
            turn, other = tune_peers.Turn(path), path.open("w")

            def is_free() -> bool:
                try:
                    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                fcntl.flock(other, fcntl.LOCK_UN)
                return True

            self.assertTrue(is_free())
            self.assertFalse(turn.wrap(turn.wrap(is_free))())
            self.assertTrue(is_free())
            other.close()
            turn.close()

    def test_processes_add_to_the_times_of_others(self):
        self.assertEqual(
            tune_peers.merge(
                {"mm": {"a": {"x": 1.0}}, "flag": True},
                {"mm": {"a": {"y": 2.0}, "b": {}}, "flag": False},
            ),
            {"mm": {"a": {"x": 1.0, "y": 2.0}, "b": {}}, "flag": False},
        )

    def test_choices_are_kept_and_what_was_fastest_is_tried_again(self):
        nodes = [
            unittest.mock.Mock(
                get_size=lambda sizes=sizes: sizes,
                get_dtype=lambda: torch.float8_e4m3fn,
            )
            for sizes in ((16, 2048), (2048, 32768))
        ]

        def choice(name: str, description: str = "") -> unittest.mock.Mock:
            mock = unittest.mock.Mock(
                description=description, input_nodes=nodes
            )
            mock.name = name
            return mock

        library = choice("_scaled_mm")
        written = [choice(f"triton_mm_{i}", f"BLOCK_M={i}") for i in range(8)]
        times = {
            library: 0.0248,
            **{
                each: 0.0239 + i / 1e4
                for i, each in enumerate(reversed(written))
            },
        }
        hooks = "torch._inductor.select_algorithm.add_"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / tune_peers.CHOICES
            self.assertEqual(tune_peers.read_choices(path), [])
            turn = tune_peers.Turn(Path(folder) / "lock")
            with unittest.mock.patch(hooks + "feedback_saver") as add:
                tune_peers.keep_choices(turn, path)
            # Static and dynamic scales use the same GEMMs.
            for _ in range(2):
                add.call_args.args[0](times, "scaled_mm", nodes)
            turn.close()
            rows = tune_peers.read_choices(path)
        self.assertEqual(
            rows,
            [
                {
                    "M": 16,
                    "K": 2048,
                    "N": 32768,
                    "dtype": "fp8",
                    "choices": 9,
                    "chosen": "triton_mm_7",
                    "chosen_us": 23.9,
                    "library_us": 24.8,
                    "fastest": [f"BLOCK_M={i}" for i in (7, 6, 5, 4)],
                }
            ],
        )
        with unittest.mock.patch(hooks + "preprocessing_fn") as add:
            # The first row comes from a run that did not keep the choices.
            tune_peers.keep_fastest(
                [
                    {
                        name: value
                        for name, value in rows[0].items()
                        if name != "fastest"
                    },
                    *rows,
                ]
            )
        keep = add.call_args.args[0]
        self.assertEqual(keep([library, *written]), [library, *written[4:]])
        # Without tuning there are no candidates.
        self.assertEqual(keep([library]), [library])
        self.assertEqual(keep([]), [])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(
                keep([library, *written[:4]]), [library, *written[:4]]
            )
        self.assertRegex(
            said.getvalue(),
            r"^all 5 candidates of \{.*\} are "
            "tried: none is what was fastest: BLOCK_M=7\n$",
        )
        # Another GEMM keeps all candidates.
        nodes[0].get_size = lambda: (50, 2048)
        self.assertEqual(keep([library, written[0]]), [library, written[0]])

    def test_what_is_not_tuned_is_refused(self):
        from torch._inductor.runtime.benchmarking import benchmarker
        from torch._inductor.select_algorithm import AlgorithmSelectorCache

        key = "[('cuda', 50, 2048), ('cuda', 2048, 32768)]"
        choices = ["library", "written"]
        cache = unittest.mock.Mock()
        with unittest.mock.patch.object(
            AlgorithmSelectorCache,
            "make_precompile_fn",
            lambda *arguments, **options: (arguments, options),
        ):
            for known, refused in (
                ((), True),
                (("library",), True),
                (choices, False),
            ):
                cache.lookup.return_value = dict.fromkeys(known, 1.0)
                with (
                    tune_peers.only_tuned() as found,
                    contextlib.suppress(tune_peers.UntunedError),
                ):
                    self.assertEqual(
                        AlgorithmSelectorCache.make_precompile_fn(
                            cache, choices, "mm", key, timeout=1
                        ),
                        ((cache, choices, "mm", key), {"timeout": 1}),
                    )
                self.assertEqual(found, [f"mm of {key}"] if refused else [])
                # The lookup does not time anything.
                cache.lookup.assert_called_with(choices, "mm", key, None)
        # PyTorch's code around GEMMs is timed like the tables.
        with unittest.mock.patch("fuse_bench.common.timing.Timer") as timer:
            timer.return_value.behind_delay.return_value = 1500.0
            with tune_peers.only_tuned() as found:
                self.assertEqual(
                    benchmarker.benchmark_gpu("launch", rep=1), 1.5
                )
            timer.return_value.behind_delay.assert_called_once_with("launch")
        self.assertEqual(found, [])
        self.assertNotIn("benchmark_gpu", vars(benchmarker))

    def test_rows_leave_out_what_is_not_tuned(self):
        from torch._inductor.select_algorithm import AlgorithmSelectorCache

        from fuse_bench.suites import mlp as mlp_h200

        def tunes(x):
            try:
                AlgorithmSelectorCache.make_precompile_fn(
                    unittest.mock.Mock(**{"lookup.return_value": {}}),
                    ["library", "written"],
                    "mm",
                    "[(50, 4)]",
                )
            except tune_peers.UntunedError as error:
                # PyTorch also wraps the error in a longer message.
                raise RuntimeError(f"lowering failed: {error}") from error

        def fails(_):
            raise RuntimeError("no such\nkernel")

        bench = mlp_h200.Bench.__new__(mlp_h200.Bench)
        bench.watch = mlp_h200.Watch(60)
        x = torch.zeros(50, 4)
        for system, function, said in (
            (
                "torch-compile-autotune",
                tunes,
                "left out, as "
                "fuse_bench.peers.tune has not tuned mm of [(50, 4)]",
            ),
            ("torch-compile-autotune", fails, "no such kernel"),
            ("torch-compile", fails, "no such kernel"),
            ("torch-compile-autotune", lambda x: x, None),
            ("torch-compile", lambda x: x, None),
        ):
            peer = peers.Peer(system, "static", function, [])
            with (
                self.subTest(system, said=said),
                unittest.mock.patch.object(bench, "log", create=True) as log,
            ):
                result = bench.run_peer(peer, peer.bind({}), x)
                if said is None:
                    self.assertIs(result, x)
                    log.assert_not_called()
                else:
                    self.assertIsNone(result)
                    log.assert_called_once_with(f"{system} static M=50: {said}")

    def test_tuning_wants_a_place_for_its_cache(self):
        output = io.StringIO()
        with (
            unittest.mock.patch.dict("os.environ"),
            contextlib.redirect_stderr(output),
        ):
            os.environ.pop(tune_peers.CACHE, None)
            self.assertEqual(tune_peers.main([]), 1)
        self.assertIn(
            "TORCHINDUCTOR_CACHE_DIR is not set: it names the folder",
            output.getvalue(),
        )

    def test_no_peers_for_a_dense_block(self):
        self.assertEqual(
            peers.make_peers(small("mlp", BF16, "rms0"), ["eager"]), []
        )


if __name__ == "__main__":
    unittest.main()
