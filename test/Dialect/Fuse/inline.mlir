// RUN: fuse-opt %s --inline --split-input-file | FileCheck %s
// RUN: fuse-opt %s --inline --fuse-unfuse --split-input-file \
// RUN:   | FileCheck %s --check-prefix=UNFUSED

// Layer ops and fused ops are inlined. A kernel that is inlined twice is
// unfused twice.

// CHECK-LABEL: func.func @twice
// CHECK-NOT: call
// CHECK: %[[H:.*]] = fuse.norm_linear %{{.*}} site("h#0")
// CHECK: fuse.activation relu %[[H]]
// CHECK: %[[H2:.*]] = fuse.norm_linear %{{.*}} site("h#0")
// CHECK: fuse.activation relu %[[H2]]
// CHECK: return

// UNFUSED-LABEL: func.func @twice
// UNFUSED-COUNT-2: fuse.rms_norm
// UNFUSED-NOT: fuse.norm_linear
// UNFUSED: return
func.func private @layer(%x: tensor<?x4xf32>, %w: tensor<4x4xf32>)
    -> tensor<?x4xf32> {
  %0 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w) rounding(exact)
         site("h#0")
       : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
  %1 = fuse.activation relu %0 : tensor<?x4xf32> -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}

func.func @twice(%x: tensor<?x4xf32>, %w: tensor<4x4xf32>)
    -> tensor<?x4xf32> {
  %0 = call @layer(%x, %w)
     : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
  %1 = call @layer(%0, %w)
     : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}

// -----

// Groups are inlined, too.

// CHECK-LABEL: func.func @caller
// CHECK-NOT: call
// CHECK: fuse.group(
// CHECK: fuse.yield
func.func private @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fuse.group(%a = %x : tensor<4xf32>) -> tensor<4xf32> rounding(exact) {
    %1 = fuse.activation silu %a : tensor<4xf32> -> tensor<4xf32>
    fuse.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

func.func @caller(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @chain(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The kernel of a slot is unknown, so calls of slots are not inlined.

// CHECK-LABEL: func.func @of_a_slot
// CHECK: call @slot
fuse.slot @s op "rms_norm" variant "plain" params {eps = 0.5 : f32}
    : (tensor<4xf32>) -> tensor<4xf32> {
  func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fuse.rms_norm %x eps 0.5 : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

func.func private @slot(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fuse.call_slot @s(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func @of_a_slot(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @slot(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
