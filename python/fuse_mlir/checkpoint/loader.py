# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads modules of a checkpoint directory, with their stored weights.

Without a GPU, transformers dequantizes 8-bit weights and loses their scales.
Here, the model is built from its config without storage. Then only the
parameters of the wanted modules are read, in their own dtypes.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from torch import nn

from fuse_mlir.checkpoint.formats import (
    packed_entries,
    quantization_of,
    refusal,
)
from fuse_mlir.checkpoint.models import build_from_config, model_class
from fuse_mlir.errors import BlockError, Refused
from fuse_mlir.matching.members import Chain, take_chain
from fuse_mlir.quantized.contract import Scheme
from fuse_mlir.quantized.fp8_reference import emulate
from fuse_mlir.quantized.packed_linear import PackedLinear
from fuse_mlir.quantized.schemes import Schemes, schemes_of
from fuse_mlir.quantized.stored import (
    WEIGHT_SCALES,
    Kept,
    Policy,
    is_stored,
    make_linear,
)
from fuse_mlir.support.fusion_registry import known_to_transformers
from fuse_mlir.support.progress import paced
from fuse_mlir.support.types import Progress

if TYPE_CHECKING:
    from transformers import PretrainedConfig

#: Types of codes in safetensors files.
_CODES = {"F8_E4M3", "F8_E5M2", "I8", "U8"}


class Checkpoint:
    """The tensors of a directory of safetensors files, by name.

    Args:
        directory: of the files.
        progress: called with the number of tensors that were read, at most
            once in a second.

    Raises:
        BlockError: the directory has no safetensors files.
    """

    def __init__(
        self, directory: str | Path, progress: Progress | None = None
    ) -> None:
        self.directory = Path(directory)
        self._read: set[str] = set()
        self._progress = paced(progress)
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

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def types(self) -> dict[str, str]:
        """The type of each tensor, such as "BF16" in safetensors."""
        found = {}
        for name in sorted(set(self._files.values())):
            with safe_open(self.directory / name, framework="pt") as file:
                for entry in file.keys():
                    found[entry] = file.get_slice(entry).get_dtype()
        return found

    def find(self, name: str) -> str | None:
        """The entry for a parameter; those of base models lack `model.`."""
        for candidate in (name, name.removeprefix("model."), f"model.{name}"):
            if candidate in self._files:
                return candidate
        return None

    def read(self, entry: str) -> torch.Tensor:
        path = self.directory / self._files[entry]
        with safe_open(path, framework="pt") as file:
            tensor = file.get_tensor(entry)
        if self._progress is not None and entry not in self._read:
            self._read.add(entry)
            self._progress(len(self._read), len(self._files), entry)
        return tensor

    def end(self) -> None:
        """Reports the end. Models do not read all entries of some files."""
        total = len(self._files)
        if self._progress is not None and len(self._read) < total:
            self._progress(total, total, "all weights of the model")

    def entries(self, path: str) -> dict[str, torch.Tensor]:
        """Tensors of the module at `path`, by the rest of their names."""
        for name in _WEIGHT_NAMES:
            weight = self.find(f"{path}.{name}")
            if weight is not None:
                break
        else:
            return {}
        prefix = weight.removesuffix(name)
        return {
            name.removeprefix(prefix): self.read(name)
            for name in self._files
            if name.startswith(prefix) and "." not in name.removeprefix(prefix)
        }


#: Names of the entry with the codes of a linear.
_WEIGHT_NAMES = ("weight", "weight_packed", "qweight")
#: Methods whose linears add their biases in a separate op.
_SEPARATE_BIAS = ("fp8", "fbgemm_fp8", "awq", "gptq")


def _packed_scheme(
    scheme: Scheme | None, entries: Mapping[str, torch.Tensor]
) -> Scheme | None:
    """The scheme of a linear if its codes have 4 bits, or None.

    Raises:
        BlockError: the codes are packed, and the config does not state how.
    """
    packed = None if scheme is None else scheme.packed
    if packed is None:
        return None
    weight = entries.get(packed.weight)
    # A format keeps some linears in floating point.
    is_float = "weight" in entries and entries["weight"].is_floating_point()
    return None if weight is None or is_float else scheme


