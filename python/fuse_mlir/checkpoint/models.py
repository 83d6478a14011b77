# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of transformers from their configs, and drawn weights."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from fuse_mlir.errors import BlockError
from fuse_mlir.frontend.extract import reason_of
from fuse_mlir.support.progress import paced
from fuse_mlir.support.types import Progress

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Seeded = TypeVar("Seeded", bound=nn.Module)


def build_model(
    architecture: str,
    settings: Mapping[str, Any],
    dtype: torch.dtype,
    device: str = "meta",
) -> nn.Module:
    """A model of transformers from its config, without weights.

    By default, parameters are on the meta device until `seed_weights` draws
    them.
    """
    return build_from_config(config_of(architecture, settings), dtype, device)


def config_of(
    architecture: str, settings: Mapping[str, Any]
) -> PretrainedConfig:
    """The config of a model type with some settings.

    Raises:
        BlockError: the type or a setting is unknown.
    """
    import transformers

    if architecture not in transformers.CONFIG_MAPPING:
        if "/" in architecture or architecture.endswith(".json"):
            raise BlockError(
                f"'{architecture}' does not exist; expected a "
                "directory with a model, a config.json, or an "
                "architecture of transformers"
            )
        raise BlockError(
            f"unknown architecture '{architecture}'"
            + _similar(architecture, transformers.CONFIG_MAPPING)
        )
    try:
        config = transformers.AutoConfig.for_model(architecture, **settings)
    except Exception as error:
        raise settings_error(architecture, error) from error
    check_settings(config, settings)
    return config


def check_settings(
    config: PretrainedConfig, settings: Mapping[str, Any]
) -> None:
    """Checks that a config has all settings that a user gave.

    Raises:
        BlockError: a setting is unknown; with similar names.
    """
    known = _config_fields(config)
    unknown = [k for k in settings if k not in known]
    if unknown:
        raise BlockError(
            f"{type(config).__name__} has no setting "
            + ", ".join(f"'{k}'" for k in unknown)
            + _similar(unknown[0], known)
        )


def _similar(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name, with similar names."""
    close = difflib.get_close_matches(name, sorted(known), n=6)
    return f"; similar: {', '.join(close)}" if close else ""


def build_from_config(
    config: PretrainedConfig, dtype: torch.dtype, device: str = "meta"
) -> nn.Module:
    """The model of a config; by default, parameters are on the meta device."""
    try:
        with torch.device(device), _default_dtype(dtype):
            model = _make(config)
    except BlockError:
        raise
    except Exception as error:
        raise settings_error(config.model_type, error) from error
    # torch.Tensor(size) ignores the default device.
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.device.type != torch.device(device).type:
                setattr(
                    module,
                    name,
                    nn.Parameter(parameter.to(device), parameter.requires_grad),
                )
    return model


def settings_error(architecture: str, error: Exception) -> BlockError:
    """An error of transformers about settings, as a BlockError.

    Configs and models of transformers raise many kinds of errors.
    """
    reason = error.__cause__ or error
    return BlockError(
        f"transformers cannot build '{architecture}' with these "
        f"settings: {reason_of(reason)}"
    )


def _config_fields(config: PretrainedConfig) -> set[str]:
    return set(type(config)().to_dict())


def model_class(config: PretrainedConfig) -> type:
    """The class of transformers that a config's `architectures` names.

    Without `architectures`, it is the class with a language-model head, if
    there is one, because checkpoints use its module paths.

    Raises:
        BlockError: transformers has no class of that name.
    """
    import transformers

    for name in (getattr(config, "architectures", None) or ())[:1]:
        kind = getattr(transformers, name, None)
        if kind is None:
            raise BlockError(
                f"transformers {transformers.__version__} has no class "
                f"'{name}', which the config's architectures name"
                + _similar(name, dir(transformers))
            )
        return kind
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        return transformers.AutoModelForCausalLM
    return transformers.AutoModel


def _make(config: PretrainedConfig) -> nn.Module:
    kind = model_class(config)
    make: Callable[[PretrainedConfig], nn.Module] = getattr(
        kind, "from_config", None
    ) or getattr(kind, "_from_config")
    return make(config)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def seed_weights(
    module: Seeded, seed: int, progress: Progress | None = None
) -> Seeded:
    """Gives all parameters storage and drawn values.

    Matrices have the scale that keeps activations near one. Vectors have noise
    around the values of the module's own initialization. A norm weight of ones
    or zeros would hide a missing or an extra factor.

    Args:
        module: with parameters, which may be on the meta device.
        seed: of the values.
        progress: called with the number of drawn parameters, at most once in a
            second.

    Raises:
        BlockError: a buffer is on the meta device.
    """
    buffers = [n for n, b in module.named_buffers() if b.is_meta]
    if buffers:
        raise BlockError(
            "cannot draw values for buffers: " + ", ".join(buffers)
        )
    generator = torch.Generator().manual_seed(seed)
    centers = _vector_centers(module)
    drawn: dict[int, nn.Parameter] = {}
    report, total = paced(progress), len(list(module.parameters()))
    for owner in module.modules():
        for name, old in owner.named_parameters(recurse=False):
            if id(old) not in drawn:
                noise = torch.randn(
                    old.shape, generator=generator, device="cpu"
                )
                if old.dim() >= 2:
                    noise *= old.shape[-1] ** -0.5
                else:
                    noise = centers[id(old)] + 0.1 * noise
                if not old.is_meta:
                    noise = noise.to(old.device)
                drawn[id(old)] = nn.Parameter(
                    noise.to(old.dtype), requires_grad=False
                )
                if report is not None:
                    report(len(drawn), total, "drawing weights")
            setattr(owner, name, drawn[id(old)])
    return module


def _vector_centers(module: nn.Module) -> dict[int, float]:
    """Initial values of parameters of rank one, by id.

    Biases, and weights of norms that add one to them, start from zero. Other
    weights start from one.
    """
    centers = {}
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            source = type(owner)
            zero = name.endswith("bias") or _adds_one(source)
            centers[id(parameter)] = 0.0 if zero else 1.0
    return centers


def _adds_one(kind: type) -> bool:
    """Whether the weight of a norm starts from zeros, as in a new instance."""
    with contextlib.suppress(Exception):
        instance = kind(8)
        return all(bool((p == 0).all()) for p in instance.parameters())
    return False
