//===- ListModules.cpp - Print the paths of modules -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/PathGlob.h"
#include "fuse/Transforms/Passes.h"
#include "nn/IR/NNModules.h"

namespace fuse {
#define GEN_PASS_DEF_LISTMODULESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

namespace {

struct ListModules : fuse::impl::ListModulesPassBase<ListModules> {
  using Base::Base;

  void runOnOperation() override {
    std::vector<PathGlob> globs;
    for (StringRef text : paths) {
      llvm::Expected<PathGlob> glob = PathGlob::create(text);
      if (!glob) {
        getOperation()->emitError(llvm::toString(glob.takeError()));
        return signalPassFailure();
      }
      globs.push_back(std::move(*glob));
    }
    SmallVector<bool> matched(globs.size());
    getOperation()->walk<WalkOrder::PreOrder>([&](NetModuleOp module) {
      std::string path = getModulePath(module);
      bool listed = globs.empty();
      for (auto [i, glob] : llvm::enumerate(globs))
        if (glob.match(path))
          listed = matched[i] = true;
      if (!listed)
        return;
      ++numListed;
      llvm::outs() << path << " : " << module.getClassName() << "\n";
    });
    for (auto [i, glob] : llvm::enumerate(globs))
      if (!matched[i]) {
        getOperation()->emitError()
            << "no module matches path glob '" << glob.getText() << "'";
        signalPassFailure();
      }
    markAllAnalysesPreserved();
  }
};

} // namespace
