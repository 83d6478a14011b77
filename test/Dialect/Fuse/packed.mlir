// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s
// RUN: fuse-opt %s --fuse-unfuse | FileCheck %s --check-prefix=CHAIN

// Weights of 4 bits: two codes in a byte, and scales in the types of formats.

// CHECK-LABEL: @layers
func.func @layers(%q: tensor<6x16xi8>, %e: tensor<6x2xi8>,
                  %f: tensor<6x2xf8E4M3FN>, %t: tensor<1xf32>,
                  %h: tensor<6x4xf16>, %z: tensor<6x4xi8>,
                  %b: tensor<6x1xbf16>) {
  // CHECK: fuse.dequantize_weight %{{.*}} scales(%{{.*}}) quant(f4E2M1FN, weights = group<16, f8E8M0FNU>, activations = none) : (tensor<6x16xi8>, tensor<6x2xi8>) -> tensor<6x32xbf16>
  %mxfp4 = fuse.dequantize_weight %q scales(%e)
             quant(f4E2M1FN, weights = group<16, f8E8M0FNU>,
                   tensor_scale = none, activations = none)
    : (tensor<6x16xi8>, tensor<6x2xi8>) -> tensor<6x32xbf16>
  // CHECK: quant(f4E2M1FN, weights = group<16, f8E4M3FN>, tensor_scale = divide, activations = none)
  %nvfp4 = fuse.dequantize_weight %q scales(%f, %t)
             quant(f4E2M1FN, weights = group<16, f8E4M3FN>,
                   tensor_scale = divide, activations = none)
    : (tensor<6x16xi8>, tensor<6x2xf8E4M3FN>, tensor<1xf32>)
      -> tensor<6x32xbf16>
  // CHECK: quant(ui4, weights = group<8, f16>, zero_points = group, activations = none)
  %awq = fuse.dequantize_weight %q scales(%h, %z)
           quant(ui4, weights = group<8, f16>, zero_points = group,
                 activations = none)
    : (tensor<6x16xi8>, tensor<6x4xf16>, tensor<6x4xi8>) -> tensor<6x32xf16>
  // CHECK: quant(ui4, weights = group<32, bf16>, zero_points = 8, activations = none)
  %shifted = fuse.dequantize_weight %q scales(%b)
               quant(ui4, weights = group<32, bf16>, zero_points = 8,
                     activations = none)
    : (tensor<6x16xi8>, tensor<6x1xbf16>) -> tensor<6x32xf32>
  // CHECK: quant(i4, weights = group<32, bf16>, activations = none)
  %signed = fuse.dequantize_weight %q scales(%b)
              quant(i4, weights = group<32, bf16>, activations = none)
    : (tensor<6x16xi8>, tensor<6x1xbf16>) -> tensor<6x32xf32>
  return
}

// A fused op has all scales of a weight, one weight after the other.

// CHECK-LABEL: @gated
// CHECK: channel_scales(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) quant(ui4, weights = group<4, f32>, zero_points = group, activations = none) rounding(exact types {dequantized = f16})
// CHAIN-LABEL: @gated
// CHAIN: %[[G:.*]] = fuse.dequantize_weight %arg1 scales(%arg4, %arg5) quant({{.*}}) : (tensor<16x4xi8>, tensor<16x2xf32>, tensor<16x2xi8>) -> tensor<16x8xf16>
// CHAIN-NEXT: fuse.linear %arg0, %[[G]] :
// CHAIN-NEXT: fuse.activation
// CHAIN-NEXT: %[[U:.*]] = fuse.dequantize_weight %arg2 scales(%arg6, %arg7)
// CHAIN-NEXT: fuse.linear %arg0, %[[U]] :
// CHAIN-NEXT: %[[P:.*]] = fuse.gated_mul
// CHAIN-NEXT: %[[D:.*]] = fuse.dequantize_weight %arg3 scales(%arg8, %arg9)
// CHAIN-NEXT: fuse.linear %[[P]], %[[D]] :
func.func @gated(%x: tensor<?x8xf16>, %g: tensor<16x4xi8>, %u: tensor<16x4xi8>,
                 %d: tensor<8x8xi8>, %sg: tensor<16x2xf32>,
                 %zg: tensor<16x2xi8>, %su: tensor<16x2xf32>,
                 %zu: tensor<16x2xi8>, %sd: tensor<8x4xf32>,
                 %zd: tensor<8x4xi8>) -> tensor<?x8xf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         channel_scales(%sg, %zg, %su, %zu, %sd, %zd)
         quant(ui4, weights = group<4, f32>, zero_points = group,
               activations = none)
         rounding(exact types {dequantized = f16})
    : (tensor<?x8xf16>, tensor<16x4xi8>, tensor<16x4xi8>, tensor<8x8xi8>,
       tensor<16x2xf32>, tensor<16x2xi8>, tensor<16x2xf32>, tensor<16x2xi8>,
       tensor<8x4xf32>, tensor<8x4xi8>) -> tensor<?x8xf16>
  return %y : tensor<?x8xf16>
}
