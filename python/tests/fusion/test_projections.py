# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A norm and the projections of attention as one kernel."""

import copy
import io
import pickle
import tempfile
import threading
import unittest
from pathlib import Path

import torch
from torch import nn

import fuse_mlir
from fuse_mlir.fusion.places import fused_sites
from fuse_mlir.native import extension
from tests.models import LLAMA, SIZES, needs_library, snapshot, transformer

torch.set_num_threads(1)

TINY = {**LLAMA, "num_hidden_layers": 2}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 64}
#: Settings, sites and members of models, by their types.
MODELS = {
    "llama": (TINY, "input_layernorm+q_proj+k_proj+v_proj"),
    "mistral": (TINY, "input_layernorm+q_proj+k_proj+v_proj"),
    # Biases.
    "qwen2": (TINY, "input_layernorm+q_proj+k_proj+v_proj"),
    # Norms of heads, which stay outside.
    "qwen3": (TINY, "input_layernorm+q_proj+k_proj+v_proj"),
    "gemma2": (TINY, "input_layernorm+q_proj+k_proj+v_proj"),
    "gemma3_text": (TINY, "input_layernorm+q_proj+k_proj+v_proj"),
    # One weight for all projections.
    "phi3": ({**TINY, "pad_token_id": 0}, "input_layernorm+qkv_proj"),
    "gpt2": (GPT, "ln_1+c_attn"),
    "gpt_neox": (
        {**SIZES, "num_hidden_layers": 2},
        "input_layernorm+query_key_value",
    ),
    # An MLP beside attention reads the norm too.
    "falcon": (
        {**SIZES, "num_hidden_layers": 2},
        "input_layernorm+query_key_value",
    ),
    "cohere": (TINY, "input_layernorm+q_proj+k_proj+v_proj"),
}
ATTENTION = {
    (
        ("RMSNorm", "model.layers.*.input_layernorm"),
        ("Linear", "model.layers.*.self_attn.q_proj"),
        ("Linear", "model.layers.*.self_attn.k_proj"),
        ("Linear", "model.layers.*.self_attn.v_proj"),
    ): "fuse:norm_linear"
}
SITE = "input_layernorm+q_proj+k_proj+v_proj"
IDS = torch.arange(1, 9).view(1, 8)


def llama(dtype=torch.float32):
    return transformer("llama", dtype, **TINY)


def fused(dtype=torch.float32, **options):
    model = llama(dtype)
    fuse_mlir.fuse_modules(model, ATTENTION, **options)
    return model


def attention(model, layer=0):
    return model.model.layers[layer].self_attn


@needs_library
class Models(unittest.TestCase):
    @torch.no_grad()
    def test_every_kind(self):
        for kind, (settings, name) in MODELS.items():
            with self.subTest(kind):
                self.check(transformer(kind, **settings), name)

    def check(self, model, name):
        def tokens():
            return model.generate(
                IDS, max_new_tokens=8, do_sample=False, pad_token_id=0
            ).tolist()

        before, logits, expected = snapshot(model), model(IDS).logits, tokens()
        found = fuse_mlir.fuse_modules(model, only_faster=False)
        sites = [s for s in found.fused if s.id.startswith(name + "#")]
        self.assertEqual(
            [s.families for s in sites], [("norm_linear",)] * 2, str(found)
        )
        self.assertTrue(torch.equal(model(IDS).logits, logits))
        self.assertEqual(tokens(), expected)
        checks = fuse_mlir.verify(model)
        self.assertTrue(checks, str(checks))
        fuse_mlir.unfuse_modules(model)
        self.assertEqual(snapshot(model), before)
        self.assertTrue(torch.equal(model(IDS).logits, logits))

    def test_one_kernel_has_all_projections(self):
        model = transformer("qwen2", **TINY)
        fuse_mlir.fuse_modules(model, ATTENTION)
        (_, place), _ = fused_sites(model)
        compiled = place._kernel.compiled
        self.assertEqual(compiled.ops, ("fuse.norm_linear",))
        self.assertEqual(
            [r.dims for r in compiled.results],
            [((0, 0), (0, 1), n) for n in (32, 16, 16)],
        )
        self.assertEqual(
            list(compiled.parameters),
            ["input_layernorm.weight"]
            + [
                f"self_attn.{p}_proj.{what}"
                for p in "qkv"
                for what in ("weight", "bias")
            ],
        )

    def test_norm_that_an_mlp_reads_too(self):
        model = transformer("cohere", **TINY)
        fuse_mlir.fuse_modules(model, only_faster=False, strict=False)
        place = next(m for _, m in fused_sites(model) if len(m.names) == 4)
        self.assertEqual(place.plan.outputs, (0, 1, 2, 3))
        self.assertIn("also([normed])", place._kernel.compiled.formed)
        with torch.no_grad():
            for _ in range(2):
                normed = place(x := torch.randn(1, 3, 32).bfloat16())
            torch.testing.assert_close(normed, place._member(x))


