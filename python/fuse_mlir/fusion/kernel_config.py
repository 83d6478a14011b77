# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`KernelConfig`: kernels, by the modules that they replace.

`fuse_modules` and `from_pretrained` of transformers accept it. transformers
accepts only instances of its own class. If it is installed, instances are
therefore of a subclass of both classes. transformers loads the kernels of the
Hub. When the model has its weights, it calls `create_compatible_mapping` of the
object, which fuses the chains.
"""

from __future__ import annotations

import copy
import importlib.util
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from fuse_mlir.errors import PatternError
from fuse_mlir.fusion import at_load
from fuse_mlir.fusion.at_load import kernels_available
from fuse_mlir.matching.patterns import (
    KernelMapping,
    declaration,
    is_inline,
    kernel_of,
)
from fuse_mlir.matching.ptx_kernel import PtxKernel

if TYPE_CHECKING:
    from transformers import KernelConfig as HubConfig


def _is_hub(value: object) -> bool:
    """Whether transformers would read a value as kernels of the Hub.

    Such a value is `org/repo:Layer` or a local `/path:Layer`, a pair of that
    and options, or a mapping of devices to these.
    """
    if isinstance(value, str):
        return bool(re.fullmatch(r"[^:]+/[^:]+:\w+", value))
    if isinstance(value, tuple):
        return (
            len(value) == 2
            and _is_hub(value[0])
            and isinstance(value[1], Mapping)
        )
    return isinstance(value, Mapping)


class KernelConfig(KernelMapping):
    """Kernels, by the modules that they replace.

    Args:
        kernels: a mapping whose keys are
            - tuples of `(class, path glob)`: a chain, given in place;
            - tuples of names: a chain that the model declares;
            - names: single layers;
            and whose values for chains are `fuse`, `fuse:<family>`,
            `fuse:<name of the declared chain>`, the path of an artifact that
            `export` wrote, or a `PtxKernel`. Values for layers, and for
            chains that are kernels of the Hub, are those of transformers:
            `org/repo:Layer`; a pair of that and a dict of version, revision
            and trust_remote_code; a mapping of devices to these; or an empty
            text for no kernel.
        use_local_kernel: whether values for transformers are `/path:Layer`.
        inherit_mapping: whether transformers adds its own default kernels to
            layers that are not named. None adds them only if there is no chain
            to fuse, because fusion refuses members that another kernel has
            replaced.

    Raises:
        PatternError: a key or value is of another form.
    """

    #: The class in this module, which pickle can name.
    _kind: type[KernelConfig]

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "_kind" not in vars(cls):
            cls._kind = cls

    def __new__(cls, *_args: object, **_options: object) -> KernelConfig:
        return super().__new__(_for_transformers(cls))

    def __init__(
        self,
        kernels: Mapping[Any, Any],
        *,
        use_local_kernel: bool = False,
        inherit_mapping: bool | None = None,
    ) -> None:
        self.fusions: dict[tuple, str | PtxKernel] = {}
        #: Layers that transformers replaces.
        self.layers: dict[str | tuple, Any] = {}
        self.use_local_kernel = use_local_kernel
        if not isinstance(kernels, Mapping):
            raise PatternError(
                f"kernels are a {type(kernels).__name__}; "
                "expected a mapping of chains to kernels"
            )
        for key, value in kernels.items():
            if isinstance(key, str):
                if value != "" and not _is_hub(value):
                    raise PatternError(
                        f"the kernel of layer '{key}' is {value!r}; expected "
                        "'org/repo:Layer', (that, options), or these by "
                        "device"
                    )
                self.layers[key] = value
            elif isinstance(key, tuple) and key and _is_hub(value):
                self.layers[key] = value
            elif isinstance(key, tuple) and key:
                # Declared chains are known only when there is a model.
                self.fusions[key] = (
                    value
                    if not is_inline(key) and declaration(value)
                    else kernel_of(value)
                )
            else:
                raise PatternError(
                    f"key {key!r} is a {type(key).__name__}; "
                    "expected a name or a tuple"
                )
        # transformers reads this attribute.
        self.registered_layer_names: dict[str, str] = {}
        self.inherit_mapping = (
            not self.fusions if inherit_mapping is None else inherit_mapping
        )
        self._mapping: dict[Any, Any] = dict(self.layers)

    def __reduce__(self) -> tuple:
        return _restored, (self._kind, self.__dict__)

    def __repr__(self) -> str:
        kernels: dict[Any, Any] = {**self.layers, **self.fusions}
        return f"KernelConfig({kernels})"

    @property
    def kernel_mapping(self) -> dict[Any, Any]:
        """Kernels of the Hub, as transformers reads and changes them.

        Raises:
            PatternError: transformers would fail on them, or on the missing
                package `kernels`, with a less helpful message.
        """
        _check_package(self)
        for key, value in self.layers.items():
            if isinstance(key, tuple) and not is_inline(key):
                raise PatternError(
                    f"the chain {key!r} has the kernel of the Hub {value!r}, "
                    "but transformers accepts such chains only with their "
                    "paths; write ((name, glob), ...) as the key"
                )
        return self._mapping

    @kernel_mapping.setter
    def kernel_mapping(self, value: dict[Any, Any]) -> None:
        self._mapping = value

    def create_compatible_mapping(
        self, model: nn.Module, compile: bool = False
    ) -> None:
        """Fuses the chains; see `at_load.fuse_loaded`.

        transformers calls it with the loaded model, before it replaces the
        forwards of layers.

        Raises:
            PatternError: a chain is not declared, or its paths select nothing.
            ValueError: transformers refuses a kernel of the Hub.
        """
        if self.use_local_kernel:
            # transformers 5.23 adds options to the path of a local kernel and
            # then reads the pair as a path.
            self._mapping = {
                name: value[0] if isinstance(value, tuple) else value
                for name, value in self._mapping.items()
            }
        super().create_compatible_mapping(  # type: ignore[misc]
            model, compile
        )
        if not self.inherit_mapping:
            # Layers that are not named need no warning.
            for name in self.registered_layer_names.values():
                self._mapping.setdefault(name, {})
        # The user may load another model with this object.
        setattr(model, "kernel_config", copy.copy(self))
        self._mapping = dict(self.layers)
        if self.fusions:
            at_load.fuse_loaded(model, self)

    def hub_config(self) -> HubConfig:
        """The kernels of the Hub as a `KernelConfig` of transformers.

        Raises:
            PatternError: the package `kernels`, which loads them, is not
                installed.
        """
        if importlib.util.find_spec("kernels") is None:
            raise PatternError(
                "kernels of the Hub need the package 'kernels', which is not "
                "installed; asked for: " + ", ".join(map(str, self.layers))
            )
        from transformers import KernelConfig as HubConfig

        return HubConfig(
            dict(self.layers), use_local_kernel=self.use_local_kernel
        )


KernelConfig._kind = KernelConfig
#: Subclasses that transformers accepts, by the class in this module.
_KINDS: dict[type[KernelConfig], type[KernelConfig]] = {}


def _for_transformers(kind: type[KernelConfig]) -> type[KernelConfig]:
    """The subclass of `kind` that transformers accepts; `kind` if transformers
    is missing or does not support kernels."""
    kind = kind._kind
    if importlib.util.find_spec("transformers") is None:
        return kind
    try:
        from transformers import KernelConfig as HubConfig
    except ImportError:
        return kind
    if kind not in _KINDS:
        # All threads get the same class.
        _KINDS.setdefault(
            kind,
            type(
                kind.__name__,
                (kind, HubConfig),
                {
                    "_kind": kind,
                    "__module__": kind.__module__,
                    "__qualname__": kind.__qualname__,
                    "__doc__": kind.__doc__,
                },
            ),
        )
    return _KINDS[kind]


def _restored(kind: type[KernelConfig], state: dict[str, Any]) -> KernelConfig:
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


def _check_package(config: KernelConfig) -> None:
    if type(config) is config._kind or kernels_available():
        return
    from transformers.utils import import_utils

    versions = [
        getattr(import_utils, f"KERNELS_{end}_VERSION", "?")
        for end in ("MIN", "MAX")
    ]
    without = (
        "without it, load the model without kernel_config and then call "
        "fuse_modules(model, config), or load it in 'with fuse_mlir."
        "fusion_at_load():', which does not need the package"
        if not config.layers
        else "asked for: " + ", ".join(map(str, config.layers))
    )
    raise PatternError(
        "transformers accepts a kernel_config only with the package "
        "'kernels', "
        f"{versions[0]} <= version < {versions[1]}, which is not installed; "
        + without
    )
