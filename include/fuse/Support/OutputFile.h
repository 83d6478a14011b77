//===- OutputFile.h - Write a file at once ----------------------*- C++ -*-===//
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

/// Writes what `body` prints to a file, `-` for standard output. The file is
/// there as a whole or, after an error, as it was before, so that `body` may
/// read it. Pipes and devices are written to and stay what they are.
llvm::Error
writeFile(llvm::StringRef path,
          llvm::function_ref<llvm::Error(llvm::raw_ostream &)> body);

} // namespace fuse

#endif // FUSE_SUPPORT_OUTPUTFILE_H
