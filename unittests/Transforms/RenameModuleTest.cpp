//===- RenameModuleTest.cpp - Rename a module of a fused model ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes of MLIR rename symbols and update the references to them. References
// of a fused model are symbols, so that they follow. Those that MLIR does not
// visit fail in the verifier.
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "nn/IR/NNModules.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;

namespace {

/// A fused call with a body and a stored weight. `tie` is in the model.
std::string makeModel(StringRef tie) {
  return (R"(
nn.model @m class "M" {
  nn.module @norm class "Norm" {
    nn.parameter @weight : tensor<8xf32>
    nn.parameter @bias : tensor<8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
)" + tie + R"(
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.fused_call group [@norm](%x) site("norm#0") body(@"norm#0")
           weights [#nn.recipe<"norm.both" =
                      concat(@norm::@weight, @norm::@bias) keep>]
      : (tensor<8xf32>) -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}
func.func @"norm#0"(%x: tensor<8xf32>,
    %w: tensor<8xf32> {fuse.parameter = @m::@norm::@weight},
    %s: tensor<16xf32> {fuse.parameter = "norm.both"}) -> tensor<8xf32> {
  %y = arith.mulf %x, %w : tensor<8xf32>
  return %y : tensor<8xf32>
}
)")
      .str();
}

std::string print(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os);
  return text;
}

class RenameModule : public ::testing::Test {
protected:
  RenameModule() {
    context.loadDialect<FuseDialect, NNDialect, arith::ArithDialect,
                        func::FuncDialect>();
  }

  /// Parses a model and renames its module @norm to @norm9.
  OwningOpRef<ModuleOp> parseAndRename(StringRef tie) {
    auto module = parseSourceString<ModuleOp>(makeModel(tie), &context);
    if (!module)
      return module;
    auto model = *module->getOps<ModelOp>().begin();
    Operation *norm = model.lookupSymbol("norm");
    auto name = StringAttr::get(&context, "norm9");
    EXPECT_TRUE(
        succeeded(SymbolTable::replaceAllSymbolUses(norm, name, *module)));
    SymbolTable::setSymbolName(norm, name);
    return module;
  }

  MLIRContext context;
};

TEST_F(RenameModule, ReferencesFollow) {
  OwningOpRef<ModuleOp> module =
      parseAndRename("nn.parameter @tied tied_to(@norm::@weight) "
                     ": tensor<8xf32>");
  ASSERT_TRUE(module);
  ASSERT_TRUE(succeeded(verify(*module)));
  std::string text = print(*module);
  for (StringRef expected :
       {"fused_call group [@norm9]", "concat(@norm9::@weight, @norm9::@bias)",
        "fuse.parameter = @m::@norm9::@weight", "tied_to(@norm9::@weight)"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected.str();
  // The stored weight keeps its name, which is not that of a module.
  EXPECT_NE(text.find("fuse.parameter = \"norm.both\""), std::string::npos);

  PassManager pm(&context);
  pm.addPass(createFlattenModelsPass());
  ASSERT_TRUE(succeeded(pm.run(*module)));
  EXPECT_NE(print(*module).find("fuse.parameter = \"norm9.weight\""),
            std::string::npos);
}

// MLIR does not visit references in a nested symbol table.
TEST_F(RenameModule, TieInModuleIsAnError) {
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message += diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> module = parseAndRename(R"(
nn.module @head class "Head" {
  nn.parameter @weight tied_to(@norm::@weight) : tensor<8xf32>
}
)");
  ASSERT_TRUE(module) << message;
  EXPECT_TRUE(failed(verify(*module)));
  EXPECT_NE(message.find("is tied to 'norm.weight', which is not a parameter "
                         "of the model"),
            std::string::npos)
      << message;
}

} // namespace
