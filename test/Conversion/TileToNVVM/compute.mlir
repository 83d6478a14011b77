// RUN: fuse-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(gpu.module(convert-tile-to-nvvm,canonicalize))' \
// RUN:   | FileCheck %s

// Registers pass through fences and waits, so that nothing moves across them.
// An accumulator that a loop carries is one value per register.

gpu.module @m {
  // CHECK-LABEL: llvm.func @product
  // CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK-DAG:     %[[DESCRIPTOR:.*]] = arith.constant 4611686293305360384 : i64
  // CHECK:         %[[A:.*]] = arith.ori %{{.*}}, %[[DESCRIPTOR]] : i64
  // CHECK:         %[[LOOP:.*]]:4 = scf.for {{.*}} iter_args(%[[R0:.*]] = %[[ZERO]], %[[R1:.*]] = %[[ZERO]], %[[R2:.*]] = %[[ZERO]], %[[R3:.*]] = %[[ZERO]]) -> (f32, f32, f32, f32)
  // CHECK:           llvm.inline_asm has_side_effects asm_dialect = att "wgmma.fence.sync.aligned;", "=f,=f,=f,=f,0,1,2,3" %[[R0]], %[[R1]], %[[R2]], %[[R3]]
  // CHECK:           nvvm.wgmma.mma_async {{.*}} <m = 64, n = 8, k = 16>, {{.*}}<bf16>
  // CHECK:           nvvm.wgmma.mma_async
  // CHECK:           nvvm.wgmma.mma_async
  // CHECK:           nvvm.wgmma.mma_async
  // CHECK-NOT:       nvvm.wgmma.mma_async
  // CHECK:           nvvm.wgmma.commit.group.sync.aligned
  // CHECK-NEXT:      nvvm.wgmma.wait.group.sync.aligned 1
  // CHECK:         llvm.inline_asm has_side_effects asm_dialect = att "wgmma.wait_group.sync.aligned 0;", "=f,=f,=f,=f,0,1,2,3" %[[LOOP]]#0, %[[LOOP]]#1, %[[LOOP]]#2, %[[LOOP]]#3
  tile.kernel @product(%y: !tile.buffer<f32>, %n: i32)
      blocks(1) threads(128) shared_bytes(16384) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = tile.ring.create at(0) consumers(1) : !tile.ring<1 x 16384>
    %s = tile.ring.wait %r[%c0] : !tile.ring<1 x 16384>
    %a = tile.view %s[%c0] : !tile.stage<16384>
      -> !tile.shared<64x64xbf16, swizzle 128>
    %b = tile.view %s[%n] : !tile.stage<16384>
      -> !tile.shared<8x64xbf16, swizzle 128>
    %z = tile.acc.zero : !tile.acc<64x8xf32>
    %p = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z)
        -> (!tile.acc<64x8xf32>) : i32 {
      %f = tile.acc.fence %acc : !tile.acc<64x8xf32>
      %c = tile.mma %a, %b into %f : !tile.shared<64x64xbf16, swizzle 128>,
        !tile.shared<8x64xbf16, swizzle 128>, !tile.acc<64x8xf32>
      tile.mma.commit
      tile.mma.wait 1
      scf.yield %c : !tile.acc<64x8xf32>
    }
    %d = tile.acc.wait %p : !tile.acc<64x8xf32>
    %v:4 = tile.acc.values %d : !tile.acc<64x8xf32>
    tile.store %v#3, %y[%n] : f32, !tile.buffer<f32>
    tile.return
  }
}

// -----

// Conversions take the high half first and saturate.

gpu.module @m {
  // CHECK-LABEL: llvm.func @values
  // CHECK-SAME:    (%[[X:.*]]: !llvm.ptr<1>
  // CHECK:         %[[W:.*]] = llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  // CHECK:         %[[LOW:.*]] = arith.shli %[[W]], %c16_i32
  // CHECK:         %[[HIGH:.*]] = arith.andi %[[W]], %c-65536_i32
  // CHECK:         %[[A:.*]] = llvm.bitcast %[[LOW]] : i32 to f32
  // CHECK:         %[[B:.*]] = llvm.bitcast %[[HIGH]] : i32 to f32
  // CHECK:         nvvm.convert.f32x2.to.f8x2 %[[B]], %[[A]] {rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>} : i16(f8E4M3FN)
  // CHECK:         nvvm.convert.f32x2.to.bf16x2 %[[A]], %[[B]] {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xbf16>
  tile.kernel @values(%x: !tile.buffer<bf16>, %q: !tile.buffer<f8E4M3FN>,
                      %i: i32) blocks(1) threads(32) shared_bytes(0) {
    %v = tile.load %x[%i] : !tile.buffer<bf16> -> vector<2xbf16>
    %u:2 = tile.unpack %v : vector<2xbf16>
    %p = tile.pack %u#0, %u#1 : vector<2xf8E4M3FN>
    tile.store %p, %q[%i] : vector<2xf8E4M3FN>, !tile.buffer<f8E4M3FN>
    %b = tile.pack %u#1, %u#0 : vector<2xbf16>
    tile.store %b, %x[%i] : vector<2xbf16>, !tile.buffer<bf16>
    tile.return
  }
}

