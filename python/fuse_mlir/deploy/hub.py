# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports kernels of fused sites as kernel directories of Hugging Face.

A directory has the variant `torch-cuda`, which supports any version of Python
and PyTorch. It has PTX for several chips, launch plans, and layers in Python.
`kernels.LocalLayerRepository` loads it. It can be uploaded to the Hub.
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
from fuse_mlir.deploy.hub_template import _driver, _host
from fuse_mlir.errors import FuseError
from fuse_mlir.fusion.fused_module import FusedModule
from fuse_mlir.fusion.places import one_kernel
from fuse_mlir.support.arguments import require

VARIANT = "torch-cuda"
#: The form of names of kernels of the Hub.
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
    """Checks the name of a kernel directory.

    Raises:
        FuseError: the name has another form.
    """
    require(name, str, "the name of a kernel", "one such as 'my-mlp'")
    if not _NAME.fullmatch(name):
        raise FuseError(
            f"'{name}' is not a kernel name; expected one such as 'my-mlp'"
        )


def has_layer(module: FusedModule) -> bool:
    """Whether a kernel can be a layer of the Hub: its members are children of
    one module, it has one result, and no op of the model is part of it."""
    plan = module.plan
    return not any("." in name for name in module.names) and not (
        plan.outputs or plan.selects or plan.adds
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

    The directory has the scheduled kernels for all numbers of rows, if there
    are any, and the portable kernel for other GPUs from `chip` on. A site of
    one module becomes a layer that replaces the forward of this module. A site
    of several modules also gets a layout: a module that contains them, whose
    forward the layer replaces.

    Args:
        model: with a fused site, on any device.
        directory: of the repository, which must have no such variant yet.
        site: its id; needed when the kernels of the sites differ.
        name: of the kernel, such as `my-mlp`.
        layer: name of the class of the layer. None derives it from `name`,
            such as `MyMlp`.
        version: of the kernel, 1 or more.
        license: of the kernel, for its metadata.
        chip: the oldest supported chip, such as `sm_80`.
        scheduled: chips with scheduled kernels.

    Returns:
        The directory of the variant.

    Raises:
        FuseError: the site does not exist, or kernels differ; the name is
            malformed; `chip` has no successors that run its code, or a chip
            of `scheduled` has no scheduled kernels; the variant exists; or
            the kernel has weights that the members lack, such as those of
            `calibrate`.
        NativeError: the kernel cannot be compiled for the chip.

    Examples:
        >>> result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        >>> made = fuse_mlir.export_hub_kernel(model, folder, name="norm-mlp")
        >>> (made / "layers.py").is_file()
        True
    """
    check_name(name)
    layer = layer or "".join(part.title() for part in name.split("-"))
    require(chip, str, "the chip", "the name of one, such as sm_80")
    require(scheduled, (list, tuple), "argument 'scheduled'", "a list of chips")
    if not _CHIP.fullmatch(chip) or chip.endswith("a"):
        raise FuseError(
            f"later chips do not run code for chip '{chip}'; "
            "expected sm_ and a number, such as sm_80"
        )
    for own in scheduled:
        require(own, str, "a scheduled chip", "the name of one, such as sm_90a")
        if not _CHIP.fullmatch(own) or not own.endswith("a"):
            raise FuseError(
                f"chip '{own}' has no scheduled kernels; expected "
                "an architecture-specific chip, such as sm_90a"
            )
    variant = Path(directory) / "build" / VARIANT
    if variant.exists():
        raise FuseError(f"'{variant}' exists; expected a new directory")
    module = one_kernel(model, site, has_layer)
    if not has_layer(module):
        raise FuseError(
            f"site '{module.site}' has members in several modules, and a layer "
            "of the Hub replaces one; name another site, or write the kernel "
            "with fuse_mlir.export"
        )
    assert module._kernel is not None
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
    # The variant appears atomically.
    with tempfile.TemporaryDirectory(dir=variant.parent) as made:
        for file, data in files.items():
            (Path(made) / file).write_bytes(data)
        shutil.copytree(made, variant)
    return variant


def _arch(chip: str) -> str:
    """The name of a chip in metadata."""
    number = chip.removeprefix("sm_").removesuffix("a")
    return f"{number[:-1]}.{number[-1]}" + (
        "a" if chip.endswith("a") else "+PTX"
    )


def _code(module: FusedModule, chips: Sequence[str]) -> dict[str, bytes]:
    """PTX, and the launch plan of each chip."""
    kernel = module._kernel
    assert kernel is not None
    compiled = kernel.compiled
    rows = compiled.by_rows
    code = compiled.for_rows(kernel.chain) if rows else compiled
    files: dict[str, bytes] = {}
    codes, function = [], {}
    for chip in chips:
        # Code for only one architecture is useful for its schedules.
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
    # The layer of a single member has parameters relative to the member.
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
        "result": {"shape": compiled.result.dims, "type": dtype},
    }
    return {**files, "plan.json": (json.dumps(plan, indent=1) + "\n").encode()}


def _metadata(
    name: str,
    version: int,
    license: str,  # pylint: disable=W0622
    files: dict[str, bytes],
) -> dict[str, Any]:
    """Metadata that the package `kernels` reads before it loads a kernel.

    The id contains a digest of all files, so that different kernels have
    different ids.
    """
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
    """The launch plan for a chip, in the format of the launcher."""
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
    """Refuses launch plans that the launcher does not support."""
    known = {
        "tensor",
        "workspace",
        "offset",
        "size",
        "bytes",
        "type",
        "value",
        "scalar",
        "packed",
        "map",
    }
    for weight in cuda.get("packed", []):
        if "views" in weight:
            raise FuseError(
                f"recipe '{weight['recipe']}' packs parts of arguments, which "
                "kernel directories do not support"
            )
    for plan in cuda.get("alternatives", [cuda]):
        for launch in plan["launches"]:
            if "when" in launch:
                raise FuseError(
                    f"kernel '{launch['kernel']}' is launched under a "
                    "condition, which kernel directories do not support"
                )
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
                        "that kernel directories do not support"
                    )


def _layers(module: FusedModule, layer: str, title: str) -> str:
    """The Python source of the layer and of its layout."""
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
