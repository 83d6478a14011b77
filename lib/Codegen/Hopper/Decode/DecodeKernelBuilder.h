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

/// Emits one kernel: both products, or one of them. DecodeKernel.cpp has the
/// arguments and the frame, ProducerWarps.cpp the producer warps, the other
/// files what the math warps do.
class DecodeKernelBuilder : public ProductBuilder {
public:
  /// Which products the kernel does. `Both` is one launch, with a meeting of
  /// the blocks between the products.
  enum class Part { Both, First, Last };

  DecodeKernelBuilder(const MlpProblem &problem, tile::ScheduleAttr schedule,
                      Part part, mlir::OpBuilder &builder);

  PlannedKernel build(llvm::StringRef name);

private:
  /// Uses of the two rings that come next.
  struct Uses {
    Value weight, token;
  };

  bool doesNorm() const { return part != Part::Last || !problem.hasGemm1(); }
  bool doesFirst() const { return problem.hasGemm1() && part != Part::Last; }
  bool doesLast() const { return part != Part::First; }

  /// A tile whose hidden units wait for their activation.
  struct Deferred {
    Value tileIndex;
    /// Whether there is one; always without a value.
    Value exists;
    int64_t part;
    /// k-steps that can shadow it.
    int64_t steps;
    Rounded values;
  };

  /// The number of a block, which says what its part is.
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
  /// Bytes of a stage, and where they come from. How many a piece of rows that
  /// lie in several runs has depends on the tile.
  struct Piece {
    Value buffer, offset;
    int64_t at = 0, bytes = 0;
    Value begin = {}, length = {};
  };
  using PieceVisitor = llvm::function_ref<void(Piece)>;
  void visitFirst(Value use, PieceVisitor visit);
  void visitLast(Value stage, PieceVisitor visit);
  void visitPieces(Value use, PieceVisitor visit);
  Value fetchAhead(Value use, Value fetched);
  Value countFirst();
  Value countLast();
  Value countBytes(Value use);
  /// Whether the block is behind the others, and what it will be judged by
  /// next: what they had counted when it looked, and would have if they all had
  /// as much as it.
  struct Progress {
    Value stragglerInFlight, seen, expected;
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
  void multiplyFirst(Uses &uses);
  Deferred multiplyDeferred(Uses &uses);
  Value localUnit(bool half);
  void storeHidden(Value tileIndex, mlir::ValueRange accs, Uses uses);
  Rounded roundTile(Value tileIndex, Value acc);
  Rounded roundUnits(llvm::ArrayRef<Value> sums, Value unit);
  void activateTokens(const Rounded &values, int64_t firstGroup,
                      int64_t lastGroup, Value smemEpilogue);
  /// Where a thread's hidden units go: the byte in the row of a token, and the
  /// first token.
  struct Place {
    Value byte, token;
    int64_t rowBytes;
  };
  void activateAt(const Rounded &values, int64_t firstGroup, int64_t lastGroup,
                  Value smemEpilogue, Place place);
  void activateShare(int64_t share, const Deferred &tile);
  void copyHidden(Value tileIndex, Value smemEpilogue, int64_t firstUnit);
  void padHidden(Value tileIndex);
  void finishHidden(Value tileIndex, Uses uses);
  Value stagedAt(Uses uses, Value index);
  Value hiddenSemaphore(Value tileIndex);
  Value placeOf(Value byte, Value token, int64_t rowBytes);

  // Tiles of three quarters.
  void visitQuarters(Value use, PieceVisitor visit);
  llvm::SmallVector<Value> multiplyQuarters(Uses &uses, int64_t kept);
  void storeQuarters(Value tileIndex, mlir::ValueRange accs, Uses uses);
  void copySingle(Value tileIndex, Uses uses);
  Value singleStaged(Uses uses);
  Value singleUnit(Value tileIndex);
  int64_t singleBytes() const {
    return (tiling.hiddenPerTile - tiling.getRun()) * elementBytes;
  }

  // Tiles of which tokens are the left operand.
  Value firstGroup(Value tileIndex);
  void visitGroups(Value tileIndex, Value step, PieceVisitor visit);
  void storeGroups(Value tileIndex, Value acc);
  void storeGroupsOf(Value token, int64_t half, Value first, bool isOdd,
                     llvm::ArrayRef<Value> sums);
  void arriveAtRanges(Value tileIndex);
  Value countTiles();

  void storePartials(mlir::ValueRange accs);
  void meet();
  void sumPartials();
  void finishColumn(Value token, Value condition, llvm::ArrayRef<Value> parts);

  // Tokens in the workspace: a k-step of all of them after the other.
  Value packedIndex(Value token, Value column);
  Value inputIndex(Value row, Value column) override {
    return packedIndex(row, column);
  }
  int64_t inputColumns() const override { return wholeSteps(problem.width); }
  /// Columns with those that fill up the last k-step.
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
    if (schedule.getDependent() || part == Part::Last)
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
  /// Whether the next launch may begin when the weights of GEMM2 are
  /// requested. On multiprocessors that have no block it would begin as soon as
  /// this one, and what it fetched into L2 would be gone when it needs it.
  bool isFollowedLate() const {
    return schedule.getDependent() && part == Part::Both && problem.hasGemm1();
  }
  /// Blocks without a tile of GEMM1.
  Value isLate() { return less(constant(tiling.gemm1Blocks - 1), block); }
  /// The semaphore at which the others arrive when they have requested the
  /// weights of GEMM1.
  int64_t lateSemaphore() const {
    return 1 + tiling.parts * tiling.ranges + tiling.tiles2 * kMathWarps;
  }
  /// The semaphores on which blocks count stages of the first and of the last
  /// product that they have requested, the first of them.
  int64_t stageSemaphore() const {
    return lateSemaphore() + tiling.waitsLate(schedule);
  }
  /// k-steps of this block's range; the last range may be shorter.
  Value rangeSteps();
  /// Blocks that normalize token rows.
  int64_t normBlocks() const { return std::min(tokens, schedule.getBlocks()); }
  /// Arrivals that complete a tile of the hidden layer.
  int64_t arrivalsPerTile() const {
    return schedule.getSmemEpilogue() ? 1 : kMathWarps;
  }
  /// Whether blocks are told when looking for partial sums begins to pay.
  /// With few tokens, fetching all that they will look at into L2 is faster.
  bool announcesSums() const {
    return schedule.getTaggedPartials() && tokens > 32;
  }
  /// Whether this block adds up sums, null where all do, and its number among
  /// those of its tile that do: evenly among the tiles of a range, which are
  /// neighbors, and among the ranges of a tile.
  void placeAdders();
  /// Values that a thread has of a column of GEMM2.
  int64_t width2() const { return tiling.rows / 64; }

  tile::ScheduleAttr schedule;
  DecodeTiling tiling;
  Part part;
  int64_t tokens, elementBytes;
  tile::AccType acc;

  /// Arguments; null where the problem has none.
  Value weights1, weights2, hidden, partials, semaphores, count;
  /// Of the whole block.
  Value weightRing, tokenRing, epochBuffer, block, hasUnit, tile2, range;
  Value adds, adder;
  /// Late blocks wait at its barriers; null where there are none or they need
  /// not wait.
  Value lateRing;
  /// Hidden units of a deferred tile.
  Value staging;
  /// Of the weight stream: uses of GEMM1, and of both.
  Value uses1, allUses;
  /// Of the math role.
  Value group, warpIndex, warp, lane, row8, leads;
};

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_DECODE_DECODEKERNELBUILDER_H
