//===- InitAllPasses.h - Register all passes of fuse ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_INITALLPASSES_H
#define FUSE_INITALLPASSES_H

#include "fuse/Conversion/Passes.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Slots/Passes.h"
#include "fuse/Target/Passes.h"
#include "fuse/Transforms/Passes.h"

namespace fuse {

/// Registers the passes and pipelines of this project.
inline void registerAllPasses() {
  registerConversionPasses();
  registerSlotsPasses();
  registerTargetPasses();
  registerTransformsPasses();
  registerPipelines();
}

} // namespace fuse

#endif // FUSE_INITALLPASSES_H
