//===- Phase.h - Parts of a compilation in traces ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ARTIFACT_PHASE_H
#define FUSE_ARTIFACT_PHASE_H

#include "mlir/IR/Action.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

namespace fuse {

/// A part of a compilation that is not a pass, such as code generation in LLVM.
class PhaseAction : public mlir::tracing::ActionImpl<PhaseAction> {
public:
  using Base = mlir::tracing::ActionImpl<PhaseAction>;
  PhaseAction(llvm::ArrayRef<mlir::IRUnit> units, llvm::StringRef name)
      : Base(units), name(name) {}

  static constexpr llvm::StringLiteral tag = "fuse-phase";
  void print(llvm::raw_ostream &os) const override { os << name; }

private:
  llvm::StringRef name;
};

/// Runs `body` as a phase that observers of actions can see.
inline void runPhase(mlir::MLIRContext *context, llvm::StringRef name,
                     llvm::function_ref<void()> body) {
  context->executeAction<PhaseAction>(body, {}, name);
}

/// Runs passes of this compiler on `op`. Builds with assertions verify the IR
/// after each pass. Other builds verify it only after the last one, since
/// verification would take a tenth of the time to the first kernel.
inline llvm::LogicalResult runPasses(mlir::PassManager &manager,
                                     mlir::Operation *op) {
#ifdef NDEBUG
  manager.enableVerifier(false);
  return llvm::success(succeeded(manager.run(op)) &&
                       succeeded(mlir::verify(op)));
#else
  return manager.run(op);
#endif
}

} // namespace fuse

#endif // FUSE_ARTIFACT_PHASE_H
