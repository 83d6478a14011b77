//===- Phase.h - Parts of a compilation in traces ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_COMPILER_PHASE_H
#define FUSE_COMPILER_PHASE_H

#include "mlir/IR/Action.h"
#include "mlir/IR/MLIRContext.h"

namespace fuse {

/// A part of a compilation that is no pass, such as LLVM's code generation.
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

/// Runs `body`, as a phase that profilers of actions see.
inline void runPhase(mlir::MLIRContext *context, llvm::StringRef name,
                     llvm::function_ref<void()> body) {
  context->executeAction<PhaseAction>(body, {}, name);
}

} // namespace fuse

#endif // FUSE_COMPILER_PHASE_H
