// A scalar is a tensor without dimensions, in arrays too; an index one of i64.

// RUN: %python -c "import numpy, sys; numpy.save(sys.argv[1] + '.x.npy', numpy.array([1, 2, 3], 'f')); numpy.save(sys.argv[1] + '.s.npy', numpy.array(0.5, 'f')); numpy.save(sys.argv[1] + '.i.npy', numpy.array(2))" %t
// RUN: fuse-run %s --entry=f --input=%t.x.npy --input=%t.s.npy \
// RUN:   --input=%t.i.npy --print --output=%t.y.npy --output=%t.z.npy \
// RUN:   --output=%t.j.npy | FileCheck %s
// RUN: %python -c "import numpy, sys; print([numpy.load(sys.argv[1] + n) for n in ('.z.npy', '.j.npy')])" %t \
// RUN:   | FileCheck %s --check-prefix=NPY

// CHECK: 3xf32
// CHECK-NEXT: [0.5, 1, 1.5]
// CHECK-NEXT: f32
// CHECK-NEXT: [3]
// CHECK-NEXT: i64
// CHECK-NEXT: [4]
// NPY: array(3., dtype=float32), array(4)
func.func @f(%x: tensor<3xf32>, %s: f32, %i: index)
    -> (tensor<3xf32>, f32, index) {
  %t = tensor.splat %s : tensor<3xf32>
  %y = arith.mulf %x, %t : tensor<3xf32>
  %z = tensor.extract %x[%i] : tensor<3xf32>
  %j = arith.addi %i, %i : index
  return %y, %z, %j : tensor<3xf32>, f32, index
}

// What is fused beside scalars is verified with them, and their values are
// random where no array has them.
// RUN: fuse-run %s --entry=g --verify | FileCheck %s --check-prefix=VERIFY
// VERIFY: V0 {{.*}}ok
// VERIFY: V1 {{.*}}ok
func.func @g(%x: tensor<?x8xf32>, %u: tensor<16x8xf32>, %d: tensor<8x16xf32>,
             %s: f32) -> (tensor<?x8xf32>, f32) {
  %h = fuse.linear %x, %u
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a = fuse.activation relu %h : tensor<?x16xf32> -> tensor<?x16xf32>
  %y = fuse.linear %a, %d
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %n = arith.negf %s : f32
  return %y, %n : tensor<?x8xf32>, f32
}
