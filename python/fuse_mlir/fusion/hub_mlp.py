# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Static FP8 MLPs that kernels of the Hub compute (transformers#46997)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from fuse_mlir.compiler.watch import Watch
from fuse_mlir.errors import EndpointError, FuseError
from fuse_mlir.fusion.member_checks import check_autocast, check_members
from fuse_mlir.fusion.proxies import FusedPlace
from fuse_mlir.matching.dataflow import Flow
from fuse_mlir.matching.endpoints import Endpoint
from fuse_mlir.matching.path_glob import PathGlob, escape
from fuse_mlir.matching.patterns import Member, Pattern, class_name
from fuse_mlir.matching.sites import Site, find_sites
from fuse_mlir.native.refusals import IDS
from fuse_mlir.support.module_snapshot import is_tracing

#: Names of the linears of each kind of MLP, in the order of computation.
_LINEARS = {
    "gated_mlp": ("gate_proj", "up_proj", "down_proj"),
    "dense_gelu_mlp": ("fc1", "fc2"),
}
#: The family of kernels of each kind.
FAMILIES = {"gated_mlp": "gated_mlp", "dense_gelu_mlp": "mlp"}
#: Options that name the functions, by kind and activation.
_OPTION: Mapping[tuple[str, str | None], str] = {
    ("gated_mlp", "silu"): "swiglu_func",
    ("gated_mlp", "gelu_pytorch_tanh"): "geglu_func",
    ("dense_gelu_mlp", "gelu_pytorch_tanh"): "gelu_func",
}


def candidate_sites(
    model: nn.Module, kernels: Mapping[str, Endpoint], flow: Flow
) -> list[tuple[Site, str]]:
    """MLPs with the linears that kernels of the Hub support, and their kinds.

    Sites that no kernel computes are refused.
    """
    found: list[tuple[Site, str]] = []
    count: dict[str, int] = {}
    broken = {
        name: why
        for name, kernel in kernels.items()
        if (why := _failure(kernel)) is not None
    }
    for path, module in list(model.named_modules()):
        kind = next(
            (
                kind
                for kind, names in _LINEARS.items()
                if kind in kernels
                and all(
                    isinstance(module._modules.get(name), nn.Linear)
                    for name in names
                )
            ),
            None,
        )
        if kind is None or not path:
            continue
        site = find_sites(
            model,
            [Pattern((Member(class_name(module), PathGlob(escape(path))),))],
            flow,
        )[0]
        base = site.id.rpartition("#")[0]
        site.id = f"{base}#{count.get(base, 0)}"
        count[base] = count.get(base, 0) + 1
        found.append((site, kind))
        if site.refusal is not None:
            continue
        why = next(
            (broken[name] for name in ("input_quant", kind) if name in broken),
            None,
        )
        if why is not None:
            site.refuse(IDS["endpoint-not-loaded"], "endpoint-not-loaded", why)
            continue
        why = _misfit(module, kind, path)
        if (
            why is None
            and site.plan is not None
            and (len(site.plan.inputs), len(list(site.plan.steps[0].slots())))
            != (1, 1)
        ):
            why = f"'{path}' is called with more than one argument"
        if why is not None:
            site.refuse(
                IDS["endpoint-does-not-fit"], "endpoint-does-not-fit", why
            )
    return found


def _failure(kernel: Endpoint) -> str | None:
    try:
        kernel.load()
    except EndpointError as error:
        return str(error)
    return None


def _misfit(module: nn.Module, kind: str, path: str) -> str | None:
    """Why kernels for a kind of MLP cannot compute a module."""
    linears = [module.get_submodule(name) for name in _LINEARS[kind]]
    for name, linear in zip(_LINEARS[kind], linears):
        why = _no_static_fp8(linear, kind == "dense_gelu_mlp")
        if why is not None:
            return f"'{path}.{name}' {why}"
    first, last = linears[0], linears[-1]
    if last.in_features != first.out_features:
        return (
            f"'{path}.{_LINEARS[kind][-1]}' reads {last.in_features} "
            f"values, and the linear before it has {first.out_features}"
        )
    if kind == "gated_mlp":
        up = linears[1]
        if first.weight.shape != up.weight.shape:
            return f"gate and up of '{path}' have different shapes"
        for name in ("activation_scale", "weight_scale_inv"):
            gate_scale, up_scale = getattr(first, name), getattr(up, name)
            if not gate_scale.is_meta and not torch.equal(
                gate_scale.detach().cpu(), up_scale.detach().cpu()
            ):
                return (
                    f"'{name}' of gate and up of '{path}' is "
                    f"{gate_scale.item():.6g} and {up_scale.item():.6g}, "
                    "but the kernel has one for both"
                )
    if (kind, _activation(module)) not in _OPTION:
        known = " or ".join(str(act) for k, act in _OPTION if k == kind)
        return f"'{path}' has another activation than {known}"
    return None


def _no_static_fp8(linear: nn.Module, may_have_bias: bool) -> str | None:
    if not any(k.__name__ == "FP8Linear" for k in type(linear).__mro__):
        return f"is a {type(linear).__name__}; expected an FP8Linear"
    if getattr(linear, "activation_scheme", None) != "static":
        return "has no static scale for its input"
    if getattr(linear, "block_size", None) is not None:
        return f"has scales per block of {linear.block_size}"
    if linear.weight.dtype is not torch.float8_e4m3fn:
        return f"has a weight of {linear.weight.dtype}"
    if linear.bias is not None and not may_have_bias:
        return "has a bias"
    for name in ("weight_scale_inv", "activation_scale"):
        scale = getattr(linear, name, None)
        if (
            not isinstance(scale, torch.Tensor)
            or scale.numel() != 1
            or scale.dtype is not torch.float32
        ):
            return f"has no '{name}' that is one number in float32"
    return None


