// RUN: fuse-opt %s \
// RUN:   --pass-pipeline='builtin.module(gpu.module(convert-tile-to-nvvm,canonicalize))' \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s \
// RUN:   --pass-pipeline='builtin.module(gpu.module(convert-tile-to-nvvm{float8=false float8-products=false},canonicalize))' \
// RUN:   | FileCheck %s --check-prefix=OLD
// RUN: fuse-opt %s \
// RUN:   --pass-pipeline='builtin.module(gpu.module(convert-tile-to-nvvm{float8-products=false},canonicalize))' \
// RUN:   | FileCheck %s --check-prefix=WIDE

// Products of 8-bit floats have 32 columns. Without instructions, each is two
// of f16: a word has four columns of an operand, those of odd bytes first. Bits
// of all ones become the exponent of a NaN, and 256 corrects the others'.

gpu.module @m {
  // CHECK-LABEL:   llvm.func @products
  // CHECK:         nvvm.ldmatrix %{{.*}} {{.*}}num = 4 : i32
  // CHECK:         nvvm.ldmatrix %{{.*}} {{.*}}num = 2 : i32
  // CHECK:         llvm.call_intrinsic "llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"
  // CHECK-NOT:     mma

  // WIDE-LABEL:    llvm.func @products
  // WIDE-COUNT-6:  nvvm.convert.f8x2.to.f16x2
  // WIDE:          nvvm.mma.sync {{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
  // WIDE-COUNT-6:  nvvm.convert.f8x2.to.f16x2
  // WIDE:          nvvm.mma.sync {{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
  // WIDE-NOT:      mma

  // OLD-LABEL:     llvm.func @products
  // OLD-DAG:       %[[MAGNITUDE:.*]] = arith.constant 2130738944 : i32
  // OLD-DAG:       %[[ONES:.*]] = arith.constant 16777472 : i32
  // OLD-DAG:       %[[SIGN:.*]] = arith.constant -2147450880 : i32
  // OLD-DAG:       %[[SCALE:.*]] = arith.constant dense<2.560000e+02> : vector<2xf16>
  // OLD-DAG:       %[[C1:.*]] = arith.constant 1 : i32
  // OLD:           %[[M:.*]] = arith.andi %[[W:.*]], %[[MAGNITUDE]]
  // OLD:           %[[SUM:.*]] = arith.addi %[[M]], %[[ONES]]
  // OLD:           %[[NAN:.*]] = arith.andi %[[SUM]], %[[SIGN]]
  // OLD:           %[[ALL:.*]] = arith.ori %[[M]], %[[NAN]]
  // OLD:           %[[HALF:.*]] = arith.shrui %[[ALL]], %[[C1]]
  // OLD:           %[[S:.*]] = arith.andi %[[W]], %[[SIGN]]
  // OLD:           %[[BITS:.*]] = arith.ori %[[HALF]], %[[S]]
  // OLD:           %[[F:.*]] = llvm.bitcast %[[BITS]] : i32 to vector<2xf16>
  // OLD:           arith.mulf %[[F]], %[[SCALE]]
  // OLD-COUNT-2:   nvvm.mma.sync {{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
  // OLD-NOT:       mma
  tile.kernel @products(%y: !tile.buffer<f32>, %i: i32)
      blocks(1) threads(128) shared_bytes(4096) {
    %b = tile.shared_buffer at(0) : !tile.buffer<f8E4M3FN, shared>
    %l = tile.load_matrix %b[%i]
      : !tile.buffer<f8E4M3FN, shared> -> vector<16xf8E4M3FN>
    %r = tile.load_matrix %b[%i]
      : !tile.buffer<f8E4M3FN, shared> -> vector<8xf8E4M3FN>
    %z = tile.acc.zero : !tile.acc<64x8xf32>
    %a = tile.mma_sync %l, (%r) into %z
      : vector<16xf8E4M3FN>, (vector<8xf8E4M3FN>), !tile.acc<64x8xf32>
    %v:4 = tile.acc.values %a : !tile.acc<64x8xf32>
    tile.store %v#3, %y[%i] : f32, !tile.buffer<f32>
    tile.return
  }

  // Numbers below 2^-6 are multiples of 2^-9, which 2^14 aligns.

  // CHECK-LABEL:   llvm.func @quantize
  // CHECK:         nvvm.convert.f32x2.to.f8x2

  // OLD-LABEL:     llvm.func @quantize
  // OLD-DAG:       %[[MOST:.*]] = arith.constant 4.480000e+02 : f32
  // OLD-DAG:       %[[LEAST:.*]] = arith.constant 1.562500e-02 : f32
  // OLD-DAG:       %[[ALIGNED:.*]] = arith.constant 1.638400e+04 : f32
  // OLD:           %[[V:.*]] = arith.minnumf %{{.*}}, %[[MOST]]
  // OLD:           arith.addf %[[V]], %[[ALIGNED]]
  // OLD:           %[[SMALL:.*]] = arith.cmpf olt, %[[V]], %[[LEAST]]
  // OLD:           arith.select %[[SMALL]]
  // OLD:           %[[NAN:.*]] = arith.cmpf uno
  // OLD:           arith.select %[[NAN]], %{{.*}}, %{{.*}} : i32
  // OLD-NOT:       nvvm.convert
  tile.kernel @quantize(%y: !tile.buffer<f8E4M3FN>, %v: f32, %w: f32, %i: i32)
      blocks(1) threads(128) shared_bytes(0) {
    %p = tile.pack %v, %w : vector<2xf8E4M3FN>
    tile.store %p, %y[%i] : vector<2xf8E4M3FN>, !tile.buffer<f8E4M3FN>
    tile.return
  }
}
