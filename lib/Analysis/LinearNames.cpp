//===- LinearNames.cpp - Names of the linears of a function ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/LinearNames.h"
#include "nn/IR/NNModules.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fuse;

/// The parameter name of `value`, looking through a dequantize op, or empty.
static std::string getParameter(FunctionOpInterface function, Value value) {
  if (auto dequantize = value.getDefiningOp<DequantizeOp>())
    value = dequantize.getQ();
  else if (auto packed = value.getDefiningOp<DequantizeWeightOp>())
    value = packed.getQ();
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner()->getParentOp() != function)
    return {};
  return getParameterName(function, argument.getArgNumber());
}

llvm::MapVector<Operation *, std::string>
fuse::nameLinears(FunctionOpInterface function) {
  llvm::MapVector<Operation *, std::string> names;
  llvm::StringSet<> taken;
  function->walk<WalkOrder::PreOrder>([&](LinearOp linear) {
    std::string name = ("linear#" + Twine(names.size())).str();
    std::string parameter = getParameter(function, linear.getWeight());
    if (!parameter.empty()) {
      StringRef text = parameter;
      text.consume_back(".weight");
      name = text.str();
    }
    std::string unique = name;
    for (unsigned i = 1; !taken.insert(unique).second; ++i)
      unique = (name + "@" + Twine(i)).str();
    names[linear] = unique;
  });
  return names;
}
