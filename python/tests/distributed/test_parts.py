# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forms of tensor parallelism, in one process of a group that exchanges nothing."""

from __future__ import annotations

import types
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import fuse_mlir
from fuse_mlir.errors import FuseError
from fuse_mlir.matching.tensor_parallel import (
    Part,
    part_of,
    plain_modules,
)
from tests.distributed import old_transformers
from tests.distributed.cases import block
from tests.models import Block, needs_library

X = torch.randn(4, 16)
PLAN = {"mlp.gate": "colwise", "mlp.up": "colwise", "mlp.down": "rowwise"}


def place(module: nn.Module, name: str, mesh: Any, *placements: Any) -> None:
    """Makes a DTensor of a parameter."""
    module.register_parameter(
        name,
        nn.Parameter(
            distribute_tensor(
                module._parameters[name].detach(),
                mesh,
                placements,
                src_data_rank=None,
            ),
            requires_grad=False,
        ),
    )


class Fake(unittest.TestCase):
    """Four ranks, of which this process is the first."""

    def setUp(self) -> None:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
        self.addCleanup(dist.destroy_process_group)
        self.mesh = init_device_mesh("cpu", (4,))

    def transformers(self, model: nn.Module, plan: dict[str, str]) -> None:
        """Distributes modules as transformers does, by names of styles."""
        from transformers.distributed.tensor_parallel import (
            apply_tensor_parallelism,
        )

        names = {
            f"{path}.{name}": style
            for path, style in plan.items()
            for name, _ in model.get_submodule(path).named_parameters(
                recurse=False
            )
        }
        apply_tensor_parallelism(model, self.mesh, {**names, **plan})

    def torch(self, model: nn.Module, **styles: Any) -> None:
        """Distributes linears of an MLP as PyTorch does."""
        from torch.distributed.tensor.parallel import parallelize_module

        parallelize_module(
            model,
            self.mesh,
            {f"mlp.{name}": style for name, style in styles.items()},
        )


