# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slots in models that were written without slots.

`add_slots` finds computations of a loaded model of transformers for which the
registry has ops: norms, rotary embeddings, gated activations, losses. It reads
op, variant and params from the modules, and checks them on small inputs.
Modules get subclasses of their classes; names, parameters, hooks and the order
of modules stay. `add_expert_slots` adds slots to experts.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fuse_mlir.errors import SlotError
from fuse_mlir.matching.moe import looks_like_experts
from fuse_mlir.slots import check as slot_check
from fuse_mlir.slots.check import Param, Params
from fuse_mlir.slots.op_slot import OpSlot
from fuse_mlir.slots.places import find_slots
from fuse_mlir.slots.rewritten import NoSource, compile_definition, parse
from fuse_mlir.support.arguments import require, require_module
from fuse_mlir.support.dynamic_class import Derived, Kind

#: Ops that `add_slots` looks for.
OPS = (
    "rms_norm",
    "layer_norm",
    "apply_rotary_pos_emb",
    "act_and_mul",
    "cross_entropy_loss",
)
#: Attributes of modules that hold their slots.
NORM, ROTARY, ACT, LOSS = ("norm_slot", "rotary_slot", "act_slot", "loss_slot")

_ROTARY_NAME = "apply_rotary_pos_emb"
_EPS_NAMES = ("variance_epsilon", "eps", "epsilon", "norm_eps")
#: Fraction of 16-bit results that may round differently than the variant,
#: because sums have another order.
_DIFFERING = 0.02


@dataclass(frozen=True)
class SlotInfo:
    """A slot of a model."""

    path: str
    name: str
    op: str
    variant: str
    params: Mapping[str, Param]
    #: `eager`, the name of a kernel, or None while it is unbound.
    kernel: str | None

    def __str__(self) -> str:
        params = "".join(
            f", {name}={value}" for name, value in self.params.items()
        )
        return (
            f"{self.path or 'the model'}: {self.op}/{self.variant}{params}"
            f" ({self.kernel or 'unbound'})"
        )


@dataclass
class AddedSlots:
    """The result of `add_slots`."""

    added: list[SlotInfo] = field(default_factory=list)
    #: Paths of modules that look like an op and got no slot, with reasons.
    skipped: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "".join(
            [
                *(f"slot     {info}\n" for info in self.added),
                *(
                    f"no slot  {path or 'the model'}: {reason}\n"
                    for path, reason in self.skipped.items()
                ),
            ]
        )


class _Skip(Exception):
    """Why a module gets no slot."""


def list_slots(model: nn.Module) -> list[SlotInfo]:
    """All slots of a model, including those in its own code."""
    return [
        SlotInfo(
            p.path,
            p.name,
            p.slot.op,
            p.slot.variant,
            dict(p.slot.params),
            p.slot.kernel,
        )
        for p in find_slots(require_module(model))
    ]


def add_slots(model: nn.Module, ops: Sequence[str] = OPS) -> AddedSlots:
    """Adds slots to a loaded model, for `slots.bind`.

    Until a kernel is bound to a slot, the model runs its own code, bit for bit.
    `named_modules` and `state_dict` do not change.

    Args:
        model: of transformers, or written in the same way.
        ops: the ops to look for.

    Returns:
        The slots, and modules that look like one of the ops but got no slot,
        such as a norm that rounds unlike all variants.

    Raises:
        SlotError: nothing in the model can have a slot, an op is not one of
            `OPS`, or the model has fused modules.
    """
    require_module(model)
    require(
        ops,
        (list, tuple, set, frozenset),
        "argument 'ops'",
        "a list of " + ", ".join(OPS),
    )
    unknown = sorted(set(ops) - set(OPS))
    if unknown:
        raise SlotError(
            f"no slots of op '{unknown[0]}' are added; there is "
            + ", ".join(OPS)
        )
    _refuse_fused(model)
    result = AddedSlots()
    known: dict[object, tuple[str, str, str] | _Skip] = {}
    for path, module in model.named_modules():
        # Products in experts belong to the slot of the experts.
        if looks_like_experts(module) or any(
            derived.origin(type(module)) for derived in _ALL
        ):
            continue
        # Each module matches at most one of these.
        for find in (_norm, _calls, _loss):
            try:
                found = find(module, ops, known)
            except _Skip as skip:
                result.skipped[path] = str(skip)
                continue
            if found is not None:
                derived, slots = found
                vars(module).update(slots)
                derived.put_on(module)
                result.added += [
                    SlotInfo(path, name, s.op, s.variant, dict(s.params), None)
                    for name, s in slots.items()
                ]
                break
    if not result.added:
        why = "".join(
            f"; '{path}': {reason}"
            for path, reason in list(result.skipped.items())[:3]
        )
        raise SlotError(
            f"{type(model).__name__} has nothing to put a slot "
            f"of {', '.join(ops)} on{why}"
        )
    return result


