// RUN: fuse-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(gpu.module(convert-tile-to-nvvm,canonicalize))' \
// RUN:   | FileCheck %s

// A kernel becomes a function with the launch shape; a tensor map is a
// parameter by value.

gpu.module @m {
  // CHECK-LABEL: llvm.func @entry(
  // CHECK-SAME:    %{{.*}}: !llvm.ptr<1>
  // CHECK-SAME:    %{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, llvm.noalias, nvvm.grid_constant}
  // CHECK-SAME:    %{{.*}}: i32, %{{.*}}: f32)
  // CHECK-SAME:    nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 256, 1, 1>
  // CHECK:         llvm.return
  tile.kernel @entry(%x: !tile.buffer<bf16>, %m: !tile.tensor_map, %n: i32,
                     %s: f32) blocks(4) threads(256) shared_bytes(0) {
    tile.return
  }
}

// -----

// Roles are one chain of branches on a warp index that is uniform.

gpu.module @m {
  // CHECK-LABEL: llvm.func @roles
  // CHECK-DAG:     %[[FOUR:.*]] = arith.constant 4 : i32
  // CHECK-DAG:     %[[EIGHT:.*]] = arith.constant 8 : i32
  // CHECK:         %[[WARP:.*]] = nvvm.shfl.sync idx
  // CHECK:         %[[FIRST:.*]] = arith.cmpi ult, %[[WARP]], %[[FOUR]] : i32
  // CHECK:         scf.if %[[FIRST]] {
  // CHECK-NEXT:      nvvm.setmaxregister decrease 40
  // CHECK-NEXT:      nvvm.bar.warp.sync
  // CHECK-NEXT:      nvvm.barrier.arrive id = %{{.*}} number_of_threads = %{{.*}}
  // CHECK-NEXT:    } else {
  // CHECK-NEXT:      %[[SECOND:.*]] = arith.cmpi ult, %[[WARP]], %[[EIGHT]]
  // CHECK-NEXT:      scf.if %[[SECOND]] {
  // CHECK-NEXT:        nvvm.setmaxregister increase 232
  // CHECK-NEXT:        nvvm.barrier id = %{{.*}} number_of_threads = %{{.*}}
  // CHECK-NEXT:      } else {
  // CHECK-NEXT:        nvvm.griddepcontrol wait
  // CHECK-NEXT:      }
  // CHECK-NEXT:    }
  tile.kernel @roles() blocks(1) threads(384) shared_bytes(0) {
    tile.specialize {
      role "a" warps(4) registers(40) {
        tile.warp_sync
        tile.barrier.arrive 1 threads(256)
      }
      role "b" warps(4) registers(232) {
        tile.barrier 1 threads(256)
      }
      role "c" warps(4) {
        tile.grid_dependency wait
      }
    }
    tile.return
  }
}

// -----

// An arrival is a release that LLVM cannot weaken, and a wait is a loop around
// an acquire, unless they are said to be relaxed.

gpu.module @m {
  // CHECK-LABEL: llvm.func @words
  // CHECK-SAME:    (%[[BASE:.*]]: !llvm.ptr<1>, %[[N:.*]]: i32)
  // CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : i32
  // CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK-DAG:     %[[BLOCKS:.*]] = arith.constant 12 : i64
  // CHECK:         %[[TICKET:.*]] = llvm.atomicrmw add %[[BASE]], %{{.*}} syncscope("device") monotonic
  // CHECK-SAME:      !llvm.ptr<1>, i64
  // CHECK:         %[[ROUND:.*]] = arith.divui %[[TICKET]], %[[BLOCKS]] : i64
  // CHECK:         %[[EPOCH:.*]] = arith.trunci %[[ROUND]] : i64 to i32
  // CHECK:         %[[WORD:.*]] = llvm.getelementptr %[[BASE]][256]
  // CHECK:         nvvm.inline_ptx "red.release.gpu.global.add.u32 [$0], $1;" ro(%[[WORD]], %[[ONE]] : !llvm.ptr<1>, i32)
  // CHECK:         nvvm.inline_ptx "red.relaxed.gpu.global.add.u32 [$0], $1;" ro(%[[WORD]], %[[ONE]] : !llvm.ptr<1>, i32)
  // CHECK:         nvvm.inline_ptx "atom.relaxed.gpu.global.add.u64 $0, [$1], $2;" ro(%[[WORD]], %{{.*}} : !llvm.ptr<1>, i64) -> i64
  // CHECK:         %[[NEXT:.*]] = arith.addi %[[EPOCH]], %[[ONE]]
  // CHECK:         %[[GOAL:.*]] = arith.muli %[[NEXT]], %[[N]]
  // CHECK:         scf.while
  // CHECK:           %[[SEEN:.*]] = llvm.load %[[WORD]] atomic syncscope("device") acquire
  // CHECK:           %[[LEFT:.*]] = arith.subi %[[SEEN]], %[[GOAL]]
  // CHECK:           %[[AGAIN:.*]] = arith.cmpi slt, %[[LEFT]], %[[ZERO]]
  // CHECK:           scf.condition(%[[AGAIN]])
  // CHECK:         scf.while
  // CHECK:           llvm.load %[[WORD]] atomic syncscope("device") monotonic
  tile.kernel @words(%words: !tile.buffer<i32>, %n: i32)
      blocks(12) threads(32) shared_bytes(0) {
    %c1 = arith.constant 1 : i32
    %e = tile.epoch %words blocks(12) : !tile.buffer<i32>
    %w = tile.semaphore %words[%c1] : !tile.buffer<i32>
    tile.semaphore.arrive %w
    tile.semaphore.arrive %w {relaxed}
    %before = tile.semaphore.count %w
    tile.semaphore.wait %w epoch(%e) arrivals(%n)
    tile.semaphore.wait %w epoch(%e) arrivals(%n) {relaxed}
    tile.return
  }
}

