// Statistics of passes whose results other tests check.

// REQUIRES: statistics
// RUN: fuse-opt %s --fuse-list-modules --fuse-unbind-slots -o /dev/null \
// RUN:   --mlir-pass-statistics 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: fuse-opt %s --mlir-pass-statistics -o /dev/null \
// RUN:   --pass-pipeline='builtin.module(gpu.module(convert-small-floats-to-nvvm,convert-tile-to-nvvm,convert-kernels-to-nvvm),convert-kernels-to-ptx)' \
// RUN:   2>&1 | FileCheck %s --check-prefix=KERNELS
// RUN: fuse-opt %s --mlir-pass-statistics -o /dev/null \
// RUN:   --pass-pipeline='builtin.module(gpu.module(convert-small-floats-to-nvvm,convert-tile-to-nvvm,convert-kernels-to-nvvm),fuse-emit-ptx{output=%t.ptx})' \
// RUN:   2>&1 | FileCheck %s --check-prefix=EMIT
// RUN: fuse-opt %s --mlir-pass-statistics -o /dev/null \
// RUN:   --pass-pipeline='builtin.module(func.func(fuse-prepare-entry-points,fuse-expand-copies,fuse-expand-reshapes,fuse-expand-small-floats,fuse-expand-math,convert-fuse-to-linalg))' \
// RUN:   2>&1 | FileCheck %s --check-prefix=FUNCTIONS

// MODEL-DAG: (S) 1 modules-listed
// MODEL-DAG: (S) 1 kernels-removed
nn.model @model class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.addf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    nn.bound_kernel @twice on <any> {
      func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = arith.addf %x, %x : tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
  }
  nn.module @a class "A" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @scale(%x) bound @twice : (tensor<4xf32>) -> tensor<4xf32>
    %1 = nn.call_module @a(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// KERNELS-DAG: (S) 2 extensions
// KERNELS-DAG: (S) 1 truncations
// KERNELS-DAG: (S) 1 kernels-lowered
// EMIT-DAG:    (S) 2 modules-compiled
// EMIT-DAG:    (S) {{[1-9][0-9]+}} ptx-bytes
// KERNELS-DAG: (S) 2 modules-compiled
gpu.module @kernels [#nvvm.target<chip = "sm_90", features = "+ptx78">] {
  gpu.func @halve(%x: memref<f8E4M3FN>, %y: memref<f64>) kernel {
    %c = arith.constant 5.0e-1 : f32
    %0 = memref.load %x[] : memref<f8E4M3FN>
    %1 = arith.extf %0 : f8E4M3FN to f32
    %2 = arith.mulf %1, %c : f32
    %3 = arith.truncf %2 : f32 to f8E4M3FN
    memref.store %3, %x[] : memref<f8E4M3FN>
    %4 = arith.extf %0 : f8E4M3FN to f64
    memref.store %4, %y[] : memref<f64>
    gpu.return
  }
}

// KERNELS-DAG: (S) 1 kernels-lowered
// KERNELS-DAG: (S) 1 ops-lowered
gpu.module @tiles [#nvvm.target<chip = "sm_90a", features = "+ptx80">] {
  tile.kernel @empty(%n: i32) blocks(4) threads(256) shared_bytes(0) {
    tile.return
  }
}

// FUNCTIONS-DAG: (S) 5 entry-points
// FUNCTIONS-DAG: (S) 1 copies-expanded
func.func @copies(%x: memref<?x4xf32>, %y: memref<?x4xf32>,
                  %z: memref<?x4xf32, strided<[8, 1], offset: 2>>) {
  memref.copy %x, %y : memref<?x4xf32> to memref<?x4xf32>
  memref.copy %x, %z
    : memref<?x4xf32> to memref<?x4xf32, strided<[8, 1], offset: 2>>
  return
}

// FUNCTIONS-DAG: (S) 1 reshapes-expanded
func.func @reshapes(%x: memref<?x8xf32>, %a: index, %b: index)
    -> (memref<?x?x8xf32>, memref<?x2x8xf32>) {
  %y = memref.expand_shape %x [[0, 1], [2]] output_shape [%a, %b, 8]
    : memref<?x8xf32> into memref<?x?x8xf32>
  %z = memref.expand_shape %x [[0, 1], [2]] output_shape [%a, 2, 8]
    : memref<?x8xf32> into memref<?x2x8xf32>
  return %y, %z : memref<?x?x8xf32>, memref<?x2x8xf32>
}

// FUNCTIONS-DAG: (S) 2 functions-expanded
func.func @functions(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  %1 = math.sqrt %0 : f32
  %2 = math.rsqrt %1 : f32
  return %2 : f32
}

// FUNCTIONS-DAG: (S) 2 conversions-expanded
func.func @conversions(%x: bf16, %y: f16) -> (f8E5M2, f32) {
  %0 = arith.extf %x : bf16 to f32
  %1 = arith.truncf %0 : f32 to f8E5M2
  %2 = arith.extf %y : f16 to f32
  return %1, %2 : f8E5M2, f32
}

// FUNCTIONS-DAG: (S) 1 kernels-decomposed
// FUNCTIONS-DAG: (S) 4 layers-lowered
func.func @layers(%g: tensor<2x8xbf16>, %u: tensor<2x8xbf16>)
    -> tensor<2x8xbf16> {
  %q = fuse.act_quantize %g times(%u) act(silu)
         scales(f8E4M3FN, hidden = 2.5e-1) rounding(exact)
         : (tensor<2x8xbf16>, tensor<2x8xbf16>) -> tensor<2x8xf8E4M3FN>
  %x = fuse.dequantize %q scale 0.25
    : (tensor<2x8xf8E4M3FN>) -> tensor<2x8xbf16>
  return %x : tensor<2x8xbf16>
}
