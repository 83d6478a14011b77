//===- CheckUnfuse.cpp - Check that forming can be undone -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The check forms and unfuses kernels in a copy, with the functions of those
// passes. It compares the copy with the original op by op, including attributes
// and locations. The original does not change.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/Equivalence.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/OwningOpRef.h"
#include "nn/IR/NNOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace fuse {
#define GEN_PASS_DEF_CHECKUNFUSEPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

/// The sites of fused ops and calls inside `root`.
static llvm::SetVector<Attribute> collectSites(Operation *root) {
  llvm::SetVector<Attribute> sites;
  root->walk([&](Operation *op) {
    if (auto kernel = dyn_cast<FusedOpInterface>(op))
      sites.insert(kernel.getSiteAttr());
    else if (auto call = dyn_cast<FusedCallOp>(op))
      sites.insert(call.getSiteAttr());
  });
  return sites;
}

namespace {

struct CheckUnfuse : fuse::impl::CheckUnfusePassBase<CheckUnfuse> {
  using Base::Base;

  void runOnOperation() override {
    Operation *expected = getOperation();
    OwningOpRef<Operation *> copy = expected->clone();
    llvm::SetVector<Attribute> before = collectSites(expected);
    if (failed(fusePatterns(copy.get(), before)))
      return signalPassFailure();
    KernelFormation formation{families, rounding, disable};
    llvm::StringSet<> functions;
    WalkResult walk = copy->walk([&](FunctionOpInterface function) {
      functions.insert(function.getName());
      FailureOr<KernelFormationCounts> counts =
          formKernels(function, formation);
      if (failed(counts))
        return WalkResult::interrupt();
      numChecked += counts->fused;
      return WalkResult::advance();
    });
    // formKernels checks only the sites of its own function.
    for (StringRef site : disable)
      if (!functions.contains(site.rsplit('#').first)) {
        expected->emitError()
            << "no site '" << site << "' to disable; there "
            << "is no function '" << site.rsplit('#').first << "'";
        return signalPassFailure();
      }
    if (walk.wasInterrupted() || failed(undo(expected, copy.get(), before)) ||
        failed(verifyIdentical(expected, copy.get())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// Unfuses the sites of `copy` that are not in `expected`.
  static LogicalResult undo(Operation *expected, Operation *copy,
                            const llvm::SetVector<Attribute> &before) {
    if (before.empty())
      return unfuse(copy, {});
    std::vector<std::string> sites;
    for (Attribute site : collectSites(copy))
      if (!before.contains(site))
        sites.push_back(cast<StringAttr>(site).str());
    // An empty list would unfuse all sites.
    if (!sites.empty() && failed(unfuse(copy, sites)))
      return failure();
    for (auto [old, model] :
         llvm::zip_equal(findModels(expected), findModels(copy))) {
      Attribute refusals = old->getAttr(kRefusalsAttrName);
      if (refusals)
        model->setAttr(kRefusalsAttrName, refusals);
      else
        model->removeAttr(kRefusalsAttrName);
    }
    return success();
  }

  /// Runs fuse-match-modules and fuse-inline-modules if there are patterns.
  LogicalResult fusePatterns(Operation *root,
                             const llvm::SetVector<Attribute> &before) {
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
      if (failed(inlineFusedCalls(model, [&](FusedCallOp call) {
            return !before.contains(call.getSiteAttr());
          })))
        return failure();
    return success();
  }
};

} // namespace
