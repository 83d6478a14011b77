//===- CompileOptions.h - Options of the C interface ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CAPI_COMPILEOPTIONS_H
#define FUSE_CAPI_COMPILEOPTIONS_H

#include "fuse-c/Compiler.h"
#include "fuse/Compiler/Compiler.h"

namespace fuse {

/// Checks options, which may be null or of an earlier version.
fuse_status readCompileOptions(const fuse_compile_options *options,
                               CompileOptions &chosen);

} // namespace fuse

#endif // FUSE_CAPI_COMPILEOPTIONS_H
