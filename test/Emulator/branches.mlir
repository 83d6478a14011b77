// RUN: not fuse-run %s --verify --chip=sm_80 --portable --dim=3,8,20,40 \
// RUN:   | FileCheck %s
// RUN: fuse-compile %s --chip=sm_80 --cpu=none --assemble=never -o %t.fuse
// RUN: fuse-artifact info %t.fuse | FileCheck %s --check-prefix=INFO

// Nested branches on sizes on a GPU: each launch has a condition, and the host
// evaluates it for each call. The runs fail at V0, because nothing is fused.

// INFO:     format 8
// INFO:     launch {{.*}} when [
// CHECK:    V2 portable on fuse emulator {{ok|unchecked}}
// CHECK-NEXT: and against reference ok
func.func @ranges(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>)
    -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c30 = arith.constant 30 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %m = tensor.dim %y, %c0 : tensor<?x8xf32>
  %same = arith.cmpi eq, %n, %m : index
  %some = arith.cmpi sge, %n, %c8 : index
  %both = arith.andi %same, %some : i1
  %r = scf.if %both -> tensor<?x8xf32> {
    %many = arith.cmpi ugt, %n, %c30 : index
    %even = arith.remui %n, %c2 : index
    %isEven = arith.cmpi eq, %even, %c0 : index
    %either = arith.ori %many, %isEven : i1
    %s = scf.if %either -> tensor<?x8xf32> {
      %0 = arith.addf %x, %x : tensor<?x8xf32>
      scf.yield %0 : tensor<?x8xf32>
    } else {
      %0 = math.exp %x : tensor<?x8xf32>
      scf.yield %0 : tensor<?x8xf32>
    }
    %1 = arith.mulf %s, %x : tensor<?x8xf32>
    scf.yield %1 : tensor<?x8xf32>
  } else {
    scf.yield %x : tensor<?x8xf32>
  }
  %2 = arith.subf %r, %x : tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}
