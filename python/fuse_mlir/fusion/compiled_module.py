# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Single modules that run as one kernel, and kernels in files."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from torch import nn
from torch.compiler import is_dynamo_compiling
from torch.nn.utils import parametrize

from fuse_mlir import native
from fuse_mlir.compiler import chains, exports, kernels
from fuse_mlir.compiler.chains import Chain, require_dense, structure
from fuse_mlir.compiler.fast_calls import Arguments, make_call
from fuse_mlir.compiler.kernels import Kernel
from fuse_mlir.compiler.watch import Watch
from fuse_mlir.errors import FuseError, KernelError
from fuse_mlir.fusion.member_checks import (
    check_autocast,
    check_members,
    is_transformed,
)
from fuse_mlir.fusion.places import fused_sites, one_kernel
from fuse_mlir.fusion.proxies import FusedPlace
from fuse_mlir.matching.plans import Plan, Source, Step
from fuse_mlir.matching.sites import join
from fuse_mlir.native import device
from fuse_mlir.support.arguments import (
    no_tensor,
    require,
    require_device,
    require_tensors,
)
from fuse_mlir.support.dynamic_class import Derived, Kind
from fuse_mlir.support.module_snapshot import is_tracing
from fuse_mlir.support.progress import paced
from fuse_mlir.support.types import Progress

Target = TypeVar("Target", nn.Module, type)


def compile_module(target: Target) -> Target:
    """Lets a module, or every instance of a class, run as one kernel.

    The forward must have tensors as arguments and return one tensor. The first
    call with inputs of a new type compiles it. Parameters and `state_dict` do
    not change.

    Args:
        target: a module, changed in place, or a class, as a decorator.

    Returns:
        The module, or a subclass of the class.

    Raises:
        KernelError: at a call, if the module cannot be compiled.
        FuseError: at a call, if modules inside have hooks; immediately, if the
            target is part of a fused site.
        TypeError: `target` is neither a module nor a class of modules.

    Examples:
        >>> mlp = fuse_mlir.compile_module(model.layers[0].mlp)
        >>> y = mlp(x)
    """
    if isinstance(target, FusedPlace):
        raise FuseError(
            f"{target._get_name()} is part of site "
            f"'{target.site}'; unfuse it before"
        )
    if isinstance(target, nn.Module):
        _COMPILED.put_on(target)
        return target
    if not (isinstance(target, type) and issubclass(target, nn.Module)):
        raise TypeError(
            "compile_module expects a torch.nn.Module or a subclass of it, "
            f"got {target!r}"
        )
    return _COMPILED.of(target)


def _methods(kind: Kind) -> dict[str, Any]:
    def forward(
        self: nn.Module, *inputs: torch.Tensor, **named: torch.Tensor
    ) -> torch.Tensor:
        # While torch.fx traces a call, this is one proxy and not a mapping.
        if not isinstance(named, dict):
            raise KernelError(
                f"the compiled {kind.__name__} expects tensors, "
                f"got {no_tensor(named)}"
            )
        if not is_dynamo_compiling():
            built = self.__dict__.get("_fuse_kernels")
            if built is not None and built.fast is not None:
                result = built.fast(inputs, named)
                if result is not None:
                    return result
        if named:
            bound = inspect.signature(kind.forward).bind(self, *inputs, **named)
            if bound.kwargs:
                raise KernelError(
                    f"{kind.__name__} expects "
                    + ", ".join(f"'{name}'" for name in bound.kwargs)
                    + " by name only, but a kernel reads tensors by position"
                )
            inputs = bound.args[1:]
        return _call(self, kind, inputs)

    def getstate(self: nn.Module) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_fuse_kernels"}

    def replicate(self: nn.Module) -> NoReturn:
        raise FuseError(
            "FUSE-N209 tensor-parallel: DataParallel copies the model to other "
            f"devices, and kernels of the compiled {kind.__name__} read the "
            "weights that are here; use DistributedDataParallel, or decompile "
            "the module"
        )

    def prepare_scriptable(self: nn.Module) -> NoReturn:
        raise FuseError(
            f"torch.jit.script sees no kernel, and {kind.__name__} "
            "is compiled to one; decompile it before, or use "
            "torch.export"
        )

    # Hosts read the signature to choose the arguments that they pass.
    setattr(forward, "__signature__", inspect.signature(kind.forward))
    return {
        "_replicate_for_data_parallel": replicate,
        "forward": forward,
        "__getstate__": getstate,
        "__prepare_scriptable__": prepare_scriptable,
    }


