//===- Registration.cpp - Names of the pipelines --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Pipelines/Pipelines.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace fuse;

void fuse::registerPipelines() {
  PassPipelineRegistration<CPUPipelineOptions>(
      "fuse-cpu-pipeline",
      "Lower functions with layers and kernels to the LLVM dialect for the "
      "host",
      buildCPUPipeline);
  PassPipelineRegistration<>(
      "fuse-linalg-pipeline",
      "Lower layers and kernels to linalg on rank-2 tensors",
      buildLinalgPipeline);
}
