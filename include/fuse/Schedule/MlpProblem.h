//===- MlpProblem.h - What a decode kernel has to do ------- ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_MLPPROBLEM_H
#define FUSE_SCHEDULE_MLPPROBLEM_H

#include "fuse/IR/FuseOps.h"
#include "tile/IR/TileTypes.h"

#include <optional>
#include <string>

namespace fuse {

/// Tokens of a decode kernel at most: what one wgmma supports as N. Up to
/// 128, a block has accumulators for 256 weight rows.
constexpr int64_t kMaxDecodeTokens = 256, kMaxWholeTokens = 128;

/// Bytes in flight over all SMs that saturate HBM (H200; docs/performance).
constexpr int64_t kSaturatingBytes = 5 << 20;

/// A linear of the product that ends a kernel.
struct DecodeOutput {
  mlir::Value weight, bias;
  /// Outputs of the linear, and the name of its scale.
  int64_t rows = 0;
  std::string scale;
};

/// A fused op that the scheduled paths have kernels for, families made alike:
/// [norm] [GEMM1, activation] and a GEMM2 whose linears share
/// their input. A dense MLP has no gate, `fuse.norm_linear` no GEMM1.
struct MlpProblem {
  mlir::Operation *op = nullptr;
  mlir::Value x, residual, normWeight, normBias;
  mlir::Value gate, gateBias, up, upBias, outputResidual;
  llvm::SmallVector<DecodeOutput> outputs;
  NormAttr norm;
  StaticScalesAttr scales;
  RoundingAttr rounding;
  Activation activation = Activation::SiLU;
  bool addStream = false;
  /// Indices of the results that are the stream and the normed input, or -1.
  int64_t streamResult = -1, normedResult = -1;
  /// Widths of the input and of the hidden layer; without a GEMM1 the
  /// last one reduces over the input.
  int64_t width = 0, hidden = 0;
  /// Number of tokens where it is static.
  std::optional<int64_t> tokens;

  bool hasGemm1() const { return static_cast<bool>(up); }
  bool isGated() const { return static_cast<bool>(gate); }
  bool isF8() const { return static_cast<bool>(scales); }
  int64_t getElementBytes() const { return isF8() ? 1 : 2; }
  /// What GEMM2 reduces over.
  int64_t getReduction() const { return hasGemm1() ? hidden : width; }
  /// Bytes of all weights, which a decode kernel has to read.
  int64_t getWeightBytes() const;
  /// Whether a value is rounded to bf16 at a rounding point.
  bool roundsAt(llvm::StringRef point) const;
};

/// Describes any op of the three families, or says in `reason` that `op` is
/// none.
std::optional<MlpProblem> describeFamily(mlir::Operation *op,
                                         std::string &reason);

/// Describes `op`, or says in `reason` why no scheduled kernel can do it.
std::optional<MlpProblem> describeDecode(mlir::Operation *op,
                                         std::string &reason);

/// How the products of a problem are cut into tiles. A packed tile is 256 rows
/// of a weight, a k-step 128 bytes; ragged edges are padded with zeros when
/// weights are packed. A tile is a packed one, half of one, or three quarters.
///
/// A quarter is 64 rows, what one product takes. Each half of a packed tile has
/// a run of hidden units, and its quarters have every other one of them. So
/// three neighboring quarters are a pair, which has a run, and a single one,
/// which has every other unit of the run beside: the rest is in the tile that
/// makes two halves of three with this one.
struct ProductTiling {
  /// With tiles of `gemm1TileM` and `rows` weight rows.
  ProductTiling(const MlpProblem &problem, int64_t gemm1TileM, int64_t rows,
                bool swapAB = false);

  /// Bytes of an operand of the products.
  int64_t bytes;
  /// Weight rows of a tile of GEMM1, and hidden units it makes.
  int64_t gemm1TileM, hiddenPerTile = 0;
  /// Tiles, packed tiles and k-steps of GEMM1.
  int64_t tiles1 = 0, packedTiles1 = 0, steps1 = 0;
  /// Whether tokens are the left operand of GEMM1. A tile is whole
  /// groups of 32 packed rows then, as many as follow each other in memory and
  /// in both halves of a run, and the last tile ends with the last of them.
  bool swapAB;
  int64_t groupsPerTile = 0, groupsPerStep = 0, groups = 0;
  /// Outputs of a tile of GEMM2, its tiles side by side, its
  /// packed tiles, and its k-steps.
  int64_t rows, tiles2 = 0, packedTiles2 = 0, steps2;
  /// The first tile of each linear of GEMM2, and their end.
  llvm::SmallVector<int64_t> firstTiles;
};

/// How a schedule cuts a decode kernel into units: a tile of GEMM2
/// and a range of its k-steps.
struct DecodeTiling : ProductTiling {
  DecodeTiling(const MlpProblem &problem, tile::ScheduleAttr schedule);

