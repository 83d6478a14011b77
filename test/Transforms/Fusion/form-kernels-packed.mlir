// RUN: fuse-opt %s --fuse-form-kernels | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse

// Dequantize ops of weights of 4 bits become members.

// CHECK-LABEL: @one_contract
// CHECK-NEXT: fuse.mlp %arg0 up(%arg1) down(%arg2) act(gelu) channel_scales(%arg3, %arg4) quant(f4E2M1FN, weights = group<4, f8E8M0FNU>, activations = none) rounding(exact)
// CHECK-NEXT: return
func.func @one_contract(%x: tensor<?x8xbf16>, %u: tensor<16x4xi8>,
                        %d: tensor<8x8xi8>, %su: tensor<16x2xi8>,
                        %sd: tensor<8x4xi8>) -> tensor<?x8xbf16> {
  %wu = fuse.dequantize_weight %u scales(%su)
          quant(f4E2M1FN, weights = group<4, f8E8M0FNU>, activations = none)
    : (tensor<16x4xi8>, tensor<16x2xi8>) -> tensor<16x8xbf16>
  %up = fuse.linear %x, %wu
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation gelu %up : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %wd = fuse.dequantize_weight %d scales(%sd)
          quant(f4E2M1FN, weights = group<4, f8E8M0FNU>, activations = none)
    : (tensor<8x8xi8>, tensor<8x4xi8>) -> tensor<8x16xbf16>
  %y = fuse.linear %a, %wd
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// A kernel has one contract. With two, it reads real weights.

// CHECK-LABEL: @two_contracts
// CHECK-COUNT-2: fuse.dequantize_weight
// CHECK-NEXT: fuse.mlp {{.*}} act(gelu) rounding(exact)
func.func @two_contracts(%x: tensor<?x8xbf16>, %u: tensor<16x4xi8>,
                         %d: tensor<8x8xi8>, %su: tensor<16x2xi8>,
                         %sd: tensor<8x2xi8>) -> tensor<?x8xbf16> {
  %wu = fuse.dequantize_weight %u scales(%su)
          quant(f4E2M1FN, weights = group<4, f8E8M0FNU>, activations = none)
    : (tensor<16x4xi8>, tensor<16x2xi8>) -> tensor<16x8xbf16>
  %up = fuse.linear %x, %wu
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation gelu %up : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %wd = fuse.dequantize_weight %d scales(%sd)
          quant(f4E2M1FN, weights = group<8, f8E8M0FNU>, activations = none)
    : (tensor<8x8xi8>, tensor<8x2xi8>) -> tensor<8x16xbf16>
  %y = fuse.linear %a, %wd
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// A weight that another op reads stays outside.

// CHECK-LABEL: @shared
// CHECK: fuse.dequantize_weight
// CHECK: fuse.norm_linear {{.*}} linear(%{{.*}}) rounding(exact)
func.func @shared(%x: tensor<?x8xbf16>, %n: tensor<8xbf16>,
                  %q: tensor<16x4xi8>, %s: tensor<16x2xi8>)
    -> (tensor<?x16xbf16>, tensor<16x8xbf16>) {
  %normed = fuse.rms_norm %x weight(%n) eps 1.0e-6
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %w = fuse.dequantize_weight %q scales(%s)
         quant(f4E2M1FN, weights = group<4, f8E8M0FNU>, activations = none)
    : (tensor<16x4xi8>, tensor<16x2xi8>) -> tensor<16x8xbf16>
  %y = fuse.linear %normed, %w
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  return %y, %w : tensor<?x16xbf16>, tensor<16x8xbf16>
}

// CHECK-LABEL: @projection
// CHECK-NEXT: fuse.fused_linear %arg0 linear(%arg1) then_add(%arg4) channel_scales(%arg2, %arg3) quant(f4E2M1FN, weights = group<4, f8E4M3FN>, tensor_scale = multiply, activations = none) rounding(exact)
// CHECK-NEXT: return
func.func @projection(%x: tensor<?x8xbf16>, %q: tensor<16x4xi8>,
                      %s: tensor<16x2xf8E4M3FN>, %t: tensor<1xf32>,
                      %r: tensor<?x16xbf16>) -> tensor<?x16xbf16> {
  %w = fuse.dequantize_weight %q scales(%s, %t)
         quant(f4E2M1FN, weights = group<4, f8E4M3FN>, tensor_scale = multiply,
               activations = none)
    : (tensor<16x4xi8>, tensor<16x2xf8E4M3FN>, tensor<1xf32>)
      -> tensor<16x8xbf16>
  %y = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %z = fuse.residual_add %y, %r
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  return %z : tensor<?x16xbf16>
}
