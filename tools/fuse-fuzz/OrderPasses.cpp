//===- OrderPasses.cpp - Passes for random orders -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OrderPasses.h"
#include "PlantedFaults.h"

using namespace fuse;

static constexpr auto kTensors = OrderStage::Tensors;
static constexpr auto kBuffers = OrderStage::Buffers;
static constexpr auto kLoops = OrderStage::Loops;
static constexpr auto kLLVM = OrderStage::LLVM;
static constexpr auto kGPU = OrderStage::GPU;
static constexpr auto kExact = OrderEffect::Exact;
static constexpr auto kRounds = OrderEffect::Rounds;
static constexpr auto kNotRun = OrderEffect::NotRun;

// These passes of MLIR 22 are left out, some of them for a few programs:
//
// - `duplicate-function-elimination` erases functions that an op other than a
//   call names.
// - `linalg-specialize-generic-ops` and `linalg-morph-ops{generic-to-named}`
//   drop the transposition of a product.
// - `remove-dead-values` leaves null operands in the LLVM dialect.
// - `expand-strided-metadata` crashes on some shapes of two dynamic sizes.
// - `finalize-memref-to-llvm`, `convert-func-to-llvm` and `convert-to-llvm`
//   succeed after an error about a layout without strides.
//
// `arith-emulate-unsupported-floats` marks its casts `fastmath<contract>`, by
// which `arith.extf` of `arith.truncf` folds: roundings may vanish later.
static const OrderPass kPasses[] = {
    // Passes of this project on tensors.
    {"fuse-form-kernels", kTensors},
    {"fuse-form-kernels{rounding=relaxed}", kTensors, kRounds},
    {"fuse-unfuse", kTensors},
    {"fuse-check-unfuse", kTensors},
    {"fuse-raise-layers", kTensors, kRounds},
    {"fuse-raising-pipeline", kTensors, kRounds},
    {"fuse-kernel-formation-pipeline", kTensors, kRounds},
    {"fuse-repair-scales", kTensors, kRounds},
    {"fuse-check-calls", kTensors},
    {"fuse-record-checks", kTensors},
    {"fuse-flatten-models", kTensors},
    {"fuse-inline-modules", kTensors},
    {"fuse-list-modules", kTensors},
    {"fuse-match-modules{patterns=((RMSNorm,norm),(MLP,mlp))->gated_mlp}",
     kTensors},
    {"fuse-check-contracts", kTensors},
    {"fuse-flatten-control-flow", kTensors},
    {"fuse-bind-slots", kTensors, kRounds},
    {"fuse-lower-slots", kTensors},
    {"fuse-unbind-slots", kTensors},
    {"fuse-select-schedules", kTensors},
    {"fuse-merge-elementwise", kTensors},
    {"fuse-prepare-entry-points", kTensors},
    {"fuse-expand-math", kTensors, kRounds},
    {"fuse-expand-reshapes", kTensors},
    {"fuse-expand-small-floats", kTensors},
    {"fuse-observe-activations", kTensors, kNotRun},
    {"fuse-quantize-linears", kTensors, kNotRun},
    {"convert-fuse-to-linalg", kTensors},
    {"fuse-linalg-pipeline", kTensors},
    // Passes of MLIR on tensors, or on any IR.
    {"canonicalize", kTensors},
    {"canonicalize{region-simplify=aggressive}", kTensors},
    {"cse", kTensors},
    {"inline", kTensors},
    {"symbol-dce", kTensors},
    {"sccp", kTensors},
    {"loop-invariant-code-motion", kTensors},
    {"loop-invariant-subset-hoisting", kTensors},
    {"control-flow-sink", kTensors},
    {"remove-dead-values", kTensors},
    {"topological-sort", kTensors},
    {"strip-debuginfo", kTensors},
    {"int-range-optimizations", kTensors},
    {"arith-unsigned-when-equivalent", kTensors},
    {"arith-int-range-narrowing{int-bitwidths-supported=32}", kTensors},
    {"arith-expand", kTensors},
    {"arith-emulate-unsupported-floats{source-types=bf16,f16 target-type=f32}",
     kTensors, kRounds},
    {"math-uplift-to-fma", kTensors, kRounds},
    {"math-expand-ops", kTensors, kRounds},
    {"math-extend-to-supported-types{target-type=f32}", kTensors, kRounds},
    {"lift-cf-to-scf", kTensors},
    {"scf-forall-to-for", kTensors},
    {"linalg-generalize-named-ops", kTensors},
    {"linalg-fuse-elementwise-ops", kTensors},
    {"linalg-fold-unit-extent-dims", kTensors},
    {"linalg-fold-unit-extent-dims{use-rank-reducing-slices}", kTensors},
    {"linalg-fold-into-elementwise", kTensors},
    {"linalg-inline-scalar-operands", kTensors},
    {"linalg-morph-ops{named-to-category}", kTensors},
    {"linalg-morph-ops{named-to-generic}", kTensors},
    {"linalg-detensorize{aggressive-mode}", kTensors},
    {"linalg-block-pack-matmul{block-factors=2,2,2 allow-padding}", kTensors,
     kRounds},
    {"convert-elementwise-to-linalg", kTensors},
    {"convert-tensor-to-linalg", kTensors},
    {"fold-tensor-subset-ops", kTensors},
    {"resolve-ranked-shaped-type-result-dims", kTensors},
    {"resolve-shaped-type-result-dims", kTensors},
    {"reify-result-shapes", kTensors},
    {"eliminate-empty-tensors", kTensors},
    {"empty-tensor-to-alloc-tensor", kTensors},
    // Bufferization.
    {"one-shot-bufferize", kTensors, kExact, kBuffers},
    {"one-shot-bufferize{bufferize-function-boundaries}", kTensors, kExact,
     kBuffers},
    {"one-shot-bufferize{bufferize-function-boundaries "
     "function-boundary-type-conversion=identity-layout-map "
     "allow-return-allocs-from-loops}",
     kTensors, kExact, kBuffers},
    {"one-shot-bufferize{bufferize-function-boundaries copy-before-write}",
     kTensors, kExact, kBuffers},
    {"one-shot-bufferize{bufferize-function-boundaries "
     "analysis-heuristic=top-down}",
     kTensors, kExact, kBuffers},
    {"one-shot-bufferize{allow-unknown-ops dialect-filter=tensor,linalg}",
     kTensors},
    // Buffers.
    {"buffer-deallocation-pipeline", kBuffers},
    {"ownership-based-buffer-deallocation", kBuffers},
    {"buffer-deallocation-simplification", kBuffers},
    {"bufferization-lower-deallocations", kBuffers},
    {"convert-bufferization-to-memref", kBuffers},
    {"buffer-hoisting", kBuffers},
    {"buffer-loop-hoisting", kBuffers},
    {"promote-buffers-to-stack", kBuffers},
    {"optimize-allocation-liveness", kBuffers},
    {"drop-equivalent-buffer-results", kBuffers, kNotRun},
    {"buffer-results-to-out-params{modify-public-functions}", kBuffers,
     kNotRun},
    {"fuse-results-to-arguments", kBuffers, kNotRun},
    {"fuse-expand-copies", kBuffers},
    {"fuse-vectorize-reductions", kBuffers, kRounds},
    {"fold-memref-alias-ops", kBuffers},
    {"expand-strided-metadata", kBuffers, kExact, kBuffers, "tensor<?x?x"},
    {"normalize-memrefs", kBuffers},
    {"memref-expand", kBuffers},
    {"expand-realloc", kBuffers},
    {"canonicalize", kBuffers},
    {"cse", kBuffers},
    {"convert-linalg-to-loops", kBuffers, kExact, kLoops},
    {"convert-linalg-to-affine-loops", kBuffers, kExact, kLoops},
    {"convert-linalg-to-parallel-loops", kBuffers, kExact, kLoops},
    // Loops.
    {"fuse-expand-reshapes", kLoops},
    {"fuse-expand-small-floats", kLoops},
    {"fuse-expand-small-floats{bf16 f8}", kLoops},
    {"fuse-expand-math", kLoops, kRounds},
    {"scf-for-loop-canonicalization", kLoops},
    {"scf-for-loop-peeling", kLoops},
    {"scf-for-loop-range-folding", kLoops},
    {"scf-for-loop-specialization", kLoops},
    {"scf-for-to-while", kLoops},
    {"scf-parallel-loop-fusion", kLoops},
    {"scf-parallel-loop-specialization", kLoops},
    {"scf-parallel-loop-tiling{parallel-loop-tile-sizes=4,4}", kLoops},
    {"scf-parallel-for-to-nested-fors", kLoops},
    {"affine-simplify-structures", kLoops},
    {"affine-simplify-min-max", kLoops},
    {"affine-loop-normalize", kLoops},
    {"affine-scalrep", kLoops},
    {"affine-loop-fusion", kLoops},
    {"affine-loop-invariant-code-motion", kLoops},
    {"affine-loop-coalescing", kLoops},
    {"affine-loop-unroll{unroll-factor=3 cleanup-unroll}", kLoops},
    {"affine-parallelize", kLoops},
    {"affine-raise-from-memref", kLoops},
    {"loop-invariant-code-motion", kLoops},
    {"control-flow-sink", kLoops},
    {"mem2reg", kLoops},
    {"sroa", kLoops},
    {"lower-affine", kLoops},
    {"canonicalize", kLoops},
    {"cse", kLoops},
    {"convert-scf-to-cf", kLoops, kExact, kLLVM},
    // LLVM dialect.
    {"convert-math-to-llvm", kLLVM},
    {"convert-math-to-libm", kLLVM},
    {"convert-vector-to-llvm", kLLVM},
    {"convert-to-llvm", kLLVM, kExact, kLLVM, ", #map>"},
    {"finalize-memref-to-llvm", kLLVM, kExact, kLLVM, ", #map>"},
    {"convert-arith-to-llvm", kLLVM},
    {"convert-func-to-llvm", kLLVM, kExact, kLLVM, ", #map>"},
    {"convert-cf-to-llvm", kLLVM},
    {"reconcile-unrealized-casts", kLLVM},
    {"canonicalize", kLLVM},
    {"cse", kLLVM},
    {"mem2reg", kLLVM},
    {"fuse-cpu-pipeline", kTensors, kRounds, kLLVM},
    {"fuse-cpu-pipeline{reference=true}", kTensors, kExact, kLLVM},
    // GPUs, and kernels for a CPU, which are separate modules.
    {"fuse-gpu-pipeline{stage=gpu}", kTensors, kNotRun, kGPU},
    {"fuse-gpu-pipeline{stage=nvvm chip=sm_80}", kTensors, kNotRun, kGPU},
    {"fuse-hopper-pipeline{stage=tile}", kTensors, kNotRun, kGPU},
    {"fuse-hopper-pipeline{stage=nvvm tokens=16}", kTensors, kNotRun, kGPU},
    {"fuse-cpu-kernels-pipeline", kTensors, kNotRun, kGPU},
    {"convert-fuse-to-tile", kTensors, kNotRun, kGPU},
    {"convert-fuse-to-cpu", kTensors, kNotRun, kGPU},
    {"convert-linalg-to-gpu", kBuffers, kNotRun, kGPU},
    {"convert-tile-to-nvvm", kGPU, kNotRun},
    {"convert-kernels-to-nvvm", kGPU, kNotRun},
    {"convert-small-floats-to-nvvm", kGPU, kNotRun},
    {"fuse-attach-launch-plan", kGPU, kNotRun},
    {"fuse-pack-weights", kGPU, kNotRun},
    {"gpu-kernel-outlining", kGPU, kNotRun},
    {"gpu-eliminate-barriers", kGPU, kNotRun},
    {"symbol-dce", kGPU, kNotRun},
    {"canonicalize", kGPU, kNotRun},
    {"cse", kGPU, kNotRun},
    {"sccp", kGPU, kNotRun},
    {"inline", kGPU, kNotRun},
};

