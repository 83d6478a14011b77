//===- MlpProblem.h - MLPs for scheduled kernels ----------------*- C++ -*-===//
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

/// Maximum number of tokens of a decode kernel, which is the maximum N of a
/// wgmma. Up to 128 tokens, a block has accumulators for 256 weight rows.
constexpr int64_t kMaxDecodeTokens = 256, kMaxWholeTokens = 128;

/// Bytes in flight over all SMs that saturate HBM (H200; docs/performance).
constexpr int64_t kSaturatingBytes = 5 << 20;

/// A linear of GEMM2.
struct DecodeOutput {
  mlir::Value weight, bias;
  /// Number of outputs of the linear, and the name of its scale.
  int64_t rows = 0;
  ScaleName scale = ScaleKind::Down;
  /// The scales of the weight if they are an operand.
  mlir::Value weightScales = {};
};

/// A fused op of a family with scheduled kernels: [norm] [GEMM1, activation]
/// and a GEMM2 whose linears share their input. A dense MLP has no gate.
/// `fuse.norm_linear` and `fuse.fused_linear` have no GEMM1, and the latter has
/// no norm.
struct MlpProblem {
  mlir::Operation *op = nullptr;
  mlir::Value x, residual, normWeight, normBias;
  mlir::Value gate, gateBias, up, upBias, outputResidual;
  /// Scales of these weights if they are operands.
  mlir::Value gateScales, upScales;
  llvm::SmallVector<DecodeOutput> outputs;
  NormAttr norm;
  StaticScalesAttr scales;
  QuantAttr quant;
  RoundingAttr rounding;
  Activation activation = Activation::SiLU;
  bool addStream = false;
  /// Result numbers of the stream and of the normed input, or -1.
  int64_t streamResult = -1, normedResult = -1;
  /// Widths of the input and of the hidden layer. Without GEMM1, GEMM2 reduces
  /// over the input.
  int64_t width = 0, hidden = 0;
  /// Number of tokens if it is static.
  std::optional<int64_t> tokens;

  bool hasGemm1() const { return static_cast<bool>(up); }
  bool isGated() const { return static_cast<bool>(gate); }
  bool isF8() const { return scales || quant; }
  /// The type of quantized activations.
  mlir::Type getStorageType() const {
    return quant ? quant.getStorageType() : scales.getStorageType();
  }
  /// Whether sums of 128 products have scales of their own.
  bool hasBlockScales() const { return quant && quant.hasBlockSums(); }
  /// Whether activations have a measured scale for each token.
  bool hasTokenScales() const { return quant && !quant.hasBlockSums(); }
  int64_t getElementBytes() const { return isF8() ? 1 : 2; }
  /// The size of the dimension over which GEMM2 reduces.
  int64_t getReduction() const { return hasGemm1() ? hidden : width; }
  /// Bytes of all weights that a decode kernel reads.
  int64_t getWeightBytes() const;
  /// Whether a linear of GEMM2 returns its sums in f32, as a part of a sum over
  /// ranks.
  bool isPartial(size_t output) const;
  bool hasPartials() const {
    return llvm::any_of(llvm::seq<size_t>(0, outputs.size()),
                        [&](size_t output) { return isPartial(output); });
  }
  /// Whether a value is rounded to bf16 at a rounding point.
  bool roundsAt(RoundingPoint point) const;
};

/// Describes an op of the four families. For other ops, sets `reason`.
std::optional<MlpProblem> describeFamily(mlir::Operation *op,
                                         std::string &reason);

/// Number of consecutive inputs that share a scale, and of the outputs of a
/// weight that do.
constexpr int64_t kScaleBlock = 128;

/// Describes `op`. If the scheduled kernels do not support it, sets `reason`.
std::optional<MlpProblem> describeDecode(mlir::Operation *op,
                                         std::string &reason);

/// The reason why no kernel with measured scales supports `tokens` tokens, or
/// an empty string.
std::string getTokensProblem(const MlpProblem &problem, int64_t tokens);

/// Tiles of both products. A packed tile is 256 rows of a weight, and a k-step
/// is 128 bytes. Packing pads ragged edges with zeros. A tile is a packed tile,
/// half of one, or three quarters of one.
///
/// A quarter is 64 rows, the M of one wgmma. Each half of a packed tile has a
/// run of consecutive hidden units, and each of its two quarters has every
/// other unit of the run. Three adjacent quarters are therefore a pair, which
/// has a complete run, and a single one, which has every other unit of the
/// adjacent run. The remaining units of that run are in the neighbor tile. Two
/// such tiles cover three halves.
struct ProductTiling {
  /// Tiles of `gemm1TileM` weight rows in GEMM1 and `rows` in GEMM2.
  ProductTiling(const MlpProblem &problem, int64_t gemm1TileM, int64_t rows,
                bool swapAB = false);

  /// Bytes of an element of the operands.
  int64_t bytes;
  /// Weight rows of a GEMM1 tile, and the number of hidden units that it
  /// computes.
  int64_t gemm1TileM, hiddenPerTile = 0;
  /// Numbers of tiles, packed tiles and k-steps of GEMM1.
  int64_t tiles1 = 0, packedTiles1 = 0, steps1 = 0;
  /// Whether tokens are the left operand (M) of GEMM1, as with swap-AB. A tile
  /// then consists of whole groups of 32 packed rows. The groups of a tile are
  /// contiguous in memory and have rows of both halves of a run. The last tile
  /// ends with the last group.
  bool swapAB;
  int64_t groupsPerTile = 0, groupsPerStep = 0, groups = 0;
  /// Outputs of a GEMM2 tile, and numbers of tiles, packed tiles and k-steps of
  /// GEMM2.
  int64_t rows, tiles2 = 0, packedTiles2 = 0, steps2;
  /// The first tile of each linear of GEMM2, followed by the number of tiles.
  llvm::SmallVector<int64_t> firstTiles;
};

