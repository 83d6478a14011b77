# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slots that are put into models of transformers."""

import copy
import inspect
import pickle
import traceback
import unittest

import torch
from torch import nn

from fuse_mlir import fuse_modules, slots
from fuse_mlir.slots import rewritten
from fuse_mlir.slots.models import (
    AddedSlots,
    add_slots,
    list_slots,
    remove_slots,
)
from fuse_mlir.slots.moe import add_expert_slots, remove_expert_slots
from tests.models import (
    LLAMA,
    NORM_MLP,
    SIZES,
    needs_library,
    snapshot,
    transformer,
)

torch.set_num_threads(1)

IDS = torch.tensor([[3, 14, 15, 9, 26, 5], [5, 8, 9, 7, 9, 3]])
DECODER = {**LLAMA, "num_hidden_layers": 2, "pad_token_id": 0}
GPT2 = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 2,
    "n_inner": 64,
    "vocab_size": 64,
}
FUSE = {"preset": "fuse", "default": "eager"}


def llama(dtype=torch.float32, kind="llama"):
    return transformer(kind, dtype, **DECODER)


def bind(model, config=None):
    return slots.bind(
        model, FUSE if config is None else config, slots.Context()
    )


@needs_library
class Models(unittest.TestCase):
    def check(self, model, ops, *, labels=True, off=2e-6):
        """Adds, checks and removes slots of these ops.

        With unbound slots and after removal, the model has the same results.
        With kernels, the results are close.
        """
        extra = {"labels": IDS} if labels else {}

        def run(m):
            with torch.no_grad():
                result = m(IDS, **extra)
            return [result.loss, result.logits] if labels else [result[0]]

        expected, before = run(model), snapshot(model)
        state = {name: t.data_ptr() for name, t in model.state_dict().items()}
        added = add_slots(model)
        self.assertEqual({(s.op, s.variant) for s in added.added}, ops)
        self.assertEqual(
            {n: t.data_ptr() for n, t in model.state_dict().items()}, state
        )
        self.assertEqual(
            [path for path, _ in model.named_modules()],
            [entry[0] for entry in before],
        )
        # Until a kernel is bound, the model's own code runs.
        for a, b in zip(run(model), expected):
            self.assertTrue(torch.equal(a, b))
        report = bind(model)
        self.assertEqual(report["unchecked"], [])
        self.assertEqual({s.kernel for s in list_slots(model)}, {"fuse"})
        for a, b in zip(run(model), expected):
            self.assertLessEqual(
                float((a - b).abs().max()), off * float(b.abs().max())
            )
        checks = slots.verify(model, IDS)
        self.assertTrue(checks, str(checks))
        # All but the loss, which a call without labels has none of.
        self.assertEqual(
            {c.slot for c in checks if "did not run" in c.detail},
            {"loss_slot"} if labels else set(),
        )
        self.assertEqual(
            set(remove_slots(model)), {s.path for s in added.added}
        )
        self.assertEqual(snapshot(model), before)
        for a, b in zip(run(model), expected):
            self.assertTrue(torch.equal(a, b))
        return added

    def test_decoders(self):
        shared = {
            ("act_and_mul", "silu"),
            ("rms_norm", "standard"),
            ("apply_rotary_pos_emb", "full"),
            ("cross_entropy_loss", "causal"),
        }
        for kind in ("llama", "qwen3", "mistral"):
            with self.subTest(kind):
                added = self.check(llama(kind=kind), shared)
                self.assertEqual(added.skipped, {})
        self.check(llama(torch.bfloat16), shared, off=2**-7)

    def test_norms_with_an_offset(self):
        for kind in ("gemma", "gemma3_text"):
            with self.subTest(kind):
                self.check(
                    llama(kind=kind),
                    {
                        ("act_and_mul", "gelu_tanh"),
                        ("rms_norm", "offset1_f32"),
                        ("apply_rotary_pos_emb", "full"),
                        ("cross_entropy_loss", "causal"),
                    },
                )

    def test_layer_norms(self):
        added = self.check(
            transformer("gpt2", torch.float32, **GPT2),
            {("layer_norm", "standard"), ("cross_entropy_loss", "causal")},
        )
        self.assertIn(
            "uses 'act' without a gate, and the registry has no op",
            added.skipped["transformer.h.0.mlp"],
        )
        added = self.check(
            transformer(
                "bert", torch.float32, **{**SIZES, "num_hidden_layers": 2}
            ),
            {("layer_norm", "standard")},
            labels=False,
        )
        self.assertEqual({dict(s.params)["eps"] for s in added.added}, {1e-12})

    def test_experts_have_slots_of_their_own(self):
        model = transformer(
            "mixtral", torch.float32, **DECODER, num_local_experts=4
        )
        before, expected = snapshot(model), model(IDS).logits
        add_expert_slots(model)
        added = add_slots(model)
        self.assertEqual(
            {s.op for s in added.added},
            {"rms_norm", "apply_rotary_pos_emb", "cross_entropy_loss"},
        )
        bind(model)
        torch.testing.assert_close(model(IDS).logits, expected)
        remove_slots(model)
        remove_expert_slots(model)
        self.assertEqual(snapshot(model), before)

    def test_eps_is_that_of_each_module(self):
        model = llama()
        model.model.norm.variance_epsilon = 0.25
        added = add_slots(model, ["rms_norm"])
        self.assertEqual(
            {
                s.path: dict(s.params)["eps"]
                for s in added.added
                if s.path in ("model.norm", "model.layers.0.input_layernorm")
            },
            {"model.norm": 0.25, "model.layers.0.input_layernorm": 1e-6},
        )
        bind(model)
        # The eager function reads the module, so a later change is found.
        self.assertTrue(slots.verify(model))
        model.model.norm.variance_epsilon = 0.5
        self.assertFalse(slots.verify(model))


