//===- ModuleGraph.h - Modules of a model and their calls -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_MODULEGRAPH_H
#define FUSE_ANALYSIS_MODULEGRAPH_H

#include "fuse/IR/FuseModules.h"
#include "llvm/ADT/StringSet.h"

#include <deque>

namespace fuse {

/// A module of a model, or the model itself. There are as many as modules, so
/// that what can be said by going up the tree is not stored.
struct ModuleNode {
  mlir::Operation *op = nullptr;
  /// Null for the model.
  mlir::StringAttr name;
  ModuleNode *parent = nullptr;
  llvm::SmallVector<ModuleNode *, 2> children;
  mlir::FunctionOpInterface forward;
  /// Whether the forward is declared only, and whether an earlier run has
  /// fused calls in it.
  bool isExternal = false, hasFusedCalls = false;
  /// Calls in the forward.
  llvm::SmallVector<CallModuleOp, 2> body;
  /// Calls of this module, in the order of the text.
  llvm::SmallVector<CallModuleOp, 1> calls;

  NetModuleOp getModule() const { return mlir::cast<NetModuleOp>(op); }
  /// The names that the path consists of.
  llvm::SmallVector<llvm::StringRef, 6> getNames() const;
  std::string getPath() const;
};

/// One walk over a model that answers who is whose child and who calls whom.
class ModuleGraph {
public:
  explicit ModuleGraph(ModelOp model);

  ModuleNode *getRoot() { return &nodes.front(); }
  /// The model, then its modules in the order of the tree.
  std::deque<ModuleNode> &getNodes() { return nodes; }
  /// The module that a call calls.
  ModuleNode *getCallee(CallModuleOp call) const {
    return callees.lookup(call);
  }
  /// Whether an earlier run has fused the site of this id.
  bool isFused(llvm::StringRef site) const { return fused.contains(site); }
  /// Whether such a site stores weights in another layout.
  bool hasStoredWeights() const { return storedWeights; }
  mlir::SymbolTableCollection &getTables() { return tables; }

private:
  void add(mlir::Operation *module, ModuleNode *parent);
  void addCalls(mlir::Operation *function, ModuleNode &node);
  void resolve(ModuleNode &scope, CallModuleOp call);
  ModuleNode *findChild(ModuleNode &node, mlir::StringAttr name);
  ModuleNode *find(ModuleNode &node, mlir::SymbolRefAttr name);

  /// Of a module with many children: the children by name, and where the one
  /// stands that was asked for last. Calls mostly ask for one after the other.
  struct Children {
    unsigned next = 0, indexed = 0;
    llvm::DenseMap<mlir::StringAttr, unsigned> byName;
  };

  std::deque<ModuleNode> nodes;
  /// In the order of the text, with the module that they stand in. A callee
  /// may follow the call.
  std::vector<std::pair<ModuleNode *, CallModuleOp>> calls;
  llvm::DenseMap<ModuleNode *, Children> large;
  llvm::DenseMap<mlir::Operation *, ModuleNode *> callees;
  llvm::StringSet<> fused;
  bool storedWeights = false;
  mlir::SymbolTableCollection tables;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_MODULEGRAPH_H
