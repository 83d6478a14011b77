# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs on a GPU what other tests only inspect."""

import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn

import fuse_mlir
from fuse_mlir import slots
from fuse_mlir.fusion.modules import fused_sites
from fuse_mlir.quantized.fp8_reference import emulated
from tests import greedy
from tests.deploy.test_hub import load
from tests.models import (
    CHAIN,
    LLAMA,
    SIZES,
    Block,
    Net,
    fp8_transformer,
    needs_library,
    transformer,
)

#: One thread for each row.
NORM = """.version 7.0
.target sm_80
.address_size 64
.visible .entry norm(.param .u64 px, .param .u64 pw, .param .u64 py,
                     .param .f32 peps, .param .u64 pcolumns) {
  .reg .b64 %x, %w, %y, %n, %i, %o; .reg .b32 %r; .reg .f32 %a, %b, %s, %c;
  .reg .pred %p;
  ld.param.u64 %x, [px]; ld.param.u64 %w, [pw]; ld.param.u64 %y, [py];
  ld.param.f32 %c, [peps]; ld.param.u64 %n, [pcolumns];
  mov.u32 %r, %ctaid.x; cvt.u64.u32 %o, %r; mul.lo.u64 %o, %o, %n;
  shl.b64 %o, %o, 2; add.u64 %x, %x, %o; add.u64 %y, %y, %o;
  mov.f32 %s, 0f00000000; mov.u64 %i, 0;
sum:
  shl.b64 %o, %i, 2; add.u64 %o, %o, %x; ld.global.f32 %a, [%o];
  fma.rn.f32 %s, %a, %a, %s; add.u64 %i, %i, 1; setp.lt.u64 %p, %i, %n;
  @%p bra sum;
  cvt.rn.f32.u64 %b, %n; div.rn.f32 %s, %s, %b; add.f32 %s, %s, %c;
  sqrt.rn.f32 %s, %s; rcp.rn.f32 %s, %s; mov.u64 %i, 0;
scale:
  shl.b64 %o, %i, 2; add.u64 %o, %o, %x; ld.global.f32 %a, [%o];
  shl.b64 %o, %i, 2; add.u64 %o, %o, %w; ld.global.f32 %b, [%o];
  mul.f32 %a, %a, %s; mul.f32 %a, %a, %b;
  shl.b64 %o, %i, 2; add.u64 %o, %o, %y; st.global.f32 [%o], %a;
  add.u64 %i, %i, 1; setp.lt.u64 %p, %i, %n; @%p bra scale;
  ret;
}
"""


class Slotted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(96) + 0.5)
        self.norm = slots.OpSlot(
            "rms_norm",
            params={"eps": 1e-6},
            eager=lambda x, w: (
                x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w
            ),
        )

    def forward(self, x):
        return self.norm(x, self.weight)


