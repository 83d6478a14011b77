# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes a chain of modules out of a model and exports it."""

from __future__ import annotations

import contextlib
import difflib
import io
import logging
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

# A dimension of an input: a size, or the name of a dynamic dimension.
DimSpec = Union[int, str]


class BlockError(Exception):
    """A request that the model cannot meet; the text names both."""


class Chain(nn.Module):
    """Modules of a model, called one after the other.

    The members keep their dotted paths, so parameters and module paths in the
    exported program are those of the model.
    """

    def __init__(self, members: Mapping[str, nn.Module],
                 residual: bool = False) -> None:
        super().__init__()
        self._paths = list(members)
        self._residual = residual
        for path, module in members.items():
            parent: nn.Module = self
            *containers, name = path.split(".")
            for container in containers:
                if container not in parent._modules:
                    parent.add_module(container, nn.Module())
                parent = parent.get_submodule(container)
            parent.add_module(name, module)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        residual = hidden_states
        for path in self._paths:
            hidden_states = self.get_submodule(path)(hidden_states)
        if self._residual:
            hidden_states = residual + hidden_states
        return hidden_states


def take_chain(model: nn.Module, parent: str, members: Sequence[str],
               residual: bool = False) -> Chain:
    """The modules `members` below the path `parent` of `model`."""
    found = {}
    for member in members:
        path = f"{parent}.{member}" if parent else member
        found[path] = _submodule(model, path)
    return Chain(found, residual).eval()


def _submodule(model: nn.Module, path: str) -> nn.Module:
    module, walked = model, ""
    for name in path.split("."):
        children = dict(module.named_children())
        if name not in children:
            where = f"'{walked}'" if walked else "the model"
            raise BlockError(f"no module '{path}': {where} has no child "
                             f"'{name}'; it has "
                             + (", ".join(children) or "none"))
        module = children[name]
        walked = f"{walked}.{name}" if walked else name
    return module


def build_model(architecture: str, settings: Mapping[str, Any],
                dtype: torch.dtype, device: str = "meta") -> nn.Module:
    """A model of transformers from its config alone.

    By default without storage: parameters are on the meta device until
    `seed_weights` draws them.
    """
    return build_from_config(config_of(architecture, settings), dtype, device)


def config_of(architecture: str, settings: Mapping[str, Any]) -> Any:
    """The config of a model type with some settings.

    Raises:
        BlockError: the type or a setting is unknown.
    """
    import transformers

    if architecture not in transformers.CONFIG_MAPPING:
        if "/" in architecture or architecture.endswith(".json"):
            raise BlockError(f"'{architecture}' does not exist; expected a "
                             "directory with a model, a config.json, or an "
                             "architecture of transformers")
        raise BlockError(f"unknown architecture '{architecture}'"
                         + _similar(architecture,
                                    transformers.CONFIG_MAPPING))
    try:
        config = transformers.AutoConfig.for_model(architecture, **settings)
    except Exception as error:
        raise settings_error(architecture, error) from error
    check_settings(config, settings)
    return config


def check_settings(config: Any, settings: Mapping[str, Any]) -> None:
    """Whether a config knows all settings that a user gave.

    Raises:
        BlockError: one is unknown; with names that are similar.
    """
    known = _config_fields(config)
    unknown = [k for k in settings if k not in known]
    if unknown:
        raise BlockError(f"{type(config).__name__} has no setting "
                         + ", ".join(f"'{k}'" for k in unknown)
                         + _similar(unknown[0], known))


def _similar(name: str, known: Iterable[str]) -> str:
    """The end of an error about a name that is none of those known."""
    close = difflib.get_close_matches(name, sorted(known), n=6)
    return f"; similar: {', '.join(close)}" if close else ""


def build_from_config(config: Any, dtype: torch.dtype,
                      device: str = "meta") -> nn.Module:
    """The model of a config, by default with its parameters on the meta
    device."""
    try:
        with torch.device(device), _default_dtype(dtype):
            model = _make(config)
    except BlockError:
        raise
    except Exception as error:
        raise settings_error(config.model_type, error) from error
    # What is made by torch.Tensor(size) knows no default device.
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.device.type != torch.device(device).type:
                setattr(module, name, nn.Parameter(
                    parameter.to(device), parameter.requires_grad))
    return model


def settings_error(architecture: str, error: Exception) -> BlockError:
    """What transformers says of settings, as an error of ours.

    Configs and models check settings with whatever error comes to hand.
    """
    reason = error.__cause__ or error
    return BlockError(f"transformers cannot build '{architecture}' with these "
                      f"settings: {reason_of(reason)}")


def _config_fields(config: Any) -> set[str]:
    return set(type(config)().to_dict())


def load_model(path: str | Path, dtype: torch.dtype,
               config: Any = None) -> nn.Module:
    """A model with its weights from a local directory.

    Checkpoints with weights in 8 bits keep them and their scales, and their
    linears are computed with PyTorch, except for the FP8 layout of
    transformers where there is a GPU.

    Args:
        path: directory with config.json and weights.
        dtype: of parameters in floating point.
        config: instead of that of the directory.

    Raises:
        BlockError: the directory, its format, a package or a weight is
            missing or not supported.
    """
    import transformers

    from fuse_mlir import checkpoint, formats

    if not Path(path).is_dir():
        raise BlockError(f"no directory '{path}'")
    method = (formats.quantization_of(path) or {}).get("quant_method")
    if method == "fp8" and not torch.cuda.is_available():
        return checkpoint.load_fp8(path, dtype)
    if method != "fp8" and checkpoint.is_stored_checkpoint(path):
        return checkpoint.load_stored(path, dtype)
    config = config or transformers.AutoConfig.from_pretrained(path)
    return checkpoint.from_pretrained(model_class(config), path, dtype,
                                      config)


