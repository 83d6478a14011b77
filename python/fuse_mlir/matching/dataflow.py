# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The data flow between modules, recorded in one run of a model.

A module tree shows what a model owns, but not how values flow. One run shows
every call of every module, and which op or module reads each result. It is a
run on fake tensors, which have shapes but no data, unless the model itself runs
faster than these.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from fuse_mlir.errors import FlowError
from fuse_mlir.quantized.fp8_reference import emulated
from fuse_mlir.support.messages import first_line
from fuse_mlir.support.metadata_ops import METADATA
from fuse_mlir.support.module_snapshot import SCALARS, STANDARD
from fuse_mlir.support.quiet import quiet
from fuse_mlir.support.types import Inputs


@dataclass
class Call:
    """One call of a module."""

    path: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    #: Position among the starts and ends of all calls.
    start: int
    end: int = -1
    output: Any = None

    def tensors(self) -> list[torch.Tensor]:
        """Tensors among the arguments, also inside containers."""
        return [
            t
            for t in tree_leaves((self.args, self.kwargs))
            if isinstance(t, torch.Tensor)
        ]


@dataclass
class Use:
    """An op that reads a tensor."""

    module: str
    op: str
    time: int
    #: The result, if the op selects whole rows of a tensor.
    selected: torch.Tensor | None = None
    #: The operands of an op that adds two tensors.
    added: tuple[torch.Tensor, ...] = ()

    def other_than(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The tensor that the op adds to `tensor`."""
        others = [t for t in self.added if t is not tensor]
        return others[0] if len(others) == 1 else None


@dataclass
class Flow:
    """Calls and uses of one run."""

    calls: dict[str, list[Call]] = field(default_factory=dict)
    uses: dict[int, list[Use]] = field(default_factory=dict)
    #: Op that made a tensor, by its id.
    made: dict[int, Use] = field(default_factory=dict)
    #: Ids of the tensors that the model returns.
    results: set[int] = field(default_factory=set)
    #: Ids of tensors that pass through a dropout, which in eval mode does
    #: nothing.
    dropped: set[int] = field(default_factory=set)
    #: Attributes that forwards changed, by the paths of modules.
    changed: dict[str, str] = field(default_factory=dict)
    # Keeps ids unique.
    kept: list[torch.Tensor] = field(default_factory=list)

    def uses_of(self, tensor: torch.Tensor) -> list[Use]:
        """Ops that read `tensor` itself, in order."""
        return self.uses.get(id(tensor), [])

    def selections_of(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Rows of `tensor`, rows of these, and so on, until something else
        reads them."""
        found: list[torch.Tensor] = []
        while True:
            chosen = [use.selected for use in self.uses_of(tensor)]
            selected = [t for t in chosen if t is not None]
            if len(selected) != 1 or id(selected[0]) == id(tensor):
                return found
            tensor = selected[0]
            found.append(tensor)


def selects_rows(func: Callable, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether the result of an op of PyTorch consists of rows of a tensor.

    Args:
        func: the op.
        args: of its call, the tensor first.
        kwargs: of its call.
    """
    name = getattr(func, "__name__", "")
    if kwargs or not args or not isinstance(args[0], torch.Tensor):
        return False
    if name in ("view", "reshape"):
        shape = args[1:] if isinstance(args[-1], int) else args[-1]
        return (
            isinstance(shape, (tuple, list))
            and all(isinstance(size, int) for size in shape)
            and shape[-1] == args[0].shape[-1]
        )
    return name == "__getitem__" and _keeps_features(*args)


def _keeps_features(tensor: torch.Tensor, index: object) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    if any(part is Ellipsis for part in parts):
        return False
    used = 0
    for part in parts:
        if part is None:
            continue
        if used == tensor.dim() - 1:
            return isinstance(part, slice) and part == slice(None)
        is_mask = isinstance(part, torch.Tensor) and part.dtype in (
            torch.bool,
            torch.uint8,
        )
        if is_mask or not isinstance(part, (int, slice, torch.Tensor)):
            return False
        used += 1
    return True


class _Recorder(TorchFunctionMode):
    """Notes which ops read which tensors."""

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.flow = flow
        self.stack = [""]
        self.time = 0

    def tick(self) -> int:
        self.time += 1
        return self.time

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", str(func))
        if name in METADATA and not isinstance(result, torch.Tensor):
            return result
        if name == "dropout" and args and result is args[0]:
            self.flow.dropped.add(id(result))
            return result
        use = Use(self.stack[-1], name, self.tick())
        if selects_rows(func, args, kwargs or {}):
            use.selected = result
        if name == "add" and not kwargs and len(args) == 2:
            use.added = tuple(t for t in args if isinstance(t, torch.Tensor))
        for leaf in _tensors((*args, *(kwargs or {}).values())):
            self.flow.uses.setdefault(id(leaf), []).append(use)
            self.flow.kept.append(leaf)
        for leaf in _tensors((result,)):
            self.flow.made.setdefault(id(leaf), use)
            self.flow.kept.append(leaf)
        return result


def _tensors(values: tuple) -> Iterator[torch.Tensor]:
    """Tensors among values and in containers of them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif value is not None and not isinstance(value, SCALARS):
            for leaf in tree_leaves(value):
                if isinstance(leaf, torch.Tensor):
                    yield leaf


def default_inputs(model: nn.Module) -> dict[str, torch.Tensor]:
    """Example inputs for a model of transformers, made from its config.

    Raises:
        FlowError: the model is of another library, or its inputs are unknown.
    """
    config = getattr(model, "config", None)
    name = getattr(model, "main_input_name", None)
    if config is None or name is None:
        raise FlowError(
            "cannot infer example inputs for "
            f"{type(model).__name__}; pass inputs=, a tuple or "
            "dict of tensors"
        )
    device = _device(model)
    if name == "input_ids":
        # Token 0 is often padding, whose embedding is zero.
        largest = int(getattr(config, "vocab_size", 3)) - 1
        ids = torch.arange(1, 13, device=device) % max(largest, 1) + 1
        ids = ids.clamp(max=max(largest, 0)).view(2, 6)
        inputs = {"input_ids": ids}
        if getattr(config, "is_encoder_decoder", False):
            inputs["decoder_input_ids"] = ids.clone()
        # The signature reveals models of texts and images, such as CLIP.
        takes = inspect.signature(type(model).forward).parameters
        if {"pixel_values", "return_loss"} <= set(takes):
            inputs["pixel_values"] = _pixels(model)
        return inputs
    if name == "pixel_values":
        return {name: _pixels(model)}
    if name == "input_values" and not hasattr(config, "num_mel_bins"):
        # A quarter of a second of sound.
        return {name: torch.zeros(2, 4000, device=device, dtype=_dtype(model))}
    if name == "input_features" and hasattr(config, "num_mel_bins"):
        ids = torch.ones(2, 6, dtype=torch.long, device=device)
        frames = 2 * getattr(config, "max_source_positions", 1500)
        return {
            name: torch.zeros(
                2,
                config.num_mel_bins,
                frames,
                device=device,
                dtype=_dtype(model),
            ),
            "decoder_input_ids": ids,
        }
    raise FlowError(
        f"cannot infer an example of input '{name}' for "
        f"{type(model).__name__}; pass inputs=, a tuple or dict "
        "of tensors"
    )


def _pixels(model: nn.Module) -> torch.Tensor:
    vision = getattr(model.config, "vision_config", model.config)
    size = getattr(vision, "image_size", None)
    if isinstance(size, int):
        size = (size, size)
    elif not (isinstance(size, (list, tuple)) and len(size) == 2):
        # Most models that accept any size were trained with this one.
        size = (224, 224)
    return torch.zeros(
        2,
        getattr(vision, "num_channels", 3),
        *size,
        device=_device(model),
        dtype=_dtype(model),
    )


def _device(model: nn.Module) -> torch.device:
    tensor = next(model.parameters(), None)
    return torch.device("cpu") if tensor is None else tensor.device


def _dtype(model: nn.Module) -> torch.dtype:
    return next(
        (
            p.dtype
            for p in model.parameters()
            if p.dtype in (torch.float32, torch.bfloat16, torch.float16)
        ),
        torch.float32,
    )


def split_inputs(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as positional and keyword arguments."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, Sequence) and not isinstance(inputs, str):
        return tuple(inputs), {}
    return (inputs,), {}


def call_arguments(
    model: nn.Module, inputs: Inputs = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call on example inputs; None makes them from the config.

    The call keeps no cache for later calls, because some models cannot.

    Raises:
        FlowError: the inputs are unknown.
    """
    args, kwargs = split_inputs(
        default_inputs(model) if inputs is None else inputs
    )
    if hasattr(getattr(model, "config", None), "use_cache"):
        kwargs.setdefault("use_cache", False)
    return args, kwargs


def observe(model: nn.Module, inputs: Inputs = None) -> Flow:
    """Runs `model` once, on fake tensors if possible, without its hooks.

    A small run on a GPU has data, because it takes milliseconds, and one on
    fake tensors takes longer. Buffers and random numbers are as before after it.

    Args:
        model: on any device, also meta.
        inputs: a tensor, a tuple or a dict of example inputs. None makes them
            from the config of a model of transformers.

    Raises:
        FlowError: the inputs are unknown, or the model fails on them.
    """
    args, kwargs = call_arguments(model, inputs)
    on_meta = any(p.is_meta for p in model.parameters())
    # Code of torch.jit for a GPU reads memory, which fake tensors lack.
    if not on_meta and any(
        isinstance(m, torch.jit.ScriptModule) for m in model.modules()
    ):
        return _observe_with_data(model, args, kwargs)
    if _is_quick(model, args, kwargs):
        # What fails on data may still work on fake tensors.
        with contextlib.suppress(Exception):
            return _observe_and_restore(model, args, kwargs)
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        fake = tree_map(
            lambda t: mode.from_tensor(t) if isinstance(t, torch.Tensor) else t,
            (args, kwargs),
        )
        with mode, emulated(model, always=True), quiet():
            return _run(model, *fake)
    # Models that branch on values cannot run on fake tensors.
    except Exception as error:
        if on_meta:
            raise _failure(model, error) from error
    return _observe_with_data(model, args, kwargs)


#: Maximum number of elements of the inputs, and of bytes of the buffers, of a run
#: with data on a GPU. The run keeps all activations: up to 2 GiB for 128 tokens
#: and 80 layers of width 8192.
QUICK_ELEMENTS, QUICK_BYTES = 128, 1 << 28


def _is_quick(model: nn.Module, args: tuple, kwargs: dict) -> bool:
    """Whether a run on data takes less than one on fake tensors.

    Only runs whose effects can be undone count: all inputs are tensors, numbers
    or texts, and all tensors of the model are on one GPU.
    """
    leaves = tree_leaves((args, kwargs))
    if not all(isinstance(v, (torch.Tensor, *SCALARS)) for v in leaves):
        return False
    given = [v for v in leaves if isinstance(v, torch.Tensor)]
    held = [*model.parameters(), *model.buffers()]
    return (
        {t.device.type for t in given + held} == {"cuda"}
        and len({t.device for t in held}) == 1
        and all(type(t) in (torch.Tensor, nn.Parameter) for t in given + held)
        and sum(t.numel() for t in given) <= QUICK_ELEMENTS
        and sum(t.nbytes for t in model.buffers()) <= QUICK_BYTES
    )


def _observe_and_restore(model: nn.Module, args: tuple, kwargs: dict) -> Flow:
    """A run on data that changes no buffer, input or random number."""
    own = tree_map(
        lambda t: t.clone() if isinstance(t, torch.Tensor) else t,
        (args, kwargs),
    )
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    # Tensors of inference mode have no version.
    versions = [
        None if buffer.is_inference() else buffer._version
        for buffer, _ in buffers
    ]
    devices = {t.device for t in model.parameters() if t.is_cuda}
    with torch.random.fork_rng(devices):
        try:
            with emulated(model), quiet():
                return _run(model, *own)
        finally:
            with torch.no_grad():
                for (buffer, value), version in zip(buffers, versions):
                    if version is None or buffer._version != version:
                        buffer.copy_(value)


def _observe_with_data(model: nn.Module, args: tuple, kwargs: dict) -> Flow:
    try:
        with emulated(model):
            return _run(model, args, kwargs)
    except Exception as error:
        raise _failure(model, error) from error


def _failure(model: nn.Module, error: Exception) -> FlowError:
    advice = "pass others as inputs="
    if any("_hf_hook" in vars(module) for module in model.modules()):
        advice = (
            "hooks of accelerate move its weights, and do not run here; "
            "load it without a device map or offloading"
        )
    return FlowError(
        f"{type(model).__name__} fails on its example inputs, so "
        "that its data flow is unknown: "
        f"{first_line(error)}; {advice}"
    )


def _run(model: nn.Module, args: tuple, kwargs: dict) -> Flow:
    flow = Flow()
    recorder = _Recorder(flow)
    before = _attributes(model)
    # Otherwise torch.compile would compile the recorder into the model.
    with (
        torch.compiler.set_stance("force_eager"),
        torch.no_grad(),
        _hooks_suspended(model),
        _recording(model, recorder),
        recorder,
    ):
        output = model(*args, **kwargs)
    _find_changed(model, before, flow)
    flow.results = {
        id(t)
        for t in tree_leaves(_plain(output))
        if isinstance(t, torch.Tensor)
    }
    flow.kept.extend(
        t for t in tree_leaves(_plain(output)) if isinstance(t, torch.Tensor)
    )
    return flow


def _plain(output: object) -> object:
    """The output as a dict, if it is a container that pytree does not know."""
    if isinstance(output, Mapping):
        return dict(output)
    return output


@contextlib.contextmanager
def _recording(model: nn.Module, recorder: _Recorder) -> Iterator[None]:
    handles = []
    pending: list[Call] = []
    thread = threading.get_ident()

    def before(path):
        def hook(_module, args, kwargs):
            # Other threads may call the model at the same time.
            if threading.get_ident() != thread:
                return
            call = Call(path, args, kwargs, recorder.tick())
            recorder.flow.calls.setdefault(path, []).append(call)
            pending.append(call)
            recorder.stack.append(path)

        return hook

    def after(_module, _args, _kwargs, output):
        if threading.get_ident() != thread:
            return
        call = pending.pop()
        call.output, call.end = output, recorder.tick()
        recorder.stack.pop()

    try:
        for path, module in model.named_modules():
            # These modules do not support hooks, and contain no Python code.
            if isinstance(module, torch.jit.ScriptModule):
                continue
            handles.append(
                module.register_forward_pre_hook(before(path), with_kwargs=True)
            )
            handles.append(
                module.register_forward_hook(after, with_kwargs=True)
            )
        yield
    finally:
        for handle in handles:
            handle.remove()


HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
)


@contextlib.contextmanager
def _hooks_suspended(model: nn.Module) -> Iterator[None]:
    """Removes the hooks during a `with`: they may fail on fake tensors."""
    saved = [
        (hooks, list(hooks.items()))
        for module in model.modules()
        for hooks in (getattr(module, name) for name in HOOKS)
    ]
    for hooks, _ in saved:
        hooks.clear()
    try:
        yield
    finally:
        for hooks, items in saved:
            added = list(hooks.items())
            hooks.clear()
            hooks.update(items)
            hooks.update(added)


def _attributes(model: nn.Module) -> dict[str, dict[str, Any]]:
    """Attributes of modules that are numbers or texts, by path and name."""
    return {
        path: {
            name: value
            for name, value in vars(module).items()
            if name not in STANDARD and isinstance(value, SCALARS)
        }
        for path, module in model.named_modules()
    }


def _find_changed(
    model: nn.Module, before: dict[str, dict[str, Any]], flow: Flow
) -> None:
    """Records and restores attributes that a forward changed, such as counters.

    Attributes that the forward added stay, because they had no value before.
    """
    for path, module in model.named_modules():
        held, kind = before.get(path, {}), type(module)
        for name, value in list(vars(module).items()):
            if name in STANDARD or not isinstance(value, SCALARS):
                continue
            if name in held and held[name] is not value and held[name] != value:
                setattr(module, name, held[name])
            elif name not in held and getattr(kind, name, value) != value:
                delattr(module, name)
            else:
                continue
            flow.changed[path] = name
