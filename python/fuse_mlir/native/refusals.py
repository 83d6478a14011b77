# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reasons why modules are not fused: ids, names and texts.

Ids and names are those of include/fuse/Analysis/Refusals.def, which
docs/reference/refusals.md explains. The texts of the compiler name ops, for
authors of IR. This module restates them in terms of a model's modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fuse_mlir.errors import Refusal
from fuse_mlir.native.bindings import Remark

#: Reasons that concern how members are written, by name.
IDS: Mapping[str, str] = {
    "not-a-chain": "FUSE-N206",
    "kernel-not-for-target": "FUSE-N211",
    "layout-does-not-fit": "FUSE-N217",
    "other-family": "FUSE-N218",
    "no-translation": "FUSE-N219",
    "unsupported-type": "FUSE-N220",
    "no-kernel": "FUSE-N221",
    "not-traceable": "FUSE-N222",
    "changes-itself": "FUSE-N223",
    "convolution": "FUSE-N224",
    "unknown-experts": "FUSE-N225",
    "attribute-taken": "FUSE-N226",
    "opaque-tensor": "FUSE-N227",
    "unsupported-argument": "FUSE-N228",
    "no-code": "FUSE-N229",
    "activation-not-asked-for": "FUSE-N230",
    "endpoint-not-loaded": "FUSE-N231",
    "endpoint-does-not-fit": "FUSE-N232",
    "norm-changes-type": "FUSE-N145",
    "shard-without-reduction": "FUSE-N194",
    "gathered-output": "FUSE-N195",
    "split-input": "FUSE-N196",
    "packed-shard": "FUSE-N197",
    "sequence-parallel": "FUSE-N198",
    "parallel-experts": "FUSE-N199",
    "parallel-mla": "FUSE-N233",
    "module-all-reduce": "FUSE-N234",
    "unknown-parallel-style": "FUSE-N235",
    "uneven-shard": "FUSE-N236",
    "sub-block-scale": "FUSE-N237",
    "scales-differ": "FUSE-N238",
    "mesh-dimensions": "FUSE-N239",
    "meshes-differ": "FUSE-N240",
    "world-size-differs": "FUSE-N241",
    "unknown-parallel-forward": "FUSE-N242",
    "placement-differs": "FUSE-N243",
    "reduction-not-last": "FUSE-N244",
    "shards-do-not-match": "FUSE-N245",
    "ranks-disagree": "FUSE-N246",
    "another-rank-refuses": "FUSE-N247",
    "distributed-gradients": "FUSE-N248",
    "other-layouts": "FUSE-N249",
}


def refusal(name: str, text: str) -> Refusal:
    """The refusal with a name of `IDS`."""
    return Refusal(IDS[name], name, text)


@dataclass(frozen=True)
class _Words:
    """A refusal of the compiler in terms of a model."""

    name: str
    reason: str
    advice: str


