// An assert on sizes is an error before the call, and the process goes on to
// report it.

// RUN: fuse-run %s --print --dim=tokens=4 | FileCheck %s
// RUN: not fuse-run %s --print --dim=tokens=3 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ODD
// RUN: not fuse-run %s --verify --chip=sm_80 --dim=tokens=3 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ODD

// CHECK: 4x2xf32
// ODD: the sizes of the arguments do not fit @pairs: expected an even number
func.func @pairs(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %y = arith.addf %x, %x : tensor<?x2xf32>
  %n = tensor.dim %y, %c0 : tensor<?x2xf32>
  %rest = arith.remui %n, %c2 : index
  %isEven = arith.cmpi eq, %rest, %c0 : index
  cf.assert %isEven, "expected an even number"
  return %y : tensor<?x2xf32>
}
