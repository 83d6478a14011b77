# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Single modules that `fuse_mlir.compile_module` makes kernels of."""

import copy
import inspect
import unittest

import torch
from torch import nn
from torch.nn.utils import parametrize

import fuse_mlir
from fuse_mlir import FuseError
from tests.models import Norm, call_in_threads, fuse, needs_library, net

torch.set_num_threads(1)


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


class Gate(nn.Module):
    def forward(self, x, y, *, scale=1.0):
        return nn.functional.silu(x) * y * scale


class Returns(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, x):
        return self.what(x)


class Own(nn.Module):
    """Has a parameter that is not in a submodule."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.up = nn.Linear(8, 16)

    def forward(self, x):
        return self.up(nn.functional.rms_norm(x, (8,), self.weight, 1e-6))


class Double(nn.Module):
    def forward(self, weight):
        return 2 * weight


@needs_library
class CompiledModules(unittest.TestCase):
    def test_threads_see_one_version_of_weights(self):
        model = fuse_mlir.compile_module(Own().requires_grad_(False))
        call_in_threads(self, model, torch.randn(3, 8), model.up.weight)

    def test_modules_without_parameters(self):
        x, y = torch.randn(3, 8), torch.randn(3, 8)
        gate = fuse_mlir.compile_module(Gate())
        close(gate(x, y), Gate()(x, y))
        close(gate(y=y, x=x), Gate()(x, y))
        with self.assertRaisesRegex(
            fuse_mlir.KernelError, "Gate expects 'scale' by name only"
        ):
            gate(x, y, scale=2.0)
        with self.assertRaisesRegex(TypeError, "missing a required argument"):
            gate(y=y)

    def test_what_is_returned(self):
        x = torch.randn(3, 8)
        same = fuse_mlir.compile_module(Returns(lambda x: x))
        self.assertTrue(torch.equal(same(x), x))
        for kind, what in (
            ("tuple", lambda x: (x + 1,)),
            ("tuple", lambda x: (x + 1, x)),
            ("list", lambda x: [x + 1]),
            ("dict", lambda x: {"y": x + 1}),
        ):
            with self.assertRaisesRegex(
                fuse_mlir.KernelError,
                f"the members return a {kind}; expected a tensor",
            ):
                fuse_mlir.compile_module(Returns(what))(x)

    def test_parametrizations(self):
        x = torch.randn(3, 8)
        module = Own().eval().requires_grad_(False)
        plain = copy.deepcopy(module)
        before = fuse_mlir.compile_module(module)(x)
        for m in (module, plain):
            parametrize.register_parametrization(m, "weight", Double())
        self.assertFalse(torch.equal(module(x), before))
        close(module(x), plain(x))
        with self.assertRaisesRegex(
            FuseError, "compiled Own changed to ParametrizedOwn"
        ):
            fuse_mlir.decompile_module(module)
        parametrize.remove_parametrizations(module, "weight")
        close(fuse_mlir.decompile_module(module)(x), plain(x))
        self.assertIs(type(module), Own)

    def test_places_of_fused_models(self):
        model, x = net(1)
        fuse(model, x)
        for place in (model.layers[0].norm, model.layers[0].mlp):
            with self.assertRaisesRegex(
                FuseError,
                r"is part of site 'norm\+m"
                "lp#0'; unfuse it before",
            ):
                fuse_mlir.compile_module(place)
        fuse_mlir.unfuse_modules(model)
        self.assertIsInstance(
            fuse_mlir.compile_module(model.layers[0].norm), Norm
        )

    def test_models_that_have_one(self):
        model, x = net(1)
        fuse_mlir.compile_module(model.layers[0].mlp)
        for target, where in (
            (model, "'layers.0.mlp'"),
            (model.layers[0].mlp, "the model"),
        ):
            for call in (fuse_mlir.fuse_modules, fuse_mlir.explain):
                with self.assertRaisesRegex(
                    FuseError,
                    f"FUSE-N213 already-fused: {where} is one "
                    "kernel of fuse_mlir.compile_module; decompile it before",
                ):
                    call(target, inputs=x)
        fuse_mlir.decompile_module(model.layers[0].mlp)
        self.assertEqual(len(fuse(model, x).fused), 1)

    def test_signatures(self):
        gate, up = (
            fuse_mlir.compile_module(Gate()),
            fuse_mlir.compile_module(Own()),
        )
        for module, kind in ((gate, Gate), (up, Own)):
            self.assertEqual(
                inspect.signature(module.forward),
                inspect.signature(kind().forward),
            )

    def test_inputs_that_are_not_dense(self):
        x = torch.randn(3, 8)
        gate = fuse_mlir.compile_module(Gate())
        gate(x, x)
        with self.assertRaisesRegex(
            fuse_mlir.KernelError,
            "an input of Gate is of layout torch.sparse_coo",
        ):
            gate(x, x.to_sparse())


if __name__ == "__main__":
    unittest.main()