def policy_of(
    directory: str | Path,
    policy: Policy,
    bias_place: str | None,
    order: str | None = None,
) -> Policy:
    """`policy` with what the format of a checkpoint implies.

    Args:
        directory: of the checkpoint.
        policy: the user's choices.
        bias_place: where biases are added; None for the place of the format.
            Linears of `fp8` and `fbgemm_fp8` add them in a separate op.
        order: division order of static scales; None for that of the format.
            compressed-tensors divides.
    """
    method = (quantization_of(directory) or {}).get("quant_method")
    if bias_place is None and method in _SEPARATE_BIAS:
        bias_place = "after_rounding"
    if order is None and method == "compressed-tensors":
        order = "divide"
    return replace(
        policy,
        bias_place=bias_place or policy.bias_place,
        order=order or policy.order,
    )


def _policy_at(path: str, policy: Policy, schemes: Schemes) -> Policy:
    """`policy` with the scheme of the linear at a path."""
    scheme = schemes(path)
    weights_alone = scheme is not None and scheme.activations == "none"
    if weights_alone and policy.activations == "static":
        policy = replace(policy, activations="none")
    return replace(policy, scheme=scheme)


def load_chain(
    directory: str | Path,
    parent: str,
    members: Sequence[str],
    residual: bool,
    dtype: torch.dtype,
    policy: Policy,
    original: str | Path | None = None,
) -> tuple[Chain, list[Kept]]:
    """The modules `members` below `parent` with the weights of a checkpoint.

    Args:
        directory: of the checkpoint.
        parent: path of the module that owns the members.
        members: their names below `parent`, in the order of calls.
        residual: whether the input of the chain is added to its result.
        dtype: of parameters in floating point.
        policy: how stored linears are handled.
        original: directory with the weights before quantization, to compare
            the stored ones with.

    Returns:
        The chain, and the linears that stay in floating point.

    Raises:
        Refused: a linear cannot be expressed as it is stored.
        BlockError: the checkpoint lacks a parameter, or no kernel reads its
            format.
    """
    if not Path(directory).is_dir():
        raise BlockError(f"no directory '{directory}'")
    check_format(directory)
    config = _float_config(directory)
    chain = take_chain(
        build_from_config(config, dtype), parent, members, residual
    )
    checkpoint = Checkpoint(directory)
    before = None if original is None else Checkpoint(original)
    schemes = schemes_of(quantization_of(directory))
    kept: list[Kept] = []
    for path, module in list(chain.named_modules()):
        if not isinstance(module, nn.Linear):
            continue
        entries = checkpoint.entries(path)
        packed = _packed_scheme(schemes(path), entries)
        if packed is not None:
            entries = PackedLinear(
                path,
                entries,
                packed,
                (module.out_features, module.in_features),
                dtype,
                policy.bias_place,
            ).packed_parts()
        elif not is_stored(entries):
            continue
        reference = None
        if before is not None:
            reference = before.entries(path).get("weight")
        linear, left = make_linear(
            path,
            entries,
            _policy_at(path, policy, schemes),
            dtype,
            reference,
            trusted=packed is not None,
            shape=(module.out_features, module.in_features),
        )
        if left is not None:
            kept.append(left)
        owner, _, name = path.rpartition(".")
        setattr(chain.get_submodule(owner), name, linear)
    _fill(chain, checkpoint, dtype)
    return chain, kept


def _fill(
    chain: nn.Module,
    checkpoint: Checkpoint,
    dtype: torch.dtype,
    wanted: Callable[[str, nn.Parameter], bool] = (
        lambda _, parameter: parameter.is_meta
    ),
) -> None:
    """Reads parameters, by default those without storage."""
    tied = set(getattr(chain, "all_tied_weights_keys", None) or ())
    for path, owner in chain.named_modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            if not wanted(path, parameter):
                continue
            full = f"{path}.{name}" if path else name
            entry = checkpoint.find(full)
            if entry is None and full in tied:
                continue
            if entry is None:
                raise BlockError(_missing(checkpoint, full))
            tensor = checkpoint.read(entry)
            if tensor.shape != parameter.shape:
                raise BlockError(
                    f"'{entry}' has shape {list(tensor.shape)}, the model "
                    f"wants {list(parameter.shape)}"
                )
            setattr(
                owner, name, nn.Parameter(tensor.to(dtype), requires_grad=False)
            )


def _missing(checkpoint: Checkpoint, name: str) -> str:
    """Why a file has no tensor of a name, for a message."""
    text = f"'{checkpoint.directory}' has no '{name}'"
    found = packed_entries(checkpoint, name)
    return text if found is None else f"{text}: {found}"


