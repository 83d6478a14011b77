//===- CheckUnfuse.cpp - Check that forming can be undone -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The check works on a copy, with the same functions that forming and unfusing
// use, and compares it with the original, op by op, attributes and locations
// included. The module itself stays as it is.
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
    if (failed(fusePatterns(copy.get())))
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
  LogicalResult fusePatterns(Operation *root) {
    if (patterns.empty())
      return success();
    auto files =
        loadLibraries(&getContext(), std::vector<std::string>(libraries.begin(),
                                                              libraries.end()));
    if (failed(files))
      return failure();
    ModuleMatching matching;
    llvm::append_range(matching.libraries, getModels(*files));
    std::vector<std::string> texts(patterns.begin(), patterns.end());
    FailureOr<ModuleFusionCounts> counts =
        fuse::fuseAllModules(root, texts, matching);
    if (failed(counts))
      return failure();
    numChecked += counts->fused;
    for (ModelOp model : findModels(root))
      if (failed(inlineFusedCalls(model)))
        return failure();
    return success();
  }
};

} // namespace
