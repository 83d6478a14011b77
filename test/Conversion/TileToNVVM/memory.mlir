// RUN: fuse-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(gpu.module(convert-tile-to-nvvm,canonicalize))' \
// RUN:   | FileCheck %s

// A ring is dynamic shared memory and an mbarrier pair for each stage: full
// barriers expect the producer, empty ones the consumers.

gpu.module @m {
  // CHECK: llvm.mlir.global internal @[[BARS:.*]]() {addr_space = 3 : i32, alignment = 8 : i64} : !llvm.array<4 x i64>
  // CHECK: llvm.mlir.global external @{{.*}}() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
  // CHECK: llvm.func @ring
  // CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : i32
  // CHECK-DAG:     %[[CONSUMERS:.*]] = arith.constant 2 : i32
  // CHECK-DAG:     %[[BAR:.*]] = llvm.mlir.addressof @[[BARS]]
  // CHECK:         scf.if
  // CHECK:           nvvm.mbarrier.init %[[BAR]], %[[ONE]]
  // CHECK:           nvvm.mbarrier.init %{{.*}}, %[[CONSUMERS]]
  // CHECK:           nvvm.mbarrier.init %{{.*}}, %[[ONE]]
  // CHECK:           nvvm.mbarrier.init %{{.*}}, %[[CONSUMERS]]
  // CHECK-NEXT:      nvvm.fence.mbarrier.init
  tile.kernel @ring() blocks(1) threads(32) shared_bytes(4096) {
    %r = tile.ring.create at(1024) consumers(2) : !tile.ring<2 x 1024>
    tile.return
  }
}

// -----

// Use j is stage j mod n in phase j / n. A producer waits for the other
// parity: the phase before the first counts as complete.

gpu.module @m {
  // CHECK-LABEL: llvm.func @uses
  // CHECK-SAME:    (%[[W:.*]]: !llvm.ptr<1>, %[[M:.*]]: !llvm.ptr {{.*}}, %[[J:.*]]: i32)
  // CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : i32
  // CHECK-DAG:     %[[THREE:.*]] = arith.constant 3 : i32
  // CHECK-DAG:     %[[BYTES:.*]] = arith.constant 2048 : i32
  // CHECK-DAG:     %[[FIRST:.*]] = arith.constant 1364590687093260288 : i64
  // CHECK:         %[[SLOT:.*]] = arith.remui %[[J]], %[[THREE]]
  // CHECK:         %[[ROUND:.*]] = arith.divui %[[J]], %[[THREE]]
  // CHECK:         %[[PARITY:.*]] = arith.andi %[[ROUND]], %[[ONE]]
  // CHECK:         %[[FULL:.*]] = llvm.getelementptr %{{.*}}[%[[SLOT]]] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
  // CHECK:         %[[LATER:.*]] = arith.addi %[[SLOT]], %[[THREE]]
  // CHECK:         %[[EMPTY:.*]] = llvm.getelementptr %{{.*}}[%[[LATER]]]
  // CHECK:         %[[OTHER:.*]] = arith.xori %[[PARITY]], %[[ONE]]
  // CHECK:         nvvm.mbarrier.try_wait.parity %[[EMPTY]], %[[OTHER]]
  // CHECK:         nvvm.mbarrier.arrive.expect_tx %[[FULL]], %[[BYTES]]
  // CHECK:         nvvm.cp.async.bulk.shared.cluster.global %{{.*}}, %{{.*}}, %[[FULL]], %[[BYTES]] l2_cache_hint = %[[FIRST]]
  // CHECK:         nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[M]], %[[FULL]], box[%[[J]], %[[J]]] :
  // CHECK:         nvvm.mbarrier.try_wait.parity %{{.*}}, %[[PARITY2:.*]], %{{.*}}
  // CHECK:         nvvm.mbarrier.arrive %{{.*}} : !llvm.ptr<3>
  tile.kernel @uses(%w: !tile.buffer<i8>, %m: !tile.tensor_map, %j: i32)
      blocks(1) threads(32) shared_bytes(6144) {
    %r = tile.ring.create at(0) consumers(1) : !tile.ring<3 x 2048>
    %o = arith.extui %j : i32 to i64
    %s = tile.ring.acquire %r[%j] : !tile.ring<3 x 2048>
    tile.copy %w[%o] to %s evict_first : !tile.buffer<i8>, !tile.stage<2048>
    tile.copy_tensor %m[%j, %j] to %s normal : !tile.stage<2048>
    %t = tile.ring.wait %r[%j] : !tile.ring<3 x 2048>
    tile.ring.release %r[%j] : !tile.ring<3 x 2048>
    tile.return
  }
}

