// A loop frees the buffer of the previous iteration: 2,000 buffers of 1 MiB fit
// into much less memory.

// RUN: %python -c "import numpy, sys; [numpy.save(sys.argv[1] + '.' + str(n) + '.npy', numpy.array(n)) for n in (0, 5, 2000)]; numpy.save(sys.argv[1] + '.x.npy', numpy.ones((512, 512), 'f')); numpy.save(sys.argv[1] + '.v.npy', numpy.array([1, 2], 'f'))" %t
// RUN: %python -c "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print('below 1 GiB:', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2**20)" \
// RUN:   fuse-run %s --entry=transposes --input=%t.x.npy --input=%t.2000.npy \
// RUN:   --output=%t.y.npy | FileCheck %s
// CHECK: below 1 GiB: True
func.func @transposes(%x: tensor<512x512xf32>, %n: index)
    -> tensor<512x512xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x)
      -> tensor<512x512xf32> {
    %e = tensor.empty() : tensor<512x512xf32>
    %t = linalg.transpose ins(%h : tensor<512x512xf32>)
      outs(%e : tensor<512x512xf32>) permutation = [1, 0]
    scf.yield %t : tensor<512x512xf32>
  }
  return %r : tensor<512x512xf32>
}

// Iterations may swap buffers, and there may be none.

// RUN: fuse-run %s --entry=fibonacci --input=%t.v.npy --input=%t.v.npy \
// RUN:   --input=%t.5.npy --print | FileCheck %s --check-prefix=FIVE
// RUN: fuse-run %s --entry=fibonacci --input=%t.v.npy --input=%t.v.npy \
// RUN:   --input=%t.0.npy --print | FileCheck %s --check-prefix=NONE
// FIVE:      [8, 16]
// FIVE-NEXT: 2xf32
// FIVE-NEXT: [13, 26]
// NONE:      [1, 2]
// NONE-NEXT: 2xf32
// NONE-NEXT: [1, 2]
func.func @fibonacci(%x: tensor<2xf32>, %y: tensor<2xf32>, %n: index)
    -> (tensor<2xf32>, tensor<2xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x, %k = %y)
      -> (tensor<2xf32>, tensor<2xf32>) {
    %s = arith.addf %h, %k : tensor<2xf32>
    scf.yield %k, %s : tensor<2xf32>, tensor<2xf32>
  }
  return %r#0, %r#1 : tensor<2xf32>, tensor<2xf32>
}