def model_class(config: Any) -> Any:
    """The class of transformers that a config's `architectures` names.

    Without that, the class with a language-model head where there is one,
    because its module paths are the ones that checkpoints use.

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
                + _similar(name, dir(transformers)))
        return kind
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        return transformers.AutoModelForCausalLM
    return transformers.AutoModel


def _make(config: Any) -> nn.Module:
    kind = model_class(config)
    make = getattr(kind, "from_config", None) or kind._from_config
    return make(config)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def seed_weights(module: nn.Module, seed: int) -> nn.Module:
    """Gives every parameter storage and drawn values.

    Matrices get the scale that keeps activations near one. Vectors get noise
    around what the module's own initialization has there, so that a norm
    weight of ones or zeros cannot hide a missing or an extra factor.
    """
    buffers = [n for n, b in module.named_buffers() if b.is_meta]
    if buffers:
        raise BlockError("cannot draw values for buffers: "
                         + ", ".join(buffers))
    generator = torch.Generator().manual_seed(seed)
    centers = _vector_centers(module)
    drawn: dict[int, nn.Parameter] = {}
    for owner in module.modules():
        for name, old in owner.named_parameters(recurse=False):
            if id(old) not in drawn:
                noise = torch.randn(old.shape, generator=generator,
                                    device="cpu")
                if old.dim() >= 2:
                    noise *= old.shape[-1] ** -0.5
                else:
                    noise = centers[id(old)] + 0.1 * noise
                if not old.is_meta:
                    noise = noise.to(old.device)
                drawn[id(old)] = nn.Parameter(noise.to(old.dtype),
                                              requires_grad=False)
            setattr(owner, name, drawn[id(old)])
    return module


def _vector_centers(module: nn.Module) -> dict[int, float]:
    """What parameters of rank one start from: biases and the weights of
    norms that add one to them start from zero, other weights from one."""
    centers = {}
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            source = type(owner)
            zero = name.endswith("bias") or _adds_one(source)
            centers[id(parameter)] = 0.0 if zero else 1.0
    return centers


def _adds_one(kind: type) -> bool:
    """Whether a norm class starts from zeros; read off a fresh instance."""
    with contextlib.suppress(Exception):
        instance = kind(8)
        return all(bool((p == 0).all()) for p in instance.parameters())
    return False


def example_input(shape: Sequence[DimSpec], sizes: Mapping[str, int],
                  dtype: torch.dtype, seed: int) -> torch.Tensor:
    """A random input; named dimensions get the sizes given for them."""
    missing = [d for d in shape if isinstance(d, str) and d not in sizes]
    if missing:
        raise BlockError(f"no size given for dimension '{missing[0]}'")
    concrete = [sizes[d] if isinstance(d, str) else d for d in shape]
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(concrete, generator=generator, device="cpu").to(dtype)


_TRACING = threading.RLock()


#: Logs of PyTorch that tell of failures before they are raised.
_LOGS = ("torch._subclasses.fake_tensor",
         "torch.fx.experimental.symbolic_shapes")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """For what traces modules: one thread at a time, because PyTorch has one
    state for all of them, and without the log and the printed graph of
    failures that are dealt with."""
    logs = [logging.getLogger(name) for name in _LOGS]
    printed, graph = io.StringIO(), ""
    with _TRACING:
        before = [log.disabled for log in logs]
        try:
            for log in logs:
                log.disabled = True
            with contextlib.redirect_stderr(printed):
                yield
        except Exception as error:
            graph = str(getattr(error, "partial_fx_graph", ""))
            raise
        finally:
            for log, disabled in zip(logs, before):
                log.disabled = disabled
            # What others print meanwhile is not lost.
            sys.stderr.write(printed.getvalue().replace(f"{graph}\n", "")
                             if graph else printed.getvalue())


def export_module(module: nn.Module, shape: Sequence[DimSpec],
                  dtype: torch.dtype) -> ExportedProgram:
    """torch.export with the named dimensions of `shape` dynamic."""
    names = sorted({d for d in shape if isinstance(d, str)})
    # Sizes 0 and 1 would be specialized; equal ones would be identified.
    sizes = {name: 5 + 2 * i for i, name in enumerate(names)}
    dims = {name: Dim(name, min=1) for name in names}
    dynamic = {i: dims[d] for i, d in enumerate(shape) if isinstance(d, str)}
    example = example_input(shape, sizes, dtype, seed=0)
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(module, (example,),
                                       dynamic_shapes=(dynamic or None,))
    # Whatever the module or the tracer raises is about the module.
    except Exception as error:
        raise BlockError("PyTorch cannot export the modules: "
                         f"{reason_of(error)}; their input has the shape "
                         + ",".join(map(str, shape))) from error


def reason_of(error: BaseException) -> str:
    """The kind of an error and the first line of its text."""
    first = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first}"


def parse_shape(text: str) -> list[DimSpec]:
    """`tokens,1024`: sizes and names of dynamic dimensions."""
    shape: list[DimSpec] = []
    for part in text.split(","):
        part = part.strip()
        if part.isdecimal() and int(part) > 0:
            shape.append(int(part))
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part):
            shape.append(part)
        else:
            raise BlockError(f"bad dimension '{part}' in shape '{text}'; "
                             "expected a positive size or a name")
    return shape
