//===- MmaFrame.h - What the roles of an mma kernel share -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_MMA_MMAFRAME_H
#define FUSE_CODEGEN_MMA_MMAFRAME_H

#include "../Hopper/Emit/GemmEpilogue.h"
#include "fuse/Codegen/Mma/MmaKernel.h"

namespace fuse {

/// All warps of a block copy and multiply.
constexpr int64_t kMmaWarps = 8, kMmaThreads = kMmaWarps * 32;

/// What a launch computes: everything, or one of three parts.
enum class MmaPart { Whole, Norm, Gemm1, Gemm2 };

/// A unit of a product: tokens of a tile by rows of a tile by steps of a slice.
struct MmaUnit {
  mlir::Value tokenTile, tile, slice;
};

/// Arguments and indices of a kernel. Each role of the kernel is a class that
/// has a frame.
class MmaFrame : public ProductBuilder {
public:
  MmaFrame(const MlpProblem &problem, tile::MmaScheduleAttr schedule,
           const MmaTiling &tiling, MmaPart part, mlir::OpBuilder &builder);

private:
  friend class RowProducer;
  friend class WeightProducer;
  friend class TokenProducer;
  friend class ProductConsumer;
  friend class HiddenEpilogue;
  friend class OutputReducer;
  friend class MmaKernelBuilder;

  bool hasNorm() const {
    return part == MmaPart::Whole || part == MmaPart::Norm;
  }
  bool hasGemm1() const {
    return problem.hasGemm1() &&
           (part == MmaPart::Whole || part == MmaPart::Gemm1);
  }
  bool hasGemm2() const {
    return part == MmaPart::Whole || part == MmaPart::Gemm2;
  }
  bool isWhole() const { return part == MmaPart::Whole; }
  /// Whether blocks wait for each other.
  bool hasSemaphores() const {
    return isWhole() || (part == MmaPart::Gemm2 && tiling.slices > 1);
  }

  // Tokens in the workspace. A token tile has its k-steps one after the other,
  // each with 128 bytes of every token. The 16-byte chunk c of token t is at
  // chunk c xor (t mod 8), so that a stage is a plain copy.
  Value packedIndex(Value token, Value column, int64_t steps);
  Value inputIndex(Value row, Value column) override {
    return packedIndex(row, column, inputSteps());
  }
  int64_t inputColumns() const override {
    return inputSteps() * kRowBytes / problem.getElementBytes();
  }
  int64_t inputSteps() const {
    return problem.hasGemm1() ? tiling.gemm1.steps : tiling.gemm2.steps;
  }

  Value zext(Value index) {
    return mlir::arith::ExtUIOp::create(builder, loc, builder.getI64Type(),
                                        index);
  }
  Value flip(Value x, Value y) {
    return mlir::arith::XOrIOp::create(builder, loc, x, y);
  }
  /// Barrier of all threads of the block.
  void syncBlock() {
    tile::BarrierOp::create(builder, loc, builder.getI64IntegerAttr(0),
                            mlir::IntegerAttr());
  }
  Value semaphore(Value index) {
    return tile::SemaphoreOp::create(
        builder, loc, tile::SemaphoreType::get(builder.getContext()),
        semaphores, index);
  }
  /// Lets all threads of the block continue when `arrivals` have arrived. The
  /// waiting thread is the one that has drawn the epoch.
  void await(Value index, Value arrivals);
  Value makeShared(mlir::Type element) {
    return tile::SharedBufferOp::create(
        builder, loc,
        tile::BufferType::get(builder.getContext(), element,
                              tile::Memory::Shared),
        /*offset=*/0);
  }

  /// Bytes of a stage, and where its tokens begin.
  int64_t stageBytes() const {
    return schedule.getSharedBytes() / schedule.getStages();
  }
  int64_t tokensAt() const {
    return std::max(schedule.getGemm1TileM(), schedule.getGemm2TileM()) *
           kRowBytes;
  }

  tile::MmaScheduleAttr schedule;
  const MmaTiling &tiling;
  MmaPart part;
  /// Tokens of a tile.
  int64_t tokens;
  Value semaphores, hidden, partials, weights1, weights2, count, epochBuffer;
  Value block, lane, warp;
  /// Dynamic shared memory as bytes and as tokens.
  Value sharedBytes, sharedTokens;
};

/// Emits `[residual add] [norm]` of token rows. In a whole launch, other blocks
/// read them, and the loads of the first row precede those of weights.
class RowProducer {
public:
  explicit RowProducer(MmaFrame &frame) : k(frame) {}

