//===- TileComputeOps.td - Products, epilogues, reductions -*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILECOMPUTEOPS_TD
#define TILE_IR_TILECOMPUTEOPS_TD

include "tile/IR/TileMemoryOps.td"

def Tile_AccZeroOp : Tile_Op<"acc.zero", [Pure]> {
  let summary = "An accumulator of zeros";
  let description = [{
    Becomes zeros in registers.

    Example: `%z = tile.acc.zero : !tile.acc<64x56xf32>`
  }];
  let results = (outs Tile_Acc:$acc);
  let assemblyFormat = "attr-dict `:` qualified(type($acc))";
}

def Tile_AccFenceOp : Tile_Op<"acc.fence", [
    AllTypesMatch<["accs", "results"]>]> {
  let summary = "Orders register writes before the following products";
  let description = [{
    Becomes `wgmma.fence.sync.aligned` as inline assembly with every register
    tied in and out, so that LLVM cannot sink the initialization of an
    accumulator below it.

    Example:
    `%f:2 = tile.acc.fence %a, %b : !tile.acc<64x56xf32>, !tile.acc<64x56xf32>`
  }];
  let arguments = (ins Variadic<Tile_Acc>:$accs);
  let results = (outs Variadic<Tile_Acc>:$results);
  let assemblyFormat = "$accs attr-dict `:` qualified(type($accs))";
}

def Tile_MmaOp : Tile_Op<"mma", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "Accumulates a matrix product, asynchronously";
  let description = [{
    `result[m, n] = acc[m, n] + sum_k lhs[m, k] * rhs[n, k]` over the 128 bytes
    of K. The result must not be accessed before a wait, except by further
    products.

    Becomes four `wgmma.mma_async.sync.aligned.m64nNk32.f32.e4m3.e4m3`
    (`m64nNk16.f32.bf16.bf16`), 32 bytes of K each.

    Example:
    `%r = tile.mma %a, %b into %acc
       : !tile.shared<64x128xf8E4M3FN, swizzle 128>,
         !tile.shared<56x128xf8E4M3FN, swizzle 128>, !tile.acc<64x56xf32>`
  }];
  let arguments = (ins Tile_Shared:$lhs, Tile_Shared:$rhs, Tile_Acc:$acc);
  let results = (outs Tile_Acc:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `into` $acc attr-dict
    `:` qualified(type($lhs)) `,` qualified(type($rhs)) `,`
    qualified(type($acc))
  }];
  let hasVerifier = 1;
}

