# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A text that two processes share if they export a module the same way.

The text has the types of tensors, the attributes of modules, and the code that
a call can reach: methods, functions and values that the code names. Code of
Python, PyTorch and this package counts by its name, because their versions are
part of the key as well. What cannot be told by a text is an error, and then
nothing is shared.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import inspect
import itertools
import json
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from torch import nn

import fuse_mlir
from fuse_mlir.support.module_snapshot import (
    STANDARD,
    has_own_forward,
    leaves,
    plain,
)

#: Packages whose version is part of every key.
VERSIONED = frozenset({"torch", "fuse_mlir", *sys.stdlib_module_names})
#: Names that reach values by texts, which a reader of code does not see.
DYNAMIC = frozenset(
    {
        "__dict__",
        "__getattr__",
        "__getattribute__",
        "eval",
        "exec",
        "getattr",
        "globals",
        "import_module",
        "locals",
        "modules",
        "vars",
    }
)
#: Maximum number of functions of a chain; layers of a model have a few.
MOST_FUNCTIONS = 200


class Undescribed(Exception):
    """An export depends on something that has no text."""


def describe(module: nn.Module) -> str:
    """Everything that an export of a module can depend on.

    Args:
        module: with its children.

    Raises:
        Undescribed: with the name of what has no text.
    """
    return _Describer().run(module)