def remove_slots(model: nn.Module) -> list[str]:
    """Undoes `add_slots` exactly, whether the slots are bound or not.

    Returns:
        The paths that had slots.

    Raises:
        SlotError: the class of a module changed after `add_slots`; then all
            slots stay.
    """
    require_module(model)
    found = []
    for path, module in model.named_modules():
        for derived, names in _ALL.items():
            kind = derived.origin(type(module))
            if kind is None:
                continue
            if type(module) is not derived.of(kind):
                raise SlotError(
                    f"the class of '{path}', a {kind.__name__}, was changed "
                    f"after it got slots, to {type(module).__name__}; undo "
                    "that first"
                )
            found.append((path, module, kind, names))
    for _, module, kind, names in found:
        module.__class__ = kind
        for name in names:
            vars(module).pop(name, None)
    return [path for path, *_ in found]


def _refuse_fused(model: nn.Module) -> None:
    from fuse_mlir.fusion.places import fused_sites

    sites = fused_sites(model)
    if sites:
        raise SlotError(
            f"the model has {len(sites)} fused sites, whose "
            "modules do not run as they are written; call "
            "unfuse_modules before"
        )


_Found = tuple[Derived, dict[str, OpSlot]] | None
_Known = dict[object, "tuple[str, str, str] | _Skip"]


def _choose(
    known: _Known,
    key: object,
    what: str,
    candidates: Sequence[tuple[str, str]],
    params: Params,
    eager: slot_check.Eager,
    dtype: torch.dtype,
) -> tuple[str, str]:
    """The op and variant that a function computes.

    Raises:
        _Skip: it computes none of the candidates.
    """
    if key in known:
        before = known[key]
        if isinstance(before, _Skip):
            raise before
        return before[:2]
    reasons = []
    for op, variant in candidates:
        try:
            reason = slot_check.check(op, variant, params, eager)
        except slot_check.Mismatch as mismatch:
            reasons.append(str(mismatch))
            continue
        if reason is not None:
            reasons.append(reason)
            continue
        # The reason of the nearest candidate goes first.
        differing = _differing(op, variant, params, eager, dtype)
        if differing > _DIFFERING:
            reasons.insert(
                0,
                f"rounds in other places than {variant}: "
                f"{differing:.0%} of results in {dtype} differ",
            )
            continue
        known[key] = op, variant, ""
        return op, variant
    skip = _Skip(
        f"{what} is not "
        + " or ".join(f"{op}/{variant}" for op, variant in candidates)
        + f": {reasons[0]}"
    )
    known[key] = skip
    raise skip


