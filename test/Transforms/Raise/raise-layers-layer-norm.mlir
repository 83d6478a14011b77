// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark | FileCheck %s

// Weight and bias, in f32.

// CHECK-LABEL: func @weight_and_bias(
// CHECK-SAME:    %[[X:.*]]: tensor<4x64xf32>, %[[W:.*]]: tensor<64xf32>, %[[B:.*]]: tensor<64xf32>
// CHECK-NEXT:    %[[Y:.*]] = fuse.layer_norm %[[X]] weight(%[[W]]) bias(%[[B]]) eps 1.0e-05 :
// CHECK-NEXT:    return %[[Y]]
func.func @weight_and_bias(%x: tensor<4x64xf32>, %w: tensor<64xf32>,
                           %b: tensor<64xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %mb = linalg.broadcast ins(%mean : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %c = arith.subf %x, %mb : tensor<4x64xf32>
  %sq = arith.mulf %c, %c : tensor<4x64xf32>
  %sumsq = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %var = arith.divf %sumsq, %n : tensor<4xf32>
  %v = arith.addf %var, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %wb = linalg.broadcast ins(%w : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %bb = linalg.broadcast ins(%b : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %nf = arith.mulf %c, %rb : tensor<4x64xf32>
  %p = arith.mulf %nf, %wb : tensor<4x64xf32>
  %y = arith.addf %p, %bb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// Input, result and parameters in bf16, with one rounding.

// CHECK-LABEL: func @between_casts(
// CHECK-NEXT:    fuse.layer_norm %{{.*}} weight(%{{.*}}) bias(%{{.*}}) eps 1.0e-05 : (tensor<4x64xbf16>, tensor<64xbf16>, tensor<64xbf16>) -> tensor<4x64xbf16>
// CHECK-NEXT:    return
func.func @between_casts(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>,
                         %b: tensor<64xbf16>)
    -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%f : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %mb = linalg.broadcast ins(%mean : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %c = arith.subf %f, %mb : tensor<4x64xf32>
  %sq = arith.mulf %c, %c : tensor<4x64xf32>
  %sumsq = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %var = arith.divf %sumsq, %n : tensor<4xf32>
  %v = arith.addf %var, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %wf = arith.extf %w : tensor<64xbf16> to tensor<64xf32>
  %bf = arith.extf %b : tensor<64xbf16> to tensor<64xf32>
  %wb = linalg.broadcast ins(%wf : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %bb = linalg.broadcast ins(%bf : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %rw = arith.mulf %rb, %wb : tensor<4x64xf32>
  %p = arith.mulf %c, %rw : tensor<4x64xf32>
  %s = arith.addf %bb, %p : tensor<4x64xf32>
  %y = arith.truncf %s : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// Without parameters, divided by a square root.

// CHECK-LABEL: func @unweighted(
// CHECK-NEXT:    fuse.layer_norm %{{.*}} eps 1.0e-05 : (tensor<4x64xf32>) -> tensor<4x64xf32>
// CHECK-NEXT:    return
func.func @unweighted(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %mb = linalg.broadcast ins(%mean : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %c = arith.subf %x, %mb : tensor<4x64xf32>
  %sq = arith.mulf %c, %c : tensor<4x64xf32>
  %sumsq = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %var = arith.divf %sumsq, %n : tensor<4xf32>
  %v = arith.addf %var, %eps : tensor<4xf32>
  %r = math.sqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.divf %c, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// A weight and no bias (Cohere).

// CHECK-LABEL: func @weight_only(
// CHECK-NEXT:    fuse.layer_norm %{{.*}} weight(%{{[^)]*}}) eps 1.0e-05 : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
// CHECK-NEXT:    return
func.func @weight_only(%x: tensor<4x64xf32>, %w: tensor<64xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %mb = linalg.broadcast ins(%mean : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %c = arith.subf %x, %mb : tensor<4x64xf32>
  %sq = arith.mulf %c, %c : tensor<4x64xf32>
  %sumsq = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %var = arith.divf %sumsq, %n : tensor<4xf32>
  %v = arith.addf %var, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %wb = linalg.broadcast ins(%w : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %nf = arith.mulf %c, %rb : tensor<4x64xf32>
  %y = arith.mulf %wb, %nf : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// Bessel's correction: the variance is divided by 63.

// CHECK-LABEL: func @unbiased(
// CHECK-NOT:     fuse.layer_norm
func.func @unbiased(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %n2 = arith.constant dense<63.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %mb = linalg.broadcast ins(%mean : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %c = arith.subf %x, %mb : tensor<4x64xf32>
  %sq = arith.mulf %c, %c : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] layer_norm{{.*}}for 64 features{{.*}}FUSE-N106 unbiased-variance}}
  %sumsq = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %var = arith.divf %sumsq, %n2 : tensor<4xf32>
  %v = arith.addf %var, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.mulf %c, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// E[x^2] - E[x]^2 cancels digits that the layer keeps.

// CHECK-LABEL: func @difference_of_means(
// CHECK-NOT:     fuse.layer_norm
func.func @difference_of_means(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sumsq = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %meansq = arith.divf %sumsq, %n : tensor<4xf32>
  %mm = arith.mulf %mean, %mean : tensor<4xf32>
  %var = arith.subf %meansq, %mm : tensor<4xf32>
  // expected-remark-re @below {{[Missed]{{.*}}FUSE-N107 variance-form}}
  %v = arith.addf %var, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %mb = linalg.broadcast ins(%mean : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %c = arith.subf %x, %mb : tensor<4x64xf32>
  %y = arith.mulf %c, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// A layer norm with a bias needs a weight.

// CHECK-LABEL: func @bias_only(
// CHECK:         fuse.layer_norm %{{.*}} eps
// CHECK:         arith.addf
func.func @bias_only(%x: tensor<4x64xf32>, %b: tensor<64xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %mb = linalg.broadcast ins(%mean : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %c = arith.subf %x, %mb : tensor<4x64xf32>
  %sq = arith.mulf %c, %c : tensor<4x64xf32>
  %sumsq = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %var = arith.divf %sumsq, %n : tensor<4xf32>
  %v = arith.addf %var, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %bb = linalg.broadcast ins(%b : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %nf = arith.mulf %c, %rb : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] layer_norm{{.*}}FUSE-N117 bias-without-weight}}
  // expected-remark-re @below {{[Missed] residual_add{{.*}}FUSE-N130 broadcast}}
  %y = arith.addf %nf, %bb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The normalized value is rounded before the weight: two roundings.

// CHECK-LABEL: func @cast_before_weight(
// CHECK:         fuse.layer_norm %{{.*}} eps 1.0e-05 : (tensor<4x64xbf16>) -> tensor<4x64xbf16>
// CHECK:         arith.mulf
func.func @cast_before_weight(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>)
    -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%f : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %mb = linalg.broadcast ins(%mean : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %c = arith.subf %f, %mb : tensor<4x64xf32>
  %sq = arith.mulf %c, %c : tensor<4x64xf32>
  %sumsq = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %var = arith.divf %sumsq, %n : tensor<4xf32>
  %v = arith.addf %var, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %initb = tensor.empty() : tensor<4x64xbf16>
  %wb = linalg.broadcast ins(%w : tensor<64xbf16>)
      outs(%initb : tensor<4x64xbf16>) dimensions = [0]
  %nf = arith.mulf %c, %rb : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] layer_norm{{.*}}At=arith.truncf{{.*}}FUSE-N101 extra-rounding}}
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  %y = arith.mulf %nb, %wb : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// Centered values in bf16, from a mean in bf16.

// CHECK-LABEL: func @mean_rounded(
// CHECK-NOT:     fuse.layer_norm
func.func @mean_rounded(%x: tensor<4x64xbf16>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%f : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  // expected-remark-re @below {{[Missed]{{.*}}extra-rounding}}
  %meanb = arith.truncf %mean : tensor<4xf32> to tensor<4xbf16>
  %meanf = arith.extf %meanb : tensor<4xbf16> to tensor<4xf32>
  %mb = linalg.broadcast ins(%meanf : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %c = arith.subf %f, %mb : tensor<4x64xf32>
  %sq = arith.mulf %c, %c : tensor<4x64xf32>
  %sumsq = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %var = arith.divf %sumsq, %n : tensor<4xf32>
  %v = arith.addf %var, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.mulf %c, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// Casts around a layer op are merged into it.

// CHECK-LABEL: func @casts_around_layer(
// CHECK-NEXT:    %[[Y:.*]] = fuse.layer_norm %{{.*}} eps 1.0e-05 : (tensor<4x64xbf16>) -> tensor<4x64xbf16>
// CHECK-NEXT:    return %[[Y]]
func.func @casts_around_layer(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %n = fuse.layer_norm %f eps 1.0e-5 : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %y = arith.truncf %n : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// This norm rounds to the type of its input, so reading bf16 would change it.

// CHECK-LABEL: func @cast_before_rms_norm(
// CHECK-NEXT:    %[[F:.*]] = arith.extf
// CHECK-NEXT:    fuse.rms_norm %[[F]] weight(%{{.*}}) eps 1.0e-06 : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xbf16>
func.func @cast_before_rms_norm(%x: tensor<4x64xbf16>, %w: tensor<64xf32>)
    -> tensor<4x64xbf16> {
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %n = fuse.rms_norm %f weight(%w) eps 1.0e-6
    : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %y = arith.truncf %n : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}
