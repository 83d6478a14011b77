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

static std::optional<json::Value> toValue(std::optional<json::Object> object) {
  if (!object)
    return std::nullopt;
  return json::Value(std::move(*object));
}

/// A buffer of a kernel, or nothing if the name is malformed.
static std::optional<json::Object> bufferToJSON(StringRef name) {
  StringRef key = name.consume_front("arg")     ? "arg"
                  : name.consume_front("ws")    ? "workspace"
                  : name.consume_front("const") ? "constant"
                                                : "";
  int64_t index;
  if (key.empty() || name.getAsInteger(10, index))
    return std::nullopt;
  return json::Object{{key, index}};
}

/// The numbers `keys` of a dictionary, or nothing if one is missing.
static std::optional<json::Object> numbersToJSON(DictionaryAttr entries,
                                                 ArrayRef<StringRef> keys) {
  json::Object numbers;
  for (StringRef key : keys) {
    auto number = entries.getAs<IntegerAttr>(key);
    if (!number || number.getValue().getSignificantBits() > 64)
      return std::nullopt;
    numbers[key] = number.getValue().getSExtValue();
  }
  return numbers;
}

/// A number that follows from static scales.
static std::optional<json::Value> scalarToJSON(DictionaryAttr entries) {
  auto value = entries.getAs<FloatAttr>("value");
  auto factors = entries.getAs<ArrayAttr>("of");
  auto divisor = entries.getAs<FloatAttr>("over");
  if (!value || !factors == !divisor)
    return std::nullopt;
  json::Object object{{"value", value.getValueAsDouble()},
                      {"type", toText(value.getType())}};
  if (divisor)
    object["over"] = divisor.getValueAsDouble();
  if (!factors)
    return object;
  json::Array scales;
  for (Attribute attr : factors) {
    auto scale = dyn_cast<FloatAttr>(attr);
    if (!scale)
      return std::nullopt;
    scales.push_back(scale.getValueAsDouble());
  }
  object["of"] = std::move(scales);
  return object;
}

/// An argument that only scheduled kernels have: a packed weight, a size of few
/// bytes, a place in a buffer or a tensor map of one.
static std::optional<json::Value> scheduledToJSON(DictionaryAttr entries) {
  if (entries.contains("value"))
    return scalarToJSON(entries);
  if (entries.contains("packed"))
    return toValue(numbersToJSON(entries, {"packed"}));
  if (auto size = entries.getAs<AffineMapAttr>("size")) {
    std::optional<json::Object> bytes = numbersToJSON(entries, {"bytes"});
    if (!bytes || size.getValue().getNumResults() != 1)
      return std::nullopt;
    (*bytes)["size"] = toJSON(size.getValue().getResult(0));
    return toValue(std::move(bytes));
  }
  auto name = entries.getAs<StringAttr>("buffer");
  std::optional<json::Object> offset = numbersToJSON(entries, {"offset"});
  std::optional<json::Object> place;
  if (name)
    place = bufferToJSON(name.getValue());
  if (!place || !offset)
    return std::nullopt;
  (*place)["offset"] = std::move((*offset)["offset"]);
  if (auto map = entries.getAs<DictionaryAttr>("map")) {
    auto numbers = numbersToJSON(
        map, {"rows", "columns", "box_rows", "box_columns", "swizzle"});
    auto element = map.getAs<TypeAttr>("element");
    if (!numbers || !element)
      return std::nullopt;
    (*numbers)["element"] = toText(element.getValue());
    (*place)["map"] = std::move(*numbers);
  }
  return toValue(std::move(place));
}

/// An argument of a kernel, or nothing if the attribute is malformed.
static std::optional<json::Value> argumentToJSON(Attribute attr) {
  if (auto name = dyn_cast<StringAttr>(attr))
    return toValue(bufferToJSON(name.getValue()));
  if (auto entries = dyn_cast<DictionaryAttr>(attr))
    return scheduledToJSON(entries);
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
/// the one of the portable path.
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
  if (auto cluster = launch.getAs<IntegerAttr>("cluster"))
    result["cluster"] = json::Array{cluster.getInt(), 1, 1};
  if (auto carveout = launch.getAs<IntegerAttr>("carveout"))
    result["carveout"] = carveout.getInt();
  // Only launches of scheduled kernels have these.
  auto cooperative = launch.getAs<BoolAttr>("cooperative");
  if (auto dependent = launch.getAs<BoolAttr>("dependent");
      dependent && cooperative) {
    result["cooperative"] = cooperative.getValue();
    result["dependent"] = dependent.getValue();
  }
  if (cooperative || external.get(kernel.getRootReference().getValue()))
    result["module"] = kernel.getRootReference().getValue();
  return result;
}

/// Sizes, or nothing if one is malformed.
static std::optional<json::Array> sizesToJSON(ArrayAttr sizes) {
  json::Array list;
  for (Attribute attr : sizes) {
    auto size = dyn_cast<AffineMapAttr>(attr);
    if (!size || size.getValue().getNumResults() != 1)
      return std::nullopt;
    list.push_back(toJSON(size.getValue().getResult(0)));
  }
  return list;
}

