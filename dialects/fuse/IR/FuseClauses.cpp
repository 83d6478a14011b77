//===- FuseClauses.cpp - Shared parts of the op syntax --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseClauses.h"
#include "fuse/IR/FuseParsing.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Numbers and keywords
//===----------------------------------------------------------------------===//

ParseResult fuse::parseNumber(OpAsmParser &parser, FloatAttr &number) {
  double value;
  if (parser.parseFloat(value))
    return failure();
  number = parser.getBuilder().getF64FloatAttr(value);
  return success();
}

void fuse::printNumber(OpAsmPrinter &printer, Operation *, FloatAttr number) {
  printShortest(printer, number);
}

ParseResult fuse::parseInteger(OpAsmParser &parser, IntegerAttr &integer) {
  int64_t value;
  if (parser.parseInteger(value))
    return failure();
  integer = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

void fuse::printInteger(OpAsmPrinter &printer, Operation *,
                        IntegerAttr integer) {
  printer << integer.getInt();
}

template <typename AttrTy, typename Enum>
static ParseResult
parseCaseAttr(OpAsmParser &parser, AttrTy &attr, StringRef what,
              std::optional<Enum> (*symbolize)(StringRef), StringRef choices) {
  Enum value;
  if (parseCase<Enum>(parser, what, value, symbolize, choices))
    return failure();
  attr = AttrTy::get(parser.getContext(), value);
  return success();
}

ParseResult fuse::parseKeyword(OpAsmParser &parser, ActivationAttr &keyword) {
  return parseCaseAttr<ActivationAttr, Activation>(
      parser, keyword, "activation", symbolizeActivation,
      "silu, gelu, gelu_tanh, relu, relu2, quick_gelu");
}

ParseResult fuse::parseKeyword(OpAsmParser &parser,
                               LossReductionAttr &keyword) {
  return parseCaseAttr<LossReductionAttr, LossReduction>(
      parser, keyword, "reduction", symbolizeLossReduction, "mean, sum");
}

ParseResult fuse::parseKeyword(OpAsmParser &parser, NormCastAttr &keyword) {
  return parseCaseAttr<NormCastAttr, NormCast>(parser, keyword, "cast order",
                                               symbolizeNormCast,
                                               "before_weight, after_weight");
}

ParseResult fuse::parseKeyword(OpAsmParser &parser, QuantOrderAttr &keyword) {
  return parseCaseAttr<QuantOrderAttr, QuantOrder>(
      parser, keyword, "quantization order", symbolizeQuantOrder,
      "reciprocal, divide");
}

ParseResult fuse::parseKeyword(OpAsmParser &parser, BiasPlaceAttr &keyword) {
  return parseCaseAttr<BiasPlaceAttr, BiasPlace>(
      parser, keyword, "place of the bias", symbolizeBiasPlace,
      "before_rounding, after_rounding");
}

ParseResult fuse::parseKeyword(OpAsmParser &parser, ScaleScopeAttr &keyword) {
  return parseCaseAttr<ScaleScopeAttr, ScaleScope>(
      parser, keyword, "scope", symbolizeScaleScope,
      "per_token, per_tensor, per_group");
}

void fuse::printKeyword(OpAsmPrinter &printer, Operation *,
                        ActivationAttr keyword) {
  printer << stringifyActivation(keyword.getValue());
}

void fuse::printKeyword(OpAsmPrinter &printer, Operation *,
                        LossReductionAttr keyword) {
  printer << stringifyLossReduction(keyword.getValue());
}

void fuse::printKeyword(OpAsmPrinter &printer, Operation *,
                        NormCastAttr keyword) {
  printer << stringifyNormCast(keyword.getValue());
}

void fuse::printKeyword(OpAsmPrinter &printer, Operation *,
                        QuantOrderAttr keyword) {
  printer << stringifyQuantOrder(keyword.getValue());
}

void fuse::printKeyword(OpAsmPrinter &printer, Operation *,
                        BiasPlaceAttr keyword) {
  printer << stringifyBiasPlace(keyword.getValue());
}

void fuse::printKeyword(OpAsmPrinter &printer, Operation *,
                        ScaleScopeAttr keyword) {
  printer << stringifyScaleScope(keyword.getValue());
}

//===----------------------------------------------------------------------===//
// Clauses of layer ops
//===----------------------------------------------------------------------===//

/// Parses `keyword(...)`: the body of an attribute of a known class.
template <typename AttrTy>
static ParseResult parseClause(OpAsmParser &parser, StringRef keyword,
                               AttrTy &attr) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  if (parser.parseLParen())
    return failure();
  auto parsed = dyn_cast_or_null<AttrTy>(AttrTy::parseBody(parser));
  if (!parsed)
    return failure();
  attr = parsed;
  return parser.parseRParen();
}

