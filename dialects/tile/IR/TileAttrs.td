//===- TileAttrs.td - Attributes of the tile dialect -------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILEATTRS_TD
#define TILE_IR_TILEATTRS_TD

include "tile/IR/TileDialect.td"
include "tile/IR/TilePlanAttrs.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Tile_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::tile";
  let genSpecializedAttr = 0;
}

class Tile_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<Tile_Dialect, info, mnemonic>;

def Tile_IdKindEnum : Tile_Enum<"IdKind", "which index of a thread", [
  I32EnumAttrCase<"Thread", 0, "thread">,
  I32EnumAttrCase<"Warp", 1, "warp">,
  I32EnumAttrCase<"Lane", 2, "lane">,
  I32EnumAttrCase<"Block", 3, "block">,
  I32EnumAttrCase<"ClusterRank", 4, "cluster_rank">
]>;

def Tile_CachePolicyEnum : Tile_Enum<"CachePolicy",
    "what L2 does with the lines that a copy reads", [
  I32EnumAttrCase<"Normal", 0, "normal">,
  I32EnumAttrCase<"EvictFirst", 1, "evict_first">,
  I32EnumAttrCase<"EvictLast", 2, "evict_last">
]>;

def Tile_DependencyEnum : Tile_Enum<"Dependency",
    "which side of a programmatic dependent launch", [
  I32EnumAttrCase<"Wait", 0, "wait">,
  I32EnumAttrCase<"Launch", 1, "launch">
]>;

def Tile_MemoryEnum : Tile_Enum<"Memory", "where a buffer lies", [
  I32EnumAttrCase<"Global", 0, "global">,
  I32EnumAttrCase<"Shared", 1, "shared">
]>;

def Tile_IdKindAttr : Tile_EnumAttr<Tile_IdKindEnum, "id_kind">;
def Tile_CachePolicyAttr : Tile_EnumAttr<Tile_CachePolicyEnum, "cache_policy">;
def Tile_DependencyAttr : Tile_EnumAttr<Tile_DependencyEnum, "dependency">;

