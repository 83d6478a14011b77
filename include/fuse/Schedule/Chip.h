//===- Chip.h - GPUs that code is generated for -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_CHIP_H
#define FUSE_SCHEDULE_CHIP_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

namespace fuse {

/// What code generation has to know of a chip.
struct Chip {
  /// As the assembler spells it, such as `sm_90a`.
  llvm::StringLiteral name;
  /// Lowest PTX version, times ten, that has the chip and the instructions
  /// that fuse uses on it.
  unsigned ptxVersion;
  /// Whether conversions of 8-bit floats are instructions.
  bool hasFloat8;

  /// The feature string of the NVPTX back end, such as `+ptx80`.
  std::string getFeatures() const;
};

/// All chips that are supported, oldest first.
llvm::ArrayRef<Chip> getChips();

/// The chip called `name`. Reports an unknown name with all alternatives.
mlir::FailureOr<Chip> lookupChip(
    llvm::StringRef name,
    llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)> reportError);

} // namespace fuse

#endif // FUSE_SCHEDULE_CHIP_H
