#!/usr/bin/env python3
"""Prints a model of many layers as IR.

qwen3: the modules of Qwen3ForCausalLM, with tied embeddings. Attention is
declared only; everything else has a body.

mixed: layers with gated and dense MLPs, one that is skipped, one whose norm
has two users, one whose MLP has hooks, one whose weights are those of another
layer, one that calls its modules twice, and one that is called twice itself.
"""

import argparse

HIDDEN, INNER = 8, 16


def tensor(*sizes):
    return "tensor<" + "x".join(str(s) for s in sizes) + "xbf16>"


X = tensor("?", HIDDEN)
H = tensor("?", INNER)


def indent(text, by):
    return "".join(" " * by + line for line in text.splitlines(True))


def module(name, class_name, *parts, extra=""):
    return (
        f'nn.module @{name} class "{class_name}"{extra} {{\n'
        + "".join(indent(part, 2) for part in parts)
        + "}\n"
    )


def symbol(path):
    names = path.split(".")
    return "::".join(f'@"{n}"' if n.isdigit() else f"@{n}" for n in names)


def norm(name, class_name="Qwen3RMSNorm", tied=""):
    weight = tensor(HIDDEN)
    tie = f" tied_to({symbol(tied)})" if tied else ""
    return module(
        name,
        class_name,
        f"""nn.parameter @weight{tie} : {weight}
func.func @forward(%x: {X}) -> {X} {{
  %w = nn.get_parameter @weight : {weight}
  %y = fuse.rms_norm %x weight(%w) eps 1.0e-6 : ({X}, {weight}) -> {X}
  return %y : {X}
}}
""",
    )


def linear(name, out, size, tied=""):
    weight, source, result = (
        tensor(out, size),
        tensor("?", size),
        tensor("?", out),
    )
    tie = f" tied_to({symbol(tied)})" if tied else ""
    return module(
        name,
        "Linear",
        f"""nn.parameter @weight{tie} : {weight}
func.func @forward(%x: {source}) -> {result} {{
  %w = nn.get_parameter @weight : {weight}
  %y = fuse.linear %x, %w : ({source}, {weight}) -> {result}
  return %y : {result}
}}
""",
    )


def gated_mlp(extra="", tied=""):
    def tie(child):
        return f"{tied}.{child}.weight" if tied else ""

    return module(
        "mlp",
        "Qwen3MLP",
        linear("gate_proj", INNER, HIDDEN, tie("gate_proj")),
        linear("up_proj", INNER, HIDDEN, tie("up_proj")),
        linear("down_proj", HIDDEN, INNER, tie("down_proj")),
        f"""func.func @forward(%x: {X}) -> {X} {{
  %g = nn.call_module @gate_proj(%x) : ({X}) -> {H}
  %a = fuse.activation silu %g : {H} -> {H}
  %u = nn.call_module @up_proj(%x) : ({X}) -> {H}
  %p = fuse.gated_mul %a, %u : ({H}, {H}) -> {H}
  %d = nn.call_module @down_proj(%p) : ({H}) -> {X}
  return %d : {X}
}}
""",
        extra=extra,
    )


def dense_mlp():
    return module(
        "mlp",
        "DenseMLP",
        linear("fc1", INNER, HIDDEN),
        linear("fc2", HIDDEN, INNER),
        f"""func.func @forward(%x: {X}) -> {X} {{
  %u = nn.call_module @fc1(%x) : ({X}) -> {H}
  %a = fuse.activation gelu_tanh %u : {H} -> {H}
  %d = nn.call_module @fc2(%a) : ({H}) -> {X}
  return %d : {X}
}}
""",
    )


def block(norm_name, users=1):
    """norm, MLP and the residual add around them."""
    call = f": ({X}) -> {X}"
    add = f": ({X}, {X}) -> {X}"
    body = f"""func.func @forward(%x: {X}) -> {X} {{
  %n = nn.call_module @{norm_name}(%x) {call}
  %m = nn.call_module @mlp(%n) {call}
  %s = fuse.residual_add %x, %m {add}
"""
    if users == 1:
        return body + f"  return %s : {X}\n}}\n"
    return (
        body
        + f"""  %y = fuse.residual_add %n, %s {add}
  return %y : {X}
}}
"""
    )


