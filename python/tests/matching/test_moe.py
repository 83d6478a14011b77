# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts of mixtures of experts: fused, and as slots."""

import copy
import pickle
import unittest
from unittest import mock

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import native, slots
from fuse_mlir.compiler import kernels
from fuse_mlir.errors import UnknownExperts
from fuse_mlir.fusion.modules import fused_sites
from fuse_mlir.matching.moe import (
    activation_of,
    looks_like_experts,
    moe_experts,
)
from fuse_mlir.slots.moe import add_expert_slots, remove_expert_slots
from tests.models import SIZES, needs_library, transformer

torch.set_num_threads(1)

MIXTRAL = {
    **SIZES,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "num_local_experts": 4,
}
IDS = torch.tensor([[5, 9, 33, 2]])
#: Asks for the experts of any model.
EXPERTS = {(("*Experts", "**.experts"),): "fuse"}


def mixtral(**settings):
    return transformer("mixtral", **MIXTRAL, **settings)


def logits(model, ids=IDS):
    with torch.no_grad():
        return model(ids).logits


class Experts(nn.Module):
    """Written in another way than transformers has them."""

    def __init__(self, act=nn.functional.silu, limit=None):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(3, 8, 6))
        self.down_proj = nn.Parameter(torch.randn(3, 6, 4))
        self.act, self.limit = act, limit

    def forward(self, x, index, weights):
        both = torch.einsum("tf,thof->tho", x, self.gate_up_proj[index])
        gate, up = both.chunk(2, -1)
        if self.limit:
            gate = gate.clamp(max=self.limit)
        each = torch.einsum(
            "tho,thfo->thf", self.act(gate) * up, self.down_proj[index]
        )
        return (each * weights[..., None]).sum(1)


class Recognition(unittest.TestCase):
    def test_what_holds_several_weights(self):
        self.assertTrue(looks_like_experts(Experts()))
        module = nn.Module()
        module.cls_token = nn.Parameter(torch.zeros(1, 1, 8))
        module.positions = nn.Parameter(torch.zeros(1, 9, 8))
        self.assertFalse(looks_like_experts(module))
        self.assertFalse(looks_like_experts(nn.Linear(2, 2)))

    def test_activations_by_what_is_computed(self):
        self.assertEqual(activation_of(Experts(), "e"), "silu")
        self.assertEqual(activation_of(Experts(nn.GELU()), "e"), "gelu")
        self.assertEqual(
            activation_of(Experts(nn.GELU("tanh")), "e"), "gelu_tanh"
        )

    def refused(self, module, text):
        with self.assertRaisesRegex(UnknownExperts, text):
            activation_of(module, "mlp.experts")

    def test_other_functions(self):
        self.refused(
            Experts(nn.ReLU()),
            "compute another function than gated "
            "MLPs with silu, gelu, gelu_tanh",
        )
        # As small values would not show.
        self.refused(Experts(limit=7.0), "compute another function")

    def test_other_tensors(self):
        module = Experts()
        module.bias = nn.Parameter(torch.zeros(3, 8))
        self.refused(
            module,
            "experts 'mlp.experts' have the tensors bias, "
            "down_proj, gate_up_proj; expected gate_up_proj and "
            "down_proj",
        )
        module = Experts()
        module.down_proj = nn.Parameter(module.down_proj.mT.contiguous())
        self.refused(module, r"shapes \[3, 8, 6\] and \[3, 4, 6\]; expected")

    def test_other_interface(self):
        module = Experts()
        module.gate_up_proj = nn.Parameter(torch.randn(3, 8, 6))

        class Scored(Experts):
            def forward(self, x, scores):
                return x

        self.refused(
            Scored(), "do not run with rows, indices and factors: TypeError"
        )

    def test_index_that_is_no_expert_adds_nothing(self):
        x, weights = torch.randn(2, 6), torch.ones(2, 2)
        module = Experts()
        one = moe_experts(
            x,
            torch.tensor([[0, 3], [2, 3]]),
            weights,
            module.gate_up_proj,
            module.down_proj,
            "silu",
        )
        other = moe_experts(
            x,
            torch.tensor([[0], [2]]),
            weights[:, :1],
            module.gate_up_proj,
            module.down_proj,
            "silu",
        )
        self.assertTrue(torch.equal(one, other))


