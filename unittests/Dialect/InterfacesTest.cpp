//===- InterfacesTest.cpp - Interfaces of the dialect ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests interfaces that no pass of fuse-opt shows: the call graph and the
// inference of shapes.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseOps.h"
#include "mlir/Analysis/CallGraph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "nn/IR/NNOps.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;

namespace {

class InterfacesTest : public testing::Test {
protected:
  InterfacesTest() {
    context.loadDialect<FuseDialect, NNDialect, func::FuncDialect>();
  }

  OwningOpRef<ModuleOp> parse(const char *text) {
    return parseSourceString<ModuleOp>(text, &context);
  }

  /// The op of the function that a call runs, or null.
  static Operation *getCallee(const CallGraph &graph, CallOpInterface call) {
    SymbolTableCollection tables;
    CallGraphNode *node = graph.resolveCallable(call, tables);
    return node->isExternal() ? nullptr
                              : node->getCallableRegion()->getParentOp();
  }

  MLIRContext context;
};

TEST_F(InterfacesTest, CallOfModuleRunsItsForward) {
  OwningOpRef<ModuleOp> module = parse(R"(
    nn.model @m class "M" {
      nn.module @a class "A" {
        nn.module @b class "B" {
          func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
            return %x : tensor<4xf32>
          }
        }
      }
      nn.module @declared class "C" {
        func.func private @forward(tensor<4xf32>) -> tensor<4xf32>
      }
      func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = nn.call_module @a::@b(%x) : (tensor<4xf32>) -> tensor<4xf32>
        %1 = nn.call_module @declared(%0) : (tensor<4xf32>) -> tensor<4xf32>
        return %1 : tensor<4xf32>
      }
    })");
  ASSERT_TRUE(module);
  CallGraph graph(*module);
  SmallVector<CallModuleOp> calls;
  module->walk([&](CallModuleOp call) { calls.push_back(call); });
  ASSERT_EQ(calls.size(), 2u);
  Operation *callee = getCallee(graph, calls[0]);
  ASSERT_TRUE(callee);
  EXPECT_EQ(cast<NetModuleOp>(callee->getParentOp()).getSymName(), "b");
  EXPECT_EQ(calls[0].getArgOperands().size(), 1u);
  EXPECT_FALSE(getCallee(graph, calls[1]));
}

TEST_F(InterfacesTest, CallOfSlotRunsWhatItIsBoundTo) {
  OwningOpRef<ModuleOp> module = parse(R"(
    nn.slot @s op "rms_norm" variant "plain"
        : (tensor<4xf32>) -> tensor<4xf32> {
      func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
        return %x : tensor<4xf32>
      }
      nn.bound_kernel @mine on <any> {
        func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
          return %x : tensor<4xf32>
        }
      }
    }
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = nn.call_slot @s(%x) bound @eager : (tensor<4xf32>) -> tensor<4xf32>
      %1 = nn.call_slot @s(%0) bound @mine : (tensor<4xf32>) -> tensor<4xf32>
      %2 = nn.call_slot @s(%1) : (tensor<4xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    })");
  ASSERT_TRUE(module);
  CallGraph graph(*module);
  SmallVector<std::string> names;
  module->walk([&](CallSlotOp call) {
    auto callee = dyn_cast_or_null<func::FuncOp>(getCallee(graph, call));
    names.push_back(callee ? callee.getSymName().str() : "unknown");
  });
  EXPECT_EQ(names, (SmallVector<std::string>{"eager", "body", "unknown"}));
}

TEST_F(InterfacesTest, InferredShapesAreThoseOfTheOps) {
  OwningOpRef<ModuleOp> module = parse(R"(
    func.func @f(%x: tensor<?x3x8xf32>, %q: tensor<?x3x8xi8>,
                 %w: tensor<16x8xf32>) {
      %0 = fuse.rms_norm %x eps 1.0e-6
        : (tensor<?x3x8xf32>) -> tensor<?x3x8xbf16>
      %1 = fuse.linear %x, %w
        : (tensor<?x3x8xf32>, tensor<16x8xf32>) -> tensor<?x3x16xf32>
      %2 = fuse.dequantize %q scale 0.5
        : (tensor<?x3x8xi8>) -> tensor<?x3x8xf32>
      %3, %4 = fuse.dynamic_quantize per_token %x
        : (tensor<?x3x8xf32>) -> (tensor<?x3x8xi8>, tensor<?x3xf32>)
      %5, %6 = fuse.dynamic_quantize per_tensor %x
        : (tensor<?x3x8xf32>) -> (tensor<?x3x8xi8>, tensor<1xf32>)
      return
    })");
  ASSERT_TRUE(module);
  unsigned count = 0;
  module->walk([&](InferShapedTypeOpInterface op) {
    SmallVector<ShapedTypeComponents> shapes;
    ASSERT_TRUE(succeeded(op.inferReturnTypeComponents(
        &context, op->getLoc(), op->getOperands(),
        op->getDiscardableAttrDictionary(), op->getPropertiesStorage(),
        op->getRegions(), shapes)));
    ASSERT_EQ(shapes.size(), op->getNumResults());
    for (auto [shape, result] : llvm::zip(shapes, op->getResults()))
      EXPECT_EQ(ArrayRef<int64_t>(shape.getDims()),
                cast<RankedTensorType>(result.getType()).getShape())
          << op->getName().getStringRef().str();
    ++count;
  });
  EXPECT_EQ(count, 5u);
}

} // namespace
