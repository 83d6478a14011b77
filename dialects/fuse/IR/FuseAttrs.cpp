//===- FuseAttrs.cpp - Attributes of the fuse dialect ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseAttrs.h"
#include "fuse/IR/FuseParsing.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <charconv>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace fuse;

#include "fuse/IR/FuseEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fuse/IR/FuseAttrs.cpp.inc"

void FuseDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fuse/IR/FuseAttrs.cpp.inc"
      >();
}

std::optional<StringLiteral> fuse::getScaleProblem(double scale) {
  if (std::isnan(scale))
    return StringLiteral("is not a number");
  if (std::isinf(scale))
    return StringLiteral("is not finite");
  if (scale < 0.0)
    return StringLiteral("is negative");
  float rounded = static_cast<float>(scale);
  if (rounded == 0.0f)
    return StringLiteral("is zero in f32");
  if (!std::isnormal(rounded))
    return StringLiteral("is not a normal number in f32");
  // Kernels multiply by the reciprocal, and GPUs flush subnormal numbers.
  if (!std::isnormal(1.0f / rounded))
    return StringLiteral("has no normal reciprocal in f32");
  return std::nullopt;
}

void fuse::printShortest(AsmPrinter &printer, FloatAttr number) {
  double value = number.getValueAsDouble();
  if (!std::isfinite(value)) {
    printer.printFloat(number.getValue());
    return;
  }
  char buffer[32];
  char *end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  StringRef text(buffer, end - buffer);
  // A float literal needs a point, which the shortest form 1e-06 lacks.
  auto [mantissa, exponent] = text.split('e');
  printer << mantissa;
  if (!mantissa.contains('.'))
    printer << ".0";
  if (!exponent.empty())
    printer << "e" << exponent;
}

/// Whether `name` prints as a bare keyword, as the syntax requires.
static bool isKeyword(StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

//===----------------------------------------------------------------------===//
// NormAttr
//===----------------------------------------------------------------------===//

LogicalResult NormAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               NormKind kind, FloatAttr eps, int64_t offset,
                               NormCast cast) {
  if (!eps.getType().isF64())
    return emitError() << "eps must be an f64, got " << eps;
  // A layer norm has neither, so unfusing could not restore them.
  if (kind == NormKind::Layer && offset != 0)
    return emitError() << "offset of a layer norm must be 0, got " << offset;
  if (kind == NormKind::Layer && cast != NormCast::BeforeWeight)
    return emitError() << "a layer norm has no cast order, got "
                       << stringifyNormCast(cast);
  return success();
}

//===----------------------------------------------------------------------===//
// StaticScalesAttr
//===----------------------------------------------------------------------===//

Attribute StaticScalesAttr::lookup(StringRef name) const {
  for (NamedAttribute scale : getScales())
    if (scale.getName() == name)
      return scale.getValue();
  return {};
}

std::optional<float> StaticScalesAttr::getScale(StringRef name) const {
  if (auto scale = dyn_cast_or_null<FloatAttr>(lookup(name)))
    return static_cast<float>(scale.getValueAsDouble());
  return std::nullopt;
}

bool StaticScalesAttr::isPerChannel(StringRef name) const {
  return isa_and_nonnull<UnitAttr>(lookup(name));
}

unsigned StaticScalesAttr::getNumPerChannel() const {
  return llvm::count_if(getScales(), [](NamedAttribute scale) {
    return isa<UnitAttr>(scale.getValue());
  });
}

/// Parses a body in angle brackets.
template <typename AttrTy>
static Attribute parseInBrackets(AsmParser &parser) {
  if (parser.parseLess())
    return {};
  Attribute attr = AttrTy::parseBody(parser);
  if (!attr || parser.parseGreater())
    return {};
  return attr;
}

Attribute StaticScalesAttr::parse(AsmParser &parser, Type) {
  return parseInBrackets<StaticScalesAttr>(parser);
}

void StaticScalesAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printBody(printer);
  printer << ">";
}

Attribute StaticScalesAttr::parseBody(AsmParser &parser) {
  Type storage;
  SmallVector<NamedAttribute> scales;
  QuantOrder order = QuantOrder::Reciprocal;
  QuantForm form = QuantForm::Scaled;
  Builder builder(parser.getContext());
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(storage))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return {};
    if (name == "order") {
      if (parseCase<QuantOrder>(parser, name, order, symbolizeQuantOrder,
                                "reciprocal, divide"))
        return {};
      continue;
    }
    if (name == "form") {
      if (parseCase<QuantForm>(parser, name, form, symbolizeQuantForm,
                               "scaled, qdq, weight_only"))
        return {};
      continue;
    }
    if (succeeded(parser.parseOptionalKeyword("per_channel"))) {
      scales.push_back(builder.getNamedAttr(name, builder.getUnitAttr()));
      continue;
    }
    double value;
    if (parser.parseFloat(value))
      return {};
    scales.push_back(
        builder.getNamedAttr(name, builder.getF64FloatAttr(value)));
  }
  return parser.getChecked<StaticScalesAttr>(loc, parser.getContext(), storage,
                                             scales, order, form);
}

void StaticScalesAttr::printBody(AsmPrinter &printer) const {
  printer << getStorageType();
  for (NamedAttribute scale : getScales()) {
    printer << ", " << scale.getName().getValue() << " = ";
    if (auto value = dyn_cast<FloatAttr>(scale.getValue()))
      printShortest(printer, value);
    else
      printer << "per_channel";
  }
  if (getOrder() != QuantOrder::Reciprocal)
    printer << ", order = " << stringifyQuantOrder(getOrder());
  if (getForm() != QuantForm::Scaled)
    printer << ", form = " << stringifyQuantForm(getForm());
}

LogicalResult
StaticScalesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         Type storage, ArrayRef<NamedAttribute> scales,
                         QuantOrder order, QuantForm form) {
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(storage) &&
      !storage.isSignlessInteger(8))
    return emitError() << "storage type must be f8E4M3FN, f8E5M2 or i8, got "
                       << storage;
  llvm::StringSet<> seen;
  for (NamedAttribute scale : scales) {
    StringRef name = scale.getName().getValue();
    if (!isKeyword(name) || name == "order" || name == "form")
      return emitError() << "scale name '" << name << "' is not a free keyword";
    if (!seen.insert(name).second)
      return emitError() << "scale '" << name << "' is given twice";
    if (isa<UnitAttr>(scale.getValue()))
      continue;
    auto value = dyn_cast<FloatAttr>(scale.getValue());
    if (!value || !value.getType().isF64())
      return emitError() << "scale '" << name
                         << "' must be an f64 or per_channel, got "
                         << scale.getValue();
    if (auto problem = getScaleProblem(value.getValueAsDouble()))
      return emitError() << "scale '" << name << "' " << *problem << ", got "
                         << value.getValueAsDouble();
  }
  if (form == QuantForm::WeightOnly && order != QuantOrder::Reciprocal)
    return emitError() << "form weight_only quantizes nothing, so it has no "
                          "order";
  return success();
}

//===----------------------------------------------------------------------===//
// RoundingAttr
//===----------------------------------------------------------------------===//

ArrayRef<StringLiteral> RoundingAttr::getPoints() {
  static constexpr StringLiteral points[] = {"stream",  "normed", "dequantized",
                                             "gate",    "up",     "act",
                                             "product", "down"};
  return points;
}

Type RoundingAttr::getTypeOf(StringRef point, Type defaultType) const {
  for (NamedAttribute entry : getTypes())
    if (entry.getName() == point)
      return cast<TypeAttr>(entry.getValue()).getValue();
  return defaultType;
}

