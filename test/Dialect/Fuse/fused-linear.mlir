// RUN: fuse-opt %s --verify-roundtrip -split-input-file -verify-diagnostics \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s --fuse-unfuse -split-input-file -verify-diagnostics \
// RUN:   | FileCheck %s --check-prefix=UNFUSED

// CHECK-LABEL: @sum
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<32x64xbf16>, %[[B:.*]]: tensor<32xbf16>, %[[R:.*]]: tensor<?x32xbf16>
// UNFUSED-LABEL: @sum
func.func @sum(%x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>,
               %b: tensor<32xbf16>, %r: tensor<?x32xbf16>)
    -> tensor<?x32xbf16> {
  // CHECK: fuse.fused_linear %[[X]] linear(%[[W]] bias %[[B]]) then_add(%[[R]]) rounding(exact types {down = f32})
  // UNFUSED: %[[Y:.*]] = fuse.linear %arg0, %arg1 bias(%arg2) : {{.*}} -> tensor<?x32xf32>
  // UNFUSED: fuse.residual_add %arg3, %[[Y]]
  %0 = fuse.fused_linear %x linear(%w bias %b) then_add(%r)
         rounding(exact types {down = f32})
     : (tensor<?x64xbf16>, tensor<32x64xbf16>, tensor<32xbf16>,
        tensor<?x32xbf16>) -> tensor<?x32xbf16>
  return %0 : tensor<?x32xbf16>
}

// CHECK-LABEL: @static
// UNFUSED-LABEL: @static
func.func @static(%x: tensor<?x64xbf16>, %w: tensor<32x64xf8E4M3FN>,
                  %s: tensor<32xf32>) -> tensor<?x32xbf16> {
  // CHECK: fuse.fused_linear {{.*}} channel_scales(%{{.*}}) scales(f8E4M3FN, input = 0.25, weight0 = per_channel)
  // UNFUSED: %[[Q:.*]] = fuse.quantize %arg0 scale 0.25
  // UNFUSED: fuse.linear %[[Q]], %arg1 channel_scale(%arg2)
  %0 = fuse.fused_linear %x linear(%w) channel_scales(%s)
         scales(f8E4M3FN, input = 0.25, weight0 = per_channel) rounding(exact)
     : (tensor<?x64xbf16>, tensor<32x64xf8E4M3FN>, tensor<32xf32>)
       -> tensor<?x32xbf16>
  return %0 : tensor<?x32xbf16>
}

// CHECK-LABEL: @qdq
// UNFUSED-LABEL: @qdq
func.func @qdq(%x: tensor<?x64xbf16>, %w: tensor<32x64xi8>)
    -> tensor<?x32xbf16> {
  // CHECK: form = qdq
  // UNFUSED: fuse.quantize
  // UNFUSED: fuse.dequantize
  // UNFUSED: fuse.dequantize
  // UNFUSED: fuse.linear
  %0 = fuse.fused_linear %x linear(%w)
         scales(i8, input = 0.25, weight0 = 0.5, form = qdq) rounding(exact)
     : (tensor<?x64xbf16>, tensor<32x64xi8>) -> tensor<?x32xbf16>
  return %0 : tensor<?x32xbf16>
}

// -----

func.func @one_member(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>) {
  // expected-error @below {{'fuse.fused_linear' op is one linear; expected 'scales', 'quant' or 'then_add'}}
  %0 = fuse.fused_linear %x linear(%w) rounding(exact)
     : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @sum_of_other_shapes(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>) {
  // expected-error @below {{member 'then_add': 'linear' and 'residual' must have the same shape, got 'tensor<?x32xf32>' and 'tensor<?x64xf32>'}}
  %0 = fuse.fused_linear %x linear(%w) then_add(%x) rounding(exact)
     : (tensor<?x64xf32>, tensor<32x64xf32>, tensor<?x64xf32>)
       -> tensor<?x32xf32>
  return
}

// -----

func.func @other_result(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>,
                        %r: tensor<?x32xf32>) {
  // expected-error @below {{member 'output': 'linear' and 'result' must have the same shape, got 'tensor<?x32xf32>' and 'tensor<?x64xf32>'}}
  %0 = fuse.fused_linear %x linear(%w) then_add(%r) rounding(exact)
     : (tensor<?x64xf32>, tensor<32x64xf32>, tensor<?x32xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

func.func @scale_of_another_name(%x: tensor<?x64xf32>,
                                 %w: tensor<32x64xf8E4M3FN>) {
  // expected-error @below {{unknown scale 'down'; expected input, weight0}}
  %0 = fuse.fused_linear %x linear(%w)
         scales(f8E4M3FN, input = 0.25, down = 0.5) rounding(exact)
     : (tensor<?x64xf32>, tensor<32x64xf8E4M3FN>) -> tensor<?x32xf32>
  return
}

// -----

func.func @more_results(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>,
                        %r: tensor<?x32xf32>) {
  // expected-error @below {{has one result, so it supports no 'also'}}
  %0:2 = fuse.fused_linear %x linear(%w) then_add(%r) also([normed])
         rounding(exact)
     : (tensor<?x64xf32>, tensor<32x64xf32>, tensor<?x32xf32>)
       -> (tensor<?x32xf32>, tensor<?x64xf32>)
  return
}

// -----

func.func @matrix(%x: tensor<?x64xf32>, %w: tensor<64xf32>,
                  %r: tensor<?x32xf32>) {
  // expected-error @below {{member 'linear': 'weight' must be a static [out, in] matrix, got 'tensor<64xf32>'}}
  %0 = fuse.fused_linear %x linear(%w) then_add(%r) rounding(exact)
     : (tensor<?x64xf32>, tensor<64xf32>, tensor<?x32xf32>)
       -> tensor<?x32xf32>
  return
}
