//===- ModuleGraph.h - Modules of a model and their calls -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_MODULEGRAPH_H
#define FUSE_ANALYSIS_MODULEGRAPH_H

#include "fuse/IR/FuseModules.h"
#include "llvm/ADT/StringSet.h"

namespace fuse {

/// A module of a model, or the model itself.
struct ModuleNode {
  mlir::Operation *op = nullptr;
  std::string path;
  /// The names that `path` consists of.
  llvm::SmallVector<llvm::StringRef, 6> names;
  ModuleNode *parent = nullptr;
  llvm::SmallVector<ModuleNode *, 4> children;
  mlir::FunctionOpInterface forward;
  /// Calls of this module, in the order of the text.
  llvm::SmallVector<CallModuleOp, 1> calls;

  NetModuleOp getModule() const { return mlir::cast<NetModuleOp>(op); }
};

/// One walk over a model that answers who is whose child and who calls whom.
class ModuleGraph {
public:
  explicit ModuleGraph(ModelOp model);

  ModuleNode *getRoot() const { return nodes.front().get(); }
  /// The model, then its modules in the order of the tree.
  auto getNodes() const {
    return llvm::map_range(nodes, [](const auto &node) { return node.get(); });
  }
  ModuleNode *lookup(mlir::Operation *module) const {
    return byOp.lookup(module);
  }
  /// The module that a call calls.
  ModuleNode *getCallee(CallModuleOp call) const {
    return callees.lookup(call);
  }
  /// Whether an earlier run has fused the site of this id.
  bool isFused(llvm::StringRef site) const { return fused.contains(site); }
  mlir::SymbolTableCollection &getTables() { return tables; }

private:
  std::vector<std::unique_ptr<ModuleNode>> nodes;
  llvm::DenseMap<mlir::Operation *, ModuleNode *> byOp;
  llvm::DenseMap<mlir::Operation *, ModuleNode *> callees;
  llvm::StringSet<> fused;
  mlir::SymbolTableCollection tables;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_MODULEGRAPH_H
