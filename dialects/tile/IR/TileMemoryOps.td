//===- TileMemoryOps.td - Rings, copies, loads, stores -----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILEMEMORYOPS_TD
#define TILE_IR_TILEMEMORYOPS_TD

include "tile/IR/TileKernelOps.td"

def Tile_RingCreateOp : Tile_Op<"ring.create", [
    MemoryEffects<[MemAlloc]>]> {
  let summary = "Creates a ring at an offset of dynamic shared memory";
  let description = [{
    One producer thread fills stages; `consumers` threads release each stage.
    The stages begin at `offset`, a multiple of 1024 because of the swizzle.
    They must be inside the `shared_bytes` of the kernel. All threads create all
    rings before the first `tile.barrier 0`.

    Becomes `mbarrier.init.shared.b64` for every mbarrier by thread 0 and
    `fence.mbarrier_init.release.cluster`.

    Example: `%r = tile.ring.create at(0) consumers(2) : !tile.ring<6 x 32768>`
  }];
  let arguments = (ins I64Attr:$offset, I64Attr:$consumers);
  let results = (outs Tile_Ring:$ring);
  let assemblyFormat = [{
    `at` `(` $offset `)` `consumers` `(` $consumers `)` attr-dict
    `:` qualified(type($ring))
  }];
  let hasVerifier = 1;
}

def Tile_StageOf : TypesMatchWith<
    "the stage has the bytes of the ring's stages", "ring", "stage",
    "::tile::StageType::get($_ctxt, "
    "::llvm::cast<::tile::RingType>($_self).getBytes())">;

def Tile_RingAcquireOp : Tile_Op<"ring.acquire", [
    Tile_StageOf, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits for a free stage and arms its full mbarrier";
  let description = [{
    The j-th use of the ring. Waits until the consumers have released use
    `j - stages`, and arms the full mbarrier with the bytes of the stage, or
    with `bytes` of them. Copies must deliver all of these bytes, including rows
    that a tensor copy fills with zeros.

    Becomes `mbarrier.try_wait.parity` in a loop on the empty mbarrier and
    `mbarrier.arrive.expect_tx` on the full one.

    Example: `%s = tile.ring.acquire %r[%j] : !tile.ring<6 x 32768>`
  }];
  let arguments = (ins Tile_Ring:$ring, I32:$use, Optional<I32>:$bytes);
  let results = (outs Tile_Stage:$stage);
  let builders = [OpBuilder<(ins "::mlir::Type":$stage, "::mlir::Value":$ring,
    "::mlir::Value":$use),
    [{ build($_builder, $_state, stage, ring, use, ::mlir::Value()); }]>];
  let assemblyFormat = [{
    $ring `[` $use `]` (`bytes` `(` $bytes^ `)`)? attr-dict
    `:` qualified(type($ring))
  }];
}

def Tile_RingPollOp : Tile_Op<"ring.poll", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Whether a stage is free";
  let description = [{
    Whether `tile.ring.acquire` would not have to wait. Does not arm the
    mbarrier.

    Becomes `mbarrier.test_wait.parity` on the empty mbarrier.

    Example: `%free = tile.ring.poll %r[%j] : !tile.ring<6 x 32768>`
  }];
  let arguments = (ins Tile_Ring:$ring, I32:$use);
  let results = (outs I1:$free);
  let assemblyFormat = [{
    $ring `[` $use `]` attr-dict `:` qualified(type($ring))
  }];
}

def Tile_RingWaitOp : Tile_Op<"ring.wait", [
    Tile_StageOf, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until a stage is complete";
  let description = [{
    The j-th use of the ring. All of its bytes are in shared memory afterwards.
    Producers use it, too, to limit the loads in flight.

    Becomes `mbarrier.try_wait.parity` in a loop on the full mbarrier.

    Example: `%s = tile.ring.wait %r[%j] : !tile.ring<6 x 32768>`
  }];
  let arguments = (ins Tile_Ring:$ring, I32:$use);
  let results = (outs Tile_Stage:$stage);
  let assemblyFormat = [{
    $ring `[` $use `]` attr-dict `:` qualified(type($ring))
  }];
}

