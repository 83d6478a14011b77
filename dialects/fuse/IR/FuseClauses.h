//===- FuseClauses.h - Shared parts of the op syntax ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parsers and printers of clauses that several ops share, for the `custom<...>`
// directives of their assembly formats.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSECLAUSES_H
#define FUSE_IR_FUSECLAUSES_H

#include "fuse/IR/FuseOps.h"

namespace fuse {

using UnresolvedOperand = mlir::OpAsmParser::UnresolvedOperand;

/// A floating-point number without its type: `1.0e-6`.
mlir::ParseResult parseNumber(mlir::OpAsmParser &parser,
                              mlir::FloatAttr &number);
void printNumber(mlir::OpAsmPrinter &printer, mlir::Operation *,
                 mlir::FloatAttr number);

/// An integer without its type.
mlir::ParseResult parseInteger(mlir::OpAsmParser &parser,
                               mlir::IntegerAttr &integer);
void printInteger(mlir::OpAsmPrinter &printer, mlir::Operation *,
                  mlir::IntegerAttr integer);

/// A case of an enumeration as a bare keyword.
mlir::ParseResult parseKeyword(mlir::OpAsmParser &parser,
                               ActivationAttr &keyword);
mlir::ParseResult parseKeyword(mlir::OpAsmParser &parser,
                               LossReductionAttr &keyword);
mlir::ParseResult parseKeyword(mlir::OpAsmParser &parser,
                               NormCastAttr &keyword);
mlir::ParseResult parseKeyword(mlir::OpAsmParser &parser,
                               QuantOrderAttr &keyword);
mlir::ParseResult parseKeyword(mlir::OpAsmParser &parser,
                               BiasPlaceAttr &keyword);
mlir::ParseResult parseKeyword(mlir::OpAsmParser &parser,
                               ScaleScopeAttr &keyword);
void printKeyword(mlir::OpAsmPrinter &printer, mlir::Operation *,
                  ActivationAttr keyword);
void printKeyword(mlir::OpAsmPrinter &printer, mlir::Operation *,
                  LossReductionAttr keyword);
void printKeyword(mlir::OpAsmPrinter &printer, mlir::Operation *,
                  NormCastAttr keyword);
void printKeyword(mlir::OpAsmPrinter &printer, mlir::Operation *,
                  QuantOrderAttr keyword);
void printKeyword(mlir::OpAsmPrinter &printer, mlir::Operation *,
                  BiasPlaceAttr keyword);
void printKeyword(mlir::OpAsmPrinter &printer, mlir::Operation *,
                  ScaleScopeAttr keyword);

/// `scales(2.1e-2, 1.3e-3)`, with `dynamic` or `per_channel` instead of a
/// number for a scale that is an operand, or nothing.
mlir::ParseResult parseLinearScales(mlir::OpAsmParser &parser,
                                    mlir::FloatAttr &input,
                                    mlir::FloatAttr &weight);
void printLinearScales(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                       mlir::FloatAttr input, mlir::FloatAttr weight);

/// `quant(...)`, the body of the attribute, or nothing.
mlir::ParseResult parseQuant(mlir::OpAsmParser &parser, QuantAttr &quant);
void printQuant(mlir::OpAsmPrinter &printer, mlir::Operation *,
                QuantAttr quant);

/// `norm(rms %w eps 1.0e-6 [offset 1] [cast after_weight])`,
/// `norm(layer %w, %b eps 1.0e-5)`, or nothing.
mlir::ParseResult parseNorm(mlir::OpAsmParser &parser, NormAttr &norm,
                            std::optional<UnresolvedOperand> &weight,
                            std::optional<UnresolvedOperand> &bias);
void printNorm(mlir::OpAsmPrinter &printer, mlir::Operation *, NormAttr norm,
               mlir::Value weight, mlir::Value bias);

/// The same for an op that needs a norm.
mlir::ParseResult parseRequiredNorm(mlir::OpAsmParser &parser, NormAttr &norm,
                                    std::optional<UnresolvedOperand> &weight,
                                    std::optional<UnresolvedOperand> &bias);
void printRequiredNorm(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                       NormAttr norm, mlir::Value weight, mlir::Value bias);

/// `%w0 bias %b0, %w1`.
mlir::ParseResult
parseLinears(mlir::OpAsmParser &parser,
             llvm::SmallVectorImpl<UnresolvedOperand> &weights,
             llvm::SmallVectorImpl<UnresolvedOperand> &biases,
             mlir::DenseBoolArrayAttr &biasMask);
void printLinears(mlir::OpAsmPrinter &printer, mlir::Operation *,
                  mlir::OperandRange weights, mlir::OperandRange biases,
                  mlir::DenseBoolArrayAttr biasMask);

/// `[also([..])] [scales(..)] rounding(..) [origins([..])] [site("..")]
/// [provenance(..)]`.
mlir::ParseResult
parseContract(mlir::OpAsmParser &parser, mlir::ArrayAttr &extras,
              StaticScalesAttr &scales, RoundingAttr &rounding,
              mlir::ArrayAttr &origins, mlir::StringAttr &site,
              ProvenanceAttr &provenance);
void printContract(mlir::OpAsmPrinter &printer, mlir::Operation *,
                   mlir::ArrayAttr extras, StaticScalesAttr scales,
                   RoundingAttr rounding, mlir::ArrayAttr origins,
                   mlir::StringAttr site, ProvenanceAttr provenance);

} // namespace fuse

#endif // FUSE_IR_FUSECLAUSES_H
