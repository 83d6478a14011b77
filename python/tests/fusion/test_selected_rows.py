# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A last norm and a head, between which a model selects rows."""

import copy
import io
import pickle
import unittest

import torch
from torch import nn

import fuse_mlir
from fuse_mlir.fusion.deferred import Deferred
from fuse_mlir.fusion.places import fused_sites
from fuse_mlir.matching.dataflow import observe
from fuse_mlir.native import extension
from tests.models import LLAMA, needs_library, snapshot, transformer

torch.set_num_threads(1)

HEAD = {(("RMSNorm", "model.norm"), ("Linear", "lm_head")): "fuse"}
IDS = torch.arange(1, 17).view(2, 8)


def llama(dtype=torch.float32):
    return transformer("llama", dtype, **{**LLAMA, "num_hidden_layers": 1})


def fused(**options):
    model = llama()
    fuse_mlir.fuse_modules(model, HEAD, **options)
    return model


class Selected(nn.Module):
    """A norm and a linear, with what a test writes between them."""

    def __init__(self, select):
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.head = nn.RMSNorm(16), nn.Linear(16, 32)
        self.select = select

    def forward(self, x):
        return self.head(self.select(self.norm(x)))


class Rows(unittest.TestCase):
    """Which ops select whole rows."""

    def selected(self, select):
        flow = observe(Selected(select).eval(), torch.randn(2, 5, 16))
        output = flow.calls["norm"][0].output
        return [tuple(t.shape) for t in flow.selections_of(output)]

    def test_ops_that_select_rows(self):
        for select, shape in (
            (lambda x: x[:, -1], (2, 16)),
            (lambda x: x[:, slice(-2, None), :], (2, 2, 16)),
            (lambda x: x[1], (5, 16)),
            (lambda x: x[:, torch.tensor([0, 3])], (2, 2, 16)),
            (lambda x: x[None], (1, 2, 5, 16)),
            (lambda x: x.view(-1, 16), (10, 16)),
            (lambda x: x.reshape((10, 16)), (10, 16)),
        ):
            with self.subTest(shape):
                self.assertEqual(self.selected(select), [shape])

    def test_selection_of_a_selection(self):
        self.assertEqual(
            self.selected(lambda x: x.view(10, 16)[-3:]), [(10, 16), (3, 16)]
        )

    def test_ops_that_do_not(self):
        for select in (
            lambda x: torch.cat([x[..., 8:], x[..., :8]], -1),
            lambda x: x[:, :, torch.arange(15, -1, -1)],
            lambda x: x[x[..., 0] > 0],
            lambda x: x.view(2, 4, 20).reshape(2, 5, 16),
            lambda x: x.flip(1),
        ):
            self.assertEqual(self.selected(select), [])