@needs_library
class Patterns(unittest.TestCase):
    def refusal(self, *members):
        model = llama()
        with self.assertRaises(fuse_mlir.FuseMlirError) as caught:
            fuse_mlir.fuse_modules(model, {members: "fuse"})
        self.assertFalse(fused_sites(model))
        return str(caught.exception)

    def test_paths_below_several_parents(self):
        config = fuse_mlir.KernelConfig(ATTENTION)
        found = fuse_mlir.fuse_modules(llama(), config)
        self.assertEqual([s.id for s in found], [f"{SITE}#0", f"{SITE}#1"])
        self.assertEqual(
            [s.parent for s in found], ["model.layers.0", "model.layers.1"]
        )
        self.assertEqual(
            found[1].members,
            ["model.layers.1.input_layernorm"]
            + [f"model.layers.1.self_attn.{p}_proj" for p in "qkv"],
        )

    @torch.no_grad()
    def test_projections_that_are_left_out(self):
        model, plain = llama(), llama()
        members = (
            ("RMSNorm", "model.layers.*.input_layernorm"),
            ("Linear", "model.layers.*.self_attn.q_proj"),
        )
        fuse_mlir.fuse_modules(model, {members: "fuse"})
        self.assertIs(type(attention(model).k_proj), nn.Linear)
        torch.testing.assert_close(model(IDS).logits, plain(IDS).logits)
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(IDS).logits, plain(IDS).logits)

    def test_a_linear_that_reads_something_else(self):
        self.assertIn(
            "FUSE-N206 not-a-chain: the result of "
            "'model.layers.0.input_layernorm' does not go to "
            "'model.layers.0.self_attn.o_proj'",
            self.refusal(
                ("RMSNorm", "model.layers.*.input_layernorm"),
                ("Linear", "model.layers.*.self_attn.q_proj"),
                ("Linear", "model.layers.*.self_attn.o_proj"),
            ),
        )

    def test_members_of_two_layers(self):
        self.assertIn(
            "FUSE-N202 different-parents: no module, other than a list",
            self.refusal(
                ("RMSNorm", "model.layers.0.input_layernorm"),
                ("Linear", "model.layers.1.self_attn.q_proj"),
            ),
        )

    def test_a_layer_without_a_member(self):
        text = self.refusal(
            ("RMSNorm", "model.layers.*.input_layernorm"),
            ("Linear", "model.layers.0.self_attn.q_proj"),
            ("Linear", "model.layers.*.self_attn.k_proj"),
            ("Linear", "model.layers.*.self_attn.v_proj"),
        )
        self.assertIn("FUSE-N203 child-missing: 'model.layers.1' has", text)