/// Division of a decode kernel into units. A unit is a tile of GEMM2 and a
/// K-slice.
struct DecodeTiling : ProductTiling {
  DecodeTiling(const MlpProblem &problem, tile::ScheduleAttr schedule);

  /// The reason why the schedule is invalid, or an empty string.
  std::string getProblem() const;

  /// Number of parts of a K-slice, and GEMM1 tiles per part. Block i computes
  /// tile i of every part.
  int64_t parts = 1, tilesPerPart = 0;
  /// GEMM1 tiles of a part that feed one K-slice of GEMM2, k-steps per K-slice,
  /// and number of K-slices that are not empty.
  int64_t tilesPerSlice = 0, stepsPerSlice, slices;
  /// Number of units of GEMM2, which are pairs of a tile and a K-slice.
  int64_t getUnits() const { return tiles2 * slices; }
  /// Number of K-slices whose blocks reduce a tile of GEMM2. `halfReducers` is
  /// half of the K-slices. `fewReducers` is up to an eighth of the K-slices
  /// more, if each reducer then has fewer columns. Both are at most the number
  /// of columns.
  int64_t reducers, halfReducers, fewReducers;
  /// Number of blocks with GEMM1 tiles. The other blocks have only GEMM2 units.
  int64_t gemm1Blocks;
  /// Whether all of these have equally many tiles. Otherwise,
  /// `straggler_in_flight` has no meaning.
  bool sharesGemm1Evenly() const { return tiles1 % gemm1Blocks == 0; }
  /// Number of blocks at the start of the grid with an extra tile. If there are
  /// any, the last blocks process the units, beginning with block `firstUnit`.
  int64_t longBlocks = 0, firstUnit = 0;

  /// Number of the `blocks` that have an extra one of `tiles`. Returns 0 if
  /// they are more than two fifths of the blocks.
  static int64_t countLong(int64_t tiles, int64_t blocks);

  /// Whether blocks without GEMM1 tiles are spread evenly over the grid. This
  /// is the case if the other blocks alone saturate HBM.
  bool spreadsGemm2Only(tile::ScheduleAttr schedule) const;
  /// Whether blocks without GEMM1 tiles issue their weight loads only after all
  /// GEMM1 weights have been requested. Earlier loads would only delay GEMM1.
  bool delaysGemm2Only(tile::ScheduleAttr schedule) const {
    return spreadsGemm2Only(schedule) && getUnits() > gemm1Blocks;
  }

  /// Whether a tile is three quarters of a packed one.
  bool hasSingle() const { return gemm1TileM == 192 && !swapAB; }
  /// Number of consecutive hidden units of a tile.
  int64_t getRun() const {
    return hasSingle() ? hiddenPerTile / 3 * 2 : hiddenPerTile;
  }
  /// Number of token stages for the hidden units of a tile, the same for its
  /// run, and bytes of a token in each stage.
  int64_t getHiddenStages() const {
    return llvm::divideCeil(hiddenPerTile * bytes, 128);
  }
  int64_t getRunStages() const {
    return llvm::divideCeil(getRun() * bytes, 128);
  }
  int64_t getHiddenBytes() const {
    return std::min<int64_t>(getRun() * bytes, 128);
  }
  /// Number of weight stages of a GEMM1 tile. With 192-row tiles, one stage has
  /// the single quarters of two k-steps.
  int64_t getGemm1Stages() const {
    return steps1 + (hasSingle() ? llvm::divideCeil(steps1, 2) : 0);
  }
  /// GEMM1 tiles of the block with the most tiles.
  int64_t countRounds(int64_t blocks) const {
    return llvm::divideCeil(tiles1, blocks);
  }
  /// k-steps per weight stage of GEMM2.
  int64_t getStepsPerStage() const {
    return gemm1TileM == 256 ? gemm1TileM / rows : 1;
  }
  /// Groups of packed rows that compute the hidden units of a K-slice.
  int64_t getSliceGroups() const { return stepsPerSlice * groupsPerStep; }
};

/// Whether gate and up may be stored in bf16 until their activation.
bool canDefer(const MlpProblem &problem);

/// Number of tokens of a kernel for up to `tokens` tokens: a multiple of 8. For
/// 192-row tiles it is a multiple of 16, because warpgroups share pairs.
int64_t getTokenTile(int64_t tokens, int64_t gemm1TileM);

/// Bytes of a stage with a k-step of tokens. With scales of blocks, the scale
/// of each token follows the tokens.
int64_t getTokenStageBytes(const MlpProblem &problem, int64_t tokens);

/// Bytes of static shared memory for measured scales: those of the weights of a
/// block, and the largest hidden unit of each warp and token.
int64_t getScaleScratchBytes(const MlpProblem &problem,
                             const DecodeTiling &tiling,
                             tile::ScheduleAttr schedule);

/// The reason why `schedule` is invalid for `problem`, or an empty string.
std::string getScheduleProblem(const MlpProblem &problem,
                               tile::ScheduleAttr schedule);

} // namespace fuse

#endif // FUSE_SCHEDULE_MLPPROBLEM_H