ParseResult fuse::parseQuant(OpAsmParser &parser, QuantAttr &quant) {
  return parseClause(parser, "quant", quant);
}

void fuse::printQuant(OpAsmPrinter &printer, Operation *, QuantAttr quant) {
  if (!quant)
    return;
  printer << " quant(";
  quant.printBody(printer);
  printer << ")";
}

ParseResult fuse::parseLinearScales(OpAsmParser &parser, FloatAttr &input,
                                    FloatAttr &weight) {
  if (failed(parser.parseOptionalKeyword("scales")))
    return success();
  if (parser.parseLParen())
    return failure();
  if (failed(parser.parseOptionalKeyword("dynamic")) &&
      parseNumber(parser, input))
    return failure();
  if (parser.parseComma())
    return failure();
  if (failed(parser.parseOptionalKeyword("per_channel")) &&
      parseNumber(parser, weight))
    return failure();
  return parser.parseRParen();
}

void fuse::printLinearScales(OpAsmPrinter &printer, Operation *op,
                             FloatAttr input, FloatAttr weight) {
  auto linear = cast<LinearOp>(op);
  if (linear.getQuantAttr() || (!input && !linear.getDynamicScale()))
    return;
  printer << " scales(";
  if (input)
    printNumber(printer, op, input);
  else
    printer << "dynamic";
  printer << ", ";
  if (weight)
    printNumber(printer, op, weight);
  else
    printer << "per_channel";
  printer << ")";
}

//===----------------------------------------------------------------------===//
// Clauses of fused ops
//===----------------------------------------------------------------------===//

ParseResult fuse::parseNorm(OpAsmParser &parser, NormAttr &norm,
                            std::optional<UnresolvedOperand> &weight,
                            std::optional<UnresolvedOperand> &bias) {
  if (failed(parser.parseOptionalKeyword("norm")))
    return success();
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLParen() || parser.parseKeyword(&keyword))
    return failure();
  std::optional<NormKind> kind = symbolizeNormKind(keyword);
  if (!kind)
    return parser.emitError(loc)
           << "unknown norm '" << keyword << "'; expected one of rms, layer";
  // The optional operands are a weight, or a weight and a bias.
  for (std::optional<UnresolvedOperand> *slot : {&weight, &bias}) {
    UnresolvedOperand operand;
    OptionalParseResult parsed = parser.parseOptionalOperand(operand);
    if (!parsed.has_value())
      break;
    if (failed(*parsed))
      return failure();
    *slot = operand;
    if (failed(parser.parseOptionalComma()))
      break;
  }
  FloatAttr eps;
  if (parser.parseKeyword("eps") || parseNumber(parser, eps))
    return failure();
  int64_t offset = 0;
  NormCastAttr cast =
      NormCastAttr::get(parser.getContext(), NormCast::BeforeWeight);
  if (succeeded(parser.parseOptionalKeyword("offset")) &&
      parser.parseInteger(offset))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("cast")) &&
      parseKeyword(parser, cast))
    return failure();
  norm = parser.getChecked<NormAttr>(loc, parser.getContext(), *kind, eps,
                                     offset, cast.getValue());
  return failure(!norm || parser.parseRParen());
}

void fuse::printNorm(OpAsmPrinter &printer, Operation *op, NormAttr norm,
                     Value weight, Value bias) {
  if (!norm)
    return;
  printer << " norm(" << stringifyNormKind(norm.getKind()) << " ";
  if (weight)
    printer << weight << (bias ? ", " : " ");
  if (bias)
    printer << bias << " ";
  printer << "eps ";
  printNumber(printer, op, norm.getEps());
  if (norm.getOffset() != 0)
    printer << " offset " << norm.getOffset();
  if (norm.getCast() != NormCast::BeforeWeight)
    printer << " cast " << stringifyNormCast(norm.getCast());
  printer << ")";
}