RoundingAttr RoundingAttr::getExact(MLIRContext *context) {
  return get(context, RoundingMode::Exact, {}, {});
}

Attribute RoundingAttr::parse(AsmParser &parser, Type) {
  return parseInBrackets<RoundingAttr>(parser);
}

void RoundingAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printBody(printer);
  printer << ">";
}

Attribute RoundingAttr::parseBody(AsmParser &parser) {
  RoundingMode mode;
  SmallVector<StringAttr> skip;
  SmallVector<NamedAttribute> types;
  BiasPlace biasPlace = BiasPlace::BeforeRounding;
  Builder builder(parser.getContext());
  SMLoc loc = parser.getCurrentLocation();
  if (parseCase<RoundingMode>(parser, "rounding mode", mode,
                              symbolizeRoundingMode, "exact, relaxed"))
    return {};
  auto parsePoint = [&]() -> ParseResult {
    StringRef point;
    if (parser.parseKeyword(&point))
      return failure();
    skip.push_back(builder.getStringAttr(point));
    return success();
  };
  auto parseType = [&]() -> ParseResult {
    StringRef point;
    Type type;
    if (parser.parseKeyword(&point) || parser.parseEqual() ||
        parser.parseType(type))
      return failure();
    types.push_back(builder.getNamedAttr(point, TypeAttr::get(type)));
    return success();
  };
  if (succeeded(parser.parseOptionalKeyword("bias")) &&
      parseCase<BiasPlace>(parser, "place of the bias", biasPlace,
                           symbolizeBiasPlace,
                           "before_rounding, after_rounding"))
    return {};
  if (succeeded(parser.parseOptionalKeyword("skip")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parsePoint))
    return {};
  if (succeeded(parser.parseOptionalKeyword("types")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseType))
    return {};
  return parser.getChecked<RoundingAttr>(loc, parser.getContext(), mode, skip,
                                         types, biasPlace);
}

void RoundingAttr::printBody(AsmPrinter &printer) const {
  printer << stringifyRoundingMode(getMode());
  if (getBiasPlace() != BiasPlace::BeforeRounding)
    printer << " bias " << stringifyBiasPlace(getBiasPlace());
  if (!getSkip().empty()) {
    printer << " skip [";
    llvm::interleaveComma(getSkip(), printer, [&](StringAttr point) {
      printer << point.getValue();
    });
    printer << "]";
  }
  if (!getTypes().empty()) {
    printer << " types {";
    llvm::interleaveComma(getTypes(), printer, [&](NamedAttribute entry) {
      printer << entry.getName().getValue() << " = "
              << cast<TypeAttr>(entry.getValue()).getValue();
    });
    printer << "}";
  }
}

/// Emits an error if `point` is not a rounding point or was seen before.
static LogicalResult verifyPoint(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef point, llvm::StringSet<> &seen) {
  if (!llvm::is_contained(RoundingAttr::getPoints(), point)) {
    InFlightDiagnostic diag = emitError();
    diag << "unknown rounding point '" << point << "'; expected one of ";
    llvm::interleaveComma(RoundingAttr::getPoints(), diag);
    return diag;
  }
  if (!seen.insert(point).second)
    return emitError() << "rounding point '" << point << "' is given twice";
  return success();
}

