//===- QuantizeLinears.cpp - Quantize linears to 8 bits -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scale table names linears. Both directions are checked before the IR
// changes: an entry without a linear and a linear without an entry are errors.
// Linears that read one value with one scale share the op that quantizes it,
// because the linears of a kernel must have the same input.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/LinearNames.h"
#include "fuse/Analysis/ScaleTable.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSwitch.h"

namespace fuse {
#define GEN_PASS_DEF_QUANTIZELINEARSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-quantize-linears"

using namespace mlir;
using namespace fuse;

/// Parses the option `type`; null if the type is unknown.
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

/// How the input of a linear is quantized.
enum class Activations { Static, PerToken, PerTensor, None };

} // namespace

static std::optional<Activations> symbolizeActivations(StringRef name) {
  return llvm::StringSwitch<std::optional<Activations>>(name)
      .Case("static", Activations::Static)
      .Case("per_token", Activations::PerToken)
      .Case("per_tensor", Activations::PerTensor)
      .Case("none", Activations::None)
      .Default(std::nullopt);
}

namespace {

struct QuantizeLinears : fuse::impl::QuantizeLinearsPassBase<QuantizeLinears> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    if (failed(readOptions()))
      return signalPassFailure();
    llvm::Expected<ScaleTable> table =
        readScaleTable(scales, inputs == Activations::Static);
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
      const std::optional<std::string> &made = entry->second.storage;
      if (made && *made != type) {
        op->emitError() << "the scales of linear '" << name << "' are for "
                        << *made << ", the pass stores " << type
                        << "; calibrate for " << type
                        << ", or set type=" << *made;
        return signalPassFailure();
      }
      if (failed(quantize(cast<LinearOp>(op), name, entry->second)))
        return signalPassFailure();
      ++numQuantized;
    }
  }

