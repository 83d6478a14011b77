// RUN: fuse-opt %s --fuse-raise-layers -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark | FileCheck %s

// An addition next to a layer is a residual add; other additions stay.

// CHECK-LABEL: func @residual_add(
// CHECK-SAME:    %[[X:.*]]: tensor<4x64xbf16>, %[[R:.*]]: tensor<4x64xbf16>
// CHECK-NEXT:    %[[U:.*]] = arith.addf %[[X]], %[[R]]
// CHECK-NEXT:    %[[L:.*]] = fuse.linear %[[X]]
// CHECK-NEXT:    %[[S:.*]] = fuse.residual_add %[[L]], %[[R]]
// CHECK-NEXT:    return %[[U]], %[[S]]
func.func @residual_add(%x: tensor<4x64xbf16>, %r: tensor<4x64xbf16>,
                        %w: tensor<64x64xbf16>)
    -> (tensor<4x64xbf16>, tensor<4x64xbf16>) {
  %unrelated = arith.addf %x, %r : tensor<4x64xbf16>
  %l = fuse.linear %x, %w
    : (tensor<4x64xbf16>, tensor<64x64xbf16>) -> tensor<4x64xbf16>
  %s = arith.addf %l, %r : tensor<4x64xbf16>
  return %unrelated, %s : tensor<4x64xbf16>, tensor<4x64xbf16>
}

// -----

// Two consecutive adds (parallel attention). One is next to a layer only after
// the other is raised.

