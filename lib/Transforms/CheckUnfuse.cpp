//===- CheckUnfuse.cpp - Check that forming can be undone -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/Equivalence.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/OwningOpRef.h"

namespace fuse {
#define GEN_PASS_DEF_CHECKUNFUSEPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

namespace {

struct CheckUnfuse : fuse::impl::CheckUnfusePassBase<CheckUnfuse> {
  using Base::Base;

  void runOnOperation() override {
    Operation *expected = getOperation();
    OwningOpRef<Operation *> copy = expected->clone();
    if (failed(fuseAllModules(copy.get())))
      return signalPassFailure();
    KernelFormation formation{families, rounding, disable};
    WalkResult walk = copy->walk([&](FunctionOpInterface function) {
      FailureOr<KernelFormationCounts> counts =
          formKernels(function, formation);
      if (failed(counts))
        return WalkResult::interrupt();
      numChecked += counts->fused;
      return WalkResult::advance();
    });
    if (walk.wasInterrupted() || failed(unfuse(copy.get(), {})) ||
        failed(verifyIdentical(expected, copy.get())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// What fuse-match-modules and fuse-inline-modules do, when asked for.
  LogicalResult fuseAllModules(Operation *root) {
    if (patterns.empty())
      return success();
    std::vector<std::string> texts(patterns.begin(), patterns.end());
    SmallVector<ModelOp> models;
    root->walk([&](ModelOp model) { models.push_back(model); });
    for (ModelOp model : models) {
      FailureOr<ModuleFusionCounts> counts = fuseModules(model, texts, {});
      if (failed(counts) || failed(inlineFusedCalls(model)))
        return failure();
      numChecked += counts->fused;
    }
    return success();
  }
};

} // namespace
