// RUN: fuse-opt %s --fuse-select-schedules --remarks-filter=codegen \
// RUN:   --remark-format=emitRemark -verify-diagnostics | FileCheck %s

// A remark reports the expected time and the bytes of weights, for decode and
// prefill, or the reason for which an op is left to the portable path.

// CHECK-LABEL: func @decode
// CHECK: tile.schedule = #tile.schedule<
func.func @decode(%x: tensor<?x2048xbf16>, %g: tensor<16384x2048xf8E4M3FN>,
                  %u: tensor<16384x2048xf8E4M3FN>,
                  %d: tensor<2048x16384xf8E4M3FN>) -> tensor<?x2048xbf16> {
  // expected-remark-re @below {{[Passed] schedule | Category:codegen | microseconds={{.*}}, weight_bytes=100663296}}
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x2048xbf16>, tensor<16384x2048xf8E4M3FN>,
       tensor<16384x2048xf8E4M3FN>, tensor<2048x16384xf8E4M3FN>)
      -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}

// CHECK-LABEL: func @prefill
// CHECK: tile.schedule = #tile.prefill_schedule<
func.func @prefill(%x: tensor<512x2048xbf16>, %g: tensor<16384x2048xf8E4M3FN>,
                   %u: tensor<16384x2048xf8E4M3FN>,
                   %d: tensor<2048x16384xf8E4M3FN>) -> tensor<512x2048xbf16> {
  // expected-remark-re @below {{[Passed] schedule | Category:codegen | microseconds={{.*}}, weight_bytes=100663296}}
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<512x2048xbf16>, tensor<16384x2048xf8E4M3FN>,
       tensor<16384x2048xf8E4M3FN>, tensor<2048x16384xf8E4M3FN>)
      -> tensor<512x2048xbf16>
  return %y : tensor<512x2048xbf16>
}

// Ops, types and shapes that scheduled kernels do not support.

// CHECK-LABEL: func @refused
// CHECK-NOT: tile.schedule
func.func @refused(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
                   %a: tensor<64x64xbf16>, %f: tensor<?x64xf32>,
                   %fu: tensor<64x64xf32>, %o: tensor<40x64xbf16>,
                   %od: tensor<64x40xbf16>, %many: tensor<16385x64xbf16>,
                   %q: tensor<64x64xf8E4M3FN>, %s: tensor<64xf32>) {
  // expected-remark @below {{[Missed] schedule | Category:codegen | Reason="there is no scheduled kernel for fuse.group", Suggestion="the portable path compiles this kernel"}}
  %0 = fuse.group(%g = %x : tensor<?x64xbf16>) -> (tensor<?x64xbf16>)
         rounding(exact) {
    %y = fuse.activation silu %g : tensor<?x64xbf16> -> tensor<?x64xbf16>
    fuse.yield %y : tensor<?x64xbf16>
  }
  // expected-remark @below {{[Missed] schedule | Category:codegen | Reason="the input is f32, not bf16", Suggestion="the portable path compiles this kernel"}}
  %1 = fuse.mlp %f up(%fu) down(%fu) act(relu) rounding(exact)
    : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
      -> tensor<?x64xf32>
  // expected-remark @below {{[Missed] schedule | Category:codegen | Reason="the hidden width 40 is not a multiple of 16", Suggestion="the portable path compiles this kernel"}}
  %2 = fuse.mlp %x up(%o) down(%od) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<40x64xbf16>, tensor<64x40xbf16>)
      -> tensor<?x64xbf16>
  // expected-remark @below {{[Missed] schedule | Category:codegen | Reason="16385 tokens are more than 16384", Suggestion="the portable path compiles this kernel"}}
  %3 = fuse.mlp %many up(%a) down(%a) act(relu) rounding(exact)
    : (tensor<16385x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<16385x64xbf16>
  // expected-remark @below {{[Missed] schedule | Category:codegen | Reason="a weight has one scale per channel", Suggestion="the portable path compiles this kernel"}}
  %4 = fuse.mlp %x up(%q) down(%q) act(relu) channel_scales(%s)
         scales(f8E4M3FN, input = 1.0, up = per_channel, hidden = 1.0,
                down = 1.0) rounding(exact)
    : (tensor<?x64xbf16>, tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>,
       tensor<64xf32>) -> tensor<?x64xbf16>
  return
}

// Forms of a chain that scheduled kernels do not support.

// CHECK-LABEL: func @other_forms
// CHECK-NOT: tile.schedule
func.func @other_forms(%x: tensor<?x64xbf16>, %q: tensor<64x64xf8E4M3FN>,
                       %w: tensor<64x64xbf16>, %b: tensor<64xbf16>) {
  // expected-remark @below {{[Missed] schedule | Category:codegen | Reason="the chain dequantizes operands before its products", Suggestion="the portable path compiles this kernel"}}
  %0 = fuse.mlp %x up(%q) down(%q) act(relu)
         scales(f8E4M3FN, up = 1.0, down = 1.0, form = weight_only)
         rounding(exact)
    : (tensor<?x64xbf16>, tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>)
      -> tensor<?x64xbf16>
  // expected-remark @below {{[Missed] schedule | Category:codegen | Reason="a bias is added after rounding", Suggestion="the portable path compiles this kernel"}}
  %1 = fuse.mlp %x up(%w bias %b) down(%w) act(relu)
         rounding(exact bias after_rounding)
    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16>,
       tensor<64x64xbf16>) -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: func @rows
// CHECK-NOT: tile.schedule
func.func @rows(%x: tensor<?x4096xbf16>) -> tensor<?x4096xi8> {
  // expected-remark @below {{[Missed] schedule | Category:codegen | Reason="values are quantized to i8, not f8E4M3FN or f8E5M2", Suggestion="the portable path compiles this kernel"}}
  %0 = fuse.act_quantize %x act(silu) scales(i8, hidden = 1.0)
         rounding(exact) : (tensor<?x4096xbf16>) -> tensor<?x4096xi8>
  return %0 : tensor<?x4096xi8>
}
