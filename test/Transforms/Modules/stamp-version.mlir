// A module gets the version of its IR, once, and loses it again.

// RUN: fuse-opt %s --fuse-stamp-version | FileCheck %s
// RUN: fuse-opt %s --fuse-stamp-version | fuse-opt --fuse-stamp-version \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s --fuse-stamp-version | fuse-opt \
// RUN:   --fuse-stamp-version=remove | FileCheck %s --check-prefix=REMOVED

// CHECK: module attributes {fuse.version = {{[1-9][0-9]*}} : i32, m.other} {
// CHECK-NOT: fuse.version
// CHECK: module @inner {
// CHECK: fuse.activation
// REMOVED: module attributes {m.other} {
// REMOVED-NOT: fuse.version

module attributes {m.other} {
  module @inner {}
  func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
    %0 = fuse.activation silu %x : tensor<?x8xf32> -> tensor<?x8xf32>
    return %0 : tensor<?x8xf32>
  }
}
