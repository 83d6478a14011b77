# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions that other processes exported: what shares them and what does not."""

import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

import fuse_mlir
from fuse_mlir.compiler import chains, exports, stored_exports
from fuse_mlir.compiler.source_digest import Undescribed, describe
from tests.models import needs_library, net

FACTOR = 2.0


def helper(x):
    return F.silu(x) * FACTOR


class Scaled(nn.Module):
    """Its forward reaches a function and a number of this module."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.power = 2

    def forward(self, x):
        return self.twice(self.linear(x))

    def twice(self, x):
        return helper(x) + self.power


class Other(Scaled):
    def twice(self, x):
        return helper(x) - self.power


class Describe(unittest.TestCase):
    """What an export depends on changes the text."""

    def test_equal_modules(self):
        self.assertEqual(describe(Scaled()), describe(Scaled()))

    def assert_changed(self, change):
        before = describe(Scaled())
        model = Scaled()
        with change(model):
            self.assertNotEqual(describe(model), before)
        self.assertEqual(describe(Scaled()), before)

    def test_an_attribute(self):
        self.assert_changed(lambda m: mock.patch.object(m, "power", 3))

    def test_types_of_tensors(self):
        self.assertNotEqual(describe(Scaled().half()), describe(Scaled()))
        self.assertNotEqual(describe(Scaled().eval()), describe(Scaled()))

    def test_a_method(self):
        def twice(self, x):
            return x

        self.assert_changed(lambda m: mock.patch.object(Scaled, "twice", twice))
        self.assertNotEqual(describe(Other()), describe(Scaled()))

    def test_a_function_of_the_module(self):
        def other(x):
            return x

        self.assert_changed(
            lambda m: mock.patch.dict(globals(), {"helper": other})
        )

    def test_a_number_of_the_module(self):
        self.assert_changed(
            lambda m: mock.patch.dict(globals(), {"FACTOR": 3.0})
        )

    def test_a_value_in_a_closure(self):
        def make(number):
            return lambda x: x * number

        texts = []
        for number in (1, 2, 1):
            model = Scaled()
            model.extra = make(number)
            texts.append(describe(model))
        self.assertEqual(texts[0], texts[2])
        self.assertNotEqual(texts[0], texts[1])


class Undescribable(unittest.TestCase):
    """Nothing is shared if a text would not tell all."""

    def assert_none(self, model, what):
        with self.assertRaisesRegex(Undescribed, what):
            describe(model)
        self.assertIsNone(stored_exports.key_of(model, []))

    def test_an_own_forward(self):
        model = Scaled()
        model.forward = lambda x: x
        self.assert_none(model, "the forward of")

    def test_hooks(self):
        model = Scaled()
        model.linear.register_forward_hook(lambda *_: None)
        self.assert_none(model, "hooks of '.linear'")

    def test_objects(self):
        model = Scaled()
        model.extra = object()
        self.assert_none(model, "a builtins.object")
        model.extra = [torch.ones(1)]
        self.assert_none(model, "a torch.Tensor")

    def test_a_replaced_function_of_pytorch(self):
        def silu(x):
            return x

        silu.__module__ = "torch.nn.functional"
        with mock.patch.object(F, "silu", silu):
            model = Scaled()
            model.extra = F.silu
            self.assert_none(model, "another torch.nn.functional")

    def test_a_class_of_a_function(self):
        class Local(nn.Module):
            def forward(self, x):
                return x

        self.assert_none(Local(), "the class .*Local")

    def test_names_that_are_texts(self):
        def twice(self, x):
            return getattr(self, "lin" + "ear")(x)

        with mock.patch.object(Scaled, "twice", twice):
            self.assert_none(Scaled(), "getattr in")

    def test_imports(self):
        def twice(self, x):
            import math

            return x * math.pi

        with mock.patch.object(Scaled, "twice", twice):
            self.assert_none(Scaled(), "an import in")

    def test_autocast(self):
        with torch.autocast("cpu", torch.bfloat16):
            self.assertIsNone(stored_exports.key_of(Scaled(), []))


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "exports"
        patch = mock.patch.object(
            stored_exports, "folder", return_value=self.folder
        )
        patch.start()
        self.addCleanup(patch.stop)


DESCRIPTION = stored_exports.Description(
    "module {}",
    {"w": (torch.bfloat16, (4, 8))},
    {"v": "w"},
    (
        stored_exports.ResultType(((0, 0), 4), torch.float32),
        stored_exports.ResultType((2,), torch.bfloat16),
    ),
)


class Files(Folder):
    def test_a_function_comes_back(self):
        self.assertIsNone(stored_exports.load("a"))
        stored_exports.store("a", DESCRIPTION)
        self.assertEqual(stored_exports.load("a"), DESCRIPTION)
        self.assertEqual(os.listdir(self.folder), ["a.json"])

    def test_damaged_files(self):
        stored_exports.store("a", DESCRIPTION)
        path = self.folder / "a.json"
        whole = json.loads(path.read_text())
        changes = (
            {"format": "fuse-exports-0"},
            {"key": "b"},
            {"text": "module { }"},
            {"parameters": {"w": ["load", [4, 8]]}},
            {"parameters": {"w": 3}},
            {"aliases": []},
            {"results": [[[[0]], "float32"]]},
            {"results": [[[4], "nothing"]]},
            {"results": [4]},
        )
        for change in changes:
            path.write_text(json.dumps(whole | change))
            self.assertIsNone(stored_exports.load("a"), change)
        for text in ("", "[]", path.read_text()[:-9], "\0"):
            path.write_text(text)
            self.assertIsNone(stored_exports.load("a"), text)

    def test_the_oldest_files_go(self):
        with mock.patch.object(stored_exports, "MOST", 4):
            for i in range(5):
                stored_exports.store(f"k{i}", DESCRIPTION)
                path = self.folder / f"k{i}.json"
                if path.exists():
                    os.utime(path, (i, i))
        self.assertEqual(len(os.listdir(self.folder)), 2)
        self.assertIsNotNone(stored_exports.load("k4"))

    def test_a_folder_that_cannot_be_written(self):
        self.folder.parent.joinpath("exports").write_text("a file")
        stored_exports.store("a", DESCRIPTION)
        self.assertIsNone(stored_exports.load("a"))


@needs_library
class Models(Folder):
    """A second process exports nothing."""

    def fuse(self):
        chains._CACHE.clear()
        self.addCleanup(chains._CACHE.clear)
        model, x = net()
        with mock.patch.object(
            exports, "_export", wraps=exports._export
        ) as export:
            result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        self.assertEqual(len(result.fused), 2)
        return model(x), export.call_count

    def test_the_code_is_the_same(self):
        first, exported = self.fuse()
        self.assertGreater(exported, 0)
        second, exported = self.fuse()
        self.assertEqual(exported, 0)
        self.assertTrue(torch.equal(first, second))

    def test_a_file_about_other_tensors(self):
        self.fuse()
        for path in self.folder.iterdir():
            whole = json.loads(path.read_text())
            whole["parameters"] = {
                name: [dtype, [*shape, 1]]
                for name, (dtype, shape) in whole["parameters"].items()
            }
            path.write_text(json.dumps(whole))
        self.assertGreater(self.fuse()[1], 0)


if __name__ == "__main__":
    unittest.main()