def Tile_RingReleaseOp : Tile_Op<"ring.release", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Releases a stage by one consumer";
  let description = [{
    With `in`, releases the stage to the producer in that block of the cluster,
    which also fills this stage here. Consumers have completed their reads
    (products have been waited for) and have written nothing. The arrival
    therefore needs only the ordering of its block. A release at cluster scope
    would be a fence that waits for all memory accesses of the multiprocessor.

    Becomes `mbarrier.arrive.shared.b64` on the empty mbarrier; with `in`,
    `mapa.shared::cluster` and `mbarrier.arrive.release.cta.shared::cluster`.

    Example: `tile.ring.release %r[%j] : !tile.ring<6 x 32768>`
  }];
  let arguments = (ins Tile_Ring:$ring, I32:$use, Optional<I32>:$rank);
  let assemblyFormat = [{
    $ring `[` $use `]` (`in` `(` $rank^ `)`)? attr-dict
    `:` qualified(type($ring))
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$ring, "::mlir::Value":$use),
    [{ build($_builder, $_state, ring, use, ::mlir::Value()); }]>];
}

def Tile_CopyOp : Tile_Op<"copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Bulk copy of consecutive bytes into a stage";
  let description = [{
    Copies the bytes of the stage, or `bytes` of them from byte `at`. The source
    begins at element `offset` of the buffer, a multiple of 16 bytes. The full
    mbarrier counts the bytes when they arrive. With `piece`, these two numbers
    are values, which must be multiples of 16, too. All bytes with which the
    stage was acquired must be copied. With `multicast`, they are copied to the
    same place in every block of the cluster whose bit is set, and counted
    there.

    Becomes `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes`
    with `.L2::cache_hint` for a policy other than `normal` and
    `.multicast::cluster` for more than one block.

    Example:
    `tile.copy %w[%o] to %s evict_first : !tile.buffer<i8>, !tile.stage<32768>`
  }];
  let arguments = (ins
    Tile_Buffer:$source, I64:$offset, Tile_Stage:$stage,
    Variadic<I32>:$piece, OptionalAttr<I64Attr>:$at,
    OptionalAttr<I64Attr>:$bytes, OptionalAttr<I64Attr>:$multicast,
    Tile_CachePolicyAttr:$policy
  );
  let builders = [OpBuilder<(ins "::mlir::Value":$source,
    "::mlir::Value":$offset, "::mlir::Value":$stage,
    "::mlir::IntegerAttr":$at, "::mlir::IntegerAttr":$bytes,
    "::tile::CachePolicy":$policy),
    [{ build($_builder, $_state, source, offset, stage, ::mlir::ValueRange(),
             at, bytes, ::mlir::IntegerAttr(), policy); }]>];
  let assemblyFormat = [{
    $source `[` $offset `]` `to` $stage
    (`at` `(` $at^ `)` `bytes` `(` $bytes `)`)? (`piece` `(` $piece^ `)`)?
    (`multicast` `(` $multicast^ `)`)?
    custom<Keyword>($policy) attr-dict
    `:` qualified(type($source)) `,` qualified(type($stage))
  }];
  let hasVerifier = 1;
}

def Tile_PrefetchOp : Tile_Op<"prefetch", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Prefetch of consecutive bytes into L2";
  let description = [{
    Begins at element `offset` of the buffer, a multiple of 16 bytes. The size
    is `bytes`, or the value `length`, which are also multiples of 16 bytes.

    Becomes `cp.async.bulk.prefetch.L2.global`.

    Example: `tile.prefetch %w[%o] bytes(32768) : !tile.buffer<i8>`
  }];
  let arguments = (ins Tile_Buffer:$source, I64:$offset,
    OptionalAttr<I64Attr>:$bytes, Optional<I32>:$length);
  let builders = [OpBuilder<(ins "::mlir::Value":$source,
    "::mlir::Value":$offset, "int64_t":$bytes),
    [{ build($_builder, $_state, source, offset,
             $_builder.getI64IntegerAttr(bytes), ::mlir::Value()); }]>];
  let assemblyFormat = [{
    $source `[` $offset `]` (`bytes` `(` $bytes^ `)`)?
    (`length` `(` $length^ `)`)? attr-dict `:` qualified(type($source))
  }];
  let hasVerifier = 1;
}

def Tile_CopyTensorOp : Tile_Op<"copy_tensor", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Copy of a box of a tensor into a stage";
  let description = [{
    Copies the box at (column, row) of the tensor that the map describes, with
    the swizzle of the map. Elements outside of the tensor become zero.

    Becomes `cp.async.bulk.tensor.2d.shared::cluster.global.tile
    .mbarrier::complete_tx::bytes`.

    Example:
    `tile.copy_tensor %m[%c, %r] to %s normal : !tile.stage<7168>`
  }];
  let arguments = (ins
    Tile_TensorMap:$map, I32:$column, I32:$row, Tile_Stage:$stage,
    Tile_CachePolicyAttr:$policy
  );
  let assemblyFormat = [{
    $map `[` $column `,` $row `]` `to` $stage custom<Keyword>($policy) attr-dict
    `:` qualified(type($stage))
  }];
}

