// RUN: fuse-opt %s --fuse-form-kernels | FileCheck %s
// RUN: fuse-opt %s --fuse-form-kernels --remarks-filter=fuse \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// CHECK-LABEL: func @block
// CHECK: fuse.gated_mlp %arg0 norm(rms %arg1 eps 1.0e-06) gate(%arg2) up(%arg3) down(%arg4) act(silu)
// CHECK-SAME: channel_scales(%arg5, %arg6, %arg7) quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>, floor = amax<1.0e-04>, sums = block<8>)
func.func @block(%x: tensor<?x16xbf16>, %n: tensor<16xbf16>,
                 %g: tensor<8x16xf8E4M3FN>, %u: tensor<8x16xf8E4M3FN>,
                 %d: tensor<16x8xf8E4M3FN>, %sg: tensor<2x2xf32>,
                 %su: tensor<2x2xf32>, %sd: tensor<4x1xf32>)
    -> tensor<?x16xbf16> {
  %h = fuse.rms_norm %x weight(%n) eps 1.0e-6
    : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %q, %s = fuse.dynamic_quantize per_group %h
             quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
                   floor = amax<1.0e-4>, sums = block<8>)
    : (tensor<?x16xbf16>) -> (tensor<?x16xf8E4M3FN>, tensor<?x2xf32>)
  %gate = fuse.linear %q, %g channel_scale(%sg) dynamic_scale(%s)
            quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
                  floor = amax<1.0e-4>, sums = block<8>)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>, tensor<2x2xf32>,
       tensor<?x2xf32>) -> tensor<?x8xbf16>
  %a = fuse.activation silu %gate : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %up = fuse.linear %q, %u channel_scale(%su) dynamic_scale(%s)
          quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
                floor = amax<1.0e-4>, sums = block<8>)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>, tensor<2x2xf32>,
       tensor<?x2xf32>) -> tensor<?x8xbf16>
  %p = fuse.gated_mul %a, %up
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %r, %t = fuse.dynamic_quantize per_group %p
             quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
                   floor = amax<1.0e-4>, sums = block<8>)
    : (tensor<?x8xbf16>) -> (tensor<?x8xf8E4M3FN>, tensor<?x1xf32>)
  %y = fuse.linear %r, %d channel_scale(%sd) dynamic_scale(%t)
         quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
               floor = amax<1.0e-4>, sums = block<8>)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>, tensor<4x1xf32>,
       tensor<?x1xf32>) -> tensor<?x16xbf16>
  return %y : tensor<?x16xbf16>
}

// CHECK-LABEL: func @projections
// CHECK: fuse.norm_linear
// CHECK-SAME: quant(f8E4M3FN, weights = channel, activations = per_token)
func.func @projections(%x: tensor<?x8xbf16>, %n: tensor<8xbf16>,
                       %q: tensor<4x8xf8E4M3FN>, %k: tensor<2x8xf8E4M3FN>,
                       %sq: tensor<4xf32>, %sk: tensor<2xf32>)
    -> (tensor<?x4xbf16>, tensor<?x2xbf16>) {
  %h = fuse.rms_norm %x weight(%n) eps 1.0e-6
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %c, %s = fuse.dynamic_quantize per_token %h
             quant(f8E4M3FN, weights = channel, activations = per_token)
    : (tensor<?x8xbf16>) -> (tensor<?x8xf8E4M3FN>, tensor<?xf32>)
  %a = fuse.linear %c, %q channel_scale(%sq) dynamic_scale(%s)
         quant(f8E4M3FN, weights = channel, activations = per_token)
    : (tensor<?x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>, tensor<4xf32>,
       tensor<?xf32>) -> tensor<?x4xbf16>
  %b = fuse.linear %c, %k channel_scale(%sk) dynamic_scale(%s)
         quant(f8E4M3FN, weights = channel, activations = per_token)
    : (tensor<?x8xf8E4M3FN>, tensor<2x8xf8E4M3FN>, tensor<2xf32>,
       tensor<?xf32>) -> tensor<?x2xbf16>
  return %a, %b : tensor<?x4xbf16>, tensor<?x2xbf16>
}

// The hidden value is divided by its scale, the input is not.

// CHECK-LABEL: func @contracts
// CHECK-NOT: fuse.mlp
// REMARK-DAG: FUSE-N170 quant-contracts-differ
func.func @contracts(%x: tensor<?x8xbf16>, %u: tensor<8x8xf8E4M3FN>,
                     %d: tensor<8x8xf8E4M3FN>, %su: tensor<2x1xf32>,
                     %sd: tensor<2x1xf32>) -> tensor<?x8xbf16> {
  %q, %s = fuse.dynamic_quantize per_group %x
             quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
                   sums = block<8>)
    : (tensor<?x8xbf16>) -> (tensor<?x8xf8E4M3FN>, tensor<?x1xf32>)
  %up = fuse.linear %q, %u channel_scale(%su) dynamic_scale(%s)
          quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
                sums = block<8>)
    : (tensor<?x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>, tensor<2x1xf32>,
       tensor<?x1xf32>) -> tensor<?x8xbf16>
  %a = fuse.activation gelu %up : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %r, %t = fuse.dynamic_quantize per_group %a
             quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
                   order = divide, sums = block<8>)
    : (tensor<?x8xbf16>) -> (tensor<?x8xf8E4M3FN>, tensor<?x1xf32>)
  %y = fuse.linear %r, %d channel_scale(%sd) dynamic_scale(%t)
         quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
               order = divide, sums = block<8>)
    : (tensor<?x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>, tensor<2x1xf32>,
       tensor<?x1xf32>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// Without granularities, and with one scale for all tokens, there is no kernel.

// CHECK-LABEL: func @whole_tensor
// CHECK-NOT: fuse.norm_linear
// REMARK-DAG: FUSE-N017 dynamic-scale
func.func @whole_tensor(%x: tensor<?x8xbf16>, %n: tensor<8xbf16>,
                        %w: tensor<4x8xf8E4M3FN>, %s: tensor<4xf32>)
    -> tensor<?x4xbf16> {
  %h = fuse.rms_norm %x weight(%n) eps 1.0e-6
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %c, %t = fuse.dynamic_quantize per_tensor %h
             quant(f8E4M3FN, weights = channel, activations = per_tensor)
    : (tensor<?x8xbf16>) -> (tensor<?x8xf8E4M3FN>, tensor<1xf32>)
  %a = fuse.linear %c, %w channel_scale(%s) dynamic_scale(%t)
         quant(f8E4M3FN, weights = channel, activations = per_tensor)
    : (tensor<?x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>, tensor<4xf32>,
       tensor<1xf32>) -> tensor<?x4xbf16>
  return %a : tensor<?x4xbf16>
}
