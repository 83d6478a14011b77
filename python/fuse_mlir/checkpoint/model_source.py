# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of a command: a directory with weights, a config file, or a model
type of transformers.

transformers ignores unknown keys of a config file. Only settings that a user
adds are checked for typing errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fuse_mlir.checkpoint import loader
from fuse_mlir.checkpoint import models as blocks
from fuse_mlir.checkpoint.formats import describe, quantization_of
from fuse_mlir.checkpoint.loader import (
    Checkpoint,
    check_format,
    is_stored_checkpoint,
)
from fuse_mlir.errors import BlockError
from fuse_mlir.frontend import extract
from fuse_mlir.support.progress import progress_of
from fuse_mlir.support.types import Progress, ProgressOption

if TYPE_CHECKING:
    from transformers import PretrainedConfig

#: Dtypes in which kernels compute, by their names on the command line.
DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}
#: The same dtypes, by their names in safetensors files.
_OF_FILE = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
#: Keys of a config that do not change the model.
_ABOUT_FILE = (
    "model_type",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "quantization_config",
    "compression_config",
    "auto_map",
)


@dataclass(frozen=True)
class ModelSource:
    """A model before it is built."""

    #: The name that the user gave.
    name: str
    config: Any
    dtype: torch.dtype
    #: The directory of the weights; None for drawn weights.
    directory: Path | None
    #: Whether the config differs from that of the directory.
    changed: bool = False

    @property
    def is_stored(self) -> bool:
        """Whether the directory has weights in 8 bits or less, which a skeleton
        does not show."""
        return self.directory is not None and is_stored_checkpoint(
            self.directory
        )

    def skeleton(self) -> nn.Module:
        """The model in floating point on the meta device."""
        return blocks.build_from_config(self.config, self.dtype).eval()

    def build(
        self,
        device: str = "cpu",
        say: Callable[[str], None] | None = None,
        progress: Progress | None = None,
    ) -> nn.Module:
        """The model with its weights, or with drawn ones.

        Args:
            device: cpu or cuda.
            say: called with a line about the size before memory is allocated.
            progress: called with the number of loaded or drawn weights, at most
                once in a second.

        Raises:
            BlockError: the model does not fit into memory, a weight is
                missing, or settings change the weights of the directory.
        """
        if self.directory is not None and not _has_weights(self.directory):
            raise BlockError(
                f"no weights in '{self.directory}': expected *.safetensors or "
                f"pytorch_model*.bin; name '{self.directory}/config.json' for "
                "drawn weights"
            )
        if self.directory is not None:
            check_format(self.directory)
        if self.directory is not None and self.changed:
            self._check_settings()
        self._check_size(device, say)
        if self.directory is None:
            model = blocks.build_from_config(self.config, self.dtype, device)
            return blocks.seed_weights(model.eval(), 0, progress)
        model = loader.load_model(
            self.directory,
            self.dtype,
            self.config if self.changed else None,
            progress,
        )
        return model.to(device).eval()

    def _check_settings(self) -> None:
        """Checks that settings do not change the weights of the directory."""
        assert self.directory is not None
        quantization = quantization_of(self.directory)
        if quantization is not None:
            raise BlockError(
                f"--set does not go with the {describe(quantization)} weights "
                f"of '{self.directory}'; name '{self.directory}/config.json' "
                "for a model with drawn weights"
            )
        before = open_source(self.name, {}, None).skeleton()
        old = {n: tuple(p.shape) for n, p in before.named_parameters()}
        new = {n: tuple(p.shape) for n, p in self.skeleton().named_parameters()}
        other = [n for n in (*old, *new) if old.get(n) != new.get(n)]
        if other:
            raise BlockError(
                f"--set changes which weights the model has: '{other[0]}' is "
                f"{_shape(new.get(other[0]))}, in '{self.directory}' it is "
                f"{_shape(old.get(other[0]))}; name "
                f"'{self.directory}/config.json' for drawn weights"
            )

    def _check_size(
        self, device: str, say: Callable[[str], None] | None
    ) -> None:
        model = self.skeleton()
        count = sum(p.numel() for p in model.parameters())
        need = count * self.dtype.itemsize
        if self.directory is not None and self.is_stored:
            need = sum(
                f.stat().st_size for f in self.directory.glob("*.safetensors")
            )
        free = free_memory(device)
        text = (
            f"{type(model).__name__}: {count:,} parameters, "
            f"{_size(need)} in {str(self.dtype)[6:]}"
        )
        if free is not None:
            text += f"; {_size(free)} of memory are free"
            if need > free:
                raise BlockError(
                    f"the model does not fit on '{device}': "
                    + text
                    + "; --set makes it smaller, such as "
                    "--set num_hidden_layers=2"
                )
        if say is not None:
            say(text)


