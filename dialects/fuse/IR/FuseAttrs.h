//===- FuseAttrs.h - Attributes of the fuse dialect -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEATTRS_H
#define FUSE_IR_FUSEATTRS_H

#include "fuse/IR/FuseDialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/STLExtras.h"

#include <optional>

#include "fuse/IR/FuseEnums.h.inc"

namespace fuse {

/// Name of a quantization scale: `input`, `gate`, ..., or `weight<index>` of a
/// linear of `fuse.norm_linear` and `fuse.fused_linear`.
class ScaleName {
public:
  ScaleName(ScaleKind kind, unsigned index = 0) : kind(kind), index(index) {}

  static ScaleName weight(unsigned index) {
    return ScaleName(ScaleKind::Weight, index);
  }
  /// Parses `up` or `weight0`. Returns nothing for another text.
  static std::optional<ScaleName> fromText(llvm::StringRef text);

  std::string toText() const;
  bool operator==(ScaleName other) const {
    return kind == other.kind && index == other.index;
  }
  bool operator!=(ScaleName other) const { return !(*this == other); }
  friend llvm::hash_code hash_value(ScaleName name) {
    return llvm::hash_combine(name.kind, name.index);
  }

private:
  ScaleKind kind;
  unsigned index;
};

/// A scale, with null for one that is given per channel.
using NamedScale = std::pair<ScaleName, mlir::FloatAttr>;
/// Element type of a rounding point.
using RoundedType = std::pair<RoundingPoint, mlir::Type>;

} // namespace fuse

namespace mlir {

/// Walks and replaces the attribute or type of a pair, the second element.
template <typename First, typename Second>
struct PairSubElementHandler {
  using Pair = std::pair<First, Second>;
  static void walk(const Pair &pair,
                   AttrTypeImmediateSubElementWalker &walker) {
    walker.walk(pair.second);
  }
  static Pair replace(const Pair &pair, AttrSubElementReplacements &attrs,
                      TypeSubElementReplacements &types) {
    return {pair.first, AttrTypeSubElementHandler<Second>::replace(
                            pair.second, attrs, types)};
  }
};
template <>
struct AttrTypeSubElementHandler<fuse::NamedScale>
    : PairSubElementHandler<fuse::ScaleName, FloatAttr> {};
template <>
struct AttrTypeSubElementHandler<fuse::RoundedType>
    : PairSubElementHandler<fuse::RoundingPoint, Type> {};

} // namespace mlir

#define GET_ATTRDEF_CLASSES
#include "fuse/IR/FuseAttrs.h.inc"

namespace fuse {

/// The reason why `scale` is not a valid quantization scale, or nothing if it
/// is valid. A scale is positive and finite, and it and its reciprocal are
/// normal numbers in f32.
std::optional<llvm::StringLiteral> getScaleProblem(double scale);

/// The rounding points in an optional attribute.
llvm::SmallVector<RoundingPoint> getPoints(mlir::ArrayAttr points);

/// The path of a symbol below the scope that `name` is relative to: the names
/// with dots between them.
std::string getPath(mlir::SymbolRefAttr name);

/// Prints the shortest decimal that parses back to `number`, an f64.
void printShortest(mlir::AsmPrinter &printer, mlir::FloatAttr number);

} // namespace fuse

#endif // FUSE_IR_FUSEATTRS_H