#: Refusals of the compiler, which forms kernels from the ops of all members.
COMPILER: Mapping[str, _Words] = {
    "FUSE-N001": _Words(
        "activation-input-not-linear",
        "the activation does not read the result of a linear",
        "let it read that result directly",
    ),
    "FUSE-N002": _Words(
        "intermediate-has-other-users",
        "a value between the members is used elsewhere, too",
        "remove the other use, or end the pattern before it",
    ),
    "FUSE-N003": _Words(
        "gate-partner-not-linear",
        "the activated gate is not multiplied by the result of a linear",
        "compute act(gate(x)) * up(x) without other steps in between",
    ),
    "FUSE-N004": _Words(
        "gate-and-up-inputs-differ",
        "the gate and up projections do not read the same tensor",
        "pass one tensor of one dtype to both",
    ),
    "FUSE-N005": _Words(
        "no-down-projection",
        "the hidden value does not go straight into a linear",
        "remove the step between the activation and the down projection",
    ),
    "FUSE-N006": _Words(
        "mixed-quantization",
        "only some of the linears are quantized",
        "quantize all linears of the MLP, or none",
    ),
    "FUSE-N007": _Words(
        "input-not-quantized-here",
        "the input is quantized outside of the chain",
        "quantize it in the linear that reads it, with a static scale",
    ),
    "FUSE-N008": _Words(
        "scale-mismatch",
        "a linear expects another scale than its input was quantized with",
        "use one scale for both; real values are scale times stored values",
    ),
    "FUSE-N009": _Words(
        "quantization-styles-differ",
        "one linear computes on stored values, another on dequantized ones",
        "quantize the inputs of all linears of the MLP in the same way",
    ),
    "FUSE-N010": _Words(
        "members-in-different-blocks",
        "the members are called in different branches or loops",
        "call all of them in one place",
    ),
    "FUSE-N011": _Words(
        "result-used-before-operands",
        "a result is used before all inputs of the kernel exist",
        "compute all inputs before the first member is called",
    ),
    "FUSE-N012": _Words(
        "no-consumer",
        "no linear of the chain reads the result of the norm directly",
        "pass it to the linear in the type in which the norm returns it",
    ),
    "FUSE-N013": _Words(
        "disabled",
        "the site is switched off by an option",
        "remove it from that option",
    ),
    "FUSE-N014": _Words(
        "family-not-requested",
        "the family of this kernel was not asked for",
        "name it in a pattern, such as 'fuse:mlp'",
    ),
    "FUSE-N015": _Words(
        "not-reversible",
        "the kernel does not expand into exactly the ops of the chain",
        "report this as a bug of fuse, with the forwards of the members",
    ),
    "FUSE-N016": _Words(
        "overlaps-kernel",
        "the chain overlaps with another kernel",
        "unfuse that one, and fuse both in one call",
    ),
    "FUSE-N017": _Words(
        "dynamic-scale",
        "the scale of the input is measured at every call",
        "find a static scale with fuse_mlir.calibrate",
    ),
    "FUSE-N018": _Words(
        "input-scale-not-one-number",
        "the scale of an input is a tensor, not one number",
        "find one static scale with fuse_mlir.calibrate",
    ),
    "FUSE-N019": _Words(
        "input-scales-differ",
        "gate and up quantize their input with different scales",
        "calibrate with fuse_mlir.calibrate, or give both the larger "
        "'input_scale' in the 'scales' of a fusion_config",
    ),
    "FUSE-N020": _Words(
        "storage-types-differ",
        "the linears compute on different storage types",
        "store all weights of the MLP in one type, such as float8_e4m3fn",
    ),
    "FUSE-N021": _Words(
        "division-orders-differ",
        "one input is divided by its scale, another multiplied by the "
        "reciprocal",
        "quantize both in the same order",
    ),
    "FUSE-N022": _Words(
        "bias-places-differ",
        "one bias is added before rounding, another after it",
        "add all biases of the MLP in the same place",
    ),
    "FUSE-N023": _Words(
        "member-has-effects",
        "a member does something besides computing its result",
        "move that out of its forward",
    ),
    "FUSE-N025": _Words(
        "op-before-activation",
        "a step stands between a linear and the activation, or the product of "
        "gate and up",
        "move it out of the MLP",
    ),
    "FUSE-N026": _Words(
        "merged-projections",
        "one linear computes gate and up, which are slices of its result",
        "split it into a linear for gate and one for up",
    ),
    "FUSE-N027": _Words(
        "unknown-activation",
        "the function between two linears is not an activation of a kernel",
        "use silu, gelu, its tanh form, quick gelu, relu or squared relu",
    ),
    "FUSE-N028": _Words(
        "no-activation",
        "gate and up are multiplied without an activation",
        "use an MLP with an activation on its gate",
    ),
    "FUSE-N101": _Words(
        "extra-rounding",
        "a formula rounds between its steps, where the layer of a kernel "
        "stays in float32",
        "call the function of torch.nn.functional instead",
    ),
    "FUSE-N133": _Words(
        "other-activation",
        "the activation is not one of a kernel",
        "use silu, gelu, its tanh form, quick gelu, relu or squared relu",
    ),
}

#: Ids about a norm alone, the smallest kernel of a chain; they are named last.
_LAST = ("FUSE-N012",)
#: Reasons that are in the checkpoint, not in a line of the model.
_OF_VALUES = (
    "FUSE-N006",
    "FUSE-N008",
    "FUSE-N017",
    "FUSE-N018",
    "FUSE-N019",
    "FUSE-N020",
)


def compiler_refusal(
    remarks: Sequence[Remark], context: str = ""
) -> Refusal | None:
    """Why members form no kernel, or a smaller one than possible.

    Args:
        remarks: of all passes that saw the members.
        context: the request, which follows the reason.

    Returns:
        The refusal of the largest kernel that almost formed. None if no
        remark has an id.
    """
    found: dict[str, Remark] = {}
    for remark in remarks:
        if remark.refusal is not None:
            found.setdefault(remark.refusal, remark)
    order = sorted(found, key=lambda id_: id_ in _LAST)
    if not order:
        return None
    id_, remark = order[0], found[order[0]]
    words = COMPILER.get(id_)
    if words is None:
        name, reason = remark.named_reason
        words = _Words(name, reason, remark.fields.get("Suggestion", ""))
    place = (
        f" ({remark.place})" if remark.place and id_ not in _OF_VALUES else ""
    )
    parts = [f"{words.reason}{place}", context, words.advice]
    return Refusal(id_, words.name, "; ".join(filter(None, parts)))
