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

// A call of a slot stays a call, also when its function is inlined. An unbound
// call is selected by the name of its function, which is not inlined.

// CHECK-LABEL: func.func @of_a_slot
// CHECK:         %[[Y:.*]] = nn.call_slot @s(%{{.*}}) bound @eager
// CHECK:         call @unbound(%[[Y]])
nn.slot @s op "rms_norm" variant "plain" params {eps = 0.5 : f32}
    : (tensor<4xf32>) -> tensor<4xf32> {
  func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fuse.rms_norm %x eps 0.5 : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

func.func private @bound(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.call_slot @s(%x) bound @eager : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func private @unbound(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.call_slot @s(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func @of_a_slot(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @bound(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @unbound(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Modules are not inlined, because later passes select them by their calls.

// CHECK-LABEL: nn.model @m
// CHECK:         nn.call_module @norm
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fuse.rms_norm %x eps 0.5 : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_module @norm(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
