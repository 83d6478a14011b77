// RUN: fuse-opt %s --fuse-kernel-formation-pipeline | FileCheck %s
// RUN: fuse-opt %s --fuse-kernel-formation-pipeline --fuse-unfuse \
// RUN:   | FileCheck %s --check-prefix=UNFUSE

// Front ends put activations and norms in private functions. They are inlined
// before layers are raised, and public functions stay.

// CHECK-NOT:     func private
// CHECK-LABEL: func @silu_of(
// CHECK-NEXT:    fuse.activation silu
// CHECK-LABEL: func @block(
// CHECK-NEXT:    %[[Y:.*]] = fuse.mlp %arg0 norm(rms %arg1 eps 1.0e-05) up(%arg2) down(%arg3) act(silu)
// CHECK-SAME:      then_add(%arg0)
// CHECK-NEXT:    return %[[Y]]

// UNFUSE-LABEL: func @block(
// UNFUSE-NEXT:    %[[N:.*]] = fuse.rms_norm %arg0
// UNFUSE-NEXT:    %[[U:.*]] = fuse.linear %[[N]], %arg2
// UNFUSE-NEXT:    %[[A:.*]] = fuse.activation silu %[[U]]
// UNFUSE-NEXT:    %[[D:.*]] = fuse.linear %[[A]], %arg3
// UNFUSE-NEXT:    %[[Y:.*]] = fuse.residual_add %arg0, %[[D]]
// UNFUSE-NEXT:    return %[[Y]]

func.func private @rms(%x: tensor<2x4xf32>, %w: tensor<4xf32>)
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
  %wb = linalg.broadcast ins(%w : tensor<4xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [0]
  %y = arith.mulf %x, %rb : tensor<2x4xf32>
  %yw = arith.mulf %y, %wb : tensor<2x4xf32>
  return %yw : tensor<2x4xf32>
}

func.func private @silu(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %one = arith.constant dense<1.0> : tensor<2x8xf32>
  %0 = arith.negf %x : tensor<2x8xf32>
  %1 = math.exp %0 : tensor<2x8xf32>
  %2 = arith.addf %1, %one : tensor<2x8xf32>
  %3 = arith.divf %x, %2 : tensor<2x8xf32>
  return %3 : tensor<2x8xf32>
}

func.func @silu_of(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %y = call @silu(%x) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

func.func @block(%x: tensor<2x4xf32>, %w: tensor<4xf32>,
                 %up: tensor<8x4xf32>, %down: tensor<4x8xf32>)
    -> tensor<2x4xf32> {
  %n = call @rms(%x, %w) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %u = fuse.linear %n, %up
    : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
  %a = call @silu(%u) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %d = fuse.linear %a, %down
    : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  %y = arith.addf %x, %d : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