def is_stored_checkpoint(directory: str | Path) -> bool:
    """Whether a directory has weights in 8 bits, whatever its config says."""
    if quantization_of(directory) is not None:
        return True
    path = Path(directory)
    if not any(path.glob("*.safetensors")):
        return False
    return any(
        entry.endswith("weight") and kind in _CODES
        for entry, kind in Checkpoint(path).types().items()
    )


def check_format(directory: str | Path) -> None:
    """Whether kernels can read the weights of a directory.

    Raises:
        BlockError: kernels cannot; with the name of the format.
    """
    quantization = quantization_of(directory)
    reason = None if quantization is None else refusal(quantization)
    if reason is not None:
        raise BlockError(f"'{directory}': {reason}")


def _float_config(directory: str | Path) -> PretrainedConfig:
    """The config of a directory, for a model in floating point."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(directory)
    if getattr(config, "quantization_config", None) is not None:
        del config.quantization_config
    return config


def load_stored(
    directory: str | Path,
    dtype: torch.dtype,
    progress: Progress | None = None,
) -> nn.Module:
    """A whole model whose linears keep their stored weights and scales.

    Linears get the entries of the checkpoint by their names: `weight` in its
    own dtype, `weight_scale`, `input_scale`. `emulate` lets the model run in
    PyTorch. The packages that wrote the checkpoint are not needed.

    Args:
        directory: with safetensors files of compressed-tensors, ModelOpt, or
            another format with separate scales.
        dtype: of all other parameters.
        progress: as for `Checkpoint`.

    Raises:
        Refused: a stored weight has no scale.
        BlockError: the checkpoint lacks a parameter, or no kernel reads its
            format.
    """
    from transformers.initialization import no_init_weights

    check_format(directory)
    checkpoint = Checkpoint(directory, progress)
    with no_init_weights():
        model = build_from_config(_float_config(directory), dtype, "cpu")
    read = set()
    quantization = quantization_of(directory)
    schemes = schemes_of(quantization)
    separate = (quantization or {}).get("quant_method") in _SEPARATE_BIAS
    for path, module in list(model.named_modules()):
        if not isinstance(module, nn.Linear):
            continue
        entries = checkpoint.entries(path)
        packed = _packed_scheme(schemes(path), entries)
        if packed is not None:
            read.add(path)
            owner, _, name = path.rpartition(".")
            linear = PackedLinear(
                path,
                entries,
                packed,
                (module.out_features, module.in_features),
                dtype,
                "after_rounding" if separate else "before_rounding",
            )
            setattr(model.get_submodule(owner), name, linear)
            continue
        if not is_stored(entries):
            continue
        shape = entries["weight"].shape
        if shape != module.weight.shape:
            raise Refused(
                "weight-width",
                path,
                f"the weight has shape {list(shape)}, the model wants "
                f"{list(module.weight.shape)}",
            )
        if not any(name in entries for name in WEIGHT_SCALES):
            raise Refused(
                "weight-scale-missing",
                path,
                f"the weight is {entries['weight'].dtype}; expected "
                "one of " + ", ".join(WEIGHT_SCALES),
            )
        read.add(path)
        module.weight = nn.Parameter(entries.pop("weight"), requires_grad=False)
        bias = entries.pop("bias", None)
        if bias is not None:
            module.bias = nn.Parameter(bias.to(dtype), requires_grad=False)
        for name, tensor in entries.items():
            module.register_buffer(name, tensor)
        setattr(module, "fuse_scheme", schemes(path))
        if separate:
            setattr(module, "fuse_bias_place", "after_rounding")
    _fill(model, checkpoint, dtype, lambda path, _: path not in read)
    checkpoint.end()
    tie: Callable[[], None] = getattr(model, "tie_weights")
    tie()
    if quantization is not None:
        # A saved model has the entries of the file, and the config that
        # explains them.
        setattr(model.config, "quantization_config", dict(quantization))
    emulate(model)
    return model.eval()


def load_fp8(
    directory: str | Path,
    dtype: torch.dtype,
    progress: Progress | None = None,
) -> nn.Module:
    """A model in the fine-grained fp8 layout of transformers, on the CPU.

    Without a GPU, transformers dequantizes the weights and loses the scales.
    Here, the scales stay, and `emulate` lets the model run.
    """
    from unittest import mock

    import transformers
    from transformers.quantizers.quantizer_finegrained_fp8 import (
        FineGrainedFP8HfQuantizer,
    )

    config = transformers.AutoConfig.from_pretrained(directory)
    # The check of the environment requests dequantized weights.
    with mock.patch.object(FineGrainedFP8HfQuantizer, "validate_environment"):
        model = from_pretrained(
            model_class(config), directory, dtype, progress=progress
        )
    emulate(model)
    return model.eval()


def from_pretrained(
    kind: type,
    directory: str | Path,
    dtype: torch.dtype,
    config: PretrainedConfig | None = None,
    progress: Progress | None = None,
) -> nn.Module:
    """A model as transformers loads it, with all its weights.

    Args:
        kind: class of transformers.
        directory: with config.json and weights.
        dtype: of parameters in floating point.
        config: instead of that of the directory.
        progress: called with the number of loaded weights, at most once in a
            second, instead of the bar of transformers.

    Raises:
        BlockError: transformers cannot load it, a package is missing, or
            weights of the model are not in the directory; transformers would
            draw those.
    """
    load = getattr(kind, "from_pretrained")
    more = {} if config is None else {"config": config}
    try:
        with known_to_transformers(), _reports(progress):
            model, info = load(
                directory,
                dtype=dtype,
                output_loading_info=True,
                local_files_only=True,
                **more,
            )
    except ImportError as error:
        raise BlockError(
            f"loading '{directory}' needs a package that is not "
            f"installed: {_first_line(error)}"
        ) from error
    except Exception as error:
        raise BlockError(
            f"transformers cannot load '{directory}': "
            f"{type(error).__name__}: " + _first_line(error)
        ) from error
    missing = sorted(map(str, info.get("missing_keys") or ()))
    wrong = sorted(
        str(k[0] if isinstance(k, tuple) else k)
        for k in info.get("mismatched_keys") or ()
    )
    for names, what in (
        (missing, "does not have"),
        (wrong, "has in another shape"),
    ):
        if names:
            more_names = f" and {len(names) - 4} more" if len(names) > 4 else ""
            raise BlockError(
                f"'{directory}' {what} {len(names)} weights of "
                f"{type(model).__name__}, which transformers would draw: "
                + ", ".join(names[:4])
                + more_names
            )
    return model


class _Bar:
    """A bar of transformers that reports its steps.

    Args:
        steps: of the bar.
        progress: receives the reports.
    """

    def __init__(self, steps: Collection[object], progress: Progress) -> None:
        self._steps, self._progress = steps, progress

    def __iter__(self) -> Iterator[object]:
        for done, step in enumerate(self._steps, 1):
            yield step
            self._progress(done, len(self._steps), "loading weights")

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, _: str) -> Callable[..., None]:
        # Everything else that a bar can do.
        return lambda *_, **__: None


@contextlib.contextmanager
def _reports(progress: Progress | None) -> Iterator[None]:
    """Passes the bars of transformers with known lengths on to `progress`."""
    from transformers.utils import logging

    install = getattr(logging, "set_tqdm_hook", None)
    each = paced(progress)
    if each is None or install is None:
        yield
        return

    def make(
        factory: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> object:
        if args and isinstance(args[0], Collection):
            return _Bar(args[0], each)
        return factory(*args, **kwargs)

    before = install(make)
    try:
        yield
    finally:
        install(before)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().split("\n")
    return lines[0] or f"{type(error).__name__} without a message"


def load_model(
    path: str | Path,
    dtype: torch.dtype,
    config: PretrainedConfig | None = None,
    progress: Progress | None = None,
) -> nn.Module:
    """A model with its weights from a local directory.

    Weights in 8 bits keep their codes and scales, and PyTorch computes their
    linears. The exception is the FP8 layout of transformers with static scales
    or experts on a machine with a GPU.

    Args:
        path: directory with config.json and weights.
        dtype: of parameters in floating point.
        config: instead of that of the directory.
        progress: called with the number of loaded weights, at most once in a
            second.

    Raises:
        BlockError: the directory, its format, a package or a weight is
            missing or not supported.
    """
    import transformers

    if not Path(path).is_dir():
        raise BlockError(f"no directory '{path}'")
    quantization = quantization_of(path) or {}
    method = quantization.get("quant_method")
    # transformers widens scales of blocks to f32, so that a saved model would
    # not be the file. It merges experts, which are not linears.
    own = method != "fp8" or (
        quantization.get("weight_block_size") is not None
        and not any(".experts." in entry for entry in Checkpoint(path))
    )
    if not own and not torch.cuda.is_available():
        return load_fp8(path, dtype, progress)
    if own and is_stored_checkpoint(path):
        return load_stored(path, dtype, progress)
    config = config or transformers.AutoConfig.from_pretrained(path)
    return from_pretrained(model_class(config), path, dtype, config, progress)
