# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Members that change after fusing: the next call uses or refuses them."""

import copy
import gc
import pickle
import types
import unittest
import weakref
from unittest import mock

import torch
from torch import nn
from torch.autograd import forward_ad

import fuse_mlir
from fuse_mlir import FuseError, KernelError, native
from fuse_mlir.compiler.watch import Watch
from fuse_mlir.fusion.modules import fused_sites
from fuse_mlir.support.module_snapshot import plain
from tests.models import CHAIN, MLP, Block, Net, Norm, needs_library, net

torch.set_num_threads(1)


class Plain(unittest.TestCase):
    def test_what_can_be_compared(self):
        self.assertEqual(
            plain([1, {"a": (2.0, None)}]), plain([1, {"a": (2.0, None)}])
        )
        self.assertNotEqual(plain([1]), plain((1,)))
        self.assertNotEqual(plain(1), plain(1.0))
        self.assertEqual(plain({"a", "b"}), plain({"b", "a"}))

    def test_what_can_not(self):
        for value in (torch.ones(1), [torch.ones(1)], {1: 2}, nn.Identity()):
            self.assertIsNone(plain(value))


class Watching(unittest.TestCase):
    """Each change next to the state without it."""

    def check(self, change, same=False):
        block = Block()
        block.mlp.choices = ["a"]
        block.mlp.tensors = [torch.ones(2)]
        watch = Watch([block.norm, block.mlp])
        self.assertTrue(watch.same())
        change(block)
        self.assertEqual(watch.same(), same)

    def test_a_change_while_the_guard_is_made(self):
        """A guard of members that another thread changed is not kept."""
        block = net(1)[0].layers[0]
        make = native.extension()
        if make is None:
            self.skipTest("no extension")

        class Late:
            def Guard(self, *args):
                block.mlp.note = "changed"
                return make.Guard(*args)

        with mock.patch.object(native, "extension", return_value=Late()):
            watch = Watch([block.mlp])
        self.assertIsNone(watch.guard)
        self.assertFalse(watch.same())

    def test_values_of_tensors_do_not_count(self):
        self.check(lambda b: b.norm.weight.data.mul_(2), same=True)

    def test_attributes(self):
        self.check(lambda b: setattr(b.mlp, "hidden", 3))
        self.check(lambda b: setattr(b.mlp.up, "new", 3))
        self.check(lambda b: delattr(b.mlp, "hidden"))
        self.check(lambda b: b.mlp.choices.append("b"))
        self.check(lambda b: b.mlp.tensors.append(b.mlp.tensors[0]))
        self.check(lambda b: b.mlp.tensors[0].mul_(2), same=True)
        # The same object is the same value.
        self.check(lambda b: setattr(b.mlp, "hidden", b.mlp.hidden), same=True)

    def test_children(self):
        self.check(lambda b: setattr(b.mlp, "up", nn.Linear(8, 16)))
        self.check(lambda b: b.mlp.add_module("more", nn.Identity()))

    def test_children_in_each_other_s_places(self):
        block = Block()
        block.mlp.up, block.mlp.gate = block.mlp.gate, block.mlp.up
        watch = Watch([block.mlp])
        self.assertTrue(watch.has_modules([block.mlp]))
        block.mlp.up, block.mlp.gate = block.mlp.gate, block.mlp.up
        self.assertFalse(watch.has_modules([block.mlp]))

    def test_classes(self):
        self.check(lambda b: setattr(b.mlp, "__class__", type("X", (MLP,), {})))

    def test_hooks(self):
        self.check(lambda b: b.mlp.register_forward_pre_hook(print))
        self.check(lambda b: b.mlp.up.register_forward_hook(print))
        # Those of the first member run before the kernel.
        self.check(lambda b: b.norm.register_forward_pre_hook(print), same=True)
        self.addCleanup(nn.modules.module._global_forward_hooks.clear)
        self.check(
            lambda b: nn.modules.module.register_module_forward_hook(print)
        )


class Twice(Norm):
    """Another forward of the same parameters."""

    def forward(self, x):
        return 2 * super().forward(x)