  /// Why the schedule cannot be, or an empty string.
  std::string getProblem() const;

  /// Parts of a range, and tiles of GEMM1 for each: block i has
  /// tile i of every part.
  int64_t parts = 1, tilesPerPart = 0;
  /// Tiles of a part that feed one range of GEMM2, k-steps of a
  /// range, and ranges that are not empty.
  int64_t tilesPerRange = 0, stepsPerRange, ranges;
  /// Units of GEMM2: a tile and a range.
  int64_t getUnits() const { return tiles2 * ranges; }
  /// Ranges whose blocks add up the sums of a tile of GEMM2, and
  /// how many are enough: half of them, and up to an eighth more where each has
  /// fewer columns then, but no more than there are columns.
  int64_t reducers, halfReducers, fewReducers;
  /// Blocks that have tiles of GEMM1: the others are late ones.
  int64_t gemm1Blocks;
  /// Whether all of these have as many: only then does `straggler_in_flight`
  /// say something.
  bool sharesGemm1Evenly() const { return tiles1 % gemm1Blocks == 0; }
  /// Blocks that have a tile more than the others have, the first ones. Where
  /// there are some, units belong to the last blocks.
  int64_t longBlocks = 0, firstUnit = 0;

  /// How many of `blocks` have more of `tiles` than the others, or 0 where most
  /// have.
  static int64_t countLong(int64_t tiles, int64_t blocks);

  /// Whether late blocks lie evenly among the others: where those alone keep
  /// device memory busy.
  bool spreadsLate(tile::ScheduleAttr schedule) const;
  /// Whether late blocks wait with their weights until all of the first
  /// product's have been requested, which they would only delay.
  bool waitsLate(tile::ScheduleAttr schedule) const {
    return spreadsLate(schedule) && getUnits() > gemm1Blocks;
  }

  /// Whether a tile is three quarters of a packed one.
  bool hasSingle() const { return gemm1TileM == 192 && !swapAB; }
  /// Hidden units of a tile that follow each other.
  int64_t getRun() const {
    return hasSingle() ? hiddenPerTile / 3 * 2 : hiddenPerTile;
  }
  /// Token stages that a tile of the hidden layer takes, those of its run, and
  /// bytes of a token in each of these.
  int64_t getHiddenStages() const {
    return llvm::divideCeil(hiddenPerTile * bytes, 128);
  }
  int64_t getRunStages() const {
    return llvm::divideCeil(getRun() * bytes, 128);
  }
  int64_t getHiddenBytes() const {
    return std::min<int64_t>(getRun() * bytes, 128);
  }
  /// Stages of weights of a tile of GEMM1: of three quarters, the
  /// single ones of two k-steps are one.
  int64_t getGemm1Stages() const {
    return steps1 + (hasSingle() ? llvm::divideCeil(steps1, 2) : 0);
  }
  /// k-steps in a stage of weights of GEMM2.
  int64_t getStepsPerStage() const {
    return gemm1TileM == 256 ? gemm1TileM / rows : 1;
  }
  /// Groups of packed rows that make the hidden units of a range.
  int64_t getRangeGroups() const { return stepsPerRange * groupsPerStep; }
};

/// Whether gate and up can wait in bf16 for their activation.
bool canDefer(const MlpProblem &problem);

/// Tokens of a kernel for up to `tokens`: whole groups of eight, of which
/// warpgroups share pairs where tiles are three quarters.
int64_t getTokenTile(int64_t tokens, int64_t gemm1TileM);

/// Why `schedule` cannot be the schedule of `problem`, or an empty string.
std::string getScheduleProblem(const MlpProblem &problem,
                               tile::ScheduleAttr schedule);

} // namespace fuse

#endif // FUSE_SCHEDULE_MLPPROBLEM_H