class _Describer:
    """Collects texts until no code names anything new."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        #: Attributes that the code names, of whatever object.
        self.names: set[str] = set()
        self.classes: dict[type, set[str]] = {}
        self.functions: dict[int, Callable[..., object]] = {}

    def run(self, module: nn.Module) -> str:
        self._add_module("", module)
        # Which object an attribute belongs to is unknown, so that a name counts
        # for all classes.
        while self._add_methods():
            pass
        return "\n".join(self.parts)

    def _add_module(self, path: str, module: nn.Module) -> None:
        if has_own_forward(module):
            raise Undescribed(f"the forward of '{path}' itself")
        for name in ("_forward_pre_hooks", "_forward_hooks"):
            if getattr(module, name):
                raise Undescribed(f"hooks of '{path}'")
        self._add_class(type(module))
        self.parts.append(f"{path}: {_name_of(type(module))} {module.training}")
        for name, tensor in itertools.chain(
            module._parameters.items(), module._buffers.items()
        ):
            self.parts.append(f"{path}.{name}: {_tensor(tensor)}")
        for name, value in sorted(vars(module).items()):
            if name not in STANDARD and name != "forward":
                self.parts.append(f"{path}.{name} = {self._text(value)}")
        for name, child in module._modules.items():
            if child is not None:
                self._add_module(f"{path}.{name}", child)

    def _add_class(self, kind: type) -> None:
        if kind in self.classes:
            return
        # A class that a function makes has the name of another one.
        found: object = sys.modules.get(kind.__module__)
        for name in kind.__qualname__.split("."):
            found = getattr(found, name, None)
        if found is not kind:
            raise Undescribed(f"the class {_name_of(kind)}")
        self.classes[kind] = set()
        for base in kind.__mro__:
            if not _is_versioned(base):
                self.parts.append(f"class {_name_of(base)}")

    def _add_methods(self) -> bool:
        """Adds methods that are named and not added yet."""
        before = len(self.functions), len(self.names), len(self.classes)
        called = {"forward", "__call__", "__init__", "__new__", *self.names}
        for kind, done in list(self.classes.items()):
            for name in sorted(called - done):
                done.add(name)
                # Constructors of modules ran before.
                if issubclass(kind, nn.Module) and name in (
                    "__init__",
                    "__new__",
                ):
                    continue
                owner = next((c for c in kind.__mro__ if name in vars(c)), None)
                if owner is not None:
                    value = vars(owner)[name]
                    self.parts.append(
                        f"{_name_of(kind)}.{name} = {self._text(value)}"
                    )
        return before != (
            len(self.functions),
            len(self.names),
            len(self.classes),
        )

    def _text(self, value: object) -> str:
        """The text of a value of any kind."""
        comparable = plain(value)
        if comparable is not None:
            return repr(comparable)
        if isinstance(value, (torch.device, torch.Size)):
            return repr(value)
        if isinstance(value, nn.Module):
            return f"a {_name_of(type(value))}" + self._nested(value)
        if isinstance(value, (staticmethod, classmethod)):
            return self._text(value.__func__)
        if isinstance(value, property):
            return " ".join(
                self._text(f) for f in (value.fget, value.fset) if f
            )
        if isinstance(value, functools.partial):
            return self._texts([value.func, *value.args, value.keywords])
        if isinstance(value, types.MethodType):
            return self._texts([value.__func__, value.__self__])
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.ModuleType):
            if _is_versioned(value):
                return f"module {value.__name__}"
            raise Undescribed(f"the module {value.__name__}")
        if isinstance(value, type):
            if not _is_versioned(value):
                self._add_class(value)
            return f"class {_name_of(value)}"
        if isinstance(value, (tuple, list, dict, set, frozenset)):
            return self._container(value)
        return self._object(value)

    def _texts(self, values: Iterable[object]) -> str:
        return "(" + ", ".join(self._text(value) for value in values) + ")"

    def _container(self, value: object) -> str:
        if isinstance(value, Mapping):
            pairs = (f"{key!r}: {self._text(v)}" for key, v in value.items())
            if not all(plain(key) is not None for key in value):
                raise Undescribed("keys of a mapping")
            return "{" + ", ".join(pairs) + "}"
        if isinstance(value, (tuple, list)):
            return self._texts(value)
        raise Undescribed(f"a {type(value).__name__} of {leaves(value)}")

    def _nested(self, module: nn.Module) -> str:
        inner = _Describer()
        inner.functions = self.functions
        return "[" + inner.run(module) + "]"

    def _object(self, value: object) -> str:
        kind = type(value)
        # A config is numbers and texts, and its class only hands them out.
        if isinstance(value, _config_class()) and _is_of(kind, "transformers"):
            to_dict: Callable[[], object] = getattr(value, "to_dict")
            try:
                text = json.dumps(to_dict(), sort_keys=True, default=_dtype)
            except TypeError as error:
                raise Undescribed(f"a {_name_of(kind)}") from error
            return f"{_name_of(kind)} {_transformers_version()} {text}"
        if dataclasses.is_dataclass(value) and _is_versioned(kind):
            return repr(value)
        # Functions of C, such as torch.nn.functional.silu.
        name = getattr(value, "__qualname__", None)
        if callable(value) and isinstance(name, str) and _is_versioned(value):
            return f"{value.__module__}.{name}"
        raise Undescribed(f"a {_name_of(kind)}")

    def _function(self, function: types.FunctionType) -> str:
        name = f"{function.__module__}.{function.__qualname__}"
        if _is_versioned(function):
            # A function of a user can have the name of one of PyTorch.
            if not function.__code__.co_filename.startswith(_folders()):
                raise Undescribed(f"another {name}")
            return name
        if id(function) in self.functions:
            return name
        if len(self.functions) == MOST_FUNCTIONS:
            raise Undescribed("the many functions that it calls")
        self.functions[id(function)] = function
        self.parts.append(f"{name}: {self._code(function.__code__)}")
        self.parts.append(
            self._texts([function.__defaults__, function.__kwdefaults__])
        )
        for cell in function.__closure__ or ():
            self.parts.append(self._text(cell.cell_contents))
        for used in sorted(_globals(function.__code__)):
            if used in function.__globals__:
                value = self._text(function.__globals__[used])
                self.parts.append(f"{name} uses {used} = {value}")
        return name

    def _code(self, code: types.CodeType) -> str:
        digest = hashlib.sha256()
        for part in _nested_codes(code):
            for step in dis.get_instructions(part):
                if step.opname.startswith("IMPORT_"):
                    raise Undescribed(f"an import in {part.co_qualname}")
            used = DYNAMIC.intersection(part.co_names)
            if used:
                raise Undescribed(f"{min(used)} in {part.co_qualname}")
            self.names.update(part.co_names)
            constants = [
                c for c in part.co_consts if not isinstance(c, types.CodeType)
            ]
            # Locations in IR have lines.
            for piece in (
                part.co_code,
                part.co_names,
                part.co_varnames,
                part.co_freevars,
                constants,
                part.co_filename,
                list(part.co_positions()),
            ):
                digest.update(repr(piece).encode())
        return digest.hexdigest()


def _nested_codes(code: types.CodeType) -> list[types.CodeType]:
    found = [code]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _nested_codes(constant)
    return found


def _globals(code: types.CodeType) -> set[str]:
    """Names of globals that code reads."""
    return {
        str(step.argval)
        for part in _nested_codes(code)
        for step in dis.get_instructions(part)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }


def _is_versioned(value: object) -> bool:
    """Whether a class, function or module is one of `VERSIONED`."""
    return _is_of(value, *VERSIONED)


def _is_of(value: object, *packages: str) -> bool:
    name = (
        value.__name__
        if inspect.ismodule(value)
        else getattr(value, "__module__", None)
    )
    return isinstance(name, str) and name.partition(".")[0] in packages


def _config_class() -> type | tuple[()]:
    """The class of configs; nothing if transformers is not imported."""
    found = sys.modules.get("transformers")
    return () if found is None else found.PretrainedConfig


def _transformers_version() -> str:
    return str(sys.modules["transformers"].__version__)


@functools.cache
def _folders() -> tuple[str, ...]:
    """Where the files of versioned packages are."""
    package = Path(fuse_mlir.__file__).parent
    return (
        "<",
        sysconfig.get_path("stdlib"),
        str(Path(torch.__file__).parent),
        str(package),
    )


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _dtype(value: object) -> str:
    if isinstance(value, torch.dtype):
        return str(value)
    raise TypeError(f"a {_name_of(type(value))}")


def _tensor(tensor: torch.Tensor | None) -> str:
    if tensor is None:
        return "None"
    return (
        f"{type(tensor).__name__} {tensor.dtype} {tuple(tensor.shape)} "
        f"{tensor.stride()} {tensor.device.type}"
    )
