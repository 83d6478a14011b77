# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Patterns of chains to fuse, and their declaration."""

from __future__ import annotations

import fnmatch
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn

from fuse_mlir.errors import NativeError, PatternError
from fuse_mlir.matching.path_glob import PathGlob
from fuse_mlir.matching.ptx_kernel import PtxKernel
from fuse_mlir.support.digests import require_digest

#: Families that fuse-form-kernels can form.
FAMILIES = (
    "gated_mlp",
    "mlp",
    "norm_linear",
    "fused_linear",
    "norm_quantize",
    "act_quantize",
    "moe_experts",
)
#: Suffix of artifacts.
ARTIFACT = ".fuse"
#: The path of an artifact and the SHA-256 that its content must have.
_CHECKED = re.compile(rf"(.*{re.escape(ARTIFACT)})#sha256=(.*)", re.DOTALL)
#: The kernel that allows any family.
ANY_FAMILY = "fuse"


class KernelMapping:
    """Base class of `KernelConfig`: kernels by the modules they replace."""

    #: Chains to fuse, by their keys.
    fusions: dict[tuple, str | PtxKernel]
    #: Layers, and chains with kernels of the Hub, that transformers replaces.
    layers: dict[str | tuple, Any]


@dataclass(frozen=True)
class ModuleSpec:
    """Names of the inputs and outputs of a member.

    Args:
        inputs: one name per parameter of the member's forward.
        outputs: one name per result; `_` is an unused result.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]

    def __post_init__(self) -> None:
        for what in ("inputs", "outputs"):
            _check_texts(
                getattr(self, what), f"{what} of a ModuleSpec", "names"
            )


def _check_texts(values: object, what: str, kind: str) -> None:
    """Refuses values that are not a list of texts.

    A text by itself is refused too: it would be a list of its letters.

    Args:
        values: the value to check.
        what: names the values in the message.
        kind: what the texts stand for, for the message.

    Raises:
        PatternError: the value is not a list of texts.
    """
    if (
        not isinstance(values, Sequence)
        or isinstance(values, (str, bytes))
        or not all(isinstance(v, str) for v in values)
    ):
        raise PatternError(f"{what} are {values!r}; expected a list of {kind}")


def class_name(module: nn.Module) -> str:
    """Name of the class of a module, or of the member that a proxy replaces."""
    return type(module.__dict__.get("_member", module)).__name__


@dataclass(frozen=True)
class Member:
    """One member of a pattern."""

    #: Class, or glob of classes.
    name: str
    path: PathGlob

    def has_class(self, module: nn.Module) -> bool:
        """Whether a module is of the class that the pattern names.

        A plain name also matches the end of a class name, because models add
        a prefix: `RMSNorm` matches `Qwen3RMSNorm`. It also matches the name
        under which a class supports kernels of the Hub.
        """
        kind = class_name(module)
        if fnmatch.fnmatchcase(kind, self.name):
            return True
        if any(c in self.name for c in "*?["):
            return False
        return (
            kind.endswith(self.name)
            or getattr(module, "kernel_layer_name", None) == self.name
        )


@dataclass(frozen=True)
class Pattern:
    """A chain of members and the kernel for it."""

    members: tuple[Member, ...]
    kernel: str | PtxKernel = ANY_FAMILY

    def __str__(self) -> str:
        members = ", ".join(
            f'("{m.name}", "{m.path.text}")' for m in self.members
        )
        return f"({members}) -> {self.kernel}"


# The names of the members' classes, or that of the kernel -> globs.
Key = tuple[str, ...] | str
Declared = Mapping[Key, Sequence[str]]
#: A selection of sites: a `KernelConfig`, a mapping of keys to kernels, one key
#: or a list of keys. None uses declared patterns, or those of the data flow.
Patterns: TypeAlias = (
    "KernelMapping | Mapping[Any, object] | Sequence[object] | str | None"
)
_DECLARED: dict[type, dict[Key, tuple[str, ...]]] = {}


def register_fusion_patterns(
    target: type | nn.Module, patterns: Declared
) -> None:
    """Declares the paths of the members of chains, under names.

    Args:
        target: a class of models, for all its existing and later instances;
            or one model.
        patterns: `{("RMSNorm", "MLP"): ("model.layers.*.norm",
            "model.layers.*.mlp")}`, or with a name of the chain,
            `{"RMSNormMLP": ["model.layers.*.norm", "model.layers.*.mlp"]}`.

    Raises:
        PatternError: names and globs differ in number, or `target` has such a
            declaration with other globs already.
        GlobError: a glob breaks a rule.

    Examples:
        >>> fuse_mlir.register_fusion_patterns(
        ...     model, {"NormMLP": ["layers.*.norm", "layers.*.mlp"]}
        ... )
        >>> sites = fuse_mlir.explain(
        ...     model, "NormMLP", inputs=x, only_faster=False
        ... )
        >>> [site.id for site in sites]
        ['norm+mlp#0']
    """
    if not isinstance(target, (nn.Module, type)):
        raise PatternError(
            f"patterns are declared for a {target!r}; expected "
            "a class of models, or a model"
        )
    if not isinstance(patterns, Mapping):
        raise PatternError(
            f"declared patterns are a "
            f"{type(patterns).__name__}; expected a mapping of "
            "names to paths"
        )
    checked: dict[Key, tuple[str, ...]] = {}
    for names, globs in patterns.items():
        if not globs:
            raise PatternError(
                f"pattern {names!r} has no paths; expected a list of globs"
            )
        _check_texts(globs, f"paths of pattern {names!r}", "globs")
        if not isinstance(names, (str, tuple)):
            raise PatternError(
                f"pattern {names!r} is a "
                f"{type(names).__name__}; expected a name or a "
                "tuple of them"
            )
        if not isinstance(names, str) and len(names) != len(globs):
            raise PatternError(
                f"pattern {tuple(names)} has {len(names)} "
                f"names and {len(globs)} paths"
            )
        checked[_key(names)] = tuple(PathGlob(g).text for g in globs)
    if isinstance(target, nn.Module):
        own = target.__dict__.setdefault("_fuse_patterns", {})
    else:
        own = _DECLARED.setdefault(target, {})
    for names, globs in checked.items():
        if own.get(names, globs) != globs:
            kind = (
                target.__name__
                if isinstance(target, type)
                else type(target).__name__
            )
            raise PatternError(
                f"{kind} declares {names!r} already as "
                f"{own[names]}, got {globs}"
            )
    own.update(checked)


def _key(names: str | Sequence[str]) -> Key:
    return names if isinstance(names, str) else tuple(names)


def declared_patterns(model: nn.Module) -> dict[Key, tuple[str, ...]]:
    """Patterns that a model declares; the first one of a name counts.

    The sources are the model, its class and bases, and the attribute
    `_kernel_fusion_patterns`.
    """
    found: dict[Key, tuple[str, ...]] = {}
    sources: list[Declared] = [model.__dict__.get("_fuse_patterns", {})]
    sources += [_DECLARED.get(kind, {}) for kind in type(model).__mro__]
    sources.append(getattr(model, "_kernel_fusion_patterns", None) or {})
    for source in sources:
        for names, globs in source.items():
            found.setdefault(_key(names), tuple(globs))
    return found


def resolve(model: nn.Module, patterns: Patterns) -> list[Pattern]:
    """Patterns of a call, in their order.

    Args:
        model: where declared names are looked up.
        patterns: a `KernelConfig`, a mapping like its argument, one key of
            such a mapping, a list of keys, or a list of the globs of one
            chain. None uses all declared patterns.

    Raises:
        PatternError: a name is not declared, or a kernel is unknown.
        GlobError: a glob breaks a rule.
    """
    if patterns is None:
        declared = declared_patterns(model)
        return [_pattern(model, names, ANY_FAMILY) for names in declared]
    patterns = getattr(patterns, "fusions", patterns)
    if isinstance(patterns, (Mapping, list)) and not patterns:
        raise PatternError(
            "there are no patterns; expected one or more, or "
            "None for those that the model declares or its "
            "data flow shows"
        )
    if isinstance(patterns, Mapping):
        return [
            _pattern(model, key, kernel) for key, kernel in patterns.items()
        ]
    if (
        isinstance(patterns, list)
        and patterns
        and all(isinstance(p, str) for p in patterns)
        and not set(patterns) <= set(declared_patterns(model))
    ):
        return [_of_globs(patterns, ANY_FAMILY)]
    if isinstance(patterns, list):
        return [_pattern(model, key, ANY_FAMILY) for key in patterns]
    return [_pattern(model, patterns, ANY_FAMILY)]


def is_inline(key: object) -> bool:
    return (
        isinstance(key, tuple)
        and bool(key)
        and all(isinstance(k, tuple) and len(k) == 2 for k in key)
    )


def _of_globs(globs: Sequence[str], kernel: object) -> Pattern:
    """A chain of members of any class."""
    return Pattern(
        tuple(Member("*", PathGlob(g)) for g in globs), kernel_of(kernel)
    )


def _pattern(model: nn.Module, key: object, kernel: object) -> Pattern:
    if isinstance(key, str):
        declared = declared_patterns(model)
        if key not in declared:
            raise _undeclared(model, key)
        return _of_globs(declared[key], kernel)
    if not isinstance(key, tuple) or not key:
        what = f"a {type(key).__name__}" if key else "empty"
        raise PatternError(
            f"pattern {key!r} is {what}; expected a tuple of "
            "names, or of (name, glob)"
        )
    pairs = key
    if not is_inline(key):
        globs, kernel = _declared(model, key, kernel)
        pairs = tuple(zip(key, globs))
    for pair in pairs:
        if not all(isinstance(text, str) for text in pair) or not pair[0]:
            raise PatternError(
                f"member {pair!r} of a pattern; expected the "
                "name of a class and a glob of paths"
            )
    return Pattern(
        tuple(Member(name, PathGlob(glob)) for name, glob in pairs),
        kernel_of(kernel),
    )


def _declared(
    model: nn.Module, names: tuple[str, ...], kernel: object
) -> tuple[tuple[str, ...], object]:
    """Globs that a model declares for members of these names, and the kernel.

    A kernel that only names a declaration, such as `fuse:RMSNormMLP`, becomes
    `fuse`.
    """
    declared = declared_patterns(model)
    wanted = declaration(kernel)
    if wanted in declared:
        globs = declared[wanted]
        if len(globs) != len(names):
            raise PatternError(
                f"pattern {names} has {len(names)} names, and "
                f"'{wanted}' is declared with {len(globs)} "
                "paths"
            )
        return globs, ANY_FAMILY
    if names in declared:
        return declared[names], kernel
    fitting = [
        key
        for key, globs in declared.items()
        if isinstance(key, str) and len(globs) == len(names)
    ]
    if len(fitting) != 1:
        raise _undeclared(model, names)
    return declared[fitting[0]], kernel


def _undeclared(model: nn.Module, key: object) -> PatternError:
    known = ", ".join(map(repr, declared_patterns(model))) or "none"
    return PatternError(
        f"{type(model).__name__} declares no pattern {key!r}; it declares "
        f"{known}; write ((name, glob), ...), declare it with "
        "register_fusion_patterns, or set _kernel_fusion_patterns on the "
        "class"
    )


def declaration(kernel: object) -> str | None:
    """The declared pattern that a kernel such as `fuse:RMSNormMLP` names."""
    if not isinstance(kernel, str) or not kernel.startswith("fuse:"):
        return None
    name = kernel.removeprefix("fuse:")
    return name if name.isidentifier() and name not in FAMILIES else None


def artifact_of(kernel: str) -> tuple[str, str | None] | None:
    """Path and expected SHA-256 of a kernel that is an artifact.

    Args:
        kernel: `PATH.fuse`, `PATH.fuse#sha256=DIGITS`, or another kernel, for
            which the result is None.
    """
    found = _CHECKED.fullmatch(kernel)
    if found is not None:
        return found[1], found[2]
    return (kernel, None) if kernel.endswith(ARTIFACT) else None


def _check_digest(path: str | Path, sha256: str | None) -> None:
    try:
        if sha256 is not None:
            require_digest(path, sha256)
    except NativeError as error:
        raise PatternError(str(error)) from error


def kernel_of(kernel: object) -> str | PtxKernel:
    """The kernel: `fuse`, a family, the path of an artifact, or PTX.

    Raises:
        PatternError: the kernel is unknown, its file is missing, or its digest
            is malformed.
    """
    if isinstance(kernel, PtxKernel):
        if not Path(kernel.path).is_file():
            raise PatternError(f"no PTX file '{kernel.path}'")
        _check_digest(kernel.path, kernel.sha256)
        return kernel
    if not isinstance(kernel, str):
        raise PatternError(
            f"kernel {kernel!r} is a {type(kernel).__name__}; "
            "expected a string or a PtxKernel"
        )
    name = kernel.removeprefix("fuse:")
    if name == ANY_FAMILY or name in FAMILIES:
        return name
    artifact = artifact_of(name)
    if artifact is not None:
        if not Path(artifact[0]).is_file():
            raise PatternError(f"no artifact '{artifact[0]}'")
        _check_digest(*artifact)
        return name
    raise PatternError(
        f"unknown kernel '{kernel}'; expected '{ANY_FAMILY}', a "
        f"family ({', '.join(FAMILIES)}), an artifact (*{ARTIFACT}), a "
        "PtxKernel, 'fuse:' and the name of a declared pattern, or in a "
        "KernelConfig a kernel of the Hub "
        "('org/repo:Layer')"
    )


def check_specs(
    modules: Sequence[nn.Module], specs: Sequence[ModuleSpec]
) -> None:
    """Compares the names of inputs and outputs with the members.

    Raises:
        PatternError: numbers differ, or a member reads the output of a later
            one.
    """
    if not isinstance(specs, Sequence) or not all(
        isinstance(s, ModuleSpec) for s in specs
    ):
        raise PatternError(
            f"specs are {specs!r}; expected one ModuleSpec for each member"
        )
    if len(modules) != len(specs):
        raise PatternError(
            f"number of modules and specs must match: got "
            f"{len(modules)} modules and {len(specs)} specs"
        )
    for module, spec in zip(modules, specs):
        names = [
            p.name
            for p in inspect.signature(type(module).forward).parameters.values()
            if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        ][1:]
        required = _required(module)
        if not len(required) <= len(spec.inputs) <= len(names):
            raise PatternError(
                f"module of type {type(module).__name__} expects "
                f"{len(names)} inputs ({', '.join(names)}) but spec defines "
                f"{len(spec.inputs)}"
            )
    for i, spec in enumerate(specs):
        made = {n for s in specs[:i] for n in s.outputs}
        for name in spec.inputs:
            later = next(
                (
                    j
                    for j in range(i, len(specs))
                    if name in specs[j].outputs and name != "_"
                ),
                None,
            )
            # The output of a member may have the name of its input.
            if (
                name not in made
                and later is not None
                and name not in spec.outputs
            ):
                raise PatternError(
                    f"module {i} requires '{name}' but it is produced by "
                    f"module {later}, which comes later in the chain"
                )


def _required(module: nn.Module) -> list[str]:
    parameters = inspect.signature(module.forward).parameters.values()
    return [
        p.name
        for p in parameters
        if p.default is p.empty
        and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
