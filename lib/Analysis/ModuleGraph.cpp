//===- ModuleGraph.cpp - Modules of a model and their calls ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every op is visited once, together with the module that contains it. A large
// model does not fit into the caches, so a second walk would read memory again.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ModuleGraph.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fuse;

SmallVector<StringRef, 6> ModuleNode::getNames() const {
  SmallVector<StringRef, 6> names;
  for (const ModuleNode *node = this; node->name; node = node->parent)
    names.push_back(node->name.getValue());
  std::reverse(names.begin(), names.end());
  return names;
}

std::string ModuleNode::getPath() const { return llvm::join(getNames(), "."); }

/// Number of children above which lookups by name use a hash table. Below it, a
/// linear scan needs less memory.
static constexpr size_t kMaxScanned = 16;

ModuleNode *ModuleGraph::findChild(ModuleNode &node, StringAttr name) {
  ArrayRef<ModuleNode *> children = node.children;
  if (children.size() <= kMaxScanned) {
    for (ModuleNode *child : children)
      if (child->name == name)
        return child;
    return nullptr;
  }
  Children &index = large[&node];
  if (index.next < children.size() && children[index.next]->name == name)
    return children[index.next++];
  for (; index.indexed < children.size(); ++index.indexed)
    index.byName[children[index.indexed]->name] = index.indexed;
  auto it = index.byName.find(name);
  if (it == index.byName.end())
    return nullptr;
  index.next = it->second + 1;
  return children[it->second];
}

ModuleNode *ModuleGraph::find(ModuleNode &node, SymbolRefAttr name) {
  ModuleNode *found = findChild(node, name.getRootReference());
  for (FlatSymbolRefAttr nested : name.getNestedReferences())
    if (found)
      found = findChild(*found, nested.getAttr());
  return found;
}

void ModuleGraph::resolve(ModuleNode &scope, CallModuleOp call) {
  ModuleNode *callee = find(scope, call.getCalleeAttr());
  if (!callee)
    return;
  callees[call] = callee;
  callee->calls.push_back(call);
}

void ModuleGraph::addCalls(Operation *function, ModuleNode &node) {
  bool isForward = function == node.forward.getOperation();
  function->walk([&](Operation *op) {
    if (auto call = dyn_cast<CallModuleOp>(op)) {
      if (isForward)
        node.body.push_back(call);
      calls.push_back({&node, call});
    } else if (auto call = dyn_cast<FusedCallOp>(op)) {
      fused.insert(call.getSite());
      node.hasFusedCalls |= isForward;
      storedWeights |= bool(call.getWeightsAttr());
    }
  });
}

void ModuleGraph::add(Operation *module, ModuleNode *parent) {
  ModuleNode &node = nodes.emplace_back();
  node.op = module;
  node.parent = parent;
  if (parent) {
    node.name = cast<NetModuleOp>(module).getSymNameAttr();
    parent->children.push_back(&node);
  }
  node.forward = getForward(tables, module);
  node.isExternal = node.forward && node.forward.isExternal();
  auto ops = module->getRegion(0).getOps();
  // Only modules with children have calls.
  bool hasChildren = llvm::any_of(ops, llvm::IsaPred<NetModuleOp>);
  for (Operation &op : ops)
    if (isa<NetModuleOp>(op))
      add(&op, &node);
    else if (hasChildren && op.getNumRegions())
      addCalls(&op, node);
}

ModuleGraph::ModuleGraph(ModelOp model) {
  add(model, nullptr);
  for (auto [scope, call] : calls)
    resolve(*scope, call);
}
