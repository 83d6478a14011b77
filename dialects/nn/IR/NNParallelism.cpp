//===- NNParallelism.cpp - Tensor parallelism of a model ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "nn/IR/NNModules.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fuse;

namespace {

/// The size of each axis, and the op that states it first.
using Axes = llvm::StringMap<std::pair<int64_t, Operation *>>;

} // namespace

static std::string describe(Operation *op) {
  if (auto parameter = dyn_cast<ParameterOp>(op))
    return "parameter '" + getParameterName(parameter) + "'";
  return "module '" + getModulePath(op) + "'";
}

static LogicalResult verifySize(Axes &axes, Operation *op, StringRef axis,
                                int64_t size) {
  auto [entry, isNew] = axes.try_emplace(axis, size, op);
  auto [known, first] = entry->second;
  if (isNew || known == size)
    return success();
  return op->emitOpError() << "has " << size << " ranks along axis '" << axis
                           << "', " << describe(first) << " has " << known;
}

/// Verifies one parameter of a module with a plan.
static LogicalResult verifyShard(TPAttr plan, ParameterOp parameter) {
  ShardAttr shard = parameter.getShardAttr();
  if (!shard)
    return success();
  StringRef kind = stringifyTPKind(plan.getKind());
  if (shard.getAxis() != plan.getAxis())
    return parameter.emitOpError()
           << "is cut along axis '" << shard.getAxis().getValue() << "', its "
           << kind << " module along '" << plan.getAxis().getValue() << "'";
  auto type = dyn_cast<RankedTensorType>(parameter.getType());
  if (plan.getKind() == TPKind::Rowwise && type && type.getRank() < 2)
    return parameter.emitOpError()
           << "of a rowwise module must be whole; it is added to the sum";
  int64_t expected = plan.getKind() == TPKind::Rowwise ? 1 : 0;
  if (shard.getDim() != expected)
    return parameter.emitOpError()
           << "is cut in dimension " << shard.getDim() << ", expected "
           << expected << " in a " << kind << " module";
  return success();
}

/// Verifies the children of a model or module.
static LogicalResult verifyChildren(Axes &axes, Operation *parent) {
  for (Operation &op : parent->getRegion(0).getOps()) {
    if (auto parameter = dyn_cast<ParameterOp>(op)) {
      ShardAttr shard = parameter.getShardAttr();
      if (shard && failed(verifySize(axes, parameter, shard.getAxis(),
                                     shard.getCount())))
        return failure();
      continue;
    }
    auto module = dyn_cast<NetModuleOp>(op);
    if (!module)
      continue;
    if (TPAttr plan = module.getTensorParallelAttr();
        plan && plan.getKind() != TPKind::Unknown) {
      if (failed(verifySize(axes, module, plan.getAxis(), plan.getSize())))
        return failure();
      auto parameters = module.getBody().getOps<ParameterOp>();
      bool isCut = false;
      for (ParameterOp parameter : parameters) {
        isCut |= bool(parameter.getShardAttr());
        if (failed(verifyShard(plan, parameter)))
          return failure();
      }
      if (!isCut)
        return module.emitOpError() << "is " << stringifyTPKind(plan.getKind())
                                    << " but has no parameter with a shard";
    }
    if (failed(verifyChildren(axes, module)))
      return failure();
  }
  return success();
}

LogicalResult fuse::verifyParallelism(ModelOp model) {
  Axes axes;
  return verifyChildren(axes, model);
}
