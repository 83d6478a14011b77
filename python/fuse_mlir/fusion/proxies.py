# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Proxy modules that replace the members of a fused chain.

Proxies share parameters, buffers, children and hooks with their members, so
that fusing changes neither names nor storage.
"""

from __future__ import annotations

import inspect
import operator
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, FunctionType
from typing import Any, NoReturn, cast

import torch
from torch import nn
from torch.compiler import is_dynamo_compiling
from torch.nn.utils import parametrize
from torch.utils._pytree import tree_leaves

from fuse_mlir import native
from fuse_mlir.errors import FuseError
from fuse_mlir.matching.plans import Source, Step
from fuse_mlir.matching.proxy import Proxy
from fuse_mlir.matching.tensor_parallel import has_hooks_of_host
from fuse_mlir.support.dynamic_class import state_of
from fuse_mlir.support.metadata_ops import METADATA
from fuse_mlir.support.module_snapshot import STANDARD, is_tracing

# Attributes that a proxy shares with its member.
_SHARED = (
    "_parameters",
    "_buffers",
    "_modules",
    "_non_persistent_buffers_set",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
#: Attributes of proxies; all others are those of the member.
OWN = STANDARD | {
    "site",
    "step",
    "alone",
    "last",
    "names",
    "kernel_name",
    "gradients",
    "static",
    "rounding",
    "_mode_matters",
    "_has_sides",
}


class FusedPlace(Proxy):
    """Replaces a member of a fused chain.

    Reading or setting an attribute that modules lack by default reads or sets
    that of the member. The member also saves, loads, converts and indexes,
    because classes of modules may override these. There is one subclass of
    proxies for each class of members.
    """

    #: The class in this package, of which this one is a generated subclass.
    _kind: type[FusedPlace]
    #: Runs calls like the last one without Python.
    _fast: native.FastCall | None
    #: The member that this module replaces.
    _member: nn.Module
    #: Whether the hooks of the member are not shared.
    _calls_hooks: bool

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "_kind" not in vars(cls):
            cls._kind = cls

    def __init__(self, site: str, member: nn.Module) -> None:
        super().__init__()
        for name in _SHARED:
            if name in member.__dict__:
                self.__dict__[name] = member.__dict__[name]
        # Such hooks belong to the forward of the member alone.
        own = has_hooks_of_host(member)
        if own:
            for name in ("_forward_pre_hooks", "_forward_hooks"):
                self.__dict__[name] = OrderedDict()
        self.__dict__.update(_member=member, _calls_hooks=own)
        self.site = site
        self.training = member.training
        object.__setattr__(self, "__class__", _kind_for(type(self), member))

    def forward(self, *args: object, **kwargs: object) -> torch.Tensor:
        if is_dynamo_compiling():
            return self._trace(args, kwargs)
        fast = self._fast
        if fast is not None:
            result = fast(args, kwargs)
            if result is not None:
                return result
        return self._run(args, kwargs)

    def _trace(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        """`_run` while torch.compile reads this code.

        Each function that it enters takes time, so usual calls enter as few as
        those of the members.
        """
        return self._run(args, kwargs)

    def _run(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        """A call that asks everything in Python."""
        raise NotImplementedError

    def _call_member(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        """The result of the member; shared hooks run around this call."""
        call = self._member if self._calls_hooks else self._member.forward
        return call(*args, **kwargs)

    # Generated subclasses have no name that pickle could find.
    def __reduce_ex__(self, _protocol: object) -> tuple:
        return _new, (self._kind,), state_of(self)

    def __prepare_scriptable__(self) -> NoReturn:
        raise FuseError(
            f"torch.jit.script sees no kernel, and {self._get_name()} is part "
            f"of site '{self.site}'; unfuse it before, or use torch.export"
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        object.__setattr__(
            self, "__class__", _kind_for(self._kind, self._member)
        )

    def __getattr__(self, name: str) -> torch.Tensor | nn.Module:
        try:
            return super().__getattr__(name)
        except AttributeError:
            member = self.__dict__.get("_member")
            if member is None or name.startswith("__"):
                raise
            return getattr(member, name)

    def __setattr__(self, name: str, value: object) -> None:
        # FSDP and parametrizations make subclasses of this class, which the
        # member cannot have.
        if (
            name in ("forward", "_hf_hook", "_old_forward")
            or name == "__class__"
            and isinstance(value, type)
            and issubclass(value, FusedPlace)
        ):
            raise FuseError(
                f"FUSE-N208 has-hooks: '{name}' of {self._get_name()} cannot "
                f"be set while it is part of site '{self.site}': it would be "
                "gone after unfusing; unfuse the site before"
            )
        if (
            name in OWN
            or name in self._parameters
            or name in self._buffers
            or isinstance(value, (nn.Module, nn.Parameter))
        ):
            super().__setattr__(name, cast(nn.Module, value))
        else:
            setattr(self._member, name, value)
            if name == "__class__":
                object.__setattr__(
                    self, name, _kind_for(self._kind, self._member)
                )

    def __delattr__(self, name: str) -> None:
        # A parametrization changes the class of the module, which would be
        # this proxy. It first deletes the parameter.
        caller = sys._getframe(1).f_globals.get("__name__")
        if caller == parametrize.__name__ and name in {
            **self._parameters,
            **self._buffers,
        }:
            raise FuseError(
                f"'{name}' of {self._get_name()} cannot be parametrized "
                f"while it is part of site '{self.site}': that would be gone "
                "after unfusing; unfuse the site before"
            )
        if (
            name in self._parameters
            or name in self._buffers
            or name in self._modules
            or name in self.__dict__
        ):
            super().__delattr__(name)
        else:
            delattr(self._member, name)

    def train(self, mode: bool = True) -> FusedPlace:
        self._member.train(mode)
        self.training = self._member.training
        return self

    def apply(self, fn: Callable[[nn.Module], None]) -> FusedPlace:
        # Functions that initialize weights test the class of the module.
        self._member.apply(fn)
        return self

    def _apply(self, *args: object, **kwargs: object) -> FusedPlace:
        self._member._apply(*args, **kwargs)
        return self

    def compile(self, *args: object, **kwargs: object) -> None:
        # A kernel is compiled already. The members are compiled when they are
        # back.
        self._member.compile(*args, **kwargs)

    @property
    def _version(self) -> int:  # type: ignore[override]
        return self._member._version

    def state_dict(  # type: ignore[override]
        self, *args: object, **kwargs: object
    ) -> dict[str, object]:
        return getattr(self._member, "state_dict")(*args, **kwargs)

    def _save_to_state_dict(self, *args: object, **kwargs: object) -> None:
        self._member._save_to_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: object, **kwargs: object) -> None:
        self._member._load_from_state_dict(*args, **kwargs)

    def _register_load_state_dict_pre_hook(
        self, *args: object, **kwargs: object
    ) -> object:
        # The hook receives the member, which outlives this proxy.
        return self._member._register_load_state_dict_pre_hook(*args, **kwargs)

    def _replicate_for_data_parallel(self) -> NoReturn:
        raise FuseError(
            "FUSE-N209 tensor-parallel: DataParallel copies the model to "
            f"other devices, and the kernel of site '{self.site}' reads the "
            "weights that are here; use DistributedDataParallel, or unfuse "
            "the model"
        )

    def _get_name(self) -> str:
        return f"{type(self).__name__}[{type(self._member).__name__}]"

    def extra_repr(self) -> str:
        return f"site={self.site}"


def _new(kind: type[FusedPlace]) -> FusedPlace:
    return kind.__new__(kind)


#: Subclasses of proxies, by the forward of members and the class of the proxy.
_KINDS: weakref.WeakKeyDictionary[
    Any, dict[type[FusedPlace], type[FusedPlace]]
] = weakref.WeakKeyDictionary()


def _kind_for(kind: type[FusedPlace], member: nn.Module) -> type[FusedPlace]:
    """A subclass whose forward has the signature of the member's.

    Hosts read the signature to choose the arguments that they pass.
    """
    theirs = type(member).forward
    try:
        signature = inspect.signature(theirs)
        made = _KINDS.setdefault(theirs, {})
    # Some callables have no signature or cannot be a key.
    except (TypeError, ValueError):
        return kind
    if kind not in made:
        forward = kind.forward
        copied = FunctionType(forward.__code__, forward.__globals__, "forward")
        copied.__signature__ = signature  # type: ignore[attr-defined]
        # All threads get the same class.
        made.setdefault(
            kind,
            type(
                kind.__name__,
                (kind,),
                {
                    "forward": copied,
                    "_kind": kind,
                    "__module__": kind.__module__,
                    "__qualname__": kind.__qualname__,
                    "__doc__": kind.__doc__,
                },
            ),
        )
    return made[kind]


def _on_member(function: Callable) -> Callable:
    def method(self: FusedPlace, *args: object) -> object:
        return function(self._member, *args)

    return method


# Python looks these up in classes only. If the member is not a container, they
# fail as they do without fusion.
_IN_CLASSES: dict[str, Callable] = {
    "__len__": len,
    "__iter__": iter,
    "__bool__": bool,
    "__contains__": operator.contains,
    "__getitem__": operator.getitem,
    "__setitem__": operator.setitem,
    "__delitem__": operator.delitem,
}
for _name, _function in _IN_CLASSES.items():
    setattr(FusedPlace, _name, _on_member(_function))


def arguments_of(
    member: nn.Module, step: Step, args: tuple, kwargs: dict[str, Any]
) -> Iterator[tuple[int | str, Source, Any]]:
    """Arguments of a call: name or position, source, and value.

    The source is where the argument came from when the model was fused.

    Args:
        member: that is called.
        step: how it was called when the model was fused.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.

    Raises:
        TypeError: the forward of the member has no such parameters.
    """
    if len(args) == len(step.args) and kwargs.keys() == step.kwargs.keys():
        for slot, source in step.slots():
            yield (
                slot,
                source,
                (args[slot] if isinstance(slot, int) else kwargs[slot]),
            )
        return
    signature = inspect.signature(type(member).forward)

    def bound(args: Iterable[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        call = signature.bind(None, *args, **kwargs)
        call.apply_defaults()
        found = dict(list(call.arguments.items())[1:])
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                found.update(
                    (f"{name}[{i}]", v)
                    for i, v in enumerate(found.pop(name, ()))
                )
            elif parameter.kind is parameter.VAR_KEYWORD:
                found.update(found.pop(name, {}))
        return found

    wanted, given = bound(step.args, step.kwargs), bound(args, kwargs)
    for name in {**wanted, **given}:
        usual = wanted.get(name)
        yield (
            name,
            (
                usual
                if isinstance(usual, Source)
                else Source("constant", value=usual)
            ),
            given.get(name),
        )


def check_constant(
    site: str, name: int | str, source: Source, value: object
) -> None:
    """Checks that an argument that is not a tensor has not changed.

    Raises:
        FuseError: it differs; the kernel contains the earlier value.
    """
    if (
        value is source.value
        or not isinstance(value, torch.Tensor)
        and value == source.value
    ):
        return
    shown = (
        "a tensor"
        if isinstance(value, torch.Tensor)
        else "another value"
        if is_tracing()
        else repr(value)
    )
    raise FuseError(
        f"site '{site}' is fused for {named(name)} = "
        f"{source.value!r}, got {shown}; unfuse it for such calls"
    )


def named(argument: int | str) -> str:
    """An argument of a call in a message."""
    return (
        f"argument {argument}" if isinstance(argument, int) else f"'{argument}'"
    )


def _by_counters() -> bool:
    """Whether the caller is PyTorch's counter of operations, not a model."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == torch.autograd.graph.__name__:
            return True
        if not module.startswith("torch."):
            return False
        frame = frame.f_back
    return False