// CHECK-LABEL: func @two_adds(
// CHECK:         %[[S:.*]] = fuse.residual_add
// CHECK-NEXT:    fuse.residual_add %{{.*}}, %[[S]]
func.func @two_adds(%x: tensor<4x64xbf16>, %a: tensor<4x64xbf16>,
                    %w: tensor<64x64xbf16>) -> tensor<4x64xbf16> {
  %l = fuse.linear %x, %w
    : (tensor<4x64xbf16>, tensor<64x64xbf16>) -> tensor<4x64xbf16>
  %s = linalg.add ins(%l, %a : tensor<4x64xbf16>, tensor<4x64xbf16>)
      outs(%x : tensor<4x64xbf16>) -> tensor<4x64xbf16>
  %y = arith.addf %x, %s : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// An addition that computes a weight is not a residual add.

// CHECK-LABEL: func @weight_delta(
// CHECK-NEXT:    %[[W:.*]] = arith.addf
// CHECK-NEXT:    fuse.linear %{{.*}}, %[[W]]
func.func @weight_delta(%x: tensor<4x64xbf16>, %w: tensor<64x64xbf16>,
                        %d: tensor<64x64xbf16>) -> tensor<4x64xbf16> {
  %sum = arith.addf %w, %d : tensor<64x64xbf16>
  %l = fuse.linear %x, %sum
    : (tensor<4x64xbf16>, tensor<64x64xbf16>) -> tensor<4x64xbf16>
  return %l : tensor<4x64xbf16>
}

// -----

// One operand is a row that is broadcast to all tokens.

// CHECK-LABEL: func @broadcast(
// CHECK-NOT:     fuse.residual_add
func.func @broadcast(%x: tensor<4x64xbf16>, %p: tensor<64xbf16>)
    -> tensor<4x64xbf16> {
  %e = tensor.empty() : tensor<4x64xbf16>
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<4x64xbf16>) -> tensor<4x64xbf16>
  %pb = linalg.broadcast ins(%p : tensor<64xbf16>)
      outs(%e : tensor<4x64xbf16>) dimensions = [0]
  // expected-remark-re @below {{[Missed] residual_add{{.*}}FUSE-N130 broadcast}}
  %y = arith.addf %n, %pb : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// A gate in f32 and a projection in bf16, rounded once.

// CHECK-LABEL: func @gated_mul(
// CHECK-NEXT:    %[[G:.*]] = fuse.activation silu %{{.*}} : tensor<4x64xbf16> -> tensor<4x64xf32>
// CHECK-NEXT:    fuse.gated_mul %[[G]], %{{.*}} : (tensor<4x64xf32>, tensor<4x64xbf16>) -> tensor<4x64xbf16>
// CHECK-NEXT:    return
func.func @gated_mul(%g: tensor<4x64xbf16>, %u: tensor<4x64xbf16>)
    -> tensor<4x64xbf16> {
  %a = fuse.activation silu %g : tensor<4x64xbf16> -> tensor<4x64xf32>
  %f = arith.extf %u : tensor<4x64xbf16> to tensor<4x64xf32>
  %p = arith.mulf %a, %f : tensor<4x64xf32>
  %y = arith.truncf %p : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// A product with a norm is not a gated product.

// CHECK-LABEL: func @norm_times(
// CHECK:         arith.mulf
// REMARK-NOT: remark:
func.func @norm_times(%x: tensor<4x64xbf16>, %c: tensor<4x64xbf16>)
    -> tensor<4x64xbf16> {
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<4x64xbf16>) -> tensor<4x64xbf16>
  %y = arith.mulf %n, %c : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// CHECK-LABEL: func @gate_broadcast(
// CHECK-NOT:     fuse.gated_mul
func.func @gate_broadcast(%g: tensor<4x64xbf16>, %u: tensor<4xbf16>)
    -> tensor<4x64xbf16> {
  %e = tensor.empty() : tensor<4x64xbf16>
  %a = fuse.activation silu %g : tensor<4x64xbf16> -> tensor<4x64xbf16>
  %ub = linalg.broadcast ins(%u : tensor<4xbf16>)
      outs(%e : tensor<4x64xbf16>) dimensions = [1]
  // expected-remark-re @below {{[Missed] gated_mul{{.*}}FUSE-N130 broadcast}}
  %y = arith.mulf %a, %ub : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}

// -----

// Tokens are flattened around the linear. The reshapes are removed, and the add
// is next to the linear.

// CHECK-LABEL: func @reshape_between(
// CHECK-SAME:    %[[X:.*]]: tensor<?x?x64xbf16>, %[[W:.*]]: tensor<64x64xbf16>
// CHECK-NOT:     shape
// CHECK:         %[[L:.*]] = fuse.linear %[[X]], %[[W]] : (tensor<?x?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x?x64xbf16>
// CHECK-NEXT:    fuse.residual_add %[[X]], %[[L]] : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>) -> tensor<?x?x64xbf16>
func.func @reshape_between(%x: tensor<?x?x64xbf16>, %w: tensor<64x64xbf16>)
    -> tensor<?x?x64xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d0 = tensor.dim %x, %c0 : tensor<?x?x64xbf16>
  %d1 = tensor.dim %x, %c1 : tensor<?x?x64xbf16>
  %flat = tensor.collapse_shape %x [[0, 1], [2]]
    : tensor<?x?x64xbf16> into tensor<?x64xbf16>
  %l = fuse.linear %flat, %w
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %back = tensor.expand_shape %l [[0, 1], [2]] output_shape [%d0, %d1, 64]
    : tensor<?x64xbf16> into tensor<?x?x64xbf16>
  %y = arith.addf %x, %back : tensor<?x?x64xbf16>
  return %y : tensor<?x?x64xbf16>
}

// -----

// A gated chain between reshapes, with static tokens.

// CHECK-LABEL: func @reshape_around_chain(
// CHECK-NOT:     shape
// CHECK:         fuse.linear %{{.*}} -> tensor<2x3x32xbf16>
// CHECK:         fuse.activation silu %{{.*}} : tensor<2x3x32xbf16>
// CHECK:         fuse.linear %{{.*}} -> tensor<2x3x32xbf16>
// CHECK:         fuse.gated_mul %{{.*}} -> tensor<2x3x32xbf16>
// CHECK-NOT:     shape
// CHECK:         return
func.func @reshape_around_chain(%x: tensor<2x3x64xbf16>,
                                %g: tensor<32x64xbf16>,
                                %u: tensor<32x64xbf16>)
    -> tensor<2x3x32xbf16> {
  %flat = tensor.collapse_shape %x [[0, 1], [2]]
    : tensor<2x3x64xbf16> into tensor<6x64xbf16>
  %l = fuse.linear %flat, %g
    : (tensor<6x64xbf16>, tensor<32x64xbf16>) -> tensor<6x32xbf16>
  %v = fuse.linear %flat, %u
    : (tensor<6x64xbf16>, tensor<32x64xbf16>) -> tensor<6x32xbf16>
  %a = fuse.activation silu %l : tensor<6x32xbf16> -> tensor<6x32xbf16>
  %p = arith.mulf %a, %v : tensor<6x32xbf16>
  %y = tensor.expand_shape %p [[0, 1], [2]] output_shape [2, 3, 32]
    : tensor<6x32xbf16> into tensor<2x3x32xbf16>
  return %y : tensor<2x3x32xbf16>
}

// -----

// The reshape restores sizes that may differ from those of the input.

// CHECK-LABEL: func @reshape_elsewhere(
// CHECK:         tensor.collapse_shape
// CHECK:         tensor.expand_shape
func.func @reshape_elsewhere(%x: tensor<?x?x64xbf16>, %w: tensor<64x64xbf16>,
                             %d0: index, %d1: index) -> tensor<?x?x64xbf16> {
  %flat = tensor.collapse_shape %x [[0, 1], [2]]
    : tensor<?x?x64xbf16> into tensor<?x64xbf16>
  %l = fuse.linear %flat, %w
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %y = tensor.expand_shape %l [[0, 1], [2]] output_shape [%d0, %d1, 64]
    : tensor<?x64xbf16> into tensor<?x?x64xbf16>
  return %y : tensor<?x?x64xbf16>
}

// -----

// Ops in nested regions are raised in place.

// CHECK-LABEL: func @region(
// CHECK:         scf.if
// CHECK:         fuse.activation relu
func.func @region(%x: tensor<4x64xf32>, %p: i1) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x64xf32>
  %y = scf.if %p -> tensor<4x64xf32> {
    %r = arith.maximumf %zero, %x : tensor<4x64xf32>
    scf.yield %r : tensor<4x64xf32>
  } else {
    scf.yield %x : tensor<4x64xf32>
  }
  return %y : tensor<4x64xf32>
}

// -----

// A row without its unit dimension is not broadcast.

// CHECK-LABEL: func @one_token(
// CHECK:         %[[R:.*]] = tensor.expand_shape %arg1
// CHECK:         %[[Y:.*]] = fuse.linear %arg0, %arg2
// CHECK-NEXT:    fuse.residual_add %[[R]], %[[Y]]
// CHECK-NEXT:    return
func.func @one_token(%x: tensor<1x4xbf16>, %row: tensor<4xbf16>,
                     %w: tensor<4x4xbf16>) -> tensor<1x4xbf16> {
  %r = tensor.expand_shape %row [[0, 1]] output_shape [1, 4]
      : tensor<4xbf16> into tensor<1x4xbf16>
  %y = fuse.linear %x, %w
    : (tensor<1x4xbf16>, tensor<4x4xbf16>) -> tensor<1x4xbf16>
  %s = arith.addf %r, %y : tensor<1x4xbf16>
  return %s : tensor<1x4xbf16>
}