@needs_library
class Models(unittest.TestCase):
    @torch.no_grad()
    def test_each_selection(self):
        model, plain = fused(), llama()
        (_, place), *others = fused_sites(model)
        self.assertEqual((place.site, others), ("norm+lm_head#0", []))
        self.assertEqual(place._kernel.compiled.ops, ("fuse.norm_linear",))
        for keep in (0, 1, 3, torch.tensor([2, 5])):
            for _ in range(2):
                torch.testing.assert_close(
                    model(IDS, logits_to_keep=keep).logits,
                    plain(IDS, logits_to_keep=keep).logits,
                )

    @torch.no_grad()
    def test_only_selected_rows_are_computed(self):
        model = fused()
        seen = []
        place = model.model.norm
        run = type(place).run_kernel
        self.addCleanup(setattr, type(place), "run_kernel", run)
        type(place).run_kernel = lambda self, rows: (
            seen.append(tuple(rows.shape)) or run(self, rows)
        )
        model(IDS, logits_to_keep=1)
        self.assertEqual(seen, [(2, 1, 32)])

    @torch.no_grad()
    def test_unfused_to_the_same_bits(self):
        model = llama()
        before, logits = snapshot(model), model(IDS).logits
        fuse_mlir.fuse_modules(model, HEAD)
        model(IDS)
        checks = fuse_mlir.verify(model)
        self.assertTrue(checks, str(checks))
        fuse_mlir.unfuse_modules(model)
        self.assertEqual(snapshot(model), before)
        self.assertTrue(torch.equal(model(IDS).logits, logits))

    @torch.no_grad()
    def test_rows_that_follow_a_view(self):
        settings = {"n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 64}
        model = transformer("gpt2", torch.float32, **settings)
        expected = model(IDS).logits
        found = fuse_mlir.fuse_modules(model, only_faster=False)
        self.assertIn("ln_f+lm_head#0", [s.id for s in found.fused])
        torch.testing.assert_close(model(IDS).logits, expected)

    def test_a_norm_that_is_read_elsewhere(self):
        def select(x):
            return x[:, -1] + x.mean(1)

        for model, text in (
            (Selected(select), "which reads a result of"),
            (
                Selected(lambda x: (x[:, -1], x.square())[0]),
                "FUSE-N002 intermediate-has-other-users",
            ),
        ):
            with self.assertRaisesRegex(fuse_mlir.FuseMlirError, text):
                fuse_mlir.fuse_modules(
                    model.eval(),
                    {(("RMSNorm", "norm"), ("Linear", "head")): "fuse"},
                    inputs=torch.randn(2, 5, 16),
                )


@needs_library
class Calls(unittest.TestCase):
    """The stand-in is the norm's result for all that read it."""

    def setUp(self):
        self.plain, self.model = llama(), fused()

    def normed(self):
        found = self.model.model(IDS).last_hidden_state
        self.assertIs(type(found), Deferred)
        return found, self.plain.model(IDS).last_hidden_state

    @torch.no_grad()
    def test_values(self):
        for read in (
            lambda x: x.sum(),
            lambda x: x[..., :3],
            lambda x: x[:, -1].float(),
            lambda x: torch.cat([x, x]),
            lambda x: torch.add(input=x, other=1),
            lambda x: x.add_(1),
            lambda x: copy.deepcopy(x),
            lambda x: torch.from_numpy(x.numpy()),
            lambda x: pickle.loads(pickle.dumps(x)),
        ):
            ours, theirs = self.normed()
            torch.testing.assert_close(read(ours), read(theirs))
        ours, theirs = self.normed()
        self.assertEqual(str(ours), str(theirs))
        self.assertEqual(ours.shape, theirs.shape)
        self.assertEqual(ours.data_ptr(), ours.data_ptr())
        ours, _ = self.normed()
        ours.add_(1)
        torch.testing.assert_close(ours + 0, theirs + 1)
        stream = io.BytesIO()
        torch.save(self.normed()[0], stream)
        stream.seek(0)
        torch.testing.assert_close(torch.load(stream), theirs)

    @torch.no_grad()
    def test_hidden_states(self):
        ours = self.model(IDS, output_hidden_states=True).hidden_states
        theirs = self.plain(IDS, output_hidden_states=True).hidden_states
        torch.testing.assert_close(ours[-1] + 0, theirs[-1] + 0)

    @torch.no_grad()
    def test_input_that_changes_before_it_is_read(self):
        x = torch.randn(2, 3, 32)
        normed = self.model.model.norm(x)
        x.add_(1)
        for read in (torch.sum, self.model.lm_head, lambda t: t[:, -1]):
            with self.assertRaisesRegex(
                fuse_mlir.FuseError,
                "FUSE-N206 .* changed the input of the first",
            ):
                read(normed)

    @torch.no_grad()
    def test_places_by_themselves(self):
        x = torch.randn(2, 3, 32)
        torch.testing.assert_close(self.model.lm_head(x), self.plain.lm_head(x))
        both = self.model.lm_head(self.model.model.norm(x))
        torch.testing.assert_close(
            both, self.plain.lm_head(self.plain.model.norm(x))
        )

    @unittest.skipUnless(extension(), "no extension")
    @torch.no_grad()
    def test_usual_calls_run_in_the_extension(self):
        for _ in range(3):
            self.model(IDS[:1], logits_to_keep=1)
        self.assertEqual(self.model.model.norm._fast.count, 2)

    def test_gradients(self):
        for model in (self.plain, self.model):
            model.requires_grad_(True).train()
            model(IDS, labels=IDS).loss.backward()
        for (name, a), (_, b) in zip(
            self.plain.named_parameters(), self.model.named_parameters()
        ):
            torch.testing.assert_close(a.grad, b.grad, msg=name)

    @torch.no_grad()
    def test_weights_that_change(self):
        for model in (self.plain, self.model):
            model(IDS)
            model.lm_head.weight.mul_(2)
            model.model.norm.weight.mul_(3)
        torch.testing.assert_close(
            self.model(IDS).logits, self.plain(IDS).logits
        )

    @torch.no_grad()
    def test_another_head(self):
        for model in (self.plain, self.model):
            torch.manual_seed(0)
            model.lm_head = nn.Linear(32, 8)
        torch.testing.assert_close(
            self.model(IDS).logits, self.plain(IDS).logits
        )

    @torch.no_grad()
    def test_programs_have_the_members(self):
        compiled = torch.compile(
            self.model, backend="aot_eager", fullgraph=True
        )
        torch.testing.assert_close(compiled(IDS).logits, self.plain(IDS).logits)
        hidden = torch.compile(self.model.model, backend="aot_eager")
        torch.testing.assert_close(
            hidden(IDS).last_hidden_state,
            self.plain.model(IDS).last_hidden_state,
        )

    @torch.no_grad()
    def test_copies(self):
        expected = self.plain(IDS).logits
        for copied in (
            copy.deepcopy(self.model),
            pickle.loads(pickle.dumps(self.model)),
        ):
            torch.testing.assert_close(copied(IDS).logits, expected)
            fuse_mlir.unfuse_modules(copied)
            self.assertIs(type(copied.lm_head), nn.Linear)

    def test_autocast(self):
        with (
            torch.no_grad(),
            torch.autocast("cpu", torch.bfloat16),
            self.assertRaisesRegex(fuse_mlir.FuseError, "autocast"),
        ):
            self.model.lm_head(self.model.model.norm(torch.randn(1, 2, 32)))

    def test_hooks(self):
        model = llama()
        model.lm_head.register_forward_hook(lambda *_: None)
        with self.assertRaisesRegex(fuse_mlir.FuseError, "FUSE-N208"):
            fuse_mlir.fuse_modules(model, HEAD)
        self.model.lm_head.register_forward_hook(lambda *_: None)
        with (
            torch.no_grad(),
            self.assertRaisesRegex(
                fuse_mlir.FuseError, "FUSE-N208 has-hooks: 'lm_head'"
            ),
        ):
            self.model(IDS)

    @torch.no_grad()
    def test_rows_for_which_members_are_faster(self):
        place = self.model.model.norm
        place.__dict__["_eager_rows"] = fuse_mlir.fusion.timing.RowRanges.up_to(
            2
        )
        place._forget_fast()
        for keep in (1, 0):
            torch.testing.assert_close(
                self.model(IDS, logits_to_keep=keep).logits,
                self.plain(IDS, logits_to_keep=keep).logits,
            )


if __name__ == "__main__":
    unittest.main()
