//===- Pipelines.h - Pipelines from layers to machine code ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_PIPELINES_PIPELINES_H
#define FUSE_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassOptions.h"

#include <functional>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace fuse {

/// A part of a pipeline, after which a tool may print the IR.
struct Phase {
  llvm::StringLiteral name;
  std::function<void(mlir::OpPassManager &)> build;
};

//===----------------------------------------------------------------------===//
// Kernel formation
//===----------------------------------------------------------------------===//

struct KernelFormationPipelineOptions
    : mlir::PassPipelineOptions<KernelFormationPipelineOptions> {
  Option<std::string> rounding{
      *this, "rounding",
      llvm::cl::desc("Rounding contract of new kernels: exact or relaxed"),
      llvm::cl::init("exact")};
  Option<std::string> unequalScales{
      *this, "unequal-scales",
      llvm::cl::desc("What to do with unequal gate and up scales: keep, "
                     "requantize or refuse"),
      llvm::cl::init("keep")};
  ListOption<std::string> families{
      *this, "families", llvm::cl::desc("Families to form, all when empty")};
  ListOption<std::string> disable{
      *this, "disable", llvm::cl::desc("Site ids that are left alone")};
};

/// From written-out layers and layer ops to fused ops.
///
/// Pre: functions on tensors, as a front end writes them.
/// Post: every site is a fused op or was refused with a remark. `fuse-unfuse`
/// restores the layer ops.
void buildKernelFormationPipeline(
    mlir::OpPassManager &pm, const KernelFormationPipelineOptions &options);

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

struct CPUPipelineOptions : mlir::PassPipelineOptions<CPUPipelineOptions> {
  Option<bool> reference{
      *this, "reference",
      llvm::cl::desc("Lower to plain scalar loops, whose sums run in order of "
                     "the operands; for comparisons"),
      llvm::cl::init(false)};
  Option<int64_t> lanes{
      *this, "lanes",
      llvm::cl::desc("Partial sums of a linear or norm, a power of two; "
                     "results depend on this number and on no other option"),
      llvm::cl::init(16)};
  Option<int64_t> rows{*this, "rows",
                       llvm::cl::desc("Tokens per block of a linear"),
                       llvm::cl::init(2)};
  Option<int64_t> columns{*this, "columns",
                          llvm::cl::desc("Outputs per block of a linear"),
                          llvm::cl::init(4)};
  Option<bool> scaleArguments{
      *this, "scale-arguments",
      llvm::cl::desc("Pass numbers that follow from static scales as "
                     "arguments, so that code does not depend on them"),
      llvm::cl::init(false)};
};

/// From layers and fused ops in functions on tensors to linalg on tensors.
///
/// Pre: a module of functions with fuse, arith, linalg, math and tensor ops,
/// and of models, which first become functions.
/// Post: no op of the fuse dialect, and no reshapes between layers.
void buildLinalgPipeline(mlir::OpPassManager &pm, bool scaleArguments = false);

/// From functions on tensors to the LLVM dialect for a CPU.
///
/// Pre: as for `buildLinalgPipeline`.
/// Post: only ops of the LLVM dialect. A public function `f` can be called as
/// `_mlir_ciface_f`: tensors are memref descriptors in row-major layout. A
/// pointer to one struct with all results precedes the arguments. Arguments are
/// not written. Results are allocated with `malloc`, and the caller owns them.
void buildCPUPipeline(mlir::OpPassManager &pm,
                      const CPUPipelineOptions &options);

/// The phases of `buildCPUPipeline` in order: `linalg`, `buffers`, `loops`,
/// `llvm`.
llvm::SmallVector<Phase> getCPUPhases(const CPUPipelineOptions &options);

struct CPUKernelsPipelineOptions
    : mlir::PassPipelineOptions<CPUKernelsPipelineOptions> {
  Option<int64_t> lanes{
      *this, "lanes",
      llvm::cl::desc("Numbers of type f32 in a vector register: 4, 8 or 16"),
      llvm::cl::init(4)};
  Option<int64_t> registers{*this, "registers",
                            llvm::cl::desc("Vector registers: 16 or 32"),
                            llvm::cl::init(16)};
  Option<bool> fma{*this, "fma",
                   llvm::cl::desc("Multiply and add with one rounding"),
                   llvm::cl::init(false)};
  Option<bool> dot{*this, "dot",
                   llvm::cl::desc("Multiply pairs in bf16 by AVX512-BF16"),
                   llvm::cl::init(false)};
  Option<bool> tiles{*this, "tiles",
                     llvm::cl::desc("Multiply tiles in bf16 by AMX"),
                     llvm::cl::init(false)};
};

/// The scheduled path for a CPU: from functions of fused ops to the LLVM
/// dialect.
///
/// Pre: functions on tensors with fused ops.
/// Post: `module @cpu_kernels` contains the phases of each function that
/// `convert-fuse-to-cpu` accepts, with only LLVM dialect ops. A phase `f` can
/// be called as `_mlir_ciface_f`. The rest of the module does not change.
void buildCPUKernelsPipeline(mlir::OpPassManager &pm,
                             const CPUKernelsPipelineOptions &options);

