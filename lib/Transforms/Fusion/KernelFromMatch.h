//===- KernelFromMatch.h - Build the fused op of a chain --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_FUSION_KERNELFROMMATCH_H
#define FUSE_TRANSFORMS_FUSION_KERNELFROMMATCH_H

#include "fuse/IR/FuseOps.h"

namespace fuse {

struct KernelMatch;

/// Creates the fused op of `match` in front of its anchor, with the provenance
/// that unfusing needs, and leaves the members where they are. Returns null,
/// and nothing is left behind, when the op's decomposition would not be the
/// matched chain.
FusedOpInterface createKernelFromMatch(KernelMatch &match, RoundingMode mode,
                                       mlir::StringAttr site);

} // namespace fuse

#endif // FUSE_TRANSFORMS_FUSION_KERNELFROMMATCH_H