def _differing(
    op: str,
    variant: str,
    params: Params,
    eager: slot_check.Eager,
    dtype: torch.dtype,
) -> float:
    """Fraction of 16-bit results that differ from those of a function that
    rounds like the variant."""
    reference = _ROUNDED.get((op, variant))
    if reference is None or dtype not in (torch.bfloat16, torch.float16):
        return 0.0
    generator = torch.Generator().manual_seed(7)
    count = (
        2 if op == "act_and_mul" else len(inspect.signature(eager).parameters)
    )
    inputs = [torch.randn(32, 64, generator=generator).to(dtype)]
    inputs += [
        torch.randn(
            (32, 64) if op == "act_and_mul" else (64,), generator=generator
        ).to(dtype)
        for _ in range(count - 1)
    ]
    with torch.no_grad():
        ours, wanted = eager(*inputs), reference(inputs, params)
    assert isinstance(ours, Tensor)
    return float((ours != wanted).double().mean())


def _rounded_rms(inputs: Sequence[Tensor], params: Params) -> Tensor:
    x, weight = inputs
    wide = slot_check._rms(x.float(), params)
    return weight * wide.to(x.dtype)


def _rounded_offset(inputs: Sequence[Tensor], params: Params) -> Tensor:
    x, weight = inputs
    wide = slot_check._rms(x.float(), params)
    return (wide * (1 + weight.float())).to(x.dtype)


def _rounded_act(act: str, inputs: Sequence[Tensor]) -> Tensor:
    return slot_check._ACTS[act](inputs[0]) * inputs[1]


_ROUNDED: dict[
    tuple[str, str], Callable[[Sequence[Tensor], Params], Tensor]
] = {
    ("rms_norm", "standard"): _rounded_rms,
    ("rms_norm", "offset1_f32"): _rounded_offset,
    ("rms_norm", "unweighted"): lambda a, p: slot_check._rms(
        a[0].float(), p
    ).to(a[0].dtype),
    ("layer_norm", "standard"): lambda a, p: slot_check._layer_norm(
        [t.float() for t in a], p
    )[0].to(a[0].dtype),
    **{
        ("act_and_mul", act): functools.partial(
            lambda a, p, act: _rounded_act(act, a), act=act
        )
        for act in ("silu", "gelu", "gelu_tanh")
    },
}


def _require_plain(module: nn.Module) -> None:
    """Refuses modules that do not run the forward of their class.

    Raises:
        _Skip: with the reason.
    """
    if "forward" in vars(module):
        raise _Skip(
            f"{type(module).__name__} has a forward on the "
            "instance, as accelerate and other packages set it"
        )


# Norms.


class NormFunction:
    """The forward of a norm as a function of its input and parameters."""

    def __init__(self, module: nn.Module, kind: Kind) -> None:
        self.module = module
        self.kind = kind
        self.names = [
            name
            for name, value in module._parameters.items()
            if value is not None
        ]
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
                for name in ("x", *self.names)
            ]
        )

    def __call__(self, x: Tensor, *tensors: Tensor) -> Tensor:
        # Parameters are arguments of the call, so that they get gradients.
        stand_in = self.kind.__new__(self.kind)
        state = dict(vars(self.module))
        state.update(dict.fromkeys(state["_parameters"]), _parameters={})
        state.update(zip(self.names, tensors))
        if "normalized_shape" in state:
            state["normalized_shape"] = tuple(x.shape[-1:])
        stand_in.__dict__ = state
        return self.kind.forward(stand_in, x)


