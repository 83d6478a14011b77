# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuses models while transformers loads them, if their configs ask for it.

A refused site keeps its members. `from_pretrained` returns only the model, so a
`FusionWarning` carries the first reason, and `fusion_result` returns all sites.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from fuse_mlir.errors import FlowError, FuseError, FusionWarning
from fuse_mlir.fusion.modules import fuse_modules
from fuse_mlir.fusion.results import FusionResult
from fuse_mlir.matching import static_mlp
from fuse_mlir.matching.patterns import KernelMapping
from fuse_mlir.matching.sites import join
from fuse_mlir.support.fusion_registry import known_to_transformers

_RESULT = "_fuse_result"


def fuse_loaded(
    model: nn.Module,
    patterns: KernelMapping | None,
    fusion_config: Mapping[str, Any] | None = None,
) -> FusionResult:
    """Fuses the sites of a model that was just loaded.

    A `FusionWarning` reports refused sites, and a model without any site that
    can be fused. After a second, a bar shows the progress if transformers shows
    its bars.

    Raises:
        PatternError: the config is wrong: an unknown option, or a path that
            selects nothing.
    """
    result = FusionResult()
    try:
        result = fuse_modules(
            model,
            patterns,
            strict=False,
            fusion_config=fusion_config,
            progress=shows_progress(),
        )
    except (FuseError, FlowError) as error:
        result.note = str(error)
        warnings.warn(
            f"nothing of {type(model).__name__} is fused: {error}",
            FusionWarning,
            stacklevel=2,
        )
    model.__dict__[_RESULT] = result
    refused = result.refused
    if refused:
        first = refused[0]
        more = (
            f" ({len(refused) - 1} more are refused, see fuse_mlir."
            "fusion_result(model))"
            if len(refused) > 1
            else ""
        )
        warnings.warn(
            f"site '{join(first.parent, first.id)}' is not fused: "
            f"{first.reason}{more}",
            FusionWarning,
            stacklevel=2,
        )
    return result


def shows_progress() -> bool:
    """Whether transformers shows its progress bars, as loading has no argument
    for others."""
    try:
        from transformers.utils.logging import is_progress_bar_enabled
    except ImportError:
        return False
    return bool(is_progress_bar_enabled())


def fusion_result(model: nn.Module) -> FusionResult | None:
    """The sites of a model that was fused while it was loaded.

    Returns:
        The result of `fuse_modules` at that time. None for other models.

    Examples:
        >>> print(fuse_mlir.fusion_result(model))
        None
    """
    return model.__dict__.get(_RESULT)


@contextlib.contextmanager
def fusion_at_load() -> Iterator[None]:
    """Fuses models that `from_pretrained` of transformers loads in a `with`.

    It fuses two kinds of models that transformers alone cannot fuse:

    - Models whose config has a `fusion_config` with `static_quantized_mlp`.
      transformers 5.23 refuses to load them because of an unknown fusion.
    - Models with chains in their `kernel_config`, if the package `kernels` is
      missing.

    The `with` replaces `PreTrainedModel.from_pretrained` for all threads.

    Raises:
        ImportError: transformers is not installed.

    Examples:
        >>> import transformers
        >>> chain = (
        ...     ("Qwen3RMSNorm", "model.layers.*.post_attention_layernorm"),
        ...     ("Qwen3MLP", "model.layers.*.mlp"),
        ... )
        >>> with fuse_mlir.fusion_at_load():
        ...     loaded = transformers.AutoModelForCausalLM.from_pretrained(
        ...         checkpoint,
        ...         use_kernels=True,
        ...         kernel_config=fuse_mlir.KernelConfig({chain: "fuse"}),
        ...     )
        >>> len(fuse_mlir.fusion_result(loaded).fused)
        1
    """
    from transformers import PreTrainedModel

    own = PreTrainedModel.__dict__["from_pretrained"]

    def from_pretrained(cls: type, *args: object, **options: object) -> object:
        config = options.get("kernel_config")
        alone = (
            config
            if isinstance(config, KernelMapping)
            and config.fusions
            and not config.layers
            and not kernels_available()
            else None
        )
        if alone is not None:
            options = {
                name: value
                for name, value in options.items()
                if name not in ("kernel_config", "use_kernels")
            }
        loaded = own.__func__(cls, *args, **options)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if alone is not None:
            fuse_loaded(model, alone)
        elif fusion_result(model) is None and static_mlp.asks_for_fusion(model):
            fuse_loaded(model, None)
        return loaded

    setattr(PreTrainedModel, "from_pretrained", classmethod(from_pretrained))
    try:
        with known_to_transformers():
            yield
    finally:
        setattr(PreTrainedModel, "from_pretrained", own)


def kernels_available() -> bool:
    """Whether transformers can load kernels of the Hub: the package `kernels`
    is installed in a version that it supports."""
    try:
        from transformers.utils import is_kernels_available
    except ImportError:
        return False
    return bool(is_kernels_available())