// -----

// Vectors of narrow types move as words.

gpu.module @m {
  // CHECK-LABEL: llvm.func @buffers
  // CHECK:         %[[P:.*]] = llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, bf16
  // CHECK:         %[[V:.*]] = llvm.load volatile %[[P]] {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
  // CHECK:         llvm.store %[[V]], %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
  // CHECK:         nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.global>}
  // CHECK:         %[[Q:.*]] = llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr<1> -> i16
  // CHECK:         llvm.store %[[Q]], %{{.*}} {alignment = 2 : i64} : i16, !llvm.ptr<3>
  tile.kernel @buffers(%x: !tile.buffer<bf16>, %q: !tile.buffer<f8E4M3FN>,
                       %i: i32) blocks(1) threads(32) shared_bytes(0) {
    %s = tile.scratch 64 : !tile.buffer<f8E4M3FN, shared>
    %v = tile.load early %x[%i] : !tile.buffer<bf16> -> vector<8xbf16>
    tile.store %v, %x[%i] : vector<8xbf16>, !tile.buffer<bf16>
    tile.fence_async
    %w = tile.load %q[%i] : !tile.buffer<f8E4M3FN> -> vector<2xf8E4M3FN>
    tile.store %w, %s[%i] : vector<2xf8E4M3FN>, !tile.buffer<f8E4M3FN, shared>
    tile.return
  }
}

// -----

// A stage is copied in pieces, and its bytes are written as ordinary shared
// memory. Whether a stage is free is asked without a wait.

gpu.module @m {
  // CHECK-LABEL: llvm.func @pieces
  // CHECK-DAG:     %[[HALF:.*]] = arith.constant 1024 : i32
  // CHECK:         nvvm.mbarrier.test.wait
  // CHECK:         nvvm.cp.async.bulk.prefetch %{{.*}}, %[[HALF]]
  // CHECK:         nvvm.mbarrier.arrive.expect_tx
  // CHECK:         %[[SECOND:.*]] = llvm.getelementptr %[[STAGE:.*]][1024]
  // CHECK:         %[[TARGET:.*]] = llvm.addrspacecast %[[SECOND]]
  // CHECK:         nvvm.cp.async.bulk.shared.cluster.global %[[TARGET]], %{{.*}}, %{{.*}}, %[[HALF]] :
  // CHECK:         llvm.store %{{.*}} : i8, !llvm.ptr<3>
  // CHECK:         nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
  tile.kernel @pieces(%w: !tile.buffer<i8>, %j: i32)
      blocks(1) threads(32) shared_bytes(6144) {
    %r = tile.ring.create at(0) consumers(1) : !tile.ring<3 x 2048>
    %o = arith.extui %j : i32 to i64
    %v = arith.trunci %j : i32 to i8
    %free = tile.ring.poll %r[%j] : !tile.ring<3 x 2048>
    scf.if %free {
      tile.prefetch %w[%o] bytes(1024) : !tile.buffer<i8>
    }
    %s = tile.ring.acquire %r[%j] : !tile.ring<3 x 2048>
    tile.copy %w[%o] to %s at(1024) bytes(1024) normal : !tile.buffer<i8>, !tile.stage<2048>
    %b = tile.stage_buffer %s : !tile.stage<2048> -> !tile.buffer<i8, shared>
    tile.store %v, %b[%j] : i8, !tile.buffer<i8, shared>
    tile.fence_async shared
    tile.return
  }
}

// -----

