// RUN: fuse-opt %s --resolve-ranked-shaped-type-result-dims --canonicalize \
// RUN:   --cse | FileCheck %s

// The number of tokens of a result is that of the first operand, so a
// `tensor.dim` of an intermediate becomes one of an argument.

// CHECK-LABEL: func.func @layers
// CHECK-SAME:    %[[X:[a-z0-9]*]]: tensor<?x8xf32>
// CHECK:         %[[DIM:.*]] = tensor.dim %[[X]], %{{.*}} : tensor<?x8xf32>
// CHECK-NOT:     tensor.dim
// CHECK:         return %{{.*}}, %[[DIM]], %[[DIM]], %[[DIM]]
func.func @layers(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>)
    -> (tensor<?xf32>, index, index, index) {
  %c0 = arith.constant 0 : index
  %0 = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = fuse.layer_norm %0 eps 1.0e-6 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = fuse.linear %1, %w
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %3 = fuse.activation silu %2 : tensor<?x16xf32> -> tensor<?x16xf32>
  %4 = fuse.gated_mul %3, %2
    : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %5 = fuse.residual_add %4, %3
    : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %6 = fuse.quantize %5 scale 0.5 : (tensor<?x16xf32>) -> tensor<?x16xi8>
  %7 = fuse.dequantize %6 scale 0.25 : (tensor<?x16xi8>) -> tensor<?x16xf32>
  %8, %9 = fuse.dynamic_quantize per_token %7
    : (tensor<?x16xf32>) -> (tensor<?x16xi8>, tensor<?xf32>)
  %d0 = tensor.dim %2, %c0 : tensor<?x16xf32>
  %d1 = tensor.dim %8, %c0 : tensor<?x16xi8>
  %d2 = tensor.dim %9, %c0 : tensor<?xf32>
  return %9, %d0, %d1, %d2 : tensor<?xf32>, index, index, index
}

// Functions have tokens in several dimensions.

// CHECK-LABEL: func.func @functions
// CHECK-SAME:    %[[X:[a-z0-9]*]]: tensor<?x2x?x8xf32>
// CHECK-SAME:    %[[Y:[a-z0-9]*]]: tensor<?x8xf32>
// CHECK-DAG:     %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG:     %[[POSITIONS:.*]] = tensor.dim %[[X]], %[[C2]]
// CHECK-DAG:     %[[TOKENS:.*]] = tensor.dim %[[Y]]
// CHECK-NOT:     tensor.dim
// CHECK:         return %[[POSITIONS]], %[[TOKENS]], %[[C2]]
func.func @functions(%x: tensor<?x2x?x8xf32>, %y: tensor<?x8xf32>,
                     %cos: tensor<1x?x8xf32>, %index: tensor<?x2xi64>,
                     %factors: tensor<?x2xf32>, %gu: tensor<3x8x8xf32>,
                     %down: tensor<3x8x4xf32>) -> (index, index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %0 = fuse.rotary %x cos(%cos) sin(%cos)
    : (tensor<?x2x?x8xf32>, tensor<1x?x8xf32>, tensor<1x?x8xf32>)
      -> tensor<?x2x?x8xf32>
  %1 = fuse.moe_experts %y route(%index, %factors) gate_up(%gu) down(%down)
         act(silu)
    : (tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x2xf32>, tensor<3x8x8xf32>,
       tensor<3x8x4xf32>) -> tensor<?x8xf32>
  %d0 = tensor.dim %0, %c2 : tensor<?x2x?x8xf32>
  %d1 = tensor.dim %1, %c0 : tensor<?x8xf32>
  %d2 = tensor.dim %0, %c1 : tensor<?x2x?x8xf32>
  return %d0, %d1, %d2 : index, index, index
}

// CHECK-LABEL: func.func @fused
// CHECK-SAME:    %[[X:[a-z0-9]*]]: tensor<?x8xf32>
// CHECK:         %[[DIM:.*]] = tensor.dim %[[X]]
// CHECK-NOT:     tensor.dim
// CHECK:         return %{{.*}}#1, %[[DIM]], %[[DIM]], %[[DIM]]
func.func @fused(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>)
    -> (tensor<?x8xf32>, index, index, index) {
  %c0 = arith.constant 0 : index
  %0:2 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w) also([normed])
           rounding(exact)
       : (tensor<?x8xf32>, tensor<8x8xf32>)
         -> (tensor<?x8xf32>, tensor<?x8xf32>)
  %1 = fuse.mlp %0#0 up(%w) down(%w) act(relu) rounding(exact)
     : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %2 = fuse.act_quantize %1 act(silu) scales(i8, hidden = 0.5) rounding(exact)
     : (tensor<?x8xf32>) -> tensor<?x8xi8>
  %d0 = tensor.dim %0#0, %c0 : tensor<?x8xf32>
  %d1 = tensor.dim %0#1, %c0 : tensor<?x8xf32>
  %d2 = tensor.dim %2, %c0 : tensor<?x8xi8>
  return %0#1, %d0, %d1, %d2 : tensor<?x8xf32>, index, index, index
}

// The sizes of a group follow its members to an input. Members of other
// dialects end the search.

// CHECK-LABEL: func.func @group
// CHECK-SAME:    %{{[a-z0-9]*}}: tensor<?x8xf32>, %[[Y:[a-z0-9]*]]: tensor<?x8xf32>
// CHECK:         %[[G:.*]] = fuse.group
// CHECK:         arith.negf
// CHECK-DAG:     %[[DIM:.*]] = tensor.dim %[[Y]]
// CHECK-DAG:     %[[UNKNOWN:.*]] = tensor.dim %[[G]]
// CHECK:         return %[[DIM]], %[[UNKNOWN]]
func.func @group(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> (index, index) {
  %c0 = arith.constant 0 : index
  %0 = fuse.group(%a = %x : tensor<?x8xf32>, %b = %y : tensor<?x8xf32>)
         -> (tensor<?x8xf32>) rounding(exact) {
    %2 = fuse.activation silu %b : tensor<?x8xf32> -> tensor<?x8xf32>
    %3 = fuse.gated_mul %2, %a
      : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    fuse.yield %3 : tensor<?x8xf32>
  }
  %1 = fuse.group(%a = %x : tensor<?x8xf32>) -> (tensor<?x8xf32>)
         rounding(exact) {
    %2 = arith.negf %a : tensor<?x8xf32>
    fuse.yield %2 : tensor<?x8xf32>
  }
  %d0 = tensor.dim %0, %c0 : tensor<?x8xf32>
  %d1 = tensor.dim %1, %c0 : tensor<?x8xf32>
  return %d0, %d1 : index, index
}