def Tile_ScheduleAttr : AttrDef<Tile_Dialect, "Schedule"> {
  let mnemonic = "schedule";
  let summary = "schedule of a decode kernel";
  let description = [{
    Every choice that `convert-fuse-to-tile` makes for the decode kernel of a
    fused op. A kernel can therefore be reproduced, overridden and tuned from
    the text of the IR. The attribute is the discardable attribute
    `tile.schedule` of the fused op.

    GEMM1 is the gate and up projection, GEMM2 the product that ends the
    kernel. A k-step is 128 bytes of the reduction. Gains were measured on an
    H200 (docs/appendix/decode-experiments.md): single launches of a gated MLP
    with widths K/H and M tokens, unless stated otherwise.

    - `tokens`: width of the token tile, a multiple of 8 up to 256. The kernel
      serves any number of tokens up to it. More than 128 tokens require
      `gemm1_tile_m` = 128, so that the accumulators fit into registers.
    - `blocks`: grid size. All blocks must be resident at the same time.
    - `split_k`: number of K-slices of GEMM2.
    - `gemm1_tile_m`: weight rows of a GEMM1 tile: 256, 192 or 128. A gated MLP
      has two rows for each hidden unit. With 128, a weight stage is 16 KB and
      `gemm2_tile_m` is 128 too; smaller tiles occupy more blocks where the
      widths are small. With 192, a block has at most one tile, and a stage is
      16 KB as well: 128 rows of one k-step, the other 64 rows of two k-steps,
      and 128 rows of the next one. 192 requires `smem_epilogue` and `tokens`
      divisible by 16. With `swap_ab`, any multiple of 32 up to 256 is allowed.
      Gain of 192 at 3600/10256, M = 128: 6 % (FP8 47.4 to 44.5 us, bf16 77.8 to
      73.1 us); FP8, M = 16: 6 % (39.2 to 36.8 us).
    - `gemm2_tile_m`: weight rows of a GEMM2 tile: 256 or 128. A stage of 128
      rows holds two k-steps. Half the K-slices then keep the same number of
      blocks busy, which halves the partial sums and doubles the activations
      that a block reads.
    - `weight_stages`, `token_stages`: depth of the two pipelines. A weight
      stage is 32 KB, a token stage `tokens` x 128 bytes.
    - `max_in_flight`: upper bound of weight stages in flight; 0 means the depth
      of the pipeline. Deeper queues add latency to other loads and no
      bandwidth. Where few blocks have one GEMM1 tile more than the others,
      these blocks get twice the bound until their tile is done.
    - `straggler_in_flight`: the bound, larger than `max_in_flight`, for a block
      that trails the others by more than half a stage of a GEMM. Blocks count
      their stages on a semaphore. Memory bandwidth is not shared evenly, and
      all blocks wait for the slowest. 0 means `max_in_flight`. Requires the
      same number of GEMM1 stages in each block that has any. Gain at 4096/12288
      in bf16, M = 16: 1.8 % (81.8 to 80.3 us); at 2048/16384: 0.5 % (57.1 to
      56.8 us), in a chain 1.0 % (49.9 to 49.4 us).
    - `l2_prefetch_stages`: weight stages past a full pipeline that are
      prefetched into L2, so that HBM stays busy while blocks wait.
    - `publish_throttle_stages`: GEMM2 stages, after the first `max_in_flight`,
      that are requested with a lower bound. During them a block publishes its
      hidden units, and a release waits for all loads in flight to its SM.
      Requires `max_in_flight` > 1 and no `deferred_epilogue`, where another
      warp publishes. Gain at 2048/16384 in FP8, M = 50: 2.0 % (35.4 to
      34.7 us), in a chain 1.7 % (29.6 to 29.1 us).
    - `publish_in_flight`: that lower bound; 0 means `max_in_flight` - 1. Gain
      of 1 instead of 2 at 2048/5632 in bf16, M = 128: 3.4 % (32.3 to 31.2 us).
    - `reducers`: of the `split_k` blocks that share an output tile, how many
      add up the partial sums; 0 means all. The other blocks end once their
      partial sums are stored. With overlapping launches, blocks of the next
      launch start there early. Gain at 2048/16384 in FP8 in a chain of
      exclusive launches: 3.1 % with M = 50 (28.8 to 27.9 us), 1.5 % with M = 16
      (26.5 to 26.1 us). A single launch changes by at most 0.4 us.
    - `partials`: element type of the partial sums in the workspace, f32 or
      bf16. bf16 is a rounding that no contract names, so it requires
      `rounding(relaxed)`.
    - `tagged_partials`: the lowest bit of each partial sum tells whether it
      has been written, and reducers poll it. Otherwise they wait for arrivals
      with release semantics, which stall on the loads in flight. Above 32
      tokens, relaxed arrivals hint when to poll. Requires `partials` = f32.
    - `smem_epilogue`: hidden units are stored through shared memory, 16 bytes
      at a time, instead of a few bytes from each thread.
    - `deferred_epilogue`: each block that has a GEMM1 tile has two, and each
      K-slice has a part for the first tiles and one for the second ones. Gate
      and up of a tile stay in registers as bf16, to which the contract rounds
      them anyway, and are activated during the k-steps that follow. Requires
      `smem_epilogue`, `gemm1_tile_m` = 128, one more token stage, and at most
      192 tokens.
    - `swap_ab`: tokens are the left operand of GEMM1 and weights the right
      one. Each warpgroup has 64 tokens and all weight rows of the block, which
      reads less shared memory for each row. A stage is `gemm1_tile_m` x 128
      bytes, at least 16 KB, and `gemm2_tile_m` is 128 unless `gemm1_tile_m` is
      256. For 72 to 128 tokens, without `smem_epilogue` and
      `deferred_epilogue`.
    - `hint`: cache policy of the weight stream;
    - `dependent`: the weight stream may start under the tail of the previous
      kernel of the stream (programmatic dependent launch).

    Example:
    `#tile.schedule<tokens = 56, blocks = 128, split_k = 16, weight_stages = 6,
    token_stages = 4, max_in_flight = 2, partials = f32, hint = evict_first,
    dependent = true>`
  }];
  // The names are those of the text.
  let parameters = (ins
    "int64_t":$tokens,
    "int64_t":$blocks,
    "int64_t":$splitK,
    DefaultValuedParameter<"int64_t", "256">:$gemm1_tile_m,
    DefaultValuedParameter<"int64_t", "256">:$gemm2_tile_m,
    "int64_t":$weight_stages,
    "int64_t":$token_stages,
    "int64_t":$max_in_flight,
    DefaultValuedParameter<"int64_t", "0">:$stragglerInFlight,
    DefaultValuedParameter<"int64_t", "0">:$l2PrefetchStages,
    DefaultValuedParameter<"int64_t", "0">:$publishThrottleStages,
    DefaultValuedParameter<"int64_t", "0">:$publish_in_flight,
    DefaultValuedParameter<"int64_t", "0">:$reducers,
    "::mlir::Type":$partials,
    DefaultValuedParameter<"bool", "false">:$taggedPartials,
    DefaultValuedParameter<"bool", "false">:$smemEpilogue,
    DefaultValuedParameter<"bool", "false">:$deferredEpilogue,
    DefaultValuedParameter<"bool", "false">:$swapAB,
    EnumParameter<Tile_CachePolicyEnum>:$hint,
    "bool":$dependent
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes of a weight stage, and number of these bytes that GEMM1 uses.
    int64_t getWeightBytes() const {
      if (getSwapAB())
        return std::max<int64_t>(getGemm1TileM(), 128) * 128;
      return (getGemm1TileM() == 256 ? 256 : 128) * 128;
    }
    int64_t getGemm1Bytes() const {
      return getSwapAB() ? getGemm1TileM() * 128 : getWeightBytes();
    }
    /// Bytes of dynamic shared memory that the two rings use.
    int64_t getSharedBytes() const;
  }];
}

