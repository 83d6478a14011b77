# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLPs of a loaded model with static scales.

Linears with stored weights, as FP8 checkpoints have them, are read with their
scales and keep their memory. Linears in floating point get scales from a
calibration, and a stored copy of their weights. Either way the modules of the
model stay what they are; kernels are made from copies of the members in which
`StoredLinear` stands for such linears.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fuse_mlir.arguments import require_module
from fuse_mlir.calibration import Calibration, CalibrationError
from fuse_mlir.calibration import calibrate as choose_scales
from fuse_mlir.endpoints import Endpoint, endpoint
from fuse_mlir.emulation import (emulated, entries_of, is_fp8_linear,
                                 policy_for)
from fuse_mlir.experts import looks_like_experts, stand_in
from fuse_mlir.fusion_registry import FUSION
from fuse_mlir.formulas import RoundedOnce, rounds_inside
from fuse_mlir.patterns import ANY_FAMILY, PatternError
from fuse_mlir.ranges import (Range, about, as_scale, largest_value,
                              quantize)
from fuse_mlir.stored import (INPUT_SCALES, Policy, make_linear,
                              read_linear)

#: Fusions that transformers makes itself, before a model has weights.
_OF_TRANSFORMERS = ("patch_embeddings",)
#: Kernels that it names, with the families that each takes, and for each family
#: the activations, or None for all.
KERNELS: Mapping[str, Mapping[str, tuple[str, ...] | None]] = {
    "gated_mlp": {"gated_mlp": ("silu", "gelu_tanh")},
    "dense_gelu_mlp": {"mlp": ("gelu_tanh",)},
    "any_mlp": {"gated_mlp": None, "mlp": None}}
_OPTIONS = ("input_quant", *KERNELS, "scales", "storage")

Scales = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class StaticMlp:
    """What a `fusion_config` asks for.

    Args:
        families: that sites may have.
        storage: type of stored weights that are made.
        scales: by the path of a linear, `input_scale` and `weight_scale`,
            which is a number or "per_channel".
        activations: of a family that sites may have; all of one that is not
            named.
        endpoints: kernels of the Hub, by their names in the config; all of
            them, or none.
    """

    families: tuple[str, ...]
    storage: str = "f8E4M3FN"
    scales: Scales = field(default_factory=dict)
    activations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)

    def below(self, parent: str) -> "StaticMlp":
        """The same with paths counted from `parent`."""
        prefix = f"{parent}." if parent else ""
        return StaticMlp(self.families, self.storage, {
            path.removeprefix(prefix): dict(entry)
            for path, entry in self.scales.items()
            if path.startswith(prefix)}, self.activations)


def config_of(model: nn.Module) -> Mapping[str, Any] | None:
    """`model.config.fusion_config` without what transformers does itself.

    Raises:
        PatternError: it has a fusion that nobody makes.
    """
    config = getattr(getattr(model, "config", None), "fusion_config", None)
    if not isinstance(config, Mapping):
        return config
    return {name: options for name, options in config.items()
            if name not in _OF_TRANSFORMERS}


