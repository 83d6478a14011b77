// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark | FileCheck %s

// A matmul with a transposed map, accumulated in f32, rounded once.

// CHECK-LABEL: func @transposed_map(
// CHECK-SAME:    %[[X:.*]]: tensor<4x64xbf16>, %[[W:.*]]: tensor<32x64xbf16>
// CHECK-NEXT:    %[[Y:.*]] = fuse.linear %[[X]], %[[W]] : (tensor<4x64xbf16>, tensor<32x64xbf16>) -> tensor<4x32xbf16>
// CHECK-NEXT:    return %[[Y]]
func.func @transposed_map(%x: tensor<4x64xbf16>, %w: tensor<32x64xbf16>)
    -> tensor<4x32xbf16> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<4x32xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<4x32xf32>)
      -> tensor<4x32xf32>
  %s = linalg.matmul
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<4x64xbf16>, tensor<32x64xbf16>)
      outs(%fill : tensor<4x32xf32>) -> tensor<4x32xf32>
  %y = arith.truncf %s : tensor<4x32xf32> to tensor<4x32xbf16>
  return %y : tensor<4x32xbf16>
}

// -----

// A transposed weight before a matmul, in f32.

// CHECK-LABEL: func @transpose_and_matmul(
// CHECK-NEXT:    fuse.linear %{{.*}}, %{{.*}} : (tensor<4x64xf32>, tensor<32x64xf32>) -> tensor<4x32xf32>
// CHECK-NEXT:    return
func.func @transpose_and_matmul(%x: tensor<4x64xf32>, %w: tensor<32x64xf32>)
    -> tensor<4x32xf32> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<4x32xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<4x32xf32>)
      -> tensor<4x32xf32>
  %e = tensor.empty() : tensor<64x32xf32>
  %t = linalg.transpose ins(%w : tensor<32x64xf32>)
      outs(%e : tensor<64x32xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x32xf32>)
      outs(%fill : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// -----

// Any number of leading dimensions; the bias is added before the rounding.

// CHECK-LABEL: func @generic_with_bias(
// CHECK-NEXT:    fuse.linear %{{.*}}, %{{.*}} bias(%{{.*}}) : (tensor<?x?x64xbf16>, tensor<32x64xbf16>, tensor<32xbf16>) -> tensor<?x?x32xbf16>
// CHECK-NEXT:    return
func.func @generic_with_bias(%x: tensor<?x?x64xbf16>, %w: tensor<32x64xbf16>,
                             %b: tensor<32xbf16>, %out: tensor<?x?x32xbf16>)
    -> tensor<?x?x32xbf16> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d0 = tensor.dim %x, %c0 : tensor<?x?x64xbf16>
  %d1 = tensor.dim %x, %c1 : tensor<?x?x64xbf16>
  %init = tensor.empty(%d0, %d1) : tensor<?x?x32xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<?x?x32xf32>)
      -> tensor<?x?x32xf32>
  %s = linalg.generic {
      indexing_maps = [affine_map<(a, b, n, k) -> (a, b, k)>,
                       affine_map<(a, b, n, k) -> (n, k)>,
                       affine_map<(a, b, n, k) -> (a, b, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x?x64xbf16>, tensor<32x64xbf16>)
      outs(%fill : tensor<?x?x32xf32>) {
  ^bb0(%l: bf16, %r: bf16, %acc: f32):
    %0 = arith.extf %l : bf16 to f32
    %1 = arith.extf %r : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %acc, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<?x?x32xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(a, b, n) -> (a, b, n)>,
                       affine_map<(a, b, n) -> (n)>,
                       affine_map<(a, b, n) -> (a, b, n)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %b : tensor<?x?x32xf32>, tensor<32xbf16>)
      outs(%out : tensor<?x?x32xbf16>) {
  ^bb0(%l: f32, %r: bf16, %o: bf16):
    %0 = arith.extf %r : bf16 to f32
    %1 = arith.addf %l, %0 : f32
    %2 = arith.truncf %1 : f32 to bf16
    linalg.yield %2 : bf16
  } -> tensor<?x?x32xbf16>
  return %y : tensor<?x?x32xbf16>
}

// -----

// The accumulator starts from the bias.

// CHECK-LABEL: func @bias_in_accumulator(
// CHECK-NEXT:    fuse.linear %{{.*}}, %{{.*}} bias(%{{.*}}) :
// CHECK-NEXT:    return
func.func @bias_in_accumulator(%x: tensor<4x64xf32>, %w: tensor<32x64xf32>,
                               %b: tensor<32xf32>) -> tensor<4x32xf32> {
  %init = tensor.empty() : tensor<4x32xf32>
  %bb = linalg.broadcast ins(%b : tensor<32xf32>)
      outs(%init : tensor<4x32xf32>) dimensions = [0]
  %y = linalg.matmul
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<4x64xf32>, tensor<32x64xf32>)
      outs(%bb : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// -----

// The bias is added to a rounded sum, and the result is rounded again.

// CHECK-LABEL: func @bias_after_rounding(
// CHECK-NEXT:    fuse.linear %{{.*}}, %{{.*}} bias(%{{.*}}) added after_rounding : (tensor<4x64xbf16>, tensor<32x64xbf16>, tensor<32xbf16>) -> tensor<4x32xbf16>
// CHECK-NEXT:    return
func.func @bias_after_rounding(%x: tensor<4x64xbf16>, %w: tensor<32x64xbf16>,
                               %b: tensor<32xbf16>) -> tensor<4x32xbf16> {
  %l = fuse.linear %x, %w
    : (tensor<4x64xbf16>, tensor<32x64xbf16>) -> tensor<4x32xbf16>
  %e = tensor.empty() : tensor<4x32xbf16>
  %bb = linalg.broadcast ins(%b : tensor<32xbf16>)
      outs(%e : tensor<4x32xbf16>) dimensions = [0]
  %y = arith.addf %l, %bb : tensor<4x32xbf16>
  return %y : tensor<4x32xbf16>
}

// -----

// A layer rounds its sum to the type of its result only.

// CHECK-LABEL: func @bias_after_other_rounding(
// CHECK-NEXT:    fuse.linear %{{.*}}, %{{.*}} : 
// CHECK:         arith.addf
func.func @bias_after_other_rounding(
    %x: tensor<4x64xbf16>, %w: tensor<32x64xbf16>, %b: tensor<32xf32>)
    -> tensor<4x32xf32> {
  %l = fuse.linear %x, %w
    : (tensor<4x64xbf16>, tensor<32x64xbf16>) -> tensor<4x32xbf16>
  %lf = arith.extf %l : tensor<4x32xbf16> to tensor<4x32xf32>
  %e = tensor.empty() : tensor<4x32xf32>
  %bb = linalg.broadcast ins(%b : tensor<32xf32>)
      outs(%e : tensor<4x32xf32>) dimensions = [0]
  // expected-remark-re @below {{[Missed] linear{{.*}}At=arith.addf{{.*}}FUSE-N129 bias-after-rounding}}
  %y = arith.addf %lf, %bb : tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// -----

// A bias after a linear op with an f32 result.

// CHECK-LABEL: func @bias_behind_layer(
// CHECK-NEXT:    fuse.linear %{{.*}}, %{{.*}} bias(%{{.*}}) : (tensor<4x64xbf16>, tensor<32x64xbf16>, tensor<32xbf16>) -> tensor<4x32xbf16>
// CHECK-NEXT:    return
func.func @bias_behind_layer(%x: tensor<4x64xbf16>, %w: tensor<32x64xbf16>,
                             %b: tensor<32xbf16>) -> tensor<4x32xbf16> {
  %l = fuse.linear %x, %w
    : (tensor<4x64xbf16>, tensor<32x64xbf16>) -> tensor<4x32xf32>
  %bf = arith.extf %b : tensor<32xbf16> to tensor<32xf32>
  %e = tensor.empty() : tensor<4x32xf32>
  %bb = linalg.broadcast ins(%bf : tensor<32xf32>)
      outs(%e : tensor<4x32xf32>) dimensions = [0]
  %s = arith.addf %l, %bb : tensor<4x32xf32>
  %y = arith.truncf %s : tensor<4x32xf32> to tensor<4x32xbf16>
  return %y : tensor<4x32xbf16>
}

// -----

// A weight of [in, out] is transposed where it is defined, once for both
// linears.

// CHECK-LABEL: func @weight_stored_in_out(
// CHECK-SAME:    %[[X:.*]]: tensor<4x32xbf16>, %[[W:.*]]: tensor<32x32xbf16>
// CHECK-NEXT:    %[[E:.*]] = tensor.empty() : tensor<32x32xbf16>
// CHECK-NEXT:    %[[T:.*]] = linalg.transpose ins(%[[W]] : {{.*}}) outs(%[[E]] : {{.*}}) permutation = [1, 0]
// CHECK-NEXT:    %[[Y:.*]] = fuse.linear %[[X]], %[[T]] : (tensor<4x32xbf16>, tensor<32x32xbf16>) -> tensor<4x32xbf16>
// CHECK-NEXT:    %[[Z:.*]] = fuse.linear %[[Y]], %[[T]] : (tensor<4x32xbf16>, tensor<32x32xbf16>) -> tensor<4x32xf32>
// CHECK-NEXT:    return %[[Z]]
func.func @weight_stored_in_out(%x: tensor<4x32xbf16>, %w: tensor<32x32xbf16>)
    -> tensor<4x32xf32> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<4x32xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<4x32xf32>)
      -> tensor<4x32xf32>
  %s = linalg.matmul ins(%x, %w : tensor<4x32xbf16>, tensor<32x32xbf16>)
      outs(%fill : tensor<4x32xf32>) -> tensor<4x32xf32>
  %y = arith.truncf %s : tensor<4x32xf32> to tensor<4x32xbf16>
  %z = linalg.matmul ins(%y, %w : tensor<4x32xbf16>, tensor<32x32xbf16>)
      outs(%fill : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %z : tensor<4x32xf32>
}

// -----

// The weight is widened in front of the product; the stored one is transposed.

// CHECK-LABEL: func @weight_widened(
// CHECK:         linalg.transpose ins(%{{.*}} : tensor<64x32xbf16>)
// CHECK-NEXT:    fuse.linear %{{.*}}, %{{.*}} : (tensor<4x64xbf16>, tensor<32x64xbf16>) -> tensor<4x32xf32>
// CHECK-NEXT:    return
func.func @weight_widened(%x: tensor<4x64xbf16>, %w: tensor<64x32xbf16>)
    -> tensor<4x32xf32> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<4x32xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<4x32xf32>)
      -> tensor<4x32xf32>
  %xf = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %wf = arith.extf %w : tensor<64x32xbf16> to tensor<64x32xf32>
  %y = linalg.matmul ins(%xf, %wf : tensor<4x64xf32>, tensor<64x32xf32>)
      outs(%fill : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// -----

// A dequantized weight: the stored values are transposed.

// CHECK-LABEL: func @weight_dequantized(
// CHECK:         %[[Q:.*]] = linalg.transpose ins(%{{.*}} : tensor<8x4xi8>)
// CHECK-NEXT:    %[[W:.*]] = fuse.dequantize %[[Q]] scale 0.5 : (tensor<4x8xi8>) -> tensor<4x8xf32>
// CHECK-NEXT:    fuse.linear %{{.*}}, %[[W]]
// CHECK-NEXT:    return
func.func @weight_dequantized(%x: tensor<3x8xf32>, %q: tensor<8x4xi8>)
    -> tensor<3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant dense<0.5> : tensor<8x4xf32>
  %f = arith.sitofp %q : tensor<8x4xi8> to tensor<8x4xf32>
  %w = arith.mulf %f, %scale : tensor<8x4xf32>
  %init = tensor.empty() : tensor<3x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<3x4xf32>)
      -> tensor<3x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<3x8xf32>, tensor<8x4xf32>)
      outs(%fill : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// The values of attention are not a weight: each call would transpose them.

// CHECK-LABEL: func @computed_in_out(
// CHECK:         fuse.linear
// CHECK-NOT:     linalg.transpose
// CHECK-NOT:     fuse.linear
func.func @computed_in_out(%p: tensor<4x4xf32>, %x: tensor<4x8xf32>,
                           %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<4x8xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<4x8xf32>)
      -> tensor<4x8xf32>
  %v = fuse.linear %x, %w
    : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // expected-remark-re @below {{[Missed] linear{{.*}}FUSE-N125 weight-layout}}
  %y = linalg.matmul ins(%p, %v : tensor<4x4xf32>, tensor<4x8xf32>)
      outs(%fill : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A matmul whose accumulator is bf16 rounds every partial sum.

// CHECK-LABEL: func @narrow_sum(
// CHECK-NOT:     fuse.linear
func.func @narrow_sum(%x: tensor<4x64xbf16>, %w: tensor<32x64xbf16>)
    -> tensor<4x32xbf16> {
  %zero = arith.constant 0.0 : bf16
  %init = tensor.empty() : tensor<4x32xbf16>
  %fill = linalg.fill ins(%zero : bf16) outs(%init : tensor<4x32xbf16>)
      -> tensor<4x32xbf16>
  // expected-remark-re @below {{[Missed] linear{{.*}}FUSE-N108 narrow-sum}}
  %y = linalg.matmul
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<4x64xbf16>, tensor<32x64xbf16>)
      outs(%fill : tensor<4x32xbf16>) -> tensor<4x32xbf16>
  return %y : tensor<4x32xbf16>
}

// -----

// CHECK-LABEL: func @operand_types(
// CHECK-NOT:     fuse.linear
func.func @operand_types(%x: tensor<4x64xf32>, %w: tensor<32x64xbf16>)
    -> tensor<4x32xf32> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<4x32xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<4x32xf32>)
      -> tensor<4x32xf32>
  // expected-remark-re @below {{[Missed] linear{{.*}}input f32, weight bf16{{.*}}FUSE-N126 operand-types}}
  %y = linalg.matmul
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<4x64xf32>, tensor<32x64xbf16>)
      outs(%fill : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// -----

// The sum starts from a tensor that is not a bias.

// CHECK-LABEL: func @sum_start(
// CHECK-NOT:     fuse.linear
func.func @sum_start(%x: tensor<4x64xf32>, %w: tensor<32x64xf32>,
                     %a: tensor<4x32xf32>) -> tensor<4x32xf32> {
  // expected-remark-re @below {{[Missed] linear{{.*}}FUSE-N109 sum-start}}
  %y = linalg.matmul
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<4x64xf32>, tensor<32x64xf32>)
      outs(%a : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// -----

// The f32 sum is also returned, so the rounding is not part of the layer.

// CHECK-LABEL: func @sum_is_used(
// CHECK-NEXT:    %[[L:.*]] = fuse.linear %{{.*}} -> tensor<4x32xf32>
// CHECK-NEXT:    %[[T:.*]] = arith.truncf %[[L]]
// CHECK-NEXT:    return %[[L]], %[[T]]
func.func @sum_is_used(%x: tensor<4x64xbf16>, %w: tensor<32x64xbf16>)
    -> (tensor<4x32xf32>, tensor<4x32xbf16>) {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<4x32xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<4x32xf32>)
      -> tensor<4x32xf32>
  // expected-remark-re @below {{[Missed] linear{{.*}}FUSE-N128 other-use}}
  %s = linalg.matmul
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<4x64xbf16>, tensor<32x64xbf16>)
      outs(%fill : tensor<4x32xf32>) -> tensor<4x32xf32>
  %y = arith.truncf %s : tensor<4x32xf32> to tensor<4x32xbf16>
  return %s, %y : tensor<4x32xf32>, tensor<4x32xbf16>
}

