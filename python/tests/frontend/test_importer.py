# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every ATen op, the types it computes in, and every refusal."""

import unittest

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from fuse_mlir.errors import ImportFailure
from tests.support import fuse_opt, import_function

BF16 = torch.bfloat16


def bf16(*shape):
    return torch.randn(*shape).to(BF16)


class OpCoverage(unittest.TestCase):
    """The op and the upstream op that carries its meaning."""

    CASES = {
        "add": (lambda x: x + x, "arith.addf"),
        "add with alpha": (lambda x: torch.add(x, x, alpha=2), "math.fma"),
        "sub": (lambda x: x - 2, "arith.subf"),
        "rsub": (lambda x: 2 - x, "arith.subf"),
        "rsub tensor": (lambda x: torch.rsub(x, x, alpha=3), "math.fma"),
        "mul": (lambda x: x * x, "arith.mulf"),
        "div": (lambda x: x / 3, "arith.divf"),
        "maximum": (lambda x: torch.maximum(x, x * 2), "arith.maximumf"),
        "minimum": (lambda x: torch.minimum(x, x * 2), "arith.minimumf"),
        "pow 2": (lambda x: x.pow(2), "arith.mulf"),
        "pow 3": (lambda x: x**3, "arith.mulf"),
        "pow 0.5": (lambda x: x.pow(0.5), "math.sqrt"),
        "pow -0.5": (lambda x: x.pow(-0.5), "math.rsqrt"),
        "pow -2": (lambda x: x.pow(-2), "arith.divf"),
        "pow -1": (lambda x: x.pow(-1), "arith.divf"),
        "pow 1.7": (lambda x: x.pow(1.7), "math.powf"),
        "square": (torch.square, "arith.mulf"),
        "neg": (torch.neg, "arith.negf"),
        "abs": (torch.abs, "math.absf"),
        "exp": (torch.exp, "math.exp"),
        "log": (torch.log, "math.log"),
        "sqrt": (torch.sqrt, "math.sqrt"),
        "rsqrt": (torch.rsqrt, "math.rsqrt"),
        "reciprocal": (torch.reciprocal, "arith.divf"),
        "erf": (torch.erf, "math.erf"),
        "tanh": (torch.tanh, "math.tanh"),
        "sigmoid": (torch.sigmoid, "math.exp"),
        "clamp": (lambda x: x.clamp(-1, 2), "arith.minimumf"),
        "relu6": (F.relu6, "arith.maximumf"),
        "mean": (lambda x: x.mean(-1), "arith.divf"),
        "sum": (lambda x: x.sum(0), "linalg.generic"),
        "silu": (F.silu, "fuse.activation silu"),
        "gelu": (F.gelu, "fuse.activation gelu %"),
        "gelu tanh": (
            lambda x: F.gelu(x, approximate="tanh"),
            "fuse.activation gelu_tanh",
        ),
        "relu": (F.relu, "fuse.activation relu %"),
        "rms_norm": (lambda x: F.rms_norm(x, (8,)), "cast after_weight"),
        "layer_norm": (lambda x: F.layer_norm(x, (8,)), "fuse.layer_norm"),
        "view": (lambda x: x.view(2, 2, 8), "tensor.expand_shape"),
        "reshape": (lambda x: x.reshape(-1), "tensor.collapse_shape"),
        "flatten": (lambda x: x.flatten(), "tensor.collapse_shape"),
        "unflatten": (lambda x: x.unflatten(-1, (2, 4)), "tensor.expand_shape"),
        "unsqueeze": (lambda x: x.unsqueeze(0), "tensor.expand_shape"),
        "squeeze": (lambda x: x[:1].squeeze(0), "tensor.collapse_shape"),
        "transpose": (lambda x: x.transpose(0, 1) + 1, "linalg.transpose"),
        "t": (lambda x: x.t() + 1, "linalg.transpose"),
        "T": (lambda x: x.T + 1, "linalg.transpose"),
        "permute": (lambda x: x.permute(1, 0) + 1, "linalg.transpose"),
        "expand": (
            lambda x: x.unsqueeze(0).expand(3, 4, 8) + 1,
            "linalg.generic",
        ),
        "split": (lambda x: x.split(2, -1)[3], "[0, 6] [4, 2] [1, 1]"),
        "split sizes": (lambda x: x.split([3, 5], -1)[1], "[0, 3] [4, 5]"),
        "chunk": (lambda x: x.chunk(2, -1)[1], "[0, 4] [4, 4]"),
        "slice": (lambda x: x[:, 2:-1], "[0, 2] [4, 5]"),
        "select": (lambda x: x[-1], "[3, 0] [1, 8]"),
        "dropout": (lambda x: F.dropout(x + 1, 0.5, False), "arith.addf"),
        "clone": (lambda x: (x + 1).clone(), "arith.addf"),
        "to": (lambda x: x.to(torch.float16), "arith.truncf"),
        "type_as": (lambda x: x.type_as(x.float()), "arith.extf"),
        "matmul": (lambda x: x @ x.t(), "fuse.linear"),
    }

    def test_each_op(self):
        for name, (function, expected) in self.CASES.items():
            with self.subTest(name):
                text = import_function(function, bf16(4, 8)).text
                self.assertIn(expected, text)
                fuse_opt(text, "--verify-roundtrip")

    def test_special_constants(self):
        text = import_function(lambda x: x + float("inf"), bf16(4)).text
        self.assertIn("0x7F800000 : f32", text)
        fuse_opt(text)

    def test_rank_zero(self):
        text = import_function(lambda x: x.mean() * 2, bf16(4, 8)).text
        fuse_opt(text)
        self.assertIn("tensor<bf16>", text)
        text = import_function(lambda x: x[0, 0] * x, bf16(4, 8)).text
        fuse_opt(text)
        text = import_function(
            lambda x: x.sum().view(1, 1) + x, bf16(4, 8)
        ).text
        fuse_opt(text)


