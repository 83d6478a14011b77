// RUN: fuse-opt %s --fuse-raise-layers --split-input-file | FileCheck %s

// Formulas that resemble a layer but compute something else, or have no layer
// op.

// A mean over a dimension of size 1 is not a mean over the features, although
// it is divided by their number.

// CHECK-LABEL: func @unit_mean(
// CHECK-NOT:     fuse.
// CHECK:         return
func.func @unit_mean(%x: tensor<4x1x8xf32>) -> tensor<4x1x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %n = arith.constant dense<8.0> : tensor<4x8xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4x8xf32>
  %init = tensor.empty() : tensor<4x1x8xf32>
  %sq = arith.mulf %x, %x : tensor<4x1x8xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x1x8xf32>)
      outs(%zero : tensor<4x8xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4x8xf32>
  %v = arith.addf %mean, %eps : tensor<4x8xf32>
  %r = math.rsqrt %v : tensor<4x8xf32>
  %rb = linalg.broadcast ins(%r : tensor<4x8xf32>)
      outs(%init : tensor<4x1x8xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<4x1x8xf32>
  return %y : tensor<4x1x8xf32>
}

// -----

// A mean over the last dimension is one, even with a single feature.

// CHECK-LABEL: func @one_feature(
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %{{.*}} eps 1.0e-06
// CHECK-NEXT:    return %[[Y]]
func.func @one_feature(%x: tensor<4x1xf32>) -> tensor<4x1xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x1xf32>
  %sq = arith.mulf %x, %x : tensor<4x1xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x1xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %v = arith.addf %sum, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x1xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<4x1xf32>
  return %y : tensor<4x1xf32>
}

// -----

// The op writes only one row of its result. The other rows are those of `init`,
// so the addend is not a bias.

