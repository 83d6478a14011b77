//===- ModulePattern.h - Match chains of modules ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Matches chains of module calls to patterns without changing the IR. The
// result for each site is a match, or a refusal with the failed predicate.
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
  /// The pattern as the user wrote it, for messages.
  std::string text;
  std::vector<Member> members;
  std::string kernel;
};

/// The patterns and kernels that are visible in a model: its own, and those of
/// the libraries for its class.
class Declarations {
public:
  /// A library is a model that contains only declarations and whose class is a
  /// glob. Emits an error if two declarations have the same name.
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

/// Parses library files, whose models contain only declarations. The error of
/// an invalid file names the file.
llvm::FailureOr<std::vector<mlir::OwningOpRef<mlir::ModuleOp>>>
loadLibraries(mlir::MLIRContext *context, llvm::ArrayRef<std::string> files);

/// Whether `kernel` is generated from the forwards of the members: a family of
/// `fuse-form-kernels`, or `group`.
bool isGeneratedKernel(llvm::StringRef kernel);

/// Parses `((Class,glob),(Class,glob))->kernel`, or a reference to declared
/// patterns: `(Class,Class)->kernel` or `@name->kernel`. Emits an error at the
/// model on failure.
llvm::FailureOr<std::vector<ModulePattern>>
parseModulePatterns(const Declarations &declarations, llvm::StringRef text);

/// A place where a pattern matches, or was refused.
struct ModuleSite {
  /// Stable id: parent, names of the members, number of the call.
  std::string id;
  llvm::StringRef kernel;
  llvm::SmallVector<ModuleNode *> members;
  llvm::SmallVector<CallModuleOp> calls;
  /// Intermediates that are used outside of the chain, as indices into the
  /// concatenated results of all calls but the last.
  llvm::SmallVector<int64_t> also;
  /// The weights that the kernel stores.
  llvm::SmallVector<RecipeAttr> weights;
  std::optional<Refusal> refusal;
  /// Location of the op at which the predicate failed.
  std::optional<mlir::Location> location;
  /// Details of the failure: names and values.
  std::string detail;
};

/// Options of matching: the target, the disabled sites and the libraries.
struct ModuleMatching {
  /// `cpu` or a chip. If empty, kernels for any target match.
  std::string target;
  std::vector<std::string> disable;
  /// Libraries of patterns and kernels, see `Declarations`.
  std::vector<ModelOp> libraries = {};
  /// Called for each refused site instead of emitting a remark. If set, fused
  /// sites get no remarks either.
  std::function<void(const struct ModuleSite &)> onRefusal = nullptr;
};

/// Matches patterns in one model, one after the other. The calls of a site are
/// claimed: they cannot belong to a later site.
class ModuleMatcher {
public:
  ModuleMatcher(ModuleGraph &graph, const Declarations &declarations,
                const ModuleMatching &matching)
      : graph(graph), declarations(declarations), matching(matching) {}

  /// Appends the sites of a pattern. Emits an error at the model if the pattern
  /// selects nothing or its kernel does not exist.
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
  /// Kernel of the current pattern; null if the kernel is generated.
  KernelOp declaredKernel;
  bool kernelIsGenerated = false, kernelReturnsIntermediates = false;
  llvm::DenseSet<mlir::Operation *> claimedCalls;
  llvm::DenseSet<ModuleNode *> claimedModules;
  /// Modules that `fuse.no_fuse` excludes, with their ancestors and
  /// descendants. Collected with the first pattern.
  std::optional<llvm::DenseSet<const ModuleNode *>> heldBack;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_MODULEPATTERN_H
