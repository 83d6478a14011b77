// RUN: fuse-opt %s --split-input-file --convert-linalg-to-gpu \
// RUN:   --verify-diagnostics

func.func @tensors(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{expected operands in buffers, not tensors}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>,
                                        affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @race(%x: memref<4x4xf32>, %y: memref<4xf32>) {
  // expected-error@+1 {{expected output 0 to vary along parallel loop 1}}
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
                                   affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<4x4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  }
  return
}

// -----

func.func @scan(%x: memref<4x4xf32>, %y: memref<4x4xf32>) {
  // expected-error@+1 {{expected output 0 not to vary along reduction loop 1}}
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
                                   affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<4x4xf32>) outs(%y : memref<4x4xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  }
  return
}

// -----

func.func @side_effect(%x: memref<4xf32>, %table: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>],
                  iterator_types = ["parallel"]}
      outs(%x : memref<4xf32>) {
  ^bb0(%out: f32):
    // expected-error@+1 {{expected ops without side effects in a kernel, or loads from buffers that it does not write}}
    memref.store %out, %table[%c0] : memref<4xf32>
    linalg.yield %out : f32
  }
  return
}

// -----

// Threads may read in place what they write; no other thread may.
func.func @in_place(%x: memref<4x4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
                                   affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<4x4xf32>) outs(%x : memref<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %in : f32
    linalg.yield %0 : f32
  }
  // expected-error@+1 {{expected input 0, which is an output too, to be read only where it is written, by an op without reductions}}
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>,
                                   affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<4x4xf32>) outs(%x : memref<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  }
  return
}

// -----

// The fill would go into the kernel as what its sums begin with, and the input
// would not be filled.
func.func @sum_in_place(%x: memref<4x4xf32>, %y: memref<4xf32>) {
  %one = arith.constant 1.0 : f32
  linalg.fill ins(%one : f32) outs(%y : memref<4xf32>)
  // expected-error@+1 {{expected input 1, which is an output too, to be read only where it is written, by an op without reductions}}
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
                                   affine_map<(i, j) -> (j)>,
                                   affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x, %y : memref<4x4xf32>, memref<4xf32>)
      outs(%y : memref<4xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %sum, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// -----

// Another thread writes what this one would read.
func.func @gather_from_result(%x: memref<2x4xf32>) {
  %c0 = arith.constant 0 : index
  %row = memref.subview %x[0, 0] [1, 4] [1, 1]
    : memref<2x4xf32> to memref<4xf32, strided<[1]>>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]}
      outs(%x : memref<2x4xf32>) {
  ^bb0(%out: f32):
    // expected-error@+1 {{expected ops without side effects in a kernel, or loads from buffers that it does not write}}
    %0 = memref.load %row[%c0] : memref<4xf32, strided<[1]>>
    linalg.yield %0 : f32
  }
  return
}

// -----

func.func @gather_from_workgroup(%x: memref<4xf32>,
                                 %table: memref<4xf32, 3>) {
  %c0 = arith.constant 0 : index
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>],
                  iterator_types = ["parallel"]}
      outs(%x : memref<4xf32>) {
  ^bb0(%out: f32):
    // expected-error@+1 {{expected ops without side effects in a kernel, or loads from buffers that it does not write}}
    %0 = memref.load %table[%c0] : memref<4xf32, 3>
    linalg.yield %0 : f32
  }
  return
}

// -----

func.func @host_loop(%x: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{'scf.for' op has no kernel on the portable path, which supports linalg ops on buffers}}
  scf.for %i = %c0 to %c1 step %c1 {
  }
  return
}

// -----

// expected-error@+1 {{expected one block in a function that launches kernels}}
func.func @blocks(%x: memref<4xf32>) {
  cf.br ^bb1
^bb1:
  return
}

// -----

func.func @complex(%x: memref<4xcomplex<f32>>, %y: memref<4xcomplex<f32>>) {
  // expected-error@+1 {{expected numbers or strided buffers of numbers in the default memory space as operands, but got 'memref<4xcomplex<f32>>'}}
  memref.copy %x, %y : memref<4xcomplex<f32>> to memref<4xcomplex<f32>>
  return
}

// -----

func.func @memory_space(%x: memref<4xf32, 3>, %y: memref<4xf32>) {
  // expected-error@+1 {{expected numbers or strided buffers of numbers in the default memory space as operands, but got 'memref<4xf32, 3>'}}
  memref.copy %x, %y : memref<4xf32, 3> to memref<4xf32>
  return
}

// -----

#tiled = affine_map<(i) -> (i floordiv 2, i mod 2)>
func.func @layout(%x: memref<4xf32, #tiled>, %y: memref<4xf32>) {
  // expected-error@+1 {{expected numbers or strided buffers of numbers in the default memory space as operands, but got 'memref<4xf32, affine_map<}}
  memref.copy %x, %y : memref<4xf32, #tiled> to memref<4xf32>
  return
}

// -----

func.func @unranked(%x: memref<*xf32>, %y: memref<*xf32>) {
  // expected-error@+1 {{'memref.copy' op has no kernel on the portable path}}
  memref.copy %x, %y : memref<*xf32> to memref<*xf32>
  return
}