@needs_library
class Refusals(Fake):
    """Each form that no kernel computes has a reason of its own."""

    def refused(
        self,
        reason: str,
        change: Callable[[Block], object] = lambda _: None,
        plan: dict[str, str] = PLAN,
        model: Block | None = None,
    ) -> None:
        """Distributes a block, changes it, and requires a refusal."""
        model = model or block()
        self.transformers(model, plan)
        change(model)
        self.has_reason(model, reason)

    def has_reason(self, model: Block, reason: str) -> None:
        try:
            found = fuse_mlir.explain(model, inputs=X, only_faster=False)
        except FuseError as error:
            # The shapes of one rank are not known.
            self.assertRegex(str(error), reason)
            return
        (site,) = [s for s in found if "mlp" in s.id][:1]
        self.assertEqual(site.status, "refused")
        self.assertRegex(site.reason, reason)

    def test_usual_forms_are_not_refused(self):
        model = block(bias=True)
        self.transformers(model, PLAN)
        sites = fuse_mlir.explain(model, inputs=X, only_faster=False)
        self.assertEqual(
            [(s.id, s.status, s.reason) for s in sites],
            [("norm+mlp#0", "could fuse", "")],
        )

    def test_shard_without_reduction(self):
        def own(module):
            module.forward = types.MethodType(nn.Linear.forward, module)

        for change, why in (
            (
                lambda m: m.mlp.down.__dict__.pop("forward"),
                "no forward or hook of its module adds up",
            ),
            (
                lambda m: setattr(m.mlp.down, "forward", lambda x: X),
                "its forward .*lambda.* has replaced the one that adds up",
            ),
        ):
            model = block()
            self.transformers(model, PLAN)
            change(model)
            for call in (fuse_mlir.fuse_modules, fuse_mlir.explain):
                with self.assertRaisesRegex(
                    FuseError,
                    "FUSE-N194 shard-without-reduction: 'mlp.down' has "
                    rf"'weight', a DTensor, \S+\(.*1\), and {why}",
                ):
                    call(model, inputs=X)

    def test_gathered_output(self):
        self.refused(
            "FUSE-N195 gathered-output: 'mlp.gate' has the style "
            "ColwiseParallel of transformers, which gathers",
            plan={
                "mlp.gate": "colwise_gather_output",
                "mlp.up": "colwise_rep",
                "mlp.down": "rowwise_split_input",
            },
        )

    def test_split_input(self):
        self.refused(
            "FUSE-N196 split-input: 'mlp.down' has the style RowwiseParallel",
            plan={**PLAN, "mlp.down": "rowwise_split_input"},
        )

    def test_packed_shard(self):
        self.refused(
            "FUSE-N197 packed-shard: 'mlp.gate' has the style "
            "PackedColwiseParallel",
            plan={**PLAN, "mlp.gate": "packed_colwise"},
        )

        def strided(model):
            from torch.distributed.tensor.placement_types import _StridedShard

            self.replaced(
                model.mlp.gate, self.mesh, _StridedShard(0, split_factor=2)
            )

        self.refused(
            "FUSE-N197 packed-shard: 'mlp.gate' has 'weight' in strided",
            strided,
        )

    def style(self, path: str, name: str) -> Callable[[Block], object]:
        from transformers.distributed.parallel_utils import (
            ALL_PARALLEL_STYLES,
        )

        def install(model):
            ALL_PARALLEL_STYLES[name].install_forward(
                model.get_submodule(path), self.mesh
            )

        return install

    def test_styles_of_other_modules(self):
        for path, name, reason in (
            (
                "norm",
                "sequence_parallel",
                "FUSE-N198 sequence-parallel: 'norm'",
            ),
            ("mlp", "moe_tp_experts", "FUSE-N199 parallel-experts: 'mlp'"),
            ("mlp", "moe_identity_expert", "FUSE-N199 parallel-experts: 'mlp'"),
            ("mlp", "mla_kv_a_proj", "FUSE-N233 parallel-mla: 'mlp'"),
            ("mlp", "all_reduce", "FUSE-N234 module-all-reduce: 'mlp'"),
            ("mlp", "local_params", "FUSE-N235 unknown-parallel-style: 'mlp'"),
        ):
            with self.subTest(name):
                self.refused(reason, self.style(path, name))

    def test_unknown_style(self):
        from transformers.distributed.tensor_parallel import ColwiseParallel

        class Own(ColwiseParallel):
            pass

        def own(model):
            del model.mlp.up.forward
            Own().install_forward(model.mlp.up, self.mesh)

        self.refused(
            "FUSE-N235 unknown-parallel-style: 'mlp.up' has the style Own of "
            "transformers; expected ColwiseParallel or RowwiseParallel",
            own,
        )

        class Other(nn.Module):
            out_features = 32

            def __init__(self, linear):
                super().__init__()
                self.weight = linear.weight

            def forward(self, x):
                return nn.functional.linear(x, self.weight)

        model = block()
        model.mlp.up = Other(model.mlp.up)
        self.refused(
            "FUSE-N235 .*'mlp.up' is a Other with the style .*; expected a "
            "Linear",
            model=model,
        )

    def test_uneven_shard(self):
        self.refused(
            "FUSE-N236 uneven-shard: 'mlp.gate' has 'weight' with 34 entries "
            "in dimension 0, which 4 ranks cannot share evenly",
            model=Block(16, 34).eval(),
        )

    def test_sub_block_scale(self):
        model = block()
        for linear in (model.mlp.gate, model.mlp.up, model.mlp.down):
            rows, columns = linear.weight.shape
            linear.block_size = (16, 16)
            linear.weight_scale_inv = nn.Parameter(
                torch.ones(max(rows // 16, 4), max(columns // 16, 4)),
                requires_grad=False,
            )
        self.refused(
            "FUSE-N237 sub-block-scale: 'mlp.gate' has a shard of 8 in "
            "dimension 0, and one scale per 16",
            model=model,
        )

    def test_mesh_dimensions(self):
        square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

        self.refused(
            "FUSE-N239 mesh-dimensions: 'mlp.gate' has 'weight' on a mesh of 2",
            lambda m: self.replaced(m.mlp.gate, square, Shard(0), Shard(0)),
        )
        model = block()
        place(model.norm, "weight", square, Replicate(), Replicate())
        self.has_reason(model, "FUSE-N239 .*'norm' has 'weight', a DTensor")

    def replaced(self, linear: Any, mesh: Any, *placements: Any) -> None:
        linear.register_parameter(
            "weight",
            nn.Parameter(
                distribute_tensor(
                    torch.zeros(linear.weight.shape),
                    mesh,
                    placements,
                    src_data_rank=None,
                )
            ),
        )

    def test_meshes_differ(self):
        square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        self.refused(
            "FUSE-N240 meshes-differ: 'mlp.gate' has 'weight' on DeviceMesh",
            lambda m: self.replaced(m.mlp.gate, square["tp"], Shard(0)),
        )
        model = block()
        self.transformers(model, {"mlp.gate": "colwise", "mlp.up": "colwise"})
        self.mesh = DeviceMesh("cpu", [0, 2, 1, 3])
        self.transformers(model, {"mlp.down": "rowwise"})
        self.has_reason(model, "FUSE-N240 meshes-differ: 'mlp.down' is on")

    def test_world_size_differs(self):
        model = block()
        self.transformers(model, PLAN)
        with mock.patch.object(dist, "get_world_size", return_value=8):
            found = part_of(model.mlp.up)
        self.assertRegex(
            str(found),
            "FUSE-N241 world-size-differs: is planned for 4 ranks, and its "
            "process group has 8",
        )

    def test_unknown_forward(self):
        def kernel(module, x):
            return nn.functional.linear(x, module.weight)

        model = block()
        model.mlp.up.forward = types.MethodType(kernel, model.mlp.up)
        self.refused(
            "FUSE-N242 unknown-parallel-forward: 'mlp.up' has the forward of "
            "ColwiseParallel of transformers, which calls another forward",
            model=model,
        )
        self.refused(
            "FUSE-N242 .*'mlp.up' .* was copied from another module",
            lambda m: setattr(m.mlp.up, "forward", m.mlp.gate.forward),
        )
        model = block()
        model.mlp.up._hf_tp_plan = "colwise"
        self.has_reason(
            model,
            "FUSE-N242 .*'mlp.up' has the plan 'colwise' and 0 hooks",
        )
        model = block()
        place(model.mlp.down, "weight", self.mesh, Shard(1))
        model.mlp.down.register_forward_hook(lambda *_: None)
        self.has_reason(
            model, "FUSE-N242 .*'mlp.down' has 'weight', a DTensor.* and hooks"
        )
        model = block()
        model.mlp.up._distribute_module_applied = True
        self.has_reason(model, "FUSE-N242 .*was given to distribute_module")

    def test_placement_differs(self):
        self.refused(
            r"FUSE-N243 placement-differs: 'mlp.gate' has 'weight' placed as "
            r".*1\), and colwise needs Shard\(dim=0\)",
            lambda m: self.replaced(m.mlp.gate, self.mesh, Shard(1)),
        )

        def sharded_bias(model):
            bias = torch.zeros(16)
            model.mlp.down.bias = nn.Parameter(
                distribute_tensor(
                    bias, self.mesh, [Shard(0)], src_data_rank=None
                )
            )

        self.refused(
            r"FUSE-N243 .*'mlp.down' has 'bias' placed as .*needs Replicate",
            sharded_bias,
        )

        def plain(model):
            model.mlp.up.weight = nn.Parameter(torch.zeros(8, 16))

        self.refused(
            r"FUSE-N243 .*'mlp.up' has 'weight' as a plain tensor of shape "
            r"\(8, 16\)",
            plain,
        )

    def test_shards_do_not_match(self):
        class Flat(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(16)
                self.up = nn.Linear(16, 32)
                self.down = nn.Linear(32, 16)

            def forward(self, x):
                return self.down(self.up(self.norm(x)).relu())

        model = Flat().eval()
        self.transformers(model, {"up": "colwise", "down": "rowwise"})
        (site,) = fuse_mlir.explain(
            model,
            {(("LayerNorm", "norm"), ("Linear", "up")): "fuse"},
            inputs=X,
            only_faster=False,
        )
        self.assertRegex(
            site.reason,
            "FUSE-N245 shards-do-not-match: the site has 1 colwise and 0 "
            "rowwise linears",
        )

    def test_other_layouts(self):
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
        )

        for styles, reason in (
            (
                {"up": ColwiseParallel(use_local_output=False)},
                "FUSE-N249 other-layouts: 'mlp.up' .* which returns DTensors",
            ),
            (
                {"up": ColwiseParallel(input_layouts=Shard(0))},
                "FUSE-N249 .* reads the layout .*; expected 'replicated' and "
                "'shard'",
            ),
            (
                {"down": RowwiseParallel(output_layouts=Shard(0))},
                "FUSE-N249 .*'mlp.down' has the style RowwiseParallel of torch",
            ),
            (
                {
                    "gate": ColwiseParallel(output_layouts=Replicate()),
                    "up": ColwiseParallel(output_layouts=Replicate()),
                    "down": RowwiseParallel(input_layouts=Replicate()),
                },
                "FUSE-N195 gathered-output: 'mlp.gate' .* of torch",
            ),
        ):
            with self.subTest(reason):
                model = block()
                self.torch(
                    model,
                    **{
                        "gate": ColwiseParallel(),
                        "up": ColwiseParallel(),
                        "down": RowwiseParallel(),
                        **styles,
                    },
                )
                self.has_reason(model, reason)

    def test_hooks_of_earlier_transformers(self):
        host = old_transformers.host
        for style, plan, reason in (
            (
                host.ColwiseParallel(gather_output=True),
                "colwise_gather_output",
                "FUSE-N195",
            ),
            (
                host.RowwiseParallel(split_input=True),
                "rowwise_split_input",
                "FUSE-N196",
            ),
            (host.RouterParallel(), "ep_router", "FUSE-N199"),
            (
                host.RowwiseParallel(),
                "colwise",
                "FUSE-N242 .* has the plan 'colwise' and hooks of Rowwise",
            ),
        ):
            with self.subTest(plan):
                linear = nn.Linear(8, 8)
                old_transformers.distribute(linear, style, plan, self.mesh)
                self.assertRegex(str(part_of(linear)), reason)
        linear = nn.Linear(8, 8)
        old_transformers.distribute(
            linear, host.ColwiseParallel(), "colwise", self.mesh
        )
        self.assertEqual(
            part_of(linear),
            Part("colwise", "hooks of transformers", self.mesh),
        )
        linear.register_forward_hook(lambda *_: None)
        self.assertRegex(
            str(part_of(linear)), "FUSE-N242 .*the plan 'colwise' and 3 hooks"
        )

    def test_kernels_of_the_hub_and_of_whole_modules(self):
        model = block()
        self.transformers(model, PLAN)
        with self.assertRaisesRegex(
            FuseError, "FUSE-N209 tensor-parallel: .*colwise over 4 ranks"
        ):
            fuse_mlir.compile_module(model.mlp)(X)


class Shapes(Fake):
    """Runs on the shapes of one rank."""

    def test_gathered_and_split_values(self):
        model = block()
        self.transformers(
            model,
            {
                "mlp.gate": "colwise_gather_output",
                "mlp.up": "colwise_gather_output",
                "mlp.down": "rowwise_split_input",
            },
        )
        forward = model.mlp.up.forward
        with plain_modules(model):
            self.assertEqual(model.mlp.up(X).shape, (4, 32))
            self.assertEqual(model.mlp.down(model.mlp.up(X)).shape, (4, 16))
        self.assertIs(model.mlp.up.forward, forward)
        self.assertIsInstance(part_of(model.norm), type(None))


if __name__ == "__main__":
    unittest.main()
