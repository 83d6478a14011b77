//===- LaunchPlan.cpp - Launch plans as JSON ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plans are attributes that passes write and users can edit. A plan is
// therefore malformed unless it has exactly the form that
// `fuse-attach-launch-plan` writes. Sizes remain expressions; the host
// evaluates them.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Target/PTX.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/Base64.h"

using namespace mlir;
using namespace fuse;
namespace json = llvm::json;

json::Value fuse::toJSON(AffineExpr expr) {
  auto binary = [&](StringRef name) -> json::Value {
    auto op = cast<AffineBinaryOpExpr>(expr);
    return json::Array{name, toJSON(op.getLHS()), toJSON(op.getRHS())};
  };
  switch (expr.getKind()) {
  case AffineExprKind::Constant:
    return cast<AffineConstantExpr>(expr).getValue();
  case AffineExprKind::SymbolId:
    return ("s" + Twine(cast<AffineSymbolExpr>(expr).getPosition())).str();
  case AffineExprKind::DimId:
    return ("d" + Twine(cast<AffineDimExpr>(expr).getPosition())).str();
  case AffineExprKind::Add:
    return binary("add");
  case AffineExprKind::Mul:
    return binary("mul");
  case AffineExprKind::Mod:
    return binary("mod");
  case AffineExprKind::FloorDiv:
    return binary("floordiv");
  case AffineExprKind::CeilDiv:
    return binary("ceildiv");
  }
  return nullptr;
}

static json::Array toJSON(ArrayRef<int64_t> values) {
  json::Array array;
  for (int64_t value : values)
    array.push_back(value);
  return array;
}

static std::string toText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// An argument of a kernel, or nothing if the attribute is malformed.
static std::optional<json::Value> argumentToJSON(Attribute attr) {
  if (auto name = dyn_cast<StringAttr>(attr)) {
    StringRef text = name.getValue();
    StringRef key = text.consume_front("arg")     ? "arg"
                    : text.consume_front("ws")    ? "workspace"
                    : text.consume_front("const") ? "constant"
                                                  : "";
    int64_t index;
    if (key.empty() || text.getAsInteger(10, index))
      return std::nullopt;
    return json::Object{{key, index}};
  }
  if (auto map = dyn_cast<AffineMapAttr>(attr);
      map && map.getValue().getNumResults() == 1)
    return json::Object{{"size", toJSON(map.getValue().getResult(0))}};
  if (auto value = dyn_cast<FloatAttr>(attr))
    return json::Object{{"value", value.getValueAsDouble()},
                        {"type", toText(value.getType())}};
  if (auto value = dyn_cast<IntegerAttr>(attr);
      value && value.getValue().getSignificantBits() <= 64)
    return json::Object{{"value", value.getValue().getSExtValue()},
                        {"type", toText(value.getType())}};
  return std::nullopt;
}

/// A launch, or nothing if it is malformed. Its module is named unless it is
/// the generated one.
static std::optional<json::Object> launchToJSON(DictionaryAttr launch,
                                                const json::Object &external) {
  auto kernel = launch.getAs<SymbolRefAttr>("kernel");
  auto grid = launch.getAs<AffineMapAttr>("grid");
  auto block = launch.getAs<DenseI64ArrayAttr>("block");
  auto args = launch.getAs<ArrayAttr>("args");
  if (!kernel || !grid || !block || !args)
    return std::nullopt;
  json::Array gridSizes, arguments;
  for (AffineExpr size : grid.getValue().getResults())
    gridSizes.push_back(toJSON(size));
  for (Attribute attr : args) {
    std::optional<json::Value> argument = argumentToJSON(attr);
    if (!argument)
      return std::nullopt;
    arguments.push_back(std::move(*argument));
  }
  json::Object result{{"kernel", kernel.getLeafReference().getValue()},
                      {"grid", std::move(gridSizes)},
                      {"block", toJSON(block.asArrayRef())},
                      {"args", std::move(arguments)}};
  if (auto shared = launch.getAs<IntegerAttr>("shared"))
    result["shared_bytes"] = shared.getInt();
  if (auto tile = launch.getAs<IntegerAttr>("tile"))
    result["tile"] = tile.getInt();
  if (external.get(kernel.getRootReference().getValue()))
    result["module"] = kernel.getRootReference().getValue();
  return result;
}

