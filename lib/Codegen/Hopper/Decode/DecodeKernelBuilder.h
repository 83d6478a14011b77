//===- DecodeKernelBuilder.h - Emitter of decode kernels ------ -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_HOPPER_DECODE_DECODEKERNELBUILDER_H
#define FUSE_CODEGEN_HOPPER_DECODE_DECODEKERNELBUILDER_H

#include "../Emit/GemmEpilogue.h"

namespace fuse {

/// Barriers at which a warp waits for the first and the second deferred tile.
constexpr int64_t kTileBarrier = 2;

/// Number of k-steps over which the activations of a deferred tile are spread,
/// so that the tensor cores wait for none of their shares (H200).
constexpr int64_t kShares = 8;

/// Emits the kernel of a problem, with or without GEMM1. DecodeKernel.cpp has
/// the arguments and the frame, ProducerWarps.cpp the producer warps, and the
/// other files the consumer warpgroups.
class DecodeKernelBuilder : public ProductBuilder {
public:
  DecodeKernelBuilder(const MlpProblem &problem, tile::ScheduleAttr schedule,
                      mlir::OpBuilder &builder);

  PlannedKernel build(llvm::StringRef name);

private:
  /// Uses of the two rings that come next.
  struct Uses {
    Value weight, token;
  };

  /// A tile whose hidden units wait for their activation.
  struct Deferred {
    Value tileIndex;
    /// Whether there is one; always without a value.
    Value exists;
    int64_t part;
    /// k-steps that can overlap with its activation.
    int64_t steps;
    Rounded values;
  };

  /// The position of a block, which determines its tiles and its unit.
  Value placeBlock(Value index);

  // Arguments.
  void addArguments();
  void addWorkspaces();
  void addWeights();

  // Roles.
  void streamWeights();
  void streamTokens();
  void fetchPartials();
  void announceTiles();
  void multiply();

  // Parts of the weight stream.
  /// Bytes of a stage and their source. With swap-AB, the position and length
  /// depend on the tile and are values.
  struct Piece {
    Value buffer, offset;
    int64_t at = 0, bytes = 0;
    Value begin = {}, length = {};
  };
  using PieceVisitor = llvm::function_ref<void(Piece)>;
  void visitGemm1(Value use, PieceVisitor visit);
  void visitGemm2(Value stage, PieceVisitor visit);
  void visitPieces(Value use, PieceVisitor visit);
  Value fetchAhead(Value use, Value fetched);
  Value countGemm1Stages();
  Value countGemm2Stages();
  Value countBytes(Value use);
  /// Whether the CTA is a straggler, and the values of the next check: the
  /// count
  /// of all CTAs when it was read, and the count if all CTAs were as far as
  /// this one.
  struct Progress {
    Value isStraggler, seen, expected;
  };
  Progress countStage(Value use, Progress progress);

  // Parts of the math role.
  void normalizeRows();
  /// The first hidden unit of a tile, or of its run.
  Value firstUnit(Value tileIndex);
  llvm::SmallVector<Value> mainLoop(Uses &uses, Value stages,
                                    int64_t stepsPerStage, int64_t accs,
                                    int64_t kept, const Deferred *meanwhile,
                                    bool swapAB = false);
  void multiplyGemm1(Uses &uses);
  Deferred multiplyDeferred(Uses &uses);
  Value localUnit(bool half);
  void storeHidden(Value tileIndex, mlir::ValueRange accs, Uses uses);
  Rounded roundTile(Value tileIndex, Value acc);
  Rounded roundUnits(llvm::ArrayRef<Value> sums, Value unit);
  void activateTokens(const Rounded &values, int64_t firstGroup,
                      int64_t lastGroup, Value smemTile);
  /// Where a thread's hidden units go: the byte in the row of a token, and the
  /// first token.
  struct Place {
    Value byte, token;
    int64_t rowBytes;
  };
  void activateAt(const Rounded &values, int64_t firstGroup, int64_t lastGroup,
                  Value smemTile, Place place);
  void activateShare(int64_t share, const Deferred &tile);
  void copyHidden(Value tileIndex, Value smemTile, int64_t firstUnit);
  void padHidden(Value tileIndex);
  void finishHidden(Value tileIndex, Uses uses);
  Value stagedAt(Uses uses, Value index);
  Value hiddenSemaphore(Value tileIndex);
  Value placeOf(Value byte, Value token, int64_t rowBytes);

