//===- FormGroups.h - Form a group of all ops of a function -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_FUSION_FORMGROUPS_H
#define FUSE_TRANSFORMS_FUSION_FORMGROUPS_H

#include "fuse/Transforms/Transforms.h"

namespace fuse {

/// The site id of the group in a function: `<function>#0`.
mlir::StringAttr getGroupSite(mlir::FunctionOpInterface function);

/// Moves all ops of `function` into one `fuse.group`, or refuses with a remark.
KernelFormationCounts formGroup(mlir::FunctionOpInterface function,
                                const KernelFormation &formation,
                                RoundingAttr rounding);

} // namespace fuse

#endif // FUSE_TRANSFORMS_FUSION_FORMGROUPS_H
