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

/// Emits one of the kernels. PrefillKernel.cpp has the arguments, the frame and
/// the producer warp, Mainloop.cpp and StreamK.cpp the consumer warpgroups.
class PrefillKernelBuilder : public ProductBuilder {
public:
  enum class Part { Norm, Gemm1, Gemm2, Both };

  PrefillKernelBuilder(const MlpProblem &problem,
                       tile::PrefillScheduleAttr schedule,
                       const PrefillTiling &tiling, Part part,
                       mlir::OpBuilder &builder);

  PlannedKernel build(llvm::StringRef name);

private:
  bool isNorm() const { return part == Part::Norm; }
  bool hasGemm1() const { return part == Part::Gemm1 || part == Part::Both; }
  bool hasGemm2() const { return part == Part::Gemm2 || part == Part::Both; }
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

  // Units of a product: a token tile, a tile of weights and a K-slice.
  struct Unit {
    Value tokenTile, tile, slice;
    /// Number of the pair of tiles, over all K-slices.
    Value index;
    /// Whether its token tile is the first of the group.
    Value leads;
    /// Stream-K: the CTA's first k-step in the order of the tile, the one after
    /// its last, their number, and the one with which it starts.
    Value from, to, steps, startStep;
    /// Uneven split-K.
    std::optional<KSliceAssignment<IndexBuilder>::Slice> unevenSplitK;
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

  /// K-slices of GEMM2 with uneven split-K.
  KSliceAssignment<IndexBuilder> assignKSlices() {
    return {*this, tiling, schedule.getBlocks(), phase->tokenTiles};
  }

  // Stream-K GEMM2.
  /// The k-interval of this CTA's group, and the values that determine it.
  struct Assignment {
    /// Number of CTA groups without an extra GEMM1 tile, number of CTA groups
    /// with a k-interval, total of the k-steps that these share, and the number
    /// of GEMM1 k-steps of an extra tile.
    Value groupsWithoutExtra, ctaGroups, steps, extraSteps;
    /// CTAs of a CTA group.
    Value members;
    /// This CTA's group and its rank there, the bounds of its k-interval, and
    /// the number of its fragments.
    Value ctaGroup, member, begin, end, fragments;
  };
  static Value Assignment::*const kAssignmentMembers[10];
  Value assignToGroups(Value members, Value tokenTiles);
  void assignKSteps();
  void reloadAssignment();
  Value getBegin(Value ctaGroup);
  Unit locateFragment(Value index);
  Value getStartStep(const Unit &fragment, Value start);
  Value getFragmentStep(const Unit &unit, Value index);
  Value getSlot(Value ctaGroup);
  Value getSlotSemaphore(Value slot);
  Values addPartials(Value index, llvm::ArrayRef<Value> sums);
  void finishFragment(Value index, llvm::ArrayRef<Value> sums);

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
  /// `meanwhile` builds code that overlaps one of the first k-steps.
  Values mainLoop(Value &use, Value steps,
                  llvm::function_ref<void(int64_t)> meanwhile);
  void release(Value condition, Value use);
  /// A tile of GEMM1 whose sums are rounded but not activated: its
  /// number among those of the block, -1 for none, the first token of the
  /// thread and the first hidden unit, and the pairs of its quarters.
  struct Waiting {
    Value ordinal, token, column;
    Values pairs;
  };
  bool activatesLater() const;
  int64_t getOverlapStep(int64_t action) const;
  int64_t getLead() const;
  /// Values that a math warp keeps in shared memory to save registers: the
  /// current unit, and its use of the ring.
  enum class Place {
    TokenTile,
    Tile,
    Use,
    Slice,
    // Uneven split-K, and whether the epilogue of the last GEMM1 tile overlaps
    // none of the k-steps.
    SliceTokenTile,
    SliceTile,
    SliceSteps,
    Flushes
  };
  bool keepsSlice() const { return places && gemm2.product.isUnevenSplitK; }
  int64_t countPlaces() const { return gemm2.product.isUnevenSplitK ? 8 : 4; }
  Value placeOf(Place place);
  void keep(std::initializer_list<std::pair<Place, Value>> values);
  void keepPlace(const Unit &unit);
  Unit getNone();
  Unit recallPlace();
  void keepSlice();
  Unit reloadSlice();
  void finishWaiting(int64_t action, const Waiting &waiting);
  void announce(Value ordinal);
  /// Both begin with a use of the ring.
  Waiting multiplyGemm1(Value &use);
  void multiplyGemm2(Value use, const Waiting &waiting);
  void finishGemm2(const Unit &unit, llvm::ArrayRef<Value> sums);
  bool storesLater() const;
  void visitFragments(Value from, Value use);
  void keepFragment(Value index);
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
  mlir::Type publishStageType() {
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
  Phase gemm1, gemm2;
  Assignment assignment;
  Value assignmentBuffer;
  Value places;
  /// The GEMM phase that is being emitted.
  Phase *phase;

  Value hidden, partials, semaphores, ready, count;
  Value ring, publishRing, block, rank;
  /// Of the math role.
  Value group, warpIndex, warp, lane;
};

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_PREFILL_PREFILLKERNELBUILDER_H