//===----------------------------------------------------------------------===//
// GPU
//===----------------------------------------------------------------------===//

struct GPUPipelineOptions : mlir::PassPipelineOptions<GPUPipelineOptions> {
  Option<std::string> chip{
      *this, "chip",
      llvm::cl::desc("Chip that code is generated for, sm_80 or later"),
      llvm::cl::init("sm_90")};
  Option<std::string> stage{
      *this, "stage",
      llvm::cl::desc("Where to stop: gpu (kernels and launches), nvvm (kernels "
                     "in the NVVM dialect) or ptx"),
      llvm::cl::init("ptx")};
  Option<bool> scaleArguments{
      *this, "scale-arguments",
      llvm::cl::desc("Pass numbers that follow from static scales as "
                     "arguments, so that code does not depend on them"),
      llvm::cl::init(false)};
};

/// The portable path: from functions on tensors to PTX, for any fused op and
/// any shape. After the Hopper pipeline, it takes what that one leaves.
///
/// Pre: a module of functions with one block each and fuse, arith, linalg,
/// math, tensor and tile ops.
/// Post of `gpu`: one more `gpu.module` with every kernel once. Functions work
/// on buffers and launch kernels. Results are arguments with `fuse.result`.
/// Each function has its `fuse.launch_plan`, with the launches of both
/// pipelines.
/// Post of `nvvm`: the kernels are in the LLVM and NVVM dialects and have a
/// target.
/// Post of `ptx`: a `gpu.binary` with PTX text replaces them.
///
/// Reports unknown chips and stages through `reportError`.
mlir::LogicalResult buildGPUPipeline(
    mlir::OpPassManager &pm, const GPUPipelineOptions &options,
    llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)> reportError);
/// The same, but returns the error.
llvm::Error buildGPUPipeline(mlir::OpPassManager &pm,
                             const GPUPipelineOptions &options);
/// The part of the pipeline after stage `gpu`, for kernels alone.
llvm::Error buildGPUKernelPipeline(mlir::OpPassManager &pm,
                                   const GPUPipelineOptions &options);

//===----------------------------------------------------------------------===//
// Hopper
//===----------------------------------------------------------------------===//

enum class HopperStage { Tile, NVVM, PTX };

struct HopperPipelineOptions
    : mlir::PassPipelineOptions<HopperPipelineOptions> {
  Option<int64_t> tokens{
      *this, "tokens",
      llvm::cl::desc("Most tokens that a kernel of an op with a dynamic number "
                     "of tokens serves, 1 to 16384"),
      llvm::cl::init(64)};
  Option<bool> dispatch{
      *this, "dispatch",
      llvm::cl::desc("Make kernels for each of several ranges of a dynamic "
                     "number of tokens, which together serve all up to "
                     "'tokens'"),
      llvm::cl::init(false)};
  Option<int64_t> multiprocessors{*this, "multiprocessors",
                                  llvm::cl::desc("Multiprocessors of the GPU"),
                                  llvm::cl::init(132)};
  Option<std::string> table{
      *this, "table",
      llvm::cl::desc("File of schedules that fuse-tune measured")};
  Option<std::string> chip{*this, "chip",
                           llvm::cl::desc("GPU that the kernels are for"),
                           llvm::cl::init("sm_90a")};
  Option<HopperStage> stage{
      *this, "stage", llvm::cl::desc("Where to stop"),
      llvm::cl::init(HopperStage::PTX),
      llvm::cl::values(
          clEnumValN(HopperStage::Tile, "tile", "kernels in the tile dialect"),
          clEnumValN(HopperStage::NVVM, "nvvm", "kernels in the LLVM dialect"),
          clEnumValN(HopperStage::PTX, "ptx", "binaries that hold PTX"))};
};

/// From fused ops that the scheduled path supports to PTX: Hopper kernels for
/// sm_90a, mma kernels for other chips.
///
/// Pre: functions on tensors with fused ops.
/// Post: `tile.launch` ops with their plans, and one gpu.binary with the PTX of
/// all kernels. Other fused ops do not change, and a remark states the reason.
void buildHopperPipeline(mlir::OpPassManager &pm,
                         const HopperPipelineOptions &options);

/// The first of two parts of the Hopper pipeline, for a compiler that lowers
/// each kernel on demand. It ends with unoptimized kernels in the tile dialect,
/// in modules with their target, and ignores the stage.
void buildHopperPlanPipeline(mlir::OpPassManager &pm,
                             const HopperPipelineOptions &options);

/// The second part: from kernels in the tile dialect to PTX for `chip`.
///
/// Pre: gpu.modules with `tile.kernel` ops.
/// Post: a gpu.binary with PTX for each, or what the stage has instead.
void buildHopperKernelPipeline(mlir::OpPassManager &pm,
                               HopperStage stage = HopperStage::PTX,
                               llvm::StringRef chip = "sm_90a");

/// Registers the pipelines by name for command-line tools.
void registerPipelines();

} // namespace fuse

#endif // FUSE_PIPELINES_PIPELINES_H