// How many bytes a stage gets, from where and to where may be values.

gpu.module @m {
  // CHECK-LABEL: llvm.func @values
  // CHECK-SAME:    (%{{.*}}: !llvm.ptr<1>, %{{.*}}: i32, %[[AT:.*]]: i32, %[[BYTES:.*]]: i32)
  // CHECK:         nvvm.cp.async.bulk.prefetch %{{.*}}, %[[BYTES]]
  // CHECK:         nvvm.mbarrier.arrive.expect_tx %{{.*}}, %[[BYTES]]
  // CHECK:         %[[PLACE:.*]] = llvm.getelementptr %{{.*}}[%[[AT]]]
  // CHECK:         %[[TARGET:.*]] = llvm.addrspacecast %[[PLACE]]
  // CHECK:         nvvm.cp.async.bulk.shared.cluster.global %[[TARGET]], %{{.*}}, %{{.*}}, %[[BYTES]] :
  tile.kernel @values(%w: !tile.buffer<i8>, %j: i32, %at: i32, %bytes: i32)
      blocks(1) threads(32) shared_bytes(6144) {
    %r = tile.ring.create at(0) consumers(1) : !tile.ring<3 x 2048>
    %o = arith.extui %j : i32 to i64
    tile.prefetch %w[%o] length(%bytes) : !tile.buffer<i8>
    %s = tile.ring.acquire %r[%j] bytes(%bytes) : !tile.ring<3 x 2048>
    tile.copy %w[%o] to %s piece(%at, %bytes) normal : !tile.buffer<i8>, !tile.stage<2048>
    tile.return
  }
}

// -----

// What blocks exchange by looking has a mark in the lowest bit of each word. All
// vectors are loaded in one loop until none is of the launch before.

gpu.module @m {
  // CHECK-LABEL: llvm.func @exchange
  // CHECK-SAME:    (%{{.*}}: !llvm.ptr<1>, %{{.*}}: i32)
  // CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : i32
  // CHECK-DAG:     %[[REST:.*]] = arith.constant -2 : i32
  // CHECK:         llvm.store volatile %{{.*}} : vector<2xi32>, !llvm.ptr<1>
  // CHECK:         %[[OLD:.*]] = arith.andi %{{.*}}, %[[ONE]]
  // CHECK:         %[[LOOP:.*]]:2 = scf.while
  // CHECK:           %[[V:.*]] = llvm.load volatile %[[P:.*]] {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xi32>
  // CHECK:           %[[W:.*]] = llvm.load volatile %[[Q:.*]] {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xi32>
  // CHECK:           arith.xori %{{.*}}, %[[OLD]]
  // CHECK:           arith.xori %{{.*}}, %[[OLD]]
  // CHECK:           %[[ALL:.*]] = arith.andi
  // CHECK:           %[[BIT:.*]] = arith.andi %[[ALL]], %[[ONE]]
  // CHECK:           arith.cmpi eq, %[[BIT]], %[[ZERO]]
  // CHECK:           arith.cmpi eq, %{{.*}}, %[[ZERO]]
  // CHECK:           scf.condition(%{{.*}}) %[[V]], %[[W]]
  // CHECK-COUNT-4: arith.andi %{{.*}}, %[[REST]]
  tile.kernel @exchange(%p: !tile.buffer<f32>, %i: i32)
      blocks(1) threads(32) shared_bytes(0) {
    %n = arith.constant 7 : i32
    %c = arith.cmpi ult, %i, %n : i32
    %v = tile.load %p[%n] : !tile.buffer<f32> -> vector<2xf32>
    tile.store polled %v, %p[%i] : vector<2xf32>, !tile.buffer<f32>
    %l:2 = tile.collect %p[%i, %n] if(%c, %c) epoch(%i)
      : !tile.buffer<f32> -> vector<2xf32>, vector<2xf32>
    tile.store %l#0, %p[%i] : vector<2xf32>, !tile.buffer<f32>
    tile.store %l#1, %p[%n] : vector<2xf32>, !tile.buffer<f32>
    tile.return
  }
}
