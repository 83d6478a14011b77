# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules out of a checkpoint directory, with stored weights as they are.

transformers multiplies 8-bit weights out where there is no GPU, and with that
the scales are gone. Here the model is built from its config without storage,
and only the parameters of the wanted modules are read, in their own types.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn

from fuse_mlir.blocks import (BlockError, Chain, build_from_config,
                              take_chain)
from fuse_mlir.emulation import emulate
from fuse_mlir.stored import Kept, Policy, is_stored, make_linear


class Checkpoint:
    """The tensors of a directory of safetensors files, by name.

    Raises:
        BlockError: the directory has no such files.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        index = self.directory / "model.safetensors.index.json"
        if index.is_file():
            self._files = json.loads(index.read_text())["weight_map"]
            return
        self._files = {}
        for path in sorted(self.directory.glob("*.safetensors")):
            with safe_open(path, framework="pt") as file:
                for name in file.keys():
                    self._files[name] = path.name
        if not self._files:
            raise BlockError(f"no safetensors file in '{directory}'")

    def find(self, name: str) -> str | None:
        """The entry for a parameter; a base model's have no `model.`."""
        for candidate in (name, name.removeprefix("model."), f"model.{name}"):
            if candidate in self._files:
                return candidate
        return None

    def read(self, entry: str) -> torch.Tensor:
        path = self.directory / self._files[entry]
        with safe_open(path, framework="pt") as file:
            return file.get_tensor(entry)

    def entries(self, path: str) -> dict[str, torch.Tensor]:
        """Tensors of the module at `path`, by the rest of their names."""
        weight = self.find(f"{path}.weight")
        if weight is None:
            return {}
        prefix = weight.removesuffix("weight")
        return {name.removeprefix(prefix): self.read(name)
                for name in self._files
                if name.startswith(prefix)
                and "." not in name.removeprefix(prefix)}


def quantization_of(directory: str | Path) -> dict | None:
    """`quantization_config` of a directory's config.json, or None."""
    path = Path(directory) / "config.json"
    if not path.is_file():
        return None
    return json.loads(path.read_text()).get("quantization_config")


def policy_of(directory: str | Path, policy: Policy,
              bias_place: str | None) -> Policy:
    """`policy` with the place of biases that the checkpoint's own forward
    has, unless the user gave one: FP8Linear of transformers adds a bias in an
    op of its own."""
    if bias_place is not None:
        return replace(policy, bias_place=bias_place)
    quantization = quantization_of(directory) or {}
    if quantization.get("quant_method") == "fp8":
        return replace(policy, bias_place="after_rounding")
    return policy


def load_chain(directory: str | Path, parent: str, members: Sequence[str],
               residual: bool, dtype: torch.dtype, policy: Policy,
               original: str | Path | None = None) \
        -> tuple[Chain, list[Kept]]:
    """The modules `members` below `parent` with the weights of a checkpoint.

    Args:
        original: directory with the weights before quantization, with which
            stored ones are compared.

    Returns:
        The chain, and the linears that stay in floating point.

    Raises:
        Refused: a linear that can not be expressed as it is stored.
        BlockError: a parameter that the checkpoint does not have.
    """
    import transformers

    if not Path(directory).is_dir():
        raise BlockError(f"no directory '{directory}'")
    config = transformers.AutoConfig.from_pretrained(directory)
    if getattr(config, "quantization_config", None) is not None:
        del config.quantization_config
    chain = take_chain(build_from_config(config, dtype), parent, members,
                       residual)
    checkpoint = Checkpoint(directory)
    before = None if original is None else Checkpoint(original)
    kept: list[Kept] = []
    for path, module in list(chain.named_modules()):
        if not isinstance(module, nn.Linear):
            continue
        entries = checkpoint.entries(path)
        if not is_stored(entries):
            continue
        reference = None
        if before is not None:
            reference = before.entries(path).get("weight")
        linear, left = make_linear(path, entries, policy, dtype, reference)
        if left is not None:
            kept.append(left)
        owner, _, name = path.rpartition(".")
        setattr(chain.get_submodule(owner), name, linear)
    _fill(chain, checkpoint, dtype)
    return chain, kept


def _fill(chain: nn.Module, checkpoint: Checkpoint,
          dtype: torch.dtype) -> None:
    """Reads the parameters that have no storage yet."""
    for path, owner in chain.named_modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            if not parameter.is_meta:
                continue
            full = f"{path}.{name}" if path else name
            entry = checkpoint.find(full)
            if entry is None:
                raise BlockError(f"'{checkpoint.directory}' has no '{full}'")
            tensor = checkpoint.read(entry)
            if tensor.shape != parameter.shape:
                raise BlockError(
                    f"'{entry}' has shape {list(tensor.shape)}, the model "
                    f"wants {list(parameter.shape)}")
            setattr(owner, name, nn.Parameter(tensor.to(dtype),
                                              requires_grad=False))


def load_fp8(directory: str | Path, dtype: torch.dtype) -> nn.Module:
    """A model in the fine-grained fp8 layout of transformers, on the CPU.

    transformers itself multiplies the weights out where it finds no GPU, which
    loses the scales. Here they stay, and `emulate` lets the model run.
    """
    from unittest import mock

    import transformers
    from transformers.quantizers.quantizer_finegrained_fp8 import (
        FineGrainedFP8HfQuantizer)

    from fuse_mlir.blocks import _auto_class

    config = transformers.AutoConfig.from_pretrained(directory)
    # The check of the environment is what asks for multiplied weights.
    with mock.patch.object(FineGrainedFP8HfQuantizer, "validate_environment"):
        model = _auto_class(config).from_pretrained(directory, dtype=dtype)
    emulate(model)
    return model.eval()
