//===- ModelChecks.h - Random models of modules -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_MODELCHECKS_H
#define FUSE_TOOLS_FUSE_FUZZ_MODELCHECKS_H

#include "Checks.h"

#include <string>

namespace fuse {

/// The text of a random model: layers with norms, MLPs and modules that are
/// declared only; calls in chains, twice, with second users and side inputs;
/// hooks, attributes and locations that must survive.
std::string generateModel(uint64_t seed);

/// Fuses a model by random patterns, brings bodies together, forms kernels,
/// prints, parses and undoes it: whole, and site by site in random order. Each
/// time the model must be the one it was.
llvm::StringRef checkModel(mlir::ModuleOp module, Random &random,
                           CheckCounts &counts);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_MODELCHECKS_H
