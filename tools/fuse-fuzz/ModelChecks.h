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

/// The text of a random model. It has layers with norms, MLPs and modules
/// without a body. Calls form chains, are repeated, and have second users and
/// side inputs. Hooks, attributes and locations must survive fusion.
std::string generateModel(uint64_t seed);

/// Fuses a model by random patterns, inlines bodies, forms kernels, prints,
/// parses and undoes it: as a whole, and site by site in random order. Each
/// time the result must be the original model.
llvm::StringRef checkModel(mlir::ModuleOp module, Random &random,
                           CheckCounts &counts);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_MODELCHECKS_H
