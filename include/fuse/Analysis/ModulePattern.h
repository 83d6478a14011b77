//===- ModulePattern.h - Find chains of modules -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the module tree and says which calls make a chain that a kernel can
// replace, or which predicate a site fails. Changes nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_MODULEPATTERN_H
#define FUSE_ANALYSIS_MODULEPATTERN_H

#include "fuse/Analysis/ModuleGraph.h"
#include "fuse/Analysis/PathGlob.h"
#include "fuse/Analysis/Refusal.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <optional>

namespace fuse {

/// A chain of modules by class and path, and the kernel to fuse it to.
struct ModulePattern {
  struct Member {
    PathGlob className;
    PathGlob path;
  };
  /// How the pattern was given, for messages.
  std::string text;
  std::vector<Member> members;
  std::string kernel;
};

/// The patterns and kernels that count as declared in a model: its own, and
/// those of the libraries for its class.
class Declarations {
public:
  /// A library is a model that holds nothing else; its class is a glob. Emits
  /// an error when two of them declare the same name.
  static llvm::FailureOr<Declarations>
  create(ModelOp model, llvm::ArrayRef<ModelOp> libraries);

  ModelOp getModel() const { return model; }
  llvm::ArrayRef<FusionPatternOp> getPatterns() const { return patterns; }
  llvm::ArrayRef<KernelOp> getKernels() const { return kernels; }
  /// Adds a note for each library that is for models of another class.
  void noteOthers(mlir::InFlightDiagnostic &diag) const;

private:
  ModelOp model;
  llvm::SmallVector<ModelOp> others;
  llvm::SmallVector<FusionPatternOp> patterns;
  llvm::SmallVector<KernelOp> kernels;
};

/// The models of library files, each of which holds declarations only. Emits
/// an error that names the file when one can not be used.
llvm::FailureOr<std::vector<mlir::OwningOpRef<mlir::ModuleOp>>>
loadLibraries(mlir::MLIRContext *context, llvm::ArrayRef<std::string> files);

/// Whether `kernel` is made of the members' forwards: a family that
/// `fuse-form-kernels` makes, or `group`.
bool isGeneratedKernel(llvm::StringRef kernel);

/// Parses `((Class,glob),(Class,glob))->kernel`, or a reference to declared
/// patterns: `(Class,Class)->kernel` or `@name->kernel`. Emits an error at the
/// model when that fails.
llvm::FailureOr<std::vector<ModulePattern>>
parseModulePatterns(const Declarations &declarations, llvm::StringRef text);

/// A place where a pattern applies, or almost does.
struct ModuleSite {
  /// Stable id: parent, names of the members, number of the call.
  std::string id;
  llvm::StringRef kernel;
  llvm::SmallVector<ModuleNode *> members;
  llvm::SmallVector<CallModuleOp> calls;
  /// Intermediates that are used outside of the chain, counted over the
  /// results of all calls but the last.
  llvm::SmallVector<int64_t> also;
  /// The weights that the kernel stores.
  llvm::SmallVector<RecipeAttr> weights;
  std::optional<Refusal> refusal;
  /// Where the refusing op stands.
  std::optional<mlir::Location> location;
  /// What exactly failed: names and values.
  std::string detail;
};

/// Which kernels there are and which sites to leave alone.
struct ModuleMatching {
  /// `cpu` or a chip; every kernel will do when empty.
  std::string target;
  std::vector<std::string> disable;
  /// Patterns and kernels from outside of the model, see `Declarations`.
  std::vector<ModelOp> libraries = {};
  /// Takes what would be a remark on a refused site; there are none on fused
  /// sites then.
  std::function<void(const struct ModuleSite &)> onRefusal = nullptr;
};

/// Matches patterns in one model, one after the other. Calls that a site takes
/// are not taken by a later one.
class ModuleMatcher {
public:
  ModuleMatcher(ModuleGraph &graph, const Declarations &declarations,
                const ModuleMatching &matching)
      : graph(graph), declarations(declarations), matching(matching) {}

  /// Appends the sites of a pattern. Fails with an error at the model when the
  /// pattern selects nothing or its kernel does not exist.
  llvm::LogicalResult match(const ModulePattern &pattern,
                            std::vector<ModuleSite> &sites);

private:
  struct ParentHits;

  llvm::LogicalResult checkHits(const ModulePattern &pattern,
                                llvm::ArrayRef<ParentHits> parents,
                                llvm::ArrayRef<unsigned> counts);
  llvm::LogicalResult checkKernel(const ModulePattern &pattern);
  void matchParent(const ModulePattern &pattern, const ParentHits &hits,
                   std::vector<ModuleSite> &sites);
  bool followChain(ModuleSite &site,
                   llvm::ArrayRef<llvm::SmallVector<ModuleNode *, 2>> allowed);
  bool checkUses(ModuleSite &site);
  bool checkMarks(ModuleSite &site);
  bool checkBodies(ModuleSite &site);
  bool checkWeights(ModuleSite &site);
  llvm::LogicalResult collectHeldBack();
  void claim(const ModuleSite &site);

  ModuleGraph &graph;
  const Declarations &declarations;
  const ModuleMatching &matching;
  /// Of the pattern at hand; null when the kernel is generated.
  KernelOp declaredKernel;
  bool kernelIsGenerated = false, kernelReturnsIntermediates = false;
  llvm::DenseSet<mlir::Operation *> claimedCalls;
  llvm::DenseSet<ModuleNode *> claimedModules;
  /// What the model holds back, with all that is around it or inside of it;
  /// collected with the first pattern.
  std::optional<llvm::DenseSet<const ModuleNode *>> heldBack;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_MODULEPATTERN_H
