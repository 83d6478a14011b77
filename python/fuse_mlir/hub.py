# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of fused sites as kernel directories of Hugging Face.

A directory has the variant `torch-cuda`, which is for any Python and PyTorch:
PTX, its launches, and layers in Python. `kernels.LocalLayerRepository` loads
it, and a repository of the Hub that it is uploaded to serves it.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from torch import nn

from fuse_mlir import hub_host, native
from fuse_mlir.kernels import Kernel
from fuse_mlir.modules import FuseError, FusedModule, one_kernel

VARIANT = "torch-cuda"
#: How names of kernels of the Hub look.
_NAME = re.compile(r"[a-z][-a-z0-9]*[a-z0-9]")
_CHIP = re.compile(r"sm_(\d+)(\d)")
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

class {layer}Layout(nn.Module):
    """Holds the modules that {layer} takes the place of."""

    def __init__(self, {names}):
        super().__init__()
{lines}
'''


def export_hub_kernel(model: nn.Module, directory: str | Path,
                      site: str | None = None, *, name: str,
                      layer: str | None = None, version: int = 1,
                      license: str = _LICENSE,  # pylint: disable=W0622
                      chip: str = "sm_80") -> Path:
    """Writes the kernel of a fused site as a kernel directory.

    The kernel is the portable one, which runs on every GPU from `chip` on; the
    scheduled kernels of sm_90a need fuse's runtime. A site of one module
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

    Returns:
        The directory of the variant.

    Raises:
        FuseError: no such site, kernels that differ, a name of another form,
            a chip whose code is for itself alone, or a variant that exists.
        NativeError: there is no code for the chip.
    """
    if not _NAME.fullmatch(name):
        raise FuseError(f"'{name}' is no name of a kernel; expected one such "
                        "as 'my-mlp'")
    layer = layer or "".join(part.title() for part in name.split("-"))
    found = _CHIP.fullmatch(chip)
    if found is None:
        raise FuseError(f"chip '{chip}' is none that later ones run code of; "
                        "expected sm_ and a number, such as sm_80")
    variant = Path(directory) / "build" / VARIANT
    if variant.exists():
        raise FuseError(f"'{variant}' exists; expected a new directory")
    module = one_kernel(model, site)
    title = (f"{' + '.join(module.names)} as one kernel"
             if len(module.names) > 1 else f"{module.names[0]} as a kernel")
    files = _code(module, chip)
    files["__init__.py"] = _INIT.format(title=f"{title}.").encode()
    files["layers.py"] = _layers(module, layer, f"{title}.").encode()
    files["_host.py"] = Path(hub_host.__file__).read_bytes()
    mark = hashlib.sha256(b"".join(
        path.encode() + data for path, data in sorted(files.items())))
    metadata = {
        "id": f"_{name.replace('-', '_')}_cuda_{mark.hexdigest()[:7]}",
        "name": name, "version": version, "license": license,
        "python-depends": [],
        "backend": {"type": "cuda", "archs": [f"{found[1]}.{found[2]}+PTX"]},
        "digest": {"algorithm": "sha256", "files": {
            path: base64.b64encode(hashlib.sha256(data).digest()).decode()
            for path, data in sorted(files.items())}}}
    files["metadata.json"] = (json.dumps(metadata, indent=2) + "\n").encode()
    variant.parent.mkdir(parents=True, exist_ok=True)
    # Others see the variant whole or not at all.
    with tempfile.TemporaryDirectory(dir=variant.parent) as made:
        for path, data in files.items():
            (Path(made) / path).write_bytes(data)
        shutil.copytree(made, variant)
    return variant


def _code(module: FusedModule, chip: str) -> dict[str, bytes]:
    """PTX and the plan of its launches."""
    kernel: Kernel = module._kernel
    compiled = kernel.compiled
    rows = compiled.by_rows
    code = compiled.for_rows(kernel.chain) if rows else compiled
    artifact = native.Module(code.formed).compile(chip=chip, portable=True)
    manifest = json.loads(artifact.sections(native.SECTION_MANIFEST)[0])
    function = manifest["functions"][0]
    ptx = artifact.sections(native.SECTION_PTX)
    # One member's own layer has its parameters, not those of its parent.
    prefix = f"{module.names[0]}." if len(module.names) == 1 else ""
    names = [argument["parameter"].removeprefix(prefix)
             for argument in function["arguments"] if "parameter" in argument]
    dtype = next(text for text, known in hub_host._TYPES.items()
                 if known == compiled.dtype)
    plan = {"arguments": function["arguments"], "cuda": function["cuda"],
            "parameters": names, "rows": rows,
            "ptx": [f"kernel-{i}.ptx" for i in range(len(ptx))],
            "result": {"shape": compiled.result, "type": dtype}}
    _check_plan(plan)
    files = {f"kernel-{i}.ptx": text for i, text in enumerate(ptx)}
    return {**files, "plan.json": (json.dumps(plan, indent=1) + "\n").encode()}


def _check_plan(plan: dict[str, Any]) -> None:
    """What the launcher of such directories does not do."""
    cuda = plan["cuda"]
    known = {"tensor", "workspace", "offset", "size", "bytes", "type", "value"}
    for launch in cuda["launches"]:
        if launch.get("cooperative") or "cluster" in launch or any(
                set(a) - known or a.get("type", "f32") not in hub_host._NUMBERS
                for a in launch["args"]):
            raise FuseError(f"kernel '{launch['kernel']}' is launched in a "
                            "way that kernel directories have not")
    if cuda.get("zeroed_bytes") or cuda.get("packed"):
        raise FuseError("the kernel packs weights or wants a workspace of "
                        "zeros, which kernel directories have not")


def _layers(module: FusedModule, layer: str, title: str) -> str:
    """Python text of the layer, and of its layout."""
    kind = type(module.members[0])
    signature = inspect.signature(kind.forward)
    plain = [p.replace(annotation=p.empty, default=p.default if isinstance(
        p.default, (int, float, str, type(None))) else p.empty)
        for p in signature.parameters.values()]
    positional = [p.name for p in plain[1:]
                  if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    inputs = [positional[s] if isinstance(s, int) else s
              for s in module.plan.inputs]
    head = str(signature.replace(parameters=plain,
                                 return_annotation=signature.empty))
    text = _LAYERS.format(title=title, layer=layer, signature=head,
                          inputs=", ".join(inputs))
    if len(module.names) > 1:
        bad = [n for n in module.names if not n.isidentifier()]
        if bad:
            raise FuseError(f"member '{bad[0]}' has no name that a layout can "
                            "have")
        text += _LAYOUT.format(
            layer=layer, names=", ".join(module.names),
            lines="\n".join(f"        self.{n} = {n}" for n in module.names))
    return text
