//===- CompileWith.h - Compiling for the C interface ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CAPI_COMPILEWITH_H
#define FUSE_CAPI_COMPILEWITH_H

#include "Context.h"
#include "fuse/Artifact/Compiler.h"

namespace fuse {

/// Runs `compile` on `module`, which returns the bytes of an artifact, and
/// loads them. Diagnostics become part of the error.
fuse_status compileWith(
    const fuse_module &module, const fuse_compile_options *options,
    llvm::function_ref<llvm::Expected<std::string>(const CompileOptions &)>
        compile,
    fuse_artifact **artifact);

} // namespace fuse

#endif // FUSE_CAPI_COMPILEWITH_H
