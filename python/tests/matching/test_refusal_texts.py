# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refusals and errors tell the true reason, in words that a caller knows."""

import ast
import contextlib
import io
import re
import tempfile
import unittest
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import tomllib
import torch
from torch import nn
from torch.nn import functional as F

import fuse_mlir
from fuse_mlir import errors, native, slots
from fuse_mlir.compiler import chains
from fuse_mlir.fusion.modules import fused_sites
from fuse_mlir.matching.ptx_kernel import PtxKernel
from fuse_mlir.native import refusals
from fuse_mlir.support import messages
from tests.models import (
    CHAIN,
    LLAMA,
    MLP,
    Block,
    fp8_transformer,
    fuse,
    needs_library,
    net,
    transformer,
)
from tests.support import ROOT

torch.set_num_threads(1)

STATIC = {
    "static_quantized_mlp": {
        "input_quant": "fuse",
        "gated_mlp": "fuse",
        "dense_gelu_mlp": "fuse",
    }
}
#: Terms that only developers of the compiler know.
NOISE = re.compile(
    r"\b[A-Z]\w*=|FUSE_ERROR|-:\d+:\d+|::|\b(linalg|func|builtin|arith|tensor)"
    r"\.\w|loc\(|\n|can\s+not|Stopped|at fuse\."
)
LONGEST = 300


def listed() -> dict[str, tuple[str, str, str]]:
    """Name, reason and suggestion of each id of the compiler's list."""
    text = (ROOT / "include/fuse/Analysis/Refusals.def").read_text()
    text = text[text.index("\nFUSE_REFUSAL(") :]
    found = {}
    for entry in text.split("\nFUSE_REFUSAL(")[1:]:
        body = entry.split(")\n")[0] if ")\n" in entry else entry
        joined = re.sub(r'"\s*\n\s*"', "", body)
        id_, name, reason, suggestion = re.findall(r'"([^"]*)"', joined)
        found[id_] = (name, reason, suggestion)
    return found