@needs_library
class Fused(unittest.TestCase):
    def test_mixtral(self):
        model = mixtral()
        before = logits(model)
        result = fuse_mlir.fuse_modules(model, EXPERTS)
        self.assertEqual(
            [(s.parent, s.id, s.families) for s in result],
            [
                (f"model.layers.{i}.mlp", f"experts#{i}", ("moe_experts",))
                for i in range(2)
            ],
        )
        checks = fuse_mlir.verify(model)
        self.assertTrue(checks, str(checks))
        # The kernel rounds the sum over experts once, PyTorch after each.
        torch.testing.assert_close(logits(model), before, atol=3e-2, rtol=2e-2)
        # Another number of tokens needs no other kernel.
        kernel = fused_sites(model)[0][1]._kernel
        logits(model, IDS[:, :1])
        self.assertIs(fused_sites(model)[0][1]._kernel, kernel)
        fuse_mlir.unfuse_modules(model)
        self.assertTrue(torch.equal(logits(model), before))

    def test_shared_expert_is_a_place_of_its_own(self):
        model = transformer(
            "qwen2_moe",
            **{**SIZES, "num_hidden_layers": 1},
            num_key_value_heads=1,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=32,
            shared_expert_intermediate_size=48,
        )
        found = fuse_mlir.explain(model, only_faster=False)
        self.assertEqual(
            [(s.id, s.status, s.families) for s in found],
            [
                ("experts#0", "refused", ()),
                ("shared_expert#0", "could fuse", ("gated_mlp",)),
                (
                    "input_layernorm+q_proj+k_proj+v_proj#0",
                    "could fuse",
                    ("norm_linear",),
                ),
                ("norm+lm_head#0", "could fuse", ("norm_linear",)),
                ("o_proj+add#0", "could fuse", ("fused_linear",)),
            ],
        )

    def test_only_when_asked_for(self):
        found = fuse_mlir.fuse_modules(mixtral(), only_faster=False)
        self.assertEqual(
            {s.id.partition("#")[0] for s in found.fused},
            {
                "input_layernorm+q_proj+k_proj+v_proj",
                "norm+lm_head",
                "o_proj+add",
            },
        )
        self.assertIn(
            "FUSE-N014 family-not-requested: the "
            "kernel for experts 'model.layers.0.mlp.experts' is slower "
            "than grouped products, except for few tokens in 16 bits on a "
            "GPU; a pattern such as",
            found.refused[0].reason,
        )

    def test_finding_11_many_rows_run_the_experts(self):
        model = mixtral()
        fuse_mlir.fuse_modules(model, EXPERTS)
        sites = [module for _, module in fused_sites(model)]
        logits(model)
        # Four experts, of which a token has two.
        self.assertEqual([s._kernel.most_rows for s in sites], [2, 2])
        self.assertIn(
            "moe_experts for up to 2 rows; calls with more run the "
            "experts as they are",
            str(fuse_mlir.explain(model)),
        )
        with mock.patch.object(
            kernels, "call_all", wraps=kernels.call_all
        ) as call:
            many = logits(model)
            self.assertEqual(call.call_count, 0)
            logits(model, IDS[:, :2])
            self.assertEqual(call.call_count, 2)
        fuse_mlir.unfuse_modules(model)
        self.assertTrue(torch.equal(logits(model), many))

    def test_greedy_tokens(self):
        model = mixtral()

        def tokens():
            return model.generate(
                IDS, max_new_tokens=6, do_sample=False, pad_token_id=0
            ).tolist()

        expected = tokens()
        with fuse_mlir.fused(model, EXPERTS):
            self.assertEqual(tokens(), expected)

    def test_gradients_are_those_of_the_experts(self):
        model = transformer(
            "mixtral", torch.float32, **MIXTRAL
        ).requires_grad_()

        def gradient():
            model.zero_grad()
            model(IDS).logits.square().sum().backward()
            return model.model.layers[0].mlp.experts.down_proj.grad.clone()

        expected = gradient()
        with fuse_mlir.fused(model, EXPERTS):
            torch.testing.assert_close(
                gradient(), expected, rtol=1e-4, atol=1e-5
            )

    def test_biases_are_refused_by_name(self):
        model = transformer(
            "gpt_oss",
            **{**SIZES, "num_hidden_layers": 1},
            num_key_value_heads=1,
            num_local_experts=4,
            head_dim=16,
        )
        self.assertRegex(
            fuse_mlir.explain(model)[0].reason,
            "FUSE-N225 .*experts 'model.layers.0.mlp.experts' "
            "have the tensors down_proj, down_proj_bias",
        )

    def test_code_for_gpus(self):
        model = mixtral()
        fuse_mlir.fuse_modules(model, EXPERTS)
        formed = fused_sites(model)[0][1]._kernel.compiled.formed
        code = native.Module(formed).compile(chip="sm_90a").bytes()
        self.assertIn(b".entry", code)

    def test_family_is_demanded(self):
        pattern = (("MixtralExperts", "model.layers.*.mlp.experts"),)
        self.assertEqual(
            len(
                fuse_mlir.fuse_modules(
                    mixtral(), {pattern: "fuse:moe_experts"}
                ).fused
            ),
            2,
        )
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "the members form moe_experts, and the pattern asks for mlp",
        ):
            fuse_mlir.fuse_modules(mixtral(), {pattern: "fuse:mlp"})


