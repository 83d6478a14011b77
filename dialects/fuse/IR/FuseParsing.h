//===- FuseParsing.h - Shared parsers of attributes and ops -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEPARSING_H
#define FUSE_IR_FUSEPARSING_H

#include "fuse/IR/FuseAttrs.h"

namespace fuse {

/// Parses a case of an enumeration. The error of an unknown case lists the
/// known ones.
template <typename Enum>
mlir::ParseResult parseCase(mlir::AsmParser &parser, llvm::StringRef what,
                            Enum &value,
                            std::optional<Enum> (*symbolize)(llvm::StringRef),
                            llvm::StringRef choices) {
  llvm::StringRef keyword;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return mlir::failure();
  if (std::optional<Enum> parsed = symbolize(keyword)) {
    value = *parsed;
    return mlir::success();
  }
  return parser.emitError(loc) << "unknown " << what << " '" << keyword
                               << "'; expected one of " << choices;
}

/// Parses a rounding point as a bare keyword.
mlir::ParseResult parseRoundingPoint(mlir::AsmParser &parser,
                                     RoundingPoint &point);

} // namespace fuse

#endif // FUSE_IR_FUSEPARSING_H
