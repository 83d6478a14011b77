//===- ModuleGraph.h - Modules of a model and their calls -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_MODULEGRAPH_H
#define FUSE_ANALYSIS_MODULEGRAPH_H

#include "nn/IR/NNModules.h"
#include "llvm/ADT/StringSet.h"

#include <deque>

namespace fuse {

/// A module of a model, or the model itself. A large model has many nodes, so a
/// node stores nothing that its ancestors already determine.
struct ModuleNode {
  mlir::Operation *op = nullptr;
  /// Null for the model.
  mlir::StringAttr name;
  ModuleNode *parent = nullptr;
  llvm::SmallVector<ModuleNode *, 2> children;
  mlir::FunctionOpInterface forward;
  /// Whether the forward is only declared, and whether it already contains
  /// fused calls of an earlier run.
  bool isExternal = false, hasFusedCalls = false;
  /// Calls in the forward.
  llvm::SmallVector<CallModuleOp, 2> body;
  /// Calls of this module, in program order.
  llvm::SmallVector<CallModuleOp, 1> calls;

  NetModuleOp getModule() const { return mlir::cast<NetModuleOp>(op); }
  /// The segments of the path.
  llvm::SmallVector<llvm::StringRef, 6> getNames() const;
  std::string getPath() const;
};

/// The tree of modules and the graph of calls, from one walk over a model.
class ModuleGraph {
public:
  explicit ModuleGraph(ModelOp model);

  ModuleNode *getRoot() { return &nodes.front(); }
  /// The model, then its modules in the order of the tree.
  std::deque<ModuleNode> &getNodes() { return nodes; }
  /// The callee of a call.
  ModuleNode *getCallee(CallModuleOp call) const {
    return callees.lookup(call);
  }
  /// Whether an earlier run fused the site with this id.
  bool isFused(llvm::StringRef site) const { return fused.contains(site); }
  /// Whether a site of an earlier run stores weights in another layout.
  bool hasStoredWeights() const { return storedWeights; }
  mlir::SymbolTableCollection &getTables() { return tables; }

private:
  void add(mlir::Operation *module, ModuleNode *parent);
  void addCalls(mlir::Operation *function, ModuleNode &node);
  void resolve(ModuleNode &scope, CallModuleOp call);
  ModuleNode *findChild(ModuleNode &node, mlir::StringAttr name);
  ModuleNode *find(ModuleNode &node, mlir::SymbolRefAttr name);

  /// Index of a module with many children: the children by name, and the
  /// position after the last lookup. Calls mostly follow the order of children.
  struct Children {
    unsigned next = 0, indexed = 0;
    llvm::DenseMap<mlir::StringAttr, unsigned> byName;
  };

  std::deque<ModuleNode> nodes;
  /// Calls in program order, each with the module that contains it. They are
  /// resolved at the end because a callee may follow its call.
  std::vector<std::pair<ModuleNode *, CallModuleOp>> calls;
  llvm::DenseMap<ModuleNode *, Children> large;
  llvm::DenseMap<mlir::Operation *, ModuleNode *> callees;
  llvm::StringSet<> fused;
  bool storedWeights = false;
  mlir::SymbolTableCollection tables;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_MODULEGRAPH_H