def Tile_MmaCommitOp : Tile_Op<"mma.commit", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Ends a group of products";
  let description = [{
    Becomes `wgmma.commit_group.sync.aligned`.

    Example: `tile.mma.commit`
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_MmaWaitOp : Tile_Op<"mma.wait", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until at most `pending` groups are in flight";
  let description = [{
    After it, the operands of the older groups have been read, so that their
    stages can be released. It does not give access to accumulators; `acc.wait`
    does.

    Becomes `wgmma.wait_group.sync.aligned`.

    Example: `tile.mma.wait 1`
  }];
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
  let hasVerifier = 1;
}

def Tile_MmaSyncOp : Tile_Op<"mma_sync", [
    Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "Accumulates a matrix product of fragments";
  let description = [{
    Warp w of a warpgroup multiplies rows 16w to 16w + 15 of a matrix of 64 rows
    and 32 bytes of columns by the transposed rows of the right operands. `lhs`
    are the four matrices of these rows: both halves of rows of the first 16
    bytes, then of the others. A right operand has eight rows in two matrices,
    the first 16 bytes and the others, or sixteen rows in four. Together they
    have a row for each column of the accumulator.

    Becomes `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32`, or of f16, or
    `m16n8k32` of e4m3, for every eight columns. Some chips have no products of
    8-bit floats: each is two of f16, which holds these values.

    Example:
    `%r = tile.mma_sync %a, (%b, %c) into %acc
       : vector<8xbf16>, (vector<8xbf16>, vector<4xbf16>), !tile.acc<64x24xf32>`
  }];
  let arguments = (ins
    AnyVectorOfNonZeroRank:$lhs, Variadic<AnyVectorOfNonZeroRank>:$rhs,
    Tile_Acc:$acc
  );
  let results = (outs Tile_Acc:$result);
  let assemblyFormat = [{
    $lhs `,` `(` $rhs `)` `into` $acc attr-dict
    `:` type($lhs) `,` `(` type($rhs) `)` `,` qualified(type($acc))
  }];
  let hasVerifier = 1;
}

def Tile_AccWaitOp : Tile_Op<"acc.wait", [
    AllTypesMatch<["accs", "results"]>]> {
  let summary = "Waits for all products and gives access to accumulators";
  let description = [{
    Becomes `wgmma.wait_group.sync.aligned 0` as inline assembly with every
    register tied in and out. Otherwise, epilogue math would not depend on the
    wait and LLVM could move it up.

    Example: `%d = tile.acc.wait %a : !tile.acc<64x56xf32>`
  }];
  let arguments = (ins Variadic<Tile_Acc>:$accs);
  let results = (outs Variadic<Tile_Acc>:$results);
  let assemblyFormat = "$accs attr-dict `:` qualified(type($accs))";
}

def Tile_AccValuesOp : Tile_Op<"acc.values", [Pure]> {
  let summary = "The values of an accumulator that a thread holds";
  let description = [{
    In the order of the registers: value `4g + 2h + b` is column
    `8g + 2 (l mod 4) + b` of row `16w + l / 4 + 8h`, for warp w and lane l.

    Becomes the registers.

    Example: `%v:4 = tile.acc.values %a : !tile.acc<64x8xf32>`
  }];
  let arguments = (ins Tile_Acc:$acc);
  let results = (outs Variadic<F32>:$values);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_ReduceOp : Tile_Op<"reduce", [
    AllTypesMatch<["value", "result"]>, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Sum over the threads of a range of warps, in a fixed order";
  let description = [{
    Every thread of the warps gets the sum, or with `max` the largest value.
    Butterflies add the values of a warp. The sums of the warps are then added
    in order, through a shared scratch buffer with one element per warp. All
    threads of the warps participate, on the named barrier.

    Becomes `shfl.sync.bfly.b32`, `st.shared`, `bar.sync`, `ld.shared`.

    Example:
    `%s = tile.reduce %v scratch(%b) warps(4 to 12) barrier(1)
       : f32, !tile.buffer<f32, shared>`
  }];
  let arguments = (ins
    F32:$value, Tile_Buffer:$scratch, I64Attr:$first, I64Attr:$last,
    I64Attr:$barrier, UnitAttr:$max
  );
  let results = (outs F32:$result);
  let assemblyFormat = [{
    (`max` $max^)? $value `scratch` `(` $scratch `)`
    `warps` `(` $first `to` $last `)` `barrier` `(` $barrier `)` attr-dict
    `:` type($value) `,` qualified(type($scratch))
  }];
  let hasVerifier = 1;
}

def Tile_LaneMaxOp : Tile_Op<"lane_max", [
    AllTypesMatch<["value", "result"]>, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Largest value of lanes whose numbers differ in some bits";
  let description = [{
    Every lane gets the maximum over the lanes that differ from it only in the
    bits of `lanes`, from 1 to 31. If one of the values is NaN, so is the
    result. All lanes of the warp participate.

    Becomes a `shfl.sync.bfly.b32` and a `max.NaN.f32` for each bit.

    Example: `%m = tile.lane_max %v lanes(28)`
  }];
  let arguments = (ins F32:$value, I64Attr:$lanes);
  let results = (outs F32:$result);
  let assemblyFormat = "$value `lanes` `(` $lanes `)` attr-dict";
  let hasVerifier = 1;
}

def Tile_PackOp : Tile_Op<"pack", [Pure]> {
  let summary = "Rounds f32 values into a vector of a narrow type";
  let description = [{
    Rounds to nearest even. 8-bit floats saturate at the largest finite value;
    f32 values do not change.

    Becomes `cvt.rn.bf16x2.f32`, `cvt.rn.f16x2.f32`,
    `cvt.rn.satfinite.e4m3x2.f32` or `cvt.rn.satfinite.e5m2x2.f32`.

    Example: `%v = tile.pack %a, %b : vector<2xf8E4M3FN>`
  }];
  let arguments = (ins Variadic<F32>:$values);
  let results = (outs AnyVectorOfNonZeroRank:$vector);
  let assemblyFormat = "$values attr-dict `:` type($vector)";
  let hasVerifier = 1;
}

def Tile_MarkOp : Tile_Op<"mark", [
    Pure, AllTypesMatch<["vector", "result"]>]> {
  let summary = "Tags f32 values with the launch epoch";
  let description = [{
    The lowest bit of each value becomes 1 in an even epoch and 0 in an odd one.
    `tile.collect` can therefore distinguish the values of this launch from
    those of the previous launch, and from zeros before the first. The relative
    change of a value is less than 2^-23.

    Becomes an `and` and an `or` for each value.

    Example: `%m = tile.mark %v epoch(%e) : vector<2xf32>`
  }];
  let arguments = (ins AnyVectorOfNonZeroRank:$vector, I32:$epoch);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let assemblyFormat =
      "$vector `epoch` `(` $epoch `)` attr-dict `:` type($vector)";
  let hasVerifier = 1;
}

def Tile_UnpackOp : Tile_Op<"unpack", [Pure]> {
  let summary = "Values of a vector of bf16, f16 or f32 as f32";
  let description = [{
    Exact. Becomes a shift or a mask for each bf16, a conversion for each f16.

    Example: `%v:2 = tile.unpack %p : vector<2xbf16>`
  }];
  let arguments = (ins AnyVectorOfNonZeroRank:$vector);
  let results = (outs Variadic<F32>:$values);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Upper bound: a thread cannot hold more registers.
    static constexpr int64_t kMostElements = 256;
  }];
}

class Tile_ApproximateOp<string mnemonic, string what, string instruction>
    : Tile_Op<mnemonic, [Pure]> {
  let summary = what;
  let description = "Subnormal numbers are treated as zero.\n\n    Becomes `" #
    instruction # "`.\n\n    Example: `%y = tile." # mnemonic # " %x`\n  ";
  let arguments = (ins F32:$value);
  let results = (outs F32:$result);
  let assemblyFormat = "$value attr-dict";
}

def Tile_Exp2Op : Tile_ApproximateOp<"exp2", "Power of two to 2 ulp",
    "ex2.approx.ftz.f32">;

def Tile_ReciprocalOp : Tile_ApproximateOp<"reciprocal", "1 / x to 1 ulp",
    "rcp.approx.ftz.f32">;

#endif // TILE_IR_TILECOMPUTEOPS_TD