// CHECK-LABEL: func @partial(
// CHECK:         fuse.linear %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<8x4xf32>)
// CHECK:         fuse.residual_add
func.func @partial(%x: tensor<2x4xf32>, %w: tensor<8x4xf32>,
                   %b: tensor<8xf32>, %init: tensor<2x8xf32>)
    -> tensor<2x8xf32> {
  %l = fuse.linear %x, %w
    : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
  %row = linalg.generic {
      indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (0, n)>],
      iterator_types = ["parallel"]}
      ins(%b : tensor<8xf32>) outs(%init : tensor<2x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x8xf32>
  %y = arith.addf %l, %row : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// If the result has only one row, the addend is a bias.

// CHECK-LABEL: func @whole(
// CHECK-NEXT:    fuse.linear %{{.*}}, %{{.*}} bias(%{{.*}})
// CHECK-NEXT:    return
func.func @whole(%x: tensor<1x4xf32>, %w: tensor<8x4xf32>,
                 %b: tensor<8xf32>, %init: tensor<1x8xf32>)
    -> tensor<1x8xf32> {
  %l = fuse.linear %x, %w
    : (tensor<1x4xf32>, tensor<8x4xf32>) -> tensor<1x8xf32>
  %row = linalg.generic {
      indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (0, n)>],
      iterator_types = ["parallel"]}
      ins(%b : tensor<8xf32>) outs(%init : tensor<1x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x8xf32>
  %y = arith.addf %l, %row : tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// -----

// The f32 input is computed after the activation, which reads stored values.

// CHECK-LABEL: func @widened_later(
// CHECK-NOT:     fuse.
// CHECK:         arith.extf %{{.*}} : tensor<4x8xf8E4M3FN> to tensor<4x8xf32>
// CHECK-NEXT:    return
func.func @widened_later(%q: tensor<4x8xf8E4M3FN>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %one = arith.constant 1.0 : f32
  %init = tensor.empty() : tensor<4x8xf32>
  %y = linalg.map ins(%q : tensor<4x8xf8E4M3FN>) outs(%init : tensor<4x8xf32>)
    (%stored: f8E4M3FN, %out: f32) {
      %x = arith.extf %stored : f8E4M3FN to f32
      %n = arith.negf %x : f32
      %e = math.exp %n : f32
      %d = arith.addf %e, %one : f32
      %s = arith.divf %x, %d : f32
      linalg.yield %s : f32
    }
  %w = arith.extf %q : tensor<4x8xf8E4M3FN> to tensor<4x8xf32>
  return %y, %w : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func @widened_before(
// CHECK:         %[[X:.*]] = arith.extf
// CHECK-NEXT:    fuse.activation silu %[[X]]
func.func @widened_before(%q: tensor<4x8xf8E4M3FN>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %one = arith.constant 1.0 : f32
  %init = tensor.empty() : tensor<4x8xf32>
  %w = arith.extf %q : tensor<4x8xf8E4M3FN> to tensor<4x8xf32>
  %y = linalg.map ins(%q : tensor<4x8xf8E4M3FN>) outs(%init : tensor<4x8xf32>)
    (%stored: f8E4M3FN, %out: f32) {
      %x = arith.extf %stored : f8E4M3FN to f32
      %n = arith.negf %x : f32
      %e = math.exp %n : f32
      %d = arith.addf %e, %one : f32
      %s = arith.divf %x, %d : f32
      linalg.yield %s : f32
    }
  return %y, %w : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// An empty sum has no input features.

// CHECK-LABEL: func @no_features(
// CHECK-NOT:     fuse.
// CHECK:         linalg.matmul
func.func @no_features(%x: tensor<4x0xf32>, %w: tensor<8x0xf32>)
    -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<4x8xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%init : tensor<4x8xf32>)
      -> tensor<4x8xf32>
  %s = linalg.matmul
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<4x0xf32>, tensor<8x0xf32>)
      outs(%fill : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// -----

// The factor of the squares starts as 1 and doubles in each step.

// CHECK-LABEL: func @two_sums(
// CHECK-NOT:     fuse.
// CHECK:         return
func.func @two_sums(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %n = arith.constant dense<8.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x8xf32>
  %sums:2 = linalg.generic {
      indexing_maps = [affine_map<(m, n) -> (m, n)>,
                       affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%zero, %one : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%in: f32, %sum: f32, %factor: f32):
    %square = arith.mulf %in, %in : f32
    %weighted = arith.mulf %square, %factor : f32
    %next = arith.addf %sum, %weighted : f32
    %twice = arith.addf %factor, %factor : f32
    linalg.yield %next, %twice : f32, f32
  } -> (tensor<4xf32>, tensor<4xf32>)
  %mean = arith.divf %sums#0, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x8xf32>) dimensions = [1]
  %y = arith.mulf %x, %rb : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// The square of a root is NaN below zero, and a square divided by its base is
// NaN at zero, where an activation is a number.

// CHECK-LABEL: func @squared_root(
// CHECK-NOT:     fuse.
// CHECK:         return
func.func @squared_root(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %one = arith.constant dense<1.0> : tensor<2x4xf32>
  %n = arith.negf %x : tensor<2x4xf32>
  %e = math.exp %n : tensor<2x4xf32>
  %d = arith.addf %e, %one : tensor<2x4xf32>
  %root = math.sqrt %x : tensor<2x4xf32>
  %square = arith.mulf %root, %root : tensor<2x4xf32>
  %y = arith.divf %square, %d : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func @divided_square(
// CHECK-NOT:     fuse.
// CHECK:         return
func.func @divided_square(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %one = arith.constant dense<1.0> : tensor<2x4xf32>
  %n = arith.negf %x : tensor<2x4xf32>
  %e = math.exp %n : tensor<2x4xf32>
  %d = arith.addf %e, %one : tensor<2x4xf32>
  %square = arith.mulf %x, %x : tensor<2x4xf32>
  %base = arith.divf %square, %x : tensor<2x4xf32>
  %y = arith.divf %base, %d : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// No layer but a quantize has a result of a stored type.

// CHECK-LABEL: func @stored_result(
// CHECK-NEXT:    %[[R:.*]] = fuse.activation relu %arg0 : tensor<2x4xf32> -> tensor<2x4xf32>
// CHECK-NEXT:    arith.truncf %[[R]]
// CHECK-NEXT:    return
func.func @stored_result(%x: tensor<2x4xf32>) -> tensor<2x4xf8E4M3FN> {
  %zero = arith.constant dense<0.0> : tensor<2x4xf32>
  %r = arith.maximumf %x, %zero : tensor<2x4xf32>
  %q = arith.truncf %r : tensor<2x4xf32> to tensor<2x4xf8E4M3FN>
  return %q : tensor<2x4xf8E4M3FN>
}
