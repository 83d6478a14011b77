//===- relu-opt.cpp - An optimizer with fuse and a pass of its own --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseDialect.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/InitAllDialects.h"
#include "fuse/InitAllPasses.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace {

#include "Patterns.inc"

struct MergeReluPass : mlir::PassWrapper<MergeReluPass, mlir::OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MergeReluPass)

  llvm::StringRef getArgument() const final { return "merge-relu"; }
  llvm::StringRef getDescription() const final {
    return "Remove a ReLU of a ReLU";
  }

  void runOnOperation() final {
    mlir::RewritePatternSet patterns(&getContext());
    populateWithGenerated(patterns);
    if (failed(
            mlir::applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect>();
  fuse::registerAllDialects(registry);
  fuse::registerAllPasses();
  mlir::PassRegistration<MergeReluPass>();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "an optimizer with fuse\n", registry));
}