def Tile_StageBufferOp : Tile_Op<"stage_buffer", [Pure]> {
  let summary = "The bytes of a stage as a shared buffer";
  let description = [{
    Becomes the pointer of the stage.

    Example:
    `%b = tile.stage_buffer %s : !tile.stage<7168> -> !tile.buffer<i8, shared>`
  }];
  let arguments = (ins Tile_Stage:$stage);
  let results = (outs Tile_Buffer:$buffer);
  let assemblyFormat = [{
    $stage attr-dict `:` qualified(type($stage)) `->` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def Tile_ViewOp : Tile_Op<"view", [Pure]> {
  let summary = "Matrix operand at a byte offset of a stage";
  let description = [{
    The offset is a multiple of 1024.

    Becomes a matrix descriptor: `(1 << 62) | (64 << 32) | (1 << 16) |
    (address >> 4)`, 128-byte swizzle, 1024 bytes between groups of 8 rows.

    Example:
    `%a = tile.view %s[%o] : !tile.stage<32768>
       -> !tile.shared<64x128xf8E4M3FN, swizzle 128>`
  }];
  let arguments = (ins Tile_Stage:$stage, I32:$offset);
  let results = (outs Tile_Shared:$tile);
  let assemblyFormat = [{
    $stage `[` $offset `]` attr-dict
    `:` qualified(type($stage)) `->` qualified(type($tile))
  }];
  let hasVerifier = 1;
}

def Tile_ScratchOp : Tile_Op<"scratch", [MemoryEffects<[MemAlloc]>]> {
  let summary = "Static shared memory of a block";
  let description = [{
    Becomes a `.shared` variable of `count` elements.

    Example: `%s = tile.scratch 8 : !tile.buffer<f32, shared>`
  }];
  let arguments = (ins I64Attr:$count);
  let results = (outs Tile_Buffer:$buffer);
  let assemblyFormat = "$count attr-dict `:` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Tile_SharedBufferOp : Tile_Op<"shared_buffer", [Pure]> {
  let summary = "Dynamic shared memory from a byte offset on";
  let description = [{
    The offset is a multiple of 16 inside the `shared_bytes` of the kernel. The
    rings of a kernel are in the same memory.

    Becomes a pointer into the array for dynamic shared memory.

    Example: `%b = tile.shared_buffer at(1024) : !tile.buffer<bf16, shared>`
  }];
  let arguments = (ins I64Attr:$offset);
  let results = (outs Tile_Buffer:$buffer);
  let assemblyFormat =
      "`at` `(` $offset `)` attr-dict `:` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Tile_AsyncCopyOp : Tile_Op<"async_copy", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Asynchronous copy of 16 bytes by a thread";
  let description = [{
    Copies 16 bytes from element `offset` of a global buffer to element `index`
    of a shared one, past L1. Both places are multiples of 16 bytes. The copy
    belongs to the next group that the thread commits. With a condition that is
    false, nothing happens, and the places may be invalid. A condition is no
    branch, so that products around the copy can overlap it.

    Becomes `cp.async.cg.shared.global`, which every GPU since sm_80 has, with a
    predicate for a condition.

    Example:
    `tile.async_copy %w[%o] to %b[%i] if %p
       : !tile.buffer<bf16>, !tile.buffer<bf16, shared>`
  }];
  let arguments = (ins
    Tile_Buffer:$source, I64:$offset, Tile_Buffer:$target, I32:$index,
    Optional<I1>:$condition
  );
  let assemblyFormat = [{
    $source `[` $offset `]` `to` $target `[` $index `]` (`if` $condition^)?
    attr-dict `:` qualified(type($source)) `,` qualified(type($target))
  }];
  let hasVerifier = 1;
}

def Tile_AsyncCopyCommitOp : Tile_Op<"async_copy.commit", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Ends a group of asynchronous copies of a thread";
  let description = [{
    A group may be empty.

    Becomes `cp.async.commit_group`.

    Example: `tile.async_copy.commit`
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_AsyncCopyWaitOp : Tile_Op<"async_copy.wait", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until at most `pending` groups of copies are in flight";
  let description = [{
    The copies of older groups are visible to this thread afterwards, and after
    a barrier to the other threads of the block.

    Becomes `cp.async.wait_group`.

    Example: `tile.async_copy.wait 2`
  }];
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
  let hasVerifier = 1;
}

def Tile_LoadMatrixOp : Tile_Op<"load_matrix", [MemoryEffects<[MemRead]>]> {
  let summary = "Fragments of 8x8 matrices from shared memory";
  let description = [{
    Loads one, two or four matrices of eight rows of 16 bytes with a whole warp:
    8x8 16-bit elements, or 8x16 8-bit ones. Lane `8i + r` passes the element
    index of row r of matrix i, a multiple of 16 bytes; the lanes of matrices
    that do not exist pass any valid index. A thread gets four bytes of each
    matrix: lane l has the `l mod 4`-th four of row `l / 4`.

    Becomes `ldmatrix.sync.aligned.m8n8.x1.shared.b16`, or x2 or x4.

    Example:
    `%a = tile.load_matrix %b[%i]
       : !tile.buffer<bf16, shared> -> vector<8xbf16>`
  }];
  let arguments = (ins Tile_Buffer:$buffer, I32:$index);
  let results = (outs AnyVectorOfNonZeroRank:$fragments);
  let assemblyFormat = [{
    $buffer `[` $index `]` attr-dict
    `:` qualified(type($buffer)) `->` type($fragments)
  }];
  let hasVerifier = 1;
}

def Tile_LoadOp : Tile_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "Load of one element or a vector";
  let description = [{
    `index` counts elements of the buffer. A vector is aligned to its size.
    `early` keeps the position of the load: it is issued before all following
    ops, including barriers.

    Becomes `ld.global.v4.b32` for 16 bytes, `ld.volatile` when `early`.

    Example: `%v = tile.load %x[%i] : !tile.buffer<bf16> -> vector<8xbf16>`
  }];
  let arguments = (ins Tile_Buffer:$buffer, I32:$index, UnitAttr:$early);
  let results = (outs AnyType:$value);
  let assemblyFormat = [{
    (`early` $early^)? $buffer `[` $index `]` attr-dict
    `:` qualified(type($buffer)) `->` type($value)
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "Store of one element or a vector";
  let description = [{
    `index` counts elements of the buffer. A vector is aligned to its size.
    `polled` is for memory that other blocks poll in the same launch.

    Becomes `st.global.v4.b32` for 16 bytes, `st.volatile` when `polled`.

    Example: `tile.store %v, %y[%i] : vector<8xbf16>, !tile.buffer<bf16>`
  }];
  let arguments = (ins
    AnyType:$value, Tile_Buffer:$buffer, I32:$index, UnitAttr:$polled
  );
  let assemblyFormat = [{
    (`polled` $polled^)? $value `,` $buffer `[` $index `]` attr-dict
    `:` type($value) `,` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def Tile_CollectOp : Tile_Op<"collect", [
    SameVariadicOperandSize, MemoryEffects<[MemRead]>]> {
  let summary = "Waits for vectors that other blocks store";
  let description = [{
    Loads a vector of f32 at each index until all elements of the vectors with a
    true condition have the tag of this epoch in their lowest bit. Each vector
    has one writer, which stores it as `polled` and tagged (`tile.mark`) in
    every launch. Vectors with a false condition are not waited for, and their
    values are undefined. In the other vectors, the tag bit is replaced by 0.

    All loads are in flight at the same time. The op orders no other accesses,
    so it costs little: a release would wait for all accesses in flight to the
    multiprocessor.

    Becomes `ld.volatile.global` in a loop.

    Example:
    `%v:2 = tile.collect %p[%i, %j] if(%c, %d) epoch(%e)
       : !tile.buffer<f32> -> vector<2xf32>, vector<2xf32>`
  }];
  let arguments = (ins
    Tile_Buffer:$buffer, Variadic<I32>:$indices, Variadic<I1>:$conditions,
    I32:$epoch
  );
  let results = (outs Variadic<AnyVectorOfNonZeroRank>:$values);
  let assemblyFormat = [{
    $buffer `[` $indices `]` `if` `(` $conditions `)` `epoch` `(` $epoch `)`
    attr-dict `:` qualified(type($buffer)) `->` type($values)
  }];
  let hasVerifier = 1;
}

def Tile_FenceAsyncOp : Tile_Op<"fence_async", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Orders ordinary accesses with those of the copy engine";
  let description = [{
    If ordinary stores write global memory that a tensor copy reads, both sides
    need this op: before the release of the writer, and after the acquire of the
    reader. `shared` is for shared memory that a tensor store reads.

    Becomes `fence.proxy.async.global` or `fence.proxy.async.shared::cta`.

    Example: `tile.fence_async shared`
  }];
  let arguments = (ins UnitAttr:$shared);
  let assemblyFormat = "(`shared` $shared^)? attr-dict";
}

#endif // TILE_IR_TILEMEMORYOPS_TD
