//===- QuantizeLinears.cpp - Linears on stored values ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/LinearNames.h"
#include "fuse/Analysis/ScaleTable.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace fuse {
#define GEN_PASS_DEF_QUANTIZELINEARSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-quantize-linears"

using namespace mlir;
using namespace fuse;

/// The storage type that an option names, or null.
static Type parseStorageType(MLIRContext *context, StringRef name) {
  if (name == "f8E4M3FN")
    return Float8E4M3FNType::get(context);
  if (name == "f8E5M2")
    return Float8E5M2Type::get(context);
  if (name == "i8")
    return IntegerType::get(context, 8);
  return {};
}

namespace {

struct QuantizeLinears : fuse::impl::QuantizeLinearsPassBase<QuantizeLinears> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    Type storage = parseStorageType(&getContext(), type);
    if (!storage) {
      function.emitError() << "unknown type '" << type
                           << "'; expected one of f8E4M3FN, f8E5M2, i8";
      return signalPassFailure();
    }
    llvm::Expected<ScaleTable> table = readScaleTable(scales);
    if (!table) {
      function.emitError() << llvm::toString(table.takeError());
      return signalPassFailure();
    }
    llvm::MapVector<Operation *, std::string> names = nameLinears(function);
    if (failed(verifyNames(names, *table)))
      return signalPassFailure();
    for (auto &[op, name] : names) {
      auto entry = table->find(name);
      if (entry == table->end())
        continue;
      if (failed(quantize(cast<LinearOp>(op), name, entry->second, storage)))
        return signalPassFailure();
      ++numQuantized;
    }
  }

private:
  /// Every entry is a linear, and every linear has an entry unless some may
  /// stay as they are.
  LogicalResult
  verifyNames(const llvm::MapVector<Operation *, std::string> &names,
              const ScaleTable &table) {
    auto listNames = [&](InFlightDiagnostic &diag) {
      llvm::interleaveComma(llvm::make_second_range(names), diag);
    };
    for (const auto &[name, ignored] : table)
      if (!llvm::is_contained(llvm::make_second_range(names), name)) {
        InFlightDiagnostic diag = getOperation().emitError();
        diag << "scales are given for '" << name
             << "', which is no linear; the linears are ";
        listNames(diag);
        return diag;
      }
    if (allowMissing)
      return success();
    for (const auto &[op, name] : names)
      if (table.find(name) == table.end())
        return op->emitError()
               << "no scales are given for linear '" << name
               << "'; allow-missing leaves such linears as they are";
    return success();
  }

  LogicalResult quantize(LinearOp linear, StringRef name,
                         const LinearScales &scales, Type storage) {
    RankedTensorType xType = linear.getX().getType();
    if (!isa<Float16Type, BFloat16Type, Float32Type>(xType.getElementType()))
      return linear.emitOpError() << "'" << name << "' is quantized already";
    OpBuilder builder(linear);
    FloatAttr inputScale = builder.getF64FloatAttr(scales.input);
    FloatAttr weightScale =
        scales.weight ? builder.getF64FloatAttr(*scales.weight) : FloatAttr();
    Value channelScale;
    if (!scales.weight)
      channelScale = addChannelScale(name, linear.getWeight());
    Value x = quantizeInput(builder, linear, inputScale, storage);
    Value weight = QuantizeOp::create(
        builder, linear.getLoc(),
        withElementType(linear.getWeight().getType(), storage),
        linear.getWeight(), channelScale, weightScale,
        QuantOrderAttr::get(&getContext(), QuantOrder::Reciprocal));
    Value y = LinearOp::create(
        builder, linear.getLoc(), linear.getY().getType(), x, weight,
        linear.getBias(), channelScale, inputScale, weightScale);
    linear.getY().replaceAllUsesWith(y);
    linear.erase();
    return success();
  }

  /// The stored input of a linear. Linears that read one value with one scale
  /// share the quantize op, which makes them members of one kernel.
  Value quantizeInput(OpBuilder &builder, LinearOp linear, FloatAttr scale,
                      Type storage) {
    for (Operation *user : linear.getX().getUsers())
      if (auto quantize = dyn_cast<QuantizeOp>(user))
        if (quantize.getScaleAttr() == scale &&
            quantize.getQ().getType().getElementType() == storage &&
            quantize->getBlock() == linear->getBlock() &&
            quantize->isBeforeInBlock(linear))
          return quantize.getQ();
    return QuantizeOp::create(
        builder, linear.getLoc(),
        withElementType(linear.getX().getType(), storage), linear.getX(),
        Value(), scale,
        QuantOrderAttr::get(&getContext(), QuantOrder::Reciprocal));
  }

  /// A new argument with the scales of a weight's output channels.
  Value addChannelScale(StringRef name, Value weight) {
    func::FuncOp function = getOperation();
    Builder builder(&getContext());
    auto type = RankedTensorType::get(
        {cast<RankedTensorType>(weight.getType()).getShape()[0]},
        builder.getF32Type());
    NamedAttribute parameter = builder.getNamedAttr(
        parameterAttrName, builder.getStringAttr(name + ".weight_scale"));
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(
        index, type, builder.getDictionaryAttr(parameter), weight.getLoc());
    return function.getArgument(index);
  }
};

} // namespace