class Pending(torch.Tensor):
    """The result of a chain while it passes through the identities.

    A model that reads it earlier expects the result of a member, which was
    never computed. Therefore only two uses are allowed: reading its shape, and
    a dropout that does nothing.
    """

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.alias.default:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args)
        name = getattr(func, "__name__", str(func))
        pending = next(
            (t for t in tree_leaves((args, kwargs)) if isinstance(t, Pending)),
            None,
        )
        site = getattr(pending, "_fuse_site", "?")
        if name == "__repr__":
            return f"<pending result of site '{site}'>"
        # torch.compile reads more properties of its inputs.
        if (
            name in METADATA
            or name == "dropout"
            or name != "is_nonzero"
            and name.startswith(("_", "is_"))
            or name == "register_hook"
            and _by_counters()
        ):
            with torch._C.DisableTorchFunctionSubclass():
                result = func(*args, **(kwargs or {}))
            if result is pending or not isinstance(result, torch.Tensor):
                return result
        raise FuseError(
            f"FUSE-N206 not-a-chain: op '{name}' reads an intermediate of "
            f"fused site '{site}', which it did not when the model was fused; "
            "unfuse the site, or fuse the model with example inputs that take "
            "this path"
        )


def mark_unfused(result: object, site: str) -> None:
    """Marks the result of a member, so that the next member runs too."""
    if isinstance(result, torch.Tensor):
        marked: Any = result
        marked._fuse_unfused = site


