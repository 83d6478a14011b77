//===- ModuleGraph.cpp - Modules of a model and their calls ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ModuleGraph.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fuse;

ModuleGraph::ModuleGraph(ModelOp model) {
  SmallVector<CallModuleOp> calls;
  model->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto call = dyn_cast<CallModuleOp>(op)) {
      calls.push_back(call);
      return;
    }
    if (auto call = dyn_cast<FusedCallOp>(op))
      fused.insert(call.getSite());
    if (op != model && !isa<NetModuleOp>(op))
      return;
    auto node = std::make_unique<ModuleNode>();
    node->op = op;
    node->forward = getForward(tables, op);
    if (auto module = dyn_cast<NetModuleOp>(op)) {
      node->parent = byOp.lookup(op->getParentOp());
      node->parent->children.push_back(node.get());
      node->names = node->parent->names;
      node->names.push_back(module.getSymName());
      node->path = llvm::join(node->names, ".");
    }
    byOp[op] = node.get();
    nodes.push_back(std::move(node));
  });
  for (CallModuleOp call : calls)
    if (ModuleNode *callee =
            lookup(lookupModule(tables, call, call.getCallee()))) {
      callees[call] = callee;
      callee->calls.push_back(call);
    }
}
