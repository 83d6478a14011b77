# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLPs and other linears of a loaded model with static scales.

Linears with stored weights, as in FP8 checkpoints, keep their weights and
scales. Linears in floating point get scales from a calibration, and a stored
copy of their weights. The modules of the model never change: kernels are made
from copies of the members, in which `StoredLinear` replaces such linears.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from fuse_mlir.calibration.scales import Calibration
from fuse_mlir.errors import PatternError
from fuse_mlir.matching.endpoints import Endpoint, endpoint
from fuse_mlir.matching.patterns import ANY_FAMILY
from fuse_mlir.quantized.value_range import largest_value
from fuse_mlir.support.fusion_registry import FUSION

#: Fusions that transformers itself makes before a model has weights.
_OF_TRANSFORMERS = ("patch_embeddings",)
#: Kernels that a config names, the families of each, and the activations of
#: each family; None for all.
KERNELS: Mapping[str, Mapping[str, tuple[str, ...] | None]] = {
    "gated_mlp": {"gated_mlp": ("silu", "gelu_tanh")},
    "dense_gelu_mlp": {"mlp": ("gelu_tanh",)},
    "any_mlp": {"gated_mlp": None, "mlp": None},
    "any_linear": {"norm_linear": None, "fused_linear": None},
}
_OPTIONS = ("input_quant", *KERNELS, "scales", "storage")

Scales = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class StaticMlp:
    """The static MLPs that a `fusion_config` asks for.

    Args:
        families: families that sites may have.
        storage: type of the quantized copies of weights.
        scales: by the path of a linear: `input_scale`, and `weight_scale`,
            which is a number or "per_channel".
        activations: allowed activations by family; a family that is missing
            allows all.
        endpoints: kernels of the Hub by their names in the config, either
            all of them or none.
        planned: whether the scales are still unknown. Those given stand for
            others, and quantized copies of weights have no values.
        measured: whether a calibration of the same weights chose the scales.
    """

    families: tuple[str, ...]
    storage: str = "f8E4M3FN"
    scales: Scales = field(default_factory=dict)
    activations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    planned: bool = False
    measured: bool = False

    @property
    def has_linears(self) -> bool:
        """Whether linears of attention are sites, too."""
        return "norm_linear" in self.families

    def below(self, parent: str) -> StaticMlp:
        """The same request with paths relative to `parent`."""
        prefix = f"{parent}." if parent else ""
        return StaticMlp(
            self.families,
            self.storage,
            {
                path.removeprefix(prefix): dict(entry)
                for path, entry in self.scales.items()
                if path.startswith(prefix)
            },
            self.activations,
            planned=self.planned,
            measured=self.measured,
        )


def config_of(model: nn.Module) -> Mapping[str, Any] | None:
    """`model.config.fusion_config` without the fusions of transformers itself.

    Raises:
        PatternError: a fusion is unknown.
    """
    config = getattr(getattr(model, "config", None), "fusion_config", None)
    if not isinstance(config, Mapping):
        return config
    return {
        name: options
        for name, options in config.items()
        if name not in _OF_TRANSFORMERS
    }


def asks_for_fusion(model: nn.Module) -> bool:
    """Whether the config of a model asks for static MLPs.

    Raises:
        PatternError: the config is malformed.
    """
    return parse(config_of(model)) is not None


