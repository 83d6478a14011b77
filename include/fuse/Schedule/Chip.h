//===- Chip.h - Supported GPUs ----------------------------------*- C++ -*-===//
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

/// Properties of a chip that code generation depends on.
struct Chip {
  /// Name in assembler syntax, such as `sm_90a`.
  llvm::StringLiteral name;
  /// Lowest PTX version, times ten, that supports the chip and the instructions
  /// that fuse uses on it.
  unsigned ptxVersion;
  /// Whether the chip has instructions to convert 8-bit floats.
  bool hasFloat8;
  /// Whether tensor cores multiply 8-bit floats with `mma.sync`. For some later
  /// chips, ptxas makes 16-bit operands, which takes more registers.
  bool multipliesFloat8;
  /// Shared memory that a block can have, in bytes (CUDA C++ programming guide,
  /// table of technical specifications).
  int64_t sharedBytes;

  /// The feature string of the NVPTX back end, such as `+ptx80`.
  std::string getFeatures() const;
};

/// All supported chips, oldest first.
llvm::ArrayRef<Chip> getChips();

/// The chip called `name`. The error for an unknown name lists all chips.
mlir::FailureOr<Chip> lookupChip(
    llvm::StringRef name,
    llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)> reportError);

} // namespace fuse

#endif // FUSE_SCHEDULE_CHIP_H
