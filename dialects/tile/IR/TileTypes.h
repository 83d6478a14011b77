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

/// Bytes of shared memory available to a block of sm_90, static and dynamic.
constexpr int64_t kMaxSharedBytes = 227 * 1024;

/// Maximum number of tokens of a launch of prefill kernels.
constexpr int64_t kMaxPrefillTokens = 16384;

/// Maximum number of tokens of a decode schedule with a deferred epilogue. The
/// deferred values need half as many registers as the accumulators.
constexpr int64_t kMaxDeferredTokens = 192;

/// The reason why `bounds` are not the ends of consecutive ranges of tokens
/// without gaps and overlaps, or an empty string.
std::string getBoundsProblem(llvm::ArrayRef<int64_t> bounds);

/// Discardable attribute with the schedule of a fused op.
constexpr llvm::StringLiteral kScheduleAttrName = "tile.schedule";
/// Attribute of a loop that stays a loop in PTX.
constexpr llvm::StringLiteral kRolledAttrName = "tile.rolled";

} // namespace tile

#endif // TILE_IR_TILETYPES_H
