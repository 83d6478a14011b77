// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s
// RUN: fuse-opt %s --fuse-unfuse | FileCheck %s --check-prefix=CHAIN

// Fields with their default are not printed.

// CHECK: block = #fuse.quant<f8E4M3FN, weights = block<4x8>, activations = per_group<8>, floor = amax<1.0e-04>, scale_op = reciprocal, sums = block<8>>
#block = #fuse.quant<f8E4M3FN, weights = block<4x8>,
                     activations = per_group<8>, floor = amax<1.0e-4>,
                     scale_op = reciprocal, order = reciprocal,
                     sums = block<8>>
// CHECK-SAME: token = #fuse.quant<f8E4M3FN, weights = channel, activations = per_token, upper = 1200.0, order = divide>
#token = #fuse.quant<f8E4M3FN, weights = channel, activations = per_token,
                     floor = scale<5.421010862427522e-20>, upper = 1.2e3,
                     scale_op = divide, order = divide, sums = whole>

func.func private @attributes() attributes {block = #block, token = #token}

// The last block of outputs may be smaller.

// CHECK-LABEL: @layers
func.func @layers(%x: tensor<2x?x16xbf16>, %w: tensor<6x16xf8E4M3FN>,
                  %s: tensor<2x2xf32>) -> tensor<2x?x6xbf16> {
  // CHECK: %[[Q:.*]], %[[T:.*]] = fuse.dynamic_quantize per_group %{{.*}} quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>, sums = block<8>) : (tensor<2x?x16xbf16>) -> (tensor<2x?x16xf8E4M3FN>, tensor<2x?x2xf32>)
  %q, %t = fuse.dynamic_quantize per_group %x
             quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
                   sums = block<8>)
    : (tensor<2x?x16xbf16>) -> (tensor<2x?x16xf8E4M3FN>, tensor<2x?x2xf32>)
  // CHECK: fuse.linear %[[Q]], %{{.*}} channel_scale(%{{.*}}) dynamic_scale(%[[T]]) quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>, sums = block<8>) : (
  %y = fuse.linear %q, %w channel_scale(%s) dynamic_scale(%t)
         quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
               sums = block<8>)
    : (tensor<2x?x16xf8E4M3FN>, tensor<6x16xf8E4M3FN>, tensor<2x2xf32>,
       tensor<2x?x2xf32>) -> tensor<2x?x6xbf16>
  return %y : tensor<2x?x6xbf16>
}

// A fused op measures both activations and has the scales of all weights.

// CHECK-LABEL: @gated
// CHAIN-LABEL: @gated
// CHAIN: %[[N:.*]] = fuse.rms_norm
// CHAIN-NEXT: %[[Q:.*]], %[[S:.*]] = fuse.dynamic_quantize per_token %[[N]] quant(f8E4M3FN, weights = channel, activations = per_token)
// CHAIN-NEXT: %[[G:.*]] = fuse.linear %[[Q]], %{{.*}} channel_scale(%{{.*}}) dynamic_scale(%[[S]]) quant(
// CHAIN-NEXT: %[[A:.*]] = fuse.activation silu %[[G]]
// CHAIN-NEXT: %[[U:.*]] = fuse.linear %[[Q]], %{{.*}} channel_scale(%{{.*}}) dynamic_scale(%[[S]]) quant(
// CHAIN-NEXT: %[[P:.*]] = fuse.gated_mul %[[A]], %[[U]]
// CHAIN-NEXT: %[[H:.*]], %[[T:.*]] = fuse.dynamic_quantize per_token %[[P]]
// CHAIN-NEXT: fuse.linear %[[H]], %{{.*}} channel_scale(%{{.*}}) dynamic_scale(%[[T]]) quant(
func.func @gated(%x: tensor<?x8xbf16>, %n: tensor<8xbf16>,
                 %g: tensor<16x8xf8E4M3FN>, %u: tensor<16x8xf8E4M3FN>,
                 %d: tensor<8x16xf8E4M3FN>, %sg: tensor<16xf32>,
                 %su: tensor<16xf32>, %sd: tensor<8xf32>) -> tensor<?x8xbf16> {
  // CHECK: channel_scales(%{{.*}}, %{{.*}}, %{{.*}}) quant(f8E4M3FN, weights = channel, activations = per_token) rounding(exact)
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) channel_scales(%sg, %su, %sd)
         quant(f8E4M3FN, weights = channel, activations = per_token)
         rounding(exact)
    : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<16x8xf8E4M3FN>,
       tensor<16x8xf8E4M3FN>, tensor<8x16xf8E4M3FN>, tensor<16xf32>,
       tensor<16xf32>, tensor<8xf32>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: @dense
// CHAIN-LABEL: @dense
// CHAIN: fuse.dynamic_quantize per_group
// CHAIN: fuse.dynamic_quantize per_group
func.func @dense(%x: tensor<?x16xbf16>, %u: tensor<8x16xf8E4M3FN>,
                 %d: tensor<6x8xf8E4M3FN>, %su: tensor<2x2xf32>,
                 %sd: tensor<2x1xf32>) -> tensor<?x6xbf16> {
  // CHECK: fuse.mlp
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) channel_scales(%su, %sd)
         quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
               sums = block<8>) rounding(exact)
    : (tensor<?x16xbf16>, tensor<8x16xf8E4M3FN>, tensor<6x8xf8E4M3FN>,
       tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<?x6xbf16>
  return %y : tensor<?x6xbf16>
}

// One scale per weight is a tensor of one element.

// CHECK-LABEL: @projections
// CHAIN-LABEL: @projections
// CHAIN: fuse.dynamic_quantize per_token
// CHAIN-COUNT-2: fuse.linear
func.func @projections(%x: tensor<?x8xbf16>, %n: tensor<8xbf16>,
                       %q: tensor<4x8xf8E4M3FN>, %k: tensor<2x8xf8E4M3FN>,
                       %sq: tensor<1xf32>, %sk: tensor<1xf32>)
    -> (tensor<?x4xbf16>, tensor<?x2xbf16>) {
  // CHECK: fuse.norm_linear
  %a, %b = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%q, %k)
             channel_scales(%sq, %sk)
             quant(f8E4M3FN, weights = tensor, activations = per_token)
             rounding(exact)
    : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<4x8xf8E4M3FN>,
       tensor<2x8xf8E4M3FN>, tensor<1xf32>, tensor<1xf32>)
      -> (tensor<?x4xbf16>, tensor<?x2xbf16>)
  return %a, %b : tensor<?x4xbf16>, tensor<?x2xbf16>
}
