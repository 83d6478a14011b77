# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of fused sites as kernel directories of Hugging Face.

A directory has the variant `torch-cuda`, which is for any Python and PyTorch:
PTX for several chips, its launches, and layers in Python.
`kernels.LocalLayerRepository` loads it, and a repository of the Hub that it is
uploaded to serves it.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from fuse_mlir import native
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.deploy.hub_template import _driver, _host
from fuse_mlir.errors import FuseError
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.modules import one_kernel
from fuse_mlir.support.arguments import require

VARIANT = "torch-cuda"
#: How names of kernels of the Hub look.
_NAME = re.compile(r"[a-z][-a-z0-9]*[a-z0-9]")
_CHIP = re.compile(r"sm_(\d+)(\d)a?")
_LICENSE = "Apache-2.0 WITH LLVM-exception"
_INIT = '''"""{title}"""

from . import layers

__all__ = ["layers"]
'''
_LAYERS = '''"""{title}"""

from torch import nn

from ._host import call, define

# Compilers trace forwards, which must not read files.
_OPERATOR, _PARAMETERS, _LIBRARY = define()


class {layer}(nn.Module):
    """{title}"""

    can_torch_compile = True
    has_backward = False

    def forward{signature}:
        return call(self, [{inputs}], _OPERATOR, _PARAMETERS)
'''
_LAYOUT = '''

class _Names:
    """Where transformers finds parameters of a checkpoint."""

    def __get__(self, layout, kind):
        try:
            from transformers.core_model_loading import WeightRenaming
        except ImportError as error:
            raise AttributeError(str(error)) from error
        return [WeightRenaming(f".{{name}}".replace(".", r"\\."),
                               f".{first}.{{name}}")
                for name in dict.fromkeys(
                    name.partition("[")[0] for name in _PARAMETERS)]


class {layer}Layout(nn.Module):
    """Holds the modules that {layer} takes the place of."""

    conversion_mapping = _Names()

    def __init__(self, {names}):
        super().__init__()
{lines}
'''


def check_name(name: str) -> None:
    """Whether a kernel directory can be called so.

    Raises:
        FuseError: it cannot.
    """
    require(name, str, "the name of a kernel", "one such as 'my-mlp'")
    if not _NAME.fullmatch(name):
        raise FuseError(
            f"'{name}' is not a name of a kernel; expected one such as 'my-mlp'"
        )


