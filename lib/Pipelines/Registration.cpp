//===- Registration.cpp - Register the pipelines --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace fuse;

void fuse::registerPipelines() {
  PassPipelineRegistration<>(
      "fuse-raising-pipeline",
      "Recognize layers, as each tool does first that fuses a file",
      buildRaisingPipeline);
  PassPipelineRegistration<KernelFormationPipelineOptions>(
      "fuse-kernel-formation-pipeline",
      "Recognize layers and replace chains of them by fused ops",
      buildKernelFormationPipeline);
  PassPipelineRegistration<CPUPipelineOptions>(
      "fuse-cpu-pipeline",
      "Lower functions with layers and kernels to the LLVM dialect for a "
      "CPU",
      buildCPUPipeline);
  PassPipelineRegistration<CPUKernelsPipelineOptions>(
      "fuse-cpu-kernels-pipeline",
      "Lower functions that are one fused op to kernels for a CPU, with "
      "vectors and packed weights",
      buildCPUKernelsPipeline);
  PassPipelineRegistration<HopperPipelineOptions>(
      "fuse-hopper-pipeline", "Lower fused ops with a scheduled kernel to PTX",
      buildHopperPipeline);
  PassPipelineRegistration<>(
      "fuse-linalg-pipeline",
      "Lower layers and kernels to linalg on rank-2 tensors",
      [](OpPassManager &pm) { buildLinalgPipeline(pm); });
  registerPassPipeline(
      "fuse-gpu-pipeline", "Lower functions of layers to PTX for any GPU",
      [](OpPassManager &pm, StringRef text,
         function_ref<LogicalResult(const Twine &)> reportError) {
        GPUPipelineOptions options;
        if (failed(options.parseFromString(text)))
          return failure();
        return buildGPUPipeline(pm, options, reportError);
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> handler) {
        handler(GPUPipelineOptions());
      });
}
