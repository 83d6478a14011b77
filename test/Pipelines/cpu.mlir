// RUN: fuse-opt %s --fuse-cpu-pipeline | FileCheck %s
// RUN: fuse-opt %s --fuse-cpu-pipeline=reference | FileCheck %s --check-prefix=REFERENCE

// Only the LLVM dialect remains, and nothing is contracted or reordered.

// CHECK-NOT: unrealized_conversion_cast
// CHECK-NOT: fastmath
// CHECK-LABEL: llvm.func @linear
// CHECK: llvm.intr.fma{{.*}} vector<16xf32>
// CHECK-NOT: xbf16>, vector<16xf32>
// CHECK: llvm.func @_mlir_ciface_linear

// The reference sums in order of the operands.

// REFERENCE-LABEL: llvm.func @linear
// REFERENCE-NOT: vector<
// REFERENCE: llvm.intr.fma{{.*}} : (f32, f32, f32) -> f32
// REFERENCE-NOT: vector<
func.func @linear(%x: tensor<?x?x32xbf16>, %w: tensor<8x32xbf16>)
    -> tensor<?x?x8xbf16> {
  %y = fuse.linear %x, %w
    : (tensor<?x?x32xbf16>, tensor<8x32xbf16>) -> tensor<?x?x8xbf16>
  return %y : tensor<?x?x8xbf16>
}

// 8-bit floats are stored as i8.

// CHECK-LABEL: llvm.func @quantize
// CHECK: llvm.store %{{.*}}, %{{.*}} : i8, !llvm.ptr
func.func @quantize(%x: tensor<?x8xf32>) -> tensor<?x8xf8E4M3FN> {
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xf32>) -> tensor<?x8xf8E4M3FN>
  return %q : tensor<?x8xf8E4M3FN>
}

// CHECK-LABEL: llvm.func @activation
// CHECK: llvm.call @erff
func.func @activation(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.activation gelu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// Kernels for a GPU have one block, so they keep their branches.
// CHECK-LABEL: tile.kernel @branch(
// CHECK:         scf.if
gpu.module @kernels {
  tile.kernel @branch(%tokens: i32) blocks(1) threads(32) shared_bytes(0) {
    %zero = arith.constant 0 : i32
    %some = arith.cmpi ne, %tokens, %zero : i32
    scf.if %some {
      tile.fence_async shared
    }
    tile.return
  }
}