def parse(config: Mapping[str, Any] | None) -> StaticMlp | None:
    """The static MLPs of a `fusion_config`, if it has them.

    Raises:
        PatternError: an unknown fusion or option, or a kernel that is not
            named.
    """
    if config is None:
        return None
    if not isinstance(config, Mapping):
        raise PatternError(
            f"fusion_config is a {type(config).__name__}; "
            f"expected a mapping with '{FUSION}'"
        )
    unknown = [name for name in config if name != FUSION]
    if unknown:
        raise PatternError(
            f"unknown fusion '{unknown[0]}' in fusion_config; "
            f"expected '{FUSION}'"
        )
    options = config.get(FUSION, False)
    if options is False:
        return None
    if not isinstance(options, Mapping):
        raise PatternError(
            f"'{FUSION}' needs its kernels by name, got {options!r}; expected "
            "a mapping such as {'input_quant': 'fuse', 'gated_mlp': 'fuse'}"
        )
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise PatternError(
            f"'{FUSION}' has no option '{unknown[0]}'; "
            "expected " + ", ".join(_OPTIONS)
        )
    named = [name for name in KERNELS if options.get(name, False) is not False]
    if not named:
        raise PatternError(
            f"'{FUSION}' names no kernel for "
            + " or ".join(f"'{name}'" for name in KERNELS)
        )
    if "input_quant" not in options:
        raise PatternError(f"'{FUSION}' names no kernel for 'input_quant'")
    endpoints = {
        name: found
        for name in ("input_quant", *named)
        if (found := endpoint(name, options[name])) is not None
    }
    own = [name for name in ("input_quant", *named) if name not in endpoints]
    if endpoints and own:
        raise PatternError(
            f"'{FUSION}' has kernels of the Hub for "
            + ", ".join(endpoints)
            + f" and '{ANY_FAMILY}' for "
            + ", ".join(own)
            + "; name the one or the other for all"
        )
    families: dict[str, tuple[str, ...] | None] = {}
    for name in named:
        families.update(KERNELS[name])
    scales = options.get("scales", {})
    storage = options.get("storage")
    source = ""
    if isinstance(scales, Calibration):
        scales = scales.scales
    elif isinstance(scales, (str, Path)):
        source = str(scales)
        scales = _read_scales(scales)
    _check_scales(scales)
    storage = _storage_of(scales, storage, source)
    largest_value(storage)
    return StaticMlp(
        tuple(families),
        storage,
        scales,
        {
            family: known
            for family, known in families.items()
            if known is not None
        },
        endpoints,
    )


def _storage_of(scales: Scales, storage: str | None, source: str) -> str:
    """The type that scales were made for.

    Args:
        scales: the entries of each linear, by its path.
        storage: that of the `fusion_config`, if it names one.
        source: the file of the scales; empty for a mapping.

    Raises:
        PatternError: scales are for another type, or a file lacks the type.
    """
    for path, entry in scales.items():
        made = entry.get("storage")
        if made is None and source and storage is None:
            raise PatternError(
                f"'{source}' does not say which type the scales of linear "
                f"'{path}' were made for; name it as 'storage' of '{FUSION}': "
                "f8E4M3FN, f8E5M2 or i8"
            )
        if made is not None and made != (storage or made):
            raise PatternError(
                f"the scales of linear '{path}' were made for {made}, and "
                f"'{FUSION}' asks for {storage}; calibrate for {storage}, or "
                f"ask for {made}"
            )
        storage = storage or made
    return storage or "f8E4M3FN"


def _read_scales(path: str | Path) -> object:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise PatternError(
            f"cannot read the scales '{path}': {error.strerror}"
        ) from error
    except ValueError as error:
        raise PatternError(
            f"the scales '{path}' are not JSON: {error}"
        ) from error


def _check_scales(scales: object) -> None:
    if not isinstance(scales, Mapping):
        raise PatternError(
            f"scales are a {type(scales).__name__}; expected a "
            "mapping of linears, or the path of a JSON file"
        )
    for path, entry in scales.items():
        if not isinstance(entry, Mapping):
            raise PatternError(
                f"the scales of linear '{path}' are {entry!r}; "
                "expected a mapping of input_scale and "
                "weight_scale"
            )
        for name, value in entry.items():
            if name == "storage" and isinstance(value, str):
                continue
            if name not in ("input_scale", "weight_scale"):
                raise PatternError(
                    f"the scales of linear '{path}' have the "
                    f"unknown '{name}'; expected input_scale, "
                    "weight_scale and storage"
                )
            is_number = isinstance(value, (int, float)) and not isinstance(
                value, bool
            )
            if not is_number and (name, value) != (
                "weight_scale",
                "per_channel",
            ):
                more = " or 'per_channel'" if name == "weight_scale" else ""
                raise PatternError(
                    f"'{name}' of linear '{path}' is "
                    f"{value!r}; expected a number{more}"
                )


def check_paths(static: StaticMlp | None, model: nn.Module) -> None:
    """Checks that `model` has the modules of all scales.

    Raises:
        PatternError: a module is missing.
    """
    for path in static.scales if static else ():
        try:
            model.get_submodule(path)
        except AttributeError:
            linears = [
                name
                for name, module in model.named_modules()
                if isinstance(module, nn.Linear)
            ]
            more = ", ..." if len(linears) > 4 else ""
            raise PatternError(
                f"there are scales for '{path}', which is not a module of "
                f"{type(model).__name__}; its linears are "
                + ", ".join(linears[:4])
                + more
            ) from None


# Stored copies of members.


# Calibration.
