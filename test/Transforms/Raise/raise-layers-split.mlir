// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s
// RUN: fuse-opt %s --fuse-raise-layers=split-merged=false \
// RUN:   | FileCheck %s --check-prefix=MERGED

// MERGED-LABEL: func @halves(
// MERGED:         fuse.linear {{.*}} -> tensor<?x32xbf16>
// MERGED-COUNT-2: tensor.extract_slice {{.*}} to tensor<?x16xbf16>

// One linear computes gate and up, as in Phi-3. Each half reads its rows of the
// weight and the bias.

// CHECK-LABEL: func @halves(
// CHECK-SAME:    %[[X:.*]]: tensor<?x8xbf16>, %[[W:.*]]: tensor<32x8xbf16>, %[[B:.*]]: tensor<32xbf16>, %[[D:.*]]: tensor<8x16xbf16>
// CHECK-DAG:     %[[WG:.*]] = tensor.extract_slice %[[W]][0, 0] [16, 8] [1, 1]
// CHECK-DAG:     %[[BG:.*]] = tensor.extract_slice %[[B]][0] [16] [1]
// CHECK-DAG:     %[[WU:.*]] = tensor.extract_slice %[[W]][16, 0] [16, 8] [1, 1]
// CHECK-DAG:     %[[BU:.*]] = tensor.extract_slice %[[B]][16] [16] [1]
// CHECK-DAG:     %[[G:.*]] = fuse.linear %[[X]], %[[WG]] bias(%[[BG]]) {{.*}} -> tensor<?x16xbf16>
// CHECK-DAG:     %[[U:.*]] = fuse.linear %[[X]], %[[WU]] bias(%[[BU]]) {{.*}} -> tensor<?x16xbf16>
// CHECK:         %[[A:.*]] = fuse.activation silu %[[G]]
// CHECK-NEXT:    %[[P:.*]] = fuse.gated_mul %[[A]], %[[U]]
// CHECK-NEXT:    %[[Y:.*]] = fuse.linear %[[P]], %[[D]]
// CHECK-NEXT:    return %[[Y]]
func.func @halves(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>,
                  %b: tensor<32xbf16>, %d: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  %0 = fuse.linear %x, %w bias(%b)
    : (tensor<?x8xbf16>, tensor<32x8xbf16>, tensor<32xbf16>)
      -> tensor<?x32xbf16>
  %n = tensor.dim %0, %c0 : tensor<?x32xbf16>
  %g = tensor.extract_slice %0[0, 0] [%n, 16] [1, 1]
    : tensor<?x32xbf16> to tensor<?x16xbf16>
  %u = tensor.extract_slice %0[0, 16] [%n, 16] [1, 1]
    : tensor<?x32xbf16> to tensor<?x16xbf16>
  %1 = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %2 = arith.mulf %1, %u : tensor<?x16xbf16>
  %y = fuse.linear %2, %d
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// Gate and up alternate, and each output channel has a scale.

// CHECK-LABEL: func @interleaved(
// CHECK-DAG:     %[[WG:.*]] = tensor.extract_slice %arg1[0, 0] [16, 8] [2, 1]
// CHECK-DAG:     %[[SG:.*]] = tensor.extract_slice %arg2[0] [16] [2]
// CHECK-DAG:     %[[WU:.*]] = tensor.extract_slice %arg1[1, 0] [16, 8] [2, 1]
// CHECK-DAG:     %[[SU:.*]] = tensor.extract_slice %arg2[1] [16] [2]
// CHECK-DAG:     fuse.linear %arg0, %[[WG]] channel_scale(%[[SG]]) scales(0.5, per_channel)
// CHECK-DAG:     fuse.linear %arg0, %[[WU]] channel_scale(%[[SU]]) scales(0.5, per_channel)
// CHECK:         fuse.gated_mul
func.func @interleaved(%x: tensor<4x8xi8>, %w: tensor<32x8xi8>,
                       %s: tensor<32xf32>) -> tensor<4x16xf32> {
  %0 = fuse.linear %x, %w channel_scale(%s) scales(0.5, per_channel)
    : (tensor<4x8xi8>, tensor<32x8xi8>, tensor<32xf32>) -> tensor<4x32xf32>
  %g = tensor.extract_slice %0[0, 0] [4, 16] [1, 2]
    : tensor<4x32xf32> to tensor<4x16xf32>
  %u = tensor.extract_slice %0[0, 1] [4, 16] [1, 2]
    : tensor<4x32xf32> to tensor<4x16xf32>
  %1 = fuse.activation silu %g : tensor<4x16xf32> -> tensor<4x16xf32>
  %2 = fuse.gated_mul %1, %u
    : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %2 : tensor<4x16xf32>
}

// The whole result is returned, so that its parts would be computed twice.

// CHECK-LABEL: func @other_user(
// CHECK:         fuse.linear %{{.*}} -> tensor<4x32xf32>
// CHECK-NOT:     fuse.linear
func.func @other_user(%x: tensor<4x8xf32>, %w: tensor<32x8xf32>)
    -> (tensor<4x32xf32>, tensor<4x16xf32>) {
  %0 = fuse.linear %x, %w
    : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
  %g = tensor.extract_slice %0[0, 0] [4, 16] [1, 1]
    : tensor<4x32xf32> to tensor<4x16xf32>
  %u = tensor.extract_slice %0[0, 16] [4, 16] [1, 1]
    : tensor<4x32xf32> to tensor<4x16xf32>
  %1 = fuse.activation silu %g : tensor<4x16xf32> -> tensor<4x16xf32>
  %2 = fuse.gated_mul %1, %u
    : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0, %2 : tensor<4x32xf32>, tensor<4x16xf32>
}

// The number of tokens is that of the first input.

// CHECK-LABEL: func @size_of_input(
// CHECK:         fuse.linear %{{.*}} -> tensor<?x16xf32>
// CHECK:         fuse.linear %{{.*}} -> tensor<?x16xf32>
func.func @size_of_input(%x: tensor<?x8xf32>, %w: tensor<32x8xf32>)
    -> tensor<?x16xf32> {
  %c0 = arith.constant 0 : index
  %t = tensor.dim %x, %c0 : tensor<?x8xf32>
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %0 = fuse.linear %n, %w
    : (tensor<?x8xf32>, tensor<32x8xf32>) -> tensor<?x32xf32>
  %g = tensor.extract_slice %0[0, 0] [%t, 16] [1, 1]
    : tensor<?x32xf32> to tensor<?x16xf32>
  %u = tensor.extract_slice %0[0, 16] [%t, 16] [1, 1]
    : tensor<?x32xf32> to tensor<?x16xf32>
  %1 = fuse.activation silu %g : tensor<?x16xf32> -> tensor<?x16xf32>
  %2 = fuse.gated_mul %1, %u
    : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  return %2 : tensor<?x16xf32>
}

// Some tokens only.

// CHECK-LABEL: func @tokens(
// CHECK:         fuse.linear %{{.*}} -> tensor<4x32xf32>
// CHECK-NOT:     fuse.linear
func.func @tokens(%x: tensor<4x8xf32>, %w: tensor<32x8xf32>)
    -> tensor<2x16xf32> {
  %0 = fuse.linear %x, %w
    : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
  %g = tensor.extract_slice %0[0, 0] [2, 16] [1, 1]
    : tensor<4x32xf32> to tensor<2x16xf32>
  %u = tensor.extract_slice %0[0, 16] [2, 16] [1, 1]
    : tensor<4x32xf32> to tensor<2x16xf32>
  %1 = fuse.activation silu %g : tensor<2x16xf32> -> tensor<2x16xf32>
  %2 = fuse.gated_mul %1, %u
    : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  return %2 : tensor<2x16xf32>
}

// Slices for attention stay: one product computes all of them.

// CHECK-LABEL: func @attention(
// CHECK:         fuse.linear %{{.*}} -> tensor<4x24xf32>
// CHECK-NOT:     fuse.linear
func.func @attention(%x: tensor<4x8xf32>, %w: tensor<24x8xf32>)
    -> (tensor<4x8xf32>, tensor<4x16xf32>) {
  %0 = fuse.linear %x, %w
    : (tensor<4x8xf32>, tensor<24x8xf32>) -> tensor<4x24xf32>
  %q = tensor.extract_slice %0[0, 0] [4, 8] [1, 1]
    : tensor<4x24xf32> to tensor<4x8xf32>
  %kv = tensor.extract_slice %0[0, 8] [4, 16] [1, 1]
    : tensor<4x24xf32> to tensor<4x16xf32>
  return %q, %kv : tensor<4x8xf32>, tensor<4x16xf32>
}