ParseResult fuse::parseRequiredNorm(OpAsmParser &parser, NormAttr &norm,
                                    std::optional<UnresolvedOperand> &weight,
                                    std::optional<UnresolvedOperand> &bias) {
  SMLoc loc = parser.getCurrentLocation();
  if (parseNorm(parser, norm, weight, bias))
    return failure();
  if (!norm)
    return parser.emitError(loc) << "expected 'norm(rms ...)' or "
                                    "'norm(layer ...)', which the op needs";
  return success();
}

void fuse::printRequiredNorm(OpAsmPrinter &printer, Operation *op,
                             NormAttr norm, Value weight, Value bias) {
  printNorm(printer, op, norm, weight, bias);
}

ParseResult fuse::parseLinears(OpAsmParser &parser,
                               SmallVectorImpl<UnresolvedOperand> &weights,
                               SmallVectorImpl<UnresolvedOperand> &biases,
                               DenseBoolArrayAttr &biasMask) {
  SmallVector<bool> mask;
  auto parseOne = [&]() -> ParseResult {
    if (parser.parseOperand(weights.emplace_back()))
      return failure();
    mask.push_back(succeeded(parser.parseOptionalKeyword("bias")));
    return mask.back() ? parser.parseOperand(biases.emplace_back())
                       : ParseResult::success();
  };
  if (parser.parseCommaSeparatedList(parseOne))
    return failure();
  biasMask = parser.getBuilder().getDenseBoolArrayAttr(mask);
  return success();
}

void fuse::printLinears(OpAsmPrinter &printer, Operation *,
                        OperandRange weights, OperandRange biases,
                        DenseBoolArrayAttr biasMask) {
  auto bias = biases.begin();
  llvm::interleaveComma(llvm::zip_first(weights, biasMask.asArrayRef()),
                        printer, [&](auto pair) {
                          auto [weight, hasBias] = pair;
                          printer << weight;
                          if (hasBias)
                            printer << " bias " << *bias++;
                        });
}

ParseResult fuse::parseContract(OpAsmParser &parser, ArrayAttr &extras,
                                StaticScalesAttr &scales,
                                RoundingAttr &rounding, ArrayAttr &origins,
                                StringAttr &site, ProvenanceAttr &provenance) {
  if (succeeded(parser.parseOptionalKeyword("also"))) {
    SmallVector<Attribute> points;
    auto parsePoint = [&]() -> ParseResult {
      RoundingPoint point;
      if (parseRoundingPoint(parser, point))
        return failure();
      points.push_back(RoundingPointAttr::get(parser.getContext(), point));
      return success();
    };
    if (parser.parseLParen() ||
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                       parsePoint) ||
        parser.parseRParen())
      return failure();
    extras = parser.getBuilder().getArrayAttr(points);
  }
  if (parseClause(parser, "scales", scales) ||
      parseClause(parser, "rounding", rounding))
    return failure();
  // Required, because a default would hide which roundings a kernel may skip.
  if (!rounding)
    return parser.emitError(parser.getCurrentLocation())
           << "expected 'rounding(exact)' or 'rounding(relaxed skip [...])'";
  auto parseString = [&](StringRef keyword, auto &attr) -> ParseResult {
    if (failed(parser.parseOptionalKeyword(keyword)))
      return success();
    return failure(parser.parseLParen() || parser.parseAttribute(attr) ||
                   parser.parseRParen());
  };
  if (parseString("origins", origins) || parseString("site", site))
    return failure();
  return parseClause(parser, "provenance", provenance);
}

void fuse::printContract(OpAsmPrinter &printer, Operation *, ArrayAttr extras,
                         StaticScalesAttr scales, RoundingAttr rounding,
                         ArrayAttr origins, StringAttr site,
                         ProvenanceAttr provenance) {
  if (extras) {
    printer << "also([";
    llvm::interleaveComma(getPoints(extras), printer, [&](RoundingPoint point) {
      printer << stringifyRoundingPoint(point);
    });
    printer << "]) ";
  }
  auto printClause = [&](StringRef keyword, auto attr) {
    printer << keyword << "(";
    attr.printBody(printer);
    printer << ")";
  };
  if (scales) {
    printClause("scales", scales);
    printer << " ";
  }
  printClause("rounding", rounding);
  if (origins)
    printer << " origins(" << origins << ")";
  if (site)
    printer << " site(" << site << ")";
  if (provenance) {
    printer << " ";
    printClause("provenance", provenance);
  }
}
