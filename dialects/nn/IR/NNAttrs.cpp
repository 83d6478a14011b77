//===- NNAttrs.cpp - Attributes of the nn dialect -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "nn/IR/NNAttrs.h"
#include "fuse/IR/FuseAttrs.h"
#include "fuse/IR/FuseParsing.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fuse;

#include "nn/IR/NNEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "nn/IR/NNAttrs.cpp.inc"

void NNDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "nn/IR/NNAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// RecipeAttr
//===----------------------------------------------------------------------===//

/// The path of a source, for messages.
static std::string toText(Attribute source) {
  if (auto parameter = dyn_cast<MemberParameterAttr>(source))
    return parameter.toText();
  return fuse::getPath(cast<SymbolRefAttr>(source));
}

bool RecipeAttr::isInvertible() const {
  return getKind() != RecipeKind::Fold && getKind() != RecipeKind::Quantize;
}

RecipeAttr RecipeAttr::withNames(StringAttr name,
                                 ArrayRef<Attribute> sources) const {
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
        << "'; expected one of concat, interleave, transpose, fold, "
           "quantize";
    return {};
  }
  SmallVector<Attribute> sources;
  int64_t block = 0, offset = 0;
  Type storageType;
  FloatAttr scale;
  if (parser.parseLParen())
    return {};
  do {
    // `quantize` has a type after the first source instead of a name.
    std::string source;
    SMLoc sourceLoc = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalString(&source))) {
      Attribute parameter =
          MemberParameterAttr::fromText(parser.getContext(), source);
      if (!parameter) {
        parser.emitError(sourceLoc)
            << "recipe '" << name << "' reads '" << source
            << "'; expected position:name, such as 1:gate.weight";
        return {};
      }
      sources.push_back(parameter);
      continue;
    }
    SymbolRefAttr symbol;
    OptionalParseResult parsed = parser.parseOptionalAttribute(symbol);
    if (parsed.has_value()) {
      if (failed(*parsed))
        return {};
      sources.push_back(symbol);
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
  llvm::interleaveComma(getSources(), printer, [&](Attribute source) {
    if (auto parameter = dyn_cast<MemberParameterAttr>(source))
      printer << '"' << parameter.toText() << '"';
    else
      printer << source;
  });
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
                                 ArrayRef<Attribute> sources, bool keep,
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
  llvm::SmallDenseSet<Attribute> seen;
  for (Attribute source : sources) {
    if (!isa_and_nonnull<SymbolRefAttr, MemberParameterAttr>(source))
      return error() << "reads " << source
                     << "; expected a symbol or #fuse.member_parameter";
    if (!seen.insert(source).second)
      return error() << "reads parameter '" << toText(source) << "' twice";
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
    for (auto [source, type] :
         llvm::drop_begin(llvm::zip_equal(getSources(), sources))) {
      bool sameRows = getKind() == RecipeKind::Concat || !type.getRank() ||
                      type.getDimSize(0) == first.getDimSize(0);
      if (type.getElementType() != first.getElementType() ||
          type.getRank() != first.getRank() || !sameRows ||
          type.getShape().drop_front() != first.getShape().drop_front())
        return error() << "combines '" << toText(getSources().front())
                       << "' of type " << first << " with '" << toText(source)
                       << "' of type " << type;
      shape[0] += type.getDimSize(0);
    }
    if (getBlock() > 0 && first.getDimSize(0) % getBlock() != 0)
      return error() << "reads blocks of " << getBlock() << " rows, " << first
                     << " has " << first.getDimSize(0);
    return RankedTensorType::get(shape, first.getElementType());
  case RecipeKind::Transpose:
    if (first.getRank() != 2)
      return error() << "transposes " << first << "; expected a matrix";
    return RankedTensorType::get({shape[1], shape[0]}, first.getElementType());
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

FailureOr<ShardAttr>
RecipeAttr::inferShard(ArrayRef<RankedTensorType> sources,
                       ArrayRef<ShardAttr> shards,
                       function_ref<InFlightDiagnostic()> emitError) const {
  if (llvm::none_of(shards, [](ShardAttr shard) { return bool(shard); }))
    return ShardAttr();
  auto error = [&] {
    return emitError() << "recipe '" << getName().getValue() << "' ";
  };
  ShardAttr first = shards.front();
  if (getKind() == RecipeKind::Fold) {
    // Columns of the matrix are entries of the vector.
    bool isCutAlike = shards[1] ? first && first.getDim() == 1 &&
                                      shards[1].getCount() == first.getCount()
                                : first && first.getDim() == 0;
    if (!isCutAlike)
      return error() << "folds a vector whose parts are not those of the "
                        "columns of '"
                     << toText(getSources().front()) << "'";
    return first;
  }
  for (auto [source, shard] : llvm::zip_equal(getSources(), shards))
    if (shard != first)
      return error() << "combines '" << toText(getSources().front())
                     << "' and '" << toText(source)
                     << "', which ranks share in different ways";
  SmallVector<RankedTensorType> parts;
  for (auto [type, shard] : llvm::zip_equal(sources, shards)) {
    FailureOr<RankedTensorType> part = shard.getLocalType(type, emitError);
    if (failed(part))
      return failure();
    parts.push_back(*part);
  }
  if (failed(inferType(parts, emitError)))
    return failure();
  auto cut = [&](int64_t dim, int64_t pieces) {
    return ShardAttr::get(getContext(), dim, first.getAxis(), first.getCount(),
                          pieces);
  };
  if (getKind() == RecipeKind::Transpose)
    return cut(1 - first.getDim(), 1);
  if (getKind() != RecipeKind::Concat || first.getDim() != 0)
    return first;
  for (auto [source, type] : llvm::zip_equal(getSources(), sources))
    if (type.getDimSize(0) != sources.front().getDimSize(0))
      return error() << "concatenates " << sources.front().getDimSize(0)
                     << " and " << type.getDimSize(0)
                     << " rows of which ranks have parts; expected equal "
                        "numbers of rows";
  return cut(0, sources.size());
}
