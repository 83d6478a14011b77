//===- FormGroups.h - Make one group of a function --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_FUSION_FORMGROUPS_H
#define FUSE_TRANSFORMS_FUSION_FORMGROUPS_H

#include "fuse/Transforms/Transforms.h"

namespace fuse {

/// The site of the group that a function becomes: `<function>#0`.
mlir::StringAttr getGroupSite(mlir::FunctionOpInterface function);

/// Replaces everything in `function` by one `fuse.group`, or says in a remark
/// why that can not be.
KernelFormationCounts formGroup(mlir::FunctionOpInterface function,
                                const KernelFormation &formation,
                                RoundingAttr rounding);

} // namespace fuse

#endif // FUSE_TRANSFORMS_FUSION_FORMGROUPS_H