def capture(step):
    """A graph of `step`, which ran before, and its result."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph, result


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
@needs_library
class Cuda(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, before)

    def net(self, dtype=torch.float32):
        model = Net(2, lambda: Block(64, 128)).eval().requires_grad_(False)
        return model.to("cuda", dtype), torch.randn(
            5, 64, device="cuda", dtype=dtype
        )

    def replays(self, step, x):
        """A graph of `step` computes the same as `step`, on other data."""
        graph, result = capture(step)
        x.normal_()
        graph.replay()
        self.assertTrue(torch.equal(result, step()))

    def test_slot(self):
        model = Slotted().cuda()
        slots.bind(model, {"bind": {"rms_norm": "fuse"}}, slots.Context())
        for rows in (2, 5, 0, 300, 1):
            x = torch.randn(rows, 96, device="cuda")
            torch.testing.assert_close(
                model(x), model.norm.eager(x, model.weight)
            )
        # One program for any number of rows, and one for a single row.
        self.assertEqual(len(model.norm._programs), 2)
        x = torch.randn(5, 96, device="cuda")
        self.replays(lambda: model(x), x)
        compiled = torch.compile(model, fullgraph=True)
        self.assertTrue(torch.equal(compiled(x), model(x)))
        with self.assertRaisesRegex(
            slots.SlotError, "is bound for sm_.*, and an input is on cpu"
        ):
            model(torch.randn(3, 96))

    def test_projections(self):
        """One kernel for a norm and the projections that read it."""
        ids = torch.arange(1, 9, device="cuda").view(1, 8)
        for kind in ("llama", "qwen2", "qwen3"):
            with self.subTest(kind):
                model = transformer(
                    kind,
                    **{**LLAMA, "hidden_size": 256, "num_hidden_layers": 2},
                ).cuda()
                expected = model(ids).logits
                found = fuse_mlir.fuse_modules(model, only_faster=False)
                sites = [s for s in found if "q_proj" in s.id]
                self.assertEqual(
                    [s.families for s in sites], [("norm_linear",)] * 2
                )
                torch.testing.assert_close(
                    model(ids).logits, expected, atol=2e-2, rtol=2e-2
                )
                checks = fuse_mlir.verify(model)
                self.assertTrue(checks, str(checks))
                # 300 rows are more than kernels are loaded for at first.
                many = (torch.arange(300, device="cuda") % 60).view(2, 150)
                ours = model(many).logits
                fuse_mlir.unfuse_modules(model)
                torch.testing.assert_close(
                    ours, model(many).logits, atol=2e-2, rtol=2e-2
                )

    def test_greedy_tokens(self):
        """Kernels change no token of models whose logits have a peak."""
        for kind, settings in greedy.MODELS.items():
            with self.subTest(kind):
                greedy.check(self, transformer(kind, **settings).cuda())

    def test_heads_and_output_projections(self):
        """Kernels with ops that stand in the code of the model."""
        ids = torch.arange(1, 9, device="cuda").view(1, 8)
        for kind in ("llama", "qwen3"):
            with self.subTest(kind):
                model = transformer(
                    kind,
                    **{**LLAMA, "hidden_size": 256, "num_hidden_layers": 2},
                ).cuda()
                before = [model(ids, logits_to_keep=n).logits for n in (0, 1)]
                found = fuse_mlir.fuse_modules(model, only_faster=False)
                self.assertEqual(
                    [
                        (s.id, s.families)
                        for s in found
                        if "lm_head" in s.id or "add" in s.id
                    ],
                    [
                        ("norm+lm_head#0", ("norm_linear",)),
                        ("o_proj+add#0", ("fused_linear",)),
                        ("o_proj+add#1", ("fused_linear",)),
                    ],
                )
                for _ in range(2):
                    for keep, expected in enumerate(before):
                        torch.testing.assert_close(
                            model(ids, logits_to_keep=keep).logits,
                            expected,
                            atol=2e-2,
                            rtol=2e-2,
                        )
                checks = fuse_mlir.verify(model)
                self.assertTrue(checks, str(checks))
                fuse_mlir.unfuse_modules(model)
                self.assertTrue(torch.equal(model(ids).logits, before[0]))

    def test_static_linears(self):
        data = [
            torch.arange(1 + i, 13 + i, device="cuda").view(2, 6)
            for i in range(3)
        ]
        model = transformer(
            "llama", **{**LLAMA, "hidden_size": 256, "num_hidden_layers": 2}
        ).cuda()
        before = model(data[0]).logits
        result = fuse_mlir.calibrate(model, data, linears="all")
        self.assertEqual(
            {s.families for s in result.fused},
            {("gated_mlp",), ("norm_linear",), ("fused_linear",)},
        )
        checks = fuse_mlir.verify(model, data[0])
        self.assertTrue(checks, str(checks))
        fuse_mlir.unfuse_modules(model)
        self.assertTrue(torch.equal(model(data[0]).logits, before))

    def test_projections_in_programs(self):
        model = transformer(
            "qwen2", **{**LLAMA, "hidden_size": 256, "num_hidden_layers": 2}
        ).cuda()
        layer = model.model.layers[0]
        fuse_mlir.fuse_modules(model, only_faster=False)
        x = torch.randn(1, 4, 256, device="cuda", dtype=torch.bfloat16)

        def step():
            normed = layer.input_layernorm(x)
            attention = layer.self_attn
            return torch.cat(
                [
                    attention.q_proj(normed),
                    attention.k_proj(normed),
                    attention.v_proj(normed),
                ],
                -1,
            )

        expected = step()
        self.replays(step, x)
        x.copy_(torch.randn_like(x))
        compiled = torch.compile(step, fullgraph=True)
        self.assertTrue(torch.equal(compiled(), step()))
        self.assertFalse(torch.equal(expected, step()))

    def test_kernel_directory(self):
        for dtype in (torch.float32, torch.bfloat16):
            with self.subTest(dtype):
                self.check_directory(dtype)

    def check_directory(self, dtype):
        model, x = self.net(dtype)
        fuse_mlir.fuse_modules(model, {CHAIN: "fuse"}, inputs=x)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        variant = fuse_mlir.export_hub_kernel(
            model, directory.name, name="my-mlp"
        )
        # The same code as here, with the runtime of fuse and without.
        block = model.layers[0]
        examples = [
            torch.randn(rows, 64, device="cuda", dtype=dtype)
            for rows in (1, 5, 16, 40, 128, 129, 700, 3000, 16500)
        ]
        fused = [block.mlp(block.norm(x)) for x in examples]
        fuse_mlir.unfuse_modules(model)
        layers = load(variant).layers
        layout = layers.MyMlpLayout(block.norm, block.mlp)

        def layer(x):
            return layers.MyMlp.forward(layout, x)

        for x, result in zip(examples, fused):
            if dtype is torch.bfloat16:
                self.assertTrue(torch.equal(layer(x), result), len(x))
            torch.testing.assert_close(layer(x), result, atol=1e-5, rtol=1e-5)
        tolerance = 1e-5 if dtype is torch.float32 else 2e-2
        for shape in ((5, 64), (1, 64), (2, 7, 64), (300, 64), (0, 64)):
            x = torch.randn(shape, device="cuda", dtype=dtype)
            torch.testing.assert_close(
                layer(x),
                block.mlp(block.norm(x)),
                atol=tolerance,
                rtol=tolerance,
            )
        x = torch.randn(5, 64, device="cuda", dtype=dtype)
        self.replays(lambda: layer(x), x)
        compiled = torch.compile(layer, fullgraph=True)
        self.assertTrue(torch.equal(compiled(x), layer(x)))
        with self.assertRaisesRegex(
            RuntimeError, "an input is torch.float64 .*; the kernel is for"
        ):
            layer(x.double())

    def test_artifact(self):
        model, x = self.net(torch.bfloat16)
        fuse_mlir.fuse_modules(model, {CHAIN: "fuse"}, inputs=x)
        expected = model(x)
        with tempfile.TemporaryDirectory() as directory:
            path = str(fuse_mlir.export(model, Path(directory) / "k.fuse"))
            fuse_mlir.unfuse_modules(model)
            fuse_mlir.fuse_modules(model, {CHAIN: path}, inputs=x)
            self.assertIsNotNone(
                fused_sites(model)[0][1]._kernel.compiled.given
            )
            self.assertTrue(torch.equal(model(x), expected))
        # Another rank is another kernel, of the file that was read.
        x = torch.randn(2, 150, 64, device="cuda", dtype=torch.bfloat16)
        ours = model(x)
        fuse_mlir.unfuse_modules(model)
        torch.testing.assert_close(ours, model(x), atol=5e-2, rtol=2e-2)

    def test_graphs_read_weights_that_changed(self):
        model, x = self.net(torch.bfloat16)
        fuse_mlir.fuse_modules(model, {CHAIN: "fuse"}, inputs=x)
        graph, result = capture(lambda: model(x))
        before = result.clone()
        # On a stream for which only the packing waits.
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            model.layers[0].mlp.down.weight.mul_(-2)
            self.assertEqual(fuse_mlir.refresh(model), 2)
        graph.replay()
        self.assertFalse(torch.equal(result, before))
        self.assertTrue(torch.equal(result, model(x)))

    def test_checkpoint_in_8_bits(self):
        for kind, settings in (("qwen3", LLAMA), ("gpt_neox", SIZES)):
            model = fp8_transformer(kind, **settings).cuda()
            ids = torch.tensor([[3, 14, 15, 9]], device="cuda")
            with emulated(model, always=True):
                before = model(ids).logits
                result = fuse_mlir.fuse_modules(
                    model,
                    fusion_config={
                        "static_quantized_mlp": {
                            "input_quant": "fuse",
                            "gated_mlp": "fuse",
                            "any_mlp": "fuse",
                        }
                    },
                )
                self.assertEqual(len(result.fused), 4)
                checks = fuse_mlir.verify(model)
                self.assertTrue(checks, str(checks))
                fuse_mlir.unfuse_modules(model)
                self.assertTrue(torch.equal(model(ids).logits, before))

    def test_calibrated(self):
        data = [
            torch.arange(1 + i, 13 + i, device="cuda").view(2, 6)
            for i in range(3)
        ]
        for options in (
            {},
            {"per_channel": True},
            {"storage": "i8"},
            {"storage": "i8", "per_channel": True},
        ):
            with self.subTest(options):
                model = transformer("qwen3", **LLAMA).cuda()
                before = model(data[0]).logits
                result = fuse_mlir.calibrate(model, data, **options)
                self.assertEqual(len(result.fused), 4)
                checks = fuse_mlir.verify(model, data[0])
                self.assertTrue(checks, str(checks))
                fuse_mlir.unfuse_modules(model)
                self.assertTrue(torch.equal(model(data[0]).logits, before))

    def test_experts(self):
        from transformers import Qwen3MoeConfig
        from transformers.models.qwen3_moe.modeling_qwen3_moe import (
            Qwen3MoeExperts,
        )

        model = nn.Module()
        model.experts = Qwen3MoeExperts(
            Qwen3MoeConfig(
                hidden_size=64,
                moe_intermediate_size=96,
                num_experts=12,
                num_experts_per_tok=3,
            )
        )
        for i, weight in enumerate(model.parameters()):
            # Not aligned to 16 bytes, as vector loads require.
            room = torch.randn(weight.numel() + 1 + i, device="cuda") / 8
            weight.data = room.bfloat16()[1 + i :].view(weight.shape)
        model.forward = lambda *inputs: model.experts(*inputs)
        model.eval()

        def inputs(rows):
            scores = torch.rand(rows, 12, device="cuda").topk(3)
            return (
                torch.randn(rows, 64, device="cuda").bfloat16(),
                scores.indices,
                scores.values.bfloat16(),
            )

        for shift in (True, False):
            if not shift:
                for weight in model.parameters():
                    weight.data = weight.data.clone()
            examples = [inputs(rows) for rows in (1, 4, 5, 30)]
            before = [model(*x) for x in examples]
            fuse_mlir.fuse_modules(model, inputs=examples[1], only_faster=False)
            kernel = model.experts._kernel
            self.assertEqual(kernel.most_rows, 4)
            for x, expected in zip(examples, before):
                torch.testing.assert_close(
                    model(*x), expected, atol=3e-2, rtol=3e-2
                )
                torch.testing.assert_close(
                    kernel.run(x, kernel.weights()),
                    expected,
                    atol=3e-2,
                    rtol=3e-2,
                )
            self.assertTrue(torch.equal(model(*examples[3]), before[3]))
            fuse_mlir.unfuse_modules(model)

    def test_ptx(self):
        model, x = self.net()
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "norm.ptx"
            path.write_text(NORM)
            kernel = fuse_mlir.PtxKernel(
                path,
                entry="norm",
                grid=("rows",),
                block=(1,),
                sizes={"rows": ("input0", 0), "columns": ("norm.weight", 0)},
                args=["input0", "norm.weight", "result0", 1e-6, "columns"],
            )
            fuse_mlir.fuse_modules(
                model, {(("Norm", "layers.*.norm"),): kernel}, inputs=x
            )
            checks = fuse_mlir.verify(model, x)
        self.assertTrue(checks, str(checks))

    def test_inputs_that_begin_anywhere(self):
        model, x = self.net(torch.bfloat16)
        expected = [model(x), model(x[:1])]
        fuse_mlir.fuse_modules(model, {CHAIN: "fuse"}, inputs=x)
        room = torch.empty(x.numel() + 1, device="cuda", dtype=x.dtype)
        x = room[1:].view(x.shape).copy_(x)
        for rows, before in ((x, expected[0]), (x[:1], expected[1])):
            torch.testing.assert_close(
                model(rows), before, atol=5e-2, rtol=2e-2
            )

    def test_modules_of_torch_jit(self):
        model, x = self.net()
        model.layers[0].mlp = torch.jit.script(model.layers[0].mlp)
        # Code of torch.jit reads memory, which fake tensors lack.
        expected = [model(x) for _ in range(4)][-1]
        fuse_mlir.fuse_modules(
            model,
            {(("*", "layers.*.norm"), ("*", "layers.*.mlp")): "fuse"},
            inputs=x,
            strict=False,
        )
        torch.cuda.synchronize()
        torch.testing.assert_close(model(x), expected)

    def test_gradients_under_torch_compile(self):
        model, x = self.net()
        model.requires_grad_(True)
        fuse_mlir.fuse_modules(model, {CHAIN: "fuse"}, inputs=x)
        with torch.enable_grad():
            torch.compile(model, fullgraph=True)(x).square().sum().backward()
            ours = [p.grad.clone() for p in model.parameters()]
            model.zero_grad()
            fuse_mlir.unfuse_modules(model)
            model(x).square().sum().backward()
        for gradient, parameter in zip(ours, model.parameters()):
            torch.testing.assert_close(
                gradient, parameter.grad, atol=1e-3, rtol=1e-3
            )

    def test_exported_program(self):
        model, x = self.net(torch.bfloat16)
        fuse_mlir.fuse_modules(model, {CHAIN: "fuse"}, inputs=x)
        program = torch.export.export(model, (x,))
        with tempfile.TemporaryDirectory() as directory:
            torch.export.save(program, f"{directory}/p.pt2")
            loaded = torch.export.load(f"{directory}/p.pt2").module()
        self.assertTrue(torch.equal(loaded(x), model(x)))


if __name__ == "__main__":
    unittest.main()
