// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s

// No tensor of the size of the logits is made: there are two passes over them,
// and everything else has one number per row.

// CHECK-LABEL: func @mean
// CHECK-SAME:    %[[X:.*]]: tensor<?x100xbf16>, %[[L:.*]]: tensor<?xi64>
// CHECK-NOT:   tensor<?x100xf32>
// CHECK:       %[[MAX:.*]] = linalg.generic
// CHECK-SAME:    ["parallel", "reduction"]
// CHECK-SAME:    ins(%[[X]] : tensor<?x100xbf16>)
// CHECK:         arith.maximumf
// CHECK:       %[[SUMS:.*]]:2 = linalg.generic
// CHECK-SAME:    ["parallel", "reduction"]
// CHECK-SAME:    ins(%[[X]], %[[MAX]], %[[L]] : tensor<?x100xbf16>, tensor<?xf32>, tensor<?xi64>)
// CHECK:         %[[BELOW:.*]] = arith.subf
// CHECK:         %[[COLUMN:.*]] = linalg.index 1
// CHECK:         arith.cmpi eq, %{{.*}}, %[[COLUMN]]
// CHECK:         math.exp %[[BELOW]]
// CHECK-NOT:   ["parallel", "reduction"]
// CHECK:       linalg.generic
// CHECK-SAME:    ["parallel"]
// CHECK:         %[[LOG:.*]] = math.log
// CHECK:         %[[VALUE:.*]] = arith.addf %{{.*}}, %[[LOG]]
// CHECK:         %[[LOSS:.*]] = arith.subf %[[VALUE]]
// CHECK:         %[[KNOWN:.*]] = arith.cmpi ult
// CHECK:         %[[NAN:.*]] = arith.constant 0x7FC00000
// CHECK:         arith.select %[[KNOWN]], %[[LOSS]], %[[NAN]]
// CHECK:         arith.constant -100
// CHECK:         arith.cmpi eq
// CHECK:       %[[TOTAL:.*]] = linalg.generic
// CHECK-SAME:    ["reduction"]
// CHECK:         arith.addf
// CHECK:       %[[COUNT:.*]] = linalg.generic
// CHECK-SAME:    ["reduction"]
// CHECK:         arith.cmpi ne
// CHECK:         arith.addi
// CHECK:       linalg.generic {{.*}} ins(%[[TOTAL]], %[[COUNT]] :
// CHECK:         arith.divf
func.func @mean(%x: tensor<?x100xbf16>, %l: tensor<?xi64>) -> tensor<f32> {
  %y = fuse.cross_entropy %x, %l mean
     : (tensor<?x100xbf16>, tensor<?xi64>) -> tensor<f32>
  return %y : tensor<f32>
}

// The label of the next position, and none for the last one. It is read within
// bounds there too.

// CHECK-LABEL: func @causal
// CHECK-SAME:    %[[X:.*]]: tensor<?x?x100xf32>, %[[L:.*]]: tensor<?x?xi64>
// CHECK:       %[[LENGTH:.*]] = tensor.dim %[[L]]
// CHECK:       %[[LABELS:.*]] = tensor.collapse_shape %[[L]]
// CHECK:       linalg.generic
// CHECK:         %[[ROW:.*]] = linalg.index 0
// CHECK:         %[[NEXT:.*]] = arith.addi %[[ROW]]
// CHECK:         %[[POSITION:.*]] = arith.remui %[[ROW]], %[[LENGTH]]
// CHECK:         %[[LAST:.*]] = arith.subi %[[LENGTH]]
// CHECK:         %[[ISLAST:.*]] = arith.cmpi eq, %[[POSITION]], %[[LAST]]
// CHECK:         %[[SOURCE:.*]] = arith.select %[[ISLAST]], %[[ROW]], %[[NEXT]]
// CHECK:         %[[LABEL:.*]] = tensor.extract %[[LABELS]][%[[SOURCE]]]
// CHECK:         %[[IGNORED:.*]] = arith.constant -1
// CHECK:         arith.select %[[ISLAST]], %[[IGNORED]], %[[LABEL]]
func.func @causal(%x: tensor<?x?x100xf32>, %l: tensor<?x?xi64>)
    -> tensor<f32> {
  %y = fuse.cross_entropy %x, %l mean causal ignore_index -1
     : (tensor<?x?x100xf32>, tensor<?x?xi64>) -> tensor<f32>
  return %y : tensor<f32>
}

// CHECK-LABEL: func @sum
// CHECK:       linalg.generic {{.*}} ["reduction"]
// CHECK-NOT:   linalg.generic
// CHECK:       return
func.func @sum(%x: tensor<?x100xf32>, %l: tensor<?xi32>) -> tensor<f32> {
  %y = fuse.cross_entropy %x, %l sum
     : (tensor<?x100xf32>, tensor<?xi32>) -> tensor<f32>
  return %y : tensor<f32>
}

// CHECK-LABEL: func @sum_over_items
// CHECK-SAME:    %[[N:[^:]*]]: tensor<i64>
// CHECK:       linalg.generic {{.*}} ins(%{{.*}}, %[[N]] : tensor<f32>, tensor<i64>)
// CHECK:         arith.sitofp
// CHECK:         arith.divf
func.func @sum_over_items(%x: tensor<?x100xf32>, %l: tensor<?xi64>,
                          %n: tensor<i64>) -> tensor<f32> {
  %y = fuse.cross_entropy %x, %l items(%n) sum
     : (tensor<?x100xf32>, tensor<?xi64>, tensor<i64>) -> tensor<f32>
  return %y : tensor<f32>
}
