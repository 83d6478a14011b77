//===- PrefillKernelBuilder.h - Emitter of prefill kernels ---- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_HOPPER_PREFILL_PREFILLKERNELBUILDER_H
#define FUSE_CODEGEN_HOPPER_PREFILL_PREFILLKERNELBUILDER_H

#include "../Emit/GemmEpilogue.h"
#include "fuse/Codegen/Hopper/PrefillKernel.h"
#include "fuse/Schedule/UnevenSplitK.h"

namespace fuse {

/// Emits one of the kernels. PrefillKernel.cpp has the arguments, the frame
/// and the warp that copies, Mainloop.cpp what the math warps do.
class PrefillKernelBuilder : public ProductBuilder {
public:
  enum class Part { Norm, First, Last, Both };

  PrefillKernelBuilder(const MlpProblem &problem,
                       tile::PrefillScheduleAttr schedule,
                       const PrefillTiling &tiling, Part part,
                       mlir::OpBuilder &builder);

  PlannedKernel build(llvm::StringRef name);

private:
  bool isNorm() const { return part == Part::Norm; }
  bool hasGemm1() const { return part == Part::First || part == Part::Both; }
  bool hasLast() const { return part == Part::Last || part == Part::Both; }
  /// Whether GEMM2 reads what other blocks of its launch write.
  bool isJoint() const { return schedule.getLaunches() == 1; }
  std::optional<int64_t> getCarveout() const;

  /// One product in a kernel.
  struct Phase {
    PrefillProduct product;
    Value tokenMap, weights;
    /// Of the tokens of a launch, and the first unit of this block.
    Value tokenTiles, units, firstUnit;
  };

  // Arguments.
  void addArguments();

  // Units of a product: a token tile, a tile of weights and a range.
  struct Unit {
    Value tokenTile, tile, range;
    /// Number of the pair of tiles, over all ranges.
    Value index;
    /// Whether its token tile is the first of the group.
    Value leads;
    /// Of an even product: the first place in the tile that the block has, the
    /// one behind the last, how many that are, and the one it begins with.
    Value from, to, steps, turn;
    /// Of unequal ranges.
    std::optional<RangeDeal<IndexBuilder>::Range> unevenSplitK;
  };
  Value countTokenTiles(int64_t unit = 1);
  void enter(Phase &next);
  /// From one unit of a block to its next.
  int64_t getStride() const {
    return product().isStreamK ? 1
                               : schedule.getBlocks() / schedule.getCluster();
  }
  Unit locate(Value unit);
  Value getSteps(const Unit &unit);
  /// The k-step of the product that step `index` of a unit is.
  Value getStep(const Unit &unit, Value index);
  /// Loops over units of this block; `body` gets a unit and carried values.
  Values visitUnits(Value from, mlir::ValueRange carried,
                    llvm::function_ref<Values(Value, mlir::ValueRange)> body);

  /// Unequal ranges of GEMM2.
  RangeDeal<IndexBuilder> dealRanges() {
    return {*this, tiling, schedule.getBlocks(), phase->tokenTiles};
  }

  // An even GEMM2.
  /// The k-interval of this block's CTA group, and what all are dealt from.
  struct Deal {
    /// CTA groups that a tile less of GEMM1 leaves more time, CTA groups
    /// with a k-interval, the k-steps that those deal out, and how many of
    /// these the others have in GEMM1.
    Value early, ctaGroups, steps, more;
    /// Blocks of a CTA group.
    Value members;
    /// Of this block.
    Value ctaGroup, member, begin, end, pieces;
  };
  static Value Deal::*const kDealt[10];
  Value dealAmong(Value members, Value tokenTiles);
  void deal();
  void recallDeal();
  Value getBegin(Value ctaGroup);
  Unit locatePiece(Value index);
  Value getTurn(const Unit &piece, Value start);
  Value getPieceStep(const Unit &unit, Value index);
  Value getSlot(Value ctaGroup);
  Value getSlotSemaphore(Value slot);
  Values addPartials(Value index, llvm::ArrayRef<Value> sums);
  void finishPiece(Value index, llvm::ArrayRef<Value> sums);

  // Roles.
  void buildProducts();
  void stream();
  int64_t countEarly() const;
  void streamAhead();
  Value streamUnits(Value use, Value done, bool waits);
  void clearReady();
  bool preparesRest() const {
    return part == Part::Both && tiling.preparedTiles;
  }
  void prepareRest();
  Value getPrepared();
  void awaitPrepared(const Unit &unit);
  void announceAll();
  Value getReady(Value tokenTile, Value semaphore);
  void awaitReady(const Unit &unit, Value semaphore, Value known);
  Value getWeights(const Unit &unit, Value step);
  void copyWeights(const Unit &unit, Value step, Value stage);
  void fetch(const Unit &unit, Value condition, Value step);
  void copyTokens(const Unit &unit, Value step, Value stage);
  void multiply();

