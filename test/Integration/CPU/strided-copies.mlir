// Slices and concatenations leave copies into and out of parts of buffers.
// RUN: fuse-run %s --entry=columns --print --seed=1 | FileCheck %s
// RUN: fuse-run %s --entry=halves --verify --dim=0,1,5 \
// RUN:   | FileCheck %s --check-prefix=VERIFY

// The columns of each row in two parts, the second first.
// CHECK:      [3, 4, 5, 0, 1, 2]
// CHECK-NEXT: [9, 10, 11, 6, 7, 8]
func.func @columns() -> tensor<2x6xf32> {
  %x = arith.constant dense<[[0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
                             [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]]>
    : tensor<2x6xf32>
  %0 = tensor.extract_slice %x[0, 0] [2, 3] [1, 1]
    : tensor<2x6xf32> to tensor<2x3xf32>
  %1 = tensor.extract_slice %x[0, 3] [2, 3] [1, 1]
    : tensor<2x6xf32> to tensor<2x3xf32>
  %2 = tensor.concat dim(1) %1, %0
    : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  return %2 : tensor<2x6xf32>
}

// VERIFY:      V0 {{.*}} identical
// VERIFY-NEXT: V1 {{.*}} bit-equal
// VERIFY-NEXT: optimized against reference ok
func.func @halves(%x: tensor<?x64xf32>, %weight: tensor<64xf32>,
    %w: tensor<32x64xf32>) -> (tensor<?x16xf32>, tensor<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %tokens = tensor.dim %x, %c0 : tensor<?x64xf32>
  %0 = fuse.rms_norm %x weight(%weight) eps 1.0e-06
    : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  %1 = fuse.linear %0, %w
    : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  %2 = tensor.extract_slice %1[0, 16] [%tokens, 16] [1, 1]
    : tensor<?x32xf32> to tensor<?x16xf32>
  %3 = tensor.insert_slice %1 into %x[0, 32] [%tokens, 32] [1, 1]
    : tensor<?x32xf32> into tensor<?x64xf32>
  return %2, %3 : tensor<?x16xf32>, tensor<?x64xf32>
}