/// The bytes of a constant as kernels read them, or nothing if its elements
/// have no size in memory.
static std::optional<std::string> getBytes(ElementsAttr elements) {
  ShapedType type = elements.getShapedType();
  Type element = type.getElementType();
  if (!element.isIntOrIndexOrFloat())
    return std::nullopt;
  unsigned bits = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  size_t size = llvm::divideCeil(bits, 8);
  size_t total = type.getNumElements() * size;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || blob->getData().size() != total)
      return std::nullopt;
    return std::string(blob->getData().begin(), blob->getData().end());
  }
  auto dense = dyn_cast<DenseElementsAttr>(elements);
  if (!dense)
    return std::nullopt;
  if (!dense.isSplat() && bits % 8 == 0)
    return std::string(dense.getRawData().begin(), dense.getRawData().end());
  std::string bytes;
  bytes.reserve(total);
  auto append = [&](const APInt &value) {
    APInt wide = value.zext(8 * size);
    for (size_t i = 0; i < size; ++i)
      bytes.push_back(static_cast<char>(wide.extractBitsAsZExtValue(8, 8 * i)));
  };
  if (isa<FloatType>(element))
    for (const APFloat &value : dense.getValues<APFloat>())
      append(value.bitcastToAPInt());
  else
    for (const APInt &value : dense.getValues<APInt>())
      append(value);
  return bytes;
}

/// The contents of the globals that a plan lists, in base 64, or nothing if one
/// is not a constant.
static std::optional<json::Array> constantsToJSON(func::FuncOp function,
                                                  ArrayAttr names) {
  json::Array list;
  for (Attribute attr : names) {
    auto name = dyn_cast<FlatSymbolRefAttr>(attr);
    auto global = name ? SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(
                             function, name)
                       : memref::GlobalOp();
    auto elements =
        global ? dyn_cast_or_null<ElementsAttr>(global.getConstantInitValue())
               : ElementsAttr();
    std::optional<std::string> bytes;
    if (elements)
      bytes = getBytes(elements);
    if (!bytes)
      return std::nullopt;
    list.push_back(json::Object{{"type", toText(elements.getShapedType())},
                                {"data", llvm::encodeBase64(*bytes)}});
  }
  return list;
}

/// The checks of a function, or nothing if they are malformed. `getSymbol`
/// numbers a pair of argument and dimension.
static std::optional<json::Array>
checksToJSON(func::FuncOp function,
             function_ref<AffineExpr(int64_t, int64_t)> getSymbol) {
  json::Array list;
  auto checks = function->getAttrOfType<ArrayAttr>(kChecksAttrName);
  if (!checks)
    return list;
  for (Attribute attr : checks) {
    auto check = dyn_cast<DictionaryAttr>(attr);
    if (!check)
      return std::nullopt;
    auto message = check.getAs<StringAttr>("message");
    auto predicate = check.getAs<StringAttr>("predicate");
    auto sizes = check.getAs<AffineMapAttr>("sizes");
    auto symbols = check.getAs<ArrayAttr>("symbols");
    if (!message || !predicate || !sizes || !symbols ||
        sizes.getValue().getNumResults() != 2 ||
        sizes.getValue().getNumSymbols() != symbols.size() ||
        sizes.getValue().getNumDims() != 0)
      return std::nullopt;
    SmallVector<AffineExpr> replacements;
    for (Attribute symbol : symbols) {
      auto place = dyn_cast<DenseI64ArrayAttr>(symbol);
      if (!place || place.size() != 2)
        return std::nullopt;
      AffineExpr replacement = getSymbol(place[0], place[1]);
      if (!replacement)
        return std::nullopt;
      replacements.push_back(replacement);
    }
    AffineExpr lhs = sizes.getValue().getResult(0).replaceSymbols(replacements);
    AffineExpr rhs = sizes.getValue().getResult(1).replaceSymbols(replacements);
    // Callers already check that equal symbols are equal sizes.
    if (lhs == rhs && (predicate == "eq" || predicate == "le"))
      continue;
    list.push_back(json::Object{{"message", message.getValue()},
                                {"predicate", predicate.getValue()},
                                {"lhs", toJSON(lhs)},
                                {"rhs", toJSON(rhs)}});
  }
  return list;
}

FailureOr<json::Array>
fuse::getChecks(func::FuncOp function,
                function_ref<AffineExpr(int64_t, int64_t)> getSymbol) {
  std::optional<json::Array> checks = checksToJSON(function, getSymbol);
  if (!checks)
    return function.emitOpError("has malformed fuse.checks");
  return std::move(*checks);
}