  void request();
  void produce();
  void await();

private:
  bool hasOneRow() const;
  MmaFrame &k;
  MmaFrame::Values loaded;
};

/// Emits copies of weights into a stage.
class WeightProducer {
public:
  WeightProducer(MmaFrame &frame, mlir::Value weights,
                 const MmaProduct &product)
      : k(frame), weights(weights), product(product) {}

  /// Requests a k-step of a tile, under a condition if there is one. `stage` is
  /// the first byte in shared memory.
  void request(mlir::Value tile, mlir::Value step, mlir::Value stage,
               mlir::Value condition = nullptr);

private:
  MmaFrame &k;
  mlir::Value weights;
  const MmaProduct &product;
};

/// Emits copies of tokens into a stage.
class TokenProducer {
public:
  TokenProducer(MmaFrame &frame, mlir::Value matrix, int64_t steps)
      : k(frame), matrix(matrix), steps(steps) {}

  void request(mlir::Value tokenTile, mlir::Value step, mlir::Value stage,
               mlir::Value condition = nullptr);

private:
  MmaFrame &k;
  mlir::Value matrix;
  int64_t steps;
};

/// Emits the products of a stage. A warp has 16 rows of some of the quarters of
/// a tile: with few tokens, half of the quarters and all tokens, and otherwise
/// all quarters and half of the tokens, which reads less shared memory.
class ProductConsumer {
public:
  ProductConsumer(MmaFrame &frame, const MmaProduct &product);

  /// A stage has this many fragments: 32 bytes of its rows each.
  static constexpr int64_t kFragments = kRowBytes / 32;
  MmaFrame::Values makeZeros();
  /// Registers of a fragment of both operands.
  MmaFrame::Values load(mlir::Value stage, int64_t fragment);
  MmaFrame::Values multiply(mlir::ValueRange accs, mlir::ValueRange fragments);

  /// Quarters of a thread, and groups of eight tokens.
  int64_t countQuarters() const { return quarters; }
  int64_t countGroups() const { return groups; }
  /// Whether a thread has both quarters of each run of hidden units.
  bool hasRuns() const {
    return product.perTile % 2 == 0 && (splitsTokens || quarters % 2 == 0);
  }
  /// Number of a thread's quarter in a product, and whether it exists; null if
  /// it always does.
  mlir::Value getQuarter(mlir::Value tile, mlir::Value index);
  mlir::Value hasQuarter(mlir::Value tile, mlir::Value index);
  /// The first token of a thread in a group.
  mlir::Value getToken(mlir::Value group, mlir::Value parity);
  /// The sums of a thread for a quarter: value 4g + 2h + b is that of token b
  /// of group g and of row half h.
  MmaFrame::Values valuesOf(mlir::Value acc);

private:
  mlir::Value getIndex(mlir::Value index);

  MmaFrame &k;
  const MmaProduct &product;
  bool splitsTokens;
  int64_t quarters, groups;
  mlir::Value half;
  MmaFrame::Values lhsOffsets, rhsOffsets;
};

/// Emits bias, activation and product of the hidden units of a tile.
class HiddenEpilogue {
public:
  HiddenEpilogue(MmaFrame &frame, ProductConsumer &consumer)
      : k(frame), consumer(consumer) {}

  void store(MmaUnit unit, mlir::ValueRange accs);
  /// Tells the K-slices that read the tile.
  void announce(MmaUnit unit);
  /// Waits for all hidden units of a K-slice.
  void await(mlir::Value slice);

private:
  /// Stores neighboring units of a quarter, or of both quarters of a run.
  void storeUnits(MmaUnit unit, mlir::ValueRange accs, mlir::Value quarter);
  MmaFrame &k;
  ProductConsumer &consumer;
};

/// Emits what follows the sums of GEMM2: the sum over K-slices in their order,
/// bias, residual and stores.
class OutputReducer {
public:
  OutputReducer(MmaFrame &frame, ProductConsumer &consumer)
      : k(frame), consumer(consumer) {}

  void finish(MmaUnit unit, mlir::ValueRange accs);

private:
  using Values = MmaFrame::Values;
  mlir::Value getPlace(MmaUnit unit, mlir::Value slice, mlir::Value vector);
  void storePartials(MmaUnit unit, mlir::ValueRange accs);
  void awaitPartials(MmaUnit unit);
  void sumPartials(MmaUnit unit);
  void store(MmaUnit unit, mlir::Value index, mlir::Value token,
             llvm::ArrayRef<mlir::Value> sums);
  /// Vectors of two neighboring rows of a token that a thread has of a tile.
  int64_t countVectors() const {
    return consumer.countQuarters() * consumer.countGroups() * 2;
  }
  MmaFrame &k;
  ProductConsumer &consumer;
};

} // namespace fuse

#endif // FUSE_CODEGEN_MMA_MMAFRAME_H
