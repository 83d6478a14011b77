# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets transformers load models with a `fusion_config` of fuse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

#: The fusion of a `fusion_config` that fuse makes after loading.
FUSION = "static_quantized_mlp"


@contextlib.contextmanager
def known_to_transformers() -> Iterator[None]:
    """Registers the fusion with transformers for the duration of a `with`.

    The registered fusion does not change models. transformers 5.23 refuses to
    load a model with an unknown fusion. Without such a registry, nothing
    happens.
    """
    try:
        from transformers import fusion_mapping

        registry = fusion_mapping._FUSION_REGISTRY
    except (ImportError, AttributeError):
        yield
        return

    class AfterLoading(fusion_mapping.ModuleFusionSpec):
        """Changes nothing while the model has no weights."""

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