// -----

// A meeting takes its goal from the ticket that the arrival returns.

gpu.module @m {
  // CHECK-LABEL: llvm.func @meet
  // CHECK-DAG:     %[[ONE:.*]] = arith.constant 1 : i64
  // CHECK-DAG:     %[[FOUR:.*]] = arith.constant 4 : i64
  // CHECK:         %[[WORD:.*]] = llvm.getelementptr
  // CHECK:         %[[TICKET:.*]] = nvvm.inline_ptx "atom.acq_rel.gpu.global.add.u64 $0, [$1], $2;" ro(%[[WORD]], %[[ONE]] : !llvm.ptr<1>, i64) -> i64
  // CHECK:         %[[MEETING:.*]] = arith.divui %[[TICKET]], %[[FOUR]]
  // CHECK:         %[[NEXT:.*]] = arith.addi %[[MEETING]], %[[ONE]]
  // CHECK:         %[[GOAL:.*]] = arith.muli %[[NEXT]], %[[FOUR]]
  // CHECK:         scf.while
  // CHECK:           %[[SEEN:.*]] = llvm.load %[[WORD]] atomic syncscope("device") acquire
  // CHECK:           %[[AGAIN:.*]] = arith.cmpi ult, %[[SEEN]], %[[GOAL]]
  // CHECK:           scf.condition(%[[AGAIN]])
  tile.kernel @meet(%words: !tile.buffer<i32>)
      blocks(4) threads(32) shared_bytes(0) {
    %c1 = arith.constant 1 : i32
    %w = tile.semaphore %words[%c1] : !tile.buffer<i32>
    tile.semaphore.meet %w arrivals(4)
    tile.return
  }
}

// -----

// Blocks of a cluster share a stage: one of them copies it to both, and each
// tells the producers of both that it is done.

gpu.module @m {
  // CHECK-LABEL: llvm.func @cluster
  // CHECK-SAME:    nvvm.cluster_dim = array<i32: 2, 1, 1>
  // CHECK-DAG:     %[[MASK:.*]] = arith.constant 3 : i16
  // CHECK:         nvvm.cluster.arrive {aligned}
  // CHECK:         nvvm.cluster.wait {aligned}
  // CHECK:         %[[RANK:.*]] = nvvm.read.ptx.sreg.cluster.ctarank
  // CHECK:         nvvm.mbarrier.arrive.expect_tx
  // CHECK:         nvvm.cp.async.bulk.shared.cluster.global {{.*}} multicast_mask = %[[MASK]]
  // CHECK:         %[[THERE:.*]] = nvvm.mapa %{{.*}}, %[[RANK]] : !llvm.ptr<3> -> !llvm.ptr<7>
  // CHECK:         nvvm.mbarrier.arrive %[[THERE]] : !llvm.ptr<7>
  tile.kernel @cluster(%w: !tile.buffer<i8>, %j: i32)
      blocks(4) threads(32) shared_bytes(2048) cluster(2) {
    %r = tile.ring.create at(0) consumers(2) : !tile.ring<2 x 1024>
    tile.cluster_barrier
    %rank = tile.id cluster_rank
    %o = arith.extui %j : i32 to i64
    %s = tile.ring.acquire %r[%j] : !tile.ring<2 x 1024>
    tile.copy %w[%o] to %s at(0) bytes(1024) multicast(3) normal
      : !tile.buffer<i8>, !tile.stage<1024>
    tile.ring.release %r[%j] in(%rank) : !tile.ring<2 x 1024>
    tile.return
  }
}

// -----

// A loop that is to stay one says so to LLVM.

// CHECK: #[[ROLLED:.*]] = #llvm.loop_annotation<unroll = #[[UNROLL:.*]]>

gpu.module @m {
  // CHECK-LABEL: llvm.func @rolled
  // CHECK:         scf.for
  // CHECK:         } {loop_annotation = #[[ROLLED]]}
  // CHECK:         scf.for
  // CHECK-NOT:     loop_annotation
  // CHECK:         llvm.return
  tile.kernel @rolled(%n: i32) blocks(1) threads(32) shared_bytes(0) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      tile.warp_sync
    } {tile.rolled}
    scf.for %i = %c0 to %n step %c1 : i32 {
      tile.warp_sync
    }
    tile.return
  }
}
