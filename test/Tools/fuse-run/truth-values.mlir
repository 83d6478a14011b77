// Truth values are stored as i8, in scalars and in tensors.

// RUN: %python -c "import numpy, sys; numpy.save(sys.argv[1] + '.m.npy', numpy.array([1, 0, 2], 'i1')); numpy.save(sys.argv[1] + '.c.npy', numpy.array(0, 'i1'))" %t
// RUN: fuse-run %s --entry=f --input=%t.m.npy --input=%t.c.npy --print \
// RUN:   | FileCheck %s

// CHECK:      3xi8
// CHECK-NEXT: [0, 1, 0]
// CHECK-NEXT: i8
// CHECK-NEXT: [1]
func.func @f(%m: tensor<?xi1>, %c: i1) -> (tensor<?xi1>, i1) {
  %true = arith.constant true
  %c0 = arith.constant 0 : index
  %n = tensor.dim %m, %c0 : tensor<?xi1>
  %all = tensor.splat %true[%n] : tensor<?xi1>
  %not = arith.xori %m, %all : tensor<?xi1>
  %d = arith.xori %c, %true : i1
  return %not, %d : tensor<?xi1>, i1
}

// A mask selects on both paths.

// RUN: not fuse-run %s --entry=g --verify --chip=sm_80 --portable \
// RUN:   | FileCheck %s --check-prefix=GPU
// GPU: V2 portable on fuse emulator {{ok|unchecked}}
// GPU-NEXT: and against reference ok
func.func @g(%m: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf32>)
    -> tensor<4xf32> {
  %z = arith.select %m, %x, %y : tensor<4xi1>, tensor<4xf32>
  return %z : tensor<4xf32>
}