// -----

// Pairs that were unpacked are not rounded again, whichever word of a vector
// they are.

gpu.module @m {
  // CHECK-LABEL: llvm.func @pairs
  // CHECK:         %[[P:.*]] = llvm.load {{.*}} : !llvm.ptr<1> -> vector<2xi32>
  // CHECK:         %[[HIGH:.*]] = llvm.extractelement %[[P]][%c1_i32 : i32] : vector<2xi32>
  // CHECK:         %[[LOW:.*]] = llvm.extractelement %[[P]][%c0_i32 : i32] : vector<2xi32>
  // CHECK-NOT:     nvvm.convert
  // CHECK:         llvm.return
  tile.kernel @pairs(%x: !tile.buffer<bf16>, %i: i32)
      blocks(1) threads(32) shared_bytes(0) {
    %v = tile.load %x[%i] : !tile.buffer<bf16> -> vector<4xbf16>
    %u:4 = tile.unpack %v : vector<4xbf16>
    %p = tile.pack %u#2, %u#3, %u#0, %u#1 : vector<4xbf16>
    tile.store %p, %x[%i] : vector<4xbf16>, !tile.buffer<bf16>
    tile.return
  }
}

// -----

// Halves of two pairs are.

gpu.module @m {
  // CHECK-LABEL:   llvm.func @halves
  // CHECK-COUNT-2: nvvm.convert.f32x2.to.bf16x2
  // CHECK-NOT:     nvvm.convert
  // CHECK:         llvm.return
  tile.kernel @halves(%x: !tile.buffer<bf16>, %f: f32, %i: i32)
      blocks(1) threads(32) shared_bytes(0) {
    %v = tile.load %x[%i] : !tile.buffer<bf16> -> vector<4xbf16>
    %u:4 = tile.unpack %v : vector<4xbf16>
    %p = tile.pack %u#1, %u#2, %u#0, %f : vector<4xbf16>
    tile.store %p, %x[%i] : vector<4xbf16>, !tile.buffer<bf16>
    tile.return
  }
}

// -----

// The order of a sum over threads is fixed.

gpu.module @m {
  // CHECK-LABEL: llvm.func @sum
  // CHECK-COUNT-5: nvvm.shfl.sync bfly
  // CHECK:         scf.if
  // CHECK:           llvm.store {{.*}} !llvm.ptr<3>
  // CHECK:         nvvm.barrier id = %{{.*}} number_of_threads = %{{.*}}
  // CHECK:         %[[P0:.*]] = llvm.load
  // CHECK:         %[[P1:.*]] = llvm.load
  // CHECK:         %[[S:.*]] = arith.addf %[[P0]], %[[P1]]
  // CHECK:         llvm.store %[[S]]
  tile.kernel @sum(%y: !tile.buffer<f32>, %v: f32, %i: i32)
      blocks(1) threads(128) shared_bytes(0) {
    %b = tile.scratch 2 : !tile.buffer<f32, shared>
    %s = tile.reduce %v scratch(%b) warps(2 to 4) barrier(1)
      : f32, !tile.buffer<f32, shared>
    tile.store %s, %y[%i] : f32, !tile.buffer<f32>
    tile.return
  }
}

// -----

// Three bits of a lane's number: eight lanes share the largest value.