/// Buffers and launches of a plan or of a range of it, or nothing if they are
/// malformed.
static std::optional<json::Object> stepsToJSON(DictionaryAttr plan,
                                               const json::Object &external) {
  auto workspace = plan.getAs<ArrayAttr>("workspace");
  auto launches = plan.getAs<ArrayAttr>("launches");
  if (!workspace || !launches)
    return std::nullopt;
  json::Array list;
  for (Attribute attr : launches) {
    auto dictionary = dyn_cast<DictionaryAttr>(attr);
    std::optional<json::Object> launch;
    if (dictionary)
      launch = launchToJSON(dictionary, external);
    if (!launch)
      return std::nullopt;
    list.push_back(std::move(*launch));
  }
  std::optional<json::Array> sizes = sizesToJSON(workspace);
  if (!sizes)
    return std::nullopt;
  json::Object steps{{"workspace", std::move(*sizes)},
                     {"launches", std::move(list)}};
  if (plan.contains("upto")) {
    std::optional<json::Object> upTo = numbersToJSON(plan, {"upto"});
    if (!upTo)
      return std::nullopt;
    steps["upto"] = std::move((*upTo)["upto"]);
  }
  return steps;
}

/// What a plan with scheduled kernels has besides, or nothing if it is
/// malformed.
static std::optional<json::Object> limitsToJSON(DictionaryAttr plan) {
  auto tokens = plan.getAs<ArrayAttr>("tokens");
  auto weights = plan.getAs<ArrayAttr>("packed");
  auto numbers = numbersToJSON(plan, {"max_tokens", "zeroed"});
  if (!tokens || !weights || !numbers)
    return std::nullopt;
  json::Array packed;
  for (Attribute attr : weights) {
    auto weight = dyn_cast<DictionaryAttr>(attr);
    std::optional<json::Object> entry;
    if (weight)
      entry = numbersToJSON(weight, {"tiles", "steps", "bytes"});
    auto recipe = weight ? weight.getAs<StringAttr>("recipe") : StringAttr();
    auto operands =
        weight ? weight.getAs<DenseI64ArrayAttr>("operands") : nullptr;
    if (!entry || !recipe || !operands)
      return std::nullopt;
    (*entry)["recipe"] = recipe.getValue();
    (*entry)["operands"] = toJSON(operands.asArrayRef());
    packed.push_back(std::move(*entry));
  }
  std::optional<json::Array> limited = sizesToJSON(tokens);
  if (!limited)
    return std::nullopt;
  return json::Object{{"max_tokens", std::move((*numbers)["max_tokens"])},
                      {"zeroed_bytes", std::move((*numbers)["zeroed"])},
                      {"tokens", std::move(*limited)},
                      {"packed", std::move(packed)}};
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

/// The place with the symbol of a size: the first of those that are equal.
static std::pair<int64_t, int64_t>
getFirstPlace(func::FuncOp function, int64_t argument, int64_t dim) {
  auto classes = function->getAttrOfType<ArrayAttr>(kEqualSizesAttrName);
  if (!classes)
    return {argument, dim};
  for (auto list : classes.getAsRange<DenseI64ArrayAttr>()) {
    ArrayRef<int64_t> places = list.asArrayRef();
    for (size_t i = 0; i + 1 < places.size(); i += 2)
      if (places[i] == argument && places[i + 1] == dim)
        return {places[0], places[1]};
  }
  return {argument, dim};
}

/// The plan of a function with the types of its arguments, or nothing if it is
/// malformed.
static std::optional<json::Object> planToJSON(func::FuncOp function,
                                              DictionaryAttr plan,
                                              const json::Object &external) {
  auto symbols = plan.getAs<ArrayAttr>("symbols");
  auto ranges = plan.getAs<ArrayAttr>("ranges");
  std::optional<json::Object> result = json::Object();
  if (!ranges)
    result = stepsToJSON(plan, external);
  if (!symbols || !result)
    return std::nullopt;
  if (plan.contains("tokens")) {
    std::optional<json::Object> limits = limitsToJSON(plan);
    if (!limits)
      return std::nullopt;
    for (auto &[key, value] : *limits)
      (*result)[key] = std::move(value);
  }
  json::Array argumentList, symbolList, alternatives;
  for (Attribute attr : ranges ? ranges.getValue() : ArrayRef<Attribute>()) {
    auto range = dyn_cast<DictionaryAttr>(attr);
    std::optional<json::Object> steps;
    if (range)
      steps = stepsToJSON(range, external);
    if (!steps)
      return std::nullopt;
    alternatives.push_back(std::move(*steps));
  }
  if (ranges)
    (*result)["alternatives"] = std::move(alternatives);

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
  // Checks may add symbols.
  std::optional<json::Array> checks =
      checksToJSON(function, [&](int64_t argument, int64_t dim) -> AffineExpr {
        auto [first, firstDim] = getFirstPlace(function, argument, dim);
        json::Value place = json::Array{first, firstDim};
        auto it = llvm::find(symbolList, place);
        size_t index = it - symbolList.begin();
        if (it == symbolList.end())
          symbolList.push_back(std::move(place));
        return getAffineSymbolExpr(index, function.getContext());
      });
  if (!checks)
    return std::nullopt;
  if (!checks->empty())
    (*result)["checks"] = std::move(*checks);
  if (auto names = plan.getAs<ArrayAttr>("constants")) {
    std::optional<json::Array> constants = constantsToJSON(function, names);
    if (!constants)
      return std::nullopt;
    (*result)["constants"] = std::move(*constants);
  }
  (*result)["name"] = function.getName();
  (*result)["arguments"] = std::move(argumentList);
  (*result)["symbols"] = std::move(symbolList);
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