LogicalResult RoundingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   RoundingMode mode, ArrayRef<StringAttr> skip,
                                   ArrayRef<NamedAttribute> types, BiasPlace) {
  if (mode == RoundingMode::Exact && !skip.empty())
    return emitError() << "exact rounding skips nothing, got a list of "
                       << skip.size() << " rounding points to skip";
  llvm::StringSet<> skipped, typed;
  for (StringAttr point : skip)
    if (failed(verifyPoint(emitError, point, skipped)))
      return failure();
  for (NamedAttribute entry : types) {
    if (failed(verifyPoint(emitError, entry.getName(), typed)))
      return failure();
    auto type = dyn_cast<TypeAttr>(entry.getValue());
    if (!type || !isa<Float16Type, BFloat16Type, Float32Type>(type.getValue()))
      return emitError() << "rounding point '" << entry.getName().getValue()
                         << "' must be f16, bf16 or f32, got "
                         << entry.getValue();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ProvenanceAttr
//===----------------------------------------------------------------------===//

bool ProvenanceAttr::isCommuted(StringRef member) const {
  return llvm::any_of(getCommuted(), [&](StringAttr name) {
    return name.getValue() == member;
  });
}

Attribute ProvenanceAttr::parse(AsmParser &parser, Type) {
  return parseInBrackets<ProvenanceAttr>(parser);
}

void ProvenanceAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printBody(printer);
  printer << ">";
}

Attribute ProvenanceAttr::parseBody(AsmParser &parser) {
  SmallVector<int64_t> places;
  int64_t before = 0;
  SmallVector<StringAttr> commuted;
  SmallVector<DictionaryAttr> attributes;
  Builder builder(parser.getContext());
  SMLoc loc = parser.getCurrentLocation();
  do {
    StringRef key;
    SMLoc keyLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return {};
    ParseResult parsed = failure();
    if (key == "places")
      parsed =
          parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
            return parser.parseInteger(places.emplace_back());
          });
    else if (key == "before")
      parsed = parser.parseInteger(before);
    else if (key == "commuted")
      parsed = parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Square, [&]() -> ParseResult {
            StringRef name;
            if (parser.parseKeyword(&name))
              return failure();
            commuted.push_back(builder.getStringAttr(name));
            return success();
          });
    else if (key == "attributes")
      parsed =
          parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
            return parser.parseAttribute(attributes.emplace_back());
          });
    else
      return parser.emitError(keyLoc)
                 << "unknown provenance entry '" << key
                 << "'; expected one of places, before, commuted, "
                    "attributes",
             Attribute();
    if (parsed)
      return {};
  } while (succeeded(parser.parseOptionalComma()));
  return parser.getChecked<ProvenanceAttr>(loc, parser.getContext(), places,
                                           before, commuted, attributes);
}

void ProvenanceAttr::printBody(AsmPrinter &printer) const {
  StringRef separator = "";
  if (!getPlaces().empty()) {
    printer << "places = [";
    llvm::interleaveComma(getPlaces(), printer);
    printer << "]";
    separator = ", ";
  }
  if (getBefore() != 0) {
    printer << separator << "before = " << getBefore();
    separator = ", ";
  }
  if (!getCommuted().empty()) {
    printer << separator << "commuted = [";
    llvm::interleaveComma(getCommuted(), printer,
                          [&](StringAttr name) { printer << name.getValue(); });
    printer << "]";
    separator = ", ";
  }
  if (!getAttributes().empty()) {
    printer << separator << "attributes = [";
    llvm::interleaveComma(getAttributes(), printer,
                          [&](DictionaryAttr attrs) { printer << attrs; });
    printer << "]";
  }
}

LogicalResult
ProvenanceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       ArrayRef<int64_t> places, int64_t before,
                       ArrayRef<StringAttr> commuted,
                       ArrayRef<DictionaryAttr> attributes) {
  if (places.empty() && commuted.empty() && attributes.empty())
    return emitError() << "provenance is empty; omit it if the chain was "
                          "canonical";
  llvm::SmallDenseSet<int64_t> seen;
  for (int64_t place : places) {
    if (place < 0 || place > std::numeric_limits<int32_t>::max())
      return emitError() << "place of a member must be between 0 and 2^31 - 1, "
                            "got "
                         << place;
    if (!seen.insert(place).second)
      return emitError() << "two members have place " << place;
  }
  for (StringAttr member : commuted)
    if (!isKeyword(member.getValue()))
      return emitError() << "member name '" << member.getValue()
                         << "' is not a keyword";
  if (!places.empty() && !seen.contains(0))
    return emitError() << "the first member must have place 0";
  int64_t others =
      places.empty() ? 0 : *llvm::max_element(places) + 1 - places.size();
  if (before < 0 || before > others)
    return emitError() << "'before' must be between 0 and the number of ops "
                          "between the members ("
                       << others << "), got " << before;
  return success();
}