def Tile_PrefillScheduleAttr : AttrDef<Tile_Dialect, "PrefillSchedule"> {
  let mnemonic = "prefill_schedule";
  let summary = "schedule of prefill kernels";
  let description = [{
    The discardable attribute `tile.schedule` of a fused op whose products have
    tokens as their left operand. There is one kernel for the norm, and one for
    each GEMM or one for both. A GEMM tile is 128 tokens by 256 weight rows.

    - `tokens`: upper bound of the number of tokens.
    - `blocks`: grid size of the GEMMs, a multiple of `cluster`.
    - `split_k`: number of K-slices of GEMM2. The blocks of one output tile wait
      at a barrier, so that the grid must have a block for each unit.
    - `gemm2_tile_m`: weight rows of a GEMM2 tile, 256 or 128.
    - `stages`: depth of the pipelines. A stage is a k-step of a tile: 128 bytes
      for each token and each weight row.
    - `group`: token tiles (pairs of them with clusters) that share a weight
      tile before the next weight tile. Their activations and one wave of
      weights should fit into L2.
    - `cluster`: 1, or 2 for pairs of blocks with adjacent token tiles, each of
      which loads half of the weight tile for both.
    - `launches`: 2, one for each GEMM, or 1 for both. With 1, blocks wait for
      each other's hidden units, so that all must be resident, and
      `gemm2_tile_m` is 256.
    - `stream_k`: with `launches` = 1, the k-steps of both GEMMs are split
      evenly over the blocks. A CTA group has one CTA for each token tile; it
      has a k-interval of all weight tiles in sequence, and the CTA with the end
      of a tile adds up the partial sums. Where such groups leave too many
      blocks idle, a group is one CTA or cluster with a k-interval of all pairs
      of tiles. `split_k` is then the number of passes over the k-steps of a
      tile, rounded to a divisor of their number.
    - `uneven_split_k`: with `launches` = 1, K-slices are longer for blocks
      without an extra GEMM1 tile, and begin with hidden units that only such
      blocks compute.
    - `dependent`: kernels may start during the tail of the previous one
      (programmatic dependent launch).

    Example:
    `#tile.prefill_schedule<tokens = 512, blocks = 132, split_k = 4, stages = 4,
    group = 16, launches = 1, dependent = true>`
  }];
  let parameters = (ins
    "int64_t":$tokens,
    "int64_t":$blocks,
    "int64_t":$splitK,
    DefaultValuedParameter<"int64_t", "256">:$gemm2_tile_m,
    "int64_t":$stages,
    "int64_t":$group,
    DefaultValuedParameter<"int64_t", "1">:$cluster,
    DefaultValuedParameter<"int64_t", "2">:$launches,
    DefaultValuedParameter<"bool", "false">:$streamK,
    DefaultValuedParameter<"bool", "false">:$unevenSplitK,
    "bool":$dependent
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tile_MmaScheduleAttr : AttrDef<Tile_Dialect, "MmaSchedule"> {
  let mnemonic = "mma_schedule";
  let summary = "schedule of kernels with warp-level products";
  let description = [{
    The discardable attribute `tile.schedule` of a fused op for GPUs without
    kernels of their own. The kernels use `cp.async`, `ldmatrix` and `mma.sync`,
    which every GPU since sm_80 has. Weights are the left operand of both
    products and tokens the right one. A k-step is 128 bytes of the reduction.

    - `tokens`: upper bound of the number of tokens.
    - `token_tile`: tokens that a block multiplies at a time, a multiple of 8 up
      to 128.
    - `blocks`: grid size of the products. All blocks are resident.
    - `split_k`: number of K-slices of GEMM2, whose partial sums are added in
      the order of the slices.
    - `gemm1_tile_m`, `gemm2_tile_m`: weight rows of a tile of either product:
      64, 128, 192 or 256.
    - `stages`: depth of the pipeline. A stage is a k-step of the rows of a tile
      and of `token_tile` tokens.
    - `group`: token tiles that share a weight tile before the next weight tile
      follows (16 by default).
    - `launches`: 1 for norm and products in one launch, in which blocks wait
      for each other, or 3 for a launch of the norm and one of each product.
      With 1, `tokens` is at most `token_tile`.

    Example: `#tile.mma_schedule<tokens = 16, token_tile = 16, blocks = 128,
    split_k = 16, gemm1_tile_m = 256, gemm2_tile_m = 256, stages = 4,
    launches = 1>`
  }];
  let parameters = (ins
    "int64_t":$tokens,
    "int64_t":$token_tile,
    "int64_t":$blocks,
    "int64_t":$splitK,
    "int64_t":$gemm1_tile_m,
    "int64_t":$gemm2_tile_m,
    "int64_t":$stages,
    "int64_t":$group,
    "int64_t":$launches
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes of dynamic shared memory that the pipeline uses.
    int64_t getSharedBytes() const {
      return getStages() * (std::max(getGemm1TileM(), getGemm2TileM()) +
                            getTokenTile()) * 128;
    }
  }];
}

def Tile_RowScheduleAttr : AttrDef<Tile_Dialect, "RowSchedule"> {
  let mnemonic = "row_schedule";
  let summary = "schedule of a kernel that takes token rows one by one";
  let description = [{
    The discardable attribute `tile.schedule` of `fuse.norm_quantize` and
    `fuse.act_quantize`: `blocks` blocks of `threads` threads iterate over the
    rows. Several blocks per multiprocessor hide the latency of each other.

    Example: `#tile.row_schedule<blocks = 1056, threads = 256>`
  }];
  let parameters = (ins "int64_t":$blocks, "int64_t":$threads);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tile_DispatchAttr : AttrDef<Tile_Dialect, "Dispatch"> {
  let mnemonic = "dispatch";
  let summary = "schedules for ranges of the number of tokens";
  let description = [{
    The discardable attribute `tile.schedule` of a fused op with a dynamic
    number of tokens and several sets of kernels. A range ends at its bound and
    begins after the previous bound. The first range begins at 0 tokens, so
    ranges have neither gaps nor overlaps. The last bound is the maximum number
    of tokens of the op. A schedule supports at least as many tokens as its
    range has.

    Example: `#tile.dispatch<8 : #tile.schedule<tokens = 8, blocks = 128,
    split_k = 8, weight_stages = 6, token_stages = 8, max_in_flight = 2,
    partials = f32, hint = evict_first, dependent = true>, 512 :
    #tile.prefill_schedule<tokens = 512, blocks = 132, split_k = 4, stages = 4,
    group = 16, dependent = true>>`
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$bounds,
    ArrayRefParameter<"::mlir::Attribute">:$schedules
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // TILE_IR_TILEATTRS_TD