def export_hub_kernel(
    model: nn.Module,
    directory: str | Path,
    site: str | None = None,
    *,
    name: str,
    layer: str | None = None,
    version: int = 1,
    license: str = _LICENSE,  # pylint: disable=W0622
    chip: str = "sm_80",
    scheduled: Sequence[str] = ("sm_90a",),
) -> Path:
    """Writes the kernel of a fused site as a kernel directory.

    It has the scheduled kernels for all numbers of rows, where there are any,
    and the portable kernel for other GPUs from `chip` on. A site of one module
    becomes a layer that takes the place of that module's forward. One of
    several comes with a layout, a module made of them, whose forward the layer
    is.

    Args:
        model: with a fused site, on any device.
        directory: of the repository, which must have no such variant yet.
        site: its id; needed when the kernels of the sites differ.
        name: of the kernel, such as `my-mlp`.
        layer: of the class, `MyMlp` for that name when left out.
        version: of the kernel, 1 or more.
        license: of the kernel, as its metadata say it.
        chip: the oldest one that it runs on, such as `sm_80`.
        scheduled: chips whose scheduled kernels it has.

    Returns:
        The directory of the variant.

    Raises:
        FuseError: no such site, kernels that differ, a name of another form,
            a chip that none or all later ones run code of, where the other
            kind is expected, a variant that exists, or weights that the
            members do not have, as those of `calibrate`.
        NativeError: there is no code for the chip.
    """
    check_name(name)
    layer = layer or "".join(part.title() for part in name.split("-"))
    require(chip, str, "the chip", "the name of one, such as sm_80")
    require(scheduled, (list, tuple), "argument 'scheduled'", "a list of chips")
    if not _CHIP.fullmatch(chip) or chip.endswith("a"):
        raise FuseError(
            f"chip '{chip}' is none that later ones run code of; "
            "expected sm_ and a number, such as sm_80"
        )
    for own in scheduled:
        require(own, str, "a scheduled chip", "the name of one, such as sm_90a")
        if not _CHIP.fullmatch(own) or not own.endswith("a"):
            raise FuseError(
                f"chip '{own}' has no scheduled kernels; expected "
                "one with instructions of its own, such as sm_90a"
            )
    variant = Path(directory) / "build" / VARIANT
    if variant.exists():
        raise FuseError(f"'{variant}' exists; expected a new directory")
    module = one_kernel(model, site)
    if any(
        name == "weight" and values
        for _, name, values in module._kernel._copies.watched
    ):
        raise FuseError(
            f"site '{module.site}' reads copies of its weights in 8 bits, "
            "which its members do not have, and a kernel directory takes the "
            "parameters of modules; export a model whose linears hold them"
        )
    title = (
        f"{' + '.join(module.names)} as one kernel"
        if len(module.names) > 1
        else f"{module.names[0]} as a kernel"
    )
    files = _code(module, [*scheduled, chip])
    files["__init__.py"] = _INIT.format(title=f"{title}.").encode()
    files["layers.py"] = _layers(module, layer, f"{title}.").encode()
    for path in Path(_host.__file__).parent.glob("_[a-z]*.py"):
        files[path.name] = path.read_bytes()
    metadata = _metadata(name, version, license, files)
    files["metadata.json"] = (json.dumps(metadata, indent=2) + "\n").encode()
    variant.parent.mkdir(parents=True, exist_ok=True)
    # Others see the variant whole or not at all.
    with tempfile.TemporaryDirectory(dir=variant.parent) as made:
        for file, data in files.items():
            (Path(made) / file).write_bytes(data)
        shutil.copytree(made, variant)
    return variant


def _arch(chip: str) -> str:
    """A chip as metadata name it."""
    number = chip.removeprefix("sm_").removesuffix("a")
    return f"{number[:-1]}.{number[-1]}" + (
        "a" if chip.endswith("a") else "+PTX"
    )


def _code(module: FusedModule, chips: Sequence[str]) -> dict[str, bytes]:
    """PTX, and the plan of its launches on each chip."""
    kernel: Kernel = module._kernel
    compiled = kernel.compiled
    rows = compiled.by_rows
    code = compiled.for_rows(kernel.chain) if rows else compiled
    files: dict[str, bytes] = {}
    codes, function = [], {}
    for chip in chips:
        # Code for one architecture alone is worth it for its schedules.
        own = chip.endswith("a")
        artifact = native.Module(code.formed).compile(
            chip=chip, portable=not own
        )
        manifest = json.loads(artifact.sections(native.SECTION_MANIFEST)[0])
        function = manifest["functions"][0]
        if own and function["cuda"]["path"] != "scheduled":
            continue
        _check_plan(function["cuda"])
        codes.append(_plan_of(chip, function["cuda"]))
        ptx = artifact.sections(native.SECTION_PTX)
        codes[-1]["ptx"] = [f"{chip}-{j}.ptx" for j in codes[-1]["ptx"]]
        files |= {f"{chip}-{j}.ptx": text for j, text in enumerate(ptx)}
    # One member's own layer has its parameters, not those of its parent.
    prefix = f"{module.names[0]}." if len(module.names) == 1 else ""
    names = [
        argument["parameter"].removeprefix(prefix)
        for argument in function["arguments"]
        if "parameter" in argument
    ]
    dtype = next(
        text for text, known in _host._TYPES.items() if known == compiled.dtype
    )
    plan = {
        "arguments": function["arguments"],
        "codes": codes,
        "parameters": names,
        "rows": rows,
        "result": {"shape": compiled.result, "type": dtype},
    }
    return {**files, "plan.json": (json.dumps(plan, indent=1) + "\n").encode()}