def raised() -> Iterator[tuple[str, str, str]]:
    """Ids and names that the sources of the package say, and the file."""
    for path in sorted((ROOT / "python/fuse_mlir").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                args = [
                    a.value if isinstance(a, ast.Constant) else None
                    for a in node.args[:2]
                ]
                if len(args) == 2 and re.fullmatch(r"FUSE-N\d+", str(args[0])):
                    yield str(args[0]), str(args[1]), path.name
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for id_, name in re.findall(
                    r"(FUSE-N\d+) ([\w-]+): ", node.value
                ):
                    yield id_, name, path.name


class Ids(unittest.TestCase):
    """Each id has one name, an example and a test."""

    def setUp(self) -> None:
        self.listed = listed()

    def test_names_are_those_of_the_list(self) -> None:
        found = list(raised())
        self.assertGreater(len({id_ for id_, _, _ in found}), 12)
        found += [
            (id_, name, "refusals.py") for name, id_ in refusals.IDS.items()
        ]
        found += [
            (id_, words.name, "refusals.py")
            for id_, words in refusals.COMPILER.items()
        ]
        found += [
            (id_, name, "stored.py") for name, id_ in errors.REFUSALS.items()
        ]
        for id_, name, path in found:
            with self.subTest(id_, file=path):
                self.assertIn(id_, self.listed)
                self.assertEqual(name, self.listed[id_][0])

    def test_every_refusal_of_forming_kernels_has_words(self) -> None:
        text = (ROOT / "include/fuse/Analysis/Refusals.def").read_text()
        code = "".join(p.read_text() for p in (ROOT / "lib").rglob("*.cpp"))
        # Others are those of Python alone.
        ids = {
            id_
            for kind, id_ in re.findall(
                r'FUSE_REFUSAL\((\w+), "(FUSE-N0\d\d)"', text
            )
            if f"RefusalKind::{kind}" in code
        }
        self.assertGreater(len(ids), 20)
        self.assertEqual(ids - set(refusals.COMPILER), set())

    def test_each_has_an_example(self) -> None:
        with open(ROOT / "docs/reference/refusals.toml", "rb") as file:
            texts = tomllib.load(file)
        where = texts.pop("reported")
        self.assertEqual(set(texts), set(self.listed))
        for id_, entry in texts.items():
            with self.subTest(id_):
                self.assertIn(entry["reported"], where)
                self.assertTrue(entry["example"])

    def test_each_has_a_test(self) -> None:
        ours = "".join(
            p.read_text() for p in (ROOT / "python/tests").rglob("test_*.py")
        )
        theirs = "".join(p.read_text() for p in (ROOT / "test").rglob("*.mlir"))
        theirs += "".join(
            p.read_text() for p in (ROOT / "unittests").rglob("*.cpp")
        )
        for id_ in {
            *(i for i, _, _ in raised()),
            *refusals.IDS.values(),
            *errors.REFUSALS.values(),
        }:
            with self.subTest(id_):
                # Either by its id or by its name, as the tests of scales do.
                self.assertTrue(
                    id_ in ours or f'"{self.listed[id_][0]}"' in ours
                )
        for id_ in refusals.COMPILER:
            with self.subTest(id_):
                self.assertTrue(id_ in ours + theirs)

    def test_words_are_short_and_plain(self) -> None:
        texts = [
            (i, t)
            for i, (_, reason, advice) in self.listed.items()
            for t in (reason, advice)
        ]
        texts += [
            (i, t)
            for i, w in refusals.COMPILER.items()
            for t in (w.reason, w.advice)
        ]
        for id_, text in texts:
            with self.subTest(id_):
                self.assertTrue(text)
                self.assertLessEqual(len(text), 160)
                self.assertFalse(text.endswith("."), text)
                self.assertNotRegex(text, r"can\s+not|report this:|has not")


class Calls:
    """Modules with one thing wrong each, below a norm."""

    class Softplus(MLP):
        def forward(self, x):
            return self.down(F.softplus(self.gate(x)) * self.up(x))

    class Branch(MLP):
        def forward(self, x):
            return super().forward(x + 1 if x.sum() > 0 else x)

    class Counts(MLP):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x)

    class Casts(MLP):
        """Gate and up read multiples of the norm's result."""

        def forward(self, x):
            x = x.half()
            gate = F.silu(self.gate(3 * x).float()).half()
            return self.down(gate * self.up(2 * x)).float()

    class Named(MLP):
        site = "mine"

    class TakesList(MLP):
        def forward(self, x, sizes):
            return super().forward(x)

    class Mixer(MLP):
        def __init__(self, size, hidden):
            super().__init__(size, hidden)
            self.conv = nn.Conv1d(1, 1, 3)


def with_mlp(kind: type[nn.Module], *more: Any) -> type[nn.Module]:
    """A block with another MLP."""

    class Other(Block):
        def __init__(self) -> None:
            super().__init__()
            self.mlp = kind(8, 16)

        def forward(self, x):
            return x + self.mlp(self.norm(x), *more)

    return Other


PATTERN = {(("*", "layers.*.norm"), ("*", "layers.*.mlp")): "fuse"}


