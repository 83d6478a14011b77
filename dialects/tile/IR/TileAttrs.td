//===- TileAttrs.td - Attributes of the tile dialect -------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILEATTRS_TD
#define TILE_IR_TILEATTRS_TD

include "TileDialect.td"
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
    Every choice that `convert-fuse-to-tile` makes when it emits the decode
    kernel of a fused op, so that a kernel can be reproduced, overridden and
    tuned from the text of the IR. It is the discardable attribute
    `tile.schedule` of the fused op and belongs to this dialect because it
    speaks of stages, blocks and caches, which the fuse dialect does not know.

    - `tokens`: width of the token tile, a multiple of 8 up to 256. The kernel
      serves any number of tokens up to it. More than 128 take `first_rows` =
      128, so that the accumulators of a block fit into its registers;
    - `blocks`: grid size; every block must be resident at the same time;
    - `split`: into how many ranges the reduction of the last product is cut;
    - `first_rows`: weight rows of the first product that a block takes at a
      time, 256, 192 or 128, of which a gated MLP has two for each hidden unit.
      With 128, stages are 16 KB, a k-step each, and `rows` is 128 too: more and
      smaller units, for widths whose tiles of 256 do not occupy all blocks.
      With 192, of which each block has at most one tile, stages are 16 KB too:
      128 rows of a k-step, the 64 others of it and of the next one, and 128
      rows of that. Each warpgroup takes 64 rows, and 64 more for half of the
      tokens. Needs `staged`, a multiple of 16 `tokens` and `launches` = 1.
      With `swapped`, any multiple of 32 up to 256;
    - `rows`: outputs of the last product that a block computes, 256 or 128. A
      stage of 128 rows holds two k-steps: half as many ranges keep as many
      blocks busy, which halves the partial sums and doubles the tokens that a
      block reads;
    - `weight_stages`, `token_stages`: depth of the two rings. A weight stage
      is 32 KB, a token stage `tokens` x 128 bytes;
    - `in_flight`: weight stages requested but not landed, at most; 0 means as
      many as the ring has. Deeper queues add latency for everyone else's
      loads and no bandwidth. Where few blocks have a tile of the first
      product more than the others, these have twice as many until they are
      done with it;
    - `behind`: so many, more than `in_flight`, while a block is behind the
      others by more than half a stage of a product. Blocks count their stages
      on a word. What memory brings is not shared evenly, and everybody waits
      for those that get least. 0 means `in_flight`. Needs as many stages of
      the first product in each block that has any;
    - `ahead`: while the ring of weights is full, up to so many stages behind
      it are fetched into L2, so that device memory stays busy while blocks
      wait for each other;
    - `settle`: so many stages of the last product, behind the first
      `in_flight`, are requested with one less in flight. A block releases its
      hidden units then, and a release waits for what is on its way to its
      multiprocessor. Needs `in_flight` > 1 and `launches` = 1, and is not for
      `deferred`, where another warp releases them;
    - `settle_to`: so many in flight for these, fewer than `in_flight`; 0 means
      one less;
    - `adders`: of the blocks that share an output tile, one for each range of
      its reduction, so many add up the partial sums; 0 means all. The others
      end when they have stored theirs. Where launches overlap, blocks of the
      next one begin there and request weights while this one adds up. Those
      that end early lie evenly among their neighbours. At most `split`;
    - `partials`: element type of the split sums in the workspace, f32 or
      bf16. bf16 is a rounding that no contract names, so only kernels of
      `rounding(relaxed)` may use it;
    - `polled`: a block finds the partial sums of others by looking at the mark
      in the lowest bit of each, instead of waiting for arrivals that release
      them. A release waits for all that is on its way to its multiprocessor.
      With more than 32 tokens, relaxed arrivals tell when to look. Needs
      `partials` = f32;
    - `staged`: hidden units leave through shared memory, 16 bytes at a time,
      instead of a few bytes from each thread;
    - `deferred`: the first product is cut into two tiles for each block that
      has any, and every range of the last product into what the first tiles
      feed and what the second ones do. Gate and up of a tile wait as bf16,
      which the contract rounds them to anyway, and are activated during the
      first k-steps of what follows: the block's second tile, and the first part
      of its range. Needs `staged`, `first_rows` = 128 and room of one more
      token stage, for at most 192 tokens;
    - `swapped`: tokens are the left operand of the first product and weights
      the right one. Each warpgroup has 64 tokens and all rows of the block, so
      that less passes through shared memory for each row, and `first_rows` may
      be what gives all blocks the same. A stage is `first_rows` x 128 bytes, at
      least 16 KB, and `rows` is 128 where `first_rows` is not 256. For 72 to
      128 tokens and `launches` = 1, neither `staged` nor `deferred`;
    - `hint`: cache policy of the weight stream;
    - `launches`: 1, or 2 for one launch for each product; the second waits
      for the first where it needs the hidden layer;
    - `dependent`: the weight stream may start under the tail of the previous
      kernel of the stream (programmatic dependent launch).

    Example:
    `#tile.schedule<tokens = 56, blocks = 128, split = 16, weight_stages = 6,
    token_stages = 4, in_flight = 2, partials = f32, hint = evict_first,
    dependent = true>`
  }];
  // The names are those of the text.
  let parameters = (ins
    "int64_t":$tokens,
    "int64_t":$blocks,
    "int64_t":$split,
    DefaultValuedParameter<"int64_t", "256">:$first_rows,
    DefaultValuedParameter<"int64_t", "256">:$rows,
    "int64_t":$weight_stages,
    "int64_t":$token_stages,
    "int64_t":$in_flight,
    DefaultValuedParameter<"int64_t", "0">:$behind,
    DefaultValuedParameter<"int64_t", "0">:$ahead,
    DefaultValuedParameter<"int64_t", "0">:$settle,
    DefaultValuedParameter<"int64_t", "0">:$settle_to,
    DefaultValuedParameter<"int64_t", "0">:$adders,
    "::mlir::Type":$partials,
    DefaultValuedParameter<"bool", "false">:$polled,
    DefaultValuedParameter<"bool", "false">:$staged,
    DefaultValuedParameter<"bool", "false">:$deferred,
    DefaultValuedParameter<"bool", "false">:$swapped,
    EnumParameter<Tile_CachePolicyEnum>:$hint,
    "bool":$dependent,
    DefaultValuedParameter<"int64_t", "1">:$launches
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes of a stage of weights, and how many of them the first product
    /// fills.
    int64_t getWeightBytes() const {
      if (getSwapped())
        return std::max<int64_t>(getFirstRows(), 128) * 128;
      return (getFirstRows() == 256 ? 256 : 128) * 128;
    }
    int64_t getFirstBytes() const {
      return getSwapped() ? getFirstRows() * 128 : getWeightBytes();
    }
    /// Bytes of dynamic shared memory that the two rings take.
    int64_t getSharedBytes() const;
  }];
}

