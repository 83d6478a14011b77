//===- PrefillKernelBuilder.h - Emitter of prefill kernels ---- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_CONVERSION_FUSETOTILE_PREFILLKERNELBUILDER_H
#define FUSE_LIB_CONVERSION_FUSETOTILE_PREFILLKERNELBUILDER_H

#include "PrefillKernel.h"
#include "ProductBuilder.h"

namespace fuse {

/// Emits one of the kernels. PrefillKernel.cpp has the arguments, the frame
/// and the warp that copies, PrefillProducts.cpp what the math warps do.
class PrefillKernelBuilder : public ProductBuilder {
public:
  enum class Part { Norm, First, Last };

  PrefillKernelBuilder(const DecodeProblem &problem,
                       tile::PrefillScheduleAttr schedule,
                       const PrefillTiling &tiling, Part part,
                       mlir::OpBuilder &builder);

  PlannedKernel build(llvm::StringRef name);

private:
  bool isNorm() const { return part == Part::Norm; }
  bool isFirst() const { return part == Part::First; }

  // Arguments.
  void addArguments();
  void addBuffer(Value &slot, mlir::Type type, int64_t offset);
  void addTokenMap(int64_t columns, int64_t offset);

  // Units of a product: a token tile, a tile of weights and a range.
  struct Unit {
    Value tokenTile, tile, range;
    /// Number of the pair of tiles, over all ranges.
    Value index;
    /// Whether its token tile is the first of the group.
    Value leads;
  };
  void countUnits();
  Unit locate(Value unit);
  Value getSteps(const Unit &unit);
  /// Loops over the units of this block; `body` gets a unit and carried values.
  Values visitUnits(mlir::ValueRange carried,
                    llvm::function_ref<Values(Value, mlir::ValueRange)> body);

  // Roles.
  void buildProduct();
  void stream();
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
  void multiplyFirst();
  void multiplyLast();
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
  void storePartials(Value unit, llvm::ArrayRef<Value> sums);
  void sumPartials(const Unit &unit, Value first);
  /// Builds `body` for the linear whose tile it is, with the first output of
  /// the tile.
  void visitOutputs(const Unit &unit,
                    llvm::function_ref<void(size_t, Value)> body);
  /// Sums of eight neighbouring packed rows: those of `half` of the thread's
  /// rows and of block `block` of 32 packed rows.
  Values getBlock(llvm::ArrayRef<Value> sums, int64_t half, int64_t block);
  /// The first token of the thread in a tile; the other is eight more.
  Value firstToken(const Unit &unit);

  mlir::Type stageType() {
    return tile::StageType::get(b.getContext(), product.getStageBytes());
  }
  void depend() {
    if (s.getDependent())
      tile::GridDependencyOp::create(b, loc, tile::Dependency::Wait);
  }
  /// Blocks of 32 packed rows in a tile.
  int64_t numBlocks() const { return product.rows / 32; }
  /// Chunks of four partial sums that a thread has of a tile.
  int64_t numChunks() const { return product.rows / 8; }

  tile::PrefillScheduleAttr s;
  const PrefillTiling &tiling;
  Part part;
  PrefillProduct product;
  int64_t elementBytes;

  Value tokenMap, weights, hidden, partials, words, count;
  Value ring, block, rank, tokenTiles, units, firstUnit;
  /// Of the math role.
  Value group, warpIndex, warp, lane;
};

} // namespace fuse

#endif // FUSE_LIB_CONVERSION_FUSETOTILE_PREFILLKERNELBUILDER_H