class Head(nn.Module):
    """A norm in one module and a linear in another, with tied weights."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(48, 32)
        self.body = nn.Module()
        self.body.norm = nn.RMSNorm(32)
        self.head = nn.Linear(32, 48, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.body.norm(self.embed(ids)))


class CastingNorm(nn.RMSNorm):
    """A norm whose result has another type than its input."""

    def forward(self, x):
        return super().forward(x.float())


@needs_library
class Heads(unittest.TestCase):
    @torch.no_grad()
    def test_tied_head(self):
        torch.manual_seed(0)
        model = Head().eval()
        expected = model(IDS)
        found = fuse_mlir.fuse_modules(model, inputs=IDS, only_faster=False)
        self.assertEqual(str(found[0].id), "norm+head#0")
        self.assertEqual(found[0].parent, "")
        torch.testing.assert_close(model(IDS), expected)
        self.assertIs(model.head.weight, model.embed.weight)
        model.embed.weight.mul_(2)
        fuse_mlir.unfuse_modules(model)
        self.assertIs(type(model.head), nn.Linear)

    def test_a_result_that_changes_in_place(self):
        class Scaled(Head):
            def forward(self, ids):
                normed = self.body.norm(self.embed(ids))
                return self.head(normed.mul_(2))

        found = fuse_mlir.explain(
            Scaled().eval(), inputs=IDS, only_faster=False
        )
        self.assertIn(
            "FUSE-N002 intermediate-has-other-users: 'mul_' in the model "
            "changes the result of 'body.norm' in place",
            found[0].reason,
        )

    def test_a_norm_that_changes_the_type(self):
        model = Head().eval()
        model.body.norm = CastingNorm(32)
        model.embed.to(torch.float64)
        model.head = nn.Linear(32, 48)
        found = fuse_mlir.explain(model, inputs=IDS, only_faster=False)
        self.assertIn(
            "FUSE-N145 norm-changes-type: 'body.norm' reads torch.float64 "
            "(1, 8, 32) and returns torch.float32 (1, 8, 32)",
            found[0].reason,
        )


@needs_library
class Calls(unittest.TestCase):
    """Each member keeps what it promises, wherever it is in the model."""

    def setUp(self):
        self.plain, self.model = llama(), fused()

    def same(self, model=None, plain=None):
        torch.testing.assert_close(
            (model or self.model)(IDS).logits,
            (plain or self.plain)(IDS).logits,
            atol=1e-5,
            rtol=1e-4,
        )

    def fails(self, text, call=None):
        with (
            torch.no_grad(),
            self.assertRaisesRegex(fuse_mlir.FuseError, text),
        ):
            (call or (lambda: self.model(IDS)))()

    @unittest.skipUnless(extension(), "no extension")
    @torch.no_grad()
    def test_usual_calls_run_without_python(self):
        for _ in range(3):
            self.same()
        norm = self.model.model.layers[0].input_layernorm
        self.assertEqual(norm._fast.count, 2)
        for name in ("q_proj", "k_proj", "v_proj"):
            self.assertIsNotNone(
                attention(self.model).get_submodule(name)._fast
            )

    def test_gradients(self):
        for model in (self.plain, self.model):
            model.requires_grad_(True).train()
            model(IDS, labels=IDS).loss.backward()
        for (name, a), (_, b) in zip(
            self.plain.named_parameters(), self.model.named_parameters()
        ):
            torch.testing.assert_close(a.grad, b.grad, msg=name)

    def test_a_result_that_gets_no_gradient(self):
        x = torch.randn(1, 4, 32, requires_grad=True)
        found = []
        for model in (self.plain, self.model):
            layer = model.model.layers[0]
            normed = layer.input_layernorm(x)
            layer.self_attn.k_proj(normed).square().sum().backward()
            found.append(x.grad.clone())
            x.grad = None
        torch.testing.assert_close(*found)

    def test_refused_gradients(self):
        model = fused(gradients="error").requires_grad_(True)
        with self.assertRaisesRegex(fuse_mlir.FuseError, "needs gradients"):
            model(IDS)

    @torch.no_grad()
    def test_autocast(self):
        with (
            torch.autocast("cpu", torch.bfloat16),
            self.assertRaisesRegex(fuse_mlir.FuseError, "leave autocast"),
        ):
            self.model(IDS)

    @torch.no_grad()
    def test_copies(self):
        for copied in (
            copy.deepcopy(self.model),
            pickle.loads(pickle.dumps(self.model)),
        ):
            self.same(copied)
            self.assertEqual(len(fused_sites(copied)), 2)
            fuse_mlir.unfuse_modules(copied)
            self.assertIs(type(attention(copied).k_proj), nn.Linear)

    @torch.no_grad()
    def test_state_dict(self):
        state = {k: v + 0.01 for k, v in self.plain.state_dict().items()}
        self.assertEqual(list(self.model.state_dict()), list(state))
        for model in (self.plain, self.model):
            model.load_state_dict(state)
        self.same()

    @torch.no_grad()
    def test_changed_weights(self):
        self.same()
        for model in (self.plain, self.model):
            attention(model).k_proj.weight.mul_(2)
        self.same()
        for model in (self.plain, self.model):
            attention(model).v_proj.weight = nn.Parameter(
                torch.full((16, 32), 0.01)
            )
        self.same()
        for model in (self.plain, self.model):
            model.to(torch.float16)
        self.same()

    def test_hooks(self):
        for path in ("input_layernorm", "self_attn.q_proj", "self_attn.v_proj"):
            with self.subTest(path):
                self.model = fused()
                module = self.model.model.layers[1].get_submodule(path)
                handle = module.register_forward_hook(lambda *_: None)
                self.fails(f"FUSE-N208 has-hooks: '{path}' of site")
                handle.remove()
                with torch.no_grad():
                    self.same()

    @torch.no_grad()
    def test_pre_hook_of_the_norm(self):
        seen = []
        self.model.model.layers[0].input_layernorm.register_forward_pre_hook(
            lambda *_: seen.append(1)
        )
        self.same()
        self.assertEqual(seen, [1])

    def test_replaced_members(self):
        with torch.no_grad():
            self.same()
        linear = attention(self.model).k_proj
        attention(self.model).k_proj = nn.Linear(32, 16)
        self.fails("'self_attn.k_proj', a member of site .* was replaced by")
        self.fails(
            "is a Linear and not part of site",
            lambda: fuse_mlir.unfuse_modules(self.model),
        )
        attention(self.model).k_proj = linear
        with torch.no_grad():
            self.same()
        fuse_mlir.unfuse_modules(self.model)
        self.assertIs(type(attention(self.model).k_proj), nn.Linear)

    def test_replaced_attention(self):
        with torch.no_grad():
            self.same()
        self.model.model.layers[0].self_attn = nn.Identity()
        self.fails("'self_attn.q_proj', a member of site .* was replaced by a")

    @torch.no_grad()
    def test_another_input(self):
        projection = attention(self.model).k_proj
        x = torch.randn(1, 3, 32)
        self.fails("is not the result of the norm", lambda: projection(x))
        other = self.model.model.layers[1].input_layernorm(x)
        self.fails("is not the result of the norm", lambda: projection(other))

    @torch.no_grad()
    def test_the_result_of_the_norm_is_read(self):
        normed = self.model.model.layers[0].input_layernorm(
            torch.randn(1, 3, 32)
        )
        self.assertEqual(normed.shape, (1, 3, 32))
        self.fails("op 'mul' reads an intermediate", lambda: normed * 2)

    @torch.no_grad()
    def test_a_second_call_with_one_input(self):
        for _ in range(2):
            normed = self.model.model.layers[0].input_layernorm(
                torch.randn(1, 3, 32)
            )
            attention(self.model).k_proj(normed)
            self.fails(
                "called twice with one input",
                lambda: attention(self.model).k_proj(normed),
            )

    @torch.no_grad()
    def test_the_result_of_the_norm_changes_in_place(self):
        model = transformer("cohere", **TINY)
        fuse_mlir.fuse_modules(model, only_faster=False, strict=False)
        layer = model.model.layers[0]
        x = torch.randn(1, 3, 32).bfloat16()
        for _ in range(2):
            normed = layer.input_layernorm(x)
            layer.self_attn.q_proj(normed)
            normed.mul_(2)
            self.fails(
                "changed the result of the norm",
                lambda: layer.self_attn.k_proj(normed),
            )

    @torch.no_grad()
    def test_caches_of_generation(self):
        model, plain = fused(torch.bfloat16), llama(torch.bfloat16)
        for options in (
            {},
            {"cache_implementation": "static"},
            {"num_beams": 2},
            {"use_cache": False},
        ):
            with self.subTest(options):
                a, b = (
                    m.generate(
                        IDS,
                        max_new_tokens=6,
                        do_sample=False,
                        pad_token_id=0,
                        **options,
                    )
                    for m in (model, plain)
                )
                self.assertTrue(torch.equal(a, b))

    def test_threads(self):
        with torch.no_grad():
            expected = [self.model(IDS + i).logits for i in range(4)]
        wrong = []

        def run(number):
            with torch.no_grad():
                for _ in range(10):
                    found = self.model(IDS + number).logits
                    if not torch.equal(found, expected[number]):
                        wrong.append(number)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    @torch.no_grad()
    def test_unfusing_by_paths(self):
        self.assertEqual(
            fuse_mlir.unfuse_modules(
                self.model, "model.layers.0.self_attn.k_proj"
            ),
            ["model.layers.0"],
        )
        self.assertEqual(
            fuse_mlir.unfuse_modules(self.model, f"{SITE}#1"),
            ["model.layers.1"],
        )
        self.same()

    @torch.no_grad()
    def test_rows_that_run_the_members(self):
        from fuse_mlir.fusion.timing import RowRanges

        for _, place in fused_sites(self.model):
            place.__dict__["_eager_rows"] = RowRanges(((1, 4),))
        self.same()
        short = IDS[:, :4]
        torch.testing.assert_close(
            self.model(short).logits, self.plain(short).logits
        )


@needs_library
class Programs(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        self.plain, self.model = llama(), fused()

    @torch.no_grad()
    def test_compiled_model(self):
        compiled = torch.compile(
            self.model, backend="aot_eager", fullgraph=True
        )
        for ids in (IDS, IDS + 1):
            torch.testing.assert_close(
                compiled(ids).logits, self.plain(ids).logits
            )
        self.assertIsNone(attention(self.model).q_proj._handed.parts)

    @torch.no_grad()
    def test_a_graph_ends_after_the_norm(self):
        layer = attention(self.model)
        forward = torch.compiler.disable(layer.forward)
        layer.forward = forward
        compiled = torch.compile(self.model, backend="eager")
        torch.testing.assert_close(compiled(IDS).logits, self.plain(IDS).logits)

    def test_compiled_gradients(self):
        compiled = torch.compile(
            self.model.requires_grad_(True), backend="aot_eager"
        )
        plain = self.plain.requires_grad_(True)
        for model in (compiled, plain):
            model(IDS).logits.square().mean().backward()
        for (name, a), (_, b) in zip(
            plain.named_parameters(), self.model.named_parameters()
        ):
            torch.testing.assert_close(a.grad, b.grad, msg=name)

    @torch.no_grad()
    def test_exported_program(self):
        class Logits(nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model = model

            def forward(self, ids):
                return self.model(ids, use_cache=False).logits

        expected = self.plain(IDS).logits
        for strict in (False, True):
            with self.subTest(strict=strict):
                program = torch.export.export(
                    Logits(self.model), (IDS,), strict=strict
                )
                calls = [
                    node
                    for node in program.graph.nodes
                    if "fuse_mlir.exported_all" in str(node.target)
                ]
                self.assertEqual(len(calls), 2)
                saved = io.BytesIO()
                torch.export.save(program, saved)
                saved.seek(0)
                loaded = torch.export.load(saved).module()
                torch.testing.assert_close(loaded(IDS), expected)

    def test_directory_of_the_hub(self):
        with self.assertRaisesRegex(
            fuse_mlir.FuseError, "has members in several modules, and a layer"
        ):
            fuse_mlir.export_hub_kernel(
                self.model, "unused", f"{SITE}#0", name="qkv"
            )

    @torch.no_grad()
    def test_artifact(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = fuse_mlir.export(self.model, Path(folder.name) / "qkv.fuse")
        kernel = fuse_mlir.load(path)
        layer = self.plain.model.layers[1]
        weights = layer.state_dict()
        kernel.bind({name: weights[name] for name in kernel.parameters})
        x = torch.randn(2, 3, 32)
        found = kernel(x)
        normed = layer.input_layernorm(x)
        for name, result in zip(("q_proj", "k_proj", "v_proj"), found):
            torch.testing.assert_close(
                result, layer.self_attn.get_submodule(name)(normed)
            )


if __name__ == "__main__":
    unittest.main()