def Tile_PrefillScheduleAttr : AttrDef<Tile_Dialect, "PrefillSchedule"> {
  let mnemonic = "prefill_schedule";
  let summary = "schedule of kernels for many tokens";
  let description = [{
    The discardable attribute `tile.schedule` of a fused op whose tokens are
    the left operand of its products: a kernel for the norm, and one for each
    product or one for both. A tile of a product is 128 tokens by 256 packed
    rows.

    - `tokens`: most tokens that the kernels serve;
    - `blocks`: grid size of the products, a multiple of `cluster`;
    - `split`: into how many ranges the reduction of the last product is cut.
      With more than one, the ranges of a tile meet, so that there may be no
      more of them than blocks;
    - `rows`: packed rows in a tile of the last product, 256 or 128;
    - `stages`: depth of the rings. A stage is a k-step of a tile, 128 bytes
      for each token and each packed row;
    - `group`: token tiles, or pairs of them with clusters, that go with a tile
      of weights before the next tile of weights; their tokens and a wave of
      weights should fit into L2;
    - `cluster`: 1, or 2 for pairs of blocks with neighbouring token tiles that
      each fetch half of a tile of weights for both;
    - `launches`: 2, one for each product, or 1 for both. Then blocks wait for
      each other's hidden units, so that all of them have to be resident, and
      both products have tiles of 256 rows;
    - `even`: with `launches = 1`, the last product is dealt out so that all
      blocks have the same number of k-steps of both products together. For
      each token tile there are as many blocks as there are teams of one block
      for each; a team has a stretch of the k-steps of all tiles of weights,
      one after the other, and the block with the end of a tile adds up the
      sums of the others. Where such teams would leave too many blocks over, a
      team is one block or cluster, and has a stretch of the k-steps of all
      pairs of tiles. `split` is then in how many passes k-steps of a tile
      are gone through (the next smaller divisor of their number);
    - `unequal`: with `launches = 1`, ranges whose blocks have a tile less of
      the first product are longer, and begin with what only such blocks have
      computed;
    - `dependent`: kernels may start under the tail of the one before
      (programmatic dependent launch).

    Example:
    `#tile.prefill_schedule<tokens = 512, blocks = 132, split = 4, stages = 4,
    group = 16, launches = 1, dependent = true>`
  }];
  let parameters = (ins
    "int64_t":$tokens,
    "int64_t":$blocks,
    "int64_t":$split,
    DefaultValuedParameter<"int64_t", "256">:$rows,
    "int64_t":$stages,
    "int64_t":$group,
    DefaultValuedParameter<"int64_t", "1">:$cluster,
    DefaultValuedParameter<"int64_t", "2">:$launches,
    DefaultValuedParameter<"bool", "false">:$even,
    DefaultValuedParameter<"bool", "false">:$unequal,
    "bool":$dependent
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tile_RowScheduleAttr : AttrDef<Tile_Dialect, "RowSchedule"> {
  let mnemonic = "row_schedule";
  let summary = "schedule of a kernel that takes token rows one by one";
  let description = [{
    The discardable attribute `tile.schedule` of `fuse.norm_quantize` and
    `fuse.act_quantize`: `blocks` of `threads` go round the rows. Several
    blocks of a multiprocessor hide each other's waits.

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
    number of tokens that gets several sets of kernels. A range ends at its
    bound and begins behind the one before, the first at no tokens, so that
    ranges have neither gaps nor overlaps; the last bound is the most tokens
    that the op takes. A schedule serves at least as many tokens as its range
    has.

    Example:
    `#tile.dispatch<8 : #tile.schedule<tokens = 8, blocks = 128, split = 8,
    weight_stages = 6, token_stages = 8, in_flight = 2, partials = f32, hint =
    evict_first, dependent = true>, 512 : #tile.prefill_schedule<tokens = 512,
    blocks = 132, split = 4, stages = 4, group = 16, dependent = true>>`
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$bounds,
    ArrayRefParameter<"::mlir::Attribute">:$schedules
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // TILE_IR_TILEATTRS_TD