@needs_library
class Fused(unittest.TestCase):
    def setUp(self):
        self.model, self.x = net(2)

    def fuse(self):
        fuse_mlir.fuse_modules(self.model, {CHAIN: "fuse"}, inputs=self.x)

    def follows(self, change, model=None):
        """After `change`, the fused model computes what the unfused one does.

        The change must affect the result.
        """
        model = model or self.model
        self.fuse()
        before = model(self.x)
        change(model.layers[0])
        ours = model(self.x)
        self.assertFalse(torch.allclose(ours, before, atol=1e-3))
        fuse_mlir.unfuse_modules(model)
        torch.testing.assert_close(ours, model(self.x), atol=1e-6, rtol=1e-5)

    def test_replaced_children(self):
        self.follows(
            lambda b: setattr(
                b.mlp, "up", nn.Linear(8, 16, bias=False).requires_grad_(False)
            )
        )

    def test_children_in_places_of_others(self):
        first, second = (block.mlp for block in self.model.layers)

        def exchange(_block):
            first.up, second.up = second.up, first.up

        self.follows(exchange)

    def test_children_of_another_class(self):
        class Twice(nn.Linear):
            def forward(self, x):
                return 2 * super().forward(x)

        self.follows(
            lambda b: setattr(b.mlp, "up", Twice(8, 16).requires_grad_(False))
        )

    def test_children_that_no_kernel_has(self):
        class Sorted(nn.Linear):
            def forward(self, x):
                return super().forward(x).sort(-1).values

        self.fuse()
        self.model.layers[0].mlp.up = Sorted(8, 16)
        with self.assertRaisesRegex(
            KernelError,
            "test_changed_members.py:.*'mlp.up'.*no translation for 'aten.sort",
        ):
            self.model(self.x)

    def test_attributes_that_a_forward_reads(self):
        class ScaledNorm(Norm):
            factor = 1.0
            off = False

            def forward(self, x):
                return x if self.off else self.factor * super().forward(x)

        for block in self.model.layers:
            block.norm.__class__ = ScaledNorm
        self.follows(lambda b: setattr(b.norm, "factor", 3.0))
        # The attribute is the member's.
        self.assertEqual(self.model.layers[0].norm.factor, 3.0)
        self.follows(lambda b: setattr(b.norm, "off", True))

    def test_values_elsewhere_that_a_forward_reads(self):
        class ScaledMLP(MLP):
            config = types.SimpleNamespace(scale=2.0)

            def forward(self, x):
                return super().forward(x) * self.config.scale

        self.model.layers[0].mlp.__class__ = ScaledMLP
        self.fuse()
        self.assertTrue(fuse_mlir.verify(self.model, self.x))
        ScaledMLP.config.scale = 3.0
        failed = [
            c.rung
            for c in fuse_mlir.verify(self.model, self.x).checks
            if not c.passed
        ]
        self.assertIn("V2", failed)

    def test_tensors_that_a_forward_reads(self):
        class ListNorm(Norm):
            def forward(self, x):
                return self.factors[0] * super().forward(x) * self.factor

        for block in self.model.layers:
            block.norm.__class__ = ListNorm
            block.norm.factor = torch.full((8,), 2.0)
            block.norm.factors = [torch.ones(8)]
        self.follows(lambda b: setattr(b.norm, "factor", torch.ones(8)))
        self.follows(lambda b: b.norm.factor.mul_(3))
        self.follows(lambda b: b.norm.factors.__setitem__(0, torch.zeros(8)))

    def test_a_class_with_another_forward(self):
        forward = MLP.forward
        with mock.patch.object(MLP, "forward", MLP.forward):
            self.follows(
                lambda b: setattr(
                    MLP, "forward", lambda s, x: 2 * forward(s, x)
                )
            )
            # Code of the first forward is not used for this one.
            expected = self.model(self.x)
            self.fuse()
            torch.testing.assert_close(
                self.model(self.x), expected, atol=1e-6, rtol=1e-5
            )
            fuse_mlir.unfuse_modules(self.model)

    def test_tied_weights(self):
        first, second = (block.mlp for block in self.model.layers)
        first.up.weight = first.gate.weight
        expected = self.model(self.x)
        self.fuse()
        # The second layer has no tied weights and gets another kernel.
        torch.testing.assert_close(
            self.model(self.x), expected, atol=1e-6, rtol=1e-5
        )
        fuse_mlir.unfuse_modules(self.model)
        self.assertIs(first.up.weight, first.gate.weight)
        self.follows(
            lambda b: setattr(
                b.mlp.up, "weight", nn.Parameter(second.up.weight + 1.0, False)
            )
        )

    def test_modes_keep_the_kernel(self):
        self.fuse()
        self.model(self.x)
        site = fused_sites(self.model)[0][1]
        kernel = site._kernel
        self.model.train()
        self.model(self.x)
        self.model.eval()
        self.model(self.x)
        self.assertIs(site._kernel, kernel)

    def test_places_of_other_modules(self):
        """A module that replaces a member would read the result of the site."""

        class Twice(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return x + self.inner(x)

        self.fuse()
        expected = self.model(self.x)
        copies = {
            "itself": self.model,
            "copied": copy.deepcopy(self.model),
            "pickled": pickle.loads(pickle.dumps(self.model)),
        }
        for name, model in copies.items():
            with self.subTest(name):
                block = model.layers[0]
                place = block.mlp
                for other in (nn.Identity(), Twice(place)):
                    block.mlp = other
                    with self.assertRaisesRegex(
                        FuseError,
                        "FUSE-N206 not-a-chain: 'mlp', a member"
                        r" of site 'norm\+mlp#0', was replaced by a "
                        f"{type(other).__name__} after it was fused; put",
                    ):
                        model(self.x)
                block.mlp = place
                self.assertTrue(torch.equal(model(self.x), expected))

    def test_models_are_gone_at_once(self):
        self.fuse()
        self.model(self.x)
        gone = weakref.ref(self.model.layers[0])
        gc.disable()
        self.addCleanup(gc.enable)
        self.model = None
        self.assertIsNone(gone())

    def test_a_plan_that_comes_later(self):
        self.fuse()
        self.model.layers[0].mlp.up._hf_tp_plan = "colwise"
        with self.assertRaisesRegex(
            FuseError,
            "FUSE-N209 .*'mlp.up' of site .* has the plan 'colwise' .* after",
        ):
            self.model(self.x)

    def test_forwards_of_places_stay(self):
        self.fuse()
        for name in ("norm", "mlp"):
            place = getattr(self.model.layers[0], name)
            for attribute in ("forward", "_hf_hook"):
                with self.assertRaisesRegex(
                    FuseError,
                    f"FUSE-N208 has-hooks: '{attribute}' of "
                    "Fused.* cannot be set while it is part of site",
                ):
                    setattr(place, attribute, types.MethodType(print, place))

    def test_hooks_on_all_modules(self):
        def double(module, _args, output):
            return 2 * output if isinstance(module, nn.Linear) else None

        expected = self.model(self.x)
        self.fuse()
        handle = nn.modules.module.register_module_forward_hook(double)
        try:
            with self.assertRaisesRegex(
                FuseError,
                r"all modules, and those of site 'norm\+mlp#0', "
                "have the hook double; unfuse the site, or remove",
            ):
                self.model(self.x)
            with self.assertRaisesRegex(
                FuseError,
                "FUSE-N208 has-hooks: all modules have a hook, double",
            ):
                fuse_mlir.fuse_modules(net(1)[0], inputs=self.x)
        finally:
            handle.remove()
        torch.testing.assert_close(
            self.model(self.x), expected, atol=1e-6, rtol=1e-5
        )

    def test_counters_of_pytorch_may_watch(self):
        from torch.utils.flop_counter import FlopCounterMode

        self.fuse()
        with FlopCounterMode(display=False):
            self.model(self.x)

    def test_attributes_that_are_deleted(self):
        self.fuse()
        place = self.model.layers[0].mlp
        place.note = 1
        del place.note
        self.assertFalse(hasattr(place, "note"))
        with self.assertRaisesRegex(AttributeError, "'MLP' object has no"):
            del place.note

    def test_parameters_that_fsdp_flattens(self):
        self.fuse()
        place = self.model.layers[0].norm
        # As FullyShardedDataParallel does it.
        weight = place.weight.detach()
        place._is_fsdp_managed_module = True
        place._fsdp_use_orig_params = False
        delattr(place, "weight")
        place.weight = weight
        with self.assertRaisesRegex(
            FuseError,
            "FUSE-N209 tensor-parallel: 'norm' of site .* has "
            "parameters that FullyShardedDataParallel flattened after",
        ):
            self.model(self.x)

    def test_a_model_under_torch_compile(self):
        compiled = torch.compile(self.model, backend="eager")
        expected = compiled(self.x)
        result = fuse_mlir.fuse_modules(
            compiled, inputs=self.x, only_faster=False
        )
        self.assertEqual(len(result.fused), 2)
        torch.testing.assert_close(
            compiled(self.x), expected, atol=1e-6, rtol=1e-5
        )
        self.assertEqual(len(fuse_mlir.unfuse_modules(compiled)), 2)
        self.assertTrue(torch.equal(compiled(self.x), expected))

    def under_torch_compile(self, change, error, message):
        """A change that torch.compile does not see is an error of its first
        call after it."""
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        self.model, self.x = net(2)
        self.fuse()
        compiled = torch.compile(self.model, backend="eager", fullgraph=True)
        with torch.no_grad():
            before = compiled(self.x)
            change(self.model.layers[0])
            with self.assertRaisesRegex(error, message):
                compiled(self.x)
            if error is FuseError:
                return
            ours = compiled(self.x)
            self.assertFalse(torch.allclose(ours, before, atol=1e-3))
            fuse_mlir.unfuse_modules(self.model)
            torch.testing.assert_close(
                ours, self.model(self.x), atol=1e-6, rtol=1e-5
            )

    def test_changes_under_torch_compile(self):
        again = (
            r"members of site 'norm\+mlp#0' changed after torch.compile "
            "saw them; the next call"
        )
        self.under_torch_compile(
            lambda b: setattr(b.mlp, "up", nn.Linear(8, 16, bias=False).eval()),
            KernelError,
            again,
        )
        self.under_torch_compile(
            lambda b: setattr(b.norm, "__class__", Twice), KernelError, again
        )
        self.under_torch_compile(
            lambda b: b.mlp.up.register_forward_hook(print),
            FuseError,
            "FUSE-N208 has-hooks: 'mlp.up' of site",
        )

    def test_modes_under_torch_compile(self):
        self.fuse()
        self.addCleanup(torch._dynamo.reset)
        compiled = torch.compile(self.model, backend="eager", fullgraph=True)
        with torch.no_grad():
            before = compiled(self.x)
            self.model.train()
            self.assertTrue(torch.equal(compiled(self.x), before))

    def test_copies_are_watched_by_themselves(self):
        self.fuse()
        other = copy.deepcopy(self.model)
        expected = self.model(self.x)
        other.layers[0].mlp.up = nn.Linear(8, 16).requires_grad_(False)
        self.assertFalse(torch.allclose(other(self.x), expected, atol=1e-3))
        self.assertTrue(torch.equal(self.model(self.x), expected))


@needs_library
class Compiled(unittest.TestCase):
    """Changes of one compiled module."""

    def setUp(self):
        torch.manual_seed(0)
        self.block = fuse_mlir.compile_module(Block().eval())
        self.x = torch.randn(3, 8)
        self.before = self.block(self.x)

    def follows(self, change):
        change(self.block)
        ours = self.block(self.x)
        self.assertFalse(torch.allclose(ours, self.before, atol=1e-3))
        fuse_mlir.decompile_module(self.block)
        torch.testing.assert_close(
            ours, self.block(self.x), atol=1e-6, rtol=1e-5
        )

    def kernel(self):
        (kernel,) = self.block._fuse_kernels.kernels.values()
        return kernel

    def test_children(self):
        self.follows(
            lambda b: setattr(b.mlp, "up", nn.Linear(8, 16, bias=False).eval())
        )

    def test_children_under_torch_compile(self):
        self.addCleanup(torch._dynamo.reset)
        compiled = torch.compile(self.block, backend="eager", fullgraph=True)
        with torch.no_grad():
            compiled(self.x)
            self.block.mlp.up = nn.Linear(8, 16, bias=False).eval()
            with self.assertRaisesRegex(
                KernelError,
                "members of site 'Block' changed after torch.compile saw",
            ):
                compiled(self.x)
            self.follows(lambda _block: compiled(self.x))

    def test_children_after_what_changed_nothing(self):
        self.addCleanup(torch._dynamo.reset)
        compiled = torch.compile(
            lambda x: self.block(x), backend="eager", fullgraph=True
        )
        with torch.no_grad():
            compiled(self.x)
            # Another watch, of the same kernel.
            self.block.note = "a text"
            compiled(self.x)
            self.assertIs(
                self.kernel().owner().__self__, self.block._fuse_kernels
            )
            self.block.mlp.up = nn.Linear(8, 16, bias=False).eval()
            with self.assertRaisesRegex(
                KernelError,
                "members of site 'Block' changed after torch.compile saw",
            ):
                compiled(self.x)

    def test_modes_keep_the_kernel(self):
        before = self.kernel()
        self.block.train()(self.x)
        self.assertIs(self.kernel(), before)

    def test_parameters(self):
        self.follows(
            lambda b: setattr(
                b.mlp.up, "weight", nn.Parameter(torch.randn(16, 8))
            )
        )

    def test_parameters_keep_the_kernel(self):
        before = self.kernel()
        self.block.mlp.up.weight = nn.Parameter(torch.randn(16, 8))
        self.block(self.x)
        self.assertIs(self.kernel(), before)

    def test_hooks_inside(self):
        handle = self.block.mlp.up.register_forward_hook(print)
        with self.assertRaisesRegex(
            FuseError,
            "FUSE-N208 has-hooks: 'Block.mlp.up' of the compiled"
            " Block got a forward hook, print .*; decompile the module",
        ):
            self.block(self.x)
        handle.remove()
        self.assertTrue(torch.equal(self.block(self.x), self.before))

    def test_own_hooks_run(self):
        self.block.register_forward_hook(lambda _m, _args, output: 2 * output)
        self.assertTrue(torch.equal(self.block(self.x), 2 * self.before))

    def test_forwards_of_their_own(self):
        self.block.mlp.forward = lambda x: x
        with self.assertRaisesRegex(
            FuseError,
            "'Block.mlp' of the compiled Block got a forward of its own",
        ):
            self.block(self.x)

    def test_dropout(self):
        class Dropped(Block):
            def forward(self, x):
                return nn.functional.dropout(
                    super().forward(x), 0.5, self.training
                )

        block = fuse_mlir.compile_module(Dropped().eval())
        block(self.x)
        with self.assertRaisesRegex(KernelError, "training mode"):
            block.train()(self.x)
        block.eval()(self.x)

    def test_autocast_to_another_type_is_refused(self):
        with (
            torch.autocast("cpu", dtype=torch.bfloat16),
            self.assertRaisesRegex(
                FuseError,
                "the compiled Block is fused for torch.float32, and autocast",
            ),
        ):
            self.block(self.x)

    def test_what_sees_through_members(self):
        rows = self.x.expand(2, 3, 8)
        torch.testing.assert_close(
            torch.func.vmap(self.block)(rows)[1],
            self.before,
            atol=1e-6,
            rtol=1e-5,
        )
        self.assertEqual(self.block.to("meta")(self.x.to("meta")).shape, (3, 8))

    def test_calls_without_tensors(self):
        with self.assertRaisesRegex(KernelError, "Block is called without"):
            self.block()


class Sharded(unittest.TestCase):
    """Models that are sharded already are refused before they run."""

    def test_fsdp(self):
        class FullyShardedDataParallel(nn.Module):
            flatten_sharded_optim_state_dict = None

        class FSDPBlock(Block):
            set_reshard_after_forward = None

        for kind, reason in (
            (
                FullyShardedDataParallel,
                "is a FullyShardedData"
                "Parallel, which flattens the parameters below",
            ),
            (FSDPBlock, "was given to fully_shard; fuse"),
        ):
            model = nn.ModuleDict({"inner": kind()})
            with self.assertRaisesRegex(
                FuseError, f"FUSE-N209 tensor-parallel: 'inner' {reason}"
            ):
                fuse_mlir.fuse_modules(model, inputs=torch.ones(3, 8))

    def test_names_are_those_of_pytorch(self):
        from torch.distributed import fsdp

        self.assertTrue(
            hasattr(
                fsdp.FullyShardedDataParallel,
                "flatten_sharded_optim_state_dict",
            )
        )
        self.assertTrue(hasattr(fsdp.FSDPModule, "set_reshard_after_forward"))


@needs_library
class Transforms(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model = Net(1).eval()
        self.x = torch.randn(3, 8)
        fuse_mlir.fuse_modules(self.model, {CHAIN: "fuse"}, inputs=self.x)

    def gradients(self):
        def loss(parameters):
            return (
                torch.func.functional_call(self.model, parameters, (self.x,))
                .square()
                .sum()
            )

        return torch.func.grad(loss)(
            {n: p.detach() for n, p in self.model.named_parameters()}
        )

    def test_functional_gradients_are_those_of_the_members(self):
        ours = self.gradients()
        fuse_mlir.unfuse_modules(self.model)
        for name, gradient in self.gradients().items():
            torch.testing.assert_close(ours[name], gradient)

    def tangent(self):
        with forward_ad.dual_level():
            x = forward_ad.make_dual(self.x, torch.ones_like(self.x))
            return forward_ad.unpack_dual(self.model(x)).tangent

    def test_forward_mode(self):
        ours = self.tangent()
        fuse_mlir.unfuse_modules(self.model)
        torch.testing.assert_close(ours, self.tangent())

    def test_models_without_data(self):
        expected = self.model(self.x)
        state = self.model.state_dict()
        self.model.to("meta")
        self.assertEqual(self.model(self.x.to("meta")).shape, self.x.shape)
        self.model.to_empty(device="cpu").load_state_dict(state)
        self.assertTrue(torch.equal(self.model(self.x), expected))

    def test_autocast_to_another_type_is_refused(self):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            with self.assertRaisesRegex(
                FuseError,
                "fused for torch.float32, and autocast would "
                "compute it in torch.bfloat16",
            ):
                self.model(self.x)
            self.model.bfloat16()
            self.model(self.x.bfloat16())


if __name__ == "__main__":
    unittest.main()
