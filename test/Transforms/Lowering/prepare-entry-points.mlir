// RUN: fuse-opt %s --fuse-prepare-entry-points | FileCheck %s

// CHECK: func.func @f(
// CHECK-SAME: %{{[^:]+}}: tensor<4xf32> {bufferization.writable = false},
// CHECK-SAME: %{{[^:]+}}: index)
// CHECK-SAME: attributes {llvm.emit_c_interface}
func.func @f(%x: tensor<4xf32> {fuse.parameter = "w"}, %i: index) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// CHECK: func.func private @no_private(%{{[^:]+}}: tensor<4xf32>) -> tensor<4xf32> {
func.func private @no_private(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// CHECK: func.func private @no_declaration(tensor<4xf32>){{$}}
func.func private @no_declaration(tensor<4xf32>)