gpu.module @m {
  // CHECK-LABEL:   llvm.func @largest
  // CHECK:         %[[A:.*]] = nvvm.shfl.sync bfly %{{[^,]*}}, %[[V:[^,]*]], %
  // CHECK:         %[[B:.*]] = arith.maximumf %[[V]], %[[A]]
  // CHECK-COUNT-2: nvvm.shfl.sync bfly
  // CHECK-NOT:     nvvm.shfl.sync
  // CHECK:         llvm.store
  // CHECK-COUNT-5: nvvm.shfl.sync bfly
  // CHECK:         arith.maximumf
  // CHECK-NOT:     arith.addf
  // CHECK:         llvm.return
  tile.kernel @largest(%y: !tile.buffer<f32>, %v: f32, %i: i32)
      blocks(1) threads(128) shared_bytes(0) {
    %m = tile.lane_max %v lanes(28)
    tile.store %m, %y[%i] : f32, !tile.buffer<f32>
    %b = tile.scratch 2 : !tile.buffer<f32, shared>
    %s = tile.reduce max %v scratch(%b) warps(2 to 4) barrier(1)
      : f32, !tile.buffer<f32, shared>
    tile.store %s, %y[%i] : f32, !tile.buffer<f32>
    tile.return
  }
}

// -----

// erf becomes arithmetic.

gpu.module @m {
  // CHECK-LABEL: llvm.func @erf
  // CHECK-NOT:     math.erf
  // CHECK:         math.fma
  // CHECK-NOT:     math.erf
  // CHECK:         llvm.return
  tile.kernel @erf(%y: !tile.buffer<f32>, %v: f32, %i: i32)
      blocks(1) threads(32) shared_bytes(0) {
    %e = math.erf %v : f32
    tile.store %e, %y[%i] : f32, !tile.buffer<f32>
    tile.return
  }
}

// -----

gpu.module @m {
  // CHECK-LABEL: llvm.func @approximations
  // CHECK:         %[[E:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"(%{{.*}})
  // CHECK:         nvvm.rcp.approx.ftz.f %[[E]] : f32
  tile.kernel @approximations(%x: f32, %y: !tile.buffer<f32>, %i: i32)
      blocks(1) threads(32) shared_bytes(0) {
    %e = tile.exp2 %x
    %r = tile.reciprocal %e
    tile.store %r, %y[%i] : f32, !tile.buffer<f32>
    tile.return
  }
}

// -----

// The values of an accumulator are its registers.

gpu.module @m {
  // CHECK-LABEL: llvm.func @values
  // CHECK:         %[[ASM:.*]] = llvm.inline_asm {{.*}}"wgmma.wait_group.sync.aligned 0;"
  // CHECK:         %[[THIRD:.*]] = llvm.extractvalue %[[ASM]][2]
  // CHECK:         llvm.store %[[THIRD]]
  tile.kernel @values(%y: !tile.buffer<f32>, %i: i32)
      blocks(1) threads(128) shared_bytes(0) {
    %z = tile.acc.zero : !tile.acc<64x8xf32>
    %a = tile.acc.wait %z : !tile.acc<64x8xf32>
    %v:4 = tile.acc.values %a : !tile.acc<64x8xf32>
    tile.store %v#2, %y[%i] : f32, !tile.buffer<f32>
    tile.return
  }
}

// -----

// The lowest bit of each word says whether the epoch is even. One value is
// converted beside itself.

gpu.module @m {
  // CHECK-LABEL: llvm.func @mark
  // CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : i32
  // CHECK-DAG:     %[[REST:.*]] = arith.constant -2 : i32
  // CHECK:         %[[ODD:.*]] = arith.andi %{{.*}}, %[[ONE]]
  // CHECK:         %[[MARK:.*]] = arith.xori %[[ODD]], %[[ONE]]
  // CHECK-COUNT-2: arith.andi %{{.*}}, %[[REST]]
  // CHECK:         %[[PAIR:.*]] = nvvm.convert.f32x2.to.f8x2 %[[X:.*]], %[[X]]
  // CHECK:         arith.trunci %[[PAIR]] : i16 to i8
  tile.kernel @mark(%y: !tile.buffer<f32>, %q: !tile.buffer<f8E4M3FN>,
                    %i: i32, %x: f32)
      blocks(1) threads(32) shared_bytes(0) {
    %a = tile.load %y[%i] : !tile.buffer<f32> -> vector<2xf32>
    %b = tile.mark %a epoch(%i) : vector<2xf32>
    tile.store %b, %y[%i] : vector<2xf32>, !tile.buffer<f32>
    %c = tile.pack %x : vector<1xf8E4M3FN>
    tile.store %c, %q[%i] : vector<1xf8E4M3FN>, !tile.buffer<f8E4M3FN>
    tile.return
  }
}
