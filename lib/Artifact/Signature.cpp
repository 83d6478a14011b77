//===- Signature.cpp - Signatures of functions in the manifest ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ArgumentSizes.h"
#include "fuse/Artifact/Compiler.h"
#include "fuse/Runtime/Core/Manifest.h"
#include "fuse/Target/PTX.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "nn/IR/NNModules.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;
namespace json = llvm::json;

static std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static Expected<json::Object> describeTensor(Type type, const Twine &what) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return createStringError(what + " is " + print(type) +
                             ", expected a ranked tensor");
  std::string element = print(tensor.getElementType());
  if (!runtime::getDataType(element))
    return createStringError(what + " is " + print(type) +
                             ", expected elements of type f64, f32, f16, "
                             "bf16, f8E4M3FN, f8E5M2, i64, i32 or i8");
  json::Array shape;
  for (int64_t size : tensor.getShape())
    shape.push_back(ShapedType::isDynamic(size) ? -1 : size);
  return json::Object{{"type", element}, {"shape", std::move(shape)}};
}

namespace {

/// Sizes of arguments that have to be equal. Code reads a size from one
/// argument and uses it for another if both have the same distance from the
/// last dimension.
struct SizeClass {
  size_t fromEnd;
  SmallVector<std::pair<unsigned, unsigned>> places;
  std::optional<int64_t> size;
};

} // namespace

static SmallVector<SizeClass> getSizeClasses(func::FuncOp function) {
  SmallVector<SizeClass> classes;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    for (int64_t dim = 0; dim < tensor.getRank(); ++dim) {
      if (!tensor.isDynamicDim(dim))
        continue;
      size_t fromEnd = tensor.getRank() - dim;
      auto *it = llvm::find_if(
          classes, [&](const SizeClass &c) { return c.fromEnd == fromEnd; });
      if (it == classes.end())
        it = classes.insert(classes.end(), {fromEnd, {}, std::nullopt});
      it->places.push_back(
          {static_cast<unsigned>(index), static_cast<unsigned>(dim)});
    }
  }
  return classes;
}

/// Finds sizes that the types leave open but the function requires.
static llvm::Error addRequiredSizes(func::FuncOp lowered,
                                    SmallVectorImpl<SizeClass> &classes) {
  std::string problem;
  lowered.walk([&](tensor::CastOp castOp) {
    auto from = dyn_cast<RankedTensorType>(castOp.getSource().getType());
    auto to = dyn_cast<RankedTensorType>(castOp.getType());
    if (!from || !to)
      return;
    for (int64_t dim = 0; dim < from.getRank(); ++dim) {
      if (!from.isDynamicDim(dim) || to.isDynamicDim(dim))
        continue;
      size_t fromEnd = from.getRank() - dim;
      for (SizeClass &sizeClass : classes) {
        if (sizeClass.fromEnd != fromEnd)
          continue;
        int64_t size = to.getDimSize(dim);
        if (sizeClass.size && *sizeClass.size != size)
          problem =
              ("@" + lowered.getSymName() + " needs both " +
               Twine(*sizeClass.size) + " and " + Twine(size) + " as one size")
                  .str();
        sizeClass.size = size;
      }
    }
  });
  if (!problem.empty())
    return createStringError(problem);
  return llvm::Error::success();
}

/// A size of a result over the classes, or nothing if only the code can
/// determine it.
static std::optional<AffineExpr> getResultSize(Value result, int64_t dim,
                                               ArrayRef<SizeClass> classes) {
  auto getSymbol = [&](BlockArgument argument,
                       int64_t place) -> std::optional<AffineExpr> {
    auto type = cast<RankedTensorType>(argument.getType());
    size_t fromEnd = type.getRank() - place;
    const auto *it = llvm::find_if(
        classes, [&](const SizeClass &c) { return c.fromEnd == fromEnd; });
    if (it == classes.end())
      return std::nullopt;
    return getAffineSymbolExpr(it - classes.begin(), result.getContext());
  };
  return computeSizeFromArguments(result, dim, getSymbol);
}

Expected<json::Object> fuse::describeFunction(func::FuncOp function,
                                              func::FuncOp lowered) {
  std::string name = function.getSymName().str();
  json::Array arguments, results, symbols;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto tensor =
        describeTensor(type, "argument " + Twine(index) + " of @" + name);
    if (!tensor)
      return tensor.takeError();
    if (std::string name = getParameterName(function, index); !name.empty())
      (*tensor)["parameter"] = std::move(name);
    arguments.push_back(std::move(*tensor));
  }
  SmallVector<SizeClass> classes = getSizeClasses(function);
  if (llvm::Error error = addRequiredSizes(lowered, classes))
    return std::move(error);
  for (const SizeClass &sizeClass : classes) {
    json::Array places;
    for (auto [argument, dim] : sizeClass.places)
      places.push_back(json::Array{argument, dim});
    json::Object symbol{{"places", std::move(places)}};
    if (sizeClass.size)
      symbol["size"] = *sizeClass.size;
    symbols.push_back(std::move(symbol));
  }
  Operation *returnOp = lowered.getBody().hasOneBlock()
                            ? lowered.front().getTerminator()
                            : nullptr;
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    auto tensor =
        describeTensor(type, "result " + Twine(index) + " of @" + name);
    if (!tensor)
      return tensor.takeError();
    json::Array sizes;
    auto shaped = cast<RankedTensorType>(type);
    for (int64_t dim = 0; dim < shaped.getRank(); ++dim) {
      std::optional<AffineExpr> size;
      if (shaped.isDynamicDim(dim) && returnOp)
        size = getResultSize(returnOp->getOperand(index), dim, classes);
      if (!shaped.isDynamicDim(dim))
        sizes.push_back(shaped.getDimSize(dim));
      else if (size)
        sizes.push_back(toJSON(*size));
      else
        sizes.push_back(nullptr);
    }
    (*tensor)["sizes"] = std::move(sizes);
    results.push_back(std::move(*tensor));
  }
  FailureOr<json::Array> checks =
      getChecks(lowered, [&](int64_t argument, int64_t dim) -> AffineExpr {
        for (auto [index, sizeClass] : llvm::enumerate(classes))
          if (llvm::is_contained(sizeClass.places,
                                 std::pair<unsigned, unsigned>(argument, dim)))
            return getAffineSymbolExpr(index, function.getContext());
        return {};
      });
  if (failed(checks))
    return createStringError("the checks of @" + name + " are malformed");
  json::Object description{{"name", name},
                           {"arguments", std::move(arguments)},
                           {"results", std::move(results)},
                           {"symbols", std::move(symbols)}};
  if (!checks->empty())
    description["checks"] = std::move(*checks);
  return std::move(description);
}
