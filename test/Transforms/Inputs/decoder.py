"""Print a decoder of 36 layers, plain or mixed, as fuse IR.

usage: decoder.py plain|mixed

In the mixed one, layers 1, 4, 7, ... have a dense MLP, layer 3 hands its norm
to a second user, layer 5 has no MLP, and layers 8 and 9 share the MLP of layer
8, which their parent calls.
"""

import sys

LAYERS = 36
X, H = "tensor<?x8xbf16>", "tensor<?x16xbf16>"


def linear(name, rows, columns):
    w = f"tensor<{rows}x{columns}xbf16>"
    x, y = f"tensor<?x{columns}xbf16>", f"tensor<?x{rows}xbf16>"
    return f"""fuse.module @{name} class "Linear" {{
  fuse.parameter @weight : {w}
  func.func @forward(%x: {x}) -> {y} {{
    %w = fuse.get_parameter @weight : {w}
    %y = fuse.linear %x, %w : ({x}, {w}) -> {y}
    return %y : {y}
  }}
}}
"""


def norm(name):
    return f"""fuse.module @{name} class "Qwen3RMSNorm" {{
  fuse.parameter @weight : tensor<8xbf16>
  func.func @forward(%x: {X}) -> {X} {{
    %w = fuse.get_parameter @weight : tensor<8xbf16>
    %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
      : ({X}, tensor<8xbf16>) -> {X}
    return %y : {X}
  }}
}}
"""


GATED = f"""fuse.module @mlp class "Qwen3MLP" {{
{linear("gate_proj", 16, 8)}{linear("up_proj", 16, 8)}\
{linear("down_proj", 8, 16)}
  func.func @forward(%x: {X}) -> {X} {{
    %g = fuse.call_module @gate_proj(%x) : ({X}) -> {H}
    %a = fuse.activation silu %g : {H} -> {H}
    %u = fuse.call_module @up_proj(%x) : ({X}) -> {H}
    %p = fuse.gated_mul %a, %u : ({H}, {H}) -> {H}
    %d = fuse.call_module @down_proj(%p) : ({H}) -> {X}
    return %d : {X}
  }}
}}
"""

DENSE = f"""fuse.module @mlp class "DenseMLP" {{
{linear("up_proj", 16, 8)}{linear("down_proj", 8, 16)}
  func.func @forward(%x: {X}) -> {X} {{
    %u = fuse.call_module @up_proj(%x) : ({X}) -> {H}
    %a = fuse.activation gelu %u : {H} -> {H}
    %d = fuse.call_module @down_proj(%a) : ({H}) -> {X}
    return %d : {X}
  }}
}}
"""

ATTENTION = f"""fuse.module @self_attn class "Qwen3Attention" {{
  func.func private @forward({X}) -> {X}
}}
"""


def layer(index, mixed):
    calls = [f"%n0 = fuse.call_module @input_layernorm(%x) : ({X}) -> {X}",
             f"%o = fuse.call_module @self_attn(%n0) : ({X}) -> {X}",
             f"%r = fuse.residual_add %x, %o : ({X}, {X}) -> {X}",
             "%n1 = fuse.call_module @post_attention_layernorm(%r) "
             f": ({X}) -> {X}"]
    mlp = DENSE if mixed and index % 3 == 1 else GATED
    last = "%n1"
    if mixed and index == 5:
        mlp = ""
    elif mixed and index == 9:
        mlp = ""
    else:
        calls.append(f"%m = fuse.call_module @mlp(%n1) : ({X}) -> {X}")
        last = "%m"
    calls.append(f"%s = fuse.residual_add %r, {last} : ({X}, {X}) -> {X}")
    result = "%s"
    if mixed and index == 3:
        calls.append(f"%t = fuse.residual_add %s, %n1 : ({X}, {X}) -> {X}")
        result = "%t"
    return (f'fuse.module @"{index}" class "Qwen3DecoderLayer" {{\n'
            + norm("input_layernorm") + ATTENTION
            + norm("post_attention_layernorm") + mlp
            + f"func.func @forward(%x: {X}) -> {X} {{\n  "
            + "\n  ".join(calls) + f"\n  return {result} : {X}\n}}\n}}\n")


def main(kind):
    mixed = kind == "mixed"
    print('fuse.model @decoder class "Qwen3ForCausalLM" {\n'
          "fuse.fusion_pattern @norm_mlp [\n"
          '  ("*RMSNorm", "model.layers.*.post_attention_layernorm"),\n'
          '  ("Qwen3MLP", "model.layers.*.mlp")]\n'
          'fuse.module @model class "Qwen3Model" {\n'
          'fuse.module @layers class "ModuleList" {')
    for index in range(LAYERS):
        print(layer(index, mixed), end="")
    print(f"}}\nfunc.func @forward(%x0: {X}) -> {X} {{")
    value = "%x0"
    for index in range(LAYERS):
        print(f'  %x{index + 1} = fuse.call_module @layers::@"{index}"'
              f"({value}) : ({X}) -> {X}")
        value = f"%x{index + 1}"
        if mixed and index == 9:
            # The MLP of layer 8 once more: one module, two calls.
            print("  %y = fuse.call_module "
                  f'@layers::@"8"::@mlp({value}) : ({X}) -> {X}')
            value = "%y"
    print(f"  return {value} : {X}\n}}\n}}\n"
          f"func.func @forward(%x: {X}) -> {X} {{\n"
          f"  %y = fuse.call_module @model(%x) : ({X}) -> {X}\n"
          f"  return %y : {X}\n}}\n}}")


main(sys.argv[1])
