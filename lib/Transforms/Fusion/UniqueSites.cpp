//===- UniqueSites.cpp - Make the ids of sites unique ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The inliner copies fused ops with their attributes, and its interface has no
// hook for a dialect whose ops are copied by calls of another dialect. The ids
// are therefore made unique before they are used.
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace fuse {
#define GEN_PASS_DEF_UNIQUESITESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

/// The name of the function around an op; empty outside of functions.
static StringRef getFunctionName(Operation *op) {
  auto function = op->getParentOfType<FunctionOpInterface>();
  return function ? function.getName() : StringRef();
}

unsigned fuse::makeSitesUnique(Operation *root) {
  llvm::MapVector<StringAttr, SmallVector<FusedOpInterface, 1>> kernels;
  root->walk([&](FusedOpInterface kernel) {
    if (StringAttr site = kernel.getSiteAttr())
      kernels[site].push_back(kernel);
  });
  DenseSet<StringAttr> taken;
  for (auto &[site, copies] : kernels)
    taken.insert(site);
  llvm::StringMap<unsigned> next;
  unsigned renamed = 0;
  for (auto &[site, copies] : kernels) {
    if (copies.size() == 1)
      continue;
    StringRef owner = site.getValue().rsplit('#').first;
    auto *kept = llvm::find_if(copies, [&](FusedOpInterface kernel) {
      return getFunctionName(kernel) == owner;
    });
    if (kept == copies.end())
      kept = copies.begin();
    for (FusedOpInterface &kernel : copies) {
      if (&kernel == kept)
        continue;
      StringRef function = getFunctionName(kernel);
      StringAttr id;
      do {
        id = StringAttr::get(root->getContext(),
                             function + "#" + Twine(next[function]++));
      } while (!taken.insert(id).second);
      kernel.setSiteAttr(id);
      ++renamed;
    }
  }
  return renamed;
}

namespace {

struct UniqueSites : fuse::impl::UniqueSitesPassBase<UniqueSites> {
  using Base::Base;

  void runOnOperation() override {
    numRenamed += makeSitesUnique(getOperation());
  }
};

} // namespace