class Layers(unittest.TestCase):
    def test_linear_with_bias(self):
        text = import_function(nn.Linear(8, 4), torch.randn(2, 3, 8)).text
        self.assertIn(
            "fuse.linear %input, %weight bias(%bias) : (tensor<2x3x8xf32>, "
            "tensor<4x8xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>",
            text,
        )
        fuse_opt(text)

    def test_addmm_is_a_linear_on_the_transposed_weight(self):
        text = import_function(
            lambda x, w, b: torch.addmm(b, x, w),
            bf16(3, 8),
            bf16(8, 4),
            bf16(4),
        ).text
        self.assertIn("linalg.transpose", text)
        self.assertRegex(text, r"fuse.linear %inputs_0, \S+ bias\(%inputs_2\)")
        fuse_opt(text)

    def test_two_transposes_are_none(self):
        text = import_function(
            lambda x, w: x @ w.t(), bf16(3, 8), bf16(4, 8)
        ).text
        self.assertIn("fuse.linear %inputs_0, %inputs_1 :", text)

    def test_layer_norm_with_weight_and_bias(self):
        text = import_function(
            nn.LayerNorm(8, eps=1e-5), torch.randn(2, 8)
        ).text
        self.assertIn(
            "fuse.layer_norm %input weight(%weight) bias(%bias) eps 1.0e-05",
            text,
        )
        fuse_opt(text)


class Types(unittest.TestCase):
    def test_half_types_compute_in_f32_and_round_once(self):
        text = import_function(lambda x: x * x, bf16(4)).text
        self.assertEqual(text.count("arith.extf"), 2)
        self.assertEqual(text.count("arith.truncf"), 1)
        self.assertIn("arith.mulf", text)
        self.assertIn(": f32 to bf16", text)

    def test_f32_has_no_casts(self):
        text = import_function(lambda x: x * x + 1, torch.randn(4)).text
        self.assertNotIn("arith.extf", text)
        self.assertNotIn("arith.truncf", text)

    def test_f64_computes_in_f64(self):
        text = import_function(
            lambda x: torch.exp(x * 2), torch.randn(4).double()
        ).text
        self.assertIn("math.exp", text)
        self.assertNotIn("f32", text)
        fuse_opt(text)

    def test_mixed_types_promote(self):
        text = import_function(lambda x, y: x * y, bf16(4), torch.randn(4)).text
        self.assertIn("-> (tensor<4xf32>)", text)
        self.assertEqual(text.count("arith.extf"), 1)
        text = import_function(
            lambda x, y: x * y, bf16(4), torch.randn(4).half()
        ).text
        self.assertIn("-> (tensor<4xf32>)", text)
        self.assertEqual(text.count("arith.extf"), 2)

    def test_rank_zero_operand_takes_the_type_of_the_other(self):
        text = import_function(
            lambda x, y: x * y, bf16(4), torch.tensor(1.1)
        ).text
        self.assertIn("-> (tensor<4xbf16>)", text)
        fuse_opt(text)

    def test_numbers_are_rounded_in_sums_but_not_in_products(self):
        text = import_function(lambda x: x + 1.001, bf16(4)).text
        self.assertIn("arith.constant 1.0 : f32", text)
        text = import_function(lambda x: x * 1.001, bf16(4)).text
        self.assertIn("arith.constant 1.001 : f32", text)

    def test_powers_of_bf16_round_every_product(self):
        text = import_function(lambda x: x.pow(3), bf16(4)).text
        self.assertEqual(text.count("arith.truncf"), 2)
        text = import_function(lambda x: x.pow(3), bf16(4).half()).text
        self.assertEqual(text.count("arith.truncf"), 1)

    def test_between_half_types_through_f32(self):
        text = import_function(lambda x: x.half(), bf16(4)).text
        self.assertIn("bf16 to f32", text)
        self.assertIn("f32 to f16", text)
        fuse_opt(text)

    def test_cast_to_the_same_type_is_nothing(self):
        text = import_function(lambda x: (x * x).to(BF16), bf16(4)).text
        self.assertEqual(text.count("linalg.generic"), 1)

    def test_mean_of_a_half_type_sums_in_f32(self):
        text = import_function(
            lambda x: x.mean(-1, keepdim=True), bf16(4, 8)
        ).text
        self.assertIn("tensor.empty() : tensor<4xf32>", text)
        self.assertEqual(text.count("arith.truncf"), 1)
        fuse_opt(text)


