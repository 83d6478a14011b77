//===- DecodeProblem.h - What a decode kernel has to do ------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_DECODEPROBLEM_H
#define FUSE_ANALYSIS_DECODEPROBLEM_H

#include "fuse/IR/FuseOps.h"
#include "tile/IR/TileTypes.h"

#include <optional>
#include <string>

namespace fuse {

/// A fused op that the scheduled path has a kernel for, families made alike.
/// A dense MLP has no gate; its activation acts on `up`.
struct DecodeProblem {
  mlir::Operation *op = nullptr;
  mlir::Value x, residual, normWeight, normBias;
  mlir::Value gate, gateBias, up, upBias, down, downBias, outputResidual;
  NormAttr norm;
  StaticScalesAttr scales;
  RoundingAttr rounding;
  Activation activation = Activation::SiLU;
  bool addStream = false;
  bool returnsStream = false;
  /// Widths of the input, of the hidden layer and of the output.
  int64_t width = 0, hidden = 0, output = 0;
  /// Number of tokens where it is static.
  std::optional<int64_t> tokens;

  bool isGated() const { return static_cast<bool>(gate); }
  bool isF8() const { return static_cast<bool>(scales); }
  int64_t getElementBytes() const { return isF8() ? 1 : 2; }
  /// Bytes of all weights, which a decode kernel has to read.
  int64_t getWeightBytes() const;
  /// Whether a value is rounded to bf16 at a rounding point.
  bool roundsAt(llvm::StringRef point) const;
};

/// Describes `op`, or says in `reason` why the decode kernel can not do it.
std::optional<DecodeProblem> describeDecode(mlir::Operation *op,
                                            std::string &reason);

/// How a schedule cuts a problem into tiles. A weight tile is 256 rows, a
/// k-step 128 bytes; ragged edges are padded with zeros when weights are
/// packed.
struct DecodeTiling {
  DecodeTiling(const DecodeProblem &problem, tile::ScheduleAttr schedule);

  /// Hidden units that one tile of the first product makes.
  int64_t hiddenPerTile;
  /// Tiles and k-steps of the first product.
  int64_t tiles1, steps1;
  /// Tiles and k-steps of the second product.
  int64_t tiles2, steps2;
  /// Tiles of the first product that feed one range of the second, k-steps of
  /// a range, and ranges that are not empty.
  int64_t tilesPerRange, stepsPerRange, ranges;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_DECODEPROBLEM_H