private:
  LogicalResult unknown(StringRef option, StringRef value, StringRef choices) {
    return getOperation().emitError() << "unknown " << option << " '" << value
                                      << "'; expected one of " << choices;
  }

  LogicalResult readOptions() {
    storage = parseStorageType(&getContext(), type);
    if (!storage)
      return unknown("type", type, "f8E4M3FN, f8E5M2, i8");
    std::optional<Activations> parsedInputs = symbolizeActivations(activations);
    if (!parsedInputs)
      return unknown("activations", activations,
                     "static, per_token, per_tensor, none");
    inputs = *parsedInputs;
    std::optional<QuantOrder> parsedOrder = symbolizeQuantOrder(order);
    if (!parsedOrder)
      return unknown("order", order, "reciprocal, divide");
    inputOrder = QuantOrderAttr::get(&getContext(), *parsedOrder);
    if (weights != "quantize" && weights != "stored")
      return unknown("weights", weights, "quantize, stored");
    return success();
  }

  /// Checks that every entry names a linear, and that every linear has an entry
  /// unless `allow-missing` is set.
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
             << "', which is not a linear; the linears are ";
        listNames(diag);
        return diag;
      }
    if (allowMissing)
      return success();
    for (const auto &[op, name] : names)
      if (table.find(name) == table.end())
        return op->emitError() << "no scales are given for linear '" << name
                               << "'; allow-missing skips such linears";
    return success();
  }

  LogicalResult quantize(LinearOp linear, StringRef name,
                         const LinearScales &scales) {
    RankedTensorType xType = linear.getX().getType();
    if (!isa<Float16Type, BFloat16Type, Float32Type>(xType.getElementType()) ||
        linear.getWeight().getDefiningOp<DequantizeOp>())
      return linear.emitOpError() << "'" << name << "' is already quantized";
    if (inputs == Activations::PerToken && xType.getRank() < 2)
      return linear.emitOpError() << "'" << name << "' reads one token of type "
                                  << xType << "; use activations=per_tensor";
    OpBuilder builder(linear);
    FloatAttr weightScale =
        scales.weight ? builder.getF64FloatAttr(*scales.weight) : FloatAttr();
    Value channelScale;
    if (!scales.weight)
      channelScale = addChannelScale(name, linear.getWeight());
    // Checked first, so that the IR does not change before an error.
    if (failed(checkWeight(linear, name)))
      return failure();
    FloatAttr inputScale;
    Value x = linear.getX(), dynamicScale;
    if (inputs == Activations::Static) {
      inputScale = builder.getF64FloatAttr(*scales.input);
      x = quantizeInput(builder, linear, inputScale);
    } else if (inputs != Activations::None) {
      auto op = quantizeDynamically(builder, linear);
      x = op.getQ();
      dynamicScale = op.getScale();
    }
    Value weight = storeWeight(builder, linear, weightScale, channelScale);
    if (inputs == Activations::None) {
      weight = DequantizeOp::create(
          builder, linear.getLoc(),
          withElementType(weight.getType(), xType.getElementType()), weight,
          channelScale, weightScale);
      channelScale = Value();
      weightScale = FloatAttr();
    }
    Value y =
        LinearOp::create(builder, linear.getLoc(), linear.getY().getType(), x,
                         weight, linear.getBias(), channelScale, dynamicScale,
                         inputScale, weightScale, linear.getBiasPlaceAttr());
    linear.getY().replaceAllUsesWith(y);
    linear.erase();
    return success();
  }

  /// Checks that the caller can pass the stored weight.
  LogicalResult checkWeight(LinearOp linear, StringRef name) {
    if (weights == "quantize")
      return success();
    Value weight = linear.getWeight();
    auto argument = dyn_cast<BlockArgument>(weight);
    if (!argument || argument.getOwner() != &getOperation().front())
      return linear.emitOpError()
             << "'" << name << "' has a computed weight; "
             << "weights=stored needs an argument of the function";
    if (!weight.hasOneUse())
      return linear.emitOpError()
             << "'" << name << "' shares its weight with another op; "
             << "weights=stored needs a weight without other users";
    return success();
  }

  /// The stored weight of a linear, quantized in the function or by the caller.
  Value storeWeight(OpBuilder &builder, LinearOp linear, FloatAttr scale,
                    Value channelScale) {
    Value weight = linear.getWeight();
    RankedTensorType type = withElementType(weight.getType(), storage);
    if (weights == "quantize")
      return QuantizeOp::create(
          builder, linear.getLoc(), type, weight, channelScale, scale,
          QuantOrderAttr::get(&getContext(), QuantOrder::Reciprocal));
    func::FuncOp function = getOperation();
    weight.setType(type);
    function.setFunctionType(
        builder.getFunctionType(function.front().getArgumentTypes(),
                                function.getFunctionType().getResults()));
    return weight;
  }

  /// An op before `linear` that quantizes the same input and satisfies
  /// `isSame`, or null. Linears that share it can be members of one kernel.
  template <typename OpTy>
  OpTy findShared(LinearOp linear, function_ref<bool(OpTy)> isSame) {
    for (Operation *user : linear.getX().getUsers())
      if (auto op = dyn_cast<OpTy>(user))
        if (isSame(op) && op.getQ().getType().getElementType() == storage &&
            op->getBlock() == linear->getBlock() && op->isBeforeInBlock(linear))
          return op;
    return {};
  }

  Value quantizeInput(OpBuilder &builder, LinearOp linear, FloatAttr scale) {
    auto shared = findShared<QuantizeOp>(linear, [&](QuantizeOp op) {
      return op.getScaleAttr() == scale && op.getOrderAttr() == inputOrder;
    });
    if (shared)
      return shared.getQ();
    return QuantizeOp::create(builder, linear.getLoc(),
                              withElementType(linear.getX().getType(), storage),
                              linear.getX(), Value(), scale, inputOrder);
  }

  DynamicQuantizeOp quantizeDynamically(OpBuilder &builder, LinearOp linear) {
    ScaleScope scope = inputs == Activations::PerToken ? ScaleScope::PerToken
                                                       : ScaleScope::PerTensor;
    auto shared = findShared<DynamicQuantizeOp>(
        linear, [&](DynamicQuantizeOp op) { return op.getScope() == scope; });
    if (shared)
      return shared;
    RankedTensorType type = linear.getX().getType();
    SmallVector<int64_t> shape = {1};
    if (scope == ScaleScope::PerToken)
      shape.assign(type.getShape().begin(), type.getShape().end() - 1);
    return DynamicQuantizeOp::create(
        builder, linear.getLoc(), withElementType(type, storage),
        RankedTensorType::get(shape, builder.getF32Type()),
        ScaleScopeAttr::get(&getContext(), scope), linear.getX());
  }

  /// Adds an argument with the scales of a weight's output channels.
  Value addChannelScale(StringRef name, Value weight) {
    func::FuncOp function = getOperation();
    Builder builder(&getContext());
    auto type = RankedTensorType::get(
        {cast<RankedTensorType>(weight.getType()).getShape()[0]},
        builder.getF32Type());
    NamedAttribute parameter = builder.getNamedAttr(
        kParameterAttrName, builder.getStringAttr(name + ".weight_scale"));
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(
        index, type, builder.getDictionaryAttr(parameter), weight.getLoc());
    return function.getArgument(index);
  }

  Type storage;
  Activations inputs = Activations::Static;
  QuantOrderAttr inputOrder;
};

} // namespace
