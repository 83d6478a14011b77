//===- SlotBindingTest.cpp - Binding to kernels of a program --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/SlotBinding.h"
#include "fuse/Analysis/Equivalence.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "nn/IR/NNOps.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;

namespace {

const char *models = R"mlir(
nn.model @teacher class "M" {
  nn.slot @f op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
nn.model @student class "M" {
  nn.slot @f op "f" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
)mlir";

class Binding : public ::testing::Test {
protected:
  Binding() {
    context.loadDialect<FuseDialect, NNDialect, arith::ArithDialect,
                        func::FuncDialect>();
    context.getDiagEngine().registerHandler(
        [this](Diagnostic &diagnostic) { message = diagnostic.str(); });
    module = parseSourceString<ModuleOp>(models, &context);
  }

  /// A registry with kernels of this program: `twice` for any device, and
  /// `broken`, which returns no value.
  KernelRegistry makeRegistry() {
    KernelRegistry registry(&context);
    KernelSpec twice;
    twice.name = "twice";
    twice.op = "f";
    twice.variant = "standard";
    twice.addGenerated(
        registry.getHardware(DeviceType::Any),
        [this](OpBuilder &builder, SlotOp slot,
               ValueRange args) -> FailureOr<SmallVector<Value>> {
          ++numBuilt;
          return SmallVector<Value>{
              arith::AddFOp::create(builder, slot.getLoc(), args[0], args[0])};
        });
    llvm::cantFail(registry.add(std::move(twice)));
    KernelSpec broken;
    broken.name = "broken";
    broken.op = "f";
    broken.variant = "standard";
    broken.addGenerated(
        registry.getHardware(DeviceType::Any),
        [](OpBuilder &, SlotOp, ValueRange) -> FailureOr<SmallVector<Value>> {
          return SmallVector<Value>();
        });
    llvm::cantFail(registry.add(std::move(broken)));
    return registry;
  }

  FailureOr<SlotReport> bind(const char *text) {
    return bindSlots(*module, makeRegistry(),
                     llvm::cantFail(SlotConfig::parse(text, "test")));
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string message;
  unsigned numBuilt = 0;
};

TEST_F(Binding, InstancesAreBoundByThemselves) {
  FailureOr<SlotReport> report = bind(
      "models: {teacher: {bind: {f: eager}}, student: {bind: {f: twice}}}");
  ASSERT_TRUE(succeeded(report)) << message;
  ASSERT_EQ(report->calls.size(), 2u);
  EXPECT_EQ(report->calls[0].model, "teacher");
  EXPECT_EQ(report->calls[0].kernel, "eager");
  EXPECT_EQ(report->calls[1].model, "student");
  EXPECT_EQ(report->calls[1].kernel, "twice");
}

TEST_F(Binding, UnbindingRestoresTheModule) {
  OwningOpRef<ModuleOp> original = module->clone();
  ASSERT_TRUE(succeeded(bind("bind: {f: twice}"))) << message;
  EXPECT_TRUE(failed(verifyIdentical(*original, *module)));
  ASSERT_TRUE(succeeded(unbindSlots(*module)));
  EXPECT_TRUE(succeeded(verifyIdentical(*original, *module))) << message;
}

TEST_F(Binding, UnbindingOneModelLeavesTheOther) {
  ASSERT_TRUE(succeeded(bind("bind: {f: twice}"))) << message;
  ASSERT_TRUE(succeeded(unbindSlots(*module, {"teacher"})));
  SlotReport report = reportSlots(*module, makeRegistry());
  EXPECT_EQ(report.calls[0].kernel, "");
  EXPECT_EQ(report.calls[1].kernel, "twice");
}

TEST_F(Binding, KernelsAreBuiltWhenTheyAreBound) {
  ASSERT_TRUE(succeeded(bind("bind: {f: eager}"))) << message;
  EXPECT_EQ(numBuilt, 0u);
  ASSERT_TRUE(succeeded(bind("{check: true, bind: {f: twice}, rebind: true}")))
      << message;
  EXPECT_EQ(numBuilt, 0u);
  ASSERT_TRUE(succeeded(bind("{bind: {f: twice}, rebind: true}"))) << message;
  EXPECT_EQ(numBuilt, 2u);
}

TEST_F(Binding, FailsAsAWhole) {
  OwningOpRef<ModuleOp> original = module->clone();
  EXPECT_TRUE(failed(bind(
      "models: {teacher: {bind: {f: twice}}, student: {bind: {f: broken}}}")));
  EXPECT_EQ(message,
            "slot 'f' (op=f, variant=standard) at '': kernel 'broken' cannot "
            "be built: it gives values of other types than the slot");
  EXPECT_TRUE(succeeded(verifyIdentical(*original, *module))) << message;
}

TEST_F(Binding, RefusesOtherKeysOfAConfiguration) {
  llvm::Expected<SlotConfig> config =
      SlotConfig::parse("bind: {f: eager}\nbnid: {f: twice}", "slots.yaml");
  ASSERT_FALSE(bool(config));
  EXPECT_EQ(llvm::toString(config.takeError()),
            "slots.yaml:2:1: unknown key 'bnid'");
}

// The kernel's body uses dialects that the program has not loaded.
TEST(BindingOutsideOfPasses, LoadsWhatBodiesAreBuiltOf) {
  MLIRContext context;
  context.loadDialect<FuseDialect, NNDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"mlir(
    nn.model @m class "M" {
      nn.slot @silu op "silu" variant "standard"
          : (tensor<4x8xf32>) -> tensor<4x8xf32> {
        func.func @eager(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
          return %x : tensor<4x8xf32>
        }
      }
      func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
        %0 = nn.call_slot @silu(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
        return %0 : tensor<4x8xf32>
      }
    })mlir",
                                                             &context);
  ASSERT_TRUE(module);
  KernelRegistry registry(&context);
  KernelSpec kernel;
  kernel.name = "negated";
  kernel.op = "silu";
  kernel.variant = "standard";
  kernel.addGenerated(registry.getHardware(DeviceType::Any),
                      [](OpBuilder &builder, SlotOp slot,
                         ValueRange args) -> FailureOr<SmallVector<Value>> {
                        return SmallVector<Value>{arith::NegFOp::create(
                            builder, slot.getLoc(), args[0])};
                      });
  llvm::cantFail(registry.add(std::move(kernel)));
  EXPECT_TRUE(succeeded(bindSlots(
      *module, std::move(registry),
      llvm::cantFail(SlotConfig::parse("bind: {silu: negated}", "test")))));
  EXPECT_TRUE(context.getLoadedDialect<linalg::LinalgDialect>());
}

} // namespace