//===----------------------------------------------------------------------===//
// RecipeAttr
//===----------------------------------------------------------------------===//

bool RecipeAttr::isInvertible() const {
  return getKind() == RecipeKind::Concat || getKind() == RecipeKind::Interleave;
}

RecipeAttr RecipeAttr::withNames(StringAttr name,
                                 ArrayRef<StringAttr> sources) const {
  return RecipeAttr::get(getContext(), name, getKind(), sources, getKeep(),
                         getBlock(), getOffset(), getStorageType(), getScale());
}

Attribute RecipeAttr::parse(AsmParser &parser, Type) {
  std::string name;
  StringRef keyword;
  SMLoc kindLoc;
  if (parser.parseLess() || parser.parseString(&name) || parser.parseEqual())
    return {};
  kindLoc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return {};
  std::optional<RecipeKind> kind = symbolizeRecipeKind(keyword);
  if (!kind) {
    parser.emitError(kindLoc)
        << "unknown recipe '" << keyword
        << "'; expected one of concat, interleave, fold, quantize";
    return {};
  }
  SmallVector<StringAttr> sources;
  int64_t block = 0, offset = 0;
  Type storageType;
  FloatAttr scale;
  if (parser.parseLParen())
    return {};
  do {
    // `quantize` has a type after the first source instead of a name.
    std::string source;
    if (succeeded(parser.parseOptionalString(&source))) {
      sources.push_back(StringAttr::get(parser.getContext(), source));
      continue;
    }
    double number;
    if (*kind != RecipeKind::Quantize || parser.parseType(storageType) ||
        parser.parseKeyword("scale") || parser.parseFloat(number)) {
      parser.emitError(parser.getCurrentLocation(),
                       "expected the name of a parameter");
      return {};
    }
    scale = parser.getBuilder().getF64FloatAttr(number);
    break;
  } while (succeeded(parser.parseOptionalComma()));
  if (*kind == RecipeKind::Interleave &&
      (parser.parseKeyword("block") || parser.parseInteger(block)))
    return {};
  if (*kind == RecipeKind::Fold &&
      succeeded(parser.parseOptionalKeyword("offset")) &&
      parser.parseInteger(offset))
    return {};
  if (parser.parseRParen())
    return {};
  bool keep = succeeded(parser.parseOptionalKeyword("keep"));
  if (parser.parseGreater())
    return {};
  return RecipeAttr::getChecked(
      [&] { return parser.emitError(kindLoc); }, parser.getContext(),
      StringAttr::get(parser.getContext(), name), *kind, sources, keep, block,
      offset, storageType, scale);
}

void RecipeAttr::print(AsmPrinter &printer) const {
  printer << "<" << getName() << " = " << stringifyRecipeKind(getKind()) << "(";
  llvm::interleaveComma(getSources(), printer);
  if (getKind() == RecipeKind::Interleave)
    printer << " block " << getBlock();
  if (getOffset() != 0)
    printer << " offset " << getOffset();
  if (getStorageType()) {
    printer << ", " << getStorageType() << " scale ";
    printShortest(printer, getScale());
  }
  printer << ")" << (getKeep() ? " keep" : "") << ">";
}