@needs_library
class Bound(unittest.TestCase):
    def setUp(self):
        self.model = mixtral()
        self.before = logits(self.model)
        self.context = slots.Context()

    def bind(self, kernel, **options):
        return slots.bind(
            self.model,
            {"bind": {"moe_experts": kernel}},
            self.context,
            **options,
        )

    def slot(self):
        return self.model.model.layers[0].mlp.experts.experts_slot

    def test_eager_is_the_model_as_it_was(self):
        paths = [f"model.layers.{i}.mlp.experts" for i in range(2)]
        modules = [name for name, _ in self.model.named_modules()]
        self.assertEqual(add_expert_slots(self.model), paths)
        self.bind("eager")
        self.assertTrue(torch.equal(logits(self.model), self.before))
        self.assertEqual([n for n, _ in self.model.named_modules()], modules)
        self.assertEqual(remove_expert_slots(self.model), paths)
        self.assertTrue(torch.equal(logits(self.model), self.before))

    def test_kernel(self):
        add_expert_slots(self.model)
        report = self.bind("fuse")
        self.assertEqual(
            [c["path"] for c in report["calls"]],
            [f"model.layers.{i}.mlp.experts" for i in range(2)],
        )
        bound = logits(self.model)
        torch.testing.assert_close(bound, self.before, atol=3e-2, rtol=2e-2)
        # One program for all numbers of tokens, one for a single token.
        for count in (1, 2, 3, 4):
            logits(self.model, IDS[:, :count])
        self.assertEqual(len(self.slot()._programs), 2)
        self.assertTrue(torch.equal(logits(copy.deepcopy(self.model)), bound))

    def test_compiled_without_a_graph_break(self):
        add_expert_slots(self.model)
        self.bind("fuse")
        compiled = torch.compile(
            self.model, fullgraph=True, backend="aot_eager"
        )
        with self.assertRaisesRegex(Exception, "call the model once before"):
            logits(compiled)
        bound = logits(self.model)
        torch._dynamo.reset()
        self.assertTrue(torch.equal(logits(compiled), bound))

    def test_pickled_slots_are_unbound(self):
        add_expert_slots(self.model)
        self.bind("fuse")
        loaded = pickle.loads(pickle.dumps(self.model))
        with self.assertRaisesRegex(slots.SlotError, "has no kernel bound"):
            logits(loaded)
        self.assertEqual(len(remove_expert_slots(loaded)), 2)
        self.assertTrue(torch.equal(logits(loaded), self.before))

    def test_models_without_experts(self):
        with self.assertRaisesRegex(slots.SlotError, "has no experts"):
            add_expert_slots(nn.Linear(2, 2))
        add_expert_slots(self.model)
        with self.assertRaisesRegex(slots.SlotError, "without a slot"):
            add_expert_slots(self.model)
        model = nn.Sequential(Experts(), Experts(nn.ReLU()))
        with self.assertRaisesRegex(slots.SlotError, "experts '1' compute"):
            add_expert_slots(model)
        self.assertIs(type(model[0]), Experts)


if __name__ == "__main__":
    unittest.main()
