// RUN: fuse-opt %s --fuse-form-kernels=families=act_quantize --fuse-form-kernels \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark -verify-diagnostics \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s --fuse-form-kernels=families=act_quantize --fuse-form-kernels \
// RUN:   --fuse-unfuse -o %t.unfused
// RUN: fuse-opt %s | diff - %t.unfused

// Kernels can be formed in several runs. Site ids stay unique, and unfusing
// restores the input exactly.

// CHECK-LABEL: @side_by_side
func.func @side_by_side(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>)
    -> (tensor<?x64xf32>, tensor<?x64xi8>) {
  // CHECK: fuse.mlp {{.*}} site("side_by_side#0")
  // CHECK: fuse.act_quantize {{.*}} site("side_by_side#1")
  // expected-remark-re @below {{[Passed] side_by_side#0{{.*}}Family=mlp}}
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  // expected-remark-re @below {{[Missed] side_by_side#0{{.*}}FUSE-N014 family-not-requested}}
  %1 = fuse.activation silu %0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %2 = fuse.linear %1, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  // expected-remark-re @below {{[Passed] side_by_side#1{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] side_by_side#1{{.*}}FUSE-N001 activation-input-not-linear}}
  %3 = fuse.activation silu %x : tensor<?x64xf32> -> tensor<?x64xf32>
  %4 = fuse.quantize %3 scale 0.5 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return %2, %4 : tensor<?x64xf32>, tensor<?x64xi8>
}

// The second chain surrounds a kernel of the first run. Kernels are unfused
// from the last to the first, and these two would be out of order.
// CHECK-LABEL: @interleaved
func.func @interleaved(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>)
    -> (tensor<?x64xf32>, tensor<?x64xi8>) {
  // CHECK: fuse.linear
  // CHECK: fuse.activation
  // CHECK: fuse.act_quantize
  // CHECK: fuse.linear
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  // expected-remark-re @below {{[Missed] interleaved#0{{.*}}FUSE-N014 family-not-requested}}
  // expected-remark-re @below {{[Missed] interleaved#0 {{.*}}FUSE-N016 overlaps-kernel}}
  %1 = fuse.activation silu %0 : tensor<?x64xf32> -> tensor<?x64xf32>
  // expected-remark-re @below {{[Passed] interleaved#1{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] interleaved#1{{.*}}FUSE-N001 activation-input-not-linear}}
  %3 = fuse.activation silu %x : tensor<?x64xf32> -> tensor<?x64xf32>
  %4 = fuse.quantize %3 scale 0.5 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  %2 = fuse.linear %1, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %2, %4 : tensor<?x64xf32>, tensor<?x64xi8>
}
