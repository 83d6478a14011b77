// RUN: fuse-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(convert-kernels-to-nvvm))" \
// RUN:   | FileCheck %s

// Pointers and 64-bit integers are all that a host passes; functions that are
// an instruction are intrinsics.

// CHECK-LABEL: llvm.func @root(
// CHECK-SAME:    %[[X:.+]]: !llvm.ptr, %[[N:.+]]: i64)
// CHECK-SAME:    nvvm.kernel
// CHECK-SAME:    nvvm.maxntid = array<i32: 256, 1, 1>
// CHECK-NOT:     __nv
// CHECK:         llvm.intr.sqrt
// CHECK:         llvm.intr.fma
// CHECK:         llvm.intr.fabs
// CHECK:         llvm.intr.roundeven
gpu.module @kernels {
  gpu.func @root(%x: memref<f32>, %n: index) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1]
      : memref<f32> to memref<?xf32>
    %i = gpu.thread_id x
    %0 = memref.load %v[%i] : memref<?xf32>
    %1 = math.sqrt %0 : f32
    %2 = math.fma %1, %1, %0 : f32
    %3 = math.absf %2 : f32
    %4 = math.roundeven %3 : f32
    memref.store %4, %v[%i] : memref<?xf32>
    gpu.return
  }
}

// Neither do the maximum, the minimum and the sign call a library.

// CHECK-LABEL: llvm.func @extremes(
// CHECK-NOT:     __nv
// CHECK:         llvm.intr.maxnum
// CHECK:         llvm.intr.minnum
// CHECK:         llvm.intr.maximum
// CHECK:         llvm.intr.copysign
gpu.module @more {
  gpu.func @extremes(%x: memref<f32>, %y: memref<f32>) kernel {
    %0 = memref.load %x[] : memref<f32>
    %1 = memref.load %y[] : memref<f32>
    %2 = arith.maxnumf %0, %1 : f32
    %3 = arith.minnumf %2, %1 : f32
    %4 = arith.maximumf %3, %0 : f32
    %5 = math.copysign %4, %1 : f32
    memref.store %5, %x[] : memref<f32>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @remainder(%x: memref<f32>) kernel {
    %0 = memref.load %x[] : memref<f32>
    // expected-error@below {{'arith.remf' op is not an instruction of a GPU, and no library is linked; fuse-expand-math expands it}}
    %1 = arith.remf %0, %0 : f32
    memref.store %1, %x[] : memref<f32>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @exponential(%x: memref<f64>) kernel {
    %0 = memref.load %x[] : memref<f64>
    // expected-error@below {{'math.exp' op is not an instruction of a GPU}}
    %1 = math.exp %0 : f64
    memref.store %1, %x[] : memref<f64>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @loop(%x: memref<f32>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // expected-error@below {{'scf.for' op has no lowering to NVVM}}
    scf.for %i = %c0 to %n step %c1 {
    }
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @print(%x: memref<f32>) kernel {
    // expected-error@below {{'llvm.func' op is called by a kernel, but no library is linked}}
    gpu.printf "here"
    gpu.return
  }
}
