// RUN: not fuse-run %s --verify --chip=sm_80 --portable --dim=tokens=3 \
// RUN:   | FileCheck %s

// A loop over layers runs on the CPU as a loop, and on the GPU as a list of
// launches.

// CHECK-LABEL: @layers
// CHECK:         V0 {{.*}} ok
// CHECK:         V1 {{.*}} ok
// CHECK:         V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT:    and against reference ok
func.func @layers(%x: tensor<?x64xf32>, %w1: tensor<128x64xf32>,
                  %w2: tensor<64x128xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%h = %x)
      -> tensor<?x64xf32> {
    %u = fuse.linear %h, %w1
      : (tensor<?x64xf32>, tensor<128x64xf32>) -> tensor<?x128xf32>
    %a = fuse.activation relu %u : tensor<?x128xf32> -> tensor<?x128xf32>
    %d = fuse.linear %a, %w2
      : (tensor<?x128xf32>, tensor<64x128xf32>) -> tensor<?x64xf32>
    scf.yield %d : tensor<?x64xf32>
  }
  return %r : tensor<?x64xf32>
}

// The layers may be slices of stacked weights. This run fails at V0, because
// one linear and an activation are no kernel.

// CHECK-LABEL: @stacked
// CHECK:         V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT:    and against reference ok
func.func @stacked(%x: tensor<?x64xf32>, %w: tensor<3x64x64xf32>)
    -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x)
      -> tensor<?x64xf32> {
    %wi = tensor.extract_slice %w[%i, 0, 0] [1, 64, 64] [1, 1, 1]
      : tensor<3x64x64xf32> to tensor<64x64xf32>
    %u = fuse.linear %h, %wi
      : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
    %a = fuse.activation relu %u : tensor<?x64xf32> -> tensor<?x64xf32>
    scf.yield %a : tensor<?x64xf32>
  }
  return %r : tensor<?x64xf32>
}

// An assert on sizes is a check before the launch.

// CHECK-LABEL: @guarded
// CHECK:         V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT:    and against reference ok
func.func @guarded(%x: tensor<?x64xf32>, %r: tensor<?x64xf32>,
                   %w1: tensor<128x64xf32>, %w2: tensor<64x128xf32>)
    -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %u = fuse.linear %x, %w1
    : (tensor<?x64xf32>, tensor<128x64xf32>) -> tensor<?x128xf32>
  %a = fuse.activation silu %u : tensor<?x128xf32> -> tensor<?x128xf32>
  %y = fuse.linear %a, %w2
    : (tensor<?x128xf32>, tensor<64x128xf32>) -> tensor<?x64xf32>
  %d0 = tensor.dim %y, %c0 : tensor<?x64xf32>
  %d1 = tensor.dim %r, %c0 : tensor<?x64xf32>
  %equal = arith.cmpi eq, %d0, %d1 : index
  cf.assert %equal, "mismatched size for broadcast"
  %s = fuse.residual_add %y, %r
    : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %s : tensor<?x64xf32>
}

// A branch on sizes: launches have conditions. `branches.mlir` has runs of both
// branches.

// CHECK-LABEL: @branch
// CHECK:         V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT:    and against reference ok
func.func @branch(%x: tensor<?x64xf32>, %w1: tensor<128x64xf32>,
                  %w2: tensor<64x128xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %few = arith.cmpi slt, %n, %c8 : index
  %r = scf.if %few -> tensor<?x64xf32> {
    %u = fuse.linear %x, %w1
      : (tensor<?x64xf32>, tensor<128x64xf32>) -> tensor<?x128xf32>
    %a = fuse.activation relu %u : tensor<?x128xf32> -> tensor<?x128xf32>
    %d = fuse.linear %a, %w2
      : (tensor<?x128xf32>, tensor<64x128xf32>) -> tensor<?x64xf32>
    scf.yield %d : tensor<?x64xf32>
  } else {
    scf.yield %x : tensor<?x64xf32>
  }
  %y = fuse.residual_add %r, %x
    : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
