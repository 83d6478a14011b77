// RUN: fuse-opt %s --fuse-kernel-formation-pipeline | FileCheck %s

// A layer norm of a sum in f32: the sum is a residual add, and not a part of
// the norm's input that the norm is written with.

// The norm after the sum, as in every post-norm block.

// CHECK-LABEL: func @post_norm(
// CHECK-NEXT:    %[[Y:.*]] = fuse.norm_linear %arg0 residual(%arg1) norm(layer %arg2, %arg3 eps 1.0e-05) linear(%arg4)
// CHECK-NEXT:    return %[[Y]]
func.func @post_norm(%x: tensor<2x4xf32>, %r: tensor<2x4xf32>,
                     %w: tensor<4xf32>, %b: tensor<4xf32>,
                     %m: tensor<8x4xf32>) -> tensor<2x8xf32> {
  %h = arith.addf %x, %r : tensor<2x4xf32>
  %n = call @layer_norm(%h, %w, %b)
    : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %y = fuse.linear %n, %m
    : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// The sum in front of the norm is also added to the result (GPT-2).

// CHECK-LABEL: func @pre_norm(
// CHECK-NEXT:    %[[Y:.*]] = fuse.mlp %arg0 residual(%arg1) norm(layer %arg2, %arg3 eps 1.0e-05)
// CHECK-SAME:      up(%arg4) down(%arg5) act(relu) add_stream
// CHECK-NEXT:    return %[[Y]]
func.func @pre_norm(%x: tensor<2x4xf32>, %a: tensor<2x4xf32>,
                    %w: tensor<4xf32>, %b: tensor<4xf32>,
                    %up: tensor<8x4xf32>, %down: tensor<4x8xf32>)
    -> tensor<2x4xf32> {
  %h = arith.addf %x, %a : tensor<2x4xf32>
  %n = call @layer_norm(%h, %w, %b)
    : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %u = fuse.linear %n, %up
    : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
  %zero = arith.constant dense<0.0> : tensor<2x8xf32>
  %act = arith.maximumf %u, %zero : tensor<2x8xf32>
  %d = fuse.linear %act, %down
    : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  %y = arith.addf %h, %d : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// The norm of a negated value.

// CHECK-LABEL: func @negated(
// CHECK-NEXT:    %[[H:.*]] = arith.negf %arg0
// CHECK-NEXT:    %[[Y:.*]] = fuse.norm_linear %[[H]] norm(layer %arg1, %arg2 eps 1.0e-05) linear(%arg3)
// CHECK-NEXT:    return %[[Y]]
func.func @negated(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>,
                   %m: tensor<8x4xf32>) -> tensor<2x8xf32> {
  %h = arith.negf %x : tensor<2x4xf32>
  %n = call @layer_norm(%h, %w, %b)
    : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %y = fuse.linear %n, %m
    : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// The sum of three tensors: two residual adds.

// CHECK-LABEL: func @sum_of_three(
// CHECK-NEXT:    %[[H:.*]] = fuse.residual_add %arg0, %arg0
// CHECK-NEXT:    %[[Y:.*]] = fuse.norm_linear %[[H]] residual(%arg0) norm(layer
// CHECK-NEXT:    return %[[Y]]
func.func @sum_of_three(%x: tensor<2x4xf32>, %w: tensor<4xf32>,
                        %b: tensor<4xf32>, %m: tensor<8x4xf32>)
    -> tensor<2x8xf32> {
  %h0 = arith.addf %x, %x : tensor<2x4xf32>
  %h = arith.addf %h0, %x : tensor<2x4xf32>
  %n = call @layer_norm(%h, %w, %b)
    : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %y = fuse.linear %n, %m
    : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

func.func private @layer_norm(%h: tensor<2x4xf32>, %w: tensor<4xf32>,
                              %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<4.0> : tensor<2xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %s = linalg.reduce { arith.addf } ins(%h : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %mean = arith.divf %s, %n : tensor<2xf32>
  %mb = linalg.broadcast ins(%mean : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %c = arith.subf %h, %mb : tensor<2x4xf32>
  %sq = arith.mulf %c, %c : tensor<2x4xf32>
  %s2 = linalg.reduce { arith.addf } ins(%sq : tensor<2x4xf32>)
      outs(%zero : tensor<2xf32>) dimensions = [1]
  %var = arith.divf %s2, %n : tensor<2xf32>
  %v = arith.addf %var, %eps : tensor<2xf32>
  %r = math.rsqrt %v : tensor<2xf32>
  %rb = linalg.broadcast ins(%r : tensor<2xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [1]
  %y = arith.mulf %c, %rb : tensor<2x4xf32>
  %wb = linalg.broadcast ins(%w : tensor<4xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [0]
  %yw = arith.mulf %y, %wb : tensor<2x4xf32>
  %bb = linalg.broadcast ins(%b : tensor<4xf32>)
      outs(%init : tensor<2x4xf32>) dimensions = [0]
  %yb = arith.addf %yw, %bb : tensor<2x4xf32>
  return %yb : tensor<2x4xf32>
}