  // Parts of the math role.
  /// `meanwhile` builds what is done during one of the first steps.
  Values mainLoop(Value &use, Value steps,
                  llvm::function_ref<void(int64_t)> meanwhile);
  void release(Value condition, Value use);
  /// A tile of GEMM1 whose sums are rounded but not activated: its
  /// number among those of the block, -1 for none, the first token of the
  /// thread and the first hidden unit, and the pairs of its quarters.
  struct Waiting {
    Value turn, token, column;
    Values pairs;
  };
  bool activatesLater() const;
  int64_t getShadowOf(int64_t action) const;
  int64_t getLead() const;
  /// What a math warp remembers in shared memory, so that it takes no
  /// registers: the unit that it is at, and its use of the ring.
  enum class Place {
    TokenTile,
    Tile,
    Use,
    Range,
    // Of an unequal range, and whether the last tile before it waits for none
    // of its k-steps.
    RangeTokenTile,
    RangeTile,
    RangeSteps,
    Flushes
  };
  bool keepsRange() const { return places && last.product.isUnevenSplitK; }
  int64_t countPlaceWords() const {
    return last.product.isUnevenSplitK ? 8 : 4;
  }
  Value placeOf(Place semaphore);
  void keep(std::initializer_list<std::pair<Place, Value>> values);
  void keepPlace(const Unit &unit);
  Unit getNone();
  Unit recallPlace();
  void keepRange();
  Unit recallRange();
  void finishWaiting(int64_t action, const Waiting &waiting);
  void announce(Value turn);
  /// Both begin with a use of the ring.
  Waiting multiplyFirst(Value &use);
  void multiplyLast(Value use, const Waiting &waiting);
  void finishLast(const Unit &unit, llvm::ArrayRef<Value> sums);
  bool storesLater() const;
  void visitPieces(Value from, Value use);
  void keepPiece(Value index);
  Values roundOutputs(const Unit &unit, llvm::ArrayRef<Value> sums);
  void storeWaiting(int64_t quarter, mlir::ValueRange pairs);
  Value mustFlush();
  /// A quarter of a thread's hidden units of a tile: 8 tokens further down
  /// for `half`, 128 packed rows further right for `wl`.
  struct Quarter {
    int64_t half, wl;
  };
  static Quarter getQuarter(int64_t index) { return {index / 2, index % 2}; }
  Value firstUnitOf(Quarter quarter, Value column, int64_t block);
  Rounded roundQuarter(Quarter quarter, Value column,
                       llvm::ArrayRef<Value> sums);
  void storeQuarter(Quarter quarter, Value token, Value column,
                    const Rounded &values);
  void storeTile(const Unit &unit, llvm::ArrayRef<Value> sums);
  int64_t getShareSize() const;
  llvm::SmallVector<Values> getShare(const Unit &unit,
                                     llvm::ArrayRef<Value> sums);
  void storePartials(const Unit &unit, Value index, llvm::ArrayRef<Value> sums,
                     bool keepsOwn);
  void sumPartials(const Unit &unit, Value first, llvm::ArrayRef<Values> own);
  /// Whether the linear has an output there, or null where it always has.
  Value isColumn(size_t index, Value column);
  /// Builds `body` for the linear whose tile it is, with the first output of
  /// the tile.
  void visitOutputs(const Unit &unit,
                    llvm::function_ref<void(size_t, Value)> body);
  /// Sums of eight neighboring packed rows: those of `half` of the thread's
  /// rows and of block `block` of 32 packed rows.
  static llvm::SmallVector<int64_t> getPlaces(int64_t half, int64_t block);
  Values getBlock(llvm::ArrayRef<Value> sums, int64_t half, int64_t block);
  /// The first token of the thread in a tile; the other is eight more.
  Value firstToken(const Unit &unit);

  mlir::Type stageType() {
    return tile::StageType::get(builder.getContext(),
                                product().getStageBytes());
  }
  mlir::Type turnType() {
    return tile::StageType::get(builder.getContext(), 0);
  }
  void depend() {
    if (schedule.getDependent())
      tile::GridDependencyOp::create(builder, loc, tile::Dependency::Wait);
  }
  /// Blocks of 32 packed rows in a tile.
  int64_t numBlocks() const { return product().rows / 32; }
  /// Chunks of four partial sums that a thread has of a tile.
  int64_t numChunks() const { return product().rows / 8; }
  const PrefillProduct &product() const { return phase->product; }

  tile::PrefillScheduleAttr schedule;
  const PrefillTiling &tiling;
  Part part;
  int64_t elementBytes;
  Phase first, last;
  Deal dealt;
  Value dealtBuffer;
  Value places;
  /// The one that is being built.
  Phase *phase;

  Value hidden, partials, semaphores, ready, count;
  Value ring, turns, block, rank;
  /// Of the math role.
  Value group, warpIndex, warp, lane;
};

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_PREFILL_PREFILLKERNELBUILDER_H