def _norm(module: nn.Module, ops: Sequence[str], known: _Known) -> _Found:
    weights = {
        name: value
        for name, value in module._parameters.items()
        if value is not None
    }
    kind = type(module)
    if (
        not {"rms_norm", "layer_norm"} & set(ops)
        or module._modules
        or module._buffers
        or "norm" not in kind.__name__.lower()
        or not set(weights) <= {"weight", "bias"}
        or any(w.dim() != 1 for w in weights.values())
    ):
        return None
    _require_plain(module)
    name = next(
        (n for n in _EPS_NAMES if isinstance(getattr(module, n, None), float)),
        None,
    )
    if name is None:
        raise _Skip(
            f"{kind.__name__} has no eps among its attributes "
            + ", ".join(_EPS_NAMES)
        )
    params = {"eps": float(getattr(module, name))}
    candidates = {
        (): [("rms_norm", "unweighted"), ("layer_norm", "standard")],
        ("weight",): [
            ("rms_norm", "standard"),
            ("rms_norm", "offset1_f32"),
            ("layer_norm", "standard"),
        ],
        ("weight", "bias"): [("layer_norm", "standard")],
    }.get(tuple(weights), [])
    if not candidates:
        raise _Skip(f"{kind.__name__} has the parameters " + ", ".join(weights))
    eager = NormFunction(module, kind)
    dtype = next(iter(weights.values())).dtype if weights else torch.float32
    op, variant = _choose(
        known,
        (kind, tuple(weights), params["eps"], dtype),
        kind.__name__,
        candidates,
        params,
        eager,
        dtype,
    )
    if op not in ops:
        return None
    return _NORMS, {NORM: OpSlot(op, variant, params=params, eager=eager)}


def _norm_methods(kind: Kind) -> dict[str, object]:
    def forward(self: nn.Module, x: Tensor) -> object:
        slot: OpSlot = vars(self)[NORM]
        if not slot.has_kernel:
            return kind.forward(self, x)
        return slot(
            x,
            *[
                value
                for value in self._parameters.values()
                if value is not None
            ],
        )

    setattr(forward, "__signature__", inspect.signature(kind.forward))
    return {"forward": forward}


# Functions and products that forwards compute themselves.