// -----

// In attention scores, both operands have a batch dimension.

// CHECK-LABEL: func @batched(
// CHECK-NOT:     fuse.linear
// REMARK-NOT: remark:
func.func @batched(%q: tensor<2x4x64xf32>, %k: tensor<2x8x64xf32>)
    -> tensor<2x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<2x4x8xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<2x4x8xf32>)
      -> tensor<2x4x8xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>,
                       affine_map<(b, m, n, k) -> (b, n, k)>,
                       affine_map<(b, m, n, k) -> (b, m, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<2x4x64xf32>, tensor<2x8x64xf32>)
      outs(%fill : tensor<2x4x8xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

// -----

// The scales of quantized operands cannot be separated.

// CHECK-LABEL: func @quantized(
// CHECK-NOT:     fuse.linear
func.func @quantized(%x: tensor<4x64xf8E4M3FN>, %w: tensor<32x64xf8E4M3FN>)
    -> tensor<4x32xf32> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<4x32xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<4x32xf32>)
      -> tensor<4x32xf32>
  // expected-remark-re @below {{[Missed] linear{{.*}}FUSE-N127 quantized-operands}}
  %y = linalg.matmul
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<4x64xf8E4M3FN>, tensor<32x64xf8E4M3FN>)
      outs(%fill : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// -----

// A separate bias is merged into a linear, which keeps its dynamic scale.

// CHECK-LABEL: func @bias_of_dynamic(
// CHECK:         fuse.linear %arg0, %arg2 bias(%arg3)
// CHECK-SAME:      dynamic_scale(%arg1) scales(dynamic, 0.5)
func.func @bias_of_dynamic(%x: tensor<4x8xi8>, %s: tensor<4xf32>,
                           %w: tensor<16x8xi8>, %b: tensor<16xf32>)
    -> tensor<4x16xf32> {
  %l = fuse.linear %x, %w dynamic_scale(%s) scales(dynamic, 0.5)
    : (tensor<4x8xi8>, tensor<16x8xi8>, tensor<4xf32>) -> tensor<4x16xf32>
  %e = tensor.empty() : tensor<4x16xf32>
  %bb = linalg.broadcast ins(%b : tensor<16xf32>) outs(%e : tensor<4x16xf32>)
    dimensions = [0]
  %y = arith.addf %l, %bb : tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// -----

// Rounding the result of this linear would also round its sum.

// CHECK-LABEL: func @rounded_bias_after(
// CHECK:         added after_rounding
// CHECK-SAME:      -> tensor<4x16xf32>
// CHECK:         arith.truncf
func.func @rounded_bias_after(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>,
                              %b: tensor<16xf32>) -> tensor<4x16xbf16> {
  %l = fuse.linear %x, %w bias(%b) added after_rounding
    : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %y = arith.truncf %l : tensor<4x16xf32> to tensor<4x16xbf16>
  return %y : tensor<4x16xbf16>
}