/// The plan of a function with the types of its arguments, or nothing if it is
/// malformed.
static std::optional<json::Object> planToJSON(func::FuncOp function,
                                              DictionaryAttr plan,
                                              const json::Object &external) {
  auto symbols = plan.getAs<ArrayAttr>("symbols");
  auto workspace = plan.getAs<ArrayAttr>("workspace");
  auto launches = plan.getAs<ArrayAttr>("launches");
  if (!symbols || !workspace || !launches)
    return std::nullopt;

  json::Array argumentList, symbolList, workspaceList, launchList;
  for (BlockArgument argument : function.getArguments()) {
    bool isResult =
        !!function.getArgAttr(argument.getArgNumber(), kResultAttrName);
    json::Object entry{{"type", toText(getElementTypeOrSelf(argument))},
                       {"result", isResult}};
    if (auto type = dyn_cast<ShapedType>(argument.getType())) {
      json::Array shape;
      for (int64_t size : type.getShape())
        shape.push_back(ShapedType::isDynamic(size) ? -1 : size);
      entry["shape"] = std::move(shape);
    }
    argumentList.push_back(std::move(entry));
  }
  for (Attribute attr : symbols) {
    auto pair = dyn_cast<DenseI64ArrayAttr>(attr);
    if (!pair)
      return std::nullopt;
    symbolList.push_back(toJSON(pair.asArrayRef()));
  }
  for (Attribute attr : workspace) {
    auto bytes = dyn_cast<AffineMapAttr>(attr);
    if (!bytes || bytes.getValue().getNumResults() != 1)
      return std::nullopt;
    workspaceList.push_back(toJSON(bytes.getValue().getResult(0)));
  }
  for (Attribute attr : launches) {
    auto dictionary = dyn_cast<DictionaryAttr>(attr);
    std::optional<json::Object> launch;
    if (dictionary)
      launch = launchToJSON(dictionary, external);
    if (!launch)
      return std::nullopt;
    launchList.push_back(std::move(*launch));
  }
  // Checks may add symbols.
  std::optional<json::Array> checks =
      checksToJSON(function, [&](int64_t argument, int64_t dim) -> AffineExpr {
        json::Value place = json::Array{argument, dim};
        auto it = llvm::find(symbolList, place);
        size_t index = it - symbolList.begin();
        if (it == symbolList.end())
          symbolList.push_back(std::move(place));
        return getAffineSymbolExpr(index, function.getContext());
      });
  if (!checks)
    return std::nullopt;
  json::Object result{{"name", function.getName()},
                      {"arguments", std::move(argumentList)},
                      {"symbols", std::move(symbolList)},
                      {"workspace", std::move(workspaceList)},
                      {"launches", std::move(launchList)}};
  if (!checks->empty())
    result["checks"] = std::move(*checks);
  if (auto names = plan.getAs<ArrayAttr>("constants")) {
    std::optional<json::Array> constants = constantsToJSON(function, names);
    if (!constants)
      return std::nullopt;
    result["constants"] = std::move(*constants);
  }
  return result;
}

/// Code from files, separate from generated code: PTX as text, a cubin in base
/// 64.
static json::Object getExternalModules(ModuleOp module) {
  json::Object modules;
  for (auto binary : module.getOps<gpu::BinaryOp>()) {
    if (!isExternalBinary(binary))
      continue;
    auto object = cast<gpu::ObjectAttr>(binary.getObjects()[0]);
    StringRef code = object.getObject().getValue();
    bool isText = object.getFormat() == gpu::CompilationTarget::Assembly;
    modules[binary.getSymName()] =
        json::Object{{isText ? "ptx" : "cubin",
                      isText ? code.str() : llvm::encodeBase64(code)}};
  }
  return modules;
}

FailureOr<json::Value> fuse::getLaunchPlans(ModuleOp module) {
  json::Object external = getExternalModules(module);
  json::Array functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    Attribute attr = function->getAttr(kLaunchPlanAttrName);
    if (!attr)
      continue;
    std::optional<json::Object> plan;
    if (auto dictionary = dyn_cast<DictionaryAttr>(attr))
      plan = planToJSON(function, dictionary, external);
    if (!plan)
      return function.emitOpError("has a malformed fuse.launch_plan");
    functions.push_back(std::move(*plan));
  }
  json::Object result{{"functions", std::move(functions)}};
  if (!external.empty())
    result["modules"] = std::move(external);
  for (auto binary : module.getOps<gpu::BinaryOp>())
    for (auto object : binary.getObjects().getAsRange<gpu::ObjectAttr>())
      if (StringRef chip = getTargetChip(object.getTarget()); !chip.empty())
        result["chip"] = chip;
  return json::Value(std::move(result));
}