  // 192-row tiles.
  void visitTile192(Value use, PieceVisitor visit);
  llvm::SmallVector<Value> multiplyTile192(Uses &uses, int64_t kept);
  void storeTile192(Value tileIndex, mlir::ValueRange accs, Uses uses);
  void copySingle(Value tileIndex, Uses uses);
  Value singleStaged(Uses uses);
  Value singleUnit(Value tileIndex);
  int64_t singleBytes() const {
    return (tiling.hiddenPerTile - tiling.getRun()) * elementBytes;
  }

  // Swap-AB tiles: tokens are the left operand.
  Value firstGroup(Value tileIndex);
  void visitGroups(Value tileIndex, Value step, PieceVisitor visit);
  void storeGroups(Value tileIndex, Value acc);
  void storeGroupsOf(Value token, int64_t half, Value first, bool isOdd,
                     llvm::ArrayRef<Value> sums);
  void arriveAtSlices(Value tileIndex);
  Value countTiles();

  // Scales of blocks of 128 products: BlockScales.cpp.
  /// Scales of the lower and the upper rows that a thread has of a k-step.
  struct RowScales {
    Value low, high;
  };
  void makeScaleScratch();
  void loadWeightScales();
  RowScales getGemm1Scales(Value round, Value step);
  RowScales getGemm2Scales(Value step);
  /// What `mainLoop` returns, scaled block by block, as values of the thread.
  llvm::SmallVector<Values>
  sumBlocks(Uses &uses, Value stages, int64_t stepsPerStage, int64_t accs,
            int64_t kept, llvm::function_ref<RowScales(Value)> getScales);
  void promote(llvm::MutableArrayRef<Values> sums, llvm::ArrayRef<Value> accs,
               int64_t firstToken, Value tokenStage, RowScales scales);
  void storeHiddenGroups(Value tileIndex, llvm::ArrayRef<Values> sums,
                         Uses uses);
  /// Index of the scale of a token's k-step in the workspace.
  Value scaleIndex(Value token, Value step) {
    int64_t bytes = getTokenStageBytes(problem, tokens);
    return add(add(mul(step, bytes / 4), tokens * 32), token);
  }
  void storeInputScale(Value scale, Value row, Value group) override {
    store(scale, inputScales, group ? scaleIndex(row, group) : row);
  }

  // Scales of tokens and output channels: TokenScales.cpp.
  void loadTokenScales(Value buffer, Value first, Value use);
  Values loadChannelScales(Value buffer, Value row, int64_t count);
  struct ChannelScales {
    Values gate, up;
  };
  ChannelScales loadHiddenChannelScales(Value tileIndex);
  void storeActivated(Value tileIndex, llvm::ArrayRef<Values> sums,
                      const ChannelScales &scales);
  void quantizeActivated();
  Value activatedIndex(Value tileIndex, int64_t column) {
    Value place = add(mul(tileIndex, tokens / 4), column);
    return mul(add(mul(place, kMathThreads), thread), unitsOfThread());
  }
  /// Hidden units of a thread in a tile of 256 rows, and their first token in a
  /// column.
  int64_t unitsOfThread() const { return problem.isGated() ? 2 : 4; }
  Value getToken(int64_t column) {
    return add(mul(rem(lane, 4), 2), column / 2 * 8 + column % 2);
  }
  /// Whether hidden units are rounded to bf16.
  bool roundsHidden() const {
    return problem.roundsAt(problem.isGated() ? RoundingPoint::Product
                                              : RoundingPoint::Act);
  }
  /// The semaphore at which tiles arrive when their largest hidden units are
  /// stored.
  int64_t largestSemaphore() const {
    return stageSemaphore() + (schedule.getStragglerInFlight() ? 2 : 0);
  }

  void storePartials(llvm::ArrayRef<Values> sums);
  void awaitPartials();
  void sumPartials();
  void finishColumn(Value token, Value condition, llvm::ArrayRef<Value> parts);

  // Tokens in the workspace, ordered by k-step.
  Value packedIndex(Value token, Value column);
  Value inputIndex(Value row, Value column) override {
    return packedIndex(row, column);
  }
  int64_t inputColumns() const override { return wholeSteps(problem.width); }
  /// The number of columns, rounded up to whole k-steps.
  int64_t wholeSteps(int64_t columns) const {
    return llvm::alignTo(columns, 128 / elementBytes);
  }

