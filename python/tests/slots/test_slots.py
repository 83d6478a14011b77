# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slots of PyTorch modules: instances, errors, detaching."""

import copy
import unittest

import torch
from torch import nn

from fuse_mlir import errors, native, slots
from tests.models import call_in_threads

EPS = 2.0**-10

#: Doubles through bf16, so that its results differ from exact ones.
ROUGH = """
nn.slot_kernel "rough" op "scale" variant "standard" aliases ["coarse"] {
  nn.implementation on <cpu> mode <inference> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.truncf %x : tensor<4xf32> to tensor<4xbf16>
      %1 = arith.extf %0 : tensor<4xbf16> to tensor<4xf32>
      %2 = arith.addf %1, %1 : tensor<4xf32>
      return %2 : tensor<4xf32>
    }
  }
}
nn.slot_kernel "chip" op "scale" variant "standard" {
  nn.implementation on <gpu from 80> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
}
nn.slot_kernel "other" op "scale" variant "shifted" {
  nn.implementation on <any> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
}
"""


def rms_norm(x, weight):
    return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = slots.OpSlot("scale", eager=lambda x: x + x)

    def forward(self, x):
        return self.scale(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Scale(), Scale()])

    def forward(self, x):
        return [layer(x) for layer in self.layers]


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.norm = slots.OpSlot(
            "rms_norm", params={"eps": EPS}, eager=rms_norm
        )

    def forward(self, x):
        return self.norm(x, self.weight)


@unittest.skipUnless(native.available(), "libfuse is not built")
class Slots(unittest.TestCase):
    def setUp(self):
        self.context = slots.Context()
        self.context.register_kernels(ROUGH)
        self.x = torch.tensor([1.0, 1.001, -3.0, 257.0])
        self.exact = self.x + self.x
        self.rough = self.x.bfloat16().float() * 2

    def bind(self, model, bind, **config):
        return slots.bind(model, {"bind": bind, **config}, self.context)

    def fails(self, text, model, bind, **config):
        with self.assertRaises(errors.NativeError) as caught:
            self.bind(model, bind, **config)
        self.assertIn(text, str(caught.exception))


