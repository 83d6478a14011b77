//===- IRVersion.h - Versions of the IR in files ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All dialects of fuse have one version. Files that are kept contain it: a text
// as an attribute of its module, bytecode once per dialect. A text of an older
// version is upgraded before it is parsed, since an older name has no op that
// could parse it. A newer file is refused by its number.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SUPPORT_IRVERSION_H
#define FUSE_SUPPORT_IRVERSION_H

#include "mlir/IR/Attributes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>

namespace llvm {
class MemoryBuffer;
} // namespace llvm

namespace mlir {
class Dialect;
class DialectVersion;
class Operation;
} // namespace mlir

namespace fuse {

/// Attribute of a module: the version of the IR in a text.
inline constexpr llvm::StringLiteral kVersionAttrName = "fuse.version";

/// A name that changed. Ops are named `fuse.rms_norm`, attributes and types
/// with their mark: `#fuse.scales`. Names in dictionaries of attributes do not
/// change.
struct IRRename {
  /// First version that has the new name.
  unsigned version;
  llvm::StringLiteral from, to;
};

/// The versions that a build reads. Renames are in the order of versions.
struct IRVersions {
  unsigned oldest, current;
  llvm::ArrayRef<IRRename> renames;
};

/// The versions of this build.
const IRVersions &getIRVersions();

/// The attribute `fuse.version` of this build.
mlir::Attribute getVersionAttr(mlir::MLIRContext *context);

/// Verifies an attribute `fuse.version`. Its text has been upgraded, so it is
/// the current version.
llvm::LogicalResult verifyVersion(mlir::Operation *op,
                                  mlir::Attribute attribute);

/// A text in the current version, or nothing if `text` has that version or none
/// of its own. Lines keep their numbers.
llvm::Expected<std::optional<std::string>>
upgradeText(llvm::StringRef text, const IRVersions &versions = getIRVersions());

/// Replaces `buffer` by its upgraded text, if it is the text of an older
/// version.
llvm::Error upgradeBuffer(std::unique_ptr<llvm::MemoryBuffer> &buffer);

/// Makes bytecode contain the version of a dialect. The reader refuses versions
/// that this build does not have.
void addVersionInterface(mlir::Dialect *dialect);

/// A version for `mlir::BytecodeWriterConfig::setDialectVersion`.
std::unique_ptr<mlir::DialectVersion> makeDialectVersion(unsigned version);

} // namespace fuse

#endif // FUSE_SUPPORT_IRVERSION_H