  // Values.
  mlir::Type stageOf(Value ring);
  Value acquire(Value ring, Value use, Value bytes = {}) {
    return tile::RingAcquireOp::create(builder, loc, stageOf(ring), ring, use,
                                       bytes);
  }
  Value waitFor(Value ring, Value use) {
    return tile::RingWaitOp::create(builder, loc, stageOf(ring), ring, use);
  }
  /// What a thread has of an accumulator: of every eight tokens two, of each
  /// the lower row of both, then the upper.
  llvm::SmallVector<Value> valuesOf(Value acc) {
    llvm::SmallVector<mlir::Type> types(
        llvm::cast<tile::AccType>(acc.getType()).getNumRegisters(), f32);
    return llvm::to_vector_of<Value>(
        tile::AccValuesOp::create(builder, loc, types, acc).getResults());
  }
  Value semaphore(Value index) {
    return tile::SemaphoreOp::create(
        builder, loc, tile::SemaphoreType::get(builder.getContext()),
        semaphores, index);
  }
  void depend() {
    if (schedule.getDependent())
      tile::GridDependencyOp::create(builder, loc, tile::Dependency::Wait);
  }
  /// The block's tiles of GEMM1 are this far apart.
  int64_t tileStride() const {
    return schedule.getDeferredEpilogue() ? tiling.tilesPerPart
                                          : schedule.getBlocks();
  }
  /// The block's first tile, or one past the last.
  Value firstTile() {
    if (tileStride() == schedule.getBlocks())
      return block;
    return select(less(block, constant(tileStride())), block,
                  constant(tiling.tiles1));
  }
  /// Whether the next launch may begin only when the weights of GEMM2 are
  /// requested. On SMs without a block it could begin with this launch, and its
  /// prefetched lines would leave L2 before their use.
  bool launchesDependentLate() const {
    return schedule.getDependent() && problem.hasGemm1();
  }
  /// Whether the block has no GEMM1 tile.
  Value isGemm2Only() { return less(constant(tiling.gemm1Blocks - 1), block); }
  /// The semaphore at which blocks with GEMM1 tiles arrive when they have
  /// requested the weights of GEMM1.
  int64_t gemm2OnlySemaphore() const {
    return 1 + tiling.parts * tiling.slices + tiling.tiles2 * kMathWarps;
  }
  /// The first of the two semaphores on which blocks count requested weight
  /// stages, of GEMM1 and of GEMM2.
  int64_t stageSemaphore() const {
    return gemm2OnlySemaphore() + tiling.delaysGemm2Only(schedule);
  }
  /// k-steps of this block's K-slice; the last K-slice may be shorter.
  Value getSliceSteps();
  /// Blocks that normalize token rows.
  int64_t normBlocks() const { return std::min(tokens, schedule.getBlocks()); }
  /// Arrivals that complete a tile of the hidden layer.
  int64_t arrivalsPerTile() const {
    return schedule.getSmemEpilogue() ? 1 : kMathWarps;
  }
  /// Whether an arrival hints that polls of partial sums can succeed. With few
  /// tokens, prefetching all partial sums into L2 is faster.
  bool announcesSums() const {
    return schedule.getTaggedPartials() && tokens > 32;
  }
  /// Sets `reduces`, whether this CTA is a reducer, to null if all CTAs are.
  /// Sets
  /// `reducer`, its number among the reducers of its tile. Reducers are spread
  /// evenly over the tiles of a K-slice and over the K-slices of a tile.
  void placeReducers();
  /// Values that a thread has of a column of GEMM2.
  int64_t width2() const { return tiling.rows / 64; }
  /// Threads that release a token stage: all warps read scales from it.
  int64_t tokenConsumers() const {
    return problem.hasBlockScales() ? kMathWarps : 2;
  }

  tile::ScheduleAttr schedule;
  DecodeTiling tiling;
  int64_t tokens, elementBytes;
  tile::AccType acc;

  /// Arguments; null where the problem has none.
  Value weights1, weights2, hidden, partials, semaphores, count;
  /// The scales of the input and of the hidden units.
  Value inputScales, hiddenScales;
  /// Activated hidden units before their quantization, and the largest of each
  /// tile and token.
  Value activated, largestUnits;
  /// In shared memory: scales of the weights, and the largest magnitudes.
  Value scratch1, scratch2, largestScratch, tokenScales;
  /// Of the whole block.
  Value weightRing, tokenRing, epochBuffer, block, hasUnit, tile2, slice;
  Value reduces, reducer;
  /// Blocks without GEMM1 tiles wait at its barriers. Null if all have tiles or
  /// none needs to wait.
  Value gemm2OnlyRing;
  /// Hidden units of a deferred tile.
  Value staging;
  /// Of the weight stream: uses of GEMM1, and of both.
  Value uses1, allUses;
  /// Of the math role.
  Value group, warpIndex, warp, lane, row8, leads;
};

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_DECODE_DECODEKERNELBUILDER_H
