// RUN: fuse-reduce %s --opt-reduction-pass="opt-pass=symbol-dce test=%S/still-fails.sh" | FileCheck %s
// RUN: fuse-reduce %s --opt-reduction-pass="opt-pass=convert-fuse-to-linalg test=%S/still-fails.sh" | FileCheck %s --check-prefix=KEPT

// A pass is applied where its result is smaller and still interesting, which
// here is a gelu: an unused function goes, the gelu stays.

// CHECK: fuse.activation gelu
// CHECK-NOT: func private @unused
// KEPT: fuse.activation gelu
// KEPT: func private @unused
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = fuse.activation gelu %x : tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

func.func private @unused(%x: tensor<4x8xf32>) {
  return
}