class ActAndMul:
    """An activation of one half, times the other half."""

    def __init__(self, act: Callable[[Tensor], Tensor]) -> None:
        self.act = act

    def __call__(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.act(gate) * up


def _calls(module: nn.Module, ops: Sequence[str], known: _Known) -> _Found:
    kind = type(module)
    wanted = {
        name for name in ("apply_rotary_pos_emb", "act_and_mul") if name in ops
    }
    code = getattr(inspect.unwrap(kind.forward), "__code__", None)
    if not wanted or code is None or kind.__module__.startswith("torch."):
        return None
    acts = {name for name in code.co_names if _is_act(module, name)}
    if not acts and _ROTARY_NAME not in code.co_names:
        return None
    try:
        sites = _Sites(kind)
    except NoSource as error:
        raise _Skip(str(error)) from error
    slots: dict[str, OpSlot] = {}
    if _ROTARY_NAME in wanted and _ROTARY_NAME in code.co_names:
        slots[ROTARY] = _rotary_slot(kind, sites, known)
    names = [name for name in sites.acts if name in acts]
    if "act_and_mul" in wanted and len(names) == 1:
        slots[ACT] = _act_slot(module, names[0], known)
    if not slots:
        if acts and module._modules and "act_and_mul" in wanted:
            raise _Skip(
                f"{kind.__name__} uses '{min(acts)}' without a gate, "
                "and the registry has no op for an activation alone"
            )
        return None
    _require_plain(module)
    return _CALLS, slots


def _is_act(module: nn.Module, name: str) -> bool:
    value = getattr(module, name, None)
    if isinstance(value, nn.Module):
        # Subclasses of Linear have no children either, but have parameters.
        return (
            not value._modules
            and not value._parameters
            and not value._buffers
            and "act" in name
        )
    return (
        "act" in name
        and callable(value)
        and not hasattr(nn.Module, name)
        and name in vars(module)
    )


class _Sites(ast.NodeTransformer):
    """Finds calls and products of a forward, and adds slots to them.

    Raises:
        NoSource: the source of the forward is not available.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.definition = parse(kind.forward)
        self.self_name = self.definition.args.args[0].arg
        #: Calls of the rotary function.
        self.rotary: list[ast.Call] = []
        #: Names of members that are called as a factor of a product.
        self.acts: list[str] = []
        self.new = self.visit(copy.deepcopy(self.definition))

    def _slot_or(
        self, attribute: str, args: list[ast.expr], node: ast.expr
    ) -> ast.expr:
        """`self.slot(args) if self has a kernel there else node`."""
        slot = f"{self.self_name}.__dict__.get('{attribute}')"
        test = ast.parse(
            f"{slot} is not None and {self.self_name}.{attribute}.has_kernel",
            mode="eval",
        ).body
        call = ast.Call(
            ast.Attribute(
                ast.Name(self.self_name, ast.Load()), attribute, ast.Load()
            ),
            copy.deepcopy(args),
            [],
        )
        return ast.copy_location(ast.IfExp(test, call, node), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id != _ROTARY_NAME:
            return node
        self.rotary.append(node)
        return self._slot_or(ROTARY, node.args, node)

    def _act_of(self, node: ast.expr) -> str | None:
        if (
            isinstance(node, ast.Call)
            and len(node.args) == 1
            and not node.keywords
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == self.self_name
            and "act" in node.func.attr
        ):
            return node.func.attr
        return None

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Mult):
            return node
        for act, other in ((node.left, node.right), (node.right, node.left)):
            name = self._act_of(act)
            if name is not None:
                assert isinstance(act, ast.Call)
                self.acts.append(name)
                return self._slot_or(ACT, [act.args[0], other], node)
        return node


def _rotary_slot(kind: Kind, sites: _Sites, known: _Known) -> OpSlot:
    if len(sites.rotary) != 1:
        raise _Skip(
            f"the forward of {kind.__name__} calls {_ROTARY_NAME} "
            f"{len(sites.rotary)} times; expected once"
        )
    call = sites.rotary[0]
    heads = {k.arg: k.value for k in call.keywords}
    dim = heads.pop("unsqueeze_dim", ast.Constant(1))
    if (
        len(call.args) != 4
        or heads
        or not isinstance(dim, ast.Constant)
        or not isinstance(dim.value, int)
        or any(isinstance(a, ast.Starred) for a in call.args)
    ):
        raise _Skip(
            f"{kind.__name__} calls {_ROTARY_NAME} with other "
            "arguments than q, k, cos, sin and a constant "
            "unsqueeze_dim"
        )
    function = inspect.unwrap(kind.forward).__globals__[_ROTARY_NAME]
    params = {"unsqueeze_dim": dim.value}
    eager = (
        function
        if dim.value == 1
        else functools.partial(function, unsqueeze_dim=dim.value)
    )
    op, variant = _choose(
        known,
        (function, dim.value),
        f"{_ROTARY_NAME} of {kind.__module__}",
        [(_ROTARY_NAME, "partial"), (_ROTARY_NAME, "full")],
        params,
        eager,
        torch.float32,
    )
    return OpSlot(op, variant, params=params, eager=eager)


def _act_slot(module: nn.Module, name: str, known: _Known) -> OpSlot:
    act = getattr(module, name)
    kind = (
        type(act).__name__
        if isinstance(act, nn.Module)
        else getattr(act, "__name__", repr(act))
    )
    if isinstance(act, nn.Module) and (
        act._forward_hooks
        or act._forward_pre_hooks
        or act._backward_hooks
        or act._backward_pre_hooks
    ):
        raise _Skip(f"'{name}' has hooks, which would not run; remove them")
    weight = next(module.parameters(), None)
    dtype = torch.float32 if weight is None else weight.dtype
    eager = ActAndMul(act)
    # Activations of one class may have different attributes.
    op, variant = _choose(
        known,
        (type(act), repr(act), dtype),
        kind,
        [("act_and_mul", v) for v in ("silu", "gelu", "gelu_tanh")],
        {},
        eager,
        dtype,
    )
    return OpSlot(op, variant, eager=eager)


def _call_methods(kind: Kind) -> dict[str, object]:
    return {"forward": compile_definition(kind.forward, _Sites(kind).new)}


# Losses.


class CausalLoss:
    """Next-token cross entropy as a function of tensors."""

    def __init__(self, loss: Callable[..., Tensor]) -> None:
        self.loss = loss
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
                for name in ("logits", "labels")
            ]
        )

    def __call__(
        self, logits: Tensor, labels: Tensor, *num_items: Tensor
    ) -> Tensor:
        return self.loss(
            logits,
            labels,
            vocab_size=logits.shape[-1],
            num_items_in_batch=num_items[0] if num_items else None,
        )


def _loss(module: nn.Module, ops: Sequence[str], known: _Known) -> _Found:
    kind = type(module)
    names = getattr(
        getattr(inspect.unwrap(kind.forward), "__code__", None), "co_names", ()
    )
    if (
        "cross_entropy_loss" not in ops
        or "loss_function" not in names
        or not isinstance(getattr(kind, "loss_function", None), property)
    ):
        return None
    loss = getattr(module, "loss_function")
    name = getattr(loss, "__name__", type(loss).__name__)
    if name != "ForCausalLMLoss":
        raise _Skip(
            f"the loss of {kind.__name__} is {name}; the registry has "
            "next-token cross entropy, ForCausalLMLoss, alone"
        )
    eager = CausalLoss(loss)
    op, variant = _choose(
        known,
        loss,
        name,
        [("cross_entropy_loss", "causal")],
        {},
        eager,
        torch.float32,
    )
    return _LOSSES, {
        LOSS: OpSlot(op, variant, params={"ignore_index": -100}, eager=eager)
    }


def _loss_methods(kind: Kind) -> dict[str, object]:
    plain = getattr(kind, "loss_function")

    def get(self: nn.Module) -> Callable[..., Tensor]:
        loss = plain.fget(self)
        slot: OpSlot = vars(self)[LOSS]
        return (
            functools.partial(_run_loss, slot, loss)
            if slot.has_kernel
            else loss
        )

    return {"loss_function": property(get, plain.fset)}


def _run_loss(
    slot: OpSlot,
    loss: Callable[..., Tensor],
    logits: Tensor,
    labels: Tensor,
    vocab_size: int,
    num_items_in_batch: Tensor | float | None = None,
    ignore_index: int = -100,
    shift_labels: Tensor | None = None,
    **_others: object,
) -> Tensor:
    """Runs a kernel with the arguments of a loss of transformers.

    Raises:
        SlotError: the kernel does not support the arguments.
    """
    way = "; bind the slot to eager for such calls"
    if not isinstance(slot.eager, CausalLoss) or slot.eager.loss is not loss:
        raise SlotError(
            f"the model has another loss function since its slot was added{way}"
        )
    if shift_labels is not None:
        raise SlotError(
            "the loss is called with shift_labels, and kernel "
            f"'{slot.kernel}' shifts labels itself{way}"
        )
    if (
        ignore_index != slot.params["ignore_index"]
        or vocab_size != logits.shape[-1]
    ):
        raise SlotError(
            f"the loss is called with ignore_index={ignore_index}, "
            f"vocab_size={vocab_size}, and kernel '{slot.kernel}' is for "
            f"{slot.params['ignore_index']} and the {logits.shape[-1]} "
            f"features of logits{way}"
        )
    items = []
    if num_items_in_batch is not None:
        items = [torch.as_tensor(num_items_in_batch, device=logits.device)]
    return slot(logits, labels.to(logits.device), *items)


def _restore_norm(kind: Kind) -> nn.Module:
    return _NORMS.new(kind)


def _restore_calls(kind: Kind) -> nn.Module:
    return _CALLS.new(kind)


def _restore_loss(kind: Kind) -> nn.Module:
    return _LOSSES.new(kind)


_NORMS = Derived("_fuse_norm_slot_from", _restore_norm, _norm_methods)
_CALLS = Derived("_fuse_call_slots_from", _restore_calls, _call_methods)
_LOSSES = Derived("_fuse_loss_slot_from", _restore_loss, _loss_methods)
#: Attributes that modules of each subclass may have.
_ALL = {_NORMS: (NORM,), _CALLS: (ROTARY, ACT), _LOSSES: (LOSS,)}
