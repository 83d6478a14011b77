//===- TextLimits.h - Limits of untrusted text ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SUPPORT_TEXTLIMITS_H
#define FUSE_SUPPORT_TEXTLIMITS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstddef>
#include <memory>

namespace fuse {

/// Largest text that is parsed, in bytes.
inline constexpr size_t kMaxTextSize = size_t(64) << 20;

/// Deepest nesting of brackets that is parsed. The recursive parsers of MLIR
/// and of LLVM's JSON need some hundred bytes of stack per level and have no
/// limit.
inline constexpr unsigned kMaxTextDepth = 256;

/// Refuses text that would crash a recursive parser: text that is too large or
/// nested too deeply, and MLIR bytecode, whose reader is not hardened. Brackets
/// in strings and in `//` comments do not count.
llvm::Error checkTextLimits(llvm::StringRef text);

/// Refuses text of any size that would crash MLIR's parser: brackets that are
/// nested too deeply, and arrays of `index`, which is not an attribute.
llvm::Error checkForParser(llvm::StringRef text);

/// Reports the first file among the arguments of a tool that `checkForParser`
/// refuses. For tools whose `main` belongs to MLIR and reads the files itself.
llvm::Error checkInputFiles(int argc, const char *const *argv);

/// The text of a file, or of standard input for `-`, if it is within the
/// limits. The text of an older version of the IR is upgraded.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readText(llvm::StringRef path);

} // namespace fuse

#endif // FUSE_SUPPORT_TEXTLIMITS_H
