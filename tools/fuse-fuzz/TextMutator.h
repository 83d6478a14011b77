//===- TextMutator.h - Damaged copies of valid text -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_TEXTMUTATOR_H
#define FUSE_TOOLS_FUSE_FUZZ_TEXTMUTATOR_H

#include "ModuleGenerator.h"

#include <string>
#include <vector>

namespace fuse {

/// Adds the paths of the `.mlir` files in a folder to `paths`, which it orders.
/// Returns an error message, or an empty string.
std::string findModules(llvm::StringRef folder,
                        std::vector<std::string> &paths);

/// Creates damaged modules from files with valid and invalid ones. It removes,
/// duplicates, swaps or replaces a few tokens of a section, with tokens from
/// anywhere in the files, or removes an attribute.
class TextMutator {
public:
  /// Reads the `.mlir` files in a folder, ordered by name. Returns an error
  /// message, or an empty string. Modules that `context` can parse are added in
  /// generic form too, in which any part may be missing.
  std::string load(llvm::StringRef folder, mlir::MLIRContext *context);

  std::string generate(Random &random) const;

private:
  /// Tokens with their leading white space, by section.
  std::vector<std::vector<std::string>> sections;
  std::vector<std::string> vocabulary;
};

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_TEXTMUTATOR_H
