// RUN: fuse-opt %s --fuse-emit-ptx=plan=- -o /dev/null | FileCheck %s

// A launch says how much shared memory it wants; one that wants none says
// nothing.

// CHECK:      "launches": [
// CHECK:        "kernel": "k",
// CHECK-NEXT:   "shared_bytes": 1024
// CHECK-NOT:    "shared_bytes"
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [
    {args = ["arg0"], block = array<i64: 256, 1, 1>,
     grid = affine_map<() -> (4, 1, 1)>, kernel = @kernels::@k,
     shared = 1024 : i64},
    {args = ["arg0"], block = array<i64: 256, 1, 1>,
     grid = affine_map<() -> (4, 1, 1)>, kernel = @kernels::@k}],
  symbols = [], workspace = []}}
gpu.module @kernels [#nvvm.target<chip = "sm_90">] {
  llvm.func @k() attributes {nvvm.kernel} {
    llvm.return
  }
}