@needs_library
class Rules(unittest.TestCase):
    def test_gradients(self):
        model = llama().train().requires_grad_()
        twin = copy.deepcopy(model)
        add_slots(model)
        bind(model, {**FUSE, "mode": "training"})
        for m in (model, twin):
            m(IDS, labels=IDS).loss.backward()
        for (name, a), b in zip(model.named_parameters(), twin.parameters()):
            with self.subTest(name):
                torch.testing.assert_close(a.grad, b.grad, atol=1e-6, rtol=1e-4)

    def test_compile(self):
        model = llama()
        add_slots(model)
        bind(model)
        with torch.no_grad():
            expected = model(IDS, use_cache=False).logits
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
            torch.testing.assert_close(
                compiled(IDS, use_cache=False).logits, expected
            )

    def test_instances_copies_and_files(self):
        model, other = llama(), llama()
        expected = other(IDS).logits
        add_slots(model)
        bind(model)
        self.assertEqual(list_slots(other), [])
        self.assertTrue(torch.equal(other(IDS).logits, expected))
        twin = copy.deepcopy(model)
        slots.unbind(model)
        self.assertTrue(torch.equal(model(IDS).logits, expected))
        self.assertEqual({s.kernel for s in list_slots(twin)}, {"fuse"})
        layer = pickle.loads(pickle.dumps(twin.model.layers[0].mlp))
        self.assertIsNone(layer.act_slot.kernel)
        remove_slots(twin)
        self.assertTrue(torch.equal(twin(IDS).logits, expected))

    def test_slots_of_some_ops(self):
        model = llama()
        add_slots(model, ["apply_rotary_pos_emb"])
        self.assertEqual(
            {s.op for s in list_slots(model)}, {"apply_rotary_pos_emb"}
        )
        self.assertIn(
            "model.layers.1.self_attn: apply_rotary_pos_emb/full, "
            "unsqueeze_dim=1 (unbound)",
            [str(s) for s in list_slots(model)],
        )
        bind(model, {"bind": {"apply_rotary_pos_emb": "fuse"}})
        model(IDS)

    def test_what_gets_no_slot(self):
        glm = add_slots(transformer("glm", torch.float32, **DECODER))
        self.assertRegex(
            glm.skipped["model.layers.0.self_attn"],
            "apply_rotary_pos_emb of transformers.models.glm.modeling_glm is "
            "not apply_rotary_pos_emb/partial or apply_rotary_pos_emb/full: "
            "its eager function is off by",
        )
        # It multiplies by the weight in f32 and rounds once.
        olmo2 = transformer("olmo2", torch.bfloat16, **DECODER)
        self.assertRegex(
            add_slots(olmo2).skipped["model.norm"],
            "Olmo2RMSNorm is not .*: "
            r"rounds in other places than standard: \d+% of results in "
            "torch.bfloat16 differ",
        )
        model = llama()
        model.model.layers[0].mlp.act_fn.register_forward_hook(
            lambda *args: None
        )
        model.model.norm.forward = model.model.norm.forward
        added = add_slots(model)
        self.assertEqual(
            added.skipped,
            {
                "model.layers.0.mlp": "'act_fn' has hooks, which would not run; "
                "remove them",
                "model.norm": "LlamaRMSNorm has a forward on the "
                "instance, as accelerate and other packages set it",
            },
        )
        self.assertIn("no slot  model.norm: LlamaRMSNorm has", str(added))
        self.assertEqual(str(AddedSlots()), "")

    def test_errors(self):
        with self.assertRaisesRegex(
            slots.SlotError,
            "no slots of op 'rope' are added; there is rms_norm",
        ):
            add_slots(llama(), ["rope"])
        with self.assertRaisesRegex(
            slots.SlotError, "Linear has nothing to put a slot of rms_norm on"
        ):
            add_slots(nn.Linear(2, 2), ["rms_norm"])
        model = llama()
        fuse_modules(model, NORM_MLP)
        with self.assertRaisesRegex(
            slots.SlotError, "has 2 fused sites.*call unfuse_modules before"
        ):
            add_slots(model)
        model = llama()
        add_slots(model)
        mlp = model.model.layers[0].mlp
        mlp.__class__ = type("Other", (type(mlp),), {})
        with self.assertRaisesRegex(
            slots.SlotError,
            "'model.layers.0.mlp', a LlamaMLP, was changed .* to Other",
        ):
            remove_slots(model)
        self.assertIn("norm_slot", vars(model.model.norm))

    def test_calls_of_the_loss_that_no_kernel_serves(self):
        model = llama()
        add_slots(model, ["cross_entropy_loss"])
        bind(model)
        with torch.no_grad():
            plain = llama()(IDS, labels=IDS, num_items_in_batch=7).loss
            torch.testing.assert_close(
                model(IDS, labels=IDS, num_items_in_batch=7).loss, plain
            )
            for extra, text in (
                (
                    {"shift_labels": IDS},
                    "called with shift_labels, and "
                    "kernel 'fuse' shifts labels itself; bind the slot to "
                    "eager",
                ),
                (
                    {"ignore_index": 0},
                    "ignore_index=0, vocab_size=64, and "
                    "kernel 'fuse' is for -100",
                ),
            ):
                with self.assertRaisesRegex(slots.SlotError, text):
                    model(IDS, labels=IDS, **extra)
            model.loss_function = lambda logits, labels, vocab_size, **kw: (
                logits.sum()
            )
            with self.assertRaisesRegex(
                slots.SlotError,
                "another loss function since its slot was added",
            ):
                model(IDS, labels=IDS)
            slots.unbind(model)
            model(IDS, labels=IDS)

    def test_hooks_of_norms_run(self):
        model, seen = llama(), []
        model.model.norm.register_forward_hook(lambda *args: seen.append(1))
        add_slots(model)
        bind(model)
        model(IDS)
        self.assertEqual(seen, [1])


class Base(nn.Module):
    def forward(self, x):
        return x + 1


class Closes(Base):
    def forward(self, x):
        return super().forward(x) * 2


class Rewritten(unittest.TestCase):
    def test_what_a_forward_closes_over_and_its_lines(self):
        definition = rewritten.parse(Closes.forward)
        again = rewritten.compile_definition(Closes.forward, definition)
        self.assertEqual(again(Closes(), 3), 8)
        self.assertEqual(again.__qualname__, "Closes.forward")
        try:
            again(Closes(), None)
        except TypeError as error:
            frame = traceback.extract_tb(error.__traceback__)[1]
        _, first = inspect.getsourcelines(Closes.forward)
        self.assertEqual((frame.filename, frame.lineno), (__file__, first + 1))

    def test_no_source(self):
        made = {}
        exec("def forward(self, x):\n    return x\n", made)
        for function, text in (
            (made["forward"], "source of 'forward' is not"),
            (len, "'len' is a builtin"),
        ):
            with self.assertRaisesRegex(rewritten.NoSource, text):
                rewritten.parse(function)


if __name__ == "__main__":
    unittest.main()