@needs_library
class Reasons(unittest.TestCase):
    """A broken model per reason: its id, and a text to act on."""

    def readable(self, text: str) -> None:
        self.assertNotRegex(text, NOISE)
        self.assertLessEqual(len(text[text.index("FUSE-N") :]), LONGEST, text)
        self.assertFalse(text.endswith("."), text)

    def check(self, id_: str, pattern: str, act: Callable[[], Any]) -> str:
        with self.assertRaises(
            (fuse_mlir.FuseError, fuse_mlir.PatternError)
        ) as caught:
            act()
        text = str(caught.exception)
        self.assertRegex(text, f"{id_} [\\w-]+: .*{pattern}")
        self.readable(text)
        return text

    def refused(
        self,
        id_: str,
        pattern: str,
        block: type = Block,
        change: Callable[[Any], Any] | None = None,
        patterns: Mapping[Any, Any] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        model, x = net(1, block)
        if change is not None:
            change(model)
        model.to(dtype)
        with self.subTest(id_):
            self.check(
                id_,
                pattern,
                lambda: fuse(
                    model,
                    x.to(dtype),
                    PATTERN if patterns is None else patterns,
                ),
            )

    def test_nothing_is_printed(self) -> None:
        errors = io.StringIO()
        with (
            contextlib.redirect_stderr(errors),
            contextlib.redirect_stdout(errors),
        ):
            self.refused("FUSE-N222", "", with_mlp(Calls.Branch))
        self.assertEqual(errors.getvalue(), "")

    def test_what_members_are(self) -> None:
        self.refused(
            "FUSE-N219",
            r"test_refusal_texts.py:\d+ \(module 'mlp'\)"
            ": no translation for 'aten.softplus.default'; leave",
            with_mlp(Calls.Softplus),
        )
        self.refused(
            "FUSE-N220",
            "torch.float64.*; convert the model with "
            r"model.to\(torch.float32\)",
            change=lambda m: m.double(),
            dtype=torch.float64,
        )
        self.refused(
            "FUSE-N222",
            "branch on the values of a tensor; .*torch.where",
            with_mlp(Calls.Branch),
        )
        self.refused(
            "FUSE-N223", "changes its attribute 'calls'", with_mlp(Calls.Counts)
        )
        self.refused(
            "FUSE-N226",
            "has an attribute 'site', .*; rename it",
            with_mlp(Calls.Named),
        )
        self.refused(
            "FUSE-N228",
            "argument 1 of 'layers.0.mlp' is a list; "
            "expected a tensor, a number, a string or None",
            with_mlp(Calls.TakesList, [1]),
        )

        def script(model: Any) -> None:
            model.layers[0].mlp = torch.jit.script(model.layers[0].mlp)

        self.refused(
            "FUSE-N222",
            "is a torch.jit.ScriptModule, which has no Python forward to trace",
            change=script,
        )

        def tie(model: Any) -> None:
            model.other = model.layers[0].mlp

        self.refused("FUSE-N213", "the same module as", change=tie)

    def test_finding_14_another_family_has_its_own_id(self) -> None:
        self.refused(
            "FUSE-N218",
            "the members form gated_mlp, and the pattern "
            "asks for mlp; ask for 'fuse' or 'fuse:gated_mlp'",
            patterns={CHAIN: "fuse:mlp"},
        )
        model = fp8_transformer("llama", **LLAMA)
        only = {
            "static_quantized_mlp": {
                "input_quant": "fuse",
                "dense_gelu_mlp": "fuse",
            }
        }
        self.check(
            "FUSE-N218",
            "the members form gated_mlp, and the "
            "fusion_config asks for mlp; name its kernel",
            lambda: fuse_mlir.fuse_modules(model, fusion_config=only),
        )

    def test_finding_14_refusals_of_the_compiler_keep_their_ids(self) -> None:
        model, x = net(1, with_mlp(Calls.Casts))
        model.layers[0].mlp.half()
        self.check(
            "FUSE-N004",
            "the gate and up projections do not read the "
            r"same tensor \(test_refusal_texts.py:\d+\); pass one ",
            lambda: fuse(model, x, PATTERN),
        )
        model = fp8_transformer("llama", **LLAMA)
        for layer in model.model.layers:
            layer.mlp.gate_proj.activation_scale.data *= 1.5
        text = self.check(
            "FUSE-N019",
            "quantize their input with different scales; only "
            "norm_linear, fused_linear and act_quantize form, and the "
            "fusion_config asks for gated_mlp or mlp; .*fuse_mlir.calibrate",
            lambda: fuse_mlir.fuse_modules(
                model,
                {
                    (
                        ("*RMSNorm", "model.layers.0.post_attention_layernorm"),
                        ("*MLP", "model.layers.0.mlp"),
                    ): "fuse"
                },
                fusion_config=STATIC,
            ),
        )
        # As it says, larger scales for both help.
        self.assertIn("'input_scale' in the 'scales' of a fusion_config", text)
        scales = {
            f"model.layers.{i}.mlp.{name}": {"input_scale": 0.03}
            for i in range(4)
            for name in ("gate_proj", "up_proj")
        }
        both = {
            "static_quantized_mlp": {
                **STATIC["static_quantized_mlp"],
                "scales": scales,
            }
        }
        self.assertEqual(
            {
                s.families
                for s in fuse_mlir.fuse_modules(model, fusion_config=both)
            },
            {("gated_mlp",)},
        )

    def test_finding_14_storage_types(self) -> None:
        model = fp8_transformer("llama", **LLAMA)
        for layer in model.model.layers:
            down = layer.mlp.down_proj
            down.weight = nn.Parameter(
                down.weight.float().to(torch.float8_e5m2), requires_grad=False
            )
        results = fuse_mlir.explain(model, fusion_config=STATIC)
        for site in results.refused:
            self.assertRegex(
                site.reason,
                "FUSE-N020 storage-types-differ: .*"
                "in one type, such as float8_e4m3fn",
            )
            self.readable(site.reason)
        self.assertTrue(results.refused)

    def test_layers_without_a_kernel(self) -> None:
        model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 8)).eval()
        self.check(
            "FUSE-N221",
            "the members are linear, linear, and no "
            "kernel consists of these; there are gated_mlp",
            lambda: fuse_mlir.fuse_modules(model, inputs=torch.randn(3, 8)),
        )
        model, x = net(1, with_mlp(Calls.Mixer))
        self.check(
            "FUSE-N224",
            "'layers.0.mlp.conv' is a Conv1d, and no kernel has convolutions",
            lambda: fuse_mlir.fuse_modules(model, inputs=x),
        )

    def test_experts(self) -> None:
        model = transformer(
            "gpt_oss",
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            vocab_size=64,
            num_local_experts=4,
            num_experts_per_tok=2,
        )
        # Kernels of attention may be slower here.
        found = [
            site
            for site in fuse_mlir.explain(model).refused
            if "experts" in site.id or "mlp" in site.id
        ]
        self.assertTrue(found)
        for site in found:
            self.assertRegex(
                site.reason, "FUSE-N225 unknown-experts: .*down_proj_bias"
            )
            self.readable(site.reason)

    def test_kernels_of_the_caller(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            ptx = Path(directory) / "k.ptx"
            ptx.write_text(".version 8.0\n")
            kernel = PtxKernel(ptx, "k", ["x"], grid=[1], block=[32])
            self.refused(
                "FUSE-N211",
                "is PTX, which runs on CUDA; the model is on cpu",
                patterns={CHAIN: kernel},
            )
            other, x = net(1, with_mlp(Calls.Casts))
            other.layers[0].mlp = nn.Sequential(
                nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)
            ).eval()
            fuse(other, x, PATTERN)
            path = Path(directory) / "other.fuse"
            fuse_mlir.export(other, path)
            self.refused(
                "FUSE-N218",
                "is the kernel of another function than "
                "that of the members; export one",
                patterns={CHAIN: str(path)},
            )
            path.write_bytes(path.read_bytes()[:-40])
            self.refused("FUSE-N229", "", patterns={CHAIN: str(path)})

    def test_ptx_that_takes_what_the_members_lack(self) -> None:
        model, x = net(1)
        fuse(model, x)
        kernel = fused_sites(model)[0][1]._kernel
        ptx = PtxKernel("k.ptx", "k", ["norm.bias"], grid=[1], block=[32])
        with (
            mock.patch.object(chains, "gpu_chip", return_value="sm_90a"),
            self.assertRaisesRegex(
                fuse_mlir.KernelError,
                "FUSE-N217 layout-does-not-fit: "
                "argument 'norm.bias' of PTX .*; there are ",
            ) as caught,
        ):
            chains.from_ptx(
                kernel.compiled, kernel.chain, ptx, torch.device("cuda")
            )
        self.readable(str(caught.exception))

    def test_what_the_compiler_has_no_code_for(self) -> None:
        with mock.patch.object(
            native.Module,
            "run",
            side_effect=errors.NativeError(
                "'fuse.linear' needs a weight of rank 2"
            ),
        ):
            chains._CACHE.clear()
            self.refused(
                "FUSE-N229",
                "the compiler refuses the members: "
                "'fuse.linear' needs a weight of rank 2",
            )

    def test_strict_is_advised_where_others_can_be_fused(self) -> None:
        model, x = net(2)
        model.layers[0].mlp.register_forward_hook(print)
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "FUSE-N208 .*; pass strict=False to fuse the others",
        ):
            fuse(model, x)
        model.layers[1].mlp.register_forward_hook(print)
        with self.assertRaises(fuse_mlir.FuseError) as caught:
            fuse(model, x)
        self.assertNotIn("strict", str(caught.exception))


