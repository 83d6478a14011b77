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

/// The names of all cases of an enumeration, for messages.
template <typename Enum>
static std::string listCases(StringRef (*stringify)(Enum), unsigned last) {
  SmallVector<StringRef> names;
  for (unsigned i = 0; i <= last; ++i)
    names.push_back(stringify(static_cast<Enum>(i)));
  return llvm::join(names, ", ");
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::optional<ScaleName> ScaleName::fromText(StringRef text) {
  if (text.consume_front("weight")) {
    // One text per name: no sign and no leading zero.
    unsigned index;
    if (text.getAsInteger(10, index) || text != std::to_string(index))
      return std::nullopt;
    return weight(index);
  }
  std::optional<ScaleKind> kind = symbolizeScaleKind(text);
  if (!kind)
    return std::nullopt;
  return ScaleName(*kind);
}

std::string ScaleName::toText() const {
  std::string text = stringifyScaleKind(kind).str();
  return kind == ScaleKind::Weight ? text + std::to_string(index) : text;
}

SmallVector<RoundingPoint> fuse::getPoints(ArrayAttr points) {
  if (!points)
    return {};
  return llvm::to_vector(
      points.getAsValueRange<RoundingPointAttr, RoundingPoint>());
}

std::string fuse::getPath(SymbolRefAttr name) {
  std::string path = name.getRootReference().str();
  for (FlatSymbolRefAttr nested : name.getNestedReferences())
    path += "." + nested.getValue().str();
  return path;
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

FloatAttr StaticScalesAttr::lookup(ScaleName name) const {
  for (auto [other, value] : getScales())
    if (other == name)
      return value;
  return {};
}

bool StaticScalesAttr::contains(ScaleName name) const {
  return llvm::is_contained(llvm::make_first_range(getScales()), name);
}

std::optional<float> StaticScalesAttr::getScale(ScaleName name) const {
  if (FloatAttr scale = lookup(name))
    return static_cast<float>(scale.getValueAsDouble());
  return std::nullopt;
}

unsigned StaticScalesAttr::getNumPerChannel() const {
  return llvm::count_if(getScales(),
                        [](const NamedScale &scale) { return !scale.second; });
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

ParseResult fuse::parseRoundingPoint(AsmParser &parser, RoundingPoint &point) {
  return parseCase<RoundingPoint>(
      parser, "rounding point", point, symbolizeRoundingPoint,
      listCases(stringifyRoundingPoint, getMaxEnumValForRoundingPoint()));
}

Attribute StaticScalesAttr::parseBody(AsmParser &parser) {
  Type storage;
  SmallVector<NamedScale> scales;
  QuantOrder order = QuantOrder::Reciprocal;
  QuantForm form = QuantForm::Scaled;
  Builder builder(parser.getContext());
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(storage))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    SMLoc nameLoc = parser.getCurrentLocation();
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
    std::optional<ScaleName> scale = ScaleName::fromText(name);
    if (!scale) {
      parser.emitError(nameLoc)
          << "unknown scale '" << name
          << "'; expected one of input, gate, up, hidden, down, weight0, "
             "weight1, ...";
      return {};
    }
    if (succeeded(parser.parseOptionalKeyword("per_channel"))) {
      scales.push_back({*scale, FloatAttr()});
      continue;
    }
    double value;
    if (parser.parseFloat(value))
      return {};
    scales.push_back({*scale, builder.getF64FloatAttr(value)});
  }
  return parser.getChecked<StaticScalesAttr>(loc, parser.getContext(), storage,
                                             scales, order, form);
}

void StaticScalesAttr::printBody(AsmPrinter &printer) const {
  printer << getStorageType();
  for (auto [name, value] : getScales()) {
    printer << ", " << name.toText() << " = ";
    if (value)
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
                         Type storage, ArrayRef<NamedScale> scales,
                         QuantOrder order, QuantForm form) {
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(storage) &&
      !storage.isSignlessInteger(8))
    return emitError() << "storage type must be f8E4M3FN, f8E5M2 or i8, got "
                       << storage;
  for (unsigned i = 0; i < scales.size(); ++i) {
    auto [name, value] = scales[i];
    if (llvm::is_contained(llvm::make_first_range(scales.take_front(i)), name))
      return emitError() << "scale '" << name.toText() << "' is given twice";
    if (!value)
      continue;
    if (!value.getType().isF64())
      return emitError() << "scale '" << name.toText()
                         << "' must be an f64 or per_channel, got " << value;
    if (auto problem = getScaleProblem(value.getValueAsDouble()))
      return emitError() << "scale '" << name.toText() << "' " << *problem
                         << ", got " << value.getValueAsDouble();
  }
  if (form == QuantForm::WeightOnly && order != QuantOrder::Reciprocal)
    return emitError() << "form weight_only quantizes nothing, so it has no "
                          "order";
  return success();
}

//===----------------------------------------------------------------------===//
// RoundingAttr
//===----------------------------------------------------------------------===//

Type RoundingAttr::getTypeOf(RoundingPoint point, Type defaultType) const {
  for (auto [other, type] : getTypes())
    if (other == point)
      return type;
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
  SmallVector<RoundingPoint> skip;
  SmallVector<RoundedType> types;
  BiasPlace biasPlace = BiasPlace::BeforeRounding;
  SMLoc loc = parser.getCurrentLocation();
  if (parseCase<RoundingMode>(parser, "rounding mode", mode,
                              symbolizeRoundingMode, "exact, relaxed"))
    return {};
  auto parsePoint = [&]() -> ParseResult {
    return parseRoundingPoint(parser, skip.emplace_back());
  };
  auto parseType = [&]() -> ParseResult {
    auto &[point, type] = types.emplace_back();
    return failure(parseRoundingPoint(parser, point) || parser.parseEqual() ||
                   parser.parseType(type));
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
    llvm::interleaveComma(getSkip(), printer, [&](RoundingPoint point) {
      printer << stringifyRoundingPoint(point);
    });
    printer << "]";
  }
  if (!getTypes().empty()) {
    printer << " types {";
    llvm::interleaveComma(getTypes(), printer, [&](RoundedType entry) {
      printer << stringifyRoundingPoint(entry.first) << " = " << entry.second;
    });
    printer << "}";
  }
}

/// Emits an error if `point` is one of the points before it.
template <typename Points>
static LogicalResult verifyUnique(function_ref<InFlightDiagnostic()> emitError,
                                  Points &&earlier, RoundingPoint point) {
  if (llvm::is_contained(earlier, point))
    return emitError() << "rounding point '" << stringifyRoundingPoint(point)
                       << "' is given twice";
  return success();
}

LogicalResult RoundingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   RoundingMode mode,
                                   ArrayRef<RoundingPoint> skip,
                                   ArrayRef<RoundedType> types, BiasPlace) {
  if (mode == RoundingMode::Exact && !skip.empty())
    return emitError() << "exact rounding skips nothing, got a list of "
                       << skip.size() << " rounding points to skip";
  for (auto [i, point] : llvm::enumerate(skip))
    if (failed(verifyUnique(emitError, skip.take_front(i), point)))
      return failure();
  for (auto [i, entry] : llvm::enumerate(types)) {
    auto [point, type] = entry;
    if (failed(verifyUnique(
            emitError, llvm::make_first_range(types.take_front(i)), point)))
      return failure();
    if (!isa<Float16Type, BFloat16Type, Float32Type>(type))
      return emitError() << "rounding point '" << stringifyRoundingPoint(point)
                         << "' must be f16, bf16 or f32, got "
                         << TypeAttr::get(type);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ProvenanceAttr
//===----------------------------------------------------------------------===//

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
  SmallVector<ChainMember> commuted;
  SmallVector<DictionaryAttr> attributes;
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
      parsed =
          parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
            return parseCase<ChainMember>(
                parser, "member", commuted.emplace_back(), symbolizeChainMember,
                listCases(stringifyChainMember, getMaxEnumValForChainMember()));
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
    llvm::interleaveComma(getCommuted(), printer, [&](ChainMember member) {
      printer << stringifyChainMember(member);
    });
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
                       ArrayRef<ChainMember> commuted,
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
// MemberParameterAttr
//===----------------------------------------------------------------------===//

MemberParameterAttr MemberParameterAttr::fromText(MLIRContext *context,
                                                  StringRef text) {
  auto [position, path] = text.split(':');
  unsigned number;
  if (position.getAsInteger(10, number) || path.empty())
    return {};
  return get(context, number, StringAttr::get(context, path));
}

std::string MemberParameterAttr::toText() const {
  return std::to_string(getPosition()) + ":" + getPath().str();
}

//===----------------------------------------------------------------------===//
// TPAttr and ShardAttr
//===----------------------------------------------------------------------===//

LogicalResult TPAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                             TPKind kind, StringAttr axis, int64_t size) {
  if (axis.empty())
    return emitError() << "axis of tensor parallelism must have a name";
  if (kind == TPKind::Unknown ? size != 1 : size < 2)
    return emitError() << stringifyTPKind(kind) << " needs "
                       << (kind == TPKind::Unknown ? "size 1"
                                                   : "at least 2 ranks")
                       << ", got " << size;
  return success();
}

LogicalResult ShardAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t dim, StringAttr axis, int64_t count,
                                int64_t pieces) {
  if (axis.empty())
    return emitError() << "axis of a shard must have a name";
  if (dim < 0)
    return emitError() << "dimension of a shard must not be negative, got "
                       << dim;
  if (count < 2)
    return emitError() << "a shard needs at least 2 ranks, got " << count;
  if (pieces < 1)
    return emitError() << "a shard needs at least 1 piece, got " << pieces;
  return success();
}

FailureOr<RankedTensorType>
ShardAttr::getLocalType(RankedTensorType whole,
                        function_ref<InFlightDiagnostic()> emitError) const {
  if (getDim() >= whole.getRank())
    return emitError() << "cuts dimension " << getDim() << " of " << whole
                       << ", which has " << whole.getRank() << " dimensions";
  SmallVector<int64_t> shape(whole.getShape());
  int64_t &size = shape[getDim()];
  if (ShapedType::isDynamic(size))
    return emitError() << "cuts dimension " << getDim() << " of " << whole
                       << ", which is dynamic";
  if (size % (getCount() * getPieces()) != 0)
    return emitError() << "cuts dimension " << getDim() << " of " << whole
                       << " into " << getCount()
                       << " uneven parts; expected a multiple of "
                       << getCount() * getPieces();
  size /= getCount();
  return whole.clone(shape);
}

RankedTensorType ShardAttr::getWholeType(RankedTensorType local) const {
  SmallVector<int64_t> shape(local.getShape());
  shape[getDim()] *= getCount();
  return local.clone(shape);
}
