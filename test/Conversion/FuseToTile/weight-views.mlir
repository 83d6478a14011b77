// RUN: fuse-opt %s --fuse-hopper-pipeline="tokens=8 stage=tile" | FileCheck %s

// Weights that are parts of arguments: a launch has the arguments, and its plan
// has the boxes that a host packs. Nothing computes the parts.

// One weight has gate and up. Its rows stay where they are.

// CHECK-LABEL: func @merged(
// CHECK-SAME:    %[[X:.*]]: tensor<8x64xbf16>, %[[W:.*]]: tensor<256x64xbf16>, %[[D:.*]]: tensor<64x128xbf16>
// CHECK-NOT:     extract_slice
// CHECK:         tile.launch {{.*}} ins(%[[X]], %[[W]], %[[W]], %[[D]] :
// CHECK-SAME:      #tile.packed<"gate_up_256" of [1], tiles = 1, steps = 1, bytes = 32768, views = [
// CHECK-SAME:        [#tile.box<source = 0, offset = 0, at = [0, 0], sizes = [128, 64], strides = [64, 1]>],
// CHECK-SAME:        [#tile.box<source = 0, offset = 8192, at = [0, 0], sizes = [128, 64], strides = [64, 1]>]]>
// CHECK-SAME:      #tile.packed<"rows_256" of [3], tiles = 1, steps = 2, bytes = 65536>
func.func @merged(%x: tensor<8x64xbf16>, %w: tensor<256x64xbf16>,
                  %d: tensor<64x128xbf16>) -> tensor<8x64xbf16> {
  %g = tensor.extract_slice %w[0, 0] [128, 64] [1, 1]
    : tensor<256x64xbf16> to tensor<128x64xbf16>
  %u = tensor.extract_slice %w[128, 0] [128, 64] [1, 1]
    : tensor<256x64xbf16> to tensor<128x64xbf16>
  %0 = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<8x64xbf16>, tensor<128x64xbf16>, tensor<128x64xbf16>,
       tensor<64x128xbf16>) -> tensor<8x64xbf16>
  return %0 : tensor<8x64xbf16>
}

// Gate and up alternate in a weight that is stored as [in, out], as the vector
// of their biases does.

// CHECK-LABEL: func @interleaved(
// CHECK-SAME:    %[[X:.*]]: tensor<8x64xbf16>, %[[W:.*]]: tensor<64x256xbf16>, %[[B:.*]]: tensor<256xbf16>, %[[D:.*]]: tensor<128x64xbf16>
// CHECK-NOT:     linalg.transpose
// CHECK:         tile.launch {{.*}} ins(%[[X]], %[[W]], %[[B]], %[[W]], %[[B]], %[[D]] :
// CHECK-SAME:      #tile.packed<"gate_up_256" of [1], tiles = 1, steps = 1, bytes = 32768, views = [
// CHECK-SAME:        [#tile.box<source = 0, offset = 0, at = [0, 0], sizes = [128, 64], strides = [2, 256]>],
// CHECK-SAME:        [#tile.box<source = 0, offset = 1, at = [0, 0], sizes = [128, 64], strides = [2, 256]>]]>
// CHECK-SAME:      #tile.packed<"rows_256" of [5], tiles = 1, steps = 2, bytes = 65536, views = [
// CHECK-SAME:        [#tile.box<source = 0, offset = 0, at = [0, 0], sizes = [64, 128], strides = [1, 64]>]]>
// CHECK-SAME:      #tile.packed<"identity" of [2], tiles = 1, steps = 1, bytes = 256, views = [
// CHECK-SAME:        [#tile.box<source = 0, offset = 0, at = [0], sizes = [128], strides = [2]>]]>
// CHECK-SAME:      #tile.packed<"identity" of [2], tiles = 1, steps = 1, bytes = 256, views = [
// CHECK-SAME:        [#tile.box<source = 0, offset = 1, at = [0], sizes = [128], strides = [2]>]]>
func.func @interleaved(%x: tensor<8x64xbf16>, %w: tensor<64x256xbf16>,
                       %b: tensor<256xbf16>, %d: tensor<128x64xbf16>)
    -> tensor<8x64xbf16> {
  %e0 = tensor.empty() : tensor<256x64xbf16>
  %t = linalg.transpose ins(%w : tensor<64x256xbf16>)
    outs(%e0 : tensor<256x64xbf16>) permutation = [1, 0]
  %g = tensor.extract_slice %t[0, 0] [128, 64] [2, 1]
    : tensor<256x64xbf16> to tensor<128x64xbf16>
  %u = tensor.extract_slice %t[1, 0] [128, 64] [2, 1]
    : tensor<256x64xbf16> to tensor<128x64xbf16>
  %bg = tensor.extract_slice %b[0] [128] [2]
    : tensor<256xbf16> to tensor<128xbf16>
  %bu = tensor.extract_slice %b[1] [128] [2]
    : tensor<256xbf16> to tensor<128xbf16>
  %e1 = tensor.empty() : tensor<64x128xbf16>
  %td = linalg.transpose ins(%d : tensor<128x64xbf16>)
    outs(%e1 : tensor<64x128xbf16>) permutation = [1, 0]
  %0 = fuse.gated_mlp %x gate(%g bias %bg) up(%u bias %bu) down(%td) act(silu)
         rounding(exact)
    : (tensor<8x64xbf16>, tensor<128x64xbf16>, tensor<128xbf16>,
       tensor<128x64xbf16>, tensor<128xbf16>, tensor<64x128xbf16>)
      -> tensor<8x64xbf16>
  return %0 : tensor<8x64xbf16>
}