@needs_library
class Native(unittest.TestCase):
    """Errors of the library, without terms of its developers."""

    IR = (
        "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> { "
        "return %a : tensor<2xf32> }"
    )

    def check(self, expected: str, status: str, act: Callable[[], Any]) -> None:
        with self.assertRaises(errors.NativeError) as caught:
            act()
        self.assertRegex(str(caught.exception), f"^{expected}")
        self.assertNotRegex(str(caught.exception), r"FUSE_ERROR|-:\d+:\d+|\n")
        self.assertEqual(caught.exception.status, status)

    def test_finding_14_no_raw_text_of_the_compiler(self) -> None:
        self.check(
            "line 1, column 1: custom op 'x' is unknown",
            "FUSE_ERROR_PARSE",
            lambda: native.Module("x"),
        )
        module = native.Module(self.IR)
        self.check(
            "unknown family 'zz'; expected one of gated_mlp, ",
            "FUSE_ERROR_PASS",
            lambda: module.run(
                "builtin.module(func.func(fuse-form-kernels{families=zz}))"
            ),
        )
        self.check(
            "unknown chip 'sm_1', expected one of sm_80",
            "FUSE_ERROR_PASS",
            lambda: module.compile(chip="sm_1"),
        )

    def test_finding_14_slots(self) -> None:
        context = slots.Context()
        model = nn.Module()
        model.norm = slots.OpSlot(
            "rms_norm", params={"eps": 1e-6}, eager=F.rms_norm
        )
        self.check(
            "no preset 'zz'; there are fuse$",
            "FUSE_ERROR_PASS",
            lambda: slots.bind(model, {"preset": "zz"}, context),
        )
        self.check(
            "mode 'x': expected inference",
            "FUSE_ERROR_PASS",
            lambda: slots.bind(model, {"preset": "fuse", "mode": "x"}, context),
        )
        self.check(
            "line 1, column 14: expected attribute value",
            "FUSE_ERROR_PARSE",
            lambda: context.register_kernels("nn.slot_kernel"),
        )

    def test_an_error_does_not_speak_of_the_one_before(self) -> None:
        module = native.Module(self.IR)
        for _ in range(2):
            self.check(
                "unknown family 'zz'; [^;]*$",
                "FUSE_ERROR_PASS",
                lambda: module.run(
                    "builtin.module(func.func(fuse-form-kernels{families=zz}))"
                ),
            )
        self.check(
            "pipeline 'y': expected pass pipeline",
            "FUSE_ERROR_INVALID_ARGUMENT",
            lambda: module.run("y"),
        )

    def test_remarks_have_structure(self) -> None:
        remark = native.Remark(
            "Missed",
            "fuse",
            "main#0",
            "a/b.py:7:3",
            "Reason=FUSE-N005 "
            "no-down-projection: a value; At=func.return; Suggestion=look",
        )
        self.assertEqual(
            remark.fields,
            {
                "Reason": "FUSE-N005 no-down-projection: a value",
                "At": "func.return",
                "Suggestion": "look",
            },
        )
        self.assertEqual(remark.refusal, "FUSE-N005")
        self.assertEqual(remark.named_reason, ("no-down-projection", "a value"))
        self.assertEqual(remark.place, "a/b.py:7")
        self.assertEqual(native.source_line("-:3:5"), "")
        self.assertEqual(native.source_line("a.py:0:0"), "")


class Messages(unittest.TestCase):
    def test_tools(self) -> None:
        self.assertEqual(
            messages.tool_error(
                "<stdin>:3:5: error: expected '='\n  %0 fuse.x\n     ^\n"
                "<stdin>:1:1: note: see here\n"
            ),
            "line 3: expected '='",
        )
        self.assertEqual(
            messages.tool_error("m.mlir:3:5: error: no\n"), "m.mlir:3: no"
        )
        self.assertEqual(
            messages.tool_error("fuse-run: error: not a bf16"), "not a bf16"
        )
        self.assertEqual(messages.tool_error("killed\n"), "killed")

    def test_first_lines(self) -> None:
        self.assertEqual(
            messages.first_line(ValueError("a  b\nc")), "ValueError: a b"
        )
        self.assertEqual(messages.first_line(KeyError()), "KeyError")
        long = messages.first_line(ValueError("word " * 100))
        self.assertLess(len(long), 185)
        self.assertTrue(long.endswith(" ..."))


if __name__ == "__main__":
    unittest.main()
