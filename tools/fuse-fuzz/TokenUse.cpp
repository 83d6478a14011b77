//===- TokenUse.cpp - Dependences of a function between tokens ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenUse.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cstring>

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

HostTensor fuse::takeSlices(const HostTensor &tensor, ArrayRef<int64_t> order) {
  SmallVector<int64_t> shape(tensor.getShape());
  size_t bytes = shape[0] ? tensor.getNumBytes() / shape[0] : 0;
  shape[0] = order.size();
  HostTensor result =
      llvm::cantFail(HostTensor::create(tensor.getType(), shape));
  for (auto [to, from] : llvm::enumerate(order))
    std::memcpy(result.getData() + to * bytes, tensor.getData() + from * bytes,
                bytes);
  return result;
}

HostTensor fuse::joinSlices(const HostTensor &lhs, const HostTensor &rhs) {
  SmallVector<int64_t> shape(lhs.getShape());
  shape[0] += rhs.getShape()[0];
  HostTensor result = llvm::cantFail(HostTensor::create(lhs.getType(), shape));
  std::memcpy(result.getData(), lhs.getData(), lhs.getNumBytes());
  std::memcpy(result.getData() + lhs.getNumBytes(), rhs.getData(),
              rhs.getNumBytes());
  return result;
}

SmallVector<int64_t> fuse::getOrder(int64_t size, Random &random) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, size));
  for (int64_t i = size; i > 1; --i)
    std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

namespace {

/// Separates values with one row per token from parameters.
class TokenAnalysis {
public:
  bool visit(func::FuncOp function);

  bool isToken(Value value) const { return !parameters.contains(value); }
  bool isCoupled = false;

private:
  bool addParameter(Value value);
  bool visit(Operation *op);

  DenseSet<Value> parameters;
};

} // namespace

/// A parameter is an argument, or computed element by element from parameters.
bool TokenAnalysis::addParameter(Value value) {
  if (!value)
    return true;
  parameters.insert(value);
  if (isa<BlockArgument>(value))
    return true;
  auto dequantize = value.getDefiningOp<DequantizeOp>();
  return dequantize && addParameter(dequantize.getQ()) &&
         addParameter(dequantize.getChannelScale());
}

bool TokenAnalysis::visit(Operation *op) {
  if (auto linear = dyn_cast<LinearOp>(op))
    return addParameter(linear.getWeight()) && addParameter(linear.getBias()) &&
           addParameter(linear.getChannelScale());
  if (auto norm = dyn_cast<RMSNormOp>(op))
    return addParameter(norm.getWeight());
  if (auto norm = dyn_cast<LayerNormOp>(op))
    return addParameter(norm.getWeight()) && addParameter(norm.getBias());
  if (auto dynamic = dyn_cast<DynamicQuantizeOp>(op)) {
    isCoupled |= dynamic.getScope() == ScaleScope::PerTensor;
    return true;
  }
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return !quantize.getChannelScale();
  return isa<ActivationOp, GatedMulOp, ResidualAddOp, DequantizeOp,
             arith::NegFOp, func::ReturnOp>(op);
}

bool TokenAnalysis::visit(func::FuncOp function) {
  if (!llvm::all_of(function.front(),
                    [&](Operation &op) { return visit(&op); }))
    return false;
  // A parameter must not be used as a token, or be combined with tokens.
  for (Operation &op : function.front()) {
    if (isa<func::ReturnOp>(op))
      continue;
    auto linear = dyn_cast<LinearOp>(op);
    bool isOfParameter = parameters.contains(op.getOperand(0));
    if (isOfParameter &&
        !(isa<DequantizeOp>(op) && parameters.contains(op.getResult(0))))
      return false;
    for (Value operand : op.getOperands().drop_front()) {
      bool wantsToken = isa<GatedMulOp, ResidualAddOp>(op) ||
                        (linear && operand == linear.getDynamicScale());
      if (wantsToken && parameters.contains(operand))
        return false;
    }
  }
  return true;
}

/// Whether a value has a dimension for tokens.
static bool hasTokens(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() > 1;
}

std::optional<TokenUse> fuse::getTokenUse(func::FuncOp function) {
  TokenAnalysis analysis;
  if (!analysis.visit(function))
    return std::nullopt;
  TokenUse use;
  use.isCoupled = analysis.isCoupled;
  std::optional<int64_t> size;
  auto add = [&](Value value, SmallVector<bool> &list) {
    bool isToken = analysis.isToken(value);
    list.push_back(isToken);
    if (!isToken)
      return true;
    // A scale per tensor, or a tensor of one token, has no token dimension.
    if (!hasTokens(value))
      return false;
    int64_t own = cast<RankedTensorType>(value.getType()).getDimSize(0);
    bool agrees = !size || *size == own;
    size = own;
    return agrees;
  };
  for (Value argument : function.getArguments())
    if (!add(argument, use.arguments))
      return std::nullopt;
  for (Value result : function.front().getTerminator()->getOperands())
    if (!add(result, use.results))
      return std::nullopt;
  return use;
}
