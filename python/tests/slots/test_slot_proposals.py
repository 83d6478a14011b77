# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code in the style of the proposals for slots works here.

Kernel replacement by registration (ByteDance-Seed/VeOmni#569) and kernel
functions that are not modules (huggingface/transformers#45420).
docs/how-to/bind-slots.md has a table of them.
"""

import copy
import dataclasses
import unittest

import torch
from torch import nn

from fuse_mlir import errors, slots
from fuse_mlir.slots import HardwareRequirement, KernelSpec, OpSlot
from fuse_mlir.slots.models import add_slots, list_slots, remove_slots
from tests.models import LLAMA, needs_library, snapshot, transformer

torch.set_num_threads(1)

IDS = torch.tensor([[3, 14, 15, 9, 26, 5]])


def eager_norm(hidden_states, weight, variance_epsilon):
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + variance_epsilon)
    return weight * hidden_states.to(input_dtype)


class Qwen3RMSNorm(nn.Module):
    """The guarded forward of VeOmni#569.

    The slot is an attribute, not a global. Its eager function is the code below
    the guard, and the number that the call passes is among its params.
    """

    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(hidden_size) + 0.5)
        self.variance_epsilon = eps
        self.veomni_rms_norm = OpSlot(
            "rms_norm",
            "standard",
            params={"eps": eps},
            eager=lambda x, weight: eager_norm(x, weight, eps),
        )

    def forward(self, hidden_states):
        if self.veomni_rms_norm.has_kernel:
            return self.veomni_rms_norm(hidden_states, self.weight)
        return eager_norm(hidden_states, self.weight, self.variance_epsilon)


def liger(hidden_states, weight, eps):
    """In place of Liger's function, which wants a GPU."""
    return nn.functional.rms_norm(hidden_states, weight.shape, weight, eps)


LIGER = KernelSpec(
    name="liger_kernel",
    op_name="rms_norm",
    variant="standard",
    factory=lambda: liger,
    hardware=HardwareRequirement(device_type="any"),
    description="LigerRMSNorm",
)
#: A global, as in the proposal. An attribute of the same name does not read it,
#: so that Qwen3RMSNorm can be bound.
veomni_rms_norm = OpSlot(
    "rms_norm",
    "standard",
    params={"eps": 1e-6},
    eager=lambda x, w: eager_norm(x, w, 1e-6),
)


class GlobalNorm(nn.Module):
    def forward(self, hidden_states):
        return veomni_rms_norm(hidden_states, hidden_states[0])


@needs_library
class VeOmni569(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.registry = slots.Context()
        self.x = torch.randn(3, 16)

    def bind(self, model, kernel, **config):
        return slots.bind(
            model, {"bind": {"rms_norm": kernel}, **config}, self.registry
        )

    def fails(self, text, call, *args, **kwargs):
        with self.assertRaises(errors.NativeError) as caught:
            call(*args, **kwargs)
        self.assertIn(text, str(caught.exception))

    def test_569_guarded_forward_runs_the_kernel_of_its_instance(self):
        self.registry.register(LIGER)
        teacher, student = Qwen3RMSNorm(16), Qwen3RMSNorm(16)
        unbound = teacher(self.x)
        self.assertFalse(teacher.veomni_rms_norm.has_kernel)
        self.bind(teacher, "eager")
        self.bind(student, "liger_kernel")
        self.assertFalse(teacher.veomni_rms_norm.has_kernel)
        self.assertTrue(student.veomni_rms_norm.has_kernel)
        self.assertTrue(torch.equal(teacher(self.x), unbound))
        expected = liger(self.x, student.weight, 1e-6)
        self.assertTrue(torch.equal(student(self.x), expected))
        compiled = torch.compile(student, fullgraph=True, backend="aot_eager")
        with torch.no_grad():
            self.assertTrue(torch.equal(compiled(self.x), expected))
        slots.unbind(student)
        self.assertTrue(
            torch.equal(
                student(self.x), eager_norm(self.x, student.weight, 1e-6)
            )
        )

    def test_569_duplicate_registration(self):
        self.registry.register(LIGER)
        self.fails(
            "duplicate kernel registration: op=rms_norm, "
            "variant=standard, name=liger_kernel",
            self.registry.register,
            LIGER,
        )
        self.registry.register(LIGER, force=True)
        with self.assertRaises(dataclasses.FrozenInstanceError):
            LIGER.name = "other"

    def test_569_unknown_kernel_lists_the_available_ones(self):
        self.registry.register(LIGER)
        self.fails(
            "unknown kernel 'typo' for op=rms_norm, variant=standard; "
            "available: eager, fuse, liger_kernel",
            self.bind,
            Qwen3RMSNorm(16),
            "typo",
        )

    def test_569_hardware_fails_early_and_nothing_stands_in(self):
        self.registry.register(
            dataclasses.replace(LIGER, hardware=HardwareRequirement("gpu", 90))
        )
        model = Qwen3RMSNorm(16)
        self.fails(
            "requires device_type=gpu, compute_capability>=90, but the "
            "target is device_type=cpu; available for it: eager, fuse",
            self.bind,
            model,
            "liger_kernel",
        )
        self.assertIsNone(model.veomni_rms_norm.kernel)

    def test_569_variants_do_not_stand_for_each_other(self):
        # (1 + w) of Qwen3.5, in both directions.
        self.registry.register(
            dataclasses.replace(LIGER, variant="offset1_f32")
        )
        self.fails(
            "kernel 'liger_kernel' for op=rms_norm is of variant "
            "offset1_f32, the slot of variant standard",
            self.bind,
            Qwen3RMSNorm(16),
            "liger_kernel",
        )
        model = nn.Module()
        model.slot = OpSlot(
            "rms_norm",
            "offset1_f32",
            params={"eps": 1e-6},
            eager=lambda x, w: eager_norm(x, 1 + w, 1e-6),
        )
        self.fails(
            "kernel 'liger_kernel' is off by", self.bind, model, "liger_kernel"
        )

    def test_569_calls_of_unbound_slots(self):
        self.fails(
            "op=rms_norm, variant=standard has no kernel bound",
            Qwen3RMSNorm(16).veomni_rms_norm,
            self.x,
            self.x[0],
        )

    def test_569_rebinding_is_no_accident(self):
        self.registry.register(LIGER)
        model = Qwen3RMSNorm(16)
        self.bind(model, "liger_kernel")
        self.fails(
            "is bound to 'liger_kernel'; to bind it to 'fuse' set rebind",
            self.bind,
            model,
            "fuse",
        )

    def test_569_presets_that_do_not_fit_fail(self):
        self.fails(
            "preset 'npu' fails: unknown kernel 'npu' for op=rms_norm",
            slots.bind,
            Qwen3RMSNorm(16),
            {"presets": {"npu": {"rms_norm": "npu"}}, "preset": "npu"},
            self.registry,
        )

    def test_569_slots_without_kernels_are_in_the_report(self):
        model = nn.Module()
        model.slot = OpSlot("moe_load_balancing_loss", eager=lambda x: x)
        report = slots.bind(model, {"default": "eager"}, self.registry)
        self.assertIn(
            "op=moe_load_balancing_loss", report["without_kernels"][0]
        )
        self.fails(
            "unknown kernel 'fused'",
            slots.bind,
            model,
            {"bind": {"moe_load_balancing_loss": "fused"}},
            self.registry,
        )

    def test_569_global_slots_are_refused_by_name(self):
        self.fails(
            "slot 'veomni_rms_norm' is a global of",
            self.bind,
            GlobalNorm(),
            "fuse",
        )

    def test_569_training_has_the_gradients_of_the_eager_code(self):
        self.registry.register(LIGER)
        model = Qwen3RMSNorm(16)
        reference = copy.deepcopy(model)
        self.bind(model, "liger_kernel", mode="training")
        for m in (model, reference):
            m(self.x).square().sum().backward()
        torch.testing.assert_close(model.weight.grad, reference.weight.grad)

    def test_569_numerical_check_of_bound_kernels(self):
        self.registry.register(LIGER)
        model = Qwen3RMSNorm(16)
        self.bind(model, "liger_kernel")
        checks = slots.verify(model, self.x)
        self.assertTrue(checks)
        self.assertIn("kernel 'liger_kernel' is off by", str(checks))

    def test_569_models_without_slots(self):
        """Norms of a model of transformers, by a function and by fuse."""
        self.registry.register(LIGER)
        model = transformer(
            "qwen3", torch.float32, **{**LLAMA, "num_hidden_layers": 2}
        )
        with torch.no_grad():
            expected = model(IDS).logits
            add_slots(model)
            self.bind(
                model,
                "liger_kernel",
                default="eager",
                overrides=[
                    {"path": "model.layers.0.**", "bind": {"rms_norm": "fuse"}}
                ],
            )
            self.assertEqual(
                {s.kernel for s in list_slots(model) if s.op == "rms_norm"},
                {"liger_kernel", "fuse"},
            )
            torch.testing.assert_close(model(IDS).logits, expected)


@needs_library
class Transformers45420(unittest.TestCase):
    """Functions stay functions: `self.rotary_fn` is not a module."""

    def setUp(self):
        self.model = transformer(
            "qwen3", torch.float32, **{**LLAMA, "num_hidden_layers": 2}
        )
        self.context = slots.Context()

    def bind(self, kernel="fuse", **config):
        add_slots(self.model, ["apply_rotary_pos_emb"])
        return slots.bind(
            self.model,
            {"bind": {"apply_rotary_pos_emb": kernel}, **config},
            self.context,
        )

    def test_45420_functions_never_become_modules(self):
        before = snapshot(self.model)
        names = [name for name, _ in self.model.named_modules()]
        state = list(self.model.state_dict())
        self.bind()
        attention = self.model.model.layers[0].self_attn
        self.assertEqual(attention.rotary_slot.kernel, "fuse")
        self.assertNotIsInstance(attention.rotary_slot, nn.Module)
        for _ in range(2):
            self.assertEqual([n for n, _ in self.model.named_modules()], names)
            self.assertEqual(list(self.model.state_dict()), state)
            self.model(IDS)
        remove_slots(self.model)
        self.assertEqual(snapshot(self.model), before)

    def test_45420_every_module_runs_as_before(self):
        """The order in which modules run, as DeepSpeed's ZeRO-3 traces it."""

        def trace():
            order = []
            hooks = [
                module.register_forward_pre_hook(
                    lambda *_, name=name: order.append(name)
                )
                for name, module in self.model.named_modules()
            ]
            with torch.no_grad():
                self.model(IDS)
            for hook in hooks:
                hook.remove()
            return order

        before = trace()
        add_slots(self.model, ["apply_rotary_pos_emb", "rms_norm"])
        slots.bind(
            self.model, {"preset": "fuse", "default": "eager"}, self.context
        )
        self.assertEqual(trace(), before)
        self.assertEqual(trace(), before)

    def test_45420_functions_of_the_hub_are_kernels(self):
        """A function with the arguments of transformers' own."""
        calls = []

        def rotary(q, k, cos, sin, unsqueeze_dim=1):
            calls.append(1)
            cos, sin = (
                cos.unsqueeze(unsqueeze_dim),
                sin.unsqueeze(unsqueeze_dim),
            )

            def turn(x):
                low, high = x.chunk(2, -1)
                return x * cos + torch.cat((-high, low), -1) * sin

            return turn(q), turn(k)

        with torch.no_grad():
            expected = self.model(IDS).logits
            self.context.register(
                KernelSpec(
                    "hub", "apply_rotary_pos_emb", "full", function=rotary
                )
            )
            self.bind("hub")
            calls.clear()
            torch.testing.assert_close(self.model(IDS).logits, expected)
        self.assertEqual(len(calls), 2)

    def test_45420_rotary_in_training(self):
        self.model.requires_grad_(True)
        reference = copy.deepcopy(self.model)
        self.bind(mode="training")
        for model in (self.model, reference):
            model(IDS, labels=IDS).loss.backward()
        for ours, theirs in zip(
            self.model.parameters(), reference.parameters()
        ):
            self.assertIsNotNone(ours.grad)
            torch.testing.assert_close(
                ours.grad, theirs.grad, rtol=1e-4, atol=1e-6
            )


if __name__ == "__main__":
    unittest.main()
