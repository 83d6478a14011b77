# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets transformers load models whose config has a `fusion_config` of fuse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

#: The fusion of a `fusion_config` that is made after loading.
FUSION = "static_quantized_mlp"


@contextlib.contextmanager
def known_to_transformers() -> Iterator[None]:
    """Adds the fusion to those of transformers, which changes no model, for as
    long as a `with` lasts. transformers 5.23 refuses to load a model with one
    that it does not know. Where it has no such registry, nothing happens.
    """
    try:
        from transformers import fusion_mapping

        registry = fusion_mapping._FUSION_REGISTRY
    except (ImportError, AttributeError):
        yield
        return

    class AfterLoading(fusion_mapping.ModuleFusionSpec):
        """Changes nothing before there are weights."""

        def is_fusable(self, module: nn.Module) -> bool:
            return False

    before = registry.get(FUSION)
    registry[FUSION] = AfterLoading()
    try:
        yield
    finally:
        if before is None:
            del registry[FUSION]
        else:
            registry[FUSION] = before
