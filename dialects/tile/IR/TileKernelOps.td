//===- TileKernelOps.td - Kernels, roles, grid -------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILEKERNELOPS_TD
#define TILE_IR_TILEKERNELOPS_TD

include "tile/IR/TileTypes.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tile_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tile_Dialect, mnemonic, traits>;

def Tile_KernelOp : Tile_Op<"kernel", [
    FunctionOpInterface, IsolatedFromAbove, SingleBlock]> {
  let summary = "One kernel with its grid, threads and shared memory";
  let description = [{
    Must be in a `gpu.module`. `blocks` and `threads` are the launch shape, and
    `shared_bytes` is the dynamic shared memory for rings. `cooperative` means
    that all blocks must be resident at the same time. `cluster(n)` forms
    clusters of n adjacent blocks. Arguments are buffers, tensor maps, i32 and
    f32.

    Becomes `.entry` with `.reqntid threads` and `.minnctapersm 1`, a cluster
    `.explicitcluster` and `.reqnctapercluster n`; a tensor map becomes
    `.param .align 64 .b8 [128]`.

    Example:

    ```mlir
    tile.kernel @copy(%x: !tile.buffer<f32>, %n: i32)
        blocks(132) threads(384) shared_bytes(0) {
      tile.return
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    TypeAttrOf<FunctionType>:$function_type,
    OptionalAttr<DictArrayAttr>:$arg_attrs,
    OptionalAttr<DictArrayAttr>:$res_attrs,
    I64Attr:$blocks,
    I64Attr:$threads,
    I64Attr:$shared_bytes,
    UnitAttr:$cooperative,
    DefaultValuedAttr<I64Attr, "1">:$cluster
  );
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Tile_ReturnOp : Tile_Op<"return", [
    Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "End of a kernel";
  let description = [{
    Becomes `ret`.

    Example: `tile.return`
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_IdOp : Tile_Op<"id", [Pure]> {
  let summary = "Index of the executing thread, its warp, lane or block";
  let description = [{
    `thread` is `%tid.x`, `block` is `%ctaid.x`, `lane` is `thread mod 32`, and
    `cluster_rank` is `%cluster_ctarank`, the index of a block in its cluster.
    `warp` is `thread / 32`, made uniform with `shfl.sync.idx` so that branches
    on it do not diverge.

    Example: `%t = tile.id thread`
  }];
  let arguments = (ins Tile_IdKindAttr:$kind);
  let results = (outs I32:$index);
  let assemblyFormat = "custom<Keyword>($kind) attr-dict";
}

def Tile_SpecializeOp : Tile_Op<"specialize", [
    NoTerminator, RecursiveMemoryEffects]> {
  let summary = "Warps of a block in different roles";
  let description = [{
    Role i runs on the warps from the end of role i - 1 (warp 0 for the first)
    to `ends[i]`, which is not included. Roles with `registers` begin and end at
    a multiple of four warps, and release or allocate registers on entry.

    Becomes one chain of branches on the warp index. `registers(40)` becomes
    `setmaxnreg.dec.sync.aligned.u32 40`, or `inc` if it is more than the
    initial 65536 / threads registers of a thread.

    Example:

    ```mlir
    tile.specialize {
      role "copy" warps(4) registers(40) {
      }
      role "multiply" warps(8) registers(232) {
      }
    }
    ```
  }];
  let arguments = (ins
    StrArrayAttr:$names,
    DenseI64ArrayAttr:$warps,
    DenseI64ArrayAttr:$registers
  );
  let regions = (region VariadicRegion<SizedRegion<1>>:$roles);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_BarrierOp : Tile_Op<"barrier", [MemoryEffects<[MemWrite]>]> {
  let summary = "Barrier among threads of a block";
  let description = [{
    Waits until `threads` threads of the block have reached barrier `id`.
    Without `threads`, all threads of the block on barrier 0.

    Becomes `bar.sync id, threads` (`barrier.sync` in newer PTX).

    Example: `tile.barrier 1 threads(256)`
  }];
  let arguments = (ins I64Attr:$id, OptionalAttr<I64Attr>:$threads);
  let assemblyFormat = "$id (`threads` `(` $threads^ `)`)? attr-dict";
  let hasVerifier = 1;
}

def Tile_BarrierArriveOp : Tile_Op<"barrier.arrive", [
    MemoryEffects<[MemWrite]>]> {
  let summary = "Arrival at a barrier among threads of a block, without a wait";
  let description = [{
    Arrives at barrier `id` like a `tile.barrier`, but does not wait. Earlier
    writes of the thread are visible to the threads that wait there.

    Becomes `bar.arrive id, threads`.

    Example: `tile.barrier.arrive 2 threads(288)`
  }];
  let arguments = (ins I64Attr:$id, I64Attr:$threads);
  let assemblyFormat = "$id `threads` `(` $threads `)` attr-dict";
  let hasVerifier = 1;
}

def Tile_ClusterBarrierOp : Tile_Op<"cluster_barrier", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Barrier among all threads of a cluster";
  let description = [{
    Earlier writes of a thread to shared memory are visible to the blocks of its
    cluster afterwards. Blocks whose shared memory other blocks access must end
    with this op.

    Becomes `barrier.cluster.arrive.aligned` and `barrier.cluster.wait.aligned`.

    Example: `tile.cluster_barrier`
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_WarpSyncOp : Tile_Op<"warp_sync", [MemoryEffects<[MemWrite]>]> {
  let summary = "Barrier among the threads of a warp";
  let description = [{
    Becomes `bar.warp.sync -1`.

    Example: `tile.warp_sync`
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_GridDependencyOp : Tile_Op<"grid_dependency", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "The two sides of a programmatic dependent launch";
  let description = [{
    `launch` lets the next kernel of the stream start. `wait` waits until the
    previous kernel has ended and its writes are visible. Without the launch
    attribute, neither has an effect.

    Becomes `griddepcontrol.launch_dependents`, `griddepcontrol.wait`.

    Example: `tile.grid_dependency wait`
  }];
  let arguments = (ins Tile_DependencyAttr:$side);
  let assemblyFormat = "custom<Keyword>($side) attr-dict";
}

def Tile_EpochOp : Tile_Op<"epoch", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Number of previous launches";
  let description = [{
    Draws a ticket from a 64-bit counter. In a launch, exactly one thread of
    each of `blocks` blocks must do so. ticket / blocks is then the number of
    previous launches, which is the same in every block.

    Becomes `atom.global.add.u64` and a division.

    Example: `%e = tile.epoch %semaphores blocks(128) : !tile.buffer<i32>`
  }];
  let arguments = (ins Tile_Buffer:$semaphores, I64Attr:$blocks);
  let results = (outs I32:$epoch);
  let assemblyFormat = [{
    $semaphores `blocks` `(` $blocks `)` attr-dict `:`
    qualified(type($semaphores))
  }];
  let hasVerifier = 1;
}

def Tile_SemaphoreOp : Tile_Op<"semaphore", [Pure]> {
  let summary = "The i-th semaphore of a buffer of semaphores";
  let description = [{
    Semaphores are 128 bytes apart. Line 0 is for the ticket of `tile.epoch`,
    and semaphore i is in line i + 1.

    Example: `%w = tile.semaphore %semaphores[%i] : !tile.buffer<i32>`
  }];
  let arguments = (ins Tile_Buffer:$semaphores, I32:$index);
  let results = (outs Tile_Semaphore:$semaphore);
  let assemblyFormat = [{
    $semaphores `[` $index `]` attr-dict `:` qualified(type($semaphores))
  }];
  let hasVerifier = 1;
}

def Tile_SemaphoreArriveOp : Tile_Op<"semaphore.arrive", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Adds one arrival to a semaphore";
  let description = [{
    Earlier writes of the thread are visible to every thread that observes the
    arrival. A `relaxed` arrival orders no other access and does not wait for
    accesses in flight. It is for semaphores that are only a hint when to begin.

    Becomes `red.release.gpu.global.add.u32`, or `red.relaxed...`, as inline
    PTX: LLVM 22 drops the ordering of `atomicrmw` on this target.

    Example: `tile.semaphore.arrive %w`
  }];
  let arguments = (ins Tile_Semaphore:$semaphore, UnitAttr:$relaxed);
  let assemblyFormat = "$semaphore attr-dict";
}

def Tile_SemaphoreCountOp : Tile_Op<"semaphore.count", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Adds one arrival to a semaphore and returns the old count";
  let description = [{
    The arrival is relaxed, and no thread waits for it: the count shows the
    progress of other blocks. It has 64 bits and cannot overflow. Other ops must
    not use this semaphore.

    Becomes `atom.relaxed.gpu.global.add.u64`.

    Example: `%n = tile.semaphore.count %w`
  }];
  let arguments = (ins Tile_Semaphore:$semaphore);
  let results = (outs I64:$count);
  let assemblyFormat = "$semaphore attr-dict";
}

def Tile_SemaphoreWaitOp : Tile_Op<"semaphore.wait", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until a semaphore is complete";
  let description = [{
    Waits until the semaphore has reached `(epoch + 1) * arrivals`, compared
    modulo 2^32. A `relaxed` wait orders no other access. It is for semaphores
    that are only a hint when to begin.

    Becomes a loop around `ld.acquire.gpu.global.b32`, or `ld.relaxed...`.

    Example: `tile.semaphore.wait %w epoch(%e) arrivals(%n)`
  }];
  let arguments = (ins
    Tile_Semaphore:$semaphore, I32:$epoch, I32:$arrivals, UnitAttr:$relaxed
  );
  let assemblyFormat = [{
    $semaphore `epoch` `(` $epoch `)` `arrivals` `(` $arrivals `)` attr-dict
  }];
}

def Tile_SemaphoreMeetOp : Tile_Op<"semaphore.meet", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Arrives at a barrier on a semaphore, and waits for the others";
  let description = [{
    A reusable barrier of `arrivals` threads; each thread arrives at most once
    per round. Unlike `tile.semaphore.wait` it needs no epoch, so that a launch
    may skip a semaphore. The waiter is always an arriver. The semaphore counts
    in 64 bits, and other ops must not use it.

    Becomes `atom.acq_rel.gpu.global.add.u64` and a loop around
    `ld.acquire.gpu.global.b64`.

    Example: `tile.semaphore.meet %w arrivals(4)`
  }];
  let arguments = (ins Tile_Semaphore:$semaphore, I64Attr:$arrivals);
  let assemblyFormat = "$semaphore `arrivals` `(` $arrivals `)` attr-dict";
  let hasVerifier = 1;
}

#endif // TILE_IR_TILEKERNELOPS_TD
