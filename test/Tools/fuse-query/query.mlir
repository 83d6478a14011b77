// RUN: fuse-query %s -c 'match hasOpName("fuse.activation")' | FileCheck %s

// CHECK: 1 match.
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.activation relu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  %z = fuse.residual_add %x, %y
    : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %z : tensor<?x8xf32>
}
