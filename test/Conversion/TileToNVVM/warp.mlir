// RUN: fuse-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(gpu.module(convert-tile-to-nvvm,canonicalize))' \
// RUN:   | FileCheck %s

// Copies of 16 bytes past L1, by groups.

gpu.module @m {
  // CHECK-LABEL: llvm.func @copies
  // CHECK-SAME:    (%[[W:.*]]: !llvm.ptr<1>, %[[I:.*]]: i32)
  // CHECK-DAG:     %[[O:.*]] = arith.extui %[[I]]
  // CHECK-DAG:     %[[BASE:.*]] = llvm.mlir.addressof @{{.*}} : !llvm.ptr<3>
  // CHECK:         %[[B:.*]] = llvm.getelementptr %[[BASE]][1024] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  // CHECK:         %[[FROM:.*]] = llvm.getelementptr %[[W]][%[[O]]] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
  // CHECK:         %[[TO:.*]] = llvm.getelementptr %[[B]][%[[I]]] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, bf16
  // CHECK:         nvvm.cp.async.shared.global %[[TO]], %[[FROM]], 16, cache = cg
  // CHECK:         nvvm.cp.async.commit.group
  // CHECK:         nvvm.cp.async.wait.group 2
  tile.kernel @copies(%w: !tile.buffer<bf16>, %i: i32)
      blocks(1) threads(32) shared_bytes(2048) {
    %o = arith.extui %i : i32 to i64
    %b = tile.shared_buffer at(1024) : !tile.buffer<bf16, shared>
    tile.async_copy %w[%o] to %b[%i]
      : !tile.buffer<bf16>, !tile.buffer<bf16, shared>
    tile.async_copy.commit
    tile.async_copy.wait 2
    tile.return
  }
}

// -----

// A condition is a predicate.

gpu.module @m {
  // CHECK-LABEL: llvm.func @condition
  // CHECK-SAME:    (%{{.*}}: !llvm.ptr<1>, %[[I:.*]]: i32, %[[N:.*]]: i32)
  // CHECK:         %[[P:.*]] = arith.cmpi ult, %[[I]], %[[N]]
  // CHECK:         %[[TO:.*]] = llvm.ptrtoint %{{.*}} : !llvm.ptr<3> to i32
  // CHECK:         llvm.inline_asm has_side_effects asm_dialect = att "@$0 cp.async.cg.shared.global [$1], [$2], 16;", "b,r,l" %[[P]], %[[TO]], %{{.*}} : (i1, i32, !llvm.ptr<1>) -> ()
  tile.kernel @condition(%w: !tile.buffer<bf16>, %i: i32, %n: i32)
      blocks(1) threads(32) shared_bytes(2048) {
    %p = arith.cmpi ult, %i, %n : i32
    %o = arith.extui %i : i32 to i64
    %b = tile.shared_buffer at(0) : !tile.buffer<bf16, shared>
    tile.async_copy %w[%o] to %b[%i] if %p
      : !tile.buffer<bf16>, !tile.buffer<bf16, shared>
    tile.return
  }
}

// -----

// Eight rows of a right operand are one instruction.

gpu.module @m {
  // CHECK-LABEL: llvm.func @products
  // CHECK-COUNT-2: nvvm.ldmatrix %{{.*}} {{.*}}num = 4 : i32
  // CHECK:         nvvm.ldmatrix %{{.*}} {{.*}}num = 2 : i32
  // CHECK-COUNT-3: nvvm.mma.sync A[{{.*}}] B[{{.*}}] C[{{.*}}] {{.*}}multiplicandAPtxType = #nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
  // CHECK-NOT:     nvvm.mma.sync
  tile.kernel @products(%y: !tile.buffer<f32>, %i: i32)
      blocks(1) threads(128) shared_bytes(4096) {
    %b = tile.shared_buffer at(0) : !tile.buffer<bf16, shared>
    %l = tile.load_matrix %b[%i] : !tile.buffer<bf16, shared> -> vector<8xbf16>
    %r = tile.load_matrix %b[%i] : !tile.buffer<bf16, shared> -> vector<8xbf16>
    %q = tile.load_matrix %b[%i] : !tile.buffer<bf16, shared> -> vector<4xbf16>
    %z = tile.acc.zero : !tile.acc<64x24xf32>
    %a = tile.mma_sync %l, (%r, %q) into %z
      : vector<8xbf16>, (vector<8xbf16>, vector<4xbf16>), !tile.acc<64x24xf32>
    %v:12 = tile.acc.values %a : !tile.acc<64x24xf32>
    tile.store %v#11, %y[%i] : f32, !tile.buffer<f32>
    tile.return
  }
}

// -----

// Upstream's op has pairs of f16 as vectors, and of bf16 as words.

gpu.module @m {
  // CHECK-LABEL: llvm.func @halves
  // CHECK:         nvvm.mma.sync A[{{.*}}] {{.*}} : (vector<2xf16>, vector<2xf16>, f32)
  // CHECK-COUNT-2: arith.extf %{{.*}} : f16 to f32
  tile.kernel @halves(%y: !tile.buffer<f32>, %i: i32)
      blocks(1) threads(128) shared_bytes(4096) {
    %b = tile.shared_buffer at(0) : !tile.buffer<f16, shared>
    %l = tile.load_matrix %b[%i] : !tile.buffer<f16, shared> -> vector<8xf16>
    %r = tile.load_matrix %b[%i] : !tile.buffer<f16, shared> -> vector<4xf16>
    %p = tile.load_matrix %b[%i] : !tile.buffer<f16, shared> -> vector<2xf16>
    %z = tile.acc.zero : !tile.acc<64x8xf32>
    %a = tile.mma_sync %l, (%r) into %z
      : vector<8xf16>, (vector<4xf16>), !tile.acc<64x8xf32>
    %v:4 = tile.acc.values %a : !tile.acc<64x8xf32>
    %u:2 = tile.unpack %p : vector<2xf16>
    tile.store %v#3, %y[%i] : f32, !tile.buffer<f32>
    tile.store %u#0, %y[%i] : f32, !tile.buffer<f32>
    tile.store %u#1, %y[%i] : f32, !tile.buffer<f32>
    tile.return
  }
}