def asks_for_fusion(model: nn.Module) -> bool:
    """Whether the config of a model asks for static MLPs.

    Raises:
        PatternError: in a way that can not be used.
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
        raise PatternError(f"fusion_config is a {type(config).__name__}; "
                           f"expected a mapping with '{FUSION}'")
    unknown = [name for name in config if name != FUSION]
    if unknown:
        raise PatternError(f"unknown fusion '{unknown[0]}' in fusion_config; "
                           f"expected '{FUSION}'")
    options = config.get(FUSION, False)
    if options is False:
        return None
    if not isinstance(options, Mapping):
        raise PatternError(
            f"'{FUSION}' needs its kernels by name, got {options!r}; expected "
            "a mapping such as {'input_quant': 'fuse', 'gated_mlp': 'fuse'}")
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise PatternError(f"'{FUSION}' has no option '{unknown[0]}'; "
                           "expected " + ", ".join(_OPTIONS))
    named = [name for name in KERNELS if options.get(name, False) is not False]
    if not named:
        raise PatternError(f"'{FUSION}' names no kernel for "
                           + " or ".join(f"'{name}'" for name in KERNELS))
    if "input_quant" not in options:
        raise PatternError(f"'{FUSION}' names no kernel for 'input_quant'")
    endpoints = {name: found for name in ("input_quant", *named)
                 if (found := endpoint(name, options[name])) is not None}
    own = [name for name in ("input_quant", *named) if name not in endpoints]
    if endpoints and own:
        raise PatternError(
            f"'{FUSION}' has kernels of the Hub for "
            + ", ".join(endpoints) + f" and '{ANY_FAMILY}' for "
            + ", ".join(own) + "; name the one or the other for all")
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
    return StaticMlp(tuple(families), storage, scales, {
        family: known for family, known in families.items()
        if known is not None}, endpoints)


def _storage_of(scales: Scales, storage: str | None, source: str) -> str:
    """The type that scales were made for.

    Args:
        storage: that of the `fusion_config`, if it names one.
        source: the file that the scales are from, if they are from one.

    Raises:
        PatternError: scales are for another type, or a file does not say.
    """
    for path, entry in scales.items():
        made = entry.get("storage")
        if made is None and source and storage is None:
            raise PatternError(
                f"'{source}' does not say which type the scales of linear "
                f"'{path}' were made for; name it as 'storage' of '{FUSION}': "
                "f8E4M3FN, f8E5M2 or i8")
        if made is not None and made != (storage or made):
            raise PatternError(
                f"the scales of linear '{path}' were made for {made}, and "
                f"'{FUSION}' asks for {storage}; calibrate for {storage}, or "
                f"ask for {made}")
        storage = storage or made
    return storage or "f8E4M3FN"


def _read_scales(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise PatternError(f"cannot read the scales '{path}': "
                           f"{error.strerror}") from error
    except ValueError as error:
        raise PatternError(f"the scales '{path}' are not JSON: {error}") \
            from error


def _check_scales(scales: Any) -> None:
    if not isinstance(scales, Mapping):
        raise PatternError(f"scales are a {type(scales).__name__}; expected a "
                           "mapping of linears, or the path of a JSON file")
    for path, entry in scales.items():
        if not isinstance(entry, Mapping):
            raise PatternError(f"the scales of linear '{path}' are {entry!r}; "
                               "expected a mapping of input_scale and "
                               "weight_scale")
        for name, value in entry.items():
            if name == "storage" and isinstance(value, str):
                continue
            if name not in ("input_scale", "weight_scale"):
                raise PatternError(f"the scales of linear '{path}' have the "
                                   f"unknown '{name}'; expected input_scale, "
                                   "weight_scale and storage")
            is_number = isinstance(value, (int, float)) \
                and not isinstance(value, bool)
            if not is_number and (name, value) != ("weight_scale",
                                                   "per_channel"):
                more = " or 'per_channel'" if name == "weight_scale" else ""
                raise PatternError(f"'{name}' of linear '{path}' is "
                                   f"{value!r}; expected a number{more}")


def check_paths(static: StaticMlp | None, model: nn.Module) -> None:
    """Whether scales are those of modules that `model` has.

    Raises:
        PatternError: one is not there.
    """
    for path in static.scales if static else ():
        try:
            model.get_submodule(path)
        except AttributeError:
            linears = [name for name, module in model.named_modules()
                       if isinstance(module, nn.Linear)]
            more = ", ..." if len(linears) > 4 else ""
            raise PatternError(
                f"there are scales for '{path}', which is no module of "
                f"{type(model).__name__}; its linears are "
                + ", ".join(linears[:4]) + more) from None


# Stored copies of members.


@dataclass
class Copies:
    """Members for kernels, and what they were made from."""

    members: list[nn.Module]
    #: Parameters whose change asks for new copies: the owner and the name,
    #: and whether its values count or its place alone.
    watched: list[tuple[nn.Module, str, bool]]
    #: Activations that round once here.
    once: list[str] = field(default_factory=list)

    @property
    def note(self) -> str:
        """What kernels round otherwise than the members; empty for nothing."""
        if not self.once:
            return ""
        return ("with " + ", ".join(f"'{path}'" for path in self.once)
                + " rounded once")

    def state(self) -> list[tuple[int, int]]:
        """Differs when a watched parameter was replaced or changed."""
        found = []
        for owner, name, values in self.watched:
            tensor = getattr(owner, name)
            version = tensor._version \
                if values and not tensor.is_inference() else 0
            found.append((tensor.data_ptr(), version))
        return found


def stored_members(names: Iterable[str], members: Iterable[nn.Module],
                   static: StaticMlp | None,
                   relaxed: bool = False) -> Copies:
    """Members in which linears with scales are `StoredLinear`s, and experts
    are one op.

    Members without any are themselves.

    Args:
        names: of the members, for messages and for the scales of `static`.
        members: stay as they are.
        static: its paths count from the parent of the members; when given,
            a linear without a stored weight and scales is refused.
        relaxed: whether activations round once.

    Raises:
        Refused: a linear that can not be expressed as it is stored.
        UnknownExperts: experts that no op computes.
    """
    copies = Copies([], [])
    for name, member in zip(names, members):
        copies.members.append(_stored_copy(member, name, static, copies,
                                           relaxed))
    return copies


def _stored_copy(module: nn.Module, path: str, static: StaticMlp | None,
                 copies: Copies, relaxed: bool) -> nn.Module:
    if isinstance(module, nn.Linear):
        return _stored_linear(module, path, static, copies)
    if looks_like_experts(module):
        return stand_in(module, path)
    if relaxed and rounds_inside(module):
        copies.once.append(path)
        return RoundedOnce(module)
    children = {name: None if child is None else _stored_copy(
        child, f"{path}.{name}", static, copies, relaxed)
        for name, child in module._modules.items()}
    if all(child is module._modules[name]
           for name, child in children.items()):
        return module
    clone = copy.copy(module)
    clone.__dict__["_modules"] = children
    return clone


def _stored_linear(module: nn.Linear, path: str, static: StaticMlp | None,
                   copies: Copies) -> nn.Module:
    chosen = {} if static is None else static.scales.get(path, {})
    entries = entries_of(module)
    shown = None
    if is_fp8_linear(module):
        copies.watched += [(module, name, name not in ("weight", "bias"))
                           for name in entries]
        policy = policy_for(module)
        if "input_scale" in chosen:
            for name in INPUT_SCALES:
                entries.pop(name, None)
            entries["input_scale"] = as_scale(chosen["input_scale"])
    elif static is None:
        return module
    elif chosen:
        copies.watched.append((module, "weight", True))
        policy = Policy()
        shown = module.weight.dtype
        entries = _quantized(module, path, chosen, static.storage)
    else:
        # Says what is missing.
        read_linear(path, entries, Policy())
        return module
    if module.weight.is_meta:
        # Any scale will do where there is no data.
        entries = {name: torch.ones(tensor.shape, dtype=tensor.dtype,
                                    device="cpu")
                   if "scale" in name else tensor
                   for name, tensor in entries.items()}
    return make_linear(path, entries, policy, torch.bfloat16, shown=shown)[0]


def _quantized(module: nn.Linear, path: str, chosen: Mapping[str, Any],
               storage: str) -> dict[str, torch.Tensor]:
    """Entries of a linear in floating point, as a checkpoint has them."""
    missing = [name for name in ("input_scale", "weight_scale")
               if name not in chosen]
    if missing:
        raise PatternError(f"the scales of linear '{path}' have no "
                           f"'{missing[0]}'")
    weight = module.weight.detach()
    scale = chosen["weight_scale"]
    if weight.is_meta:
        stored = {"f8E4M3FN": torch.float8_e4m3fn, "i8": torch.int8,
                  "f8E5M2": torch.float8_e5m2}[storage]
        number = torch.ones(weight.shape[0] if scale == "per_channel" else 1,
                            device="cpu")
        return {"weight": weight.to(stored), "weight_scale": number,
                "input_scale": as_scale(1.0), "bias": module.bias}
    if scale == "per_channel":
        largest = largest_value(storage)
        amax = weight.float().abs().amax(dim=1)
        # A channel of zeros is stored as zeros with any scale.
        factor = amax.where(amax >= largest * 2.0 ** -100,
                            torch.full_like(amax, largest)) / largest
        column = factor[:, None]
    else:
        factor = column = as_scale(float(scale))
    return {"weight": quantize(weight, column.to(weight.device), storage),
            "weight_scale": factor, "bias": module.bias,
            "input_scale": as_scale(float(chosen["input_scale"]))}


# Calibration.


def calibrate(model: nn.Module, data: Iterable[Any], patterns: Any = None, *,
              storage: str = "f8E4M3FN", method: str = "amax",
              percentile: float = 99.99, per_channel: bool = False,
              strict: bool | None = None, rounding: str = "exact",
              progress: Callable[[int, int, str], None] | None = None) -> Any:
    """Fuses the MLPs of `model` with static scales that `data` lead to.

    The model runs on all of `data` as it is, and every value that a linear of
    a site reads is counted. Then the sites are fused with stored copies of
    their weights; `unfuse_modules` brings the modules back, which were not
    changed.

    Args:
        model: in eval mode, on the CPU or CUDA. What is fused already stays
            as it is.
        data: inputs of one call each: a tensor, a tuple or a dict.
        patterns: as for `fuse_modules`.
        storage: f8E4M3FN, f8E5M2 or i8.
        method: amax, percentile or mse; see docs/Quantization.md.
        percentile: share of values that does not saturate, for that method.
        per_channel: one scale per output channel of a weight, by amax.
        strict, rounding: as for `fuse_modules`.
        progress: called after each of `data` and each site.

    Returns:
        The sites, as `fuse_modules` does, with `calibration`: the scales and
        what they were made from, for `calibration.report_text` and for the
        `scales` of a `fusion_config`.

    Raises:
        CalibrationError: no data, training mode, or a linear without a site.
        RangeError: a value that is not finite, or nothing but zeros.
        As `fuse_modules`.
    """
    from fuse_mlir import modules

    require_module(model)
    if not isinstance(data, Iterable) \
            or isinstance(data, (torch.Tensor, Mapping, str, bytes)):
        raise CalibrationError(
            f"data is a {type(data).__name__}; expected a list with the "
            "inputs of one call each")
    batches = list(data)
    if not batches:
        raise CalibrationError("calibration needs at least one input")
    if model.training:
        raise CalibrationError(f"{type(model).__name__} is in training mode; "
                               "call eval(), because scales are those of "
                               "inference")
    sites, _ = modules.select(model, patterns, batches[0])
    with modules.members_back(model), emulated(model):
        linears = {path: module for site in sites if site.refusal is None
                   for path, module in _linears(site)}
        if not linears:
            reason = next((f": {s.refusal}" for s in sites if s.refusal), "")
            raise CalibrationError(f"{type(model).__name__} has no site with "
                                   f"linears{reason}")
        ranges = _observe(model, linears, batches, progress)
        parameters = {f"{path}.weight": _real_weight(module)
                      for path, module in linears.items()}
    scales = choose_scales(ranges, parameters, storage, method, percentile,
                           per_channel)
    result = modules.fuse_modules(
        model, patterns, inputs=batches[0], strict=strict,
        rounding=rounding, progress=progress,
        fusion_config={FUSION: {"input_quant": ANY_FAMILY,
                                "any_mlp": ANY_FAMILY, "scales": scales}})
    result.calibration = scales
    return result


def _linears(site: Any) -> Iterable[tuple[str, nn.Linear]]:
    for path, member in zip(site.paths, site.members):
        for below, module in member.named_modules():
            if isinstance(module, nn.Linear):
                yield (f"{path}.{below}" if below else path), module


def _real_weight(module: nn.Linear) -> torch.Tensor:
    from fuse_mlir.stored import dequantized_weight

    if is_fp8_linear(module):
        return dequantized_weight(entries_of(module), Policy(),
                                  torch.float32)
    return module.weight.detach()


def _observe(model: nn.Module, linears: Mapping[str, nn.Linear],
             batches: list[Any],
             progress: Callable[[int, int, str], None] | None) \
        -> dict[str, Range]:
    from fuse_mlir.flow import call_arguments

    ranges = {path: Range(seed=i) for i, path in enumerate(linears)}

    def count(path: str) -> Callable:
        def hook(_module: nn.Module, args: tuple) -> None:
            with about(f"input of '{path}'"):
                ranges[path].add(args[0])
        return hook

    handles = [module.register_forward_pre_hook(count(path))
               for path, module in linears.items()]
    try:
        with torch.no_grad():
            for done, batch in enumerate(batches, 1):
                args, kwargs = call_arguments(model, batch)
                model(*args, **kwargs)
                if progress is not None:
                    progress(done, len(batches), "calibration")
    finally:
        for handle in handles:
            handle.remove()
    return ranges