def is_unfused(site: str, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether the previous member ran instead of the kernel."""
    return any(
        type(value) is not Pending
        and getattr(value, "_fuse_unfused", None) == site
        for value in (*args, *kwargs.values())
    )


class FusedIdentity(FusedPlace):
    """Passes the fused result on, with the interface of its member.

    Args:
        site: id of the site.
        member: the member that this proxy replaces.
        step: how the model calls the member.
        last: whether the member is the last one of the chain.
    """

    def __init__(
        self, site: str, member: nn.Module, step: Step, last: bool
    ) -> None:
        super().__init__(site, member)
        self.step = step
        self.last = last
        self.__dict__["_fast"] = None
        #: Position or name of the argument with the result of the previous
        #: member, if it is the only argument.
        self.alone = (
            step.flow_slot() if len(step.args) + len(step.kwargs) == 1 else None
        )

    # The object of the extension belongs to one process.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fast": None}

    def _prepare_fast(self) -> None:
        """Lets the extension pass on results in calls like this one."""
        module = native.extension()
        if module is not None and self._fast is None:
            self.__dict__["_fast"] = module.Identity(
                self.site, Pending, self.last
            )

    def _run(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        """A call that asks everything in Python."""
        if not is_tracing() and is_unfused(self.site, args, kwargs):
            result = self._call_member(args, kwargs)
            if not self.last:
                mark_unfused(result, self.site)
            return result
        slot = self.alone
        if (
            slot is not None
            and len(args) == len(self.step.args)
            and len(kwargs) == len(self.step.kwargs)
        ):
            value: Any = (
                args[slot] if isinstance(slot, int) else kwargs.get(slot)
            )
            self._check_result(value)
            if slot == 0 and not kwargs and not is_tracing():
                self._prepare_fast()
            return self._arrive(value)
        for name, source, value in arguments_of(
            self._member, self.step, args, kwargs
        ):
            if source.kind == "constant":
                check_constant(self.site, name, source, value)
            elif source.kind == "step":
                self._check_result(value)
                result = value
        for name, source, value in arguments_of(
            self._member, self.step, args, kwargs
        ):
            if source.kind == "input":
                self._check_input(name, source, value, result)
        return self._arrive(result)

    def _trace(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        if (
            self.alone == 0
            and len(args) == 1
            and not kwargs
            and type(args[0]) is not Pending
        ):
            return args[0]
        return self._run(args, kwargs)

    def _arrive(self, result: torch.Tensor) -> torch.Tensor:
        if not self.last or type(result) is not Pending:
            return result
        # The model gets another tensor; the intermediate stays unreadable.
        if is_tracing():
            return torch.ops.aten.alias.default(result)
        with torch._C.DisableTorchFunctionSubclass():
            return result.view_as(result)

    def _check_result(self, value: object) -> None:
        if not is_tracing() and getattr(value, "_fuse_site", None) != self.site:
            raise FuseError(
                f"FUSE-N206 not-a-chain: in this call the input of "
                f"{self._get_name()} is not the result of site "
                f"'{self.site}', as it was when the model was fused; unfuse "
                "this site"
            )

    def _check_input(
        self,
        name: int | str,
        source: Source,
        value: object,
        result: torch.Tensor,
    ) -> None:
        if (
            not is_tracing()
            and id(value) != getattr(result, "_fuse_inputs")[source.index]
        ):
            raise FuseError(
                f"FUSE-N206 not-a-chain: in this call {named(name)} of "
                f"{self._get_name()} is not what the first member of site "
                f"'{self.site}' read, as it was when the model was fused; "
                "unfuse this site"
            )
