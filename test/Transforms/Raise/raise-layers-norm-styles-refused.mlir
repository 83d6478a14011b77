// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark | FileCheck %s

// Styles of a norm that are not the function of a layer op, each with its
// reason. The styles that are raised are in raise-layers-norm-styles.mlir.

// 23. The mean over two dimensions.

// CHECK-LABEL: func @two_dimensions(
// CHECK-NOT:     fuse.
func.func @two_dimensions(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %x3 = tensor.expand_shape %x [[0], [1, 2]] output_shape [2, 2, 2]
      : tensor<2x4xf32> into tensor<2x2x2xf32>
  %sq = arith.mulf %x3, %x3 : tensor<2x2x2xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x2x2xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1, 2]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N134 split-reduction}}
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 24. The mean as two sums.

// CHECK-LABEL: func @two_sums(
// CHECK-NOT:     fuse.
func.func @two_sums(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %x3 = tensor.expand_shape %x [[0], [1, 2]] output_shape [2, 2, 2]
      : tensor<2x4xf32> into tensor<2x2x2xf32>
  %zeros = arith.constant dense<0.0> : tensor<2x2xf32>
  %sq = arith.mulf %x3, %x3 : tensor<2x2x2xf32>
  %part = linalg.reduce { arith.addf } ins(%sq : tensor<2x2x2xf32>)
      outs(%zeros : tensor<2x2xf32>) dimensions = [2]
  %sum = linalg.reduce { arith.addf } ins(%part : tensor<2x2xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N134 split-reduction}}
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 25. Divided by the clamped length.

// CHECK-LABEL: func @clamped_length(
// CHECK-NOT:     fuse.
func.func @clamped_length(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %root = math.sqrt %sum : tensor<2xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N135 clamped-norm}}
  %r = arith.maximumf %root, %eps : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.divf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// The mean under the root is clamped.

// CHECK-LABEL: func @clamped_mean(
// CHECK-NOT:     fuse.
func.func @clamped_mean(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N135 clamped-norm}}
  %v = arith.maximumf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// 26. The variance as a difference of two means.

// CHECK-LABEL: func @fast_variance(
// CHECK-NOT:     fuse.
func.func @fast_variance(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %m = arith.divf %s, %n : tensor<2xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %mm = arith.mulf %m, %m : tensor<2xf32>
  %d = arith.subf %mean, %mm : tensor<2xf32>
  // expected-remark-re @below {{[Missed] layer_norm{{.*}}FUSE-N107 variance-form}}
  %v = arith.addf %d, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %mb = linalg.broadcast ins(%m : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %c = arith.subf %x, %mb : tensor<2x4xf32>
  %y = arith.mulf %c, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// The same, clamped at zero (Flax).

// CHECK-LABEL: func @fast_variance_clamped(
// CHECK-NOT:     fuse.{{.*}}_norm
func.func @fast_variance_clamped(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %m = arith.divf %s, %n : tensor<2xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %mm = arith.mulf %m, %m : tensor<2xf32>
  %d = arith.subf %mean, %mm : tensor<2xf32>
  %d0 = arith.maximumf %zero, %d : tensor<2xf32>
  // expected-remark-re @below {{[Missed] layer_norm{{.*}}FUSE-N107 variance-form}}
  %v = arith.addf %d0, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %mb = linalg.broadcast ins(%m : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %c = arith.subf %x, %mb : tensor<2x4xf32>
  %y = arith.mulf %c, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// The sum of 18 with roundings to bf16 is another function.

// CHECK-LABEL: func @distributed_in_bf16(
// CHECK:         %[[N:.*]] = fuse.rms_norm %{{[^ ]*}} eps
// CHECK-NEXT:    %[[W:.*]] = arith.mulf %[[N]]
// CHECK-NEXT:    fuse.residual_add %[[N]], %[[W]]
func.func @distributed_in_bf16(%x: tensor<2x4xf32>, %w: tensor<4xbf16>)
    -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %initb = tensor.empty() : tensor<2x4xbf16>
  %wb = linalg.broadcast ins(%w : tensor<4xbf16>)
      outs(%initb : tensor<2x4xbf16>) dimensions = [0]
  %nf = arith.mulf %x, %rb : tensor<2x4xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N101 extra-rounding}}
  %n0 = arith.truncf %nf : tensor<2x4xf32> to tensor<2x4xbf16>
  %nw = arith.mulf %n0, %wb : tensor<2x4xbf16>
  %s = arith.addf %n0, %nw : tensor<2x4xbf16>
  %y = arith.extf %s : tensor<2x4xbf16> to tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// The sum of squares instead of their mean.

// CHECK-LABEL: func @length(
// CHECK-NOT:     fuse.
func.func @length(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %sq = arith.mulf %x, %x : tensor<2x4xf32>
  // expected-remark-re @below {{[Missed] rms_norm{{.*}}FUSE-N105 mean-count}}
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %v = arith.addf %sum, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// A shifted center is not that of a layer norm.

// CHECK-LABEL: func @shifted_center(
// CHECK:         %[[C:.*]] = arith.addf %{{.*}}, %{{.*}} : tensor<2x4xf32>
// CHECK-NEXT:    fuse.rms_norm %[[C]] eps 1.0e-05 :
// CHECK-NEXT:    return
func.func @shifted_center(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %m = arith.divf %s, %n : tensor<2xf32>
  %mb = linalg.broadcast ins(%m : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %ones = arith.constant dense<1.0> : tensor<2x4xf32>
  %c0 = arith.subf %x, %mb : tensor<2x4xf32>
  %c = arith.addf %c0, %ones : tensor<2x4xf32>
  %sq = arith.mulf %c, %c : tensor<2x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<2xf32>
  %v = arith.addf %mean, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %c, %rb : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