def open_source(
    name: str, settings: Mapping[str, Any], dtype: str | None
) -> ModelSource:
    """Opens the model that a name on the command line means.

    Args:
        name: a directory with config.json and weights, a config file, or a
            model type such as "qwen3"; the last two get drawn weights.
        settings: settings of the config from `--set`.
        dtype: a name of `DTYPES`. None uses the dtype of the config, else that
            of most weights, else bfloat16.

    Raises:
        BlockError: the name has no model, or a setting is unknown.
    """
    import transformers

    path = Path(name)
    if not path.exists():
        return ModelSource(
            name, *_typed(blocks.config_of(name, settings), dtype), None
        )
    if path.is_dir() and not path.joinpath("config.json").is_file():
        raise BlockError(f"no config.json in '{path}'")
    try:
        config = transformers.AutoConfig.from_pretrained(path)
    except Exception as error:
        raise BlockError(
            f"transformers cannot read the config of '{path}': "
            + extract.reason_of(error)
        ) from error
    directory = path if path.is_dir() else None
    if (
        settings
        or directory is None
        and getattr(config, "quantization_config", None) is not None
    ):
        config = _with_settings(config, settings)
    chosen = _typed(config, dtype, directory)
    return ModelSource(name, *chosen, directory, bool(settings))


def load_model(
    path: str | Path,
    dtype: torch.dtype | None = None,
    device: str = "cpu",
    *,
    progress: ProgressOption = None,
) -> nn.Module:
    """A model of transformers from a directory, with its weights as stored.

    Checkpoints in fine-grained FP8 and those of compressed-tensors and ModelOpt
    keep their 8-bit codes and scales. The packages that wrote them are not
    needed. `fuse_modules` makes kernels with their static scales. Other models
    are loaded by `from_pretrained`.

    Args:
        path: directory with config.json and weights.
        dtype: of parameters in floating point. None uses the dtype of the
            config or of the weights.
        device: cpu or cuda.
        progress: called with the number of loaded weights, the number of all
            and a line, at most once in a second; True shows a bar after a
            second. With None, transformers shows its bar for weights in
            floating point.

    Returns:
        The model in eval mode, of the class that the config's
        `architectures` name.

    Raises:
        BlockError: the directory, its format, a package or a weight is
            missing or not supported, or memory does not suffice.

    Examples:
        >>> model = fuse_mlir.load_model(checkpoint, dtype=torch.float32)
        >>> type(model).__name__
        'Qwen3ForCausalLM'
    """
    report = progress_of(progress)
    names = {kind: name for name, kind in DTYPES.items()}
    if dtype is not None and dtype not in names:
        raise BlockError(
            f"dtype is {dtype}; expected one of " + ", ".join(map(str, names))
        )
    if not Path(path).is_dir():
        raise BlockError(f"no directory '{path}'")
    return open_source(
        str(path), {}, None if dtype is None else names[dtype]
    ).build(device, progress=report)


def _has_weights(directory: Path) -> bool:
    return any(
        next(directory.glob(pattern), None) is not None
        for pattern in ("*.safetensors", "pytorch_model*.bin")
    )


def _with_settings(
    config: PretrainedConfig, settings: Mapping[str, Any]
) -> PretrainedConfig:
    """A new config, because some settings are derived from others."""
    blocks.check_settings(config, settings)
    values = {
        key: value
        for key, value in config.to_diff_dict().items()
        if key not in _ABOUT_FILE
    }
    for key, value in list(values.items()):
        # Lists with an entry per layer depend on the number of layers.
        if (
            key == "layer_types"
            and key not in settings
            and "num_hidden_layers" in settings
            and isinstance(value, list)
        ):
            values[key] = value[: settings["num_hidden_layers"]]
    try:
        return type(config)(**{**values, **settings})
    except Exception as error:
        raise blocks.settings_error(config.model_type, error) from error


def _typed(
    config: PretrainedConfig,
    dtype: str | None,
    directory: Path | None = None,
) -> tuple[PretrainedConfig, torch.dtype]:
    if dtype is not None:
        return config, DTYPES[dtype]
    found = getattr(config, "dtype", None)
    if isinstance(found, str):
        found = getattr(torch, found, None)
    if found is None and directory is not None:
        found = _type_of_files(directory)
    if found is None:
        found = torch.bfloat16
    if found not in DTYPES.values():
        raise BlockError(
            f"the config's dtype is {found}; --dtype chooses one "
            "of " + ", ".join(DTYPES)
        )
    return config, found


def _type_of_files(directory: Path) -> torch.dtype | None:
    """The dtype of most tensors in floating point."""
    if next(directory.glob("*.safetensors"), None) is None:
        return None
    kinds = [
        kind
        for kind in Checkpoint(directory).types().values()
        if kind in _OF_FILE
    ]
    return _OF_FILE[max(set(kinds), key=kinds.count)] if kinds else None


def free_memory(device: str) -> int | None:
    """Free memory of a device in bytes; None if it is unknown."""
    if torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(torch.device(device))[0]
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _size(count: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:,} bytes"


def _shape(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else str(list(shape))
