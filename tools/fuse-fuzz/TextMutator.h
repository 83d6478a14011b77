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

/// Makes damaged modules out of files with valid and invalid ones: a few tokens
/// of a section are left out, doubled, exchanged, or replaced by tokens that
/// stand elsewhere in the files, or an attribute is left out.
class TextMutator {
public:
  /// Reads the `.mlir` files in a folder, in the order of their names. Returns
  /// an error message, or nothing. What `context` can parse is there in the
  /// generic form as well, in which anything may be missing.
  std::string load(llvm::StringRef folder, mlir::MLIRContext *context);

  std::string generate(Random &random) const;

private:
  /// Tokens with the space in front of them, by section.
  std::vector<std::vector<std::string>> sections;
  std::vector<std::string> vocabulary;
};

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_TEXTMUTATOR_H
