# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of the Hub that a `fusion_config` names for static MLPs.

A kernel is a Python package with functions of tensors. One quantizes the input,
another computes the MLP from stored weights and scales; their names and
arguments are those of transformers#46997. The package comes from the Hub, or
from a directory.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fuse_mlir.errors import EndpointError, PatternError
from fuse_mlir.matching.patterns import ANY_FAMILY

#: Options of an endpoint that name functions, and their defaults.
FUNCTIONS: Mapping[str, Mapping[str, str]] = {
    "input_quant": {"func": "channel_scale_quantize_fp8_static_bf16"},
    "gated_mlp": {
        "swiglu_func": "fp8_swiglu_mlp_bf16",
        "geglu_func": "fp8_geglu_mlp_bf16",
    },
    "dense_gelu_mlp": {"gelu_func": "fp8_gelu_mlp_bf16"},
}
_REPOSITORY = ("repo_id", "version", "revision", "trust_remote_code")


@dataclass(frozen=True)
class Endpoint:
    """The location of a kernel of the Hub.

    Args:
        repo_id: `org/repo`, or the path of a directory.
        functions: pairs of an option and the name of the required function.
    """

    repo_id: str
    version: int | str | None = 1
    revision: str | None = None
    trust_remote_code: bool = False
    functions: tuple[tuple[str, str], ...] = ()

    def load(self) -> ModuleType:
        """The package, which is loaded once per process.

        Raises:
            EndpointError: the package is missing, fails, or lacks a function.
        """
        try:
            package = _load(
                self.repo_id,
                self.version,
                self.revision,
                self.trust_remote_code,
            )
        except EndpointError as error:
            raise EndpointError(
                f"the kernel '{self.repo_id}' cannot be loaded: {error}"
            ) from error
        # Any error while a package of others is loaded is about the package.
        except Exception as error:  # pylint: disable=W0718
            raise EndpointError(
                f"the kernel '{self.repo_id}' cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
        missing = [
            name
            for _, name in self.functions
            if not callable(getattr(package, name, None))
        ]
        if missing:
            has = [
                name
                for name in vars(package)
                if not name.startswith("_") and callable(getattr(package, name))
            ]
            raise EndpointError(
                f"the kernel '{self.repo_id}' has no function "
                + " and no ".join(f"'{name}'" for name in missing)
                + "; it has "
                + (", ".join(has) or "none")
            )
        return package

    def function(self, option: str) -> Callable[..., Any]:
        """The function that an option names.

        Raises:
            EndpointError: as `load`.
        """
        return getattr(self.load(), dict(self.functions)[option])


def endpoint(name: str, value: object) -> Endpoint | None:
    """The kernel of the Hub that a `fusion_config` names; None for a kernel
    of fuse.

    Raises:
        PatternError: the value is of another form.
    """
    if value == ANY_FAMILY:
        return None
    known = FUNCTIONS.get(name, {})
    if isinstance(value, str) and "/" in value and known:
        value = {"repo_id": value}
    if not isinstance(value, Mapping) or not known:
        raise PatternError(
            f"'{name}' is {value!r}; expected '{ANY_FAMILY}'"
            + (
                ", a repository of the Hub 'org/repo', the path of a kernel "
                "directory, or {'repo_id': either of these, ...}"
                if known
                else ""
            )
        )
    unknown = [key for key in value if key not in (*_REPOSITORY, *known)]
    if unknown:
        raise PatternError(
            f"'{name}' has no option '{unknown[0]}'; expected "
            + ", ".join((*_REPOSITORY, *known))
        )
    repo_id = value.get("repo_id")
    if not isinstance(repo_id, str) or "/" not in repo_id:
        raise PatternError(
            f"'repo_id' of '{name}' is {repo_id!r}; expected "
            "'org/repo', or the path of a kernel directory"
        )
    trust = value.get("trust_remote_code", False)
    if not isinstance(trust, bool):
        raise PatternError(
            f"'trust_remote_code' of '{name}' is {trust!r}; "
            "expected True or False"
        )
    functions = tuple(
        (option, value.get(option, default))
        for option, default in known.items()
    )
    for option, function in functions:
        if not isinstance(function, str) or not function.isidentifier():
            raise PatternError(
                f"'{option}' of '{name}' is {function!r}; "
                "expected the name of a function"
            )
    revision = value.get("revision")
    if revision is not None and value.get("version") is not None:
        raise PatternError(
            f"'{name}' has the version {value['version']!r} "
            f"and the revision {revision!r}; expected one"
        )
    return Endpoint(
        repo_id,
        None if revision is not None else value.get("version", 1),
        revision,
        trust,
        functions,
    )


@functools.cache
def _load(
    repo_id: str,
    version: int | str | None,
    revision: str | None,
    trust_remote_code: bool,
) -> ModuleType:
    directory = Path(repo_id)
    if directory.is_dir():
        return _load_directory(directory)
    if importlib.util.find_spec("kernels") is None:
        raise EndpointError(
            "the directory does not exist, and repositories of the Hub need the "
            "package 'kernels', which is not installed"
        )
    from kernels import get_kernel

    return get_kernel(
        repo_id,
        version=version,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )


def _load_directory(directory: Path) -> ModuleType:
    """Loads a Python package, or the variant of a kernel directory."""
    if not (directory / "__init__.py").is_file():
        if importlib.util.find_spec("kernels") is None:
            raise EndpointError(
                f"'{directory}' has no '__init__.py', and to choose one of "
                "its variants needs the package 'kernels', which is not "
                "installed"
            )
        from kernels import get_local_kernel

        return get_local_kernel(directory)
    name = f"_fuse_endpoint_{abs(hash(directory.resolve())):x}"
    spec = importlib.util.spec_from_file_location(
        name,
        directory / "__init__.py",
        submodule_search_locations=[str(directory)],
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    try:
        spec.loader.exec_module(package)
    except BaseException:
        del sys.modules[name]
        raise
    return package
