// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s

// Both halves of an expert's first weight are read in one pass over a token's
// features. The expert's number is brought into bounds; what one elsewhere
// would add is 0.

// CHECK-LABEL: func @experts
// CHECK-SAME:    %[[X:.*]]: tensor<?x16xbf16>, %[[I:.*]]: tensor<?x2xi64>, %[[R:.*]]: tensor<?x2xbf16>, %[[U:.*]]: tensor<4x24x16xbf16>, %[[D:.*]]: tensor<4x16x12xbf16>
// CHECK:       %[[GATEUP:.*]]:2 = linalg.generic
// CHECK-SAME:    ["parallel", "parallel", "parallel", "reduction"]
// CHECK-SAME:    ins(%[[X]], %[[I]] :
// CHECK:         %[[E:.*]] = arith.index_cast
// CHECK:         %[[COUNT:.*]] = arith.constant 4
// CHECK:         %[[HERE:.*]] = arith.cmpi ult, %[[E]], %[[COUNT]]
// CHECK:         %[[EXPERT:.*]] = arith.select %[[HERE]], %[[E]]
// CHECK:         %[[ROW:.*]] = linalg.index 2
// CHECK:         %[[COLUMN:.*]] = linalg.index 3
// CHECK:         %[[HIDDEN:.*]] = arith.constant 12
// CHECK:         %[[UPROW:.*]] = arith.addi %[[ROW]], %[[HIDDEN]]
// CHECK:         tensor.extract %[[U]][%[[EXPERT]], %[[ROW]], %[[COLUMN]]]
// CHECK:         math.fma
// CHECK:         tensor.extract %[[U]][%[[EXPERT]], %[[UPROW]], %[[COLUMN]]]
// CHECK:         math.fma
// CHECK:       %[[P:.*]] = linalg.generic {{.*}} ins(%[[GATEUP]]#0, %[[GATEUP]]#1 :
// CHECK:         math.exp
// CHECK:         arith.mulf
// CHECK:       %[[OUT:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[I]] :
// CHECK:         tensor.extract %[[D]]
// CHECK:         math.fma
// CHECK:       linalg.generic
// CHECK-SAME:    ["parallel", "reduction", "parallel"]
// CHECK-SAME:    ins(%[[OUT]], %[[R]], %[[I]] :
// CHECK:         %[[HERE:.*]] = arith.cmpi ult
// CHECK:         arith.mulf
// CHECK:         %[[TERM:.*]] = arith.select %[[HERE]]
// CHECK:         arith.addf %[[TERM]]
// CHECK:       linalg.generic
// CHECK:         arith.truncf {{.*}} : f32 to bf16
func.func @experts(%x: tensor<?x16xbf16>, %i: tensor<?x2xi64>,
                   %r: tensor<?x2xbf16>, %u: tensor<4x24x16xbf16>,
                   %d: tensor<4x16x12xbf16>) -> tensor<?x16xbf16> {
  %y = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
     : (tensor<?x16xbf16>, tensor<?x2xi64>, tensor<?x2xbf16>,
        tensor<4x24x16xbf16>, tensor<4x16x12xbf16>) -> tensor<?x16xbf16>
  return %y : tensor<?x16xbf16>
}

// The number of tokens that one operand knows holds for all.

// CHECK-LABEL: func @tokens
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<3x16xf32>, tensor<3x2xi64>)
func.func @tokens(%x: tensor<?x16xf32>, %i: tensor<3x2xi64>,
                  %r: tensor<?x2xf32>, %u: tensor<4x24x16xf32>,
                  %d: tensor<4x16x12xf32>) -> tensor<?x16xf32> {
  %y = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(relu)
     : (tensor<?x16xf32>, tensor<3x2xi64>, tensor<?x2xf32>,
        tensor<4x24x16xf32>, tensor<4x16x12xf32>) -> tensor<?x16xf32>
  return %y : tensor<?x16xf32>
}
