// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark | FileCheck %s

// Activations written in arith and math on tensors.

// CHECK-LABEL: func @silu_divided(
// CHECK-SAME:    %[[X:.*]]: tensor<?x64xf32>
// CHECK-NEXT:    %[[Y:.*]] = fuse.activation silu %[[X]]
// CHECK-NEXT:    return %[[Y]]
func.func @silu_divided(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %c1 = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x64xf32>
  %ones = tensor.splat %c1[%d] : tensor<?x64xf32>
  %n = arith.negf %x : tensor<?x64xf32>
  %e = math.exp %n : tensor<?x64xf32>
  %s = arith.addf %ones, %e : tensor<?x64xf32>
  %y = arith.divf %x, %s : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// x * sigmoid(x), with the sigmoid as a reciprocal and the negation as a
// product.

// CHECK-LABEL: func @silu_multiplied(
// CHECK-NEXT:    fuse.activation silu %{{.*}} : tensor<4x64xf32>
// CHECK-NEXT:    return
func.func @silu_multiplied(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %minus = arith.constant dense<-1.0> : tensor<4x64xf32>
  %n = arith.mulf %x, %minus : tensor<4x64xf32>
  %e = math.exp %n : tensor<4x64xf32>
  %s = arith.addf %e, %one : tensor<4x64xf32>
  %g = arith.divf %one, %s : tensor<4x64xf32>
  %y = arith.mulf %g, %x : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The logistic function as expanded by XLA.

// CHECK-LABEL: func @silu_tanh(
// CHECK-NEXT:    fuse.activation silu
// CHECK-NEXT:    return
func.func @silu_tanh(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %half = arith.constant dense<0.5> : tensor<4x64xf32>
  %h = arith.mulf %x, %half : tensor<4x64xf32>
  %t = math.tanh %h : tensor<4x64xf32>
  %m = arith.mulf %half, %t : tensor<4x64xf32>
  %s = arith.addf %half, %m : tensor<4x64xf32>
  %y = arith.mulf %x, %s : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// Computed in f32 between casts: one rounding, like the layer.

// CHECK-LABEL: func @silu_casts(
// CHECK-NEXT:    fuse.activation silu %{{.*}} : tensor<4x64xbf16> -> tensor<4x64xbf16>
// CHECK-NEXT:    return
func.func @silu_casts(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %w = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %n = arith.negf %w : tensor<4x64xf32>
  %e = math.exp %n : tensor<4x64xf32>
  %s = arith.addf %one, %e : tensor<4x64xf32>
  %q = arith.divf %w, %s : tensor<4x64xf32>
  %y = arith.truncf %q : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// Computed in bf16: every op rounds, which is another function.

// CHECK-LABEL: func @silu_op_by_op(
// CHECK-NOT:     fuse.activation
// CHECK:         return
func.func @silu_op_by_op(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %one = arith.constant dense<1.0> : tensor<4x64xbf16>
  %n = arith.negf %x : tensor<4x64xbf16>
  %e = math.exp %n : tensor<4x64xbf16>
  // expected-remark-re @below {{[Missed] activation{{.*}}Detail="silu in f32 rounds once"{{.*}}FUSE-N101 extra-rounding}}
  %s = arith.addf %one, %e : tensor<4x64xbf16>
  %y = arith.divf %x, %s : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// Only the sigmoid is rounded, as in PyTorch's x * x.sigmoid().

// CHECK-LABEL: func @silu_rounded_sigmoid(
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT:     fuse.activation
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @silu_rounded_sigmoid(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %init = tensor.empty() : tensor<4x64xbf16>
  // expected-remark-re @below {{[Missed] activation{{.*}}At=linalg.generic{{.*}}FUSE-N101 extra-rounding}}
  %sigmoid = linalg.generic {indexing_maps = [#map, #map],
                             iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x64xbf16>) outs(%init : tensor<4x64xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %one = arith.constant 1.0 : f32
    %0 = arith.extf %in : bf16 to f32
    %1 = arith.negf %0 : f32
    %2 = math.exp %1 : f32
    %3 = arith.addf %one, %2 : f32
    %4 = arith.divf %one, %3 : f32
    %5 = arith.truncf %4 : f32 to bf16
    linalg.yield %5 : bf16
  } -> tensor<4x64xbf16>
  %y = linalg.generic {indexing_maps = [#map, #map, #map],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %sigmoid : tensor<4x64xbf16>, tensor<4x64xbf16>)
      outs(%init : tensor<4x64xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %out: bf16):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %b : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.truncf %2 : f32 to bf16
    linalg.yield %3 : bf16
  } -> tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// One generic with the whole formula, in f16.

// CHECK-LABEL: func @silu_generic(
// CHECK-NEXT:    fuse.activation silu %{{.*}} : tensor<?x?x64xf16> -> tensor<?x?x64xf16>
// CHECK-NEXT:    return
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @silu_generic(%x: tensor<?x?x64xf16>) -> tensor<?x?x64xf16> {
  %y = linalg.generic {indexing_maps = [#map, #map],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x?x64xf16>) outs(%x : tensor<?x?x64xf16>) {
  ^bb0(%in: f16, %out: f16):
    %one = arith.constant 1.0 : f32
    %0 = arith.extf %in : f16 to f32
    %1 = arith.negf %0 : f32
    %2 = math.exp %1 : f32
    %3 = arith.addf %2, %one : f32
    %4 = arith.divf %0, %3 : f32
    %5 = arith.truncf %4 : f32 to f16
    linalg.yield %5 : f16
  } -> tensor<?x?x64xf16>
  return %y : tensor<?x?x64xf16>
}

// -----

// A sigmoid is not an activation of this dialect, and it is not refused either.

// CHECK-LABEL: func @sigmoid(
// CHECK-NOT:     fuse.
// REMARK-NOT: remark:
func.func @sigmoid(%x: tensor<4x64xf32>, %u: tensor<4x64xf32>)
    -> tensor<4x64xf32> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %n = arith.negf %x : tensor<4x64xf32>
  %e = math.exp %n : tensor<4x64xf32>
  %s = arith.addf %one, %e : tensor<4x64xf32>
  %y = arith.divf %u, %s : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @quick_gelu(
// CHECK-NEXT:    fuse.activation quick_gelu
// CHECK-NEXT:    return
func.func @quick_gelu(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %c = arith.constant dense<1.702> : tensor<4x64xf32>
  %m = arith.mulf %c, %x : tensor<4x64xf32>
  %n = arith.negf %m : tensor<4x64xf32>
  %e = math.exp %n : tensor<4x64xf32>
  %s = arith.addf %one, %e : tensor<4x64xf32>
  %y = arith.divf %x, %s : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @swish_beta(
// CHECK-NOT:     fuse.activation
func.func @swish_beta(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %c = arith.constant dense<-1.5> : tensor<4x64xf32>
  %n = arith.mulf %c, %x : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}x * -1.5{{.*}}FUSE-N102 constant}}
  %e = math.exp %n : tensor<4x64xf32>
  %s = arith.addf %one, %e : tensor<4x64xf32>
  %y = arith.divf %x, %s : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @gelu_erf(
// CHECK-NEXT:    fuse.activation gelu %
// CHECK-NEXT:    return
func.func @gelu_erf(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %half = arith.constant dense<0.5> : tensor<4x64xf32>
  %c = arith.constant dense<0.707106769> : tensor<4x64xf32>
  %m = arith.mulf %x, %c : tensor<4x64xf32>
  %e = math.erf %m : tensor<4x64xf32>
  %s = arith.addf %e, %one : tensor<4x64xf32>
  %h = arith.mulf %x, %half : tensor<4x64xf32>
  %y = arith.mulf %h, %s : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// Divided by sqrt(2), with a distributed product.

// CHECK-LABEL: func @gelu_erf_distributed(
// CHECK-NEXT:    fuse.activation gelu %
// CHECK-NEXT:    return
func.func @gelu_erf_distributed(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %half = arith.constant dense<0.5> : tensor<4x64xf32>
  %c = arith.constant dense<1.41421354> : tensor<4x64xf32>
  %m = arith.divf %x, %c : tensor<4x64xf32>
  %e = math.erf %m : tensor<4x64xf32>
  %h = arith.mulf %x, %half : tensor<4x64xf32>
  %he = arith.mulf %h, %e : tensor<4x64xf32>
  %y = arith.addf %h, %he : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @gelu_erfc(
// CHECK-NEXT:    fuse.activation gelu %
// CHECK-NEXT:    return
func.func @gelu_erfc(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %half = arith.constant dense<0.5> : tensor<4x64xf32>
  %c = arith.constant dense<0.707106769> : tensor<4x64xf32>
  %n = arith.negf %x : tensor<4x64xf32>
  %m = arith.mulf %n, %c : tensor<4x64xf32>
  %e = math.erfc %m : tensor<4x64xf32>
  %h = arith.mulf %half, %x : tensor<4x64xf32>
  %y = arith.mulf %h, %e : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// A constant with bf16 precision in an f32 formula.

// CHECK-LABEL: func @gelu_erf_coarse(
// CHECK-NOT:     fuse.activation
func.func @gelu_erf_coarse(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %half = arith.constant dense<0.5> : tensor<4x64xf32>
  %b = arith.constant dense<0.707106769> : tensor<4x64xbf16>
  %c = arith.extf %b : tensor<4x64xbf16> to tensor<4x64xf32>
  %m = arith.mulf %x, %c : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}x * 7.070312e-01{{.*}}FUSE-N102 constant}}
  %e = math.erf %m : tensor<4x64xf32>
  %s = arith.addf %e, %one : tensor<4x64xf32>
  %h = arith.mulf %x, %half : tensor<4x64xf32>
  %y = arith.mulf %h, %s : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @gelu_tanh(
// CHECK-NEXT:    fuse.activation gelu_tanh %
// CHECK-NEXT:    return
func.func @gelu_tanh(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %half = arith.constant dense<0.5> : tensor<4x64xf32>
  %three = arith.constant dense<3.0> : tensor<4x64xf32>
  %c = arith.constant dense<0.044715> : tensor<4x64xf32>
  %r = arith.constant dense<0.797884583> : tensor<4x64xf32>
  %p = math.powf %x, %three : tensor<4x64xf32>
  %cp = arith.mulf %c, %p : tensor<4x64xf32>
  %a = arith.addf %x, %cp : tensor<4x64xf32>
  %m = arith.mulf %r, %a : tensor<4x64xf32>
  %t = math.tanh %m : tensor<4x64xf32>
  %s = arith.addf %one, %t : tensor<4x64xf32>
  %h = arith.mulf %half, %x : tensor<4x64xf32>
  %y = arith.mulf %h, %s : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The "fast" spelling: x * r * (1 + c * x * x).

// CHECK-LABEL: func @gelu_tanh_fast(
// CHECK-NEXT:    fuse.activation gelu_tanh %
// CHECK-NEXT:    return
func.func @gelu_tanh_fast(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %half = arith.constant dense<0.5> : tensor<4x64xf32>
  %c = arith.constant dense<0.044715> : tensor<4x64xf32>
  %r = arith.constant dense<0.7978845608> : tensor<4x64xf32>
  %cx = arith.mulf %c, %x : tensor<4x64xf32>
  %cxx = arith.mulf %cx, %x : tensor<4x64xf32>
  %a = arith.addf %cxx, %one : tensor<4x64xf32>
  %rx = arith.mulf %x, %r : tensor<4x64xf32>
  %m = arith.mulf %rx, %a : tensor<4x64xf32>
  %t = math.tanh %m : tensor<4x64xf32>
  %s = arith.addf %t, %one : tensor<4x64xf32>
  %hs = arith.mulf %half, %s : tensor<4x64xf32>
  %y = arith.mulf %hs, %x : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The scale of the tanh approximation without its cubic term.

// CHECK-LABEL: func @gelu_tanh_linear(
// CHECK-NOT:     fuse.activation
func.func @gelu_tanh_linear(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %half = arith.constant dense<0.5> : tensor<4x64xf32>
  %c = arith.constant dense<0.797884583> : tensor<4x64xf32>
  %m = arith.mulf %x, %c : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}x * 7.978846e-01, x^3 * 0.0{{.*}}FUSE-N102 constant}}
  %t = math.tanh %m : tensor<4x64xf32>
  %s = arith.addf %t, %one : tensor<4x64xf32>
  %h = arith.mulf %x, %half : tensor<4x64xf32>
  %y = arith.mulf %h, %s : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @relu(
// CHECK-NEXT:    fuse.activation relu %{{.*}} : tensor<4x64xbf16> -> tensor<4x64xbf16>
// CHECK-NEXT:    return
func.func @relu(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4x64xbf16>
  %y = arith.maximumf %x, %zero : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// An unordered comparison propagates NaN, like the layer.

// CHECK-LABEL: func @relu_select(
// CHECK-NEXT:    fuse.activation relu
// CHECK-NEXT:    return
func.func @relu_select(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x64xf32>
  %c = arith.cmpf ugt, %x, %zero : tensor<4x64xf32>
  %y = arith.select %c, %x, %zero : tensor<4x64xi1>, tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// An ordered comparison replaces NaN by zero.

// CHECK-LABEL: func @relu_select_ordered(
// CHECK-NOT:     fuse.activation
func.func @relu_select_ordered(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x64xf32>
  %c = arith.cmpf ogt, %x, %zero : tensor<4x64xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}At=arith.select{{.*}}FUSE-N118 nan}}
  %y = arith.select %c, %x, %zero : tensor<4x64xi1>, tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @relu2(
// CHECK-NEXT:    fuse.activation relu2
// CHECK-NEXT:    return
func.func @relu2(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4x64xbf16>
  %r = arith.maximumf %x, %zero : tensor<4x64xbf16>
  %y = arith.mulf %r, %r : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// The rectified value has another user, so it is a layer, too.

// CHECK-LABEL: func @relu2_and_relu(
// CHECK-DAG:     %[[R:.*]] = fuse.activation relu %
// CHECK-DAG:     %[[S:.*]] = fuse.activation relu2 %
// CHECK:         return %[[R]], %[[S]]
func.func @relu2_and_relu(%x: tensor<4x64xf32>)
    -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %zero = arith.constant dense<0.0> : tensor<4x64xf32>
  %r = arith.maximumf %x, %zero : tensor<4x64xf32>
  %y = arith.mulf %r, %r : tensor<4x64xf32>
  return %r, %y : tensor<4x64xf32>, tensor<4x64xf32>
}

// -----

// exp(x) overflows where exp(-x) does not.

// CHECK-LABEL: func @silu_overflowing(
// CHECK-NOT:     fuse.activation
func.func @silu_overflowing(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %one = arith.constant dense<1.0> : tensor<4x64xf32>
  %e = math.exp %x : tensor<4x64xf32>
  %s = arith.addf %one, %e : tensor<4x64xf32>
  %q = arith.divf %e, %s : tensor<4x64xf32>
  %y = arith.mulf %x, %q : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: func @dynamic_features(
// CHECK-NOT:     fuse.activation
func.func @dynamic_features(%x: tensor<4x?xf32>) -> tensor<4x?xf32> {
  // expected-remark-re @below {{[Missed] activation{{.*}}FUSE-N111 dynamic-features}}
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x?xf32>) outs(%x : tensor<4x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %c = arith.constant 0.0 : f32
    %0 = arith.maximumf %in, %c : f32
    linalg.yield %0 : f32
  } -> tensor<4x?xf32>
  return %y : tensor<4x?xf32>
}

// -----

// The activation reads a stored value, and no tensor holds the widened value.

// CHECK-LABEL: func @stored_input(
// CHECK-NOT:     fuse.activation
func.func @stored_input(%x: tensor<4x64xf8E4M3FN>, %init: tensor<4x64xf32>)
    -> tensor<4x64xf32> {
  // expected-remark-re @below {{[Missed] activation{{.*}}FUSE-N112 input-not-a-tensor}}
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x64xf8E4M3FN>) outs(%init : tensor<4x64xf32>) {
  ^bb0(%in: f8E4M3FN, %out: f32):
    %c = arith.constant 0.0 : f32
    %0 = arith.extf %in : f8E4M3FN to f32
    %1 = arith.maximumf %0, %c : f32
    linalg.yield %1 : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