LogicalResult RecipeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringAttr name, RecipeKind kind,
                                 ArrayRef<StringAttr> sources, bool keep,
                                 int64_t block, int64_t offset,
                                 Type storageType, FloatAttr scale) {
  auto error = [&] {
    return emitError() << "recipe '" << name.getValue() << "' ";
  };
  if (name.empty())
    return emitError() << "recipe has no name";
  StringRef kindName = stringifyRecipeKind(kind);
  bool permutes = kind == RecipeKind::Concat || kind == RecipeKind::Interleave;
  if (permutes && sources.size() < 2)
    return error() << "needs at least two parameters, got " << sources.size();
  size_t expected = kind == RecipeKind::Fold ? 2 : 1;
  if (!permutes && sources.size() != expected)
    return error() << "needs " << expected << " parameters, got "
                   << sources.size();
  llvm::StringSet<> seen;
  for (StringAttr source : sources) {
    if (source.empty())
      return error() << "has a parameter without a name";
    if (!seen.insert(source.getValue()).second)
      return error() << "reads parameter '" << source.getValue() << "' twice";
  }
  // The syntax cannot express these errors, but builders of attributes can.
  if (kind == RecipeKind::Interleave ? block < 1 : block != 0)
    return error() << "cannot " << kindName << " blocks of " << block
                   << " rows";
  if (kind != RecipeKind::Fold && offset != 0)
    return error() << "cannot " << kindName << " an offset of " << offset;
  if (kind != RecipeKind::Quantize) {
    if (storageType || scale)
      return error() << "cannot " << kindName << " to a type or scale";
    return success();
  }
  if (!storageType || !scale || !scale.getType().isF64())
    return error() << "needs a type and a scale";
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(storageType) &&
      !storageType.isSignlessInteger(8))
    return error() << "stores " << storageType
                   << "; expected f8E4M3FN, f8E5M2 or i8";
  if (std::optional<StringLiteral> problem =
          getScaleProblem(scale.getValueAsDouble()))
    return error() << "has a scale that " << *problem;
  return success();
}

FailureOr<RankedTensorType>
RecipeAttr::inferType(ArrayRef<RankedTensorType> sources,
                      function_ref<InFlightDiagnostic()> emitError) const {
  auto error = [&] {
    return emitError() << "recipe '" << getName().getValue() << "' ";
  };
  RankedTensorType first = sources.front();
  SmallVector<int64_t> shape(first.getShape());
  switch (getKind()) {
  case RecipeKind::Concat:
  case RecipeKind::Interleave:
    if (shape.empty())
      return error() << "reads rows of " << first << ", which has none";
    for (auto [name, type] :
         llvm::drop_begin(llvm::zip_equal(getSources(), sources))) {
      bool sameRows = getKind() == RecipeKind::Concat || !type.getRank() ||
                      type.getDimSize(0) == first.getDimSize(0);
      if (type.getElementType() != first.getElementType() ||
          type.getRank() != first.getRank() || !sameRows ||
          type.getShape().drop_front() != first.getShape().drop_front())
        return error() << "combines '" << getSources().front().getValue()
                       << "' of type " << first << " with '" << name.getValue()
                       << "' of type " << type;
      shape[0] += type.getDimSize(0);
    }
    if (getBlock() > 0 && first.getDimSize(0) % getBlock() != 0)
      return error() << "reads blocks of " << getBlock() << " rows, " << first
                     << " has " << first.getDimSize(0);
    return RankedTensorType::get(shape, first.getElementType());
  case RecipeKind::Fold:
    if (first.getRank() != 2 || sources[1].getRank() != 1 ||
        first.getDimSize(1) != sources[1].getDimSize(0))
      return error() << "folds " << sources[1] << " into " << first
                     << "; expected a vector with one entry per column";
    if (!isa<FloatType>(first.getElementType()) ||
        !isa<FloatType>(sources[1].getElementType()))
      return error() << "folds " << sources[1] << " into " << first
                     << "; expected floating-point numbers";
    return first;
  case RecipeKind::Quantize:
    if (!isa<FloatType>(first.getElementType()))
      return error() << "quantizes " << first
                     << "; expected floating-point numbers";
    return RankedTensorType::get(shape, getStorageType());
  }
  llvm_unreachable("all kinds have a type");
}
