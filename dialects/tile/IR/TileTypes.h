//===- TileTypes.h - Types and attributes of tile ------------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILETYPES_H
#define TILE_IR_TILETYPES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpImplementation.h"
#include "tile/IR/TileDialect.h"

#include "tile/IR/TileEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "tile/IR/TileAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "tile/IR/TileTypes.h.inc"

namespace tile {

/// Bytes of shared memory that a block of sm_90 can use, static and dynamic.
constexpr int64_t kMaxSharedBytes = 227 * 1024;

/// Most tokens that one launch of kernels for many tokens serves.
constexpr int64_t kMaxPrefillTokens = 16384;

/// Tokens of a decode schedule whose activations are deferred: what waits takes
/// half as many registers as the accumulators.
constexpr int64_t kMaxDeferredTokens = 192;

/// Why `bounds` are not the ends of ranges of tokens that follow each other
/// without gaps and overlaps, or an empty string.
std::string getBoundsProblem(llvm::ArrayRef<int64_t> bounds);

/// Name of the discardable attribute that holds the schedule of a fused op.
constexpr llvm::StringLiteral kScheduleAttrName = "tile.schedule";
/// Of a loop that stays a loop in PTX.
constexpr llvm::StringLiteral kRolledAttrName = "tile.rolled";

} // namespace tile

#endif // TILE_IR_TILETYPES_H
