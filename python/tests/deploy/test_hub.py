# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernel directories of Hugging Face, written and read again.

The package `kernels` reads them where it is installed. What it does without a
GPU, choosing a variant and checking layers, is done for the variant of CUDA.
"""

import ast
import base64
import hashlib
import importlib.util
import itertools
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
from torch import nn

import fuse_mlir
from fuse_mlir.deploy.hub_template import _driver, _packing
from tests.models import CHAIN, MLP, Block, Net, needs_library, net

torch.set_num_threads(1)

HAS_KERNELS = importlib.util.find_spec("kernels") is not None


class Model(nn.Module):
    """One site of one module."""

    def __init__(self):
        super().__init__()
        self.mlp = MLP(8, 16)

    def forward(self, x):
        return self.mlp(x)


def load(variant):
    """The package of a variant, as `kernels` imports it."""
    name = json.loads((variant / "metadata.json").read_text())["id"]
    spec = importlib.util.spec_from_file_location(name, variant / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Packing(unittest.TestCase):
    def test_unknown_recipe(self):
        # Where rows lie is in benchmarks/tests/test_packing.py: the file is one.
        with self.assertRaisesRegex(RuntimeError, "recipe 'rows' is unknown"):
            _packing.pack("rows", [torch.zeros(1, 1)])


@needs_library
class Directories(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def chain(self, **options):
        """The directory of a norm and an MLP."""
        model, x = net()
        fuse_mlir.fuse_modules(model, {CHAIN: "fuse"}, inputs=x)
        options = {"name": "my-mlp", **options}
        return fuse_mlir.export_hub_kernel(model, self.directory, **options)

    def scheduled(self):
        """The same where there are scheduled kernels."""
        model = Net(1, lambda: Block(64, 128)).bfloat16().eval()
        fuse_mlir.fuse_modules(
            model, {CHAIN: "fuse"}, inputs=torch.randn(3, 64).bfloat16()
        )
        return fuse_mlir.export_hub_kernel(model, self.directory, name="my-mlp")

    def single(self, **options):
        """The directory of an MLP alone."""
        model = Model().eval().requires_grad_(False)
        fuse_mlir.fuse_modules(
            model, {(("MLP", "mlp"),): "fuse"}, inputs=torch.randn(3, 8)
        )
        return fuse_mlir.export_hub_kernel(
            model, self.directory, name="my-mlp", **options
        )

    def test_metadata(self):
        variant = self.chain(version=3)
        self.assertEqual(variant, self.directory / "build/torch-cuda")
        found = json.loads((variant / "metadata.json").read_text())
        self.assertRegex(found["id"], r"^_my_mlp_cuda_[0-9a-f]{7}$")
        self.assertEqual(
            (found["name"], found["version"], found["backend"]),
            ("my-mlp", 3, {"type": "cuda", "archs": ["8.0+PTX"]}),
        )
        # Features in f32 have no scheduled kernels.
        self.assertEqual(
            {p.name for p in variant.glob("*.ptx")}, {"sm_80-0.ptx"}
        )
        names = {p.name for p in variant.iterdir()} - {"metadata.json"}
        self.assertEqual(set(found["digest"]["files"]), names)
        for name, digest in found["digest"]["files"].items():
            data = hashlib.sha256((variant / name).read_bytes()).digest()
            self.assertEqual(digest, base64.b64encode(data).decode())

    def test_imports_nothing_but_pytorch_and_itself(self):
        for path in self.chain().glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module]
                elif isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                else:
                    continue
                for name in names:
                    # That one is tried, and does without.
                    if name == "transformers.core_model_loading":
                        continue
                    root = name.partition(".")[0]
                    self.assertTrue(
                        root == "torch" or root in sys.stdlib_module_names, name
                    )

    def test_layer_of_a_chain_has_a_layout(self):
        layers = load(self.chain()).layers
        block = Block().requires_grad_(False)
        layout = layers.MyMlpLayout(block.norm, block.mlp)
        self.assertEqual(
            [n for n, _ in layout.named_parameters()],
            [n for n, _ in block.named_parameters()],
        )
        # What transformers renames when it loads a checkpoint.
        found = layers.MyMlpLayout.conversion_mapping
        self.assertEqual(
            [(r.source_patterns, r.target_patterns) for r in found][:2],
            [
                ([r"\.norm\.weight"], [".norm.norm.weight"]),
                ([r"\.mlp\.gate\.weight"], [".norm.mlp.gate.weight"]),
            ],
        )
        with mock.patch.dict(
            sys.modules, {"transformers.core_model_loading": None}
        ):
            self.assertFalse(hasattr(layers.MyMlpLayout, "conversion_mapping"))
        with self.assertRaisesRegex(
            RuntimeError, "is PTX and runs on CUDA; an input is on cpu"
        ):
            layers.MyMlp.forward(layout, torch.randn(3, 8))
        # Compiled without a graph break, it says the same when it runs.
        compiled = torch.compile(
            lambda x: layers.MyMlp.forward(layout, x),
            fullgraph=True,
            backend="aot_eager",
        )
        with self.assertRaisesRegex(RuntimeError, "is PTX and runs on CUDA"):
            compiled(torch.randn(3, 8))

    def test_layer_of_one_module_has_its_interface(self):
        layers = load(self.single(layer="Fast")).layers
        self.assertFalse(hasattr(layers, "FastLayout"))
        mlp = MLP(8, 16).requires_grad_(False)
        # A run without data gives the shape.
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            for shape in ((3, 8), (2, 3, 8)):
                x = mode.from_tensor(torch.randn(shape))
                self.assertEqual(layers.Fast.forward(mlp, x).shape, shape)
        mlp.requires_grad_(True)
        with self.assertRaisesRegex(RuntimeError, "no backward pass"):
            layers.Fast.forward(mlp, torch.randn(3, 8))

    def test_refusals(self):
        for options, text in (
            ({"name": "My_MLP"}, "'My_MLP' is not a name of a kernel"),
            ({"chip": "sm_90a"}, "chip 'sm_90a' is none that later ones"),
            ({"scheduled": ["sm_90"]}, "chip 'sm_90' has no scheduled"),
            ({"site": "norm+mlp#7"}, "no fused site 'norm\\+mlp#7'"),
        ):
            with self.assertRaisesRegex(fuse_mlir.FuseError, text):
                self.chain(**options)
        self.assertFalse((self.directory / "build").exists())
        self.chain()
        with self.assertRaisesRegex(
            fuse_mlir.FuseError, "exists; expected a new directory"
        ):
            self.chain()

    def test_scheduled_kernels(self):
        variant = self.scheduled()
        found = json.loads((variant / "metadata.json").read_text())
        self.assertEqual(found["backend"]["archs"], ["8.0+PTX", "9.0a"])
        self.assertTrue((variant / "sm_90a-0.ptx").read_text().startswith("//"))
        host = load(variant).layers.call.__globals__
        choose = host["_choose"]
        for gpu, count, chip in (
            ((9, 0), 132, "sm_90a"),
            ((9, 0), 2, "sm_80"),
            ((8, 6), 84, "sm_80"),
            ((10, 0), 148, "sm_80"),
        ):
            code = choose(gpu, count)
            self.assertEqual(code["chip"], chip)
            for launch in itertools.chain.from_iterable(
                p["launches"] for p in code["plans"]
            ):
                ptx = variant / code["ptx"][launch.get("module", 0)]
                self.assertIn(f".entry {launch['kernel']}(", ptx.read_text())
        with self.assertRaisesRegex(
            RuntimeError,
            "this kernel is for sm_90a, sm_80 and later; the GPU is sm_75",
        ):
            choose((7, 5), 40)

    def test_rows_pick_launches(self):
        host = load(self.scheduled()).layers.call.__globals__
        plan = host["_choose"]((9, 0), 132)
        ends = [p["upto"] for p in plan["plans"]]
        self.assertEqual(ends[-1], plan["max_tokens"])
        gpu = mock.Mock(major=9, minor=0, multi_processor_count=132)
        driver = mock.Mock()
        driver.load.side_effect = lambda ptx: ptx[:1]
        driver.function.side_effect = lambda _, launch: launch["kernel"]
        block = Block(64, 128).bfloat16()
        weights = list(block.parameters())
        with (
            mock.patch.dict(host, {"_driver": driver}),
            mock.patch.multiple(
                torch.cuda,
                current_stream=mock.DEFAULT,
                get_device_properties=lambda _: gpu,
                is_current_stream_capturing=mock.DEFAULT,
            ) as cuda,
        ):
            capturing = cuda["is_current_stream_capturing"]
            capturing.return_value = False
            for rows in (1, ends[0], ends[0] + 1, ends[-1]):
                x = torch.randn(rows, 64).bfloat16()
                driver.launch.reset_mock()
                host["_launch_all"]([x, *weights], torch.empty_like(x))
                wanted = next(p for p in plan["plans"] if rows <= p["upto"])
                self.assertEqual(
                    [c.args[0] for c in driver.launch.call_args_list],
                    [p["kernel"] for p in wanted["launches"]],
                )
                # Only what follows a launch of its own overlaps one.
                self.assertFalse(
                    driver.launch.call_args_list[0].kwargs["overlaps"]
                )
            odd = torch.randn(64 * 128 + 1).bfloat16()[1:].view(128, 64)
            with self.assertRaisesRegex(
                RuntimeError,
                "parameter 'mlp.gate.weight' is misaligned by 2 bytes; "
                "expected an address that is a multiple of 16",
            ):
                host["_launch_all"](
                    [x, weights[0], odd, *weights[2:]], torch.empty_like(x)
                )
            # Packed weights are kept, and made again when weights change.
            code = host["_Code"].on(x.device)
            held = [code.packed([x, *weights]) for _ in range(2)]
            self.assertIs(held[0], held[1])
            with torch.no_grad():
                weights[-1].mul_(2)
            capturing.return_value = True
            with self.assertRaisesRegex(
                RuntimeError,
                "the weights are not "
                "packed yet, and cannot be while a "
                "graph is captured",
            ):
                code.packed([x, *weights])
            capturing.return_value = False
            self.assertFalse(
                torch.equal(code.packed([x, *weights])[-1], held[0][-1])
            )

    def test_carveouts_reach_the_driver(self):
        launch = {"kernel": "norm", "shared_bytes": 64}
        for value, wanted in ((None, []), (0, [(9, 0)]), (100, [(9, 100)])):
            library = mock.Mock()
            library.cuModuleGetFunction.return_value = 0
            library.cuFuncSetAttribute.return_value = 0
            with mock.patch.object(_driver, "_driver", lambda: library):
                _driver.function(
                    None,
                    launch if value is None else {**launch, "carveout": value},
                )
            self.assertEqual(
                [
                    call.args[1:]
                    for call in library.cuFuncSetAttribute.call_args_list
                ],
                [(8, 64), *wanted],
            )
        with self.assertRaisesRegex(
            RuntimeError,
            "'norm' has a carveout of -1: expected 0 to 100 per cent",
        ):
            _driver.function(None, {**launch, "carveout": -1})

    def test_weights_that_modules_do_not_have(self):
        model = Net(1, lambda: Block(16, 32)).eval().requires_grad_(False)
        fuse_mlir.calibrate(model, [torch.randn(4, 16) for _ in range(2)])
        with self.assertRaisesRegex(
            fuse_mlir.FuseError,
            "site 'norm\\+mlp#0' reads copies of its "
            "weights in 8 bits, which its members do not have",
        ):
            fuse_mlir.export_hub_kernel(model, self.directory, name="my-mlp")

    def test_two_versions_in_one_process(self):
        first = self.chain()
        self.directory = self.directory / "other"
        second = self.single()
        self.assertNotEqual(load(first).__name__, load(second).__name__)

    @unittest.skipUnless(HAS_KERNELS, "the package 'kernels' is not installed")
    def test_loaded_by_kernels(self):
        import kernels
        from kernels._rust import Digest, DigestAlgorithm, Metadata
        from kernels.backends import CUDA
        from packaging.version import Version

        variant = self.single(layer="Fast")
        found = Metadata.read_from_file(variant / "metadata.json")
        found.digest.validate(
            Digest.hash_variant(DigestAlgorithm.SHA256, variant)
        )
        repository = kernels.LocalLayerRepository(
            repo_path=self.directory, layer_name="Fast"
        )

        @kernels.use_kernel_forward_from_hub("Fast")
        class Layer(MLP):
            pass

        model = nn.Sequential(Layer(8, 16)).requires_grad_(False)
        backend = CUDA(version=Version("13.0"))
        with (
            mock.patch("kernels.variants._select_backend", lambda _: backend),
            kernels.use_kernel_mapping({"Fast": {"cpu": repository}}),
        ):
            kernels.kernelize(
                model,
                device="cpu",
                use_fallback=False,
                mode=kernels.Mode.INFERENCE,
            )
        # The layer is in place; it says where it runs.
        with self.assertRaisesRegex(RuntimeError, "is PTX and runs on CUDA"):
            model(torch.randn(3, 8))


if __name__ == "__main__":
    unittest.main()
