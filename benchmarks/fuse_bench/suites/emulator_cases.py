# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases for the emulator and a GPU, as test bundles.

They contain functions, random modules, and kernels with a mistake.

The emulator computes the expected results of a test bundle.
`fuse-device-run test` then counts the values whose bits differ on a GPU.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import tomllib
import torch

from ..common.data import TORCH_TYPES
from ..common.environment import PTX_FOLDER, ROOT
from ..common.plan import evaluate

TESTS = ROOT / "test/Emulator"
#: Kinds of sections, as in fuse-c/Runtime.h and fuse/Runtime/Bundle/Bundle.h.
MANIFEST, PTX = 1, 5
DESCRIPTION, ARTIFACT, POOL, EXPECTED, CONTRACT = range(64, 69)
BUNDLE_VERSION = 2
TOKENS = (1, 9, 33, 65, 129, 200)
PORTABLE_TOKENS = (1, 17)
POOL_VALUES = 1024
#: Strata of random modules, with the number of modules in each.
RANDOM = {"scheduled": 40, "mixed": 6}


def _load_damage() -> ModuleType:
    path = TESTS / "Inputs/damage.py"
    spec = importlib.util.spec_from_file_location("damage", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


#: Tool that reads and writes containers, and inserts mistakes into them.
damage = _load_damage()


@dataclass(frozen=True)
class Mistake:
    """A mistake in the PTX of a kernel."""

    name: str
    #: Number of tokens of the kernel.
    tokens: int
    pattern: str
    replacement: str
    #: Regular expression for the report of the emulator.
    report: str
    #: One-based index of the match to replace. None replaces all matches.
    number: int | None = None


def read_mistakes() -> list[Mistake]:
    """Reads the mistakes of the emulator's tests."""
    text = (TESTS / "Inputs/mistakes.toml").read_text()
    return [Mistake(**row) for row in tomllib.loads(text)["mistake"]]


# Test bundles.


class Bundle:
    """A test bundle: sections, and cases that refer to them."""

    def __init__(self, version: bytes) -> None:
        self.version = version
        self.sections: list[tuple[int, bytes]] = []
        self.cases: list[dict[str, Any]] = []

    @classmethod
    def load(cls, path: Path) -> Bundle:
        data = path.read_bytes()
        first, *sections = damage.read(data)
        bundle = cls(data[8:12])
        bundle.sections = sections
        bundle.cases = json.loads(first[1])["cases"]
        return bundle

    def add(self, kind: int, data: bytes) -> int:
        """Adds a section and returns its number; the description is first."""
        self.sections.append((kind, data))
        return len(self.sections)

    def save(self, path: Path) -> None:
        """Writes the file with only the sections that a case refers to."""
        used: dict[int, int] = {}

        def place(section: int) -> int:
            return used.setdefault(section, len(used) + 1)

        cases = [
            {
                **case,
                "artifact": place(case["artifact"]),
                "arguments": [
                    {**argument, "pool": place(argument["pool"])}
                    for argument in case["arguments"]
                ],
                "results": [
                    {
                        **result,
                        "expected": place(result["expected"]),
                        "contract": place(result["contract"]),
                    }
                    for result in case["results"]
                ],
            }
            for case in self.cases
        ]
        description = json.dumps(
            {
                "format": "fuse-test-bundle",
                "version": BUNDLE_VERSION,
                "cases": cases,
            }
        )
        path.write_bytes(
            damage.write(
                self.version,
                [
                    (DESCRIPTION, description.encode()),
                    *(self.sections[section - 1] for section in used),
                ],
            )
        )

    def add_function(
        self, artifact: int, function: dict[str, Any], path: str, tokens: int
    ) -> None:
        """Adds a case with random values. Its results are not known yet."""
        count = len(function["symbols"])
        symbols = [2] * (count - 1) + [tokens] if count else []
        shapes = [list(argument["shape"]) for argument in function["arguments"]]
        for value, symbol in zip(symbols, function["symbols"]):
            for argument, dim in symbol["places"]:
                shapes[argument][dim] = value
        packed = {
            operand
            for weight in function["cuda"].get("packed", ())
            for operand in weight["operands"]
        }
        arguments = [
            {
                "element": argument["type"],
                "shape": shape,
                "seed": index,
                "pool": self.add(POOL, draw(argument["type"], shape, index)),
                "bound": "parameter" in argument or index in packed,
            }
            for index, (argument, shape) in enumerate(
                zip(function["arguments"], shapes)
            )
        ]
        results = []
        for result in function["results"]:
            values = 1
            for size in result["sizes"]:
                values *= evaluate(size, symbols)
            # A lower bound above the upper bound allows any value.
            anything = _infinities(values)
            results.append(
                {
                    "expected": self.add(
                        EXPECTED, bytes(values * element_bytes(result["type"]))
                    ),
                    "contract": self.add(CONTRACT, anything),
                    "energy": 1.0,
                    "element": 1.0,
                }
            )
        self.cases.append(
            {
                "name": f"{function['name']}#{tokens}",
                "path": path,
                "function": function["name"],
                "artifact": artifact,
                "arguments": arguments,
                "results": results,
            }
        )


def _infinities(values: int) -> bytes:
    import numpy as np

    return np.tile(np.array([np.inf, -np.inf]), values).tobytes()


def element_bytes(element: str) -> int:
    return TORCH_TYPES[element].itemsize


def narrowest(case: dict[str, Any]) -> str:
    """Returns the narrowest type of a case's operands.

    This ignores labels, which have a wide type.
    """
    return min(
        (argument["element"] for argument in case["arguments"]),
        key=element_bytes,
    )


def draw(element: str, shape: Sequence[int], seed: int) -> bytes:
    """Draws the values of a tensor.

    Weights preserve the magnitude of their input. 8-bit values cover their
    whole range. Channel scales compensate for that range.
    """
    values = torch.randn(
        POOL_VALUES, generator=torch.Generator().manual_seed(seed)
    )
    if element_bytes(element) == 1:
        values = (values * 60).clamp(-127, 127)
    elif len(shape) == 1 and element == "f32":
        values = 1e-3 * (1 + 0.1 * values)
    elif len(shape) == 1:
        values = 1 + 0.1 * values
    elif seed:
        values = values / shape[-1] ** 0.5
    return values.to(TORCH_TYPES[element]).view(torch.uint8).numpy().tobytes()


# Compiler and emulator output.


@dataclass(frozen=True)
class Tools:
    """The programs of a build."""

    folder: Path

    def run(
        self, name: str, *arguments: object, expect: Iterable[int] = (0,)
    ) -> str:
        """Runs a program and returns its output.

        Raises:
            RuntimeError: the exit status is not the expected one.
        """
        done = subprocess.run(
            [self.folder / name, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in expect:
            raise RuntimeError(f"{name}: {done.stdout}{done.stderr}")
        return done.stdout

    def compile(self, source: Path, target: Path, *options: str) -> None:
        self.run(
            "fuse-compile",
            source,
            "--chip=sm_90a",
            "--cpu=none",
            "--assemble=never",
            f"--tokens={max(TOKENS)}",
            *options,
            "-o",
            target,
        )

    def record(self, bundle: Bundle, target: Path) -> None:
        """Writes a test bundle with expected results from the emulator."""
        bundle.save(target)
        results = target.with_suffix(".results")
        self.run(
            "fuse-device-run",
            "test",
            target,
            "--emulate",
            f"--results={results}",
            "-o",
            target.with_suffix(".json"),
        )
        for index, case in enumerate(bundle.cases):
            for number, result in enumerate(case["results"]):
                result["expected"] = bundle.add(
                    EXPECTED, (results / f"{index}-{number}.bin").read_bytes()
                )
        bundle.save(target)
        shutil.rmtree(results)
        target.with_suffix(".json").unlink()


def make_bundle(artifact: Path, tokens: Sequence[int]) -> Bundle:
    """Makes cases for all functions of an artifact that have GPU code."""
    data = artifact.read_bytes()
    bundle = Bundle(data[8:12])
    section = bundle.add(ARTIFACT, data)
    for function in json.loads(next(damage.read(data))[1])["functions"]:
        if "cuda" not in function:
            continue
        # A function without dynamic sizes has only one case.
        for count in tokens if function["symbols"] else [0]:
            bundle.add_function(
                section, function, function["cuda"]["path"], count
            )
    return bundle


def replace_artifact(bundle: Bundle, data: bytes) -> Bundle:
    """Returns the cases of a bundle with a different artifact."""
    other = Bundle(bundle.version)
    other.sections = list(bundle.sections)
    section = other.add(ARTIFACT, data)
    other.cases = [{**case, "artifact": section} for case in bundle.cases]
    return other


def assemble(artifact: Path) -> list[str]:
    """Returns the distinct messages of the assembler for an artifact's PTX.

    The result is empty if there is no assembler.
    """
    if not shutil.which("ptxas"):
        return []
    found: dict[str, None] = {}
    for kind, content in damage.read(artifact.read_bytes()):
        if kind != PTX:
            continue
        path = artifact.with_suffix(".ptx")
        path.write_bytes(content)
        done = subprocess.run(
            ["ptxas", "-arch=sm_90a", path, "-o", "/dev/null"],
            capture_output=True,
            text=True,
            check=True,
        )
        path.unlink()
        text = re.sub(r"in around line \d+ ", "", done.stdout + done.stderr)
        found |= dict.fromkeys(re.findall(r"\(C\d+\) .*$", text, re.M))
    return list(found)


#: Names and trailing operands of the instructions in product.ptx.
PRODUCTS = {
    "bf16": ("m64n8k16.f32.bf16.bf16", ", 0, 0"),
    "f16": ("m64n8k16.f32.f16.f16", ", 0, 0"),
    "f8E4M3FN": ("m64n8k32.f32.e4m3.e4m3", ""),
    "f8E5M2": ("m64n8k32.f32.e5m2.e5m2", ""),
}
#: Numbers of steps in a product: one, and enough to reveal rounding.
STEPS = (1, 2, 16)
#: Exponent of the smallest normal value of each type.
LEAST = {"bf16": -126, "f16": -14, "f8E4M3FN": -6, "f8E5M2": -14}
#: Kinds of operand values in a product. See `draw_product`.
KINDS = ("normal", "spread", "sparse", "small", "special")


def draw_product(element: str, kind: str, seed: int) -> bytes:
    """Draws values that reveal how a sum is rounded.

    Their exponents differ, and zeros occur next to large values. Some operands
    or products are denormal. Other kinds overflow f32, or have infinities and
    NaN.
    """
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(POOL_VALUES, generator=generator)
    if kind in ("spread", "sparse"):
        values *= torch.exp2(
            torch.randint(-8, 1, (POOL_VALUES,), generator=generator)
        )
    if kind == "sparse":
        values[::2] = 0
    if kind == "small":
        values *= 2.0 ** max(LEAST[element], -68)
    if kind == "large":
        values *= 2.0**61
    if kind == "special":
        values[:3] = torch.tensor([torch.inf, -torch.inf, torch.nan])
    return values.to(TORCH_TYPES[element]).view(torch.uint8).numpy().tobytes()


def make_products(element: str, version: bytes) -> Bundle:
    """Makes cases of unmodified tensor-core sums of products."""
    name, more = PRODUCTS[element]
    text = (
        (PTX_FOLDER / "product.ptx")
        .read_text()
        .replace(
            "PRODUCT;",
            f"wgmma.mma_async.sync.aligned.{name} {{%d0, %d1, %d2, "
            f"%d3}}, %da, %db, p, 1, 1{more};",
        )
    )
    functions: list[dict[str, Any]] = []
    for steps in STEPS:
        width = 32 * steps // element_bytes(element)
        functions.append(
            {
                "name": f"product_{element}_{width}",
                "symbols": [],
                "arguments": [
                    {"shape": [64, width], "type": element},
                    {"shape": [8, width], "type": element},
                ],
                "results": [
                    {"shape": [64, 8], "sizes": [64, 8], "type": "f32"}
                ],
                "cuda": {
                    "chip": "sm_90a",
                    "path": "portable",
                    "symbols": [],
                    "workspace": [],
                    "modules": [
                        {"ptx": 1, "ptx_minimum": 80, "ptx_version": 80}
                    ],
                    "launches": [
                        {
                            "args": [
                                {"tensor": 0},
                                {"tensor": 1},
                                {"tensor": 2},
                                {"size": steps},
                            ],
                            "block": [128, 1, 1],
                            "grid": [1, 1, 1],
                            "kernel": "product",
                            "module": 0,
                        }
                    ],
                },
            }
        )
    bundle = Bundle(version)
    section = bundle.add(
        ARTIFACT,
        damage.write(
            version,
            [
                (
                    MANIFEST,
                    json.dumps(
                        {"producer": "product.ptx", "functions": functions}
                    ).encode(),
                ),
                (PTX, text.encode()),
            ],
        ),
    )
    for function in functions:
        # Products of the other types cannot overflow f32.
        for kind in (*KINDS, *(["large"] if element == "bf16" else [])):
            bundle.add_function(section, function, "product", 0)
            case = bundle.cases[-1]
            case["name"] += f" {kind}"
            for index, argument in enumerate(case["arguments"]):
                argument["pool"] = bundle.add(
                    POOL, draw_product(element, kind, 17 + index)
                )
    return bundle


def prepare_right(tools: Tools, folder: Path, counts: dict[str, int]) -> None:
    """Writes test bundles of correct kernels to `folder`."""
    folder.mkdir(parents=True)
    artifact = folder / "code.fuse"
    for source, tokens, options in (
        (TESTS / "scheduled.mlir", TOKENS, ()),
        (
            ROOT / "test/Target/ptx-families.mlir",
            PORTABLE_TOKENS,
            ("--portable",),
        ),
    ):
        tools.compile(source, artifact, *options)
        tools.record(
            make_bundle(artifact, tokens), folder / f"{source.stem}.bundle"
        )
    version = artifact.read_bytes()[8:12]
    for element in PRODUCTS:
        tools.record(
            make_products(element, version),
            folder / f"product-{element}.bundle",
        )
    artifact.unlink()
    for stratum, count in counts.items():
        drawn = folder / "drawn"
        tools.run(
            "fuse-fuzz",
            f"--emit={drawn}",
            f"--count={count}",
            f"--stratum={stratum}",
        )
        for path in sorted(drawn.iterdir()):
            tools.record(Bundle.load(path), folder / f"random-{path.name}")
        shutil.rmtree(drawn)


def prepare_broken(
    tools: Tools, folder: Path, mistakes: Sequence[Mistake]
) -> list[dict[str, Any]]:
    """Writes test bundles of kernels with and without a mistake."""
    folder.mkdir(parents=True)
    text = (TESTS / "Inputs/gated.mlir").read_text()
    rows: list[dict[str, Any]] = []
    right: dict[int, Path] = {}
    source, artifact = folder / "source.mlir", folder / "broken.fuse"
    for number, mistake in enumerate(mistakes):
        tokens = mistake.tokens
        if tokens not in right:
            right[tokens] = folder / f"right-{len(right)}.bundle"
            source.write_text(text.replace("9x512", f"{tokens}x512"))
            code = right[tokens].with_suffix(".fuse")
            tools.compile(source, code)
            tools.record(make_bundle(code, TOKENS), right[tokens])
        path = right[tokens]
        damage.main(
            path.with_suffix(".fuse"),
            artifact,
            mistake.pattern,
            mistake.replacement,
            mistake.number,
        )
        bundle = folder / f"broken-{number}.bundle"
        replace_artifact(Bundle.load(path), artifact.read_bytes()).save(bundle)
        outcomes = folder / "outcomes.json"
        tools.run(
            "fuse-device-run",
            "test",
            bundle,
            "--emulate",
            "-o",
            outcomes,
            expect=(0, 1),
        )
        (case,) = json.loads(outcomes.read_text())["cases"]
        rows.append(
            {
                "mistake": mistake.name,
                "bundle": bundle.name,
                "right": path.name,
                "emulator": case["status"],
                "says": case.get("detail", ""),
                "ptxas": assemble(artifact),
            }
        )
        outcomes.unlink()
    source.unlink()
    for path in folder.glob("*.fuse"):
        path.unlink()
    return rows


def write_index(
    folder: Path, tokens: Sequence[int], rows: Sequence[dict[str, Any]]
) -> None:
    """Describes the contents of the folder."""
    right = {
        path.name: [narrowest(case) for case in Bundle.load(path).cases]
        for path in sorted(folder.glob("right/*.bundle"))
    }
    (folder / "index.json").write_text(
        json.dumps({"tokens": tokens, "right": right, "broken": rows}, indent=1)
        + "\n"
    )


def prepare(tools: Tools, folder: Path, counts: dict[str, int]) -> None:
    """Writes everything that the GPU steps need to a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    prepare_right(tools, folder / "right", counts)
    shutil.copy(TESTS / "scheduled.mlir", folder)
    write_index(
        folder,
        TOKENS,
        prepare_broken(tools, folder / "broken", read_mistakes()),
    )