class Broadcasting(unittest.TestCase):
    def test_vector_along_the_last_dimension(self):
        text = import_function(lambda x, w: x * w, bf16(2, 3, 4), bf16(4)).text
        self.assertIn("(d0, d1, d2) -> (d2)>", text)
        fuse_opt(text)

    def test_unit_dimension(self):
        text = import_function(lambda x, y: x * y, bf16(3, 4), bf16(3, 1)).text
        self.assertIn("(d0, d1) -> (d0, 0)>", text)
        fuse_opt(text)

    def test_both_sides(self):
        text = import_function(lambda x, y: x + y, bf16(3, 1), bf16(1, 4)).text
        self.assertIn("tensor<3x4xbf16>", text)
        fuse_opt(text)


class DynamicDimensions(unittest.TestCase):
    def test_tokens(self):
        text = import_function(
            lambda x: (x * 2).mean(-1, keepdim=True) + x,
            bf16(5, 8),
            dynamic=(({0: Dim("tokens")},),),
        ).text
        self.assertIn("tensor<?x8xbf16>", text)
        self.assertEqual(text.count("tensor.dim"), 1)
        fuse_opt(text)

    def test_flattened_batch_and_tokens(self):
        dims = {0: Dim("b"), 1: Dim("s")}
        text = import_function(
            lambda x: (x.view(-1, 8) * 2).view(x.shape[0], x.shape[1], 8),
            bf16(2, 5, 8),
            dynamic=((dims,),),
        ).text
        self.assertIn("into tensor<?x8xbf16>", text)
        self.assertIn("into tensor<?x?x8xbf16>", text)
        fuse_opt(text)


