//===- OutputFile.h - Write a file atomically -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SUPPORT_OUTPUTFILE_H
#define FUSE_SUPPORT_OUTPUTFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace fuse {

/// Writes the output of `body` to a file, or to standard output for `-`. The
/// file is replaced as a whole, or unchanged after an error, so `body` may read
/// it. Pipes and devices are written to directly.
llvm::Error
writeFile(llvm::StringRef path,
          llvm::function_ref<llvm::Error(llvm::raw_ostream &)> body);

} // namespace fuse

#endif // FUSE_SUPPORT_OUTPUTFILE_H
