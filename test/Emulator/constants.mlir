// RUN: not fuse-run %s --verify --chip=sm_80 --portable --orders=2 | FileCheck %s
// RUN: fuse-compile %s --cpu=none --chip=sm_80 --assemble=never -o %t.fuse
// RUN: fuse-artifact info %t.fuse | FileCheck %s --check-prefix=INFO

// Constant tensors are in the artifact, and the runtime uploads them. The runs
// fail at V0, because nothing is fused.

// INFO: format 6
// INFO: constants

// Constants of one value are filled or folded into the kernels.

// CHECK-LABEL: @splats
// CHECK:         V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT:    and against reference ok
// INFO-LABEL:  @splats
// INFO-NOT:    constant
func.func @splats(%x: tensor<4x8xf32>, %y: tensor<8x16xf32>)
    -> tensor<4x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x16xf32>
  %two = arith.constant dense<2.0> : tensor<4x8xf32>
  %0 = arith.mulf %x, %two : tensor<4x8xf32>
  %1 = linalg.matmul ins(%0, %y : tensor<4x8xf32>, tensor<8x16xf32>)
    outs(%zero : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %1 : tensor<4x16xf32>
}

// CHECK-LABEL: @table
// CHECK:         V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT:    and against reference ok
// INFO-LABEL:  @table
// INFO:          constant 32 bytes
func.func @table(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %t = arith.constant dense<[1.0, 0.1, 0.01, 0.001, 1.0, 0.1, 0.01, 0.001]>
    : tensor<8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %b = linalg.broadcast ins(%t : tensor<8xf32>) outs(%e : tensor<4x8xf32>)
    dimensions = [0]
  %r = arith.mulf %x, %b : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// Constants initialize results, are results, and have any element type.

// CHECK-LABEL: @several
// CHECK:         V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT:    and against reference ok
// INFO-LABEL:  @several
// INFO:          constant 16 bytes
// INFO:          constant 8 bytes
func.func @several(%x: tensor<2x4xf32>, %y: tensor<4x2xf32>)
    -> (tensor<2x2xf32>, tensor<4xbf16>, tensor<2x2xf32>) {
  %init = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %sizes = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xbf16>
  %mask = arith.constant dense<[[true, false], [false, true]]>
    : tensor<2x2xi1>
  %zero = arith.constant dense<0.0> : tensor<2x2xf32>
  %0 = linalg.matmul ins(%x, %y : tensor<2x4xf32>, tensor<4x2xf32>)
    outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = arith.select %mask, %0, %zero : tensor<2x2xi1>, tensor<2x2xf32>
  return %0, %sizes, %1 : tensor<2x2xf32>, tensor<4xbf16>, tensor<2x2xf32>
}