class Shared(nn.Module):
    """A weight under two names, and a view of a weight."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8, bias=False)
        self.second = nn.Linear(8, 8, bias=False)
        self.second.weight = self.first.weight
        self.unused = nn.Linear(3, 3)
        self.register_buffer("scale", torch.full((8,), 2.0))

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


class Parameters(unittest.TestCase):
    def test_tied_weights_are_one_argument(self):
        function = import_function(Shared(), torch.randn(2, 8))
        self.assertEqual(set(function.weights), {"first.weight", "scale"})
        self.assertEqual(function.aliases, {"second.weight": "first.weight"})
        self.assertEqual(function.text.count("%first.weight: "), 1)
        fuse_opt(function.text)

    def test_unused_parameters_are_left_out(self):
        function = import_function(Shared(), torch.randn(2, 8))
        self.assertNotIn("unused", function.text)

    def test_argument_order_and_names(self):
        text = import_function(nn.Linear(8, 4), torch.randn(2, 8)).text
        self.assertLess(text.index("%input: "), text.index("%weight: "))
        self.assertIn(
            '%weight: tensor<4x8xf32> {fuse.parameter = "weight"}', text
        )

    def test_weights_are_contiguous_copies_of_views(self):
        linear = nn.Linear(8, 4, bias=False)
        linear.weight = nn.Parameter(torch.randn(8, 4).t())
        function = import_function(linear, torch.randn(2, 8))
        weight = function.weights["weight"]
        self.assertTrue(weight.is_contiguous())
        self.assertTrue(torch.equal(weight, linear.weight))

    def test_different_views_of_one_storage_stay_apart(self):
        module = nn.Module()
        storage = torch.randn(2, 8)
        module.a = nn.Parameter(storage[0])
        module.b = nn.Parameter(storage[1])
        module.forward = lambda x: x * module.a + module.b
        function = import_function(module, torch.randn(8))
        self.assertEqual(set(function.weights), {"a", "b"})
        self.assertEqual(function.aliases, {})


class Locations(unittest.TestCase):
    def test_module_path_around_source_line(self):
        module = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.SiLU()))
        text = import_function(module, torch.randn(2, 8)).text
        self.assertRegex(text, r'loc\("0"\("torch/nn/modules/linear.py":\d+')
        self.assertRegex(text, r'loc\("1.0"\("torch/nn/modules/activation.py"')

    def test_locations_survive_parsing(self):
        text = import_function(nn.Sequential(nn.SiLU()), torch.randn(2, 8)).text
        printed = fuse_opt(text, "--mlir-print-debuginfo")
        self.assertIn('loc("0"(', printed)


class Refusals(unittest.TestCase):
    def check(self, pattern, function, *inputs, **options):
        with self.assertRaisesRegex(ImportFailure, pattern):
            import_function(function, *inputs, **options)

    def test_unknown_op_names_op_line_and_module(self):
        class Sine(nn.Module):
            def forward(self, x):
                return torch.sin(x)

        self.check(
            r"test_importer.py:\d+ \(module 'child'\): no translation "
            r"for 'aten.sin.default'",
            _parent(Sine()),
            bf16(4),
        )

    def test_integer_input(self):
        # Indices are inputs of some ops, numbers they are of none.
        self.check(
            "no translation for 'aten.add.Tensor' with operand of type "
            "i64; expected one of bf16",
            lambda x: x + 1,
            torch.arange(4),
        )
        self.check(
            "input 'inputs_0' has type torch.bool; expected one of "
            "torch.bfloat16",
            lambda x: x,
            torch.tensor([True]),
        )

    def test_integer_result(self):
        self.check(
            "'aten.to.dtype' with result of type torch.int32",
            lambda x: x.to(torch.int32),
            bf16(4),
        )

    def test_training_dropout(self):
        module = nn.Module()
        module.forward = lambda x: F.dropout(x, 0.5, True)
        self.check("dropout.default' with training mode", module, bf16(4))

    def test_layer_op_on_f64(self):
        self.check(
            "'aten.silu.default' with operand of type f64; expected "
            "one of bf16, f16, f32",
            F.silu,
            torch.randn(4).double(),
        )

    def test_norm_over_two_dimensions(self):
        self.check(
            "normalized shape of rank 2; expected 1",
            lambda x: F.layer_norm(x, (4, 8)),
            bf16(2, 4, 8),
        )

    def test_strided_slice(self):
        self.check(
            "'aten.slice.Tensor' with step other than 1",
            lambda x: x[::2],
            bf16(4),
        )

    def test_split_of_a_dynamic_dimension(self):
        self.check(
            "dimension 0, whose size is not static",
            lambda x: x[1:],
            bf16(5, 8),
            dynamic=(({0: Dim("tokens", min=3)},),),
        )

    def test_mean_over_a_dynamic_dimension(self):
        self.check(
            "mean over dimension 0, whose size is not static",
            lambda x: x.mean(0),
            bf16(5, 8),
            dynamic=(({0: Dim("tokens")},),),
        )

    def test_changed_buffer(self):
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(4))

            def forward(self, x):
                self.count.add_(1)
                return x + self.count

        self.check(
            "expected a function that changes no state|"
            "no translation for 'aten.add_",
            Counter(),
            torch.randn(4),
        )

    def test_second_result_of_a_norm(self):
        self.check(
            "a result of a norm other than the first",
            lambda x: torch.native_layer_norm(x, (8,), None, None, 1e-5)[1],
            torch.randn(4, 8),
        )


def _parent(child):
    module = nn.Sequential()
    module.add_module("child", child)
    return module


class CutLinears(unittest.TestCase):
    class Cut(nn.Module):
        def __init__(self, dim=-1, sizes=(6, 2)):
            super().__init__()
            self.linear = nn.Linear(4, 8, bias=False)
            self.dim, self.sizes = dim, sizes

        def forward(self, x):
            first, second = self.linear(x).split(self.sizes, dim=self.dim)
            return first, second

    def test_becomes_linears_on_rows(self):
        module = self.Cut()
        function = import_function(module, torch.randn(3, 4))
        self.assertEqual(
            list(function.weights), ["linear.weight[0:6]", "linear.weight[6:8]"]
        )
        self.assertEqual(function.text.count("fuse.linear"), 2)
        self.assertNotIn("extract_slice", function.text)
        self.assertEqual(
            function.weights["linear.weight[6:8]"].data_ptr(),
            module.linear.weight[6:].data_ptr(),
        )

    def test_a_cut_across_rows_of_the_input_stays(self):
        function = import_function(self.Cut(0, (2, 1)), torch.randn(3, 4))
        self.assertEqual(list(function.weights), ["linear.weight"])
        self.assertIn("extract_slice", function.text)

    def test_square_of_a_relu_is_one_activation(self):
        function = import_function(
            lambda x: torch.square(torch.relu(x)), torch.randn(3, 4)
        )
        self.assertIn("fuse.activation relu2", function.text)
        function = import_function(torch.square, torch.randn(3, 4))
        self.assertNotIn("fuse.activation", function.text)


if __name__ == "__main__":
    unittest.main()