def _restore(kind: Kind) -> nn.Module:
    return _COMPILED.new(kind)


_COMPILED = Derived("_fuse_compiled_from", _restore, _methods)


def decompile_module(module: nn.Module) -> nn.Module:
    """Undoes `compile_module` of a module.

    Examples:
        >>> mlp = fuse_mlir.compile_module(model.layers[0].mlp)
        >>> fuse_mlir.decompile_module(mlp) is mlp
        True
    """
    kind = _COMPILED.origin(type(module))
    if kind is None:
        raise FuseError(f"{type(module).__name__} is not compiled")
    if type(module) is not _COMPILED.of(kind):
        raise FuseError(
            f"the class of the compiled {kind.__name__} changed to "
            f"{type(module).__name__}, such as by a parametrization; undo "
            "that first"
        )
    module.__class__ = kind
    module.__dict__.pop("_fuse_kernels", None)
    return module


class _Built:
    """Kernels of a compiled module, by the types of their inputs.

    Args:
        module: the compiled module.
        kind: its class before `compile_module`.
    """

    def __init__(self, module: nn.Module, kind: Kind) -> None:
        self.kernels: dict[Any, Kernel] = {}
        #: Runs calls like the last one, by `_fast_of`.
        self.fast: native.FastCall | None = None
        self._fast_of: tuple[int, int] | None = None
        self._module = weakref.ref(module)
        self._kind = kind
        if parametrize.is_parametrized(module):
            # A parametrized class has properties instead of parameters.
            kind = type(
                kind.__name__,
                (type(module),),
                {
                    "forward": kind.forward,
                    "__module__": __name__,
                    "__qualname__": kind.__qualname__,
                },
            )
        #: The same module with the forward of its own class.
        self.plain = kind.__new__(kind)
        self.plain.__dict__ = {
            k: v for k, v in module.__dict__.items() if k != "_fuse_kernels"
        }
        for hooks in ("_forward_hooks", "_forward_pre_hooks"):
            self.plain.__dict__[hooks] = type(module.__dict__[hooks])()
        module.__dict__["_fuse_kernels"] = self
        self.watch = Watch([module], own_hooks=True)

    def still_has(self, kernel: Kernel, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether calls of the module would run `kernel` now."""
        if self.watch.same():
            return True
        module = self._module()
        if module is None:
            return True
        now = kernels.outside_of_ops(
            inputs[0].device, lambda: _built(module, self._kind)
        )
        return kernel in now.kernels.values()

    def prepare_fast(self, kernel: Kernel) -> None:
        """Lets the extension run calls like the one that has just run."""
        fast, of = self.fast, (kernel.id, kernel.most_loaded)
        if of == self._fast_of and (fast is None or not fast.stale):
            return
        count = len(kernel.compiled.inputs)
        self.fast = make_call(
            kernel, self.watch, Arguments(count, 0, range(count))
        )
        self._fast_of = of

    def make(
        self,
        inputs: Sequence[exports.InputType],
        device: torch.device,
        before: Kernel | None = None,
    ) -> Kernel:
        """A kernel for inputs of some types.

        Args:
            inputs: rank, features and dtype of each input.
            device: of the inputs and the weights.
            before: the previous kernel, which is returned if it still fits.

        Raises:
            KernelError: the module cannot be compiled.
        """
        name = self._kind.__name__
        plan = Plan(
            list(range(len(inputs))),
            [],
            [Step([Source("input", i) for i in range(len(inputs))], {})],
        )
        code = chains.compile_chain([name], [self.plain], plan, inputs)
        if before is not None and before.computes(code, same_modules=False):
            return before
        return Kernel(name, Chain([name], [self.plain], plan), code, device)

    def take_over(self, module: nn.Module, before: _Built) -> None:
        """Keeps the kernels that still fit the module.

        Kernels that do not fit are replaced now, because torch.compile cannot
        make kernels.
        """
        if before.watch.has_modules([module]) and structure(
            self.plain, [], types=False
        ) == structure(before.plain, [], types=False):
            self.kernels = before.kernels
        else:
            for key, kernel in before.kernels.items():
                try:
                    self.kernels[key] = self.make(
                        kernel.compiled.inputs, kernel.device, kernel
                    )
                except KernelError:
                    # A call with such inputs reports the reason.
                    continue
        # Code of torch.compile does not check this again.
        for kernel in self.kernels.values():
            kernel.owner = weakref.WeakMethod(self.still_has)


def _built(module: nn.Module, kind: Kind) -> _Built:
    """The kernels of a module; new ones if the module changed.

    Raises:
        FuseError: the module has hooks that would not run, or is distributed.
        KernelError: the changed module cannot be compiled.
    """
    built = module.__dict__.get("_fuse_kernels")
    if built is not None and (is_tracing() or built.watch.same()):
        return built
    check_members(
        f"the compiled {kind.__name__}",
        [kind.__name__],
        [module],
        "decompile the module",
        own_hooks=True,
    )
    made = _Built(module, kind)
    if built is not None:
        made.take_over(module, built)
    return made


def _call(
    module: nn.Module, kind: Kind, inputs: Sequence[torch.Tensor]
) -> torch.Tensor:
    for i, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            raise KernelError(
                f"argument {i} of {kind.__name__} is a "
                f"{type(value).__name__}; expected a tensor"
            )
    if not inputs:
        raise KernelError(
            f"{kind.__name__} is called without tensors by "
            "position, and a kernel reads one or more"
        )
    check_autocast(f"the compiled {kind.__name__}", inputs[0])
    if not is_tracing() and is_transformed(inputs):
        return kind.forward(module, *inputs)
    require_dense(inputs, kind.__name__)
    built = _built(module, kind)
    key = (
        inputs[0].device,
        tuple((t.dtype, t.dim()) for t in inputs),
        tuple((p.dtype, p.device) for p in module.parameters()),
    )
    if key not in built.kernels:
        built.kernels[key] = built.make(
            chains.input_types(inputs), inputs[0].device
        )
    kernel = built.kernels[key]
    if is_tracing():
        return kernels.call(kernel, list(inputs))
    kernel.owner = weakref.WeakMethod(built.still_has)
    result = kernels.call_asked(kernel, list(inputs))
    built.prepare_fast(kernel)
    return result


def export(
    model: nn.Module,
    path: str | Path,
    site: str | None = None,
    chip: str | None = None,
) -> Path:
    """Writes the kernel of a fused site as an artifact.

    The file has compiled code, the IR and the names of the parameters, but no
    weights. Hosts do not need the compiler to load it. Kernels for GPUs whose
    rows do not depend on each other expect inputs [rows, features].

    Args:
        model: with a fused site.
        path: of the file, `*.fuse`.
        site: its id; needed when the kernels of the sites differ.
        chip: of a GPU, such as `sm_90a`, or `""` for this CPU. None uses the
            device of the model.

    Raises:
        FuseError: no such site, or kernels that differ.
        NativeError: there is no code for the chip.

    Examples:
        >>> result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        >>> fuse_mlir.export(model, folder / "mlp.fuse").name
        'mlp.fuse'
    """
    kernel = one_kernel(model, site)._kernel
    assert kernel is not None
    compiled = kernel.compiled
    if chip is None:
        chip = (
            device.gpu_chip(kernel.device)
            if kernel.device.type == "cuda"
            else ""
        )
    if chip and compiled.by_rows:
        compiled = compiled.for_rows(kernel.chain)
    native.Module(compiled.formed).compile(link=not chip, chip=chip).save(path)
    return Path(path)


def export_all(
    model: nn.Module,
    directory: str | Path,
    chip: str | None = None,
    progress: Progress | None = None,
) -> dict[Path, list[str]]:
    """Writes each kernel of a fused model once, as `kernel-<n>.fuse`.

    Args:
        model: with fused sites.
        directory: that exists.
        chip: as for `export`.
        progress: called after each file, at most once in a second.

    Returns:
        The files, and the sites that have that kernel.
    """
    kinds: dict[str, list[str]] = {}
    for parent, module in fused_sites(model):
        if module._kernel is not None:
            kinds.setdefault(module._kernel.compiled.formed, []).append(
                join(parent, module.site)
            )
    files = {}
    report = paced(progress)
    for number, sites in enumerate(kinds.values()):
        path = Path(directory) / f"kernel-{number}.fuse"
        files[export(model, path, sites[0], chip)] = sites
        if report is not None:
            report(number + 1, len(kinds), f"compiled {path.name}")
    return files


def load(
    path: str | Path,
    device: str | torch.device = "cpu",
    *,
    sha256: str | None = None,
) -> LoadedKernel:
    """Loads a kernel that `export` wrote.

    An artifact is a program. `sha256` makes sure that it is the expected one:
    the file is read once, and its digest is checked before anything else.

    Args:
        path: of the file.
        device: where the kernel runs, such as `cuda:0`.
        sha256: digest of the file as 64 hexadecimal digits; None accepts any
            file.

    Returns:
        The kernel without weights; `LoadedKernel.bind` binds them by name.

    Raises:
        NativeError: the file is damaged, of another version, or for another
            machine, or `sha256` is malformed or that of another file.

    Examples:
        >>> result = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        >>> path = fuse_mlir.export(model, folder / "mlp.fuse")
        >>> kernel = fuse_mlir.load(path)
        >>> kernel.parameters
        ['norm.weight', 'mlp.gate.weight', 'mlp.up.weight', 'mlp.down.weight']
        >>> layer = model.layers[0]
        >>> y = kernel.bind(layer.state_dict())(x)
        >>> torch.allclose(y, layer.mlp(layer.norm(x)), atol=1e-5)
        True
        >>> import hashlib
        >>> digest = hashlib.sha256(path.read_bytes()).hexdigest()
        >>> fuse_mlir.load(path, sha256=digest).parameters[0]
        'norm.weight'
    """
    return LoadedKernel(native.Artifact.load(path, sha256), device)


class LoadedKernel:
    """A kernel from a file.

    Args:
        artifact: one with one function. Calls return a tensor, or a tuple if
            it has several results.
        device: where it runs.
    """

    def __init__(
        self, artifact: native.Artifact, device: str | torch.device
    ) -> None:
        require(
            artifact,
            native.Artifact,
            "the artifact of a kernel",
            "a native.Artifact; fuse_mlir.load makes kernels of files",
        )
        device = require_device(device)
        self.artifact = artifact
        self.device = device
        self._program = artifact.load_on(device)
        self._instance = self._program.instance()
        self._prepared = False

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters, relative to the parent of the members."""
        return [
            t.parameter
            for t in self._program.signature().arguments
            if t.parameter is not None
        ]

    def bind(self, weights: Mapping[str, torch.Tensor]) -> LoadedKernel:
        """Binds parameters by name.

        Call it again after their values changed, because kernels pack some of
        them.
        """
        require(
            weights, Mapping, "argument 'weights'", "tensors by their names"
        )
        for name, tensor in weights.items():
            require(tensor, torch.Tensor, f"parameter '{name}'", "a tensor")
        wanted = {exports.rows_of(name)[0] for name in self.parameters}
        for name, tensor in weights.items():
            if name not in wanted:
                # The error of the library lists the names.
                self._instance.bind(name, tensor)
        for name in self.parameters:
            whole, part = exports.rows_of(name)
            if whole in weights:
                self._instance.bind(name, exports.rows(weights[whole], part))
        self._instance.prepare()
        self._prepared = True
        return self

    def __call__(
        self, *inputs: torch.Tensor
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        if not self._prepared:
            raise KernelError(
                "bind the parameters first: " + ", ".join(self.parameters)
            )
        require_tensors(inputs, "the kernel")
        require_dense(inputs, "the kernel")
        if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
            raise KernelError(
                "a kernel from a file has no backward pass, and "
                "an input requires gradients; use "
                "torch.no_grad()"
            )
        inputs = tuple(
            t.contiguous() if self.device.type == "cpu" else native.aligned(t)
            for t in inputs
        )
        outs = [
            torch.empty(
                self._instance.result_shape(inputs, i),
                dtype=result.dtype,
                device=self.device,
            )
            for i, result in enumerate(self._program.signature().results)
        ]
        if outs[0].numel():
            self._instance.launch(inputs, outs)
        return outs[0] if len(outs) == 1 else tuple(outs)