def qwen3_layer(index):
    attention = module(
        "self_attn",
        "Qwen3Attention",
        linear("q_proj", HIDDEN, HIDDEN),
        linear("k_proj", HIDDEN, HIDDEN),
        linear("v_proj", HIDDEN, HIDDEN),
        linear("o_proj", HIDDEN, HIDDEN),
        f"func.func private @forward({X}) -> {X}\n",
    )
    return module(
        f'"{index}"',
        "Qwen3DecoderLayer",
        attention,
        gated_mlp(),
        norm("input_layernorm"),
        norm("post_attention_layernorm"),
        f"""func.func @forward(%x: {X}) -> {X} {{
  %n = nn.call_module @input_layernorm(%x) : ({X}) -> {X}
  %a = nn.call_module @self_attn(%n) : ({X}) -> {X}
  %h = fuse.residual_add %x, %a : ({X}, {X}) -> {X}
  %p = nn.call_module @post_attention_layernorm(%h) : ({X}) -> {X}
  %m = nn.call_module @mlp(%p) : ({X}) -> {X}
  %y = fuse.residual_add %h, %m : ({X}, {X}) -> {X}
  return %y : {X}
}}
""",
    )


def chain(count):
    lines = [f"func.func @forward(%x0: {X}) -> {X} {{\n"]
    for i in range(count):
        lines.append(
            f'  %x{i + 1} = nn.call_module @layers::@"{i}"(%x{i}) '
            f": ({X}) -> {X}\n"
        )
    return lines, f"%x{count}"


def qwen3(layers):
    weight, logits = tensor(32, HIDDEN), tensor("?", 32)
    body, last = chain(layers)
    body += [
        f"  %n = nn.call_module @norm({last}) : ({X}) -> {X}\n",
        f"  return %n : {X}\n}}\n",
    ]
    model = module(
        "model",
        "Qwen3Model",
        module(
            "embed_tokens", "Embedding", f"nn.parameter @weight : {weight}\n"
        ),
        module(
            "layers", "ModuleList", *(qwen3_layer(i) for i in range(layers))
        ),
        norm("norm"),
        "".join(body),
    )
    head = linear("lm_head", 32, HIDDEN, tied="model.embed_tokens.weight")
    forward = f"""func.func @forward(%x: {X}) -> {logits} {{
  %h = nn.call_module @model(%x) : ({X}) -> {X}
  %l = nn.call_module @lm_head(%h) : ({X}) -> {logits}
  return %l : {logits}
}}
"""
    pattern = """nn.fusion_pattern @norm_mlp [
    ("Qwen3RMSNorm", "model.layers.*.post_attention_layernorm"),
    ("Qwen3MLP", "model.layers.*.mlp")]
"""
    return (
        'nn.model @qwen3 class "Qwen3ForCausalLM" {\n'
        + indent(pattern + model + head + forward, 2)
        + "}\n"
    )


def mixed():
    def layer(index, *parts):
        return module(f'"{index}"', "Layer", *parts)

    layers = [
        layer(0, norm("norm", "RMSNorm"), gated_mlp(), block("norm")),
        layer(1, norm("norm", "RMSNorm"), dense_mlp(), block("norm")),
        # Skipped: its norm is never called.
        layer(
            2,
            norm("norm", "RMSNorm"),
            gated_mlp(),
            f"func.func @forward(%x: {X}) -> {X} {{\n  return %x : {X}\n}}\n",
        ),
        layer(3, norm("norm", "RMSNorm"), gated_mlp(), block("norm", users=2)),
        layer(
            4,
            norm("norm", "RMSNorm"),
            gated_mlp(extra=' hooks(["accelerate"])'),
            block("norm"),
        ),
        # The weights of layer 0, by other names.
        layer(
            5,
            norm("norm", "RMSNorm", tied="layers.0.norm.weight"),
            gated_mlp(tied="layers.0.mlp"),
            block("norm"),
        ),
        layer(
            6,
            norm("norm", "RMSNorm"),
            gated_mlp(),
            f"""func.func @forward(%x: {X}) -> {X} {{
  %n = nn.call_module @norm(%x) : ({X}) -> {X}
  %m = nn.call_module @mlp(%n) : ({X}) -> {X}
  %o = nn.call_module @norm(%m) : ({X}) -> {X}
  %p = nn.call_module @mlp(%o) : ({X}) -> {X}
  return %p : {X}
}}
""",
        ),
    ]
    body, last = chain(len(layers))
    # Layer 1 a second time: a shared module.
    body += [
        f'  %again = nn.call_module @layers::@"1"({last}) : ({X}) -> {X}\n',
        f"  return %again : {X}\n}}\n",
    ]
    pattern = """nn.fusion_pattern @norm_mlp [("RMSNorm", "layers.*.norm"),
                               ("*MLP", "layers.*.mlp")]
"""
    return (
        'nn.model @mixed class "Mixed" {\n'
        + indent(
            pattern + module("layers", "ModuleList", *layers) + "".join(body), 2
        )
        + "}\n"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", choices=["qwen3", "mixed"])
    parser.add_argument(
        "--layers", type=int, default=36, help="layers of qwen3 (default 36)"
    )
    options = parser.parse_args()
    print(
        qwen3(options.layers) if options.model == "qwen3" else mixed(), end=""
    )


if __name__ == "__main__":
    main()