// A weight of two arguments, one of which is a slice of stacked weights, and an
// input that is also a weight: only the weight is a view.

// CHECK-LABEL: func @concatenated(
// CHECK-SAME:    %[[X:.*]]: tensor<8x64xbf16>, %[[A:.*]]: tensor<3x64x64xbf16>, %[[B:.*]]: tensor<32x64xbf16>
// CHECK:         tile.launch {{.*}} ins(%[[X]], %[[A]], %[[B]] :
// CHECK-SAME:      #tile.packed<"rows_256" of [1, 2], tiles = 1, steps = 1, bytes = 32768, views = [
// CHECK-SAME:        [#tile.box<source = 0, offset = 8192, at = [0, 0], sizes = [64, 64], strides = [64, 1]>,
// CHECK-SAME:         #tile.box<source = 1, offset = 0, at = [64, 0], sizes = [32, 64], strides = [64, 1]>]]>
func.func @concatenated(%x: tensor<8x64xbf16>, %a: tensor<3x64x64xbf16>,
                        %b: tensor<32x64xbf16>) -> tensor<8x96xbf16> {
  %two = arith.constant 2 : index
  %last = tensor.extract_slice %a[%two, 0, 0] [1, 64, 64] [1, 1, 1]
    : tensor<3x64x64xbf16> to tensor<64x64xbf16>
  %w = tensor.concat dim(0) %last, %b
    : (tensor<64x64xbf16>, tensor<32x64xbf16>) -> tensor<96x64xbf16>
  %0 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w) rounding(exact)
    : (tensor<8x64xbf16>, tensor<96x64xbf16>) -> tensor<8x96xbf16>
  return %0 : tensor<8x96xbf16>
}

// The input is also the weight.

// CHECK-LABEL: func @input_is_weight(
// CHECK-SAME:    %[[A:.*]]: tensor<128x64xbf16>
// CHECK:         %[[X:.*]] = tensor.extract_slice %[[A]]
// CHECK:         tile.launch {{.*}} ins(%[[X]], %[[X]], %[[A]] :
// CHECK-SAME:      #tile.packed<"rows_256" of [2], tiles = 1, steps = 1, bytes = 32768, views = [
// CHECK-SAME:        [#tile.box<source = 0, offset = 4096, at = [0, 0], sizes = [64, 64], strides = [64, 1]>]]>
// CHECK-SAME:      #tile.operand<0>
func.func @input_is_weight(%a: tensor<128x64xbf16>) -> tensor<64x64xbf16> {
  %x = tensor.extract_slice %a[64, 0] [64, 64] [1, 1]
    : tensor<128x64xbf16> to tensor<64x64xbf16>
  %0 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%x) rounding(exact)
    : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  return %0 : tensor<64x64xbf16>
}