class Threads(Slots):
    def test_threads_see_one_version_of_weights(self):
        model = Norm(8).requires_grad_(False)
        self.bind(model, {"rms_norm": "fuse"})
        call_in_threads(self, model, torch.randn(3, 8), model.weight)

    def test_threads_see_one_version_of_packed_weights(self):
        class Mlp(nn.Module):
            def __init__(self):
                super().__init__()
                self.up = nn.Parameter(torch.randn(16, 8))
                self.gate = nn.Parameter(torch.randn(16, 8))
                self.down = nn.Parameter(torch.randn(8, 16))
                self.mlp = slots.OpSlot("swiglu_mlp", eager=swiglu_mlp)

            def forward(self, x):
                return self.mlp(x, self.gate, self.up, self.down)

        def swiglu_mlp(x, gate, up, down):
            return (nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T

        model = Mlp().requires_grad_(False)
        self.bind(model, {"swiglu_mlp": "fuse"})
        call_in_threads(self, model, torch.randn(3, 8), model.down)


class Instances(Slots):
    def test_two_models_are_bound_differently(self):
        teacher, student = Scale(), Scale()
        self.bind(teacher, {"scale": "eager"})
        self.bind(student, {"scale": "rough"})
        self.assertFalse(torch.equal(self.exact, self.rough))
        for _ in range(2):
            self.assertTrue(torch.equal(teacher(self.x), self.exact))
            self.assertTrue(torch.equal(student(self.x), self.rough))

    def test_copies_have_slots_of_their_own(self):
        student = Scale()
        self.bind(student, {"scale": "rough"})
        twin = copy.deepcopy(student)
        slots.unbind(student)
        self.assertIsNone(student.scale.kernel)
        self.assertTrue(torch.equal(twin(self.x), self.rough))

    def test_override_by_path(self):
        model = Model()
        report = self.bind(
            model,
            {"scale": "rough"},
            overrides=[{"path": "layers.1", "bind": {"scale": "eager"}}],
        )
        self.assertEqual(
            [(c["path"], c["kernel"], c["because"]) for c in report["calls"]],
            [
                ("layers.0", "rough", "bind scale"),
                ("layers.1", "eager", "override layers.1"),
            ],
        )
        first, second = model(self.x)
        self.assertTrue(torch.equal(first, self.rough))
        self.assertTrue(torch.equal(second, self.exact))

    def test_two_models_of_one_ir_module(self):
        function = (
            "func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {"
            "%0 = nn.call_slot @s(%x) : (tensor<4xf32>) -> "
            "tensor<4xf32> return %0 : tensor<4xf32>}"
        )
        slot = (
            'nn.slot @s op "scale" variant "standard" : (tensor<4xf32>) '
            "-> tensor<4xf32> {}"
        )
        module = self.context.parse(
            "\n".join(
                f'nn.model @{name} class "M" {{ {slot} {function} }}'
                for name in ("teacher", "student")
            )
        )
        before = str(module)
        report = module.bind(
            {"models": {"student": {"bind": {"scale": "rough"}}}}
        )
        self.assertEqual(
            [(c["model"], c["kernel"]) for c in report["calls"]],
            [("teacher", None), ("student", "rough")],
        )
        module.unbind("student")
        self.assertEqual(str(module), before)


class Tree(Slots):
    def test_slots_never_enter_the_module_tree(self):
        model = Model()
        modules = [name for name, _ in model.named_modules()]
        state = list(model.state_dict())
        self.assertEqual(
            modules,
            [
                "",
                "layers",
                "layers.0",
                "layers.0.linear",
                "layers.1",
                "layers.1.linear",
            ],
        )
        self.bind(model, {"scale": "rough"})
        model(self.x)
        self.assertEqual([name for name, _ in model.named_modules()], modules)
        self.assertEqual(list(model.state_dict()), state)
        slots.unbind(model)
        self.assertEqual([name for name, _ in model.named_modules()], modules)
        self.assertEqual(vars(model.layers[0].scale)["_kernel"], None)


class Errors(Slots):
    def test_unbound_slot_does_not_run(self):
        with self.assertRaisesRegex(
            slots.SlotError, "op=scale, variant=standard has no kernel"
        ):
            Scale()(self.x)

    def test_unknown_kernel(self):
        self.fails(
            "unknown kernel 'fast' for op=scale, variant=standard; "
            "available: eager, chip, rough",
            Scale(),
            {"scale": "fast"},
        )

    def test_other_variant(self):
        self.fails(
            "kernel 'other' for op=scale is of variant shifted",
            Scale(),
            {"scale": "other"},
        )

    def test_interleaved_rotary(self):
        model = Scale()
        model.scale = slots.OpSlot(
            "apply_rotary_pos_emb",
            "interleaved",
            eager=lambda q, k, cos, sin: (q, k),
        )
        self.fails(
            "kernel 'fuse' for op=apply_rotary_pos_emb is of variant "
            "full, partial",
            model,
            {"apply_rotary_pos_emb": "fuse"},
        )

    def test_mode(self):
        self.fails(
            "is for mode inference, not for training",
            Scale(),
            {"scale": "rough"},
            mode="training",
        )

    def test_hardware(self):
        self.fails(
            "kernel 'chip' for op=scale, variant=standard requires "
            "device_type=gpu, compute_capability>=80, but the target "
            "is device_type=cpu; available for it: eager, rough",
            Scale(),
            {"scale": "chip"},
        )

    def test_inputs_elsewhere_than_the_kernel(self):
        model = Scale()
        self.bind(model, {"scale": "chip"}, target="sm_90")
        with self.assertRaisesRegex(
            slots.SlotError,
            "kernel 'chip' of op=scale is bound for "
            "sm_90, and an input is on cpu; bind the slot again",
        ):
            model(self.x)

    def test_code_for_gpus(self):
        model = Norm(48)
        self.bind(model, {"rms_norm": "fuse"}, target="sm_90a")
        inputs = torch.randn(5, 48), model.weight
        bound, types = model.norm.bound_ir(inputs, [(-1, 48), (48,)])
        self.assertEqual(types, [torch.float32])
        code = native.compile_module(
            bound._handle.pointer, self.context._diagnostics, chip="sm_90a"
        )
        self.assertIn(b".entry", code.bytes())

    def test_unknown_op_and_path(self):
        self.fails("no call of a slot of op 'rope'", Scale(), {"rope": "eager"})
        self.fails(
            "override 'layers.7': no call of a slot of op 'scale'",
            Model(),
            {},
            overrides=[{"path": "layers.7", "bind": {"scale": "eager"}}],
        )

    def test_nothing_is_bound_after_an_error(self):
        model = Model()
        self.fails(
            "unknown kernel",
            model,
            {"scale": "rough"},
            overrides=[{"path": "layers.1", "bind": {"scale": "fast"}}],
        )
        self.assertEqual(
            [layer.scale.kernel for layer in model.layers], [None, None]
        )

    def test_rebinding_has_to_be_asked_for(self):
        model = Scale()
        self.bind(model, {"scale": "rough"})
        self.bind(model, {"scale": "rough"})
        self.fails(
            "is bound to 'rough'; to bind it to 'eager' set rebind",
            model,
            {"scale": "eager"},
        )
        slots.bind(
            model, {"bind": {"scale": "eager"}}, self.context, rebind=True
        )
        self.assertTrue(torch.equal(model(self.x), self.exact))

    def test_duplicate_registration(self):
        with self.assertRaisesRegex(
            errors.NativeError, "duplicate kernel registration: op=scale"
        ):
            self.context.register_kernels(ROUGH)
        self.context.register_kernels(ROUGH, force=True)

    def test_autocast_to_another_type(self):
        def linear(x, g, u, d):
            h = nn.functional.silu(x @ g.T) * (x @ u.T)
            return (h @ d.T).to(x.dtype)

        def norm(x, w):
            return nn.functional.rms_norm(x, w.shape, w, 1e-6)

        cases = (
            ("swiglu_mlp", {}, linear, [(3, 8), (16, 8), (16, 8), (8, 16)]),
            ("rms_norm", {"eps": 1e-6}, norm, [(3, 8), (8,)]),
        )
        for op, params, eager, shapes in cases:
            inputs = [torch.randn(shape) for shape in shapes]
            model = nn.Module()
            model.slot = slots.OpSlot(op, params=params, eager=eager)
            slots.bind(model, {"bind": {op: "fuse"}}, slots.Context())
            with torch.autocast("cpu", dtype=torch.bfloat16):
                expected = eager(*inputs)
                if op == "rms_norm":
                    # Which autocast leaves alone.
                    torch.testing.assert_close(model.slot(*inputs), expected)
                    continue
                with self.assertRaisesRegex(
                    slots.SlotError,
                    "kernel 'fuse' of op=swiglu_mlp "
                    "computes in torch.float32, and autocast would have "
                    "the eager body compute in torch.bfloat16",
                ):
                    model.slot(*inputs)
            torch.testing.assert_close(model.slot(*inputs), eager(*inputs))

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(
            slots.SlotError,
            "the configuration is a NoneType; expected a mapping",
        ):
            slots.bind(nn.Linear(2, 2), None, slots.Context())
        with self.assertRaisesRegex(slots.SlotError, "model is of type str"):
            slots.bind("model", {}, slots.Context())


class Gradients(Slots):
    def test_gradients_are_those_of_the_eager_function(self):
        model = Norm(8)
        reference = copy.deepcopy(model)
        self.bind(model, {"rms_norm": "fuse"}, mode="training")
        self.bind(reference, {"rms_norm": "eager"})
        torch.manual_seed(0)
        x = torch.randn(3, 8, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        # The slot's result is used twice.
        for m, t in ((model, x), (reference, y)):
            r = m(t)
            (r.sin() + r.square()).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        torch.testing.assert_close(model.weight.grad, reference.weight.grad)
        with torch.no_grad():
            self.assertFalse(model(x).requires_grad)

    def test_rotary_in_training_takes_strided_inputs(self):
        model, reference = Attention("fuse"), Attention("eager")
        torch.manual_seed(0)
        x = torch.randn(1, 7, 32, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        angles = torch.randn(1, 7, 4).repeat(1, 1, 2)
        model(x, angles.cos(), angles.sin()).sum().backward()
        reference(y, angles.cos(), angles.sin()).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


def rotate_half(x):
    low, high = x.chunk(2, -1)
    return torch.cat((-high, low), -1)


def rotary(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return (q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin)


class Attention(nn.Module):
    """q and k as attention of transformers makes them."""

    def __init__(self, kernel):
        super().__init__()
        self.rotary = slots.OpSlot("apply_rotary_pos_emb", "full", eager=rotary)
        slots.bind(
            self, {"bind": {"apply_rotary_pos_emb": kernel}}, slots.Context()
        )

    def forward(self, x, cos, sin):
        q = x.view(1, -1, 4, 8).transpose(1, 2)
        k = x.view(1, -1, 4, 8).transpose(1, 2)
        q, k = self.rotary(q, k, cos, sin)
        return (q @ k.transpose(2, 3)).sum(1)


GLOBAL = slots.OpSlot("rms_norm", params={"eps": EPS}, eager=rms_norm)


class ReadsGlobal(nn.Module):
    def forward(self, x):
        return GLOBAL(x, x[0])


class Meanings(Slots):
    """Slots are held to their op, variant and params."""

    def slot(self, op, eager, variant="standard", **params):
        model = nn.Module()
        model.slot = slots.OpSlot(op, variant, params=params, eager=eager)
        return model

    def test_finding_06_compile_and_export_take_strided_inputs(self):
        model = Attention("fuse").eval()
        x = torch.randn(1, 7, 32)
        angles = torch.randn(1, 7, 4).repeat(1, 1, 2)
        inputs = x, angles.cos(), angles.sin()
        with torch.inference_mode():
            expected = model(*inputs)
        with torch.no_grad():
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
            torch.testing.assert_close(compiled(*inputs), expected)
            program = torch.export.export(model, inputs)
            torch.testing.assert_close(program.module()(*inputs), expected)

    def test_finding_07_wrong_eps_is_refused_at_bind(self):
        def norm(x, weight):
            return nn.functional.rms_norm(x, x.shape[-1:], weight, 1e-3)

        model = self.slot("rms_norm", norm, eps=0.1)
        self.fails(
            "slot slot (op=rms_norm, variant=standard) of the model is "
            "not what it says: its eager function is off by",
            model,
            {"rms_norm": "fuse"},
        )
        self.fails(
            "it computes variant 'standard' with eps=0.001",
            model,
            {"rms_norm": "fuse"},
        )
        self.assertIsNone(model.slot.kernel)
        # The eager function defines the op.
        self.bind(model, {"rms_norm": "eager"})

    def test_finding_07_wrong_variants_are_refused_at_bind(self):
        def gated(gate, up, **kind):
            return nn.functional.gelu(gate, **kind) * up

        def split(q, k, cos, sin):
            return rotary(q, k, sin, cos)

        for model, op, text in (
            (
                self.slot("rms_norm", lambda x, w: rms_norm(x, 1 + w), eps=EPS),
                "rms_norm",
                "variant 'offset1_f32'",
            ),
            (
                self.slot("rms_norm", rms_norm, "offset1_f32", eps=EPS),
                "rms_norm",
                "variant 'standard'",
            ),
            (
                self.slot("act_and_mul", gated, "gelu_tanh"),
                "act_and_mul",
                "it computes variant 'gelu'",
            ),
            (
                self.slot("apply_rotary_pos_emb", split, "full"),
                "apply_rotary_pos_emb",
                "is off by",
            ),
            (
                self.slot(
                    "rms_norm",
                    lambda x, w: nn.functional.dropout(rms_norm(x, w)),
                    eps=EPS,
                ),
                "rms_norm",
                "gives other results for the same inputs",
            ),
        ):
            with self.subTest(text):
                state = torch.random.get_rng_state()
                self.fails(text, model, {op: "fuse"})
                self.assertTrue(
                    torch.equal(state, torch.random.get_rng_state())
                )

    def test_right_functions_are_bound(self):
        def norm(x, weight, bias):
            return nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)

        def mlp(x, gate, up, down):
            return (nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T

        def loss(logits, labels):
            return nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
            )

        for model, op, _variant in (
            (self.slot("layer_norm", norm, eps=1e-5), "layer_norm", None),
            (
                self.slot(
                    "layer_norm",
                    lambda x, weight: norm(x, weight, None),
                    eps=1e-5,
                ),
                "layer_norm",
                None,
            ),
            (self.slot("swiglu_mlp", mlp), "swiglu_mlp", None),
            (
                self.slot("cross_entropy_loss", loss, "causal"),
                "cross_entropy_loss",
                None,
            ),
            (
                self.slot("apply_rotary_pos_emb", rotary, "full"),
                "apply_rotary_pos_emb",
                None,
            ),
        ):
            with self.subTest(op):
                report = self.bind(model, {op: "fuse"})
                self.assertEqual(report["unchecked"], [])
                self.assertTrue(model.slot.has_kernel)

    def test_what_was_not_compared_is_in_the_report(self):
        report = self.bind(Scale(), {"scale": "rough"})
        self.assertEqual(
            report["unchecked"],
            [
                {
                    "path": "",
                    "slot": "scale",
                    "reason": "op=scale, "
                    "variant=standard is not one of fuse's own",
                }
            ],
        )

    def test_verify_on_request(self):
        model = Norm(8)
        self.assertIn(
            "the eager function is what the slot says", str(slots.verify(model))
        )
        self.bind(model, {"rms_norm": "fuse"})
        self.assertIn("pass inputs that reach it", str(slots.verify(model)))
        found = slots.verify(model, torch.randn(3, 8))
        self.assertTrue(found)
        self.assertRegex(str(found), r"ok .* kernel 'fuse' is off by \S+ of")
        self.assertEqual(model.norm.kernel, "fuse")
        scale = Scale()
        self.bind(scale, {"scale": "rough"})
        self.assertFalse(slots.verify(scale, self.x))
        model.norm.params["eps"] = 0.5
        self.assertFalse(slots.verify(model))

    def test_finding_13_global_slots_are_refused_by_name(self):
        for call in (lambda m: self.bind(m, {}), slots.verify):
            with self.assertRaisesRegex(
                slots.SlotError,
                "slot 'GLOBAL' is a global of "
                f"'{__name__}', which ReadsGlobal \\('0'\\) reads; a "
                "binding belongs to one model",
            ):
                call(nn.Sequential(ReadsGlobal()))

    def test_a_model_without_slots_says_how_it_gets_some(self):
        for call in (lambda m: self.bind(m, {}), slots.verify):
            with self.assertRaisesRegex(
                slots.SlotError,
                "Linear has no slots; assign them in __init__ .*; or add them "
                r".*add_slots\(model\), .*add_expert_slots\(model\)",
            ):
                call(nn.Linear(2, 2))

    def test_has_kernel_traces_without_a_break(self):
        model = Norm(8)
        self.assertFalse(model.norm.has_kernel)
        self.bind(model, {"rms_norm": "eager"})
        self.assertFalse(model.norm.has_kernel)

        def forward(x):
            return x + 1 if model.norm.has_kernel else x - 1

        compiled = torch.compile(forward, fullgraph=True, backend="eager")
        self.assertEqual(float(compiled(torch.zeros(()))), -1.0)


class Sizes(Slots):
    def programs(self, slot):
        return sum(p is not None for p in slot._programs.values())

    def test_one_program_for_all_numbers_of_rows(self):
        model = Norm(8)
        self.bind(model, {"rms_norm": "fuse"})
        with torch.no_grad():
            for rows in (2, 5, 0, 300):
                x = torch.randn(rows, 8)
                torch.testing.assert_close(model(x), rms_norm(x, model.weight))
        self.assertEqual(self.programs(model.norm), 1)

    def test_equal_slots_share_code(self):
        models = Norm(8), Norm(8)
        x = torch.randn(3, 8)
        for model in models:
            self.bind(model, {"rms_norm": "fuse"})
            torch.testing.assert_close(model(x), rms_norm(x, model.weight))
        self.assertEqual(len(self.context._code), 1)
        # Another function is other code.
        model = Scale()
        for body, factor in (
            (ROUGH, 2),
            (ROUGH.replace("%1, %1", "%1, %x"), 2),
            (ROUGH.replace("addf", "subf"), 0),
        ):
            self.context.register_kernels(body, force=True)
            self.bind(model, {"scale": "rough"}, rebind=True)
            model.scale._programs.clear()
            self.assertTrue(
                torch.allclose(model(self.x), factor * self.x, rtol=0.01)
            )

    def test_sizes_that_a_kernel_has_to_know(self):
        # `rough` is for four values, so nothing is left open.
        model = Scale()
        self.bind(model, {"scale": "rough"})
        self.assertTrue(torch.equal(model(self.x), self.rough))
        self.assertEqual(self.programs(model.scale), 1)
        with self.assertRaisesRegex(errors.NativeError, "tensor<3x4xf32>"):
            model(torch.zeros(3, 4))


class Numbers(Slots):
    def test_generated_norm_is_the_eager_one(self):
        torch.manual_seed(0)
        model = Norm(48)
        reference = copy.deepcopy(model)
        self.bind(model, {"rms_norm": "fuse"})
        self.bind(reference, {"rms_norm": "eager"})
        for shape in ((5, 48), (2, 3, 48), (1, 48)):
            x = torch.randn(shape)
            with torch.no_grad():
                actual, expected = model(x), reference(x)
                wrong = rms_norm(x, 1 + model.weight)
            off = (actual - expected).abs().max()
            self.assertLess(off, 2e-6)
            # (1 + w) in place of w would be found.
            self.assertGreater((wrong - expected).abs().max(), 0.1)

    def test_list_kernels(self):
        found = {
            (entry["op"], entry["variant"]): [
                kernel["name"] for kernel in entry["kernels"]
            ]
            for entry in self.context.list_kernels()
        }
        self.assertEqual(found["scale", "standard"], ["chip", "rough"])
        self.assertEqual(found["rms_norm", "standard"], ["fuse"])


if __name__ == "__main__":
    unittest.main()
