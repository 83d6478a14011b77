//===- KernelFromChain.h - Build the fused op of a chain --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_FUSION_KERNELFROMCHAIN_H
#define FUSE_TRANSFORMS_FUSION_KERNELFROMCHAIN_H

#include "fuse/IR/FuseOps.h"

namespace fuse {

struct ChainMatch;

/// Creates the fused op of `match` before its anchor, with the provenance that
/// unfusing needs. The members stay in place. Returns null without changing the
/// IR if the op's decomposition would not be the matched chain.
FusedOpInterface createKernelFromChain(ChainMatch &match, RoundingMode mode,
                                       mlir::StringAttr site);

} // namespace fuse

#endif // FUSE_TRANSFORMS_FUSION_KERNELFROMCHAIN_H
