// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s

// Both products are rounded before they are added, as a framework does.

// CHECK-LABEL: func @full
// CHECK-SAME:    %[[X:.*]]: tensor<?x3x?x8xbf16>, %[[C:.*]]: tensor<?x?x8xbf16>, %[[S:.*]]: tensor<?x?x8xbf16>
// CHECK:       linalg.generic
// CHECK-SAME:    ["parallel", "parallel", "parallel", "parallel"]
// CHECK:       ^bb0(%[[OWN:.*]]: bf16, %{{.*}}: bf16)
// CHECK-DAG:     %[[B:.*]] = linalg.index 0
// CHECK-DAG:     %[[H:.*]] = linalg.index 1
// CHECK-DAG:     %[[T:.*]] = linalg.index 2
// CHECK-DAG:     %[[D:.*]] = linalg.index 3
// CHECK:         %[[HALF:.*]] = arith.constant 4
// CHECK:         %[[FIRST:.*]] = arith.cmpi ult, %[[D]], %[[HALF]]
// CHECK:         %[[UP:.*]] = arith.addi %[[D]], %[[HALF]]
// CHECK:         %[[DOWN:.*]] = arith.subi %[[D]], %[[HALF]]
// CHECK:         %[[PARTNER:.*]] = arith.select %[[FIRST]], %[[UP]], %[[DOWN]]
// CHECK:         %[[OTHER:.*]] = tensor.extract %[[X]][%[[B]], %[[H]], %[[T]], %[[PARTNER]]]
// CHECK:         arith.negf
// CHECK:         tensor.extract %[[C]][%[[B]], %[[T]], %[[D]]]
// CHECK:         tensor.extract %[[S]][%[[B]], %[[T]], %[[D]]]
// CHECK:         arith.mulf
// CHECK-NEXT:    arith.truncf
// CHECK:         arith.mulf
// CHECK-NEXT:    arith.truncf
// CHECK:         arith.addf
// CHECK-NEXT:    arith.truncf
func.func @full(%x: tensor<?x3x?x8xbf16>, %c: tensor<?x?x8xbf16>,
                %s: tensor<?x?x8xbf16>) -> tensor<?x3x?x8xbf16> {
  %y = fuse.rotary %x cos(%c) sin(%s)
     : (tensor<?x3x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>)
       -> tensor<?x3x?x8xbf16>
  return %y : tensor<?x3x?x8xbf16>
}

// The other features are read at indices that are in bounds and stay as they
// are. Angles that all batches share are read at 0, those in f32 make products
// that are not rounded.

// CHECK-LABEL: func @partial
// CHECK-SAME:    %[[X:.*]]: tensor<2x5x3x12xbf16>, %[[C:.*]]: tensor<1x5x8xf32>, %[[S:.*]]: tensor<1x5x8xf32>
// CHECK:         %[[T:.*]] = linalg.index 1
// CHECK:         %[[D:.*]] = linalg.index 3
// CHECK:         %[[TURNED:.*]] = arith.constant 8
// CHECK:         %[[INSIDE:.*]] = arith.cmpi ult, %[[D]], %[[TURNED]]
// CHECK:         arith.select %[[INSIDE]], %{{.*}}, %[[D]]
// CHECK:         %[[ANGLE:.*]] = arith.select %[[INSIDE]], %[[D]], %{{.*}}
// CHECK:         %[[SHARED:.*]] = arith.constant 0
// CHECK:         tensor.extract %[[C]][%[[SHARED]], %[[T]], %[[ANGLE]]]
// CHECK:         arith.mulf
// CHECK-NOT:     arith.truncf
// CHECK:         %[[SUM:.*]] = arith.addf
// CHECK-NEXT:    %[[Y:.*]] = arith.select %[[INSIDE]], %[[SUM]]
// CHECK-NEXT:    arith.truncf %[[Y]]
func.func @partial(%x: tensor<2x5x3x12xbf16>, %c: tensor<1x5x8xf32>,
                   %s: tensor<1x5x8xf32>) -> tensor<2x5x3x12xbf16> {
  %y = fuse.rotary %x cos(%c) sin(%s) heads 2
     : (tensor<2x5x3x12xbf16>, tensor<1x5x8xf32>, tensor<1x5x8xf32>)
       -> tensor<2x5x3x12xbf16>
  return %y : tensor<2x5x3x12xbf16>
}

// Sizes that only the result knows are used.

// CHECK-LABEL: func @result_is_static
// CHECK:         tensor.cast %{{.*}} : tensor<?x2x4xf32> to tensor<5x2x4xf32>
// CHECK:         linalg.generic {{.*}} ins(%{{.*}} : tensor<5x2x4xf32>)
// CHECK:         -> tensor<5x2x4xf32>
func.func @result_is_static(%x: tensor<?x2x4xf32>, %c: tensor<?x4xf32>)
    -> tensor<5x2x4xf32> {
  %y = fuse.rotary %x cos(%c) sin(%c)
     : (tensor<?x2x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
       -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}
