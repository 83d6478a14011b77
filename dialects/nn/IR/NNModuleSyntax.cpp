//===- NNModuleSyntax.cpp - Syntax of modules and their members -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Handwritten syntax of the ops that are frequent in models. A generated
// printer gets all attributes of an op as a dictionary, which the context keeps
// for each op, and then elides those already printed.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "nn/IR/NNModules.h"
#include "nn/IR/NNOps.h"

using namespace mlir;
using namespace fuse;

/// `{name = value, ...}` or nothing.
template <typename OpTy>
static ParseResult parseOthers(OpAsmParser &parser, OperationState &result,
                               bool withKeyword = false) {
  SMLoc loc = parser.getCurrentLocation();
  if (withKeyword ? parser.parseOptionalAttrDictWithKeyword(result.attributes)
                  : parser.parseOptionalAttrDict(result.attributes))
    return failure();
  return OpTy::verifyInherentAttrs(result.name, result.attributes, [&] {
    return parser.emitError(loc)
           << "'" << result.name.getStringRef() << "' op ";
  });
}

/// `keyword(value)` or nothing.
template <typename AttrTy>
static ParseResult parseOptionalClause(OpAsmParser &parser, StringRef keyword,
                                       AttrTy &value) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  return failure(parser.parseLParen() ||
                 parser.parseCustomAttributeWithFallback(
                     value, parser.getBuilder().getNoneType()) ||
                 parser.parseRParen());
}

static void printOptionalClause(OpAsmPrinter &printer, StringRef keyword,
                                Attribute value) {
  if (!value)
    return;
  printer << ' ' << keyword << '(';
  printer.printAttributeWithoutType(value);
  printer << ')';
}

/// The same for a structured attribute, without its mnemonic.
template <typename AttrTy>
static void printStrippedClause(OpAsmPrinter &printer, StringRef keyword,
                                AttrTy value) {
  if (!value)
    return;
  printer << ' ' << keyword << '(';
  printer.printStrippedAttrOrType(value);
  printer << ')';
}

//===----------------------------------------------------------------------===//
// Containers and parameters
//===----------------------------------------------------------------------===//

SymbolRefAttr fuse::getForwardUse(StringAttr module, Region &body) {
  for (Operation &op : body.getOps())
    if (auto symbol = dyn_cast<SymbolOpInterface>(op);
        symbol && symbol.isPrivate() && symbol.getName() == kForwardName)
      return SymbolRefAttr::get(module,
                                FlatSymbolRefAttr::get(symbol.getNameAttr()));
  return {};
}

ParseResult NetModuleOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  Region *body = result.addRegion();
  if (parser.parseSymbolName(properties.sym_name) ||
      parser.parseKeyword("class") ||
      parser.parseCustomAttributeWithFallback(
          properties.class_name, parser.getBuilder().getNoneType()) ||
      parseOptionalClause(parser, "hooks", properties.hooks) ||
      parseOptionalClause(parser, "tensor_parallel",
                          properties.tensor_parallel) ||
      parseOthers<NetModuleOp>(parser, result, /*withKeyword=*/true) ||
      parser.parseRegion(*body))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  if (SymbolRefAttr use = getForwardUse(properties.sym_name, *body))
    result.attributes.set(kForwardUseAttrName, use);
  return success();
}

void NetModuleOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << " class ";
  printer.printAttributeWithoutType(getClassNameAttr());
  printOptionalClause(printer, "hooks", getHooksAttr());
  printStrippedClause(printer, "tensor_parallel", getTensorParallelAttr());
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getDiscardableAttrDictionary().getValue(),
      {kForwardUseAttrName});
  printer << ' ';
  printer.printRegion(getBody());
}

/// `tied_to(@module::@parameter)` or nothing.
static ParseResult parseTiedTo(OpAsmParser &parser, SymbolRefAttr &value) {
  if (failed(parser.parseOptionalKeyword("tied_to")))
    return success();
  if (parser.parseLParen())
    return failure();
  std::string path;
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalString(&path))) {
    // Older texts have a path.
    SmallVector<StringRef> names;
    StringRef(path).split(names, '.');
    SmallVector<FlatSymbolRefAttr> nested;
    for (StringRef name : ArrayRef(names).drop_front())
      nested.push_back(FlatSymbolRefAttr::get(parser.getContext(), name));
    auto symbol = SymbolRefAttr::get(
        StringAttr::get(parser.getContext(), names.front()), nested);
    return parser.emitError(loc)
           << "a tied parameter is a symbol, write tied_to(" << symbol
           << ") in place of tied_to(\"" << path << "\")";
  }
  return failure(parser.parseCustomAttributeWithFallback(
                     value, parser.getBuilder().getNoneType()) ||
                 parser.parseRParen());
}

ParseResult ParameterOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  return failure(parser.parseSymbolName(properties.sym_name) ||
                 parseTiedTo(parser, properties.tied_to) ||
                 parseOptionalClause(parser, "shard", properties.shard) ||
                 parser.parseColon() ||
                 parser.parseCustomAttributeWithFallback(
                     properties.type, parser.getBuilder().getNoneType()) ||
                 parseOthers<ParameterOp>(parser, result));
}

void ParameterOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printOptionalClause(printer, "tied_to", getTiedToAttr());
  printStrippedClause(printer, "shard", getShardAttr());
  printer << " : ";
  printer.printAttributeWithoutType(getTypeAttr());
  printer.printOptionalAttrDict(
      (*this)->getDiscardableAttrDictionary().getValue());
}

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

ParseResult GetParameterOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  RankedTensorType type;
  if (parser.parseCustomAttributeWithFallback(
          properties.parameter, parser.getBuilder().getNoneType()) ||
      parser.parseColon() || parser.parseCustomTypeWithFallback(type) ||
      parseOthers<GetParameterOp>(parser, result))
    return failure();
  result.addTypes(type);
  return success();
}

void GetParameterOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printAttributeWithoutType(getParameterAttr());
  printer << " : ";
  printer.printStrippedAttrOrType(cast<RankedTensorType>(getValue().getType()));
  printer.printOptionalAttrDict(
      (*this)->getDiscardableAttrDictionary().getValue());
}

ParseResult CallModuleOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  SmallVector<OpAsmParser::UnresolvedOperand, 4> args;
  FunctionType type;
  if (parser.parseCustomAttributeWithFallback(
          properties.callee, parser.getBuilder().getNoneType()) ||
      parser.parseOperandList(args, OpAsmParser::Delimiter::Paren) ||
      parseOthers<CallModuleOp>(parser, result) || parser.parseColon() ||
      parser.parseType(type))
    return failure();
  result.addTypes(type.getResults());
  return parser.resolveOperands(args, type.getInputs(), parser.getNameLoc(),
                                result.operands);
}

void CallModuleOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printAttributeWithoutType(getCalleeAttr());
  printer << '(' << getArgs() << ')';
  printer.printOptionalAttrDict(
      (*this)->getDiscardableAttrDictionary().getValue());
  printer << " : ";
  printer.printFunctionalType((*this)->getOperandTypes(),
                              (*this)->getResultTypes());
}
