// A function that calls itself would take all memory.

// RUN: not fuse-run %s --print 2>&1 | FileCheck %s
// RUN: not fuse-compile %s -o %t.fuse 2>&1 | FileCheck %s
// RUN: not fuse-compile %s --cpu=none --chip=sm_80 -o %t.fuse 2>&1 \
// RUN:   | FileCheck %s
// CHECK: 'func.call' op of 'f' is recursive, expected calls that end
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