def _activation(module: nn.Module) -> str | None:
    from transformers.activations import ACT2FN

    own = next(
        (
            found
            for name in ("act_fn", "activation_fn", "activation", "act")
            if (found := getattr(module, name, None)) is not None
        ),
        None,
    )
    return next(
        (
            name
            for name in ("silu", "gelu_pytorch_tanh")
            if type(own) is type(ACT2FN[name])
        ),
        None,
    )


class EndpointMlp(FusedPlace):
    """Computes an MLP with functions of kernels of the Hub.

    Features are computed in bfloat16. There is no backward pass.

    Args:
        site: a site that is not refused.
        kind: of the MLP, as a `fusion_config` calls it.
        kernels: by their names there.
    """

    members: list[nn.Module]
    _mlp: str
    _kernels: dict[str, Endpoint]
    #: The members as they were when their weights were packed.
    _watch: Watch | None
    #: The packed weights and scales; None before the first call.
    _packed: Any

    def __init__(
        self, site: Site, kind: str, kernels: Mapping[str, Endpoint]
    ) -> None:
        super().__init__(site.id, site.members[0])
        self.names = site.names
        self.__dict__.update(
            members=list(site.members),
            _mlp=kind,
            _kernels=dict(kernels),
            _watch=None,
            _packed=None,
        )

    def put_into(self, parent: nn.Module) -> None:
        """Replaces its member among the children of `parent`."""
        parent._modules[self.names[0]] = self

    def take_out_of(self, parent: nn.Module) -> None:
        """Puts the member back."""
        self._member.training = self.training
        parent._modules[self.names[0]] = self._member

    @property
    def families(self) -> tuple[str, ...]:
        """Families of kernels of fuse that would fit this MLP."""
        return (FAMILIES[self._mlp],)

    @property
    def note(self) -> str:
        """The kernels that compute the MLP."""
        option = _OPTION[self._mlp, _activation(self._member)]
        kernel = self._kernels[self._mlp]
        return f"by '{dict(kernel.functions)[option]}' of '{kernel.repo_id}'"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_watch": None, "_packed": None}

    def forward(self, *args: object, **kwargs: object) -> torch.Tensor:
        given = [*args, *kwargs.values()]
        if len(given) != 1 or not isinstance(given[0], torch.Tensor):
            raise FuseError(
                f"site '{self.site}' is fused for one tensor, got "
                f"{len(given)} arguments; unfuse the site"
            )
        x = given[0]
        if not is_tracing():
            self._look()
        if torch.is_grad_enabled() and x.requires_grad:
            raise FuseError(
                f"site '{self.site}' is computed by a kernel of the Hub, which "
                "has no gradients; use torch.no_grad(), or unfuse the site"
            )
        check_autocast(f"site '{self.site}'", x)
        rows = x.reshape(-1, x.shape[-1]).to(torch.bfloat16)
        result = self._compute(rows)
        return result.reshape(*x.shape[:-1], result.shape[-1]).to(x.dtype)

    def _look(self) -> None:
        """Checks the member again if it changed.

        Raises:
            FuseError: the member has a hook, or no kernel computes it.
        """
        if self._watch is not None and self._watch.same():
            return
        check_members(
            f"site '{self.site}'", self.names, self.members, "unfuse the site"
        )
        why = _misfit(self._member, self._mlp, self.names[0])
        if why is not None:
            raise FuseError(
                f"FUSE-N232 endpoint-does-not-fit: {why}, which "
                f"changed after site '{self.site}' was fused; "
                "unfuse the site"
            )
        self.__dict__["_watch"] = Watch(self.members)

    def _compute(self, rows: torch.Tensor) -> torch.Tensor:
        linears: list[Any] = [
            self._member.get_submodule(name) for name in _LINEARS[self._mlp]
        ]
        first, last = linears[0], linears[-1]
        quantize = self._kernels["input_quant"].function("func")
        ones = torch.ones(
            rows.shape[-1], dtype=torch.bfloat16, device=rows.device
        )
        stored = quantize(rows, ones, first.activation_scale)
        option = _OPTION[self._mlp, _activation(self._member)]
        weights = (
            [self._gate_up(linears[:2]), last.weight]
            if self._mlp == "gated_mlp"
            else [
                part
                for linear in linears
                for part in (linear.weight, _bias(linear))
            ]
        )
        result = self._kernels[self._mlp].function(option)(
            stored,
            *weights,
            first.activation_scale,
            first.weight_scale_inv,
            last.activation_scale,
            last.weight_scale_inv,
        )
        expected = (rows.shape[0], last.out_features)
        if not isinstance(result, torch.Tensor) or result.shape != expected:
            got = (
                tuple(result.shape)
                if isinstance(result, torch.Tensor)
                else type(result).__name__
            )
            raise FuseError(
                f"site '{self.site}', computed {self.note}, has "
                f"the result {got}; expected {expected}"
            )
        return result

    def _gate_up(self, linears: Sequence[nn.Linear]) -> torch.Tensor:
        """Both weights in one tensor, which is made again if one changed."""
        weights = [linear.weight for linear in linears]
        state = [
            (w.data_ptr(), 0 if w.is_inference() else w._version)
            for w in weights
        ]
        if self._packed is None or self._packed[0] != state:
            self.__dict__["_packed"] = (
                state,
                torch.cat([w.detach() for w in weights]),
            )
        return self._packed[1]


def _bias(linear: nn.Linear) -> torch.Tensor:
    if linear.bias is None:
        return torch.zeros(
            linear.out_features,
            dtype=torch.bfloat16,
            device=linear.weight.device,
        )
    return linear.bias.detach().to(torch.bfloat16)
