// RUN: fuse-fuzz %s --passes=cse 2>&1 | FileCheck %s

// The body of a fused call is inlined, so it is no program of its own.

// CHECK-NOT: Stack dump
// CHECK:     1 programs not run, {{.+}} no failure
nn.model @m class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = nn.fused_call group [@a](%x) site("a#0") body(@body)
      : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
func.func @body(%x: tensor<8xf32>, %w: tensor<8xf32> {fuse.parameter = "a.w"})
    -> tensor<8xf32> {
  return %w : tensor<8xf32>
}
