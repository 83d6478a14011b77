//===- ModuleLibrariesTest.cpp - Patterns declared in memory --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program that embeds the compiler can declare patterns and kernels in
// memory, without a file and without changing the model.
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "nn/IR/NNOps.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;

namespace {

constexpr const char *kModel = R"(
nn.model @m class "TinyForCausalLM" {
  nn.module @norm class "TinyNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @mlp class "TinyMLP" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}
)";

std::string print(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os);
  return text;
}

/// Builds a library for models of a class.
OwningOpRef<ModelOp> createLibrary(MLIRContext &context, StringRef models) {
  OpBuilder builder(&context);
  Location loc = builder.getUnknownLoc();
  auto library = ModelOp::create(builder, loc, builder.getStringAttr("library"),
                                 builder.getStringAttr(models));
  builder.createBlock(&library.getBody());
  FusionPatternOp::create(builder, loc, builder.getStringAttr("pair"),
                          builder.getStrArrayAttr({"*Norm", "*MLP"}),
                          builder.getStrArrayAttr({"**.norm", "**.mlp"}));
  KernelOp::create(builder, loc, builder.getStringAttr("Mine"),
                   builder.getStrArrayAttr({"cpu"}),
                   /*returns_intermediates=*/UnitAttr(),
                   /*weights=*/ArrayAttr());
  return library;
}

class ModuleLibraries : public ::testing::Test {
protected:
  ModuleLibraries() {
    context.loadDialect<FuseDialect, NNDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(kModel, &context);
  }

  FailureOr<ModuleFusionCounts> fuse(ModelOp library) {
    ModuleMatching matching;
    matching.target = "cpu";
    matching.libraries.push_back(library);
    return fuseAllModules(*module, {"@pair->Mine"}, matching);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(ModuleLibraries, DeclareForModelsOfAClass) {
  ASSERT_TRUE(module);
  std::string before = print(*module);
  OwningOpRef<ModelOp> library = createLibrary(context, "Tiny*");
  FailureOr<ModuleFusionCounts> counts = fuse(*library);
  ASSERT_TRUE(succeeded(counts));
  EXPECT_EQ(counts->fused, 1u);
  EXPECT_TRUE(counts->sites.contains("norm+mlp#0"));
  EXPECT_NE(print(*module).find("nn.fused_call @Mine [@norm, @mlp]"),
            std::string::npos);
  ASSERT_TRUE(succeeded(unfuse(*module, {})));
  EXPECT_EQ(print(*module), before);
}

TEST_F(ModuleLibraries, DeclareNothingForOthers) {
  ASSERT_TRUE(module);
  OwningOpRef<ModelOp> library = createLibrary(context, "Large*");
  std::string message;
  ScopedDiagnosticHandler handler(
      &context, [&](Diagnostic &diag) { message = diag.str(); });
  EXPECT_TRUE(failed(fuse(*library)));
  EXPECT_NE(message.find("declares no pattern 'pair'"), std::string::npos);
}

} // namespace