def _metadata(
    name: str,
    version: int,
    license: str,  # pylint: disable=W0622
    files: dict[str, bytes],
) -> dict[str, Any]:
    """What libraries of kernels read before they load one. The id has a digest
    of all files, so that kernels that differ have different ones."""
    contents = sorted(files.items())
    mark = hashlib.sha256(
        b"".join(path.encode() + data for path, data in contents)
    )
    return {
        "id": f"_{name.replace('-', '_')}_cuda_{mark.hexdigest()[:7]}",
        "name": name,
        "version": version,
        "license": license,
        "python-depends": [],
        "backend": {
            "type": "cuda",
            "archs": [
                _arch(code["chip"])
                for code in reversed(json.loads(files["plan.json"])["codes"])
            ],
        },
        "digest": {
            "algorithm": "sha256",
            "files": {
                path: base64.b64encode(hashlib.sha256(data).digest()).decode()
                for path, data in contents
            },
        },
    }


def _plan_of(chip: str, cuda: dict[str, Any]) -> dict[str, Any]:
    """The code for a chip, as the launcher reads it."""
    sections = sorted(module["ptx"] for module in cuda["modules"])
    plans = [
        {
            "upto": plan.get("upto", 0),
            "workspace": plan["workspace"],
            "launches": plan["launches"],
        }
        for plan in cuda.get("alternatives", [cuda])
    ]
    return {
        "chip": chip,
        "symbols": cuda["symbols"],
        "plans": plans,
        "max_tokens": cuda.get("max_tokens", 0),
        "zeroed_bytes": cuda.get("zeroed_bytes", 0),
        "packed": cuda.get("packed", []),
        "ptx": [sections.index(m["ptx"]) for m in cuda["modules"]],
    }


def _check_plan(cuda: dict[str, Any]) -> None:
    """What the launcher of such directories does not do."""
    known = {
        "tensor",
        "workspace",
        "offset",
        "size",
        "bytes",
        "type",
        "value",
        "packed",
        "map",
    }
    for plan in cuda.get("alternatives", [cuda]):
        for launch in plan["launches"]:
            for argument in launch["args"]:
                form = argument.get("map", {"element": "bf16", "swizzle": 0})
                if (
                    set(argument) - known
                    or argument.get("type", "f32") not in _host._NUMBERS
                    or form["element"] not in _driver.MAP_TYPES
                    or form["swizzle"] not in _driver.MAP_SWIZZLES
                ):
                    raise FuseError(
                        f"kernel '{launch['kernel']}' is launched in a way "
                        "that kernel directories have not"
                    )


def _layers(module: FusedModule, layer: str, title: str) -> str:
    """Python text of the layer, and of its layout."""
    kind = type(module.members[0])
    signature = inspect.signature(kind.forward)
    plain = [
        p.replace(
            annotation=p.empty,
            default=p.default
            if isinstance(p.default, (int, float, str, type(None)))
            else p.empty,
        )
        for p in signature.parameters.values()
    ]
    positional = [
        p.name
        for p in plain[1:]
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    inputs = [
        positional[s] if isinstance(s, int) else s for s in module.plan.inputs
    ]
    head = str(
        signature.replace(parameters=plain, return_annotation=signature.empty)
    )
    text = _LAYERS.format(
        title=title, layer=layer, signature=head, inputs=", ".join(inputs)
    )
    if len(module.names) > 1:
        bad = [n for n in module.names if not n.isidentifier()]
        if bad:
            raise FuseError(
                f"member '{bad[0]}' has no name that a layout can have"
            )
        text += _LAYOUT.format(
            layer=layer,
            names=", ".join(module.names),
            first=module.names[0],
            lines="\n".join(f"        self.{n} = {n}" for n in module.names),
        )
    return text
