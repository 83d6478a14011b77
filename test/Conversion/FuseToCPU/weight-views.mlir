// RUN: fuse-opt %s --convert-fuse-to-cpu -split-input-file | FileCheck %s

// Parts of arguments are packed, and vectors are copied as they are read. A
// weight that is stored as [in, out] is packed from where it is.

// CHECK-LABEL: func @merged(
// CHECK-SAME:    packed = [{bytes = 2048 : i64, columns = 64 : i64, operands = [1], recipe = "panels", steps = 8 : i64, tiles = 1 : i64, views = [
// CHECK-SAME:      [#tile.box<source = 0, offset = 0, at = [0, 0], sizes = [16, 8], strides = [8, 1]>],
// CHECK-SAME:      [#tile.box<source = 0, offset = 128, at = [0, 0], sizes = [16, 8], strides = [8, 1]>]]},
// CHECK-SAME:      {bytes = 64 : i64, columns = 0 : i64, operands = [2], recipe = "identity", steps = 1 : i64, tiles = 1 : i64, views = [
// CHECK-SAME:      [#tile.box<source = 0, offset = 0, at = [0], sizes = [16], strides = [1]>]]},
// CHECK-SAME:      recipe = "identity",
// CHECK-SAME:      recipe = "panels_transposed"
func.func @merged(%x: tensor<?x8xf32>, %w: tensor<32x8xf32>, %b: tensor<32xf32>,
                  %d: tensor<16x8xf32>) -> tensor<?x8xf32> {
  %g = tensor.extract_slice %w[0, 0] [16, 8] [1, 1]
    : tensor<32x8xf32> to tensor<16x8xf32>
  %u = tensor.extract_slice %w[16, 0] [16, 8] [1, 1]
    : tensor<32x8xf32> to tensor<16x8xf32>
  %bg = tensor.extract_slice %b[0] [16] [1] : tensor<32xf32> to tensor<16xf32>
  %bu = tensor.extract_slice %b[16] [16] [1] : tensor<32xf32> to tensor<16xf32>
  %e = tensor.empty() : tensor<8x16xf32>
  %t = linalg.transpose ins(%d : tensor<16x8xf32>)
    outs(%e : tensor<8x16xf32>) permutation = [1, 0]
  %y = fuse.gated_mlp %x gate(%g bias %bg) up(%u bias %bu) down(%t) act(silu)
         rounding(exact)
    : (tensor<?x8xf32>, tensor<16x8xf32>, tensor<16xf32>, tensor<16x8xf32>,
       tensor<16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// Gate is stored as [in, out], and up as [out, in].

// CHECK-LABEL: func @one_transposed(
// CHECK-SAME:    operands = [1, 2], recipe = "panels", {{.*}} views = [
// CHECK-SAME:      [#tile.box<source = 0, offset = 0, at = [0, 0], sizes = [8, 8], strides = [1, 8]>],
// CHECK-SAME:      [#tile.box<source = 1, offset = 0, at = [0, 0], sizes = [8, 8], strides = [8, 1]>]]
func.func @one_transposed(%x: tensor<?x8xf32>, %g: tensor<8x8xf32>,
                          %u: tensor<8x8xf32>, %d: tensor<8x8xf32>)
    -> tensor<?x8xf32> {
  %e = tensor.empty() : tensor<8x8xf32>
  %t = linalg.transpose ins(%g : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>)
         permutation = [1, 0]
  %y = fuse.gated_mlp %x gate(%t) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>)
      -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