/// Only in orders with a planted fault.
static const OrderPass kPlanted = {kReciprocalPass, kTensors};

const OrderPass *fuse::findOrderPass(llvm::StringRef text) {
  for (const OrderPass &pass : kPasses)
    if (pass.text == text)
      return &pass;
  return text == kPlanted.text ? &kPlanted : nullptr;
}

std::vector<const OrderPass *> fuse::drawOrder(Random &random, OrderStage stage,
                                               llvm::StringRef program) {
  std::vector<const OrderPass *> order;
  for (unsigned i = random.below(5) + 2; i > 0; --i) {
    // One pass in ten is for IR of any kind, and one in five goes on to
    // another kind, in half of the cases to buffers.
    bool isAny = random.percent(10), leaves = random.percent(20),
         isForGPU = random.percent(25);
    std::vector<const OrderPass *> candidates;
    for (const OrderPass &pass : kPasses) {
      if (!pass.unless.empty() && program.contains(pass.unless))
        continue;
      if (stage == kLLVM && pass.text == "remove-dead-values")
        continue;
      bool leavesForGPU = leaves && pass.next == kGPU;
      // Conversions of MLIR also convert bodies of ops that need other ones.
      if (pass.stage != stage && (pass.stage == kLLVM || pass.next == kLLVM) &&
          !llvm::StringRef(pass.text).starts_with("fuse-"))
        continue;
      if (isAny || (pass.stage == stage && (pass.next != stage) == leaves &&
                    leavesForGPU == (leaves && isForGPU)))
        candidates.push_back(&pass);
    }
    if (candidates.empty())
      continue;
    const OrderPass *pass = random.oneOf(llvm::ArrayRef(candidates));
    if (pass->stage == stage || pass->next != pass->stage)
      stage = pass->next;
    order.push_back(findOrderPass(pass->text));
  }
  return order;
}
